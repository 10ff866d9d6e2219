"""Alternative models of hierarchies: one number more, or effects of groups and their spread."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.criticism import extended_model, log_bayes_factor
from pymc_private.criticism.check_result import Check, VarianceTest
from pymc_private.criticism.extended_model import fit_of
from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.summaries.scores.read_parameters import natural_at
from tests.criticism.test_group_slopes import (
    BUDGET,
    EFFECTS,
    GROUPS,
    ROWS,
    SLOPES,
    SPREAD,
    N,
    outcomes,
)

TRUE_SLOPES = 0.5 + SPREAD * (SLOPES - SLOPES.mean())


def curved(eta, x, g, slope):
    return eta + slope * x + pm.Normal("curve") * x**2


def centered(eta, x, g, slope):
    return eta + pm.Normal("b", slope, pm.HalfNormal("spread"), dims="group")[g] * x


def around_zero(eta, x, g, slope):
    return eta + (slope + pm.Normal("b", 0, pm.HalfNormal("spread"), dims="group")[g]) * x


def standardized(eta, x, g, slope):
    return eta + (slope + pm.HalfNormal("spread") * pm.Normal("z", dims="group")[g]) * x


def twice(eta, x, g, slope):
    return curved(centered(eta, x, g, slope), x, g, 0.0)


def of_pairs(eta, x, g, slope):
    return eta + (slope + pm.HalfNormal("spread") * pm.Normal("z", dims="group")[g % 2]) * x


def heavy_tailed(eta, x, g, slope):
    return eta + (slope + pm.HalfNormal("spread") * pm.StudentT("z", 5, dims="group")[g]) * x


def of_sizes(eta, x, g, slope):
    z = pm.Normal("z", dims="group")
    return eta + (slope + pm.HalfNormal("spread") * pm.math.abs(z)[g]) * x


def of_ones(eta, x, g, slope):
    z = pm.Normal("z", dims="group")
    return eta + (slope + pm.HalfNormal("spread") * z[g]) * x + 2.0 * (z[g] - 1.0)


def read_twice(eta, x, g, slope):
    spread = pm.HalfNormal("spread")
    return eta + (slope + pm.Normal("b", 0, spread, dims="group")[g]) * x + spread * x**2


def never_zero(eta, x, g, slope):
    return eta + pm.Normal("b", slope, pm.Uniform("spread", 0.5, 0.8), dims="group")[g] * x


def never_equal(eta, x, g, slope):
    return eta + slope * x + pm.Uniform("curve", 1, 2) * x**2


def upwards(eta, x, g, slope):
    return eta + slope * x + pm.HalfNormal("curve") * x**2


def bound_to_slope(eta, x, g, slope):
    return eta + slope * x + pm.Normal("curve", 5 * slope, 0.1) * x**2


def cubic(eta, x, g, slope):
    return eta + slope * x + 50.0 * pm.Normal("curve") * x**3


def model_of(y, linear=None, offset=True, trend=False):
    with pm.Model(coords={"row": range(N), "group": range(GROUPS)}) as model:
        sd, mean = pm.LogNormal("sd", -0.7, 0.5), pm.Normal("mean")
        if trend:
            level = pm.Data("level", np.linspace(-1, 1, GROUPS), dims="group")
            mean = mean + pm.Normal("trend") * level
        if offset:
            effect = mean + sd * pm.Normal("effect", dims="group")
        else:
            effect = pm.Normal("effect", mean, sd, dims="group")
        g, x = (pm.Data(name, ROWS[name], dims="row") for name in "gx")
        slope = pm.Normal("slope")
        eta = effect[g] + slope * x if linear is None else linear(effect[g], x, g, slope)
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="row")
    return model


@cache
def summary_of(offset=True):
    private = pmp.privatize(
        model_of(outcomes(SPREAD), offset=offset), records="row",
        public=["g"] if offset else [],
        domain={"x": (-1, 1)} | ({} if offset else {"g": pmp.Categories(range(GROUPS))}),
    )  # fmt: skip
    plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    return pmp.summarize(plan, random_seed=1, progressbar=False)


def plan_of(linear, offset=True, **words):
    nothing = np.zeros(N, int)
    return pmp.check_plan(summary_of(offset), model_of(nothing, linear, offset, **words), **BUDGET)


@cache
def checked(linear, offset=True):
    plan = plan_of(linear, offset)
    return plan, pmp.check(plan, random_seed=2)


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("linear", "offset", "named"),
    [
        (curved, True, "quadratic(x)"),
        (centered, False, "slopes(x, g)"),
        (around_zero, True, "slopes(x, g)"),
        (standardized, True, "slopes(x, g)"),
    ],
)
def test_the_score_of_a_model_is_that_of_the_departure_it_stands_for(linear, offset, named):
    (found,) = checked(linear, offset)[1].tests
    plan = pmp.check_plan(summary_of(offset), named, **BUDGET)
    (wanted,) = pmp.check(plan, random_seed=2).tests
    assert found.name == ("curve" if linear is curved else "spread")
    for number in ("statistic", "bound", "null_mean", "null_sd", "sensitivity"):
        assert getattr(found, number) == pytest.approx(getattr(wanted, number), rel=1e-7, abs=1e-9)
    assert isinstance(found, VarianceTest) is (linear is not curved)


def test_coefficients_of_records_are_those_of_the_parameters_that_are_found():
    plan, _ = checked(curved)
    direction = plan.parts[0].statistic.direction
    read, theta = direction.parameters, plan.parts[0].statistic.theta
    whole = read.whole_at(theta)
    assert len(whole) == len(theta) + 2  # mean and sd are read through the effects alone
    np.testing.assert_allclose(read.of(whole[None])[0], theta, rtol=1e-9, atol=1e-9)
    natural = natural_at(read, theta)
    assert set(natural) == {"sd", "mean", "effect", "slope"}
    with pytest.raises(Unsupported, match="no parameters of the model"):
        read.whole_at(np.full(len(theta), np.nan))


def at_the_truth(fit, linear, shift):
    """The log-likelihood where the slope of each group is off by `shift` (S, G)."""
    slopes = TRUE_SLOPES + shift
    ones = np.ones(len(slopes))
    natural = {"sd": 0.5 * ones, "mean": 0.0 * ones, "slope": 0.5 * ones, "spread": ones}
    if linear is centered:
        natural |= {"effect": 0.5 * EFFECTS + 0.0 * shift, "b": slopes}
    else:
        natural |= {"effect": EFFECTS + 0.0 * shift, "z": slopes - 0.5}
    return fit.log_likelihood()(fit.parameters.unconstrained(natural))


@pytest.mark.audit
@pytest.mark.parametrize("linear", [centered, standardized])
def test_slopes_of_groups_are_fitted_to_the_sums_that_were_bought(linear):
    plan, result = checked(linear, linear is standardized)
    (test,), part = result.tests, plan.parts[0]
    assert Check.from_bytes(result.to_bytes())[test.name].sums == test.sums
    assert len(test.sums) == GROUPS
    pieces = plan.mechanism, plan.summary_released.released, part, np.array(test.sums)
    shifts = 1.5 * np.concatenate([np.zeros((1, GROUPS)), np.eye(GROUPS), -np.eye(GROUPS)])
    lost = []
    for seen in (True, False):
        found = at_the_truth(fit_of(*pieces, seen=seen), linear, shifts)
        lost.append(found[0] - found[1:])
    assert lost[0].min() > 1.0  # a slope that is off in one group alone
    assert (lost[0] > lost[1]).all()
    assert np.median(lost[1]) < 2.0  # and the summary alone does not see which one it is
    assert log_bayes_factor(plan, result) > 20.0
    model = extended_model(plan, result)  # its likelihood was compared with the NumPy one
    assert model.observed_RVs == []


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        ({"linear": twice}, Incompatible, "effects of groups and their standard deviation"),
        ({"linear": of_pairs}, Unsupported, "by no label"),
        ({"linear": heavy_tailed}, Incompatible, "one scalar parameter, or pm.Normal"),
        ({"linear": of_sizes}, Incompatible, "sd \\* z with z"),
        ({"linear": of_ones}, Incompatible, "sd \\* z with z|does not contain"),
        ({"linear": read_twice}, Incompatible, "reads effects or their standard deviation"),
        ({"linear": never_zero}, Incompatible, "prior of spread that excludes 0"),
        ({"linear": never_equal}, Incompatible, "prior of curve that excludes 0"),
        ({"linear": None, "trend": True}, Unsupported, "summary.reuse"),
    ],
)
def test_what_is_no_departure_of_records_is_refused(words, error, match):
    with pytest.raises(error, match=match):
        plan_of(**words)


@pytest.mark.audit
def test_a_parameter_whose_prior_ends_at_the_fitted_model_is_fitted_too():
    plan, result = checked(upwards)
    _, other = checked(curved)
    assert result["curve"].z == pytest.approx(other["curve"].z)
    assert -2.5 < log_bayes_factor(plan, result) < 0.0  # nothing is curved
    model = extended_model(plan, result)
    assert "curve" in {rv.name for rv in model.free_RVs}


@pytest.mark.audit
def test_odds_are_of_models_with_one_prior_and_of_the_check_that_was_planned():
    plan, result = checked(bound_to_slope)
    with pytest.raises(Incompatible, match="one prior of the parameters"):
        log_bayes_factor(plan, result)
    with pytest.raises(DomainError, match="not the check of the plan"):
        log_bayes_factor(plan_of(cubic), checked(curved)[1])
    with pytest.raises(DomainError, match="at="):
        pmp.check_plan(
            summary_of(), model_of(np.zeros(N, int), centered), at={"spread": -3.0}, **BUDGET
        )


@pytest.mark.audit
def test_another_distribution_of_effects_is_fitted_without_a_check():
    other = pmp.privatize(
        model_of(np.zeros(N, int), offset=False, trend=True), records="row", public=["level"],
        domain={"x": (-1, 1), "g": pmp.Categories(range(GROUPS))},
    )  # fmt: skip
    model = summary_of(offset=False).reuse(other)
    assert "trend" in {rv.name for rv in model.free_RVs}


@pytest.mark.audit
def test_a_formula_with_slopes_of_groups_is_an_alternative():
    bmb = pytest.importorskip("bambi")
    rng, words = np.random.default_rng(0), {"family": "bernoulli", "center_predictors": False}
    rows = pd.DataFrame({"x": ROWS["x"], "g": pd.Categorical(ROWS["g"])})
    rows["y"] = outcomes(SPREAD)
    private = pmp.privatize(
        bmb.Model("y ~ x + (1|g)", rows, **words), records="__obs__", domain={"x": (-1, 1)},
        public=["g"],
    )  # fmt: skip
    plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    summary = pmp.summarize(plan, random_seed=1, progressbar=False)
    other = bmb.Model("y ~ x + (x|g)", rows.assign(y=rng.integers(0, 2, N)), **words)
    plan = pmp.check_plan(summary, [other, "slopes(x, g)"], **BUDGET)
    assert [test.name for test in plan.tests] == ["x|g_sigma", "slopes(x, g)"]
    first, second = plan.parts
    assert first.forecast.law.weights == pytest.approx(second.forecast.law.weights)
