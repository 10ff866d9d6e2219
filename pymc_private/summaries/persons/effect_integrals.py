r"""Densities of a person's rows with the person's normal effects integrated out, and their scores.

A person has rows j with predictors eta_j and d effects, one or two, that move them by linear
combinations: t_j = eta_j + x_j' L z, z ~ N(0, I). L is lower triangular and shared by all persons;
the loadings x_j are known of the person, 1 for an intercept. With a log density l(y, t) of one row,

    log p(y | eta, L) = log E_z exp(sum_j l(y_j, t_j)),

by adaptive Gauss-Hermite quadrature: nodes around the mode of the integrand, in the scale of its
curvature there, both by a fixed number of Newton steps from a start that the outcomes suggest (Liu
and Pierce 1994; Pinheiro and Bates 1995). Few nodes suffice, however much the rows tell of the
effect. Scores are means of derivatives under the weights of the nodes, which are those of the exact
density but for the error of the rule,

    d/d eta_j = E[l'_j | y],   d/d L_kc = E[z_c sum_j x_jk l'_j | y].

With a canonical link and an intercept, l(y, t) = y t - b(t), the integral reads outcomes by their
sum alone: it is computed once for each sum that a person's outcomes have, as that of rows with the
same outcome each, sum / k.

Normal rows need no rule: with U = X L, r = y - eta and A = I + U'U / sigma^2, log p is
-[k log(2 pi sigma^2) + log det A + (r'r - r'U A^-1 U'r / sigma^2) / sigma^2] / 2.

Arrays: predictors (N, m) = (eta_1, ..., eta_K, L row by row[, further parameters]); outcomes
(N, Q, K). Everything is elementwise, or a sum along one person in one order. The same code makes
graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy.special import ndtri

from pymc_private.summaries.persons.row_families import (
    ARRAYS,
    GRAPHS,
    BernoulliRows,
    NegativeBinomialRows,
    PoissonRows,
    RowFamily,
)

LOWER = {1: [(0, 0)], 2: [(0, 0), (1, 0), (1, 1)]}
"""Entries of L, by the number of effects."""
POINTS = {1: 15, 2: 7}
"""Nodes of the rule for each effect, by their number."""
LEAST_WEIGHT = 1e-6
"""Nodes of two effects with less of the weight of the rule are left out."""
NEWTON_STEPS = 6
"""Steps to the mode; few outcomes take more than four. Graphs take as many as arrays: where a
person's effect is wide, nodes one step apart give another number."""
LONGEST_STEP = 2.0
"""Longest step of an effect, in its standard deviations."""
MOST_NODES = 1 << 19
"""Most outcomes times nodes of persons that are taken together."""


@dataclass(frozen=True, eq=False)
class Places:
    """The places of persons for rows.

    Attributes
    ----------
    has : bool array, shape (N, K)
        Which hold a row.
    loadings : array, shape (N, K, d)
        x_j.
    alike : bool
        One effect, of loading 1 in all rows.
    """

    has: np.ndarray
    loadings: np.ndarray
    alike: bool

    @classmethod
    def of_intercepts(cls, has: np.ndarray) -> Places:
        """Rows that all read the one effect of their person."""
        return cls(has, np.ones((*has.shape, 1)), alike=True)

    @property
    def effects(self) -> int:
        """d."""
        return self.loadings.shape[2]

    def part(self, start: int, stop: int) -> Places:
        """Some of the persons."""
        return Places(self.has[start:stop], self.loadings[start:stop], self.alike)


