r"""What one record adds to a pooled summary: its clipped score, or second moments (T34).

At public theta_t, W and C, a score is psi = u min(1, C / |u|) with u = W d log p / d theta. Second
moments are psi = v v' min(1, K / |v|^2), v = (1, A'(y - b)) of the outcomes y with public b and A:
positive semidefinite matrices of norm at most K, packed with off-diagonals times the root of two.
Neither is centered: what psi is on average is known from the model itself, by simulation, so that
clipping biases nothing.

Both come in two forms. `terms` is for private records: elementwise operations and sums in one
order, so that what a record adds is a function of that record alone, to the last bit. `made_up` is
for simulated records, and fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_private.summaries.lattice import pack_symmetric
from pymc_private.summaries.records.record_scores import DensityAt, Entries
from pymc_private.summaries.records.record_simulator import MadeUpRecords


class PooledTerms(Protocol):
    """Bounded terms of single records."""

    @property
    def bound(self) -> float:
        """The largest norm of a term."""

    @property
    def positive(self) -> bool:
        """Whether terms are packed positive semidefinite matrices."""

    def terms(self, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """The terms of private records, shape (N, q)."""

    def made_up(self, sample: MadeUpRecords) -> np.ndarray:
        """The same of simulated records."""


@dataclass(frozen=True, eq=False)
class ClippedScores:
    """Scores at one parameter vector in a metric, clipped at a norm.

    Attributes
    ----------
    at : DensityAt
    metric : array, shape (p, p)
        W.
    bound : float
        C.
    """

    at: DensityAt
    metric: np.ndarray
    bound: float
    positive = False

    def terms(self, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """The terms of private records, shape (N, p)."""
        with np.errstate(all="ignore"):
            turned = self.at.exact_scores(records, kinds, self.metric)
            return turned * _shrinking(_row_norms(turned), self.bound)[:, None]

    def made_up(self, sample: MadeUpRecords) -> np.ndarray:
        """The same of simulated records."""
        return clipped(self.at.scores(sample.outcomes, sample.kinds) @ self.metric, self.bound)


@dataclass(frozen=True, eq=False)
class ClippedMoments:
    """Second moments of outcomes in a public frame, clipped at a norm.

    Attributes
    ----------
    center : array, shape (d,)
    frame : array, shape (d, d)
        A: outcomes are read as A'(y - center).
    bound : float
        K.
    """

    center: np.ndarray
    frame: np.ndarray
    bound: float
    positive = True

    def terms(self, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """The terms of private records, shape (N, (d + 1)(d + 2) / 2)."""
        away = flat_outcomes(records) - self.center
        framed = np.zeros_like(away)
        with np.errstate(all="ignore"):
            for j in range(len(self.center)):
                framed += away[:, j, None] * self.frame[j]
            return self._packed(framed)

    def made_up(self, sample: MadeUpRecords) -> np.ndarray:
        """The same of simulated records."""
        return self._packed((flat_outcomes(sample.outcomes) - self.center) @ self.frame)

    def norms(self, sample: MadeUpRecords) -> np.ndarray:
        """|v|^2, shape (N,)."""
        away = (flat_outcomes(sample.outcomes) - self.center) @ self.frame
        return 1.0 + (away**2).sum(axis=1)

    def _packed(self, framed: np.ndarray) -> np.ndarray:
        vectors = np.concatenate([np.ones((len(framed), 1)), framed], axis=1)
        shrinking = _shrinking(_row_norms(vectors) ** 2, self.bound)
        return pack_symmetric(vectors[:, :, None] * vectors[:, None, :]) * shrinking[:, None]


def clipped(vectors: np.ndarray, bound: float) -> np.ndarray:
    """Rows shrunk to a norm."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors * _shrinking(norms, bound)[:, None]


def flat_outcomes(records: Entries) -> np.ndarray:
    """All outcomes of each record as one vector, shape (N, d)."""
    parts = [np.asarray(v, dtype=float) for v in records.values()]
    return np.concatenate([v.reshape(len(v), -1) for v in parts], axis=1)


def _shrinking(norms: np.ndarray, bound: float) -> np.ndarray:
    """min(1, bound / norm); NaN of a norm that is none."""
    return np.asarray(np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


def _row_norms(vectors: np.ndarray) -> np.ndarray:
    """Euclidean norms of rows, column by column."""
    total = np.zeros(len(vectors))
    for column in vectors.T:
        total += column**2
    return np.sqrt(total)
