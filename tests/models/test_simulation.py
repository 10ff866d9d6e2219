"""Simulated records: how many are simulated never tells a protected number of records."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models import prior
from pymc_private.models.prior import Simulator


def bernoulli(n, neighbors):
    with pm.Model(coords={"i": range(n)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.zeros(n, int), dims="i")
    return pmp.privatize(model, records="i", neighbors=neighbors)


def _holds_on(*arguments):
    raise ValueError("a distribution that holds on to its size")


def test_where_all_records_would_be_needed_a_protected_number_is_not_used(monkeypatch):
    assert Simulator(bernoulli(7, "add_remove"), 5, seed=1).rows == 5
    monkeypatch.setattr(prior, "_resized_outcomes", _holds_on)
    assert Simulator(bernoulli(7, "substitute"), 5, seed=1).rows == 7
    with pytest.raises(pmp.errors.Unsupported, match="protected"):
        Simulator(bernoulli(7, "add_remove"), 5, seed=1)
