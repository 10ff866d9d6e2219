"""Interval bounds of the values of a graph node, and the few maps every rule is made of.

`Bounds` holds a lower and an upper bound of a real value for each element. Both bounds NaN is
the top element: anything, NaN included. So NaN needs no flag: every NumPy function passes it
on, and `Bounds.is_finite` is False for it. Boolean nodes use (False, True) for "unknown" and
(True, True) for "certain".

An infinite bound is a limit that no value reaches (an unbounded parameter, an overflow),
unless `poles` says that it may be a value (log 0, the constant -inf). Only then can inf - inf
happen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pymc_private.analysis.intervals.functions import (
    Array,
    ElementaryFunction,
    array_namespace,
    is_symbolic,
    product_bounds,
)


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Each row r along the last axis obeys ||(r - center) / scale||_2 <= radius."""

    center: Array
    scale: Array
    radius: float


@dataclass(frozen=True, eq=False)
class SimplexRows:
    """Each row along the last axis is non-negative and sums to `total`, give or take `slack`."""

    total: float = 1.0
    slack: float = 0.0


@dataclass(frozen=True, eq=False)
class ZeroSumRows:
    """Each row along the last axis sums to zero. Searches heed it; no bound rests on it."""

    total: float = 0.0


RowConstraint = Ellipsoid | SimplexRows | ZeroSumRows
"""What may be known of rows besides the bounds of their entries."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of the values of one graph node, elementwise.

    Parameters
    ----------
    lower, upper : array or PyTensor variable, shape of the node
        Rounded outward. NaN in both means that nothing is known, not even that a number comes out.
    within : RowConstraint or None
        What else is known of each row along the last axis.
    poles : bool
        Whether an infinite bound may be a value.
    """

    lower: Array
    upper: Array
    within: RowConstraint | None = None
    poles: bool = False

    @classmethod
    def point(cls, value: Array) -> Bounds:
        """The interval that holds one value (per element)."""
        # Slices and None are indexes, not numbers: they pass as they are.
        plain = is_symbolic(value) or value is None or isinstance(value, slice)
        array = value if plain else np.asarray(value)
        return cls(array, array)

    @classmethod
    def everything(cls, shape: tuple[int, ...] = ()) -> Bounds:
        """Anything at all: the answer of an Op without a rule."""
        # Two arrays: one and the same would be the point NaN.
        return cls(np.full(shape, np.nan), np.full(shape, np.nan))

    @property
    def is_symbolic(self) -> bool:
        """Whether a bound is a PyTensor variable."""
        return is_symbolic(self.lower, self.upper)

    @property
    def is_point(self) -> bool:
        """Whether both bounds are the very same array (so that exact Ops may be applied)."""
        return self.lower is self.upper

    @property
    def is_finite(self) -> bool:
        """Whether every bound is a finite number."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the node."""
        return np.shape(self.lower)

    def forget(self) -> Bounds:
        """The same bounds without the constraint on rows."""
        return replace(self, within=None) if self.within is not None else self

    def as_float(self) -> Bounds:
        """The same bounds in doubles; an integer that no double holds moves outward."""
        if _is_double(self.lower) and _is_double(self.upper):
            return self
        lower, upper = _to_double(self.lower, -np.inf), _to_double(self.upper, np.inf)
        exact = self.is_point and (self.is_symbolic or np.array_equal(lower, upper, equal_nan=True))
        return replace(self, lower=lower, upper=lower if exact else upper)

    # ---- the maps -------------------------------------------------------------------------
    def increasing(self, f: ElementaryFunction) -> Bounds:
        """The image under a non-decreasing f: [f(lower), f(upper)]."""
        return Bounds(f.down(self.lower), f.up(self.upper))

    def decreasing(self, f: ElementaryFunction) -> Bounds:
        """The image under a non-increasing f: [f(upper), f(lower)]."""
        return Bounds(f.down(self.upper), f.up(self.lower))

    def valley(self, f: ElementaryFunction, bottom: float) -> Bounds:
        """The image under f that falls to its minimum at `bottom` and rises after it."""
        xp = array_namespace(self.lower, self.upper)
        nearest = xp.minimum(xp.maximum(self.lower, bottom), self.upper)
        return Bounds(f.down(nearest), xp.maximum(f.up(self.lower), f.up(self.upper)))

    def hull(self, other: Bounds) -> Bounds:
        """The least bounds that hold both."""
        xp = array_namespace(self.lower, self.upper, other.lower, other.upper)
        return Bounds(xp.minimum(self.lower, other.lower), xp.maximum(self.upper, other.upper))

    def intersect(self, other: Bounds) -> Bounds:
        """The values that both allow, where both are known to hold the truth."""
        xp = array_namespace(self.lower, self.upper, other.lower, other.upper)
        return Bounds(xp.maximum(self.lower, other.lower), xp.minimum(self.upper, other.upper))

    def magnitude(self) -> Array:
        """The greatest absolute value within the bounds."""
        xp = array_namespace(self.lower, self.upper)
        return xp.maximum(abs(self.lower), abs(self.upper))

    def times(self, other: Bounds) -> Bounds:
        """The product: least and greatest of the four corner products."""
        firsts = (self.lower,) if self.is_point else (self.lower, self.upper)
        seconds = (other.lower,) if other.is_point else (other.lower, other.upper)
        return Bounds(*product_bounds(firsts, seconds))

    def where(self, keep: Array) -> Bounds:
        """These bounds where `keep` holds; everything elsewhere."""
        xp = array_namespace(self.lower, self.upper, keep)
        return Bounds(xp.where(keep, self.lower, np.nan), xp.where(keep, self.upper, np.nan))


_DOUBLE = np.dtype("float64")


def _is_double(bound: Array) -> bool:
    """Whether a bound is in doubles already: most are, and one look shows it."""
    dtype = getattr(bound, "dtype", "float64")
    return dtype is _DOUBLE or dtype == "float64"


def _to_double(bound: Array, outward: float) -> Array:
    """A bound in double precision; 64-bit integers beyond 2**53 are rounded outward."""
    value = bound.astype("float64")
    if is_symbolic(bound) or bound.dtype.kind not in "iu" or bound.dtype.itemsize < 8:
        return value
    return np.where(abs(value) < 2.0**53, value, np.nextafter(value, outward))


def corner_image(f: ElementaryFunction, *intervals: Bounds) -> Bounds:
    """The image under f that is monotone in each argument, whichever way: extremes at corners."""
    xp = array_namespace(*(bound for i in intervals for bound in (i.lower, i.upper)))
    corners: list[tuple[Array, ...]] = [()]
    for interval in intervals:
        choices = (interval.lower,) if interval.is_point else (interval.lower, interval.upper)
        corners = [(*chosen, choice) for chosen in corners for choice in choices]
    lower, upper = f.down(*corners[0]), f.up(*corners[0])
    for corner in corners[1:]:
        lower, upper = xp.minimum(lower, f.down(*corner)), xp.maximum(upper, f.up(*corner))
    return Bounds(lower, upper)
