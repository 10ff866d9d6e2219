"""Claims about tables of counts that an attack found too small or too free; each was open once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.privacy.neighbors import ATTRIBUTE, check_record_neighbors


def ledger(**words):
    return pmp.Ledger(epsilon=9, delta="1e-3", shares={"approximate": "1e-3"}, **words)


@pytest.mark.parametrize("method", ["exact", "noisy"])
def test_counts_below_a_declared_minimum_are_refused(method):
    """The price of alpha + r b holds where every count is b or more, and nowhere else."""
    account = ledger()
    words = {"epsilon": 1, "delta": 1e-5, "method": method, "ledger": account}
    with pytest.raises(pmp.errors.DomainError, match="minimum"):
        pmp.dirichlet([1, 40, 60], minimum=5, **words)
    assert account.entries == ()
    pmp.dirichlet([5, 40, 60], minimum=5, **words)


@pytest.mark.parametrize("relation", ["any", "attribute", "distance <= 1 in words", None, 3])
def test_a_price_for_one_record_is_claimed_of_no_other_relation(relation):
    for verb in (pmp.dirichlet, pmp.counts.noisy_counts):
        with pytest.raises(pmp.errors.DomainError):
            verb([1, 40, 60], epsilon=1, neighbors=relation, ledger=ledger())


def test_a_ledger_of_records_takes_no_promise_about_attributes():
    """Of three families an attribute touches two: as a promise about records it would be 1.5."""
    tables = {
        "a": xr.DataArray([50.0, 50], dims=("a",)),
        "b": xr.DataArray([[20.0, 30], [25, 25]], dims=("a", "b")),
        "c": xr.DataArray([40.0, 60], dims=("c",)),
    }
    account = ledger()
    with pytest.raises(pmp.errors.Incompatible, match="different neighbors"):
        pmp.dirichlet(tables, epsilon=1, unit="attribute", ledger=account)
    assert account.entries == ()
    own = ledger(neighbors=ATTRIBUTE)
    release = pmp.dirichlet(tables, epsilon=1, unit="attribute", ledger=own)
    assert release.facts["counts"]["scale"] == 4.0
    assert release.guarantee.neighbors == ATTRIBUTE
    assert "one attribute" in repr(release.guarantee)
    assert "attribute" in repr(pmp.report(release, own))
    with pytest.raises(pmp.errors.Incompatible):
        release.guarantee.restated("substitute")
    rows = pmp.Guarantee.pure(0.5)
    assert (release.guarantee + rows.restated(ATTRIBUTE)).pure_epsilon == 1.5
    with pytest.raises(pmp.errors.DomainError, match="attribute"):
        check_record_neighbors(ATTRIBUTE)


def test_an_attribute_without_a_name_is_not_guessed_from_that_of_its_table():
    """A margin called otherwise was charged half: a changed age moves its cells as well."""
    joint = xr.DataArray([[10.0, 5, 5], [10, 15, 15]], dims=("sex", "age"))
    for margin in ([20, 20, 20], np.array([20, 20, 20])):
        with pytest.raises(DomainError, match="names of its axes"):
            pmp.dirichlet(
                {"joint": joint, "margin_of_age": margin}, epsilon=1, delta=0, unit="attribute",
                random_seed=1,
            )  # fmt: skip


def test_ranks_of_counts_do_not_leave_unseen_with_the_labels():
    column = pd.Series(["b"] * 50 + ["c"] * 30 + ["a"] * 20, name="kind")
    words = {"epsilon": 1, "ledger": ledger()}
    with pytest.warns(pmp.errors.PrivacyWarning, match="value_counts"):
        pmp.dirichlet(column.value_counts(), **words)
    declared = column.value_counts().reindex(["a", "b", "c", "d"], fill_value=0)
    release = pmp.dirichlet(declared, **words)
    assert list(release.posterior["kind"].values) == ["a", "b", "c", "d"]


def test_vector_statistics_cost_no_less_than_any_change_within_their_sensitivity():
    """Brute force over changes, bases and orders, against the exact divergence of the two laws."""
    from pymc_private.privacy import dirichlet_rdp
    from pymc_private.privacy.dirichlet_tables import vector_rdp

    rng = np.random.default_rng(0)
    for _ in range(300):
        d = rng.integers(2, 6)
        change = rng.uniform(-1, 1, d) * (rng.random(d) < 0.7) * rng.uniform(0.1, 2)
        if rng.random() < 0.5:
            change = np.sign(change)
        if not change.any():
            continue
        r, alpha = np.exp(rng.uniform(-4, 1)), np.exp(rng.uniform(-2, 3))
        f = np.maximum(0, -change) + (rng.random(d) < 0.3) * rng.uniform(0, 5, d)
        u, v = r * (f + change) + alpha, r * f + alpha
        order = float(rng.choice([1.05, 1.5, 2, 3, 8, 20]))
        claim = vector_rdp(order, r, alpha, (change**2).sum() * (1 + 1e-12), abs(change).max())
        assert dirichlet_rdp(order, u, v) <= claim * (1 + 1e-9)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"a": 1, "b": 2}, "a list, one number for each category\n.*a single number"),
        (Counter("aab"), "a list, one number for each category"),
        ({1, 2}, "got: set"),
        (None, "got: NoneType"),
        ([10**30, 3], "more than 64 bits"),
        (["1", "2"], "are numbers"),
        ({"well": [412, 88], "ill": [371, 130]}, "a row for each"),
    ],
)
def test_counts_of_another_shape_are_told_the_shape_there_is(counts, words):
    with pytest.raises(DomainError, match=words):
        pmp.dirichlet(counts, epsilon=1, ledger=pmp.Ledger(epsilon=1))
