"""What calibrate chooses among, and what it says of several numbers of draws."""

from __future__ import annotations

import dataclasses
import pickle
import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.certificates.restrict import temper
from pymc_private.errors import BudgetExceeded, DomainError, NotCertified, PrivacyWarning
from pymc_private.models.information import simulated_information
from pymc_private.models.verdict import variance_removed_by_draws
from pymc_private.posterior import calibrate as calibrate_module
from pymc_private.posterior.candidates import DrawBudget, best_clip_bounds

N = 200
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def private_of(build, domain, **keywords):
    with pm.Model(coords={"i": range(keywords.pop("n", N))}) as model:
        build()
    return pmp.privatize(model, records="i", domain=domain, **keywords)


def logistic():
    x = pm.Data("X", np.zeros((N, 2)), dims=("i", None))
    slope = pm.Normal("slope", 0, 1, shape=2)
    pm.Bernoulli("y", logit_p=x @ slope, observed=np.zeros(N, int), dims="i")


def unbounded():
    """No box bounds log y at y = 0: only a clip gives it a price."""
    pm.Gamma("y", pm.Gamma("shape", 2, 1), 1.0, observed=np.ones(20), dims="i")


def squared():
    pm.Normal("y", pm.Normal("mu", 0, 1) ** 2, 1.0, observed=np.zeros(N), dims="i")


@pytest.fixture(scope="module")
def slopes():
    return private_of(logistic, {"X": pmp.Ball(1.0)})


@pytest.fixture(scope="module")
def plan(slopes):
    return pmp.calibrate(slopes, draws=[10, 1, 50], **BUDGET)


@pytest.fixture(scope="module")
def alone(slopes):
    """Give the plan for one number of draws."""
    return pmp.calibrate(slopes, draws=10, **BUDGET)


def test_the_plan_is_for_the_first_number_of_draws_and_shows_the_others(plan, alone):
    table = plan.to_frame()
    assert plan.draws == 10
    assert list(dict.fromkeys(table["draws"])) == [10, 1, 50]
    assert table.groupby("draws")["chosen"].sum().eq(1).all()
    assert plan.fingerprint == alone.fingerprint
    assert "1 draw: " in plan.summary()
    kept = table[table["chosen"]].set_index("draws")["records_kept"]
    assert kept[1] > kept[10] > kept[50]


def test_each_number_of_draws_has_its_plan(plan, alone):
    for count in (1, 50):
        other = plan.at(count)
        assert other.summary().startswith("1 proved draw (" if count == 1 else "50 proved draws (")
        assert other.draws == count
        assert other.guarantee.epsilon(1e-6) <= 1.0
        assert other.at(10).fingerprint == alone.fingerprint
    assert plan.at(10) is plan
    for asked in (plan, alone):
        with pytest.raises(DomainError, match="number of draws"):
            asked.at(7)


def test_a_plan_of_several_numbers_can_be_carried(plan):
    carried = pickle.loads(pickle.dumps(plan))
    assert carried.at(50).fingerprint == plan.at(50).fingerprint


@pytest.mark.parametrize("draws", [[], [0], [1, 2.5], [True], "12"])
def test_numbers_of_draws_are_whole_numbers(slopes, draws):
    with pytest.raises(DomainError, match="draws"):
        pmp.calibrate(slopes, draws=draws, **BUDGET)


def test_a_model_with_a_gaussian_road_is_weighed_against_boxes(slopes, alone):
    """Without delta the Gaussian road is closed, and a box is taken."""
    pure = pmp.calibrate(slopes, epsilon=1.0)
    assert pure.chosen.mass is not None
    assert pure.guarantee.accounting_method(0.0) == "pure"
    masses = alone.to_frame()["prior_mass"]
    assert masses.isna().sum() == 1
    assert 0.95 in masses.tolist()


def test_what_is_chosen_promises_most(plan):
    table = plan.to_frame()
    for _, rows in table.groupby("draws"):
        assert rows["information"].idxmax() == rows.index[rows["chosen"]][0]
    assert np.all(table["information"] < plan.whole)
    assert np.all(np.diff(table[table["draws"] == 1]["information"][1:]) != 0)


def test_a_reference_alters_what_is_expected_and_is_listed_as_a_claim(slopes, plan):
    boxed = pmp.trim(slopes, box={"slope": (-1, 1)})
    near = pmp.calibrate(
        boxed, draws=10, reference={"X": np.full((4, 2), 0.01)}, clip=False, **BUDGET
    )
    assert near.whole < 0.1 * plan.whole
    assert any("reference=" in claim for claim in near.certificate.claims)
    assert "from the reference" in near.summary()


