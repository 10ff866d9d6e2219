"""R of records in a ball whose log-likelihood is quadratic: normal rows of one or several scales.

Let log p be sum_k a_k z_k^2 + <b, z> up to what cancels, |z| <= radius, with a and b functions of
the parameters. At two parameter points with differences (A, B) of (a, b) the record x adds

    max_z sum_k A_k z_k^2 + |B_k z_k| <= s radius^2 + sum_k B_k^2 / (4 (s - A_k))

for every s >= 0 that is above each A_k: Lagrange's bound of a maximum over a ball, which is exact
at the best s (More and Sorensen 1983). The record y adds the same with -A. So R is a supremum over
two parameter points alone; those that scale the squares are halved, all else is an end.
"""

from __future__ import annotations

import math
import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Ellipsoid, Interval as Bounds, bounds, simplify
from pymc_private.analysis.intervals.functions import up
from pymc_private.analysis.rewrites.specialize import joint_terms, specialize
from pymc_private.analysis.branch_and_bound__suprema import suprema, within
from pymc_private.certificates.ball_range__quadratic import whole_in_ball
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.models.data_variables import Source

MOST_SPLIT = 4
"""Entries of parameters that squares are multiplied by, at most: boxes have twice as many sides."""
CLOSE = 0.005
"""Gap between bound and value that is aimed at."""
MOST_BOXES = 20_000
HALVINGS = 60


def range_in_ball(
    record: SingleRecord, sources: Sequence[Source], box: Mapping[str, Bounds]
) -> float:
    """Bound R for one replaced record, in nats, rounded up.

    Parameters
    ----------
    record : SingleRecord
    sources : sequence of Source
    box : mapping of str to Bounds
        Of the parameters.

    Returns
    -------
    float
        Infinite where the log-likelihood is no such function of one row in a ball.
    """
    inputs = {record.parameters[name]: b for name, b in box.items()}
    rows = {
        record.data[s.name]: s.domain.bounds(s.row_shape) for s in sources if s.name in record.data
    }
    in_ball = any(isinstance(b.within, Ellipsoid) for b in rows.values())
    if record.public or record.neighbors or not in_ball:
        return math.inf
    value = specialize(record.value, rows | inputs)
    value = joint_terms(value, list(rows), list(inputs))
    whole = whole_in_ball(value, rows)
    if whole is None:
        return math.inf
    return _Differences([whole.square, whole.slope], inputs, whole.size, whole.radius).supremum()


class _Differences:
    """a and b at two parameter points, in boxes of those parameters that a reads."""

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
        ends = [
            np.concatenate([np.ravel(getattr(b, end)).astype(float) for b in self.split.values()])
            if self.split else np.empty(0)
            for end in ("lower", "upper")
        ]  # fmt: skip
        lower, upper = (np.tile(end, 2)[None] for end in ends)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(upper - lower).all()
        if not finite or len(ends[0]) > MOST_SPLIT or any(b.within for b in self.split.values()):
            return math.inf
        whole = np.zeros(lower.shape[1], dtype=bool)
        if not self.split:
            return float(self.enclose(lower, upper)[1][0, 0])
        settled = within(CLOSE)
        return float(
            suprema(self.enclose, lower, upper, whole, settled=settled, most=MOST_BOXES).upper[0]
        )

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds on boxes of pairs, shape (N, 1); at points they are near what is reached."""
        count, sides = len(lower), lower.shape[1] // 2
        low, high = (np.concatenate([e[:, :sides], e[:, sides:]]) for e in (lower, upper))
        a, b = self._coefficients(low, high)
        with np.errstate(over="ignore", invalid="ignore"):
            rise, fall = (_above(a, k, count) for k in (0, 1))
            slope = np.maximum(*(_above(b, k, count) for k in (0, 1)))
            total = up(
                most_in_ball(rise, slope, self.radius) + most_in_ball(fall, slope, self.radius)
            )
        total = np.where(np.isnan(total), np.inf, total)[:, None]
        return total, total

    def _coefficients(self, low: np.ndarray, high: np.ndarray) -> list[Bounds]:
        """Ends of a and b, shape (2 N, size), in boxes of the parameters that are split."""
        given, start = dict(self.rest), 0
        for v, b in self.split.items():
            shape = np.shape(b.lower)
            part = slice(start, start := start + math.prod(shape))
            down, top = (end[:, part].reshape(len(low), *shape) for end in (low, high))
            given[self.boxes[v]] = Bounds(down, top)
        trail = bounds(self.graphs, given)
        shape = (len(low), self.size)
        return [
            Bounds(np.broadcast_to(trail[g].lower, shape), np.broadcast_to(trail[g].upper, shape))
            for g in self.graphs
        ]


def _above(ends: Bounds, which: int, count: int) -> np.ndarray:
    """Upper end of the difference between two points, one way or the other."""
    first, second = slice(None, count), slice(count, None)
    one, other = (first, second) if which == 0 else (second, first)
    return up(ends.upper[one] - ends.lower[other])


def most_in_ball(squares: np.ndarray, slopes: np.ndarray, radius: float) -> np.ndarray:
    """Bound max over |z| <= radius of sum_k squares_k z_k^2 + slopes_k |z_k|, rounded up.

    Parameters
    ----------
    squares, slopes : array, shape (N, d)
        Slopes are at least 0.
    radius : float

    Returns
    -------
    array, shape (N,)
        Proved for the multiplier found, whichever it is; exact at the best.
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
    return np.minimum(*(_lagrange(squares, slopes, radius, s) for s in (least, high)))


def _lagrange(
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
    return up(np.where(np.isnan(total), np.inf, total), 4.0 * (squares.shape[1] + 8))
