r"""Pilots of a part of the records against pilots of all of them: error, width and coverage (T37).

Run ``python -m benchmarks.scale_split [simulations] [rows] [model ...]``. Parameters come from the
prior, records from the model, the summary from the whole mechanism at ``--epsilon`` (default 1),
delta = 1e-6; all plans see the same records. Columns: the share f of the records that pilots read
(none: all, and the budget is shared), root mean square distance of the mean to the one without
privacy, in standard deviations without privacy, geometric mean of the standard deviations in the
same unit, share of 90% intervals that hold their parameter, each with its standard error over
simulations; summaries that were refused, and seconds of processor time of a release. At the end the
log ratio of distances to those of the first plan, over the same records, with its standard error.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from scipy import special, stats

FEATURES = ["x0", "x1", "x2"]
LEVEL = 0.9
NEWTON_STEPS, STEP = 8, 1e-4
"""Steps to the mode without privacy, and that of finite differences in prior sds."""


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


def negative_binomial(pm: Any) -> None:
    alpha, mean = pm.LogNormal("alpha", 0.5, 0.5), pm.math.exp(_rows(pm))
    pm.NegativeBinomial("y", mean, alpha, observed=[0, 1, 0, 2, 0, 1, 1], dims="row")


def _logistic_density(y: Any, eta: Any, _: Any) -> Any:
    return y * eta - np.logaddexp(0, eta)


def _linear_density(y: Any, eta: Any, point: Any) -> Any:
    return stats.norm.logpdf(y, eta, point["sigma"])


def _poisson_density(y: Any, eta: Any, _: Any) -> Any:
    return y * eta - np.exp(eta)


def _negative_binomial_density(y: Any, eta: Any, point: Any) -> Any:
    alpha, mean = point["alpha"], np.exp(eta)
    fixed = special.gammaln(y + alpha) - special.gammaln(alpha) + alpha * np.log(alpha)
    return fixed + y * eta - (y + alpha) * np.log(mean + alpha)


Density = Callable[[Any, Any, Any], Any]
MODELS: dict[str, tuple[Callable[[Any], None], dict[str, Any], Density]] = {
    "logistic": (logistic, {}, _logistic_density),
    "linear": (linear, {"y": (-8, 8)}, _linear_density),
    "poisson": (poisson, {"y": (0, 200)}, _poisson_density),
    "negative_binomial": (negative_binomial, {"y": (0, 200)}, _negative_binomial_density),
}


def plans(name: str, n: int, shares: list[str], epsilon: float) -> dict[str, Any]:
    """A plan for each share: "none" reads all records in every round, "rule" is the rule's."""
    import pymc as pm

    import pymc_private as pmp
    from pymc_private.summaries.scores import model_scores
    from pymc_private.summaries.scores.pilot_part import COIN_BITS, PilotPart, pilot_part

    build, domain, _ = MODELS[name]
    with pm.Model(coords={"row": range(7), "feature": FEATURES}) as model:
        build(pm)
    private = pmp.privatize(model, records="row", domain={"x": (-1, 1), **domain}, n=n)

    def planned(rule: Any) -> Any:
        with mock.patch.object(model_scores, "pilot_part", rule):
            words = {"release": "summary", "method": "scores"}
            return pmp.calibrate(private, epsilon=epsilon, delta=1e-6, **words)

    def rule_of(share: str) -> Any:
        if share == "rule":
            return pilot_part
        found = None if share == "none" else PilotPart(round(float(share) * 2**COIN_BITS))
        return lambda *_: found

    made = {share: planned(rule_of(share)) for share in shares}
    if "rule" in made and (part := made["rule"].mechanism.part) is not None:
        made[f"{part.share:.3f}"] = made.pop("rule")
    return made


