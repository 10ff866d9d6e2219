"""Weighted sums: exact, of any order and split, and no longer than their bounds."""

import math

import numpy as np
import pytest

from pymc_private.errors import DomainError, Unsupported
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries.noise import LatticeNoise, SimulatedNoise, rounded_normals
from pymc_private.summaries.weighted_sums import (
    BoundedSum,
    GramLattice,
    WeightedSums,
    exact_matrix,
)

SUMS = (BoundedSum(1.0, False, 0.5), BoundedSum(0.3, True, 0.8))


def chunk(count=50, m=1, seed=0):
    rng = np.random.default_rng(seed)
    vectors, factors = rng.normal(size=(count, 3)), rng.normal(size=(count, m, 3)) * 0.5
    vectors[:2], factors[:2] = [[np.nan] * 3, [np.inf, 1, 0]], np.nan
    return rng.random(count) < 0.4, [vectors, factors]


def integer_terms(parts):
    """Integer terms of both sums, as Python integers."""
    units = SUMS[0].lattice.terms(np.ascontiguousarray(parts[0]), False).astype(object)
    vectors = SUMS[1].lattice.vectors(parts[1]).astype(np.int64).astype(object)
    return units, (vectors[:, :, :, None] * vectors[:, :, None, :]).sum(axis=1)


@pytest.mark.parametrize("m", [1, 2])
def test_sums_are_exact_and_noise_is_as_stated(m):
    light, parts = chunk(m=m)
    noise, randomness = (SeededRandomness.from_seed(3) for _ in range(2))
    maker = LatticeNoise(noise).of_parts()
    found = maker.totals([(light, parts)], SUMS, 229)
    weights = np.where(light, 229, 256).astype(object)
    units, matrices = integer_terms(parts)
    exact, exponent = (units * weights[:, None]).sum(axis=0), SUMS[0].lattice.exponent - 8
    draws = rounded_normals(maker.scale.term_variance(SUMS[0], 3) * 2**16, 3, randomness)
    expected = [math.ldexp(float(a + b), exponent) for a, b in zip(exact, draws, strict=True)]
    np.testing.assert_array_equal(found[0], expected)
    total, exponent = (matrices * weights[:, None, None]).sum(axis=0), SUMS[1].lattice.exponent - 8
    variance = maker.scale.term_variance(SUMS[1], 6) * 2**16
    for i, j in zip(*np.triu_indices(3), strict=True):
        (draw,) = rounded_normals(variance / (1 if i == j else 2), 1, randomness)
        assert found[1][i, j] == found[1][j, i] == math.ldexp(float(total[i, j] + draw), exponent)


def test_sums_of_parts_are_those_of_the_whole():
    light, parts = chunk()
    whole = WeightedSums(SUMS, 229).added([(light, parts)])
    order = np.random.default_rng(1).permutation(len(light))
    pieces = [order[:7], order[7:8], order[8:8], order[8:]]
    merged = WeightedSums(SUMS, 229)
    for rows in pieces:
        piece = WeightedSums(SUMS, 229).added([(light[rows], [part[rows] for part in parts])])
        merged = merged.merged(piece)
    assert merged.merged(WeightedSums(SUMS, 229)).totals == whole.totals
    with pytest.raises(DomainError, match="other terms"):
        merged.merged(WeightedSums(SUMS, 228))
    with pytest.raises(DomainError, match="one chunk"):
        LatticeNoise(SeededRandomness.from_seed(3)).totals([], SUMS, 229)


