"""A demonstration on real data: the Fair survey, which statsmodels ships."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from pymc_private.certificates.certify import certify
from pymc_private.certificates.restrict import trim
from pymc_private.ledger import Ledger
from pymc_private.models.domains import Scale
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.posterior.calibrate import calibrate
from pymc_private.posterior.plan import Plan
from pymc_private.posterior.sample import sample
from pymc_private.release.answers import answer
from pymc_private.release.learned import learned_lines
from pymc_private.release.release import Release
from pymc_private.report.plots import plot_posterior
from pymc_private.report.report import report

FEATURES = ("rate_marriage", "yrs_married")
SCALE = Scale(lower=(1.0, 0.5), upper=(5.0, 23.0))
"""Ranges of the questionnaire (R. Fair, 1978): marriage rated 1 to 5, years married .5 to 23."""
NAME = "fair-survey"
"""Name of the release in the ledger."""


def demo(folder: Path) -> Release:
    """Run the main job, from a model to a report, and write its results into `folder`.

    Parameters
    ----------
    folder : Path
        Receives ``fair.sqlite`` (ledger), ``fair.nc`` (release), ``report.html`` and the plots
        ``plan.png``, ``posterior.png``. Running again is free: the ledger knows the release.

    Returns
    -------
    Release
    """
    start = time.perf_counter()
    private = declare_records(fair_model())
    _print_step("1. one record", private)
    _print_step("2. certificate on the 95 % prior box", certify(trim(private, mass=0.95)))
    plan = calibrate(private, epsilon=1.0, delta=1e-6, draws=10)
    _print_step("3. plan", plan)
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder / "fair.sqlite", epsilon=2, delta=1e-5, data="Fair's survey of 1978")
    release = sample(plan, ledger=ledger, name=NAME, save=folder / "fair.nc")
    _print_step("4. ledger", ledger)
    _print_step(
        "5. a question, answered free of charge: which slope is larger?", compare_slopes(release)
    )
    _write_results(plan, release, ledger, folder)
    _print_step("6. what was learned", "\n".join(learned_lines(release)) or "not known")
    print(f"\nwrote report.html, fair.nc, fair.sqlite, plan.png and posterior.png to {folder}/")
    print(f"{time.perf_counter() - start:.1f} s")
    return release


def fair_model() -> pm.Model:
    """An ordinary PyMC model of the Fair survey: logistic regression, two slopes, an intercept."""
    try:
        from statsmodels.datasets import fair
    except ImportError as error:
        raise ImportError("the demo needs statsmodels: pip install 'pymc-private[demo]'") from error

    table = fair.load_pandas().data
    coords = {"woman": np.arange(len(table)), "feature": list(FEATURES)}
    with pm.Model(coords=coords) as model:
        features = pm.Data("X", SCALE(table[list(FEATURES)]), dims=("woman", "feature"))
        intercept = pm.Normal("intercept", 0.0, 0.7)
        slope = pm.Normal("slope", 0.0, 0.7, dims="feature")
        pm.Bernoulli(
            "affair",
            logit_p=intercept + features @ slope,
            observed=(table["affairs"] > 0).astype(int),
            dims="woman",
        )
    return model


def declare_records(model: pm.Model) -> PrivateModel:
    """Declare the records: one is one woman; her features lie in the unit ball."""
    return privatize(model, records="woman", domain={"X": SCALE.ball})


def compare_slopes(release: Release) -> Any:
    """Answer from the draws, at no cost, which of the two features has the larger slope."""

    def utility(theta: dict[str, np.ndarray], response: str, query: None) -> np.ndarray:
        size = np.abs(theta["slope"])
        return (size.argmax(axis=1) == FEATURES.index(response)).astype(float)

    return answer(release, utility, list(FEATURES))


def _print_step(title: str, value: object) -> None:
    print(f"\n{title}\n{value!r}", flush=True)


def _write_results(plan: Plan, release: Release, ledger: Ledger, folder: Path) -> None:
    """Write the report and the plots into the folder."""
    report(release, ledger).save(folder / "report.html")
    plan.plot().figure.savefig(folder / "plan.png", dpi=150)
    plot_posterior(release).savefig(folder / "posterior.png", dpi=150)
