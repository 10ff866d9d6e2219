"""Noisy summaries beside what else the same budget buys: error, width and coverage.

Run ``python -m benchmarks.noise_aware_peers [repetitions] [epsilons] [part of a name] ...``; with
``--draws`` draws alone, which need no tuning. In each repetition parameters come from the prior and
records from the model; every method reads the same records at the same (epsilon, delta = 1e-6), one
record replaced, and is compared with the posterior of the records. Error, width and coverage are
those of `benchmarks.noise_aware`.

* noisy summary: the package's scores, their noise modeled.
* same scores, noise ignored: the last score and curvature of that release read as if exact.
* noisy sufficient statistics, noise ignored: Z'Z of a linear regression; for a logistic one the
  sums of its quadratic approximation (Huggins, Adams and Broderick 2017).
* gradient ascent: clipped full-batch gradients with noise, a public metric, the mean of the second
  half of the steps; Laplace intervals from the curvature of the records, which it gets for free.
* draws: one or ten of the tempered posterior of `calibrate`, by an ideal sampler.

Rivals are tuned on data sets simulated from the same prior and the same distribution of covariates,
which no curator knows: it favors them. All Gaussian noise is composed as mu-GDP, which is tighter
than zCDP.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

import pymc_private as pmp
from benchmarks.noise_aware import DELTA, OUTER, non_private, posterior
from benchmarks.noise_aware_models import SCENARIOS, Scenario
from pymc_private.errors import PymcPrivateError
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores.clipped_scores import score_rows
from pymc_private.summaries.scores.symmetric import floor_eigenvalues

MODELS = ("logistic, correlation .8", "linear, n 1,000", "linear, n 5,000", "Poisson with offset")
REHEARSALS, REHEARSAL_SEED = 6, 7000
"""Simulated data sets on which rivals are tuned, and their first seed."""
STEPS, RATES = (5, 10, 20, 40, 80), (0.3, 1.0, 2.0)
CLIPPED_AT = (0.5, 0.9, 1.0)
"""Quantiles of the norms of simulated terms among which rivals choose their bounds."""
RADII, GRAM_SHARES = (2.0, 4.0, 8.0), (0.3, 0.6)
OUTCOME_SCALES = (0.35, 0.5, 1.0)
NORMAL_90 = 1.6448536269514722
LEAST_CURVATURE = 0.05
FURTHEST = 5.0
"""Gradient ascent stays within so many prior standard deviations."""
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A posterior mean and 90% intervals, each of shape (p,); None where there are none."""

    mean: np.ndarray
    ends: np.ndarray | None = None


def of_draws(found: WeightedDraws) -> Estimate:
    """From weighted draws."""
    return Estimate(found.mean, found.quantiles(list(OUTER)))


def of_normal(mean: np.ndarray, precision: np.ndarray) -> Estimate:
    """From a normal posterior."""
    half = NORMAL_90 * np.sqrt(np.diag(np.linalg.inv(precision)))
    return Estimate(mean, np.stack([mean - half, mean + half]))


