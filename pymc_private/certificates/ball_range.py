"""Log-likelihoods that are quadratic in a row in a ball: their reduction, variation and range.

Let a row be center + scale z with |z| <= radius. A log-likelihood that is quadratic in the row
is

    sum_k a_k z_k^2 + <b, z> + c = r^2 (lo + (hi - lo) v) + r |b| w + c,    r = |z|,

with v in [0, 1] (a mean of the a_k lies between the least, lo, and the greatest, hi) and w in
[-1, 1] (Cauchy and Schwarz). `replace_rows_by_norms` puts the three numbers in place of the
row: r belongs to the record, v and w to the pair of record and parameters. Where two parameter
points are compared and the term stands alone in the sum, b may be counted from any fixed
vector: <b0, z> reads the record alone and cancels. From the middle of its range both points
are near.

`variation_in_ball` gives ell(theta) in closed form. `range_in_ball` bounds R, with a and b
functions of the parameters: at two parameter points with differences (A, B) of (a, b) the
record x adds

    max_z sum_k A_k z_k^2 + |B_k z_k| <= s radius^2 + sum_k B_k^2 / (4 (s - A_k))

for every s >= 0 that is above each A_k: Lagrange's bound of a maximum over a ball, which is
exact at the best s (More and Sorensen 1983). The record y adds the same with -A. So R is a
supremum over two parameter points alone; the boxes of parameters that scale the squares are
halved, all others enter by their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum

from pymc_private.analysis import Bounds, Ellipsoid, propagate_bounds, simplify
from pymc_private.analysis.batched_bounds import MOST_ENTRIES
from pymc_private.analysis.branch_and_bound import bound_suprema, within_tolerance
from pymc_private.analysis.intervals.functions import round_up
from pymc_private.analysis.quadratic import (
    Coefficient,
    QuadraticForm,
    quadratic_forms,
    quadratic_sums,
)
from pymc_private.analysis.rewrites.specialize import interaction_terms, specialize
from pymc_private.analysis.rewrites.weighted_means import first_of_touched_forms
from pymc_private.analysis.row_equivalence import hash_combine, value_numbers
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild, scalar_op
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.record_likelihood import InputColumn, Role, SingleRecord

ROUNDING_SLACK = 1.0 + 1e-12
"""Slack for a few sums and products in doubles."""

NEGLIGIBLE_MIDDLE = 1e-9
"""A middle this close to zero, relative to the width of its range, counts as zero."""

MOST_SPLIT_ENTRIES = 4
"""Entries of parameters that squares are multiplied by, at most: boxes have twice as many sides."""

TARGET_GAP = 0.005
"""Gap between bound and value that is aimed at."""

MOST_BOXES = 20_000

HALVINGS = 60

NormReduction = tuple[Variable, list[InputColumn], bool]
"""A graph, its columns, and whether rows were replaced."""


@dataclass(frozen=True, eq=False)
class QuadraticInBall:
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


def quadratic_in_ball(value: Variable, rows: Mapping[Variable, Bounds]) -> QuadraticInBall | None:
    """The whole of a function as a quadratic in one row in a ball; None if it is not one.

    `rows` holds a record's entries with their bounds.
    """
    read = rows.keys() & set(ancestors([value]))
    if len(read) != 1:
        return None
    (row,) = read
    ball = rows[row].within
    if not isinstance(ball, Ellipsoid) or row.type.dtype != "float64":
        return None
    part = quadratic_forms(value, row, *center_and_scale(ball, row.type.shape)).get(value)
    if part is None or not part.is_sum or part.square is None:
        return None
    slope = pt.constant(0.0) if part.slope is None else part.slope
    square, slope = simplify([part.square, slope])
    if square.type.ndim and _has_equal_entries(square):
        square = simplify([square[0]])[0]
    return QuadraticInBall(square, slope, row.type.shape[0], float(ball.radius))


def _has_equal_entries(vector: Variable) -> bool:
    """Whether all entries are one and the same expression."""
    inputs = [v for v in ancestors([vector]) if v.owner is None and not isinstance(v, Constant)]
    values = {v: np.full(v.type.shape, 0.5) for v in inputs}
    marks = {
        v: hash_combine(k, np.arange(x.size).reshape(x.shape))
        for k, (v, x) in enumerate(values.items())
    }
    try:
        (found,) = value_numbers([vector], marks, values)
    except (NotCertified, *EVALUATION_ERRORS):
        return False
    return bool(np.all(found == found[:1]))


def center_and_scale(ball: Ellipsoid, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale of each entry."""
    center, scale = (
        np.broadcast_to(np.asarray(e, float), shape) for e in (ball.center, ball.scale)
    )
    return center, scale


