"""Noisy sums: the privacy loss of what is released, exactly, and the budget it is made from."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from pymc_private.audit.epsilon import epsilon_lower_bound
from pymc_private.audit.floating_point import lattice_leak
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.gaussian import gdp_delta, gdp_eps
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
from pymc_private.summaries import lattice as lattice_module
from pymc_private.summaries.lattice import TermLattice, pack_symmetric
from pymc_private.summaries.noise import (
    CHUNK,
    LatticeNoise,
    NoiseScale,
    SimulatedNoise,
    chunk_size,
    chunks_of,
    largest_mu,
    rounded_normals,
    split_mu,
)
from pymc_private.summaries.weighted_sums import WEIGHT_ONE, BoundedSum


def lattice_noise(seed=1, **words):
    return LatticeNoise(SeededRandomness.from_seed(seed), **words)


# ---- privacy loss ----------------------------------------------------------------------------
def noise_masses(variance, reach):
    """P(round(sigma Z) = j) for |j| <= reach, in balls."""
    scale = 1 / (2 * arb(variance.numerator) / arb(variance.denominator)).sqrt()
    tails = [((arb(j) - arb(0.5)) * scale).erfc() / 2 for j in range(reach + 2)]
    right = [first - last for first, last in itertools.pairwise(tails)]
    return right[:0:-1] + right


def exact_delta(shift, variance, epsilon):
    """delta(epsilon) of round(sigma Z) + shift against round(sigma Z): a lower bound of it."""
    reach = abs(shift) + math.isqrt(int(150 * variance)) + 2
    with ctx.workprec(200):
        masses = noise_masses(variance, reach)
        factor, total = arb(epsilon).exp(), arb(0)
        for j in range(-reach, reach + 1):
            other = j + shift
            q = masses[other + reach] if abs(other) <= reach else arb(0)
            excess = masses[j + reach] - factor * q
            total += excess if excess > 0 else 0
        return total


def breaches(variance, mu, farthest):
    """Epsilons and shifts at which the release tells more than mu-GDP claims."""
    return [
        (epsilon, shift)
        for epsilon in (0.0, 0.5, 2.0)
        for shift in {farthest // 2, farthest}
        if exact_delta(shift, variance, epsilon) > arb(float(gdp_delta(epsilon, mu)))
    ]


@pytest.fixture
def coarse(monkeypatch):
    """A lattice so coarse that the law of what is released can be written down."""
    monkeypatch.setattr(lattice_module, "LATTICE_BITS", 3)


@pytest.mark.thin(3)
@pytest.mark.parametrize("relation", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize(("bound", "positive"), [(1.0, False), (1.9, False), (1.3, True)])
@pytest.mark.parametrize("mu", [0.6, 2.5])
def test_the_rounded_mechanism_loses_no_more_than_it_claims(coarse, relation, bound, positive, mu):
    lattice, scale = TermLattice(bound), NoiseScale(relation)
    variance = scale.variance(lattice, 1, positive, mu)
    rows = np.concatenate([np.linspace(-3.0, 3.0, 1001), [math.inf, math.nan, 1e300, -1e300]])
    units = lattice.terms(rows[:, None], positive)[:, 0].tolist()
    assert len(set(units)) > 8
    farthest = max(units) - min(units) if relation == SUBSTITUTE else max(map(abs, units))
    assert breaches(variance, mu, farthest) == []
    # Two per cent less noise, or a bound that nobody enforces, would be seen.
    assert breaches(variance * Fraction(96, 100), mu, farthest)
    assert breaches(variance, mu, round(1.1 * farthest))


def test_stages_together_lose_no_more_than_the_whole_budget(coarse):
    mu, lattice, scale = 1.5, TermLattice(1.0), NoiseScale()
    shift, laws, losses = 2 * lattice.most, [], []
    for part in split_mu(mu, (0.3, 0.7)):
        variance = scale.variance(lattice, 1, False, part)
        reach = shift + math.isqrt(int(150 * variance))
        with ctx.workprec(120):
            law = np.array([float(m.mid()) for m in noise_masses(variance, reach)])
        p, q = law[:-shift], law[shift:]
        laws.append(p)
        losses.append(np.log(p) - np.log(q))
    p, loss = np.multiply.outer(*laws).ravel(), np.add.outer(*losses).ravel()
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        found = (p * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum()
        assert 0.99 * gdp_delta(epsilon, mu) < found < gdp_delta(epsilon, mu)
        assert found > gdp_delta(epsilon, 0.985 * mu)  # nor could it claim much less


def test_noise_has_the_law_of_a_rounded_normal():
    variance, draws = Fraction(29, 7), 12_000
    found = np.array(rounded_normals(variance, draws, SeededRandomness.from_seed(5)))
    with ctx.workprec(100):
        masses = np.array([float(m.mid()) for m in noise_masses(variance, 7)])
    counts = np.array([(found == j).sum() for j in range(-7, 8)])
    assert stats.chisquare(counts, masses / masses.sum() * counts.sum()).pvalue > 1e-4
    narrow = masses_of_normal(0.95 * math.sqrt(variance))
    assert stats.chisquare(counts, narrow * counts.sum()).pvalue < 1e-4
    assert found.std() == pytest.approx(math.sqrt(variance + Fraction(1, 12)), rel=0.02)


def masses_of_normal(sd):
    masses = np.diff(stats.norm.cdf(np.arange(-7.5, 8.0), scale=sd))
    return masses / masses.sum()


def test_an_undecided_rounding_draws_more_bits():
    class Scripted:
        """A magnitude at the middle of a cell first; then whatever decides."""

        def __init__(self, word, later):
            self.word, self.later, self.drawn = word, later, 0

        def words(self, size):
            return np.full(size, self.word, dtype=np.uint64)

        def below(self, end):
            self.drawn += 1
            return self.later

    # With sigma = 2^70, 64 bits of a number leave about 2^6 integers open.
    huge = Fraction(2**140)
    first, second = (Scripted(2**60 + 12345, later) for later in (0, 2**64 - 1))
    low, high = (rounded_normals(huge, 1, source)[0] for source in (first, second))
    assert low != high
    assert abs(low - high) < 2**12
    assert first.drawn >= 1
    assert abs(low / 2.0**70 - stats.norm.isf((2**60 + 12345.5) / 2.0**64)) < 1e-12
    # No bit of the tail is known yet: no mass, no quantile.
    assert rounded_normals(Fraction(1), 1, Scripted(0, 3))[0] > 5


# ---- sums ------------------------------------------------------------------------------------
def test_a_sum_depends_on_neither_order_nor_chunks():
    rng = np.random.default_rng(0)
    for positive in (False, True):
        factors = rng.standard_normal((700, 3))
        terms = pack_symmetric(factors[:, :, None] * factors[:, None, :])
        terms[::50] = math.nan
        totals = []
        for size in (700, 1, 256):
            mixed = rng.permutation(terms)
            chunks = [mixed[start : start + size] for start in range(0, 700, size)]
            totals.append(lattice_noise().total(chunks, 2.0, positive, 1e12))
        assert (totals[0] == totals[1]).all()
        assert (totals[0] == totals[2]).all()
        simulated = SimulatedNoise(rng).total([terms], 2.0, positive, 1e12)
        np.testing.assert_allclose(simulated, totals[0], atol=1e-8)


def test_sums_too_large_for_a_double_of_their_units_are_exact():
    # Over 2^23 rows of 2^40 units would overflow 64 bits if added in one go.
    lattice = TermLattice(1.0)
    chunk = np.ones((2**10, 1))
    found = lattice_noise().total(itertools.repeat(chunk, 2**13), 1.0, False, 1e30)
    assert found == [2.0**23]
    assert lattice.most * 2**23 >= 2**63


def test_no_records_still_have_a_noisy_sum():
    assert lattice_noise().total([np.zeros((0, 4))], 1.0, False, 0.5).shape == (4,)
    with pytest.raises(DomainError, match="one chunk at least"):
        lattice_noise().total([], 1.0, False, 0.5)


@pytest.mark.parametrize("relation", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize("k", [1, 3])
def test_noise_is_what_the_theorem_says(relation, k):
    bound, mu = 0.7, 0.3
    added = relation == ADD_REMOVE
    for records in (1, 4):
        scale = NoiseScale(relation, records)
        expected = records * bound / mu * (1.0 if added else 2.0)
        assert scale.sd(bound, False, mu, k) == pytest.approx(expected, rel=1e-11)
        positive = records * bound / mu * (1.0 if added or k == 1 else math.sqrt(2.0))
        assert scale.sd(bound, True, mu, k) == pytest.approx(positive, rel=1e-5)
        assert scale.counts_sd(mu) == pytest.approx(
            records / mu * (1.0 if added else math.sqrt(2.0))
        )
        lattice = TermLattice(bound)
        exact = scale.variance(lattice, k, False, mu) * Fraction(mu) ** 2
        assert exact == records**2 * lattice.squared_sensitivity(k, False, not added)
        for positive in (False, True):
            term = BoundedSum(bound, positive, mu)
            apart = 1 if added or (positive and k == 1) else 2 if positive else 4
            squared = 0.3**-2 * (bound * records) ** 2 * apart
            assert scale.term_sd(term, k) ** 2 == pytest.approx(squared, rel=1e-3)


def test_released_sums_vary_as_announced():
    for noise in (lattice_noise(3), SimulatedNoise(np.random.default_rng(3))):
        found = noise.total([np.zeros((2, 4000))], 1.5, False, 0.8)
        assert found.std() == pytest.approx(noise.sd(1.5, False, 0.8, 4000), rel=0.06)
        cells = noise.counts([np.zeros(5, dtype=int)], 4000, 0.8)
        assert cells[1:].std() == pytest.approx(noise.counts_sd(0.8), rel=0.06)


def test_counts_ignore_what_lies_in_no_cell():
    labels = [np.array([0, 1, 1, -1, 7]), np.array([2, 3], dtype=np.uint8)]
    for noise in (lattice_noise(), SimulatedNoise(np.random.default_rng(0))):
        np.testing.assert_allclose(noise.counts(labels, 3, 1e12), [1.0, 2.0, 1.0], atol=1e-9)
        with pytest.raises(DomainError, match="whole numbers"):
            noise.counts([np.array([0.5])], 3, 1.0)


def test_private_noise_differs_each_time():
    noise = LatticeNoise(SystemRandomness())
    first, second = (noise.total([np.ones((3, 2))], 1.0, False, 1.0) for _ in range(2))
    assert (first != second).all()


# ---- chunks ----------------------------------------------------------------------------------
def test_chunks_have_one_shape_and_hold_each_row_once():
    rows = {"x": np.arange(22.0).reshape(11, 2), "group": np.arange(11)}
    chunks = list(chunks_of(rows, 11, size=4))
    assert [chunk["x"].shape for chunk, _ in chunks] == [(4, 2)] * 3
    assert [count for _, count in chunks] == [4, 4, 3]
    for name, array in rows.items():
        together = np.concatenate([chunk[name][:count] for chunk, count in chunks])
        assert (together == array).all()
    ((empty, count),) = chunks_of({"x": np.zeros((0, 2))}, 0, size=4)
    assert count == 0
    assert empty["x"].shape == (4, 2)


def test_the_shape_of_a_chunk_tells_nothing_of_a_protected_number():
    assert {chunk_size(n, ADD_REMOVE) for n in (0, 5, 10**6)} == {CHUNK}
    assert [chunk_size(n, SUBSTITUTE) for n in (0, 5, 10**6)] == [1, 5, CHUNK]


# ---- budgets ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [
        (0.5, 1e-6, 0.1241),
        (1, 1e-6, 0.2367),
        (Fraction(2), Fraction(1, 10**6), 0.4483),
        (0.1, 1e-5, None),
    ],
)
def test_the_largest_mu_fits_and_hardly_more_does(epsilon, delta, mu):
    found = largest_mu(epsilon, delta)
    assert mu is None or found == pytest.approx(mu, abs=5e-5)
    stated = Fraction(str(epsilon))
    assert Fraction(float(gdp_eps(float(delta), found))) <= stated
    assert Fraction(float(gdp_eps(float(delta), found * (1 + 1e-9)))) > stated


def test_split_budgets_add_up_in_exact_arithmetic():
    rng = np.random.default_rng(2)
    for _ in range(200):
        mu = float(rng.uniform(0.01, 9.0))
        shares = rng.dirichlet(np.ones(rng.integers(1, 12))).tolist()
        parts = split_mu(mu, shares)
        total = sum(Fraction(part) ** 2 for part in parts)
        assert total <= Fraction(mu) ** 2
        assert float(total) > mu**2 * (1 - 1e-13)
        np.testing.assert_allclose(np.array(parts) ** 2 / mu**2, shares, rtol=1e-12)


def test_what_is_no_budget_is_refused():
    for epsilon, delta in ((0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0), (-1.0, 0.1)):
        with pytest.raises(DomainError):
            largest_mu(epsilon, delta)
    for mu, shares in ((0.0, (1.0,)), (1.0, ()), (1.0, (0.5, 0.0)), (math.nan, (1.0,))):
        with pytest.raises(DomainError):
            split_mu(mu, shares)
    for mu in (0.0, -1.0, math.nan, math.inf, 1e-200):
        with pytest.raises(DomainError, match="mu"):
            lattice_noise().total([np.ones((1, 1))], 1.0, False, mu)


@pytest.mark.parametrize("relation", ["attribute", "any", "distance <= 1 in miles", "both"])
def test_other_relations_are_refused(relation):
    with pytest.raises(DomainError, match="protects whole records"):
        lattice_noise(relation=relation)


def test_terms_that_are_no_rows_of_numbers_are_refused():
    for chunks in ([np.ones(3)], [np.array([["secret"]])], [np.ones((1, 2)), np.ones((1, 3))]):
        for noise in (lattice_noise(), SimulatedNoise(np.random.default_rng(0))):
            with pytest.raises(DomainError, match="one row for each record") as refusal:
                noise.total(chunks, 1.0, False, 1.0)
            assert "secret" not in str(refusal.value)


def test_what_is_released_is_the_exact_sum_and_the_stated_noise(monkeypatch):
    asked = []

    def recorded(variance, count, randomness):
        asked.append((variance, count))
        return [3] * count

    monkeypatch.setattr("pymc_private.summaries.noise.rounded_normals", recorded)
    scale, lattice = NoiseScale(ADD_REMOVE, 2), TermLattice(1.25)
    noise = lattice_noise(relation=ADD_REMOVE, records_per_unit=2)
    rows = np.array([[1.25, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, math.nan]])
    width = 2.0**lattice.exponent
    found = noise.total([rows[:1], rows[1:]], 1.25, False, 0.3)
    assert (found == np.array([1.25, 0.5, 0.0]) + 3 * width).all()
    found = noise.counts([np.array([1, 1])], 2, 0.3)
    assert (found == np.array([0.0, 2.0]) + 3 * 2.0**-40).all()
    units = Fraction(TermLattice(1.0).most) ** 2
    assert asked == [
        (scale.variance(lattice, 3, False, 0.3), 3),
        (scale.counts_variance(0.3) * units, 2),
    ]


# ---- audits ----------------------------------------------------------------------------------
@pytest.mark.audit
def test_audits_find_nothing_in_a_released_sum_and_find_planted_faults():
    claim, delta, draws = Guarantee.gdp_of(1.0), 0.02, 12_000
    noise, width = LatticeNoise(SystemRandomness()), 2.0 ** TermLattice(1.0).exponent

    def released(record, mu=1.0, mechanism=noise):
        chunk = np.array([[0.5], [record]])
        return np.array([mechanism.total([chunk], 1.0, False, mu)[0] for _ in range(draws)])

    low, high = released(-1.0), released(1e300)
    assert not epsilon_lower_bound(low, high, delta=delta).refutes(claim)
    assert not lattice_leak(low, high, width=width, claim=claim, delta=delta).leaks
    loud = epsilon_lower_bound(released(-1.0, 2.0), released(1e300, 2.0), delta=delta)
    assert loud.refutes(claim)
    simulated = SimulatedNoise(np.random.default_rng(0))
    floats = released(-1.0, 1.0, simulated), released(0.3, 1.0, simulated)
    assert lattice_leak(*floats, width=width, claim=claim, delta=delta).leaks


def released_curvature(record, mu, mechanism, draws):
    """Noisy 2 x 2 sums of f f' of two records, the second one of these factors; (draws, 3)."""
    factors = np.array([[[0.6, 0.3]], [record]])
    one = BoundedSum(1.0, True, mu)

    def matrix():
        chunk = (np.ones(2, dtype=bool), [factors])
        return mechanism.totals([chunk], [one], WEIGHT_ONE)[0]

    return np.array([matrix()[np.triu_indices(2)] for _ in range(draws)])


