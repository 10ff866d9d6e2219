"""What one record's gradient can be along a linear predictor, in any norm."""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from pymc_private.certificates.linear_predictors__coefficients import Coefficients, length
from pymc_private.certificates.record_gradient__precision import SHRINK
from pymc_private.certificates.curvature__softmax import Softmax

HUGE = 1e150
"""Slopes beyond this, whose squares overflow, are taken for infinite."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """One linear predictor u = a(x)'theta + b(x) of a record, of k elements.

    Attributes
    ----------
    coefficients : Coefficients
        a(x) for all records, shape (k, parameters).
    low, high, gap, smooth, sure : array, shape (k,)
        See `curvature.Curves`.
    softmax : Softmax or None
    """

    coefficients: Coefficients
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray
    smooth: np.ndarray
    sure: np.ndarray
    softmax: Softmax | None

    def reach(self, whitener: np.ndarray, *, of_difference: bool) -> float:
        """sup |W grad log p(x)| of this predictor's part, or of its difference for two records."""
        apart = are_disjoint(self.coefficients.touched(whitener))
        # Two records that share a(x) share the predictor too.
        shared = of_difference and self.coefficients.is_public
        if self.softmax is not None:
            norms = self.coefficients.norms(whitener)
            size = norms.max(axis=1) if apart else length(norms)
            slope = self.softmax.gap if shared else self.softmax.slope
            factor = 2.0 if of_difference and not shared else 1.0
            reach = float(factor * slope * size.max()) * (1.0 + SHRINK)
            return reach if reach < HUGE else math.inf
        if of_difference and not shared:
            each = self._apart(whitener)
        else:
            slopes = self.gap if shared else np.maximum(self.high, -self.low)
            each = _times(slopes, self.coefficients.norms(whitener))
        if not np.all(each < HUGE):
            return math.inf
        size = length(each) if apart else each.sum(axis=1)
        return float(size.max()) * (1.0 + SHRINK)

    def _apart(self, whitener: np.ndarray) -> np.ndarray:
        """sup |s W a(x) - t W a(y)| for slopes s, t between `low` and `high`, shape (1, k).

        Where W a is (c, v) with c the same for all records, its square is at most
        (s - t)^2 |c|^2 + (|s| + |t|)^2 sup |v|^2: convex in s and t, hence greatest at their ends.
        """
        fixed = self.coefficients.fixed(whitener)
        same, other = (
            self.coefficients.norms(whitener[rows]).max(axis=0) for rows in (fixed, ~fixed)
        )
        ends = np.stack([self.low, self.high])
        with np.errstate(invalid="ignore"):  # inf - inf: nothing is known of the difference
            corners = [
                np.hypot(_times(np.abs(s - t), same), _times(np.abs(s) + np.abs(t), other))
                for s, t in ((ends[0], ends[0]), (ends[0], ends[1]), (ends[1], ends[1]))
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
            return float(self.softmax.weight * each.max()) * (1.0 + SHRINK)
        smooth = self.smooth if kinks else np.where(np.isinf(self.smooth), 0.0, self.smooth)
        return float(_times(smooth, norms).sum(axis=1).max()) * (1.0 + SHRINK)

    def jumps(self, whitener: np.ndarray) -> float:
        """sup over records of sum_j |W a_j| (sup h'_j - inf h'_j) over elements with kinks.

        A concave h lies below its tangent by no more than |du| times what its slope can change.
        """
        if self.softmax is not None:
            return 0.0
        jump = np.where(np.isinf(self.smooth), self.high - self.low, 0.0)
        norms = self.coefficients.norms(whitener)
        return float(_times(jump, norms).sum(axis=1).max()) * (1.0 + SHRINK)


def _times(slopes: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Their product; what a predictor does not read is zero, however steep it is."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(norms == 0.0, 0.0, slopes * norms)


def are_disjoint(used: np.ndarray) -> bool:
    """Whether no column is used by two rows."""
    return bool(np.all(used.sum(axis=0) <= 1))
