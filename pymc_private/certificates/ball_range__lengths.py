"""Sums of squares over a row in a ball: what its entries amount to together.

Let a row be center + scale z with |z| <= radius. A log-likelihood that is quadratic in the row is

    sum_k a_k z_k^2 + <b, z> + c = r^2 (lo + (hi - lo) v) + r |b| w + c,    r = |z|,

with v in [0, 1] (a mean of the a_k lies between the least, lo, and the greatest, hi) and w in
[-1, 1] (Cauchy and Schwarz). The three numbers take the place of the row: r belongs to the record,
v and w to the pair of record and parameters. Where two parameter points are compared and the term
stands alone in the sum, b may be counted from any fixed vector: <b0, z> reads the record alone and
cancels. From the middle of its range both points are near.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Mapping
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum
from pymc_private.analysis import Ellipsoid, Interval as Bounds, bounds, simplify
from pymc_private.analysis.batched_bounds__cut import MOST
from pymc_private.analysis.traversal import scalar_op
from pymc_private.analysis.quadratic__polynomial import Part, Quadratic
from pymc_private.analysis.quadratic import quadratics, totals
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.certificates.ball_range__quadratic import factored, frame, norm
from pymc_private.models.record_likelihood import Column, Role

SMALL = 1e-9
"""A middle that close to zero, by the width of its range, is zero."""

Cut = tuple[Variable, list[Column], bool]
"""A graph, its columns, and whether rows were replaced."""


def by_norms(value: Variable, columns: list[Column], *, centered: bool) -> Cut:
    """Replace rows in balls, where they are read as sums of squares, by their lengths.

    Parameters
    ----------
    value : Variable, scalar
    columns : list of Column
        Its inputs.
    centered : bool
        Whether what reads a record alone cancels: wherever two parameter points are compared.

    Returns
    -------
    Cut
        The new graph takes every value that the old one takes, and may take more.
    """
    if not any(isinstance(c.bounds.within, Ellipsoid) for c in columns):
        return value, columns, False
    added: list[Column] = []
    swaps: dict[Variable, Variable] = {}
    alone = _addends(value) if centered else set()
    box = {c.variable: c.bounds for c in columns}
    for column in columns:
        ball = column.bounds.within
        if not isinstance(ball, Ellipsoid) or column.is_whole:
            continue
        rows = _Rows(column, ball, box)
        found = quadratics(value, column.variable, rows.center, rows.scale)
        for total in totals(value, found):
            if total not in swaps:
                swaps[total] = rows.number(total, found[total], alone=total in alone)
        added += rows.columns
    if not swaps:
        return value, columns, False
    return simplify(rebuild([value], swaps))[0], columns + added, True


def _addends(value: Variable) -> set[Variable]:
    """The terms that a value is a sum of, give or take their signs."""
    found, stack = set(), [value]
    while stack:
        v = stack.pop()
        found.add(v)
        if v.owner is None:
            continue
        if isinstance(v.owner.op, DimShuffle | Sum) or isinstance(
            scalar_op(v), ps.Add | ps.Sub | ps.Neg
        ):
            stack += [u for u in v.owner.inputs if all(u.type.broadcastable)]
    return found


class _Rows:
    """One variable with rows in a ball, and the numbers that replace it."""

    def __init__(self, column: Column, ball: Ellipsoid, box: Mapping[Variable, Bounds]) -> None:
        shape = np.shape(column.bounds.lower)
        self.center, self.scale = frame(ball, shape)
        self.name, self.size = column.variable.name, shape[-1]
        self._role, self._radius, self._box = column.role, float(ball.radius), box
        self.columns: list[Column] = []
        self._length = self._fresh("length of", self._role, 0.0, self._radius)

    def _fresh(self, word: str, role: Role, low: float, high: float) -> Variable:
        """A new number."""
        variable = pt.dscalar(name=f"{word} {self.name}")
        self.columns.append(Column(variable, role, Bounds(np.array(low), np.array(high))))
        return variable

    def number(self, total: Variable, part: Quadratic, alone: bool) -> Variable:
        """What takes the place of a sum."""
        made = self._squares(part.square, alone) + self._product(part.slope, alone)
        if part.constant is not None:
            made = made + part.constant
        return made.dimshuffle(["x"] * total.type.ndim)

    def _squares(self, square: Part, alone: bool) -> Variable:
        """r^2 times a mean of what squares are multiplied by."""
        square = simplify([square])[0]  # type: ignore[list-item]
        if square.type.ndim == 0:
            return square * pt.sqr(self._length)
        if alone:  # what is the same at all parameters cancels
            square = square - self._middle(square)
        low, high = square.min(), square.max()
        mean = self._fresh("mean over", Role.PAIR, 0.0, 1.0)
        return (low + (high - low) * mean) * pt.sqr(self._length)

    def _product(self, slope: Part, alone: bool) -> Variable:
        """r |b - b0| w, and what is left of b0."""
        if slope is None:
            return pt.constant(0.0)
        factor, rest = factored(simplify([slope])[0])
        # Of many entries |b| is known by its range: its factor had better stay outside.
        few = self.size <= MOST or isinstance(factor, Constant)
        middle = self._middle(factor * rest) if alone and few else np.array(0.0)
        if not np.any(middle):
            return self._reach(factor, rest)
        return self._reach(pt.constant(1.0), factor * rest - middle)

    def _reach(self, factor: Variable, vector: Variable) -> Variable:
        """r |factor| |vector| w."""
        aside = self._fresh("direction of", Role.PAIR, -1.0, 1.0)
        return self._length * abs(factor) * norm(vector, self.size) * aside

    def _middle(self, variable: Variable) -> np.ndarray:
        """The middle of the values of a vector; zero where they have no ends."""
        read = set(ancestors([variable]))
        fact = bounds([variable], {v: b for v, b in self._box.items() if v in read})[variable]
        with np.errstate(invalid="ignore"):
            middle = np.asarray(fact.lower / 2 + fact.upper / 2, dtype=float)
            width = np.asarray(fact.upper - fact.lower, dtype=float)
        middle = np.where(np.isfinite(middle) & np.isfinite(width), middle, 0.0)
        return np.where(np.abs(middle) > SMALL * width, middle, 0.0)
