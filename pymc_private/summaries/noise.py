"""Noisy sums of bounded terms (T30, T31): exact integer sums, correctly rounded Gaussian noise.

The terms of records are integer vectors (`lattice.py`), so their sum S is exact. What is released
is S + G with G = round(sigma Z) for an ideal standard normal vector Z. Since S is an integer
vector, S + round(sigma Z) = round(S + sigma Z): a map, the same for all data sets, of the release
of a Gaussian mechanism in real numbers with sensitivity Delta and noise sigma. This one is
(Delta / sigma)-GDP, so the release is, to the bit. sigma^2 = Delta^2 / mu^2 holds without rounding:
Delta^2 and the double mu are rational numbers, and so is the variance of the noise.

No floating-point number takes part between the terms and the release; what is proved of a term
holds whatever the code that computed it got wrong. One condition is left to that code: the term of
a record is a function of this record and of public numbers alone. NumPy and linear algebra may
round a row differently where arrays have another shape, so terms are computed in chunks of one
shape (`chunks_of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from pymc_private.errors import DomainError
from pymc_private.privacy.gaussian import gdp_eps
from pymc_private.privacy.inverse import mu_affordable
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding import float_down
from pymc_private.privacy.validation import check_count, check_positive, exact_stated
from pymc_private.samplers.inverse_cdf import fraction_ball
from pymc_private.samplers.randomness import Randomness
from pymc_private.samplers.verified.arithmetic import LazyNoise
from pymc_private.summaries.compiled.compiler import COMPILER
from pymc_private.summaries.lattice import TermLattice, limit_elements, packed_size
from pymc_private.summaries.weighted_sums import (
    WEIGHT_BITS,
    WEIGHT_ONE,
    BoundedSum,
    WeightedChunk,
    WeightedSums,
    vector_totals,
)

CHUNK = 1024
"""Rows in a chunk of records: few enough for arrays of rows and nodes to stay in a cache."""
NOISE_BITS = 128
"""Bits of a normal number that are computed first; further ones where rounding is undecided."""

LEAST_MU, MOST_MU = 1e-100, 1e100
"""Budgets whose noise can be written as a double."""


# ---- the budget ------------------------------------------------------------------------------
def largest_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian privacy fits (epsilon, delta), rounded down.

    `gdp_eps` was evaluated at it, and is at most epsilon; a decimal means itself (0.1 is 1/10).

    Raises
    ------
    DomainError
        epsilon is not positive and finite, or delta is not in (0, 1).
    """
    stated, probability = exact_stated(epsilon, "epsilon"), exact_stated(delta, "delta")
    check_positive(epsilon=stated)
    if not 0 < probability < 1:
        raise DomainError(
            "Gaussian noise needs a delta",
            got=f"delta={delta}",
            allowed="0 < delta < 1",
            do="a small one, such as 1e-6",
        )
    at, within = float_down(stated), float_down(probability)
    mu = float(mu_affordable(at, within))
    step = 2.0**-52
    while mu > 0.0 and gdp_eps(within, mu) > at:
        mu, step = mu * (1.0 - step), 2.0 * step
    return mu


