"""Find the coefficients a(x) of linear predictors: their gradient, which reads no parameter."""

from __future__ import annotations

import itertools
import numpy as np
import pytensor
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Ellipsoid, Interval as Bounds, bounds, simplify
from pymc_private.analysis.affine import Kind, kinds
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.certificates.linear_predictors__coefficients import Coefficients, Part
from pymc_private.certificates.linear_predictors__kinks import NotConcave
from pymc_private.models.record_likelihood import Column, Role

MOST_CELLS = 4096
"""Choices of categories, or public rows, that are looked at one by one."""


def coefficients(
    predictors: Sequence[Variable],
    parameters: Mapping[str, Variable],
    columns: Sequence[Column],
    rows: np.ndarray | None = None,
) -> Coefficients:
    """Find a(x) of each predictor, for all records.

    Parameters
    ----------
    predictors : sequence of Variable
        Affine in the parameters.
    parameters : dict of str to Variable
        In the order of the last axis, raveled.
    columns : sequence of Column
        All other inputs.
    rows : array, shape (distinct rows, entries), optional
        Values of the columns that are public row by row.

    Returns
    -------
    Coefficients
    """
    if set(predictors) <= set(parameters.values()):
        return _of_parameters(predictors, parameters)
    graph = _jacobian(predictors, list(parameters.values()))
    read = set(ancestors([graph]))
    used = [c for c in columns if c.variable in read]
    moving = [c for c in used if c.role is Role.RECORD and not c.is_whole]
    if kinds([graph], [c.variable for c in moving]).get(graph, Kind.CONSTANT) is Kind.OTHER:
        moving = []
    cells = _cells([c for c in used if c not in moving], columns, rows)
    points, parts = _points(moving)
    values = _evaluated(graph, cells, moving, points)
    center, radius = values[0]
    if not all(np.isfinite(r).all() for _, r in values):
        raise NotConcave("the coefficients of a linear predictor are not bounded")
    matrices = []
    start = 1
    for column, _ in parts:
        stop = start + column.size
        ends = values[start:stop]
        matrices.append(np.stack([value - center for value, _ in ends], axis=-1))
        radius = radius + sum(r + values[0][1] for _, r in ends)
        start = stop
    found = tuple(Part(m, is_ball) for m, (_, is_ball) in zip(matrices, parts, strict=True))
    public = not any(c.role is Role.RECORD for c in used)
    return Coefficients(center, radius, found, public)


def _of_parameters(
    predictors: Sequence[Variable], parameters: Mapping[str, Variable]
) -> Coefficients:
    """Predictors that are parameters: each of their elements is a coordinate."""
    start, places = 0, {}
    for v in parameters.values():
        places[v] = np.arange(start, start + int(np.prod(v.type.shape)))
        start += len(places[v])
    center = np.eye(start)[np.concatenate([places[u] for u in predictors])][None]
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


def _cells(
    fixed: Sequence[Column], columns: Sequence[Column], rows: np.ndarray | None
) -> list[dict[Variable, Bounds]]:
    """Every choice of whole numbers and public rows, where they are few; else their intervals."""
    cells: list[dict[Variable, Bounds]] = [{}]
    shared = [c for c in columns if c.role is Role.SHARED]
    if rows is not None and any(c in fixed for c in shared):
        cells = []
        for row in rows:
            start, cell = 0, {}
            for c in shared:
                part = row[None, start : start + c.size]
                cell[c.variable] = _first(c.interval(part, part))
                start += c.size
            cells.append(cell)
    for c in fixed:
        if c.role is Role.SHARED and rows is not None:
            continue
        low, high = c.ends()
        if c.is_whole and np.prod(high - low + 1.0) * len(cells) <= MOST_CELLS:
            ranges = [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]
            choices = [
                _first(c.interval(np.array([point]), np.array([point])))
                for point in itertools.product(*ranges)
            ]
        else:
            choices = [c.bounds]
        cells = [cell | {c.variable: choice} for cell in cells for choice in choices]
    return cells


def _first(interval: Bounds) -> Bounds:
    """The only box of a batch."""
    return Bounds.point(interval.lower[0])


def _points(
    moving: Sequence[Column],
) -> tuple[list[dict[Variable, np.ndarray]], list[tuple[Column, bool]]]:
    """The middle of a record's domain, then each coordinate at its end, variable by variable."""
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


def _evaluated(
    graph: Variable,
    cells: Sequence[Mapping[Variable, Bounds]],
    moving: Sequence[Column],
    points: Sequence[Mapping[Variable, np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Middle and half-width of a at each point, shape (cells, predictors, parameters)."""
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
        fact = bounds([many], given)[many]
        low = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
        high = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
        found.append((low, high))
    lows, highs = (np.stack(ends, axis=1) for ends in zip(*found, strict=True))
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lows) & np.isfinite(highs), (lows + highs) / 2.0, 0.0)
        radius = np.where(lows == highs, 0.0, np.maximum(highs - middle, middle - lows))
    # Rules move ends of an exact zero by the least doubles; `ROUNDING` covers what is dropped here.
    nothing = np.abs(middle) + radius < 1e-290
    middle, radius = np.where(nothing, 0.0, middle), np.where(nothing, 0.0, radius)
    return list(zip(middle, radius, strict=True))
