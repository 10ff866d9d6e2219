"""The coefficients of a softmax: each score of a record reads those of its own class, no others."""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass

@dataclass(frozen=True, eq=False)
class Blocks:
    """A matrix of n K rows and d columns: row i K + k reads columns that belong to class k.

    Row i K + k is ``parts[k, i]`` at ``columns[k]`` and zero elsewhere. Where one matrix serves all
    classes a product is one of that matrix, of n rows.

    Parameters
    ----------
    parts : array, shape (K, n, m), or (1, n, m) for all classes
    columns : array of int, shape (K, m)
        No column twice; d for none at all.
    width : int
        d.
    """

    parts: np.ndarray
    columns: np.ndarray
    width: int

    __array_ufunc__ = None  # an array times this is made here, too

    @classmethod
    def of(cls, rows: np.ndarray, classes: int) -> Blocks | None:
        """Find them in a matrix of shape (n K, d); None if a column belongs to several classes."""
        width = rows.shape[1]
        split = rows.reshape(-1, classes, width)
        used = (split != 0.0).any(axis=0)
        counts = used.sum(axis=1)
        most = int(counts.max())
        if (used.sum(axis=0) > 1).any() or not np.isin(counts, (0, most)).all():
            return None
        columns = np.full((classes, most), width)
        parts = np.zeros((classes, len(split), most))
        reading = np.flatnonzero(counts)
        for k in reading:
            columns[k] = np.flatnonzero(used[k])
            parts[k] = split[:, k, columns[k]]
        same = all(np.array_equal(parts[k], parts[reading[0]]) for k in reading)
        return cls(parts[reading[:1]] if same and len(reading) else parts, columns, width)

    @property
    def shape(self) -> tuple[int, int]:
        """(n K, d)."""
        return len(self.columns) * self.parts.shape[1], self.width

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        """Product with v of shape (d, chains)."""
        (classes, m), chains = self.columns.shape, v.shape[1]
        picked = np.concatenate([v, np.zeros((1, chains))])[self.columns]
        if len(self.parts) == 1:
            joined = picked.transpose(1, 0, 2).reshape(m, classes * chains)
            return np.asarray((self.parts[0] @ joined).reshape(-1, chains))
        return np.matmul(self.parts, picked).transpose(1, 0, 2).reshape(-1, chains)

    def __rmatmul__(self, s: np.ndarray) -> np.ndarray:
        """Product of s, shape (chains, n K), with this."""
        chains, classes = len(s), len(self.columns)
        split = s.T.reshape(-1, classes, chains)
        if len(self.parts) == 1:
            joined = self.parts[0].T @ split.reshape(len(split), classes * chains)
            found = joined.reshape(-1, classes, chains).transpose(1, 0, 2)
        else:
            found = np.matmul(self.parts.transpose(0, 2, 1), split.transpose(1, 0, 2))
        out = np.zeros((self.width + 1, chains))
        out[self.columns] = found
        return out[:-1].T

    def gram(self, weight: np.ndarray) -> np.ndarray:
        """A' diag(weight) A of this matrix A, shape (d, d); weight of shape (n K,)."""
        weights = weight.reshape(-1, len(self.columns)).T
        out = np.zeros((self.width + 1, self.width + 1))
        for k, columns in enumerate(self.columns):
            part = self.parts[k % len(self.parts)]
            out[np.ix_(columns, columns)] = part.T @ (weights[k][:, None] * part)
        return out[:-1, :-1]