def released_cells(cell, mu, mechanism, draws):
    """Noisy counts of three cells, one of four records in a cell of choice; (draws, 3)."""
    chunk = np.array([0, 0, 2, cell])
    return np.array([mechanism.counts([chunk], 3, mu) for _ in range(draws)])


# Neighbors, and the contrast of entries in which they differ most.
AUDITED = {
    "curvature": (released_curvature, [0.0, 1.0], [1e60, 0.0], [1.0, 0.0, -1.0]),
    "cells": (released_cells, 0, 1, [1.0, -1.0, 0.0]),
}


@pytest.mark.audit
@pytest.mark.parametrize("kind", AUDITED)
def test_audits_find_nothing_in_a_curvature_or_in_cells_and_find_planted_faults(kind):
    released, one, other, contrast = AUDITED[kind]
    claim, delta, draws = Guarantee.gdp_of(1.0), 0.02, 12_000
    noise = LatticeNoise(SystemRandomness())
    low, high = (released(record, 1.0, noise, draws) for record in (one, other))
    score = {"delta": delta, "score": lambda rows: rows @ np.array(contrast)}
    assert not epsilon_lower_bound(low, high, **score).refutes(claim)
    assert not lattice_leak(low, high, claim=claim, delta=delta).leaks
    loud = [released(record, 2.0, noise, draws) for record in (one, other)]
    assert epsilon_lower_bound(*loud, **score).refutes(claim)
    simulated = SimulatedNoise(np.random.default_rng(0))
    floats = [released(record, 1.0, simulated, draws) for record in (one, other)]
    assert lattice_leak(*floats, claim=claim, delta=delta).leaks
