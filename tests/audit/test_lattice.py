"""Leaks through the low-order bits: planted ones are found, rounded draws pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pymc_private.audit import floating_point, lattice_leak
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.samplers.randomness import grid_width, round_to_grid
from tests.audit.rates import how_often, within

LOWER, UPPER = np.array([-4.0]), np.array([6.0])
WIDTH = float(grid_width(LOWER, UPPER)[0])
N = 20_000


def naive(rng, value, n=N, scale=1.0):
    """Laplace noise by the inverse CDF in doubles, added to the value (Mironov 2012)."""
    uniform = rng.integers(1, 2**53, size=n) * 2.0**-53
    return value + scale * np.where(rng.random(n) < 0.5, -1, 1) * np.log(uniform)


def rounded(rng, value, n=N):
    inside = np.clip(value + rng.normal(size=n), LOWER + 1e-6 * rng.random(n), UPPER)
    return round_to_grid(inside, LOWER, UPPER) + 0.0


def test_naive_laplace_is_found_without_knowing_any_grid():
    rng = np.random.default_rng(1)
    found = lattice_leak(naive(rng, 0.0), naive(rng, 1.0), claim=1.0)
    assert found.leaks
    assert found.off_grid is None
    assert found.low_bits.epsilon > 0.2
    # On one input whole sets of doubles cannot be reached: the claim of 1 nat is far off.
    assert found.lowest_bit.epsilon > 4.0
    assert found.lowest_bit.refutes(1.0)
    assert min(found.lowest_bit.inside) == 0
    assert len(found.reasons) == 2


@pytest.mark.parametrize("value", [0.5, 2.0, 3.0])
def test_naive_laplace_is_found_on_other_inputs(value):
    rng = np.random.default_rng(2)
    assert lattice_leak(naive(rng, 0.0), naive(rng, value), claim=value).leaks


def test_numpys_laplace_is_found_and_so_is_naive_gaussian_noise():
    rng = np.random.default_rng(3)
    for noise in (rng.laplace, rng.normal):
        assert lattice_leak(noise(size=N), 1 + noise(size=N)).leaks


def test_noise_that_is_off_the_grid_needs_no_second_input():
    rng = np.random.default_rng(4)
    found = lattice_leak(naive(rng, 0.0), width=WIDTH)
    assert found.leaks
    assert found.off_grid > 0.99 * N
    assert "are off the grid" in repr(found)
    assert found.low_bits is None


def test_rounded_draws_pass():
    rng = np.random.default_rng(5)
    found = lattice_leak(rounded(rng, 0.0), rounded(rng, 1.0), width=WIDTH, claim=1.0)
    assert not found.leaks
    assert (found.off_grid, found.looked_at, found.reasons) == (0, 2 * N, ())
    assert repr(found) == "LatticeLeak(no leak found)"


@pytest.mark.audit
@pytest.mark.parametrize("width", [WIDTH, pytest.param(None, marks=pytest.mark.audit)])
def test_rounded_draws_are_accused_no_more_often_than_stated(width):
    def accused(rng):
        p, q = rounded(rng, 0.0, 400), rounded(rng, 0.0, 400)
        return lattice_leak(p, q, width=width, claim=0.1, bits=3, false_alarm=0.2).leaks

    assert within(how_often(accused, 500), 0.2, 500)


def test_rounding_that_is_anchored_at_the_data_is_found():
    rng = np.random.default_rng(6)
    anchored = 0.3 + np.round(naive(rng, 0.0) / WIDTH) * WIDTH
    assert lattice_leak(anchored, width=WIDTH).off_grid > 0.99 * N


def test_a_grid_that_depends_on_the_data_is_found():
    rng = np.random.default_rng(7)
    coarse = np.round(rounded(rng, 1.0) / (2 * WIDTH)) * 2 * WIDTH + 0.0
    found = lattice_leak(rounded(rng, 0.0), coarse, width=WIDTH, claim=1.0)
    assert found.off_grid == 0
    assert found.low_bits.epsilon > 0.5
    assert found.lowest_bit.epsilon > 4.0


def test_a_leak_in_one_coordinate_of_several_is_found():
    rng = np.random.default_rng(8)
    p, q = (np.stack([rounded(rng, v) for v in (0, 1, 2)], axis=1) for _ in range(2))
    assert not lattice_leak(p, q, width=np.full(3, WIDTH)).leaks
    q[:, 1] = np.round(q[:, 1] / (2 * WIDTH)) * 2 * WIDTH
    found = lattice_leak(p, q, width=np.full(3, WIDTH))
    assert found.low_bits.epsilon > 0.5
    q[:, 2] = naive(rng, 2.0)
    assert lattice_leak(p, q, width=WIDTH).off_grid > 0.99 * N


def test_the_sign_of_a_zero_is_off_the_grid():
    values = np.array([0.0] * 9 + [-0.0])
    assert lattice_leak(values, width=1.0).off_grid == 1
    assert lattice_leak(values[:9], width=1.0).off_grid == 0


def test_a_coarse_grid_needs_its_slack():
    # Of integers the parity tells what it should; the slack says how much that may be.
    rng = np.random.default_rng(9)
    p = np.round(rng.normal(scale=0.5, size=N)) + 0.0
    q = np.round(1 + rng.normal(scale=0.5, size=N)) + 0.0
    assert lattice_leak(p, q, width=1.0, bits=1).leaks
    assert not lattice_leak(p, q, width=1.0, bits=1, slack=0.9).leaks


def test_the_slack_covers_densities_of_one_mode():
    # TV of the last bits on two inputs <= 2^(bits + 1) width f, exactly, on grids of any width.
    for width in (0.2, 0.1, 0.05):
        steps = np.arange(-20_000, 20_001)
        density = np.exp(-0.5 * (steps * width) ** 2) * width / math.sqrt(2 * math.pi)
        moved = np.exp(-0.5 * (steps * width - 1) ** 2) * width / math.sqrt(2 * math.pi)
        last = [np.bincount(steps % 4, weights) for weights in (density, moved)]
        apart = 0.5 * np.abs(last[0] - last[1]).sum()
        assert apart <= 2**3 * width / math.sqrt(2 * math.pi)


def test_the_last_nonzero_bit_is_where_it_is():
    values = np.array([[1.0, 0.5, 6.0, -0.75, 0.0, 2.0**-1074, 2.0**1023, 0.1, 1 + 2.0**-52]])
    found = floating_point._lowest_bit_exponent(values)[0].tolist()
    assert found == [0, -1, 1, -2, 9999, -1074, 1023, -55, -52]
    assert all(v % 2.0**e == 0 for v, e in zip(values[0], found, strict=True) if abs(e) < 1000)


def test_the_last_bits_are_those_of_the_step_or_of_the_double():
    steps = np.array([[5.0, -1.0, 16.0]])
    assert floating_point._last_bits(steps * 0.25, 0.25, 3).tolist() == [[5.0, 7.0, 0.0]]
    double = np.array([[1.0 + 5 * 2.0**-52, -(1.0 + 2.0**-52), 2.0]])
    assert floating_point._last_bits(double, None, 3).tolist() == [[5, 1, 0]]


def test_samplers_serve_as_well():
    rng = np.random.default_rng(10)
    found = lattice_leak(
        lambda n: rounded(rng, 0.0, n), lambda n: rounded(rng, 1.0, n), width=WIDTH, draws=500
    )
    assert (found.looked_at, found.leaks) == (1000, False)


def test_a_guarantee_may_be_the_claim():
    rng = np.random.default_rng(11)
    p, q = naive(rng, 0.0), naive(rng, 1.0)
    assert len(lattice_leak(p, q, claim=Guarantee.pure(1.0)).reasons) == 2
    assert len(lattice_leak(p, q, claim=Guarantee.pure(9.0)).reasons) == 1
    assert len(lattice_leak(p, q, claim=1.0, delta=0.9).reasons) == 1


def test_a_finding_is_not_true_or_false():
    with pytest.raises(TypeError, match=r"\.leaks"):
        bool(lattice_leak(np.zeros(8), width=1.0))


X = np.zeros(20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": X}, "nothing to look at"),
        ({"p": X, "width": 0.0}, "positive width"),
        ({"p": X, "width": math.nan}, "positive width"),
        ({"p": X, "width": [1.0, 1.0]}, "positive width"),
        ({"p": X + np.inf, "width": 1.0}, "finite"),
        ({"p": X, "q": X * np.nan}, "finite"),
        ({"p": X, "q": X, "bits": 0}, "bits"),
        ({"p": X, "q": X, "bits": 17}, "too many bits"),
        ({"p": X, "q": X, "slack": 1.0}, "slack is a probability"),
        ({"p": X, "q": X, "delta": -1.0}, "delta is a probability"),
        ({"p": X, "q": X, "claim": -1.0}, "claim is not negative"),
        ({"p": X, "q": np.zeros((20, 2))}, "outputs of one shape"),
    ],
)
def test_what_cannot_be_judged_is_refused(arguments, message):
    with pytest.raises(DomainError, match=message):
        lattice_leak(**arguments)
