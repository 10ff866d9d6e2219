"""Validation of arguments: numbers, counts, probabilities, texts and paths.

Checks raise `DomainError` and name the argument. Numbers are taken as exact fractions or as doubles
rounded to the safe side; `vectorized` lets a formula of numbers take arrays as well.

A budget means the decimal its user wrote; a proved cost means the very double that was proved,
since that one was rounded up. Exact rationals are stored as the text ``"p/q"``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.rounding import SMALLEST_DOUBLE, float_down, float_up

MAX_COUNT = 10**18
"""Larger counts are refused."""
MAX_DIGITS = 400
"""Fractions with more digits are refused in budgets, and rounded up to doubles in costs."""
MAX_LINE_LENGTH = 200
"""Longer lines of text are refused by default."""
NUMBER_TYPES = "float", "int", "Fraction | float"
"""Annotations of arguments that are one number."""
Formula = TypeVar("Formula", bound=Callable[..., Any])


def vectorized(formula: Formula) -> Formula:
    """Let a formula of numbers take arrays as well: they broadcast, and floats are returned.

    What is annotated as `float` or `int` has to be a number.
    """
    signature = inspect.signature(formula)
    kinds = {k: str(p.annotation) for k, p in signature.parameters.items()}

    @functools.wraps(formula)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        arrays = {k: np.asarray(v, object) for k, v in given.items() if _is_array(k, v)}
        rest = _plain_numbers({k: v for k, v in given.items() if k not in arrays}, kinds)
        if not arrays:
            return formula(**rest)
        shape = _common_shape(arrays)
        flat = {k: np.broadcast_to(array, shape).ravel() for k, array in arrays.items()}
        each = [{k: a[i] for k, a in flat.items()} for i in range(int(np.prod(shape)))]
        values = [formula(**rest, **_plain_numbers(one, kinds)) for one in each]
        return np.array(values, float).reshape(shape)

    return call  # type: ignore[return-value]


def takes_numbers(function: Formula) -> Formula:
    """Refuse what is no number, or no list of them, where numbers are annotated."""
    signature = inspect.signature(function)
    kinds = {k: str(p.annotation) for k, p in signature.parameters.items()}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # Python says best which argument is missing or unknown
            return function(*args, **kwargs)
        for name, value in given.items():
            if kinds[name] in ("Sequence[float]", "Sequence[int]"):
                _check_numbers(name, value)
        return function(**_plain_numbers(given, kinds))

    return call  # type: ignore[return-value]


def _plain_numbers(given: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Arguments, those that are annotated as one number as such."""
    found = dict(given)
    for name, value in given.items():
        kind = kinds[name]
        if kind in NUMBER_TYPES or (kind == "float | None" and value is not None):
            found[name] = plain_number(name, value)
    return found


def _check_numbers(name: str, values: Any) -> None:
    """Refuse what is no array or list of numbers."""
    try:
        array = np.asarray(values)
    except Exception:  # of whatever library the values come from
        array = np.asarray(None)
    is_listed = array.ndim == 1 and not isinstance(values, str | bytes | Mapping)
    if not (is_listed and (array.dtype.kind in "iufb" or all(map(is_number, array.flat)))):
        raise DomainError(
            f"{name} are numbers",
            got=f"a {type(values).__name__}",
            allowed="a list, or an array with one axis",
        )


def plain_number(name: str, value: Any) -> Any:
    """One real number; fractions and decimals stay exact, infinity is a float.

    Raises
    ------
    DomainError
        It is no number, or no double is as large, or as small.
    """
    if is_number(value):
        plain = value.item() if isinstance(value, np.ndarray | np.generic) else value
        with contextlib.suppress(OverflowError):
            approximate = float(plain)
            if approximate != 0.0 or plain == 0:
                is_exact = not isinstance(plain, Decimal)
                return plain if is_exact else _fraction_or_infinity(plain, approximate)
    got, allowed = short_repr(value)[:60], "a number that a double can hold"
    raise DomainError(f"{name} is a number", got=got, allowed=allowed)


def _fraction_or_infinity(value: Decimal, approximate: float) -> Fraction | float:
    return approximate if math.isinf(approximate) else Fraction(value)