@dataclass(frozen=True)
class Case:
    """A model at one epsilon, with what all methods know of it."""

    scenario: Scenario
    epsilon: float

    @cached_property
    def mu(self) -> float:
        return largest_mu(self.epsilon, DELTA)

    @cached_property
    def mechanism(self) -> Any:
        plan = make_summary_plan(
            self.scenario.private, epsilon=self.epsilon, delta=DELTA, method="scores"
        )
        return plan.mechanism

    @cached_property
    def density(self) -> RecordDensity:
        return RecordDensity(self.scenario.private)

    @property
    def parameters(self) -> Any:
        return self.mechanism.parameters

    @cached_property
    def prior_precision(self) -> np.ndarray:
        return np.linalg.inv(self.parameters.covariance)

    @cached_property
    def metric(self) -> np.ndarray:
        """W = M^(-1/2) at the prior mean, M the information of a record: public."""
        large = self.mechanism.design.large
        at = score_rows(self.mechanism.model, self.parameters.mean, large.rows)
        return at.metric(large.weights)[0]

    def simulated(self, theta: np.ndarray, rng: np.random.Generator) -> Arrays:
        """Records at a parameter vector."""
        natural = self.parameters.natural(theta[None])
        return self.scenario.simulate({name: v[0] for name, v in natural.items()}, rng)

    def scores(self, theta: np.ndarray, records: Arrays) -> np.ndarray:
        """Gradients of the log-likelihood of each record, shape (n, p)."""
        density, rows = self.density, records | self.density.public_rows
        y = np.asarray(records[density.outcome.name], float)[:, None]
        inner = density.scores(density.predictors(theta, rows), rows, y)[:, 0]
        return np.einsum("nk,nkp->np", inner, density.jacobian(theta, rows))

    def design(self, records: Arrays) -> np.ndarray:
        """Regressors in the order of the parameters, shape (n, p)."""
        x, slices = records["X"], self.parameters.slices
        z = np.zeros((len(x), self.parameters.size))
        z[:, slices["intercept"]] = 1.0
        z[:, slices["slopes"]] = x
        return z

    def rehearsals(self) -> list[tuple[Arrays, WeightedDraws]]:
        """Simulated data sets with their posteriors, other than those that are judged."""
        found = []
        for k, theta in enumerate(self.parameters.draws(REHEARSALS, REHEARSAL_SEED)):
            rng = np.random.default_rng([REHEARSAL_SEED, k])
            records = self.simulated(theta, rng)
            found.append((records, non_private(self.density, records, theta, rng)))
        return found


Method = Callable[[Arrays, np.random.Generator], dict[str, Estimate]]


# ---- the summary, and its last score read as if exact --------------------------------------------
def noisy_summary(case: Case, records: Arrays, rng: np.random.Generator) -> dict[str, Estimate]:
    """One release, read with and without its noise."""
    mechanism, parameters = case.mechanism, case.parameters
    released = mechanism.release(records, SimulatedNoise(rng))
    likelihood = mechanism.log_likelihood(released)
    found = posterior(likelihood, parameters.log_prior, mechanism.start(released), rng)
    metric, at = released["metrics"][-1], released["thetas"][-1]
    noisy = released["curvature"]
    least = LEAST_CURVATURE * np.trace(noisy) / len(noisy)
    prior = metric @ case.prior_precision @ metric
    curvature = floor_eigenvalues(noisy, max(least, 1e-9)) + prior
    pull = metric @ case.prior_precision @ (parameters.mean - at)
    mean = at + metric @ np.linalg.solve(curvature, released["scores"][-1] + pull)
    back = np.linalg.inv(metric)
    return {
        "noisy summary": of_draws(found),
        "same scores, noise ignored": of_normal(mean, back @ curvature @ back),
    }


