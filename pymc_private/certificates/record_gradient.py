"""The gradient of one record along its linear predictors, in any norm, and precision matrices.

P = sum_j w_j a_j a_j' may have a least eigenvalue far below the rounding of its entries, as
under hierarchical priors whose scales differ. It is bounded from below in doubles, whatever
its condition: slack is counted in units of the diagonal, which rounding respects, as no entry
of P is wrong by more than a few units of sqrt(P_ii P_jj).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pymc_private.certificates.curvature import SoftmaxBounds
from pymc_private.certificates.linear_predictors import Coefficients, stable_norm

HUGE = 1e150
"""Slopes beyond this, whose squares overflow, are taken for infinite."""

RELATIVE_SLACK = 1e-9
"""Relative slack of what is computed from bounds, far above a few roundings."""

MACHINE_EPSILON = float(np.finfo(float).eps)

MOST_LOSS = 0.5
"""A matrix whose inverse keeps fewer digits than this counts as singular."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """One linear predictor u = a(x)'theta + b(x) of a record, of k elements.

    Attributes
    ----------
    coefficients : Coefficients
        a(x) for all records, shape (k, parameters).
    low, high, gap, smooth, sure : array, shape (k,)
        See `curvature.DerivativeBounds`.
    softmax : SoftmaxBounds or None
    """

    coefficients: Coefficients
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray
    smooth: np.ndarray
    sure: np.ndarray
    softmax: SoftmaxBounds | None

    def reach(self, whitener: np.ndarray, *, of_difference: bool) -> float:
        """sup |W grad log p(x)| of this predictor's part, or of its difference for two records."""
        apart = are_disjoint(self.coefficients.touched(whitener))
        # Two records that share a(x) share the predictor too.
        shared = of_difference and self.coefficients.is_public
        if self.softmax is not None:
            norms = self.coefficients.norms(whitener)
            size = norms.max(axis=1) if apart else stable_norm(norms)
            slope = self.softmax.gap if shared else self.softmax.slope
            factor = 2.0 if of_difference and not shared else 1.0
            reach = float(factor * slope * size.max()) * (1.0 + RELATIVE_SLACK)
            return reach if reach < HUGE else math.inf
        if of_difference and not shared:
            each = self._apart(whitener)
        else:
            slopes = self.gap if shared else np.maximum(self.high, -self.low)
            each = _slopes_times_norms(slopes, self.coefficients.norms(whitener))
        if not np.all(each < HUGE):
            return math.inf
        size = stable_norm(each) if apart else each.sum(axis=1)
        return float(size.max()) * (1.0 + RELATIVE_SLACK)

    def _apart(self, whitener: np.ndarray) -> np.ndarray:
        """sup |s W a(x) - t W a(y)| for slopes s, t between `low` and `high`, shape (1, k).

        Where W a is (c, v) with c the same for all records, its square is at most
        (s - t)^2 |c|^2 + (|s| + |t|)^2 sup |v|^2: convex in s and t, so greatest at the bounds.
        """
        fixed = self.coefficients.fixed(whitener)
        same, other = (
            self.coefficients.norms(whitener[rows]).max(axis=0) for rows in (fixed, ~fixed)
        )
        slopes = np.stack([self.low, self.high])
        with np.errstate(invalid="ignore"):  # inf - inf: nothing is known of the difference
            corners = [
                np.hypot(
                    _slopes_times_norms(np.abs(s - t), same),
                    _slopes_times_norms(np.abs(s) + np.abs(t), other),
                )
                for s, t in ((slopes[0], slopes[0]), (slopes[0], slopes[1]), (slopes[1], slopes[1]))
            ]
        return np.max(np.nan_to_num(corners, nan=np.inf), axis=0)[None]

    def trace(self, whitener: np.ndarray, *, kinks: bool = True) -> float:
        """sup over records of tr(W H W'), H minus the Hessian or a bound of it.

        Infinite at kinks, unless they are left to `jumps`. That of a softmax is w times the
        variance of W a_k, k drawn from the shares p, so at most w max_k |W a_k|^2. The step size of
        T21 may be set by it, though shares move: for a move delta of mean zero, its coordinates
        1/s^2-strongly log-concave, Jensen's inequality gives E [h(u) + h'(u) du - h(u + du)] <=
        w log sum_k p_k E e^(du_k) <= w max_k |W a_k|^2 s^2 / 2.
        """
        with np.errstate(over="ignore"):
            norms = self.coefficients.norms(whitener) ** 2
        if self.softmax is not None:
            apart = are_disjoint(self.coefficients.touched(whitener))
            share = 0.5 - 0.5 * apart / self.softmax.classes  # Boehning; W a_k at right angles
            each = np.minimum(share * norms.sum(axis=1), norms.max(axis=1))
            return float(self.softmax.weight * each.max()) * (1.0 + RELATIVE_SLACK)
        smooth = self.smooth if kinks else np.where(np.isinf(self.smooth), 0.0, self.smooth)
        return float(_slopes_times_norms(smooth, norms).sum(axis=1).max()) * (1.0 + RELATIVE_SLACK)

    def jumps(self, whitener: np.ndarray) -> float:
        """sup over records of sum_j |W a_j| (sup h'_j - inf h'_j) over elements with kinks.

        A concave h lies below its tangent by no more than |du| times what its slope can change.
        """
        if self.softmax is not None:
            return 0.0
        jump = np.where(np.isinf(self.smooth), self.high - self.low, 0.0)
        norms = self.coefficients.norms(whitener)
        return float(_slopes_times_norms(jump, norms).sum(axis=1).max()) * (1.0 + RELATIVE_SLACK)


