"""NUTS with the metric of the normal approximation at the center of a summary's posterior."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError
from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

from pymc_private.summaries import nuts_posterior
from pymc_private.summaries.posterior_coordinates import start_at_center, value_covariance

CENTER = np.array([3.0, -1.0, 40.0])
"""Of b[0], b[1] and a, in the order of the parameter vector; the model names a first."""
COVARIANCE = np.array([[1.0, 0.0, 9.9], [0.0, 0.04, 0.0], [9.9, 0.0, 100.0]])


def parameters() -> Any:
    """Give a parameter vector whose order is not that of the model."""

    def split(vector: np.ndarray) -> dict[str, np.ndarray]:
        return {"b": vector[:2], "a": vector[2]}

    def natural(points: np.ndarray) -> dict[str, np.ndarray]:
        return {"b": points[:, :2], "a": points[:, 2]}

    return SimpleNamespace(names=("b", "a"), split=split, natural=natural, model=flat_model())


def flat_model() -> pm.Model:
    with pm.Model() as model:
        pm.Flat("a")
        pm.Flat("b", shape=2)
    return model


@pytest.fixture
def normal() -> pm.Model:
    """Give a model with this normal density, in units of its standard deviations."""
    with flat_model() as model:
        away = pt.concatenate([model["b"], model["a"][None]]) - CENTER
        pm.Potential("known", -0.5 * pt.dot(away, pt.dot(np.linalg.inv(COVARIANCE), away)))
    start_at_center(model, parameters(), CENTER, COVARIANCE, lambda theta: np.zeros(len(theta)))
    return model


def test_the_metric_is_the_correlation_of_the_value_variables(normal):
    """The gradient of a normal log density at z is minus the inverse of its covariance times z."""
    metric = value_covariance(normal, parameters(), CENTER, COVARIANCE)
    at = {"a": np.array(0.3), "b": np.array([-1.2, 0.7])}
    names = [rv.name for rv in normal.free_RVs]
    point = {normal.rvs_to_values[normal[name]].name: at[name] for name in names}
    slope = normal.compile_dlogp()(point)
    z = np.concatenate([np.ravel(at[name]) for name in names])
    np.testing.assert_allclose(slope, -np.linalg.solve(metric, z), rtol=1e-8)


def test_narrow_posteriors_take_few_steps(normal):
    """A correlation of .99 costs nothing with this metric; with another order it does."""

    def steps(metric: np.ndarray) -> float:
        with normal:
            step = pm.NUTS(potential=QuadPotentialFull(metric))
            found = pm.sample(
                100, tune=150, chains=1, step=step, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
        return float(found.sample_stats["n_steps"].mean())

    metric = value_covariance(normal, parameters(), CENTER, COVARIANCE)
    assert steps(metric) < 6
    order = [2, 1, 0]
    assert steps(metric[np.ix_(order, order)]) > 12


def test_no_metric_of_other_parameters_or_of_a_singular_covariance(normal):
    assert value_covariance(normal, parameters(), CENTER, COVARIANCE) is not None
    assert value_covariance(normal, parameters(), CENTER, np.ones((3, 3))) is None
    with normal:
        pm.Normal("more")
    assert value_covariance(normal, parameters(), CENTER, COVARIANCE) is None


@pytest.mark.parametrize(
    ("independent", "tuning"),
    [
        ([150], [200]),  # the metric of the center serves
        ([20, 150], [200, 500]),  # it does not: chains adapt theirs
        ([20, 20, 30], [200, 500, 2000]),  # longer chains, which are the last
        ([SamplingError, 150], [200, 500]),  # no density at a start
    ],
)
def test_chains_of_too_few_independent_draws_are_run_anew(independent, tuning, monkeypatch):
    given, found = iter(independent), []

    def chains(parameters, longer, rng, tune, **options):
        found.append((tune, sorted(options)))
        value = next(given)
        if not isinstance(value, (int, float)):
            raise value
        return SimpleNamespace(independent=value)

    with pm.Model() as model:
        pm.Normal("x")
    center = SimpleNamespace(start=lambda released: (np.zeros(1), np.eye(1)), parameters=None)
    monkeypatch.setattr(nuts_posterior, "noise_aware_model", lambda *_: model)
    monkeypatch.setattr(nuts_posterior, "value_covariance", lambda *_: np.eye(1))
    monkeypatch.setattr(nuts_posterior, "_starts", lambda *_: [])
    monkeypatch.setattr(nuts_posterior, "_chains", chains)
    draws = nuts_posterior.nuts_draws(None, center, {}, np.random.default_rng(0))
    assert draws.independent == independent[-1]
    assert [tune for tune, _ in found] == tuning
    assert found[0][1] == ["initvals", "step"]
    assert all(not options for _, options in found[1:])
