"""Exact draws of integer cells whose sum is known: forward convolution, backward sampling."""

from __future__ import annotations

import numpy as np
from scipy import fft

from pymc_private.mechanisms.tables.cell_priors import counts_within
from pymc_private.mechanisms.tables.cells import Cells

LARGEST = 2**24
"""Most numbers kept for the partial sums of a row; beyond, a sum says little of one cell."""
REACH = 9.0
ROUNDING = 1e-13
"""Shares of a law of sums that transforms do not tell from 0."""


def draw_given_sums(
    laws: Cells,
    tilt: np.ndarray,
    log_sum: object,
    draws: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw the counts of every row from their laws times a weight of the row's sum.

    Parameters
    ----------
    laws : Cells
    tilt : array, shape (rows,)
        Where the laws are centered for the computation; the draws do not depend on it.
    log_sum : callable
        ``(row, sums)`` to the logarithm of the weight of these sums.
    draws : int
    generator : numpy.random.Generator
        What is drawn from is private already: any generator serves.

    Returns
    -------
    array of int, shape (draws, rows, d)
    """
    weights, (_, variances, _) = laws.probabilities(tilt), laws.moments(tilt)
    rows, cells, width = weights.shape
    out = np.empty((draws, rows, cells), dtype=np.int64)
    for row in range(rows):
        length = _length(variances[row].sum() / float(laws.step[row]) ** 2, cells, width)
        if length * cells > LARGEST or cells == 1:
            out[:, row] = _apart(weights[row], draws, generator)
            continue
        partial = _partial_sums(weights[row], length)
        sums = _sums(laws, tilt, log_sum, row, weights[row], partial[-1], draws, generator)
        out[:, row] = _backward(weights[row], partial, sums, generator)
    return laws.low + laws.step[:, None] * out + _inside(laws, out, generator)


def sums_fit(laws: Cells, tilt: np.ndarray) -> bool:
    """Whether partial sums of every row can be kept, or bins cannot be wider."""
    variances = laws.moments(tilt)[1].sum(axis=1) / laws.step.astype(float) ** 2
    cells, width = laws.logs.shape[1:]
    lengths = [_length(float(variance), cells, width) for variance in variances]
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
        wrapped = np.zeros(length)
        np.add.at(wrapped, np.arange(len(law)) % length, law)
        product = product * fft.rfft(wrapped)
        partial[i] = np.maximum(fft.irfft(product, length), 0.0)
    return partial


def _sums(
    laws: Cells, tilt: np.ndarray, log_sum: object, row: int, weights: np.ndarray,
    law: np.ndarray, draws: int, generator: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Draw the sum of the bins of a row."""
    length, cells = len(law), len(weights)
    center = int((weights @ np.arange(weights.shape[1])).sum())
    bins = np.arange(center - length // 2, center - length // 2 + length)
    bins = bins[(bins >= 0) & (bins <= cells * (weights.shape[1] - 1))]
    step = int(laws.step[row])
    sums = laws.low[row].sum() + step * bins + 0.5 * cells * (step - 1)
    sums = sums + weights[:, 0] @ laws.shift[row]
    law = np.where(law < ROUNDING * law.max(), 0.0, law)  # weights of far sums may be huge
    with np.errstate(divide="ignore"):
        logs = np.log(law[bins % length]) + log_sum(row, sums) - tilt[row] * sums  # type: ignore[operator]
    if not np.isfinite(logs).any():  # a sum out of reach: the nearest that is not
        logs = -np.abs(bins - center).astype(float)
    chance = np.exp(logs - logs[np.isfinite(logs)].max())
    return np.asarray(generator.choice(bins, size=draws, p=chance / chance.sum()))


def _backward(
    weights: np.ndarray, partial: np.ndarray, sums: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    cells, width = weights.shape
    length = partial.shape[1]
    out = np.empty((len(sums), cells), dtype=np.int64)
    left, bins = sums.astype(np.int64), np.arange(width)
    for i in range(cells - 1, 0, -1):
        chance = weights[i] * partial[i - 1][(left[:, None] - bins) % length]
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
