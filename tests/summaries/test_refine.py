"""A second round of a summary: planned from the first alone, charged for itself, pooled with it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError
from pymc_private.summaries import refinement_plan
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores import refinement
from pymc_private.summaries.scores.refinement import planned_round, round_budget
from tests.summaries.score_models import Logistic, Normal
from tests.summaries.scores.test_scores import MU, ReplayedNoise, mechanism, posterior, records

pytestmark = pytest.mark.filterwarnings("ignore:this ledger was not charged for the summary")
N = 6000  # least eigenvalue of the noisy curvature: 5.8 noise sds, +- 1.3; refused below 1
SIMULATIONS = 12
SLOPES = np.array([0.8, -0.5])


def model(x, y, prior_sd=1.0):
    with pm.Model(coords={"person": range(len(y))}) as made:
        data = pm.Data("x", x, dims=("person", None))
        intercept = pm.Normal("intercept")
        slopes = pm.Normal("slopes", 0, prior_sd, shape=2)
        pm.Bernoulli("y", logit_p=intercept + data @ slopes, observed=y, dims="person")
    return made


def declared(n=N, seed=0, **words):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    y = 1 * (rng.random(n) < 1 / (1 + np.exp(-0.3 - x @ SLOPES)))
    made = model(x, y, words.pop("prior_sd", 1.0))
    return pmp.privatize(made, records="person", domain={"x": (-1, 1)}, **words)


def ledger(epsilon=2):
    return pmp.Ledger(epsilon=epsilon, delta=1e-4)


@pytest.fixture(scope="module")
def private():
    return declared()


@pytest.fixture(scope="module")
def first(private):
    words = {"method": "scores", "ledger": ledger(), "progressbar": False}
    return pmp.summarize(private, epsilon=0.5, delta=1e-6, **words)


@pytest.fixture(scope="module")
def twice(first):
    """The ledger, and the refined summary."""
    book = ledger()
    made = pmp.refine(first, epsilon=1, ledger=book, name="two", progressbar=False)
    return book, made


# ---- what is charged, and what is promised -------------------------------------------------------
def test_the_round_alone_is_charged_and_both_are_promised(first, twice):
    book, refined = twice
    (entry,) = book.entries
    mus = largest_mu(0.5, 1e-6), largest_mu(1, 1e-6)
    assert entry.guarantee.gdp == mus[1]
    assert np.hypot(*mus) <= refined.guarantee.gdp < np.hypot(*mus) * (1 + 1e-9)
    assert 1 < refined.guarantee.epsilon(1e-6) < 1.5  # less than the sum of both
    assert any("did not depend on what the first" in a for a in refined.guarantee.assumptions)
    assert first.guarantee.gdp == mus[0]
    for text in (repr(refined), " ".join(pmp.report(refined, book).text.split())):
        assert "efined by 1 further round: the guarantee is that of the first release" in text
    assert "further round" not in repr(first)
    for name in refinement.STACKED:
        np.testing.assert_array_equal(refined.released[name][:-1], first.released[name])


@pytest.mark.parametrize("private_curvature", [True, False])
def test_the_stages_of_a_round_cost_no_more_than_its_mu(private_curvature):
    def cost(budget):
        known = [m for m in (budget.score, budget.curvature) if m is not None]
        return sum(Fraction(m) ** 2 for m in known)

    budget = round_budget(MU, private_curvature)
    assert budget.pilots == ()
    assert Fraction(MU) ** 2 * Fraction(1 - 1e-9) < cost(budget) <= Fraction(MU) ** 2
    # A planted fault: each stage at the whole budget of the round.
    assert cost(replace(budget, score=MU, curvature=MU)) > Fraction(MU) ** 2


def test_the_round_is_a_function_of_the_first_release_alone(first):
    """Other records of the same structure, the same released numbers: the same round."""
    one = refinement_plan(first, epsilon=1)
    other = refinement_plan(first, epsilon=1, private=declared(seed=1))
    assert one.fingerprint == other.fingerprint
    for k in ("theta", "metric", "bound", "weight_bound"):
        np.testing.assert_array_equal(getattr(one.round.score, k), getattr(other.round.score, k))
    np.testing.assert_array_equal(one.round.after, other.round.after)
    # A planted fault: a first release that tells something else moves the round.
    told = first.released
    moved = planned_round(one.round.mechanism, told | {"scores": told["scores"] * 1.01}, MU)
    assert not np.array_equal(moved.score.theta, one.round.score.theta)


def test_no_record_adds_more_than_the_bounds_and_noise_is_all_that_is_read():
    """Wild records: terms within the bounds (in `ReplayedNoise`), and totals decide all."""
    plan = mechanism()
    data = records(plan.model, [0.3, 0.8, -0.5, 0.2], 1500, 2)
    released = plan.release(data, SimulatedNoise(np.random.default_rng(1)))
    made = planned_round(plan, released, MU)
    totals = [np.zeros(4), np.eye(4)[np.tril_indices(4)] * 300.0]
    wild = records(plan.model, [-1, 2, 1, -2], 1500, 3)
    wild["x"][:5] = [[np.nan] * 3, [np.inf] * 3, [1e300] * 3, [0, -np.inf, 0], [1e20] * 3]
    wild["y"][:8] = [1, 1, 1, 1, 1, np.nan, np.inf, 1e300]
    with np.errstate(all="ignore"):
        found = [made.release(released, d, ReplayedNoise(list(totals))) for d in (data, wild)]
    for name, array in found[0].items():
        np.testing.assert_array_equal(found[1][name], array, err_msg=name)


# ---- what it tells -------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Logistic, Normal])
def test_the_posterior_shrinks_as_predicted(kind):
    theta = np.array([0.3, 0.8, -0.5, 0.2, -0.4][: 5 if kind is Normal else 4])
    made = kind(np.zeros(len(theta)), np.ones(len(theta)))
    plan = mechanism(made, n=3000, mu=0.6 * MU)
    data = records(made, theta, 3000, 2)
    first = plan.release(data, SimulatedNoise(np.random.default_rng(1)))
    next_round = planned_round(plan, first, MU)
    second = next_round.release(first, data, SimulatedNoise(np.random.default_rng(2)))
    before, after = posterior(plan, first), posterior(plan.refined(MU), second)
    ratio = np.median(after.sd / before.sd)
    assert ratio < 0.85
    assert abs(ratio - np.median(next_round.shrinkage)) < 0.12
    assert np.abs((after.mean - theta) / after.sd).max() < 4
    assert 0 < next_round.nats < len(theta) * np.log(4)
    # A planted fault: a round whose score is not pooled leaves the posterior as it was.
    own = (*refinement.STACKED, *refinement.OF_CURVATURES)
    forgotten = posterior(plan, second | {name: first[name] for name in own})
    assert abs(np.median(forgotten.sd / before.sd) - np.median(next_round.shrinkage)) > 0.12


def test_little_noise_leaves_the_posterior_of_the_data():
    """A round with hardly any noise: the refined posterior is what hardly any noise gives."""
    plan = mechanism(n=1500, mu=0.3)
    data = records(plan.model, [0.3, 0.8, -0.5, 0.2], 1500, 2)
    first = plan.release(data, SimulatedNoise(np.random.default_rng(1)))
    made = planned_round(plan, first, 300.0)
    second = made.release(first, data, SimulatedNoise(np.random.default_rng(2)))
    found = posterior(plan.refined(300.0), second)
    whole = mechanism(n=1500, mu=300.0)
    exact = posterior(whole, whole.release(data, SimulatedNoise(np.random.default_rng(3))))
    assert np.sqrt(np.mean(((found.mean - exact.mean) / exact.sd) ** 2)) < 0.35
    assert 0.85 < np.median(found.sd / exact.sd) < 1.2


@pytest.mark.audit
@pytest.mark.parametrize("kind", [Logistic, Normal])
def test_intervals_hold_what_they_say_after_a_second_round(kind):
    """90% intervals over 12 simulations; noise of the round taken for a third of it shows."""
    size = 5 if kind is Normal else 4
    made = kind(np.zeros(size), np.full(size, 0.8))
    plan, held, faulty, mu = mechanism(made, mu=MU / 2), [], [], 0.75 * MU
    later = plan.refined(mu)
    for k in range(SIMULATIONS):
        theta = made.parameters.draws(1, 100 + k)[0]
        data = records(made, theta, 1500, 200 + k)
        noise = SimulatedNoise(np.random.default_rng(300 + k))
        first = plan.release(data, noise)
        released = planned_round(plan, first, mu).release(first, data, noise)
        low, high = posterior(later, released).quantiles([0.05, 0.95])
        held.append(((low <= theta) & (theta <= high)).mean())
        sds = np.append(released["sds"][:-1], released["sds"][-1] / 3)
        low, high = posterior(later, released | {"sds": sds}).quantiles([0.05, 0.95])
        faulty.append(((low <= theta) & (theta <= high)).mean())
    assert np.mean(held) > 0.9 - 3 * np.std(held) / np.sqrt(SIMULATIONS) - 0.02
    assert np.mean(faulty) < np.mean(held) - 0.05


# ---- the ledger that is charged ------------------------------------------------------------------
def test_a_ledger_that_did_not_pay_for_the_summary_is_told_of(first):
    other, words = ledger(5), {"epsilon": 0.8, "progressbar": False}
    told, text = pmp.errors.PrivacyWarning, "not charged for the summary, only for this "
    with pytest.warns(told, match=text + "round"):
        pmp.refine(first, ledger=other, **words)
    with pytest.warns(told, match=text + "round"), other:
        pmp.refine(first, **words)
    plan = pmp.check_plan(first, "quadratic(x[0])", epsilon=1, delta=1e-6)
    with pytest.warns(told, match=text + "check"):
        pmp.check(plan, ledger=other)


@pytest.mark.audit
def test_the_ledger_that_paid_and_what_is_seeded_need_no_warning(private, first, twice):
    other, words = ledger(5), {"epsilon": 0.8, "progressbar": False}
    plan = pmp.check_plan(first, "quadratic(x[0])", epsilon=1, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        book = ledger(4)
        budget = {"epsilon": 0.5, "delta": 1e-6, "method": "scores"}
        found = pmp.summarize(private, ledger=book, progressbar=False, **budget)
        again = pmp.refine(found, ledger=book, **words)
        pmp.refine(again, ledger=book, **words)
        pmp.check(plan, ledger=other, random_seed=1)  # charges nothing
        pmp.refine(twice[1], ledger=other, random_seed=1, **words)  # charges nothing
    assert len(book.entries) == 3


# ---- stored, named, again ------------------------------------------------------------------------
@pytest.mark.audit
def test_a_refined_summary_is_stored_and_read_as_any_other(private, first, twice, tmp_path):
    book, refined = twice
    same = pmp.refine(first, epsilon=1, ledger=book, name="two", progressbar=False)
    assert same == refined
    assert len(book.entries) == 1
    with pytest.raises(pmp.errors.Incompatible, match="belongs to another charge"):
        pmp.refine(first, epsilon=0.9, ledger=book, name="two", progressbar=False)
    loaded = pmp.load(refined.save(tmp_path / "two.nc"))
    assert loaded == refined
    _, found = loaded.of_model(private)
    _, known = refined.of_model(None)
    points = known.start(refined.released)[0] + 0.1 * np.eye(3)
    np.testing.assert_allclose(
        found.log_likelihood(loaded.released)(points),
        known.log_likelihood(refined.released)(points),
    )
    assert {"intercept", "slopes"} <= set(loaded.model(private).named_vars)
    text = pmp.report(refined, book).text
    assert "second round" in text
    assert "epsilon" in text


def test_a_refined_summary_may_be_refined_and_checked(twice):
    _, refined = twice
    plan = refinement_plan(refined, epsilon=2)
    assert plan.total.gdp > refined.guarantee.gdp
    assert plan.round.nats > 0
    check = pmp.check_plan(refined, "quadratic(x[0])", epsilon=1, delta=1e-6)
    assert check.total.gdp > refined.guarantee.gdp


def test_a_plan_says_cost_total_and_gain(first):
    plan = refinement_plan(first, epsilon=1)
    frame = plan.to_frame()
    assert list(frame.index) == ["intercept", "slopes[0]", "slopes[1]"]
    np.testing.assert_allclose(frame["ratio"], plan.round.shrinkage)
    assert (frame["ratio"] < 1).all()
    for text in (repr(plan), plan._repr_html_()):
        assert "expected: posterior standard deviations" in text
        assert "adaptive composition" in text


@pytest.mark.audit
def test_the_number_of_records_stays_protected():
    private = declared(n=6000, neighbors="add_remove")
    book = pmp.Ledger(epsilon=8, delta=1e-4, neighbors="add_remove")
    words = {"ledger": book, "progressbar": False}
    first = pmp.summarize(private, epsilon=0.5, delta=1e-6, n=6000, **words)
    refined = pmp.refine(first, epsilon=1, **words)
    assert len(book.entries) == 2
    assert refined.released["count"] == first.released["count"]
    assert refined.guarantee.neighbors == "add_remove"


# ---- nothing charged -----------------------------------------------------------------------------
def changed(summary, **facts):
    copied = pmp.Summary(summary.released, summary.guarantee, summary.facts | facts)
    return copied.with_origin(*summary.of_model(None))


BAD = {
    "no summary": (lambda s, p: pmp.refine(p, epsilon=1), "is a summary"),
    "no budget": (lambda s, p: pmp.refine(s), "budget of its own"),
    "a negative budget": (lambda s, p: pmp.refine(s, epsilon=-1), "epsilon"),
    "another model": (
        lambda s, p: pmp.refine(s, epsilon=1, private=declared(prior_sd=2.0)),
        "another structure",
    ),
    "other records": (
        lambda s, p: pmp.refine(s, epsilon=1, private=declared(n=N - 1)),
        "another structure",
    ),
    "a poor ledger": (lambda s, p: pmp.refine(s, epsilon=1, ledger=ledger(0.5)), "refuses this"),
    "little gain": (lambda s, p: pmp.refine(s, epsilon=0.01), "hardly tell anything more"),
    "no number": (lambda s, p: pmp.refine(s, epsilon=np.nan), "epsilon"),
    "refused": (
        lambda s, p: pmp.refine(
            changed(s, cautions=[{"text": "far out", "refuse": True}]), epsilon=1
        ),
        "too little to plan a round",
    ),
    "another epsilon": (
        lambda s, p: pmp.refine(refinement_plan(s, epsilon=1), epsilon=2),
        "fixes its numbers",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_refined_is_refused_and_nothing_is_charged(name, private, first):
    call, text = BAD[name]
    with pytest.raises(PymcPrivateError, match=text), ledger() as book:
        call(first, private)
    assert book.entries == ()


def test_a_model_that_was_changed_after_the_plan_is_refused(first):
    other = declared()
    plan = refinement_plan(first, epsilon=1, private=other)
    with other.base:
        pm.Potential("late", other.base["intercept"])
    book = ledger()
    with pytest.raises(pmp.errors.Incompatible, match="was changed since"):
        pmp.refine(plan, ledger=book, progressbar=False)
    assert book.entries == ()


@pytest.mark.audit
def test_a_seeded_summary_is_refined_with_a_seed_alone(private, first):
    words = {"progressbar": False, "random_seed": 3}
    seeded = pmp.summarize(private, epsilon=0.5, delta=1e-6, **words)
    with pytest.raises(pmp.errors.DomainError, match="no guarantee"):
        pmp.refine(seeded, epsilon=1, ledger=ledger())
    one, two = (pmp.refine(seeded, epsilon=1, **words) for _ in range(2))
    assert one == two
    assert not one.private
    public = pmp.refine(first, epsilon=1, **words)
    assert not public.private
    assert "ledger_head" in first.facts
    assert "ledger_head" not in public.facts  # nothing was charged for it
    with pytest.raises(AttributeError, match=r"pmp\.refine"):
        one.refine  # noqa: B018
