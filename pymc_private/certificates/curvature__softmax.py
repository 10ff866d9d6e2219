"""Scores of one softmax: a density that is c(x)'v - w(x) log sum e^v, up to what reads no score.

Its gradient is c - w p with p on the simplex, and minus its Hessian, w (diag p - p p'), lies
between 0 and (w/2)(I - 11'/K) (Boehning 1992; T22).
"""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytensor.tensor.special as ts
from collections.abc import Sequence
from dataclasses import dataclass
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pymc_private.analysis import Interval as Bounds, bounds, simplify
from pymc_private.analysis.affine import Kind, kinds
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.models.record_likelihood import Column

MOST_LEVELS = 4096
MOST_PAIRS = 512


@dataclass(frozen=True, eq=False)
class Softmax:
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


def softmax_of(
    h: Variable, inputs: Sequence[Variable], columns: Sequence[Column]
) -> Softmax | None:
    """Recognize a softmax of one row of scores, and bound it.

    Parameters
    ----------
    h : Variable, scalar
    inputs : sequence of Variable
        The predictors.
    columns : sequence of Column
        All other inputs.

    Returns
    -------
    Softmax or None
    """
    if len(inputs) != 1:
        return None
    (v,) = inputs
    total = pt.dscalar("log_sum_exp")
    swaps = {}
    for node in dict.fromkeys(a.owner for a in ancestors([h]) if a.owner is not None):
        out = node.outputs[0]
        if not isinstance(node.op, ts.LogSoftmax | LogSumExp):
            continue
        if not _is_row(node.inputs[0], v):
            return None
        if isinstance(node.op, LogSumExp):
            swaps[out] = pt.zeros(out.type.shape) + total
        else:
            swaps[out] = node.inputs[0] - total
    if not swaps:
        return None
    linear = simplify(rebuild([h], swaps))[0]
    if kinds([linear], [v, total]).get(linear) is not Kind.AFFINE:
        return None
    slopes = pytensor.grad(linear, [v, total], disconnected_inputs="ignore")
    # They are the same at all scores, so at zero; sizes may still be read off the scores.
    origin = {v: pt.zeros(v.type.shape), total: pt.constant(0.0)}
    slopes = simplify(rebuild(slopes, origin))
    return _bounded(slopes[0].flatten(), -slopes[1], columns, int(np.prod(v.type.shape)))


def _is_row(scores: Variable, v: Variable) -> bool:
    """Whether `scores` is v itself, one row of it along the last axis."""
    while scores is not v and scores.owner is not None and isinstance(scores.owner.op, DimShuffle):
        scores = scores.owner.inputs[0]
    return scores is v and int(np.prod(v.type.shape)) == v.type.shape[-1]


def _bounded(
    counts: Variable, weight: Variable, columns: Sequence[Column], classes: int
) -> Softmax | None:
    """Bounds over records: levels one by one, the rest by intervals.

    |c - w p| is convex in p, so it is greatest at a corner e_k: |c_k - w|^2 + sum of the others.
    """
    read = set(ancestors([counts, weight]))
    used = [c for c in columns if c.variable in read]
    worst, heaviest, seen = 0.0, 0.0, []
    for given in _cells(used):
        trail = bounds([counts, weight], given)
        c, w = trail[counts], trail[weight]
        low, high = np.broadcast_to(c.lower, classes), np.broadcast_to(c.upper, classes)
        if not (c.is_finite and w.is_finite) or np.any(w.lower < 0.0):
            return None
        squares = np.maximum(np.abs(low), np.abs(high)) ** 2
        own = np.maximum(np.abs(high - w.lower), np.abs(low - w.upper)) ** 2
        norm = float(np.sqrt((squares.sum() - squares + own).max()) * (1.0 + 1e-12))
        worst, heaviest = max(worst, norm), max(heaviest, float(w.upper))
        seen.append(np.concatenate([low, [w.lower], high, [w.upper]]))
    return Softmax(classes, worst, min(_farthest(np.array(seen)), 2.0 * worst), heaviest)


def _farthest(ends: np.ndarray) -> float:
    """sup |c - c'| where all weights are one number; else nothing is known."""
    half = ends.shape[1] // 2
    low, high = ends[:, : half - 1], ends[:, half:-1]
    if np.ptp(ends[:, [half - 1, -1]]) > 0.0 or len(ends) > MOST_PAIRS:
        return np.inf
    apart = np.maximum(high[:, None] - low[None], high[None] - low[:, None])
    return float(np.sqrt((apart**2).sum(axis=-1)).max() * (1.0 + 1e-12))


def _cells(columns: Sequence[Column]) -> list[dict[Variable, Bounds]]:
    """Records with every small set of whole numbers spelled out."""
    cells: list[dict[Variable, Bounds]] = [{}]
    for c in columns:
        low, high = c.ends()
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
