"""Precision matrices bounded from below in doubles, whatever their condition.

P = sum_j w_j a_j a_j' may have a least eigenvalue far below the rounding of its entries, as under
hierarchical priors whose scales differ. Slack is therefore counted in units of the diagonal, which
rounding respects: no entry of P is wrong by more than a few units of sqrt(P_ii P_jj).
"""

from __future__ import annotations

import numpy as np
from pymc_private.certificates.linear_predictors__coefficients import Coefficients

SHRINK = 1e-9
"""Relative slack of what is computed from bounds, far above a few roundings."""
UNIT = float(np.finfo(float).eps)
MOST_LOSS = 0.5
"""A matrix whose inverse keeps fewer digits than this counts as singular."""


class NearlySingular(ValueError):
    """A matrix is not shown to be positive definite in doubles."""


def lower_bound(a: Coefficients, weights: np.ndarray) -> np.ndarray:
    """A matrix below sum_j w_j a_j a_j', for every a within its radius, rounding included.

    For |E| <= R, (c + E)'v squared is at least (1 - s) (c'v)^2 - (1 / s) (R'|v|)^2 for any s in
    (0, 1), and (R'|v|)^2 at most k sum_i R_i^2 v_i^2 for the k entries of R that are not zero.
    Rounding moves the entries i, j of c'Dc by no more than a few units of sqrt(P_ii P_jj), hence P
    by no more than diag P times that and the most entries of a row.

    Parameters
    ----------
    a : Coefficients
        One and the same for every record.
    weights : array, shape (k,)
        At least 0.

    Returns
    -------
    array, shape (d, d)
    """
    found = a.outer(weights)
    radius = a.radius[0]
    count = np.count_nonzero(radius, axis=1)
    loose = ((weights * count)[:, None] * radius**2).sum(axis=0) / SHRINK
    used = (a.center[0] != 0.0).astype(float)
    meet = float((used.T @ used > 0.0).sum(axis=1).max(initial=1))
    rounding = (len(weights) + 6) * UNIT * meet * np.diag(found)
    return found * (1.0 - SHRINK) - np.diag(rounding + loose)


def whitener(matrix: np.ndarray) -> np.ndarray:
    """W with W'W at least M^-1, for every matrix that rounds to M; hardly above it.

    Parameters
    ----------
    matrix : array, shape (d, d)
        Positive definite.

    Returns
    -------
    array, shape (d, d)

    Raises
    ------
    NearlySingular
        No digits are left.

    Notes
    -----
    W'W >= M^-1 is W M W' >= I. With M = S^-1 C S^-1 for its diagonal S^-2, and V an inverse of a
    factor of C, that holds for W = V S / sqrt(1 - r), r a bound of |V C V' - I|.
    """
    scale, correlation = _scaled(matrix)
    if np.count_nonzero(correlation - np.eye(len(matrix))) == 0:
        return np.diag(scale * (1.0 + 8.0 * UNIT))
    inverse = _inverse_factor(correlation)
    size = len(matrix)
    rounding = np.abs(inverse) @ np.abs(correlation) @ np.abs(inverse).T
    lost = np.linalg.norm(inverse @ correlation @ inverse.T - np.eye(size), ord=2)
    lost += (size + 8) * UNIT * np.linalg.norm(rounding)
    if not lost < MOST_LOSS:
        raise NearlySingular
    return inverse * scale / np.sqrt(1.0 - lost) * (1.0 + 8.0 * UNIT)


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


def least_eigenvalue(matrix: np.ndarray) -> float:
    """A lower bound of the least eigenvalue, hardly below it: 1 / |W|^2."""
    return float(1.0 / np.linalg.norm(whitener(matrix), ord=2) ** 2 * (1.0 - SHRINK * 1e-3))
