"""The posterior of a summary beside the exact one, by Markov chains over the records themselves.

The gold standard of Ju, Awan, Gong and Rao (2022): parameters and all records are sampled, given
what was released. Each sweep proposes every record anew, from a fixed distribution q, accepted by
the ratio of p(record | parameters) / q(record) and of the normal densities of the noise of all
stages; then parameters move given the records. Nothing is approximated but by the chain's length:
not the distribution of scores, nor that of covariates. A stage depends on the data by its noisy sum
alone, so that terms of proposals are those of a release told anew with the sums that were released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st

import pymc_private as pmp
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import CHUNK, chunks_of
from pymc_private.summaries.record_table import ArrayRecords
from tests.summaries.posterior_distances import LEVELS, near
from tests.summaries.replayed_releases import Recorded, Replay

N, SWEEPS, WARMUP, MOVES = 150, 4000, 500, 4
RELEASES = 2
WIDER = 1.5
"""How much wider a proposal is than the law of a record."""
Arrays = dict[str, np.ndarray]


# ---- models, their records and proposals of these ------------------------------------------------
@dataclass(frozen=True)
class Law:
    """A model with the density of a record, its simulation and a wider proposal.

    Attributes
    ----------
    declare : callable
        The private model of N records.
    log_density : callable
        Natural parameters and records to log p(y | x), shape (n,).
    draw : callable
        Natural parameters, how much wider, number and generator to records, with log q(y | x) less
        than a constant. Covariates are uniform on [-1, 1], in the proposal as in the model.
    epsilon : float
        At which noise leaves the curvature of so few records determined.
    limit : float
        How near posteriors must be (`near`). Those of counts are wider than the exact ones, sds by
        a quarter on average: of 150 records scores are skewed, and the noise of bounds large.
    """

    declare: Callable[[], pmp.PrivateModel]
    log_density: Callable[[Any, Arrays], np.ndarray]
    draw: Callable[[Any, float, int, Any], tuple[Arrays, np.ndarray]]
    epsilon: float
    limit: float = 0.2


def declared(observe: Callable[[Any], Any], covariate: bool, y: np.ndarray) -> pmp.PrivateModel:
    """A model of N records in wide domains; `observe(x, y)` states parameters and likelihood."""
    with pm.Model(coords={"row": range(N)}) as model:
        observe(pm.Data("x", np.zeros(N), dims="row") if covariate else None, y)
    domain = {"y": (0, 200) if y.dtype.kind == "i" else (-9.0, 9.0)}
    domain |= {"x": (-1.0, 1.0)} if covariate else {}
    return pmp.privatize(model, records="row", domain=domain)


def observe_normal(x: Any, y: np.ndarray) -> None:
    center = pm.Normal("a", 0, 1)
    center = center if x is None else center + pm.Normal("b", 0, 1) * x
    pm.Normal("y", center, pm.LogNormal("sd", -0.3, 0.4), observed=y, dims="row")


def observe_poisson(x: Any, y: np.ndarray) -> None:
    eta = pm.Normal("a", 0.5, 0.7) + pm.Normal("b", 0, 0.7) * x
    pm.Poisson("y", pm.math.exp(eta), observed=y, dims="row")


def center_of(at: Any, records: Arrays) -> Any:
    return at["a"] + (at["b"] * records["x"] if "x" in records else 0.0)


def covariates(covariate: bool, count: int, rng: Any) -> Arrays:
    return {"x": rng.uniform(-1, 1, count)} if covariate else {}


def normal_density(at: Any, records: Arrays) -> np.ndarray:
    away = (records["y"] - center_of(at, records)) / at["sd"]
    return np.asarray(-0.5 * away**2 - np.log(at["sd"]))


def draw_normal(covariate: bool) -> Callable[..., tuple[Arrays, np.ndarray]]:
    def draw(at: Any, wider: float, count: int, rng: Any) -> tuple[Arrays, np.ndarray]:
        records = covariates(covariate, count, rng)
        scale = wider * at["sd"]
        y = center_of(at, records) + scale * rng.standard_normal(count)
        found = records | {"y": np.clip(y, -9.0, 9.0)}
        return found, normal_density(dict(at) | {"sd": scale}, found)

    return draw


def poisson_density(at: Any, records: Arrays) -> np.ndarray:
    eta = center_of(at, records)
    return np.asarray(st.poisson.logpmf(records["y"], np.exp(eta)))


def draw_poisson(at: Any, wider: float, count: int, rng: Any) -> tuple[Arrays, np.ndarray]:
    """Poisson, or negative binomial where it is to be wider."""
    records = covariates(True, count, rng)
    mean = np.exp(center_of(at, records))
    if wider == 1.0:
        return records | {"y": rng.poisson(mean)}, np.zeros(count)
    size = 1.0 / (wider - 1.0)
    y = st.nbinom.rvs(size, size / (size + mean), random_state=rng)
    found = records | {"y": np.minimum(y, 200)}
    return found, np.asarray(st.nbinom.logpmf(found["y"], size, size / (size + mean)))


LAWS = {
    "normal": Law(
        lambda: declared(observe_normal, False, np.zeros(N)),
        normal_density,
        draw_normal(False),
        1.0,
    ),
    "linear": Law(
        lambda: declared(observe_normal, True, np.zeros(N)), normal_density, draw_normal(True), 4.0
    ),
    "Poisson": Law(
        lambda: declared(observe_poisson, True, np.zeros(N, int)),
        poisson_density,
        draw_poisson,
        12.0,
        0.3,
    ),
}


# ---- the chain -----------------------------------------------------------------------------------
@dataclass
class Chain:
    """Parameters and records given what was released.

    Attributes
    ----------
    law : Law
    parameters : ParameterVector
    theta : ndarray, (p,)
    records : dict of arrays of N records
    residual : ndarray, (k,)
        All noisy sums less those of the records, in standard deviations of the noise.
    terms : ndarray, (N, k)
        What each record adds to the sums, in the same units.
    log_q : ndarray, (N,)
        Log densities of the proposal at the records.
    steps : ndarray, (p, p)
        A root of the covariance of moves of the parameters.
    """

    law: Law
    parameters: Any
    theta: np.ndarray
    records: Arrays
    residual: np.ndarray
    terms: np.ndarray
    log_q: np.ndarray
    steps: np.ndarray

    def natural(self, theta: np.ndarray) -> Arrays:
        return natural_at(self.parameters, theta)

    def move_records(self, offered: Arrays, terms: np.ndarray, log_q: np.ndarray, rng: Any) -> int:
        """Offer each record another, one after the other."""
        at = self.natural(self.theta)
        gain = self.law.log_density(at, offered) - log_q
        gain -= self.law.log_density(at, self.records) - self.log_q
        limits, changes, accepted = np.log(rng.random(N)), terms - self.terms, []
        for i, change in enumerate(changes):
            moved = self.residual - change
            noise = 0.5 * (self.residual @ self.residual - moved @ moved)
            if limits[i] < gain[i] + noise:
                self.residual = moved
                accepted.append(i)
        for name, values in offered.items():
            self.records[name][accepted] = values[accepted]
        self.terms[accepted], self.log_q[accepted] = terms[accepted], log_q[accepted]
        return len(accepted)

    def move_parameters(self, rng: Any) -> None:
        """Some random-walk steps given the records."""

        def log_density(theta: np.ndarray) -> float:
            found = self.law.log_density(self.natural(theta), self.records).sum()
            return float(found + self.parameters.log_prior(theta[None])[0])

        here = log_density(self.theta)
        for _ in range(MOVES):
            offered = self.theta + self.steps @ rng.standard_normal(len(self.theta))
            there = log_density(offered)
            if np.log(rng.random()) < there - here:
                self.theta, here = offered, there


def natural_at(parameters: Any, theta: np.ndarray) -> Arrays:
    return {name: values[0] for name, values in parameters.natural(theta[None]).items()}


class Offered(ArrayRecords):
    """Many proposals that are read as if they were N records: their terms are those of records."""

    def __len__(self) -> int:
        return N

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        return chunks_of(self.arrays, len(self.arrays["y"]), size)

    def chunk_size(self, relation: str, large: int = CHUNK) -> int:
        return large


def terms_of(mechanism: Any, noise: Recorded, records: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Terms of records in units of the noise, shape (n, k), and the noisy sums, shape (k,)."""
    replay = Replay(noise.given, len(records["y"]))
    mechanism.release(Offered(records), replay)
    terms = np.concatenate([stage.terms / stage.sd for stage in replay.stages], axis=1)
    return terms, np.concatenate([np.ravel(s.noisy) / s.sd for s in replay.stages])


