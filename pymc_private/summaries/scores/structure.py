r"""Metrics that keep structural zeros: hierarchies.

A record of group g reads alpha_g and what all records share, never two groups. Its information
A' I A has then many zeros for every record, and a noisy sum of such matrices needs no noise there:
zeros that the model tells are put back after the noise, which is post-processing.

Scores are scaled by a metric W with W M W' = I, M the information of a record. The symmetric
root of M would spread the zeros over everything. A Cholesky factor M = L L' in an order that
eliminates groups first keeps them, W = L^-1: eliminating a parameter connects those that it is
connected with and that come later, and no others (George and Liu 1981). The order is that of
minimum degree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from pymc_private.summaries.scores.symmetric import matrix_power

RIDGE = 1e-9
"""Added to the diagonal of M, in units of its entries, before it is factored."""


@dataclass(frozen=True, eq=False)
class Structure:
    """Which pairs of p parameters some record reads together, and an order of elimination.

    Attributes
    ----------
    order : array of int, shape (p,)
        The parameters in the order in which they are eliminated.
    pairs : bool array, shape (p, p)
        Entries that W B W' of a record may have; elsewhere it is 0.
    partly : bool array, shape (p,)
        Parameters that only part of the records read: those of groups.
    """

    order: np.ndarray
    pairs: np.ndarray
    partly: np.ndarray

    @property
    def entries(self) -> int:
        """Entries of a symmetric matrix on and below its diagonal that may differ from 0."""
        return int(np.tril(self.pairs).sum())

    @property
    def groups(self) -> int:
        """Parameters that do not meet all others in some record: coefficients of groups."""
        return int((~self.pairs.all(axis=1)).sum())

    @property
    def is_full(self) -> bool:
        """Whether no zeros are known."""
        return bool(self.pairs.all())

    def metric(self, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W with W M W' = I, and W^-1; the symmetric root where no zeros are known."""
        if self.is_full:
            return matrix_power(information, -0.5), matrix_power(information, 0.5)
        scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
        even = information / np.outer(scale, scale) + RIDGE * np.eye(len(scale))
        place = np.argsort(self.order)
        lower = np.linalg.cholesky(even[np.ix_(self.order, self.order)])
        inverse = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
        back = np.ix_(place, place)
        return inverse[back] / scale, scale[:, None] * lower[back]

    def known(self, matrix: np.ndarray) -> np.ndarray:
        """The matrix with its structural zeros."""
        return np.where(self.pairs, matrix, 0.0)


def structure_of(pairs: np.ndarray, partly: np.ndarray | None = None) -> Structure:
    """The structure of parameters of which these pairs, shape (p, p), meet in some record.

    `partly`: parameters that only part of the records read; default: none.

    A vector L^-1 e_k has entries at k and at what can be reached from k by going to neighbors that
    are eliminated later.
    """
    p = len(pairs)
    met = pairs | pairs.T | np.eye(p, dtype=bool)
    graph, order, later = met & ~np.eye(p, dtype=bool), list[int](), list[np.ndarray]()
    first, left = graph.sum(axis=1), set(range(p))
    while left:
        k = min(left, key=lambda i: (int(graph[i].sum()), int(first[i]), i))
        neighbors = np.flatnonzero(graph[k])
        graph[np.ix_(neighbors, neighbors)] = True
        graph[neighbors, neighbors] = False
        graph[k] = graph[:, k] = False
        left.remove(k)
        order.append(k)
        later.append(neighbors)
    reached = np.eye(p, dtype=bool)  # column k: what is reached from k
    for k, neighbors in zip(order[::-1], later[::-1], strict=True):
        reached[:, k] |= reached[:, neighbors].any(axis=1)
    meets = reached.astype(int) @ met.astype(int) @ reached.T.astype(int)
    none = np.zeros(p, dtype=bool)
    return Structure(np.array(order, dtype=int), meets > 0, none if partly is None else partly)


def read_structure(jacobians: list[np.ndarray]) -> Structure:
    """The structure of parameters that rows read, from Jacobians of shape (N, m, p)."""
    reads = np.concatenate([np.any(jacobian != 0.0, axis=1) for jacobian in jacobians])
    together = np.asarray(reads.T.astype(int) @ reads > 0)
    return structure_of(together, np.asarray(~reads.all(axis=0)))
