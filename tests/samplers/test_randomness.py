"""Randomness that nobody can repeat, and a grid that the posterior cannot move."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.special import ndtr

from pymc_private.samplers import randomness
from pymc_private.samplers.randomness import (
    GRID_BITS,
    SeededRandomness,
    SystemRandomness,
    exp_coin,
    grid_width,
    has_grid,
    rational_coin,
    round_to_grid,
    round_unbounded,
    standard_normal,
)
from tests.statistics import SESSION, cdf_envelope, neighbors_agree, proportion

# The children write whole lines of numbers; the source comes from the command line.
FORKS = """
import os, sys
import numpy as np
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
source = eval(sys.argv[1])
source.uniform(3)
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        break
    children.append(pid)
os.write(1, (" ".join(x.hex() for x in source.uniform(8)) + "\\n").encode())
if pid == 0:
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
"""


def after_fork(source: str, rooms) -> list[str]:
    """Numbers of a process and of its three children, drawn after the fork."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, source],
        cwd=rooms, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(run.stdout.splitlines()) == 4
    return run.stdout.split()


@pytest.mark.audit
def test_processes_share_no_number_after_a_fork(rooms):
    numbers = after_fork("SystemRandomness()", rooms)
    SESSION.spend(len(numbers) ** 2 / 2 * 2.0**-52)  # two of them may be equal by chance
    assert len(set(numbers)) == len(numbers) == 32


@pytest.mark.audit
def test_a_generator_with_a_state_would_repeat_after_a_fork(rooms):
    assert len(set(after_fork("SeededRandomness.from_seed(1)", rooms))) == 8


def test_a_system_source_has_no_state_to_copy_or_to_save():
    source = SystemRandomness()
    assert vars(source) == {}
    first, second = source.uniform(64), source.uniform(64)
    SESSION.spend(128**2 / 2 * 2.0**-52)
    assert len(set(first) | set(second)) == 128


@pytest.mark.parametrize(("byte", "number"), [(b"\x00", 2.0**-53), (b"\xff", 1 - 2.0**-53)])
def test_numbers_lie_strictly_inside(monkeypatch, byte, number):
    monkeypatch.setattr(os, "urandom", lambda size: byte * size)
    found = SystemRandomness().uniform(3)
    assert np.array_equal(found, np.full(3, number))
    assert np.all((found > 0.0) & (found < 1.0))


