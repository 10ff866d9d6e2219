r"""What noise of H~, and errors of the reference, do to released scores: it grows with means (T36).

The noise N of H~ is symmetric, with standard deviation tau on the diagonal, tau/sqrt 2 elsewhere,
and 0 where zeros are known. Rounds t add P_t N e_t to the projected numbers, e_t = E_t m_t, which
is linear in the entries of N. One column for each entry i <= j,

    b_ij = tau / sqrt 2 sum_t (P_t[:, i] e_t[j] + P_t[:, j] e_t[i]),
    b_ii = tau sum_t P_t[:, i] e_t[i],

gives the covariance sum b_ij b_ij'. Without zeros that is the covariance of `RoundNoise`, which
costs less then. A column takes 2 T products of a column of P_t and an entry of e_t, few of the
T p products of columns with all means: with many groups this keeps posteriors fast.

Sums over many means need no columns: with Q_tu = sum e_t e_u' over them and S the 0-1 matrix of
`pairs`, the sum of covariances is

    tau^2 / 2 sum_tu P_t [diag(S diag(Q_tu)) + S * Q_tu'] P_u',

since N_ac and N_bd have covariance tau^2 / 2 S_ac ([a = b][c = d] + [a = d][c = b]).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

Pullback = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class RoundNoise:
    """Covariance that is quadratic in the means: sums over pairs of rounds t, u.

    sd^2/2 sum_tu [(e_t . e_u) P_t P_u' + (P_t e_u)(P_u e_t)'], e_t = E_t m_t; with `common` false
    over t = u alone.

    Attributes
    ----------
    sd : float
    scaling : array, shape (T, p, p)
        E_t. The first rounds, if T is less than their number.
    projection : array, shape (T, k, p)
        P_t.
    common : bool
    """

    sd: float
    scaling: np.ndarray
    projection: np.ndarray
    common: bool

    def covariance(self, means: np.ndarray) -> np.ndarray:
        """The covariance at means of shape (S, T, p), shape (S, k, k)."""
        rounds, k, _ = self.projection.shape
        if self.sd == 0.0 or rounds == 0:
            return np.zeros((len(means), k, k))
        scaled = np.einsum("tab,stb->sta", self.scaling, means[:, :rounds])
        if self.common:
            inner = scaled @ np.swapaxes(scaled, 1, 2)
            pairs = np.einsum("tij,ukj->tuik", self.projection, self.projection, optimize=True)
            crossed = np.einsum("tij,suj->stui", self.projection, scaled, optimize=True)
            other = np.swapaxes(crossed, 1, 2).reshape(len(means), -1, k)
            crossed = crossed.reshape(len(means), -1, k)
        else:
            inner = (scaled**2).sum(axis=2)
            pairs = np.einsum("tij,tkj->tik", self.projection, self.projection)
            crossed = other = np.einsum("tij,stj->sti", self.projection, scaled, optimize=True)
        first = inner.reshape(len(means), -1) @ pairs.reshape(-1, k * k)
        second = np.swapaxes(crossed, 1, 2) @ other
        return self.sd**2 / 2.0 * (first.reshape(-1, k, k) + second)


@dataclass(frozen=True, eq=False)
class NoiseOfRounds:
    """Such noise of all numbers of the rounds, before they are projected, summed over means.

    Numbers of round t get R_t N e_t; with `common` false every round has an N of its own.

    Attributes
    ----------
    sd : float
    scaling, roots : array, shape (T, p, p)
        E_t and R_t.
    pairs : bool array, shape (p, p), optional
        Entries of N with noise; default: all.
    common : bool
    """

    sd: float
    scaling: np.ndarray
    roots: np.ndarray
    pairs: np.ndarray | None = None
    common: bool = True

    def total(self, means: np.ndarray) -> np.ndarray:
        """The sum of the covariances at means of shape (S, T, p), shape (T p, T p).

        Of more rounds than there are of these the others have none.
        """
        (rounds, p, _), whole = self.roots.shape, means.shape[1]
        found = np.zeros((whole, p, whole, p))
        if self.sd == 0.0 or rounds == 0:
            return found.reshape(whole * p, -1)
        scaled = np.einsum("tab,stb->sta", self.scaling, means[:, :rounds], optimize=True)
        if self.common:
            found[:rounds, :, :rounds] = self._total(scaled, self.roots)
        else:
            for t in range(rounds):
                found[t, :, t] = self._total(scaled[:, t : t + 1], self.roots[t : t + 1])[0, :, 0]
        return found.reshape(whole * p, -1)

    def _total(self, scaled: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """The sum over e of shape (S, T, p) that have one N, shape (T, p, T, p)."""
        rounds, p, _ = roots.shape
        pairs = np.ones((p, p), dtype=bool) if self.pairs is None else self.pairs
        flat = scaled.reshape(-1, rounds * p)
        products = (flat.T @ flat).reshape(rounds, p, rounds, p)
        inner = np.swapaxes(products, 1, 3) * pairs[:, None, :]  # (t, a, u, b): Q_tu[b, a]
        every = np.arange(p)
        sums = np.einsum("tcuc,ac->atu", products, 1.0 * pairs, optimize=True)
        inner[:, every, :, every] += sums
        return self.sd**2 / 2.0 * between(inner, roots)


def between(blocks: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """R_t M_tu R_u' of blocks of shape (T, p, T, p) and roots (T, p, p), of the same shape."""
    rounds, p, _ = roots.shape
    left = (roots @ blocks.reshape(rounds, p, rounds * p)).reshape(rounds * p, rounds, p)
    both = np.swapaxes(left, 0, 1) @ np.swapaxes(roots, 1, 2)  # (u, T p, p)
    return np.swapaxes(both, 0, 1).reshape(rounds, p, rounds, p)


