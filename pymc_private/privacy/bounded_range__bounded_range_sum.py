"""The sum of T3, for N draws of range R, in logarithms and with a proved error margin.

At threshold l the two-point law of T2 is taken where the sum over i <= l is largest in t:
with s = ((N-l) R - eps) / (N+1) this is t = R - s, and the gain of the term i = l - k is
1 - e^(-s-kR) = (1 - e^-s) + e^-s (1 - e^-kR), two positive parts that never cancel. So
  a_i = C(N, i) p^(N-i) (1-p)^i,  p = (1 - e^-s) / (1 - e^-R),  1-p = e^-s (1 - e^-t) / (1 - e^-R),
  delta_l = sum_k a_(l-k) [(1 - e^-s) + e^-s (1 - e^-kR)],  delta = max_l delta_l over s > 0
(s <= 0 means t >= R, where the law puts no mass on a positive loss: delta_l = 0).
Successive a_i have decreasing ratios, so a geometric series bounds what is left out: it picks the
thresholds worth a full sum, and closes each sum after a window of 12 standard deviations.
"""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from scipy.special import gammaln

UNIT = 2.0**-52
FIRST = 32
"""Thresholds summed before the rest is compared with the best of them."""
CELLS = 1_000_000
"""Terms in memory at once."""
LARGE = 600.0
"""Log odds beyond this are as good as this: exp of more would overflow."""
NOTHING = 1e-300
"""Covers all terms lost to underflow."""


@dataclass(frozen=True)
class _Thresholds:
    """Arrays over the thresholds l with s > 0, and the vectors all of them share."""

    n: int
    R: float
    level: np.ndarray
    s: np.ndarray
    odds: np.ndarray  # ln(p / (1-p))
    start: np.ndarray  # (N-l) ln p + l ln(1-p)
    choose: np.ndarray  # ln C(N, i)


def worst_delta(eps: float, n: int, R: float) -> float:
    """Give the largest delta over all thresholds, rounded up.

    Parameters
    ----------
    eps : float
        0 <= eps < n R, nats.
    n : int
        Draws.
    R : float
        Finite, > 0, nats.

    Returns
    -------
    float
        In (0, 1].

    References
    ----------
    Dong, Durfee and Rogers (2020); theory T3.
    """
    if R < 1e-140:  # s may underflow; TV <= N tanh(R/4) decides (T2)
        return min(1.0, n * R / 4.0 * (1.0 + 4.0 * UNIT) + NOTHING)
    rows = _thresholds(eps, n, R)
    bound = _geometric(rows)
    order = np.argsort(-bound)
    best = float(_sums(rows, order[:FIRST]).max())
    rest = order[FIRST:]
    rest = rest[bound[rest] > best]
    step = max(1, CELLS // (_window(n) + 1))
    for begin in range(0, len(rest), step):
        best = max(best, float(_sums(rows, rest[begin : begin + step]).max()))
    # An exponent adds ln C(N, i), of size up to N ln N with a few units from each ln Gamma, and N
    # logarithms of p and 1-p of the size in brackets, each good to a few units of that size.
    size = n * (3.0 * math.log(n + 2.0) + R + abs(math.log(-math.expm1(-R))) + 42.0) + 42.0
    return min(1.0, best * (1.0 + 16.0 * UNIT * size) + NOTHING)


def _thresholds(eps: float, n: int, R: float) -> _Thresholds:
    # With eps lowered a little, every s below is the exact optimum of some eps' <= eps despite
    # the rounding of s, and delta_l does not grow with eps: the bound stays above the truth.
    eps -= 4.0 * UNIT * (eps + n * R)
    level = np.arange(n + 1, dtype=float)
    s = ((n - level) * R - eps) / (n + 1.0)
    level, s = level[s > 0.0], s[s > 0.0]
    t = R - s
    log_top, log_whole = np.log(-np.expm1(-s)), math.log(-math.expm1(-R))
    odds = log_top + s - np.log(-np.expm1(-t))
    start = n * (log_top - log_whole) - level * odds
    index = np.arange(n + 1, dtype=float)
    choose = gammaln(n + 1.0) - gammaln(index + 1.0) - gammaln(n - index + 1.0)
    return _Thresholds(n, R, level, s, odds, start, choose)


def _geometric(rows: _Thresholds) -> np.ndarray:
    """Bound each delta_l by the geometric series of its first two terms: O(1) per threshold."""
    i = rows.level
    ratio = i / (rows.n - i + 1.0) * np.exp(np.minimum(rows.odds, LARGE))
    first = np.exp(rows.choose[i.astype(int)] + rows.start)
    gain = -np.expm1(-rows.s) - ratio * np.exp(-rows.s) * np.expm1(rows.s - rows.R)
    below = np.where(ratio < 1.0, (1.0 - ratio) * (1.0 - ratio * math.exp(-rows.R)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = first * gain / below
    return np.where(ratio < 1.0, np.fmin(bound * 1.000001, 1.0), 1.0)


def _window(n: int) -> int:
    """Terms below a threshold that are summed one by one: 12 standard deviations and 64."""
    return min(n, 64 + 6 * math.isqrt(n))


def _sums(rows: _Thresholds, chosen: np.ndarray) -> np.ndarray:
    """Sum T3 for the chosen thresholds; the terms beyond the window by their geometric bound."""
    width = _window(rows.n)
    level, s = rows.level[chosen].astype(int)[:, None], rows.s[chosen][:, None]
    odds, start = rows.odds[chosen][:, None], rows.start[chosen][:, None]
    k = np.arange(width + 1)[None, :]
    exponent = rows.choose[np.maximum(level - k, 0)] + (start + k * odds)
    terms = np.exp(np.where(k <= level, exponent, -np.inf))
    gains = -np.expm1(-s) + np.exp(-s) * -np.expm1(-k * rows.R)
    last = level[:, 0] - width
    ratio = last / (rows.n - last + 1.0) * np.exp(np.minimum(odds[:, 0], LARGE))
    inside = ratio < 1.0
    left = np.where(inside, terms[:, -1] * ratio / np.where(inside, 1.0 - ratio, 1.0), 1.0)
    return (terms * gains).sum(axis=1) + np.where(last > 0, left, 0.0)
