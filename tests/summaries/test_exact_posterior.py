"""The posterior of a summary beside the exact one, which sums over all data sets.

Where a record is one of a few types (an answer of 0 or 1, with a group of 0 or 1), a summary
depends on the data by the numbers of records of each type alone. So its exact likelihood is a
finite sum over these numbers, of their probability times the density of the noise of each stage:
no central limit, no approximation of the covariates' distribution. Terms of a type are found by
replaying the release on records of that type, with the noisy sums that were released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy

import pymc_private as pmp
from pymc_private.summaries.sums.sum_mechanism import SumMechanism
from tests.summaries.posterior_distances import LEVELS, near
from tests.summaries.replayed_releases import Recorded, Replay, Stage

N, RELEASES = 200, 6
ETA = np.linspace(-5.0, 5.0, 121)
"""Log odds of an answer in each of two groups."""


# ---- terms of each type of record --------------------------------------------------------------
def stages_of(
    mechanism: Any, noise: Recorded, types: list[tuple[dict[str, np.ndarray], int]]
) -> list[Stage]:
    """The stages of a release with a row of terms for each type: one record among some."""
    replays = []
    for records, place in types:
        replay = Replay(noise.given, N)
        mechanism.release(records, replay)
        replays.append([(stage, stage.terms[place]) for stage in replay.stages])
    return [
        Stage(each[0][0].noisy, each[0][0].sd, np.stack([terms for _, terms in each]))
        for each in zip(*replays, strict=True)
    ]


def log_noise(stages: list[Stage], counts: np.ndarray) -> np.ndarray:
    """Log density of all noise, up to a constant, at numbers of records of each type (..., t)."""
    size = counts.shape[-1]
    square, linear, found = np.zeros((size, size)), np.zeros(size), np.zeros(counts.shape[:-1])
    for stage in stages:
        if stage.is_laplace:
            found = found - np.abs(counts @ stage.terms - stage.noisy).sum(axis=-1) / stage.sd
            continue
        square += stage.terms @ stage.terms.T / stage.sd**2
        linear += stage.terms @ stage.noisy / stage.sd**2
    return found + counts @ linear - 0.5 * ((counts @ square) * counts).sum(axis=-1)


# ---- exact likelihoods on a grid ---------------------------------------------------------------
def binomials(n: int) -> np.ndarray:
    """Probabilities of 0, ..., n answers of 1 at each log odds: shape (grid, n + 1)."""
    return scipy.stats.binom.pmf(np.arange(n + 1), n, scipy.special.expit(ETA)[:, None])


def two_groups(stages: list[Stage], sizes: Sequence[int]) -> np.ndarray:
    """Likelihood at (log odds in group 0, in group 1); types (group, answer): 00, 01, 10, 11.

    `sizes` are the possible numbers of records in group 1, equally probable: a uniform prior on the
    share of the group makes them so.
    """
    parts = []
    for n1 in sizes:
        k0, k1 = np.meshgrid(np.arange(N - n1 + 1.0), np.arange(n1 + 1.0), indexing="ij")
        parts.append(log_noise(stages, np.stack([N - n1 - k0, k0, n1 - k1, k1], axis=-1)))
    most = max(part.max() for part in parts)
    return sum(
        binomials(N - n1) @ np.exp(part - most) @ binomials(n1).T
        for n1, part in zip(sizes, parts, strict=True)
    )


def one_group(stages: list[Stage], answers: int) -> np.ndarray:
    """Likelihood at log odds; types: the number of ones among a record's answers."""
    p = scipy.special.expit(ETA)[:, None]
    of_type = scipy.stats.binom.pmf(np.arange(answers + 1), answers, p)
    counts = np.stack(np.meshgrid(*[np.arange(N + 1.0)] * answers, indexing="ij"), axis=-1)
    counts = counts.reshape(-1, answers)
    counts = counts[counts.sum(axis=1) <= N]
    counts = np.column_stack([N - counts.sum(axis=1), counts])
    log_noises = log_noise(stages, counts)
    ways = scipy.special.gammaln(N + 1) - scipy.special.gammaln(counts + 1).sum(axis=1)
    return np.exp(ways + log_noises - log_noises.max() + np.log(of_type) @ counts.T).sum(axis=1)


# ---- two posteriors on a grid ------------------------------------------------------------------
class Marginal:
    """A parameter on a grid, with weights."""

    def __init__(self, values: np.ndarray, log_weights: np.ndarray) -> None:
        self.values, places = np.unique(np.round(values, 9), return_inverse=True)
        weights = np.bincount(places.ravel(), np.exp(log_weights - log_weights.max()))
        self.weights = weights / weights.sum()
        self.heights = np.cumsum(self.weights) - 0.5 * self.weights
        self.mean = float(self.values @ self.weights)
        self.sd = float(np.sqrt((self.values - self.mean) ** 2 @ self.weights))


def distances(ours: Marginal, exact: Marginal) -> tuple[float, float, float]:
    """Distance of means in exact sds, log ratio of sds, most error in probability of a quantile."""
    ends = np.interp(LEVELS, ours.heights, ours.values)
    wrong = np.abs(np.interp(ends, exact.values, exact.heights) - LEVELS).max()
    return (ours.mean - exact.mean) / exact.sd, float(np.log(ours.sd / exact.sd)), float(wrong)


