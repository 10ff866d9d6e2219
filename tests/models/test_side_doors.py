"""Ways around the certificate that once were open."""

from __future__ import annotations

import dataclasses

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import check_parameters
from pytensor.compile.builders import OpFromGraph

import pymc_private as pmp
from pymc_private.certificates import range_bound

N = 5


def baked(values, mean) -> pm.Model:
    """A model whose predictor was baked in as a constant."""
    with pm.Model(coords={"i": range(N)}) as model:
        slope = pm.Uniform("slope", -1, 1)
        baked_in = pt.as_tensor(np.asarray(values, float))
        pm.Normal("y", mean(slope, baked_in), 1.0, observed=np.zeros(N), dims="i")
    return model


DOMAIN = {"constant_0": pmp.Interval(0, 100), "y": pmp.Interval(-1, 1)}


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "mean",
    [
        lambda b, c: b * c.mean(),
        lambda b, c: b * (c - c.mean()),
        lambda b, c: b * c[::-1],
        lambda b, c: b * pt.cumsum(c),
    ],
    ids=["mean", "centered", "reversed", "cumulated"],
)
def test_a_statistic_of_a_baked_array_is_not_folded_into_a_public_number(mean):
    with pytest.raises(pmp.errors.NotCertified):
        pmp.privatize(baked(range(N), mean), records="i", domain=DOMAIN)


def test_a_row_wise_use_of_a_baked_array_is_certified_without_reading_it():
    found = [
        pmp.certify(
            pmp.privatize(baked(v, lambda b, c: b * 2 * c), records="i", domain=DOMAIN)
        ).range
        for v in (np.zeros(N), np.full(N, 50.0))
    ]
    assert found[0] == found[1]
    assert found[0] >= 200.0**2 / 2  # y = 0, c = 100, slope 0 against 1, from both records


def test_integers_that_wrap_around_are_not_certified(monkeypatch):
    for effort in ("BOX_EFFORT", "ROW_EFFORT", "SEARCH_EFFORT"):
        monkeypatch.setattr(range_bound, effort, 60.0)
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.full(N, 128, dtype="uint8"), dims="i")
        p = pm.Uniform("p", 0, 1)
        pm.Bernoulli("y", logit_p=p * (x + x), observed=np.ones(N, int), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": {127, 128}})
    with pytest.raises(pmp.errors.NotCertified):
        pmp.certify(private)


@pytest.fixture(scope="module")
def plan():
    """Plan one draw of a Bernoulli probability."""
    with pm.Model(coords={"i": range(N)}) as model:
        p = pm.Beta("p", 2, 2)
        pm.Bernoulli("y", p=p, observed=np.array([0, 1, 1, 0, 1]), dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.1, 0.9)})
    return pmp.calibrate(private, epsilon=0.5, draws=1)


def test_a_plan_cannot_draw_more_for_the_old_price(plan):
    with pytest.raises(pmp.errors.Incompatible, match="belong together"):
        dataclasses.replace(plan, draws=200)


def test_a_plan_cannot_draw_from_another_model_for_the_old_price(plan):
    wider = pmp.temper(plan.private.with_region({}), 1)
    with pytest.raises(pmp.errors.Incompatible, match="belong together"):
        dataclasses.replace(plan, private=wider.with_power(1))


def test_a_plan_is_the_same_at_each_run(plan):
    again = pmp.calibrate(plan.private.with_power(1), epsilon=0.5, draws=1)
    assert again.fingerprint == plan.fingerprint


def hidden(values, slope) -> pt.TensorVariable:
    """A product with an array that only an inner graph reads."""
    inside = pt.dscalar()
    return OpFromGraph([inside], [pt.as_tensor(values) * inside])(slope)


@pytest.mark.thin(2)
@pytest.mark.parametrize("factor", [pm.Potential, pm.Deterministic], ids=["factor", "computed"])
def test_an_array_of_records_inside_an_inner_graph_is_seen(factor):
    values = np.linspace(0.0, 1.0, N)
    model = baked(values, lambda b, c: b)
    with model:
        factor("more", hidden(values, model["slope"]))
    domain = {"y": pmp.Interval(-1, 1)}
    if factor is pm.Potential:
        with pytest.raises(pmp.errors.DomainError, match="inner graph"):
            pmp.privatize(model, records="i", domain=domain)
    else:
        plan = pmp.calibrate(pmp.privatize(model, records="i", domain=domain), epsilon=1)
        release = pmp.sample(plan, random_seed=1, progressbar=False)
        assert release.facts["withheld"] == ["more"]


def small(mean) -> pm.Model:
    """Records y with a mean made of one parameter and a private x."""
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.zeros(N), dims="i")
        t = pm.Uniform("t", 1.2, 1.9)
        pm.Normal("y", mean(t, x), 1.0, observed=np.zeros(N), dims="i")
    return model


SMALL = {"x": {0, 1}, "y": pmp.Interval(-1, 1)}


def test_a_plain_shared_array_is_not_silently_public():
    hidden_data = pytensor.shared(np.linspace(0.0, 1.0, N))
    model = small(lambda t, x: t * hidden_data)
    with pytest.raises(pmp.errors.DomainError, match="no data variable"):
        pmp.privatize(model, records="i", domain=SMALL)
    private = pmp.privatize(
        small(lambda t, x: t * x * hidden_data), records="i", domain=SMALL, constants="public"
    )
    assert any("shared array" in claim for claim in private.claims)


