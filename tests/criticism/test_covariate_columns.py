"""Names of covariates, for users of checks."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.summaries.density.record_density import RecordDensity

N = 60


def named(private_column):
    """Give the names of a model with a private and a public 0/1 column."""
    rng = np.random.default_rng(0)
    treated = rng.integers(0, 2, N)
    z = treated.copy() if private_column == "equal" else 1 - treated
    with pm.Model(coords={"row": range(N)}) as model:
        z_data, t_data = (
            pm.Data("a_private", z, dims="row"),
            pm.Data("treated", treated, dims="row"),
        )
        eta = pm.Normal("b") * z_data + pm.Normal("c") * t_data
        pm.Bernoulli("y", logit_p=eta, observed=rng.integers(0, 2, N), dims="row")
    private = pmp.privatize(model, records="row", domain={"a_private": {0, 1}}, public=["treated"])
    return set(CovariateColumns(private, RecordDensity(private)).known)


@pytest.mark.parametrize("private_column", ["equal", "other"])
def test_names_do_not_tell_whether_a_private_column_equals_a_public_one(private_column):
    assert named(private_column) == {"a_private", "treated"}
