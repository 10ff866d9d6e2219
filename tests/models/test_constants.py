"""constants: the names of baked arrays are those that privatize wants a domain for."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp

N = 6


@pytest.fixture
def model():
    """A model with public data that are longer than its records, and one baked predictor."""
    with pm.Model(coords={"i": range(N)}) as made:
        weights = pm.Data("weights", np.zeros(50))
        knots, x = pt.as_tensor(np.arange(50.0)), pt.as_tensor(np.ones(N))
        slope = pm.Uniform("slope", -1, 1)
        pm.Bernoulli("y", logit_p=slope * x * (weights @ knots), observed=np.zeros(N, int))
    return made


@pytest.mark.parametrize("records", [{"y": 0}, "i"])
def test_the_records_axis_decides_what_is_listed(model, records):
    if records == "i":
        model.named_vars_to_dims["y"] = ("i",)
    listed = pmp.constants(model, records=records)
    assert listed["shape"].tolist() == [(N,)]
    (name,) = listed["name"]
    private = pmp.privatize(
        model, records=records, domain={name: (0, 1)}, public=["weights"], neighbors="substitute"
    )
    assert name in private.domain


def test_without_records_the_longest_data_decide_as_before(model):
    assert pmp.constants(model)["shape"].tolist() == [(50,)]


@pytest.mark.parametrize("records", ["nowhere", {"y": 3}, {"z": 0}])
def test_records_that_are_not_there_are_refused(model, records):
    with pytest.raises(pmp.errors.DomainError):
        pmp.constants(model, records=records)