def split_mu(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """The mu of each stage: mu_t^2 proportional to its share, their exact sum at most mu^2 (T30).

    Raises
    ------
    DomainError
        mu or a share is not positive, or there is none.
    """
    check_positive(mu=mu)
    for share in shares:
        check_positive(share=share)
    if not len(shares):
        raise DomainError(
            "a budget is split into one share at least",
            got="none",
            allowed="one number > 0 or more",
        )
    limit, total = Fraction(mu) ** 2, math.fsum(shares)
    parts = [mu * math.sqrt(share / total) for share in shares]
    while sum(Fraction(part) ** 2 for part in parts) > limit:
        parts = [math.nextafter(part, 0.0) for part in parts]
    return tuple(parts)


# ---- chunks of one shape ---------------------------------------------------------------------
def chunk_size(n: int, relation: str, large: int = CHUNK) -> int:
    """Rows of every chunk: `large`, or n where that is public and smaller; else `CHUNK`."""
    return max(1, min(large, n)) if relation == SUBSTITUTE else CHUNK


def chunks_of(
    rows: Mapping[str, np.ndarray], n: int, size: int = CHUNK
) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """The n rows of some arrays in chunks of `size`, each with its number of true rows.

    The last chunk is filled up with copies of its first row, so that all have one shape: results
    below the true rows are to be dropped. There is a chunk, of zeros, even if n is zero.
    """
    for start in range(0, max(n, 1), size):
        count = min(size, n - start)
        index = np.full(size, start)
        index[:count] = np.arange(start, start + count)
        yield {name: _rows_at(np.asarray(array), index, n) for name, array in rows.items()}, count


def _rows_at(array: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    if n == 0:
        return np.zeros((len(index), *array.shape[1:]), dtype=array.dtype)
    return np.ascontiguousarray(array[index])


# ---- noise -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class NoiseScale:
    """How much noise a sum needs: fixed by the relation, the unit and public numbers.

    Parameters
    ----------
    relation : str
        What neighbors are: "substitute" or "add_remove".
    records_per_unit : int
        Records that one person may have.
    parts : bool
        Whether a record that changes may leave the part of the records that a sum reads (T37).
    """

    relation: str = SUBSTITUTE
    records_per_unit: int = 1
    parts: bool = False

    def __post_init__(self) -> None:
        if self.relation not in (SUBSTITUTE, ADD_REMOVE):
            raise DomainError(
                "a sum of bounded terms protects whole records",
                got=f"neighbors={self.relation!r}",
                allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
                do="declare the model with one of these; a Metric guarantees by distance, which "
                "no bound on whole terms does",
            )
        check_count(self.records_per_unit, "records_per_unit")

    @property
    def substitute(self) -> bool:
        """Whether one record is replaced, rather than added or removed."""
        return self.relation == SUBSTITUTE

    def variance(self, lattice: TermLattice, k: int, positive: bool, mu: float) -> Fraction:
        """Variance of the noise of each element in units of gamma^2: Delta^2 / mu^2, exactly."""
        _check_mu(mu)
        squared = lattice.squared_sensitivity(k, positive, self.substitute, self.parts)
        return squared * self.records_per_unit**2 / Fraction(mu) ** 2

    def term_variance(self, one: BoundedSum, k: int) -> Fraction:
        """The same of a sum of `weighted_sums.WeightedSums`; of matrices, of a diagonal element."""
        lattice = one.lattice
        if isinstance(lattice, TermLattice):
            return self.variance(lattice, k, False, one.mu)
        _check_mu(one.mu)
        squared = lattice.squared_sensitivity(k == 1, self.substitute, self.parts)
        return Fraction(squared * self.records_per_unit**2) / Fraction(one.mu) ** 2

    def term_sd(self, one: BoundedSum, k: int) -> float:
        """The standard deviation of that noise, as a double."""
        return math.ldexp(math.sqrt(self.term_variance(one, k)), one.lattice.exponent)

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """The standard deviation of the noise of each element, as a double."""
        lattice = TermLattice(bound)
        return math.ldexp(math.sqrt(self.variance(lattice, k, positive, mu)), lattice.exponent)

    def counts_variance(self, mu: float) -> Fraction:
        """Variance of the noise of each of some disjoint cells."""
        _check_mu(mu)
        cells = 2 if self.substitute else 1
        return Fraction(cells * self.records_per_unit**2) / Fraction(mu) ** 2

    def counts_sd(self, mu: float) -> float:
        """The standard deviation of the noise of each of some disjoint cells."""
        return math.sqrt(self.counts_variance(mu))


class LatticeNoise:
    """Noisy sums for private release: mu-GDP is proved in floating point (T30).

    Parameters
    ----------
    randomness : Randomness
        The operating system's, unless the release is a demonstration.
    relation : str
    records_per_unit : int
    """

    def __init__(
        self, randomness: Randomness, relation: str = SUBSTITUTE, records_per_unit: int = 1
    ) -> None:
        self.scale = NoiseScale(relation, records_per_unit)
        self._randomness = randomness

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """Sum of the rows of the chunks with noise, as `SummaryNoise` says; shape (k,).

        Rows beyond the bound are shrunk to it. Rows that are not finite, or of which `positive` is
        false, count as 0.
        """
        return self.noisy_total(exact_total(chunks, bound, positive), bound, positive, mu)

    def noisy_total(
        self, total: Sequence[int], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """An exact sum of terms (`exact_total`) with its noise, shape (k,)."""
        lattice = TermLattice(bound)
        variance = self.scale.variance(lattice, len(total), positive, mu)
        noise = rounded_normals(variance, len(total), self._randomness)
        return np.array([lattice.value(a + b) for a, b in zip(total, noise, strict=True)])

    def totals(
        self, chunks: Iterable[WeightedChunk], sums: Sequence[BoundedSum], weight: int
    ) -> list[np.ndarray]:
        """Several weighted sums in one pass, as `SummaryNoise` says."""
        return self.noisy(WeightedSums(sums, weight).added(chunks))

    def noisy(self, found: WeightedSums) -> list[np.ndarray]:
        """Exact weighted sums with their noise: vectors, and symmetric matrices.

        The noise is 256 times that of a sum in units of gamma; off the diagonal of a matrix its
        variance is half of that, since such an entry counts twice in the Frobenius norm.
        """
        if not found.totals:
            _some(None)
        pairs = zip(found.totals, found.sums, strict=True)
        return [self._noisy(total, one) for total, one in pairs]

    def _noisy(self, total: list[int], one: BoundedSum) -> np.ndarray:
        variance = self.scale.term_variance(one, len(total)) * WEIGHT_ONE**2
        exponent = one.lattice.exponent - WEIGHT_BITS
        if not one.positive:
            noise = rounded_normals(variance, len(total), self._randomness)
            return _values(total, noise, exponent)
        places = zip(*np.triu_indices(packed_size(len(total))), strict=True)
        variances = [variance if i == j else variance / 2 for i, j in places]
        noise = [_rounded_normal(v, self._randomness) for v in variances]
        return _symmetric(_values(total, noise, exponent))

    def of_parts(self) -> LatticeNoise:
        """The same for sums that read parts of the records (T37)."""
        made = copy(self)
        made.scale = replace(self.scale, parts=True)
        return made

    def term_sd(self, one: BoundedSum, k: int) -> float:
        """The standard deviation of the noise that `totals` adds; of matrices, on the diagonal."""
        return self.scale.term_sd(one, k)

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """The standard deviation of the noise that `total` adds to each element."""
        return self.scale.sd(bound, positive, mu, k)

    def counts(self, chunks: Iterable[np.ndarray], cells: int, mu: float) -> np.ndarray:
        """Numbers of records in disjoint cells, with noise: shape (cells,).

        Chunks hold the cell of each record, from 0 on; records outside all cells are not counted.
        """
        return self.noisy_counts(cell_counts(chunks, cells), mu)

    def noisy_counts(self, counts: Sequence[int] | np.ndarray, mu: float) -> np.ndarray:
        """Numbers of records that were counted before, with the noise of `counts`."""
        lattice = TermLattice(1.0)
        variance = self.scale.counts_variance(mu) * lattice.most**2
        total = [int(c) * lattice.most for c in counts]
        noise = rounded_normals(variance, len(total), self._randomness)
        return np.array([lattice.value(a + b) for a, b in zip(total, noise, strict=True)])

    def counts_sd(self, mu: float) -> float:
        """The standard deviation of the noise that `counts` adds to each cell."""
        return self.scale.counts_sd(mu)


class SimulatedNoise:
    """The same sums in floating point, for simulations and for seeded releases: not private.

    Parameters
    ----------
    rng : numpy.random.Generator
    relation : str
    records_per_unit : int
    """

    def __init__(
        self, rng: np.random.Generator, relation: str = SUBSTITUTE, records_per_unit: int = 1
    ) -> None:
        self.scale = NoiseScale(relation, records_per_unit)
        self.rng = rng

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """As `LatticeNoise.total`, up to rounding, for terms that are what they should be."""
        total: np.ndarray | None = None
        for chunk in _checked(chunks):
            part = _within(chunk, bound).sum(axis=0)
            total = part if total is None else total + part
        found = np.asarray(_some(total))
        sd = self.scale.sd(bound, positive, mu, len(found))
        return found + sd * self.rng.standard_normal(len(found))

    def totals(
        self, chunks: Iterable[WeightedChunk], sums: Sequence[BoundedSum], weight: int
    ) -> list[np.ndarray]:
        """As `LatticeNoise.totals`, up to rounding."""
        found: list[np.ndarray | None] = [None] * len(sums)
        for light, parts in chunks:
            weights = np.where(light, weight / WEIGHT_ONE, 1.0)
            for k, part in enumerate(parts):
                added, before = _weighted_total(np.asarray(part), sums[k], weights), found[k]
                found[k] = added if before is None else before + added
        pairs = zip(found, sums, strict=True)
        return [self._noisy(np.asarray(_some(total)), one) for total, one in pairs]

    def _noisy(self, total: np.ndarray, one: BoundedSum) -> np.ndarray:
        sd = self.scale.term_sd(one, total.size)
        noise = self.rng.standard_normal(total.shape)
        if one.positive:
            noise = np.triu(noise, 1) / np.sqrt(2.0) + np.diag(np.diag(noise)) / 2.0
            noise = noise + noise.T
        return total + sd * noise

    def of_parts(self) -> SimulatedNoise:
        """As `LatticeNoise.of_parts`."""
        made = copy(self)
        made.scale = replace(self.scale, parts=True)
        return made

    def term_sd(self, one: BoundedSum, k: int) -> float:
        """The standard deviation of the noise that `totals` adds; of matrices, on the diagonal."""
        return self.scale.term_sd(one, k)

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """As `LatticeNoise.sd`."""
        return self.scale.sd(bound, positive, mu, k)

    def counts(self, chunks: Iterable[np.ndarray], cells: int, mu: float) -> np.ndarray:
        """As `LatticeNoise.counts`."""
        return self.noisy_counts(cell_counts(chunks, cells), mu)

    def noisy_counts(self, counts: Sequence[int] | np.ndarray, mu: float) -> np.ndarray:
        """As `LatticeNoise.noisy_counts`."""
        sd = self.scale.counts_sd(mu)
        return np.asarray(counts) + sd * self.rng.standard_normal(len(counts))

    def counts_sd(self, mu: float) -> float:
        """As `LatticeNoise.counts_sd`."""
        return self.scale.counts_sd(mu)


def rounded_normals(variance: Fraction, count: int, randomness: Randomness) -> list[int]:
    """Independent normal numbers of a rational variance, each rounded to the nearest integer.

    Every number is an ideal normal draw, -+Phi^-1(V) sigma with V uniform. As many bits of V are
    drawn as decide which integer is nearest, by balls of proved radius.
    """
    return [_rounded_normal(variance, randomness) for _ in range(count)]


def _rounded_normal(variance: Fraction, randomness: Randomness) -> int:
    noise, bits = LazyNoise(randomness.words(1), randomness), NOISE_BITS
    while True:
        (normal,) = noise.normals(bits)
        with ctx.workprec(bits):
            found = (normal * fraction_ball(variance).sqrt() + arb(0.5)).floor()
        whole = found.unique_fmpz() if found.is_finite() else None
        if whole is not None:
            return int(whole)
        bits *= 2


def exact_total(chunks: Iterable[np.ndarray], bound: float, positive: bool) -> list[int]:
    """The exact sum of the rows of the chunks in units of their lattice; see `LatticeNoise.total`.

    Raises
    ------
    DomainError
        No chunk, or chunks that are no terms.
    """
    lattice, total = TermLattice(bound), None
    for chunk in _checked(chunks):
        part = _chunk_sum(lattice, chunk, positive)
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return _some(total)


def _chunk_sum(lattice: TermLattice, chunk: np.ndarray, positive: bool) -> list[int]:
    """The exact sum of the terms of a chunk."""
    none = np.zeros(len(chunk), dtype=bool)
    return vector_totals(lattice, chunk, none, COMPILER.loops, positive)[0]


def _within(chunk: np.ndarray, bound: float) -> np.ndarray:
    """Rows no longer than a bound, up to rounding; 0 for those that are not finite."""
    values = np.where(np.isfinite(chunk).all(axis=1)[:, None], chunk, 0.0)
    scaled = limit_elements(values, bound) / bound
    norm = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return np.asarray(bound * (scaled / np.maximum(norm, 1.0)[:, None]))


def _weighted_total(part: np.ndarray, one: BoundedSum, weights: np.ndarray) -> np.ndarray:
    """The weighted sum of terms, or of the matrices that factors of shape (c, m, p) stand for."""
    if not one.positive:
        return np.asarray((_within(_as_terms(part), one.bound) * weights[:, None]).sum(axis=0))
    values = np.where(np.isfinite(part).all(axis=(1, 2))[:, None, None], part, 0.0)
    norm = np.sqrt(((values @ np.swapaxes(values, 1, 2)) ** 2).sum(axis=(1, 2)))
    factor = weights * np.minimum(1.0, one.bound / np.maximum(norm, 1e-300))
    flat = values.reshape(-1, part.shape[2])
    return np.asarray((flat * np.repeat(factor, part.shape[1])[:, None]).T @ flat)


def _values(total: Sequence[int], noise: Sequence[int], exponent: int) -> np.ndarray:
    """Integers with their noise, in units of 2**exponent."""
    pairs = zip(total, noise, strict=True)
    return np.array([math.ldexp(float(a + b), exponent) for a, b in pairs])


def _symmetric(upper: np.ndarray) -> np.ndarray:
    """A symmetric matrix of its entries on and above the diagonal, row by row."""
    rows, columns = np.triu_indices(packed_size(len(upper)))
    found = np.empty((rows[-1] + 1, rows[-1] + 1))
    found[rows, columns] = found[columns, rows] = upper
    return found


def _check_mu(mu: float) -> None:
    check_positive(mu=mu)
    if not LEAST_MU <= mu <= MOST_MU:
        raise DomainError(
            "no sum is released at so small or large a mu",
            got=mu,
            allowed=f"{LEAST_MU} to {MOST_MU}",
            do="another epsilon or delta",
        )


def _checked(chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Chunks as doubles of one width."""
    width = None
    for given in chunks:
        chunk = _as_terms(given, width)
        width = chunk.shape[1]
        yield chunk


def _as_terms(given: np.ndarray, width: int | None = None) -> np.ndarray:
    """A chunk as doubles, of a given width."""
    chunk = np.asarray(given)
    fits = chunk.ndim == 2 and chunk.shape[1] == (width or chunk.shape[1])
    if not fits or chunk.dtype.kind not in "fiub":
        raise DomainError(
            "chunks of terms are real numbers, one row for each record, of one width",
            got=f"{chunk.dtype} of shape {chunk.shape}",
            allowed="(records, k)",
        )
    return np.asarray(chunk, dtype=np.float64)


def _some(total: list[int] | np.ndarray | None) -> list:
    if total is None:
        raise DomainError(
            "a sum needs one chunk at least", got="none", do="give an empty chunk of shape (0, k)"
        )
    return list(total)


def cell_counts(chunks: Iterable[np.ndarray], cells: int) -> np.ndarray:
    """Numbers of records in cells; chunks hold the cell of each record."""
    check_count(cells, "cells")
    total = np.zeros(cells, dtype=np.int64)
    for given in chunks:
        labels = np.asarray(given)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise DomainError(
                "cells are whole numbers, one for each record",
                got=f"{labels.dtype} of shape {labels.shape}",
                allowed="integers of shape (records,)",
            )
        inside = labels[(labels >= 0) & (labels < cells)].astype(np.int64)
        total += np.bincount(inside, minlength=cells)
    return total
