"""The user's side of a summary: plan, charge, store, load, refuse."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
from typing import Any

import h5py
import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.privacy import Guarantee
from pymc_private.release.charge import UnsavedRelease
from pymc_private.summaries import choose_mechanism, nuts_posterior, simulated_summaries
from pymc_private.summaries.choose_mechanism import SummaryRequest
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.nuts_posterior import NutsDraws
from pymc_private.summaries.simulated_summaries import SimulatedSummaries
from pymc_private.summaries.summary_plan import sampling_time
from tests.summaries.normal_sum import NormalSum, normal_model, normal_private

summarize_module = importlib.import_module("pymc_private.summaries.summarize")
N = 120
SECRET = 0.7123456789


@pytest.fixture(autouse=True)
def only_sums(monkeypatch):
    """The small mechanism in the place of all others."""
    monkeypatch.setattr(choose_mechanism, "MECHANISMS", {"sums": NormalSum})


@pytest.fixture
def values() -> np.ndarray:
    found = np.random.default_rng(1).normal(0.5, 1.0, N).clip(-3, 3)
    found[0] = SECRET
    return found


@pytest.fixture
def plan(values) -> pmp.SummaryPlan:
    return planned(normal_private(values))


def planned(private: pmp.PrivateModel, **words: Any) -> pmp.SummaryPlan:
    budget = {"epsilon": 2, "delta": 1e-6} | words
    return pmp.calibrate(private, release="summary", **budget)


def ledger() -> pmp.Ledger:
    return pmp.Ledger(epsilon=10, delta=1e-4)


def summarized(plan: Any, **words: Any) -> pmp.Summary:
    return pmp.summarize(plan, progressbar=False, **({"ledger": ledger()} | words))


# ---- one road ------------------------------------------------------------------------------------
def test_a_summary_is_charged_once_and_its_posterior_is_right(plan, values):
    book = ledger()
    summary = summarized(plan, ledger=book)
    (entry,) = book.entries
    assert entry.guarantee == summary.guarantee == plan.guarantee
    assert summary.guarantee.epsilon(1e-6) <= 2
    center, covariance = plan.mechanism.start(summary.released)
    assert abs(center[0] - values.mean()) < 6 * np.sqrt(covariance[0, 0])
    assert summary.verdict == plan.verdict == "informative"
    assert summary.private
    for text in (repr(summary), summary._repr_html_(), plan.summary(), plan._repr_html_()):
        assert "privacy proved; posterior approximate: central limit" in text
        assert str(SECRET) not in text


def test_a_model_is_summarized_in_one_go(values):
    book = ledger()
    domain = {"y": (-3, 3)}
    made = summarized(
        normal_model(values), epsilon=1, delta=1e-6, ledger=book, records="person", domain=domain
    )
    assert len(book.entries) == 1
    assert made.guarantee.epsilon(1e-6) <= 1


def test_the_model_has_the_names_of_the_original_and_no_record(plan, values):
    pytest.importorskip("pymc_private.summaries.noise_aware_model")
    made = summarized(plan).model()
    assert {"theta", "double"} <= set(made.named_vars)
    assert made.observed_RVs == []
    assert "person" not in made.coords


# ---- stored --------------------------------------------------------------------------------------
def test_a_saved_summary_is_the_same_to_the_byte(plan, tmp_path):
    summary = summarized(plan, save=tmp_path / "main.nc")
    loaded = pmp.load(tmp_path / "main.nc")
    assert isinstance(loaded, pmp.Summary)
    assert loaded == summary
    assert loaded.to_bytes() == summary.to_bytes() == (tmp_path / "main.nc").read_bytes()
    assert loaded.facts == summary.facts
    assert loaded.guarantee == summary.guarantee
    assert pickle.loads(pickle.dumps(summary)) == summary
    assert np.float64(SECRET).tobytes() not in pickle.dumps(summary) + summary.to_bytes()
    assert "dong2022gaussian" in loaded.cite()


def test_a_loaded_summary_takes_a_model_of_the_same_structure_alone(plan, tmp_path):
    summarized(plan, save=tmp_path / "main.nc")
    loaded = pmp.load(tmp_path / "main.nc")
    with pytest.raises(pmp.errors.DomainError, match="holds no model"):
        loaded.model()
    with pytest.raises(pmp.errors.Incompatible, match="another structure"):
        loaded.model(normal_private(np.zeros(N), prior_sd=2.0))
    with pytest.raises(pmp.errors.Incompatible, match="another structure"):
        loaded.model(normal_private(np.zeros(N + 1)))
    with pytest.raises(pmp.errors.DomainError, match="private model"):
        loaded.model(normal_model(np.zeros(N)))
    placeholder = normal_private(np.zeros(N))
    private, mechanism = loaded.of_model(placeholder)
    assert private is placeholder
    assert mechanism.facts == plan.mechanism.facts
    found = mechanism.log_likelihood(loaded.released)(np.zeros((1, 1)))
    assert np.array_equal(found, plan.mechanism.log_likelihood(loaded.released)(np.zeros((1, 1))))


def test_a_summary_of_other_versions_is_read_with_a_warning(plan):
    made = summarized(plan)
    other = made.facts | {"model": "another graph", "versions": {"pymc": "1.0", "pytensor": "1.0"}}
    stored = pmp.Summary(made.released, made.guarantee, other)
    with pytest.warns(UserWarning, match=r"made by pymc 1\.0.*likelihood and prior cannot"):
        stored.of_model(normal_private(np.zeros(N)))
    with pytest.raises(pmp.errors.Incompatible, match="another structure"):
        stored.of_model(normal_private(np.zeros(N + 1)))
    otherwise = made.facts | {"mechanism": made.facts["mechanism"] | {"bound": 2.0}}
    with pytest.raises(pmp.errors.Incompatible, match="made otherwise"):
        pmp.Summary(made.released, made.guarantee, otherwise).of_model(normal_private(np.zeros(N)))


@pytest.mark.parametrize("place", ["content", "header", "group"])
def test_a_damaged_file_is_refused(plan, tmp_path, place):
    path = summarized(plan).save(tmp_path / "main.nc")
    with h5py.File(path, "r+") as file:
        group = file["summary"]
        if place == "content":
            group["sum"][...] = group["sum"][...] + 1.0
        elif place == "header":
            header = group.attrs["pymc_private"]
            header = header.decode() if isinstance(header, bytes) else header
            group.attrs["pymc_private"] = header.replace('"asked":2.0', '"asked":1.0')
        else:
            file.move("summary", "other")
    with pytest.raises(pmp.errors.Incompatible):
        pmp.load(path)


def test_a_name_returns_the_stored_summary_free(plan, values):
    book = ledger()
    first = summarized(plan, ledger=book, name="main")
    again = summarized(planned(normal_private(values)), ledger=book, name="main")
    assert again == first
    assert len(book.entries) == 1
    assert again.of_model(None)  # it knows its model in this session
    with pytest.raises(pmp.errors.Incompatible, match="belongs to another charge"):
        summarized(planned(normal_private(values), epsilon=1), ledger=book, name="main")
    with pytest.raises(pmp.errors.Incompatible):
        summarized(plan, ledger=book, name="main", data_version="later")
    assert summarized(plan, ledger=book, name="main", again=True) != first
    assert len(book.entries) == 2


def test_a_seed_makes_a_summary_that_is_marked_and_free(plan):
    book = ledger()
    one, two = (summarized(plan, ledger=book, random_seed=3) for _ in range(2))
    assert one == two
    assert not one.private
    assert book.entries == ()
    assert one.guarantee.epsilon(1e-6) == np.inf
    assert "NOT PRIVATE" in repr(one)
    assert summarized(plan) != summarized(plan)


def test_a_summary_that_cannot_be_saved_is_handed_over(plan, tmp_path, monkeypatch):
    def fail(*arguments, **words):
        raise OSError("disk full")

    monkeypatch.setattr(pmp.Summary, "save", fail)
    with pytest.raises(UnsavedRelease) as caught:
        summarized(plan, save=tmp_path / "main.nc")
    assert isinstance(caught.value.release, pmp.Summary)
    assert "summarize() with the same name" in str(caught.value)


# ---- nothing charged -----------------------------------------------------------------------------
def test_what_fails_on_made_up_records_is_not_charged(plan, monkeypatch):
    def fail(self, records, noise, progress=None):
        raise ZeroDivisionError("planted")

    book = ledger()
    monkeypatch.setattr(NormalSum, "release", fail)
    with pytest.raises(pmp.errors.Unsupported, match="ZeroDivisionError: planted"):
        summarized(plan, ledger=book)
    assert book.entries == ()


def test_a_likelihood_that_is_not_finite_is_not_charged(plan, monkeypatch):
    monkeypatch.setattr(
        NormalSum,
        "log_likelihood",
        lambda self, released: lambda theta: np.full(len(theta), np.nan),
    )
    book = ledger()
    with pytest.raises(pmp.errors.Unsupported, match="not finite"):
        summarized(plan, ledger=book)
    assert book.entries == ()


def test_after_the_charge_a_failure_tells_its_type_alone(plan, monkeypatch):
    original = NormalSum.release

    def fail(self, records, noise, progress=None):
        if progress is not None:  # the charged release shows progress
            raise ValueError(str(records["y"][0]))
        return original(self, records, noise, progress)

    book = ledger()
    monkeypatch.setattr(NormalSum, "release", fail)
    with pytest.raises(PymcPrivateError, match="after it was charged") as caught:
        summarized(plan, ledger=book)
    assert str(SECRET) not in str(caught.value)
    assert len(book.entries) == 1


def test_shapes_that_depend_on_the_data_are_caught(plan, monkeypatch):
    original = NormalSum.release

    def longer(self, records, noise, progress=None):
        found = original(self, records, noise, progress)
        return found if progress is None else found | {"secret": np.asarray(records["y"])}

    monkeypatch.setattr(NormalSum, "release", longer)
    with pytest.raises(PymcPrivateError, match="Incompatible"):
        summarized(plan)


def test_what_the_ledger_refuses_is_refused_before_the_rehearsal(plan, monkeypatch):
    def fail(*arguments):
        raise AssertionError("rehearsed")

    monkeypatch.setattr(summarize_module, "rehearse_release", fail)
    refusing = {
        "different neighbors": pmp.Ledger(epsilon=10, delta=1e-4, neighbors="add_remove"),
        "refuses this charge": pmp.Ledger(epsilon=1, delta=1e-4),
        "No accounting method": pmp.Ledger(epsilon=10),
        "delta = 1e-12": pmp.Ledger(epsilon=2, delta=1e-12),
    }
    for text, book in refusing.items():
        with pytest.raises(PymcPrivateError, match=text):
            summarized(plan, ledger=book)
        assert book.entries == ()


def test_a_pure_summary_is_charged_at_delta_zero(values, monkeypatch):
    class Pure(NormalSum):
        def __init__(self, private, request):
            super().__init__(private, request)
            self.guarantee = Guarantee.pure(request.epsilon)

    monkeypatch.setattr(choose_mechanism, "MECHANISMS", {"sums": Pure})
    plan, book = planned(normal_private(values), epsilon=1), pmp.Ledger(epsilon=1)
    summary = summarized(plan, ledger=book)
    assert (book.spent.epsilon, book.spent.delta) == (1, 0)
    assert (summary.facts["epsilon"], summary.facts["delta"]) == (1, 0)
    for text in (plan.summary(), repr(summary), pmp.report(summary, book).text):
        assert "delta = 0" in text
        assert "1e-06" not in text


def test_what_is_sought_in_a_summary_is_named_where_it_is(plan):
    summary = summarized(plan)
    for owner, names in ((summary, ("sample", "posterior", "mean")), (plan, ("sample", "model"))):
        for name in names:
            with pytest.raises(AttributeError, match=r"with summary\.model\(\): idata = pm"):
                getattr(owner, name)
            assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match="did you mean 'guarantee'"):
            _ = owner.guarante
        with pytest.raises(pmp.errors.DomainError, match="is no model"), owner:
            pass
        assert copy.copy(owner).fingerprint == owner.fingerprint
        assert pickle.loads(pickle.dumps(owner)).fingerprint == owner.fingerprint


def test_a_reference_outside_the_domain_is_told_or_refused():
    rng = np.random.default_rng(0)
    with pm.Model(coords={"person": range(N)}) as model:
        x = pm.Data("x", np.zeros(N), dims="person")
        pm.Normal("y", pm.Normal("theta", 0, 1) * x, 1.0, observed=np.zeros(N), dims="person")
    private = pmp.privatize(model, records="person", domain={"x": (-1, 1), "y": (-3, 3)})
    inside, some = rng.uniform(-1, 1, 50), np.r_[rng.uniform(-1, 1, 48), 1.5, -4.0]
    assert planned(private, reference={"x": inside, "y": 9 + inside}).cautions == ()
    (caution,) = planned(private, reference={"x": some}).cautions
    assert "2 of 50 rows of reference= lie outside the domain of 'x'" in caution.text
    with pytest.raises(pmp.errors.DomainError, match="most of the reference"):
        planned(private, reference={"x": 100 * inside})


def test_one_message_says_how_much_noise_widens_intervals(values):
    good, poor = (planned(normal_private(values), epsilon=e) for e in (20, 0.5))
    assert "the price of privacy" not in good.summary()
    first, second = poor.summary().splitlines()[:2]
    assert first.startswith("INFORMATIVE")
    assert second.startswith("the price of privacy: intervals about")
    assert "WARNING" not in poor.summary()


def test_uneven_information_over_the_prior_is_told(plan):
    low, high = plan.spread
    assert 0.8 * plan.whole < low <= plan.whole <= high < 1.2 * plan.whole  # a normal mean: even
    assert "averages over the prior" not in plan.summary()
    uneven = dataclasses.replace(plan, spread=(0.1, 5.0))
    assert "under which records tell 0.1 to 5 nats" in uneven.summary()


BAD = {
    "few records": (lambda: planned(normal_private(np.zeros(29))), "central limit"),
    "a plan of draws": (
        lambda: summarized(pmp.calibrate(normal_private(np.zeros(N)), epsilon=1, delta=1e-6)),
        "pmp.sample",
    ),
    "a summary to sample": (
        lambda: pmp.sample(planned(normal_private(np.zeros(N)))),
        "pmp.summarize",
    ),
    "no budget": (lambda: summarized(normal_private(np.zeros(N))), "needs a budget"),
    "a kind": (
        lambda: pmp.calibrate(normal_private(np.zeros(N)), epsilon=1, release="noise"),
        "kind of release",
    ),
    "a method": (lambda: planned(normal_private(np.zeros(N)), method="best"), "kind of summary"),
    "a method of draws": (
        lambda: pmp.calibrate(normal_private(np.zeros(N)), epsilon=1, method="scores"),
        "method= says how a summary is made",
    ),
    "draws of a summary": (lambda: planned(normal_private(np.zeros(N)), draws=3), "not drawn"),
    "another epsilon": (
        lambda: summarized(planned(normal_private(np.zeros(N))), epsilon=1),
        "fixes its numbers",
    ),
    "a tempered model": (
        lambda: planned(pmp.temper(normal_private(np.zeros(N)), 0.5)),
        "noise takes the place",
    ),
    "delta": (lambda: planned(normal_private(np.zeros(N)), delta=1.5), "probability"),
    "no delta": (lambda: planned(normal_private(np.zeros(N)), delta=0), "needs a delta"),
    "n": (lambda: planned(normal_private(np.zeros(N)), n=7), "n= is for add/remove"),
    "declared twice": (
        lambda: summarized(planned(normal_private(np.zeros(N))), records="person"),
        "declaration was made",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_its_cure(name):
    make, text = BAD[name]
    with pytest.raises(PymcPrivateError, match=text) as caught:
        make()
    assert caught.value.do or caught.value.allowed


def test_a_metric_is_refused_by_name():
    values = np.zeros(N)
    private = normal_private(values, neighbors=pmp.Metric({"y": "absolute"}))
    with pytest.raises(pmp.errors.Unsupported, match="Metric"):
        planned(private)


def test_words_of_draws_are_type_errors_with_the_equivalent(plan):
    with pytest.raises(TypeError, match=r"pm\.sample"):
        summarized(plan, draws=5)
    with pytest.raises(TypeError, match="did you mean 'epsilon'"):
        summarized(plan, eps=1)


def test_a_changed_model_is_refused(values):
    private = normal_private(values)
    plan = planned(private)
    with private.base:
        pm.Potential("extra", private.base["theta"])
    book = ledger()
    with pytest.raises(pmp.errors.Incompatible, match="changed after"):
        summarized(plan, ledger=book)
    assert book.entries == ()


def test_a_factor_added_to_the_users_model_is_refused(values):
    with pm.Model(coords={"person": range(N)}) as model:
        theta = pm.Normal("theta", 0, 1)
        pm.Normal("y", theta, 1.0, observed=values, dims="person")
    private = pmp.privatize(model, records="person", domain={"y": (-3, 3)})
    plan, book = planned(private), ledger()
    with model:
        pm.Deterministic("twice", 2 * theta)  # no factor
    summarized(plan, random_seed=1)
    with model:
        pm.Potential("extra", -(theta**2))
    with pytest.raises(pmp.errors.Incompatible, match=r"extra of the model that privatize copied"):
        summarized(plan, ledger=book)
    assert book.entries == ()


def test_little_information_is_refused_before_the_charge(values):
    book = ledger()
    weak = planned(normal_private(values[:30]), epsilon=0.05)
    assert weak.mechanism.information < 1
    with pytest.raises(pmp.errors.NotInformative, match="1 nat"):
        summarized(weak, ledger=book)
    assert book.entries == ()
    assert summarized(weak, ledger=book, accept_prior=True).verdict == weak.verdict


def test_a_summary_that_cannot_be_used_says_so(plan, monkeypatch):
    class Far(NormalSum):
        def warnings(self, released):
            return super().warnings({"sum": [1e9]})

    monkeypatch.setattr(choose_mechanism, "MECHANISMS", {"sums": Far})
    private = normal_private(np.zeros(N))
    summary = summarized(planned(private))
    assert summary.warnings[0].refuse
    assert "REFUSED" in repr(summary)
    with pytest.raises(pmp.errors.NotInformative, match="far out"):
        summary.model()


# ---- the choice ----------------------------------------------------------------------------------
def test_the_method_that_promises_most_is_taken_and_others_are_told(values, monkeypatch):
    class Better(NormalSum):
        method = "cells"

        def __init__(self, private, request):
            super().__init__(private, request)
            self.information += 1.0

    def refuse(private: Any, request: SummaryRequest) -> Any:
        raise pmp.errors.Unsupported("no scores here", got="a test", do="look away")

    table = {"scores": refuse, "cells": Better, "sums": NormalSum}
    monkeypatch.setattr(choose_mechanism, "MECHANISMS", table)
    plan = planned(normal_private(values))
    assert plan.method == "cells"
    frame = plan.to_frame()
    assert list(frame["method"]) == ["cells", "sums", "scores"]
    assert list(frame["chosen"]) == [True, False, False]
    assert "not by scores: no scores here" in plan.summary()
    assert plan.plot().get_xlabel() == "expected information (nats)"
    with pytest.raises(pmp.errors.Unsupported, match="no scores here"):
        planned(normal_private(values), method="scores")


def test_auto_takes_what_promises_more_and_says_why(values, monkeypatch):
    private = normal_private(values)
    many = pmp.calibrate(private, epsilon=2, delta=1e-6, draws=20, release="auto")
    assert isinstance(many, pmp.SummaryPlan)
    assert "expected information: a summary (sums)" in many.summary()
    assert "the summary is taken, as it should learn more" in many.summary()
    better, why = choose_mechanism.weigh(float("nan"), many)
    assert better
    assert why.endswith("the summary is taken")
    monkeypatch.setattr(NormalSum, "information", 0.1, raising=False)

    def poor(private, request):
        made = NormalSum.__new__(NormalSum)
        NormalSum.__init__(made, private, request)
        made.information = 0.1
        return made

    monkeypatch.setattr(choose_mechanism, "MECHANISMS", {"sums": poor})
    one = pmp.calibrate(private, epsilon=2, delta=1e-6, release="auto")
    assert isinstance(one, pmp.Plan)
    assert "draws" in one.summary().splitlines()[-1]
    tempered = pmp.temper(private, 0.5)
    none = pmp.calibrate(tempered, epsilon=2, delta=1e-6, release="auto", clip=False)
    assert none.summary().splitlines()[-1].startswith("no summary: a summary keeps the likelihood")
    assert "(a tempered likelihood)" in none.summary().splitlines()[-1]


def test_a_plan_for_draws_tells_what_a_summary_would(values):
    plan = pmp.calibrate(normal_private(values), epsilon=1, delta=1e-6, draws=10, clip=False)
    assert "of_summary" not in plan.__dict__  # computed when it is asked for
    assert "one noisy summary instead" in plan.summary()
    assert 0.9 < plan.of_summary < 1.0


def test_plans_of_two_data_sets_are_the_same_and_pickle(values, plan):
    other = planned(normal_private(np.zeros(N)))
    assert other.fingerprint == plan.fingerprint
    assert other.summary() == plan.summary()
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.fingerprint == plan.fingerprint
    assert copy.summary() == plan.summary()


# ---- coverage ------------------------------------------------------------------------------------
@pytest.mark.audit
def test_simulated_coverage_is_right_for_the_right_likelihood(plan):
    found = plan.coverage(simulations=150, draws=400, progressbar=False)
    assert abs(found.found[1] - 0.9) < 4 * found.errors[1] + 0.01
    assert not found.falls_short
    assert "90% intervals held" in plan.summary()
    assert list(found.to_frame().index) == ["all", "theta"]
    assert "simulation" in found._repr_html_() + repr(found)
    assert found.plot().get_xlabel() == "mass of the interval"
    assert summarized(plan).facts["coverage"]["simulations"] == found.simulations


def test_a_likelihood_without_the_noise_is_caught(plan, monkeypatch):
    monkeypatch.setattr(NormalSum, "variance", property(lambda self: self.n / 4))
    wrong = planned(plan.private)
    found = wrong.coverage(simulations=100, draws=400, progressbar=False)
    assert found.falls_short
    assert any("too narrow" in caution.text for caution in wrong.cautions)


def test_a_posterior_that_is_not_found_is_no_narrow_one(plan, monkeypatch):
    def stuck(study, theta):  # all weight on one draw, far away
        return WeightedDraws(np.full((50, 1), 9.0), np.eye(50)[0])

    right = SimulatedSummaries.posterior_at
    calls = iter([right, stuck, right, stuck, stuck])
    monkeypatch.setattr(SimulatedSummaries, "posterior_at", lambda s, t: next(calls)(s, t))
    found = plan.coverage(simulations=4, draws=400, progressbar=False)
    assert (found.simulations, found.not_found) == (2, 2)
    assert "2 more could not be judged" in found.sentence
    assert "says nothing for or against the plan" in repr(found)
    with pytest.raises(DomainError, match="importance sampling and NUTS did not find"):
        plan.coverage(simulations=1, draws=400, progressbar=False)


def test_nuts_finds_what_importance_sampling_does_not(plan, monkeypatch):
    """The posterior of a normal mean is known; coverage counts it by its independent draws."""
    one = WeightedDraws(np.zeros((400, 1)), np.eye(400)[0])
    monkeypatch.setattr(simulated_summaries, "importance_draws", lambda *words, **more: one)
    noted, start = [], plan.mechanism.start

    def noting(released):
        noted.append(start(released))
        return noted[-1]

    monkeypatch.setattr(plan.mechanism, "start", noting)
    found = SimulatedSummaries(plan, 400, np.random.default_rng(3)).posterior_at(np.zeros((1, 1)))
    (center, covariance), sd = noted[-1], float(found.sd[0])
    assert isinstance(found, NutsDraws)
    assert 100 < found.effective < len(found.points)
    assert abs(float(found.mean[0] - center[0])) < 4 * sd / np.sqrt(found.effective)
    assert sd == pytest.approx(float(np.sqrt(covariance[0, 0])), rel=0.15)
    counted = plan.coverage(simulations=2, draws=400, progressbar=False)
    assert (counted.simulations, counted.not_found) == (2, 0)
    monkeypatch.setattr(nuts_posterior, "MOST_SPREAD", 0.5)  # chains that disagree
    with pytest.raises(DomainError, match="importance sampling and NUTS did not find"):
        plan.coverage(simulations=1, draws=400, progressbar=False)


def test_chains_that_are_too_short_are_run_anew_and_longer(plan, monkeypatch):
    one = WeightedDraws(np.zeros((400, 1)), np.eye(400)[0])
    monkeypatch.setattr(simulated_summaries, "importance_draws", lambda *words, **more: one)
    monkeypatch.setattr(nuts_posterior, "DRAWS", 30)  # 60 draws are never 100 independent ones
    monkeypatch.setattr(nuts_posterior, "LONGER", 16)
    found = SimulatedSummaries(plan, 400, np.random.default_rng(3)).posterior_at(np.zeros((1, 1)))
    assert len(found.points) == 2 * 16 * 30
    assert found.effective > 100


def test_chains_without_density_at_their_starts_begin_at_the_center(plan, monkeypatch):
    one = WeightedDraws(np.zeros((400, 1)), np.eye(400)[0])
    monkeypatch.setattr(simulated_summaries, "importance_draws", lambda *words, **more: one)
    nowhere = [{"theta": np.array(np.nan)}] * nuts_posterior.CHAINS
    monkeypatch.setattr(nuts_posterior, "_starts", lambda *words: nowhere)
    monkeypatch.setattr(nuts_posterior, "LONGER", 1)
    found = SimulatedSummaries(plan, 400, np.random.default_rng(3)).posterior_at(np.zeros((1, 1)))
    assert found is not None
    assert found.effective > 100


# ---- the report ----------------------------------------------------------------------------------
def test_the_report_says_first_what_the_summary_tells(plan):
    book = ledger()
    plan.coverage(simulations=20, draws=300, progressbar=False)
    summary = summarized(plan, ledger=book)
    made = pmp.report(summary, book)
    lines = made.text.splitlines()
    assert any("Verdict: informative" in line for line in lines[:4])
    flat = " ".join(made.text.split())
    for text in (
        "privacy proved; posterior approximate: central limit",
        "90% intervals held",
        "epsilon = ",
        "this summary becomes at most",
        "sum 1 1",
        "dong2022gaussian",
    ):
        assert text in flat, text
    assert str(SECRET) not in made.html
    assert "NOT PRIVATE" in pmp.report(summarized(plan, random_seed=1)).text


def test_the_expected_time_of_sampling_is_a_range_that_grows_with_the_work():
    """It took about a minute of zero-inflated counts with 2,600 nodes, 69 s of 200 groups."""
    assert sampling_time(4, 200) == "under a minute"
    assert sampling_time(5, 2600) == "under a minute to 2 minutes"
    assert sampling_time(203, 400, independent=True) == "2 minutes to 6 minutes"
    assert "hours" in sampling_time(300)
