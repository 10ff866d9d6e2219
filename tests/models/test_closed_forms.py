"""What stands for a graph in closed form is the graph: casts, densities, what else bears on it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.certificates.conjugate import conjugate_pair, recognize_conjugate
from pymc_private.certificates.lipschitz.tail import lipschitz_tail
from pymc_private.errors import PymcPrivateError
from pymc_private.models.distributions import distribution_class, observes_unchanged
from pymc_private.samplers.proximal_target import make_posterior

COINS = np.array([0, 1, 1, 0, 1, 0])


def declared(build, y, domain, box=None, **words):
    with pm.Model(coords={"r": range(len(y))}) as model:
        build(pm.Data("Y", y, dims="r"))
    private = pmp.privatize(model, records="r", domain={"Y": domain, **words})
    return private if box is None else pmp.trim(private, box=box)


def bernoulli_regression(y):
    z = pm.Data("Z", np.linspace(-1, 1, y.get_value().shape[0]), dims="r")
    pm.Bernoulli("y", logit_p=pm.Normal("b", 0, 1) + pm.Normal("c", 0, 1) * z, observed=y)


def poisson(y):
    pm.Poisson("y", pt.exp(pm.Normal("b", 0, 1)), observed=y)


def normal_of(kind):
    def build(y):
        observed = y if kind is None else pt.cast(y, kind)
        pm.Normal("y", pm.Normal("b", 0, 1), 1, observed=observed)

    return build


def slope_by_graph(private, at):
    """d/db of the model's own log-likelihood."""
    model = private.base
    value = model.rvs_to_values[model["b"]]
    logp = pm.logp(model["y"], model.rvs_to_values[model["y"]]).sum()
    graph = pytensor.graph.replace.graph_replace([logp], {model["b"]: value}, strict=False)[0]
    slope = pytensor.function([value], pytensor.grad(graph, value), on_unused_input="ignore")
    return float(slope(at))


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("build", "top", "box"),
    [
        (poisson, 1.9, {"b": (-2, 2)}),
        (normal_of("int8"), 1.9, {"b": (-2, 2)}),
        (normal_of("bool"), 1.9, {"b": (-2, 2)}),
        (normal_of(None), 1.9, {"b": (-2, 2)}),
    ],
)
def test_a_cast_of_the_outcomes_is_drawn_as_it_is_certified(build, top, box):
    private = declared(build, np.full(4, top), pmp.Interval(0, top), box)
    structure, white = make_posterior(private)
    for z in (-0.3, 0.8):
        u = structure.rows * z + structure.offset[:, None]
        found = float((structure.curve.slope(u) * structure.rows).sum())
        b = float((white.center + white.matrix @ np.array([z]))[0])
        scale = float(white.matrix[0, 0])
        assert found == pytest.approx(slope_by_graph(private, b) * scale, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "is_closed"), [("int8", False), ("bool", False), (None, True), ("float64", True)]
)
def test_a_conjugate_model_observes_the_records_themselves(kind, is_closed):
    private = declared(normal_of(kind), np.full(4, 0.9), pmp.Interval(0, 0.95), {"b": (-3, 3)})
    assert (recognize_conjugate(private) is not None) is is_closed


def test_whole_numbers_in_floats_are_taken_as_they_are():
    y = COINS.astype(float)
    private = declared(bernoulli_regression, y, pmp.Categories([0, 1]), Z=(-1, 1))
    structure, _ = make_posterior(private)
    assert type(structure.curve).__name__ == "LogisticCurve"
    fractions = declared(bernoulli_regression, 0.9 * y, pmp.Interval(0, 0.9), Z=(-1, 1))
    assert type(make_posterior(fractions)[0].curve).__name__ == "GeneralCurve"


@pytest.mark.parametrize(
    ("old", "new", "domain", "kept"),
    [
        ("float64", "int64", pmp.Categories([0, 1]), True),
        ("float64", "int64", pmp.Interval(0, 1), False),
        ("float64", "bool", pmp.Categories([0, 1]), True),
        ("int64", "bool", pmp.Interval(0, 1), True),
        ("int64", "bool", pmp.Interval(0, 2), False),
        ("int64", "int8", pmp.Interval(0, 127), True),
        ("int64", "int8", pmp.Interval(0, 128), False),
        ("int64", "uint8", pmp.Interval(-1, 5), False),
        ("int64", "float64", pmp.Interval(0, 2**53), True),
        ("int64", "float64", pmp.Interval(0, 2**54), False),
        ("float64", "float32", pmp.Interval(0, 1), False),
        ("float64", "float32", pmp.Categories([0, 1]), True),
        ("float32", "float64", pmp.Interval(0, 1), True),
        ("int64", "float32", pmp.Interval(0, 2**25), False),
    ],
)
def test_casts_that_change_no_number(old, new, domain, kept):
    records = pt.vector("records", dtype=old)
    assert observes_unchanged(pt.cast(records, new), records, domain, ()) is kept
    assert observes_unchanged(records, records, domain, ())
    assert not observes_unchanged(pt.cast(records + 1, new), records, domain, ())


def beta_bernoulli(y, domain=None, **words):
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=y)
    words |= {} if domain is None else {"domain": {"y": domain}}
    return pmp.privatize(model, records={"y": 0}, **words)


