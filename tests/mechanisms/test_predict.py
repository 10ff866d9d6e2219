"""Predictions on public covariates: the draws, the graph, and nothing else of the model."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_private as pmp

N = 6
X = np.linspace(-1, 1, N)


@pytest.fixture
def model():
    with pm.Model(coords={"i": range(N)}) as made:
        x = pm.Data("x", X, dims="i")
        y = pm.Data("y_data", np.zeros(N), dims="i")
        pm.Normal("y", pm.Normal("b", 0, 1) * x, 0.01, observed=y, dims="i")
    return made


@pytest.fixture
def release():
    draws = xr.Dataset({"b": (("chain", "draw"), np.array([[1.0, -2.0, 3.0]]))})
    return pmp.Release(draws, pmp.Guarantee.pure(1.0), {"sampler": "boxes"}, private=True)


def test_predictions_follow_each_draw_at_the_new_covariates(model, release):
    new = np.array([10.0, 20.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = release.predict(model, x=new, random_seed=1)
    assert found["y"].dims[:2] == ("chain", "draw")
    exact = release.posterior["b"].values[..., None] * new
    assert np.allclose(found["y"].values, exact, atol=0.1)


def test_the_model_is_left_as_it_was(model, release):
    release.predict(model, x=np.array([1.0]), random_seed=1)
    assert np.array_equal(model["x"].get_value(), X)


def test_private_covariates_that_stay_are_told(model, release):
    with pytest.warns(pmp.PrivacyWarning, match="also read x"):
        release.predict(model, random_seed=1)


def test_the_observed_data_are_not_read(model, release):
    found = [release.predict(model, x=X, random_seed=1)]
    model["y_data"].set_value(np.full(N, 99.0))
    found.append(release.predict(model, x=X, random_seed=1))
    assert np.array_equal(found[0]["y"].values, found[1]["y"].values)


def test_wrong_names_and_lengths_and_no_model_are_refused(model, release):
    with pytest.raises(pmp.DomainError, match="no such data"):
        release.predict(model, z=np.zeros(2))
    with pytest.raises(pmp.DomainError, match="different lengths"):
        release.predict(model, x=np.zeros(2), y_data=np.zeros(3))
    with pytest.raises(pmp.DomainError, match="no model"):
        release.predict(x=np.zeros(2))


def test_pymc_itself_predicts_from_a_release(model, release):
    with model:
        pm.set_data({"x": np.array([10.0]), "y_data": np.zeros(1)}, coords={"i": [0]})
        found = pm.sample_posterior_predictive(
            release.to_arviz(), predictions=True, progressbar=False, random_seed=2
        )
    values = np.asarray(found["predictions"]["y"])
    assert np.allclose(values[0, :, 0], [10.0, -20.0, 30.0], atol=0.1)