@pytest.mark.parametrize("m", [1, 2, 3, 6])
@pytest.mark.parametrize("bound", [1.0, 0.3, 1e-5, 77.0])
def test_no_product_is_longer_than_its_bound(m, bound):
    rng, lattice = np.random.default_rng(2), GramLattice(bound)
    factors = (
        rng.normal(size=(400, m, 4))
        * np.sqrt(bound)
        * rng.choice([0.1, 1, 1e3, 1e200], (400, 1, 1))
    )
    factors[0], factors[1, 0, 0] = np.nan, np.inf
    found = lattice.vectors(factors)
    assert (found[:2] == 0).all()
    vectors = found.astype(np.int64).astype(object)
    matrices = (vectors[:, :, :, None] * vectors[:, :, None, :]).sum(axis=1)
    squares = (matrices**2).sum(axis=(1, 2))
    assert max(squares) <= lattice.most**2
    assert max(squares) > 0.99 * lattice.most**2  # long ones are shrunk, not dropped
    assert lattice.most <= bound * (1 + 2.0**-12) / 2.0**lattice.exponent
    assert lattice.squared_sensitivity(False, True) == 2 * lattice.squared_sensitivity(False, False)
    assert lattice.total(found) == [
        int(sum(matrices[:, i, j])) for i, j in zip(*np.triu_indices(4), strict=True)
    ]


def test_terms_within_their_bound_are_rounded_to_the_nearest():
    rng, lattice = np.random.default_rng(3), GramLattice(2.0)
    factors = rng.normal(size=(300, 1, 5))
    factors *= np.sqrt(2.0) / np.linalg.norm(factors, axis=2, keepdims=True)  # at the bound
    found = np.ldexp(lattice.vectors(factors), lattice.vector_exponent)
    assert np.abs(found - factors).max() <= 2.0 ** (lattice.vector_exponent - 1)
    order = rng.permutation(300)
    np.testing.assert_array_equal(lattice.vectors(factors[order]), lattice.vectors(factors)[order])
    with pytest.raises(Unsupported, match="not summed exactly"):
        lattice.vectors(np.zeros((1, 1025, 2)))


@pytest.mark.parametrize(("m", "p"), [(1, 3), (3, 4), (5, 5), (6, 3), (16, 16)])
def test_a_term_does_not_depend_on_how_many_rows_stand_beside_it(m, p):
    """To the last bit of its norm, which decides whether it is shrunk."""
    rng, lattice = np.random.default_rng(4), GramLattice(1.0)
    factors = rng.normal(size=(300, m, p))
    factors /= np.sqrt(np.linalg.norm(np.swapaxes(factors, 1, 2) @ factors, axis=(1, 2)))[
        :, None, None
    ]
    vectors = np.rint(np.ldexp(factors, -lattice.vector_exponent))
    norms = lattice._exceeds(vectors)[1]
    for k in range(300):
        assert lattice._exceeds(vectors[k : k + 1])[1][0] == norms[k]
    tuned = [54, 61423, 151, 61355, 602, 8, 7169, 60540, 60381, 18, 6, 61688, 116518, 60908, 61563,
             60312]  # fmt: skip
    row = np.zeros((1, 16, 16))
    row[0, range(16), range(16)] = np.ldexp(np.array(tuned, float), lattice.vector_exponent)
    beside = np.concatenate([row, np.zeros((1, 16, 16))])
    assert exact_matrix(row, 1.0) == exact_matrix(beside, 1.0)


def test_simulated_sums_are_the_same_up_to_noise():
    light, parts = chunk(m=2)
    exact = LatticeNoise(SeededRandomness.from_seed(3)).of_parts()
    sharp = [BoundedSum(one.bound, one.positive, 1e6) for one in SUMS]
    found = exact.totals([(light, parts)], sharp, 229)
    other = SimulatedNoise(np.random.default_rng(0)).of_parts().totals([(light, parts)], sharp, 229)
    for one, two in zip(found, other, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-3)
    draws = [
        SimulatedNoise(np.random.default_rng(k)).totals([(light, parts)], SUMS, 229)[1]
        for k in range(300)
    ]
    sd = exact.term_sd(SUMS[1], 6)
    np.testing.assert_allclose(np.std(draws, axis=0)[0], [sd, sd / 2**0.5, sd / 2**0.5], rtol=0.15)
    np.testing.assert_allclose(draws[0], draws[0].T, rtol=1e-9)
