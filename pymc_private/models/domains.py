"""Domains of private variables: intervals, categories, balls, simplexes and counts.

A domain is the public set of all values that one record may have in one variable, declared before
the data are read. Each domain clips data into itself or refuses them (`clip`), gives an interval
that holds it (`bounds`), a finite cover by intervals (`cells`) and extreme points where a search
for the worst record starts (`corners`). `Scale` maps columns of public ranges into the unit ball.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pymc_private.analysis import Bounds, Ellipsoid, SimplexRows
from pymc_private.errors import DomainError

MOST_CELLS = 64
"""Most values of one variable of a record that are enumerated."""
MOST_PIECES = 32
"""Most pieces an interval of one variable is cut into."""
HELD = 1.0 - 1e-9
"""Rows of a ball whose squared norm is below this share of the largest are surely inside."""
SQUARED = 1e-140, 1e140
"""Radii whose squares, and those of rows about as long, are doubles of full precision."""
BISECTIONS = 80


@runtime_checkable
class Domain(Protocol):
    """All values one record may take in one variable.

    `shape` is always the shape of one record's entry, without the records axis.
    """

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """The nearest data inside the domain, or `DomainError`."""

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """One interval that holds the domain."""

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Intervals that cover the domain: its points if there are at most `most`, else pieces."""

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Extreme points, where a search for the worst record starts."""


def as_domain(value: object) -> Domain:
    """Read a domain from its short forms: a pair is an interval, a set is categories."""
    if isinstance(value, Domain) and not isinstance(value, type):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Interval(*value)
    if isinstance(value, list) and len(value) == 2:
        low, high = value
        raise DomainError(
            "a list of two could mean an interval or two categories",
            got="a list",
            allowed="a tuple (or pmp.Interval) for an interval, a set (or pmp.Categories) for "
            "categories",
            do=f"write ({low!r}, {high!r}) for all numbers between the two, or "
            f"{{{low!r}, {high!r}}} for these two values alone",
        )
    if isinstance(value, set | frozenset | list | range):
        return Categories(value)
    raise DomainError(
        "this is not a domain",
        got=f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__,
        allowed="Interval(a, b) or (a, b), Ball(r), Categories([...]) or a set, Simplex(), "
        "Counts(total)",
        do=_instead_of(value),
    )


def _instead_of(value: object) -> str | None:
    """What to write for what looks like categories."""
    if isinstance(value, tuple):
        return "for these values alone a set, {0, 1, 2}, or Categories([0, 1, 2])"
    if hasattr(value, "__array__"):
        return (
            "the values that any record could have, written out: a set, range(5), or "
            "Categories([...]). An array may be one of data, from which no domain is read"
        )
    return None


def _plain_repr(domain: Any) -> str:
    """A domain as it would be typed: ``np.float64(2.0)`` is written 2.0."""
    given = {f.name: getattr(domain, f.name) for f in fields(domain)}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
    return f"{type(domain).__name__}({', '.join(f'{k}={v!r}' for k, v in plain.items())})"


@dataclass(frozen=True)
class Interval:
    """Numbers between two public bounds; data outside are clipped.

    Parameters
    ----------
    lower, upper : float or array that broadcasts to one record's shape
        Finite bounds, in the units of the data.

    Examples
    --------
    >>> Interval(0, 10)
    Interval(lower=0, upper=10)
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        low, high = as_numbers(self.lower), as_numbers(self.upper)
        if self.lower is ... or self.upper is ...:
            raise DomainError(
                "an interval has no bounds yet",
                got=f"({_blank(self.lower)}, {_blank(self.upper)})",
                allowed="the least and the greatest value that a record could have",
                do="replace ... by numbers, such as pmp.Interval(0, 10); take them from the "
                "questionnaire or the instrument, never from the data",
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low <= high)):
            raise DomainError(
                "an interval needs finite bounds, lower <= upper",
                got=f"({self.lower!r}, {self.upper!r})",
                allowed="finite numbers, public, in the units of the data",
                do="declare the range a record could have, not the range the data happen to have",
            )

    __repr__ = _plain_repr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and all(
            np.array_equal(np.asarray(own, float), np.asarray(others, float))
            for own, others in ((self.lower, other.lower), (self.upper, other.upper))
        )

    def __hash__(self) -> int:
        return hash(tuple(np.asarray(b, float).tobytes() for b in (self.lower, self.upper)))

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Move each number to the nearest bound."""
        shape = data.shape[:axis] + data.shape[axis + 1 :]
        low, high = (np.expand_dims(bound, axis) for bound in self._broadcast(shape))
        if data.dtype.kind in "iub":
            low, high = np.ceil(low), np.floor(high)
        elif data.dtype != np.float64:  # the nearest shorter float may lie outside
            low, high = _inward_rounded_bounds(low, high, data.dtype)
        if np.any(low > high):
            raise DomainError(
                "no number of the variable's type lies in its interval",
                got=f"({self.lower}, {self.upper}) for {data.dtype}",
                allowed="an interval that holds a whole number, for whole numbers",
                do="widen the interval, or give the variable as floats",
            )
        return np.clip(data, low, high)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Which rows of doubles, records along the first axis, `clip` leaves as they are."""
        low, high = self._broadcast(rows.shape[1:])
        if len(rows) and np.all(rows.min(axis=0) >= low) and np.all(rows.max(axis=0) <= high):
            return np.ones(len(rows), dtype=bool)
        inside = (rows >= low) & (rows <= high)
        return np.asarray(inside.reshape(len(rows), -1).all(axis=1))

    def _broadcast(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Both bounds in the shape of one record's entry."""
        try:
            low = np.broadcast_to(np.asarray(self.lower, float), shape)
            high = np.broadcast_to(np.asarray(self.upper, float), shape)
        except ValueError as error:
            raise DomainError(
                "the bounds of an interval do not fit the variable",
                got=f"bounds of shape {np.shape(self.lower)}",
                allowed=f"a number, or shape {shape}",
                do="give one pair of bounds per column",
            ) from error
        return low, high

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """The interval itself."""
        low, high = self._broadcast(shape)
        return Bounds(low, high)

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Pieces of a single number; one cell for vectors, whose pieces would be too many."""
        low, high = self._broadcast(shape)
        if int(np.prod(shape)) != 1:
            return [Bounds(low, high)]
        if whole:
            first, last = int(np.ceil(low.item())), int(np.floor(high.item()))
            if last - first < most:
                return [Bounds.point(np.full(shape, float(k))) for k in range(first, last + 1)]
            edges = np.unique(np.linspace(first, last, most + 1).round())
        else:
            edges = even_edges(low.item(), high.item(), min(most, MOST_PIECES))
        pairs = itertools.pairwise(edges)
        return [Bounds(np.full(shape, a), np.full(shape, b)) for a, b in pairs]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """All-low, all-high, middle, and each coordinate alone at either bound."""
        low, high = self._broadcast(shape)
        found = [low, high, (low + high) / 2]
        for i in np.ndindex(shape):
            for base, other in ((low, high), (high, low)):
                point = np.array(base)
                point[i] = other[i]
                found.append(point)
            if len(found) > MOST_CELLS:
                break
        return found


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
        listed = isinstance(values, Iterable) and np.iterable(values)  # arrays of no axis are not
        given = list(values) if listed else None
        if given is not None and any(value is ... for value in given):
            raise DomainError(
                "categories have no values yet",
                got="...",
                allowed="every value that a record could have",
                do="replace ... by numbers, such as pmp.Categories(range(4)); take them from "
                "a public list, never from the data",
            )
        try:
            ordered = tuple(sorted({float(value) for value in given or values}))
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
        """From the least to the greatest value."""
        return Bounds(np.full(shape, self.values[0]), np.full(shape, self.values[-1]))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Every value, where they are few; one cell for vectors with many combinations."""
        size = int(np.prod(shape))
        if len(self.values) ** size > MOST_CELLS:
            return [self.bounds(shape)]
        grid = np.array(np.meshgrid(*[self.values] * size)).reshape(size, -1).T
        return [Bounds.point(point.reshape(shape)) for point in grid]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Each of the first values, in all entries."""
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
        """[0, 1], constrained to rows that sum to one."""
        return Bounds(np.zeros(shape), np.ones(shape), SimplexRows())

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """One cell: the simplex."""
        return [self.bounds(shape)]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Vertices and the center."""
        width = shape[-1]
        rows = [*np.eye(width), np.full(width, 1.0 / width)]
        return [np.broadcast_to(row, shape).copy() for row in rows[:MOST_CELLS]]


@dataclass(frozen=True)
class Counts:
    """Rows of whole numbers >= 0 with one public sum, as of a multinomial; others are refused.

    Parameters
    ----------
    total : int
        The sum of every row.

    Examples
    --------
    >>> Counts(5)
    Counts(total=5)
    """

    total: int

    def __post_init__(self) -> None:
        given: Any = self.total
        total = as_numbers(given)
        if given is ...:
            raise DomainError(
                "a row of counts has no total yet",
                got="...",
                allowed="the sum of every row",
                do="replace ... by numbers, such as pmp.Counts(5); it is the n of the likelihood",
            )
        if (
            isinstance(self.total, bool)
            or total.ndim
            or not (0 <= total == np.floor(total) < np.inf)
        ):
            raise DomainError(
                "the total of a row of counts is a whole number",
                got=repr(self.total)[:60],
                allowed="total >= 0",
            )

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Unchanged, or `DomainError` (without quoting a row)."""
        if data.ndim < 2:
            raise DomainError(
                "pmp.Counts is for rows of counts, one number for each category, as of a "
                "multinomial",
                got="a single number per record",
                allowed="an axis of categories besides the records axis",
                do=f"for a count declare pmp.Interval(0, {self.total}), for the code of one of k "
                "categories pmp.Categories(range(k))",
            )
        if np.any(data < 0) or np.any(data != np.floor(data)):
            raise DomainError(
                "rows of counts are whole numbers >= 0",
                got="a negative number or a fraction",
                allowed=f"whole numbers that sum to {self.total}",
                do="for other rows declare pmp.Interval(low, high), for shares pmp.Simplex()",
            )
        if np.any(np.moveaxis(data, axis, 0).sum(axis=-1) != self.total):
            raise DomainError(
                "a row does not have the declared total",
                got="another sum",
                allowed=f"rows that sum to {self.total}",
                do="declare the total every record has, or leave such records out",
            )
        return data

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """[0, total], constrained to rows of this sum."""
        total = float(self.total)
        return Bounds(np.zeros(shape), np.full(shape, total), SimplexRows(total))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Every row, where there are few; else one cell for all."""
        width = shape[-1]
        several = len(shape) > 1 and math.prod(shape[:-1]) > 1
        if several or math.comb(self.total + width - 1, width - 1) > min(most, MOST_CELLS):
            return [self.bounds(shape)]
        return [Bounds.point(row.reshape(shape)) for row in self._rows(width)]

    def _rows(self, width: int) -> list[np.ndarray]:
        """All rows with this total: ways to put `width` - 1 bars between `total` stars."""
        slots = itertools.combinations(range(self.total + width - 1), width - 1)
        edges = [(-1, *bars, self.total + width - 1) for bars in slots]
        return [np.diff(edge).astype(float) - 1.0 for edge in edges]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """All counts in one entry, and counts as even as possible."""
        width = shape[-1]
        even = np.full(width, float(self.total // width))
        even[: self.total % width] += 1.0
        rows = [*(np.eye(width) * self.total), even]
        return [np.broadcast_to(row, shape).copy() for row in rows[:MOST_CELLS]]


@dataclass(frozen=True)
class Ball:
    """Rows r with ||(r - center) / scale||_2 <= radius; rows outside are moved in along their ray.

    Parameters
    ----------
    radius : float
        In units of `scale`.
    center, scale : float or sequence, one per column
        Public constants. Without them the ball is in the raw units of the columns: a column of ages
        would be crushed into [-radius, radius]. See `Scale` for columns that have natural ranges.
    """

    radius: float
    center: Any = 0.0
    scale: Any = 1.0

    def __post_init__(self) -> None:
        radius, center, scale = (
            as_numbers(part) for part in (self.radius, self.center, self.scale)
        )
        finite = all(np.isfinite(part).all() for part in (radius, center, scale))
        if not (radius.ndim == 0 and finite and radius > 0 and np.all(scale > 0)):
            raise DomainError(
                "a ball needs a finite center, a positive radius and positive scales",
                got=f"radius {self.radius!r}, center {self.center!r}, scale {self.scale!r}"[:120],
                allowed="one radius > 0, scale > 0, all finite",
                do="declare the largest norm a record could have",
            )

    __repr__ = _plain_repr

    def _key(self) -> tuple[bytes, ...]:
        parts = (self.radius, self.center, self.scale)
        return tuple(np.asarray(part, float).tobytes() for part in parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ball) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _broadcast(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Center and scale with one entry per column."""
        if len(shape) != 1:
            raise DomainError(
                "a ball is for variables with one row of numbers per record",
                got=f"shape {shape} per record",
                allowed="one axis besides the records axis",
                do="declare Interval(lower, upper) instead",
            )
        try:
            center = np.broadcast_to(np.asarray(self.center, float), shape)
            return center, np.broadcast_to(np.asarray(self.scale, float), shape)
        except ValueError as error:
            raise DomainError(
                "the center or the scale of a ball does not fit the variable",
                got=f"shapes {np.shape(self.center)} and {np.shape(self.scale)}",
                allowed=f"a number, or one per column: shape {shape}",
            ) from error

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Shrink each row towards the center until it is inside (rounding included)."""
        if data.dtype != np.float64:
            raise DomainError(
                "a ball is for variables in double precision",
                got=str(data.dtype),
                allowed="float64, so that clipped rows are not rounded out of the ball again",
                do="give the variable as floats: X.astype(float)",
            )
        rows = np.moveaxis(data, axis, 0)
        center, scale = self._broadcast(rows.shape[1:])
        with np.errstate(all="ignore"):  # no warning may depend on the data
            moved = self._shrunk(rows, center, scale)
        return np.moveaxis(moved, 0, axis)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Rows that `clip` surely leaves as they are: of those next to the surface none.

        However a norm is summed up, two sums differ by far less than what is left out.
        """
        center, scale = self._broadcast(rows.shape[1:])
        if not SQUARED[0] <= self.radius <= SQUARED[1]:
            return np.zeros(len(rows), dtype=bool)
        with np.errstate(all="ignore"):
            moved = rows if not center.any() and np.all(scale == 1.0) else (rows - center) / scale
            return np.asarray(np.einsum("ij,ij->i", moved, moved) <= self.radius**2 * HELD)

    def _shrunk(self, rows: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Rows outside the ball moved to its surface; the others unchanged."""
        z = (rows - center) / scale
        norm = np.linalg.norm(z, axis=1)
        # Rounding may leave such rows slightly outside the ball: `_rounded_radius` covers it.
        factor = np.where(norm > self.radius, self.radius / np.maximum(norm, self.radius), 1.0)
        inward = np.nan_to_num(scale * z * factor[:, None], posinf=0.0, neginf=0.0)  # z overflowed
        return np.where((factor < 1.0)[:, None], center + inward, rows)

    def _rounded_radius(self, center: np.ndarray, scale: np.ndarray) -> float:
        """The radius plus the rounding error of `clip`, of radius and center."""
        far = float(np.sqrt(((center / scale) ** 2).sum()))
        return self.radius * (1.0 + 1e-12) + far * 1e-15

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """The bounding box, constrained to the ellipsoid."""
        center, scale = self._broadcast(shape)
        radius = self._rounded_radius(center, scale)
        reach = scale * radius * (1.0 + 1e-12) + np.abs(center) * 1e-15
        return Bounds(center - reach, center + reach, Ellipsoid(center, scale, radius))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """One cell: the ball."""
        return [self.bounds(shape)]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """The center, and points of the surface along diagonals and axes, both ways."""
        center, scale = self._broadcast(shape)
        width = shape[0]
        eye = np.eye(width)
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * min(width, 5))).reshape(min(width, 5), -1).T
        diagonals = np.ones((len(signs), width))
        diagonals[:, : signs.shape[1]] = signs
        diagonals = diagonals / np.sqrt(width)
        opposite = -diagonals if width > 5 else diagonals[:0]  # up to five entries have all signs
        directions = np.vstack([np.zeros((1, width)), diagonals, opposite, eye, -eye])
        return [center + scale * self.radius * d for d in directions[:MOST_CELLS]]


@dataclass(frozen=True)
class Scale:
    """Public column ranges that map raw columns into a ball of radius one.

    ``(x - middle) / half_width / sqrt(columns)`` has norm at most 1 for every x within the ranges,
    so ``Ball(1.0)`` then means what it says. The constants are public: take them from the
    questionnaire, never from the data.

    Parameters
    ----------
    lower, upper : sequence of float
        One pair per column, in raw units.

    Examples
    --------
    >>> scale = Scale([1, 17.5], [5, 42])
    >>> scale([[5, 42]]).round(4).tolist()
    [[0.7071, 0.7071]]
    >>> scale.ball
    Ball(radius=1.0, center=0.0, scale=1.0)
    """

    lower: Sequence[float]
    upper: Sequence[float]

    def __post_init__(self) -> None:
        low, high = as_numbers(self.lower), as_numbers(self.upper)
        paired = low.shape == high.shape and low.ndim == 1 and low.size > 0
        if not (paired and np.all(low < high) and np.all(np.isfinite([low, high]))):
            raise DomainError(
                "a scale needs one lower and one greater upper bound per column",
                got=f"shapes {low.shape} and {high.shape}",
                allowed="two sequences of equal length, lower < upper, all finite",
            )

    @property
    def center(self) -> np.ndarray:
        """Middle of each range."""
        return (np.asarray(self.lower, float) + np.asarray(self.upper, float)) / 2

    @property
    def half_width(self) -> np.ndarray:
        """Half of each range, times sqrt(columns)."""
        width = (np.asarray(self.upper, float) - np.asarray(self.lower, float)) / 2
        return width * np.sqrt(len(width))

    @property
    def ball(self) -> Ball:
        """The domain of scaled columns."""
        return Ball(1.0)

    @property
    def raw_ball(self) -> Ball:
        """The same ball for columns that stay in raw units (an ellipsoid)."""
        return Ball(1.0, tuple(self.center), tuple(self.half_width))

    def __call__(self, raw: Any) -> np.ndarray:
        """Scale raw columns, shape (n, columns); what is missing stays missing.

        Raises
        ------
        DomainError
            Not numbers, or another number of columns.
        """
        rows = as_numbers(raw)
        columns = len(self.center)
        if rows.ndim == 0 or rows.shape[-1] != columns:
            raise DomainError(
                "a scale takes rows of numbers, one for each of its columns",
                got=f"{type(raw).__name__} of shape {np.shape(rows)}",
                allowed=f"shape (n, {columns})",
            )
        return (rows - self.center) / self.half_width


def _blank(bound: Any) -> str:
    return "..." if bound is ... else repr(bound)


def as_numbers(value: Any) -> np.ndarray:
    """An argument as an array of real numbers; NaN for what is none: text, None, masked."""
    try:
        array = np.ma.asarray(value) if np.ma.isMaskedArray(value) else np.asarray(value)
        if array.dtype.kind not in "iufbO":
            return np.array(np.nan)
        return np.ma.filled(array.astype(float), np.nan)
    except (TypeError, ValueError, OverflowError):  # rows of unequal length; too large for a float
        return np.array(np.nan)


def even_edges(low: float, high: float, pieces: int) -> np.ndarray:
    """Edges of equal pieces that cover [low, high]; high - low may overflow."""
    share = np.arange(pieces + 1) / pieces
    edges = low * (1.0 - share) + high * share
    edges[[0, -1]] = low, high
    return np.maximum.accumulate(np.clip(edges, low, high))


def _inward_rounded_bounds(
    low: np.ndarray, high: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest numbers of a shorter float type inside [low, high]."""
    first, last = low.astype(dtype), high.astype(dtype)
    first = np.where(first < low, np.nextafter(first, dtype.type(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, dtype.type(-np.inf)), last)
    return first, last


def project_onto_simplex(
    target: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: float = 1.0
) -> np.ndarray:
    """The nearest point of each row in a box, among those whose entries sum to `total`.

    Each row is shifted by one number and clipped into the box, the number found by bisection; the
    result is the Euclidean projection up to rounding. Needs ``sum(lower) <= total <= sum(upper)``.
    """
    low = (lower - target).min(axis=-1, keepdims=True)
    high = (upper - target).max(axis=-1, keepdims=True)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        over = np.clip(target + middle, lower, upper).sum(axis=-1, keepdims=True) > total
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.clip(target + low, lower, upper)
