"""Blocks of a softmax's coefficients multiply as the whole matrix does."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.samplers.proximal import BlockMatrix

N, K, M = 7, 4, 3
RNG = np.random.default_rng(2)


def matrix(*, one: bool, first_is_zero: bool = False) -> np.ndarray:
    """Rows of n records and K classes, columns interleaved; the last column is zero."""
    parts = RNG.normal(size=(1 if one else K, N, M))
    rows = np.zeros((N, K, M * K + 1))
    for k in range(int(first_is_zero), K):
        rows[:, k, k : M * K : K] = parts[k % len(parts)]
    return rows.reshape(N * K, -1)


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("first_is_zero", [True, False])
@pytest.mark.parametrize("chains", [1, 5])
def test_products(one, first_is_zero, chains):
    rows = matrix(one=one, first_is_zero=first_is_zero)
    blocks = BlockMatrix.of(rows, K)
    assert blocks.shape == rows.shape
    assert len(blocks) == len(rows)
    assert len(blocks.parts) == (1 if one else K)
    v, s = RNG.normal(size=(rows.shape[1], chains)), RNG.normal(size=(chains, len(rows)))
    assert np.allclose(blocks @ v, rows @ v, rtol=1e-13, atol=1e-13)
    assert np.allclose(s @ blocks, s @ rows, rtol=1e-13, atol=1e-13)
    weight = RNG.uniform(0, 2, len(rows))
    assert np.allclose(blocks.gram(weight), rows.T @ (weight[:, None] * rows))


def test_what_is_read_by_two_classes_is_no_block():
    rows = matrix(one=True)
    rows[1, 0] = 1.0
    assert BlockMatrix.of(rows, K) is None
    uneven = matrix(one=True)
    uneven[1::K, 1] = 0.0
    assert BlockMatrix.of(uneven, K) is None
    nothing = BlockMatrix.of(np.zeros((N * K, 5)), K)
    assert np.array_equal(nothing @ np.ones((5, 2)), np.zeros((N * K, 2)))
