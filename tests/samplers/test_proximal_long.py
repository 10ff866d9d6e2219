"""Proximal draws in 31 to 100 dimensions beside long runs of another sampler.

The reference is the last state of each of 1600 chains of Hamiltonian Monte Carlo with Metropolis
steps, written here: its error is that of independent draws. Whitened by half of them, means
and variances along directions are judged by their normal limits and lengths by Kolmogorov and
Smirnov's test of two samples; all together alarm falsely in fewer than 1 of 10^5 runs. Their energy
distance (Szekely and Rizzo 2004) is compared with those of 200 relabelings: an alarm wants eight
standard deviations above their mean.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats
from scipy.spatial import distance

import pymc_private as pmp
from pymc_private.privacy import proximal_steps
from pymc_private.samplers import proximal_target
from pymc_private.samplers.method import Proximal
from pymc_private.samplers.proximal import (
    BlockMatrix,
    ProximalSchedule,
    WhitenedPosterior,
    sample_proximal,
    step_size,
)
from pymc_private.samplers.proximal_likelihoods import LogisticCurve
from pymc_private.samplers.proximal_target import make_posterior
from pymc_private.samplers.randomness import SeededRandomness

WEIGHT, DRAWS, CHAINS, ROUNDS, LEAPS = 0.5, 250, 1600, 30, 6
ALARM = 1e-6


def data_of(d, n=200):
    """Rows of norm 2, so that the likelihood says as much as the prior, and a bent posterior."""
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(n, d)) * np.linspace(0.3, 2.0, d)
    rows *= 2 / np.linalg.norm(rows, axis=1)[:, None]
    return rows, (rng.random(n) < special.expit(rows @ rng.normal(size=d) / 2)).astype(float)


def long_runs(potential, slope, factor, step, wall=math.inf):
    """Last states of chains; walls reflect, where the factor is the identity."""
    rng, d = np.random.default_rng(1), len(factor)
    x, length = np.clip(rng.normal(size=(CHAINS, d)) @ factor.T, -wall, wall), step / d**0.25
    for _ in range(ROUNDS):
        p = rng.normal(size=x.shape)
        new, q = x, p - length / 2 * slope(x) @ factor
        for leap in range(LEAPS):
            new = new + length * q @ factor.T
            out = np.abs(new) > wall
            new, q = np.where(out, 2 * np.copysign(wall, new) - new, new), np.where(out, -q, q)
            q = q - length / (2 if leap == LEAPS - 1 else 1) * slope(new) @ factor
        fall = potential(x) - potential(new) + ((p**2).sum(axis=1) - (q**2).sum(axis=1)) / 2
        taken = np.log(rng.random(CHAINS)) < fall
        x = np.where(taken[:, None], new, x)
    return x, taken.mean()


def logistic_runs(rows, y):
    """Steps are scaled by a bound of the curvature."""
    d = rows.shape[1]
    factor = np.linalg.cholesky(np.linalg.inv(np.eye(d) + WEIGHT / 8 * rows.T @ rows))

    def potential(x):
        u = x @ rows.T
        return -WEIGHT * (u @ y - np.logaddexp(0, u).sum(axis=1)) + (x**2).sum(axis=1) / 2

    def slope(x):
        return -WEIGHT * (y - special.expit(x @ rows.T)) @ rows + x

    return long_runs(potential, slope, factor, 1.6 / 1.5)


def proximal_draws(rows, y, share=1.0):
    wall = np.full(rows.shape[1], math.inf)
    s = WhitenedPosterior(
        rows, np.zeros(len(rows)), LogisticCurve(y, WEIGHT), WEIGHT / 4, -wall, wall
    )
    eta = step_size(WEIGHT / 4 * float((rows**2).sum()))
    steps = proximal_steps(WEIGHT * len(rows) * 2.0, 1e-8, eta)
    schedule = ProximalSchedule(eta, max(1, int(share * steps)), 1e-8)
    return sample_proximal(s, schedule, DRAWS, SeededRandomness.from_seed(2))


def energy(a, b, relabelings=200):
    """Standard deviations by which the energy distance exceeds its mean over relabelings."""
    pool, n = np.concatenate([a, b]), len(a)
    apart, rng = distance.cdist(pool, pool), np.random.default_rng(4)

    def of(one):
        m = len(pool) - n
        within, across = one @ apart @ one, one @ apart @ (1 - one)
        other = (1 - one) @ apart @ (1 - one)
        return 2 * across / (n * m) - within / n**2 - other / m**2

    first = np.arange(len(pool)) < n
    chance = np.array([of(rng.permutation(first).astype(float)) for _ in range(relabelings)])
    return (of(first.astype(float)) - chance.mean()) / chance.std()


def excesses(draws, long):
    """Each statistic over the largest value that chance gives it: above 1 is an alarm."""
    half, long = np.split(long, 2)  # whitened by draws that are not compared: else lengths differ
    center, d = half.mean(axis=0), long.shape[1]
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(half.T)))
    a, b = ((x - center) @ whiten.T for x in (draws, long))
    turns = np.random.default_rng(3).normal(size=(3 * d, d))
    turns = np.vstack([np.eye(d), turns / np.linalg.norm(turns, axis=1)[:, None]])
    along, other = a @ turns.T, b @ turns.T
    most = stats.norm.isf(ALARM / (2 * len(turns)))
    error = math.sqrt(1 / len(a) + 1 / len(b))
    means = np.abs(along.mean(axis=0) - other.mean(axis=0)) / error
    spreads = np.abs(np.log(along.var(axis=0) / other.var(axis=0))) / (math.sqrt(2) * error)
    lengths = stats.ks_2samp((a**2).sum(axis=1), (b**2).sum(axis=1)).pvalue
    return {
        "means": means.max() / most,
        "variances": spreads.max() / (1.15 * most),  # posteriors are a little heavier than normal
        "energy": energy(a, b) / 8.0,
        "lengths": math.log(max(lengths, 1e-300)) / math.log(ALARM),
    }


@pytest.mark.audit
@pytest.mark.parametrize("d", [31, 100])
def test_means_and_covariances_are_those_of_long_runs(d):
    rows, y = data_of(d)
    long, taken = logistic_runs(rows, y)
    assert taken > 0.5
    found = excesses(proximal_draws(rows, y), long)
    assert max(found.values()) < 1, found
    faulty = excesses(proximal_draws(rows, y, share=0.01), long)  # planted: too few steps
    assert max(faulty.values()) > 1
    assert faulty["energy"] > 1


CLASSES, FEATURES, RECORDS, POWER, WALL = 5, 9, 150, 0.35, 2.0


def softmax_regression():
    """A trimmed model, its features and its classes."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(RECORDS, FEATURES)) * np.linspace(0.3, 2.0, FEATURES) + 1.0
    x /= np.linalg.norm(x, axis=1)[:, None]
    scores = 3.0 * x @ rng.normal(size=(FEATURES, CLASSES))
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    with pm.Model(coords={"i": range(RECORDS), "f": range(FEATURES), "k": range(CLASSES)}) as model:
        data = pm.Data("x", x, dims=("i", "f"))
        b = pm.Normal("b", 0, 1, dims=("f", "k"))
        pm.Categorical("y", logit_p=data @ b, observed=y, dims="i")
    domain = {"x": pmp.Ball(1.0), "y": pmp.Categories(range(CLASSES))}
    private = pmp.privatize(model, records="i", domain=domain)
    return pmp.trim(private, box={"b": (-WALL, WALL)}), x, np.eye(CLASSES)[y]


