"""A logistic model of placeholder rows, the same of its records, and their table."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.scores import pilot_part

N = 9000
NAMES = ["age", "income"]
DOMAIN: dict[str, Any] = {"X": pmp.Ball(1.0)}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def frame(n: int = N, seed: int = 1) -> pd.DataFrame:
    """Rows of which some lie outside the ball."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({name: rng.uniform(-0.8, 0.8, n) for name in NAMES})
    chance = 1 / (1 + np.exp(-(0.3 + 1.2 * found.age - 0.8 * found.income)))
    return found.assign(y=rng.binomial(1, chance).astype("int64"), person=np.arange(n))


def logistic(X: Any, y: Any) -> pm.Model:
    with pm.Model(coords={"person": range(len(y)), "feature": NAMES}) as model:
        rows = pm.Data("X", np.asarray(X), dims=("person", "feature"))
        eta = pm.Normal("a", 0, 1) + rows @ pm.Normal("b", 0, 1, dims="feature")
        pm.Bernoulli("y", logit_p=eta, observed=np.asarray(y), dims="person")
    return model


def placeholders(n: int = N, **words: Any) -> pmp.PrivateModel:
    """The model of seven made-up rows."""
    model = logistic(np.zeros((7, 2)), [0, 1, 0, 1, 0, 1, 1])
    return pmp.privatize(model, records="person", domain=DOMAIN, n=n, **words)


@cache
def split_plan(epsilon: float = 1.0) -> Any:
    """A plan whose pilots read a part of 4,000 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot_part, "LEAST_RECORDS", 4000)
        patch.setattr(pilot_part, "LEAST_PILOTS", 1000)
        words = BUDGET | {"epsilon": epsilon}
        return pmp.calibrate(placeholders(4000), release="summary", method="scores", **words)


def own_records(table: pd.DataFrame, **words: Any) -> pmp.PrivateModel:
    """The model of all rows."""
    model = logistic(table[NAMES].to_numpy(), table.y.to_numpy())
    return pmp.privatize(model, records="person", domain=DOMAIN, **words)


def coin(n: int = N, **words: Any) -> pmp.PrivateModel:
    """A coin, of two made-up tosses."""
    with pm.Model(coords={"person": range(2)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=[0, 1], dims="person")
    return pmp.privatize(model, records="person", n=n, **words)
