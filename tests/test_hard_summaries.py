"""Hard use of what is made of a summary: checks, second rounds, its models and its report.

The promise is that of `test_hard_use`: a result or a refusal in words of ours, and what is refused
has charged nothing. One model serves all cases.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_private as pmp
from tests import test_hard_use as hard
from tests.summaries.tables.table_models import frame, placeholders

N = 2000
SLOW = ("summarize", "summarize a table", "refine")
"""Cases that release a summary wherever their arguments are right."""


@cache
def model() -> pm.Model:
    return hard.logistic(np.random.default_rng(1).uniform(-0.7, 0.7, (N, 2)))


@cache
def private() -> pmp.PrivateModel:
    return pmp.privatize(model(), records="person", domain={"X": pmp.Ball(1.0)})


@cache
def plan() -> pmp.SummaryPlan:
    words = {"release": "summary", "method": "scores", "progressbar": False}
    return pmp.calibrate(private(), epsilon=1.5, delta=1e-3, **words)


@cache
def summary() -> pmp.Summary:
    return pmp.summarize(plan(), ledger=hard.ledger(), name="main", progressbar=False)


@cache
def draws() -> xr.Dataset:
    values = np.random.default_rng(2).normal(0, 1, (2, 300, 2))
    coords = {"feature": ["a", "b"]}
    return xr.Dataset({"beta": (("chain", "draw", "feature"), values)}, coords=coords)


@cache
def table_plan() -> pmp.SummaryPlan:
    """Of seven placeholder rows."""
    words = {"release": "summary", "method": "scores", "progressbar": False}
    return pmp.calibrate(placeholders(N), epsilon=3.0, delta=1e-3, **words)


@cache
def check_plan() -> Any:
    return pmp.check_plan(summary(), ["link"], epsilon=5, delta=1e-3)


@cache
def refinement_plan() -> Any:
    return pmp.summaries.refinement_plan(summary(), epsilon=20)


def paid(**words: Any) -> dict[str, Any]:
    """Keywords of everything that charges, and a ledger that nothing has used."""
    plain = {"name": "x", "again": False, "data_version": "", "random_seed": None}
    return {"ledger": hard.ledger(), "save": None} | plain | words


CASES: tuple[hard.Case, ...] = (
    (
        "check_plan",
        pmp.check_plan,
        lambda: {
            "summary": summary(),
            "what": ["link"],
            "epsilon": 5.0,
            "delta": 1e-3,
            "private": None,
            "at": None,
        },
    ),
    ("check", pmp.check, lambda: paid(plan=check_plan(), private=None, progressbar=False)),
    (
        "refinement_plan",
        pmp.summaries.refinement_plan,
        lambda: {"summary": summary(), "epsilon": 20.0, "private": None},
    ),
    (
        "refine",
        pmp.refine,
        lambda: paid(
            what=refinement_plan(), epsilon=None, private=None, progressbar=False, accept=True
        ),
    ),
    (
        "summarize",
        pmp.summarize,
        lambda: paid(
            what=plan(), epsilon=None, delta=0.0, progressbar=False, accept_prior=True,
            accept=True, method="auto", reference=None, n=None, data=None, columns=None, id=None,
        ),
    ),
    (
        "summarize a table",
        lambda **words: pmp.summarize(
            table_plan(), ledger=hard.ledger(), progressbar=False, accept=True, **words
        ),
        lambda: {"data": frame(N), "columns": None, "id": None},
    ),
    (
        "coverage",
        lambda **words: plan().coverage(**words),
        lambda: {
            "simulations": 2, "levels": (0.5, 0.9), "draws": 300, "random_seed": 0,
            "progressbar": False, "reference": None,
        },
    ),
    ("plot of a plan", lambda ax: hard.shown(plan().plot(ax)), lambda: {"ax": None}),
    ("model", lambda **words: summary().model(**words), lambda: {"private": None, "accept": True}),
    (
        "reuse",
        lambda **words: summary().reuse(**words),
        lambda: {"private": private(), "original": None, "accept": True},
    ),
    (
        "power_scaling",
        pmp.criticism.power_scaling,
        lambda: {"summary": summary(), "draws": draws(), "prior": None, "var_names": None},
    ),
    ("report", pmp.report, lambda: {"release": summary(), "ledger": None}),
    ("compare", pmp.compare, lambda: {"release": hard.release(), "idata": draws()}),
)  # fmt: skip


@pytest.mark.audit
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_what_is_made_of_a_summary_survives_everything(case, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # save="x" is a file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(case[1](**case[2]()))
    names = list(case[2]())
    step = 4 if case[0] in SLOW else min(len(names), 2)
    for place, name in enumerate(names):  # of several each gets every second or fourth value
        junk = hard.todays(place, step)
        for make in junk:
            hard.use(case, {name: make()})
