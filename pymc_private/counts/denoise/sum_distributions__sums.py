"""Exact draws of integer cells whose sum is known: forward convolution, backward sampling."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft
from pymc_private.counts.denoise.cell_distributions__cell_priors import counts_within
from pymc_private.counts.denoise.cell_distributions import Cells
from pymc_private.counts.denoise.sum_distributions import LARGEST, LogWeight, Piece, SumLaw, circle, sum_law, transform

LogWeights = Callable[[int], LogWeight]
"""Row to the logarithm of the weight of its sums."""


def draw_given_sums(
    laws: Cells,
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
        law = sum_law(laws.row(row), float(tilt[row]), log_weights(row))
        out[:, row] = _draw_row(law, draws, generator)
    return laws.low + laws.step[:, None] * out + _inside(laws, out, generator)


def sums_fit(laws: Cells, tilt: np.ndarray, times: int) -> bool:
    """Whether partial sums of every row can be kept on so many times finer bins."""
    step = np.maximum(laws.step // times, 1)
    variances = laws.moments(tilt)[1].sum(axis=1) / step.astype(float) ** 2
    cells, width = laws.logs.shape[1:]
    widths = np.ceil(width * laws.step / step).astype(int)
    lengths = [circle(float(v), cells, int(w)) for v, w in zip(variances, widths, strict=True)]
    return cells == 1 or cells * max(lengths) <= LARGEST


def _draw_row(law: SumLaw, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the bins of a row's cells, shape (draws, cells)."""
    if not law.kept:
        return _apart(law.pieces[0].weights, draws, generator)
    drawn = generator.choice(len(law.bins), size=draws, p=law.chances)
    out = np.empty((draws, len(law.pieces[0].weights)), dtype=np.int64)
    for k, piece in enumerate(law.pieces):
        at = np.flatnonzero(law.which[drawn] == k)
        if len(at):
            out[at] = _backward(piece, law.bins[drawn[at]], generator)
    return out


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


def _partial_sums(piece: Piece) -> np.ndarray:
    """Laws of the sums of the first 1, 2, ... cells on the circle, shape (cells, length)."""
    partial = np.empty((len(piece.weights), piece.length))
    product = np.ones(piece.length // 2 + 1, dtype=complex)
    for i, law in enumerate(piece.weights):
        product = product * transform(law, piece.length)
        partial[i] = np.maximum(fft.irfft(product, piece.length), 0.0)
    return partial


def _backward(piece: Piece, sums: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw cells whose bins add up to these sums, the last cell first."""
    weights, partial, length = piece.weights, _partial_sums(piece), piece.length
    cells, width = weights.shape
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