def _is_array(name: str, value: Any) -> bool:
    try:
        return np.ndim(value) > 0 and not isinstance(value, str)
    except (TypeError, ValueError):
        raise DomainError(
            f"{name}= is a number or an array of numbers",
            got=f"a {type(value).__name__} that is no array",
            allowed="rows of one length",
        ) from None


def _common_shape(arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    shapes = {name: array.shape for name, array in arrays.items()}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise DomainError(
            f"arrays that are given together have shapes that broadcast: {', '.join(shapes)}",
            got=", ".join(map(str, shapes.values())),
            allowed="one shape, or lengths of 1",
        ) from None


def refuse_mask(values: Any, what: str) -> None:
    """Refuse masked arrays, and lists of them: arithmetic here would use what they mask.

    They are refused by type alone, whatever is masked.
    """
    parts = values if isinstance(values, list | tuple) else ()
    if np.ma.isMaskedArray(values) or any(map(np.ma.isMaskedArray, parts)):
        raise DomainError(
            f"{what} come as an array without a mask",
            got="a masked array",
            do="say what stands in masked places: filled(value), or leave them out: compressed()",
        )


def is_number(value: Any) -> bool:
    """Whether this is one real number: not Boolean, text, complex, or a vector."""
    if type(value) is float or type(value) is int:
        return True
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return is_number(value.item())
    if isinstance(value, Decimal):
        return not value.is_nan()  # which refuses to be compared
    return isinstance(value, Real) and not isinstance(value, bool)


def is_double(value: Any) -> bool:
    """Whether arithmetic in doubles takes this number as it is."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**53)


def check_positive(**named: Any) -> None:
    """Refuse numbers that are not positive and finite; the error names the first of them."""
    for name, value in named.items():
        if not (is_number(value) and 0.0 < value <= sys.float_info.max):
            raise DomainError(f"{name} is positive", got=value, allowed=f"0 < {name} < inf")


def check_nonnegative(**named: Any) -> None:
    """Refuse what is no number >= 0; the error names the first of them."""
    for name, value in named.items():
        if not (is_number(value) and value >= 0.0):
            raise DomainError(f"{name} is not negative", got=value, allowed=f"{name} >= 0")


def check_open_unit(**named: Any) -> None:
    """Refuse numbers outside the open unit interval; the error names the first of them."""
    for name, value in named.items():
        if not (is_number(value) and 0.0 < value < 1.0):
            raise DomainError(f"{name} lies in (0, 1)", got=value, allowed=f"0 < {name} < 1")


def check_flags(**named: Any) -> None:
    """Refuse what is neither True nor False: the text "no" would count as a yes."""
    for name, value in named.items():
        if not isinstance(value, bool | np.bool_):
            raise DomainError(
                f"{name}= is True or False", got=short_repr(value)[:60], allowed="True, False"
            )


def check_axes(ax: Any) -> None:
    """Refuse to plot on what is no matplotlib Axes; None makes a new one."""
    if ax is not None and not hasattr(ax, "set_xlabel"):
        raise DomainError(
            "ax= is where to plot",
            got=type(ax).__name__,
            allowed="a matplotlib Axes, or None for a new one",
            do="figure, ax = matplotlib.pyplot.subplots()",
        )


def check_renyi_order(order: Any) -> None:
    """Refuse Renyi orders below one."""
    if not (is_number(order) and order >= 1.0):
        raise DomainError("a Renyi order is at least 1", got=order, allowed="order >= 1")


def exact_stated(value: Any, name: str) -> Fraction | float:
    """Number >= 0 as its user wrote it: 0.1 means 1/10; inf stands for no guarantee."""
    number = double_up(value, name)
    if math.isinf(number):
        return math.inf
    if isinstance(value, Decimal) and number == SMALLEST_DOUBLE:
        return number
    if isinstance(value, Rational | Decimal):
        return exact_fraction(value)
    return Fraction(repr(float(value)))


def double_up(value: Any, name: str) -> float:
    """Number >= 0 as a double that is not below it; inf stands for no guarantee, or too much."""
    if not (is_number(value) and value >= 0):
        raise DomainError(f"{name} is a number >= 0", got=short_repr(value), allowed=f"{name} >= 0")
    if value == math.inf:
        return math.inf
    if isinstance(value, Decimal) and abs(value.adjusted()) > 1000 and value > 0:
        return math.inf if value > 1 else SMALLEST_DOUBLE  # its digits might fill the memory
    if isinstance(value, Rational | Decimal):
        return float_up(Fraction(value))
    number = float(value)  # a longer float may exceed the double next to it
    return number if number >= value else math.nextafter(number, math.inf)


def short_repr(value: Any) -> str:
    """Representation of a value in at most 80 characters, for error messages."""
    try:
        return repr(value)[:80]
    except ValueError:  # Python writes no integer of many thousand digits
        return f"{type(value).__name__} of very many digits"


def exact_fraction(value: Any) -> Fraction:
    """Finite number, checked before, as the exact double or fraction it is."""
    if isinstance(value, np.ndarray):
        value = value.item()
    number = Fraction(value) if isinstance(value, Rational | Decimal) else value
    top, bottom = number.as_integer_ratio()
    return Fraction(int(top), int(bottom))  # NumPy's integers would overflow


def double_down(value: Any) -> float:
    """Number as a double that is not above it."""
    if isinstance(value, Rational | Decimal) and math.isfinite(value):
        return float_down(Fraction(value))
    return float(value)


def check_delta(value: Any) -> float:
    """Delta in [0, 1) as a double, rounded up."""
    number = double_up(value, "delta")
    if not number < 1.0:
        raise DomainError("delta is a probability in [0, 1)", got=value, allowed="0 <= delta < 1")
    return number


def check_count(value: Any, name: str) -> int:
    """Whole number from 1 to `MAX_COUNT` as a Python integer."""
    try:
        number = 0 if isinstance(value, bool | np.bool_) else operator.index(value)
    except (TypeError, np.ma.MaskError):
        number = 0
    if number < 1:
        raise DomainError(
            f"{name} is a whole number >= 1", got=short_repr(value), allowed="1, 2, 3, ..."
        )
    if number > MAX_COUNT:
        raise DomainError(f"{name} is too large", got=value, allowed=f"1, 2, 3, ..., {MAX_COUNT}")
    return number


DELTA_OF_ONE_RECORD = "delta = {} is above 1/n = {}: so much lets a mechanism publish one whole \
record; take one far below 1/n"


def large_delta(delta: float, n: int | None) -> str | None:
    """What is said of a delta above 1/n; None of a smaller one, or where n is not public."""
    if n is None or delta * n <= 1.0:
        return None
    return DELTA_OF_ONE_RECORD.format(f"{delta:.3g}", f"{1.0 / n:.3g}")


def check_counts(values: Any, name: str) -> list[int]:
    """A list of whole numbers >= 1; refuses a single one."""
    return [check_count(value, name) for value in listed(values, name)]


def listed(values: Any, name: str) -> list[Any]:
    """Several numbers as a list; refuses one by itself, and text, which has letters only."""
    refuse_mask(values, name)
    try:
        if not isinstance(values, str | bytes | Mapping):
            return list(values)
    except TypeError:  # one number, or a table that was not read
        pass
    raise DomainError(f"{name} are a list", got=type(values).__name__, allowed="[1, 10]")


def as_python_int(number: Any) -> Any:
    """Any integer as a Python integer, so that equal samplers give one plan; others unchanged."""
    if isinstance(number, bool | np.bool_):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return number


# ---- exact numbers of budgets and costs ----------------------------------------------------
def rational_text(value: Fraction) -> str:
    """Write an exact rational as ``"p/q"``."""
    return f"{value.numerator}/{value.denominator}"


def parse_rational(text: str) -> Fraction:
    """Rational that `rational_text` wrote."""
    top, bottom = text.split("/")
    return Fraction(int(top), int(bottom))


def exact_decimal(value: object, what: str) -> Fraction:
    """Number as the decimal its user wrote: 0.1 means 1/10, not the nearest double.

    It is finite, not negative, and has at most 400 digits.

    Examples
    --------
    >>> exact_decimal(0.1, "epsilon"), exact_decimal("1e-6", "delta")
    (Fraction(1, 10), Fraction(1, 1000000))
    >>> exact_decimal("1/3", "delta")
    Fraction(1, 3)
    """
    number = _parsed_number(value)
    if number is None or number < 0:
        raise DomainError(
            f"{what} is not a number that a budget can have.",
            got=_described(value),
            allowed=f"a finite number >= 0 of at most {MAX_DIGITS} digits "
            "(int, float, Decimal, Fraction or text)",
        )
    return number


def _described(value: object) -> str:
    """Type and beginning of a value: Python refuses to write very long integers."""
    if isinstance(value, Rational):
        bits = max(int(part).bit_length() for part in (value.numerator, value.denominator))
        if bits > 4 * MAX_DIGITS:
            return f"{type(value).__name__} of {bits} bits"
    return f"{type(value).__name__} {str(value)[:40]!r}"


def _parsed_number(value: object) -> Fraction | None:
    if isinstance(value, Rational) and not isinstance(value, bool):
        number = exact_fraction(value)
    elif isinstance(value, Real | Decimal | str) and not isinstance(value, bool):
        text = str(value)
        # An exponent of many digits would fill the memory before it could be refused.
        huge = re.search(r"e[+-]?0*[1-9]\d{3}|_", text, re.IGNORECASE)
        if huge or not text.isascii() or len(text) > 2 * MAX_DIGITS:
            return None
        try:
            number = Fraction(text)
        except (ValueError, ZeroDivisionError):
            return None
    else:
        return None
    return number if _has_few_digits(number) else None


def exact_cost(value: Any, what: str) -> Fraction | None:
    """Proved cost (a float already rounded up, or a rational), exact; None if infinite.

    What has more than 400 digits is rounded up to a double. A negative cost, or one that is not a
    number, proves nothing and is refused.
    """
    if not isinstance(value, Rational):
        value = float(value)
        if value == math.inf:
            return None
    if not value >= 0:
        raise DomainError(f"A guarantee states an impossible {what}.", got=value, allowed=">= 0")
    number = exact_fraction(value)
    if _has_few_digits(number):
        return number
    rounded = float_up(number)
    return None if math.isinf(rounded) else Fraction(rounded)


def _has_few_digits(number: Fraction) -> bool:
    return max(abs(number.numerator), number.denominator) < 10**MAX_DIGITS


# ---- texts and paths -----------------------------------------------------------------------
def is_storable_text(text: object) -> bool:
    """Whether this is text that can be written: no null characters, no surrogates."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_storable_text(text: Any, what: str, *, empty: bool = False) -> str:
    """Refuse text that no file can hold; `what` names it, as in "the name of a table"."""
    if is_storable_text(text) and (text or empty):
        return str(text)
    raise DomainError(
        f"{what} is text that can be written to a file",
        got=repr(text)[:60] if isinstance(text, str) else type(text).__name__,
        allowed="text without null characters and halves of characters (surrogates)",
        do="take another name",
    )


def check_one_line(
    text: object, what: str, *, longest: int = MAX_LINE_LENGTH, empty: bool = False
) -> str:
    """Refuse what is not one line of printable text of bounded length; `what` names it."""
    fits = isinstance(text, str) and len(text) <= longest and text.isprintable()
    if not fits or not (empty or str(text).strip()):
        size = f" of {len(text)} characters" if isinstance(text, str) else ""
        raise DomainError(
            f"The {what} must be one line of text.",
            got=f"{type(text).__name__}{size}",
            allowed=f"{0 if empty else 1} to {longest} printable characters, no line breaks",
        )
    return str(text)


def check_file_path(path: Any, what: str) -> Path:
    """Path of a file as a user gives it; `what` names it in the error."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if text and is_storable_text(text):
        return Path(text)
    raise DomainError(
        f"{what} is the path of a file",
        got=repr(path)[:60] if isinstance(path, str) else type(path).__name__,
        allowed="a name of a file, as text or pathlib.Path",
    )
