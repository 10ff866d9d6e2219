"""Exact draws of integer cells whose sum is known: forward convolution, backward sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft, special

from pymc_private.mechanisms.tables.cell_priors import counts_within
from pymc_private.mechanisms.tables.cells import Cells

LARGEST = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little of one cell."""
REACH = 9.0
ROUNDING = 1e-13
"""Shares of a law of sums that transforms do not tell from 0."""
LEAST = 1e-17
"""Probabilities of bins beyond which a row's laws are cut off."""
NEWTON, NEAR = 50, 1e-4
"""Steps of a search for the tilt of all sums; the share of their total that may be missing."""

LogSum = Callable[[int, np.ndarray], np.ndarray]
"""``(row, sums)`` to the logarithm of the weight of these sums."""
SumLaw = tuple[np.ndarray, np.ndarray]
"""Sums, and their probabilities."""


def draw_given_sums(
    laws: Cells,
    tilt: np.ndarray,
    log_sum: LogSum,
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw the counts of every row from their laws times a weight of the row's sum.

    Parameters
    ----------
    laws : Cells
    tilt : array, shape (rows,)
        Where the laws are centered for the computation; the draws do not depend on it.
    log_sum : LogSum
    draws : int
    generator : numpy.random.Generator
        What is drawn from is private already: any generator serves.

    Returns
    -------
    array of int, shape (draws, rows, d)
    """
    out = np.empty((draws, *laws.low.shape), dtype=np.int64)
    for row, (weights, length) in enumerate(_rows(laws, tilt)):
        if not length:
            out[:, row] = _apart(weights, draws, generator)
            continue
        partial = _partial_sums(weights, length)
        bins, sums, logs = _sum_law(laws, tilt, row, weights, partial[-1])
        chance = _chances(bins, logs + log_sum(row, sums), weights)
        drawn = generator.choice(bins, size=draws, p=chance)
        out[:, row] = _backward(weights, partial, drawn, generator)
    return laws.low + laws.step[:, None] * out + _inside(laws, out, generator)


def sum_laws(laws: Cells, tilt: np.ndarray, log_sum: LogSum) -> Iterator[SumLaw]:
    """Give the law of each row's sum as `draw_given_sums` draws it: places, and probabilities.

    Where sums are not kept it draws cells apart: the mean of their sum stands for its law.
    """
    means = laws.moments(tilt)[0].sum(axis=1)
    for row, (weights, length) in enumerate(_rows(laws, tilt)):
        if not length:
            yield means[row : row + 1], np.ones(1)
            continue
        product = np.prod([_transform(law, length) for law in weights], axis=0)
        law = np.maximum(fft.irfft(product, length), 0.0)
        bins, sums, logs = _sum_law(laws, tilt, row, weights, law)
        chance = _chances(bins, logs + log_sum(row, sums), weights)
        kept = chance > 0.0
        yield sums[kept], chance[kept]


def match_sums(rows: Sequence[SumLaw], total: float) -> float:
    """Give the tilt of all rows' sums at which their means add up to `total`, or come near."""
    tilt, best = 0.0, (np.inf, 0.0)
    for _ in range(NEWTON):
        mean = spread = 0.0
        for sums, chance in rows:
            each = special.softmax(np.log(chance) + tilt * sums)
            own = float(each @ sums)
            mean, spread = mean + own, spread + float(each @ (sums - own) ** 2)
        missing = total - mean
        last, best = best[0], min(best, (abs(missing), tilt))
        if spread <= 0.0 or not NEAR * total < abs(missing) < last:
            break
        sd = spread**0.5
        tilt += float(np.clip(missing / sd, -1.0, 1.0)) / sd
    return best[1]


def _rows(laws: Cells, tilt: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Give laws of each row's cells, up to the last likely bin, and the length of its circle.

    It is 0 where partial sums would be too many.
    """
    weights, variances = laws.probabilities(tilt), laws.moments(tilt)[1].sum(axis=1)
    for each, variance, step in zip(weights, variances, laws.step.astype(float), strict=True):
        likely = np.flatnonzero(each.max(axis=0) > LEAST)
        own = each[:, : likely[-1] + 1]
        length = _length(float(variance / step**2), *own.shape)
        yield own, 0 if len(own) == 1 or length * len(own) > LARGEST else length


def sums_fit(laws: Cells, tilt: np.ndarray, times: int) -> bool:
    """Whether partial sums of every row can be kept on so many times finer bins."""
    step = np.maximum(laws.step // times, 1)
    variances = laws.moments(tilt)[1].sum(axis=1) / step.astype(float) ** 2
    cells, width = laws.logs.shape[1:]
    widths = np.ceil(width * laws.step / step).astype(int)
    lengths = [_length(float(v), cells, int(w)) for v, w in zip(variances, widths, strict=True)]
    return cells == 1 or cells * max(lengths) <= LARGEST


def _inside(laws: Cells, bins: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Places within the bins: level, but in a first bin of small counts as the prior says."""
    step = laws.step[:, None]
    found = generator.integers(0, np.broadcast_to(step, bins.shape))
    prior = np.broadcast_to(laws.prior, laws.low.shape)
    for row, cell in np.argwhere(laws.steep):
        at = np.flatnonzero(bins[:, row, cell] == 0)
        uniform = generator.random(len(at))
        of = int(laws.low[row, cell]), int(laws.step[row]), float(prior[row, cell])
        found[at, row, cell] = counts_within(*of, uniform)
    return np.asarray(found)


def _length(variance: float, cells: int, width: int) -> int:
    """Length of a circle on which sums that matter do not meet."""
    full = cells * (width - 1) + 1
    return int(fft.next_fast_len(min(full, int(2 * REACH * np.sqrt(variance)) + width + 1)))


def _partial_sums(weights: np.ndarray, length: int) -> np.ndarray:
    """Laws of the sums of the first 1, 2, ... cells on the circle, shape (cells, length)."""
    partial = np.empty((len(weights), length))
    product = np.ones(length // 2 + 1, dtype=complex)
    for i, law in enumerate(weights):
        product = product * _transform(law, length)
        partial[i] = np.maximum(fft.irfft(product, length), 0.0)
    return partial


def _transform(law: np.ndarray, length: int) -> np.ndarray:
    """Fourier transform of a law on the circle."""
    wrapped = np.zeros(length)
    np.add.at(wrapped, np.arange(len(law)) % length, law)
    return np.asarray(fft.rfft(wrapped))


def _sum_law(
    laws: Cells, tilt: np.ndarray, row: int, weights: np.ndarray, law: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of a row's bins, what they are in counts, and log probabilities without the tilt."""
    length, cells = len(law), len(weights)
    center = int((weights @ np.arange(weights.shape[1])).sum())
    bins = np.arange(center - length // 2, center - length // 2 + length)
    bins = bins[(bins >= 0) & (bins <= cells * (weights.shape[1] - 1))]
    step = int(laws.step[row])
    sums = laws.low[row].sum() + step * bins + 0.5 * cells * (step - 1)
    sums = sums + weights[:, 0] @ laws.shift[row]
    law = np.where(law < ROUNDING * law.max(), 0.0, law)  # weights of far sums may be huge
    with np.errstate(divide="ignore"):
        return bins, sums, np.log(law[bins % length]) - tilt[row] * sums


def _chances(bins: np.ndarray, logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities of sums from their logarithms; of the nearest one, if none is in reach."""
    if not np.isfinite(logs).any():
        center = int((weights @ np.arange(weights.shape[1])).sum())
        logs = -np.abs(bins - center).astype(float)
    return np.asarray(special.softmax(logs))


def _backward(
    weights: np.ndarray, partial: np.ndarray, sums: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    cells, width = weights.shape
    length = partial.shape[1]
    out = np.empty((len(sums), cells), dtype=np.int64)
    left, around = sums.astype(np.int64), -np.arange(length + width - 1) % length
    for i in range(cells - 1, 0, -1):
        # Row k of the view is how likely the others leave -k, -k - 1, ...: one copy for each draw.
        others = sliding_window_view(partial[i - 1][around], width)
        chance = weights[i] * others[-left % length]
        out[:, i] = _pick(chance, generator)
        left = left - out[:, i]
    out[:, 0] = np.clip(left, 0, width - 1)
    return out


def _apart(weights: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw cells without regard to each other."""
    return np.stack([_pick(np.broadcast_to(w, (draws, len(w))), generator) for w in weights], 1)


def _pick(chance: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one index per row of weights."""
    upto = np.cumsum(chance, axis=1)
    target = generator.random((len(chance), 1)) * upto[:, -1:]
    return np.asarray(np.minimum((upto < target).sum(axis=1), chance.shape[1] - 1))
