"""Noisy summaries on the benchmarks of noise-aware variational inference: TARP coverage.

Run ``python -m benchmarks.noise_aware_tarp [simulations] [part of a name] ...``. Models, priors,
delta = 1e-5 and epsilon = .1, .3, 1 are those of Alrawajfeh, Jälkö and Honkela (2025) and their
published code: gamma-exponential, beta-Bernoulli and Dirichlet-categorical, and linear regression
of 10 covariates with free noise, on 5,000 records. Parameters come from the prior, records from the
model. Their code draws standard normal covariates, and some of its lines uniform ones; both are
here, the law of normal ones given as a public reference, and uniform ones with 1,000 records, too.
Linear regressions take some 3 to 5 s of CPU a simulation, so that at most 100 are made. Where the
plan refuses before the charge, its scores are read all the same, and so are summaries that are
refused after it; both are said. Linear regressions are also made with the law of their covariates
declared as known (`KnownCovariates`). On Adult predictive probabilities are compared with test
labels: of five predictors, and of fourteen from all its columns; its test part gives covariates as
a public sample, and as known ones, too.

TARP (Lemos et al. 2023): for a random reference point, the share of posterior draws nearer to it
than the truth is uniform if the posterior is right. The coverage at 21 levels is averaged over 20
reference points for each posterior, as theirs is; printed is its root mean square distance from
the levels. "if exact": what the same number of simulations gives where the truth is a draw of the
posterior itself, mean and 95% quantile.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_private as pmp
from benchmarks.noise_aware import OUTER, non_private
from benchmarks.noise_aware_peers import Case
from benchmarks.noise_aware_real import (
    adult,
    adult_every_column,
    label,
    mode_of,
    of_uci,
    records_of,
)
from benchmarks.uci import folder, load
from pymc_private.errors import NotInformative, Unsupported
from pymc_private.summaries import KnownCovariates
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores.model_scores import score_mechanism

EPSILONS, DELTA = (0.1, 0.3, 1.0), 1e-5
THEIRS = {"gamma-exponential": 0.023, "beta-Bernoulli": 0.016, "Dirichlet-categorical": 0.020}
"""Root mean square distances of the paper's noise-aware method."""
LEVELS = np.r_[0.001, np.arange(1, 20) / 20, 0.999]
REFERENCES, HALF_RANGE = 20, 4.0
"""Reference points of a posterior: uniform within so many posterior standard deviations."""
EXACT = 200
"""Sets of exact posteriors that are simulated."""
MOST_LINEAR = 100
ADULT_TRAINED, ADULT_RELEASES = 32_561, 10
"""The first rows of Adult, which its authors set apart to train on."""
FEW_EFFECTIVE, MANY_DRAWS = 100.0, 12_000
"""Effective draws below which a posterior is drawn anew, and with how many."""
PUBLIC_ROWS, KNOWN_ROWS = 512, 16_384
"""Rows of the public reference, where there is one, and of covariates whose law is known."""
Arrays = dict[str, np.ndarray]
Law = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Covariates spread evenly over [-1, 1]."""
    return rng.uniform(-1, 1, shape)


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Standard normal covariates, as in the published code; one in 16,000 is clipped at 4."""
    return np.clip(rng.standard_normal(shape), -4, 4)


@dataclass(frozen=True)
class Benchmark:
    """A private model, the simulation of its records, and their covariates as far as public."""

    private: Any
    simulate: Callable[[Arrays, np.random.Generator], Arrays]
    reference: Any = None
    law: Law = uniform

    @property
    def known(self) -> Benchmark:
        """The same with the law of its covariates declared as known."""
        rows = self.law(np.random.default_rng(0), (KNOWN_ROWS, 10))
        return replace(self, reference=KnownCovariates({"X": rows}))


