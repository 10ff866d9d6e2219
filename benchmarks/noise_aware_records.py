"""Noisy summaries of records with several answers: error, width and coverage of their posteriors.

Run ``python -m benchmarks.noise_aware_records [simulations] [epsilons] [part of a name] ...``, for
example ``python -m benchmarks.noise_aware_records 40 0.5,1,2 Rasch``. Columns and options are those
of `benchmarks.noise_aware`; ``python -m benchmarks.noise_aware_coverage --records FILE`` adds what
``--save FILE`` wrote to the stored table. Records are simulated by NumPy code of this file, not by
the generator that the summaries use themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit

import pymc_private as pmp
from benchmarks import noise_aware
from pymc_private.summaries.importance import WeightedDraws, importance_draws

EXACT_DRAWS, EXACT_ROUNDS = 600, 5
LARGEST_BATCH = 2_000_000
Point = dict[str, np.ndarray]
Generator = np.random.Generator


@dataclass(frozen=True)
class Scenario:
    """A model, what its records may be, and how they are simulated at parameters."""

    build: Callable[[], pm.Model]
    domain: Any
    answers: Callable[[Point, Generator], np.ndarray]
    public: tuple[str, ...] = ()

    @cached_property
    def private(self) -> pmp.PrivateModel:
        """The declared model."""
        return pmp.privatize(
            self.build(), records={"y": 0}, domain={"y": self.domain}, public=self.public
        )

    def simulate(self, at: Point, rng: Generator) -> dict[str, np.ndarray]:
        """Records at parameters, within their domain."""
        source = self.private.sources[0]
        y = source.domain.clip(np.asarray(self.answers(at, rng)), 0)
        return {"y": np.asarray(y).astype(source.dtype)}


def lower(packed: np.ndarray, d: int) -> np.ndarray:
    """A Cholesky factor from its packed form."""
    factor = np.zeros((d, d))
    factor[np.tril_indices(d)] = packed
    return factor


def normals(mean: np.ndarray, factor: np.ndarray, n: int, rng: Generator) -> np.ndarray:
    """Rows of a multivariate normal distribution."""
    return mean + rng.standard_normal((n, len(factor))) @ factor.T


def gaussian(n: int, d: int) -> Scenario:
    """Multivariate normal, LKJ prior: 2 d + d (d - 1) / 2 parameters."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mu = pm.Normal("mu", 0, 1, shape=d)
            scale = pm.HalfNormal.dist(1.0, size=d)
            chol, *_ = pm.LKJCholeskyCov("chol", n=d, eta=2.0, sd_dist=scale)
            pm.MvNormal("y", mu, chol=chol, observed=np.zeros((n, d)))
        return model

    return Scenario(
        build, (-12, 12), lambda at, rng: normals(at["mu"], lower(at["chol"], d), n, rng)
    )


