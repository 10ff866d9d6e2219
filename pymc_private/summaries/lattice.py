"""Terms of single records as integer vectors whose norm, and sign, are proved.

A term v with |v| <= C in R^k becomes t in Z^k, the multiple t gamma of a power of two gamma:

1. a term that is NaN or infinite in any place becomes 0;
2. t = v / gamma, rounded towards zero. The norm of a rounded term is not larger, and division by
   a power of two is exact;
3. |t|^2 is computed without error and compared with M^2, M = floor(C / gamma). A longer term is
   shrunk to the length M, whatever the caller believed of it;
4. of packed matrices, T + s I is factored by Cholesky's method, s = 2^-20 M. What has no factor
   becomes 0. Matrices that are computed as sums of outer products pass: rounding moves them by
   far less than s. What is computed as a difference need not.

Every step treats a row by itself: sums along rows are sums of integers, and everything else is one
correctly rounded operation per element. So t does not depend on other records, nor on the place of
a record among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pymc_private.errors import DomainError

LATTICE_BITS = 40
"""A bound is between 2**40 and 2**41 widths of its lattice."""
LIMB_BITS = 21
"""Bits of the low part of an integer below 2**42 whose square is taken in two parts."""
SLACK_BITS = 20
"""2**-20 times the bound is added to the diagonal before a matrix is factored."""
LEAST_EXPONENT, MOST_EXPONENT = -900, 900
"""Exponents of bounds: beyond them a lattice would leave the doubles."""
MOST_ELEMENTS = 2**19
"""Largest length of a term: sums of squares stay below 2**63, and p below 2**10."""


def pack_symmetric(matrices: np.ndarray) -> np.ndarray:
    """Upper triangles of symmetric matrices (..., p, p) as vectors of the same Euclidean norm.

    Shape (..., p (p + 1) / 2), row by row; elements off the diagonal are multiplied by the root of
    two.
    """
    p = matrices.shape[-1]
    rows, columns = np.triu_indices(p)
    return np.asarray(matrices[..., rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0)))


def unpack_symmetric(packed: np.ndarray) -> np.ndarray:
    """Symmetric matrices from what `pack_symmetric` gives."""
    p = packed_size(packed.shape[-1])
    rows, columns = np.triu_indices(p)
    values = packed * np.where(rows == columns, 1.0, math.sqrt(0.5))
    found = np.empty((*packed.shape[:-1], p, p))
    found[..., rows, columns] = values
    found[..., columns, rows] = values
    return found


def packed_size(k: int) -> int:
    """The p of p (p + 1) / 2 = k.

    Raises
    ------
    DomainError
        There is none.
    """
    p = (math.isqrt(8 * k + 1) - 1) // 2
    if p < 1 or p * (p + 1) // 2 != k:
        raise DomainError(
            "a packed symmetric matrix has p (p + 1) / 2 elements",
            got=f"{k} elements",
            allowed="1, 3, 6, 10, 15, ...",
        )
    return p


@dataclass(frozen=True)
class TermLattice:
    """The lattice of terms of at most a given norm, fixed by that bound alone.

    Parameters
    ----------
    bound : float
        C, the largest Euclidean norm of a term.
    """

    bound: float

    def __post_init__(self) -> None:
        at = math.frexp(self.bound)[1] if 0.0 < self.bound < math.inf else math.inf
        if not LEAST_EXPONENT <= at <= MOST_EXPONENT:
            raise DomainError(
                "the bound of a term is a positive number that leaves room for a lattice",
                got=self.bound,
                allowed=f"2**{LEAST_EXPONENT} to 2**{MOST_EXPONENT}",
            )

    @property
    def exponent(self) -> int:
        """gamma is 2 to this power."""
        return math.frexp(self.bound)[1] - LATTICE_BITS - 1

    @property
    def most(self) -> int:
        """M, the largest norm in units of gamma, an integer of [2^40, 2^41)."""
        return math.floor(math.ldexp(self.bound, -self.exponent))

    def value(self, units: int) -> float:
        """A multiple of gamma as the nearest double."""
        return math.ldexp(float(units), self.exponent)

    def terms(self, chunk: np.ndarray, positive: bool) -> np.ndarray:
        """Integer terms of the rows of a chunk (c, k), as int64, with |t| <= M.

        If `positive`, rows are packed matrices, and T + `slack` I is positive semidefinite, too; a
        single number (k = 1) is at least 0.
        """
        _check_chunk(chunk)
        units = self._shrunk(self._truncated(chunk))
        if positive:
            units[~self.is_positive(units)] = 0
        return units

    def squared_sensitivity(
        self, k: int, positive: bool, substitute: bool, parts: bool = False
    ) -> Fraction:
        """Upper bound of |t - t'|^2, or of |t|^2 under add/remove, in units of gamma^2 (T31).

        `parts`: bounds |t|^2 + |t'|^2 also of numbers, as T37 needs.
        """
        most = Fraction(self.most)
        if not substitute or (positive and k == 1 and not parts):  # numbers in [0, M]
            return most**2
        if not positive:
            return 4 * most**2
        # <T, T'> >= -s (tr T + tr T') - s^2 p, where T + s I >= 0, and tr T <= sqrt(p) |T|
        p, slack = packed_size(k), self.slack
        root = math.isqrt(p - 1) + 1
        return 2 * most**2 + 4 * slack * root * most + 2 * slack**2 * p

    @property
    def slack(self) -> Fraction:
        """What T must be raised by, at most, to be positive semidefinite.

        Twice the s that `is_positive` adds. Cholesky's method runs to its end on the double matrix
        A only if a positive semidefinite matrix is within (p + 2) 2^-52 tr A of A in Frobenius norm
        (Higham 2002, theorem 10.3, and the norm of |R'| |R| is at most tr R'R). tr A is at most
        sqrt(p) M + p s, and p below 2^10, so this and the rounding of A itself are below 2^-36 M.
        """
        return 2 * Fraction(self.most, 2**SLACK_BITS)

    def _truncated(self, chunk: np.ndarray) -> np.ndarray:
        """v / gamma without its fraction, for finite rows, no element beyond 2^41; as doubles."""
        finite = np.isfinite(chunk).all(axis=1)
        values = np.where(finite[:, None], chunk, 0.0)
        values = limit_elements(values, self.bound)
        return np.asarray(np.trunc(np.ldexp(values, -self.exponent)))

    def _shrunk(self, units: np.ndarray) -> np.ndarray:
        """Integer vectors no longer than M, as int64.

        A longer one is multiplied by M / |t| (1 - 2^-40). Fewer than eight roundings move this by
        less than 2^-50 of itself, and truncation shortens. All the same, the comparison is
        repeated, and what is still longer becomes 0.
        """
        found = units.astype(np.int64)
        long, norm = self._exceeds(found)
        if long.any():
            factor = self.most / norm[long] * (1.0 - 2.0**-40)
            found[long] = np.trunc(units[long] * factor[:, None]).astype(np.int64)
            still, _ = self._exceeds(found)
            found[still] = 0
        return found

    def _exceeds(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether |t|^2 > M^2, without error, and the double of |t|.

        t = 2^21 a + b with 0 <= b < 2^21, so |t|^2 = 2^42 sum a^2 + 2^22 sum a b + sum b^2, where
        each sum is below 2^63. Carries make the three parts comparable one after another.
        """
        high, low = units >> LIMB_BITS, units & (2**LIMB_BITS - 1)
        squares, cross, rest = (
            np.einsum("ij,ij->i", x, y) for x, y in ((high, high), (high, low), (low, low))
        )
        cross = cross + (rest >> (LIMB_BITS + 1))
        rest = rest & (2 ** (LIMB_BITS + 1) - 1)
        squares = squares + (cross >> (LIMB_BITS - 1))
        cross = cross & (2 ** (LIMB_BITS - 1) - 1)
        top, remainder = divmod(self.most**2, 2 ** (2 * LIMB_BITS))
        middle, bottom = divmod(remainder, 2 ** (LIMB_BITS + 1))
        exceeds = (squares > top) | (
            (squares == top) & ((cross > middle) | ((cross == middle) & (rest > bottom)))
        )
        parts = (squares * 2.0**LIMB_BITS + cross * 2.0) * 2.0**LIMB_BITS + rest
        return exceeds, np.sqrt(parts)

    def is_positive(self, units: np.ndarray) -> np.ndarray:
        """Whether Cholesky's method runs to its end on T + M 2^-20 I; of numbers, whether >= 0."""
        if units.shape[1] == 1:
            return np.asarray(units[:, 0] >= 0)
        p = packed_size(units.shape[1])
        matrices = np.empty((p, p, len(units)))
        for column, row, place in zip(units.T, *np.triu_indices(p), strict=True):
            np.multiply(column, 1.0 if row == place else math.sqrt(0.5), out=matrices[place, row])
        for diagonal in range(p):
            matrices[diagonal, diagonal] += float(self.most) * 2.0**-SLACK_BITS
        good = np.ones(len(units), dtype=bool)
        for j in range(p):
            pivot = matrices[j, j]
            good &= pivot > 0.0
            # Where a pivot was not positive the rest is of no interest, and may not overflow.
            column = np.where(good, matrices[j + 1 :, j], 0.0) / np.sqrt(np.where(good, pivot, 1.0))
            for i in range(j + 1, p):  # the lower triangle alone
                matrices[i:, i] -= column[i - j - 1 :] * column[i - j - 1]
        return good


def limit_elements(values: np.ndarray, bound: float) -> np.ndarray:
    """Rows of finite numbers divided such that no element exceeds a bound, without overflow."""
    size = np.abs(values).max(axis=1, initial=0.0)
    large = size > bound
    if large.any():
        values = values.copy()
        values[large] = values[large] / size[large, None] * bound
    return values


def _check_chunk(chunk: np.ndarray) -> None:
    if chunk.ndim != 2 or not 1 <= chunk.shape[1] <= MOST_ELEMENTS:
        raise DomainError(
            "a chunk of terms has one row for each record",
            got=f"shape {chunk.shape}",
            allowed=f"(records, k), k <= {MOST_ELEMENTS}",
        )
