"""The road of a check: plan, charge, store; and what is refused before a charge."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.criticism import Check
from pymc_private.criticism.check_result import holm
from pymc_private.errors import DomainError, Incompatible, NotInformative, PymcPrivateError
from tests.criticism.criticized_models import (
    PLANTED,
    assert_sums_cost_what_is_charged,
    covariates,
    declared,
    model_of,
    outcomes,
    planted_summary,
    summary_of,
)

BUDGET = {"epsilon": 0.5, "delta": 1e-6}


def ledger():
    return pmp.Ledger(epsilon=2, delta=1e-5)


@pytest.fixture(scope="module")
def summary():
    return summary_of("bernoulli")


@pytest.fixture(scope="module")
def plan(summary):
    return pmp.check_plan(summary, ["quadratic(x)", "link"], **BUDGET)


def test_a_check_is_charged_once_and_tells_what_it_saw(plan):
    book = ledger()
    result = pmp.check(plan, ledger=book, name="first")
    (entry,) = book.entries
    assert entry.guarantee == result.guarantee == plan.guarantee
    assert plan.guarantee.epsilon(1e-6) <= 0.5
    assert pmp.check(plan, ledger=book, name="first") == result
    assert len(book.entries) == 1
    test = result["quadratic(x)"]
    low, high = test.interval()
    assert low < test.estimate < high
    assert test.smallest == pytest.approx(plan.tests[0].smallest(0.025))
    assert result.p_holm["link"] >= result["link"].p
    text = repr(result)
    assert text.count("90% interval") == 2
    assert "adequate" not in text
    for one in (text, result._repr_html_(), plan.summary(), plan._repr_html_()):
        assert "quadratic(x)" in one
    assert len(result.plot().get_yticklabels()) == 2
    assert list(plan.to_frame().index) == ["quadratic(x)", "link"]


def test_mu_of_all_departures_is_that_of_the_budget(plan):
    together = sum(test.mu**2 for test in plan.tests) ** 0.5
    assert together <= plan.guarantee.gdp
    assert together == pytest.approx(plan.guarantee.gdp, rel=1e-9)


def test_sums_of_a_check_cost_what_is_charged(summary, plan):
    for made in (plan, pmp.check_plan(summary, "cells", **BUDGET)):
        assert_sums_cost_what_is_charged(made)


def test_a_saved_check_is_the_same_to_the_byte(plan, tmp_path):
    result = pmp.check(plan, random_seed=1, save=tmp_path / "check.json")
    loaded = Check.load(tmp_path / "check.json")
    assert loaded == result == pickle.loads(pickle.dumps(result))
    assert loaded.to_bytes() == result.to_bytes()
    assert "NOT PRIVATE" in repr(loaded)
    content = result.to_bytes().replace(b'"statistic":', b'"statistic":1')
    with pytest.raises(Incompatible, match="changed by hand"):
        Check.from_bytes(content)


def test_a_planted_departure_is_seen_and_estimated():
    plan = pmp.check_plan(planted_summary(), "interaction(x, z)", **BUDGET)
    found = pmp.check(plan, random_seed=3)
    (test,) = found.tests
    assert test.p < 0.01
    assert abs(test.estimate - PLANTED) < 4 * test.estimate_sd
    assert "was seen" in found.sentences[0]


@pytest.mark.audit
def test_an_extended_model_is_the_departure_it_contains(summary):
    rows = covariates()
    y = np.zeros(len(rows["x"]), int)

    def extended(add):
        return model_of("bernoulli", rows, y, extended=add)

    plan = pmp.check_plan(summary, extended(lambda x, z, g: (g - 1) * x * z), at={"gamma": 1.0},
                          **BUDGET)  # fmt: skip
    named = pmp.check_plan(summary, "interaction(x, z)", **BUDGET)
    assert plan.tests[0].sensitivity == pytest.approx(named.tests[0].sensitivity, rel=1e-9)
    assert plan.tests[0].statistic.bound == pytest.approx(named.tests[0].statistic.bound)
    with pytest.raises(Incompatible, match="does not contain the fitted model"):
        pmp.check_plan(summary, extended(lambda x, z, g: (g - 1) * x * z), **BUDGET)
    with pytest.raises(Incompatible, match="one number more"):
        pmp.check_plan(summary, model_of("bernoulli", rows, y), **BUDGET)
    with pytest.raises(DomainError, match="value of the additional parameter"):
        pmp.check_plan(summary, extended(lambda x, z, g: g * x), at={"beta": 0.0}, **BUDGET)


def test_what_cannot_be_checked_is_refused_and_nothing_is_charged(summary, plan):
    book = ledger()
    drowned = pmp.check_plan(summary, "link", epsilon=0.005, delta=1e-6)
    assert "REFUSED" in drowned.summary()
    rows = covariates()
    other = model_of("bernoulli", rows, outcomes("bernoulli", rows))
    with other:
        pm.Normal("more", 0, 1)
    cells = pmp.Ledger(epsilon=0.1, delta=1e-5)
    for error, text, action in (
        (NotInformative, "drown", lambda: pmp.check(drowned, ledger=book)),
        (DomainError, "needs its plan", lambda: pmp.check("link", ledger=book)),
        (Incompatible, "another structure",
         lambda: pmp.check(plan, declared(other, "bernoulli"), ledger=book)),
        (pmp.errors.BudgetExceeded, "epsilon", lambda: pmp.check(plan, ledger=cells)),
        (DomainError, "nothing was charged", lambda: pmp.check_plan(summary, [], **BUDGET)),
        (DomainError, "once", lambda: pmp.check_plan(summary, ["link", "link"], **BUDGET)),
        (DomainError, "leave it out",
         lambda: pmp.check_plan(summary, "link", at={"g": 0.0}, **BUDGET)),
        (DomainError, "dict", lambda: pmp.check_plan(summary, other, at=0.0, **BUDGET)),
        (DomainError, "True or False", lambda: pmp.check(plan, ledger=book, again="no")),
        (DomainError, "fitted to a summary", lambda: pmp.check_plan(plan, "link", **BUDGET)),
        (DomainError, "delta", lambda: pmp.check_plan(summary, "link", epsilon=1, delta=0)),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            action()
    assert book.entries == cells.entries == ()


def test_a_summary_that_its_warnings_refuse_is_checked_by_request_alone(summary):
    facts = summary.facts | {"cautions": [{"text": "far out", "refuse": True}]}
    doubted = pmp.Summary(summary.released, summary.guarantee, facts, summary.private)
    doubted = doubted.with_origin(*summary.of_model(None))
    with pytest.raises(NotInformative, match="far out"):
        pmp.check_plan(doubted, "link", **BUDGET)
    plan = pmp.check_plan(doubted, "link", accept=True, **BUDGET)
    assert plan.summary().startswith("WARNING: far out")


def test_a_summary_of_another_kind_is_refused():
    rows = {"y": np.random.default_rng(0).integers(0, 2, 100)}
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=rows["y"])
    private = pmp.privatize(model, records={"y": 0})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method="cells")
    found = pmp.summarize(plan, random_seed=0, progressbar=False)
    with pytest.raises(PymcPrivateError, match="summary by scores"):
        pmp.check_plan(found, "link", **BUDGET)


def test_cells_are_counted_once_for_all_contrasts(summary, plan):
    counted = pmp.check_plan(summary, "cells", **BUDGET)
    result = pmp.check(counted, random_seed=5)
    assert result.counts.shape == (4, 8)
    assert abs(result.counts.sum() - 2000) < 6 * result.counts_noise_sd * 32**0.5
    assert {test.name for test in result.tests} == {"cells: link", "cells: cubic link"}
    assert Check.from_bytes(result.to_bytes()) == result
    assert len(result.plot_cells().axes) == 3  # with the bar of colors
    with pytest.raises(DomainError, match="no cells"):
        pmp.check(plan, random_seed=5).plot_cells()


def test_holms_rule():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1.0, 1.0])
