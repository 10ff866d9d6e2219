"""Factors of which a part reads no record: it belongs to the prior, wherever it is read."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp

NEIGHBORS = ("substitute", "add_remove")


def with_a_public_part(neighbors):
    """A potential sum(t x) - 3 t^2: the second term reads no record."""
    with pm.Model() as model:
        x = pm.Data("x", np.array([-1.0, 0.5, 1.0]))
        t = pm.Uniform("t", -1, 1)
        pm.Potential("p", (t * x).sum() - 3 * t**2)
    given = {"records": {"x": 0}, "domain": {"x": (-1, 1)}, "constants": "public"}
    return pmp.privatize(model, neighbors=neighbors, **given)


def log_density(model, t):
    """Of the model's factors, in natural units, but for a constant."""
    logp = model.compile_logp(jacobian=False)
    (name,) = model.initial_point()
    rv = model.rvs_to_transforms[model["t"]]
    value = t if rv is None else rv.forward(t, *model["t"].owner.inputs).eval()
    return float(logp({name: np.asarray(value)}))


@pytest.mark.thin(4)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("clipped", [False, True])
def test_a_power_tempers_what_records_say_and_nothing_else(neighbors, clipped):
    private = with_a_public_part(neighbors)
    if clipped:  # so wide that it clips nothing
        private = pmp.clip(private, -5, 5)
    tempered = pmp.temper(private, 0.25).model
    at = np.array([-0.7, 0.0, 0.4])
    found = np.array([log_density(tempered, t) for t in at])
    truth = 0.25 * 0.5 * at - 3 * at**2
    assert found - found[1] == pytest.approx(truth - truth[1], abs=1e-9)
    # Tempering all of the factor would give another law.
    assert found - found[1] != pytest.approx(0.25 * (0.5 * at - 3 * at**2), abs=1e-3)


@pytest.mark.thin(4)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("trimmed", [True, False])
@pytest.mark.parametrize("kind", [pm.Normal, pm.Censored])
def test_a_clipped_model_that_observes_data_is_a_model(kind, trimmed, named):
    with pm.Model(coords={"person": range(3)}) as model:
        y = np.array([-1.0, 0.5, 1.0])
        y = pm.Data("y_data", y, dims="person") if named else y
        t = pm.Normal("t")
        if kind is pm.Normal:
            pm.Normal("y", t, 1.0, observed=y, dims="person")
        else:
            pm.Censored("y", pm.Normal.dist(t, 1.0), -1, 1, observed=y, dims="person")
    private = pmp.privatize(model, records="person", domain={"y": (-1, 1)})
    private = pmp.trim(private, box={"t": (0.25, 2)}) if trimmed else private
    made = pmp.temper(pmp.clip(private, -8, 2), 0.5).model
    assert np.isfinite(made.compile_logp()(made.initial_point()))
    assert not made.observed_RVs


@pytest.mark.parametrize("name", ["region", "likelihood_power", "private_likelihood"])
def test_a_variable_may_have_any_name(name):
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(5))
        t = pm.Normal(name)
        pm.Potential("p", x * t - pt.softplus(t) * x)
    private = pmp.privatize(model, records={"x": 0}, domain={"x": (-1, 1)})
    trimmed = pmp.temper(pmp.trim(private, box={name: (-1, 1)}), 0.5)
    assert name in trimmed.model.named_vars
    assert name in pmp.clip(trimmed, -1, 1).model.named_vars


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_draws_of_the_prior_know_that_it_is_more_than_its_distributions(neighbors):
    with pytest.raises(pmp.errors.Unsupported, match="part of the prior"):
        _ = pmp.trim(with_a_public_part(neighbors), box={"t": (0, 0.5)}).prior_mass


def test_one_array_observed_twice_has_no_density():
    with pm.Model() as model:
        z = pm.Data("z", np.zeros(3))
        pm.Normal("k", pm.Normal("a"), 1, observed=z)
        pm.Normal("l", pm.Normal("b"), 1, observed=z)
    with pytest.raises(pmp.errors.Unsupported, match="one and the same array"):
        pmp.privatize(model, records={"z": 0}, domain={"z": (-1, 1)})


def of_constant(f, n=5, **keywords):
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(n))
        pm.Potential("p", f(x, pm.Uniform("t", -1, 1), n))
    return pmp.privatize(model, records={"x": 0}, domain={"x": (-1, 1)}, **keywords)


def test_a_constant_as_long_as_the_records_can_be_named_public():
    def slopes(x, t, n):
        return t * np.arange(n) * x

    with pytest.raises(pmp.errors.DomainError, match=r"by its length alone.*public=\[.constant_0."):
        of_constant(slopes)
    found = of_constant(slopes, public=["constant_0"])
    assert found.claims == ("the constant 'constant_0' baked into the model is public",)
    assert pmp.certify(found).range == pytest.approx(16, rel=1e-6)
    with pytest.raises(pmp.errors.DomainError, match="constant_1"):
        of_constant(slopes, public=["constant_1"])
    with pytest.raises(pmp.errors.Unsupported, match="counts them"):
        of_constant(slopes, public=["constant_0"], neighbors="add_remove")


def test_indicators_are_counted_in_joined_and_negative_sums():
    joined = of_constant(lambda x, t, n: pt.concatenate([x > 0, x < 0]).sum() * t)
    assert pmp.certify(joined).range >= 2
    negative = of_constant(lambda x, t, n: (n - (x > 0).sum()) * t)
    assert pmp.certify(negative).range >= 2


def test_a_sum_kept_in_a_byte_wraps_around_and_is_no_sum():
    with pytest.raises(pmp.errors.NotCertified):
        of_constant(lambda x, t, n: t * pt.cast(x, "int8").sum(dtype="int64", acc_dtype="int8"))


def test_an_inner_product_with_ones_is_a_sum():
    found = of_constant(lambda x, t, n: pt.dot(pt.ones(n), x) * t)
    assert pmp.certify(found).range == pytest.approx(4, rel=1e-6)


def test_a_sequence_that_is_all_ends_says_so():
    def steps(x, t, n):
        return (pt.diff(x) * t).sum()

    with pytest.raises(pmp.errors.DomainError, match="too short"):
        of_constant(steps, 2)
    assert pmp.certify(of_constant(steps, 3)).range == pytest.approx(4, rel=1e-6)
