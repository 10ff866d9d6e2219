"""Rows of persons as records: against numerical integration, order of rows, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from scipy.special import expit

import pymc_private as pmp
from pymc_private.errors import DomainError, Unsupported

WHO = np.array([2, 0, 1, 1, 2, 2, 3])
X = np.linspace(-1.0, 1.0, 14).reshape(7, 2)
ANSWERS = {
    "bernoulli": np.array([0, 1, 1, 0, 1, 1, 0]),
    "poisson": np.array([0, 3, 1, 2, 1, 5, 0]),
    "normal": np.array([0.3, -1.0, 0.8, 0.1, 2.0, -0.4, 0.6]),
}
POINT = {"c": 0.2, "b": np.array([0.5, -0.3]), "s": 0.7, "sigma": 0.9}
MOST = 4


def visits(family: str, who: Any = WHO, x: np.ndarray = X, y: Any = None) -> pm.Model:
    """Give a model with one line per row, and intercepts of four persons."""
    y = ANSWERS[family] if y is None else y
    coords = {"person": range(4), "row": range(len(y)), "feature": ["u", "v"]}
    with pm.Model(coords=coords) as model:
        at = pm.Data("who", who, dims="row")
        rows = pm.Data("x", x, dims=("row", "feature"))
        s = pm.LogNormal("s", -0.5, 0.5)
        a = pm.Normal("a", 0, s, dims="person")
        eta = pm.Normal("c") + rows @ pm.Normal("b", dims="feature") + a[at]
        pm.Deterministic("largest", rows.max())
        if family == "bernoulli":
            pm.Bernoulli("y", logit_p=eta, observed=y, dims="row")
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=y, dims="row")
        else:
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
    return model


def terms(model: pm.Model) -> np.ndarray:
    """Give what each person adds to the log-likelihood."""
    (potential,) = model.potentials
    swaps = {model[k]: np.asarray(v) for k, v in POINT.items() if k in model.named_vars}
    return np.asarray(potential.eval(swaps, on_unused_input="ignore"))


def integrated(family: str, person: int) -> float:
    """Give the same of one person by numerical integration."""
    mine = person == WHO
    eta, y = POINT["c"] + X[mine] @ POINT["b"], ANSWERS[family][mine]

    def density(a: float) -> float:
        each = {
            "bernoulli": lambda: stats.bernoulli.logpmf(y, expit(eta + a)),
            "poisson": lambda: stats.poisson.logpmf(y, np.exp(eta + a)),
            "normal": lambda: stats.norm.logpdf(y, eta + a, POINT["sigma"]),
        }[family]()
        return stats.norm.pdf(a, 0, POINT["s"]) * np.exp(each.sum())

    return float(np.log(integrate.quad(density, -8, 8)[0]))


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", ANSWERS)
def test_a_person_adds_all_rows_with_the_effect_integrated_out(family):
    shared = pmp.marginalize(visits(family), "a", points=61, rows_per_record=MOST)
    assert "a" not in shared.named_vars
    assert "largest" not in shared.named_vars  # it reads rows
    truth = [integrated(family, person) for person in range(4)]
    assert terms(shared) == pytest.approx(truth, abs=1e-5)


@pytest.mark.audit
def test_rows_are_those_of_each_person_in_any_order():
    shared = pmp.marginalize(visits("poisson"), "a", rows_per_record=MOST)
    assert shared["person_rows"].get_value().tolist() == [1, 2, 3, 1]
    assert shared["x"].get_value().shape == (4, MOST, 2)
    np.testing.assert_array_equal(shared["y"].get_value()[2, :3], ANSWERS["poisson"][WHO == 2])
    order = np.array([6, 3, 0, 5, 1, 4, 2])
    moved = visits("poisson", WHO[order], X[order], ANSWERS["poisson"][order])
    again = pmp.marginalize(moved, "a", rows_per_record=MOST)
    assert terms(again) == pytest.approx(terms(shared), abs=1e-12)


def test_covariates_of_a_person_may_be_read_by_an_index_written_again():
    """Each use of an array of NumPy is a constant of its own."""
    ages = np.array([0.4, -1.0, 0.2, 0.9])
    with pm.Model(coords={"person": range(4), "row": range(7)}) as model:
        age = pm.Data("age", ages, dims="person")
        a = pm.Normal("a", 0, pm.LogNormal("s", -0.5, 0.5), dims="person")
        eta = pm.Normal("c") * age[WHO] + a[WHO]
        pm.Bernoulli("y", logit_p=eta, observed=ANSWERS["bernoulli"], dims="row")
    shared = pmp.marginalize(model, "a", rows_per_record=3)
    private = pmp.privatize(shared, records="person", domain={"age": (-1, 1), "y": {0, 1}})
    assert {source.name for source in private.sources} == {"age", "y", "person_rows"}


def test_places_beyond_the_rows_of_a_person_are_not_read():
    shared = pmp.marginalize(visits("normal"), "a", rows_per_record=MOST)
    before, counts = terms(shared), shared["person_rows"].get_value()
    beyond = np.arange(MOST) >= counts[:, None]
    for name in ("x", "y"):
        values = shared[name].get_value()
        values[beyond] = 77.0
        shared[name].set_value(values)
    np.testing.assert_array_equal(terms(shared), before)
    values[0, 0] = 1.0  # a row that the first person has
    shared["y"].set_value(values)
    assert terms(shared)[0] != before[0]


def test_a_person_is_one_record_of_the_private_model():
    shared = pmp.marginalize(visits("bernoulli"), "a", rows_per_record=MOST)
    private = pmp.privatize(shared, records="person", domain={"x": (-1, 1), "y": {0, 1}})
    assert private.n == 4
    domains = {source.name: source.domain for source in private.sources}
    assert domains["person_rows"] == pmp.Categories(range(1, MOST + 1))
    assert private.graph.factors == ("y_marginal",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows_per_record": 2}, "some persons own more rows than declared"),
        ({"rows_per_record": 0}, "largest number of rows"),
        ({"rows_per_record": 2.5}, "largest number of rows"),
        ({"who": np.array([2, 0, 1, 1, 2, 2, 2])}, "persons without a row"),
        ({"who": np.array([2, 0, 1, 1, 2, 4, 3])}, "points beyond their variable"),
    ],
)
def test_rows_that_do_not_fit_their_persons_are_refused(change, message):
    most = change.get("rows_per_record", MOST)
    model = visits("poisson", change.get("who", WHO))
    with pytest.raises(DomainError, match=message):
        pmp.marginalize(model, "a", rows_per_record=most)


def test_rows_of_persons_need_a_largest_number():
    with pytest.raises(Unsupported) as caught:
        pmp.marginalize(visits("poisson"), "a")
    assert "rows_per_record" in str(caught.value)


def test_one_row_per_person_needs_no_rows():
    with pm.Model(coords={"person": range(4)}) as model:
        a = pm.Normal("a", 0, pm.LogNormal("s"), dims="person")
        pm.Poisson("y", pm.math.exp(a[np.arange(4)]), observed=[1, 2, 0, 3])
    with pytest.raises(Unsupported, match="each person has one row"):
        pmp.marginalize(model, "a", rows_per_record=2)


def test_effects_that_no_index_reads_are_refused():
    with pm.Model(coords={"person": range(4), "item": range(3)}) as model:
        a = pm.Normal("a", 0, pm.LogNormal("s"), dims="person")
        pm.Bernoulli("y", logit_p=a[:, None], observed=np.ones((4, 3), int))
    with pytest.raises(Unsupported, match="by one index"):
        pmp.marginalize(model, "a", rows_per_record=3)


def test_what_is_looked_up_by_person_and_item_is_refused():
    """It would be read as that of every person at every item."""
    with visits("poisson") as model:
        table, who = np.ones((4, 3)), model["who"]
        eta = model["a"][who] + pt.constant(table)[who, np.array([0, 1, 2, 0, 1, 2, 0])]
        pm.Poisson("z", pm.math.exp(eta), observed=ANSWERS["poisson"], dims="row")
    with pytest.raises(Unsupported, match="by its person and by something else"):
        pmp.marginalize(model, "a", rows_per_record=MOST)


def test_two_outcomes_of_a_row_are_refused():
    with visits("poisson") as model:
        pm.Normal("z", model["a"][model["who"]], 1.0, observed=ANSWERS["normal"], dims="row")
    with pytest.raises(Unsupported, match="have one observed variable"):
        pmp.marginalize(model, "a", rows_per_record=MOST)


def test_other_factors_of_the_rows_are_refused():
    with visits("poisson") as model:
        pm.Potential("other", model["x"].sum() * model["c"])
    with pytest.raises(Unsupported, match="read by something else"):
        pmp.marginalize(model, "a", rows_per_record=MOST)


def test_what_has_an_entry_for_each_row_is_left_out():
    visits = [f"visit {k}" for k in range(6)]
    with pm.Model(coords={"person": range(3), "visit": visits}) as model:
        person = pm.Data("who", np.repeat(range(3), 2), dims="visit")
        noted = pm.Data("noted", np.arange(6.0), dims="visit")
        spread = pm.HalfNormal("spread")
        effect = pm.Normal("effect", 0, spread, dims="person")
        pm.Deterministic("scaled", spread * noted, dims="visit")
        pm.Deterministic("twice", 2.0 * spread)
        pm.Bernoulli("y", logit_p=effect[person], observed=[0, 1] * 3, dims="visit")
    left = pmp.marginalize(model, "effect", rows_per_record=2)
    assert not {"noted", "scaled", "who"} & set(left.named_vars)
    assert {"twice", "spread"} <= set(left.named_vars)
    assert "visit" not in left.coords
