"""A demonstration on real data: the Fair survey, which statsmodels ships.

The same budget is spent twice, on ten private draws and on a noisy summary, whose model is then
sampled for free; both posteriors stand beside each other, and beside the non-private one, which is
for the curator alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm

from pymc_private.certificates.certify import certify
from pymc_private.certificates.restrict import trim
from pymc_private.ledger import Ledger
from pymc_private.models import compat
from pymc_private.models.domains import Scale
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.models.verdict import relative_width, variance_removed
from pymc_private.posterior.calibrate import calibrate
from pymc_private.posterior.plan import Plan
from pymc_private.posterior.sample import sample
from pymc_private.privacy import cards
from pymc_private.release import display
from pymc_private.release.answers import answer
from pymc_private.release.release import Release
from pymc_private.report.comparison import WARNING, Comparison, compare
from pymc_private.report.report import report
from pymc_private.summaries.summarize import summarize
from pymc_private.summaries.summary import Summary
from pymc_private.summaries.summary_plan import SummaryPlan

if TYPE_CHECKING:  # matplotlib is loaded with the first figure
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEATURES = ("rate_marriage", "yrs_married")
SCALE = Scale(lower=(1.0, 0.5), upper=(5.0, 23.0))
"""Ranges of the questionnaire (R. Fair, 1978): marriage rated 1 to 5, years married .5 to 23."""
EPSILON, DELTA = 1.0, 1e-6
"""What each of the two releases may cost."""
DRAWS_NAME, SUMMARY_NAME = "ten draws", "summary"
"""Names of the releases in the ledger."""
SIMULATIONS = 20
MCMC = {"chains": 4, "tune": 300, "draws": 500, "cores": 1, "random_seed": 1, "progressbar": False}
COMPILED = {"mode": "FAST_RUN"}
"""The command line interprets graphs that are evaluated once; MCMC evaluates its own many times."""
CURATOR_FILE = "NOT-PRIVATE-curator-only.png"
COLORS = {DRAWS_NAME: "#b3462b", SUMMARY_NAME: "#2b6298", "not private": "#656d76"}
INTERVAL = (0.05, 0.95)


def demo(folder: Path) -> tuple[Release, Summary]:
    """Run the main job, from a model to two reports, and write its results into `folder`.

    Parameters
    ----------
    folder : Path
        Receives ``fair.sqlite`` (ledger), ``draws.nc`` and ``summary.nc`` (the releases), a report
        on each, ``posteriors.png``, and for the curator alone ``NOT-PRIVATE-curator-only.png``.
        Running again is free: the ledger knows both releases by their names.

    Returns
    -------
    Release, Summary
    """
    start = time.perf_counter()
    model = fair_model()
    private = declare_records(model)
    _print_step("1. one record", private)
    _print_step("2. certificate on the 95 % prior box", certify(trim(private, mass=0.95)))
    draws_plan, summary_plan = plan_both(private)
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder / "fair.sqlite", epsilon=2, delta=1e-5, data="Fair's survey of 1978")
    release = sample(draws_plan, ledger=ledger, name=DRAWS_NAME, save=folder / "draws.nc")
    summary = summarize(summary_plan, ledger=ledger, name=SUMMARY_NAME, save=folder / "summary.nc")
    _print_step("5. ledger", ledger)
    idata = sample_model(summary.model())
    _print_step("6. both posteriors: mean and standard deviation", both_posteriors(release, idata))
    _print_step("7. worth", worth(draws_plan, summary_plan))
    _print_step("8. a question, free: which slope is larger?", compare_slopes(release))
    print(f"the same of the summary\n{compare_slopes(idata)!r}")
    _write_results(folder, release, summary, idata, ledger)
    _show_curator(folder, release, idata, sample_model(model))
    print(f"{time.perf_counter() - start:.1f} s")
    return release, summary


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


def plan_both(private: PrivateModel) -> tuple[Plan, SummaryPlan]:
    """Plan ten draws and a summary at the same price, and simulate the summary; reads no data."""
    draws = calibrate(private, epsilon=EPSILON, delta=DELTA, draws=10)
    _print_step("3. plan: ten private draws", draws)
    summary = calibrate(private, epsilon=EPSILON, delta=DELTA, release="summary")
    summary.coverage(simulations=SIMULATIONS, progressbar=False)
    _print_step("4. plan: one noisy summary", summary)
    return draws, summary


def sample_model(model: pm.Model) -> Any:
    """Draw from the posterior of a model by NUTS, as any PyMC model is sampled."""
    with model:
        return pm.sample(**MCMC, compile_kwargs=COMPILED)


def both_posteriors(release: Release, idata: Any) -> str:
    """Put the means and standard deviations of both private posteriors into one text table."""
    tables = [
        compat.summarize_posterior(found)
        for found in (release.posterior, compat.to_dataset(idata)[list(release.posterior)])
    ]
    columns = [table[name].to_numpy() for table in tables for name in ("mean", "sd")]
    titles = ("", DRAWS_NAME, "sd", SUMMARY_NAME, "sd")
    rows = display.element_rows(list(tables[0].index), *columns, digits=3)
    return cards.text_table(titles, rows)


def worth(draws: Plan, summary: SummaryPlan) -> str:
    """Say which of the two was expected to tell more, and whether each is any good.

    From the plans alone, so that nothing here depends on the data.
    """
    size = summary.mechanism.parameters.size
    least = relative_width(variance_removed(summary.whole, size))
    nats = {DRAWS_NAME: draws.chosen.information, SUMMARY_NAME: summary.nats}
    lines = [
        f"{name}: {plan.verdict}, expected to tell {nats[name]:.3g} of {summary.whole:.3g} nats in "
        f"intervals {relative_width(plan.information) / least:.2g} times as wide as without privacy"
        for name, plan in ((DRAWS_NAME, draws), (SUMMARY_NAME, summary))
    ]
    lines[0] += f"; their mean has a Monte Carlo error of {1 / math.sqrt(draws.draws):.2g} sd"
    coverage = summary.found_coverage
    if coverage is not None:
        lines[1] += f"; {coverage.sentence}"
    better = max(nats, key=lambda name: nats[name])
    return "\n".join([f"worth more: the {better}", *lines])


def compare_slopes(samples: Any) -> Any:
    """Answer from private draws, at no cost, which of the two features has the larger slope."""

    def utility(theta: dict[str, np.ndarray], response: str, query: None) -> np.ndarray:
        size = np.abs(theta["slope"])
        return (size.argmax(axis=1) == FEATURES.index(response)).astype(float)

    return answer(samples, utility, list(FEATURES))


def plot_posteriors(posteriors: Mapping[str, Any], note: str = "") -> Figure:
    """Plot several posteriors of the same parameters, one panel each and one row per posterior.

    Parameters
    ----------
    posteriors : mapping of str to xarray.Dataset
        Few draws are shown as dots, many as a histogram.
    note : str
        Written above the panels.
    """
    from matplotlib.figure import Figure

    elements = {
        name: {
            label: values
            for array in dataset.data_vars.values()
            for label, values in zip(
                compat.element_labels(array), compat.flat_draws(array).T, strict=True
            )
        }
        for name, dataset in posteriors.items()
    }
    labels = list(next(iter(elements.values())))
    figure = Figure(figsize=(3.1 * len(labels), 1.0 + 0.8 * len(elements)), layout="constrained")
    panels = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for axes, label in zip(panels, labels, strict=True):
        for row, (name, found) in enumerate(elements.items()):
            _plot_row(axes, -float(row), found[label], COLORS[name])
        axes.set_title(label, fontsize=10)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_ylim(0.7 - len(elements), 0.7)
    panels[0].set_yticks([-float(row) for row in range(len(elements))], list(elements))
    if note:
        figure.suptitle(note, fontsize=10, color="#b3261e")
    return figure


def _plot_row(axes: Axes, row: float, values: np.ndarray, color: str) -> None:
    """Draw one posterior above a line: its draws, its mean and its central 90%."""
    if len(values) <= 60:
        axes.plot(values, np.full(len(values), row + 0.22), "o", color=color, ms=5, alpha=0.6)
    else:
        heights, edges = np.histogram(values, bins=30)
        foot, top = row + 0.1, row + 0.1 + 0.55 * heights / heights.max()
        axes.stairs(top, edges, baseline=foot, fill=True, color=color, alpha=0.45)
    low, high = np.quantile(values, INTERVAL)
    axes.plot([low, high], [row, row], color=color, linewidth=2, solid_capstyle="butt")
    axes.plot([values.mean()], [row], "|", color=color, markersize=10, markeredgewidth=2)


def _print_step(title: str, value: object) -> None:
    print(f"\n{title}\n{value if isinstance(value, str) else repr(value)}", flush=True)


def _write_results(
    folder: Path, release: Release, summary: Summary, idata: Any, ledger: Ledger
) -> None:
    """Write what may be published: both reports and the figure of both posteriors."""
    report(release, ledger).save(folder / "report-draws.html")
    report(summary, ledger).save(folder / "report-summary.html")
    both = {DRAWS_NAME: release.posterior, SUMMARY_NAME: compat.to_dataset(idata)}
    plot_posteriors(both).savefig(folder / "posteriors.png", dpi=150)
    print("\nmay be published: draws.nc, summary.nc, report-draws.html, report-summary.html, "
          f"posteriors.png (in {folder}/)")  # fmt: skip
    print("stays with the curator: fair.sqlite (the ledger)")


def _show_curator(folder: Path, release: Release, idata: Any, plain: Any) -> None:
    """Show the curator both posteriors beside the one without privacy."""
    compared: Comparison = compare(release, plain, summary=idata)
    print(f"\n{compared!r}")
    shifts = compared.frame[["shift", "summary_shift"]].abs().max()
    print(
        f"the mean of the {DRAWS_NAME} is off by up to {shifts['shift']:.2g} non-private standard "
        f"deviations, that of the {SUMMARY_NAME} by up to {shifts['summary_shift']:.2g}"
    )
    three = {
        DRAWS_NAME: release.posterior,
        SUMMARY_NAME: compat.to_dataset(idata),
        "not private": compat.to_dataset(plain),
    }
    plot_posteriors(three, WARNING.partition(":")[0]).savefig(folder / CURATOR_FILE, dpi=150)
    print(f"{folder / CURATOR_FILE} shows them: never publish it")
