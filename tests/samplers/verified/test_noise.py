"""Normal and uniform numbers: floats within their bounds of the balls, bits that stay."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.samplers.verified import arithmetic
from pymc_private.samplers.verified.arithmetic import (
    LazyNoise,
    log_uniform_floats,
    normal_floats,
    truncated_normal_floats,
)

RNG = np.random.default_rng(1)
PLAIN = RNG.integers(0, 2**64, 300, dtype=np.uint64)
ENDS = np.array([0, 1, 2, 9, 2**62, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1], dtype=np.uint64)
FAR = RNG.integers(0, 2**64, 200, dtype=np.uint64) >> RNG.integers(0, 64, 200, dtype=np.uint64)
WORDS = np.concatenate([PLAIN, FAR, ENDS])


def ends(word):
    """The normal numbers whose first bits are these: from least to greatest."""
    sign, k = divmod(int(word), 2**63)
    with ctx.workprec(200):
        sizes = [arb(2).sqrt() * (2 * arb(fmpq(j, 2**64))).erfcinv() if j else arb(np.inf)
                 for j in (k + 1, k)]  # fmt: skip
        return sorted((float(-s if sign else s)) for s in sizes)


def used(words, of):
    found = of(words)
    far = [max(v - low, high - v) for v, (low, high) in
           zip(found.value, map(ends, words), strict=True)]  # fmt: skip
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(found.error), 0.0, np.array(far) / found.error)


def test_normal_numbers_are_within_their_bounds():
    # Float ends of the cell are themselves rounded: by far less than NORMAL.
    assert used(WORDS, normal_floats).max() <= 1.0
    assert np.isfinite(normal_floats(PLAIN).error).all()
    assert normal_floats(PLAIN).error.max() < 1e-12


def _single(words):
    found = normal_floats(words)
    return arithmetic.BoundedFloats(found.value.astype(np.float32).astype(float), found.error)


def _tighter(words):
    found = normal_floats(words)
    return arithmetic.BoundedFloats(found.value, found.error / 100.0)


def _without_cells(words):
    found = normal_floats(words)
    return arithmetic.BoundedFloats(
        found.value, arithmetic.QUANTILE_ERROR * (1.0 + np.abs(found.value))
    )


@pytest.mark.parametrize("fault", [_single, _tighter, _without_cells])
def test_normal_numbers_with_a_fault_are_caught(fault):
    assert used(WORDS, fault).max() > 1.0


ENDS_OF = [
    (-np.inf, np.inf),
    (-0.5, 1.3),
    (0.2, np.inf),
    (-np.inf, -30.0),
    (5.0, 5.001),
    (-300, -2.0),
]


def cells(word, low, high):
    """The quantiles at both ends of a word's cell, by the masses themselves."""
    with ctx.workprec(3000):
        root = arb(2).sqrt()
        a, b = (arb(float(end)) if np.isfinite(end) else None for end in (low, high))
        first = arb(0) if a is None else (-a / root).erfc()
        last = arb(2) if b is None else (-b / root).erfc()
        found = []
        for k in (int(word), int(word) + 1):
            tail = first + arb(fmpq(k, 2**64)) * (last - first)
            inside = 0 < float(tail) < 2 or (0 < k < 2**64)
            found.append(-root * tail.erfcinv() if inside else arb(-np.inf if k == 0 else np.inf))
        return found


@pytest.mark.thin(8)
@pytest.mark.parametrize(("low", "high"), ENDS_OF)
def test_truncated_numbers_are_within_their_bounds(low, high):
    words = np.concatenate([PLAIN[:60], FAR[:60], ENDS])
    with np.errstate(all="ignore"):
        found = truncated_normal_floats(words, np.float64(low), np.float64(high))
    worst = 0.0
    for word, value, error in zip(words, found.value, found.error, strict=True):
        if np.isfinite(error):
            far = [abs(float(z - float(value))) for z in cells(word, low, high)]
            worst = max(worst, max(f for f in far if np.isfinite(f)) / error)
    assert 1e-4 < worst <= 1.0
    assert np.isfinite(found.error[:60]).all()


def test_far_tails_keep_their_digits(monkeypatch):
    """SciPy's `ndtri_exp` loses three digits around z = -1000."""

    def worst():
        found = 0.0
        for log_mass in -np.exp(np.linspace(-0.3, 17, 60)):
            z = float(arithmetic._normal_quantile(np.array([log_mass]))[0])
            with ctx.workprec(400):
                mass = (-arb(z) / arb(2).sqrt()).erfc() / 2
                off = mass.log() - arb(float(log_mass))
            allowed = (
                2 * arithmetic.FUNCTION_ERROR * (1 - log_mass) / max(-z, arithmetic.LEAST_HAZARD)
            )
            found = max(
                found,
                abs(float(off)) / max(-z, 1.0) / (allowed + arithmetic.QUANTILE_ERROR * (1 - z)),
            )
        return found

    assert worst() < 0.5
    monkeypatch.setattr(arithmetic, "NEWTON_BELOW", -np.inf)
    assert worst() > 1.0


def test_truncated_numbers_from_more_bits_are_the_same():
    words = PLAIN[:30]
    for low, high in ENDS_OF:
        lazy = LazyNoise(words, SeededRandomness.from_seed(1))
        with np.errstate(all="ignore"):
            found = truncated_normal_floats(words, np.float64(low), np.float64(high))
        balls = [None if np.isinf(end) else arb(float(end)) for end in (low, high)]
        exact = lazy.truncated(192, [balls[0]] * 30, [balls[1]] * 30)
        for ball, value, error in zip(exact, found.value, found.error, strict=True):
            assert abs(float(ball - float(value))) <= error
            assert low - 1e-9 <= float(ball) <= high + 1e-9


def test_logarithms_of_uniform_numbers_are_within_their_bounds():
    found = log_uniform_floats(WORDS)
    for word, value, error in zip(WORDS, found.value, found.error, strict=True):
        with ctx.workprec(200):
            for k in (int(word), int(word) + 1):
                real = float(arb(fmpq(k, 2**64)).log()) if k else -np.inf
                assert np.isinf(error) or abs(value - real) <= error
    assert log_uniform_floats(np.array([0], np.uint64)).error[0] == np.inf


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_further_bits_stay_within_the_first(word, seed):
    lazy = LazyNoise(np.array([word], np.uint64), SeededRandomness.from_seed(seed))
    low, high = ends(word)
    (first,) = lazy.normals(128)
    (second,) = lazy.normals(512)
    assert low - 1e-9 <= float(first.lower()) <= float(first.upper()) <= high + 1e-9
    assert first.overlaps(second)
    assert float(second.rad()) < 1e-60
    assert lazy.log_uniform(128).overlaps(lazy.log_uniform(512))


def test_normal_numbers_from_few_bits_and_from_many_are_one():
    words = PLAIN[:40]
    lazy, found = LazyNoise(words, SeededRandomness.from_seed(1)), normal_floats(words)
    for ball, value, error in zip(lazy.normals(192), found.value, found.error, strict=True):
        assert abs(float(ball - float(value))) <= error
