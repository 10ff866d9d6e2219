"""The linear form is the log posterior: values and gradients against PyMC's own."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.linear_form import LinearForm
from tests.models.glms import BY_NAME


def form_and_rows(private):
    form = LinearForm(private)
    return form, form.rows(private)


def differences(function, theta, step=1e-6):
    """Central differences of a scalar function."""
    return np.array(
        [
            (function(theta + e) - function(theta - e)) / (2 * step)
            for e in step * np.eye(len(theta))
        ]
    )


@pytest.mark.parametrize("name", ["logistic", "negative binomial", "ordered logistic"])
def test_value_and_gradient_are_those_of_the_model(name):
    private = BY_NAME[name].private()
    form, rows = form_and_rows(private)
    model = private.base
    likelihood = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")
    prior = model.compile_logp(vars=model.free_RVs, mode="FAST_COMPILE")
    a, b = form.design(rows)

    def point(theta):
        return {"b": theta[:2], "a": theta[2]}

    for theta in np.random.default_rng(0).normal(size=(3, 3)):
        u = a @ theta + b
        assert form.log_likelihood(u, rows).sum() == pytest.approx(likelihood(point(theta)))
        gradient = np.einsum("nk,nkd->d", form.slope(u, rows), a)
        close = differences(lambda t: likelihood(point(t)), theta)
        np.testing.assert_allclose(gradient, close, rtol=1e-5, atol=1e-6)
        value, slope = form.log_prior(theta)
        origin, _ = form.log_prior(np.zeros(3))
        assert value - origin == pytest.approx(prior(point(theta)) - prior(point(np.zeros(3))))
        np.testing.assert_allclose(slope, differences(lambda t: prior(point(t)), theta), atol=1e-6)


def test_groups_softmax_and_public_rows_have_a_design():
    rng = np.random.default_rng(1)
    n, group = 17, rng.integers(0, 3, 17)
    with pm.Model(coords={"i": range(n)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, n), dims="i")
        g = pm.Data("g", group, dims="i")
        score = pm.Normal("a", 0, 1, shape=(3, 2))[g] + x[:, None] * pm.Normal("b", 0, 1, shape=2)
        pm.Categorical("y", logit_p=score, observed=rng.integers(0, 2, n), dims="i")
    private = pmp.privatize(model, records="i", domain={"g": range(3)}, public=["x"])
    form, rows = form_and_rows(private)
    a, b = form.design(rows)
    assert a.shape == (n, 2, 8)
    np.testing.assert_allclose(b, 0.0)
    np.testing.assert_allclose(a[:, 0, 6], np.linspace(-1, 1, n))
    np.testing.assert_allclose(a[:, 0, :6:2], np.eye(3)[group])