def test_what_a_deterministic_reads_of_plain_shared_arrays_stays():
    hidden_data = pytensor.shared(np.linspace(0.0, 1.0, 3))
    model = small(lambda t, x: t * x)
    with model:
        pm.Deterministic("shared", model["t"] * hidden_data)
        pm.Deterministic("part", model["t"] * pt.as_tensor(np.array([0.25, 0.5])))
        pm.Deterministic("list", pt.stack([model["t"] * v for v in range(N)]))
        pm.Deterministic("whole", model["t"] * np.array([1, 0, 1]))
        pm.Deterministic("power", model["t"] ** pt.as_tensor(np.array([3, 1], "int8")))
        pm.Deterministic("public", pt.stack([model["t"], model["t"] ** 2])[[1, 0]])
        pm.Deterministic("again", pt.stack([model["t"]] * 4).reshape((2, 2)))
    plan = pmp.calibrate(pmp.privatize(model, records="i", domain=SMALL), epsilon=1)
    release = pmp.sample(plan, random_seed=1, progressbar=False)
    assert sorted(release.facts["withheld"]) == ["list", "part", "power", "shared", "whole"]
    assert {"public", "again"} <= set(release.posterior)


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    "mean",
    [
        lambda t, x: t * x[pt.eq(x, 0)].shape[0],
        lambda t, x: t * x * pt.arange(pt.cast(x.sum(), "int64") + 1).shape[0],
        lambda t, x: t * x * pt.unique(x).shape[0],
        lambda t, x: t * x * pt.zeros(1 + pt.cast(x.sum(), "int64")).shape[0],
        lambda t, x: pt.concatenate([x[pt.eq(x, 0)], pt.arange(40.0)])[:N] * t,
        lambda t, x: pt.concatenate([pt.zeros(pt.cast(pt.floor(t), "int64")), x])[:N],
        lambda t, x: pt.repeat(x, 1 + pt.cast(pt.floor(t), "int64"))[:N],
        lambda t, x: x.reshape((1 + pt.cast(pt.floor(t), "int64"), -1)).T.ravel()[:N] + 0 * x,
        lambda t, x: t * x * x[: pt.cast(x.sum(), "int64")].shape[0],
    ],
    ids=["mask", "range", "unique", "zeros", "join", "shift", "repeat", "reshape", "slice"],
)
def test_no_size_may_depend_on_a_record_or_a_parameter(mean):
    with pytest.raises(pmp.errors.NotCertified, match=r"size of a part|several records"):
        pmp.privatize(small(mean), records="i", domain=SMALL)


def test_sizes_that_are_public_are_no_hindrance():
    def mean(t, x):
        return t * x[: x.shape[0]] + pt.zeros(x.shape[0]) + pt.repeat(x[:, None], 2, 1)[:, 0]

    assert pmp.certify(pmp.privatize(small(mean), records="i", domain=SMALL)).range > 0


def test_a_condition_that_joins_records_is_refused():
    def joint(t, x):
        limit = pt.switch(pt.eq(x.sum(), N // 2), 1.3, 1.95)
        return check_parameters(t * x, t < limit)

    with pytest.raises(pmp.errors.NotCertified, match="condition"):
        pmp.privatize(small(joint), records="i", domain=SMALL)
    each = small(lambda t, x: check_parameters(t * x, x < 2, t < 1.95))
    assert pmp.certify(pmp.privatize(each, records="i", domain=SMALL)).range > 0


def test_domains_that_print_alike_are_told_apart():
    width = np.ones(1500)
    found = []
    for last in (1.0, 9.0):
        width[700] = last
        with pm.Model(coords={"i": range(N)}) as model:
            X = pm.Data("X", np.zeros((N, 1500)), dims=("i", "column"))
            b = pm.Uniform("b", 0, 1)
            pm.Bernoulli("y", logit_p=b * X.sum(axis=1), observed=np.zeros(N, int), dims="i")
        domain = {"X": pmp.Interval(0, width.copy())}
        found.append(pmp.privatize(model, records="i", domain=domain))
    narrow, wide = found
    assert not pmp.certify(narrow).covers(wide)


def test_several_potentials_may_read_different_things():
    model = small(lambda t, x: t * x)
    with model:
        pm.Potential("reads", model["y"] * model["t"] * model["x"])
        pm.Potential("plain", -abs(model["t"] - model["x"]))
    private = pmp.privatize(model, records="i", domain=SMALL)
    assert set(private.graph.factors) == {"y", "reads", "plain"}


def test_a_bound_that_a_search_contradicts_is_not_printed(monkeypatch):
    true = range_bound.maximize

    def too_much_found(*arguments, **keywords):
        return dataclasses.replace(true(*arguments, **keywords), lower=1e6)

    monkeypatch.setattr(range_bound, "maximize", too_much_found)
    with pytest.raises(pmp.errors.NotCertified, match="contradicts"):
        pmp.certify(pmp.privatize(small(lambda t, x: t * x), records="i", domain=SMALL))
