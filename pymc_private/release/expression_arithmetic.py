"""Arithmetic and three-valued logic of expressions: whole numbers never wrap.

Three types of array stand for what a draw may hold:

- float64: a number; NaN where there is none (``log(-1)``, ``1 / 0``, beyond all floats);
- int64: whole numbers of at most 2**53, computed exactly; beyond it they have no value;
- int8: truth in Kleene's logic, FALSE < UNKNOWN < TRUE. A comparison with a number that has no
  value is unknown, and ``x > 0 and log(x) > 1`` is known nevertheless.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pymc_private.errors import DomainError

FALSE, UNKNOWN, TRUE = 0, 1, 2
MOST_WHOLE = 2**53
"""Every whole number up to this one is a float."""
MOST_BITS = 1000
"""Constants are computed exactly up to so many bits; no float holds more than 1024."""
Operation: TypeAlias = Callable[..., Any]


class OutOfBounds(DomainError):
    """A utility leaves its bounds or has no value at some draws; that reveals something of them."""


def as_operand(array: np.ndarray) -> np.ndarray:
    """Draws, or the numbers of a query, as one of the three types; text unchanged.

    Raises
    ------
    OutOfBounds
        Whole numbers that floats do not hold.
    """
    if array.dtype.kind == "b":
        return _truth_values(array)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind not in "iu":
        return array
    if array.size and (array.max() > MOST_WHOLE or array.min() < -MOST_WHOLE):
        raise OutOfBounds(
            "expressions compute with whole numbers of at most 2**53",
            got=f"larger ones of type {array.dtype}",
            do="write it as a Python function of the draws",
        )
    return array.astype(np.int64)


def constant_as_array(value: Any, whole: bool = False) -> np.ndarray:
    """A constant of an expression as an array of one of the three types; such an array unchanged.

    Beside ``whole`` numbers a larger whole constant has no value: as a float it would absorb them.

    Raises
    ------
    DomainError
        It is no number, or a whole number that no float holds.
    """
    if isinstance(value, np.ndarray) and value.dtype in (np.int8, np.int64, np.float64):
        return value
    if isinstance(value, bool):
        return _truth_values(np.asarray(value))
    if isinstance(value, float):
        return np.asarray(value)
    if isinstance(value, int) and abs(value) <= MOST_WHOLE:
        return np.asarray(value, np.int64)
    if isinstance(value, int) and whole:
        return np.asarray(math.nan)
    if isinstance(value, int) and value.bit_length() <= MOST_BITS and int(float(value)) == value:
        return np.asarray(float(value))
    if isinstance(value, int):
        raise DomainError(
            "no float holds this whole number, and expressions compare draws with floats",
            got=f"a number of {value.bit_length()} bits",
            allowed="whole numbers of at most 2**53, or larger ones that are floats: 10**19",
            do="write it as a float: 1e23",
        )
    raise DomainError(
        "expressions compute with numbers; text is compared with text",
        got=str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__,
        allowed="numbers and truth values",
    )


def final_values(array: np.ndarray) -> np.ndarray:
    """The result of an expression: truth as booleans, numbers unchanged.

    Raises
    ------
    OutOfBounds
        It is unknown at some draws whether an event happens.
    """
    if array.dtype != np.int8:
        return array
    if np.any(array == UNKNOWN):
        raise OutOfBounds(
            "this event has no answer at some draws: a number that it compares has no value there",
            got="x / 0, log(-1), or a result beyond what floats (or whole numbers, 2**53) hold",
            allowed="expressions that have a value at every draw",
            do="say what holds there: 'k > 0 and x / k > 1', or where(k > 0, x / k, 0) > 1",
        )
    return array == TRUE


def apply_to_constants(operation: Operation, *parts: Any) -> Any:
    """An operation on Python numbers, exact for whole ones; NaN has no value."""
    exact = EXACT.get(operation)
    if exact is not None and all(type(part) is int for part in parts):
        found = _exact_integer(exact, *parts)
        if found is not None:
            return found
    if operation in COMPARE and {type(part) for part in parts} in ({int}, {str}):
        return COMPARE[operation](*parts)
    result = operation(*map(constant_as_array, parts))
    return as_python_scalar(result)


def as_python_scalar(array: np.ndarray) -> Any:
    """A single number as a Python scalar (unknown truth stays an array), several unchanged."""
    if array.ndim or (array.dtype == np.int8 and array == UNKNOWN):
        return array
    return bool(array == TRUE) if array.dtype == np.int8 else array.item()


def arithmetic(function: Operation, whole: Operation | None = None) -> Operation:
    """An operation on numbers that has no value where an operand has none, or the result is none.

    Parameters
    ----------
    function : callable
        Elementwise, of NumPy.
    whole : callable, optional
        Of whole operands, where the result is a whole number if it is not too large.
        None: it is none.
    """

    def apply(*arrays: np.ndarray) -> np.ndarray:
        numbers = [as_number(array) for array in arrays]
        floats = [array.astype(np.float64) for array in numbers]
        rough = np.asarray(function(*floats), np.float64)
        # Beyond all floats, and at a pole, there is no value; infinite operands stay infinite.
        given = [np.isfinite(array) for array in floats]
        rough = np.where(np.isinf(rough) & np.logical_and.reduce(np.broadcast_arrays(*given)),
                         math.nan, rough)  # fmt: skip
        for array in floats:  # NaN ** 0 is 1 in floats
            rough = np.where(np.isnan(array), math.nan, rough)
        if whole is None or any(array.dtype != np.int64 for array in numbers):
            return rough
        fits = np.abs(rough) <= MOST_WHOLE
        fine = fits & whole(*numbers)
        safe = [np.where(fine, array, 1) for array in numbers]
        exact = np.asarray(function(*safe), np.int64)
        if fine.all():
            return exact
        return np.where(fine, exact, np.where(fits, rough, math.nan))

    return apply


def comparison(function: Operation) -> Operation:
    """Compare numbers: unknown where one has no value."""

    def apply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        first, second = (as_number(array).astype(np.float64) for array in (left, right))
        truth = _truth_values(np.asarray(function(first, second)))
        return np.where(np.isnan(first) | np.isnan(second), np.int8(UNKNOWN), truth)

    return apply


def connective(function: Operation) -> Operation:
    """Join events by Kleene's logic: known where the unknown parts make no difference."""

    def apply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if left.dtype != np.int8 or right.dtype != np.int8:
            raise DomainError(
                "and, or, & and | join events",
                got="a number",
                allowed="comparisons, such as k > 0",
                do="write k != 0 for a number k that counts as true unless it is zero",
            )
        return function(left, right)

    return apply