class Ends:
    """A generator that answers with its least, then its greatest number."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        return np.array([low, high - 1])


def test_seeded_numbers_lie_strictly_inside():
    assert SeededRandomness(Ends()).uniform(2).tolist() == [2.0**-53, 1 - 2.0**-53]


@pytest.mark.parametrize("source", [SystemRandomness(), SeededRandomness.from_seed(4)])
def test_numbers_are_uniform_and_independent(source):
    numbers = source.uniform(100_000)
    assert cdf_envelope(numbers, lambda x: x).passes
    assert neighbors_agree(numbers, 0.5).passes
    # The bits the draws are made of: the parity of the 30th is a fair coin as well.
    assert neighbors_agree(numbers * 2**30 % 1.0, 0.5).passes


def test_a_seed_repeats():
    first, second = (SeededRandomness.from_seed(9).uniform(5) for _ in range(2))
    assert np.array_equal(first, second)


ENDS = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(a=ENDS, b=ENDS, share=st.floats(0, 1))
@example(a=0.05, b=0.95, share=1.0)  # ends that are no multiples of the grid
@example(a=1e6, b=1e6 + 1e-3, share=0.3)  # a small box far from zero
@example(a=-3.0, b=0.0, share=1.0)
def test_rounded_values_are_multiples_of_a_public_width_inside_the_box(a, b, share):
    lower, upper = np.array([min(a, b)]), np.array([max(a, b)])
    assume(has_grid(lower, upper))
    value = np.clip(lower + share * (upper - lower), lower, upper)
    width = grid_width(lower, upper)
    rounded = round_to_grid(value, lower, upper)
    steps = rounded / width
    assert np.array_equal(steps, np.round(steps))
    assert np.all((lower <= rounded) & (rounded <= upper))
    assert np.all(np.abs(rounded - value) <= width)
    assert np.array_equal(round_to_grid(rounded, lower, upper), rounded)
    assert np.log2(width) == np.round(np.log2(width))
    # At least seven of the 53 bits of the largest double in the box are given up.
    assert np.all(np.maximum(np.abs(lower), np.abs(upper)) / width < 2.0**46)


def test_the_width_comes_from_the_box_alone():
    lower, upper = np.array([-3.0, 0.05]), np.array([3.0, 0.95])
    assert grid_width(lower, upper).tolist() == [2.0 ** (2 - GRID_BITS), 2.0 ** (-1 - GRID_BITS)]


def test_the_low_bits_of_two_roads_to_one_value_are_gone():
    lower, upper = np.array([-1.0]), np.array([1.0])
    one = np.array([0.1 + 0.2])
    other = np.nextafter(one, 1.0)
    assert one != other
    assert round_to_grid(one, lower, upper) == round_to_grid(other, lower, upper)


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 1.0 + 2.0**-50), (1e9, 1e9 + 1e-6), (-1.7e308, 1.7e308)]
)
def test_a_box_of_too_few_doubles_has_no_grid(lower, upper):
    assert not has_grid(np.array([lower]), np.array([upper]))


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1e-200), (1e3, 1e3 + 1e-6), (-1e200, 1e200)])
def test_an_ordinary_box_has_a_grid(lower, upper):
    assert has_grid(np.array([lower]), np.array([upper]))


def test_the_words_name_the_bits():
    assert f"2**-{GRID_BITS}" in randomness.BOX_GRID
    assert f"2**-{randomness.MAGNITUDE_BITS}" in randomness.BOX_GRID


@pytest.mark.parametrize("source", [SystemRandomness(), SeededRandomness.from_seed(8)])
@pytest.mark.parametrize("end", [1, 2, 3, 5, 2**61 + 7])
def test_integers_below_an_end_are_uniform(source, end):
    found = [source.below(end) for _ in range(2000)]
    assert min(found) >= 0
    assert max(found) < end
    if end > 1:
        assert cdf_envelope((np.array(found) + source.uniform(2000)) / end, lambda x: x).passes


@pytest.mark.thin(4)
@pytest.mark.parametrize("gamma", [Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_exact_coins_of_exponentials(gamma):
    source = SeededRandomness.from_seed(31)
    hits = [exp_coin(source, gamma) for _ in range(20_000)]
    assert proportion(sum(hits), len(hits), math.exp(-gamma)).passes


def test_a_coin_of_the_wrong_exponent_is_caught():
    source = SeededRandomness.from_seed(32)
    hits = [exp_coin(source, Fraction(11, 10)) for _ in range(20_000)]
    assert not proportion(sum(hits), len(hits), math.exp(-1.0)).passes


class Tape:
    """Gives prescribed integers, and tells what it was asked."""

    def __init__(self, *words: int) -> None:
        self.words, self.asked = list(words), []

    def below(self, end: int) -> int:
        self.asked.append(end)
        return self.words.pop(0)


def test_the_race_of_coins_is_algorithm_1():
    tape = Tape(1, 1, 8)  # coins 2/5 and 2/10 come up, 2/15 does not: k = 3 is odd
    assert exp_coin(tape, Fraction(2, 5))
    assert tape.asked == [5, 10, 15]
    tape = Tape(1, 9)
    assert not exp_coin(tape, Fraction(2, 5))  # k = 2 is even


def test_a_rational_coin_is_exact():
    assert rational_coin(Tape(2), Fraction(3, 7))
    assert not rational_coin(Tape(3), Fraction(3, 7))


def test_normal_numbers_follow_their_law():
    found = standard_normal(SeededRandomness.from_seed(5), 50, 1000).ravel()
    assert cdf_envelope(found, ndtr).passes


@given(value=st.floats(-1e12, 1e12), scale=st.floats(1e-6, 1e6))
def test_the_open_grid_is_public_and_keeps_few_digits(value, scale):
    found = round_unbounded(np.array([[value]]), np.array([scale]))
    again = round_unbounded(found, np.array([scale]))
    assert abs(found - value) <= max(2.0**-32 * scale, 2.0**-40 * abs(value))
    assert np.array_equal(again, found) or abs(again - found) <= 2.0**-39 * abs(value)
    mantissa = np.frexp(found)[0] * 2.0**53
    assert found == 0.0 or mantissa % 2**12 == 0  # the last twelve bits are gone
