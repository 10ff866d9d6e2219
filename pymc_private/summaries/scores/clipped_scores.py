r"""Clipped, centered scores: bounded terms of a record with mean zero under the model (T36).

Let s(x, y) = d log p(y | x, .) / d predictors at a fixed theta_t, A(x) the Jacobian of the m
predictors in the p parameters, and W a public metric. The score of all parameters is
u = W A' s in R^p. It is clipped at a distance C from its own center,

    psi = (u - c) min(1, C / |u - c|),    E[psi | x, theta_t] = 0,

and has B(x) = E[omega (u - c)(u - c)'] with omega = min(1, C / |u - c|), and the weight
w(x) = min(1, K / |B|_F). Then, for *every* c and every way to compute it,

- |w psi| <= C and |w B|_F <= K, and w B is positive semidefinite: what one record adds is bounded;
- at the root, E[w psi | x, theta_t] = 0 whatever the distribution of the covariates x;
  B = E[psi u'] is the derivative of E_theta psi in theta; and E[psi psi'] <= B.

All of it happens in R^m. The p-vectors W A' have an orthonormal basis, W A' = Q R, and with v = R s
u = Q v: norms of u are norms of v, and |Q B Q'|_F = |B|_F. The center is the minimum of a convex
function, E rho(|v - c|), rho Huber's, found by Newton's method; in closed form where the outcome
has two values.

A record's terms are functions of that record alone, to the last bit: rows meet elementwise
operations, sums along one row in a fixed order, and solvers of one small system at a time, never a
product of matrices that mixes rows. A row with what is no finite number contributes 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.summaries.compiled.compiler import CENTERS, COMPILER, SCORES
from pymc_private.summaries.density.outcome_nodes import sums_of_rows
from pymc_private.summaries.scores.compiled_centers import compiled_centers, has_compiled_centers
from pymc_private.summaries.scores.compiled_scores import two_valued_terms
from pymc_private.summaries.scores.row_products import RowBlocks
from pymc_private.summaries.scores.structure import Structure
from pymc_private.summaries.scores.symmetric import matrix_power
from pymc_private.summaries.scores.two_valued_score import TwoValuedScore, two_valued_score

Rows = Mapping[str, np.ndarray]
"""Covariates and public entries of records by name, records along the first axis."""
BLOCK = 2**15
"""Nodes of rows that are taken together: arrays of them stay close to the processor, where centers
are found in half the seconds."""
CENTER_STEPS = 40
"""Most steps towards a center; few rows take more than five."""
CENTER_TOLERANCE = 1e-10
"""Mean of psi, in units of C, at which a center is found."""
REMEMBERED = 8
"""Parameter vectors whose nodes are kept: at least as many as are tried before the next pilot."""
LEAST_PIVOT = 2.0**-44
"""Share of a diagonal entry below which what is left of it is rounding."""
LEAST_MIXTURE = 0.02
"""Least share of the safe step in a step towards a center."""


class RecordModel(Protocol):
    """The density of one record's outcome given its covariates, with its quadrature nodes."""

    @property
    def parameters(self) -> Any:
        """The parameters as one vector (`protocol.Parameters`)."""

    def predictors(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Values of the predictors, shape (N, m)."""

    def jacobian(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Their derivatives in the unconstrained parameters, shape (N, m, p)."""

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m)."""

    def log_density(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Log p(y | rows, theta) at several parameter vectors, shape (S, N, Q)."""

    def nodes(self, predictors: np.ndarray, rows: Rows) -> Any:
        """Nodes of the outcome: values, mass and clipped, each of shape (N, Q)."""


