"""Laws of rows' sums, by Fourier transforms of their cells' laws at one tilt or at several.

At one tilt a transform tells the sums near the mean there, up to some six standard deviations. What
is known of a sum may well reach farther: then its law is put together from several tilts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from pymc_private.mechanisms.tables.cells import Cells
from pymc_private.mechanisms.tables.matching import match_sum

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
MORE = 8
"""Most tilts besides, above and below."""
NEWTON, NEAR = 50, 1e-4
"""Steps of a search for the tilt of all sums; the share of their total that may be missing."""

LogWeight = Callable[[np.ndarray], np.ndarray]
"""Sums to the logarithm of their weight."""


@dataclass(frozen=True)
class Piece:
    """Laws of a row's cells at one tilt.

    Attributes
    ----------
    tilt : float
    weights : array, shape (cells, bins)
    length : int
        Of the circle on which their sums do not meet; 0 if partial sums would be too many.
    """

    tilt: float
    weights: np.ndarray
    length: int

    @property
    def center(self) -> int:
        """Mean of the sum of bins."""
        return int((self.weights @ np.arange(self.weights.shape[1])).sum())


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
        The piece whose mean is next.
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
        mean = row.moments(np.array([tilt]))[0].sum(keepdims=True).ravel()
        return SumLaw(pieces, np.zeros(1), mean, np.ones(1), np.zeros(1, int))
    law, right = _together(row, pieces, log_weight)
    for last in (-1, 0):
        for _ in range(MORE):
            at = np.flatnonzero(right)[last]
            if law.chances[at] < LIKELY * law.chances.max():
                break
            farther = float(match_sum(row, float(law.sums[at]))[0])
            if min(abs(farther - piece.tilt) for piece in pieces) < 1e-3 * row.most_tilt[0]:
                break
            pieces.append(_piece(row, farther))
            if not pieces[-1].length:
                pieces.pop()
                break
            law, right = _together(row, pieces, log_weight)
    return law


def match_sums(rows: Sequence[SumLaw], total: float) -> float:
    """Give the tilt of all rows' sums at which their means add up to `total`, or come near."""
    kept = [law.chances > 0.0 for law in rows]
    known = [(law.sums[k], np.log(law.chances[k])) for law, k in zip(rows, kept, strict=True)]
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
    weights = row.probabilities(at)[0]
    weights = weights[:, : np.flatnonzero(weights.max(axis=0) > LEAST)[-1] + 1]
    variance = float(row.moments(at)[1].sum()) / float(row.step[0]) ** 2
    length = circle(variance, *weights.shape)
    few = len(weights) > 1 and length * len(weights) <= LARGEST
    return Piece(tilt, weights, length if few else 0)


def _together(
    row: Cells, pieces: Sequence[Piece], log_weight: LogWeight
) -> tuple[SumLaw, np.ndarray]:
    """Put the laws at several tilts together, and say where they are right."""
    own = [_masses(piece) for piece in pieces]
    first = min(bins[0] for bins, _, _ in own)
    bins = np.arange(first, max(bins[-1] for bins, _, _ in own) + 1)
    share, logs = np.full(len(bins), -1.0), np.full(len(bins), -np.inf)
    sums, which = np.zeros(len(bins)), np.zeros(len(bins), int)
    for k, (piece, (there, law, top)) in enumerate(zip(pieces, own, strict=True)):
        here = slice(there[0] - first, there[-1] - first + 1)
        better = law > share[here]
        counts = _counts(row, piece, there)
        top += float(row.moments(np.array([piece.tilt]))[2].sum())
        with np.errstate(divide="ignore"):
            own_logs = np.log(law) + top - piece.tilt * counts
        for values, new in ((share, law), (logs, own_logs), (sums, counts), (which, k)):
            values[here] = np.where(better, new, values[here])
    seen = share >= 0.0
    bins, sums, which, share = bins[seen], sums[seen], which[seen], share[seen]
    logs = logs[seen] + log_weight(sums)
    if not np.isfinite(logs).any():  # a sum out of reach: the nearest that is not
        logs = -np.abs(bins - pieces[0].center).astype(float)
    return SumLaw(pieces, bins, sums, special.softmax(logs), which), share >= EDGE


def _masses(piece: Piece) -> tuple[np.ndarray, np.ndarray, float]:
    """Sums of bins, their probabilities as shares of the largest, and its logarithm."""
    product = np.prod([transform(law, piece.length) for law in piece.weights], axis=0)
    law = np.maximum(fft.irfft(product, piece.length), 0.0)
    top = law.max()
    law = np.where(law < ROUNDING * top, 0.0, law / top)  # weights of far sums may be huge
    start = piece.center - piece.length // 2
    bins = np.arange(start, start + piece.length)
    bins = bins[(bins >= 0) & (bins <= len(piece.weights) * (piece.weights.shape[1] - 1))]
    return bins, law[bins % piece.length], float(np.log(top))


def _counts(row: Cells, piece: Piece, bins: np.ndarray) -> np.ndarray:
    step, cells = int(row.step[0]), len(piece.weights)
    first = row.low[0].sum() + piece.weights[:, 0] @ row.shift[0]
    return np.asarray(first + step * bins + 0.5 * cells * (step - 1))
