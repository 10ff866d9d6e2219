"""Sums of squares over a row in a ball: what its entries amount to together.

Let a row be center + scale z with |z| <= radius. A log-likelihood that is quadratic in the row is

    sum_k a_k z_k^2 + <b, z> + c = r^2 (lo + (hi - lo) v) + r |b| w + c,    r = |z|,

with v in [0, 1] (a mean of the a_k lies between the least, lo, and the greatest, hi) and w in
[-1, 1] (Cauchy and Schwarz). The three numbers take the place of the row: r belongs to the record,
v and w to the record and the parameters. Where the term stands alone in the sum, b may be counted
from any fixed vector: <b0, z> reads the record alone and cancels in every difference of two
parameter points. From the middle of its range both points are near.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_private.analysis import Ellipsoid, bounds, simplify
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.cut import MOST
from pymc_private.analysis.expressions import expressions, mix
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.matching import scalar_op
from pymc_private.analysis.quadratic import Part, Quadratic, quadratics, totals
from pymc_private.analysis.rebuild import rebuild
from pymc_private.errors import NotCertified
from pymc_private.models.coordinates import Column, Role

HAIR = 1.0 + 1e-12
"""Slack for a few sums and products in doubles."""
SMALL = 1e-9
"""A middle that close to zero, by the width of its range, is zero."""

Cut = tuple[Variable, list[Column], bool]
"""A graph, its columns, and whether rows were replaced."""


def by_norms(value: Variable, columns: list[Column]) -> Cut:
    """Replace rows in balls, where they are read as sums of squares, by their lengths.

    Parameters
    ----------
    value : Variable, scalar
    columns : list of Column
        Its inputs.

    Returns
    -------
    Cut
        The new graph takes every value that the old one takes, and may take more.
    """
    added: list[Column] = []
    swaps: dict[Variable, Variable] = {}
    alone = _addends(value)
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


@dataclass(frozen=True, eq=False)
class InBall:
    """sum_k square_k z_k^2 + <slope, z> with |z| <= radius, up to what does not read the row.

    Parameters
    ----------
    square, slope : Variable of 0 or 1 axes
        One for each entry, or one for all.
    size : int
        Number of entries.
    radius : float
    """

    square: Variable
    slope: Variable
    size: int
    radius: float


def whole_in_ball(value: Variable, rows: Mapping[Variable, Bounds]) -> InBall | None:
    """The whole of a function as a quadratic in one row in a ball; None if it is none.

    Parameters
    ----------
    value : Variable, scalar
    rows : mapping of Variable to Bounds
        A record's entries.
    """
    read = rows.keys() & set(ancestors([value]))
    if len(read) != 1:
        return None
    (row,) = read
    ball = rows[row].within
    if not isinstance(ball, Ellipsoid) or row.type.dtype != "float64":
        return None
    part = quadratics(value, row, *_frame(ball, row.type.shape)).get(value)
    if part is None or not part.is_sum or part.square is None:
        return None
    slope = pt.constant(0.0) if part.slope is None else part.slope
    square, slope = simplify([part.square, slope])
    if square.type.ndim and _are_equal(square):
        square = simplify([square[0]])[0]
    return InBall(square, slope, row.type.shape[0], float(ball.radius))


def _are_equal(vector: Variable) -> bool:
    """Whether all entries are one and the same expression."""
    inputs = [v for v in ancestors([vector]) if v.owner is None and not isinstance(v, Constant)]
    values = {v: np.full(v.type.shape, 0.5) for v in inputs}
    marks = {v: mix(k, np.arange(x.size).reshape(x.shape)) for k, (v, x) in enumerate(values.items())}
    try:
        (found,) = expressions([vector], marks, values)
    except (NotCertified, *UNCOMPUTABLE):
        return False
    return bool(np.all(found == found[:1]))


def variation_in_ball(whole: InBall) -> Variable | None:
    """sup - inf over the ball, where all squares count alike: |a| ((h + r)^2 - max(h - r, 0)^2).

    Here a |z + b / (2 a)|^2 is the function, h = |b| / (2 |a|) is how far its center is off the
    ball's, and r the radius. Exact, in real arithmetic.
    """
    if whole.square.type.ndim:
        return None
    scale = abs(whole.square)
    factor, rest = factored(whole.slope)
    off = abs(factor) * norm(rest, whole.size) / (2.0 * scale)
    near = pt.maximum(off - whole.radius, 0.0)
    return simplify([scale * (pt.sqr(off + whole.radius) - pt.sqr(near))])[0]


def _frame(ball: Ellipsoid, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale of each entry."""
    center, scale = (np.broadcast_to(np.asarray(e, float), shape) for e in (ball.center, ball.scale))
    return center, scale


