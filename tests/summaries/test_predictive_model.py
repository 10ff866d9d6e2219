"""Outcomes at public covariates, by PyMC's own functions."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.models.compat import has_group, to_groups
from pymc_private.summaries.predictive_model import predictive_model

N, SLOPES, SIGMA = 120, [1.0, 2.0], 0.1
SECRET, OBSERVED = 0.123456789, 0.314159265


def private_of(named):
    rng = np.random.default_rng(0)
    dims = "row" if named else None
    rows = rng.uniform(-1, 1, N)
    with pm.Model(coords={"row": range(N)} if named else None) as model:
        x = pm.Data("x", np.where(np.arange(N) == 3, SECRET, rows), dims=dims)
        slopes = pm.Normal("slopes", 0, 1, shape=2)
        mean = slopes[0] + slopes[1] * x
        y = np.where(np.arange(N) == 4, OBSERVED, 0.0)
        pm.Normal("y", mean, pm.LogNormal("sigma", 0, 0.5), observed=y, dims=dims)
    records = "row" if named else {"x": 0, "y": 0}
    return pmp.privatize(model, records=records, domain={"x": (-1, 1), "y": (-5, 5)})


def draws():
    return to_groups(
        posterior=xr.Dataset(
            {
                "slopes": (("chain", "draw", "k"), np.tile(SLOPES, (1, 1500, 1))),
                "sigma": (("chain", "draw"), np.full((1, 1500), SIGMA)),
            }
        )
    )


def predicted():
    words = {"var_names": ["y"], "predictions": True, "progressbar": False, "random_seed": 1}
    found = pm.sample_posterior_predictive(draws(), **words)
    assert not has_group(found, "observed_data")
    return found["predictions"]["y"].values[0]


@pytest.mark.thin(2)
@pytest.mark.parametrize("named", [True, False])
def test_predictions_move_with_the_covariates(named):
    private = private_of(named)
    model = predictive_model(private, {"x": [0.0, 0.5, 1.0]})
    with model:
        y = predicted()
        np.testing.assert_allclose(y.mean(axis=0), [1.0, 2.0, 3.0], atol=5 * SIGMA / 1500**0.5)
        np.testing.assert_allclose(y.std(axis=0), SIGMA, rtol=0.1)
        pm.set_data({"x": [-1.0, 1.0]}, **({"coords": {"row": [0, 1]}} if named else {}))
        np.testing.assert_allclose(predicted().mean(axis=0), [-1.0, 3.0], atol=0.02)
    for secret in (np.float64(SECRET).tobytes(), np.float64(OBSERVED).tobytes()):
        assert secret in cloudpickle.dumps(private.base)
        assert secret not in cloudpickle.dumps(model)
    assert hasattr(private.base["y"].tag, "observations")  # the original stays as it is


def test_labels_of_records_stay_behind():
    """Without covariates one outcome of a new record is predicted."""
    labels = [f"patient {k}" for k in range(N)]
    with pm.Model(coords={"patient": labels, "visit": ["first", "second"]}) as model:
        rate = pm.Gamma("rate", 2, 1, dims="visit")
        pm.Poisson("y", rate, observed=np.ones((N, 2), int), dims=("patient", "visit"))
    private = pmp.privatize(model, records="patient", domain={"y": (0, 9)})
    made = predictive_model(private, {})
    assert dict(made.coords) == {"visit": ("first", "second"), "patient": None}
    assert made.named_vars_to_dims["y"] == ("patient", "visit")
    assert b"patient 7" not in cloudpickle.dumps(made)
    with made:
        found = pm.draw(made["y"], 3000, random_seed=1)
    np.testing.assert_allclose(found.mean(axis=0), [[2.0, 2.0]], atol=0.15)


def test_private_rows_and_missing_covariates_are_refused():
    with pytest.raises(DomainError, match="nothing for x"):
        predictive_model(private_of(True), {})
    with pytest.raises(DomainError, match="no data variable 'z'"):
        predictive_model(private_of(True), {"x": [0.0], "z": [0.0]})