def without_privacy(
    parameters: Any, density: Density, records: Any, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mode and standard deviations without privacy, by Newton's method from the truth."""
    x, y = (np.asarray(records[name], float) for name in ("x", "y"))
    steps = STEP * np.sqrt(np.diag(parameters.covariance))
    size, at = len(steps), theta.copy()

    def value(point: np.ndarray) -> float:
        natural = {k: v[0] for k, v in parameters.natural(point[None]).items()}
        likelihood = density(y, natural["a"] + x @ natural["b"], natural).sum()
        return float(likelihood + parameters.log_prior(point[None])[0])

    for _ in range(NEWTON_STEPS):
        here, moves = value(at), np.diag(steps)
        up, down = ([value(at + s * move) for move in moves] for s in (1, -1))
        gradient = (np.array(up) - down) / (2 * steps)
        hessian = np.empty((size, size))
        for i in range(size):
            for j in range(i, size):
                both = value(at + moves[i] + moves[j]) + here - up[i] - up[j]
                same = up[i] - 2 * here + down[i]
                hessian[i, j] = (same if i == j else both) / steps[i] / steps[j]
                hessian[j, i] = hessian[i, j]
        covariance = np.linalg.inv(-hessian)
        move = covariance @ gradient
        at = at + move
        if np.abs(move / steps).max() < 1:
            break
    return at, np.sqrt(np.diag(covariance))


@dataclass
class Found:
    """What one plan gave: rows of squared distances, log widths and intervals that hold."""

    squares: list[float]
    widths: list[float]
    held: list[float]
    seconds: list[float]
    lost: int = 0


def measure(name: str, n: int, made: dict[str, Any], simulations: int, seed: int) -> None:
    """Print the rows of one model and number of records."""
    from pymc_private.summaries.simulated_summaries import SimulatedSummaries

    density = MODELS[name][2]
    first = next(iter(made.values()))
    parameters = first.mechanism.parameters
    simulated = {
        k: SimulatedSummaries(plan, 1000, np.random.default_rng(11)) for k, plan in made.items()
    }
    found = {label: Found([], [], [], []) for label in made}
    for k in range(simulations):
        theta = parameters.draws(1, seed + k)
        one = next(iter(simulated.values()))
        one.rng = np.random.default_rng([seed, k])
        records = one._records(theta)
        mode, sds = without_privacy(parameters, density, records, theta[0])
        for label, each in simulated.items():
            each._records = lambda _, records=records: records
            each.rng = np.random.default_rng([seed, k, 1])
            start = time.process_time()
            posterior = each.posterior_at(theta)
            seconds = time.process_time() - start
            del each._records
            into = found[label]
            into.seconds.append(seconds)
            if posterior is None:
                into.squares.append(np.nan)
                into.lost += 1
                continue
            low, high = posterior.quantiles([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            into.held.append(((low <= theta[0]) & (theta[0] <= high)).mean())
            into.squares.append((((posterior.mean - mode) / sds) ** 2).mean())
            into.widths.append(np.log(posterior.sd / sds).mean())
    show(name, n, found)


def show(name: str, n: int, found: dict[str, Found]) -> None:
    """Print them."""
    base = next(iter(found.values()))
    for label, one in found.items():
        error = np.sqrt(np.nanmean(one.squares))
        error_se = np.nanstd(one.squares) / np.sqrt(len(one.held)) / (2 * error)
        width = np.exp(np.mean(one.widths))
        ratio = 0.5 * np.log(np.array(one.squares) / np.array(base.squares))
        ratio_se = np.nanstd(ratio) / np.sqrt(len(ratio))
        held_se = np.std(one.held) / np.sqrt(len(one.held))
        print(f"{name:17s} {n:8.0e} {label:>6s} {error:5.2f} {error_se:5.2f} {width:6.3f} "
              f"{np.mean(one.held):6.3f} {held_se:5.3f} {one.lost:4d} {np.mean(one.seconds):6.2f} "
              f"{np.nanmean(ratio):6.2f} {ratio_se:5.2f}", flush=True)  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("simulations", nargs="?", type=int, default=40)
    parser.add_argument("rows", nargs="?", default="1e5")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--shares", default="none,rule", help="such as none,0.25,rule")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=500)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':17s} {'rows':>8s} {'f':>6s} {'error':>5s} {'se':>5s} {'width':>6s} "
          f"{'held':>6s} {'se':>5s} {'none':>4s} {'s':>6s} {'ratio':>6s} {'se':>5s}")  # fmt: skip
    for rows in given.rows.split(","):
        for name in given.models:
            n = int(float(rows))
            made = plans(name, n, given.shares.split(","), given.epsilon)
            measure(name, n, made, given.simulations, given.seed)


if __name__ == "__main__":
    main()