class RememberedNodes:
    """A model whose last nodes are kept, for rows of a public reference: one more `RecordModel`.

    A pilot is where the mode before it was found, on the same rows.

    Parameters
    ----------
    model : RecordModel
    """

    def __init__(self, model: RecordModel) -> None:
        self.model = model
        self.parameters = model.parameters
        self.predictors, self.jacobian = model.predictors, model.jacobian
        self.scores, self.log_density = model.scores, model.log_density
        self._last: list[tuple[Rows, np.ndarray, Any]] = []

    def nodes(self, predictors: np.ndarray, rows: Rows) -> Any:
        """Nodes of the outcome, found anew where predictors are others."""
        for known, at, nodes in self._last:
            if known is rows and np.array_equal(at, predictors):
                return nodes
        nodes = self.model.nodes(predictors, rows)
        self._last = [*self._last, (rows, predictors, nodes)][-REMEMBERED:]
        return nodes


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows at one parameter vector: what no metric enters.

    Attributes
    ----------
    predictors : array, shape (N, m)
    jacobian : array, shape (N, m, p)
    values, mass : array, shape (N, Q)
        Outcomes at the nodes as data would show them (clipped into the domain), and their mass.
    scores : array, shape (N, Q, m)
        Derivatives of the log density in the predictors.
    """

    model: RecordModel
    rows: Rows
    predictors: np.ndarray
    jacobian: np.ndarray
    values: np.ndarray
    mass: np.ndarray
    scores: np.ndarray

    def framed(self, metric: np.ndarray) -> FramedRows:
        """The rows in orthonormal frames of W A'."""
        with np.errstate(all="ignore"):
            basis, triangle = orthonormal_frame(_directions(self.jacobian, metric))
            scores = _turned(triangle, self.scores)
        parts = (basis, triangle, self.mass)
        valid = np.logical_and.reduce(
            [np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in parts]
        )
        usable = valid[:, None] & np.isfinite(scores).all(axis=0)
        return FramedRows(
            self,
            np.where(valid[:, None, None], basis, 0.0),
            triangle,
            valid,
            np.where(usable, self.mass, 0.0),
            np.where(usable, scores, 0.0),
        )

    def metric(
        self, weights: np.ndarray, structure: Structure | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """W with W M W' = I and its inverse, M a record's information averaged over the rows.

        The symmetric root, or one that keeps the zeros of a structure.
        """
        frame = self.framed(np.eye(self.jacobian.shape[2]))
        information = frame.weighted_sum(_second_moments(frame.scores, frame.mass), weights)
        if structure is None:
            return matrix_power(information, -0.5), matrix_power(information, 0.5)
        return structure.metric(information)


@dataclass(frozen=True, eq=False)
class FramedRows:
    """Rows at one parameter vector and metric, in frames where |u| is a norm of R^m.

    Attributes
    ----------
    scored : ScoredRows
    basis : array, shape (N, m, p)
        Q: rows of one record are orthonormal, or 0.
    triangle : array, shape (N, m, m)
        R.
    valid : bool array, shape (N,)
        Whether everything about a row is finite.
    mass : array, shape (N, Q)
    scores : array, shape (m, N, Q)
        v = R s at the nodes; 0 where it is not finite, with no mass.
    """

    scored: ScoredRows
    basis: np.ndarray
    triangle: np.ndarray
    valid: np.ndarray
    mass: np.ndarray
    scores: np.ndarray

    def scores_at(self, y: np.ndarray) -> np.ndarray:
        """v = R s at outcomes of shape (N, Q), shape (m, N, Q)."""
        scored = self.scored
        return _turned(self.triangle, scored.model.scores(scored.predictors, scored.rows, y))

    def norms(self) -> np.ndarray:
        """|u| at the nodes, shape (N, Q)."""
        return _norm(self.scores)

    @cached_property
    def blocks(self) -> RowBlocks:
        """The basis, for sums over the rows."""
        return RowBlocks(self.basis)

    def weighted_sum(self, inner: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The sum of weights Q B Q' over the rows, shape (p, p)."""
        return self.blocks.products(inner * weights[:, None, None], self.blocks)


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """Framed rows with the centers of their scores, clipped at `bound`.

    Attributes
    ----------
    center : array, shape (m, N)
    curvature, second : array, shape (N, m, m)
        B = E[omega (v - c)(v - c)'] and E[psi psi'], without weights.
    weight : array, shape (N,)
        w = min(1, K / |B|_F), and 0 for rows that are not valid.
    """

    frame: FramedRows
    bound: float
    center: np.ndarray
    curvature: np.ndarray
    second: np.ndarray
    weight: np.ndarray

    def psi(self, y: np.ndarray) -> np.ndarray:
        """Weighted clipped scores w psi in R^m at outcomes of shape (N, Q), shape (m, N, Q)."""
        with np.errstate(all="ignore"):
            away = self.frame.scores_at(y) - self.center[:, :, None]
            psi = away * (clipping(_norm(away), self.bound) * self.weight[:, None])
        return np.where(np.isfinite(psi).all(axis=0), psi, 0.0)

    def vectors(self, y: np.ndarray) -> np.ndarray:
        """Weighted clipped scores w psi in R^p at outcomes of shape (N, Q), shape (N, Q, p)."""
        psi, basis = self.psi(y), self.frame.basis
        found = psi[0][:, :, None] * basis[:, 0][:, None, :]
        for k in range(1, len(psi)):
            found += psi[k][:, :, None] * basis[:, k][:, None, :]
        return found

    def curvature_factors(self) -> np.ndarray:
        """Vectors f_j with w Q B Q' = sum_j f_j f_j' of each row, shape (N, m, p)."""
        lower = row_cholesky(self.curvature * self.weight[:, None, None])
        found = np.zeros_like(self.frame.basis)
        for j in range(found.shape[1]):
            for i in range(j, found.shape[1]):
                found[:, j] += lower[:, i, j, None] * self.frame.basis[:, i]
        return found

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the rows of weights w B and of weights w^2 E[psi psi'], each (p, p)."""
        shares = weights * self.weight
        curvature = self.frame.weighted_sum(self.curvature, shares)
        return curvature, self.frame.weighted_sum(self.second, shares * self.weight)


@dataclass(frozen=True, eq=False)
class ClippedScore:
    """The public constants of one clipped, centered score.

    Parameters
    ----------
    theta : array, shape (p,)
        Where the score is taken.
    metric : array, shape (p, p)
        W.
    bound : float
        C.
    weight_bound : float
        K; infinite for no weights.
    two_valued : TwoValuedScore, optional
        The same score in a form of few steps, in which terms of records are computed then.
    """

    model: RecordModel
    theta: np.ndarray
    metric: np.ndarray
    bound: float
    weight_bound: float = np.inf
    two_valued: TwoValuedScore | None = None

    def __post_init__(self) -> None:
        """Refuse a metric that is not finite: zeros of a row times infinity would be NaN."""
        if not np.isfinite(self.metric).all():
            raise Unsupported(
                "scores have no finite scale at these parameters",
                allowed="priors under which records of the domain are possible",
                do="narrower priors, or a domain of another scale",
            )

    def in_few_steps(self) -> ClippedScore:
        """The same score, in the form of `two_valued_score` if it has one."""
        limits = self.bound, self.weight_bound
        form = two_valued_score(self.model, self.theta, self.metric, *limits)
        return replace(self, two_valued=form)

    def at(self, rows: Rows) -> ClippedRows:
        """What depends on the covariates of the rows alone."""
        return self._clipped(score_rows(self.model, self.theta, rows))

    def _clipped(self, scored: ScoredRows) -> ClippedRows:
        return clip_rows(scored.framed(self.metric), self.bound, self.weight_bound)

    def terms(self, rows: Rows, y: np.ndarray) -> np.ndarray:
        """What each record adds to the sum of scores, of norm at most C: shape (N, p)."""
        if self.two_valued is not None:
            return self.two_valued.terms_and_factors(rows, y)[0]
        scored = score_rows(self.model, self.theta, rows)
        found = self._compiled_terms(scored, y)
        return self._clipped(scored).vectors(y[:, None])[:, 0] if found is None else found[0]

    def terms_and_factors(self, rows: Rows, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and vectors f_j with sum_j f_j f_j' what it adds to H, shape (N, m, p)."""
        if self.two_valued is not None:
            return self.two_valued.terms_and_factors(rows, y)
        scored = score_rows(self.model, self.theta, rows)
        found = self._compiled_terms(scored, y)
        if found is not None:
            return found
        clipped = self._clipped(scored)
        return clipped.vectors(y[:, None])[:, 0], clipped.curvature_factors()

    def _compiled_terms(
        self, scored: ScoredRows, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The same by a compiled loop, to the bit; None where there is none."""
        loops = COMPILER.of_kind(SCORES)
        if loops is None:
            return None
        return two_valued_terms(loops, scored, self.metric, (self.bound, self.weight_bound), y)

    def curvature_factors(self, rows: Rows) -> np.ndarray:
        """Vectors f_j with sum_j f_j f_j' what each record adds to H, of norm at most K.

        Shape (N, m, p).
        """
        return self.at(rows).curvature_factors()


def score_rows(model: RecordModel, theta: np.ndarray, rows: Rows) -> ScoredRows:
    """Predictors of rows and scores at the nodes of the outcome, at one parameter vector."""
    with np.errstate(all="ignore"):
        predictors = model.predictors(theta, rows)
        jacobian = model.jacobian(theta, rows)
        nodes = model.nodes(predictors, rows)
        scores = model.scores(predictors, rows, nodes.clipped)
        mass = nodes.mass / sums_of_rows(nodes.mass)[:, None]
    return ScoredRows(model, rows, predictors, jacobian, nodes.clipped, mass, scores)


def clip_rows(
    frame: FramedRows,
    bound: float,
    weight_bound: float = np.inf,
    near: ClippedRows | None = None,
) -> ClippedRows:
    """Centers at the clipping bound C, curvatures there, and weights by the bound K.

    `near`: the same rows at another bound, whose centers are nearer than none.
    """
    with np.errstate(all="ignore"):
        start = None if near is None else near.center
        center, curvature, second = _clipped_centers(frame.scores, frame.mass, bound, start)
        size = np.sqrt((curvature**2).sum(axis=(1, 2)))
        weight = np.where(size > weight_bound, weight_bound / size, 1.0)
    valid = frame.valid & np.isfinite(size) & np.isfinite(center).all(axis=0)
    inner = valid[:, None, None]
    return ClippedRows(
        frame,
        bound,
        np.where(valid, center, 0.0),
        np.where(inner, curvature, 0.0),
        np.where(inner, second, 0.0),
        np.where(valid, weight, 0.0),
    )


def _clipped_centers(
    scores: np.ndarray, mass: np.ndarray, bound: float, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`centers_and_moments`, by a compiled loop where that pays."""
    loops = None
    if has_compiled_centers(scores):
        loops = COMPILER.once_worthwhile(CENTERS, mass.size)
    if loops is None:
        return centers_and_moments(scores, mass, bound, start)
    return compiled_centers(loops, scores, mass, center_limits(bound), start)


def center_limits(bound: float) -> tuple[float, int, float, float]:
    """C, and the constants of a search for centers."""
    return bound, CENTER_STEPS, CENTER_TOLERANCE, LEAST_MIXTURE


def centers_and_moments(
    scores: np.ndarray, mass: np.ndarray, bound: float, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centers c (m, N), and E[omega (v - c)(v - c)'] and E[psi psi'] (N, m, m), without weights."""
    center = score_center(scores, mass, bound, start)
    curvature, second = np.empty((2, mass.shape[0], len(center), len(center)))
    for k in row_blocks(mass):
        away = scores[:, k] - center[:, k, None]
        omega = clipping(_norm(away), bound)
        curvature[k] = _second_moments(away, mass[k] * omega)
        second[k] = _second_moments(away, mass[k] * omega**2)
    return center, curvature, second


def row_blocks(mass: np.ndarray) -> list[slice]:
    """Rows whose nodes, (N, Q) in all, are taken together."""
    count, nodes = mass.shape
    size = max(1, BLOCK // max(1, nodes))
    return [slice(start, start + size) for start in range(0, max(1, count), size)]


def row_cholesky(matrices: np.ndarray) -> np.ndarray:
    """Lower factors of small matrices (N, m, m), each row by itself; 0 where a pivot is none.

    A pivot that rounding left of a matrix of lower rank is none: dividing by it would make up a
    matrix.
    """
    lower = np.zeros_like(matrices)
    left = np.array(matrices)
    with np.errstate(all="ignore"):
        for j in range(matrices.shape[1]):
            pivot = left[:, j, j]
            kept = pivot > LEAST_PIVOT * matrices[:, j, j]
            scale = np.where(kept, 1.0 / np.sqrt(pivot), 0.0)
            lower[:, j:, j] = left[:, j:, j] * scale[:, None]
            left[:, j:, j:] -= lower[:, j:, j, None] * lower[:, None, j:, j]
    return lower


def clipping(norm: np.ndarray, bound: float) -> np.ndarray:
    """omega = min(1, C / norm)."""
    return bound / np.maximum(norm, bound)


def _directions(jacobian: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Rows of A W' for Jacobians A of shape (N, m, p)."""
    columns = np.ascontiguousarray(np.moveaxis(jacobian, 0, 2).swapaxes(0, 1))  # (p, m, N)
    found = np.zeros(columns.shape)
    for column, entries in zip(columns, metric.T, strict=True):
        rows, places = (column != 0.0).any(axis=0), np.flatnonzero(entries)
        if 4 * rows.sum() > len(rows):  # NaN counts as not 0
            found[places] += column * entries[places, None, None]
        else:
            some = np.ix_(places, np.arange(len(column)), np.flatnonzero(rows))
            found[some] += column[:, rows] * entries[places, None, None]
    return np.moveaxis(found, 2, 0).swapaxes(1, 2)


def orthonormal_frame(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q (N, m, p) and R (N, m, m) with directions[n, i] = sum_j R[n, j, i] Q[n, j].

    Gram and Schmidt's method, twice, so that rows of Q are orthonormal to rounding even where
    directions nearly depend on each other. What depends on the earlier directions gets a row of
    zeros.
    """
    basis = np.array(directions, dtype=float)
    count, m, _ = basis.shape
    triangle = np.zeros((count, m, m))
    for i in range(m):
        whole = np.sqrt(_ordered_sum(basis[:, i] ** 2))
        for j in [*range(i), *range(i)]:
            along = _ordered_sum(basis[:, j] * basis[:, i])
            triangle[:, j, i] += along
            basis[:, i] -= along[:, None] * basis[:, j]
        length = np.sqrt(_ordered_sum(basis[:, i] ** 2))
        length = np.where(length <= 1e-11 * whole, 0.0, length)
        triangle[:, i, i] = length
        scale = np.where(length == 0.0, 0.0, 1.0 / np.where(length == 0.0, 1.0, length))
        basis[:, i] *= scale[:, None]
    return basis, triangle


def _ordered_sum(columns: np.ndarray) -> np.ndarray:
    """Sums of rows, shape (N,), in the order of the columns whatever their layout in memory."""
    return reduce(np.add, columns.T)


def score_center(
    scores: np.ndarray, mass: np.ndarray, bound: float, start: np.ndarray | None = None
) -> np.ndarray:
    """The centers c with E[psi] = 0: shape (m, N), for scores (m, N, Q) with mass (N, Q).

    `start`: where the search begins; default: the means of the scores.

    A two-valued outcome (T32) has p = P(second) and d = v_1 - v_0. With
    t = min(1, C / (|d| max(p, 1 - p))), psi = (y - p) t d has mean zero, the likelier value is not
    clipped, and c = v_0 + p t d if p <= 1/2, else v_1 - (1 - p) t d.
    """
    if scores.shape[2] != 2:
        starts = ((k, None if start is None else start[:, k]) for k in row_blocks(mass))
        return np.hstack([_newton_center(scores[:, k], mass[k], bound, at) for k, at in starts])
    difference = scores[:, :, 1] - scores[:, :, 0]
    total = mass.sum(axis=1)
    p = mass[:, 1] / np.where(total > 0.0, total, 1.0)
    distance = _norm(difference) * np.maximum(p, 1.0 - p)
    step = clipping(distance, bound) * difference
    return np.where(p <= 0.5, scores[:, :, 0] + p * step, scores[:, :, 1] - (1.0 - p) * step)


def _newton_center(
    scores: np.ndarray, mass: np.ndarray, bound: float, start: np.ndarray | None
) -> np.ndarray:
    """The minimum of E rho(|v - c|) in c, rho(r) = r^2/2 up to C and C r - C^2/2 beyond.

    Its gradient is -E[psi], its Hessian E[D] <= E[omega] I, where D = I inside and
    omega (I - d d' / |d|^2) outside. A step (E[D] (1 - a) + a E[omega])^-1 E[psi] descends surely
    at a = 1; a is raised to 1 after a step that did not descend, and lowered by steps that did.
    Rows stop one by one.
    """
    total = mass.sum(axis=1)
    means = _means(scores, mass) / np.where(total > 0.0, total, 1.0)
    center = means if start is None else np.array(start)
    value, slope, hessian, omega = _huber(scores, mass, center, bound)
    mixture = np.full(len(mass), LEAST_MIXTURE)
    for _ in range(CENTER_STEPS):
        open_rows = np.flatnonzero(_norm(slope) > CENTER_TOLERANCE * bound * total)
        if not len(open_rows):
            break
        k = open_rows
        mixed = hessian[k] * (1.0 - mixture[k])[:, None, None]
        mixed += (mixture[k] * omega[k])[:, None, None] * np.eye(len(scores))
        moved = center[:, k] + _solve(mixed, slope[:, k])
        found = _huber(scores[:, k], mass[k], moved, bound)
        better = found[0] <= value[k] + 1e-14 * np.abs(value[k])
        good = k[better]
        center[:, good], value[good] = moved[:, better], found[0][better]
        slope[:, good], hessian[good] = found[1][:, better], found[2][better]
        omega[good] = found[3][better]
        mixture[k] = np.where(better, np.maximum(LEAST_MIXTURE, mixture[k] / 8.0), 1.0)
    return center


def _huber(
    scores: np.ndarray, mass: np.ndarray, center: np.ndarray, bound: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """E rho, E psi (m, N), E D (N, m, m) and E omega at given centers."""
    away = scores - center[:, :, None]
    norm = _norm(away)
    far, inner = np.maximum(norm, bound), np.minimum(norm, bound)
    pull = mass * (bound / far)
    value = (mass * (inner * (norm - 0.5 * inner))).sum(axis=1)
    share = pull.sum(axis=1)
    outside = pull / far**2 * (norm > bound)
    hessian = share[:, None, None] * np.eye(len(scores)) - _second_moments(away, outside)
    return value, _means(away, pull), hessian, share


def _solve(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Solutions of positive definite systems: (N, m, m) and (m, N) to (m, N)."""
    if len(vectors) == 1:
        return vectors / matrices[:, 0, 0]
    if len(vectors) == 2:
        (a, b), (_, d) = np.moveaxis(matrices, 0, 2)
        first, second = vectors
        return np.stack([d * first - b * second, a * second - b * first]) / (a * d - b * b)
    regular = matrices + np.finfo(float).tiny * np.eye(len(vectors))  # never exactly singular
    return np.linalg.solve(regular, vectors.T[:, :, None])[:, :, 0].T


def _turned(triangle: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """R s of scores of shape (N, Q, m), with the m components first."""
    m = triangle.shape[1]
    columns = [scores[:, :, i] for i in range(m)]
    return np.stack(
        [
            sum((triangle[:, j, i, None] * columns[i] for i in range(j, m)), np.zeros(()))
            for j in range(m)
        ]
    )


def _norm(vectors: np.ndarray) -> np.ndarray:
    """Euclidean norms along the first axis."""
    if len(vectors) == 1:
        return np.abs(vectors[0])
    return np.sqrt(reduce(np.add, (part**2 for part in vectors)))


def _means(vectors: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Sums over the nodes of mass times vectors, shape (m, N)."""
    return np.stack([(part * mass).sum(axis=1) for part in vectors])


def _second_moments(vectors: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Sums over the nodes of mass times v v', shape (N, m, m)."""
    m, count = vectors.shape[:2]
    found = np.empty((count, m, m))
    for i in range(m):
        weighted = vectors[i] * mass
        for j in range(i + 1):
            found[:, i, j] = found[:, j, i] = (weighted * vectors[j]).sum(axis=1)
    return found
