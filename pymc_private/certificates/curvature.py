"""Bounds of the slopes and curvatures of a log density in its linear predictors (T22).

A factor is h(u; x) with u = a(x)'theta + b(x). Bounds of h' and h'' over every u and x, by
branch and bound on intervals, give what T7 and T21 need. h'' is the derivative graph of h',
and bounds its rise wherever h' is continuous.

Softmax: a density that is c(x)'v - w(x) log sum e^v, up to what reads no score v, has the
gradient c - w p with p on the simplex; minus its Hessian, w (diag p - p p'), lies between 0
and (w/2)(I - 11'/K) (Boehning 1992; T22).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor.tensor.special as ts
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle

from pymc_private.analysis import NONE, Bounds, element_labels, propagate_bounds, simplify
from pymc_private.analysis.affine import AffineKind, affine_kinds, linear_predictors
from pymc_private.analysis.branch_and_bound import bound_suprema, within_tolerance
from pymc_private.analysis.continuity import dependent_variables, is_continuous_on_reals
from pymc_private.analysis.intervals.ops import LogSumExp
from pymc_private.analysis.rewrites.algebra import factor_predictors, signs_to_absolute_values
from pymc_private.analysis.rewrites.normal_cdf import recognize_log_phi
from pymc_private.analysis.rewrites.unbounded import specialize_on_reals
from pymc_private.analysis.traversal import rebuild
from pymc_private.certificates.linear_predictors import (
    NotConcave,
    gradient_of,
    interacting_predictors,
    interior_point,
    refuse_conditions,
    refuse_predictors,
    slopes_without_kinks,
)
from pymc_private.models.record_likelihood import InputColumn, Role

RELATIVE_GAP = 2e-3
"""Relative gap at which a bound of a slope or curvature is close enough."""

LINE_SCALE = 4.0
"""Half of the pieces of an infinite line lie within this distance of zero."""

MOST_LEVELS = 4096

MOST_PAIRS = 512


@dataclass(frozen=True, eq=False)
class DerivativeBounds:
    """Bounds of the derivatives of a factor in its predictors.

    Parameters
    ----------
    predictors : tuple of Variable
        The nodes u; their k elements follow one another in the arrays.
    low, high : array, shape (k,)
        inf and sup of dh/du_j over all u and x.
    gap : array, shape (k,)
        sup |dh/du_j (u; x) - dh/du_j (u; y)| over all u, x and y: of use where two records share u.
    smooth : array, shape (k,)
        beta_j = sup of -d2h/du_j2; infinite at kinks.
    sure : array, shape (k,)
        inf of -d2h/du_j2, at least 0.
    quadratic : array of bool, shape (k,)
        Whether a second derivative reads no predictor: `sure` and `smooth` are one number.
    softmax : SoftmaxBounds or None
        Then the k predictors are the scores of one softmax, and no other number is proved.
    """

    predictors: tuple[Variable, ...]
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray
    smooth: np.ndarray
    sure: np.ndarray
    quadratic: np.ndarray
    softmax: SoftmaxBounds | None = None

    @property
    def is_quadratic(self) -> bool:
        """Whether the whole factor is quadratic."""
        return bool(np.all(self.quadratic))


def derivative_bounds(
    value: Variable,
    parameters: Mapping[str, Variable],
    box: Mapping[str, Bounds],
    columns: Sequence[InputColumn],
    rows: np.ndarray | None = None,
) -> DerivativeBounds:
    """Bound the derivatives of a log density in its linear predictors.

    The inputs of `value` are `parameters`, within a box that may be infinite, and `columns`.
    `rows`, shape (distinct rows, entries), are the values of those that are public row by row.

    Raises
    ------
    NotConcave
        A predictor is not bounded, predictors interact, or the density is not shown to be concave.
    """
    factor = PredictorFactor(value, parameters, box, columns)
    factor.refuse_interactions()
    return factor.curves(rows)


class PredictorFactor:
    """h as a function of `inputs`, which stand for the predictors `cores`; `slopes` are dh/du.

    Finding the predictors costs little; h in the form that is best for intervals costs a lot.
    """

    def __init__(
        self,
        value: Variable,
        parameters: Mapping[str, Variable],
        box: Mapping[str, Bounds],
        columns: Sequence[InputColumn],
    ) -> None:
        self.parameters, self.columns = parameters, list(columns)
        given = {parameters[name]: b for name, b in box.items()}
        given |= {c.variable: c.bounds for c in columns}
        self.records = [c.variable for c in columns if c.role is Role.RECORD]
        value = factor_predictors(value, theta := list(parameters.values()))
        self.cores = linear_predictors(value, theta, self.records)
        refuse_predictors(self.cores)
        self.inputs = [core.type(name=f"u{k}") for k, core in enumerate(self.cores)]
        self.sizes = [int(np.prod(u.type.shape)) for u in self.inputs]
        self.size = sum(self.sizes)
        self.zeros = np.zeros(self.size)
        self._refuse_undefined(box)
        trail = propagate_bounds(self.cores, given)
        lows, highs = zip(*(real_bounds(trail[core], core) for core in self.cores), strict=True)
        low, high = np.concatenate(lows), np.concatenate(highs)
        self.ranges = PredictorRange(self.inputs, low, high)
        self.box = dict(zip(self.inputs, self.ranges.shaped(low, high), strict=True))
        self.box |= {c.variable: c.bounds for c in columns}
        self.in_inputs = rebuild([value], dict(zip(self.cores, self.inputs, strict=True)))[0]
        left = [v.name for v in ancestors([self.in_inputs]) if v in set(parameters.values())]
        if left:
            raise NotConcave(f"{', '.join(map(str, left))}: discrete, or read in another way")

    @cached_property
    def h(self) -> Variable:
        """The density as a function of `inputs`, simplified."""
        found = specialize_on_reals(self.in_inputs, self.box)
        for form in (signs_to_absolute_values, recognize_log_phi):
            made = form(found)
            found = found if made is found else simplify([made])[0]
        return found

    @cached_property
    def slopes(self) -> list[Variable]:
        """dh/du for each of `inputs`."""
        return gradient_of(self.h, self.inputs)

    def refuse_interactions(self) -> None:
        """Refuse predictors that are seen to interact, at little cost: no softmax has several."""
        if found := interacting_predictors(self.in_inputs, self.inputs, self.box, self.columns):
            raise NotConcave(self.interaction(found))

    def curves(self, rows: np.ndarray | None) -> DerivativeBounds:
        """See `derivative_bounds`."""
        found = recognize_softmax(self.h, self.inputs, self.columns) if self.interacting else None
        if self.interacting and found is None:
            raise NotConcave(self.interaction(self.interacting))
        self.refuse_undefined()
        if found is None:
            return self.bound_derivatives(rows)
        none = np.full(self.size, np.inf)
        return DerivativeBounds(
            tuple(self.cores), -none, none, none, none, self.zeros, self.zeros > 0.0,
            softmax=found,
        )  # fmt: skip

    def _refuse_undefined(self, box: Mapping[str, Bounds]) -> None:
        """Refuse predictors that are no number for some record: one parameter point decides."""
        given = {c.variable: c.bounds for c in self.columns}
        for name, b in box.items():
            at = interior_point(b.lower, b.upper).astype(self.parameters[name].type.dtype)
            given[self.parameters[name]] = Bounds.point(at)
        trail = propagate_bounds(self.cores, given)
        for core in self.cores:
            if not trail[core].is_finite:
                raise NotConcave(
                    f"what multiplies {self.names(core)} is not bounded for every record of the "
                    "domain"
                )

    @cached_property
    def interacting(self) -> list[Variable]:
        """Predictors whose slopes read other predictors, or several elements of their own."""
        labels, values, start = {}, {}, 0
        for u, size in zip(self.inputs, self.sizes, strict=True):
            labels[u] = np.arange(start, start + size).reshape(u.type.shape)
            values[u] = np.full(u.type.shape, 0.5)
            start += size
        for c in self.columns:
            low = np.asarray(c.bounds.lower)
            values[c.variable] = (c.levels[0] + 0.0 * low if c.levels is not None else low).astype(
                c.variable.type.dtype
            )
            labels[c.variable] = np.full(low.shape, NONE)
        trail = element_labels(self.slopes, labels, values)
        return [
            u
            for u, g in zip(self.inputs, self.slopes, strict=True)
            if np.any((trail[g] != labels[u]) & (trail[g] != NONE))
        ]

    def names(self, core: Variable) -> str:
        """The parameters that a predictor reads."""
        named = {v: name for name, v in self.parameters.items()}
        return " and ".join(sorted({named[v] for v in ancestors([core]) if v in named}))

    def interaction(self, inputs: Sequence[Variable]) -> str:
        """The reason that a factor is refused whose predictors `inputs` interact."""
        cores = dict(zip(self.inputs, self.cores, strict=True))
        groups = list(dict.fromkeys(self.names(cores[u]) for u in inputs))
        if len(groups) > 1:
            return f"{', '.join(groups)} meet in a function that is not affine in them together"
        return f"entries of {groups[0]} meet in a function that is neither affine nor a softmax"

    def refuse_undefined(self) -> None:
        """Refuse a density that is not finite for every record, at some parameters and so at all.

        What reads no parameter is in no slope: there a record of density zero would go unnoticed.
        """
        refuse_conditions(self.h)
        given = {c.variable: c.bounds for c in self.columns}
        middle = interior_point(self.ranges.low, self.ranges.high)
        points = self.ranges.shaped(middle, middle)
        given |= dict(zip(self.inputs, points, strict=True))
        if not propagate_bounds([self.h], given)[self.h].is_finite:
            raise NotConcave("the density is not finite for every record of the domain")

    def bound_derivatives(self, rows: np.ndarray | None) -> DerivativeBounds:
        """All bounds, in one search."""
        moving = dependent_variables([self.h, *self.slopes], self.inputs)
        trail = propagate_bounds([self.h, *self.slopes], self.box)
        if not is_continuous_on_reals([self.h], moving, trail):
            raise NotConcave(f"the density is not shown to be continuous in {self._all_names()}")
        steps = [is_continuous_on_reals([g], moving, trail) for g in self.slopes]
        smooth = all(steps)
        steady = self.slopes if smooth else slopes_without_kinks(self.h, self.inputs, self.box)
        if steady is None:
            raise NotConcave(f"the slope of the density may jump in {self._all_names()}")
        second = [gradient_of(g.sum(), [u])[0] for g, u in zip(steady, self.inputs, strict=True)]
        read = affine_kinds(second, self.inputs)
        quadratic = [step and not read.get(s) for step, s in zip(steps, second, strict=True)]
        numbers = all(quadratic) and not self.columns
        found = extremes_of_constants(second, self.box) if numbers else None
        if found is None or np.any(found[-self.size :] >= 0.0):  # a flat predictor has its slope
            search = DerivativeExtremes(self.ranges, self.columns, [*self.slopes, *second], rows)
            found = search.extremes()
        high, low, bend, rise = np.split(found, 4)
        if np.any(rise > 1e-290):
            worst = int(np.argmax(rise))
            core = self.cores[int(np.searchsorted(np.cumsum(self.sizes), worst, side="right"))]
            known = f"its second derivative is only known to be at most {rise[worst]:.3g}"
            name = self.names(core)
            raise NotConcave(f"the log density of '{name}' is not shown to be concave: {known}")
        return DerivativeBounds(
            predictors=tuple(self.cores),
            low=-low,
            high=high,
            gap=self.gaps(second if smooth else None, rows, low + high),
            smooth=np.where(np.repeat(steps, self.sizes), np.maximum(bend, 0.0), np.inf),
            sure=np.maximum(-rise, 0.0),
            quadratic=np.repeat(quadratic, self.sizes),
        )

    def _all_names(self) -> str:
        return ", ".join(dict.fromkeys(map(self.names, self.cores)))

    def gaps(
        self, second: Sequence[Variable] | None, rows: np.ndarray | None, known: np.ndarray
    ) -> np.ndarray:
        """sup over u, x, y of h'(u; x) - h'(u; y), where the predictors read no record.

        Where h' integrates an h'' that reads no record, the difference is the same at each u.
        """
        if not self.records:
            return self.zeros
        if not set(ancestors(self.cores)).isdisjoint(self.records):
            return known
        others = {v: v.type(name=f"{v.name}'") for v in self.records}
        read = [c for c in self.columns if c.variable in others]
        copies = [InputColumn(others[c.variable], c.role, c.bounds, c.levels) for c in read]
        theirs = rebuild(self.slopes, others)
        difference = [simplify([a - b])[0] for a, b in zip(self.slopes, theirs, strict=True)]
        twice = DerivativeExtremes(self.ranges, [*self.columns, *copies], difference, rows)
        if not (second is None or set(ancestors(list(second))) & set(self.records)):
            twice.fix_predictors()
        return np.minimum(twice.magnitudes(), known)


class DerivativeExtremes:
    """Graphs of predictors and records, bounded on many boxes at once.

    The first coordinate is the share of every predictor's range at which it lies: no function reads
    more than its own predictor, so one coordinate serves all of them.
    """

    def __init__(
        self,
        ranges: PredictorRange,
        columns: Sequence[InputColumn],
        outputs: Sequence[Variable],
        rows: np.ndarray | None,
    ) -> None:
        self.ranges = ranges
        read = set(ancestors(list(outputs)))
        self.columns = [c for c in columns if c.variable in read]
        self.shared = [c for c in columns if c.role is Role.SHARED]
        inputs = [*ranges.inputs, *(c.variable for c in self.columns)]
        self.boxes = {
            v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in inputs
        }
        flat = [out.flatten() for out in outputs]
        self.outputs = simplify(vectorize_graph(flat, replace=self.boxes))
        self.widths = [int(np.prod(out.type.shape)) for out in outputs]
        self.root = self._root(rows)

    def fix_predictors(self) -> None:
        """Fix every predictor at the middle of its range."""
        self.root[0][:, 0] = self.root[1][:, 0] = 0.5

    def _root(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds of the whole space, and which coordinates are whole numbers."""
        sides = [c.coordinate_bounds() for c in self.columns]
        lower = np.concatenate([[0.0], *(low for low, _ in sides)])
        upper = np.concatenate([[1.0], *(high for _, high in sides)])
        whole = np.concatenate([[False], *(np.full(c.size, c.is_whole) for c in self.columns)])
        if rows is None or not self.shared:
            return lower[None], upper[None], whole.astype(bool)
        lower, upper = np.tile(lower, (len(rows), 1)), np.tile(upper, (len(rows), 1))
        at, column_of = 0, {}
        for c in self.shared:
            column_of[c.variable] = slice(at, at + c.size)
            at += c.size
        start = 1
        for c in self.columns:
            if c.variable in column_of:
                values = rows[:, column_of[c.variable]]
                lower[:, start : start + c.size] = upper[:, start : start + c.size] = values
            start += c.size
        return lower, upper, whole.astype(bool)

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of all outputs, side by side."""
        shaped = self.ranges.shaped(*(self.ranges.at_share(side[:, :1]) for side in (lower, upper)))
        given = {self.boxes[u]: b for u, b in zip(self.ranges.inputs, shaped, strict=True)}
        start = 1
        for c in self.columns:
            part = slice(start, start + c.size)
            given[self.boxes[c.variable]] = c.interval(lower[:, part], upper[:, part])
            start += c.size
        trail = propagate_bounds(self.outputs, given)
        found = [
            [
                _broadcast_bound(side, (len(lower), width))
                for side in (trail[o].lower, trail[o].upper)
            ]
            for o, width in zip(self.outputs, self.widths, strict=True)
        ]
        low, high = (np.concatenate(sides, axis=1) for sides in zip(*found, strict=True))
        return low, high

    def extremes(self) -> np.ndarray:
        """sup h', sup -h', sup -h'' and sup h'', for outputs h' and h''."""
        k = self.ranges.size

        def enclose(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            low, high = self.enclose(lower, upper)
            (slope, bend), (rise, top) = (low[:, :k], -high[:, k:]), (low[:, k:], high[:, :k])
            return (
                np.concatenate([slope, -top, bend, rise], axis=1),
                np.concatenate([top, -slope, -rise, -bend], axis=1),
            )

        def settled(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
            close = within_tolerance(RELATIVE_GAP)(bound, found)
            slope = np.maximum(np.maximum(found[:k], found[k : 2 * k]), 0.0)
            with np.errstate(invalid="ignore", over="ignore"):
                near = found[: 2 * k] + RELATIVE_GAP * np.tile(slope, 2)
            close[:, : 2 * k] |= bound[:, : 2 * k] <= near
            # Of the rise of h', little more than its sign is needed.
            sign, bend = found[3 * k :], np.maximum(found[2 * k : 3 * k], 0.0)
            flat = (bound[:, 3 * k :] <= 0.0) & ((sign >= -0.01 * bend) | close[:, 3 * k :])
            close[:, 3 * k :] = flat | (sign > 0.0)
            return close

        return bound_suprema(enclose, *self.root, settled=settled).upper

    def magnitudes(self) -> np.ndarray:
        """sup of the absolute value of each output."""

        def enclose(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return _absolute_bounds(*self.enclose(lower, upper))

        return bound_suprema(enclose, *self.root, settled=within_tolerance(RELATIVE_GAP)).upper


def extremes_of_constants(second: Sequence[Variable], box: Mapping[Variable, Bounds]) -> np.ndarray:
    """`DerivativeExtremes.extremes` for h'' that read nothing; nothing is proved of slopes h'."""
    trail = propagate_bounds(second, box)  # of the predictors they may read the shapes
    each = [real_bounds(trail[s], s) for s in second]
    low, high = (np.concatenate(sides) for sides in zip(*each, strict=True))
    return np.concatenate([np.full(2 * len(low), np.inf), -low, high])


class PredictorRange:
    """The ranges of all predictors, some of which may be infinite.

    Parameters
    ----------
    inputs : sequence of Variable
        The predictors, of known shapes.
    low, high : array, shape (k,)
        Bounds of all their elements, one after the other.
    """

    def __init__(self, inputs: Sequence[Variable], low: np.ndarray, high: np.ndarray) -> None:
        self.inputs, self.low, self.high = list(inputs), low, high
        self.sizes = [int(np.prod(u.type.shape)) for u in inputs]
        self.size = sum(self.sizes)

    def shaped(self, lower: np.ndarray, upper: np.ndarray) -> list[Bounds]:
        """One interval for each predictor variable."""
        cuts = np.cumsum(self.sizes)[:-1]
        parts = zip(self.inputs, np.split(lower, cuts, -1), np.split(upper, cuts, -1), strict=True)
        lead = lower.shape[:-1]
        return [
            Bounds(low.reshape((*lead, *u.type.shape)), high.reshape((*lead, *u.type.shape)))
            for u, low, high in parts
        ]

    def at_share(self, t: np.ndarray) -> np.ndarray:
        """Predictors at a share t of their ranges, increasing in t: shape (N, 1) -> (N, k)."""
        low, high = self.low[None], self.high[None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            s = 2.0 * t - 1.0
            line = LINE_SCALE * s / (1.0 - np.abs(s))
            right, left = low + LINE_SCALE * t / (1.0 - t), high - LINE_SCALE * (1.0 - t) / t
            inside = np.where(t < 0.5, low + (high - low) * t, high - (high - low) * (1.0 - t))
        value = np.where(np.isinf(low), np.where(np.isinf(high), line, left), right)
        return np.where(np.isfinite(low) & np.isfinite(high), inside, value)


def real_bounds(fact: Bounds, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of real numbers, one after the other: where nothing is known, the whole line."""
    shape = variable.type.shape
    low = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
    high = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
    return np.ravel(low), np.ravel(high)


def _broadcast_bound(bound: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A bound in the shape of all boxes; what lost its shape is NaN."""
    array = np.asarray(bound, dtype=float)
    return np.broadcast_to(array if array.ndim else array[None, None], shape)


def _absolute_bounds(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the absolute value."""
    return np.maximum(np.maximum(low, -high), 0.0), np.maximum(np.abs(low), np.abs(high))


@dataclass(frozen=True, eq=False)
class SoftmaxBounds:
    """Bounds of a softmax factor.

    Parameters
    ----------
    classes : int
    slope : float
        sup of the l2 norm of the gradient in the scores.
    gap : float
        sup of the l2 norm of the difference of two records' gradients at the same scores.
    weight : float
        sup of w.
    """

    classes: int
    slope: float
    gap: float
    weight: float


def recognize_softmax(
    h: Variable, inputs: Sequence[Variable], columns: Sequence[InputColumn]
) -> SoftmaxBounds | None:
    """Recognize h as a softmax of one row of scores, the only input, and bound it; else None."""
    if len(inputs) != 1:
        return None
    (v,) = inputs
    total = pt.dscalar("log_sum_exp")
    swaps = {}
    for node in dict.fromkeys(a.owner for a in ancestors([h]) if a.owner is not None):
        out = node.outputs[0]
        if not isinstance(node.op, ts.LogSoftmax | LogSumExp):
            continue
        if not _is_score_row(node.inputs[0], v):
            return None
        if isinstance(node.op, LogSumExp):
            swaps[out] = pt.zeros(out.type.shape) + total
        else:
            swaps[out] = node.inputs[0] - total
    if not swaps:
        return None
    linear = simplify(rebuild([h], swaps))[0]
    if affine_kinds([linear], [v, total]).get(linear) is not AffineKind.AFFINE:
        return None
    slopes = pytensor.grad(linear, [v, total], disconnected_inputs="ignore")
    # They are the same at all scores, so at zero; sizes may still be read off the scores.
    origin = {v: pt.zeros(v.type.shape), total: pt.constant(0.0)}
    slopes = simplify(rebuild(slopes, origin))
    return _bound_softmax(slopes[0].flatten(), -slopes[1], columns, int(np.prod(v.type.shape)))


def _is_score_row(scores: Variable, v: Variable) -> bool:
    """Whether `scores` is v itself, one row of it along the last axis."""
    while scores is not v and scores.owner is not None and isinstance(scores.owner.op, DimShuffle):
        scores = scores.owner.inputs[0]
    return scores is v and int(np.prod(v.type.shape)) == v.type.shape[-1]


def _bound_softmax(
    counts: Variable, weight: Variable, columns: Sequence[InputColumn], classes: int
) -> SoftmaxBounds | None:
    """Bounds over records: levels one by one, the rest by intervals.

    |c - w p| is convex in p, so it is greatest at a corner e_k: |c_k - w|^2 + sum of the others.
    """
    read = set(ancestors([counts, weight]))
    used = [c for c in columns if c.variable in read]
    worst, heaviest, seen = 0.0, 0.0, []
    for given in _record_choices(used):
        trail = propagate_bounds([counts, weight], given)
        c, w = trail[counts], trail[weight]
        low, high = np.broadcast_to(c.lower, classes), np.broadcast_to(c.upper, classes)
        if not (c.is_finite and w.is_finite) or np.any(w.lower < 0.0):
            return None
        squares = np.maximum(np.abs(low), np.abs(high)) ** 2
        own = np.maximum(np.abs(high - w.lower), np.abs(low - w.upper)) ** 2
        norm = float(np.sqrt((squares.sum() - squares + own).max()) * (1.0 + 1e-12))
        worst, heaviest = max(worst, norm), max(heaviest, float(w.upper))
        seen.append(np.concatenate([low, [w.lower], high, [w.upper]]))
    return SoftmaxBounds(
        classes, worst, min(_largest_gradient_gap(np.array(seen)), 2.0 * worst), heaviest
    )


def _largest_gradient_gap(bounds: np.ndarray) -> float:
    """sup |c - c'| where all weights are one number; else nothing is known."""
    half = bounds.shape[1] // 2
    low, high = bounds[:, : half - 1], bounds[:, half:-1]
    if np.ptp(bounds[:, [half - 1, -1]]) > 0.0 or len(bounds) > MOST_PAIRS:
        return np.inf
    apart = np.maximum(high[:, None] - low[None], high[None] - low[:, None])
    return float(np.sqrt((apart**2).sum(axis=-1)).max() * (1.0 + 1e-12))


def _record_choices(columns: Sequence[InputColumn]) -> list[dict[Variable, Bounds]]:
    """Cells of records: whole numbers one by one where they are few, else intervals."""
    cells: list[dict[Variable, Bounds]] = [{}]
    for c in columns:
        low, high = c.coordinate_bounds()
        counts = high - low + 1.0
        if c.is_whole and np.prod(counts) * len(cells) <= MOST_LEVELS:
            grid = np.stack(
                np.meshgrid(*[np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)])
            ).reshape(c.size, -1).T  # fmt: skip
            choices = [c.interval(p[None], p[None]) for p in grid]
            choices = [Bounds.point(i.lower[0].astype(c.variable.type.dtype)) for i in choices]
        else:
            choices = [c.bounds]
        cells = [cell | {c.variable: choice} for cell in cells for choice in choices]
    return cells
