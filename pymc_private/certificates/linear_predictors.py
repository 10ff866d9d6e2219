"""Linear predictors: their coefficients a(x) for every record of the domain, kinks, interactions.

Mostly a(x) is affine in a record: a(x) = a_0 + M x, with x in a product of boxes and balls,
for each choice of the record's categories. It is found as the gradient of the predictor, which
reads no parameter. The greatest norm of W a(x) over the domain follows from W a_0 and W M;
where a(x) is not affine, from an interval for each entry.

Interaction test: a slope that reads no other predictor has one value wherever the others are.
Where its intervals at two points are disjoint, it reads them for certain, and no rewrite of
the graph would find otherwise. Kinks of the form -c |v|, c >= 0 and v affine, keep a function
concave.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis import Bounds, Ellipsoid, propagate_bounds, simplify
from pymc_private.analysis.affine import AffineKind, affine_kinds
from pymc_private.analysis.continuity import dependent_variables, is_continuous_on_reals
from pymc_private.analysis.rewrites.unbounded import simplify_and_merge_switches
from pymc_private.analysis.traversal import rebuild
from pymc_private.models.record_likelihood import InputColumn, Role


class NotConcave(Exception):
    """A factor is not shown to be log-concave in the parameters; the message says why."""


MOST_CORNERS = 12
"""Coordinates of a box whose corners are tried one by one."""

NORM_SLACK = 1e-9
"""Relative slack of a norm: far more than a few thousand float operations can lose."""

MOST_CELLS = 4096
"""Choices of categories, or public rows, that are evaluated one by one."""

INTERACTION_STEP = 0.625
"""How far a predictor is moved toward its upper bound, as a share of the way from the middle."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """a(x) of all predictors of a factor.

    Parameters
    ----------
    center : array, shape (cells, predictors, parameters)
    radius : array, shape (cells, predictors, parameters)
        Half-widths of intervals around it: rounding, or what is not affine in a record.
    parts : tuple of PredictorPart
    is_public : bool
        Whether no record changes a(x); then cells are the distinct public rows.
    """

    center: np.ndarray
    radius: np.ndarray
    parts: tuple[PredictorPart, ...]
    is_public: bool

    def norms(self, whitener: np.ndarray) -> np.ndarray:
        """sup |W a_j(x)| in each cell, shape (cells, predictors).

        For mu of T7, W is P^(-1/2), or any W with W'W = P^-1.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # NaN: nothing is known
            center = self.center @ whitener.T
            # Of sums that cancel, the rounding is that of their terms.
            size = np.abs(self.center) + sum(np.abs(p.matrix).sum(axis=-1) for p in self.parts)
            rounding = 2.0 * (len(whitener.T) + 4) * float(np.finfo(float).eps)
            loose = (self.radius + rounding * size) @ np.abs(whitener).T
            parts = [np.einsum("oi,cpij->cpoj", whitener, part.matrix) for part in self.parts]
            found = np.zeros(center.shape[:2])
            for rows, members in _independent_rows(center, loose, parts):
                own = [(parts[k][..., rows, :], k) for k in members]
                found = np.hypot(found, self._block(center[..., rows], loose[..., rows], own))
            return found * (1.0 + NORM_SLACK)

    def _block(
        self, center: np.ndarray, loose: np.ndarray, parts: Sequence[tuple[np.ndarray, int]]
    ) -> np.ndarray:
        """sup |c + sum_k N_k r_k| of some rows."""
        far = stable_norm(loose)
        boxes = [m for m, k in parts if not self.parts[k].is_ball]
        balls = [m for m, k in parts if self.parts[k].is_ball]
        for matrix in balls:
            far = far + _spectral_norm(matrix)
        if not boxes:
            return far + stable_norm(center)
        joined = np.concatenate(boxes, axis=-1)
        return far + _norm_over_box(center, joined)

    def touched(self, whitener: np.ndarray) -> np.ndarray:
        """Which rows of W a_j(x) may differ from zero, shape (predictors, rows)."""
        used = np.abs(self.center) + self.radius
        for part in self.parts:
            used = used + np.abs(part.matrix).sum(axis=-1)
        return (used.max(axis=0) @ np.abs(whitener).T) > 0.0

    def fixed(self, whitener: np.ndarray) -> np.ndarray:
        """Rows of W a(x) that are one number for all records, shape (rows,)."""
        center = self.center @ whitener.T
        moving = np.any(self.radius @ np.abs(whitener).T > 0.0, axis=(0, 1))
        moving |= np.any(np.ptp(center, axis=0) > 0.0, axis=0)
        for part in self.parts:
            touched = np.abs(part.matrix).sum(axis=-1) @ np.abs(whitener).T
            moving |= np.any(touched > 0.0, axis=(0, 1))
        return ~moving

    def outer(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weight_j a_j a_j', where a is one and the same for every record."""
        return np.einsum("pi,p,pj->ij", self.center[0], weights, self.center[0])

    @property
    def is_constant(self) -> bool:
        """Whether a is one and the same for every record, public rows included."""
        return self.is_public and len(self.center) == 1 and not self.parts


@dataclass(frozen=True, eq=False)
class PredictorPart:
    """One variable of a record, in coordinates r with |r|_2 <= 1 (a ball) or |r_i| <= 1 (a box).

    Parameters
    ----------
    matrix : array, shape (cells, predictors, parameters, coordinates)
        What r adds to the coefficients.
    is_ball : bool
    """

    matrix: np.ndarray
    is_ball: bool


def stable_norm(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The l2 norm, whose squares neither overflow nor vanish."""
    scale = _largest_entry(x, axis)
    return np.linalg.norm(x / scale, axis=axis) * np.squeeze(scale, axis=axis)


def _spectral_norm(matrix: np.ndarray) -> np.ndarray:
    """The greatest singular value; infinite where an entry is."""
    scale = _largest_entry(matrix, (-2, -1))
    known = np.isfinite(matrix)
    values = np.linalg.norm(np.where(known, matrix / scale, 0.0), ord=2, axis=(-2, -1))
    return np.where(known.all(axis=(-2, -1)), values * scale[..., 0, 0], np.inf)


def _largest_entry(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """The largest absolute value along an axis, as a divisor: 1 where it is zero or infinite."""
    scale = np.max(np.abs(x), axis=axis, keepdims=True, initial=0.0)
    return np.where((scale > 0.0) & np.isfinite(scale), scale, 1.0)


def _norm_over_box(center: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """sup of |c + N r| over |r_i| <= 1: at a corner, or not above the corner of the sums."""
    count = matrix.shape[-1]
    each = stable_norm(np.abs(center) + np.abs(matrix).sum(axis=-1))
    if count > MOST_CORNERS:
        return each
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=count)))
    most = np.zeros(center.shape[:2])
    for sign in signs:
        most = np.maximum(most, stable_norm(center + matrix @ sign))
    return np.minimum(most, each)


def _independent_rows(
    center: np.ndarray, loose: np.ndarray, parts: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, list[int]]]:
    """Groups of rows that share no part of a record: their greatest squared norms add."""
    touched = [np.any(m != 0.0, axis=(0, 1, 3)) for m in parts]
    groups: list[tuple[np.ndarray, list[int]]] = []
    for k, rows in enumerate(touched):
        merged, members = rows.copy(), [k]
        rest = []
        for other, ks in groups:
            if np.any(other & merged):
                merged, members = merged | other, members + ks
            else:
                rest.append((other, ks))
        groups = [*rest, (merged, members)]
    taken = np.zeros(center.shape[-1], dtype=bool)
    for rows, _ in groups:
        taken |= rows
    free = ~taken & (np.any(center != 0.0, axis=(0, 1)) | np.any(loose != 0.0, axis=(0, 1)))
    if free.any():
        groups.append((free, []))
    return [(rows, members) for rows, members in groups if rows.any()]


def predictor_coefficients(
    predictors: Sequence[Variable],
    parameters: Mapping[str, Variable],
    columns: Sequence[InputColumn],
    rows: np.ndarray | None = None,
) -> Coefficients:
    """The coefficients a(x) of predictors that are affine in the parameters, for all records.

    The last axis holds the parameters in their order, raveled. `columns` are all other inputs;
    `rows`, shape (distinct rows, entries), the values of those that are public row by row.
    """
    if set(predictors) <= set(parameters.values()):
        return _parameters_as_predictors(predictors, parameters)
    graph = _jacobian(predictors, list(parameters.values()))
    read = set(ancestors([graph]))
    used = [c for c in columns if c.variable in read]
    moving = [c for c in used if c.role is Role.RECORD and not c.is_whole]
    if (
        affine_kinds([graph], [c.variable for c in moving]).get(graph, AffineKind.CONSTANT)
        is AffineKind.OTHER
    ):
        moving = []
    cells = _discrete_cells([c for c in used if c not in moving], columns, rows)
    points, parts = _evaluation_points(moving)
    values = _evaluate_jacobian(graph, cells, moving, points)
    center, radius = values[0]
    if not all(np.isfinite(r).all() for _, r in values):
        raise NotConcave("the coefficients of a linear predictor are not bounded")
    matrices = []
    start = 1
    for column, _ in parts:
        stop = start + column.size
        moved = values[start:stop]
        matrices.append(np.stack([value - center for value, _ in moved], axis=-1))
        radius = radius + sum(r + values[0][1] for _, r in moved)
        start = stop
    found = tuple(
        PredictorPart(m, is_ball) for m, (_, is_ball) in zip(matrices, parts, strict=True)
    )
    public = not any(c.role is Role.RECORD for c in used)
    return Coefficients(center, radius, found, public)


def _parameters_as_predictors(
    predictors: Sequence[Variable], parameters: Mapping[str, Variable]
) -> Coefficients:
    """Predictors that are parameters: each of their elements is a coordinate."""
    start, coordinates = 0, {}
    for v in parameters.values():
        coordinates[v] = np.arange(start, start + int(np.prod(v.type.shape)))
        start += len(coordinates[v])
    center = np.eye(start)[np.concatenate([coordinates[u] for u in predictors])][None]
    return Coefficients(center, np.zeros(center.shape), (), is_public=True)


def _jacobian(predictors: Sequence[Variable], parameters: Sequence[Variable]) -> Variable:
    """The graph of a, shape (predictors, parameters): the same at all parameters, so at zero."""
    rows = []
    for predictor in predictors:
        flat = predictor.flatten()
        for k in range(int(np.prod(predictor.type.shape))):
            slopes = pytensor.grad(flat[k], list(parameters), disconnected_inputs="ignore")
            rows.append(pt.concatenate([slope.flatten() for slope in slopes]))
    origin = {v: pt.zeros(v.type.shape, dtype=v.type.dtype) for v in parameters}
    return simplify(rebuild([pt.stack(rows)], origin))[0]


def _discrete_cells(
    fixed: Sequence[InputColumn], columns: Sequence[InputColumn], rows: np.ndarray | None
) -> list[dict[Variable, Bounds]]:
    """Cells of all choices of whole numbers and public rows; intervals where these are many."""
    cells: list[dict[Variable, Bounds]] = [{}]
    shared = [c for c in columns if c.role is Role.SHARED]
    if rows is not None and any(c in fixed for c in shared):
        cells = []
        for row in rows:
            start, cell = 0, {}
            for c in shared:
                part = row[None, start : start + c.size]
                cell[c.variable] = _single_box(c.interval(part, part))
                start += c.size
            cells.append(cell)
    for c in fixed:
        if c.role is Role.SHARED and rows is not None:
            continue
        low, high = c.coordinate_bounds()
        if c.is_whole and np.prod(high - low + 1.0) * len(cells) <= MOST_CELLS:
            ranges = [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]
            choices = [
                _single_box(c.interval(np.array([point]), np.array([point])))
                for point in itertools.product(*ranges)
            ]
        else:
            choices = [c.bounds]
        cells = [cell | {c.variable: choice} for cell in cells for choice in choices]
    return cells


def _single_box(interval: Bounds) -> Bounds:
    """The only box of a batch."""
    return Bounds.point(interval.lower[0])


def _evaluation_points(
    moving: Sequence[InputColumn],
) -> tuple[list[dict[Variable, np.ndarray]], list[tuple[InputColumn, bool]]]:
    """The middle of a record's domain, then each coordinate at its bound, variable by variable."""
    middles, reaches, parts = {}, {}, []
    for c in moving:
        within = c.bounds.within
        if isinstance(within, Ellipsoid):
            shape = np.shape(c.bounds.lower)
            middles[c.variable] = np.broadcast_to(np.asarray(within.center, float), shape)
            scale = np.broadcast_to(np.asarray(within.scale, float), shape)
            reaches[c.variable] = scale * within.radius
        else:
            low, high = np.asarray(c.bounds.lower, float), np.asarray(c.bounds.upper, float)
            middles[c.variable], reaches[c.variable] = (low + high) / 2.0, (high - low) / 2.0
        parts.append((c, isinstance(within, Ellipsoid)))
    points = [dict(middles)]
    for c, _ in parts:
        for index in np.ndindex(np.shape(c.bounds.lower)):
            moved = np.array(middles[c.variable])
            moved[index] += reaches[c.variable][index]
            points.append(middles | {c.variable: moved})
    return points, parts


def _evaluate_jacobian(
    graph: Variable,
    cells: Sequence[Mapping[Variable, Bounds]],
    moving: Sequence[InputColumn],
    points: Sequence[Mapping[Variable, np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Middle and half-width of a(x) at each point, shape (cells, predictors, parameters)."""
    boxes = {
        c.variable: pt.TensorType(c.variable.type.dtype, shape=(None, *c.variable.type.shape))()
        for c in moving
    }
    shape = (len(points), *graph.type.shape)
    many = simplify(vectorize_graph([graph], replace=boxes))[0] if boxes else graph
    batch = {boxes[c.variable]: np.stack([p[c.variable] for p in points]) for c in moving}
    found = []
    for cell in cells:
        given = {v: Bounds.point(value) for v, value in batch.items()} | dict(cell)
        fact = propagate_bounds([many], given)[many]
        low = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
        high = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
        found.append((low, high))
    lows, highs = (np.stack(sides, axis=1) for sides in zip(*found, strict=True))
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lows) & np.isfinite(highs), (lows + highs) / 2.0, 0.0)
        radius = np.where(lows == highs, 0.0, np.maximum(highs - middle, middle - lows))
    # Rules move bounds of an exact zero by the least doubles; `NORM_SLACK` covers what is dropped.
    nothing = np.abs(middle) + radius < 1e-290
    middle, radius = np.where(nothing, 0.0, middle), np.where(nothing, 0.0, radius)
    return list(zip(middle, radius, strict=True))


def interacting_predictors(
    value: Variable,
    inputs: Sequence[Variable],
    ranges: Mapping[Variable, Bounds],
    columns: Sequence[InputColumn],
) -> list[Variable]:
    """The inputs that are proved to interact, in their order; there may be more.

    `value` is any form of the function of the predictors `inputs`, within `ranges` that may be
    infinite, and of `columns`, all other inputs.
    """
    given = _some_record(columns)
    if given is None or len(inputs) < 2:
        return []
    try:
        slopes = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours
        return []
    middle = {u: _moved_point(ranges[u], 0.0) for u in inputs}
    before = propagate_bounds(slopes, given | middle)
    found: set[Variable] = set()
    for u in inputs:
        moved = _moved_point(ranges[u], INTERACTION_STEP)
        after = propagate_bounds(slopes, given | middle | {u: moved})
        for v, slope in zip(inputs, slopes, strict=True):
            if v is not u and _are_disjoint_intervals(before[slope], after[slope]):
                found |= {u, v}  # d/du of dh/dv is d/dv of dh/du
    return [u for u in inputs if u in found]


def interior_point(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A point strictly between bounds that may be infinite."""
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0, -1.0))
    high = np.where(np.isfinite(upper), upper, low + 2.0)
    return np.asarray((low + high) / 2.0)


def _moved_point(range_: Bounds, step: float) -> Bounds:
    middle = interior_point(range_.lower, range_.upper)
    room = np.where(np.isfinite(range_.upper), range_.upper - middle, 1.0)
    return Bounds.point(middle + step * room)


def _some_record(columns: Sequence[InputColumn]) -> dict[Variable, Bounds] | None:
    """Some record of the domain; None where rows have sums, or bounds are infinite."""
    given = {}
    for c in columns:
        if c.bounds.within is not None or not c.bounds.is_finite:
            return None
        low, _ = c.coordinate_bounds()
        given[c.variable] = Bounds.point(
            np.asarray(c.interval(low[None], low[None]).lower[0], c.variable.type.dtype)
        )
    return given


def _are_disjoint_intervals(first: Bounds, second: Bounds) -> bool:
    return bool(np.any((first.upper < second.lower) | (second.upper < first.lower)))


def gradient_of(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs of a scalar."""
    try:
        found = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception as error:  # of an Op that is not ours
        raise NotConcave(f"{type(error).__name__}: an Op of the density has no gradient") from error
    return simplify_and_merge_switches(found)


def slopes_without_kinks(
    h: Variable, inputs: Sequence[Variable], box: Mapping[Variable, Bounds]
) -> list[Variable] | None:
    """Slopes of h without its kinks, if these are terms -c |v| with c >= 0 and v affine."""
    found = affine_kinds([h], inputs)
    kinks = {
        v: v.type(name=f"kink{k}")
        for k, v in enumerate(dict.fromkeys(ancestors([h])))
        if v.owner is not None
        and isinstance(v.owner.op, Elemwise)
        and isinstance(v.owner.op.scalar_op, ps.Abs)
        and found.get(v.owner.inputs[0], AffineKind.CONSTANT) is AffineKind.AFFINE
    }
    if not kinks:
        return None
    rest = rebuild([h], kinks)[0]
    fresh = list(kinks.values())
    if affine_kinds([rest], fresh).get(rest) is not AffineKind.AFFINE:
        return None
    weights = gradient_of(rest, fresh)
    if all(None not in v.type.shape for v in fresh):
        # Affine, so they are the same at zero; sizes may still be read off the kinks.
        weights = simplify(rebuild(weights, {v: pt.zeros(v.type.shape) for v in fresh}))
    if not set(ancestors(weights)).isdisjoint([*inputs, *fresh]):
        return None
    trail = propagate_bounds(weights, box)
    if not all(np.all(trail[w].upper <= 0.0) for w in weights):
        return None
    slopes = gradient_of(rest, inputs)
    if not set(ancestors(slopes)).isdisjoint(fresh):
        return None
    moving = dependent_variables(slopes, inputs)
    return slopes if is_continuous_on_reals(slopes, moving, propagate_bounds(slopes, box)) else None


def refuse_predictors(cores: Sequence[Variable]) -> None:
    """Refuse a factor without predictors, or with one of unknown size."""
    if not cores:
        raise NotConcave("it reads no parameter")
    if any(None in core.type.shape for core in cores):
        raise NotConcave("it has a predictor whose shape is not known")


def refuse_conditions(h: Variable) -> None:
    """Refuse conditions: a density that PyMC refuses somewhere is no density of every parameter."""
    for variable in ancestors([h]):
        if variable.owner is not None and isinstance(variable.owner.op, CheckAndRaise):
            raise NotConcave(f"the condition '{variable.owner.op.msg}' is not proved; trim")
