"""Public guesses of tables of counts: what a mechanism's accuracy is judged by before the data.

A private table is never looked at to choose r, alpha or the kind of noise. Where nothing is known,
the cells of a table are taken as Dirichlet(1/2, ..., 1/2), and the tables of a family as equally
large; expectations under that law are integrals over one cell, Beta(1/2, (d - 1) / 2).
"""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass, field
from functools import lru_cache
from scipy import special
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import positive

NODES = 48
"""Points of the Gauss-Jacobi rule."""
MANY = 500
"""Beyond so many cells their joint law hardly matters."""
TABLES = 64
"""Tables drawn to judge noise, whose cost has no formula; the same for everybody."""


@dataclass(frozen=True)
class CountProfile:
    """What one family of tables may look like.

    Attributes
    ----------
    cells : int
        Categories of each table.
    tables : int
        Tables of the family; each record is in one of them.
    size : float
        Records of each table, where no counts are given.
    counts : tuple of tuple of float
        Public counts, one tuple per table; empty for the design of this module.
    """

    cells: int
    tables: int = 1
    size: float = 0.0
    counts: tuple[tuple[float, ...], ...] = field(default=())

    def __post_init__(self) -> None:
        if self.counts:
            rows = np.asarray(self.counts, float)
            if not np.isfinite(rows).all() or (rows < 0.0).any() or not rows.sum() > 0.0:
                raise DomainError("a public profile holds counts >= 0, not all 0")
        else:
            positive(size=self.size)

    def dirichlet_kl(self, r: float, alpha: float) -> float:
        """Expected KL of one draw of Dir(r f + alpha), averaged over the records (T12), nats."""
        if not self.counts:
            p, weight = _rule(self.cells)
            inner = np.log(p) - special.digamma(r * self.size * p + alpha)
            total = special.digamma(r * self.size + self.cells * alpha)
            return float(self.cells * (weight @ (p * inner)) + total)
        rows = np.asarray(self.counts, float)
        sizes = rows.sum(axis=1, keepdims=True)
        rows, sizes = rows[sizes[:, 0] > 0], sizes[sizes[:, 0] > 0]
        p = rows / sizes
        inner = np.where(
            p > 0, np.log(np.where(p > 0, p, 1)) - special.digamma(r * rows + alpha), 0
        )
        each = (p * inner).sum(axis=1) + special.digamma(r * sizes[:, 0] + self.cells * alpha)
        return float(each @ sizes[:, 0] / sizes.sum())

    def sample(self) -> np.ndarray:
        """Tables of this profile, the same at every call: shape (tables, cells)."""
        if self.counts:
            return np.asarray(self.counts, float)
        return self.size * _design(self.cells)


@lru_cache(maxsize=256)
def _rule(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of E f(p), p ~ Beta(1/2, (cells - 1) / 2)."""
    if cells == 1:
        return np.ones(1), np.ones(1)
    if cells > MANY:  # then a cell is Gamma(1/2) over cells / 2, nearly
        x, weights = special.roots_genlaguerre(NODES, -0.5)
        return np.asarray(2.0 * x / cells), np.asarray(weights / weights.sum())
    x, weights = special.roots_jacobi(NODES, 0.5 * (cells - 1) - 1.0, -0.5)
    return np.maximum(0.5 * (1.0 + x), 1e-300), weights / weights.sum()


@lru_cache(maxsize=256)
def _design(cells: int) -> np.ndarray:
    """Draw tables of Dirichlet(1/2) from a fixed seed: public, and no randomness of a release."""
    return np.random.default_rng(2024).dirichlet(np.full(cells, 0.5), size=TABLES)
