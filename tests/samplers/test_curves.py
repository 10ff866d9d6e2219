"""Curves of several rows: scores of a softmax, and what is joined to them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp

import pymc_private as pmp
from pymc_private.samplers import proximal_target
from pymc_private.samplers.proximal import BlockMatrix, ProximalSchedule, sample_proximal
from pymc_private.samplers.proximal_likelihoods import GeneralCurve, SoftmaxCurve
from pymc_private.samplers.proximal_target import make_posterior
from pymc_private.samplers.randomness import SeededRandomness, truncated_normal_quantile

N, K = 20, 3
RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (N, 2)) / np.sqrt(2)


def private(trials=None):
    with pm.Model(coords={"i": range(N), "f": range(2), "k": range(K)}) as model:
        x = pm.Data("x", X, dims=("i", "f"))
        b = pm.Normal("b", 0, 1, dims=("f", "k"))
        p = pm.math.softmax(x @ b + pm.Normal("a", 0, 1, dims="k"), axis=1)
        if trials is None:
            pm.Categorical("y", p, observed=np.arange(N) % K, dims="i")
            y = pmp.Categories(range(K))
        else:
            y = pmp.Counts(trials)
            observed = np.random.default_rng(1).multinomial(trials, np.ones(K) / K, N)
            pm.Multinomial("y", trials, p, observed=observed, dims=("i", "k"))
    declared = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0), "y": y})
    return pmp.temper(declared, 0.5)


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0, 2000.0])
def test_scores_bend_like_the_softmax_they_are_of(size):
    rng = np.random.default_rng(2)
    counts, weight = rng.integers(0, 5, (N, K)) / 2.0, rng.uniform(0.5, 3, N)
    curve = SoftmaxCurve(counts, weight)
    u, du = rng.normal(size=(N * K, 4)), size * rng.normal(size=(N * K, 4))

    def total(v):
        v = v.reshape(N, K, 4)
        return (counts[:, :, None] * v).sum(axis=1) - weight[:, None] * logsumexp(v, axis=1)

    inner = (curve.slope(u) * du).reshape(N, K, 4).sum(axis=1)
    plain = total(u) + inner - total(u + du)
    assert np.allclose(curve.remainder(u, du), plain, rtol=1e-9, atol=1e-13 * max(size, 1.0))
    if size < 1e-3:  # there the difference of sums has no digits left, the stable form has all
        p = np.exp(u.reshape(N, K, 4) - logsumexp(u.reshape(N, K, 4), axis=1)[:, None])
        d = du.reshape(N, K, 4)
        second = (p * d**2).sum(axis=1) - (p * d).sum(axis=1) ** 2
        assert np.allclose(curve.remainder(u, du), weight[:, None] * second / 2, rtol=1e-5)


@pytest.mark.thin(2)
@pytest.mark.parametrize("classes", [2, 3, 8])
@pytest.mark.parametrize("wall", [1.0, np.inf])
def test_a_softmax_bends_no_more_than_its_trace_says(classes, wall):
    """Moves of mean zero, near shares of all kinds: what the step size counts on."""
    rng = np.random.default_rng(classes)
    curve, trace = SoftmaxCurve(np.zeros((1, classes)), np.ones(1)), min(1.0, 0.5 * (classes - 1))
    uniforms = rng.uniform(size=(classes, 20_000))
    du = 1.5 * truncated_normal_quantile(uniforms, np.array(-wall), np.array(wall))
    found = [
        curve.remainder(np.tile(u, (1, du.shape[1])), du).mean()
        for u in 3.0 * rng.normal(size=(20, classes, 1))
    ]
    assert 0.1 * trace < max(found) / (0.5 * 1.5**2) < trace + 0.02


@cache
def structure(trials=None):
    return make_posterior(private(trials))[0]


def test_scores_are_read_off_the_graph():
    s = structure()
    assert isinstance(s.curve, SoftmaxCurve)
    assert np.allclose(s.curve.weight, 0.5)
    assert np.allclose(s.curve.counts, 0.5 * (np.arange(N)[:, None] % K == np.arange(K)))


@pytest.mark.audit
def test_scores_of_several_trials_are_read_off_the_graph():
    s = structure(4)
    assert np.allclose(s.curve.weight, 2.0)
    assert np.allclose(s.curve.counts.sum(axis=1), 2.0)


def test_scores_have_the_slope_of_the_graph(monkeypatch):
    monkeypatch.setattr(proximal_target, "SoftmaxCurve", _General)
    general, _ = make_posterior(private())
    u = RNG.normal(size=(N * K, 5))
    assert np.allclose(structure().curve.slope(u), general.curve.slope(u), rtol=1e-10, atol=1e-12)


class _General:
    @staticmethod
    def of_slope(derivative, n, k):
        return GeneralCurve(None, derivative)


@pytest.mark.parametrize("kept", [csr_array, lambda rows: BlockMatrix.of(rows, K)])
def test_rows_without_their_zeros_make_the_same_draws(kept):
    s = structure()
    thin = replace(s, rows=kept(s.rows))
    one, two = (
        sample_proximal(x, ProximalSchedule(0.2, 5, 1e-3), 6, SeededRandomness.from_seed(1))
        for x in (s, thin)
    )
    assert np.allclose(one, two, rtol=1e-9, atol=1e-12)
    walls = {"lower": np.full(s.dimension, -1.0), "upper": np.full(s.dimension, 1.0)}
    one, two = (
        sample_proximal(
            replace(x, **walls), ProximalSchedule(0.02, 5, 1e-3), 6, SeededRandomness.from_seed(1)
        )
        for x in (s, thin)
    )
    assert np.allclose(one, two, rtol=1e-9, atol=1e-12)
