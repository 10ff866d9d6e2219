"""Hard use of what is called rarely: Bayes factors, Bayesian networks, synthetic records."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private import audit, certificates, criticism, estimators, mollifiers, samplers
from pymc_private.counts.declared_columns import declare_column
from tests import test_hard_summaries as made
from tests import test_hard_use as hard
from tests.test_hard_functions import naive_bayes


def network(**words: Any) -> Any:
    table = naive_bayes()
    return estimators.DirichletBayesianNetwork(**words, ledger=hard.ledger()).fit(table)


def boosted(**words: Any) -> Any:
    sample = np.random.default_rng(1).uniform(0, 1, (40, 1))
    return mollifiers.MollifiedBoosting(**words, progressbar=False).fit(sample)


def normal() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 0.5, observed=np.linspace(0, 2, 20))
    return model


def bounded() -> Any:
    return pmp.trim(hard.conjugate(), box={"p": (0.1, 0.9)})


def shares() -> pm.Model:
    with pm.Model(coords={"person": range(8)}) as model:
        y = np.full((8, 3), 1 / 3)
        pm.Dirichlet("y", pm.math.stack([pm.Gamma("a", 2, 1), 1.0, 1.0]), observed=y)
    return model


def extended() -> pm.Model:
    """The model of the summary with a product of its covariates."""
    x = made.model()["X"].get_value()
    with pm.Model(coords={"person": range(len(x)), "feature": ["a", "b"]}) as model:
        data = pm.Data("X", x, dims=("person", "feature"))
        beta = pm.Normal("beta", 0, 1, dims="feature")
        bent = pm.Normal("gamma", 0, 1) * data[:, 0] * data[:, 1]
        pm.Bernoulli("y", logit_p=data @ beta + bent, observed=np.arange(len(x)) % 2, dims="person")
    return model


@cache
def plan_of_product() -> Any:
    words: dict[str, Any] = {"at": {"gamma": 0.0}, "epsilon": 5, "delta": 1e-3}
    return pmp.check_plan(made.summary(), extended(), **words)


@cache
def result() -> Any:
    return pmp.check(plan_of_product(), ledger=hard.ledger(), progressbar=False)


def checked() -> dict[str, Any]:
    return {"plan": plan_of_product(), "result": result(), "name": None}


FAST: tuple[hard.Case, ...] = (
    ("log_bayes_factor", criticism.log_bayes_factor, checked),
    ("extended_model", criticism.extended_model, checked),
    (
        "attaining_records",
        audit.attaining_records,
        lambda: {"certificate": pmp.certify(bounded())},
    ),
    (
        "privatize shares",
        lambda **words: pmp.privatize(shares(), **words),
        lambda: {"records": {"y": 0}, "domain": {"y": pmp.Simplex()}, "neighbors": "substitute"},
    ),
    (
        "Bayesian network",
        network,
        lambda: {
            "network": {"a": [], "b": ["a"]}, "epsilon": 1.0, "delta": 1e-5,
            "categories": {"a": (0, 1), "b": (0, 1)}, "target": None, "method": "auto",
            "neighbors": "substitute", "unit": "row", "draws": None, "profile": None,
            "name": None, "random_state": None,
        },
    ),
    (
        "count_tables",
        estimators.count_tables,
        lambda: {
            "data": naive_bayes(), "families": {"a": ("a",)},
            "columns": {"a": declare_column("a", [0, 1])},
        },
    ),
    (
        "lipschitz_tail",
        certificates.lipschitz_tail,
        lambda: {"private": hard.many(), "draws": 200, "beta": 0.05},
    ),
    (
        "predictive_model",
        lambda **words: made.summary().predictive_model(**words),
        lambda: {"private": None, "X": np.zeros((3, 2))},
    ),
)  # fmt: skip
SLOW: tuple[hard.Case, ...] = (
    (
        "diagnose",
        samplers.diagnose,
        lambda: {
            "private": bounded(), "tune": 20, "draws": 20, "chains": 2, "fresh": 3,
            "random_seed": 1,
        },
    ),
    (
        "coupling_evidence",
        samplers.coupling_evidence,
        lambda: {
            "private": bounded(), "pairs": 2, "lag": 5, "most": 50, "random_seed": 1,
            "progressbar": False,
        },
    ),
    (
        "synthesize",
        mollifiers.synthesize,
        lambda: {
            "model": normal(), "draws": 2, "epsilon": 1.0, "total": None, "public": (),
            "constants": "private", "estimate": "trees", "pool": 64,
            "sampling": {"draws": 20, "tune": 20, "chains": 1},
            "ledger": hard.ledger(neighbors="any"), "progressbar": False,
        },
    ),
    (
        "boosting",
        boosted,
        lambda: {
            "epsilon": 1.0, "rounds": 1, "learner": None, "reference": None, "total": None,
            "stretch": False, "random_state": 0,
        },
    ),
    (
        "power of a plan",
        lambda **words: made.plan().power(**words),
        lambda: {
            "effect": 0.5, "parameter": "beta[0]", "null": 0.0, "level": 0.95,
            "simulations": 2, "random_seed": 1, "progressbar": False,
        },
    ),
    (
        "trade-off of a plan",
        lambda **words: made.plan().trade_off(**words),
        lambda: {
            "effect": 0.5, "parameter": "beta[0]", "records": [500], "epsilons": [1.0],
            "simulations": 2, "progressbar": False,
        },
    ),
)  # fmt: skip


@pytest.mark.audit
@pytest.mark.parametrize("case", [*FAST, *SLOW], ids=lambda case: case[0])
def test_what_is_called_rarely_survives_everything(case, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # save="x" is a file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(case[1](**case[2]()))
    step = 12 if case in SLOW else 2  # and others each day
    for place, name in enumerate(case[2]()):
        for make in hard.todays(place, step):
            hard.use(case, {name: make()})


def test_a_progress_bar_that_is_neither_shown_nor_hidden_charges_nothing():
    account = hard.ledger(neighbors="any")
    mollified = mollifiers.mollify([0.1, 0.4, 0.2], mollifiers.Box(0, 1), epsilon=1.0)
    with pytest.raises(pmp.errors.DomainError, match="True or False"):
        mollified.sample(1, ledger=account, progressbar=np.ones(2))
    assert account.entries == ()


@pytest.mark.audit
def test_a_check_whose_progress_bar_is_neither_shown_nor_hidden_charges_nothing():
    account = hard.ledger()
    with pytest.raises(pmp.errors.DomainError, match="True or False"):
        pmp.check(made.check_plan(), ledger=account, progressbar=np.ones(2))
    assert account.entries == ()