# ---- models of a few types of record -----------------------------------------------------------
def groups(public: bool) -> pmp.PrivateModel:
    """Answers in two groups, by logistic regression."""
    with pm.Model(coords={"person": range(N)}) as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        x = pm.Data("x", np.arange(N) % 2, dims="person")
        pm.Bernoulli("y", logit_p=a + b * x, observed=np.zeros(N, int), dims="person")
    if public:
        return pmp.privatize(model, records="person", public=["x"])
    return pmp.privatize(model, records="person", domain={"x": pmp.Categories((0, 1))})


def answers(count: int) -> pmp.PrivateModel:
    """Some answers of each person, all of the same log odds."""
    shape = (N, count) if count > 1 else (N,)
    dims = ("person", "answer") if count > 1 else "person"
    with pm.Model(coords={"person": range(N), "answer": range(count)}) as model:
        a = pm.Normal("a", 0, 1)
        pm.Bernoulli("y", logit_p=a, observed=np.zeros(shape, int), dims=dims)
    return pmp.privatize(model, records="person")


def coin() -> pmp.PrivateModel:
    """A coin with a conjugate prior."""
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.zeros(N, int), dims="person")
    return pmp.privatize(model, records="person")


def compare_groups(mechanism: Any, seed: int, public: bool) -> list[tuple[float, float, float]]:
    """Distances for the intercept and slope of a simulated summary."""
    rng, noise = np.random.default_rng(seed), Recorded(seed)
    a, b = rng.normal(size=2)
    x = np.arange(N) % 2 if public else (rng.random(N) < rng.uniform(0.2, 0.8)).astype(int)
    y = (rng.random(N) < scipy.special.expit(a + b * x)).astype(int)
    released = mechanism.release({"x": x, "y": y}, noise)
    if mechanism.method == "cells":
        counts = np.ravel(released["counts"])
        stages = [Stage(counts, float(mechanism.scale), np.eye(4), is_laplace=True)]
    else:
        types = [({"x": np.full(N, g), "y": np.full(N, k)}, g) for g in (0, 1) for k in (0, 1)]
        stages = stages_of(mechanism, noise, types)
    likelihood = two_groups(stages, [N // 2] if public else range(N + 1))
    first, second = (grid.ravel() for grid in np.meshgrid(ETA, ETA, indexing="ij"))
    theta = np.column_stack([first, second - first])
    return both(mechanism, released, np.log(likelihood.ravel() + 1e-300), theta)


def compare_answers(mechanism: Any, seed: int, count: int) -> list[tuple[float, float, float]]:
    """Distances for the log odds of all answers."""
    rng, noise = np.random.default_rng(seed), Recorded(seed)
    theta = mechanism.parameters.draws(1, seed)[0, 0]  # the unconstrained value: log odds
    shape = (N, count) if count > 1 else (N,)
    released = mechanism.release({"y": (rng.random(shape) < scipy.special.expit(theta)) * 1}, noise)
    ones = [np.arange(count) < k if count > 1 else np.array(k) for k in range(count + 1)]
    types = [({"y": np.broadcast_to(one, shape).astype(int)}, 0) for one in ones]
    likelihood = one_group(stages_of(mechanism, noise, types), count)
    return both(mechanism, released, np.log(likelihood + 1e-300), ETA[:, None])


def both(
    mechanism: Any, released: dict[str, np.ndarray], exact: np.ndarray, theta: np.ndarray
) -> list[tuple[float, float, float]]:
    """Distances of the mechanism's own posterior from that of an exact log-likelihood."""
    prior, ours = mechanism.parameters.log_prior(theta), mechanism.log_likelihood(released)(theta)
    return [
        distances(Marginal(column, ours + prior), Marginal(column, exact + prior))
        for column in theta.T
    ]


@dataclass(frozen=True)
class Case:
    """A model, the method of its summary, and how near its posterior must be to the exact one."""

    make: Callable[[], pmp.PrivateModel]
    method: str
    compare: Callable[[Any, int], list[tuple[float, float, float]]]
    limit: float


CASES = {
    "scores": Case(lambda: groups(False), "scores", partial(compare_groups, public=False), 0.2),
    "public": Case(lambda: groups(True), "scores", partial(compare_groups, public=True), 0.15),
    "cells": Case(lambda: groups(False), "cells", partial(compare_groups, public=False), 0.1),
    "records": Case(lambda: answers(2), "records", partial(compare_answers, count=2), 0.15),
    "sums": Case(coin, "sums", partial(compare_answers, count=1), 0.02),
}


def distances_of(case: Case, epsilon: float, releases: int) -> np.ndarray:
    """Distances of simulated summaries, shape (releases, parameters, 3)."""
    plan = pmp.calibrate(
        case.make(), epsilon=epsilon, delta=1e-6, release="summary", method=case.method
    )
    return np.abs([case.compare(plan.mechanism, seed) for seed in range(releases)])


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("name", CASES)
def test_the_posterior_of_a_summary_is_near_the_exact_one(name, epsilon):
    found = distances_of(CASES[name], epsilon, RELEASES)
    assert near(found, CASES[name].limit), found.mean(axis=(0, 1))


def test_a_likelihood_without_its_noise_is_far_from_the_exact_posterior(monkeypatch):
    case = CASES["sums"]
    assert near(distances_of(case, 1.0, 3), case.limit)
    log_likelihood = SumMechanism.log_likelihood

    def too_sure(self, released):
        at = log_likelihood(self, released)
        return lambda theta: 1.2 * at(theta)

    monkeypatch.setattr(SumMechanism, "log_likelihood", too_sure)
    assert not near(distances_of(case, 1.0, 3), case.limit)
