"""Models of placeholder rows: what they may say, and what must not take the rows for records."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.models.fingerprint import describe_structure


def coin(rows=7, **words):
    with pm.Model(coords={"person": range(rows)}) as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=np.arange(rows) % 2, dims="person")
    return pmp.privatize(model, records="person", **words)


@pytest.mark.parametrize("n", [0, -3, 2.5, "many", True, float("nan"), float("inf")])
def test_n_is_a_number_of_rows(n):
    with pytest.raises(DomainError, match="placeholders"):
        coin(n=n)


def test_the_number_of_rows_is_that_of_the_table():
    assert coin(n=10**7).record_count == 10**7
    assert coin().record_count == 7
    assert describe_structure(coin(n=100)) != describe_structure(coin(n=101))
    assert describe_structure(coin(n=100)) != describe_structure(coin())
    assert describe_structure(coin(n=100)) == describe_structure(coin(rows=4, n=100))


@pytest.mark.parametrize(
    "use",
    [
        lambda private: pmp.calibrate(private, epsilon=1, delta=1e-6),
        lambda private: pmp.sample(private, epsilon=1, delta=1e-6),
        lambda private: pmp.sample(private, draws=1),
        lambda private: pmp.summarize(private, epsilon=1, delta=1e-6),
        lambda private: pmp.samplers.diagnose(private, tune=1, draws=1),
        lambda private: pmp.samplers.coupling_evidence(private, pairs=2),
    ],
)
def test_placeholder_rows_are_no_records(use):
    with pytest.raises(Incompatible, match="placeholder rows"):
        use(coin(n=1000))


def test_a_model_says_where_its_records_are():
    assert "one person of 1000, in a table (here 7 placeholder rows)" in repr(coin(n=1000))
    assert "1000" not in repr(coin(n=1000, neighbors="add_remove"))
    assert "one person of 7;" in repr(coin())


def test_a_distance_protects_no_table():
    metric = pmp.Metric({"y": "absolute"})
    with pm.Model(coords={"person": range(7)}) as model:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=np.zeros(7), dims="person")
    with pytest.raises(Unsupported, match="Metric"):
        pmp.privatize(model, records="person", domain={"y": (-1, 1)}, neighbors=metric, n=100)


@pytest.mark.parametrize("rows", [7, 8])
def test_what_is_public_does_not_depend_on_the_placeholders(rows):
    with pm.Model(coords={"person": range(7)}) as model:
        offsets = np.linspace(0, 1, rows)
        rate = pm.Normal("m") + (offsets if rows == 7 else offsets.sum())
        pm.Normal("y", rate, 1.0, observed=np.zeros(7), dims="person")
    words = {"records": "person", "domain": {"y": (-1, 1)}, "public": ["constant_0"]}
    if rows == 7:
        with pytest.raises(Unsupported, match="depends on their number"):
            pmp.privatize(model, n=1000, **words)
    else:
        assert pmp.privatize(model, n=1000, records="person", domain=words["domain"])
