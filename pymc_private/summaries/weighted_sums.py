"""Exact weighted sums of bounded terms, which any number of machines may add up (T37).

A record adds w t, t an integer vector (`lattice.py`) and w = 256, or less for records of a pilot
part. Of positive semidefinite matrices t = sum_j v_j v_j' with integer vectors v_j (`GramLattice`):
such terms are semidefinite without a check, and sums of them are products of matrices of integers,
exact in doubles. Sums of integers do not depend on order, chunks or machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, Unsupported
from pymc_private.summaries.compiled.chunk_threads import each_chunk
from pymc_private.summaries.compiled.compiler import COMPILER
from pymc_private.summaries.lattice import TermLattice, limit_elements

WEIGHT_BITS = 8
WEIGHT_ONE = 2**WEIGHT_BITS
"""Weights of records in a weighted sum are multiples of 1/256."""
GRAM_BITS = 18
"""The root of a bound is between 2**17 and 2**18 widths of the lattice of vectors."""
ROOM = 2.0**-12
"""What the bound of a Gram term exceeds K by, so that rounding to the nearest integers fits."""
MOST_FACTORS, MOST_LENGTH = 2**10, 2**12
"""Vectors of one term, and their length: products stay below 2**53."""
FEW_FACTORS = 4
"""Vectors of one term whose products are taken pair by pair."""
MOST_ROWS = 2**16
"""Vectors whose products, each at most 2**36 (1 + 2**-12), are added in doubles."""
ROWS_SUMMED = 2**20
"""Rows whose terms, each below 2**42, are added as 64-bit integers."""

WeightedChunk = tuple[np.ndarray, Sequence[np.ndarray]]
"""Whether each row has the lower weight, shape (c,), and the terms of each sum."""


@dataclass(frozen=True)
class BoundedSum:
    """A sum of bounded terms.

    Attributes
    ----------
    bound : float
        Largest Euclidean (Frobenius) norm of a term.
    positive : bool
        Whether terms are positive semidefinite matrices sum_j v_j v_j', given by their factors,
        shape (c, m, p); else they are vectors, shape (c, k).
    mu : float
    """

    bound: float
    positive: bool
    mu: float

    @property
    def lattice(self) -> TermLattice | GramLattice:
        """The lattice of its terms."""
        return GramLattice(self.bound) if self.positive else TermLattice(self.bound)


@dataclass(frozen=True)
class GramLattice:
    """The lattice of vectors v_j of terms sum_j v_j v_j', fixed by a bound K of their norm."""

    bound: float

    def __post_init__(self) -> None:
        TermLattice(self.bound)  # refuses what is no bound

    @property
    def vector_exponent(self) -> int:
        """Vectors are multiples of 2 to this power."""
        return math.frexp(math.sqrt(self.bound))[1] - GRAM_BITS

    @property
    def exponent(self) -> int:
        """Terms are multiples of gamma, 2 to this power."""
        return 2 * self.vector_exponent

    @property
    def most(self) -> int:
        """M, the largest norm of a term in units of gamma."""
        return math.floor(Fraction(self.bound) * Fraction(1 + ROOM) / Fraction(2) ** self.exponent)

    def vectors(self, factors: np.ndarray) -> np.ndarray:
        """Integer vectors, as doubles (c, m, p), with |sum_j v_j v_j'|_F <= M, without error.

        A row with what is no finite number counts as 0, and so does one that is too long even when
        it was shrunk. Every step treats a row by itself.
        """
        count, m, p = factors.shape
        refuse_size(m, p)
        flat = np.asarray(factors, dtype=float).reshape(count, m * p)
        finite = np.isfinite(flat).all(axis=1)
        flat = limit_elements(np.where(finite[:, None], flat, 0.0), 2.0 * math.sqrt(self.bound))
        found = np.rint(np.ldexp(flat, -self.vector_exponent))
        long, norm = self._exceeds(found.reshape(factors.shape))
        if long.any():
            factor = np.sqrt(self.most / norm[long]) * (1.0 - 2.0**-GRAM_BITS)
            found[long] = np.trunc(found[long] * factor[:, None])
            still, _ = self._exceeds(found.reshape(factors.shape))
            found[still] = 0.0
        return found.reshape(factors.shape)

    def _exceeds(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether |sum_j v_j v_j'|_F may exceed M, and that norm.

        Its square is the sum of (v_j . v_k)^2. The products are exact, since they are below 2^53;
        so is the norm for m = 1. Else squares and their sum are off by less than 2^-32 of it: they
        are at most 2^20 numbers of one sign.
        """
        if vectors.shape[1] == 1:
            norm = (vectors[:, 0] ** 2).sum(axis=1)
            return norm > self.most, norm
        norm = np.sqrt(_squared_norms(vectors))
        return norm * (1.0 + 2.0**-30) > self.most, norm

    def total(self, vectors: np.ndarray) -> list[int]:
        """The sum of the terms, row by row on and above the diagonal, exactly."""
        p = vectors.shape[2]
        rows, columns = np.triu_indices(p)
        total = [0] * len(rows)
        flat = vectors.reshape(-1, p)
        for start in range(0, len(flat), MOST_ROWS):
            part = flat[start : start + MOST_ROWS]
            found = (part.T @ part)[rows, columns].astype(np.int64).tolist()
            total = [a + b for a, b in zip(total, found, strict=True)]
        return total

    def squared_sensitivity(self, is_number: bool, substitute: bool, parts: bool = False) -> int:
        """Upper bound of |t - t'|_F^2, or of |t|_F^2 under add/remove, in units of gamma^2.

        `is_number`: p = 1, terms of [0, M]; `parts` as of `TermLattice.squared_sensitivity`.
        """
        return (2 if substitute and (parts or not is_number) else 1) * self.most**2


def refuse_size(m: int, p: int) -> None:
    """Refuse terms of so many, or so long, vectors that products of them are not exact.

    Raises
    ------
    Unsupported
        They are.
    """
    if m > MOST_FACTORS or p > MOST_LENGTH:
        raise Unsupported(
            "terms of this size are not summed exactly",
            got=f"{m} predictors of a record, {p} parameters",
            allowed=f"{MOST_FACTORS} and {MOST_LENGTH}",
            do="a model with fewer, such as one of fewer groups",
        )


def _squared_norms(vectors: np.ndarray) -> np.ndarray:
    """|sum_j v_j v_j'|_F^2 of integer vectors (c, m, p), each row by itself in a fixed order."""
    count, m, p = vectors.shape
    if m > FEW_FACTORS:
        others = np.swapaxes(vectors, 1, 2)
        products = vectors @ others if m <= p else others @ vectors  # exact
        return np.asarray((products.reshape(count, -1) ** 2).sum(axis=1))  # also of a single row
    squares = np.zeros(count)
    for j in range(m):
        for k in range(j + 1):
            product = (vectors[:, j] * vectors[:, k]).sum(axis=1)
            squares += (1.0 if j == k else 2.0) * product**2
    return squares


def _as_they_are(chunk: WeightedChunk) -> WeightedChunk:
    return chunk


@dataclass
class WeightedSums:
    """Exact sums so far, in units of gamma / 256.

    Attributes
    ----------
    sums : sequence of BoundedSum
    weight : int
        Of records with the lower weight; that of the others is 256.
    totals : list of list of int
        One for each sum; of matrices the entries on and above the diagonal.
    """

    sums: Sequence[BoundedSum]
    weight: int
    totals: list[list[int]] = field(default_factory=list)

    def added(
        self, chunks: Iterable[Any], terms: Callable[[Any], WeightedChunk] = _as_they_are
    ) -> WeightedSums:
        """These with the terms of some chunks; `terms`: of a chunk, in threads where that pays."""
        for found in each_chunk(lambda chunk: self.of(terms(chunk)), chunks):
            self.add(found)
        return self

    def of(self, chunk: WeightedChunk) -> list[list[int]]:
        """Sums of the terms of one chunk, which are not added."""
        light, parts = chunk
        pairs = zip(self.sums, parts, strict=True)
        return [self._of_chunk(one.lattice, part, light) for one, part in pairs]

    def merged(self, other: WeightedSums) -> WeightedSums:
        """These and those of other records."""
        if (tuple(other.sums), other.weight) != (tuple(self.sums), self.weight):
            raise DomainError(
                "sums of other terms cannot be added",
                got="other bounds or weights",
                allowed="sums with the same bounds and weights",
            )
        if other.totals:
            self.add(other.totals)
        return self

    def add(self, found: list[list[int]]) -> None:
        """Add sums of other records."""
        before = self.totals or [[0] * len(total) for total in found]
        self.totals = [
            [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(before, found, strict=True)
        ]

    def _of_chunk(
        self, lattice: TermLattice | GramLattice, part: np.ndarray, light: np.ndarray
    ) -> list[int]:
        if isinstance(lattice, GramLattice):
            every, some = gram_totals(lattice, part, light, COMPILER.loops)
        else:
            every, some = vector_totals(lattice, part, light, COMPILER.loops)
        less = WEIGHT_ONE - self.weight
        return [WEIGHT_ONE * a - less * b for a, b in zip(every, some, strict=True)]


def exact_matrix(factors: np.ndarray, bound: float) -> list[int]:
    """The exact sum of the matrices of rows of factors (c, m, p), in units of their lattice."""
    none = np.zeros(len(factors), dtype=bool)
    return gram_totals(GramLattice(bound), factors, none, COMPILER.loops)[0]


def unweighted(one: BoundedSum, total: list[int]) -> WeightedSums:
    """An exact sum in units of its lattice, every record of weight 1."""
    return WeightedSums([one], WEIGHT_ONE, [[WEIGHT_ONE * entry for entry in total]])


def vector_totals(
    lattice: TermLattice, terms: np.ndarray, light: np.ndarray, loops: Any, positive: bool = False
) -> tuple[list[int], list[int]]:
    """Exact sums of vectors (c, k) on a lattice: of all rows, and of those that are `light`.

    With compiled `loops` rows whose length is in doubt are left to the lattice itself. `positive`:
    as of `TermLattice.terms`.
    """
    given = np.asarray(terms, dtype=float)
    if loops is None or (positive and given.shape[1] == 1):
        units = lattice.terms(given, positive)
        return exact_sum(units), exact_sum(units[light])
    every = some = [0] * given.shape[1]
    limits = vector_limits(lattice, given.shape[1])
    for start in range(0, len(given), ROWS_SUMMED):
        part, few = given[start : start + ROWS_SUMMED], light[start : start + ROWS_SUMMED]
        columns, sums = np.ascontiguousarray(part.T), np.zeros((2, part.shape[1]), dtype=np.int64)
        kept, left = np.ones(len(part), dtype=bool), np.zeros(len(part), dtype=bool)
        if positive:
            with np.errstate(all="ignore"):  # rows that are no numbers are left
                kept = lattice.is_positive(np.trunc(columns * limits[0]).T)
        loops.vector_sums(columns, few, kept, limits, sums, left)
        every, some = _added(every, sums[0].tolist()), _added(some, sums[1].tolist())
        if left.any():
            rest = vector_totals(lattice, part[left], few[left], None, positive)
            every, some = _added(every, rest[0]), _added(some, rest[1])
    return every, some


def vector_limits(lattice: TermLattice, k: int) -> tuple[float, float, float]:
    """1 / gamma, the largest entry, and the largest |t|^2 in doubles that is surely at most M^2.

    A sum of k squares in doubles is off by less than a k-th part of what is left out.
    """
    most = float(lattice.most) ** 2 * (1.0 - (k + 6) * 2.0**-52)
    return math.ldexp(1.0, -lattice.exponent), lattice.bound, most


def gram_limits(lattice: GramLattice) -> tuple[float, float, float]:
    """The same of vectors v of terms v v', whose squares are exact."""
    scale = math.ldexp(1.0, -lattice.vector_exponent)
    return scale, 2.0 * math.sqrt(lattice.bound), float(lattice.most)


def gram_totals(
    lattice: GramLattice, factors: np.ndarray, light: np.ndarray, loops: Any
) -> tuple[list[int], list[int]]:
    """The same of matrices sum_j v_j v_j' with factors of shape (c, m, p)."""
    given = np.asarray(factors, dtype=float)
    if loops is None or given.shape[1] != 1:
        units = lattice.vectors(given)
        return lattice.total(units), lattice.total(units[light])
    limits = gram_limits(lattice)
    rows, left = np.ascontiguousarray(given[:, 0].T), np.zeros(len(given), dtype=bool)
    units = np.empty_like(rows)
    loops.gram_vectors(rows, limits, units, left)
    every, some = (lattice.total(part.T[:, None, :]) for part in (units, units[:, light]))
    if not left.any():
        return every, some
    rest = gram_totals(lattice, given[left], light[left], None)
    return _added(every, rest[0]), _added(some, rest[1])


def _added(*totals: list[int]) -> list[int]:
    return [sum(parts) for parts in zip(*totals, strict=True)]


def exact_sum(units: np.ndarray) -> list[int]:
    """Sums of the columns of integers below 2^42, as Python integers."""
    total = [0] * units.shape[1]
    for start in range(0, len(units), ROWS_SUMMED):
        part = units[start : start + ROWS_SUMMED].sum(axis=0).tolist()
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total
