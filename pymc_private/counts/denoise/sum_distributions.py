"""Distributions of row sums by Fourier transform, and exact draws of cells given their sum.

At one exponential tilt a transform resolves the sums near the mean there, up to some six
standard deviations. What is known of a sum may reach farther: then its distribution is put
together from several tilts. Draws of integer cells whose sum is known are exact: forward
convolution, then backward sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from pymc_private.counts.denoise.cell_distributions import CellDistributions, draw_within_bin
from pymc_private.counts.denoise.saddlepoint import match_row_sums

MAX_PARTIAL_SUMS = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little about one cell."""
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
LogWeights = Callable[[int], LogWeight]
"""The log weight of sums of each row, by its number."""


def _empty() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class TiltedRow:
    """Distributions of a row's cells at one tilt, and of their sum.

    Attributes
    ----------
    tilt : float
    mean : float
        Of the sum.
    weights : array, shape (cells, width)
        Probabilities of the cells' bins.
    length : int
        Of the circular convolution; 0 if partial sums would be too many, and then the sum is
        known by its mean only.
    bins : array
        Sums of the cells' bin numbers.
    sums : array of that shape
        The same in counts.
    shares : array of that shape
        Their probabilities relative to the largest.
    logs : array of that shape
        Log weights of the sums without the tilt.
    """

    tilt: float
    mean: float
    weights: np.ndarray
    length: int = 0
    bins: np.ndarray = field(default_factory=_empty)
    sums: np.ndarray = field(default_factory=_empty)
    shares: np.ndarray = field(default_factory=_empty)
    logs: np.ndarray = field(default_factory=_empty)


@dataclass(frozen=True)
class SumDistribution:
    """The distribution of a row's sum, put together from several tilts.

    Attributes
    ----------
    pieces : sequence of TiltedRow
    bins : array
        Sums of the cells' bin numbers.
    sums : array of that shape
        The same in counts.
    probabilities : array of that shape
    piece_index : array of int, of that shape
        The piece that is most accurate there.
    """

    pieces: Sequence[TiltedRow]
    bins: np.ndarray
    sums: np.ndarray
    probabilities: np.ndarray
    piece_index: np.ndarray

    @property
    def resolved(self) -> bool:
        """Whether more than the mean is known."""
        return bool(self.pieces[0].length)


def sum_distribution(row: CellDistributions, tilt: float, log_weight: LogWeight) -> SumDistribution:
    """The distribution of the sum of one row's cells, times a weight of it.

    Where partial sums would be too many, the mean at the tilt stands for it. Tilts are added until
    the distribution is accurate wherever it is likely.
    """
    pieces = [_tilted_row(row, tilt)]
    if not pieces[0].length:
        mean = np.array([pieces[0].mean])
        return SumDistribution(pieces, np.zeros(1), mean, np.ones(1), np.zeros(1, int))
    found, accurate = _combine_tilts(pieces, log_weight)
    for last in (-1, 0):
        for _ in range(MAX_EXTRA_TILTS):
            at = np.flatnonzero(accurate)[last]
            if found.probabilities[at] < LIKELY_SHARE * found.probabilities.max():
                break
            start, target = pieces[found.piece_index[at]].tilt, float(found.sums[at])
            farther = float(match_row_sums(row, target, EXTRA_TILT_TOLERANCE, start)[0])
            nearest = min(abs(farther - piece.tilt) for piece in pieces)
            if nearest < EXTRA_TILT_TOLERANCE * row.max_tilt[0]:
                break
            more = _tilted_row(row, farther)
            if not more.length:
                break
            pieces.append(more)
            found, accurate = _combine_tilts(pieces, log_weight)
    return found