def root_of_moves(law: Law, parameters: Any, theta: np.ndarray, records: Arrays) -> np.ndarray:
    """A root of the posterior covariance of records, times 2.4 / sqrt(p)."""
    shifts = 1e-4 * np.eye(len(theta))
    scores = np.stack(
        [
            law.log_density(natural_at(parameters, theta + shift), records)
            - law.log_density(natural_at(parameters, theta - shift), records)
            for shift in shifts
        ],
        axis=1,
    )
    precision = (scores / 2e-4).T @ (scores / 2e-4) + np.linalg.inv(parameters.covariance)
    return 2.4 / np.sqrt(len(theta)) * np.linalg.cholesky(np.linalg.inv(precision))


def exact_draws(
    law: Law, mechanism: Any, noise: Recorded, theta: np.ndarray, rng: Any
) -> np.ndarray:
    """Draws of the parameters given a release; the chain starts and proposes near `theta`."""
    parameters, at = mechanism.parameters, natural_at(mechanism.parameters, theta)
    pool, log_q = law.draw(at, WIDER, N * (SWEEPS + 1), rng)
    terms, noisy = terms_of(mechanism, noise, pool)
    first = {name: values[:N].copy() for name, values in pool.items()}
    steps = root_of_moves(law, parameters, theta, law.draw(at, 1.0, N, rng)[0])
    chain = Chain(
        law,
        parameters,
        theta,
        first,
        noisy - terms[:N].sum(axis=0),
        terms[:N].copy(),
        log_q[:N].copy(),
        steps,
    )
    draws = np.empty((SWEEPS, len(theta)))
    for k in range(SWEEPS):
        rows = slice(N * (k + 1), N * (k + 2))
        offered = {name: values[rows] for name, values in pool.items()}
        chain.move_records(offered, terms[rows], log_q[rows], rng)
        chain.move_parameters(rng)
        draws[k] = chain.theta
    return draws[WARMUP:]


