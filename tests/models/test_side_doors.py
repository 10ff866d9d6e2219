"""Ways around the certificate that once were open."""

from __future__ import annotations

import dataclasses

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

import pymc_private as pmp

N = 5


def baked(values, mean) -> pm.Model:
    """A model whose predictor was baked in as a constant."""
    with pm.Model(coords={"i": range(N)}) as model:
        slope = pm.Uniform("slope", -1, 1)
        baked_in = pt.as_tensor(np.asarray(values, float))
        pm.Normal("y", mean(slope, baked_in), 1.0, observed=np.zeros(N), dims="i")
    return model


DOMAIN = {"constant_0": pmp.Interval(0, 100), "y": pmp.Interval(-1, 1)}


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
    with pytest.raises(pmp.NotCertified):
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


def test_integers_that_wrap_around_are_not_certified():
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.full(N, 128, dtype="uint8"), dims="i")
        p = pm.Uniform("p", 0, 1)
        pm.Bernoulli("y", logit_p=p * (x + x), observed=np.ones(N, int), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": {127, 128}})
    with pytest.raises(pmp.NotCertified):
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
    with pytest.raises(pmp.Incompatible, match="belong together"):
        dataclasses.replace(plan, draws=200)


def test_a_plan_cannot_draw_from_another_model_for_the_old_price(plan):
    wider = pmp.temper(plan.private.with_region({}), 1)
    with pytest.raises(pmp.Incompatible, match="belong together"):
        dataclasses.replace(plan, private=wider.with_power(1))


def test_a_plan_is_the_same_at_each_run(plan):
    again = pmp.calibrate(plan.private.with_power(1), epsilon=0.5, draws=1)
    assert again.fingerprint == plan.fingerprint


def hidden(values, slope) -> pt.TensorVariable:
    """A product with an array that only an inner graph reads."""
    inside = pt.dscalar()
    return OpFromGraph([inside], [pt.as_tensor(values) * inside])(slope)


@pytest.mark.parametrize("factor", [pm.Potential, pm.Deterministic], ids=["factor", "computed"])
def test_an_array_of_records_inside_an_inner_graph_is_seen(factor):
    values = np.linspace(0.0, 1.0, N)
    model = baked(values, lambda b, c: b)
    with model:
        factor("more", hidden(values, model["slope"]))
    domain = {"y": pmp.Interval(-1, 1)}
    if factor is pm.Potential:
        with pytest.raises(pmp.DomainError, match="inner graph"):
            pmp.privatize(model, records="i", domain=domain)
    else:
        plan = pmp.calibrate(pmp.privatize(model, records="i", domain=domain), epsilon=1)
        release = pmp.sample(plan, random_seed=1, progressbar=False)
        assert release.facts["withheld"] == ["more"]
