"""Which columns hold a variable, and which of them cannot be read."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.summaries.tables.table_columns import COIN, as_numbers, check_numbers, columns_of
from tests.summaries.tables.table_models import DOMAIN, NAMES, placeholders


def names_of(private, given=None):
    return {c.source.name: c.names for c in columns_of(private, given)}


def test_the_name_of_coins_is_that_of_no_column():
    with pytest.raises(DomainError, match="name that is reserved"):
        columns_of(placeholders(), {"X": [COIN, "age"]})


def test_columns_are_named_by_variables_and_coordinates():
    private = placeholders()
    assert names_of(private) == {"X": tuple(NAMES), "y": ("y",)}
    given = {"X": ["a1", "a2"], "y": "answer"}
    assert names_of(private, given) == {"X": ("a1", "a2"), "y": ("answer",)}


def test_rows_have_the_shape_of_the_variable():
    x, y = sorted(columns_of(placeholders(), None), key=lambda c: c.source.name)
    table = {"age": np.array([1.0, 2.0]), "income": np.array([3.0, 4.0]), "y": np.array([0.0, 1])}
    np.testing.assert_array_equal(x.rows(table), [[1, 3], [2, 4]])
    np.testing.assert_array_equal(y.rows(table), [0, 1])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"Z": "z"}, "private variables"),
        ({"X": "age"}, "2 numbers a record"),
        ({"X": ["a", "b", "c"]}, "2 numbers a record"),
        ({"y": ["a", "b"]}, "1 numbers a record"),
        ({"X": [1, 2]}, "2 numbers a record"),
        ({"X": 3}, "2 numbers a record"),
        ("y", "a mapping"),
        (["y"], "a mapping"),
    ],
)
def test_other_columns_are_refused(given, match):
    with pytest.raises(DomainError, match=match):
        columns_of(placeholders(), given)


def test_a_matrix_without_names_needs_columns():
    with pm.Model(coords={"person": range(7)}) as model:
        x = pm.Data("X", np.zeros((7, 2)), dims=("person", None))
        eta = x @ pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=eta, observed=[0, 1, 0, 1, 0, 1, 1], dims="person")
    private = pmp.privatize(model, records="person", domain=DOMAIN, n=100)
    with pytest.raises(DomainError, match="no names of them"):
        columns_of(private, None)
    assert names_of(private, {"X": NAMES})["X"] == tuple(NAMES)


@pytest.mark.parametrize(
    ("values", "whole", "match"),
    [
        (np.array(["a", "b"]), False, "no numbers"),
        (np.array(["a", None], dtype=object), False, "text, or values of several types"),
        (np.array([1, None], dtype=object), False, "missing or infinite"),
        (np.array([True, pd.NA], dtype=object), False, "missing or infinite"),
        (np.array([2**60, 1], dtype=object), False, "beyond 2"),
        (np.array([10**400, 1], dtype=object), False, "beyond 2"),
        (np.array([Decimal(2**53 + 1), None], dtype=object), False, "beyond 2"),  # a HUGEINT
        (np.array([Decimal("-1E+30")], dtype=object), False, "beyond 2"),
        (np.array([Decimal("sNaN"), None], dtype=object), False, "missing or infinite"),
        (np.array([1.0, np.nan]), False, "missing or infinite"),
        (np.array([1.0, np.inf]), False, "missing or infinite"),
        (np.array([2**53 + 1, 1]), False, "beyond 2"),
        (np.array([1.5, 1.0]), True, "fractions"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), False, "no numbers"),
    ],
)
def test_columns_that_cannot_be_read(values, whole, match):
    with pytest.raises(DomainError, match=match) as caught:
        check_numbers(values, "x", whole)
    assert "nothing was charged" in str(caught.value)


def test_decimals_are_numbers():
    values = np.array([Decimal("0.25"), Decimal(3), Decimal(2**53), Decimal("1e17") / 3], object)
    check_numbers(values, "x", False)
    np.testing.assert_array_equal(as_numbers(values), [0.25, 3.0, 2.0**53, 1e17 / 3])


def test_variables_of_a_formula_go_by_their_own_names():
    with pm.Model(coords={"person": range(7)}) as model:
        x = pm.Data("data[x]", np.zeros(7), dims="person")
        pm.Normal("y", pm.Normal("b") * x, 1.0, observed=np.zeros(7), dims="person")
    domain = {"data[x]": (-1, 1), "y": (-3, 3)}
    private = pmp.privatize(model, records="person", domain=domain, n=100)
    assert names_of(private) == {"data[x]": ("x",), "y": ("y",)}
    assert names_of(private, {"x": "age"})["data[x]"] == ("age",)


def test_numbers_of_all_types_become_doubles():
    for values in (np.array([True, False]), np.array([1, 0], np.int8), np.array([1, 0], "f4")):
        check_numbers(values, "x", True)
        np.testing.assert_array_equal(as_numbers(values), [1.0, 0.0])
    assert np.isnan(as_numbers(np.array(["a"]))).all()
