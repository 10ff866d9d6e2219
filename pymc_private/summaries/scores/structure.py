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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from pymc_private.errors import DomainError, NotInformative
from pymc_private.summaries.scores.symmetric import matrix_power

COLLINEAR = 1e-12
"""Least eigenvalue of the products of columns of length 1, below which these are collinear."""
SHOWN = 5
"""Most parameters that are named."""
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
    untold : bool array, shape (p,)
        Parameters of which no row tells; default: none.
    is_collinear : bool
        Whether rows tell of some combination of parameters nothing, as of the sum of all
        categories less an intercept.
    """

    order: np.ndarray
    pairs: np.ndarray
    partly: np.ndarray
    untold: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    is_collinear: bool = False

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
    found = structure_of(together, np.asarray(~reads.all(axis=0)))
    untold = np.asarray(~reads.any(axis=0))
    return replace(found, untold=untold, is_collinear=_are_collinear(jacobians))


def _are_collinear(jacobians: list[np.ndarray]) -> bool:
    """Whether all rows have derivative 0 in some direction that is no single parameter."""
    rows = np.concatenate([each.reshape(-1, each.shape[-1]) for each in jacobians])
    rows = np.where(np.isfinite(rows), rows, 0.0)
    norms = np.sqrt((rows**2).sum(axis=0))
    even = rows[:, norms > 0.0] / norms[norms > 0.0]
    return bool(np.linalg.eigvalsh(even.T @ even)[0] < COLLINEAR) if even.size else False


def refuse_untold(structure: Structure, names: Callable[[], Sequence[str]]) -> None:
    """Refuse rows of covariates that tell nothing of a parameter; `names` of all of them."""
    if not structure.untold.any():
        return
    found = [name for name, is_untold in zip(names(), structure.untold, strict=True) if is_untold]
    raise DomainError(
        "no row that stands for the records tells of some parameter",
        got=", ".join(found[:SHOWN]) + (", ..." if len(found) > SHOWN else ""),
        allowed="public rows in which every category occurs, no column being 0 throughout",
        do="a reference= of more rows, or of rows with all categories; or leave it out: covariates "
        "are then spread over their domain",
    )


def refuse_collinear(structure: Structure) -> None:
    """Refuse columns that add up, where no noise of the curvature would tell it."""
    if structure.is_collinear:
        raise NotInformative(
            "columns of the covariates are collinear: of a combination of parameters no record "
            "tells anything",
            got="columns that add up to another one, such as all categories beside an intercept",
            allowed="columns of which none is a sum of multiples of the others",
            do="leave out one of them, such as the first category",
        )
