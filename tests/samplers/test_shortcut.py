"""Sums decide as bends do, and leave what is near to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pymc_private.samplers.proximal import PIECE_SIZE, FastSums
from pymc_private.samplers.proximal_likelihoods import ExponentialCurve, GeneralCurve, LogisticCurve

N, D, CHAINS = 4000, 5, 30
CURVES = {"logistic": LogisticCurve, "exponential": ExponentialCurve}


def trial(name, seed=0, scale=1.0, weight=0.01, y=None, equal=False, chains=CHAINS):
    """A shortcut at 30 centers, moves, and their bends added up one by one."""
    rng = np.random.default_rng(seed)
    rows, offset = rng.normal(size=(N, D)) * scale, rng.normal(size=N)
    if equal:
        rows[:], offset[:] = rows[0], 0.1
    y = rng.integers(0, 2, N).astype(float) if y is None else np.full(N, y)
    curve = CURVES[name](y, weight)
    sums = FastSums.of(rows, offset, curve)
    x, delta = rng.normal(size=(chains, D)), 0.3 * rng.normal(size=(chains, D))
    u = rows @ x.T + offset[:, None]
    with np.errstate(all="ignore"):
        push = curve.slope(u).T @ rows
        center = sums.at(x, sums.total(x), push, np.abs(push))
        bends = curve.remainder(u, rows @ delta.T).sum(axis=0)
    return center, delta, bends


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 3.0])
def test_what_is_sure_is_right(name, scale):
    center, delta, bends = trial(name, scale=scale)
    k = np.arange(CHAINS)
    for away in (-0.5, -1e-6, -1e-10, 1e-10, 1e-6, 0.5):
        limit = bends * (1.0 + away) + away
        accepted, sure = center.decide(k, delta, limit)
        assert np.array_equal(accepted[sure], (bends < limit)[sure])
        if abs(away) > 1e-7 and scale <= 1.0:
            assert sure.all()


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("chains", [1, 2, 30])
@pytest.mark.parametrize(
    "case", [{"equal": True}, {"y": 1e6, "weight": 1e-5}, {"equal": True, "weight": 1.0}]
)
def test_sums_of_equal_rows_and_of_large_outcomes(name, chains, case):
    center, delta, bends = trial(name, chains=chains, **case)
    for away in 10.0 ** np.arange(-15.0, 0.0):
        for sign in (-1.0, 1.0):
            limit = bends + sign * away
            accepted, sure = center.decide(np.arange(chains), delta, limit)
            assert np.array_equal(accepted[sure], (bends < limit)[sure])
    assert sure.all()


@pytest.mark.parametrize("name", CURVES)
def test_what_is_too_near_is_left(name):
    center, delta, bends = trial(name)
    _, sure = center.decide(np.arange(CHAINS), delta, bends * (1.0 + 1e-15))
    assert not sure.any()


@pytest.mark.parametrize("name", CURVES)
def test_some_chains_are_those_that_were_asked(name):
    center, delta, bends = trial(name)
    k = np.array([3, 17, 4])
    assert np.array_equal(center.decide(k, delta[k], bends[k] + 1e-6)[0], [True] * 3)
    assert np.array_equal(center.decide(k, delta[k], bends[k] - 1e-6)[0], [False] * 3)


@pytest.mark.parametrize("name", CURVES)
def test_a_wrong_gradient_would_be_seen(name):
    center, delta, bends = trial(name)
    center.p[:] = 0.9 * center.p
    accepted, sure = center.decide(np.arange(CHAINS), delta, bends + 1e-6)
    assert sure.any()
    assert not accepted[sure].all()


@pytest.mark.parametrize("name", CURVES)
def test_what_doubles_do_not_hold_is_left(name):
    center, delta, _ = trial(name, scale=1e3)
    far = np.full_like(delta, 1e300)
    _, sure = center.decide(np.arange(CHAINS), far, np.ones(CHAINS))
    assert not sure.any()


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 250.0, 800.0])
@pytest.mark.parametrize("name", CURVES)
def test_totals_and_slopes_are_those_of_numpy(name, size):
    rng = np.random.default_rng(1)
    rows, y = size * rng.normal(size=(N, 2)), rng.integers(0, 2, N).astype(float)
    x, curve = rng.normal(size=(7, 2)), CURVES[name](y, 0.5)
    with np.errstate(all="ignore"):
        u = rows @ x.T + 0.1
        each = np.exp(u) if name == "exponential" else np.logaddexp(0.0, u)
        expected = 0.5 * each.sum(axis=0)
        slope = curve.slope(u).T @ rows
    total, push = FastSums(rows, np.full(N, 0.1), curve).total_and_gradient(x)
    assert np.allclose(total, expected, rtol=1e-13)
    assert np.array_equal(total, FastSums(rows, np.full(N, 0.1), curve).total(x), equal_nan=True)
    assert np.allclose(push, slope, rtol=1e-11, atol=1e-11 * size * N, equal_nan=True)


def test_no_records_have_no_sums():
    sums = FastSums(np.empty((0, 2)), np.empty(0), LogisticCurve(np.empty(0), 1.0))
    total, push = sums.total_and_gradient(np.ones((3, 2)))
    assert np.array_equal(total, np.zeros(3))
    assert np.array_equal(push, np.zeros((3, 2)))


@pytest.mark.parametrize("name", CURVES)
def test_threads_add_the_same_numbers(name):
    rng = np.random.default_rng(2)
    rows, x = rng.normal(size=(20 * PIECE_SIZE // CHAINS, D)), rng.normal(size=(CHAINS, D))
    curve = CURVES[name](np.ones(len(rows)), 0.01)
    with ThreadPoolExecutor(3) as pool:
        one, many = (FastSums(rows, np.ones(len(rows)), curve, over) for over in (map, pool.map))
        for mine, theirs in zip(one.total_and_gradient(x), many.total_and_gradient(x), strict=True):
            assert np.array_equal(mine, theirs)


def test_other_curves_have_none():
    other = GeneralCurve(lambda u: -(u**4), lambda u: -4.0 * u**3)
    assert FastSums.of(np.ones((2, 1)), np.zeros(2), other) is None
