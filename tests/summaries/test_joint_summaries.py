"""Summaries that are released together: one charge, shared stages paid once, one stored record."""

from __future__ import annotations

from fractions import Fraction

import h5py
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError
from pymc_private.summaries import choose_mechanism
from pymc_private.summaries.joint_plan import JointSummaryPlan, own_mu, plan_together
from pymc_private.summaries.joint_release import _JointJob
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.summary_job import records_of
from tests.summaries.normal_sum import NormalSum, normal_private
from tests.summaries.packed_matrices import PackedMatrices

N = 120
AUDIT = pytest.mark.audit


def ledger(epsilon=10, **words):
    return pmp.Ledger(epsilon=epsilon, delta=1e-4, **words)


# ---- the job, with a small mechanism -------------------------------------------------------------
@pytest.fixture
def small(monkeypatch):
    """Plans of two priors by a mechanism that takes no time."""
    monkeypatch.setattr(choose_mechanism, "MECHANISMS", {"sums": NormalSum})
    values = np.random.default_rng(1).normal(0.5, 1.0, N).clip(-3, 3)
    return [small_plan(normal_private(values, prior_sd=sd)) for sd in (1.0, 2.0)]


def small_plan(private, epsilon=1.0, delta=1e-6):
    return pmp.calibrate(private, release="summary", epsilon=epsilon, delta=delta)


def together(plans, **words):
    return pmp.summarize(plans, progressbar=False, **({"ledger": ledger()} | words))


def test_one_charge_and_one_record_hold_all_summaries(small, tmp_path):
    book = ledger()
    found = together(small, ledger=book, name="both", save=tmp_path / "both.nc")
    assert [type(one) for one in found] == [pmp.Summary, pmp.Summary]
    (entry,) = book.entries
    mu = largest_mu(1, 1e-6)
    for one in found:
        assert one.guarantee == entry.guarantee
        assert mu * np.sqrt(2) <= one.guarantee.gdp < mu * np.sqrt(2) * (1 + 1e-9)
        assert one.facts["together"]["summaries"] == 2
        assert any("same records" in text for text in one.guarantee.assumptions)
        assert "released at once" in repr(one)
        assert one.of_model(None)
    assert 1 < found[0].guarantee.epsilon(1e-6) < 1.5  # two charges would cost 2
    assert together(small, ledger=book, name="both") == found
    assert len(book.entries) == 1
    assert pmp.load(tmp_path / "both.nc") == found
    with pytest.raises(pmp.errors.Incompatible, match="belongs to another charge"):
        together(small[::-1], ledger=book, name="both")
    assert together(small, ledger=book, name="both", again=True) != found
    assert len(book.entries) == 2
    text = " ".join(pmp.report(found[1], book).text.split())
    assert "Summary 2 of 2 that were released at once" in text