def softmax_runs(x, hot):
    """The same posterior, written out."""

    def scores(z):
        return np.einsum("if,cfk->cik", x, z.reshape(len(z), FEATURES, CLASSES), optimize=True)

    def potential(z):
        logs = special.log_softmax(scores(z), axis=2)
        return -POWER * np.einsum("cik,ik->c", logs, hot) + (z**2).sum(axis=1) / 2

    def slope(z):
        off = hot - special.softmax(scores(z), axis=2)
        return z - POWER * np.einsum("if,cik->cfk", x, off, optimize=True).reshape(len(z), -1)

    return long_runs(potential, slope, np.eye(FEATURES * CLASSES), 0.5, WALL)


def softmax_draws(private, power):
    method, private = Proximal(tv=1e-8), pmp.temper(private, power)
    assert isinstance(make_posterior(private)[0].rows, BlockMatrix)
    found = method.sample(private, DRAWS, SeededRandomness.from_seed(2), lambda done: None)
    return found["b"].reshape(DRAWS, -1)


@pytest.mark.audit
def test_a_softmax_with_walls_is_drawn_as_by_long_runs(monkeypatch):
    monkeypatch.setattr(proximal_target, "LARGE_MATRIX", 10_000)
    private, x, hot = softmax_regression()
    long, taken = softmax_runs(x, hot)
    assert taken > 0.5
    found = excesses(softmax_draws(private, POWER), long)
    assert max(found.values()) < 1, found
    faulty = excesses(softmax_draws(private, 2 * POWER), long)  # planted: twice the power
    assert max(faulty.values()) > 1, faulty
