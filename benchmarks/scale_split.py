"""Pilots of a part of the records against pilots of all of them: coverage and width (T37).

Run ``python -m benchmarks.scale_split [simulations] [rows] [model ...]``. Parameters
come from the prior, records from the model, the summary from the whole mechanism at epsilon = 1,
delta = 1e-6. Columns: the share f of the records that pilots read (none: all, and the budget is
shared), share of 90% intervals that hold their parameter with its standard error, root mean square
of (mean - parameter) / sd, mean posterior standard deviation in units of the prior's, summaries
that were refused, and seconds of processor time of a release.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

FEATURES = ["x0", "x1", "x2"]
LEVEL = 0.9


def _rows(pm: Any) -> Any:
    """A linear predictor of three covariates of placeholder rows."""
    x = pm.Data("x", np.zeros((7, 3)), dims=("row", "feature"))
    return pm.Normal("a", 0, 1) + x @ pm.Normal("b", 0, 1, dims="feature")


def logistic(pm: Any) -> None:
    pm.Bernoulli("y", logit_p=_rows(pm), observed=[0, 1, 0, 1, 0, 1, 1], dims="row")


def linear(pm: Any) -> None:
    sigma = pm.LogNormal("sigma", -0.5, 0.5)
    pm.Normal("y", _rows(pm), sigma, observed=np.zeros(7), dims="row")


def poisson(pm: Any) -> None:
    pm.Poisson("y", pm.math.exp(_rows(pm)), observed=[0, 1, 0, 2, 0, 1, 1], dims="row")


MODELS: dict[str, tuple[Callable[[Any], None], dict[str, Any]]] = {
    "logistic": (logistic, {}), "linear": (linear, {"y": (-8, 8)}), "poisson": (poisson, {}),
}  # fmt: skip


def plans(name: str, n: int, share: float | None) -> dict[str, Any]:
    """The plan with all records in every round, and the one with a part of them in pilots."""
    import pymc as pm

    import pymc_private as pmp
    from pymc_private.summaries.scores import model_scores
    from pymc_private.summaries.scores.pilot_part import COIN_BITS, PilotPart, pilot_part

    build, domain = MODELS[name]
    with pm.Model(coords={"row": range(7), "feature": FEATURES}) as model:
        build(pm)
    private = pmp.privatize(model, records="row", domain={"x": (-1, 1), **domain}, n=n)
    given = None if share is None else PilotPart(round(share * 2**COIN_BITS))

    def planned(rule: Any) -> Any:
        with mock.patch.object(model_scores, "pilot_part", rule):
            words = {"release": "summary", "method": "scores"}
            return pmp.calibrate(private, epsilon=1, delta=1e-6, **words)

    split = planned(pilot_part if given is None else lambda *_: given)
    return {"none": planned(lambda *_: None), f"{split.mechanism.part.share:.3f}": split}


def measure(name: str, n: int, label: str, plan: Any, simulations: int) -> None:
    """Print one row of the table."""
    from pymc_private.summaries.simulated_summaries import SimulatedSummaries

    rng = np.random.default_rng(11)
    simulated = SimulatedSummaries(plan, 1000, rng)
    parameters, held, errors, widths, seconds = plan.mechanism.parameters, [], [], [], []
    release = plan.mechanism.release

    def timed(*arguments: Any) -> Any:
        start = time.process_time()
        found = release(*arguments)
        seconds.append(time.process_time() - start)
        return found

    plan.mechanism.release = timed
    for k in range(simulations):
        theta = parameters.draws(1, 500 + k)
        found = simulated.posterior_at(theta)
        if found is None:
            continue
        low, high = found.quantiles([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        held.append(((low <= theta[0]) & (theta[0] <= high)).mean())
        errors.append((((found.mean - theta[0]) / found.sd) ** 2).mean())
        widths.append(np.mean(found.sd / np.sqrt(np.diag(parameters.covariance))))
    standard_error = np.std(held) / np.sqrt(len(held))
    lost = simulated.refused + simulated.failed
    print(f"{name:10s} {n:8.0e} {label:>6s} {np.mean(held):6.3f} {standard_error:6.3f} "
          f"{np.sqrt(np.mean(errors)):6.2f} {np.mean(widths):8.5f} {lost:4d} "
          f"{np.mean(seconds):6.2f}", flush=True)  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("simulations", nargs="?", type=int, default=40)
    parser.add_argument("rows", nargs="?", default="1e5")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--share", type=float)
    parser.add_argument("--only-split", action="store_true", help="no pilots of all records")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':10s} {'rows':>8s} {'f':>6s} {'held':>6s} {'se':>6s} {'error':>6s} "
          f"{'sd':>8s} {'none':>4s} {'s':>6s}")  # fmt: skip
    for rows in given.rows.split(","):
        for name in given.models:
            for label, plan in plans(name, int(float(rows)), given.share).items():
                if given.only_split and label == "none":
                    continue
                measure(name, int(float(rows)), label, plan, given.simulations)


if __name__ == "__main__":
    main()