def _tilted_row(row: CellDistributions, tilt: float) -> TiltedRow:
    """The distribution of a row's sum at one tilt."""
    at = np.array([tilt])
    means, variances, masses = row.moments(at)
    weights = row.probabilities(at)[0]
    weights = weights[:, : np.flatnonzero(weights.max(axis=0) > MIN_PROBABILITY)[-1] + 1]
    cells, width = weights.shape
    mean, step = float(means.sum()), int(row.step[0])
    length = circle_length(float(variances.sum()) / step**2, cells, width)
    if cells == 1 or length * cells > MAX_PARTIAL_SUMS:
        return TiltedRow(tilt, mean, weights)
    product = np.prod([fourier_transform(cell, length) for cell in weights], axis=0)
    chance = np.maximum(scipy.fft.irfft(product, length), 0.0)
    center = int((weights @ np.arange(width)).sum())
    bins = np.arange(center - length // 2, center - length // 2 + length)
    bins = bins[(bins >= 0) & (bins <= cells * (width - 1))]
    sums = row.low[0].sum() + step * bins + 0.5 * cells * (step - 1)
    sums = sums + weights[:, 0] @ row.shift[0]
    # Rounding errors are 0: far from the mean, weights may be huge.
    chance = np.where(chance < ROUNDING * chance.max(), 0.0, chance)[bins % length]
    with np.errstate(divide="ignore"):
        logs = np.log(chance) + float(masses.sum()) - tilt * sums
    return TiltedRow(tilt, mean, weights, length, bins, sums, chance / chance.max(), logs)


def _combine_tilts(
    pieces: Sequence[TiltedRow], log_weight: LogWeight
) -> tuple[SumDistribution, np.ndarray]:
    """The distribution by the most accurate tilt at each sum, and where that is accurate."""
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
    if not np.isfinite(logs).any():  # the known sum is out of reach: take the nearest
        logs = -np.abs(sums - pieces[0].mean)
    return SumDistribution(
        pieces, bins, sums, special.softmax(logs), which
    ), share >= RELIABLE_SHARE


def circle_length(variance: float, cells: int, width: int) -> int:
    """Length of a circle on which sums of relevant probability do not overlap."""
    full = cells * (width - 1) + 1
    return int(
        scipy.fft.next_fast_len(
            min(full, int(2 * CIRCLE_DEVIATIONS * np.sqrt(variance)) + width + 1)
        )
    )


def fourier_transform(weights: np.ndarray, length: int) -> np.ndarray:
    """Fourier transform of a distribution wrapped around a circle."""
    wrapped = np.zeros(length)
    np.add.at(wrapped, np.arange(len(weights)) % length, weights)
    return np.asarray(scipy.fft.rfft(wrapped))


def match_total_of_sums(rows: Iterable[SumDistribution], total: float) -> float:
    """The tilt common to all rows' sums at which their means add up to `total`, or come near."""
    known = []
    for row in rows:  # no more of a row is kept in memory
        likely = row.probabilities > 0.0
        known.append((row.sums[likely], np.log(row.probabilities[likely])))
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


def draw_given_sums(
    cells: CellDistributions,
    tilt: np.ndarray,
    log_weights: LogWeights,
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw the counts of every row given a weight of the row's sum: shape (draws, rows, d).

    The tilt of each row centers the computation; the draws do not depend on it. This is
    post-processing of noisy counts, so any generator serves.
    """
    out = np.empty((draws, *cells.low.shape), dtype=np.int64)
    for row in range(len(cells.low)):
        found = sum_distribution(cells.row(row), float(tilt[row]), log_weights(row))
        out[:, row] = _draw_bins(found, draws, generator)
    return cells.low + cells.step[:, None] * out + _draw_within_bins(cells, out, generator)


def partial_sums_fit(cells: CellDistributions, tilt: np.ndarray, times: int) -> bool:
    """Whether partial sums of every row fit the memory on bins that many times finer."""
    step = np.maximum(cells.step // times, 1)
    variances = cells.moments(tilt)[1].sum(axis=1) / step.astype(float) ** 2
    d, width = cells.log_weights.shape[1:]
    widths = np.ceil(width * cells.step / step).astype(int)
    lengths = [circle_length(float(v), d, int(w)) for v, w in zip(variances, widths, strict=True)]
    return d == 1 or d * max(lengths) <= MAX_PARTIAL_SUMS


def _draw_bins(row: SumDistribution, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the bins of a row's cells, shape (draws, cells)."""
    if not row.resolved:
        return _draw_independently(row.pieces[0].weights, draws, generator)
    drawn = generator.choice(len(row.bins), size=draws, p=row.probabilities)
    out = np.empty((draws, len(row.pieces[0].weights)), dtype=np.int64)
    for k, piece in enumerate(row.pieces):
        at = np.flatnonzero(row.piece_index[drawn] == k)
        if len(at):
            out[at] = _backward_sampling(piece, row.bins[drawn[at]], generator)
    return out


def _draw_within_bins(
    cells: CellDistributions, bins: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Draw offsets within bins: uniform, but from the prior in a first bin near 0."""
    step = cells.step[:, None]
    found = generator.integers(0, np.broadcast_to(step, bins.shape))
    prior = np.broadcast_to(cells.prior, cells.low.shape)
    for row, cell in np.argwhere(cells.near_zero):
        at = np.flatnonzero(bins[:, row, cell] == 0)
        uniform = generator.random(len(at))
        low, width = int(cells.low[row, cell]), int(cells.step[row])
        found[at, row, cell] = draw_within_bin(low, width, float(prior[row, cell]), uniform)
    return np.asarray(found)


def _backward_sampling(
    piece: TiltedRow, sums: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Draw cells whose bin numbers add up to these sums, the last cell first."""
    weights, partial, length = piece.weights, _partial_sums(piece), piece.length
    cells, width = weights.shape
    out = np.empty((len(sums), cells), dtype=np.int64)
    left, around = sums.astype(np.int64), -np.arange(length + width - 1) % length
    for i in range(cells - 1, 0, -1):
        # Row k of the view: how likely the other cells add up to -k, -k - 1, ... on the circle.
        others = sliding_window_view(partial[i - 1][around], width)
        chance = weights[i] * others[-left % length]
        out[:, i] = draw_indices(chance, generator)
        left = left - out[:, i]
    out[:, 0] = np.clip(left, 0, width - 1)
    return out


def _partial_sums(piece: TiltedRow) -> np.ndarray:
    """Circular distributions of the sums of the first 1, 2, ... cells: shape (cells, length)."""
    partial = np.empty((len(piece.weights), piece.length))
    product = np.ones(piece.length // 2 + 1, dtype=complex)
    for i, cell in enumerate(piece.weights):
        product = product * fourier_transform(cell, piece.length)
        partial[i] = np.maximum(scipy.fft.irfft(product, piece.length), 0.0)
    return partial


def _draw_independently(
    weights: np.ndarray, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw the bins of cells without regard to their sum."""
    return np.stack(
        [draw_indices(np.broadcast_to(w, (draws, len(w))), generator) for w in weights], 1
    )


def draw_indices(chance: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one index per row of weights."""
    upto = np.cumsum(chance, axis=1)
    target = generator.random((len(chance), 1)) * upto[:, -1:]
    return np.asarray(np.minimum((upto < target).sum(axis=1), chance.shape[1] - 1))
