"""One noisy sum of a table: its terms are computed where the rows lie, the noise is added here.

A stage of a release is one sum of terms of single records. Of a large table on a cluster workers
compute them, and integers come back (T30); of others rows come in chunks. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.summaries.exact_totals import Totals
from pymc_private.summaries.noise import LatticeNoise, cell_counts, exact_total
from pymc_private.summaries.protocol import RecordTable, SummaryNoise, SumNoise
from pymc_private.summaries.weighted_sums import (
    WEIGHT_ONE,
    BoundedSum,
    exact_matrix,
    unweighted,
)

Chunk = dict[str, np.ndarray]


class SentOnce:
    """What all stages of a release have in common: each process of a worker unpacks it once.

    Parameters
    ----------
    value : object
        The density of a record, say, which a worker compiles.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    @cached_property
    def packed(self) -> bytes:
        """The value as bytes, the same for all stages."""
        import cloudpickle

        return bytes(cloudpickle.dumps(self.value))


@dataclass(frozen=True, eq=False)
class TermTotals:
    """What the records of a chunk add to a sum, in integers.

    Attributes
    ----------
    terms : callable
        A chunk to the terms of its rows, shape (rows, k).
    bound : float
        The largest norm of a term.
    positive : bool
        Whether terms are packed positive semidefinite matrices.
    common : SentOnce, optional
        What is sent to workers once for several sums.
    """

    terms: Callable[[Chunk], np.ndarray]
    bound: float
    positive: bool = False
    common: SentOnce | None = None

    def __call__(self, chunk: Chunk, count: int) -> Totals:
        """Sums over the true rows."""
        return [exact_total([self.terms(chunk)[:count]], self.bound, self.positive)]

    def noisy(self, table: RecordTable, noise: SumNoise, size: int, mu: float) -> np.ndarray:
        """The noisy sum over the records of a table, in chunks of `size`."""
        if isinstance(noise, LatticeNoise) and getattr(table, "reads_on_workers", False):
            (total,) = table.sum_up(self, size)
            return noise.noisy_total(total, self.bound, self.positive, mu)
        chunks = (self.terms(chunk)[:count] for chunk, count in table.chunks(size))
        return np.asarray(noise.total(chunks, self.bound, self.positive, mu))


@dataclass(frozen=True, eq=False)
class MatrixTotals:
    """What the records of a chunk add to a sum of positive semidefinite matrices, in integers.

    Attributes
    ----------
    factors : callable
        A chunk to the vectors f_j, shape (rows, m, p), of each row's matrix sum_j f_j f_j'.
    bound : float
        The largest Frobenius norm of a row's matrix.
    common : SentOnce, optional
        What is sent to workers once for several sums.
    """

    factors: Callable[[Chunk], np.ndarray]
    bound: float
    common: SentOnce | None = None

    def __call__(self, chunk: Chunk, count: int) -> Totals:
        """Sums over the true rows."""
        return [exact_matrix(self.factors(chunk)[:count], self.bound)]

    def noisy(
        self, table: RecordTable, noise: SummaryNoise, size: int, mu: float
    ) -> tuple[np.ndarray, float]:
        """The noisy matrix of a table in chunks of `size`, and its noise on the diagonal."""
        one = BoundedSum(self.bound, True, mu)
        if isinstance(noise, LatticeNoise) and getattr(table, "reads_on_workers", False):
            (matrix,) = noise.noisy(unweighted(one, table.sum_up(self, size)[0]))
        else:
            chunks = (
                (np.zeros(count, dtype=bool), [self.factors(chunk)[:count]])
                for chunk, count in table.chunks(size)
            )
            (matrix,) = noise.totals(chunks, [one], WEIGHT_ONE)
        return matrix, noise.term_sd(one, matrix.size)


@dataclass(frozen=True, eq=False)
class CountTotals:
    """Numbers of records of a chunk in the levels of some entries, in integers.

    Attributes
    ----------
    codes : callable
        A chunk to the level of each entry of its rows, shape (rows, V); what is below 0 or too
        large is in none.
    levels : sequence of int
        How many levels each entry has.
    common : SentOnce, optional
        What is sent to workers once for several sums.
    """

    codes: Callable[[Chunk], np.ndarray]
    levels: Sequence[int]
    common: SentOnce | None = None

    def __call__(self, chunk: Chunk, count: int) -> Totals:
        """Numbers of the true rows."""
        entries = zip(self.codes(chunk)[:count].T, self.levels, strict=True)
        return [cell_counts([codes], levels).tolist() for codes, levels in entries]

    def noisy(
        self, table: RecordTable, noise: SummaryNoise, size: int, mu: Sequence[float]
    ) -> list[np.ndarray]:
        """Noisy numbers of the records of a table in chunks of `size` (T33), each at its mu."""
        if isinstance(noise, LatticeNoise) and getattr(table, "reads_on_workers", False):
            totals = table.sum_up(self, size)
        else:
            totals = [[0] * levels for levels in self.levels]
            for chunk, count in table.chunks(size):
                found = zip(totals, self(chunk, count), strict=True)
                totals = [np.add(total, part).tolist() for total, part in found]
        return [noise.noisy_counts(total, part) for total, part in zip(totals, mu, strict=True)]


def ones(chunk: Chunk) -> np.ndarray:
    """The terms of a number of records."""
    return np.ones((len(next(iter(chunk.values()))), 1))
