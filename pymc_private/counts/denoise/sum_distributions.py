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
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft, special

from pymc_private.counts.denoise.cell_distributions import CellDistributions, draw_within_bin
from pymc_private.counts.denoise.saddlepoint import match_row_sums

MAX_PARTIAL_SUMS = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little of one cell."""
CIRCLE_DEVIATIONS = 9.0
ROUNDING = 1e-13
"""Shares of a law of sums that transforms do not tell from 0."""
LEAST_PROBABILITY = 1e-17
"""Probabilities of bins beyond which a row's laws are cut off."""
RELIABLE_SHARE, LIKELY_SHARE = 1e-8, 1e-5
"""Shares of a law of sums at one tilt down to which it is right; shares of the likeliest sum from
which on one must be."""
MAX_EXTRA_TILTS, EXTRA_TILT_TOLERANCE = 8, 1e-2
"""Most tilts besides, above and below; how near they are found, as a share of the largest."""
NEWTON_STEPS, TOTAL_TOLERANCE = 50, 1e-4
"""Steps of a search for the tilt of all sums; the share of their total that may well be missing."""

LogWeight = Callable[[np.ndarray], np.ndarray]
"""Sums to the logarithm of their weight."""


def _empty() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class TiltedRow:
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
    bins: np.ndarray = field(default_factory=_empty)
    sums: np.ndarray = field(default_factory=_empty)
    shares: np.ndarray = field(default_factory=_empty)
    logs: np.ndarray = field(default_factory=_empty)


@dataclass(frozen=True)
class SumDistribution:
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

    pieces: Sequence[TiltedRow]
    bins: np.ndarray
    sums: np.ndarray
    chances: np.ndarray
    which: np.ndarray

    @property
    def kept(self) -> bool:
        """Whether there is more than a mean."""
        return bool(self.pieces[0].length)


def sum_distribution(row: CellDistributions, tilt: float, log_weight: LogWeight) -> SumDistribution:
    """Give the law of the sum of one row's cells, times a weight of it.

    Where partial sums would be too many, its mean at the tilt stands for it.
    """
    pieces = [_tilted_row(row, tilt)]
    if not pieces[0].length:
        mean = np.array([pieces[0].mean])
        return SumDistribution(pieces, np.zeros(1), mean, np.ones(1), np.zeros(1, int))
    law, right = _combine_tilts(pieces, log_weight)
    for last in (-1, 0):
        for _ in range(MAX_EXTRA_TILTS):
            at = np.flatnonzero(right)[last]
            if law.chances[at] < LIKELY_SHARE * law.chances.max():
                break
            start = pieces[law.which[at]].tilt
            farther = float(
                match_row_sums(row, float(law.sums[at]), EXTRA_TILT_TOLERANCE, start)[0]
            )
            if (
                min(abs(farther - piece.tilt) for piece in pieces)
                < EXTRA_TILT_TOLERANCE * row.most_tilt[0]
            ):
                break
            more = _tilted_row(row, farther)
            if not more.length:
                break
            pieces.append(more)
            law, right = _combine_tilts(pieces, log_weight)
    return law


def match_total_of_sums(rows: Iterable[SumDistribution], total: float) -> float:
    """Give the tilt of all rows' sums at which their means add up to `total`, or come near."""
    known = []
    for law in rows:  # of a row no more is kept than this
        likely = law.chances > 0.0
        known.append((law.sums[likely], np.log(law.chances[likely])))
    tilt, best = 0.0, (np.inf, 0.0)
    for _ in range(NEWTON_STEPS):
        mean = spread = 0.0
        for sums, logs in known:
            each = special.softmax(logs + tilt * sums)
            own = float(each @ sums)
            mean, spread = mean + own, spread + float(each @ (sums - own) ** 2)
        missing = total - mean
        last, best = best[0], min(best, (abs(missing), tilt))
        if spread <= 0.0 or not TOTAL_TOLERANCE * total < abs(missing) < last:
            break
        sd = spread**0.5
        tilt += float(np.clip(missing / sd, -1.0, 1.0)) / sd
    return best[1]


def fourier_transform(law: np.ndarray, length: int) -> np.ndarray:
    """Fourier transform of a law on the circle."""
    wrapped = np.zeros(length)
    np.add.at(wrapped, np.arange(len(law)) % length, law)
    return np.asarray(fft.rfft(wrapped))


def circle_length(variance: float, cells: int, width: int) -> int:
    """Length of a circle on which sums that matter do not meet."""
    full = cells * (width - 1) + 1
    return int(
        fft.next_fast_len(min(full, int(2 * CIRCLE_DEVIATIONS * np.sqrt(variance)) + width + 1))
    )