def gamma_exponential(n: int = 5000) -> Benchmark:
    """Rates of 4 with sd 1.4; a record is declared to lie in [0, 10]."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 8, 2)
        pm.Exponential("y", rate, observed=np.ones(n))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (0, 10)})
    return Benchmark(
        private, lambda at, rng: {"y": np.minimum(rng.exponential(1 / at["rate"], n), 10.0)}
    )


def beta_bernoulli(n: int = 5000) -> Benchmark:
    """Shares near one half."""
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("share", 10, 10), observed=np.zeros(n, int))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": {0, 1}})
    return Benchmark(private, lambda at, rng: {"y": (rng.random(n) < at["share"]).astype(int)})


def dirichlet_categorical(n: int = 5000) -> Benchmark:
    """Three classes."""
    with pm.Model() as model:
        pm.Categorical("y", pm.Dirichlet("shares", np.full(3, 5.0)), observed=np.zeros(n, int))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": {0, 1, 2}})
    return Benchmark(private, lambda at, rng: {"y": rng.choice(3, n, p=at["shares"])})


def linear(n: int, law: Law = uniform, half: float = 1.0, bound: float = 5.0) -> Benchmark:
    """Ten covariates in [-half, half] and an intercept; |y| is declared to be at most a bound.

    Weights have twice the standard deviation of the noise, whose variance is near .026.
    """
    public = {"X": law(np.random.default_rng(0), (PUBLIC_ROWS, 10))} if law is normal else None

    def simulate(at: Arrays, rng: np.random.Generator) -> Arrays:
        x = law(rng, (n, 10))
        mean = at["weights"][0] + x @ at["weights"][1:]
        y = mean + np.sqrt(at["variance"]) * rng.standard_normal(n)
        return {"X": x, "y": np.clip(y, -bound, bound)}

    with pm.Model(coords={"row": range(n)}) as model:
        variance = pm.InverseGamma("variance", 20, 0.5)
        weights = pm.Normal("weights", 0, 2 * pm.math.sqrt(variance), shape=11)
        x = pm.Data("X", np.zeros((n, 10)), dims=("row", None))
        mean = weights[0] + x @ weights[1:]
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=np.zeros(n), dims="row")
    domain = {"X": (-half, half), "y": (-bound, bound)}
    private = pmp.privatize(model, records="row", domain=domain)
    return Benchmark(private, simulate, public, law)


BENCHMARKS: dict[str, Callable[[], Benchmark]] = {
    "gamma-exponential": gamma_exponential,
    "beta-Bernoulli": beta_bernoulli,
    "Dirichlet-categorical": dirichlet_categorical,
    "linear, 10 normal covariates, n 5,000": lambda: linear(5000, normal, 4.0, 8.0),
    "linear, 10 covariates, n 5,000": lambda: linear(5000),
    "linear, 10 covariates, n 1,000": lambda: linear(1000),
}


def posterior(mechanism: Any, released: Any, rng: np.random.Generator) -> WeightedDraws:
    """The posterior of one summary."""
    likelihood, prior = mechanism.log_likelihood(released), mechanism.parameters.log_prior

    def log_density(theta: np.ndarray) -> np.ndarray:
        return likelihood(theta) + prior(theta)

    found = importance_draws(log_density, *mechanism.start(released), rng)
    if found.effective >= FEW_EFFECTIVE:
        return found
    return importance_draws(log_density, found.mean, found.covariance, rng, MANY_DRAWS)


# ---- TARP ----------------------------------------------------------------------------------------
def nearer_shares(found: WeightedDraws, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Posterior mass nearer to random reference points than each of some points are.

    Shape (references, points); distances in posterior standard deviations.
    """
    white = (found.points - found.mean) / found.sd
    at = (points - found.mean) / found.sd
    shares = np.empty((REFERENCES, len(points)))
    for k in range(REFERENCES):
        reference = rng.uniform(-HALF_RANGE, HALF_RANGE, white.shape[1])
        distance = np.linalg.norm(white - reference, axis=1)
        order = np.argsort(distance)
        below = np.r_[0.0, np.cumsum(found.weights[order])]
        places = np.searchsorted(distance[order], np.linalg.norm(at - reference, axis=1))
        shares[k] = below[places]
    return shares


def distance_from_levels(shares: np.ndarray) -> np.ndarray:
    """Root mean square of coverage minus level; shares (simulations, references, sets)."""
    coverage = np.stack([(shares < level).mean(axis=(0, 1)) for level in LEVELS])
    return np.asarray(np.sqrt(np.mean((coverage - LEVELS[:, None]) ** 2, axis=0)))


def planned(
    private: Any, epsilon: float, method: str = "auto", reference: Any = None
) -> tuple[Any, str]:
    """The mechanism of a plan, and what it is; scores where the plan refuses them."""
    try:
        plan = make_summary_plan(
            private, epsilon=epsilon, delta=DELTA, method=method, reference=reference
        )
    except (Unsupported, NotInformative):
        mu = largest_mu(epsilon, DELTA)
        refused = score_mechanism(private, mu, reference=reference)
        return refused, "scores, refused before the charge"
    return plan.mechanism, plan.method


def measure(benchmark: Benchmark, epsilon: float, simulations: int) -> dict[str, Any]:
    """The distance of TARP coverage from its levels, and what an exact posterior would have."""
    mechanism, method = planned(benchmark.private, epsilon, reference=benchmark.reference)
    parameters, refused = mechanism.parameters, 0
    shares, effective, relative, held = [], [], [], []
    for k, theta in enumerate(parameters.draws(simulations, 2000)):
        rng = np.random.default_rng([2000, k])
        at = {name: v[0] for name, v in parameters.natural(theta[None]).items()}
        records = benchmark.simulate(at, rng)
        noise = SimulatedNoise(rng, benchmark.private.neighbors, 1)
        released = mechanism.release(records, noise)
        found = posterior(mechanism, released, rng)
        refused += any(caution.refuse for caution in mechanism.warnings(released))
        low, high = found.quantiles(list(OUTER))
        held.append(np.mean((low <= theta) & (theta <= high)))
        exact = found.points[rng.choice(len(found.points), EXACT, p=found.weights)]
        shares.append(nearer_shares(found, np.concatenate([theta[None], exact]), rng))
        effective.append(found.effective)
        relative.append(np.mean(found.sd / np.sqrt(np.diag(parameters.covariance))))
    distances = distance_from_levels(np.array(shares))
    return {
        "method": method,
        "refused": refused,
        "held": float(np.mean(held)),
        "held error": float(np.std(held) / np.sqrt(simulations)),
        "distance": float(distances[0]),
        "exact": float(distances[1:].mean()),
        "limit": float(np.quantile(distances[1:], 0.95)),
        "share above": float(np.mean(distances[1:] >= distances[0])),
        "effective": float(np.quantile(effective, 0.1)),
        "relative sd": float(np.mean(relative)),
    }