def test_several_coins_of_a_record_move_the_posterior_by_as_many():
    assert conjugate_pair(beta_bernoulli(COINS)).shift == 1
    assert conjugate_pair(beta_bernoulli(COINS.reshape(3, 2))).shift == 2
    several = beta_bernoulli(COINS.reshape(3, 2), neighbors="add_remove")
    assert conjugate_pair(several) is None
    assert conjugate_pair(beta_bernoulli(COINS, neighbors="add_remove")).family == "cells"


def test_outcomes_outside_the_support_have_no_pair():
    assert conjugate_pair(beta_bernoulli(COINS, pmp.Interval(0, 3))) is None


def test_what_is_counted_as_the_second_cell_is_the_outcome():
    private = beta_bernoulli(COINS[:5])  # three ones, two zeros
    plan = pmp.calibrate(private, epsilon=50, delta=0.5, draws=60)
    power = float(plan.private.power)
    drawn = pmp.sample(plan, random_seed=1, progressbar=False).posterior["p"].values
    assert drawn.mean() == pytest.approx((2 + 3 * power) / (4 + 5 * power), abs=0.06)


# ---- lemmas -----------------------------------------------------------------------------------
def with_public_data():
    p = pm.Beta("p", 5, 5)
    pm.Normal("public", pt.log(p), 6.0, observed=-600.0)
    pm.Bernoulli("y", p, observed=COINS, dims="r")


def with_a_child():
    p = pm.Beta("p", 5, 5)
    pm.Normal("z", 20 * pm.math.logit(p), 0.1)
    pm.Bernoulli("y", p, observed=COINS, dims="r")


def alone():
    pm.Bernoulli("y", pm.Beta("p", 5, 5), observed=COINS, dims="r")


def tail_of(build, trim=None):
    with pm.Model(coords={"r": range(len(COINS))}) as model:
        build()
    public = [rv.name for rv in model.observed_RVs if rv.name != "y"]
    private = pmp.privatize(model, records="r", public=public)
    return lipschitz_tail(private if trim is None else pmp.trim(private, box=trim), draws=20)


def test_a_tail_is_proved_of_a_prior_that_nothing_else_bears_on():
    assert tail_of(alone).is_proved
    assert not tail_of(with_public_data).is_proved
    assert not tail_of(with_a_child).is_proved
    assert not tail_of(with_a_child, {"z": (-400, 400)}).is_proved


# ---- densities --------------------------------------------------------------------------------
def test_a_density_registered_for_one_of_pymcs_is_seen():
    from pymc.logprob.abstract import _logprob

    op = type(pm.Bernoulli.dist(0.5).owner.op)
    before = _logprob.dispatch(op)
    assert distribution_class(pm.Bernoulli.dist(0.5)) == "BernoulliRV"
    try:

        class SoftBernoulli(pm.Bernoulli):
            rv_op = pm.Bernoulli.rv_op

            def logp(value, p):  # noqa: N805
                return 0.01 * pt.switch(value, pt.log(p), pt.log1p(-p))

        assert distribution_class(SoftBernoulli.dist(0.5)) != "BernoulliRV"
        private = pmp.trim(beta_bernoulli(COINS, pmp.Categories([0, 1])), box={"p": (0.01, 0.99)})
        with pytest.raises(PymcPrivateError):
            pmp.samplers.Conjugate().check(private)
    finally:
        _logprob.register(op, before)
    assert distribution_class(pm.Bernoulli.dist(0.5)) == "BernoulliRV"


# ---- lemmas are of what is observed -----------------------------------------------------------
def in_exponential(observed, domain):
    with pm.Model(coords={"r": range(4)}) as model:
        y = pm.Data("Y", np.array([0.9, 0.5, 0.8, 0.7]), dims="r")
        pm.Exponential("y", lam=pm.Exponential("t", 1.0), observed=observed(y))
    private = pmp.privatize(model, records="r", domain={"Y": domain})
    return pmp.trim(private, box={"t": (0.5, 2.0)})


def coins_in(observed, domain):
    with pm.Model(coords={"r": range(6)}) as model:
        y = pm.Data("Y", COINS, dims="r")
        pm.Bernoulli("y", pm.Beta("t", 2, 2), observed=observed(y))
    return pmp.privatize(model, records="r", domain={"Y": domain})


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("build", "observed", "domain", "proved"),
    [
        (in_exponential, lambda y: y, pmp.Interval(0, 1), True),
        (in_exponential, lambda y: y**-1.0, pmp.Interval(0, 1), False),
        (in_exponential, lambda y: y + 100, pmp.Interval(0, 1), False),
        (coins_in, lambda y: y, pmp.Categories([0, 1]), True),
        (coins_in, lambda y: y, pmp.Interval(0, 5), False),
        (coins_in, lambda y: 2 * y, pmp.Categories([0, 1]), False),
    ],
)
def test_a_lemma_is_of_records_that_its_likelihood_observes(build, observed, domain, proved):
    assert lipschitz_tail(build(observed, domain), draws=20).is_proved is proved


def test_records_are_not_simulated_through_a_function():
    from pymc_private.errors import Unsupported
    from pymc_private.models.prior import _observed_sources

    with pm.Model(coords={"r": range(4)}) as model:
        y = pm.Data("Y", np.full(4, 10.0), dims="r")
        pm.Normal("y", pm.Normal("b", 0, 1), 1, observed=pt.log(y))
    private = pmp.privatize(model, records="r", domain={"Y": (1, 1000)})
    with pytest.raises(Unsupported, match="through a function"):
        _observed_sources(private)
