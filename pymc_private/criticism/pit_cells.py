r"""Cells of the linear predictor and of the probability integral transform, and smooth contrasts.

Where no departure is named: a record lies in one of B bins of its fitted eta (public edges), and
its outcome in O equal bins of F(y | x, theta^). An outcome that has a probability of its own covers
the interval [F(y-), F(y)], and adds to each bin the share of that interval in it. So a record adds
a point f of a simplex to one block of O cells. Under the fitted model E f_o = 1/O for every x.

The terms are diagonal matrices diag(f), positive semidefinite and of Frobenius norm |f| <= 1: their
sum moves by the root of two at most when a record is replaced, by one when it is added or removed
(T31). What is read of the noisy counts are contrasts, polynomials in the bin of eta times
polynomials in the bin of F, each with the null distribution of T38.

F comes from the quadrature nodes of each record's own density. Between two nodes it is
interpolated, and each node stands for the interval of its own mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from pymc_private.summaries.lattice import pack_symmetric
from pymc_private.summaries.scores.clipped_scores import RecordModel, Rows, ScoredRows, score_rows

BINS, PIT_BINS = 4, 8
CONTRASTS = {
    "link": (2, 1),
    "cubic link": (3, 1),
    "spread": (0, 2),
    "heteroscedasticity": (1, 2),
    "skewness": (0, 3),
    "tails": (0, 4),
}
"""Degrees of each contrast: in the bin of eta, in the bin of F."""


@dataclass(frozen=True, eq=False)
class PitCells:
    """The public constants of the cells.

    Attributes
    ----------
    model : RecordModel
    theta : array, shape (p,)
        theta^.
    location : int
        Which predictor is eta.
    edges : array, shape (B - 1,)
        Between bins of eta.
    continuous : bool
        Whether outcomes fill an interval, but for atoms and ends of the domain.
    size : int
        O.
    """

    model: RecordModel
    theta: np.ndarray
    location: int
    edges: np.ndarray
    continuous: bool
    size: int = PIT_BINS

    @property
    def bins(self) -> int:
        """B."""
        return len(self.edges) + 1

    def bin_of(self, scored: ScoredRows) -> np.ndarray:
        """The bin of eta of each row, shape (N,)."""
        return np.searchsorted(self.edges, scored.predictors[:, self.location])

    def terms(self, rows: Rows, y: np.ndarray) -> np.ndarray:
        """What each record adds: packed diagonal matrices, shape (N, J (J + 1) / 2), J = B O."""
        with np.errstate(all="ignore"):  # no warning may depend on a record
            scored = score_rows(self.model, self.theta, rows)
            low, high = pit_of(scored.values, scored.mass, y)
            shares = bin_shares(low[:, None], high[:, None], self.size)[:, 0]
        whole = np.zeros((len(y), self.bins, self.size))
        whole[np.arange(len(y)), self.bin_of(scored)] = shares
        usable = np.isfinite(shares).all(axis=1)
        flat = np.where(usable[:, None], whole.reshape(len(y), -1), 0.0)
        return packed_diagonals(flat)

    def counts(self, packed: np.ndarray) -> np.ndarray:
        """Noisy counts of a noisy sum of terms, shape (B, O)."""
        size = self.bins * self.size
        return np.asarray(packed[diagonal_places(size)].reshape(self.bins, self.size))

    def contrast(self, weights: np.ndarray, scored: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
        """A contrast sum of weights (B, O) times (f - 1/O) at the nodes, and its variance in each.

        Both have shape (N, Q). Outcomes without a probability of their own differ within a node.
        """
        low, high, single = node_intervals(scored.values, scored.mass, self.continuous)
        shares = bin_shares(low, high, self.size)
        own = weights[self.bin_of(scored)][:, None, :]
        mean = (own * shares).sum(axis=2)
        spread = np.where(single, (own**2 * shares).sum(axis=2) - mean**2, 0.0)
        return mean - own.mean(axis=2), np.maximum(spread, 0.0)


def contrast_weights(bins: int, size: int, degrees: tuple[int, int]) -> np.ndarray:
    """Weights of norm one: orthogonal polynomials of given degrees, shape (bins, size)."""
    eta, pit = (_polynomials(k)[:, d] for k, d in zip((bins, size), degrees, strict=True))
    return np.outer(eta, pit)


def _polynomials(count: int) -> np.ndarray:
    places = np.arange(count) - (count - 1) / 2.0
    found, _ = np.linalg.qr(np.vander(places, min(count, 5), increasing=True))
    return np.asarray(found * np.sign(found[-1]))


def pit_of(values: np.ndarray, mass: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F(y-) and F(y) of outcomes (N,) from nodes (N, Q); between nodes both are interpolated."""
    at = y[:, None]
    below = (mass * (values < at)).sum(axis=1)
    upto = (mass * (values <= at)).sum(axis=1)
    left = np.where(values < at, values, -np.inf).max(axis=1)
    right = np.where(values > at, values, np.inf).min(axis=1)
    first, last = values.min(axis=1), values.max(axis=1)
    # Halves of the masses beside y; what is clipped to an end of the domain is no interval.
    before = np.where(left > first, (mass * (values == left[:, None])).sum(axis=1) / 2.0, 0.0)
    after = np.where(right < last, (mass * (values == right[:, None])).sum(axis=1) / 2.0, 0.0)
    with np.errstate(all="ignore"):
        share = (y - left) / (right - left)
        share = np.where(np.isfinite(share), share, 0.5)
        # Normal quantiles are nearly linear in y where probabilities are not.
        start, end = ndtri(below - before), ndtri(below + after)
        between = ndtr(start + share * (end - start))
    ends = np.isfinite(start) & np.isfinite(end)
    between = np.where(ends, between, below - before + share * (before + after))
    tied = upto > below
    return np.where(tied, below, between), np.where(tied, upto, between)


