"""Add/remove and units: other changes of the data, each at its own price."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, N
from pymc_private.models.fingerprint import describe_structure, model_fingerprint


def counts_model(y):
    with pm.Model(coords={"visit": range(len(y))}) as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=y, dims="visit")
    return model


def counts(y, **keywords):
    private = pmp.privatize(
        counts_model(np.asarray(y)), records="visit", domain={"y": (0, 6)}, **keywords
    )
    return pmp.trim(private, box={"rate": (0.5, 5)})


@pytest.fixture(scope="module")
def two():
    """Give five records and thirty-five, one of which may be added or removed."""
    return [counts([0, 1, 2, 6, 3] * times, neighbors="add_remove") for times in (1, 7)]


def test_addition_is_bounded_by_what_one_record_can_say(two):
    # log p(y | rate) varies most for y = 6: 6 log 10 - 4.5, or for y = 0: 4.5.
    found = pmp.certify(two[0])
    assert found.range == pytest.approx(6 * math.log(10) - 4.5, rel=0.011)
    assert found.searched <= found.range
    assert found.guarantee(1).neighbors == "add_remove"


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "name",
    [
        "normal",
        "mixture",
        "hierarchical",
        *(
            pytest.param(name, marks=pytest.mark.audit)
            for name in ("logistic", "gamma", "multivariate normal")
        ),
    ],
)
def test_no_record_varies_by_more_than_the_bound_of_addition(name):
    one = BY_NAME[name]
    data = one.data(np.random.default_rng(4), N)
    keywords = {"records": "person"} | dict(one.keywords) | {"neighbors": "add_remove"}
    private = pmp.trim(pmp.privatize(one.model(data), domain=one.domain, **keywords), box=one.box)
    bound = pmp.certify(private)
    values = _log_likelihoods(private, 200)
    found = (values.max(axis=0) - values.min(axis=0)).max()
    assert found <= bound.range * (1 + 1e-9)
    # Half of it would be contradicted: the test can fail.
    assert found > bound.range / 2


def _log_likelihoods(private, count):
    """log p of each record at points of the box, corners among them: shape (points, records)."""
    rng, graph = np.random.default_rng(5), private.graph
    data = {graph.data[s.name]: s.values() for s in private.sources}
    rows = []
    for k in range(count):
        point = {}
        for name, box in private.box.items():
            low, high = np.clip(box.lower, -3, 3), np.clip(box.upper, -3, 3)
            share = rng.random(low.shape)
            share = np.round(share) if k % 2 else share
            point[graph.parameters[name]] = low + share * (high - low)
        given = data | point
        rows.append(graph.record.eval(given, mode="FAST_COMPILE", on_unused_input="ignore"))
    return np.array(rows)


def test_the_number_of_records_stays_inside(two):
    few, many = two
    assert describe_structure(few) == describe_structure(many)
    assert model_fingerprint(few) == model_fingerprint(many)
    assert repr(few) == repr(many)
    plans = [pmp.calibrate(p, epsilon=1, delta=1e-6, draws=3) for p in (few, many)]
    assert plans[0].summary() == plans[1].summary()
    assert plans[0].fingerprint == plans[1].fingerprint
    assert math.isnan(plans[0].records_kept)
    assert "of each record" in plans[0].summary()
    # Under substitution all of these tell it.
    assert model_fingerprint(counts([0, 1, 2])) != model_fingerprint(counts([0, 1, 2, 6]))


def test_a_release_does_not_tell_the_number_of_records(two):
    made = []
    for private in two:
        plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=2, n=20)
        ledger = pmp.Ledger(epsilon=1, delta=1e-5, neighbors="add_remove")
        made.append(pmp.sample(plan, ledger=ledger, name="main", progressbar=False))
    assert made[0].facts.keys() == made[1].facts.keys()
    differing = {k for k in made[0].facts if made[0].facts[k] != made[1].facts[k]}
    assert differing <= {"ledger_head", "charges", "ledger"}


def test_a_public_guess_gives_the_plan_its_words(two):
    plan = pmp.calibrate(two[0], epsilon=1, delta=1e-6, draws=3, n=100)
    assert plan.records_kept == pytest.approx(100 * float(plan.private.power))
    assert "of 100 records" in plan.summary()
    with pytest.raises(pmp.errors.DomainError, match="add/remove"):
        pmp.calibrate(counts([0, 1, 2]), epsilon=1, n=100)


def test_what_counts_the_records_in_public_is_refused():
    with pm.Model() as model:
        x = pm.Data("x", np.arange(5.0))
        pm.Normal("y", pm.Normal("b", 0, 1) * x, 1.0, observed=np.zeros(5))
    with pytest.raises(pmp.errors.Unsupported, match="counts them"):
        pmp.privatize(
            model, records={"y": 0}, domain={"y": (-1, 1)}, public=["x"], neighbors="add_remove"
        )


def test_a_unit_of_k_records_costs_k_times_as_much():
    one, three = counts([0, 1, 2, 6]), counts([0, 1, 2, 6], records_per_unit=3)
    single, grouped = pmp.certify(one), pmp.certify(three)
    assert grouped.range == pytest.approx(3 * single.range, rel=1e-12)
    assert grouped.range >= 3 * single.range
    assert grouped.searched == pytest.approx(3 * single.searched)
    assert any("at most 3 records" in claim for claim in grouped.claims)
    assert any("at most 3 records" in claim for claim in grouped.guarantee(2).assumptions)
    assert model_fingerprint(one) != model_fingerprint(three)
    assert pickle.loads(pickle.dumps(three)).records_per_unit == 3


def test_a_unit_is_as_far_apart_as_its_price_says():
    # Three records of one person move from 0 to 6: the log posterior ratio varies by 3 (6 log 10).
    three = pmp.certify(counts([0, 1, 2, 6], records_per_unit=3))
    grid = np.linspace(0.5, 5, 2001)
    ratio = 3 * 6 * np.log(grid)
    assert np.ptp(ratio) <= three.range
    assert np.ptp(ratio) > pmp.certify(counts([0, 1, 2, 6])).range


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None])
def test_a_unit_owns_a_whole_number_of_records(wrong):
    with pytest.raises(pmp.errors.DomainError, match="records_per_unit"):
        counts([0, 1, 2], records_per_unit=wrong)


@pytest.mark.parametrize("wrong", ["swap", None, 3])
def test_unknown_neighbors_are_refused(wrong):
    with pytest.raises(pmp.errors.DomainError, match="neighbor"):
        counts([0, 1, 2], neighbors=wrong)


def scaled_by(kind):
    """A model that computes with the length of the records dim."""

    def build(n):
        with pm.Model(coords={"visit": range(n)}) as model:
            length = model.dim_lengths["visit"]
            sd = 1 / pm.math.sqrt(length) if kind == "prior" else 1.0
            b = pm.Normal("b", 0, sd)
            if kind == "potential":
                pm.Potential("more", -0.5 * b**2 * length)
            logit = b / length if kind == "likelihood" else b
            pm.Bernoulli("y", logit_p=logit, observed=np.arange(n) % 2, dims="visit")
        return model

    return build


@pytest.mark.parametrize("kind", ["prior", "potential", "likelihood"])
def test_a_length_of_the_records_dim_is_their_number(kind):
    model = scaled_by(kind)(5)
    with pytest.raises(pmp.errors.Unsupported, match="counts them"):
        pmp.privatize(model, records="visit", neighbors="add_remove")
    pmp.privatize(model, records="visit")  # public there


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["prior", "likelihood"])
def test_a_shape_of_private_data_is_their_number_too(kind, named):
    with pm.Model(coords={"visit": range(5)}) as model:
        y = pm.Data("y_data", np.arange(5) % 2, dims="visit" if named else None)
        b = pm.Normal("b", 0, 1 / pm.math.sqrt(y.shape[0]) if kind == "prior" else 1.0)
        logit = b / y.shape[0] if kind == "likelihood" else b
        pm.Bernoulli("y", logit_p=logit, observed=y, dims="visit")
    with pytest.raises(pmp.errors.Unsupported, match="counts them"):
        pmp.privatize(model, records="visit", neighbors="add_remove")


def test_the_number_of_features_is_public():
    with pm.Model(coords={"visit": range(5)}) as model:
        x = pm.Data("x", np.zeros((5, 2)), dims=("visit", None))
        b = pm.Normal("b", 0, 1 / pm.math.sqrt(x.shape[1]), shape=2)
        pm.Bernoulli("y", logit_p=x @ b, observed=np.arange(5) % 2, dims="visit")
    found = pmp.privatize(model, records="visit", domain={"x": (-1, 1)}, neighbors="add_remove")
    assert found.neighbors == "add_remove"


def test_what_is_withheld_does_not_tell_the_number_of_records():
    def withheld(n):
        with pm.Model(coords={"visit": range(n)}) as model:
            p = pm.Beta("p", 2, 2)
            pm.Deterministic("five", pm.math.stack([p] * 5))
            pm.Deterministic("powers", p ** np.arange(1, 6))
            pm.Deterministic("number", p * model.dim_lengths["visit"])
            pm.Deterministic("odds", p / (1 - p))
            pm.Bernoulli("y", p, observed=np.arange(n) % 2, dims="visit")
        private = pmp.privatize(model, records="visit", neighbors="add_remove")
        plan = pmp.calibrate(pmp.trim(private, box={"p": (0.1, 0.9)}), epsilon=1, draws=1)
        release = pmp.sample(plan, random_seed=1, progressbar=False)
        return release.facts["withheld"], sorted(release.posterior.data_vars)

    assert withheld(4) == withheld(5) == withheld(6)
    assert withheld(5) == (["five", "powers", "number"], ["odds", "p"])