def test_a_damaged_file_of_several_is_refused(small, tmp_path):
    together(small, save=tmp_path / "both.nc")
    with h5py.File(tmp_path / "both.nc", "r+") as file:
        array = file["summaries"]["summary_1"]
        array[len(array) // 2 :] = 0
    with pytest.raises(pmp.errors.Incompatible, match=r"damaged|not a summary"):
        pmp.load(tmp_path / "both.nc")


def test_seeded_summaries_are_free_and_their_noise_differs(small):
    book = ledger()
    one, two = (together(small, ledger=book, random_seed=3) for _ in range(2))
    assert one == two
    assert book.entries == ()
    assert not any(summary.private for summary in one)
    assert one[0].released["sum"] != one[1].released["sum"]


def test_private_models_take_one_budget_for_all(small):
    book = ledger()
    found = together([plan.private for plan in small], epsilon=1, delta=1e-6, ledger=book)
    assert 0.99 < found[0].guarantee.epsilon(1e-6) <= 1
    assert found[0].facts["asked"] == found[1].facts["asked"] > 0.6  # more than half of it
    assert len(book.entries) == 1


def test_what_fails_on_made_up_records_is_not_charged(small, monkeypatch):
    def fail(self, records, noise, progress=None):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(NormalSum, "release", fail)
    book = ledger()
    with pytest.raises(pmp.errors.Unsupported, match="ZeroDivisionError: planted"):
        together(small, ledger=book)
    assert book.entries == ()


def other(**words):
    values = np.zeros(words.pop("n", N))
    return small_plan(normal_private(values, prior_sd=3.0, **words))


BAD = {
    "one plan": (lambda p: together(p[:1]), "two or more plans"),
    "no plans": (lambda p: together([p[0], p[1].private]), "two or more plans"),
    "the same plan": (lambda p: together([p[0], p[0]]), "given twice"),
    "a number of records": (lambda p: together([p[0], other(n=N + 1)]), "of the same records"),
    "neighbors": (
        lambda p: together([p[0].private, normal_private(np.zeros(N), neighbors="add_remove")],
                           epsilon=1, delta=1e-6),
        "of the same records",
    ),
    "units": (lambda p: together([p[0], other(records_per_unit=2)]), "of the same records"),
    "a delta": (
        lambda p: together([p[0], small_plan(p[1].private, delta=1e-7)]), "need one delta"
    ),
    "a budget": (lambda p: together(p, epsilon=2), "fix their numbers"),
    "a reference": (
        lambda p: together(p, reference=pd.DataFrame({"x": [0.0]})), "fix their numbers"
    ),
    "a method": (lambda p: together(p, method="scores"), "fix their numbers"),
    "no budget": (lambda p: together([one.private for one in p]), "need a budget"),
    "a ledger": (lambda p: together(p, ledger=ledger(1.2)), "refuses this charge"),
    "little to tell": (
        lambda p: together([small_plan(q.private, 0.01) for q in p]), "hardly tell more"
    ),
}  # fmt: skip


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_released_together_is_refused_and_nothing_is_charged(name, small):
    call, text = BAD[name]
    with pytest.raises(PymcPrivateError, match=text), ledger() as book:
        call(small)
    assert book.entries == ()


def test_a_domain_that_differs_is_named(small):
    values = np.zeros(N)
    wide = pmp.privatize(
        normal_private(values, prior_sd=3.0).base, records="person", domain={"y": (-4, 4)}
    )
    with pytest.raises(pmp.errors.Incompatible, match="the domain of 'y'"):
        together([small[0], small_plan(wide)])


# ---- what noisy scores share ---------------------------------------------------------------------
def scored(which, *, seed=0, bound=1.0, n=600, epsilon=1.0, reference=None, **words):
    """A logistic model of y on u and v, or a Poisson model of z on u alone."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1, 1, (2, n))
    outcomes = {
        "y": 1 * (rng.random(n) < 1 / (1 + np.exp(-0.3 - 0.8 * u + 0.5 * v))),
        "z": rng.poisson(np.exp(0.5 + 0.4 * u)),
    }
    with pm.Model(coords={"row": range(n)}) as model:
        eta = pm.Normal("a") + pm.Normal("b") * pm.Data("u", u, dims="row")
        observed = {"observed": outcomes[which], "dims": "row"}
        if which == "y":
            pm.Bernoulli(
                "y", logit_p=eta + pm.Normal("c") * pm.Data("v", v, dims="row"), **observed
            )
        else:
            pm.Poisson("z", pm.math.exp(eta), **observed)
    domain = {"u": (-bound, bound)} | ({"v": (-1, 1)} if which == "y" else {"z": (0, 30)})
    private = pmp.privatize(model, records="row", domain=domain, **words)
    guess = {"n": 500} if words.get("neighbors") == "add_remove" else {}
    return pmp.calibrate(
        private, epsilon=epsilon, delta=1e-6, release="summary", method="scores",
        reference=reference, **guess,
    )  # fmt: skip


class CountedNoise(PackedMatrices, SimulatedNoise):
    """Simulated noise that adds up what its sums cost."""

    spent = Fraction(0)

    def total(self, chunks, bound, positive, mu):
        self.spent += Fraction(mu) ** 2
        return super().total(chunks, bound, positive, mu)


@pytest.fixture(scope="module")
def plans():
    """Of the logistic and the Poisson model."""
    return {which: scored(which) for which in "yz"}


@pytest.mark.thin(2)
@pytest.mark.parametrize("neighbors", ["substitute", pytest.param("add_remove", marks=AUDIT)])
def test_shared_stages_are_paid_once_and_all_others_in_full(neighbors, plans):
    if neighbors == "add_remove":
        plans = {which: scored(which, neighbors=neighbors) for which in "yz"}
    joint = JointSummaryPlan((plans["z"], plans["y"]))
    assert joint.givers == (1, None)
    assert joint.order == (1, 0)
    job, released = _JointJob(joint, None, False, False), {}
    noise = CountedNoise(np.random.default_rng(2), neighbors)
    for k in joint.order:
        records = records_of(joint.plans[k].private)
        released[k] = job._release(k, records, noise, None, released)
    price = Fraction(joint.guarantee.gdp) ** 2
    assert price * Fraction(1 - 1e-9) < noise.spent <= price
    mus = [plan.mechanism.mu for plan in joint.plans]
    assert joint.guarantee.gdp < 0.99 * np.hypot(*mus)
    assert joint.guarantee.gdp > np.hypot(mus[1], own_mu(joint.plans[0].mechanism.design.budget)) \
        * (1 - 1e-12)  # fmt: skip
    for name in ("large:u", "large_weights", "small:u", "count", "moments"):
        np.testing.assert_array_equal(released[0][name], released[1][name])
    assert "large:v" not in released[0]
    for k, plan in enumerate(joint.plans):
        center, covariance = plan.mechanism.start(released[k])
        truth = [0.5, 0.4] if k == 0 else [0.3, 0.8, -0.5]
        assert (np.abs(center - truth) / np.sqrt(np.diag(covariance))).max() < 4.5
    # A planted fault: a plan that releases all of its stages costs more than the price.
    whole = CountedNoise(np.random.default_rng(2), neighbors)
    for plan in joint.plans:
        plan.mechanism.release(records_of(plan.private), whole)
    assert whole.spent > price


@pytest.mark.audit
def test_what_is_shared_is_released_as_rehearsed_and_loads(plans, tmp_path):
    made = [plans["y"], plans["z"]]
    found = together(made, save=tmp_path / "both.nc", accept=True)
    assert "those of summary 1" in found[1].facts["together"]["shared"]
    assert found[0].guarantee.gdp < 0.99 * np.hypot(*[p.mechanism.mu for p in made])
    loaded = pmp.load(tmp_path / "both.nc")[1]
    _, mechanism = loaded.of_model(made[1].private)
    points = made[1].mechanism.start(found[1].released)[0][None]
    np.testing.assert_allclose(
        mechanism.log_likelihood(loaded.released)(points),
        made[1].mechanism.log_likelihood(found[1].released)(points),
    )


@pytest.mark.audit
def test_only_the_same_covariates_at_no_more_noise_are_shared(plans):
    first, second = plans["y"], plans["z"]
    assert JointSummaryPlan((first, second)).givers == (None, 0)
    sample = {"u": np.linspace(-1, 1, 50)}
    other_reference = scored("z", reference=sample)
    assert JointSummaryPlan((first, other_reference)).givers == (None, None)
    assert JointSummaryPlan((first, scored("z", epsilon=2.0))).givers == (None, None)


@pytest.mark.audit
def test_what_is_saved_goes_to_the_plans_of_one_budget(plans):
    privates = [plan.private for plan in plans.values()]
    found = plan_together(privates, 1.0, 1e-6, method="scores")
    assert found.givers == (None, 0)
    assert 0.995 < found.guarantee.epsilon(1e-6) <= 1