# ---- gradient ascent -----------------------------------------------------------------------------
@dataclass(frozen=True)
class Ascent:
    """Numbers of gradient ascent: steps, clipping bound of a whitened score, rate."""

    steps: int
    bound: float
    rate: float

    def estimate(self, case: Case, records: Arrays, rng: np.random.Generator) -> np.ndarray:
        """The mean of the second half of the steps."""
        metric, prior = case.metric, case.prior_precision
        mean, sd = case.parameters.mean, np.sqrt(np.diag(case.parameters.covariance))
        n, noise = len(next(iter(records.values()))), SimulatedNoise(rng)
        curvature = n * np.eye(len(mean)) + metric @ prior @ metric
        theta, path = mean.copy(), []
        for _ in range(self.steps):
            whitened = case.scores(theta, records) @ metric
            gradient = noise.total([whitened], self.bound, False, case.mu / np.sqrt(self.steps))
            gradient = gradient + metric @ prior @ (mean - theta)
            theta = theta + self.rate * metric @ np.linalg.solve(curvature, gradient)
            theta = np.clip(theta, mean - FURTHEST * sd, mean + FURTHEST * sd)
            path.append(theta)
        return np.mean(path[self.steps // 2 :], axis=0)

    @classmethod
    def choices(cls, case: Case, records: Arrays) -> Iterator[Ascent]:
        """Settings to choose among; bounds from simulated records at the prior mean."""
        whitened = case.scores(case.parameters.mean, records) @ case.metric
        bounds = np.quantile(np.linalg.norm(whitened, axis=1), CLIPPED_AT)
        return itertools.starmap(cls, itertools.product(STEPS, bounds, RATES))


def ascent(case: Case, rehearsals: Any) -> Method:
    """Gradient ascent with the settings of least error on simulated data sets."""
    records = case.simulated(case.parameters.mean, np.random.default_rng(REHEARSAL_SEED))
    best = _best(case, list(Ascent.choices(case, records)), rehearsals)

    def method(records: Arrays, rng: np.random.Generator) -> dict[str, Estimate]:
        found = best.estimate(case, records, rng)
        scores = case.scores(found, records)
        estimate = of_normal(found, scores.T @ scores + case.prior_precision)
        return {f"gradient ascent ({best.steps} steps)": estimate}

    return method


def _best(case: Case, choices: Sequence[Any], rehearsals: Any) -> Any:
    """The choice whose estimates have the least median error."""

    def error(choice: Any) -> float:
        found = []
        for k, (records, exact) in enumerate(rehearsals):
            mean = choice.estimate(case, records, np.random.default_rng([REHEARSAL_SEED, k, 1]))
            found.append(np.sqrt(np.mean(((mean - exact.mean) / exact.sd) ** 2)))
        return float(np.nan_to_num(np.median(found), nan=np.inf))

    return min(choices, key=error)


# ---- noisy sufficient statistics, read as if exact -----------------------------------------------
def noisy_gram(
    rows: np.ndarray, bound: float, mu: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The sum of z z' for rows of squared norm up to `bound`, noisy, and its noise sd."""
    k = rows.shape[1]
    norms = (rows**2).sum(axis=1)
    rows = rows * np.sqrt(np.minimum(1.0, bound / np.maximum(norms, 1e-300)))[:, None]
    upper = np.triu_indices(k)
    scale = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    noise = SimulatedNoise(rng)
    total = noise.total([rows[:, upper[0]] * rows[:, upper[1]] * scale], bound, True, mu) / scale
    gram = np.zeros((k, k))
    gram[upper] = total
    return gram + np.triu(gram, 1).T, noise.sd(bound, True, mu, len(total))


@dataclass(frozen=True)
class LinearGram:
    """Z'Z of z = (x, y/kappa), |y| clipped at `largest`, for a linear regression with free sd."""

    bound: float
    largest: float
    kappa: float

    def posterior(self, case: Case, records: Arrays, rng: np.random.Generator) -> WeightedDraws:
        """The posterior if the noisy matrix were exact, raised to a positive one."""
        y = np.clip(records["y"], -self.largest, self.largest) / self.kappa
        slices, n = case.parameters.slices, len(y)
        keep = np.r_[slices["intercept"], slices["slopes"]]
        z = np.column_stack([case.design(records)[:, keep], y])
        bound = self.bound + (self.largest / self.kappa) ** 2
        gram, sd = noisy_gram(z, bound, case.mu, rng)
        gram = floor_eigenvalues(gram, sd)
        gram[-1] *= self.kappa
        gram[:, -1] *= self.kappa
        return self._exact(case, gram, keep, n, rng)

    @staticmethod
    def _exact(case: Case, gram: np.ndarray, keep: np.ndarray, n: int, rng: Any) -> WeightedDraws:
        """The posterior of exact sums."""
        sums, cross, square = gram[:-1, :-1], gram[:-1, -1], gram[-1, -1]
        parameters = case.parameters

        def log_density(theta: np.ndarray) -> np.ndarray:
            b, sigma = theta[:, keep], parameters.natural(theta)["sigma"]
            rest = square - 2.0 * b @ cross + np.einsum("si,ij,sj->s", b, sums, b)
            return parameters.log_prior(theta) - n * np.log(sigma) - rest / (2.0 * sigma**2)

        start, precision = parameters.mean.copy(), case.prior_precision.copy()
        start[keep] = np.linalg.solve(sums + 0.1 * np.eye(len(sums)), cross)
        variance = max((square - start[keep] @ cross) / n, 1e-4)
        start[parameters.slices["sigma"]] = 0.5 * np.log(variance)
        precision[np.ix_(keep, keep)] += sums / variance
        last = parameters.slices["sigma"]
        precision[last, last] += 2.0 * n
        return importance_draws(log_density, start, np.linalg.inv(precision), rng)

    def estimate(self, case: Case, records: Arrays, rng: np.random.Generator) -> np.ndarray:
        """The posterior mean."""
        return self.posterior(case, records, rng).mean

    @classmethod
    def choices(cls, case: Case, rehearsals: Any) -> list[LinearGram]:
        """Bounds of the outcome from simulated ones; of the covariates from their box."""
        y = np.concatenate([np.abs(records["y"]) for records, _ in rehearsals])
        bound = float(case.parameters.size - 1)  # the box is [-1, 1]
        ends = np.quantile(y, (0.9, 0.99, 1.0))
        return [cls(bound, top, top * s) for top, s in itertools.product(ends, OUTCOME_SCALES)]

    def read(self, case: Case, records: Arrays, rng: np.random.Generator) -> Estimate:
        """Mean and intervals."""
        return of_draws(self.posterior(case, records, rng))


@dataclass(frozen=True)
class LogisticQuadratic:
    """Sums of the quadratic approximation of a logistic log-likelihood on [-radius, radius]."""

    bound: float
    radius: float
    share: float

    @property
    def curvature(self) -> float:
        """The quadratic coefficient, fitted at Chebyshev points."""
        t = self.radius * np.cos(np.pi * (np.arange(200) + 0.5) / 200)
        return float(np.polynomial.Polynomial.fit(t, -np.logaddexp(0, -t), 2).convert().coef[2])

    def normal(
        self, case: Case, records: Arrays, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and precision of the posterior if the noisy sums were exact."""
        z = case.design(records)
        first, second = case.mu * np.sqrt(1 - self.share), case.mu * np.sqrt(self.share)
        gram, _ = noisy_gram(z, self.bound**2, second, rng)
        terms = (records["y"] - 0.5)[:, None] * z
        sums = SimulatedNoise(rng).total([terms], self.bound / 2, False, first)
        precision = case.prior_precision - 2.0 * self.curvature * floor_eigenvalues(gram, 0.0)
        pull = case.prior_precision @ case.parameters.mean
        return np.linalg.solve(precision, sums + pull), precision

    def estimate(self, case: Case, records: Arrays, rng: np.random.Generator) -> np.ndarray:
        """The posterior mean."""
        return self.normal(case, records, rng)[0]

    def read(self, case: Case, records: Arrays, rng: np.random.Generator) -> Estimate:
        """Mean and intervals."""
        return of_normal(*self.normal(case, records, rng))

    @classmethod
    def choices(cls, case: Case, rehearsals: Any) -> list[LogisticQuadratic]:
        """Bounds from norms of simulated rows."""
        z = np.concatenate([case.design(records) for records, _ in rehearsals])
        bounds = np.quantile(np.linalg.norm(z, axis=1), CLIPPED_AT)
        return list(itertools.starmap(cls, itertools.product(bounds, RADII, GRAM_SHARES)))


def statistics(case: Case, rehearsals: Any) -> Method | None:
    """Noisy sufficient statistics, where a model has some, with the settings of least error."""
    name = case.scenario.name
    kind: dict[str, Any] = {
        "linear": LinearGram,
        "logist": LogisticQuadratic,
        "Fair, ": LogisticQuadratic,
    }
    chosen = kind.get(name[:6])
    if chosen is None:
        return None
    best = _best(case, chosen.choices(case, rehearsals), rehearsals)
    return lambda records, rng: {
        "noisy sufficient statistics, noise ignored": best.read(case, records, rng)
    }


# ---- draws ---------------------------------------------------------------------------------------
def tempered(case: Case, draws: int) -> Method | None:
    """Draws of the posterior of `calibrate`'s plan, as an ideal sampler would give them."""
    private = case.scenario.private
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # of progress
            plan = pmp.calibrate(private, epsilon=case.epsilon, delta=DELTA, draws=draws)
    except PymcPrivateError as error:
        print(f"    no draws: {str(error).splitlines()[0]}", flush=True)
        return None
    power, region, density = float(plan.private.power), plan.private.region, case.density

    def inside(theta: np.ndarray) -> np.ndarray:
        natural, held = case.parameters.natural(theta), np.ones(len(theta), bool)
        for name, bounds in region.items():
            v = natural[name].reshape(len(theta), -1)
            low, high = (np.ravel(end) for end in (bounds.lower, bounds.upper))
            held &= ((low <= v) & (v <= high)).all(axis=1)
        return held

    def method(records: Arrays, rng: np.random.Generator) -> dict[str, Estimate]:
        y = np.asarray(records[density.outcome.name], float)[:, None]
        rows = records | density.public_rows

        def log_density(theta: np.ndarray) -> np.ndarray:
            parts = np.array_split(theta, 1 + theta.shape[0] * len(y) // 2_000_000)
            logs = np.concatenate([density.log_density(t, rows, y).sum((1, 2)) for t in parts])
            whole = power * logs + case.parameters.log_prior(theta)
            return np.where(inside(theta), whole, -np.inf)

        start = case.parameters.mean, case.parameters.covariance
        found = importance_draws(log_density, *start, rng, 800, climb=False)
        chosen = found.points[rng.choice(len(found.points), draws, p=found.weights)]
        ends = None if draws == 1 else np.quantile(chosen, OUTER, axis=0)
        title = "one draw" if draws == 1 else f"{draws} draws"
        return {f"{title} (power {power:.2g})": Estimate(chosen.mean(axis=0), ends)}

    return method


# ---- the table -----------------------------------------------------------------------------------
def methods_of(case: Case, draws_alone: bool = False) -> list[Method]:
    """All methods for a model, rivals tuned; or draws alone."""
    found = [tempered(case, 10), tempered(case, 1)]
    if not draws_alone:
        rehearsals = case.rehearsals()
        rivals = [statistics(case, rehearsals), ascent(case, rehearsals)]
        found = [partial(noisy_summary, case), *rivals, *found]
    return [method for method in found if method is not None]


@dataclass
class Row:
    """Results of one method so far, one entry per repetition."""

    errors: list[float]
    widths: list[np.ndarray]
    held: list[float]

    def __str__(self) -> str:
        root = float(np.sqrt(np.mean(np.square(self.errors))))
        n = len(self.errors)
        # of a root mean square, by the delta method
        spread = np.std(np.square(self.errors), ddof=1) / (2 * root * np.sqrt(n))
        text = f"error {root:6.2f}±{spread:.2f}  median {np.median(self.errors):6.2f}"
        if self.held:
            coverage, error = np.mean(self.held), np.std(self.held, ddof=1) / np.sqrt(n)
            text += f"  width {np.median(self.widths):6.2f}  coverage {coverage:.3f}±{error:.3f}"
        return text


def measure(
    case: Case, repetitions: int, seed: int = 0, draws_alone: bool = False
) -> dict[str, Row]:
    """All methods, or draws alone, on the same simulated data sets."""
    methods = methods_of(case, draws_alone)
    rows: dict[str, Row] = {}
    for k, theta in enumerate(case.parameters.draws(repetitions, 1000 + seed)):
        rng = np.random.default_rng([seed, k])
        records = case.simulated(theta, rng)
        exact = non_private(case.density, records, theta, rng)
        span = np.ptp(exact.quantiles(list(OUTER)), axis=0)
        for method in methods:
            for name, found in method(records, rng).items():
                row = rows.setdefault(name, Row([], [], []))
                away = (found.mean - exact.mean) / exact.sd
                row.errors.append(float(np.sqrt(np.mean(away**2))))
                if found.ends is not None:
                    low, high = found.ends
                    row.widths.append((high - low) / span)
                    row.held.append(float(np.mean((low <= theta) & (theta <= high))))
    return rows


def main(
    repetitions: int = 30,
    epsilons: Sequence[float] = (1.0,),
    parts: Any = (),
    draws_alone: bool = False,
) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    names = [n for n in SCENARIOS if any(part in n for part in parts)] if parts else MODELS
    for name, epsilon in itertools.product(names, epsilons):
        start = time.process_time()
        case = Case(SCENARIOS[name](), epsilon)
        rows = measure(case, repetitions, draws_alone=draws_alone)
        seconds = time.process_time() - start
        print(f"{name}, epsilon {epsilon:g} ({seconds:.0f} s of CPU)", flush=True)
        for method, row in rows.items():
            print(f"    {method:44} {row}", flush=True)


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--draws"]
    main(
        int(given[0]) if given else 30,
        [float(e) for e in given[1].split(",")] if len(given) > 1 else (1.0,),
        given[2:],
        "--draws" in sys.argv,
    )
