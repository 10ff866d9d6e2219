"""Coordinates of what records read of a hierarchy: a bijection, with its determinant."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.scores.read_coordinates import ReadCoordinates

GROUPS, N = 5, 60


@cache
def read_of(form):
    """What records read of a hierarchy with effects in some form."""
    with pm.Model(coords={"row": range(N), "group": range(GROUPS)}) as model:
        sd, mean = pm.LogNormal("sd", -0.7, 0.5), pm.Normal("mean")
        g = pm.Data("g", np.arange(N) % GROUPS, dims="row")
        x = pm.Data("x", np.linspace(-1, 1, N), dims="row")
        if form == "centered":
            effect = pm.Normal("effect", mean, sd, dims="group")
        else:
            offset = pm.Normal("offset", dims="group")
            effect = mean + sd * offset
        eta = effect[g] + pm.Normal("slope") * x
        pm.Bernoulli("y", logit_p=eta, observed=np.arange(N) % 2, dims="row")
    private = pmp.privatize(model, records="row", public=["g"], domain={"x": (-1, 1)})
    return RecordDensity(private, of_coefficients=True).parameters


@pytest.mark.parametrize("form", ["offset", "centered"])
def test_coordinates_are_a_bijection_with_its_determinant(form):
    read = read_of(form)
    found = ReadCoordinates.of(read)
    theta = read.whole.pool[:7]
    u = found.coordinates(theta)
    back, logs = found.parameters(u)
    np.testing.assert_allclose(back, theta, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(u[:, len(found.rest) :], read.of(theta), rtol=1e-12)
    for k in range(2):
        steps = 1e-5 * np.eye(u.shape[1])
        ahead, behind = (found.parameters(u[k] + sign * steps)[0] for sign in (1.0, -1.0))
        slopes = (ahead - behind).T / 2e-5
        assert logs[k] == pytest.approx(np.linalg.slogdet(slopes)[1], abs=1e-5)


def test_parameters_that_no_coefficient_can_have_are_not_finite():
    read = read_of("offset")
    found = ReadCoordinates.of(read)
    u = found.coordinates(read.whole.pool[:2])
    u[1] = np.inf
    theta, logs = found.parameters(u)
    assert np.isfinite(theta[0]).all()
    assert list(np.isfinite(logs)) == [True, False]


def test_there_are_none_where_coefficients_are_not_affine():
    read = read_of("offset")
    curved = SimpleNamespace(whole=read.whole, size=read.size, of=lambda t: np.sinh(read.of(t)))
    assert ReadCoordinates.of(curved) is None
