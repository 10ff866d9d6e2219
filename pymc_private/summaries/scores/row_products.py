"""Sums over rows of products A' B C of small matrices, without the zeros that groups leave.

Of many groups a row reads one, so that its matrices in all parameters are zero nearly everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

LEAST_SIZE = 50
"""Parameters from which on zeros are looked for."""
MOST_KEPT = 0.15
"""Share of entries that are not zero below which sparse matrices are faster than dense ones."""


class RowBlocks:
    """Matrices of rows, shape (N, k, p).

    Parameters
    ----------
    blocks : array, shape (N, k, p)
    """

    def __init__(self, blocks: np.ndarray) -> None:
        flat = blocks.reshape(-1, blocks.shape[2])
        self.flat: Any = without_zeros(flat) if blocks.shape[2] >= LEAST_SIZE else flat

    def products(self, inner: np.ndarray, right: RowBlocks) -> np.ndarray:
        """The sum over rows of A' B C, A of these, B of `inner` (N, k, l), C of `right`."""
        if isinstance(self.flat, np.ndarray) and isinstance(right.flat, np.ndarray):
            blocks = right.flat.reshape(len(inner), inner.shape[2], -1)
            middle = np.einsum("nkl,nlj->nkj", inner, blocks).reshape(len(self.flat), -1)
            return np.asarray(self.flat.T @ middle)
        count, k, m = inner.shape
        places = np.arange(count), np.arange(count + 1)
        diagonal = scipy.sparse.bsr_array((inner, *places), shape=(count * k, count * m))
        found = self.flat.T @ (diagonal @ right.flat)
        return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)


def without_zeros(matrix: np.ndarray) -> Any:
    """A sparse matrix where most entries are zero, else the matrix itself."""
    kept = np.count_nonzero(matrix)
    return scipy.sparse.csr_array(matrix) if kept < MOST_KEPT * matrix.size else matrix
