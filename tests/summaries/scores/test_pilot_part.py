"""Pilots of a part of the records and a weighted pass over all: what it costs, and what is read."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries import noise as noise_of_sums
from pymc_private.summaries.lattice import TermLattice, pack_symmetric
from pymc_private.summaries.noise import LatticeNoise, NoiseScale, SimulatedNoise
from pymc_private.summaries.record_table import ArrayRecords
from pymc_private.summaries.scores.pilot_distance import (
    WARN_SCORE,
    ScoreDistance,
    score_cautions,
    score_distance,
)
from pymc_private.summaries.scores.pilot_part import PilotPart, pilot_part
from pymc_private.summaries.scores.score_budget import score_budget
from pymc_private.summaries.scores.score_mechanism import reference_of
from pymc_private.summaries.tables.table_columns import COIN
from pymc_private.summaries.weighted_sums import WEIGHT_ONE, BoundedSum
from tests.summaries.scores.test_scores import (
    THETA,
    SecondMoments,
    mechanism,
    posterior,
    records,
)

MU = 0.7
QUARTER = PilotPart(2**14)


KINDS = {
    "vectors": [np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])],
    "packed matrices": [pack_symmetric(np.diag(v)) for v in np.eye(2)],
    "numbers": [np.array([1.0]), np.array([0.0])],
    "products": [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])],
}


def terms_and_variance(kind, scale, mu):
    """Integer terms of two records that are as far apart as can be, and the noise's variance."""
    records, vectors = KINDS[kind], kind == "vectors"
    if kind == "products":
        one = BoundedSum(1.0, True, mu)
        found = [one.lattice.vectors(v[None])[0, 0] for v in records]
        return [np.outer(v, v).astype(int).ravel() for v in found], scale.term_variance(one, 3)
    lattice, positive = TermLattice(1.0), not vectors
    terms = [lattice.terms(t[None], positive)[0] for t in records]
    return terms, scale.variance(lattice, len(records[0]), positive, mu)


def unit_sums(term, rows, weights):
    """Integer sums of a unit's rows in pilots and main sums; `rows`: how many of each part."""
    inside, outside = rows
    return inside * term, (inside * weights[1] + outside * weights[0]) * term


def cost(relation, unit, part, mu):
    """The largest sum of squared shifts over variances, over all that a unit may change into."""
    weights = (WEIGHT_ONE, part.weight)
    budget = score_budget(mu, relation == ADD_REMOVE, True, True, part)
    pilots = [budget.moments, *budget.pilots, *([budget.count] if budget.count else [])]
    mains = [budget.score, budget.curvature]
    scale = NoiseScale(relation, unit, parts=True)
    places = [(j, k - j) for k in ([unit] if relation == SUBSTITUTE else range(unit + 1))
              for j in range(k + 1)]  # fmt: skip
    worst = Fraction(0)
    for kind in KINDS:
        found = [terms_and_variance(kind, scale, m) for m in (*pilots, *mains)]
        of_pilots = sum(1 / variance for _, variance in found[: len(pilots)])
        of_mains = sum(1 / variance for _, variance in found[len(pilots) :]) / WEIGHT_ONE**2
        terms = found[0][0]
        for before, after in product(places, places if relation == SUBSTITUTE else [(0, 0)]):
            one, other = unit_sums(terms[0], before, weights), unit_sums(terms[1], after, weights)
            shifts = [sum(int(d) ** 2 for d in a - b) for a, b in zip(one, other, strict=True)]
            worst = max(worst, shifts[0] * of_pilots + shifts[1] * of_mains)
    return float(worst) / mu**2