def node_intervals(
    values: np.ndarray, mass: np.ndarray, continuous: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """F(v-) and F(v) of each node, and whether it stands for several outcomes: each (N, Q).

    Nodes of a continuous outcome stand for the outcomes around them, unless several nodes share
    their value, as where outcomes are clipped. Counts are listed one by one, or by nodes more than
    one apart, each of which stands for those around it.
    """
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    total = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1)
    low, high = np.empty_like(mass), np.empty_like(mass)
    for row, (v, c) in enumerate(zip(ordered, total, strict=True)):
        padded = np.concatenate([[0.0], c])
        low[row] = padded[np.searchsorted(v, values[row], side="left")]
        high[row] = padded[np.searchsorted(v, values[row], side="right")]
    tied = high - low > mass * (1.0 + 1e-9)
    steps = np.diff(ordered, axis=1)
    listed = np.where(steps > 0.0, steps, np.inf).min(axis=1, keepdims=True) <= 1.0
    return low, high, ~tied & (continuous | ~listed)


def bin_shares(low: np.ndarray, high: np.ndarray, size: int) -> np.ndarray:
    """Shares of intervals of [0, 1] in `size` equal bins: (...) to (..., size).

    An interval of no length lies in one bin.
    """
    edges = np.arange(size) / size
    length = high - low
    left = np.maximum(low[..., None], edges)
    right = np.minimum(high[..., None], edges + 1.0 / size)
    with np.errstate(all="ignore"):
        shares = np.maximum(right - left, 0.0) / length[..., None]
    point = np.clip(np.floor(low * size), 0, size - 1)
    indicator = (point[..., None] == np.arange(size)).astype(float)
    found = np.where((length > 0.0)[..., None], shares, indicator)
    return found / np.maximum(found.sum(axis=-1, keepdims=True), 1e-300)


def diagonal_places(size: int) -> np.ndarray:
    """Where the diagonal of a matrix stands among its packed elements."""
    return np.flatnonzero(pack_symmetric(np.eye(size)))


def packed_diagonals(diagonals: np.ndarray) -> np.ndarray:
    """Packed diagonal matrices of shape (N, J): shape (N, J (J + 1) / 2)."""
    count, size = diagonals.shape
    found = np.zeros((count, size * (size + 1) // 2))
    found[:, diagonal_places(size)] = diagonals
    return found
