"""Laws of rows' sums, by Fourier transforms of their cells' laws at one tilt or at several.

At one tilt a transform tells the sums near the mean there, up to some six standard deviations. What
is known of a sum may well reach farther: then its law is put together from several tilts.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from scipy import fft, special
from pymc_private.counts.denoise.cell_distributions import Cells
from pymc_private.counts.denoise.saddlepoint import match_sum

LARGEST = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little of one cell."""
REACH = 9.0
ROUNDING = 1e-13
"""Shares of a law of sums that transforms do not tell from 0."""
LEAST = 1e-17
"""Probabilities of bins beyond which a row's laws are cut off."""
EDGE, LIKELY = 1e-8, 1e-5
"""Shares of a law of sums at one tilt down to which it is right; shares of the likeliest sum from
which on one must be."""
MORE, ROUGH = 8, 1e-2
"""Most tilts besides, above and below; how near they are found, as a share of the largest."""
NEWTON, NEAR = 50, 1e-4
"""Steps of a search for the tilt of all sums; the share of their total that may well be missing."""

LogWeight = Callable[[np.ndarray], np.ndarray]
"""Sums to the logarithm of their weight."""


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class Piece:
    """Laws of a row's cells at one tilt, and of their sum.

    Attributes
    ----------
    tilt : float
    mean : float
        Of the sum.
    weights : array, shape (cells, width)
    length : int
        Of the circle on which their sums do not meet; 0 if partial sums would be too many, and
        then nothing else is known.
    bins : array
        Sums of the numbers of bins.
    sums : array of that shape
        What they are in counts.
    shares : array of that shape
        Their probabilities as shares of the largest.
    logs : array of that shape
        Logarithms of what the laws without the tilt sum to there.
    """

    tilt: float
    mean: float
    weights: np.ndarray
    length: int = 0
    bins: np.ndarray = field(default_factory=_none)
    sums: np.ndarray = field(default_factory=_none)
    shares: np.ndarray = field(default_factory=_none)
    logs: np.ndarray = field(default_factory=_none)


@dataclass(frozen=True)
class SumLaw:
    """The law of a row's sum.

    Attributes
    ----------
    pieces : sequence of Piece
    bins : array
        Sums of the numbers of bins.
    sums : array of that shape
        What they are in counts.
    chances : array of that shape
    which : array of int, of that shape
        The piece of which the largest share is there.
    """

    pieces: Sequence[Piece]
    bins: np.ndarray
    sums: np.ndarray
    chances: np.ndarray
    which: np.ndarray

    @property
    def kept(self) -> bool:
        """Whether there is more than a mean."""
        return bool(self.pieces[0].length)


def sum_law(row: Cells, tilt: float, log_weight: LogWeight) -> SumLaw:
    """Give the law of the sum of one row's cells, times a weight of it.

    Where partial sums would be too many, its mean at the tilt stands for it.
    """
    pieces = [_piece(row, tilt)]
    if not pieces[0].length:
        mean = np.array([pieces[0].mean])
        return SumLaw(pieces, np.zeros(1), mean, np.ones(1), np.zeros(1, int))
    law, right = _together(pieces, log_weight)
    for last in (-1, 0):
        for _ in range(MORE):
            at = np.flatnonzero(right)[last]
            if law.chances[at] < LIKELY * law.chances.max():
                break
            start = pieces[law.which[at]].tilt
            farther = float(match_sum(row, float(law.sums[at]), ROUGH, start)[0])
            if min(abs(farther - piece.tilt) for piece in pieces) < ROUGH * row.most_tilt[0]:
                break
            more = _piece(row, farther)
            if not more.length:
                break
            pieces.append(more)
            law, right = _together(pieces, log_weight)
    return law


