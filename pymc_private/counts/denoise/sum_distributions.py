"""Distributions of row sums by Fourier transform, and exact draws of cells given their sum.

At one exponential tilt a transform resolves the sums near the mean there, up to some six standard
deviations. What is known of a sum may reach farther: then its distribution is put together from
several tilts. Cells given their sum are drawn by dynamic programming over partial sums: forward
convolution, then backward sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from pymc_private.counts.denoise.lattices import Lattice, NoisyRow
from pymc_private.counts.denoise.saddlepoint import match_row_sums

MAX_PARTIAL_SUMS = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little about one cell."""
MAX_NUMBERS_AT_ONCE = 2**22
"""Numbers in the distributions of cells that are drawn without regard to their sum."""
CIRCLE_DEVIATIONS = 9.0
"""Standard deviations of a sum, to either side, that circular convolution keeps apart."""
ROUNDING = 1e-13
"""Share of the largest probability of a sum below which a transform gives rounding errors."""
MIN_PROBABILITY = 1e-17
"""Bins beyond the last of this probability are cut off."""
RELIABLE_SHARE, LIKELY_SHARE = 1e-8, 1e-5
"""Share of the largest probability down to which the distribution at one tilt is accurate; share of
the likeliest sum from which on it has to be."""
MAX_EXTRA_TILTS, EXTRA_TILT_TOLERANCE = 8, 1e-2
"""Most further tilts above and below; how exactly they are found, as a share of the largest."""
NEWTON_STEPS, TOTAL_TOLERANCE = 50, 1e-4
"""Steps of a search for the tilt common to all sums; share of their total that may be missing."""

LogWeight = Callable[[np.ndarray], np.ndarray]
"""Log weights of sums."""


class TiltedSum(NamedTuple):
    """The distribution of a row's sum at one tilt, and those of its cells.

    `weights` are probabilities of the cells' bins, shape (cells, width), and `length` is that of
    the circular convolution. Sums have numbers `bins` and are `sums` in counts; `shares` are their
    probabilities relative to the largest, and `logs` their log weights without the tilt.
    """

    tilt: float
    weights: np.ndarray
    length: int
    bins: np.ndarray
    sums: np.ndarray
    shares: np.ndarray
    logs: np.ndarray


class SumDistribution(NamedTuple):
    """The distribution of a row's sum, put together from several tilts.

    Sums have numbers `bins` and are `sums` in counts. `piece` is the tilt that is most accurate
    there, and `accurate` says whether even that one is.
    """

    pieces: Sequence[TiltedSum]
    bins: np.ndarray
    sums: np.ndarray
    probabilities: np.ndarray
    piece: np.ndarray
    accurate: np.ndarray


# ---- distributions of sums ------------------------------------------------------------------


def fitting_lattice(row: NoisyRow, mean_sum: float, sum_variance: float) -> Lattice | None:
    """The row on bins as fine as its partial sums allow; None if they are too many, or one cell."""
    cells, span = len(row.noisy), row.span
    for step in row.steps(mean_sum) if cells > 1 else ():
        length = _circle_length(sum_variance / step**2, cells, int(span / step) + 2)
        if cells * length <= MAX_PARTIAL_SUMS:
            return row.lattice(step)
    return None


def sum_distribution(lattice: Lattice, tilt: float, log_weight: LogWeight) -> SumDistribution:
    """The distribution of the sum of one row's cells, times a weight of it.

    Tilts are added until the distribution is accurate wherever it is likely.
    """
    cells = lattice.cells
    found = _combine_tilts([_tilted_sum(lattice, tilt)], log_weight)
    for last in (-1, 0):
        for _ in range(MAX_EXTRA_TILTS):
            at = np.flatnonzero(found.accurate)[last]
            if found.probabilities[at] < LIKELY_SHARE * found.probabilities.max():
                break
            start, target = found.pieces[found.piece[at]].tilt, float(found.sums[at])
            farther = float(match_row_sums(cells, target, EXTRA_TILT_TOLERANCE, start)[0])
            nearest = min(abs(farther - piece.tilt) for piece in found.pieces)
            if nearest < EXTRA_TILT_TOLERANCE * cells.max_tilt[0]:
                break
            more = _tilted_sum(lattice, farther)
            if more.length * len(more.weights) > MAX_PARTIAL_SUMS:
                break
            found = _combine_tilts([*found.pieces, more], log_weight)
    return found


def _tilted_sum(lattice: Lattice, tilt: float) -> TiltedSum:
    """The distribution of a row's sum at one tilt."""
    at, step, grid = np.array([tilt]), lattice.step, lattice.cells
    _, variances, masses = grid.moments(at)
    weights = grid.probabilities(at)[0]
    weights = weights[:, : np.flatnonzero(weights.max(axis=0) > MIN_PROBABILITY)[-1] + 1]
    cells, width = weights.shape
    length = _circle_length(float(variances.sum()) / step**2, cells, width)
    product = np.prod([_fourier_transform(cell, length) for cell in weights], axis=0)
    chance = np.maximum(scipy.fft.irfft(product, length), 0.0)
    bins = int((weights @ np.arange(width)).sum()) - length // 2 + np.arange(length)
    bins = bins[(bins >= 0) & (bins <= cells * (width - 1))]
    middles = lattice.low + 0.5 * (step - 1)
    sums = middles.sum() + step * bins + weights[:, 0] @ (grid.low[0] - middles)
    # Rounding errors are 0: far from the mean, weights may be huge.
    chance = np.where(chance < ROUNDING * chance.max(), 0.0, chance)[bins % length]
    with np.errstate(divide="ignore"):
        logs = np.log(chance) + float(masses.sum()) - tilt * sums
    return TiltedSum(tilt, weights, length, bins, sums, chance / chance.max(), logs)