def test_only_what_has_no_other_price_is_clipped_and_loudly(monkeypatch):
    def certify_what_is_clipped(private, **coarsely):  # the other search would take seconds to fail
        if private.graph.clip is None:
            raise NotCertified("log y has no bound")
        return pmp.certify(private, **coarsely)

    monkeypatch.setattr("pymc_private.posterior.candidates.certify", certify_what_is_clipped)
    private = private_of(unbounded, {"y": (0, 5)}, n=20)
    with pytest.warns(PrivacyWarning, match="another model"):
        plan = pmp.calibrate(private, draws=5, **BUDGET)
    assert plan.chosen.clipped
    assert "WARNING: CLIPPED" in plan.summary()
    low, high = plan.private.graph.clip
    assert plan.certificate.range <= 2 * (high - low) * float(plan.private.power) * (1 + 1e-12)
    assert plan.guarantee.epsilon(1e-6) <= 1.0
    assert plan.plot().get_xticklabels()[-1].get_text() == "0.95, clipped"
    with pytest.raises(NotCertified):
        pmp.calibrate(private, draws=5, clip=False, **BUDGET)


@pytest.mark.audit
def test_a_clip_that_is_allowed_is_weighed_and_must_be_clearly_better():
    private = private_of(squared, {"y": (-20, 20)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        plan = pmp.calibrate(private, clip=True, **BUDGET)
    table = plan.to_frame()
    assert table["clipped"].sum() == 1
    plain = table[~table["clipped"]]["information"].max()
    clipped = table[table["clipped"]]["information"].max()
    assert plan.chosen.clipped == (clipped > 1.1 * plain)
    assert plan.chosen.clipped  # a domain so wide costs more than the clip
    without = pmp.calibrate(private, clip=False, **BUDGET)
    assert not without.to_frame()["clipped"].any()


def wide():
    """A domain so wide that one record could move the model as it is far."""
    pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=np.zeros(N), dims="i")


def test_a_clip_nobody_asked_for_is_taken_if_the_rest_is_worth_little_and_is_said_loudly():
    private = private_of(wide, {"y": (-20, 20)})
    with pytest.warns(PrivacyWarning, match="another model.*clip=False keeps yours"):
        plan = pmp.calibrate(private, draws=10, **BUDGET)
    text = plan.summary()
    assert plan.chosen.clipped
    assert "CLIPPED, SO THIS IS ANOTHER MODEL" in text
    assert text.index("BEFORE YOU CLIP: one noisy summary") < text.index("CLIPPED, SO")
    kept = pmp.calibrate(private, draws=10, clip=False, **BUDGET)
    assert not kept.to_frame()["clipped"].any()
    assert kept.verdict in ("prior", "weak")
    assert kept.chosen.information < 0.5 * plan.chosen.information
    assert "clip=True" not in kept.summary()  # it was refused by the caller


def test_a_plan_of_some_worth_is_not_clipped_but_told_what_a_clip_would_do(alone):
    assert alone.verdict == "weak"
    assert not alone.to_frame()["clipped"].any()
    assert "clip=True in calibrate (another model, " in alone.summary()


@pytest.mark.audit
def test_one_draw_is_taken_unless_the_budget_affords_more_of_the_whole_likelihood(slopes):
    plan = pmp.calibrate(slopes, clip=False, **BUDGET)
    assert plan.draws == 1
    assert set(plan.to_frame()["draws"]) == {1}
    rich = pmp.calibrate(slopes, epsilon=500.0, delta=1e-6)
    assert rich.draws > 1
    assert rich.private.power > 0.5
    assert f"{rich.draws} draws, the number from which a reader" in rich.summary()
    assert rich.at(1).draws == 1
    assert pmp.calibrate(slopes, epsilon=500.0, delta=1e-6, draws=1).draws == 1


def heavy_tails():
    """Six parameters of a posterior that is not log-concave, which no sampler of draws covers."""
    x = pm.Data("X", np.zeros((2000, 2)), dims=("i", None))
    mean = pm.Normal("a", 0, 1) + x @ pm.Normal("b", 0, 1, shape=2)
    nu, sigma = pm.Gamma("nu", 4, 1), pm.Gamma("sigma", 4, 4)
    shift = pm.Normal("shift", 0, 0.1)
    mean = mean + shift * x[:, 0] ** 2
    pm.StudentT("y", nu=nu, mu=mean, sigma=sigma, observed=np.zeros(2000), dims="i")


@pytest.mark.audit
def test_where_no_draw_can_be_had_the_refusal_names_a_summary_that_can():
    private = private_of(heavy_tails, {"X": pmp.Ball(1.0), "y": (-9, 9)}, n=2000)
    with pytest.raises(pmp.errors.Unsupported, match="release='summary'") as refused:
        pmp.calibrate(private, clip=False, **BUDGET)
    assert "or fix or merge some parameters" in str(refused.value)
    assert pmp.calibrate(private, release="summary", **BUDGET).verdict == "informative"
    with pytest.raises(pmp.errors.Unsupported) as pure:  # scores need a delta
        pmp.calibrate(private, epsilon=1.0)
    assert "release='summary'" not in str(pure.value)


def test_a_reader_of_draws_learns_what_the_best_linear_guess_removes():
    rng = np.random.default_rng(0)
    share, count = 0.7, 3
    truth, size = rng.normal(size=200_000), (count, 200_000)
    precision = share / (1 - share)  # of the data, in prior units: the posterior removes `share`
    data = truth + rng.normal(size=200_000) / precision**0.5
    draws = share * data + (1 - share) ** 0.5 * rng.normal(size=size)
    mean = draws.mean(axis=0)
    removed = np.corrcoef(mean, truth)[0, 1] ** 2
    assert variance_removed_by_draws(share, count) == pytest.approx(removed, abs=0.01)
    assert variance_removed_by_draws(share, 1) == pytest.approx(share**2)


def test_ends_of_a_clip_promise_no_less_than_others(slopes):
    found, budget = simulated_information(slopes, N), DrawBudget(1.0, 1e-6, 5)
    low, high = best_clip_bounds(slopes, found, budget)

    def gain(a, b):
        return found.gain(slopes, min(1.0, budget.range / (2 * (b - a))), (a, b))

    assert low < high
    assert gain(low, high) >= max(gain(found.quantile(0.01), 0.0), gain(-50.0, 0.0))


@pytest.mark.audit
def test_without_tempering_a_box_that_fits_whole_is_taken():
    private = private_of(squared, {"y": (-2, 2)})
    cost = pmp.certify(pmp.trim(private, mass=0.8)).range
    plan = pmp.calibrate(private, epsilon=1.01 * cost, temper=False)
    assert plan.private.power == 1
    assert plan.chosen.mass == 0.8
    with pytest.raises(BudgetExceeded):
        pmp.calibrate(private, epsilon=0.5 * cost, temper=False)


def test_a_tempered_model_is_judged_at_its_whole_power(slopes):
    boxed = pmp.trim(slopes, box={"slope": (-1, 1)})
    half, whole = (
        pmp.calibrate(p, draws=10, clip=False, **BUDGET) for p in (temper(boxed, 0.5), boxed)
    )
    assert half.chosen.information == pytest.approx(whole.chosen.information, rel=1e-3)


def test_under_add_remove_a_public_guess_of_n_is_enough():
    private = private_of(logistic, {"X": pmp.Ball(1.0)}, neighbors="add_remove")
    private = pmp.trim(private, box={"slope": (-1, 1)})
    plan = pmp.calibrate(private, draws=5, n=400, **BUDGET)
    assert plan.n == 400
    assert np.isfinite(plan.chosen.information)
    blind = pmp.calibrate(private, draws=[5, 9], **BUDGET)
    assert np.isfinite(blind.chosen.information)
    assert str(N) not in blind.summary()


def test_pictures_say_what_was_weighed(plan, alone):
    over_draws = plan.plot()
    assert "draws" in over_draws.get_xlabel()
    assert [tick.get_text() for tick in over_draws.get_xticklabels()] == ["1", "10", "50"]
    over_regions = alone.plot()
    labels = [tick.get_text() for tick in over_regions.get_xticklabels()]
    assert labels[-1] == "as given"
    assert "information" in over_regions.get_ylabel()


def test_a_plan_is_priced_on_the_terms_of_the_sampler_that_draws(plan, monkeypatch):
    assert plan.certificate.terms == plan.method.terms(plan.private)
    # Were another one to fit at the last power, its distance would not be paid for.
    monkeypatch.setattr(
        calibrate_module, "choose_sampler", lambda *a, **k: pmp.samplers.Proximal(tv=1e-7)
    )
    with pytest.raises(pmp.errors.Unsupported, match="costs more than the one"):
        plan.at(1)


def test_the_sampler_of_a_plan_cannot_be_exchanged_for_the_old_price(alone):
    with pytest.raises(pmp.errors.Incompatible, match="belong together"):
        dataclasses.replace(alone, method=pmp.samplers.Proximal(tv=1e-3))
