"""Noisy summaries on the models of the studies: error, width and coverage of their posteriors.

Run ``python -m benchmarks.noise_aware [simulations] [epsilons] [part of a name] ...``, for example
``python -m benchmarks.noise_aware 40 0.5,1,2 linear probit``. In each simulation parameters come
from the prior and records from the model; one summary with simulated noise is released, its
posterior found by importance sampling, and that of the records themselves too.

Error: root mean square distance of the posterior mean from the non-private one, in non-private
standard deviations. Width: median ratio of the lengths of 90% intervals. Coverage: of 50% and 90%
intervals, pooled over the parameters of a model, with a standard error over simulations.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.noise_aware_models import SCENARIOS, Scenario
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.record_density import RecordDensity

EPSILONS, DELTA = (0.5, 1.0, 2.0), 1e-6
DRAWS = 1500
EXACT_DRAWS, EXACT_ROUNDS = 600, 5
FEW_EFFECTIVE = 300.0
"""Effective draws below which a posterior is drawn anew with `MORE` times as many."""
MORE = 8
LARGEST_BATCH = 2_000_000
INNER, OUTER = (0.25, 0.75), (0.05, 0.95)
LogDensity = Callable[[np.ndarray], np.ndarray]


def posterior(
    likelihood: LogDensity, prior: LogDensity, start: tuple[Any, Any], rng: np.random.Generator
) -> WeightedDraws:
    """Weighted draws, more of them where few are effective."""

    def density(theta: np.ndarray) -> np.ndarray:
        return likelihood(theta) + prior(theta)

    found = importance_draws(density, *start, rng, DRAWS)
    if found.effective < FEW_EFFECTIVE:
        found = importance_draws(density, found.mean, found.covariance, rng, MORE * DRAWS)
    return found


def non_private(
    density: RecordDensity, records: dict[str, np.ndarray], theta: np.ndarray, rng: Any
) -> WeightedDraws:
    """The posterior of the records, from the true parameters and the curvature there."""
    y = np.asarray(records[density.outcome.name], float)[:, None]
    rows = records | density.public_rows

    def target(points: np.ndarray) -> np.ndarray:
        parts = np.array_split(points, 1 + points.shape[0] * len(y) // LARGEST_BATCH)
        logs = [density.log_density(part, rows, y).sum(axis=(1, 2)) for part in parts]
        return np.concatenate(logs) + density.parameters.log_prior(points)

    jacobian = density.jacobian(theta, rows)
    scores = density.scores(density.predictors(theta, rows), rows, y)[:, 0]
    each = np.einsum("nk,nkp->np", scores, jacobian)
    precision = each.T @ each + np.linalg.inv(density.parameters.covariance)
    covariance = np.linalg.inv(precision)
    return importance_draws(target, theta, covariance, rng, EXACT_DRAWS, rounds=EXACT_ROUNDS)


def measure(
    scenario: Scenario, epsilon: float, simulations: int, method: str = "auto", seed: int = 0
) -> dict[str, Any]:
    """Error, width and coverage of one model at one epsilon."""
    plan = make_summary_plan(scenario.private, epsilon=epsilon, delta=DELTA, method=method)
    mechanism = plan.mechanism
    density, parameters = RecordDensity(scenario.private), mechanism.parameters
    errors, widths, held, effective, refused = [], [], [], [], 0
    for k, theta in enumerate(parameters.draws(simulations, 1000 + seed)):
        rng = np.random.default_rng([seed, k])
        point = {name: v[0] for name, v in parameters.natural(theta[None]).items()}
        records = scenario.simulate(point, rng)
        noise = SimulatedNoise(rng, scenario.private.neighbors, 1)
        released = mechanism.release(records, noise)
        refused += any(caution.refuse for caution in mechanism.warnings(released))
        likelihood = mechanism.log_likelihood(released)
        found = posterior(likelihood, parameters.log_prior, mechanism.start(released), rng)
        exact = non_private(density, records, theta, rng)
        ends = {shares: found.quantiles(list(shares)) for shares in (INNER, OUTER)}
        errors.append((found.mean - exact.mean) / exact.sd)
        widths.append(np.ptp(ends[OUTER], axis=0) / np.ptp(exact.quantiles(list(OUTER)), axis=0))
        held.append([(low <= theta) & (theta <= high) for low, high in ends.values()])
        effective.append(found.effective)
    each = np.mean(held, axis=2)
    return {
        "method": plan.method,
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "median error": float(np.median(np.sqrt(np.mean(np.square(errors), axis=1)))),
        "width": float(np.median(widths)),
        "coverage": each.mean(axis=0),
        "standard error": each.std(axis=0) / np.sqrt(len(each)),
        "effective": float(np.quantile(effective, 0.1)),
        "refused": refused,
    }


def main(simulations: int = 40, epsilons: Sequence[float] = EPSILONS, parts: Any = ()) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    names = [n for n in SCENARIOS if not parts or any(part in n for part in parts)]
    for name in names:
        scenario = SCENARIOS[name]()
        for epsilon in epsilons:
            start = time.time()
            m = measure(scenario, epsilon, simulations)
            inner, outer = (
                f"{share:.3f}±{error:.3f}"
                for share, error in zip(m["coverage"], m["standard error"], strict=True)
            )
            print(
                f"{name:30} {m['method']:6} epsilon {epsilon:3g}  error {m['error']:.2f} "
                f"(median {m['median error']:.2f})  width {m['width']:.2f}  coverage of 50% "
                f"{inner}, of 90% {outer}  refused {m['refused']}  effective "
                f"{m['effective']:.0f}  {time.time() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 40,
        [float(e) for e in given[1].split(",")] if len(given) > 1 else EPSILONS,
        given[2:],
    )