class EffectIntegral(Protocol):
    """A family of outcomes of a row, with the effects of the person integrated out."""

    @property
    def extra(self) -> int:
        """Predictors beyond those of rows and the scale of effects."""

    @property
    def most_pairs(self) -> int:
        """Most pairs of nodes of the outcomes that are affordable."""

    @property
    def is_binary(self) -> bool:
        """Whether outcomes are 0 or 1."""

    @property
    def moves_nodes(self) -> bool:
        """Whether nodes of a rule follow the predictors, which gradients of graphs leave out."""

    def log_density(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person at several predictors (S, N, m), shape (S, N, Q)."""

    def scores(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m)."""

    def outcomes(
        self, predictors: np.ndarray, places: Places, z: np.ndarray, unit: np.ndarray
    ) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q, d) at uniform numbers (N, Q, K)."""

    def symbolic(self, predictors: Any, places: Places, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""


# ---- predictors by their parts ------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Person:
    """Predictors that go with outcomes (N, Q) or nodes: eta_j, u_j = L' x_j, the rest, by place.

    Graphs have one array for all places, along the last axis: so there are few operations.
    """

    eta: list[Any]
    slopes: list[list[Any]]
    extra: list[Any]
    has: list[Any]
    loadings: list[list[Any]]

    @classmethod
    def of(cls, ops: Any, columns: Any, places: Places, axes: int = 1) -> _Person:
        """Of m columns (N,) with so many axes of length one behind them."""
        width, d, together = places.has.shape[1], places.effects, ops is GRAPHS
        wide = (slice(None), *[None] * (axes + together))
        many = (slice(None), *[None] * axes)
        eta, further = columns[:width], [column[wide] for column in columns[width:]]
        lower, extra = further[: d * (d + 1) // 2], further[d * (d + 1) // 2 :]
        if together:
            eta, has = [pt.stack(list(eta), axis=1)[many]], [places.has[many]]
            loadings = [[places.loadings[many][..., k] for k in range(d)]]
        else:
            eta = [column[wide] for column in eta]
            has = [places.has[:, j][wide] for j in range(width)]
            loadings = [[places.loadings[:, j, k][wide] for k in range(d)] for j in range(width)]
        if d == 1:
            slopes = [lower if places.alike else [lower[0] * x] for (x,) in loadings]
        else:
            a, b, c = lower
            slopes = [[a * x + b * z, c * z] for x, z in loadings]
        return cls(eta, slopes, extra, has, loadings)

    def at(self, ops: Any, j: int, z: Any) -> Any:
        """t_j."""
        moves = zip(self.slopes[j], z, strict=True)
        return sum((u * ops.wide(own) for u, own in moves), self.eta[j])


def _lower_factor(ops: Any, square: list[Any]) -> list[Any]:
    """The Cholesky factor of a matrix of one or two rows, both by their lower entries."""
    if len(square) == 1:
        return [ops.sqrt(square[0])]
    first = ops.sqrt(square[0])
    beside = square[1] / first
    return [first, beside, ops.sqrt(square[2] - beside**2)]


def _solved(factor: list[Any], right: list[Any]) -> list[Any]:
    """C'^-1 C^-1 right."""
    if len(factor) == 1:
        return [right[0] / factor[0] ** 2]
    a, b, c = factor
    u = right[0] / a
    v = (right[1] - b * u) / c**2
    return [(u - b * v) / a, v]


def _added(ops: Any, square: list[Any], amount: Any, u: list[Any]) -> list[Any]:
    """The lower entries of a matrix plus amount u u'."""
    pairs = zip(square, LOWER[len(u)], strict=True)
    return [own + ops.total(amount * u[i] * u[j]) for own, (i, j) in pairs]


def _unit(d: int) -> list[Any]:
    return [1.0] if d == 1 else [1.0, 0.0, 1.0]


