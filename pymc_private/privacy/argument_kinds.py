"""What kinds of arguments a function takes, said once above it and checked before it runs.

A function of planning or audits computes with what it is given; its own checks are of ranges. Here
is the check before these: `takes` refuses what is no number, no function or no mapping with the
name of the argument, what was given and what is allowed, instead of an error from the arithmetic.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.validation import is_number, plain_number, refuse_mask

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _UnfitError(Exception):
    """An argument is not of its kind."""


@dataclass(frozen=True)
class Kind:
    """A kind of arguments.

    Attributes
    ----------
    words : str
        What is allowed.
    read : callable
        The argument as the function computes with it.
    is_optional : bool
        Whether None is taken as it is.
    """

    words: str
    read: Callable[[Any], Any]
    is_optional: bool = False

    @property
    def optional(self) -> Kind:
        """The same, or None."""
        return Kind(f"{self.words}, or None", self.read, True)

    def of(self, value: Any, name: str, function: str) -> Any:
        """The argument, or `DomainError`."""
        if value is None and self.is_optional:
            return None
        try:
            return self.read(value)
        except _UnfitError:
            raise DomainError(
                f"{function} cannot compute with this {name}",
                got=_described(value),
                allowed=self.words,
            ) from None


def takes(**kinds: Kind) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Check arguments by name before a function runs."""

    def checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:  # Python says best which argument is missing or unknown
                return function(*args, **kwargs)
            for name in kinds.keys() & bound.arguments.keys():
                value = bound.arguments[name]
                bound.arguments[name] = kinds[name].of(value, name, function.__name__)
            return function(*bound.args, **bound.kwargs)

        return call

    return checked


def _described(value: Any) -> str:
    """Type of a value, and the value where that is short."""
    shown = repr(value) if isinstance(value, str | bytes | int | float) else ""
    return f"{type(value).__name__} {shown}" if 0 < len(shown) <= 40 else type(value).__name__


def _number(value: Any) -> Any:
    """One real number; fractions and decimals stay exact, infinity is a float."""
    try:
        return plain_number("this", value)
    except DomainError:
        raise _UnfitError from None


def _double(value: Any) -> Any:
    """One real number, fractions and decimals as the nearest float."""
    plain = _number(value)
    return plain if isinstance(plain, int) else float(plain)


def _numbers(value: Any) -> Any:
    """One real number or an array of them."""
    refuse_mask(value, "numbers")
    if is_number(value):
        return _number(value)
    if isinstance(value, str | bytes | Mapping | bool | np.bool_) or value is None:
        raise _UnfitError
    try:
        array = np.asarray(value)
        array = array.astype(float) if array.dtype.kind == "O" else array
    except Exception:  # of whatever library the value comes from
        raise _UnfitError from None
    if array.dtype.kind not in "iufb" or (array.ndim == 0 and array.dtype.kind == "b"):
        raise _UnfitError
    return array


def _function(value: Any) -> Any:
    if not callable(value):
        raise _UnfitError
    return value


def _doubles(value: Any) -> Any:
    """The same, fractions and decimals as the nearest float."""
    found = _numbers(value)
    return found if isinstance(found, np.ndarray) else _double(found)


def _array(value: Any) -> Any:
    """Whatever NumPy makes one array of."""
    refuse_mask(value, "numbers")
    try:
        found = np.asarray(value)
    except Exception:  # of whatever library the value comes from
        raise _UnfitError from None
    if found.dtype.kind in "OV":
        raise _UnfitError
    return found


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise _UnfitError
    return str(value)


def _pair(value: Any) -> Any:
    found = _numbers(value)
    if np.shape(found) != (2,):
        raise _UnfitError
    return tuple(map(float, found))


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _UnfitError
    return value


def _keywords(value: Any) -> Any:
    if not all(isinstance(name, str) for name in _mapping(value)):
        raise _UnfitError
    return value


def _sequence(value: Any) -> Any:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise _UnfitError
    if isinstance(value, np.ndarray) and value.ndim == 0:
        raise _UnfitError
    return value


def _listed(value: Any) -> Any:
    """A range or a set as a list."""
    return list(value) if isinstance(value, range | set | frozenset) else value


def _seed(value: Any) -> Any:
    """What NumPy takes as one whole number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise _UnfitError
    return int(value)


def _guarantee(value: Any) -> Any:
    if not isinstance(value, Guarantee):
        raise _UnfitError
    return value


def _claim(value: Any) -> Any:
    return value if isinstance(value, Guarantee) else _number(value)


def _having(*methods: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
            raise _UnfitError
        return value

    return read


NUMBER = Kind("one number", _number)
DOUBLE = Kind("one number", _double)
NUMBERS = Kind("a number, or an array of numbers", _numbers)
DOUBLES = Kind("a number, or an array of numbers", _doubles)
ARRAY = Kind("an array", _array)
TEXT = Kind("text", _text)
COLUMN = Kind("the name of a column", _text)
FUNCTION = Kind("a function", _function)
PAIR = Kind("two numbers", _pair)
SEEDS = Kind("whole numbers >= 0", lambda value: [_seed(one) for one in _sequence(_listed(value))])
MAPPING = Kind("a mapping by name", _mapping)
KEYWORDS = Kind("keywords by name", _keywords)
SEQUENCE = Kind("a list or an array of them", _sequence)
SEED = Kind("a whole number >= 0", _seed)
GUARANTEE = Kind("a Guarantee", _guarantee)
CLAIM = Kind("a Guarantee or a number", _claim)
CLASSIFIER = Kind("a classifier with fit and predict_proba", _having("fit", "predict_proba"))
EXECUTOR = Kind("an executor, as of concurrent.futures", _having("map", "submit"))
