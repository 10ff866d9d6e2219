"""Every kind of summary by the same road: plan, rehearsal, charge, model, file."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries import choose_mechanism

N = 400


def regression(n: int, seed: int = 0) -> tuple[pm.Model, dict[str, Any]]:
    """A logistic regression on one covariate."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 - x))).astype(int)
    with pm.Model(coords={"person": range(n)}) as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        pm.Deterministic("odds", pm.math.exp(b))
        pm.Bernoulli("y", logit_p=a + b * pm.Data("x", x, dims="person"), observed=y, dims="person")
    return model, {"x": (-1, 1)}


def coin(n: int, seed: int = 0) -> tuple[pm.Model, dict[str, Any]]:
    """A coin with a conjugate prior."""
    y = (np.random.default_rng(seed).random(n) < 0.3).astype(int)
    with pm.Model(coords={"person": range(n)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=y, dims="person")
    return model, {}


def answers(n: int, seed: int = 0) -> tuple[pm.Model, dict[str, Any]]:
    """Two answers of each person."""
    y = np.random.default_rng(seed).normal(0.3, 1, (n, 2))
    with pm.Model(coords={"person": range(n), "answer": range(2)}) as model:
        mu = pm.Normal("mu", 0, 1, dims="answer")
        pm.Normal("y", mu, pm.LogNormal("s", 0, 0.5), observed=y, dims=("person", "answer"))
    return model, {"y": (-6, 6)}


ROADS = {"scores": regression, "records": answers, "cells": regression, "sums": coin}


def declared(method: str, n: int = N, seed: int = 0, **words: Any) -> pmp.PrivateModel:
    model, domain = ROADS[method](n, seed)
    return pmp.privatize(model, records="person", domain=domain, **words)


QUICK = {
    ("scores", "substitute"),
    ("records", "substitute"),
    ("cells", "add_remove"),
    ("sums", "substitute"),
}


def cases() -> list[Any]:
    """Each kind under each relation; one of each kind in the fast suite."""
    return [
        pytest.param(*one, marks=() if one in QUICK else pytest.mark.audit)
        for one in itertools.product(ROADS, ("substitute", "add_remove"))
    ]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("method", "neighbors"), cases())
def test_a_summary_is_planned_released_modeled_and_loaded(method, neighbors, tmp_path):
    private = declared(method, neighbors=neighbors)
    plan = pmp.calibrate(private, epsilon=2, delta=1e-6, release="summary", method=method, n=(
        N if neighbors == "add_remove" else None
    ))  # fmt: skip
    ledger = pmp.Ledger(epsilon=2, delta=1e-5, neighbors=neighbors)
    summary = pmp.summarize(
        plan, ledger=ledger, save=tmp_path / "s.nc", progressbar=False, accept=True
    )
    assert len(ledger.entries) == 1
    assert summary.guarantee.epsilon(1e-6) <= 2
    model = summary.model()
    names = {rv.name for rv in private.base.free_RVs}
    assert {rv.name for rv in model.free_RVs} == names
    assert "person" not in model.coords
    assert np.isfinite(model.compile_logp()(model.initial_point()))
    center, covariance = plan.mechanism.start(summary.released)
    found = plan.mechanism.parameters.natural(center[None])
    assert all(np.isfinite(values).all() for values in found.values())
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    loaded = pmp.load(tmp_path / "s.nc")
    assert loaded == summary
    again = loaded.model(declared(method, seed=5, neighbors=neighbors), accept=True)
    point = model.initial_point()
    assert again.compile_logp()(point) == pytest.approx(model.compile_logp()(point), rel=1e-9)
    if neighbors == "add_remove":
        assert plan.n is None
        assert summary.facts["n"] is None
        assert str(N) not in repr(summary) + plan.summary().replace(f"{N} records", "")


@pytest.mark.thin(3)
@pytest.mark.parametrize("method", ROADS)
def test_plans_do_not_depend_on_the_data_nor_on_a_protected_number(method):
    words = {"epsilon": 2, "delta": 1e-6, "release": "summary", "method": method, "n": N}
    one, two = (
        pmp.calibrate(declared(method, n, seed, neighbors="add_remove"), **words)
        for n, seed in ((N, 0), (N + 7, 1))
    )
    assert one.fingerprint == two.fingerprint
    assert one.summary() == two.summary()
    assert one.mechanism.facts == two.mechanism.facts


def log_density(summary: pmp.Summary, private: pmp.PrivateModel) -> tuple[Any, dict[str, Any]]:
    """The compiled log density of a summary's model, and a point of it."""
    model = summary.model(private, accept=True)
    return model.compile_logp(), model.initial_point()


@pytest.mark.thin(2)
@pytest.mark.parametrize("method", ROADS)
def test_equal_summaries_of_two_data_sets_give_one_model(method):
    """Plan and model read public facts and what was released: never the records, nor which."""
    words = {"epsilon": 2, "delta": 1e-6, "release": "summary", "method": method}
    first, second = (declared(method, seed=seed) for seed in (0, 1))
    plan, other = (pmp.calibrate(private, **words) for private in (first, second))
    assert (plan.fingerprint, plan.summary()) == (other.fingerprint, other.summary())
    summary = pmp.summarize(plan, random_seed=3, progressbar=False, accept=True)
    released = other.mechanism.log_likelihood(summary.released)
    theta = plan.mechanism.parameters.draws(5, 1)
    of_first = plan.mechanism.log_likelihood(summary.released)
    np.testing.assert_array_equal(released(theta), of_first(theta))
    (logp, point), (logp_other, _) = (log_density(summary, p) for p in (first, second))
    assert logp(point) == logp_other(point)
    another = pmp.summarize(other, random_seed=3, progressbar=False, accept=True)
    assert log_density(another, second)[0](point) != logp(point)  # other records do tell