def _tilted_row(row: CellDistributions, tilt: float) -> TiltedRow:
    at = np.array([tilt])
    means, variances, masses = row.moments(at)
    weights = row.probabilities(at)[0]
    weights = weights[:, : np.flatnonzero(weights.max(axis=0) > LEAST_PROBABILITY)[-1] + 1]
    cells, width = weights.shape
    mean, step = float(means.sum()), int(row.step[0])
    length = circle_length(float(variances.sum()) / step**2, cells, width)
    if cells == 1 or length * cells > MAX_PARTIAL_SUMS:
        return TiltedRow(tilt, mean, weights)
    product = np.prod([fourier_transform(law, length) for law in weights], axis=0)
    law = np.maximum(fft.irfft(product, length), 0.0)
    center = int((weights @ np.arange(width)).sum())
    bins = np.arange(center - length // 2, center - length // 2 + length)
    bins = bins[(bins >= 0) & (bins <= cells * (width - 1))]
    sums = row.low[0].sum() + step * bins + 0.5 * cells * (step - 1)
    sums = sums + weights[:, 0] @ row.shift[0]
    law = np.where(law < ROUNDING * law.max(), 0.0, law)[bins % length]  # far weights may be huge
    with np.errstate(divide="ignore"):
        logs = np.log(law) + float(masses.sum()) - tilt * sums
    return TiltedRow(tilt, mean, weights, length, bins, sums, law / law.max(), logs)


def _combine_tilts(
    pieces: Sequence[TiltedRow], log_weight: LogWeight
) -> tuple[SumDistribution, np.ndarray]:
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
    return SumDistribution(
        pieces, bins, sums, special.softmax(logs), which
    ), share >= RELIABLE_SHARE


LogWeights = Callable[[int], LogWeight]
"""Row to the logarithm of the weight of its sums."""


def draw_given_sums(
    laws: CellDistributions,
    tilt: np.ndarray,
    log_weights: LogWeights,
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw the counts of every row from their laws times a weight of the row's sum.

    Parameters
    ----------
    laws : Cells
    tilt : array, shape (rows,)
        Where the laws are centered for the computation; the draws do not depend on it.
    log_weights : LogWeights
    draws : int
    generator : numpy.random.Generator
        What is drawn from is private already: any generator serves.

    Returns
    -------
    array of int, shape (draws, rows, d)
    """
    out = np.empty((draws, *laws.low.shape), dtype=np.int64)
    for row in range(len(laws.low)):
        law = sum_distribution(laws.row(row), float(tilt[row]), log_weights(row))
        out[:, row] = _draw_bins(law, draws, generator)
    return laws.low + laws.step[:, None] * out + _draw_within_bins(laws, out, generator)


def partial_sums_fit(laws: CellDistributions, tilt: np.ndarray, times: int) -> bool:
    """Whether partial sums of every row can be kept on so many times finer bins."""
    step = np.maximum(laws.step // times, 1)
    variances = laws.moments(tilt)[1].sum(axis=1) / step.astype(float) ** 2
    cells, width = laws.logs.shape[1:]
    widths = np.ceil(width * laws.step / step).astype(int)
    lengths = [
        circle_length(float(v), cells, int(w)) for v, w in zip(variances, widths, strict=True)
    ]
    return cells == 1 or cells * max(lengths) <= MAX_PARTIAL_SUMS


def _draw_bins(law: SumDistribution, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the bins of a row's cells, shape (draws, cells)."""
    if not law.kept:
        return _draw_independently(law.pieces[0].weights, draws, generator)
    drawn = generator.choice(len(law.bins), size=draws, p=law.chances)
    out = np.empty((draws, len(law.pieces[0].weights)), dtype=np.int64)
    for k, piece in enumerate(law.pieces):
        at = np.flatnonzero(law.which[drawn] == k)
        if len(at):
            out[at] = _backward_sampling(piece, law.bins[drawn[at]], generator)
    return out


def _draw_within_bins(
    laws: CellDistributions, bins: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Places within the bins: level, but in a first bin of small counts as the prior says."""
    step = laws.step[:, None]
    found = generator.integers(0, np.broadcast_to(step, bins.shape))
    prior = np.broadcast_to(laws.prior, laws.low.shape)
    for row, cell in np.argwhere(laws.steep):
        at = np.flatnonzero(bins[:, row, cell] == 0)
        uniform = generator.random(len(at))
        of = int(laws.low[row, cell]), int(laws.step[row]), float(prior[row, cell])
        found[at, row, cell] = draw_within_bin(*of, uniform)
    return np.asarray(found)


def _partial_sums(piece: TiltedRow) -> np.ndarray:
    """Laws of the sums of the first 1, 2, ... cells on the circle, shape (cells, length)."""
    partial = np.empty((len(piece.weights), piece.length))
    product = np.ones(piece.length // 2 + 1, dtype=complex)
    for i, law in enumerate(piece.weights):
        product = product * fourier_transform(law, piece.length)
        partial[i] = np.maximum(fft.irfft(product, piece.length), 0.0)
    return partial


def _backward_sampling(
    piece: TiltedRow, sums: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Draw cells whose bins add up to these sums, the last cell first."""
    weights, partial, length = piece.weights, _partial_sums(piece), piece.length
    cells, width = weights.shape
    out = np.empty((len(sums), cells), dtype=np.int64)
    left, around = sums.astype(np.int64), -np.arange(length + width - 1) % length
    for i in range(cells - 1, 0, -1):
        # Row k of the view is how likely the others leave -k, -k - 1, ...: one copy for each draw.
        others = sliding_window_view(partial[i - 1][around], width)
        chance = weights[i] * others[-left % length]
        out[:, i] = _draw_indices(chance, generator)
        left = left - out[:, i]
    out[:, 0] = np.clip(left, 0, width - 1)
    return out


def _draw_independently(
    weights: np.ndarray, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw cells without regard to each other."""
    return np.stack(
        [_draw_indices(np.broadcast_to(w, (draws, len(w))), generator) for w in weights], 1
    )


def _draw_indices(chance: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one index per row of weights."""
    upto = np.cumsum(chance, axis=1)
    target = generator.random((len(chance), 1)) * upto[:, -1:]
    return np.asarray(np.minimum((upto < target).sum(axis=1), chance.shape[1] - 1))
