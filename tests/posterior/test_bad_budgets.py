"""Regions, metrics and budgets that cannot be: a clear error, and nothing is charged."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import BudgetExceeded, DomainError, PymcPrivateError, Unsupported


def coins(prior=lambda: pm.Normal("slope", 0, 1), **keywords):
    with pm.Model(coords={"i": range(6)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, 6), dims="i")
        pm.Bernoulli("y", logit_p=prior() * x, observed=[0, 1, 0, 1, 1, 0], dims="i")
    return pmp.privatize(model, records="i", domain={"x": (-1, 1)}, **keywords)


def shifted():
    """A mean that moves the outcome by 2 nats at least, whatever the parameter."""
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Normal("y", 0.1 * pm.Normal("a", 0, 1), 1, observed=np.zeros(4), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-3, 3)})


def flat():
    return coins(lambda: pm.Flat("slope"))


def boxed():
    return pmp.trim(coins(), box={"slope": (-1, 1)})


def verb_named(name):
    return getattr(pmp, name, None) or getattr(pmp.certificates, name)


REFUSED = {
    "L below the least of ell": (
        lambda: pmp.trim(shifted(), lipschitz=0.5), DomainError, "so little"
    ),
    "L that is not positive": (
        lambda: pmp.trim(coins(), lipschitz=-1.0), DomainError, "positive number"
    ),
    "an empty box": (
        lambda: pmp.trim(coins(), box={"slope": (2, 1)}), DomainError, "empty"
    ),
    "a mass of one": (lambda: pmp.trim(coins(), mass=1.0), DomainError, "probability"),
    "a mass of zero": (lambda: pmp.trim(coins(), mass=0.0), DomainError, "probability"),
    "a mass above one": (lambda: pmp.trim(coins(), mass=95), DomainError, "probability"),
    "a mass of NaN": (lambda: pmp.trim(coins(), mass=np.nan), DomainError, "probability"),
    "a mass in words": (lambda: pmp.trim(coins(), mass="most"), DomainError, "probability"),
    "a box of nobody": (lambda: pmp.trim(coins(), box=(0, 1)), DomainError, "names parameters"),
    "an epsilon in words": (lambda: pmp.calibrate(coins(), epsilon="1"), DomainError, "epsilon"),
    "a delta in words": (
        lambda: pmp.calibrate(coins(), epsilon=1.0, delta="little"), DomainError, "delta"
    ),
    "a power in words": (lambda: pmp.temper(coins(), "half"), DomainError, "power"),
    **{
        f"{verb} of a model that was not declared": (
            lambda verb=verb, rest=rest: verb_named(verb)(coins().base, **rest),
            DomainError, "no private model",
        )
        for verb, rest in {
            "calibrate": {"epsilon": 1.0}, "certify": {}, "clip": {"lower": -1.0},
            "lipschitz_tail": {}, "temper": {"power": 0.5}, "trim": {"mass": 0.9},
        }.items()
    },
    "an improper prior with a mass": (
        lambda: pmp.trim(flat(), mass=0.9), DomainError, "improper prior"
    ),
    "an improper prior to simulate": (
        lambda: flat().prior_predictive(3), DomainError, "improper prior"
    ),
    "an improper prior to calibrate": (
        lambda: pmp.calibrate(flat(), epsilon=1.0, delta=1e-6), DomainError, "improper prior"
    ),
    "a metric of a variable that is not private": (
        lambda: coins(neighbors=pmp.Metric({"z": "absolute", "x": "absolute", "y": "hamming"})),
        DomainError, "z",
    ),
    "no epsilon": (lambda: pmp.calibrate(coins(), epsilon=0.0), DomainError, "epsilon"),
    "an infinite epsilon": (
        lambda: pmp.calibrate(coins(), epsilon=np.inf), DomainError, "epsilon"
    ),
    "delta of one": (
        lambda: pmp.calibrate(coins(), epsilon=1.0, delta=1.0), DomainError, "delta"
    ),
    "a budget below the cost, untempered": (
        lambda: pmp.calibrate(boxed(), epsilon=0.01, temper=False),
        BudgetExceeded, "untempered",
    ),
    "a sampler that costs more delta than there is": (
        lambda: pmp.calibrate(
            boxed(), epsilon=1.0, delta=1e-6, draws=10, sampler=pmp.samplers.Nuts(tv=1e-3)
        ),
        Unsupported, "more delta than there is",
    ),
    "a number of records where it is public": (
        lambda: pmp.calibrate(coins(), epsilon=1.0, n=99), DomainError, "add/remove"
    ),
}  # fmt: skip


@pytest.mark.thin(12)
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_do(name):
    ask, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message) as refusal:
        ask()
    assert "allowed" in str(refusal.value)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": -1.0},
        {"epsilon": 1.0, "delta": 2.0},
        {"epsilon": 1.0, "delta": 1e-6, "sampler": pmp.samplers.Nuts(tv=1e-3)},
        {"epsilon": 5.0, "delta": 1e-6},  # more than the ledger has
    ],
)
def test_nothing_is_charged(budget):
    ledger = pmp.Ledger(epsilon=2, delta="1e-4")
    with pytest.raises(PymcPrivateError):
        pmp.sample(boxed(), draws=3, ledger=ledger, **budget)
    assert ledger.entries == ()


@pytest.mark.parametrize("release", ["draws", "summary"])
def test_a_delta_above_one_record_in_all_is_told(release):
    with pm.Model(coords={"i": range(500)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=np.zeros(500, int), dims="i")
    private = pmp.privatize(model, records="i", domain={})
    words = {"epsilon": 1.0, "release": release}
    told = [
        "above 1/n = 0.002" in pmp.calibrate(private, delta=delta, **words).summary()
        for delta in (0.01, 1e-3)
    ]
    assert told == [True, False]
