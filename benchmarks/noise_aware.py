"""Noisy summaries on the models of the studies: error, width and coverage of their posteriors.

Run ``python -m benchmarks.noise_aware [simulations] [epsilons] [part of a name] ...``, for example
``python -m benchmarks.noise_aware 40 0.5,1,2 linear probit``. In each simulation parameters come
from the prior and records from the model; one summary with simulated noise is released, its
posterior found by importance sampling, and that of the records themselves too.

With ``--save FILE`` each simulation is added to a file of JSON lines as it ends, and those that the
file already holds are not run again: a long study goes on where it stopped.
``python -m benchmarks.noise_aware --table FILE`` prints what such files hold. With ``--compared K``
only the first K data sets of a cell have a posterior of the records, and with it error and width
(``--coverage``: none): coverage needs only the parameters that the records were drawn with.
With ``--known`` the law of the covariates is declared as known, by 16,384 public rows.
``python -m benchmarks.noise_aware_coverage FILE`` adds such files to the table that the repository
keeps; a study that goes on takes another seed.

Error: root mean square distance of the posterior mean from the non-private one, in non-private
standard deviations. Width: median ratio of the lengths of 90% intervals. Coverage: of 50% and 90%
intervals, pooled over the parameters of a model, with a standard error over simulations.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.noise_aware_models import FURTHER, SCENARIOS
from pymc_private.models.prior import outcome_sources
from pymc_private.summaries import KnownCovariates
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise

EPSILONS, DELTA = (0.5, 1.0, 2.0), 1e-6
DRAWS = 1500
EXACT_DRAWS, EXACT_ROUNDS = 600, 5
FEW_EFFECTIVE, ENOUGH = 300.0, 400.0
"""Effective draws below which a posterior is drawn anew with `MORE` times as many; and with which
no further round is taken where only coverage is wanted."""
MORE = 8
KNOWN_ROWS, KNOWN_SEED = 16_384, 9
"""Public rows of covariates whose law is declared as known."""
LARGEST_BATCH = 2_000_000
INNER, OUTER = (0.25, 0.75), (0.05, 0.95)
LogDensity = Callable[[np.ndarray], np.ndarray]


def posterior(
    likelihood: LogDensity,
    prior: LogDensity,
    start: tuple[Any, Any],
    rng: np.random.Generator,
    enough: float = np.inf,
) -> WeightedDraws:
    """Weighted draws, more of them where few are effective."""

    def density(theta: np.ndarray) -> np.ndarray:
        return likelihood(theta) + prior(theta)

    found = importance_draws(density, *start, rng, DRAWS, enough=enough)
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


def known_covariates(scenario: Any) -> KnownCovariates:
    """Covariates of so many other records, as those whose law is known."""
    rng, private = np.random.default_rng(KNOWN_SEED), scenario.private
    outcomes = outcome_sources(private)
    names = [source.name for source in private.sources if source not in outcomes]
    times = -(-KNOWN_ROWS // private.record_count)
    parts = [scenario.simulate(scenario.truth, rng) for _ in range(times)]
    rows = {name: np.concatenate([part[name] for part in parts])[:KNOWN_ROWS] for name in names}
    return KnownCovariates(rows)


class Study:
    """One model at one epsilon, its mechanism made once.

    Parameters
    ----------
    scenario : Scenario
    epsilon : float
    method : str
    compared : float
        How many data sets, from the first, have their posterior compared with that of the records.
    known : bool
        Whether the law of the covariates is declared as known.
    """

    def __init__(
        self,
        scenario: Any,
        epsilon: float,
        method: str = "auto",
        compared: float = np.inf,
        known: bool = False,
    ) -> None:
        self.scenario, self.compared = scenario, compared
        self.plan = make_summary_plan(
            scenario.private,
            epsilon=epsilon,
            delta=DELTA,
            method="scores" if known else method,
            reference=known_covariates(scenario) if known else None,
        )

    @cached_property
    def density(self) -> RecordDensity:
        """The density of a record, of which the posterior of the records is made."""
        return RecordDensity(self.scenario.private)

    def exact(self, records: Any, theta: np.ndarray, rng: np.random.Generator) -> WeightedDraws:
        """The posterior of the records."""
        return non_private(self.density, records, theta, rng)

    def simulation(
        self, theta: np.ndarray, rng: np.random.Generator, compared: bool
    ) -> dict[str, Any]:
        """One data set of known parameters: its posterior or both, in JSON types."""
        mechanism, private = self.plan.mechanism, self.scenario.private
        point = {k: v[0] for k, v in mechanism.parameters.natural(theta[None]).items()}
        records = self.scenario.simulate(point, rng)
        released = mechanism.release(records, SimulatedNoise(rng, private.neighbors, 1))
        refused = any(caution.refuse for caution in mechanism.warnings(released))
        likelihood, start = mechanism.log_likelihood(released), mechanism.start(released)
        enough = np.inf if compared else ENOUGH
        found = posterior(likelihood, mechanism.parameters.log_prior, start, rng, enough)
        inner, outer = (found.quantiles(list(shares)) for shares in (INNER, OUTER))
        plain: dict[str, Any] = {
            "inner": ((inner[0] <= theta) & (theta <= inner[1])).tolist(),
            "outer": ((outer[0] <= theta) & (theta <= outer[1])).tolist(),
            "effective": found.effective,
            "refused": refused,
            "method": self.plan.method,
        }
        if compared:
            exact = self.exact(records, theta, rng)
            width = np.ptp(outer, axis=0) / np.ptp(exact.quantiles(list(OUTER)), axis=0)
            plain["error"] = ((found.mean - exact.mean) / exact.sd).tolist()
            plain |= {"width": width.tolist(), "exact effective": exact.effective}
        return plain

    def run(self, simulations: Iterable[int], seed: int = 0) -> Iterable[dict[str, Any]]:
        """Simulations of these numbers, one after the other; failures are recorded as such."""
        wanted = list(simulations)
        draws = self.plan.mechanism.parameters.draws(max(wanted, default=0) + 1, 1000 + seed)
        for k in wanted:
            started = time.process_time()
            try:
                rng = np.random.default_rng([seed, k])
                found = self.simulation(draws[k], rng, k < self.compared)
            except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
                found = {"failed": repr(error)[:200]}
            yield {"simulation": k, **found, "seconds": round(time.process_time() - started, 2)}


def measure(study: Study, simulations: int, seed: int = 0) -> dict[str, Any]:
    """Error, width and coverage of one model at one epsilon."""
    return summarized(list(study.run(range(simulations), seed)))


def summarized(simulations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Error, width and coverage over simulations of one model at one epsilon."""
    held = [s for s in simulations if "failed" not in s]
    errors = np.array([s["error"] for s in held if "error" in s] or [[np.nan]])
    widths = [s["width"] for s in held if "width" in s] or [[np.nan]]
    each = np.array([[np.mean(s["inner"]), np.mean(s["outer"])] for s in held])
    return {
        "method": held[0]["method"],
        "simulations": len(held),
        "failed": len(simulations) - len(held),
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "median error": float(np.median(np.sqrt(np.mean(np.square(errors), axis=1)))),
        "width": float(np.median(widths)),
        "coverage": each.mean(axis=0),
        "standard error": each.std(axis=0) / np.sqrt(len(each)),
        "effective": float(np.quantile([s["effective"] for s in held], 0.1)),
        "refused": sum(s["refused"] for s in held),
    }