def bivariate(n: int) -> Scenario:
    """Two outcomes with a correlation: 5 parameters."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mu, sd = pm.Normal("mu", 0, 1, shape=2), pm.HalfNormal("sd", 1, shape=2)
            cross = pm.Uniform("rho", -1, 1) * sd[0] * sd[1]
            cov = pt.stack([pt.stack([sd[0] ** 2, cross]), pt.stack([cross, sd[1] ** 2])])
            pm.MvNormal("y", mu, cov=cov, observed=np.zeros((n, 2)))
        return model

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        shape = np.array([[1.0, 0.0], [at["rho"], np.sqrt(1.0 - at["rho"] ** 2)]])
        return normals(at["mu"], at["sd"][:, None] * shape, n, rng)

    return Scenario(build, (-12, 12), simulate)


def dirichlet_multinomial(n: int, k: int = 5, total: int = 20) -> Scenario:
    """Counts of k kinds out of a total."""

    def build() -> pm.Model:
        with pm.Model() as model:
            start = np.tile(np.eye(1, k, dtype=int) * total, (n, 1))
            a = pm.LogNormal("a", 0, 1, shape=k)
            pm.DirichletMultinomial("y", n=total, a=a, observed=start)
        return model

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        shares = np.maximum(rng.dirichlet(at["a"], n), 1e-12)
        return rng.multinomial(total, shares / shares.sum(axis=1, keepdims=True))

    return Scenario(build, pmp.Counts(total), simulate)


def item_response(n: int, items: int = 10, slopes: bool = False, points: int = 21) -> Scenario:
    """Rasch (1960), or with a slope for each item; abilities integrated out."""

    def build() -> pm.Model:
        with pm.Model() as model:
            ability = pm.Normal("ability", 0, 1, shape=n)[:, None]
            a = pm.LogNormal("a", 0, 0.5, shape=items) if slopes else 1.0
            eta = a * ability - pm.Normal("hard", 0, 1, shape=items)
            zeros = np.zeros((n, items), int)
            pm.Bernoulli("y", logit_p=eta, observed=zeros)
        return pmp.marginalize(model, "ability", points=points)

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        eta = at.get("a", 1.0) * rng.standard_normal((n, 1)) - at["hard"]
        return (rng.random((n, items)) < expit(eta)).astype(int)

    return Scenario(build, {0, 1}, simulate)


def graded(n: int, items: int = 5, levels: int = 4) -> Scenario:
    """Graded answers (Samejima 1969) with common cuts; abilities integrated out."""

    def build() -> pm.Model:
        with pm.Model() as model:
            ability = pm.Normal("ability", 0, 1, shape=n)[:, None]
            first = pm.Normal("first", -1, 1)
            gaps = pm.LogNormal("gaps", 0, 0.5, shape=levels - 2)
            cuts = pt.concatenate([first[None], first + pt.cumsum(gaps)])
            hard = pm.Normal("hard", 0, 1, shape=items - 1)
            eta = ability - pt.concatenate([np.zeros(1), hard])
            below = pm.math.sigmoid(cuts - eta[..., None])
            ends = pt.zeros_like(below[..., :1])
            shares = pt.diff(pt.concatenate([ends, below, ends + 1.0], axis=-1), axis=-1)
            zeros = np.zeros((n, items), int)
            pm.Categorical("y", p=shares, observed=zeros)
        return pmp.marginalize(model, "ability", points=21)

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        cuts = np.r_[at["first"], at["first"] + np.cumsum(at["gaps"])]
        eta = rng.standard_normal((n, 1)) - np.r_[0.0, at["hard"]]
        below = expit(cuts - eta[..., None])
        return (rng.random((n, items, 1)) > below).sum(axis=-1)

    return Scenario(build, set(range(levels)), simulate)


def autoregression(n: int, times: int = 8) -> Scenario:
    """A stationary AR(1) for each person."""

    def build() -> pm.Model:
        with pm.Model() as model:
            mu, s, rho = pm.Normal("mu", 0, 1), pm.HalfNormal("s", 1), pm.Uniform("rho", -1, 1)
            pm.AR(
                "y",
                rho=pt.stack([mu * (1 - rho), rho]),
                sigma=s,
                constant=True,
                init_dist=pm.Normal.dist(mu, s / pt.sqrt(1 - rho**2)),
                observed=np.zeros((n, times)),
            )
        return model

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        y = np.empty((n, times))
        y[:, 0] = rng.standard_normal(n) / np.sqrt(1 - at["rho"] ** 2)
        for t in range(1, times):
            y[:, t] = at["rho"] * y[:, t - 1] + rng.standard_normal(n)
        return at["mu"] + at["s"] * y

    return Scenario(build, (-25, 25), simulate)


def random_walk(n: int, times: int = 6) -> Scenario:
    """A Gaussian random walk for each person, observed with noise."""
    steps = np.minimum.outer(np.arange(1, times + 1), np.arange(1, times + 1)).astype(float)

    def build() -> pm.Model:
        with pm.Model() as model:
            s, tau = pm.HalfNormal("s", 1), pm.HalfNormal("tau", 1)
            cov = tau**2 * steps + s**2 * np.eye(times)
            mean = pm.Normal("mu", 0, 1) * np.ones(times)
            pm.MvNormal("y", mean, cov=cov, observed=np.zeros((n, times)))
        return model

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        walk = at["tau"] * rng.standard_normal((n, times)).cumsum(axis=1)
        return at["mu"] + walk + at["s"] * rng.standard_normal((n, times))

    return Scenario(build, (-25, 25), simulate)


def hidden_chain(n: int, times: int = 6) -> Scenario:
    """A chain of two hidden states for each person, observed with noise: 5 parameters."""

    def logp(y: Any, first: Any, gap: Any, s: Any, stay: Any, _: Any) -> Any:
        means, s = pt.stack([first, first + gap], axis=-1)[..., None, :], s[..., None, None]
        each = -0.5 * ((y[..., None] - means) / s) ** 2 - pt.log(s) - 0.5 * np.log(2 * np.pi)
        kept = pt.log(stay)[..., :, None] * np.eye(2)
        moves = kept + pt.log1p(-stay)[..., :, None] * (1 - np.eye(2))
        ahead = np.log(0.5) + each[..., 0, :]
        for t in range(1, times):
            ahead = pt.logsumexp(ahead[..., :, None] + moves, axis=-2) + each[..., t, :]
        return pt.logsumexp(ahead, axis=-1)

    def chains(first: Any, gap: Any, s: Any, stay: Any, rng: Generator, size: Any) -> np.ndarray:
        rows = int(np.prod(size)) if size is not None else 1
        state = rng.integers(0, 2, rows)
        y = np.empty((rows, times))
        for t in range(times):
            y[:, t] = first + gap * state + s * rng.standard_normal(rows)
            state = np.where(rng.random(rows) < np.asarray(stay)[state], state, 1 - state)
        return y.reshape(*(() if size is None else np.atleast_1d(size)), times)

    def build() -> pm.Model:
        with pm.Model() as model:
            first, gap = pm.Normal("first", -1, 0.7), pm.LogNormal("gap", 0.7, 0.3)
            s, stay = pm.LogNormal("s", -0.4, 0.3), pm.Beta("stay", 6, 2, shape=2)
            zeros = np.zeros((n, times))
            made = {"logp": logp, "random": random, "signature": "(),(),(),(k),(t)->(t)"}
            pm.CustomDist("y", first, gap, s, stay, zeros[0], **made, observed=zeros)
        return model

    def random(*given: Any, rng: Any = None, size: Any = None) -> np.ndarray:
        first, gap, s = (np.ravel(v)[0] for v in given[:3])
        return chains(first, gap, s, np.ravel(given[3])[:2], rng, size)

    def answers(at: Point, rng: Generator) -> np.ndarray:
        return chains(at["first"], at["gap"], at["s"], at["stay"], rng, n)

    return Scenario(build, (-12, 12), answers)


def random_slopes(n: int, times: int = 5, kinds: int = 1) -> Scenario:
    """Intercepts and slopes of persons over public times, the same for all or of several kinds."""
    shared = np.linspace(0, 1, times)[None]
    grid = shared if kinds == 1 else np.random.default_rng(7).uniform(0, 1, (kinds, times))
    each = grid[np.arange(n) % kinds]

    def build() -> pm.Model:
        with pm.Model() as model:
            b, s = pm.Normal("b", 0, 1, shape=2), pm.HalfNormal("s", 1)
            tau, r = pm.HalfNormal("tau", 1, shape=2), pm.Beta("r", 2, 2)
            t = grid[0] if kinds == 1 else pm.Data("t", each)
            left, right = t[..., :, None], t[..., None, :]
            cross = (2 * r - 1) * tau[0] * tau[1] * (left + right)
            cov = tau[0] ** 2 + cross + tau[1] ** 2 * left * right + s**2 * np.eye(times)
            zeros = np.zeros((n, times))
            pm.MvNormal("y", b[0] + b[1] * t, cov=cov, observed=zeros)
        return model

    def simulate(at: Point, rng: Generator) -> np.ndarray:
        rho = 2 * at["r"] - 1
        raw = rng.standard_normal((2, n, 1))
        second = rho * raw[0] + np.sqrt(1 - rho**2) * raw[1]
        mean = at["b"][0] + at["tau"][0] * raw[0] + (at["b"][1] + at["tau"][1] * second) * each
        return mean + at["s"] * rng.standard_normal((n, times))

    return Scenario(build, (-25, 25), simulate, () if kinds == 1 else ("t",))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "normal, d 3, n 1,000": partial(gaussian, 1000, 3),
    "normal, d 3, n 5,000": partial(gaussian, 5000, 3),
    "normal, d 5, n 1,000": partial(gaussian, 1000, 5),
    "normal, d 5, n 5,000": partial(gaussian, 5000, 5),
    "bivariate, n 500": partial(bivariate, 500),
    "Dirichlet-multinomial, n 500": partial(dirichlet_multinomial, 500),
    "Dirichlet-multinomial, n 2,000": partial(dirichlet_multinomial, 2000),
    "Rasch, n 500": partial(item_response, 500),
    "Rasch, n 2,000": partial(item_response, 2000),
    "2PL, 6 items, n 1,000": partial(item_response, 1000, 6, slopes=True),
    "2PL, n 500": partial(item_response, 500, slopes=True),
    "2PL, n 2,000": partial(item_response, 2000, slopes=True),
    "graded, n 500": partial(graded, 500),
    "AR(1), n 500": partial(autoregression, 500),
    "AR(1), n 2,000": partial(autoregression, 2000),
    "random walk, n 500": partial(random_walk, 500),
    "hidden chain, n 1,000": partial(hidden_chain, 1000),
    "random slopes, n 500": partial(random_slopes, 500),
    "random slopes, 20 kinds of times, n 500": partial(random_slopes, 500, kinds=20),
}


def non_private(mechanism: Any, records: Any, theta: np.ndarray, rng: Generator) -> WeightedDraws:
    """The posterior of the records, from the true parameters and the curvature there."""
    density, parameters = mechanism.model.density, mechanism.parameters
    n = len(next(iter(records.values())))
    kinds = density.kinds if density.kind_rows else np.zeros(n, dtype=int)

    def target(points: np.ndarray) -> np.ndarray:
        parts = np.array_split(points, 1 + len(points) * n // LARGEST_BATCH)
        logs = [density.log_density(part, records, kinds).sum(axis=1) for part in parts]
        return np.concatenate(logs) + parameters.log_prior(points)

    each = density.at(theta).scores(records, kinds)
    covariance = np.linalg.inv(each.T @ each + np.linalg.inv(parameters.covariance))
    return importance_draws(target, theta, covariance, rng, EXACT_DRAWS, rounds=EXACT_ROUNDS)


class RecordStudy(noise_aware.Study):
    """One model at one epsilon, by pooled scores of records."""

    def __init__(self, scenario: Scenario, epsilon: float, compared: float = np.inf) -> None:
        super().__init__(scenario, epsilon, "records", compared)

    def exact(self, records: Any, theta: np.ndarray, rng: Generator) -> WeightedDraws:
        """The posterior of the records."""
        return non_private(self.plan.mechanism, records, theta, rng)


if __name__ == "__main__":
    noise_aware.main(SCENARIOS, RecordStudy)