def norm(vector: Variable, size: int) -> Variable:
    """|vector|_2, an upper bound where it is a constant."""
    if vector.type.ndim == 0:
        return abs(vector) * (np.sqrt(size) * HAIR)
    return pt.sqrt(pt.maximum(pt.sqr(vector).sum(), 0.0))


def _addends(value: Variable) -> set[Variable]:
    """The terms that a value is a sum of, give or take their signs."""
    found, stack = set(), [value]
    while stack:
        v = stack.pop()
        found.add(v)
        if v.owner is None:
            continue
        if isinstance(v.owner.op, DimShuffle | Sum) or isinstance(scalar_op(v), ps.Add | ps.Sub | ps.Neg):
            stack += [u for u in v.owner.inputs if all(u.type.broadcastable)]
    return found


class _Rows:
    """One variable with rows in a ball, and the numbers that replace it."""

    def __init__(self, column: Column, ball: Ellipsoid, box: Mapping[Variable, Bounds]) -> None:
        shape = np.shape(column.bounds.lower)
        self.center, self.scale = _frame(ball, shape)
        self.name, self.size = column.variable.name, shape[-1]
        self._role, self._radius, self._box = column.role, float(ball.radius), box
        self.columns: list[Column] = []
        self._length = self._fresh("length of", self._role, 0.0, self._radius)

    def _fresh(self, word: str, role: Role, low: float, high: float) -> Variable:
        """A new number."""
        variable = pt.dscalar(name=f"{word} {self.name}")
        self.columns.append(Column(variable, role, Bounds(np.array(low), np.array(high))))
        return variable

    def _beside(self) -> Role:
        """The role of what a row and the parameters make of each other."""
        return Role.PAIR if self._role is Role.RECORD else Role.POINT

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
        mean = self._fresh("mean over", self._beside(), 0.0, 1.0)
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
        aside = self._fresh("direction of", self._beside(), -1.0, 1.0)
        return self._length * abs(factor) * norm(vector, self.size) * aside

    def _middle(self, variable: Variable) -> np.ndarray:
        """The middle of the values of a vector; zero where they have no ends."""
        read = {v for v in ancestors([variable])}
        fact = bounds([variable], {v: b for v, b in self._box.items() if v in read})[variable]
        with np.errstate(invalid="ignore"):
            middle = np.asarray(fact.lower / 2 + fact.upper / 2, dtype=float)
            width = np.asarray(fact.upper - fact.lower, dtype=float)
        middle = np.where(np.isfinite(middle) & np.isfinite(width), middle, 0.0)
        return np.where(np.abs(middle) > SMALL * width, middle, 0.0)


def factors(vector: Variable) -> tuple[list[Variable], list[Variable]]:
    """Factors of one number, and those with one for each entry: their product is the vector."""
    numbers: list[Variable] = []
    vectors: list[Variable] = []
    stack = [(vector, False)]
    while stack:
        variable, inverted = stack.pop()
        if all(variable.type.broadcastable):
            number = variable.dimshuffle([])
            numbers.append(1.0 / number if inverted else number)
        elif isinstance(op := scalar_op(variable), ps.Mul | ps.TrueDiv):
            for k, factor in enumerate(variable.owner.inputs):
                stack.append((factor, inverted != (isinstance(op, ps.TrueDiv) and k > 0)))
        else:
            vectors.append(1.0 / variable if inverted else variable)
    return numbers, vectors


def factored(vector: Variable) -> tuple[Variable, Variable]:
    """One number that all entries share, and the rest: their product is the vector."""
    numbers, rest = (_product(some) for some in factors(vector))
    return numbers, rest


def _product(some: list[Variable]) -> Variable:
    return pt.mul(*some) if len(some) > 1 else some[0] if some else pt.constant(1.0)