# ---- two posteriors ------------------------------------------------------------------------------
def distances(ours: WeightedDraws, exact: np.ndarray) -> np.ndarray:
    """Distances of means, log ratios of sds, most error in probability of a quantile: (p, 3)."""
    mean, sd = exact.mean(axis=0), exact.std(axis=0)
    below = (exact < ours.quantiles(list(LEVELS))[:, None, :]).mean(axis=1)
    wrong = np.abs(below - LEVELS[:, None]).max(axis=0)
    return np.abs(np.stack([(ours.mean - mean) / sd, np.log(ours.sd / sd), wrong], axis=1))


def compared(law: Law, mechanism: Any, seed: int, powers: tuple[float, ...]) -> list[np.ndarray]:
    """Distances from the exact posterior of one release, of the likelihood to some powers."""
    rng, noise, parameters = np.random.default_rng(seed), Recorded(seed), mechanism.parameters
    at = natural_at(parameters, parameters.draws(1, seed)[0])
    released = mechanism.release(law.draw(at, 1.0, N, rng)[0], noise)
    likelihood = mechanism.log_likelihood(released)
    found = [
        importance_draws(
            lambda t, c=power: c * likelihood(t) + parameters.log_prior(t),
            *mechanism.start(released),
            np.random.default_rng(seed),
            4000,
        )
        for power in powers
    ]
    exact = exact_draws(law, mechanism, noise, found[0].mean, rng)
    return [distances(one, exact) for one in found]


@pytest.mark.audit
@pytest.mark.parametrize("name", LAWS)
def test_the_posterior_is_that_of_chains_over_the_records(name):
    law = LAWS[name]
    plan = pmp.calibrate(
        law.declare(), epsilon=law.epsilon, delta=1e-6, release="summary", method="scores"
    )
    found = [compared(law, plan.mechanism, seed, (1.0, 2.5)) for seed in range(RELEASES)]
    ours, too_sure = (np.array(each) for each in zip(*found, strict=True))
    assert near(ours, law.limit), ours.mean(axis=(0, 1))
    assert not near(too_sure, law.limit), too_sure.mean(axis=(0, 1))