def norm_graph(vector: Variable, size: int) -> Variable:
    """|vector|_2, an upper bound where it is a constant."""
    if vector.type.ndim == 0:
        return abs(vector) * (np.sqrt(size) * ROUNDING_SLACK)
    return pt.sqrt(pt.maximum(pt.sqr(vector).sum(), 0.0))


def split_scalar_factor(vector: Variable) -> tuple[Variable, Variable]:
    """One number that all entries share, and the rest: their product is the vector."""
    numbers, rest = (_product_of(some) for some in scalar_and_vector_factors(vector))
    return numbers, rest


def scalar_and_vector_factors(vector: Variable) -> tuple[list[Variable], list[Variable]]:
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


def _product_of(some: list[Variable]) -> Variable:
    return pt.mul(*some) if len(some) > 1 else some[0] if some else pt.constant(1.0)


def variation_in_ball(value: Variable, rows: Mapping[Variable, Bounds]) -> Variable | None:
    """sup - inf over the ball, if all squares weigh the same: |a| ((h + r)^2 - max(h - r, 0)^2).

    Here a |z + b / (2 a)|^2 is the function, h = |b| / (2 |a|) is how far its center is off the
    ball's, and r the radius. Exact, in real arithmetic. None where the function has another form.
    """
    whole = quadratic_in_ball(value, rows)
    if whole is None or whole.square.type.ndim:
        return None
    scale = abs(whole.square)
    factor, rest = split_scalar_factor(whole.slope)
    off = abs(factor) * norm_graph(rest, whole.size) / (2.0 * scale)
    near = pt.maximum(off - whole.radius, 0.0)
    return simplify([scale * (pt.sqr(off + whole.radius) - pt.sqr(near))])[0]


def range_in_ball(
    record: SingleRecord, sources: Sequence[Source], box: Mapping[str, Bounds]
) -> float:
    """Bound R for one replaced record, in nats, rounded up.

    Infinite where the log-likelihood is not a quadratic function of one row in a ball.
    """
    inputs = {record.parameters[name]: b for name, b in box.items()}
    rows = {
        record.data[s.name]: s.domain.bounds(s.row_shape) for s in sources if s.name in record.data
    }
    in_ball = any(isinstance(b.within, Ellipsoid) for b in rows.values())
    if record.public or record.neighbors or not in_ball:
        return math.inf
    value = specialize(record.value, rows | inputs)
    value = interaction_terms(value, list(rows), list(inputs))
    whole = quadratic_in_ball(value, rows)
    if whole is None:
        return math.inf
    return _PairObjective([whole.square, whole.slope], inputs, whole.size, whole.radius).supremum()


