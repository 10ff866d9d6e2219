"""A reference is public: the model's own arrays are refused, other records are not."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.models import reference_rows
from pymc_private.summaries.summary_plan import spread_covariates

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


def test_minus_zero_and_records_on_another_axis_are_the_same_rows():
    x = np.round(np.random.default_rng(6).uniform(-1, 1, (N, 2)), 3)
    x[:, 1] = 0.0
    with pm.Model() as model:
        held = pm.Data("X", x.T)
        pm.Normal("y", pm.Normal("b", shape=2) @ held, 1.0, observed=np.zeros(N))
    domain = {"X": (-1.0, 1.0), "y": (-3.0, 3.0)}
    private = pmp.privatize(model, records={"X": 1, "y": 0}, domain=domain)
    with pytest.raises(DomainError, match="holds rows of the private data"):
        plan(private, np.where(x == 0.0, -0.0, x).T[:, 50:250])


def test_a_few_rows_may_agree_by_chance(declared, x):
    assert plan(declared[1], x[:19]).claims  # 20 distinct rows are the fewest that are compared


def test_outcomes_of_a_reference_are_not_used_and_not_compared(x):
    y = np.random.default_rng(7).normal(size=N).clip(-3, 3)
    with pm.Model(coords={"row": range(N)}) as model:
        held = pm.Data("X", x, dims=("row", None))
        seen = pm.Data("seen", y, dims="row")
        pm.Normal("y", held @ pm.Normal("b", 0, 1, shape=2), 1.0, observed=seen, dims="row")
    private = pmp.privatize(model, records="row", domain={"X": (-1, 1), "seen": (-3, 3)})
    reference = {"seen": y, "X": np.random.default_rng(3).uniform(-1, 1, (N, 2))}
    assert pmp.calibrate(private, release="summary", reference=reference, **BUDGET).claims


@pytest.mark.filterwarnings("ignore:Determining the column names")
def test_a_frame_that_holds_no_data_yet_says_so(declared):
    polars = pytest.importorskip("polars")
    with pytest.raises(DomainError, match="collect it first"):
        pmp.calibrate(declared[1], release="summary", **BUDGET,
                      reference=polars.DataFrame({"X": [0.1]}).lazy())  # fmt: skip


def test_a_covariate_without_columns_is_declared():
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("X", np.zeros((N, 0)), dims=("row", None))
        mean = x @ np.zeros(0) + pm.Normal("b")
        pm.Normal("y", mean, 1.0, observed=np.zeros(N), dims="row")
    assert pmp.privatize(model, records="row", domain={"X": (-1, 1), "y": (-3, 3)}).n == N


def test_variables_of_a_formula_go_by_their_names(x):
    bambi = pytest.importorskip("bambi")
    table = pd.DataFrame({"age": x[:, 0].clip(-1, 1), "y": np.zeros(N)})
    priors = {name: bambi.Prior("Normal", mu=0, sigma=1) for name in ("Intercept", "age")}
    priors["sigma"] = bambi.Prior("HalfNormal", sigma=1)
    model = bambi.Model("y ~ age", table, priors=priors, center_predictors=False)
    private = pmp.privatize(model, records="__obs__", domain={"age": (-1, 1), "y": (-3, 3)})
    other = np.random.default_rng(8).uniform(-1, 1, N)
    found = pmp.calibrate(private, release="summary", reference={"age": other}, **BUDGET)
    assert any("reference=" in claim for claim in found.claims)
    with pytest.raises(DomainError, match=r"(?s)got: z.*allowed: .*age"):
        pmp.calibrate(private, release="summary", reference={"z": other}, **BUDGET)


def test_hashes_are_the_same_in_parts(monkeypatch, declared, x):
    monkeypatch.setattr(reference_rows, "CHUNK", 7)
    with pytest.raises(DomainError, match="holds rows of the private data"):
        plan(declared[1], x[::-1])


def test_what_a_partial_reference_leaves_out_is_named_as_spread(declared, x):
    with pm.Model(coords={"row": range(N)}) as model:
        u, v = (pm.Data(name, x[:, k].clip(-1, 1), dims="row") for k, name in enumerate("uv"))
        mean = pm.Normal("a") * u + pm.Normal("b") * v
        pm.Normal("y", mean, 1.0, observed=np.zeros(N), dims="row")
    private = pmp.privatize(model, records="row", domain={"u": (-1, 1), "v": (-1, 1), "y": (-3, 3)})
    other = np.random.default_rng(8).uniform(-1, 1, N)
    words = {"release": "summary", "method": "scores", **BUDGET}
    found = pmp.calibrate(private, reference={"u": other}, **words)
    assert spread_covariates(found) == ["v"]


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


@pytest.mark.parametrize(("dummies", "told"), [(3, False), (5, True)])
def test_a_plan_tells_that_it_takes_many_dummies_as_equally_frequent(dummies, told):
    """Of twelve rare ones a third of the summaries was refused, of which it had not told."""
    n = 3000
    rows = (np.random.default_rng(1).random((n, dummies)) < 0.1) * 1.0
    with pm.Model() as model:
        eta = pm.Data("F", rows) @ pm.Normal("b", shape=dummies) + pm.Normal("a")
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(n, int))
    private = pmp.privatize(model, records={"F": 0, "y": 0}, domain={"F": {0, 1}, "y": {0, 1}})
    words = dict(BUDGET, release="summary", method="scores")
    found = pmp.calibrate(private, **words)
    assert ("computed for F spread evenly" in found.summary()) == told
    assert ("or have rare levels" in found.summary()) == told
    assert spread_covariates(pmp.calibrate(private, reference={"F": rows[:50]}, **words)) == []
