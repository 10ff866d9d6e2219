"""The lower bound on epsilon: true as often as stated, near the truth, and it finds faults."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from pymc_private import audit
from pymc_private.audit import Event, epsilon, events
from pymc_private.audit import events as events__classifiers
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from tests.audit.mechanisms import MECHANISMS
from tests.audit.rates import how_often, within
from tests.statistics import epsilon_lower_bound

LOOSE = 0.1
each_mechanism = pytest.mark.parametrize("name", MECHANISMS)
each_way = pytest.mark.parametrize("way", ["score", "own classifier"])
each_way_the_other_slowly = pytest.mark.parametrize(
    "way", ["score", pytest.param("own classifier", marks=pytest.mark.audit)]
)


def bound(name: str, rng, n: int, *, fault: float = 1.0, way: str = "score", **rates):
    mechanism = MECHANISMS[name]
    p, q = mechanism.samples(rng, n, fault)
    if rng.random() < 0.5:
        p, q = q, p
    score = mechanism.score if way == "score" else None
    return epsilon_lower_bound(p, q, delta=mechanism.delta, score=score, **rates)


@pytest.mark.thin(6)
@each_way_the_other_slowly
@each_mechanism
def test_the_bound_exceeds_the_truth_no_more_often_than_stated(name, way):
    true = MECHANISMS[name].epsilon

    def too_large(rng):
        return bound(name, rng, 400, way=way, false_alarm=LOOSE).epsilon > true

    assert within(how_often(too_large, 500), LOOSE, 500)


@pytest.mark.audit
@pytest.mark.parametrize("n", [8, *(pytest.param(n, marks=pytest.mark.audit) for n in (9, 30))])
def test_the_bound_is_true_for_few_draws_and_equal_laws(n):
    def too_large(rng):
        p, q = rng.integers(0, 3, size=(2, n))
        return epsilon_lower_bound(p, q, false_alarm=LOOSE).epsilon > 0.0

    assert within(how_often(too_large, 500), LOOSE, 500)


@pytest.mark.audit
def test_sorted_draws_do_no_harm():
    def too_large(rng):
        p, q = np.sort(rng.random((2, 100)))
        return epsilon_lower_bound(p, q[::-1], false_alarm=LOOSE).epsilon > 0.0

    assert within(how_often(too_large, 500), LOOSE, 500)


def threshold_of(common, rare):
    """Where the event starts if 1000 draws of P have so many scores above 0, of Q 500.

    So many of P's lie above 2, none of Q's.
    """
    rng = np.random.default_rng(1)
    p, q = (rng.random(1000) - (np.arange(1000) >= above) for above in (common, 500))
    p[:rare] += 2.0

    def value(inside, tested, other, others, error):
        return events.epsilon_from_counts(inside, tested, other, others, 0.0, error)

    score = [("score", lambda x: x[:, 0])]
    return events.choose_event(score, p[:, None], q[:, None], (1000, 1000), value, 1e-3).threshold


def test_a_rare_event_that_may_be_chance_does_not_beat_a_common_one_that_is_not():
    # Judged alone, 25 to none looks better than 500 to 300; of hundreds of events one may.
    alone = [
        events.epsilon_from_counts(k, 1000, j, 1000, 0.0, 1e-3) for k, j in ((25, 0), (500, 300))
    ]
    assert alone[0] > alone[1] > 0.0
    assert abs(threshold_of(700, 25)) < 0.5
    assert threshold_of(700, 100) > 1.0  # no chance explains this one


def test_where_nothing_holds_for_all_events_together_the_best_one_alone_is_tried():
    assert threshold_of(510, 25) > 1.0


def many_values(rng):
    p, q = rng.integers(0, 60, size=(2, 400))
    return epsilon_lower_bound(p, q, false_alarm=LOOSE).epsilon > 0.0


@pytest.mark.audit
def test_choosing_and_testing_on_the_same_draws_would_break_the_stated_rate(monkeypatch):
    assert within(how_often(many_values, 500), LOOSE, 500)
    monkeypatch.setattr(epsilon, "split_in_halves", lambda rows: (rows, rows))
    assert not within(how_often(many_values, 500), LOOSE, 500)


@pytest.mark.audit
def test_shares_instead_of_limits_would_break_the_stated_rate(monkeypatch):
    for name in ("clopper_pearson_lower", "clopper_pearson_upper"):
        monkeypatch.setattr(events, name, lambda k, n, e: np.maximum(k / n, 1e-9))
    assert not within(how_often(many_values, 500), LOOSE, 500)


@pytest.mark.audit
def test_limits_that_forget_one_side_of_the_count_would_break_the_stated_rate(monkeypatch):
    # Clopper and Pearson's beta parameters, each off by a tenth of its standard deviation or so.
    monkeypatch.setattr(
        events, "clopper_pearson_lower", lambda k, n, e: stats.beta.ppf(0.5, k + 1, n - k + 1)
    )
    monkeypatch.setattr(
        events, "clopper_pearson_upper", lambda k, n, e: stats.beta.isf(0.5, k + 1, n - k + 1)
    )

    def too_large(rng):
        p, q = MECHANISMS["randomized response"].samples(rng, 400)
        return epsilon_lower_bound(p, q, false_alarm=LOOSE).epsilon > 1.0

    assert not within(how_often(too_large, 500), LOOSE, 500)


@pytest.mark.thin(8)
@each_way
@each_mechanism
def test_with_draws_enough_the_bound_reaches_four_fifths_of_epsilon(name, way):
    mechanism = MECHANISMS[name]
    n = 100_000 if mechanism.delta else 40_000
    found = bound(name, np.random.default_rng(1), n, way=way)
    assert 0.8 * mechanism.epsilon < found.epsilon <= mechanism.epsilon
    assert not found.refutes(mechanism.epsilon)


@each_way
@each_mechanism
def test_noise_or_range_halved_is_caught(name, way):
    # What is claimed: the epsilon of the whole noise. What is done: half of it; or, for the
    # posterior, twice the range that the certificate says.
    mechanism = MECHANISMS[name]
    found = bound(name, np.random.default_rng(2), 20_000, fault=0.5, way=way)
    assert mechanism.epsilon < found.epsilon <= mechanism.faulty
    assert found.refutes(mechanism.epsilon)
    # Any seed would do: a mechanism that is off by this much is found in 999 of 1000 runs.
    assert found.detects(mechanism.epsilon) < mechanism.faulty


def test_what_a_bound_detects_it_finds_as_often_as_stated():
    n, claim, event = 2000, 0.5, Event("answer", lambda x: x[:, 0], 1.0, True, "Q")
    known = audit.EpsilonBound(0.0, 0.05, event, (500, 0), (n, n), LOOSE)
    visible = known.detects(claim, power=0.8)
    assert claim < visible < 1.0

    def missed(rng):
        inside = rng.binomial(n, 0.25 * math.exp(visible) + 0.05), rng.binomial(n, 0.25)
        return events.epsilon_from_counts(inside[0], n, inside[1], n, 0.05, LOOSE) <= claim

    assert within(how_often(missed), 0.2)
    assert how_often(missed) > 0  # what it says is not needlessly large
    assert known.detects(claim, power=0.999) > visible
    assert known.detects(2.0) == math.inf  # 0.25 e^2 would exceed 1


def test_a_bound_without_draws_enough_detects_nothing():
    few = epsilon_lower_bound(np.zeros(8), np.ones(8))
    assert (few.epsilon, few.detects(1.0)) == (0.0, math.inf)


def test_a_closed_form_by_hand():
    # 1000 of 1000 against 0 of 1000: the limits are powers.
    event = Event("x", lambda x: x[:, 0], 1.0, True, "P")
    p, q = np.ones(2000), np.zeros(2000)
    found = epsilon_lower_bound(p, q, score=event.score, false_alarm=1e-9)
    low = 5e-10**1e-3
    assert found.epsilon == pytest.approx(math.log(low / (1 - low)), rel=1e-7)
    assert found.epsilon < math.log(low / (1 - low))
    assert sorted(found.inside) == [0, 1000]
    assert found.confidence == 1 - 1e-9
    shifted = epsilon_lower_bound(p, q, score=event.score, delta=0.3, false_alarm=1e-9)
    assert shifted.epsilon == pytest.approx(math.log((low - 0.3) / (1 - low)), rel=1e-7)


def test_an_output_that_only_one_input_gives_is_found_among_many():
    # NumPy's Beta(0.05, 0.05) returns exactly 1.0, its neighbor never does.
    rng = np.random.default_rng(3)
    p, q = rng.random(20_000), rng.random(20_000)
    p[rng.random(20_000) < 0.1] = 1.0
    assert epsilon_lower_bound(p, q).epsilon > 3.0


def test_a_law_that_differs_in_spread_or_correlation_alone_is_found():
    rng = np.random.default_rng(4)
    assert epsilon_lower_bound(rng.normal(size=20_000), 2 * rng.normal(size=20_000)).epsilon > 0.5
    a, b, c = rng.normal(size=(3, 20_000))
    assert epsilon_lower_bound(np.stack([a, a + b], 1), np.stack([a, c - a], 1)).epsilon > 0.5


class Nearest:
    """A classifier as scikit-learn would give it."""

    def fit(self, X, y):
        self.centers = [X[y == label].mean(axis=0) for label in (0, 1)]
        return self

    def predict_proba(self, X):
        far = [np.sum((X - center) ** 2, axis=1) for center in self.centers]
        one = special.expit(far[0] - far[1])
        return np.stack([1 - one, one], axis=1)


def test_any_classifier_serves():
    p, q = MECHANISMS["gaussian in three dimensions"].samples(np.random.default_rng(5), 100_000)
    found = epsilon_lower_bound(p, q, delta=0.1, classifier=Nearest())
    assert 0.9 < found.epsilon <= MECHANISMS["gaussian"].epsilon
    assert "probability" in str(found.event)


def test_a_useless_score_only_finds_less():
    p, q = MECHANISMS["laplace"].samples(np.random.default_rng(6), 20_000)
    found = epsilon_lower_bound(p, q, score=lambda x: np.sin(1e6 * x[:, 0]))
    assert found.epsilon == 0.0


def test_samplers_are_asked_for_draws():
    rng, asked = np.random.default_rng(7), []

    def mechanism(value):
        def draw(n):
            asked.append(n)
            return value + rng.laplace(size=n)

        return draw

    found = epsilon_lower_bound(mechanism(0.0), mechanism(1.0), draws=20_000)
    assert asked == [20_000, 20_000]
    assert found.tested == (10_000, 10_000)
    assert found.epsilon > 0.75


def test_the_numbers_of_draws_may_differ():
    rng = np.random.default_rng(8)
    found = epsilon_lower_bound(rng.laplace(size=40_000), 1 + rng.laplace(size=20_001))
    assert found.tested == (20_000, 10_001)
    assert 0.75 < found.epsilon < 1.0


def test_a_guarantee_is_compared_at_the_bounds_delta():
    p, q = MECHANISMS["gaussian"].samples(np.random.default_rng(9), 40_000, 0.5)
    found = epsilon_lower_bound(p, q, delta=0.1)
    assert found.refutes(Guarantee.gdp_of(1.0))
    assert not found.refutes(Guarantee.gdp_of(2.0))
    assert found.detects(Guarantee.gdp_of(1.0)) == found.detects(Guarantee.gdp_of(1.0).epsilon(0.1))


def test_the_seed_decides_the_halves_and_any_will_do():
    p, q = MECHANISMS["laplace"].samples(np.random.default_rng(10), 20_000)
    first, again, other = (epsilon_lower_bound(p, q, random_seed=s) for s in (1, 1, 2))
    assert first.inside == again.inside
    assert first.inside != other.inside
    assert first.epsilon == pytest.approx(other.epsilon, abs=0.15)


def test_the_bound_says_what_it_rests_on():
    p, q = MECHANISMS["randomized response"].samples(np.random.default_rng(11), 20_000)
    found = epsilon_lower_bound(p, q, score=lambda x: x[:, 0])
    (one, other), above = found.inside, found.event.above
    law = "P" if one > other else "Q"
    assert found.event.likelier == law
    assert str(found.event) == f"{{score {'>=' if above else '<'} 1}}"
    assert repr(found).startswith("EpsilonBound(epsilon >= 0.8")
    assert f"but for a probability of 1e-9: {found.event} holds {one:,} of 10,000" in repr(found)
    inside = found.event.contains(np.array([[0.0], [1.0]]))
    assert inside.tolist() == [not above, above]


def test_a_printed_bound_is_rounded_down():
    event = Event("x", np.ravel, 0.0, True, "P")
    printed = repr(audit.EpsilonBound(0.99999, 0.0, event, (1, 1), (2, 2), 0.05))
    assert "epsilon >= 0.9999 at" in printed


def test_a_bound_is_frozen_and_pickles_with_a_score_that_does():
    found = audit.EpsilonBound(1.0, 0.0, Event("x", np.ravel, 0.0, True, "P"), (1, 1), (2, 2), 0.05)
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(AttributeError):
        found.epsilon = 0.0
    assert replace(found, epsilon=2.0) != found


def test_a_logistic_regression_finds_the_weights_that_made_the_labels():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(20_000, 2))
    odds = 2 * x[:, 0] - x[:, 1]
    labels = rng.random(20_000) < special.expit(odds)
    learned = events__classifiers.logistic_score(x[labels], x[~labels])(x)
    assert np.corrcoef(learned, odds)[0, 1] > 0.995


def test_separable_or_constant_samples_are_no_trouble():
    rng = np.random.default_rng(13)
    apart = epsilon_lower_bound(rng.normal(size=(4000, 3)), 100 + rng.normal(size=(4000, 3)))
    assert apart.epsilon > 4.0
    assert epsilon_lower_bound(np.zeros((100, 3)), np.zeros((100, 3))).epsilon == 0.0
    huge = epsilon_lower_bound(rng.normal(size=4000) * 1e300, -1e308 * rng.random(4000))
    assert 0.0 <= huge.epsilon < math.inf


FEW, MANY = np.zeros(7), np.zeros(20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FEW, MANY), "p: an array of draws"),
        ((MANY, np.zeros((20, 2, 2))), "q: an array of draws"),
        ((MANY, np.zeros((20, 0))), "q: an array of draws"),
        ((MANY, np.zeros((20, 2))), "outputs of one shape"),
        ((MANY, np.array(["a"] * 20)), "an array of numbers"),
        ((MANY, np.full(20, np.nan)), "not finite"),
        ((MANY, np.full(20, np.inf)), "not finite"),
        ((MANY, lambda n: np.zeros(n)), "on demand"),
    ],
)
def test_what_are_no_samples_is_refused(arguments, message):
    with pytest.raises(DomainError, match=message):
        epsilon_lower_bound(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 1.0}, "delta is a probability"),
        ({"delta": math.nan}, "delta is a probability"),
        ({"false_alarm": 0.0}, "false_alarm lies in"),
        ({"score": np.ravel, "classifier": Nearest()}, "two ways"),
        ({"score": lambda x: x}, "one number per draw"),
        ({"score": lambda x: np.full(len(x), np.nan)}, "one number per draw"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(DomainError, match=message):
        epsilon_lower_bound(MANY, MANY, **options)


def test_a_sampler_gives_as_many_draws_as_it_was_asked_for():
    with pytest.raises(DomainError, match="another number of draws"):
        epsilon_lower_bound(MANY, lambda n: np.zeros(n - 1), draws=20)
    with pytest.raises(DomainError, match="whole number"):
        epsilon_lower_bound(MANY, lambda n: np.zeros(3), draws=0)


def test_a_score_may_be_infinite():
    found = epsilon_lower_bound(
        np.zeros(2000), np.ones(2000), score=lambda x: np.full(len(x), -np.inf)
    )
    assert found.epsilon == 0.0


def test_a_claim_is_not_negative():
    found = epsilon_lower_bound(MANY, MANY)
    with pytest.raises(DomainError, match="claim is not negative"):
        found.refutes(-1.0)
    with pytest.raises(DomainError, match="power lies in"):
        found.detects(1.0, power=1.0)