def _combine_tilts(pieces: Sequence[TiltedSum], log_weight: LogWeight) -> SumDistribution:
    """The distribution by the most accurate tilt at each sum."""
    bins, sums, shares, logs = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("bins", "sums", "shares", "logs")
    )
    piece = np.repeat(np.arange(len(pieces)), [len(own.bins) for own in pieces])
    order = np.lexsort((-shares, bins))
    best = order[np.flatnonzero(np.diff(bins[order], prepend=-1))]  # the first one of each sum
    bins, sums, shares, logs, piece = (v[best] for v in (bins, sums, shares, logs, piece))
    logs = logs + log_weight(sums)
    if not np.isfinite(logs).any():  # the known sum is out of reach: take the nearest
        logs = -np.abs(sums - sums[shares.argmax()])
    return SumDistribution(
        pieces, bins, sums, special.softmax(logs), piece, shares >= RELIABLE_SHARE
    )


def _circle_length(variance: float, cells: int, width: int) -> int:
    """Length of a circle on which sums of relevant probability do not overlap."""
    likely = int(2 * CIRCLE_DEVIATIONS * np.sqrt(variance)) + width + 1
    return int(scipy.fft.next_fast_len(min(cells * (width - 1) + 1, likely)))


def _fourier_transform(weights: np.ndarray, length: int) -> np.ndarray:
    """Fourier transform of a distribution wrapped around a circle."""
    wrapped = np.bincount(np.arange(len(weights)) % length, weights, length)
    return np.asarray(scipy.fft.rfft(wrapped))


def match_total_of_sums(rows: Iterable[tuple[np.ndarray, np.ndarray]], total: float) -> float:
    """The tilt common to all rows' sums at which their means add up to `total`, or come near.

    A row is given as its sums and their probabilities.
    """
    known = [(sums[chance > 0.0], np.log(chance[chance > 0.0])) for sums, chance in rows]
    tilt, best = 0.0, (np.inf, 0.0)
    for _ in range(NEWTON_STEPS):
        mean = variance = 0.0
        for sums, logs in known:
            each = special.softmax(logs + tilt * sums)
            own = float(each @ sums)
            mean, variance = mean + own, variance + float(each @ (sums - own) ** 2)
        missing = total - mean
        last, best = best[0], min(best, (abs(missing), tilt))
        if variance <= 0.0 or not TOTAL_TOLERANCE * total < abs(missing) < last:
            break
        sd = variance**0.5
        tilt += float(np.clip(missing / sd, -1.0, 1.0)) / sd
    return best[1]


# ---- draws ----------------------------------------------------------------------------------


def draw_given_sum(
    lattice: Lattice, found: SumDistribution, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Counts of a row's cells, drawn by the distribution of their sum: shape (draws, cells)."""
    drawn = generator.choice(len(found.bins), size=draws, p=found.probabilities)
    out = np.empty((draws, len(lattice.low)), dtype=np.int64)
    for k, piece in enumerate(found.pieces):
        at = np.flatnonzero(found.piece[drawn] == k)
        if len(at):
            out[at] = _backward_sampling(piece, found.bins[drawn[at]], generator)
    return lattice.draw_within_bins(out, generator)


def draw_independently(
    row: NoisyRow, tilt: float, mean_sum: float, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Counts of a row's cells at one tilt, without regard to their sum: shape (draws, cells)."""
    step = row.steps(mean_sum)[-1]
    found = []
    for part in row.parts(max(1, int(MAX_NUMBERS_AT_ONCE * step / row.span))):
        lattice = part.lattice(step)
        upto = lattice.cells.probabilities(np.array([tilt]))[0].cumsum(axis=1)
        bins = [np.searchsorted(own, generator.random(draws) * own[-1]) for own in upto]
        found.append(lattice.draw_within_bins(np.stack(bins, axis=1), generator))
    return np.concatenate(found, axis=1)


def _backward_sampling(
    piece: TiltedSum, sums: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Draw cells whose bin numbers add up to these sums, the last cell first."""
    weights, partial, length = piece.weights, _partial_sums(piece), piece.length
    cells, width = weights.shape
    out = np.empty((len(sums), cells), dtype=np.int64)
    left, around = sums.astype(np.int64), -np.arange(length + width - 1) % length
    for i in range(cells - 1, 0, -1):
        # Row k of the view: how likely the other cells add up to -k, -k - 1, ... on the circle.
        others = sliding_window_view(partial[i - 1][around], width)
        out[:, i] = draw_indices(weights[i] * others[-left % length], generator)
        left = left - out[:, i]
    out[:, 0] = np.clip(left, 0, width - 1)
    return out


def _partial_sums(piece: TiltedSum) -> np.ndarray:
    """Circular distributions of the sums of the first 1, 2, ... cells: shape (cells, length)."""
    partial = np.empty((len(piece.weights), piece.length))
    product = np.ones(piece.length // 2 + 1, dtype=complex)
    for i, cell in enumerate(piece.weights):
        product = product * _fourier_transform(cell, piece.length)
        partial[i] = np.maximum(scipy.fft.irfft(product, piece.length), 0.0)
    return partial


def draw_indices(chance: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one index per row of weights."""
    upto = np.cumsum(chance, axis=1)
    target = generator.random((len(chance), 1)) * upto[:, -1:]
    return np.asarray(np.minimum((upto < target).sum(axis=1), chance.shape[1] - 1))