# ---- adaptive nodes -----------------------------------------------------------------------------
@cache
def _rule(effects: int, points: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Coordinates of the nodes of N(0, I), and log of weight times e^(|x|^2 / 2)."""
    x, weights = np.polynomial.hermite_e.hermegauss(points)
    logs = np.log(weights / weights.sum())
    if effects == 1:
        return [x], logs + x**2 / 2.0
    first, second = (v.ravel() for v in np.meshgrid(x, x, indexing="ij"))
    whole = (logs[:, None] + logs).ravel()
    kept = whole > np.log(LEAST_WEIGHT)
    whole = whole - np.log(np.exp(whole[kept]).sum())
    return [first[kept], second[kept]], (whole + (first**2 + second**2) / 2.0)[kept]


def _mode(ops: Any, rows: RowFamily, person: _Person, y: list[Any]) -> tuple[list[Any], list[Any]]:
    """About the mode of the integrand, and the factor of minus its second derivatives there."""
    d, extra = len(person.slopes[0]), person.extra
    start = rows.start(ops, person.eta, y, extra)
    suggested = [(weight * away, weight) for away, weight in start]
    gradient, factor = _derivatives(ops, person, [0.0] * d, suggested)
    z = _solved(factor, gradient)
    for step in range(NEWTON_STEPS + 1):
        parts = [
            rows.slope_and_weight(ops, person.at(ops, j, z), y[j], extra) for j in range(len(y))
        ]
        gradient, factor = _derivatives(ops, person, z, parts)
        if step < NEWTON_STEPS:
            moves = [_held(ops, move) for move in _solved(factor, gradient)]
            z = [own + move for own, move in zip(z, moves, strict=True)]
    return z, factor


def _held(ops: Any, move: Any) -> Any:
    """A step of an effect, of at most `LONGEST_STEP`."""
    return move / ops.where(abs(move) > LONGEST_STEP, abs(move) / LONGEST_STEP, 1.0)


def _derivatives(
    ops: Any, person: _Person, z: list[Any], parts: Sequence[tuple[Any, Any]]
) -> tuple[list[Any], list[Any]]:
    """First derivatives in z, and the factor of minus the second ones, of those of the rows."""
    gradient, square = [-1.0 * each for each in z], _unit(len(z))
    for has, u, part in zip(person.has, person.slopes, parts, strict=True):
        slope, weight = (ops.where(has, v, 0.0) for v in part)
        gradient = [g + ops.total(slope * own) for g, own in zip(gradient, u, strict=True)]
        square = _added(ops, square, weight, u)
    return gradient, _lower_factor(ops, square)


def _nodes(ops: Any, z: list[Any], factor: list[Any], points: int) -> tuple[list[Any], Any]:
    """Effects at the nodes (N, Q, G), and logs of the weights, the normal density included."""
    x, logs = _rule(len(z), points)
    center, c = [own[..., None] for own in z], [own[..., None] for own in factor]
    if len(z) == 1:
        effects, size = [center[0] + x[0] / c[0]], ops.log(c[0])
    else:
        second = x[1] / c[2]
        effects = [center[0] + (x[0] - c[1] * second) / c[0], center[1] + second]
        size = ops.log(c[0]) + ops.log(c[2])
    return effects, logs - size - sum(own**2 for own in effects) / 2.0


def _sums_of_levels(places: Places, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each mean outcome of a person once, (N, D), and which of them each of the Q outcomes has.

    Persons with fewer have their least one again.
    """
    total = np.zeros(y.shape[:2])
    for k in range(y.shape[2]):
        total += np.where(places.has[:, None, k], y[..., k], 0.0)
    order = total.argsort(axis=1, kind="stable")
    sorted_ = np.take_along_axis(total, order, 1)
    rank = np.zeros(total.shape, dtype=np.int64)
    rank[:, 1:] = (sorted_[:, 1:] != sorted_[:, :-1]).cumsum(axis=1)
    levels = np.repeat(sorted_[:, :1], rank.max() + 1, axis=1)
    np.put_along_axis(levels, rank, sorted_, 1)
    index = np.empty_like(rank)
    np.put_along_axis(index, order, rank, 1)
    return levels / np.maximum(places.has.sum(axis=1), 1)[:, None], index


class AdaptiveEffects:
    """Effects integrated out by adaptive nodes.

    Parameters
    ----------
    rows : RowFamily
    points : int, optional
        Nodes for each effect; default: `POINTS`.
    """

    moves_nodes = True

    def __init__(self, rows: RowFamily, points: int | None = None) -> None:
        self.rows, self.points, self.extra = rows, points, rows.extra
        self.is_binary = isinstance(rows, BernoulliRows)
        self.most_pairs = 256

    def _points(self, places: Places) -> int:
        return self.points or POINTS[places.effects]

    def _logs(
        self, ops: Any, columns: Any, places: Places, y: list[Any]
    ) -> tuple[_Person, list[Any], Any]:
        """Predictors beside nodes, effects there (N, Q, G), and logs of their part of p."""
        z, factor = _mode(ops, self.rows, _Person.of(ops, columns, places), y)
        if ops is GRAPHS:  # where the nodes are matters as little as the error of the rule
            z, factor = ([disconnected_grad(v) for v in part] for part in (z, factor))
        effects, logs = _nodes(ops, z, factor, self._points(places))
        person = _Person.of(ops, columns, places, 2)
        for j, has in enumerate(person.has):
            t, known = person.at(ops, j, effects), ops.beside_nodes(y[j])
            own = self.rows.log_density(ops, t, known, person.extra)
            logs = logs + ops.total(ops.where(has, own, 0.0))
        return person, effects, logs

    def _outcomes_of(self, places: Places, y: np.ndarray) -> tuple[list[np.ndarray], Any]:
        """By place, the outcomes that the integral is computed at, and the index of each sum."""
        known = np.where(places.has[:, None], y, 0.0)
        if not (self.rows.canonical and places.alike):
            return [known[..., j] for j in range(known.shape[2])], None
        levels, index = _sums_of_levels(places, y)
        return [levels] * known.shape[2], index

    def log_density(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person at several predictors (S, N, m), shape (S, N, Q)."""
        known, index = self._outcomes_of(places, y)
        own, away = self._of_outcomes(places, y), _away(places, y, known, index)
        found = np.empty((len(predictors), *y.shape[:2]))
        for s, at in enumerate(predictors):
            inner = np.empty(known[0].shape)
            for part in self._parts(places, known):
                some = [column[part] for column in known]
                few = places.part(part.start, part.stop)
                _, _, logs = self._logs(ARRAYS, at[part].T, few, some)
                most = logs.max(axis=2)
                inner[part] = np.log(np.exp(logs - most[..., None]).sum(axis=2)) + most
            found[s] = (inner if index is None else np.take_along_axis(inner, index, 1)) + own
            for j, each in enumerate(away):
                found[s] += each * at[:, j, None]
        return found

    def _parts(self, places: Places, known: list[np.ndarray]) -> list[slice]:
        """Persons that are taken together."""
        nodes = len(_rule(places.effects, self._points(places))[1])
        step = max(1, MOST_NODES // max(1, known[0].shape[1] * nodes))
        return [slice(k, k + step) for k in range(0, len(known[0]), step)]

    def _of_outcomes(self, places: Places, y: np.ndarray) -> np.ndarray:
        """What of log p reads y alone, shape (N, Q)."""
        has = places.has[:, None]
        return np.where(has, self.rows.base(np.where(has, y, 0.0)), 0.0).sum(axis=2)

    def scores(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m)."""
        known, index = self._outcomes_of(places, y)
        found = np.empty((*known[0].shape, predictors.shape[1]))
        for part in self._parts(places, known):
            some = [column[part] for column in known]
            found[part] = self._scores_of(
                predictors[part], places.part(part.start, part.stop), some
            )
        if index is None:
            return found
        found = np.take_along_axis(found, index[..., None], 1)
        for j, away in enumerate(_away(places, y, known, index)):
            found[..., j] += away
        return found

    def _scores_of(self, predictors: np.ndarray, places: Places, y: list[np.ndarray]) -> np.ndarray:
        """Scores of some persons at the outcomes of the integral."""
        width, d = places.has.shape[1], places.effects
        person, z, logs = self._logs(ARRAYS, predictors.T, places, y)
        share = np.exp(logs - logs.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
        found = np.zeros((*share.shape[:2], predictors.shape[1]))
        loaded = [np.zeros(share.shape) for _ in range(d)]
        for j, has in enumerate(person.has):
            t, own, extra = person.at(ARRAYS, j, z), y[j][..., None], person.extra
            slope = np.where(has, self.rows.slope(ARRAYS, t, own, extra), 0.0)
            found[..., j] = (share * slope).sum(axis=2)
            for k in range(d):
                loaded[k] += person.loadings[j][k] * slope
            for k, further in enumerate(self.rows.extra_slopes(t, own, extra)):
                at = width + d * (d + 1) // 2 + k
                found[..., at] += (share * np.where(has, further, 0.0)).sum(axis=2)
        for at, (k, c) in enumerate(LOWER[d]):
            found[..., width + at] = (share * z[c] * loaded[k]).sum(axis=2)
        return found

    def outcomes(
        self, predictors: np.ndarray, places: Places, z: np.ndarray, unit: np.ndarray
    ) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q, d) at uniform numbers (N, Q, K)."""
        person = _Person.of(ARRAYS, predictors.T, places)
        effects = np.moveaxis(z, 2, 0)
        made = [
            self.rows.outcomes(person.at(ARRAYS, j, effects), unit[..., j], person.extra)
            for j in range(unit.shape[2])
        ]
        return np.stack(made, axis=2)

    def symbolic(self, predictors: Any, places: Places, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""
        known, index = self._outcomes_of(places, y)
        at = pt.constant(np.stack(known, axis=2))
        _, _, logs = self._logs(GRAPHS, predictors, places, [at])
        found = pt.logsumexp(logs, axis=2)
        if index is not None:
            found = found[np.arange(len(index))[:, None], index]
        own, away = self._of_outcomes(places, y), _away(places, y, known, index)
        return sum((each * predictors[j][:, None] for j, each in enumerate(away)), found + own)


def _away(places: Places, y: np.ndarray, known: list[Any], index: Any) -> list[np.ndarray]:
    """By place, how far outcomes are from the mean that stands for them in the integral."""
    if index is None:
        return []
    mean, has = np.take_along_axis(known[0], index, 1), places.has[:, None]
    return [np.where(has[..., j], y[..., j] - mean, 0.0) for j in range(y.shape[2])]


class NormalEffects:
    """Real outcomes with a standard deviation common to all rows: exact."""

    extra, most_pairs, is_binary, moves_nodes = 1, 256, False, False

    def __init__(self, points: int | None = None) -> None:
        del points  # exact

    def _parts(self, ops: Any, columns: Any, places: Places, y: np.ndarray) -> tuple[Any, ...]:
        """Predictors, residuals, their U'r, sums of squares, factor of A, sigma^2."""
        person, d = _Person.of(ops, columns, places), places.effects
        variance = columns[-1][:, None] ** 2
        whole = np.where(places.has[:, None], y, 0.0)
        known = [whole] if ops is GRAPHS else list(np.moveaxis(whole, 2, 0))
        residuals, squares, moved, square = list[Any](), 0.0, [0.0] * d, _unit(d)
        for j, has in enumerate(person.has):
            r = ops.where(has, known[j] - person.eta[j], 0.0)
            u = [ops.where(has, own, 0.0) for own in person.slopes[j]]
            residuals, squares = [*residuals, r], squares + ops.total(r**2)
            moved = [m + ops.total(own * r) for m, own in zip(moved, u, strict=True)]
            square = _added(ops, square, 1.0 / ops.wide(variance), u)
        return person, residuals, moved, squares, _lower_factor(ops, square), variance

    def _log_density(self, ops: Any, columns: Any, places: Places, y: np.ndarray) -> Any:
        _, _, moved, squares, factor, variance = self._parts(ops, columns, places, y)
        rows = places.has.sum(axis=1)[:, None].astype(float)
        inner = sum(m * own for m, own in zip(moved, _solved(factor, moved), strict=True))
        size = rows * ops.log(2.0 * np.pi * variance)
        size = size + sum(2.0 * ops.log(factor[k]) for k in (0, 2)[: places.effects])
        return -0.5 * (size + (squares - inner / variance) / variance)

    def log_density(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person at several predictors (S, N, m), shape (S, N, Q)."""
        return np.stack([self._log_density(ARRAYS, at.T, places, y) for at in predictors])

    def symbolic(self, predictors: Any, places: Places, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""
        return self._log_density(GRAPHS, predictors, places, y)

    def scores(self, predictors: np.ndarray, places: Places, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m): with w = V^-1 r, (w w' - V^-1) U in U."""
        width, d = places.has.shape[1], places.effects
        person, residuals, moved, _, factor, variance = self._parts(ARRAYS, predictors.T, places, y)
        pull = [own / variance for own in _solved(factor, moved)]
        found = np.zeros((*y.shape[:2], predictors.shape[1]))
        squares, along = np.zeros(y.shape[:2]), [np.zeros(y.shape[:2]) for _ in range(d)]
        for j, has in enumerate(person.has):
            u = person.slopes[j]
            w = (residuals[j] - sum(p * own for p, own in zip(pull, u, strict=True))) / variance
            found[..., j] = np.where(has, w, 0.0)
            squares += found[..., j] ** 2
            along = [s + found[..., j] * own for s, own in zip(along, u, strict=True)]
        for j, has in enumerate(person.has):
            whole = _solved(factor, person.slopes[j])
            by_u = [found[..., j] * along[k] - whole[k] / variance for k in range(d)]
            for at, (k, c) in enumerate(LOWER[d]):
                found[..., width + at] += np.where(has, person.loadings[j][k] * by_u[c], 0.0)
        inverse = [_solved(factor, [float(k == i) for i in range(d)])[k] for k in range(d)]
        trace = (places.has.sum(axis=1)[:, None] - d + sum(inverse)) / variance
        found[..., -1] = person.extra[0] * (squares - trace)
        return found

    def outcomes(
        self, predictors: np.ndarray, places: Places, z: np.ndarray, unit: np.ndarray
    ) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q, d) at uniform numbers (N, Q, K)."""
        person = _Person.of(ARRAYS, predictors.T, places)
        effects = np.moveaxis(z, 2, 0)
        made = [
            person.at(ARRAYS, j, effects) + person.extra[0] * ndtri(unit[..., j])
            for j in range(unit.shape[2])
        ]
        return np.stack(made, axis=2)


FAMILIES: dict[str, Any] = {
    "BernoulliRV": lambda points=None: AdaptiveEffects(BernoulliRows(), points),
    "PoissonRV": lambda points=None: AdaptiveEffects(PoissonRows(), points),
    "NegBinomialRV": lambda points=None: AdaptiveEffects(NegativeBinomialRows(), points),
    "NormalRV": NormalEffects,
}
"""The families by the class of their distribution."""