# ---- predictive calibration ----------------------------------------------------------------------
ADULT = {"Adult, 5 predictors": adult, "Adult, 14 predictors": adult_every_column}


def calibration(probability: np.ndarray, y: np.ndarray) -> float:
    """Root mean square distance of shares of ones from predictions, in ten equal groups."""
    groups = np.array_split(np.argsort(probability), 10)
    away = [y[rows].mean() - probability[rows].mean() for rows in groups]
    return float(np.sqrt(np.mean(np.square(away))))


def print_adult(name: str, columns: Callable[[Any], Arrays], releases: int) -> None:
    """Calibration on the test part of Adult, of summaries of the part to train on."""
    table = load("adult")
    scenario = of_uci(name, "adult", columns, label(), first=ADULT_TRAINED)
    held = records_of(scenario)
    case = Case(scenario, 1.0)
    slices = case.parameters.slices
    keep = np.r_[slices["intercept"], slices["slopes"]]
    tested, y = columns(table[ADULT_TRAINED:]), np.asarray(label()(table[ADULT_TRAINED:]))
    order = list(scenario.private.model.coords["slope"])
    test = np.column_stack([np.ones(len(y)), *(tested[key] for key in order)])
    single = [key for key in order if key in held]
    numbers = np.column_stack([tested[key] for key in order if key not in single])
    sample = {"X": numbers} | {key: np.asarray(tested[key]) for key in single}

    def distance(found: WeightedDraws) -> float:
        return calibration(found.weights @ expit(found.points[:, keep] @ test.T), y)

    exact = non_private(case.density, held, mode_of(case, held), np.random.default_rng(1))
    print(f"{name}, records: distance of calibration {distance(exact):.4f}", flush=True)
    samples = {"": None, ", public sample": sample, ", known law": KnownCovariates(sample)}
    for epsilon, (kind, reference) in product(EPSILONS, samples.items()):
        mechanism, method = planned(scenario.private, epsilon, "scores", reference)
        found, refused = [], 0
        for k in range(releases):
            rng = np.random.default_rng([k, 3000])
            released = mechanism.release(held, SimulatedNoise(rng))
            refused += any(c.refuse for c in mechanism.warnings(released))
            found.append(distance(posterior(mechanism, released, rng)))
        error = np.std(found, ddof=1) / np.sqrt(releases)
        print(
            f"{name}{kind}, {method}, epsilon {epsilon:g}: distance of calibration "
            f"{np.mean(found):.4f}±{error:.4f}, refused {refused} of {releases}",
            flush=True,
        )


def print_row(name: str, benchmark: Benchmark, epsilon: float, count: int) -> None:
    """One line of the table."""
    start = time.process_time()
    m = measure(benchmark, epsilon, count)
    theirs = f"  theirs {THEIRS[name]:.3f}" if name in THEIRS else ""
    print(
        f"{name:31} {m['method']:6} epsilon {epsilon:3g}  distance {m['distance']:.3f}  "
        f"if exact {m['exact']:.3f} (95%: {m['limit']:.3f}; p {m['share above']:.2f})"
        f"{theirs}  90% intervals hold {m['held']:.3f}±{m['held error']:.3f}, refused "
        f"{m['refused']} of {count}  sd over prior sd {m['relative sd']:.2f}  effective "
        f"{m['effective']:.0f}  {time.process_time() - start:.0f} s",
        flush=True,
    )


def main(simulations: int = 500, parts: Any = ()) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    for name, make in BENCHMARKS.items():
        if parts and not any(part in name for part in parts):
            continue
        benchmark = make()
        linear_one = "linear" in name
        count = min(simulations, MOST_LINEAR) if linear_one else simulations
        for epsilon in EPSILONS:
            print_row(name, benchmark, epsilon, count)
            if linear_one:
                print_row(f"{name}, known law", benchmark.known, epsilon, count)
    if parts and "Adult" not in parts:
        return
    if folder().exists():
        for name, columns in ADULT.items():
            print_adult(name, columns, min(simulations, ADULT_RELEASES))
    else:
        print("Adult: skipped, the sets of UCI are not at hand (see benchmarks.uci)")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 500, given[1:])
