"""Releases of counts under budgets beyond all sense: answered, or refused and free."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError
from pymc_private.estimators import DirichletNaiveBayes


def ledger(neighbors="substitute"):
    return pmp.Ledger(epsilon=1e307, delta=0.5, neighbors=neighbors)


def several(size=1):
    rows = [[20 * size, 20], [25, 15]]
    return {
        "kinds": xr.DataArray([20 * size + 20, 40], dims="kind"),
        "colors": xr.DataArray(rows, dims=("kind", "color")),
        "shapes": xr.DataArray(rows, dims=("kind", "shape")),
    }


def shares(counts):
    values = np.asarray(counts, float)
    return values / values.sum(axis=-1, keepdims=True)


@pytest.mark.thin(6)
@pytest.mark.parametrize(("given", "unit"), [
    ({"epsilon": 1e5}, "row"), ({"epsilon": 1e300}, "attribute"),
    ({"epsilon": 1e8, "delta": 1e-5}, "row"), ({"rdp": (1.5, 1e300), "delta": 1e-5}, "attribute"),
    ({"zcdp": 1e12, "delta": 1e-5}, "row"),
], ids=str)  # fmt: skip
def test_a_huge_budget_gives_the_counts_themselves(given, unit):
    tables, book = several(), ledger("attribute" if unit == "attribute" else "substitute")
    release = pmp.dirichlet(tables, method="noisy", unit=unit, draws=200, ledger=book, **given)
    assert len(book.entries) == 1
    for name, table in tables.items():
        found = release.posterior[name].values[0].mean(axis=0)
        assert np.isfinite(found).all()
        assert np.abs(found - shares(table)).max() < 0.05
    noisy = pmp.counts.noisy_counts(tables, unit=unit, ledger=book, **given)
    for name, table in tables.items():
        assert (noisy.posterior[name].values[0, 0] == table.values).all()
        assert np.isfinite(pmp.counts.count_posterior(noisy, draws=5)[name]).all()


@pytest.mark.thin(12)
@pytest.mark.parametrize("counts", [
    [7], [0, 0], [10**9, 5, 0], list(range(60)), several(), several(10**7)
], ids=["one", "none", "big", "many", "several", "several big"])  # fmt: skip
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-11, 1e4, 1e300])
def test_nothing_is_charged_without_a_result(counts, neighbors, epsilon):
    book = ledger(neighbors)
    profile = None if neighbors == "substitute" else 100.0
    try:
        release = pmp.dirichlet(
            counts, epsilon=epsilon, method="noisy", neighbors=neighbors, profile=profile,
            draws=3, ledger=book,
        )  # fmt: skip
    except PymcPrivateError:
        assert len(book.entries) == 0
        return
    assert len(book.entries) == 1
    for array in release.posterior.data_vars.values():
        assert np.isfinite(array.values).all()


def test_a_dirichlet_draw_of_a_huge_budget_is_near_the_counts():
    counts, book = [119, 74, 618, 0], ledger()
    release = pmp.dirichlet(counts, epsilon=1e12, delta=1e-5, method="exact", ledger=book)
    assert np.abs(release.posterior["p"].values[0, 0] - shares(counts)).max() < 0.03
    assert release.guarantee.epsilon(1e-5) <= 1e3


def test_where_no_draw_can_be_planned_noise_serves():
    release = pmp.dirichlet([5, 7], epsilon=1e-300, delta=1e-5, ledger=ledger())
    assert release.facts["counts"]["method"] == "noisy"


@pytest.mark.thin(2)
@pytest.mark.parametrize("epsilon", [2e-11, 1e5, 1e300])
def test_naive_bayes_answers(epsilon):
    book = ledger()
    x = pd.DataFrame({"a": [0, 1, 0, 1] * 20, "b": [0, 1, 2, 0] * 20})
    found = DirichletNaiveBayes(
        epsilon=epsilon, method="noisy", categories={"a": [0, 1], "b": [0, 1, 2]},
        classes=[0, 1], ledger=book,
    ).fit(x, np.array([0, 1, 1, 0] * 20))  # fmt: skip
    assert len(book.entries) == 1
    assert np.isfinite(found.predict_proba(x)).all()