def reduction(function: Operation, whole: bool = False) -> Operation:
    """Reduce the last axis of numbers; NaN where one of them has no value.

    Parameters
    ----------
    function : callable
        Takes an array and ``axis``.
    whole : bool
        Whole numbers reduce to a whole number, which is exact if their sizes sum to 2**53 or less.
    """

    def apply(array: np.ndarray) -> np.ndarray:
        numbers = as_number(array)
        floats = numbers.astype(np.float64)
        has_none = np.isnan(floats).any(axis=-1) | (
            np.isfinite(floats).all(axis=-1) & ~np.isfinite(function(floats, axis=-1))
        )
        if not whole or numbers.dtype != np.int64:
            return np.where(has_none, math.nan, function(floats, axis=-1))
        fine = np.abs(floats).sum(axis=-1) <= MOST_WHOLE
        exact = function(np.where(fine[..., None], numbers, 0), axis=-1)
        return exact if fine.all() else np.where(fine, exact, math.nan)

    return apply


def arg_reduction(function: Operation) -> Operation:
    """argmax and argmin: a whole number, or no value where a number has none."""

    def apply(array: np.ndarray) -> np.ndarray:
        numbers = as_number(array).astype(np.float64)
        positions, has_none = function(numbers, axis=-1), np.isnan(numbers).any(axis=-1)
        return (
            np.where(has_none, math.nan, positions)
            if has_none.any()
            else positions.astype(np.int64)
        )

    return apply


