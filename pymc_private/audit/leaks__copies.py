"""Copies of a column of data in an array: as it is, reordered, scaled, rounded, or summed up."""

from __future__ import annotations

import math
import numpy as np

LIKELY = 1e-6
"""Values that agree by chance more often than this are no copy."""
SUMMARY = 0.01
"""A lone number is named with its chance, whatever that is; one among many only below this."""
SMALLEST, EXACT, SINGLE = 1e-14, 1e-9, 1e-6
NEARLY = 1e-5

Found = tuple[str, float]
"""What was found, in words around the name of the column, and the chance of a coincidence."""


def copy_of(secret: np.ndarray, values: np.ndarray) -> Found | None:
    """Find a column of data in an array.

    Parameters
    ----------
    secret : array of float, shape (n,)
    values : array of float

    Returns
    -------
    tuple of str and float, or None
        "{}" in the words stands for the column. The chance is that of a column whose entries are
        independent and uniform over decimal steps between its ends, against values fixed without
        it.

    Notes
    -----
    Let a column of n entries with L steps lie within r of the plane of all shifted and scaled
    copies of a row, in units of its width. The two entries where the row is least and greatest fix
    the other n - 2 to intervals of length 4 r: chance (4 r + 1 / L)^(n - 2), and n! as much in any
    order. A residual of a share s of the deviation is r = s sqrt(n) / 2.
    """
    present = np.isfinite(secret)
    n, levels = len(secret), _levels(secret[present])
    if n < 2 or present.sum() < 2 or levels <= 1.0:
        return None
    rows = _rows(values, n)
    everywhere = _runs(values.ravel(), secret)
    chance = levels ** -float(present.sum()) * (len(rows) + everywhere[1])
    same = (rows == secret) | (np.isnan(rows) & np.isnan(secret))
    if chance < LIKELY and (same.all(axis=1).any() or everywhere[0]):
        return "holds {}", chance
    rows = rows[:, present]
    rows = rows[np.isfinite(rows).all(axis=1)]
    return _nearest(rows, secret[present], levels) if len(rows) else None


def _nearest(rows: np.ndarray, secret: np.ndarray, levels: float) -> Found | None:
    """The likeliest copy among rows: in the same order, or in any."""
    n = len(secret)
    for order, orders in (("", 0.0), (" in another order", math.lgamma(n + 1.0))):
        ordered = np.sort(secret) if order else secret
        tried = np.sort(rows, axis=1) if order else rows
        if order and (tried == ordered).all(axis=1).any():
            chance = math.log(len(rows)) + orders - n * math.log(levels)
            if chance < math.log(LIKELY):
                return "holds {} in another order", math.exp(chance)
        both = np.concatenate([tried, tried[:, ::-1]]) if order else tried
        residual = float(np.min(_residuals(both, ordered)))
        width = 2.0 * residual * math.sqrt(n) + 1.0 / levels
        chance = math.log(len(rows)) + orders + (n - 2) * math.log(width)
        if chance < math.log(LIKELY):
            how = "shifted or scaled" if residual < NEARLY else "rounded, or with noise"
            return f"holds {{}}{order}, {how}", math.exp(chance)
    return None


def _residuals(rows: np.ndarray, secret: np.ndarray) -> np.ndarray:
    """Deviation of the column from the best shifted and scaled copy of each row, as a share."""
    with np.errstate(all="ignore"):
        centered = rows - rows.mean(axis=1, keepdims=True)
        unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
        own = secret - secret.mean()
        left = np.linalg.norm(own - (unit @ own)[:, None] * unit, axis=1) / np.linalg.norm(own)
    return np.where(np.isfinite(left), np.maximum(left, SMALLEST), 1.0)


def summary_of(secret: np.ndarray, values: np.ndarray, is_single: bool) -> Found | None:
    """Find a sum, mean, deviation or variance of a column among numbers.

    Of all other entries given, one entry takes at most one grid point for a sum to come out, and
    two for a deviation; the tolerance adds the grid points that it cannot tell apart.

    Parameters
    ----------
    secret, values
        As of `copy_of`.
    is_single : bool
        Whether the values were stored in single precision.
    """
    secret, flat = secret[np.isfinite(secret)], values.ravel()
    n, levels, tolerance = len(secret), _levels(secret), SINGLE if is_single else EXACT
    if n < 2 or levels <= 1.0:
        return None
    step = float(np.ptp(secret)) / (levels - 1.0)
    summaries = _summaries(secret)
    for word, value in summaries.items():
        close = np.abs(flat - value) <= tolerance * abs(value)
        if not close.any() or round(value, 1) == value:  # a round number could be anything
            continue
        if word in ("mean", "sum"):
            points = 1.0 + 2.0 * tolerance * abs(secret.sum()) / step
        else:
            points = 2.0 + 4.0 * n * secret.std(ddof=1) * math.sqrt(tolerance / (n - 1)) / step
        chance = min(1.0, points / levels * flat.size * len(summaries))
        if flat.size == 1 or chance < SUMMARY:
            return f"{'equals' if flat.size == 1 else 'holds'} the {word} of {{}}", chance
    return None


def _summaries(secret: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(secret.mean()),
        "sum": float(secret.sum()),
        "standard deviation": float(secret.std()),
        "sample deviation": float(secret.std(ddof=1)),
        "variance": float(secret.var()),
        "sample variance": float(secret.var(ddof=1)),
    }


def _levels(secret: np.ndarray) -> float:
    """How many values there could be: the decimal steps between the ends of those there are."""
    width = float(np.ptp(secret)) if secret.size else 0.0
    for digits in range(13):
        step = 10.0**-digits
        if np.allclose(np.round(secret / step) * step, secret, rtol=0.0, atol=1e-14):
            return 1.0 + width / step
    return 1.0 + width * 1e12


def _rows(values: np.ndarray, n: int) -> np.ndarray:
    """All rows of n numbers along an axis, and of the flat array cut in rows or columns of n."""
    rows = [np.empty((0, n))]
    for axis, size in enumerate(values.shape):
        if size == n:
            rows.append(np.moveaxis(values, axis, -1).reshape(-1, n))
    if values.size and values.size % n == 0 and values.ndim == 1:
        rows += [values.reshape(-1, n), values.reshape(n, -1).T]
    return np.concatenate(rows)


def _runs(flat: np.ndarray, secret: np.ndarray) -> tuple[bool, int]:
    """Whether the column stands somewhere in a longer list, and at how many places it could."""
    places = len(flat) - len(secret) + 1
    if places < 1:
        return False, 0
    starts = np.flatnonzero(flat[:places] == secret[0])
    runs = (flat[start : start + len(secret)] for start in starts)
    return any(np.array_equal(run, secret, equal_nan=True) for run in runs), places
