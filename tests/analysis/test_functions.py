"""Every elementary function of the certifier, against Arb balls of 200 bits."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.analysis.intervals import functions as f
from pymc_private.analysis.intervals.functions import LARGEST_DOUBLE, TINY, UNIT, ElementaryFunction
from tests.analysis.truth import TRUE, is_above, is_below, true

ALL = {value.name: value for value in vars(f).values() if isinstance(value, ElementaryFunction)}
LEAST, NORMAL = 5e-324, 2.3e-308

REAL = (-LARGEST_DOUBLE, LARGEST_DOUBLE)
DOMAINS: dict[str, tuple[float, float]] = dict.fromkeys(ALL, REAL) | {
    "log": (LEAST, LARGEST_DOUBLE),
    "log2": (LEAST, LARGEST_DOUBLE),
    "log10": (LEAST, LARGEST_DOUBLE),
    "sqrt": (0.0, LARGEST_DOUBLE),
    "log1p": (np.nextafter(-1.0, 0.0), LARGEST_DOUBLE),
    "log1mexp": (-LARGEST_DOUBLE, -LEAST),
    "arctanh": (np.nextafter(-1.0, 0.0), np.nextafter(1.0, 0.0)),
    "erfinv": (np.nextafter(-1.0, 0.0), np.nextafter(1.0, 0.0)),
    "cos": (-1e15, 1e15),
    "log_phi": (-LARGEST_DOUBLE, 0.0),
    "gamma": (LEAST, LARGEST_DOUBLE),
    "gammaln": (LEAST, LARGEST_DOUBLE),
    "psi": (LEAST, LARGEST_DOUBLE),
    "trigamma": (LEAST, LARGEST_DOUBLE),
}
UNARY = sorted(set(ALL) - {"betainc", "gammainc", "gammaincc"})
LANDMARKS = [0.0, 1.0, -1.0, 2.0, 0.5, 1.4616321449683623, np.pi / 2, np.pi, np.log(2.0), 8.0]
LANDMARKS += [26.5, 26.6, 26.7, -26.6, 36.7, 700.0, 709.7, 709.8, 712.4, 713.9, 745.1, -37.5]


def grid(name: str, size: int) -> np.ndarray:
    """Points over all of a function's domain: all magnitudes, near landmarks, near both ends."""
    low, high = DOMAINS[name]
    rng = np.random.default_rng(len(name))
    sizes = np.concatenate(
        [10.0 ** rng.uniform(-323, 308, size), 10.0 ** rng.uniform(-4, 3.5, size)]
    )
    near = np.repeat(LANDMARKS, size // 8) * (1 + 10.0 ** rng.uniform(-16, -1, size // 8 * 22))
    close = 10.0 ** rng.uniform(-16.5, -0.3, size)
    points = np.concatenate(
        [sizes, -sizes, near, -near, LANDMARKS, 1 - close, close - 1, 1 + close]
    )
    points = points[(points >= low) & (points <= high)]
    return np.unique(np.concatenate([points, [low, high]]))


def misses(function: ElementaryFunction, *columns: np.ndarray) -> list[tuple[float, ...]]:
    """Points whose enclosure does not hold the real value."""
    with np.errstate(all="ignore"):
        lower, upper = function.down(*columns), function.up(*columns)
    found = []
    for low, high, *point in zip(lower, upper, *columns, strict=True):
        value = true(function.name, *point)
        assert value.is_finite(), (function.name, point)
        if not (is_below(low, value) and is_above(high, value)):
            found.append(tuple(point))
    return found


def test_each_function_has_a_reference():
    assert set(ALL) == set(TRUE)


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", UNARY)
def test_rounded_ends_hold_the_real_value(name):
    points = grid(name, 400)
    assert len(points) > 1000
    assert misses(ALL[name], points) == []


@pytest.mark.audit
@pytest.mark.parametrize("name", UNARY)
def test_rounded_ends_hold_the_real_value_on_a_fine_grid(name):
    assert misses(ALL[name], grid(name, 10_000)) == []


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_rounded_ends_hold_the_real_value_anywhere(name, data):
    low, high = DOMAINS[name]
    x = data.draw(st.floats(low, high, allow_subnormal=True))
    assert misses(ALL[name], np.array([x])) == []


def gamma_points(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Shapes from 1e-5 to 1e4 with arguments in the body and in both tails."""
    rng = np.random.default_rng(7)
    k = np.minimum(10.0 ** rng.uniform(-5, 4, size), f.GAMMAINC_LARGEST)
    body = np.abs(k + rng.normal(size=size) * rng.choice([0.3, 1, 5, 15, 37], size) * np.sqrt(k))
    tail = k * np.exp(rng.normal(size=size) * rng.choice([0.1, 1, 3], size))
    x = np.where(rng.random(size) < 0.3, tail, body)
    return k, np.minimum(x, np.minimum(20 * k + 800, f.GAMMAINC_LARGEST))


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
@pytest.mark.parametrize("size", [1000, pytest.param(10_000, marks=pytest.mark.audit)])
def test_incomplete_gamma_holds_the_real_value_up_to_its_largest_shape(name, size):
    assert misses(ALL[name], *gamma_points(size)) == []


def beta_points(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shapes from 1e-3 to 1e3 with arguments in the body, in both tails and near both ends."""
    rng = np.random.default_rng(9)
    a, b = np.minimum(10.0 ** rng.uniform(-3, 3, (2, size)), f.BETAINC_LARGEST)
    mean = a / (a + b)
    spread = np.sqrt(mean * (1 - mean) / (a + b + 1))
    body = mean + rng.normal(size=size) * rng.choice([0.3, 1, 5, 15], size) * spread
    end = 10.0 ** rng.uniform(-12, 0, size)
    x = np.choose(rng.integers(0, 4, size), [body, rng.random(size), end, 1 - end])
    return a, b, np.clip(x, 1e-300, np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("size", [30, pytest.param(2000, marks=pytest.mark.audit)])
def test_incomplete_beta_holds_the_real_value_up_to_its_largest_shapes(size):
    assert misses(f.BETAINC, *beta_points(size)) == []


@given(k=st.floats(1e-300, 50.0), x=st.floats(0.0, 900.0))
def test_incomplete_gamma_holds_the_real_value_for_small_shapes(k, x):
    for name in ("gammainc", "gammaincc"):
        assert misses(ALL[name], np.array([k]), np.array([x])) == []


@pytest.mark.parametrize("name", UNARY)
def test_the_stated_error_is_not_a_hundred_times_what_is_needed(name):
    """A generous figure is fine, a careless one would loosen every bound."""
    points = grid(name, 60)
    points = points[np.abs(points) < 700]
    function = ALL[name]
    with np.errstate(all="ignore"):
        wide = function.up(points) - function.down(points)
        value = np.abs(function(points))
    assert np.all(wide <= 1e-12 * value + 1e-14)


@pytest.mark.parametrize("name", UNARY)
def test_ranges_are_true_and_limits_are_reached(name):
    """At infinite ends the limit comes out, clamped to the range and never beyond it."""
    function = ALL[name]
    with np.errstate(all="ignore"):
        ends = np.array([DOMAINS[name][0], DOMAINS[name][1], -np.inf, np.inf])
        lower, upper = function.down(ends), function.up(ends)
    known = ~(np.isnan(lower) | np.isnan(upper))
    assert np.all(lower[known] >= function.low)
    assert np.all(upper[known] <= function.high)
    assert np.all(lower[known] <= upper[known])


@pytest.mark.parametrize("name", sorted(ALL))
def test_both_faces_are_one_function(name):
    points = grid(name, 24) if name in UNARY else np.empty(0)
    usual = (np.abs(points) < 600) & (np.abs(points) > 1e-300)  # beyond, faces overflow differently
    many = beta_points(50) if name == "betainc" else gamma_points(50)
    columns = (points[usual],) if name in UNARY else many
    variables = [pt.vector() for _ in columns]
    function = ALL[name]
    with np.errstate(all="ignore"):
        found = pytensor.function(variables, function(*variables), mode="FAST_COMPILE")(*columns)
        expected = function(*columns)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "ulps"),
    [("erfc", 64.0), ("erfcx", 64.0), ("gammaincc", 2048.0), ("sqrt", 0.0), ("i1", 1.0)],
)
def test_the_grid_catches_a_figure_that_is_too_small(name, ulps):
    planted = ElementaryFunction(name, ALL[name].numpy, ALL[name].tensor, ulps)
    columns = gamma_points(250) if name.startswith("gammainc") else (grid(name, 100),)
    assert misses(planted, *columns)


def test_the_grid_catches_results_that_are_flushed_or_overflow_early():
    import scipy.special as sc

    flushed = ElementaryFunction("sigmoid", sc.expit, pt.sigmoid, ulps=8.0, low=0.0, high=1.0)
    early = ElementaryFunction("gammaln", sc.gammaln, pt.gammaln, ulps=16.0, absolute=2e-15)
    overflow = ElementaryFunction("i0", sc.i0, pt.i0, ulps=16.0, low=1.0)
    for planted in (flushed, early, overflow):
        assert misses(planted, grid(planted.name, 100))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_sums_and_products_are_rounded_outward(a, b):
    from pymc_private.analysis.intervals.functions import (
        add_down,
        add_up,
        multiply_bounds,
    )

    a, b = np.float64(a), np.float64(b)
    with np.errstate(all="ignore"):
        pairs = [(add_down(a, b), add_up(a, b)), multiply_bounds(a, b)]
        floats = a + b, a * b
    if np.isinf(a) or np.isinf(b):
        for (low, high), value in zip(pairs, floats, strict=True):
            assert np.isnan(value) == np.isnan(low) == np.isnan(high)
            assert np.isnan(value) or low <= value <= high
        return
    values = arb(float(a)) + arb(float(b)), arb(float(a)) * arb(float(b))
    for (low, high), value in zip(pairs, values, strict=True):
        assert is_below(low, value)
        assert is_above(high, value)
        width = abs(value) * 4 * UNIT + 8 * TINY
        assert not np.isfinite(high - low) or not arb(float(high - low)) > width