def truth_reduction(function: Operation) -> Operation:
    """``all`` and ``any``: the least and the greatest truth."""
    return lambda array: function(as_truth(array), axis=-1)


def logical_not(array: np.ndarray) -> np.ndarray:
    """``not``: unknown stays unknown."""
    return (TRUE - as_truth(array)).astype(np.int8)


def bitwise_not(array: np.ndarray) -> np.ndarray:
    """``~`` of an event; of a number, whose bits it would flip in Python, it is refused."""
    connective(np.minimum)(array, array)
    return logical_not(array)


def select(test: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``where``: for an unknown test known only where both sides are equal."""
    chosen = as_truth(test)
    if one.dtype == other.dtype == np.int8:
        no_value: Any = np.int8(UNKNOWN)
    else:
        one, other = as_number(one), as_number(other)
        no_value = math.nan
    found = np.where(chosen == TRUE, one, other)
    unknown = (chosen == UNKNOWN) & (one != other)
    return np.where(unknown, no_value, found) if unknown.any() else found


def as_number(array: np.ndarray) -> np.ndarray:
    """Truth as a number: true is 1."""
    if array.dtype != np.int8:
        return array
    if np.any(array == UNKNOWN):
        return np.where(array == UNKNOWN, math.nan, array / TRUE)
    return (array // TRUE).astype(np.int64)


def as_truth(array: np.ndarray) -> np.ndarray:
    """A number as truth: true unless zero, unknown without a value."""
    if array.dtype == np.int8:
        return array
    return np.where(np.isnan(array), np.int8(UNKNOWN), _truth_values(array != 0))


def always(*_: np.ndarray) -> bool:
    """Whole numbers give a whole number."""
    return True


def _truth_values(array: np.ndarray) -> np.ndarray:
    return np.where(array, np.int8(TRUE), np.int8(FALSE))


def _exact_integer(exact: Operation, *parts: int) -> Any:
    """Exact arithmetic of constants that fit a float; None where it is not whole."""
    if exact is operator.pow:
        base, power = parts
        if power < 0:
            return None
        if abs(base) > 1 and base.bit_length() * power > 2 * MOST_BITS:
            return math.nan
    try:
        found = exact(*parts)
    except ZeroDivisionError:
        return math.nan
    return found if found.bit_length() <= MOST_BITS else math.nan


ADD = arithmetic(np.add, always)
SUBTRACT = arithmetic(np.subtract, always)
MULTIPLY = arithmetic(np.multiply, always)
POWER = arithmetic(np.power, lambda a, b: b >= 0)
MOD = arithmetic(np.mod, lambda a, b: b != 0)
FLOOR_DIVIDE = arithmetic(np.floor_divide, lambda a, b: b != 0)
NEGATIVE = arithmetic(np.negative, always)
POSITIVE = arithmetic(np.positive, always)
EXACT: dict[Operation, Operation] = {
    ADD: operator.add, SUBTRACT: operator.sub, MULTIPLY: operator.mul, POWER: operator.pow,
    MOD: operator.mod, FLOOR_DIVIDE: operator.floordiv, NEGATIVE: operator.neg,
    POSITIVE: operator.pos,
}  # fmt: skip
LESS, LESS_EQUAL = comparison(np.less), comparison(np.less_equal)
GREATER, GREATER_EQUAL = comparison(np.greater), comparison(np.greater_equal)
EQUAL, UNEQUAL = comparison(np.equal), comparison(np.not_equal)
COMPARE: dict[Operation, Operation] = {
    LESS: operator.lt, LESS_EQUAL: operator.le, GREATER: operator.gt, GREATER_EQUAL: operator.ge,
    EQUAL: operator.eq, UNEQUAL: operator.ne,
}  # fmt: skip