def _slopes_times_norms(slopes: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Slopes times norms; zero where the norm is, whatever the slope."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(norms == 0.0, 0.0, slopes * norms)


def are_disjoint(used: np.ndarray) -> bool:
    """Whether no column is used by two rows."""
    return bool(np.all(used.sum(axis=0) <= 1))


class NearlySingular(ValueError):
    """A matrix is not shown to be positive definite in doubles."""


def precision_lower_bound(a: Coefficients, weights: np.ndarray) -> np.ndarray:
    """A matrix below sum_j w_j a_j a_j', for every a within its radius, rounding included.

    The coefficients are one and the same for every record, the weights at least 0. For |E| <= R,
    (c + E)'v squared is at least (1 - s) (c'v)^2 - (1 / s) (R'|v|)^2 for any s in (0, 1), and
    (R'|v|)^2 at most k sum_i R_i^2 v_i^2 for the k entries of R that are not zero. Rounding moves
    the entries i, j of c'Dc by no more than a few units of sqrt(P_ii P_jj), hence P by no more than
    diag P times that and the most entries of a row.
    """
    found = a.outer(weights)
    radius = a.radius[0]
    count = np.count_nonzero(radius, axis=1)
    loose = ((weights * count)[:, None] * radius**2).sum(axis=0) / RELATIVE_SLACK
    used = (a.center[0] != 0.0).astype(float)
    overlap = float((used.T @ used > 0.0).sum(axis=1).max(initial=1))
    rounding = (len(weights) + 6) * MACHINE_EPSILON * overlap * np.diag(found)
    return found * (1.0 - RELATIVE_SLACK) - np.diag(rounding + loose)


def whitener(matrix: np.ndarray) -> np.ndarray:
    """W with W'W at least M^-1, for every matrix that rounds to M; hardly above it.

    W'W >= M^-1 is W M W' >= I. With M = S^-1 C S^-1 for its diagonal S^-2, and V an inverse of a
    factor of C, that holds for W = V S / sqrt(1 - r), r a bound of |V C V' - I|.

    Raises
    ------
    NearlySingular
        No digits are left.
    """
    scale, correlation = _scaled(matrix)
    if np.count_nonzero(correlation - np.eye(len(matrix))) == 0:
        return np.diag(scale * (1.0 + 8.0 * MACHINE_EPSILON))
    inverse = _inverse_factor(correlation)
    size = len(matrix)
    rounding = np.abs(inverse) @ np.abs(correlation) @ np.abs(inverse).T
    lost = np.linalg.norm(inverse @ correlation @ inverse.T - np.eye(size), ord=2)
    lost += (size + 8) * MACHINE_EPSILON * np.linalg.norm(rounding)
    if not lost < MOST_LOSS:
        raise NearlySingular
    return inverse * scale / np.sqrt(1.0 - lost) * (1.0 + 8.0 * MACHINE_EPSILON)


def least_eigenvalue(matrix: np.ndarray) -> float:
    """A lower bound of the least eigenvalue, hardly below it: 1 / |W|^2."""
    return float(1.0 / np.linalg.norm(whitener(matrix), ord=2) ** 2 * (1.0 - RELATIVE_SLACK * 1e-3))


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """W with W'W = M^-1 to the last digits, neither above it nor below."""
    scale, correlation = _scaled(matrix)
    return _inverse_factor(correlation) * scale


def _scaled(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S and C with M = S^-1 C S^-1 and a unit diagonal of C."""
    diagonal = np.diag(matrix)
    if not (np.all(diagonal > 0.0) and np.all(np.isfinite(matrix))):
        raise NearlySingular
    scale = 1.0 / np.sqrt(diagonal)
    correlation = matrix * scale[:, None] * scale
    np.fill_diagonal(correlation, 1.0)
    return scale, correlation


def _inverse_factor(correlation: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(correlation)))
    except np.linalg.LinAlgError:
        raise NearlySingular from None
