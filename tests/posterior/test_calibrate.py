"""Plans keep to their budget, waste little of it, and say what they do."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pymc as pm
import pytest
from hypothesis import given, settings
from rich.progress import Progress

import pymc_private as pmp
from pymc_private.certificates import certify as certificate_module
from pymc_private.models import compat
from pymc_private.posterior.calibrate import plan_at_cost
from pymc_private.posterior.candidates import PRIOR_MASSES, largest_range
from pymc_private.privacy import Guarantee


def model_of(build, n=200):
    with pm.Model(coords={"i": range(n)}) as model:
        build(n)
    return model


def bernoulli(n):
    pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.arange(n) % 2, dims="i")


def normal(n):
    pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=np.zeros(n), dims="i")


@pytest.fixture(scope="module")
def private():
    """Give a model that costs 4.4 nats a draw."""
    return pmp.trim(pmp.privatize(model_of(bernoulli), records="i"), box={"p": (0.1, 0.9)})


budgets = st.floats(1e-3, 50.0)
deltas = st.one_of(st.just(0.0), st.floats(-12, -1).map(lambda power: 10.0**power))
draws = st.integers(1, 300)


@settings(max_examples=8 if settings.default.max_examples < 1000 else 1000)
@given(epsilon=budgets, delta=deltas, count=draws)
def test_a_plan_never_exceeds_its_budget_and_wastes_little(private, epsilon, delta, count):
    plan = pmp.calibrate(private, epsilon=epsilon, delta=delta, draws=count)
    assert plan.guarantee.epsilon(delta) <= epsilon
    assert plan.guarantee.delta(epsilon) <= delta
    assert 0 < plan.private.power <= 1
    assert plan.certificate.power == plan.private.power
    assert plan.guarantee == plan.certificate.guarantee(count)
    if plan.private.power < 1:
        more = plan.certificate.tempered(plan.private.power * Fraction(10001, 10000))
        assert more.guarantee(count).epsilon(delta) > epsilon


@given(epsilon=budgets, delta=deltas, count=draws)
def test_the_largest_range_fits_and_a_larger_one_does_not(epsilon, delta, count):
    largest = largest_range(epsilon, delta, count)
    assert Guarantee.bounded_range_of(largest, count).epsilon(delta) <= epsilon
    assert Guarantee.bounded_range_of(largest * (1 + 1e-4), count).epsilon(delta) > epsilon
    assert largest >= largest_range(epsilon, 0.0, count)


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("epsilon", "delta", "count", "road"),
    [
        (1.0, 0.0, 10, "pure"),
        (1.0, 1e-6, 10, "exact curve of N draws (T3)"),
        (8.0, 1e-6, 1000, "exact curve of N draws (T3)"),
    ],
)
def test_the_best_road_is_used_and_named(private, epsilon, delta, count, road):
    plan = pmp.calibrate(private, epsilon=epsilon, delta=delta, draws=count)
    assert plan.guarantee.accounting_method(delta) == road
    assert road in plan.summary()
    if delta:  # T3 affords more than the pure road and than zCDP
        assert plan.certificate.range * count > epsilon
        zcdp = Guarantee.zcdp_of(plan.guarantee.zcdp)
        assert zcdp.epsilon(delta) > epsilon


def test_a_budget_that_is_large_enough_keeps_the_likelihood_whole(private):
    plan = pmp.calibrate(private, epsilon=5.0)
    assert plan.private is private
    assert plan.records_kept == 200
    assert "keeps the information of 200 of 200 records" in plan.summary()
    assert "WARNING" not in plan.summary()


def test_a_tempered_model_is_tempered_further(private):
    half = pmp.temper(private, 0.5)
    plan, whole = (pmp.calibrate(p, epsilon=1.0, delta=1e-6, draws=5) for p in (half, private))
    assert float(plan.private.power) == pytest.approx(float(whole.private.power), rel=1e-5)
    assert plan.to_frame()["records_kept"].iloc[0] == pytest.approx(plan.records_kept)
    assert plan.to_frame()["power"].iloc[0] == pytest.approx(float(plan.private.power))


def test_the_summary_says_what_is_kept_and_what_is_restricted(private):
    plan = pmp.calibrate(private, epsilon=1.0, delta=1e-6, draws=4)
    text = plan.summary()
    assert text.startswith("4 proved draws (conjugate) for epsilon = ")
    assert "of 1, delta = 1e-6" in text
    kept = plan.records_kept
    assert f"keeps the information of {kept:.0f} of 200 records" in text
    assert "prior restricted to p in [0.1, 0.9]" in text
    assert "nats" in text


def test_little_information_is_said_loudly(private):
    assert "WARNING: WEAK" in pmp.calibrate(private, epsilon=0.05).summary()


def test_a_grid_of_one_point_tells_nothing_and_says_so(private):
    text = pmp.calibrate(private, epsilon=1.0, sampler=pmp.samplers.Grid(points=1)).summary()
    assert "keeps no information of any record" in text
    assert "a grid of a single point" in text
    assert "expected to learn" not in text
    text = pmp.calibrate(private, epsilon=1.0, sampler=pmp.samplers.Grid(points=2)).summary()
    assert "a coarse grid, 2 points along" in text
    assert "expected to learn" in text


@pytest.mark.audit
def test_what_could_not_be_judged_is_not_called_nothing():
    """Predictors so long that no record near a prior draw says which side of it is likelier."""
    with pm.Model(coords={"i": range(20), "j": ["x"]}) as model:
        x = pm.Data("x", np.ones((20, 1)), dims=("i", "j"))
        beta = pm.Normal("beta", 0, 1, dims="j")
        pm.Bernoulli("y", logit_p=x @ beta, observed=np.arange(20) % 2, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1e8)})
    plan = pmp.calibrate(private, epsilon=1.0, delta=1e-6, draws=2)
    assert plan.whole == 0
    text = plan.summary()
    assert "0 of 0 nats" not in text
    assert "what draws teach could not be judged" in text
    assert f"the information of {plan.records_kept:.2g} of 20 records" in text


def squared(n):
    """A normal mean that is no linear predictor: no Gaussian road, and no closed form."""
    mu = pm.Normal("mu", 0, 1)
    pm.Normal("y", mu**2, 1, observed=np.zeros(n), dims="i")


@pytest.mark.audit
def test_a_plan_that_has_to_trim_takes_the_mass_that_promises_most():
    private = pmp.privatize(model_of(squared), records="i", domain={"y": (-2, 2)})
    plan = pmp.calibrate(private, epsilon=1.0, delta=1e-6, draws=4)
    table = plan.to_frame()
    masses = table["prior_mass"].tolist()
    first = PRIOR_MASSES.index(masses[0])
    assert 0.95 in masses
    assert masses == list(PRIOR_MASSES[first : first + len(masses)])
    assert table["range"].is_monotonic_increasing
    assert table["records_kept"].is_monotonic_decreasing
    best = table["information"].idxmax()
    assert table.index[table["chosen"]].tolist() == [best]
    assert 0 < best < len(table) - 1 or best in (
        0,
        len(PRIOR_MASSES) - 1,
    )  # a step beyond was tried
    assert f"prior mass about {masses[best]:g}" in plan.summary()
    assert f"the most of {len(masses)} candidates" in plan.summary()
    assert plan.certificate.covers(plan.private)
    labels = [tick.get_text() for tick in plan.plot().get_xticklabels()]
    assert labels == [f"{mass:g}" for mass in masses]


def test_the_frontier_marks_the_largest_mass_that_is_certified(monkeypatch):
    """Where the usual mass has no finite range, the plan says which one it took."""
    certify = certificate_module.certify

    def certify_small_boxes(private, **keywords):
        if not private.region or float(private.region["mu"].upper) > 1.7:
            raise pmp.errors.NotCertified("too large")
        return certify(private, **keywords)

    monkeypatch.setattr("pymc_private.posterior.candidates.certify", certify_small_boxes)
    private = pmp.privatize(model_of(normal), records="i", domain={"y": (-2, 2)})
    plan = pmp.calibrate(private, epsilon=1.0)
    assert plan.to_frame()["prior_mass"].tolist() == [0.8, 0.9]
    assert plan.to_frame()["chosen"].tolist() == [False, True]
    assert "prior mass about 0.9" in plan.summary()


def test_a_plan_at_cost_prices_the_model_as_it_stands(private):
    plan = plan_at_cost(private, 3, 1e-6)
    assert plan.private is private
    assert plan.epsilon == plan.guarantee.epsilon(1e-6)
    assert plan.to_frame()["chosen"].tolist() == [True]
    assert plan.plot().get_xticklabels()[0].get_text() == "as given"


def test_numpy_numbers_are_numbers(private):
    plan = pmp.calibrate(private, epsilon=np.float64(1), delta=np.float64(1e-6), draws=np.int64(3))
    same = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=3)
    assert plan.fingerprint == same.fingerprint


def test_each_part_of_a_request_is_in_the_fingerprint(private):
    plans = [
        pmp.calibrate(private, **({"epsilon": 1.0, "delta": 1e-6, "draws": 3} | change))
        for change in ({}, {"epsilon": 1.1}, {"delta": 2e-6}, {"draws": 4})
    ]
    narrow = pmp.trim(private, box={"p": (0.2, 0.8)})
    plans.append(pmp.calibrate(narrow, epsilon=1.0, delta=1e-6, draws=3))
    assert len({plan.fingerprint for plan in plans}) == len(plans)


@pytest.mark.audit
@pytest.mark.parametrize("release", ["draws", "summary"])
def test_a_plan_that_takes_long_says_what_it_weighs(release, monkeypatch):
    said = []
    monkeypatch.setattr(compat, "_is_watched", lambda shown: shown and compat._BARS_WANTED.get())
    monkeypatch.setattr(compat, "BAR_DELAY", 0.0)
    monkeypatch.setattr(Progress, "update", lambda *_, description: said.append(description))
    private = pmp.privatize(model_of(bernoulli), records="i")
    words = {"epsilon": 1, "delta": 1e-6, "release": release}
    pmp.calibrate(private, **words, progressbar=False)
    assert said == []
    pmp.calibrate(private, **words)
    weighed = {"draws": "the model as it is", "summary": "a summary by sums"}[release]
    assert f"Planning: {weighed}" in said
    assert compat._STAGE.get() is None
