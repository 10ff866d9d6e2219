r"""Clipped scores of outcomes with two values whose predictor is affine in the row, in few steps.

With p = P(second value), d the difference of the two scores in the predictor, a = W J' the
direction in which the predictor moves the parameters (J its derivatives), the clipped, centered
score of `clipped_scores` and its curvature are, in closed form,

    psi = (y - p) t d a,    t = min(1, C / (|d| |a| max(p, 1 - p))),
    B = p (1 - p) t d^2 a a',    w = min(1, K / (p (1 - p) t d^2 |a|^2)),

for y = 1 at the second value and else 0. Both a and the predictor are constants plus slopes times
the entries of the row; p and d are functions of the predictor alone, written as polynomials on
cells of its range. So a term needs sums, products, quotients and square roots only, which are
rounded in one way wherever they are computed: in NumPy here, in compiled loops
(`compiled/two_valued_sums.py`), and on all workers, to which the coefficients are sent.

Polynomials are compared with the model's own density before they are used. Bounds of terms do not
rest on them: the lattice checks each integer term, and E[psi | x] = 0 holds for the p of the
polynomials, which is that of the model to `MASS_ERROR`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.analysis import Ellipsoid

DEGREE = 5
CELLS = 256, 1024, 4096, 16_384
"""Numbers of cells that are tried, until polynomials are close enough."""
MASS_ERROR, GAP_ERROR = 1e-12, 1e-9
"""Largest error of p, and of d relative to its size."""
LEAST_GAP = 1e-6
"""Errors of d are relative to this share of its largest size where it is smaller."""
BETWEEN = np.array([0.0, 0.08, 0.31, 0.5, 0.77, 1.0])
"""Where in a cell polynomials are compared."""
AROUND = 1e-9
"""What the range of the predictor is widened by, relative to its size."""
Link = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From predictors (N,) to p and d."""