def match_sums(rows: Iterable[SumLaw], total: float) -> float:
    """Give the tilt of all rows' sums at which their means add up to `total`, or come near."""
    known = []
    for law in rows:  # of a row no more is kept than this
        likely = law.chances > 0.0
        known.append((law.sums[likely], np.log(law.chances[likely])))
    tilt, best = 0.0, (np.inf, 0.0)
    for _ in range(NEWTON):
        mean = spread = 0.0
        for sums, logs in known:
            each = special.softmax(logs + tilt * sums)
            own = float(each @ sums)
            mean, spread = mean + own, spread + float(each @ (sums - own) ** 2)
        missing = total - mean
        last, best = best[0], min(best, (abs(missing), tilt))
        if spread <= 0.0 or not NEAR * total < abs(missing) < last:
            break
        sd = spread**0.5
        tilt += float(np.clip(missing / sd, -1.0, 1.0)) / sd
    return best[1]


def transform(law: np.ndarray, length: int) -> np.ndarray:
    """Fourier transform of a law on the circle."""
    wrapped = np.zeros(length)
    np.add.at(wrapped, np.arange(len(law)) % length, law)
    return np.asarray(fft.rfft(wrapped))


def circle(variance: float, cells: int, width: int) -> int:
    """Length of a circle on which sums that matter do not meet."""
    full = cells * (width - 1) + 1
    return int(fft.next_fast_len(min(full, int(2 * REACH * np.sqrt(variance)) + width + 1)))


def _piece(row: Cells, tilt: float) -> Piece:
    at = np.array([tilt])
    means, variances, masses = row.moments(at)
    weights = row.probabilities(at)[0]
    weights = weights[:, : np.flatnonzero(weights.max(axis=0) > LEAST)[-1] + 1]
    cells, width = weights.shape
    mean, step = float(means.sum()), int(row.step[0])
    length = circle(float(variances.sum()) / step**2, cells, width)
    if cells == 1 or length * cells > LARGEST:
        return Piece(tilt, mean, weights)
    product = np.prod([transform(law, length) for law in weights], axis=0)
    law = np.maximum(fft.irfft(product, length), 0.0)
    center = int((weights @ np.arange(width)).sum())
    bins = np.arange(center - length // 2, center - length // 2 + length)
    bins = bins[(bins >= 0) & (bins <= cells * (width - 1))]
    sums = row.low[0].sum() + step * bins + 0.5 * cells * (step - 1)
    sums = sums + weights[:, 0] @ row.shift[0]
    law = np.where(law < ROUNDING * law.max(), 0.0, law)[bins % length]  # far weights may be huge
    with np.errstate(divide="ignore"):
        logs = np.log(law) + float(masses.sum()) - tilt * sums
    return Piece(tilt, mean, weights, length, bins, sums, law / law.max(), logs)


def _together(pieces: Sequence[Piece], log_weight: LogWeight) -> tuple[SumLaw, np.ndarray]:
    """Put the laws at several tilts together, and say where they are right."""
    first = min(piece.bins[0] for piece in pieces)
    bins = np.arange(first, max(piece.bins[-1] for piece in pieces) + 1)
    share, logs = np.full(len(bins), -1.0), np.full(len(bins), -np.inf)
    sums, which = np.zeros(len(bins)), np.zeros(len(bins), int)
    for k, piece in enumerate(pieces):
        here = slice(piece.bins[0] - first, piece.bins[-1] - first + 1)
        better = piece.shares > share[here]
        for values, new in (
            (share, piece.shares), (logs, piece.logs), (sums, piece.sums), (which, k)
        ):  # fmt: skip
            values[here] = np.where(better, new, values[here])
    seen = share >= 0.0
    bins, sums, which, share = bins[seen], sums[seen], which[seen], share[seen]
    logs = logs[seen] + log_weight(sums)
    if not np.isfinite(logs).any():  # a sum out of reach: the nearest that is not
        logs = -np.abs(sums - pieces[0].mean)
    return SumLaw(pieces, bins, sums, special.softmax(logs), which), share >= EDGE