class _PairObjective:
    """The objective of R: a and b at two parameter points, in boxes of the parameters a reads."""

    def __init__(
        self, graphs: list[Variable], inputs: Mapping[Variable, Bounds], size: int, radius: float
    ) -> None:
        read = set(ancestors(graphs[:1]))
        self.split = {v: b for v, b in inputs.items() if v in read}
        self.rest = {v: b for v, b in inputs.items() if v not in read}
        self.size, self.radius = size, radius
        self.boxes = {
            v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name)
            for v in self.split
        }
        graphs = [pt.broadcast_to(g, (size,)) for g in graphs]
        self.graphs = simplify(vectorize_graph(graphs, replace=self.boxes))

    def supremum(self) -> float:
        """The greatest sum of what two records add, over all pairs of parameter points."""
        low, high = (
            np.concatenate(
                [np.empty(0), *(np.ravel(getattr(b, side)) for b in self.split.values())]
            )
            for side in ("lower", "upper")
        )
        lower, upper = np.tile(low, 2)[None], np.tile(high, 2)[None]
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(upper - lower).all()
        many = len(low) > MOST_SPLIT_ENTRIES
        if not finite or many or any(b.within for b in self.split.values()):
            return math.inf
        if not self.split:
            return float(self.enclose(lower, upper)[1][0, 0])
        whole = np.zeros(lower.shape[1], dtype=bool)
        settled = within_tolerance(TARGET_GAP)
        found = bound_suprema(self.enclose, lower, upper, whole, settled=settled, most=MOST_BOXES)
        return float(found.upper[0])

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds on boxes of pairs, shape (N, 1); at points they are near what is reached."""
        count, sides = len(lower), lower.shape[1] // 2
        low, high = (np.concatenate([e[:, :sides], e[:, sides:]]) for e in (lower, upper))
        a, b = self._coefficients(low, high)
        with np.errstate(over="ignore", invalid="ignore"):
            rise, fall = (_difference_upper(a, k, count) for k in (0, 1))
            slope = np.maximum(*(_difference_upper(b, k, count) for k in (0, 1)))
            total = round_up(
                max_quadratic_in_ball(rise, slope, self.radius)
                + max_quadratic_in_ball(fall, slope, self.radius)
            )
        total = np.where(np.isnan(total), np.inf, total)[:, None]
        return total, total

    def _coefficients(self, low: np.ndarray, high: np.ndarray) -> list[Bounds]:
        """Bounds of a and b, shape (2 N, size), in boxes of the parameters that are split."""
        given, start = dict(self.rest), 0
        for v, b in self.split.items():
            shape = np.shape(b.lower)
            part = slice(start, start := start + math.prod(shape))
            down, top = (side[:, part].reshape(len(low), *shape) for side in (low, high))
            given[self.boxes[v]] = Bounds(down, top)
        trail = propagate_bounds(self.graphs, given)
        shape = (len(low), self.size)
        return [
            Bounds(np.broadcast_to(trail[g].lower, shape), np.broadcast_to(trail[g].upper, shape))
            for g in self.graphs
        ]


def _difference_upper(values: Bounds, which: int, count: int) -> np.ndarray:
    """Upper bound of the difference between two points, one way or the other."""
    first, second = slice(None, count), slice(count, None)
    one, other = (first, second) if which == 0 else (second, first)
    return round_up(values.upper[one] - values.lower[other])


def max_quadratic_in_ball(squares: np.ndarray, slopes: np.ndarray, radius: float) -> np.ndarray:
    """Bound max over |z| <= radius of sum_k squares_k z_k^2 + slopes_k |z_k|, rounded up.

    Squares and slopes have the shape (N, d), slopes are at least 0. By bisection for Lagrange's
    multiplier; the bound holds for any multiplier, and is exact at the best.
    """
    slopes = np.maximum(slopes, 0.0)
    least = np.maximum(squares.max(axis=1), 0.0)
    low, high = least, least + np.sqrt((slopes**2).sum(axis=1)) / (2.0 * radius) * (1.0 + 1e-9)
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = np.where(slopes > 0.0, slopes / (middle[:, None] - squares), 0.0)
            long = (steps**2).sum(axis=1) > 4.0 * radius**2
        low, high = np.where(long, middle, low), np.where(long, high, middle)
    return np.minimum(*(_lagrange_bound(squares, slopes, radius, s) for s in (least, high)))


def _lagrange_bound(
    squares: np.ndarray, slopes: np.ndarray, radius: float, multiplier: np.ndarray
) -> np.ndarray:
    """s radius^2 + sum_k slopes_k^2 / (4 (s - squares_k)), rounded up; infinite if s is too small.

    The difference of two doubles is rounded once, and all terms are positive.
    """
    gap = multiplier[:, None] - squares
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = np.where(slopes > 0.0, slopes**2 / (4.0 * gap), 0.0)
        terms = np.where((gap < 0.0) | ((gap == 0.0) & (slopes > 0.0)), np.inf, terms)
        total = multiplier * radius**2 + terms.sum(axis=1)
    return round_up(np.where(np.isnan(total), np.inf, total), 4.0 * (squares.shape[1] + 8))


def replace_rows_by_norms(
    value: Variable, columns: list[InputColumn], *, centered: bool
) -> NormReduction:
    """Replace rows in balls, where they are read as sums of squares, by their norms.

    `centered` says whether what reads a record alone cancels: wherever two parameter points are
    compared. The new graph takes every value that the old one takes, and may take more.
    """
    if not any(isinstance(c.bounds.within, Ellipsoid) for c in columns):
        return value, columns, False
    added: list[InputColumn] = []
    swaps: dict[Variable, Variable] = {}
    alone = _addends(value) if centered else set()
    box = {c.variable: c.bounds for c in columns}
    for column in columns:
        ball = column.bounds.within
        if not isinstance(ball, Ellipsoid) or column.is_whole:
            continue
        rows = _BallRows(column, ball, box)
        found = quadratic_forms(value, column.variable, rows.center, rows.scale)
        for total in quadratic_sums(value, found):
            if total not in swaps:
                swaps[total] = rows.number(total, found[total], alone=total in alone)
        added += rows.columns
    if not swaps:
        return value, columns, False
    reduced = rebuild([value], swaps, first_of_touched_forms)
    return simplify(reduced)[0], columns + added, True


def _addends(value: Variable) -> set[Variable]:
    """The terms that a value is a sum of, up to their signs."""
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


class _BallRows:
    """One variable with rows in a ball, and the numbers that replace it."""

    def __init__(
        self, column: InputColumn, ball: Ellipsoid, box: Mapping[Variable, Bounds]
    ) -> None:
        shape = np.shape(column.bounds.lower)
        self.center, self.scale = center_and_scale(ball, shape)
        self.name, self.size = column.variable.name, shape[-1]
        self._role, self._radius, self._box = column.role, float(ball.radius), box
        self.columns: list[InputColumn] = []
        self._length = self._fresh("length of", self._role, 0.0, self._radius)

    def _fresh(self, prefix: str, role: Role, low: float, high: float) -> Variable:
        """A new number, with a column of its own."""
        variable = pt.dscalar(name=f"{prefix} {self.name}")
        self.columns.append(InputColumn(variable, role, Bounds(np.array(low), np.array(high))))
        return variable

    def number(self, total: Variable, part: QuadraticForm, alone: bool) -> Variable:
        """The number that replaces a sum."""
        made = self._squares(part.square, alone) + self._product(part.slope, alone)
        if part.constant is not None:
            made = made + part.constant
        return made.dimshuffle(["x"] * total.type.ndim)

    def _squares(self, square: Coefficient, alone: bool) -> Variable:
        """r^2 times a mean of what squares are multiplied by."""
        square = simplify([square])[0]  # type: ignore[list-item]
        if square.type.ndim == 0:
            return square * pt.sqr(self._length)
        if alone:  # what is the same at all parameters cancels
            square = square - self._middle(square)
        low, high = square.min(), square.max()
        mean = self._fresh("mean over", Role.PAIR, 0.0, 1.0)
        return (low + (high - low) * mean) * pt.sqr(self._length)

    def _product(self, slope: Coefficient, alone: bool) -> Variable:
        """r |b - b0| w, and what is left of b0."""
        if slope is None:
            return pt.constant(0.0)
        factor, rest = split_scalar_factor(simplify([slope])[0])
        # Of many entries |b| enters by its range: tighter with the factor outside.
        few = self.size <= MOST_ENTRIES or isinstance(factor, Constant)
        middle = self._middle(factor * rest) if alone and few else np.array(0.0)
        if not np.any(middle):
            return self._reach(factor, rest)
        return self._reach(pt.constant(1.0), factor * rest - middle)

    def _reach(self, factor: Variable, vector: Variable) -> Variable:
        """r |factor| |vector| w."""
        cosine = self._fresh("direction of", Role.PAIR, -1.0, 1.0)
        return self._length * abs(factor) * norm_graph(vector, self.size) * cosine

    def _middle(self, variable: Variable) -> np.ndarray:
        """The middle of the values of a vector; zero where they are unbounded."""
        read = set(ancestors([variable]))
        given = {v: b for v, b in self._box.items() if v in read}
        fact = propagate_bounds([variable], given)[variable]
        with np.errstate(invalid="ignore"):
            middle = np.asarray(fact.lower / 2 + fact.upper / 2, dtype=float)
            width = np.asarray(fact.upper - fact.lower, dtype=float)
        middle = np.where(np.isfinite(middle) & np.isfinite(width), middle, 0.0)
        return np.where(np.abs(middle) > NEGLIGIBLE_MIDDLE * width, middle, 0.0)
