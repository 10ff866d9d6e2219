"""Linear regression with known variance: recognized by its graph, drawn as quadrature says."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.certificates.conjugate import recognize_conjugate
from pymc_private.samplers.conjugate import conjugate_model, sample_conjugate
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

N, SIGMA, POWER = 12, 0.7, 0.5
RNG = np.random.default_rng(3)
X, Y = RNG.uniform(-1, 1, (N, 2)), RNG.normal(size=N)


def regression(mean, public=(), sigma=SIGMA, prior=2.0):
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", X, dims=("i", None))
        a, b = pm.Normal("a", 0.5, 1), pm.Normal("b", 0, prior, shape=2)
        pm.Normal("y", mean(x, a, b), sigma, observed=Y, dims="i")
    domain = {"y": (-3, 3)} if public else {"y": (-3, 3), "x": (-1, 1)}
    private = pmp.privatize(model, records="i", domain=domain, public=public)
    return pmp.temper(private, POWER)


MEANS = {
    "product": lambda x, a, b: a + x @ b,
    "sum of columns": lambda x, a, b: a + x[:, 0] * b[0] + x[:, 1] * b[1],
    "scaled": lambda x, a, b: (2.0 * a + (x * b).sum(axis=1) * 2.0) / 2.0,
}


@pytest.mark.thin(6)
@pytest.mark.parametrize("public", [(), ("x",)], ids=["private", "public"])
@pytest.mark.parametrize("name", MEANS)
def test_the_posterior_is_the_normal_law_of_the_textbook(name, public):
    private = regression(MEANS[name], public)
    found = recognize_conjugate(private).posterior(private)
    design = np.column_stack([np.ones(N), X])
    known = np.diag(1 / np.array([1.0, 2.0, 2.0]) ** 2)
    precision = known + POWER * design.T @ design / SIGMA**2
    mean = np.linalg.solve(precision, known @ [0.5, 0, 0] + POWER * design.T @ Y / SIGMA**2)
    assert found["precision"] == pytest.approx(precision)
    assert found["mean"] == pytest.approx(mean)


def test_draws_follow_it():
    private = regression(MEANS["product"])
    found = recognize_conjugate(private).posterior(private)
    draws = sample_conjugate(private, 20_000, SeededRandomness.from_seed(4))
    values = np.column_stack([draws["a"], draws["b"]])
    sd = np.sqrt(np.diag(np.linalg.inv(found["precision"])))
    for k in range(3):
        assert cdf_envelope(values[:, k], stats.norm(found["mean"][k], sd[k]).cdf).passes
        assert cdf_envelope(
            values[:, k], stats.norm(found["mean"][k], 2 * sd[k]).cdf
        ).fails_on_any_seed
    turned = (values - found["mean"]) @ np.linalg.cholesky(found["precision"])
    assert np.abs(np.cov(turned.T) - np.eye(3)).max() < 0.06  # 8 standard errors


@pytest.mark.parametrize(
    "mean",
    [
        lambda x, a, b: a * (x @ b),
        lambda x, a, b: a + pm.math.exp(x @ b),
        lambda x, a, b: x @ b + (x @ b) * b[0],
        lambda x, a, b: x[:, 0] / b[0] + a,
    ],
)
def test_what_is_not_affine_is_not_recognized(mean):
    assert recognize_conjugate(regression(mean)) is None


def test_a_trimmed_regression_goes_to_the_boxes():
    private = pmp.trim(regression(MEANS["product"]), box={"a": (-2, 2), "b": (-2, 2)})
    with pytest.raises(pmp.errors.Unsupported, match="trimmed linear"):
        conjugate_model(private)
    plan = pmp.calibrate(private, epsilon=1, draws=2, clip=False)
    assert plan.sampler == "boxes"