@pytest.mark.parametrize("relation", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize("unit", [1, 3])
def test_no_unit_costs_more_wherever_its_rows_fall(relation, unit):
    """Rows may leave one part and enter the other: coins are functions of what is in a row."""
    assert 0.999 < cost(relation, unit, QUARTER, MU) <= 1.0
    # A fault: pilots that pay for no weight in the main sums.
    full = PilotPart(2**14, weight=QUARTER.weight)
    object.__setattr__(full, "pilot_mu", lambda mu: mu)
    assert cost(relation, unit, full, MU) > 1.5


def test_numbers_that_change_parts_need_the_noise_of_matrices():
    lattice = TermLattice(1.0)
    assert lattice.squared_sensitivity(1, True, True) == lattice.most**2
    assert lattice.squared_sensitivity(1, True, True, parts=True) >= 2 * lattice.most**2


class FactoredMoments(SecondMoments):
    """Moments that are given by factors, too."""

    def factors(self, rows):
        a = np.column_stack([np.ones(len(rows["x"])), rows["x"]])
        return (a * np.sqrt(np.minimum(1.0, self.bound / (a**2).sum(axis=1)))[:, None])[:, None]


class NumberMoments(SecondMoments):
    """One number in [0, 1]: what a record that leaves the part takes along is all of it."""

    bound = 1.0

    def terms(self, rows):
        return np.minimum(np.abs(rows["x"][:, :1]), 1.0)


class MeasuredNoise(LatticeNoise):
    """Noise of 0, which notes squared sensitivities over the variances that would be drawn."""

    def __init__(self, relation, variances):
        super().__init__(SeededRandomness.from_seed(1), relation)
        self.variances, self.pilots, self.mains = variances, [], []

    def noisy_total(self, total, bound, positive, mu):
        self.variances.clear()
        found = super().noisy_total(total, bound, positive, mu)
        words = positive, self.scale.substitute, True
        squared = TermLattice(bound).squared_sensitivity(len(total), *words)
        self.pilots.append(squared / max(self.variances))
        return found

    def noisy(self, found):
        spent = self.mains if len(found.sums) == 2 else self.pilots
        released = []
        for one, total in zip(found.sums, found.totals, strict=True):
            self.variances.clear()
            released.append(self._noisy(total, one))
            norms = 2 if one.positive else 4
            squared = (norms if self.scale.substitute else 1) * one.lattice.most**2
            spent.append(squared * WEIGHT_ONE**2 / max(self.variances))
        return released


@pytest.mark.parametrize("relation", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize("moments", [SecondMoments, FactoredMoments, NumberMoments])
def test_the_noise_of_a_release_is_that_of_its_price(relation, moments, monkeypatch):
    """Of each sum that is released, by the variances that are drawn: pilots and main sums."""
    plan, drawn = mechanism(mu=3.0, part=QUARTER, relation=relation, moments=moments()), []
    monkeypatch.setattr(noise_of_sums, "_rounded_normal", lambda v, _: drawn.append(v) or 0)
    noise = MeasuredNoise(relation, drawn)
    plan.release(records(plan.model, THETA, 1500, 2), noise)
    assert len(noise.pilots) == 12 + (relation == ADD_REMOVE)
    assert len(noise.mains) == 2
    for spent, price in ((noise.pilots, QUARTER.pilot_mu(3.0)), (noise.mains, 3.0)):
        price = Fraction(price) ** 2
        assert price * Fraction(1 - 1e-9) < sum(map(Fraction, spent)) <= price


def release(plan, data, coins, seed=1):
    rows = ArrayRecords({**data, COIN: coins})
    return plan.release(rows, SimulatedNoise(np.random.default_rng(seed)))


def test_pilots_read_their_own_records_alone():
    plan = mechanism(part=QUARTER)
    data = records(plan.model, THETA, 1500, 2)
    coins = np.arange(1500) % 4 == 0
    found = release(plan, data, coins)
    other = {name: values.copy() for name, values in data.items()}
    other["x"][~coins], other["y"][~coins] = -other["x"][~coins], 1 - other["y"][~coins]
    changed = release(plan, other, coins)
    np.testing.assert_array_equal(changed["thetas"], found["thetas"])
    np.testing.assert_array_equal(changed["scores"][:-1], found["scores"][:-1])
    assert np.abs(changed["scores"][-1] - found["scores"][-1]).max() > 10.0
    assert plan.stages[-1] == "score and curvature"
    told = []
    plan.release(data, SimulatedNoise(np.random.default_rng(1)), told.append)
    assert told == list(range(1, len(plan.stages) + 1))


def test_kinds_of_records_weigh_the_rounds():
    kinds = QUARTER.kinds(2)
    s = 229 / 256
    np.testing.assert_allclose(kinds.means, [0.25, 0.25, 0.75 + 0.25 * s])
    np.testing.assert_allclose(kinds.products[0], [0.25, 0.25, 0.25 * s])
    np.testing.assert_allclose(kinds.products[2, 2], 0.75 + 0.25 * s**2)


def test_shares_of_pilots_are_public_and_fall_with_the_number_of_records():
    assert pilot_part(99_999, 0.24) is None
    shares = [pilot_part(n, 0.24).share for n in (1e5, 1e6, 1e7, 1e9)]
    np.testing.assert_allclose(shares, [0.5, 0.0995, 0.0396, 0.001], rtol=0.03)
    assert pilot_part(1e7, 0.02).share == pytest.approx(0.1, rel=1e-3)  # a million records


@pytest.mark.thin(2)
@pytest.mark.parametrize("relation", [SUBSTITUTE, ADD_REMOVE])
def test_without_noise_the_posterior_holds_the_parameters(relation):
    """Of little noise: pilots and main sums are of the same records, and no record counts twice."""
    plan = mechanism(mu=30.0, n=4000, part=QUARTER, relation=relation)
    data = records(plan.model, THETA, 4000, 8)
    whole = mechanism(mu=30.0, n=4000, relation=relation)
    noise = SimulatedNoise(np.random.default_rng(9), relation)
    released = plan.release(data, noise)
    found, other = (posterior(p, p.release(data, noise), draws=600) for p in (plan, whole))
    assert float(released["count"]) == pytest.approx(4000, rel=0.1)
    assert np.sqrt((((found.mean - other.mean) / other.sd) ** 2).mean()) < 0.5
    assert 0.85 < np.median(found.sd / other.sd) < 1.3
    assert not any(caution.refuse for caution in plan.warnings(released))


def test_a_final_score_is_compared_with_what_its_pilots_have_seen():
    """Pilots of one record in 16 are some 4 posterior sds off, which is no reason to refuse."""
    plan = mechanism(mu=30.0, n=100_000, part=PilotPart(2**12))
    far, near = [], []
    for k in range(6):  # each alone is far enough in four of seven
        data = records(plan.model, THETA, 100_000, 20 + k)
        released = plan.release(data, SimulatedNoise(np.random.default_rng(40 + k)))
        large = reference_of(released, "large")
        weights = float(released["count"]) * large.weights
        releases = plan.noisy_scores(released, large.rows)
        far.append(score_distance(releases[-1], weights).relative)
        error = plan.pilot_error(large, weights, releases)
        near.append(score_distance(releases[-1], weights, error))
        assert not any("final score" in caution.text for caution in plan.warnings(released))
    assert np.max(far) > WARN_SCORE
    assert 0.2 < np.mean([one.relative for one in near]) < 5.0
    assert max(one.nonlinearity for one in near) < 0.5


def test_scores_that_are_too_far_are_refused():
    def said(relative, nonlinearity):
        return [
            (c.refuse, c.text[:40]) for c in score_cautions(ScoreDistance(relative, nonlinearity))
        ]

    assert said(9.0, 0.4) == []
    assert [refuse for refuse, _ in said(12.0, 0.0)] == [False]
    assert [refuse for refuse, _ in said(26.0, 0.6)] == [True, False]
    assert [refuse for refuse, _ in said(1.0, 1.1)] == [True]


@pytest.mark.audit
def test_intervals_hold_what_they_say_with_pilots_of_a_part():
    plan, held = mechanism(n=6000, part=QUARTER), []
    for k in range(60):
        theta = plan.parameters.draws(1, 100 + k)[0]
        data = records(plan.model, theta, 6000, 200 + k)
        released = plan.release(data, SimulatedNoise(np.random.default_rng(300 + k)))
        low, high = posterior(plan, released).quantiles([0.05, 0.95])
        held.append(((low <= theta) & (theta <= high)).mean())
    assert np.mean(held) > 0.9 - 3 * np.std(held) / np.sqrt(60) - 0.02
    assert np.mean(held) < 0.99
