"""Graphs run by NumPy: what is done slice by slice, or left out, gives what PyTensor gives."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_private.analysis.intervals import ops
from pymc_private.summaries.density import batched
from pymc_private.summaries.density.batched import NumpyProgram, VectorizedFunction

RNG = np.random.default_rng(8)
WILD = np.array([np.nan, np.inf, -np.inf, 0.0, 1e300, -1e300])


def arrays(*shapes):
    """Normal numbers, with wild ones among them."""
    for shape in shapes:
        found = RNG.normal(size=shape)
        found.ravel()[: min(6, found.size)] = WILD[: min(6, found.size)]
        yield found


@pytest.mark.parametrize("width", [1, 2, 7, 40])
def test_reductions_sums_and_switches_of_narrow_and_wide_stacks(width):
    x = pt.tensor("x", shape=(None, None, None), dtype="float64")
    y = pt.tensor("y", shape=(None, None, 1), dtype="float64")
    choice = pt.constant((np.arange(width) % 2 == 0)[None, None])
    outs = [
        x.sum(axis=-1), x.sum(axis=0), x.sum(), x.prod(axis=1), x.max(axis=2), (x > 0).all(axis=2),
        x + y, y + x, pt.switch(choice, x, y), pt.switch(choice, y, x), pt.switch(x > y, x, y),
        pt.switch(pt.isinf(x) | (x <= x), x, y), x.dimshuffle(2, 0, "x", 1), y.dimshuffle(1, 0),
    ]  # fmt: skip
    given = list(arrays((40, 30, width), (40, 30, 1)))
    found = NumpyProgram([x, y], outs)(*given)
    with np.errstate(all="ignore"):
        expected = pytensor.function([x, y], outs, mode="FAST_COMPILE")(*given)
    for one, other, out in zip(found, expected, outs, strict=True):
        assert one.shape == other.shape
        assert str(one.dtype) == out.type.dtype
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("width", [1, 3, 30])
def test_the_logarithm_of_a_sum_of_exponentials(width):
    x = pt.matrix("x")
    values = 50.0 * RNG.normal(size=(6, width))
    values[0], values[1, 0] = -np.inf, -np.inf
    (found,) = NumpyProgram([x], [ops.LogSumExp()(x)])(values)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found, np.logaddexp.reduce(values, axis=1), rtol=1e-13)


def test_a_chosen_branch_is_the_same_to_the_last_bit_whatever_the_other_rows_choose():
    """A row's result may not depend on whether all rows choose alike."""
    x, y = pt.matrix("x"), pt.matrix("y")
    program = NumpyProgram([x, y], [pt.exp(pt.switch(pt.gt(x, 0.0), x, y) * 1.1)])
    values, other = RNG.uniform(0.1, 3.0, (64, 33)), RNG.normal(size=(64, 33))
    (alike,) = program(values, other)
    mixed = values.copy()
    mixed[::2] *= -1.0
    (apart,) = program(mixed, other)
    np.testing.assert_array_equal(alike[1::2], apart[1::2])
    assert not np.array_equal(alike[::2], apart[::2])


def test_zero_times_what_is_no_number_is_zero_in_derivatives_alone():
    x, y = pt.vector("x"), pt.vector("y")
    given = np.array([0.0, 0.0, 1.0, 1e200]), np.array([np.inf, np.nan, np.nan, 1e200])
    outs = [x * y, x / y]
    product, quotient = NumpyProgram([x, y], outs, derivatives=True)(*given)
    np.testing.assert_array_equal(product, [0.0, 0.0, np.nan, np.inf])
    np.testing.assert_array_equal(quotient, [0.0, 0.0, np.nan, 1.0])
    plain, _ = NumpyProgram([x, y], outs)(*given)
    np.testing.assert_array_equal(plain, [np.nan, np.nan, np.nan, np.inf])


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 1, 1), (3,), (1,), ()])
def test_a_switch_by_as_many_choices_as_the_last_axis_is_long_may_be_along_another(
    shape, monkeypatch
):
    monkeypatch.setattr(batched, "LARGE_ARRAY", 0)
    x, y = (pt.tensor(name, shape=(None, None), dtype="float64") for name in "xy")
    choice = pt.constant((np.arange(np.prod(shape, dtype=int)) % 2 == 0).reshape(shape))
    out = pt.switch(choice, x, y)
    given = [np.arange(9.0).reshape(3, 3), -np.arange(9.0).reshape(3, 3)]
    expected = np.where(choice.data, *given)
    np.testing.assert_array_equal(NumpyProgram([x, y], [out])(*given)[0], expected)


@pytest.mark.parametrize("change", ["read", "set", "add"])
@pytest.mark.parametrize("start", [[1, 1, 1], [0, 2, 1]], ids=["one place", "other places"])
def test_slices_of_stacks_are_those_of_each_array(change, start):
    x, y = pt.matrix("x", dtype="float64"), pt.scalar("y", dtype="float64")
    first = pt.lscalar("first")
    part = x[first, 1:]
    out = {"read": part, "set": pt.set_subtensor(part, y), "add": pt.inc_subtensor(part, y)}[change]
    rng = np.random.default_rng(3)
    xs, ys, firsts = rng.normal(size=(3, 4, 5)), rng.normal(size=3), np.array(start)
    function = VectorizedFunction([x, y, first], [out])
    expected = [
        out.eval({x: a, y: b, first: c}, on_unused_input="ignore", mode="FAST_COMPILE")
        for a, b, c in zip(xs, ys, firsts, strict=True)
    ]
    np.testing.assert_array_equal(function(xs, ys, firsts)[0], np.stack(expected))
