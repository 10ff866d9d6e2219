"""Density, predictors and scores of one record, against PyMC and finite differences."""

import time

import bambi
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from scipy import special

from pymc_private import privatize, temper, trim
from pymc_private.errors import Unsupported
from pymc_private.summaries.density.batched import NumpyProgram
from pymc_private.summaries.density.plain_record import plain_record
from pymc_private.summaries.density.record_density import RecordDensity
from tests.summaries.record_models import MODELS, REALS, N, X, rows_of

QUICK = ("linear regression", "ordinal", "censored weibull", "zero inflated", "groups")
EVERY = [pytest.param(k, marks=() if k in QUICK else pytest.mark.audit) for k in MODELS]
LOOSE = {"censored lognormal": 1e-6, "cloglog": 0.05}
"""PyMC rounds a root to single precision, and loses 1 - p where p is nearly 1."""


def pymc_log_density(private, parameters, theta):
    """PyMC's own log density of each record."""
    base = private.base
    values = parameters.split(theta)
    point = {base.rvs_to_values[rv].name: values[rv.name] for rv in base.free_RVs}
    return base.compile_logp(vars=base.observed_RVs, sum=False, mode="FAST_COMPILE")(point)[0]


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", EVERY)
def test_density_is_that_of_pymc_and_scores_are_its_derivatives(name):
    made = MODELS[name]
    private = made.private()
    density = RecordDensity(private)
    assert density.size == made.predictors
    rows, y = rows_of(density, private)
    rows |= {"outcome": y}  # counts the records, where there are no covariates
    theta = density.parameters.draws(2, 3)
    whole = density.log_density(theta, rows, y)
    own = pymc_log_density(private, density.parameters, theta[0])
    np.testing.assert_allclose(whole[0, :, 0], own, rtol=LOOSE.get(name, 1e-9), atol=1e-9)

    predictors = density.predictors(theta[0], rows)
    jacobian = density.jacobian(theta[0], rows)
    scores = density.scores(predictors, rows, y)
    assert jacobian.shape == (N, density.size, density.parameters.size)
    at = density.log_density_at(predictors, rows, y)
    np.testing.assert_allclose(at[:, 0], whole[0, :, 0], rtol=1e-12, atol=1e-12)
    steps = 1e-5 * np.eye(density.parameters.size)
    up, down = (density.log_density(theta[0] + s * steps, rows, y)[..., 0] for s in (1, -1))
    chained = np.einsum("nm,nmp->pn", scores[:, 0], jacobian)
    np.testing.assert_allclose(chained, (up - down) / 2e-5, rtol=1e-5, atol=1e-5)

    natural = density.parameters.natural(theta)
    inputs = {k: pt.TensorType("float64", shape=v.shape[1:])(k) for k, v in natural.items()}
    graph = density.symbolic_log_density(inputs, rows, y)
    found = NumpyProgram(list(inputs.values()), [graph])(*(v[1] for v in natural.values()))[0]
    np.testing.assert_allclose(found, whole[1], rtol=1e-9, atol=1e-9)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["linear regression", "logistic", "censored weibull"])
def test_far_values_give_numbers_or_nan(name):
    density = RecordDensity(MODELS[name].private())
    rows, y = rows_of(density, None)
    for far in (-1000.0, 1000.0):
        predictors = np.full((N, density.size), far)
        scores = density.scores(predictors, rows, y)
        assert scores.shape == (N, 1, density.size)
        density.log_density_at(predictors, rows, y)
        density.jacobian(np.full(density.parameters.size, far), rows)
    if name in ("logistic", "linear regression"):
        assert np.isfinite(scores).all()
    strange = np.full((N, 1), np.nan)
    assert density.scores(np.zeros((N, density.size)), rows, strange).shape == scores.shape


def test_a_formula_of_bambi_has_two_predictors():
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": REALS})
    made = bambi.Model("y ~ x + z", table, center_predictors=False)
    domain = {"x": (-1, 1), "z": (-1, 1), "y": (-5, 5)}
    private = privatize(made, records="__obs__", domain=domain)
    density = RecordDensity(private)
    assert density.size == 2
    rows, y = rows_of(density, private)
    theta = density.parameters.draws(1, 0)
    own = pymc_log_density(private, density.parameters, theta[0])
    np.testing.assert_allclose(density.log_density(theta, rows, y)[0, :, 0], own, rtol=1e-9)


def test_a_trimmed_model_has_the_coordinates_of_its_region():
    private = trim(MODELS["linear regression"].private(), box={"a": (-2, 2), "s": (0.1, 5)})
    density = RecordDensity(private)
    rows, _ = rows_of(density, private)
    theta = density.parameters.draws(1, 0)
    natural = density.parameters.natural(theta)
    assert -2 < natural["a"][0] < 2
    mean = natural["a"][0] + rows["X"] @ natural["b"][0]
    predictors = density.predictors(theta[0], rows)
    assert density.size == 2
    assert np.isclose(predictors, mean[:, None]).all(axis=0).any()


@pytest.mark.audit
def test_a_large_table_takes_milliseconds():
    density = RecordDensity(MODELS["linear regression"].private())
    rows = {"X": np.random.default_rng(0).uniform(-1, 1, (10_000, 3))}
    theta, y = density.parameters.mean, np.linspace(-3, 3, 49) + np.zeros((10_000, 1))
    seconds = []
    for _ in range(4):
        start = time.process_time()
        predictors = density.predictors(theta, rows)
        density.jacobian(theta, rows)
        density.scores(predictors, rows, y)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.3  # 0.03 on a free core


def vector_outcome():
    pm.MvNormal("y", np.zeros(3) + pm.Normal("a", 0, 1), np.eye(3), observed=X)


def two_outcomes():
    a = pm.Normal("a", 0, 1)
    pm.Normal("y", a, 1, observed=REALS)
    pm.Normal("z", a, 1, observed=REALS)


def potential():
    pm.Potential("y", -((pm.Data("data", REALS) - pm.Normal("a", 0, 1)) ** 2))


@pytest.mark.parametrize(
    ("build", "domain", "word"),
    [
        (vector_outcome, {"y": (-1, 1)}, "one number"),
        (two_outcomes, {"y": (-5, 5), "z": (-5, 5)}, "one outcome"),
        (potential, {"data": (-5, 5)}, "no distribution"),
    ],
)
def test_other_models_are_refused_with_a_cure(build, domain, word):
    with pm.Model() as model:
        build()
    private = privatize(model, records=dict.fromkeys(domain, 0), domain=domain)
    with pytest.raises(Unsupported, match=word) as caught:
        RecordDensity(private)
    assert caught.value.do


def test_tempered_models_are_refused():
    with pytest.raises(Unsupported, match="power"):
        RecordDensity(temper(MODELS["linear regression"].private(), power=0.5))


def test_the_mass_of_a_negative_binomial_at_zero_is_a_power():
    """The derivative of an incomplete beta function takes a hundred times as long."""
    a, x = pt.dvectors("a", "x")
    mass = pt.betainc(a, np.ones(1), x)
    found = plain_record(mass, {a, x}, set())
    assert not any("betainc" in str(v.owner.op).lower() for v in ancestors([found]) if v.owner)
    values = np.array([[0.3, 2.0, 40.0], [1e-3, 0.5, 0.999]])
    np.testing.assert_allclose(found.eval({a: values[0], x: values[1]}),
                               special.betainc(values[0], 1.0, values[1]), rtol=1e-13)  # fmt: skip
    other = pt.betainc(a, np.full(1, 2.0), x)
    assert "betainc" in str(plain_record(other, {a, x}, set()).owner.op).lower()
