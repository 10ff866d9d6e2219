"""A reference is public: the model's own arrays are refused, other records are not."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError

N = 300
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def regression(x, n=None):
    """A linear regression with private covariates, and its private model."""
    with pm.Model(coords={"row": range(len(x))}) as model:
        b = pm.Normal("b", 0, 1, shape=x.shape[1])
        held = pm.Data("X", x, dims=("row", None))
        pm.Normal("y", held @ b, 1.0, observed=np.zeros(len(x)), dims="row")
    domain = {"X": (-1.0, 1.0), "y": (-3.0, 3.0)}
    return model, pmp.privatize(model, records="row", domain=domain, n=n)


def plan(private, x, **keywords):
    return pmp.calibrate(private, release="summary", reference={"X": x}, **BUDGET, **keywords)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).uniform(-1.2, 1.2, (N, 2))


@pytest.fixture(scope="module")
def declared(x):
    return regression(x)


@pytest.mark.parametrize(
    "private_rows",
    [
        lambda x: x,
        lambda x: x[::-1],
        lambda x: x[:40],
        lambda x: x[np.random.default_rng(1).permutation(N)[:60]],
        lambda x: np.clip(x, -1, 1),
        lambda x: np.concatenate([x[:60], np.random.default_rng(2).uniform(-1, 1, (40, 2))]),
    ],
    ids=["itself", "reversed", "first rows", "some rows", "clipped", "mostly"],
)
def test_rows_of_the_data_are_refused(declared, x, private_rows):
    with pytest.raises(DomainError, match="holds rows of the private data; nothing was charged"):
        plan(declared[1], private_rows(x))


def test_draws_refuse_them_too(declared, x):
    with pytest.raises(DomainError, match="holds rows of the private data"):
        pmp.calibrate(declared[1], draws=10, reference={"X": x}, **BUDGET)


def test_a_data_frame_of_the_records_is_refused(x):
    frame = pd.DataFrame({"age": x[:, 0].clip(-1, 1), "y": np.zeros(N)})
    with pm.Model(coords={"row": range(N)}) as model:
        age = pm.Data("age", frame.age, dims="row")
        pm.Normal("y", pm.Normal("b", 0, 1) * age, 1.0, observed=frame.y, dims="row")
    private = pmp.privatize(model, records="row", domain={"age": (-1, 1), "y": (-3, 3)})
    with pytest.raises(DomainError, match="reference of 'age' holds rows"):
        pmp.calibrate(private, release="summary", reference=frame, **BUDGET)


def test_the_data_variable_is_refused_by_name(declared):
    model, private = declared
    with pytest.raises(DomainError, match="not variables of the model"):
        plan(private, model["X"])


def test_other_records_are_a_reference(declared):
    found = plan(declared[1], np.random.default_rng(3).uniform(-1, 1, (N, 2)))
    assert any("reference=" in claim for claim in found.claims)


def test_few_values_may_agree_by_chance():
    """Rounded ages, and a column of two values: another table has all of these values, too."""
    rng = np.random.default_rng(4)

    def table(n):
        return np.column_stack([rng.integers(-40, 40, n) / 40, rng.choice([-1.0, 1.0], n)])

    _, private = regression(table(1000))
    assert plan(private, table(1000)).claims
    assert plan(private, table(60)).claims


def test_rounded_rows_in_another_order_are_refused():
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.integers(-40, 40, 1000) / 40, rng.choice([-1.0, 1.0], 1000)])
    _, private = regression(x)
    with pytest.raises(DomainError, match="holds rows of the private data"):
        plan(private, x[np.lexsort(x.T)])


def test_rows_that_stand_for_those_of_a_table_are_no_data(x):
    _, private = regression(x, n=2000)
    assert plan(private, x).claims


def test_what_is_not_finite_says_what_to_do(declared, x):
    with pytest.raises(DomainError, match=r"(?s)NaN or infinity.*what to do: leave out"):
        plan(declared[1], np.where(x > 1.1, np.nan, x))
