"""Polynomials of degree two in the entries of one row, their coefficients graphs."""

from __future__ import annotations

import pytensor.tensor as pt
from dataclasses import dataclass
from typing import TypeAlias
from pytensor.graph.basic import Constant, Variable

Part: TypeAlias = Variable | None
"""A coefficient; None is zero."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """square_k z_k^2 + slope_k z_k + constant: for each k, or the sum over k.

    Parameters
    ----------
    square, slope : Variable of 0 or 1 axes, or None
        One for each entry, or one for all; None for zero.
    constant : Variable or None
        Likewise; of a sum it has no axes.
    is_sum : bool
        Whether it is one number.
    place : int or None
        Of one number that reads one entry alone: which. Then no coefficient has an axis.
    """

    square: Part
    slope: Part
    constant: Part
    is_sum: bool = False
    place: int | None = None

    @property
    def degree(self) -> int:
        """0, 1 or 2."""
        return 2 if self.square is not None else int(self.slope is not None)

    def plus(self, other: Quadratic, sign: float = 1.0) -> Quadratic:
        """Term by term."""
        return Quadratic(
            _plus(self.square, _scaled(other.square, sign)),
            _plus(self.slope, _scaled(other.slope, sign)),
            _plus(self.constant, _scaled(other.constant, sign)),
            self.is_sum or other.is_sum,
        )

    def times(self, other: Quadratic) -> Quadratic:
        """The product of two of degree at most two together."""
        (a2, a1, a0), (b2, b1, b0) = (
            (q.square, q.slope, q.constant) for q in (self, other)
        )  # fmt: skip
        return Quadratic(
            _plus(_plus(_times(a2, b0), _times(a0, b2)), _times(a1, b1)),
            _plus(_times(a1, b0), _times(a0, b1)),
            _times(a0, b0),
            self.is_sum or other.is_sum,
        )

    def squared(self) -> Quadratic:
        """The square of one of degree one: each coefficient once, so that intervals stay tight."""
        twice = _scaled(_times(self.slope, self.constant), 2.0)
        return Quadratic(_square(self.slope), twice, _square(self.constant), self.is_sum)

    def over(self, divisor: Variable) -> Quadratic:
        """Each coefficient divided."""
        square, slope, constant = (
            None if part is None else part / divisor
            for part in (self.square, self.slope, self.constant)
        )
        return Quadratic(square, slope, constant, self.is_sum)

    def summed(self, size: int) -> Quadratic:
        """Of each of `size` entries, added up."""
        c = self.constant
        total = None if c is None else c.sum() if c.type.ndim else float(size) * c
        return Quadratic(self.square, self.slope, total, True)


def _plus(a: Part, b: Part) -> Part:
    return b if a is None else a if b is None else a + b


def _times(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a if _is_one(b) else b if _is_one(a) else a * b


def _square(a: Part) -> Part:
    return None if a is None else a if _is_one(a) else pt.sqr(a)


def _scaled(a: Part, number: float) -> Part:
    return None if a is None else a if number == 1.0 else number * a


def _is_one(a: Variable) -> bool:
    return isinstance(a, Constant) and a.data.size == 1 and a.data.item() == 1.0
