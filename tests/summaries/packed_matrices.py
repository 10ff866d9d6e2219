"""Noise of tests that tells sums of matrices as sums of packed vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pymc_private.summaries.lattice import pack_symmetric, unpack_symmetric


class PackedMatrices:
    """A `totals` of matrices sum_j f_j f_j' that asks `total` for the sum of these, packed."""

    total: Any
    sd: Any

    def totals(
        self,
        chunks: Iterable[tuple[np.ndarray, Sequence[np.ndarray]]],
        sums: Sequence[Any],
        weight: int,
    ) -> list[np.ndarray]:
        (one,) = sums
        packed = (pack_symmetric(np.swapaxes(f, 1, 2) @ f) for _, (f,) in chunks)
        return [unpack_symmetric(self.total(packed, one.bound, True, one.mu))]

    def term_sd(self, one: Any, k: int) -> float:
        """That of a matrix of k entries."""
        p = math.isqrt(k)
        return self.sd(one.bound, True, one.mu, p * (p + 1) // 2)