# ---- files of simulations ------------------------------------------------------------------------
def stored(paths: Sequence[Path]) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """The simulations of some files by model and epsilon."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            found.setdefault((one["model"], one["epsilon"]), []).append(one)
    return found


def missing(path: Path, name: str, epsilon: float, simulations: int, seed: int) -> list[int]:
    """Which of so many simulations of one model at one epsilon a file lacks."""
    here = stored([path]).get((name, epsilon), []) if path.exists() else []
    done = {one["simulation"] for one in here if one["seed"] == seed}
    return [k for k in range(simulations) if k not in done]


def add_line(path: Path, name: str, epsilon: float, seed: int, one: dict[str, Any]) -> None:
    """Add a simulation to a file."""
    line = json.dumps({"model": name, "epsilon": epsilon, "seed": seed, **one})
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def line_of(name: str, epsilon: float, found: dict[str, Any]) -> str:
    """One line of the table."""
    pairs = zip(found["coverage"], found["standard error"], strict=True)
    inner, outer = (f"{share:.3f}±{error:.3f}" for share, error in pairs)
    return (
        f"{name:30} {found['method']:6} epsilon {epsilon:3g}  {found['simulations']} simulations  "
        f"error {found['error']:.2f} (median {found['median error']:.2f})  width "
        f"{found['width']:.2f}  coverage of 50% {inner}, of 90% {outer}  refused "
        f"{found['refused']}  failed {found['failed']}  effective {found['effective']:.0f}"
    )


def print_table(paths: Sequence[Path]) -> None:
    """Print what files hold: each model at each epsilon, and all models at each epsilon."""
    cells = {key: summarized(found) for key, found in stored(paths).items()}
    for (name, epsilon), found in sorted(cells.items()):
        print(line_of(name, epsilon, found))
    for epsilon in sorted({epsilon for _, epsilon in cells}):
        here = [found for (_, e), found in cells.items() if e == epsilon]
        shares = np.mean([found["coverage"] for found in here], axis=0)
        errors = np.sqrt(np.sum(np.square([f["standard error"] for f in here]), axis=0)) / len(here)
        print(f"all {len(here)} models at epsilon {epsilon:g}: coverage of 50% {shares[0]:.3f}±"
              f"{errors[0]:.3f}, of 90% {shares[1]:.3f}±{errors[1]:.3f}")  # fmt: skip


def main(scenarios: Any = None, study: Any = Study) -> None:
    """Run the study of some scenarios, or print a stored one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("simulations", type=int, nargs="?", default=40)
    parser.add_argument("epsilons", nargs="?", default=",".join(map(str, EPSILONS)))
    parser.add_argument("parts", nargs="*", help="parts of names of models")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    parser.add_argument("--compared", type=float, default=np.inf)
    parser.add_argument("--coverage", action="store_true", help="leave out error and width")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="covariates of a known law")
    given = parser.parse_args()
    if given.table:
        print_table(given.table)
        return
    warnings.simplefilter("ignore")
    scenarios = scenarios or (SCENARIOS | FURTHER if given.parts else SCENARIOS)
    for name in [n for n in scenarios if not given.parts or any(p in n for p in given.parts)]:
        scenario = scenarios[name]()
        for epsilon in map(float, given.epsilons.split(",")):
            make = partial(study, scenario, epsilon, **({"known": True} if given.known else {}))
            run_cell(name, make, epsilon, given)


def run_cell(name: str, make: Callable[..., Study], epsilon: float, given: Any) -> None:
    """Print a cell, or add what a file lacks of it."""
    compared = 0 if given.coverage else given.compared
    if not given.save:
        found = measure(make(compared=compared), given.simulations, given.seed)
        print(line_of(name, epsilon, found), flush=True)
        return
    wanted = missing(given.save, name, epsilon, given.simulations, given.seed)
    if wanted:
        for one in make(compared=compared).run(wanted, given.seed):
            add_line(given.save, name, epsilon, given.seed, one)


if __name__ == "__main__":
    main()
