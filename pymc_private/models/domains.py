"""What a record could be: the domain of each private variable, declared in advance."""

from __future__ import annotations

import itertools
import numpy as np
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from pymc_private.analysis import Interval as Bounds, SimplexRows
from pymc_private.errors import DomainError

MOST_CELLS = 64
"""Most points of one variable of a record that are looked at one by one."""
MOST_PIECES = 32
"""Most pieces an interval of one variable is cut into."""


@runtime_checkable
class Domain(Protocol):
    """All values one record may take in one variable.

    `shape` is always the shape of one record's entry, without the records axis.
    """

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Nearest data inside the domain, or `DomainError`."""

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """One interval that holds the domain."""

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Intervals that cover the domain: its points if there are at most so many, else pieces."""

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Some extreme points, where a search for the worst record starts."""


def numbers(given: Any) -> np.ndarray:
    """The real numbers given; NaN for what is none, such as text or None."""
    try:
        array = np.asarray(given)
        return array.astype(float) if array.dtype.kind in "iufbO" else np.array(np.nan)
    except (TypeError, ValueError):  # rows of unequal length
        return np.array(np.nan)


@dataclass(frozen=True)
class Interval:
    """Numbers between two public ends; data outside are clipped.

    Parameters
    ----------
    lower, upper : float or array that broadcasts to one record's shape
        Finite ends, in the units of the data.

    Examples
    --------
    >>> Interval(0, 10)
    Interval(lower=0, upper=10)
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        low, high = numbers(self.lower), numbers(self.upper)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low <= high)):
            raise DomainError(
                "an interval needs finite ends, lower <= upper",
                got=f"({self.lower!r}, {self.upper!r})",
                allowed="finite numbers, public, in the units of the data",
                do="declare the range a record could have, not the range the data happen to have",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and all(
            np.array_equal(np.asarray(one, float), np.asarray(another, float))
            for one, another in ((self.lower, other.lower), (self.upper, other.upper))
        )

    def __hash__(self) -> int:
        ends = (np.asarray(self.lower, float), np.asarray(self.upper, float))
        return hash(tuple(end.tobytes() for end in ends))

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Move each number to the nearest end."""
        shape = data.shape[:axis] + data.shape[axis + 1 :]
        low, high = (np.expand_dims(end, axis) for end in self._ends(shape))
        if data.dtype.kind in "iub":
            low, high = np.ceil(low), np.floor(high)
        elif data.dtype != np.float64:  # the nearest shorter float may lie outside
            low, high = _shorter_ends(low, high, data.dtype)
        if np.any(low > high):
            raise DomainError(
                "no number of the variable's type lies in its interval",
                got=f"({self.lower}, {self.upper}) for {data.dtype}",
                allowed="an interval that holds a whole number, for whole numbers",
                do="widen the interval, or give the variable as floats",
            )
        return np.clip(data, low, high)

    def _ends(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        try:
            low = np.broadcast_to(np.asarray(self.lower, float), shape)
            high = np.broadcast_to(np.asarray(self.upper, float), shape)
        except ValueError as error:
            raise DomainError(
                "the ends of an interval do not fit the variable",
                got=f"ends of shape {np.shape(self.lower)}",
                allowed=f"a number, or shape {shape}",
                do="give one pair of ends per column",
            ) from error
        return low, high

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """The interval itself."""
        low, high = self._ends(shape)
        return Bounds(low, high)

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Single numbers are cut; vectors stay whole (their pieces would be too many)."""
        low, high = self._ends(shape)
        if int(np.prod(shape)) != 1:
            return [Bounds(low, high)]
        if whole:
            first, last = int(np.ceil(low.item())), int(np.floor(high.item()))
            if last - first < most:
                return [Bounds.point(np.full(shape, float(k))) for k in range(first, last + 1)]
            edges = np.unique(np.linspace(first, last, most + 1).round())
        else:
            edges = evenly(low.item(), high.item(), min(most, MOST_PIECES))
        pairs = itertools.pairwise(edges)
        return [Bounds(np.full(shape, a), np.full(shape, b)) for a, b in pairs]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """All-low, all-high, middle, and each coordinate at either end."""
        low, high = self._ends(shape)
        found = [low, high, (low + high) / 2]
        for i in np.ndindex(shape):
            for base, other in ((low, high), (high, low)):
                point = np.array(base)
                point[i] = other[i]
                found.append(point)
            if len(found) > MOST_CELLS:
                break
        return found


def evenly(low: float, high: float, pieces: int) -> np.ndarray:
    """Ends of so many pieces that cover [low, high]; high - low may overflow."""
    share = np.arange(pieces + 1) / pieces
    edges = low * (1.0 - share) + high * share
    edges[[0, -1]] = low, high
    return np.maximum.accumulate(np.clip(edges, low, high))


def _shorter_ends(
    low: np.ndarray, high: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest numbers of a shorter float type inside [low, high]."""
    first, last = low.astype(dtype), high.astype(dtype)
    first = np.where(first < low, np.nextafter(first, dtype.type(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, dtype.type(-np.inf)), last)
    return first, last


@dataclass(frozen=True)
class Categories:
    """A finite set of public labels or numbers; a value outside it is refused.

    Parameters
    ----------
    values : iterable of numbers
        Every value a record could have. Declare a value for "other" if new ones may occur.
    """

    values: tuple[float, ...]

    def __init__(self, values: Iterable[Any]) -> None:
        try:
            ordered = tuple(sorted({float(value) for value in values}))
        except (TypeError, ValueError) as error:
            raise DomainError(
                "categories are the numbers PyMC sees",
                got="a value that is not a number",
                allowed="the codes 0, 1, ... of the levels",
                do="encode levels by a public list, not by what the data contain",
            ) from error
        if not ordered or not np.isfinite(ordered).all():
            raise DomainError(
                "categories are finite numbers, at least one",
                got=f"{len(ordered)} values" + (", not all finite" if ordered else ""),
                allowed="the codes 0, 1, ... of the levels",
                do="give missing or infinite entries a code of their own",
            )
        object.__setattr__(self, "values", ordered)

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Unchanged, or `DomainError` (without quoting the value)."""
        whole = np.asarray(self.values) == np.floor(self.values)
        if data.dtype.kind in "iub" and not whole.all():
            raise DomainError(
                "a category that a variable of whole numbers cannot take",
                got=f"{self.values} for {data.dtype}",
                allowed="whole numbers",
                do="leave it out, or give the variable as floats",
            )
        if not np.isin(data, self.values).all():
            raise DomainError(
                "the data contain a value that is not among the declared categories",
                allowed=str(self.values),
                do="declare every value a record could have, or recode unknown ones to a declared "
                "'other' before privatize",
            )
        return data

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """From the least to the greatest."""
        return Bounds(np.full(shape, self.values[0]), np.full(shape, self.values[-1]))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Every value, where they are few; one cell for vectors with many combinations."""
        size = int(np.prod(shape))
        if len(self.values) ** size > MOST_CELLS:
            return [self.bounds(shape)]
        grid = np.array(np.meshgrid(*[self.values] * size)).reshape(size, -1).T
        return [Bounds.point(point.reshape(shape)) for point in grid]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """The first values, each in every place."""
        return [np.full(shape, value) for value in self.values[:MOST_CELLS]]


@dataclass(frozen=True)
class Simplex:
    """Rows of non-negative numbers that sum to one; rows are normalized, others are refused."""

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Rows normalized if they are compositions to 1e-6, else `DomainError`."""
        if data.ndim < 2 or data.dtype.kind != "f":
            raise DomainError(
                "a simplex is for variables with one row of numbers per record",
                got=f"{data.dtype} of shape {data.shape}",
                allowed="floats with an axis besides the records axis",
                do="declare Interval(0, 1) instead",
            )
        rows = np.moveaxis(data, axis, 0)
        if np.any(rows < 0) or not np.allclose(rows.sum(axis=-1), 1.0, atol=1e-6):
            raise DomainError(
                "a row is not on the simplex",
                allowed="numbers >= 0 that sum to 1 within 1e-6",
                do="normalize each row by itself before privatize",
            )
        return np.moveaxis(rows / rows.sum(axis=-1, keepdims=True), 0, axis)

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """[0, 1] with rows known to sum to one."""
        return Bounds(np.zeros(shape), np.ones(shape), SimplexRows())

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """One cell: the simplex."""
        return [self.bounds(shape)]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Vertices and the center."""
        width = shape[-1]
        rows = [*np.eye(width), np.full(width, 1.0 / width)]
        return [np.broadcast_to(row, shape).copy() for row in rows[:MOST_CELLS]]


def as_domain(given: object) -> Domain:
    """Read a domain from its short forms: a pair is an interval, a set is categories."""
    if isinstance(given, Domain) and not isinstance(given, type):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return Interval(*given)
    if isinstance(given, set | frozenset | list | range):
        return Categories(given)
    raise DomainError(
        "this is not a domain",
        got=type(given).__name__,
        allowed="Interval(a, b) or (a, b), Ball(r), Categories([...]) or a set, Simplex(), "
        "Counts(total)",
    )