def test_a_parameter_that_nothing_reads_makes_no_hierarchy():
    """The caution of hierarchies is for parameters above those that records read."""

    def facts(above):
        with pm.Model(coords={"person": range(N)}) as model:
            b = pm.Normal("b", pm.Normal("above", 0, 1) if above else 0, 1)
            if not above:
                pm.Normal("unused", 0, 1)
            x = pm.Data("x", np.linspace(-1, 1, N), dims="person")
            pm.Bernoulli("y", logit_p=b * x, observed=np.arange(N) % 2, dims="person")
        private = pmp.privatize(model, records="person", domain={"x": (-1, 1)})
        plan = pmp.calibrate(private, epsilon=4, delta=1e-6, release="summary", method="scores")
        return plan.mechanism.facts["hierarchy"], plan.summary()

    (lone, text), (is_hierarchy, warned) = facts(False), facts(True)
    assert (lone, is_hierarchy) == (False, True)
    assert "WARNING: a hierarchy" in warned
    assert "a hierarchy" not in text
    assert "computed for x spread evenly over the domain" in text


def test_several_answers_are_sent_to_a_method_that_takes_them():
    with pm.Model(coords={"person": range(N), "answer": range(2)}) as model:
        y = np.zeros((N, 2))
        pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=y, dims=("person", "answer"))
    private = pmp.privatize(model, records="person", domain={"y": (-3, 3)})
    words = {"epsilon": 2, "delta": 1e-6, "release": "summary"}
    with pytest.raises(pmp.errors.PymcPrivateError, match='method="records"'):
        pmp.calibrate(private, method="cells", **words)
    assert pmp.calibrate(private, method="records", **words).method == "records"


def test_cells_that_assume_the_law_of_covariates_are_the_last_resort(monkeypatch):
    private = declared("scores")
    plan = pmp.calibrate(private, epsilon=2, delta=1e-6, release="summary")
    assert [method for method, _ in plan.weighed] == ["scores"]
    assert "'x' as uniform within a cell" in plan.summary()
    others = {k: v for k, v in choose_mechanism.MECHANISMS.items() if k != "scores"}
    monkeypatch.setattr(
        choose_mechanism, "MECHANISMS", others
    )  # put back, an entry is the last one
    alone = pmp.calibrate(private, epsilon=2, delta=1e-6, release="summary")
    assert alone.method == "cells"
    assert any("uniform within a cell" in caution.text for caution in alone.cautions)


def test_cells_alone_are_pure():
    plan = pmp.calibrate(declared("cells"), epsilon=1, release="summary")
    assert plan.method == "cells"
    assert plan.guarantee.pure_epsilon <= 1
    assert "delta=0" in plan.summary()
    paid = pmp.calibrate(
        declared("cells"), epsilon=1, delta=1e-6, release="summary", method="cells"
    )
    assert paid.charged_delta == 0.0
    assert "delta = 0 (pure)" in paid.summary()
    with pytest.raises(pmp.errors.DomainError, match="Gaussian noise"):
        pmp.calibrate(declared("scores"), epsilon=1, release="summary", method="scores")


def flat() -> pmp.PrivateModel:
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Bernoulli("y", logit_p=pm.Flat("a"), observed=np.ones(N, int), dims="person")
    return pmp.privatize(model, records="person")


def many() -> pmp.PrivateModel:
    with pm.Model(coords={"person": range(N), "k": range(5)}) as model:
        x = pm.Data("x", np.zeros(N), dims="person")
        mu = pm.Normal("mu", 0, 1, dims="k") + x[:, None]
        pm.StudentT("y", nu=4, mu=mu, sigma=1.0, observed=np.zeros((N, 5)), dims=("person", "k"))
    return pmp.privatize(model, records="person", domain={"y": (-3, 3), "x": (-1, 1)})


@pytest.mark.parametrize(
    ("make", "text"), [(flat, "improper"), (many, "no summary fits")], ids=["flat", "five"]
)
def test_models_without_a_summary_are_refused_with_reasons(make, text):
    with pytest.raises((pmp.errors.DomainError, pmp.errors.Unsupported), match=text) as caught:
        pmp.calibrate(make(), epsilon=1, delta=1e-6, release="summary")
    assert caught.value.do


@pytest.mark.audit
@pytest.mark.parametrize("method", ROADS)
def test_simulated_intervals_hold(method):
    plan = pmp.calibrate(declared(method), epsilon=1, delta=1e-6, release="summary", method=method)
    found = plan.coverage(simulations=30, progressbar=False)
    assert not found.falls_short
    assert found.failed == 0


def test_a_summary_whose_model_cannot_be_built_is_not_charged(monkeypatch):
    def fail(*arguments, **words):
        raise NotImplementedError("planted")

    ledger = pmp.Ledger(epsilon=2, delta=1e-5)
    plan = pmp.calibrate(declared("sums"), epsilon=2, delta=1e-6, release="summary", method="sums")
    monkeypatch.setattr(pmp.Summary, "model", fail)
    with pytest.raises(pmp.errors.Unsupported, match="NotImplementedError: planted"):
        pmp.summarize(plan, ledger=ledger, progressbar=False)
    assert ledger.entries == ()
