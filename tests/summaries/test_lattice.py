"""Integer terms: norm and sign hold for whatever records and their code may bring."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pymc_private.errors import DomainError
from pymc_private.summaries.lattice import (
    LATTICE_BITS,
    TermLattice,
    pack_symmetric,
    packed_size,
    unpack_symmetric,
)

BOUNDS = (1.0, 0.7310585786300049, 3.0, 1e-200, 2.0**-31, 6.02e23, 1e250)
EXTREMES = (0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 1e300, -1.7e308, math.inf, -math.inf, math.nan)


def attacks(bound, k, rng, rows=400):
    """Rows at, around and far from the bound, with extreme elements in any place."""
    directions = rng.standard_normal((rows, k))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    lengths = rng.choice([0.3, 1 - 1e-15, 1.0, 1 + 1e-15, 1 + 1e-9, 7.0, 1e20], rows)
    found = np.concatenate([directions * lengths[:, None], np.eye(k), -np.eye(k)]) * bound
    found = np.concatenate([found, np.full((1, k), bound), np.full((1, k), 1.7e308)])
    hit = rng.random(len(found)) < 0.3
    found[hit, rng.integers(k, size=hit.sum())] = rng.choice(EXTREMES, hit.sum())
    return found


def norms(units):
    return [sum(int(t) ** 2 for t in row) for row in units]


def escapes(lattice, terms):
    """Rows longer than the bound in exact arithmetic."""
    most = Fraction(lattice.bound) / Fraction(2) ** lattice.exponent
    return [i for i, square in enumerate(norms(terms)) if square > most**2]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("k", [1, 2, 7, 60])
def test_no_term_is_longer_than_its_bound(bound, k):
    lattice = TermLattice(bound)
    given = attacks(bound, k, np.random.default_rng(k))
    found = lattice.terms(given, positive=False)
    assert 2**LATTICE_BITS <= lattice.most < 2 ** (LATTICE_BITS + 1)
    assert escapes(lattice, found) == []
    finite = np.isfinite(given).all(axis=1)
    assert not found[~finite].any()
    # What was within the bound is hardly moved, and what was beyond it lies at it.
    kept = given[finite] / np.maximum(np.abs(given[finite]).max(axis=1, keepdims=True), bound)
    kept /= np.maximum(np.linalg.norm(kept, axis=1), 1.0)[:, None]
    long = np.abs(given[finite]).max(axis=1) > bound
    kept[long] /= np.linalg.norm(kept[long], axis=1)[:, None]
    units = np.ldexp(1.0, LATTICE_BITS + 1) * math.frexp(bound)[0]
    assert np.abs(found[finite] / units - kept).max() < 2.0 ** (3 - LATTICE_BITS)


def test_a_bound_that_is_not_enforced_escapes(monkeypatch):
    monkeypatch.setattr(TermLattice, "_shrunk", lambda self, units: units.astype(np.int64))
    lattice = TermLattice(1.0)
    assert escapes(lattice, lattice.terms(attacks(1.0, 7, np.random.default_rng(7)), False))


def test_lengths_are_compared_to_the_last_unit():
    lattice = TermLattice(0.75)
    most, k = lattice.most, 5
    rng = np.random.default_rng(3)
    direction = rng.standard_normal((500, k))
    near = np.rint(direction / np.linalg.norm(direction, axis=1)[:, None] * most)
    near = np.concatenate([near, [[most, 0, 0, 0, 0], [most, 1, 0, 0, 0], [-most, 0, 0, 0, -1]]])
    found, length = lattice._exceeds(near.astype(np.int64))
    squares = norms(near.astype(np.int64))
    assert found.tolist() == [square > most**2 for square in squares]
    assert 100 < found.sum() < 400
    np.testing.assert_allclose(length, [math.sqrt(s) for s in squares], rtol=1e-15)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_packed_matrices_keep_their_norm_and_come_back(p):
    matrices = np.random.default_rng(p).standard_normal((6, p, p))
    matrices = matrices + matrices.swapaxes(1, 2)
    packed = pack_symmetric(matrices)
    np.testing.assert_allclose(
        np.linalg.norm(packed, axis=1), np.linalg.norm(matrices, axis=(1, 2))
    )
    np.testing.assert_allclose(unpack_symmetric(packed), matrices, rtol=1e-15)
    assert packed_size(packed.shape[1]) == p


def gram_terms(p, rng, rows=200):
    """Sums of few outer products, many of rank one or badly scaled."""
    factors = rng.standard_normal((rows, 2, p)) * 10.0 ** rng.uniform(-6, 6, (rows, 2, p))
    factors[::3, 1] = 0.0
    grams = np.einsum("nqi,nqj->nij", factors, factors)
    return pack_symmetric(grams / np.linalg.norm(grams, axis=(1, 2))[:, None, None])


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_sums_of_outer_products_are_kept_and_what_is_indefinite_is_not(p):
    rng, lattice = np.random.default_rng(p), TermLattice(1.0)
    good = gram_terms(p, rng)
    assert (lattice.terms(good, positive=True) == lattice.terms(good, positive=False)).all()
    bad = unpack_symmetric(good)
    bad[:, 0, 0] = -np.abs(rng.uniform(1e-4, 1.0, len(bad)))
    assert not lattice.terms(pack_symmetric(bad), positive=True).any()
    assert lattice.terms(pack_symmetric(bad), positive=False).any(axis=1).all()


def worst_squared_distance(units):
    """Largest |t - t'|^2 over all pairs of rows, exactly."""
    wide = units.astype(object)
    squares = (wide**2).sum(axis=1)
    return max(
        squares[i] + squares[j] - 2 * (wide[i] * wide[j]).sum()
        for i, j in itertools.combinations(range(len(wide)), 2)
    )