class StructuredNoise:
    """Covariance of projected numbers from the noise of a curvature with known zeros.

    Value and derivatives, as of `RoundNoise` and of `score_slopes.NoiseSlopes`.

    Parameters
    ----------
    sd : float
        tau.
    scaling : array, shape (T, p, p)
        E_t.
    projection : array, shape (T, k, p)
        P_t.
    pairs : bool array, shape (p, p)
        Entries with noise.
    """

    def __init__(
        self, sd: float, scaling: np.ndarray, projection: np.ndarray, pairs: np.ndarray
    ) -> None:
        self.sd, self.scaling, self.projection, self.pairs = sd, scaling, projection, pairs
        i, j = np.nonzero(np.tril(pairs))
        size = np.where(i == j, 0.5, np.sqrt(0.5)) * sd
        columns = np.moveaxis(projection, 2, 0) * 1.0  # (p, T, k)
        both = np.concatenate([columns[i], columns[j]], axis=1) * size[:, None, None]
        self.factors = np.ascontiguousarray(both)  # (entries, 2 T, k)
        self.others = j, i  # of which entries of e_t multiply P_t[:, i] and P_t[:, j]

    def columns(self, means: np.ndarray) -> np.ndarray:
        """The columns b, as rows, at means of shape (S, T, p), shape (S, entries, k)."""
        scaled = np.einsum("tab,stb->ats", self.scaling, means, optimize=True)
        paired = self._paired(scaled)  # (entries, 2 T, S)
        return np.moveaxis(np.swapaxes(paired, 1, 2) @ self.factors, 1, 0)

    def covariance(self, means: np.ndarray) -> np.ndarray:
        """The covariance at means of shape (S, T, p), shape (S, k, k)."""
        columns = self.columns(means)
        return np.asarray(np.swapaxes(columns, 1, 2) @ columns)

    def __call__(self, means: np.ndarray) -> tuple[np.ndarray, Pullback]:
        """The covariance at means (T, p), and what takes M to derivatives of <M, C>."""
        columns = self.columns(means[None])[0]

        def pullback(outer: np.ndarray) -> np.ndarray:
            of_columns = columns @ (2.0 * outer)
            of_paired = (self.factors @ of_columns[:, :, None])[..., 0]  # (entries, 2 T)
            return self._of_means(of_paired)

        return columns.T @ columns, pullback

    def symbolic(self, means: Any) -> Any:
        """The covariance as a graph of means (T, p)."""
        scaled = pt.sum(self.scaling * means[:, None, :], axis=2).T  # (p, T)
        paired = pt.concatenate([scaled[at] for at in self.others], axis=1)
        columns = pt.sum(self.factors * paired[:, :, None], axis=1)
        return pt.dot(columns.T, columns)

    def _paired(self, scaled: np.ndarray) -> np.ndarray:
        """Entries of e_t (p, T, ...) beside the factors that they multiply, (entries, 2 T, ...)."""
        return np.concatenate([scaled[at] for at in self.others], axis=1)

    def _of_means(self, of_paired: np.ndarray) -> np.ndarray:
        """Derivatives in the means (T p,) from those in what `_paired` gave."""
        rounds, p, _ = self.scaling.shape
        of_scaled = np.zeros((p, rounds))
        for at, part in zip(self.others, np.split(of_paired, 2, axis=1), strict=True):
            np.add.at(of_scaled, at, part)
        return np.asarray((of_scaled.T[:, None, :] @ self.scaling)[:, 0].ravel())
