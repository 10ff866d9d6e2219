"""Summaries in two rounds, beside one of the same total budget and the first round alone.

Run ``python -m benchmarks.noise_aware_rounds [simulations] [epsilon] [part of a name] ...``, for
example ``python -m benchmarks.noise_aware_rounds 24 0.5 logistic``. In each simulation one data set
of known parameters is summarized four times with simulated noise: at epsilon; the same, refined at
epsilon once more; anew at the budget of both rounds together, sqrt(2) mu; and anew at 2 epsilon.
Error, width and coverage as in `noise_aware`; "shrinks" are the ratios of posterior standard
deviations after and before the second round, found and predicted (medians).
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.noise_aware import DELTA, INNER, OUTER, non_private, posterior
from benchmarks.noise_aware_models import SCENARIOS, Scenario
from pymc_private.privacy.gaussian import gdp_eps
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.refinement import planned_round

NAMES = ("first round", "refined", "once, same total", "once, twice epsilon")


class RoundsStudy:
    """One model: the mechanisms of both budgets, made once."""

    def __init__(self, scenario: Scenario, epsilon: float) -> None:
        self.scenario, self.density = scenario, RecordDensity(scenario.private)
        self.mu = largest_mu(epsilon, DELTA)
        budgets = (self.mu, math.sqrt(2.0) * self.mu, largest_mu(2.0 * epsilon, DELTA))
        self.first, self.same, self.twice = (score_mechanism(scenario.private, m) for m in budgets)

    def simulation(self, theta: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
        """One data set: what each of the four summaries says of it."""
        point = {k: v[0] for k, v in self.first.parameters.natural(theta[None]).items()}
        records, noise = self.scenario.simulate(point, rng), SimulatedNoise(rng)
        exact = non_private(self.density, records, theta, rng)
        one = self.first.release(records, noise)
        round_ = planned_round(self.first, one, self.mu)
        released = [
            (self.first, one),
            (self.first.refined(self.mu), round_.release(one, records, noise)),
            (self.same, self.same.release(records, noise)),
            (self.twice, self.twice.release(records, noise)),
        ]
        found, sds = {}, []
        for name, (mechanism, arrays) in zip(NAMES, released, strict=True):
            draws = posterior(
                mechanism.log_likelihood(arrays),
                mechanism.parameters.log_prior,
                mechanism.start(arrays),
                rng,
            )
            inner, outer = (draws.quantiles(list(shares)) for shares in (INNER, OUTER))
            sds.append(draws.sd)
            found[name] = {
                "error": (draws.mean - exact.mean) / exact.sd,
                "width": np.ptp(outer, axis=0) / np.ptp(exact.quantiles(list(OUTER)), axis=0),
                "inner": np.mean((inner[0] <= theta) & (theta <= inner[1])),
                "outer": np.mean((outer[0] <= theta) & (theta <= outer[1])),
                "effective": draws.effective,
                "refused": any(c.refuse for c in mechanism.warnings(arrays)),
            }
        return {"found": found, "shrinks": sds[1] / sds[0], "predicted": round_.shrinkage}


def print_study(name: str, epsilon: float, simulations: int) -> None:
    """Run the simulations of one model and print its table."""
    started = time.process_time()
    study = RoundsStudy(SCENARIOS[name](), epsilon)
    thetas = study.first.parameters.draws(simulations, 1000)
    every = [
        study.simulation(theta, np.random.default_rng([7, k])) for k, theta in enumerate(thetas)
    ]
    seconds = (time.process_time() - started) / simulations
    total = gdp_eps(DELTA, math.sqrt(2.0) * study.mu)
    print(f"{name}, epsilon {epsilon:g} twice (together {total:.3f}), {simulations} data sets, "
          f"{seconds:.1f} CPU seconds each")  # fmt: skip
    for kind in NAMES:
        each = [one["found"][kind] for one in every]
        errors = np.array([one["error"] for one in each])
        held = np.array([[one["inner"], one["outer"]] for one in each])
        share, spread = held.mean(axis=0), held.std(axis=0) / np.sqrt(len(held))
        print(f"  {kind:20} error {np.sqrt(np.mean(errors**2)):.2f} (median "
              f"{np.median(np.sqrt((errors**2).mean(axis=1))):.2f})  width "
              f"{np.median([one['width'] for one in each]):.2f}  coverage of 50% {share[0]:.3f}±"
              f"{spread[0]:.3f}, of 90% {share[1]:.3f}±{spread[1]:.3f}  refused "
              f"{sum(one['refused'] for one in each)}  effective "
              f"{np.quantile([one['effective'] for one in each], 0.1):.0f}")  # fmt: skip
    shrinks, predicted = (np.array([one[k] for one in every]) for k in ("shrinks", "predicted"))
    print(f"  shrinks {np.median(shrinks):.2f}, predicted {np.median(predicted):.2f}", flush=True)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("simulations", type=int, nargs="?", default=24)
    parser.add_argument("epsilon", type=float, nargs="?", default=0.5)
    parser.add_argument("parts", nargs="*", help="parts of names of models")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in SCENARIOS:
        if not given.parts or any(part in name for part in given.parts):
            print_study(name, given.epsilon, given.simulations)


if __name__ == "__main__":
    main()