@pytest.mark.parametrize(("p", "positive"), [(1, True), (2, True), (3, True), (2, False)])
def test_no_two_terms_are_farther_apart_than_the_sensitivity(p, positive):
    rng, lattice = np.random.default_rng(p), TermLattice(0.9)
    k = p * (p + 1) // 2
    axes = pack_symmetric(np.eye(p)[:, :, None] * np.eye(p)[:, None, :])
    # Matrices as far from positive as passes the test of it, in directions that oppose each other.
    tilted = unpack_symmetric(axes) - 0.99 * 2.0**-20 * np.eye(p)
    given = [gram_terms(p, rng, 40), attacks(0.9, k, rng, 20), axes, pack_symmetric(tilted)]
    units = lattice.terms(np.concatenate(given) * 0.9, positive)
    found = worst_squared_distance(units)
    proved = lattice.squared_sensitivity(k, positive, substitute=True)
    assert found <= proved
    assert float(found) > 0.999 * float(proved) or p == 1
    assert max(norms(units)) <= lattice.squared_sensitivity(k, positive, substitute=False)


def test_indefinite_matrices_are_farther_apart_than_positive_ones():
    # So the test of positivity is needed: without it the sensitivity of H would be wrong.
    lattice = TermLattice(1.0)
    matrix = np.diag([1.0, -1.0]) / math.sqrt(2.0)
    units = lattice.terms(pack_symmetric(np.stack([matrix, -matrix])), positive=False)
    assert worst_squared_distance(units) > 1.9 * lattice.squared_sensitivity(3, True, True)


def test_a_term_depends_on_its_own_record_alone():
    rng, lattice = np.random.default_rng(1), TermLattice(1.3)
    given = np.concatenate([attacks(1.3, 6, rng), gram_terms(3, rng)])
    for positive in (False, True):
        found = lattice.terms(given, positive)
        order = rng.permutation(len(given))
        assert (lattice.terms(given[order], positive) == found[order]).all()
        alone = [lattice.terms(given[i : i + 1], positive)[0] for i in range(0, len(given), 7)]
        assert (np.array(alone) == found[::7]).all()
        padded = lattice.terms(np.asfortranarray(np.concatenate([given, given])), positive)
        assert (padded[: len(given)] == found).all()


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e-300, 1e300])
def test_bounds_without_a_lattice_are_refused(bound):
    with pytest.raises(DomainError, match="bound of a term"):
        TermLattice(bound)


def test_shapes_that_are_no_terms_are_refused():
    lattice = TermLattice(1.0)
    with pytest.raises(DomainError, match="one row for each record"):
        lattice.terms(np.zeros(3), positive=False)
    with pytest.raises(DomainError, match=r"p \(p \+ 1\) / 2"):
        lattice.terms(np.zeros((2, 4)), positive=True)