@dataclass(frozen=True, eq=False)
class LinkTable:
    """p and d as polynomials on equal cells of a range of the predictor.

    Attributes
    ----------
    low : float
        The least predictor; what lies outside of the range counts as its nearest end.
    rate : float
        Cells per unit of the predictor.
    coefficients : array, shape (12, cells)
        Those of p and of d, the highest powers first, of the place in the cell in [0, 1].
    """

    low: float
    rate: float
    coefficients: np.ndarray

    def at(self, predictors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p, in [0, 1], and d."""
        last = self.coefficients.shape[1] - 1
        place = (predictors - self.low) * self.rate
        place = np.where(place > 0.0, place, 0.0)  # NaN, too
        place = np.where(place < last + 1.0, place, last + 1.0)
        cell = np.minimum(place.astype(np.int64), last)
        x = place - cell
        first, second = self.coefficients[: DEGREE + 1], self.coefficients[DEGREE + 1 :]
        p, d = first[0][cell], second[0][cell]
        for k in range(1, DEGREE + 1):
            p = p * x + first[k][cell]
            d = d * x + second[k][cell]
        p = np.where(p > 0.0, p, 0.0)
        return np.where(p < 1.0, p, 1.0), d


def link_table(link: Link, low: float, high: float) -> LinkTable | None:
    """Polynomials that are p and d to their tolerances; None where none of the tried ones are."""
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return None
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    inverse = np.linalg.inv(np.vander(nodes, DEGREE + 1))
    for cells in CELLS:
        width = (high - low) / cells
        starts = low + width * np.arange(cells)
        found = [
            np.reshape(v, (cells, -1)) for v in link((starts[:, None] + width * nodes).ravel())
        ]
        coefficients = np.concatenate([inverse @ v.T for v in found])
        table = LinkTable(low, 1.0 / width, np.ascontiguousarray(coefficients))
        if not np.isfinite(coefficients).all():
            return None
        if _is_close(table, link, (starts[:, None] + width * BETWEEN).ravel()):
            return table
    return None


def _is_close(table: LinkTable, link: Link, points: np.ndarray) -> bool:
    """Whether polynomials agree with what they stand for."""
    (p, d), (mass, gap) = table.at(points), link(points)
    size = np.maximum(np.abs(gap), LEAST_GAP * np.abs(gap).max())
    return bool(
        (np.abs(p - mass) <= MASS_ERROR).all() and (np.abs(d - gap) <= GAP_ERROR * size).all()
    )


@dataclass(frozen=True, eq=False)
class TwoValuedScore:
    """The constants of such a score: public, and all that terms depend on besides the row.

    Attributes
    ----------
    names : tuple of str
        Covariates, in the order of the columns of `matrix`.
    levels : tuple of float
        The two values of the outcome.
    matrix : array, shape (1 + p, 1 + k)
        Constants and slopes of the predictor, and of W times its derivatives.
    link : LinkTable
    bound, weight_bound : float
        C and K; K is finite.
    """

    names: tuple[str, ...]
    levels: tuple[float, float]
    matrix: np.ndarray
    link: LinkTable
    bound: float
    weight_bound: float

    def columns(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Entries of rows, shape (k, N)."""
        parts = [np.asarray(rows[name], dtype=float) for name in self.names]
        flat = [part.reshape(len(part), math.prod(part.shape[1:])).T for part in parts]
        return np.ascontiguousarray(np.concatenate(flat))

    def terms_and_factors(
        self, rows: Mapping[str, np.ndarray], y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `clipped_scores.ClippedScore.terms_and_factors`: w psi (N, p), factors (N, 1, p)."""
        with np.errstate(all="ignore"):  # no warning may depend on a record
            predictor, *directions = _affine(self.columns(rows), self.matrix)
            p, d = self.link.at(predictor)
            square = np.zeros(len(p))
            for row in directions:
                square += row * row
            rest = 1.0 - p
            distance = (np.abs(d) * np.sqrt(square)) * np.where(p > rest, p, rest)
            step = self.bound / np.maximum(distance, self.bound)
            share = (p * rest) * step
            most = self.weight_bound
            weight = most / np.maximum((share * (d * d)) * square, most)
            away = np.where(y == self.levels[1], rest, -p)
            psi = (away * step) * (weight * d)
            root = np.sqrt(share * weight) * np.abs(d)
            vectors, factors = np.stack(directions) * psi, np.stack(directions) * root
        return vectors.T, factors.T[:, None, :]


def _affine(columns: np.ndarray, matrix: np.ndarray) -> list[np.ndarray]:
    """Constants and slopes times columns (k, N), summed in their order."""
    found = []
    for constant, *slopes in matrix:
        out = np.full(columns.shape[1], constant)
        for slope, column in zip(slopes, columns, strict=True):
            out += column * slope
        found.append(out)
    return found


def two_valued_score(
    model: Any, theta: np.ndarray, metric: np.ndarray, bound: float, weight_bound: float
) -> TwoValuedScore | None:
    """The score of a model in this form; None where it has another, or no close polynomials.

    A function of public numbers: of the model, its domain, and parameters that were released.
    """
    density, support = getattr(model, "density", None), getattr(model, "support", None)
    if density is None or support is None or not _is_of_this_form(density, support):
        return None
    low, high = map(float, support.levels)
    with np.errstate(all="ignore"):
        matrix, ends = _matrix_and_range(model, theta, metric)
        if not np.isfinite(matrix).all():
            return None
        link = link_table(lambda points: _link_of(model, points), *ends)
    if link is None:
        return None
    names = tuple(source.name for source in density.covariates)
    most = min(float(weight_bound), np.finfo(float).max)
    return TwoValuedScore(names, (low, high), matrix, link, float(bound), most)


def _is_of_this_form(density: Any, support: Any) -> bool:
    """Whether an outcome has two values, and one predictor that is affine in private covariates."""
    if len(support.levels) != 2 or density.size != 1:
        return False
    if density.public_rows or not density.covariates:
        return False
    low, high = support.domain
    declared = getattr(density.outcome.domain, "values", ())
    alike = sorted(map(float, declared)) == [float(v) for v in support.levels]
    inside = low <= min(support.levels) and max(support.levels) <= high
    return alike and inside and density.reads_row_by_predictors and density.is_affine_in_rows


def _matrix_and_range(
    model: Any, theta: np.ndarray, metric: np.ndarray
) -> tuple[np.ndarray, tuple[float, float]]:
    """Constants and slopes, and the range of the predictor over the domain.

    Of affine functions: their values at a row of zeros, and what an entry of one adds.
    """
    sources = model.density.covariates
    sizes = [math.prod(source.row_shape) for source in sources]
    k = sum(sizes)
    entries = np.concatenate([np.zeros((1, k)), np.eye(k)])
    parts = np.split(entries, np.cumsum(sizes)[:-1], axis=1) if sources else []
    rows = {
        s.name: part.reshape(1 + k, *s.row_shape) for s, part in zip(sources, parts, strict=True)
    }
    predictor = np.broadcast_to(model.predictors(theta, rows)[:, 0], 1 + k)
    jacobian = np.broadcast_to(model.jacobian(theta, rows)[:, 0], (1 + k, len(theta)))
    values = np.concatenate([predictor[:, None], jacobian @ metric.T], axis=1).T
    matrix = np.concatenate([values[:, :1], values[:, 1:] - values[:, :1]], axis=1)
    return np.ascontiguousarray(matrix), _range(sources, matrix[0])


def _range(sources: Any, coefficients: np.ndarray) -> tuple[float, float]:
    """Ends of the predictor over the domains of the covariates."""
    low = high = float(coefficients[0])
    start = 1
    for source in sources:
        slopes = coefficients[start : start + math.prod(source.row_shape)]
        start += len(slopes)
        bounds = source.domain.bounds(source.row_shape)
        lower, upper = (
            np.broadcast_to(b, source.row_shape).ravel() for b in (bounds.lower, bounds.upper)
        )
        least = float(np.minimum(slopes * lower, slopes * upper).sum())
        most = float(np.maximum(slopes * lower, slopes * upper).sum())
        ball = bounds.within
        if isinstance(ball, Ellipsoid):  # |slopes' (x - center)| <= radius |slopes * scale|
            middle = float((slopes * np.ravel(ball.center)).sum())
            reach = float(ball.radius * np.sqrt(((slopes * np.ravel(ball.scale)) ** 2).sum()))
            least, most = max(least, middle - reach), min(most, middle + reach)
        low, high = low + least, high + most
    around = AROUND * max(1.0, abs(low), abs(high))
    return low - around, high + around


def _link_of(model: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and d of a model at predictors, with stand-ins for rows, which it does not read."""
    predictors = points[:, None]
    rows = {
        source.name: np.zeros((len(points), *source.row_shape), source.dtype)
        for source in model.density.covariates
    }
    nodes = model.nodes(predictors, rows)
    scores = model.scores(predictors, rows, nodes.clipped)[:, :, 0]
    return nodes.mass[:, 1] / (nodes.mass[:, 0] + nodes.mass[:, 1]), scores[:, 1] - scores[:, 0]
