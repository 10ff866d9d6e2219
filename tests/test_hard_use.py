"""Hard use: whatever a public function is given, it answers, or refuses in words of ours.

Each case is a call that works, by keywords; one or two of its arguments are replaced by something
else. Allowed are a result, an error of the package, a ValueError, a TypeError, or the system's word
on a file. Anything else (an IndexError, a failed assertion, a LinAlgError) is a fault, and so is an
error that a line of ours ran into where it should have looked. What is refused charges nothing.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import fractions
import pickle
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private import counts, mollifiers, planning, queries
from pymc_private.errors import PymcPrivateError

N = 12
ALLOWED = (PymcPrivateError, ValueError, TypeError, OSError)


def read_only() -> np.ndarray:
    made = np.array([0.25, 0.75])
    made.flags.writeable = False
    return made


JUNK: tuple[Callable[[], Any], ...] = tuple(
    (lambda value=value: value)
    for value in (
        None,
        True,
        -1,
        0,
        1,
        3,
        0.5,
        1.5,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e308,
        5e-324,
        10**400,
        1j,
        "",
        "x",
        "beta",
        "person",
        "\ud800",
        "a" * 3000,
        "né 数 🙂",
        b"x",
        (),
        [],
        [1, 2],
        [[1, 2], [3]],
        [None],
        ["x", 1],
        {},
        {"x": 1},
        {"beta": (0, 1)},
        {1: 2},
        {"\udfff": (0, 1)},
        {"y": (1, 0)},
        {"x": (float("nan"), 1)},
        {"x": "ball"},
        set(),
        {0, 1},
        frozenset({"a", 1}),
        range(3),
        range(2000),
        object(),
        len,
        lambda *given: "?",
        int,
        Ellipsis,
        NotImplemented,
        fractions.Fraction(1, 3),
        decimal.Decimal("NaN"),
        decimal.Decimal("0.1"),
        decimal.Decimal("Infinity"),
        2**63,
        -(2**63) - 1,
        -0.0,
        datetime.date(2026, 1, 1),
        np.float32(0.5),
        np.int8(-1),
        np.datetime64("2026-01-01"),
        np.array(0.5),
        np.array(True),
        np.array("x"),
        np.uint64(2**63),
        np.bool_(True),
        np.str_("x"),
        np.array([]),
        np.zeros((0, 3)),
        np.array([np.nan, 1.0]),
        np.array([[1.0, np.inf]]),
        np.array(["a", None], dtype=object),
        np.array([1 + 1j]),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.zeros((2, 2, 2, 2)),
        np.array([True, False]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.array([(1, 2.0)], dtype="i4,f8"),
        read_only(),
        pd.Series([1.0, None]),
        pd.Series(["a", "b"], index=[0, 0]),
        pd.DataFrame(),
        pd.DataFrame({"x": [1, 2]}),
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
        pd.NA,
        pd.NaT,
        xr.DataArray([1.0, 2.0], dims="x"),
        xr.Dataset(),
        xr.Dataset({"beta": (("chain", "draw"), [[np.nan]])}),
        xr.Dataset({"\ud800": (("chain", "draw"), [[1.0]])}),
    )
)
"""Makers of what nobody should pass, and of a few things that are all right."""


def polars_values() -> list[Any]:
    polars = pytest.importorskip("polars")
    return [
        polars.Series("x", [1, None]),
        polars.DataFrame({"x": [1, 2]}),
        polars.LazyFrame({"x": [1]}),
    ]


def logistic(x: np.ndarray) -> pm.Model:
    with pm.Model(coords={"person": range(len(x)), "feature": ["a", "b"]}) as made:
        X = pm.Data("X", x, dims=("person", "feature"))
        beta = pm.Normal("beta", 0, 1, dims="feature")
        pm.Bernoulli("y", logit_p=X @ beta, observed=np.arange(len(x)) % 2, dims="person")
    return made


@cache
def model() -> pm.Model:
    return logistic(np.full((N, 2), 0.25))


@cache
def private() -> pmp.PrivateModel:
    return pmp.privatize(model(), records="person", domain={"X": pmp.Ball(1.0)})


@cache
def conjugate() -> pmp.PrivateModel:
    """A model that is planned and drawn in a fraction of a second."""
    with pm.Model(coords={"person": range(N)}) as made:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.arange(N) % 2, dims="person")
    return pmp.privatize(made, records="person")


@cache
def protected() -> pmp.PrivateModel:
    """The same, where the number of records is protected."""
    return pmp.privatize(conjugate().model, records="person", neighbors="add_remove")


@cache
def varying() -> pm.Model:
    """A model with an effect of each person, to be integrated out."""
    with pm.Model(coords={"person": range(N)}) as made:
        logit = pm.Normal("mu") + pm.Normal("effect", dims="person")
        pm.Bernoulli("y", logit_p=logit, observed=np.arange(N) % 2, dims="person")
    return made


@cache
def many(neighbors: str = "substitute") -> pmp.PrivateModel:
    """Enough records for a summary that is worth its noise."""
    made, domain = logistic(np.full((400, 2), 0.25)), {"X": pmp.Ball(1.0)}
    return pmp.privatize(made, records="person", domain=domain, neighbors=neighbors)


@cache
def plan() -> pmp.Plan:
    return pmp.calibrate(conjugate(), epsilon=1.0, draws=[1, 2], progressbar=False)


def shown(axes: Any) -> str:
    plt.close(axes.figure)
    return repr(axes)


@cache
def release() -> pmp.Release:
    values = np.random.default_rng(1).uniform(-1, 1, (1, 9, 2))
    posterior = xr.Dataset(
        {"beta": (("chain", "draw", "feature"), values)}, coords={"feature": ["a", "b"]}
    )
    facts = {"name": "main", "delta": 1e-6, "ranges": {"beta": [-1, 1]}}
    return pmp.Release(posterior, pmp.Guarantee.bounded_range_of(0.1, draws=9), facts)


def ledger(**words: Any) -> pmp.Ledger:
    return pmp.Ledger(**({"epsilon": 1e6, "delta": 0.5} | words))


def mollified_draws(**words: Any) -> Any:
    made = mollifiers.mollify(**words)
    return made.sample(1, ledger=ledger(neighbors="any"))


Case = tuple[str, Callable[..., Any], Callable[[], dict[str, Any]]]
TABLE = [[4, 2], [3, 1]]
FAST: tuple[Case, ...] = (
    ("Ball", pmp.Ball, lambda: {"radius": 1.0, "center": 0.0, "scale": 1.0}),
    ("Interval", pmp.Interval, lambda: {"lower": 0, "upper": 1}),
    ("Categories", pmp.Categories, lambda: {"values": [0, 1]}),
    ("Counts", pmp.Counts, lambda: {"total": 3}),
    ("Scale", pmp.Scale, lambda: {"lower": [0, 0], "upper": [1, 2]}),
    ("Scale()", lambda rows: pmp.Scale([0, 0], [1, 2])(rows), lambda: {"rows": [[0.5, 1.0]]}),
    (
        "Ledger",
        pmp.Ledger,
        lambda: {
            "epsilon": 1,
            "delta": 1e-6,
            "neighbors": "substitute",
            "shares": None,
            "data": "x",
        },
    ),
    (
        "charge",
        lambda **words: ledger().charge(**words),
        lambda: {"guarantee": pmp.Guarantee.pure(0.1), "label": "x", "delta": 0},
    ),
    ("pure", pmp.Guarantee.pure, lambda: {"epsilon": 1.0, "neighbors": "substitute"}),
    ("gdp", pmp.Guarantee.gdp_of, lambda: {"mu": 1.0}),
    ("approximate", pmp.Guarantee.approximate, lambda: {"epsilon": 1.0, "delta": 1e-6}),
    ("range", pmp.Guarantee.bounded_range_of, lambda: {"R": 0.1, "draws": 2}),
    ("epsilon", lambda delta: pmp.Guarantee.gdp_of(0.3).epsilon(delta), lambda: {"delta": 1e-6}),
    (
        "predict",
        pmp.predict,
        lambda: {
            "draws": release(),
            "what": "y",
            "model": model(),
            "bounds": (0, 1),
            "delta": 0.05,
            "X": [[0.1, 0.2]],
        },
    ),
    (
        "mean of a posterior",
        pmp.mean,
        lambda: {"draws": release().posterior, "name": "beta", "delta": 0.05},
    ),
    ("mean", pmp.mean, lambda: {"draws": release(), "name": "beta", "delta": 0.05}),
    ("quantile", pmp.quantile, lambda: {"draws": release(), "name": "beta", "q": [0.1, 0.5]}),
    ("prob", pmp.prob, lambda: {"draws": release(), "event": "beta[0] > 0", "delta": 0.05}),
    (
        "answer",
        pmp.answer,
        lambda: {
            "release": release(),
            "utility": "beta[0] > 0",
            "responses": [1, 2],
            "queries": None,
            "delta": 0.05,
            "bounds": (0, 1),
        },
    ),
    ("choose", queries.choose, lambda: {"release": release(), "hypotheses": {"up": "beta[0] > 0"}}),
    ("compare", pmp.compare, lambda: {"release": release(), "idata": release().posterior}),
    ("load", pmp.load, lambda: {"path": "nowhere.nc"}),
    ("open", pmp.Ledger.open, lambda: {"path": "nowhere.sqlite", "read_only": True}),
    ("beta_divergence", pmp.beta_divergence, lambda: {"private": private(), "beta": 0.5}),
    (
        "noisy_counts",
        counts.noisy_counts,
        lambda: {"counts": TABLE, "epsilon": 1.0, "delta": 0, "ledger": ledger(), "name": "x"},
    ),
    (
        "dirichlet",
        pmp.dirichlet,
        lambda: {
            "counts": [5, 3, 1],
            "epsilon": 1.0,
            "delta": 0,
            "prior": None,
            "ledger": ledger(),
            "name": "x",
        },
    ),
    ("constants", pmp.constants, lambda: {"model": model(), "records": "person"}),
    (
        "privatize",
        pmp.privatize,
        lambda: {
            "model": model(),
            "records": "person",
            "public": (),
            "domain": {"X": pmp.Ball(1.0)},
            "neighbors": "substitute",
            "records_per_unit": 1,
        },
    ),
    ("trim", pmp.trim, lambda: {"private": private(), "box": {"beta": (-1, 1)}}),
    ("temper", pmp.temper, lambda: {"private": private(), "power": 0.5}),
    ("clip", pmp.clip, lambda: {"private": private(), "lower": -3, "upper": 0}),
    (
        "study",
        planning.study,
        lambda: {"R": 1.0, "information": 1.0, "delta": 1e-6, "epsilons": [1.0], "draws": [1, 10]},
    ),
    ("robustness", planning.robustness, lambda: {"R": 1.0, "records": [1, 2]}),
    (
        "adversary",
        planning.adversary,
        lambda: {"guarantee": pmp.Guarantee.pure(1.0), "records": [1]},
    ),
)
SLOW: tuple[Case, ...] = (
    ("lint", pmp.lint, lambda: {"model": model(), "records": "person"}),
    (
        "marginalize",
        lambda model, name, points: pmp.marginalize(model, name, points=points),
        lambda: {"model": varying(), "name": "effect", "points": 3},
    ),
    (
        "certify",
        pmp.certify,
        lambda: {"private": private(), "tolerance": 0.05, "seconds": 0.1, "progressbar": False},
    ),
    (
        "calibrate",
        pmp.calibrate,
        lambda: {
            "private": conjugate(),
            "epsilon": 1.0,
            "delta": 1e-6,
            "draws": 2,
            "temper": True,
            "n": None,
            "clip": None,
            "sampler": "auto",
            "strict": False,
            "release": "draws",
            "method": "auto",
            "progressbar": False,
        },
    ),
    (
        "calibrate with covariates",
        pmp.calibrate,
        lambda: {"private": private(), "epsilon": 1.0, "reference": None, "progressbar": False},
    ),
    (
        "calibrate a summary",
        pmp.calibrate,
        lambda: {
            "private": many(),
            "epsilon": 1.0,
            "delta": 1e-3,
            "reference": None,
            "n": None,
            "release": "summary",
            "method": "scores",
            "progressbar": False,
        },
    ),
    (
        "calibrate where the number of records is protected",
        lambda private, n: pmp.calibrate(private, epsilon=1.0, n=n, progressbar=False),
        lambda: {"private": protected(), "n": None},
    ),
    (
        "summarize where the number of records is protected",
        lambda private, n: pmp.calibrate(
            private,
            epsilon=1.0,
            delta=1e-3,
            release="summary",
            method="scores",
            n=n,
            progressbar=False,
        ),
        lambda: {"private": many("add_remove"), "n": None},
    ),
    (
        "sample a model",
        pmp.sample,
        lambda: {
            "what": conjugate(),
            "epsilon": 1.0,
            "delta": 1e-6,
            "draws": 1,
            "ledger": ledger(),
            "name": "x",
            "accept_prior": True,
            "progressbar": False,
        },
    ),
    (
        "sample a plan",
        pmp.sample,
        lambda: {
            "what": plan(),
            "draws": None,
            "epsilon": None,
            "delta": 0.0,
            "sampler": "auto",
            "ledger": ledger(),
            "name": "x",
            "data_version": "",
            "save": None,
            "again": False,
            "random_seed": None,
            "executor": None,
            "accept_prior": True,
            "progressbar": False,
        },
    ),
    ("at", lambda draws: plan().at(draws), lambda: {"draws": 1}),
    ("plot", lambda ax: shown(plan().plot(ax)), lambda: {"ax": None}),
    ("report", pmp.report, lambda: {"release": release(), "ledger": None}),
    (
        "mollify",
        mollified_draws,
        lambda: {
            "target": [0.1, 0.4, 0.2],
            "reference": mollifiers.Box(0, 1),
            "epsilon": 1.0,
            "kind": None,
            "window": "symmetric",
        },
    ),
)


def is_in_words_of_ours(error: BaseException) -> bool:
    """Whether a `raise` of the package made it, or it is the system's word on a file."""
    if isinstance(error, PymcPrivateError | OSError):
        return True
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    raised = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return raised and "pymc_private" in code.co_filename


def use(case: Case, replaced: dict[str, Any]) -> None:
    """Call with some arguments replaced; what comes back can be shown and, mostly, pickled."""
    name, function, valid = case
    words = valid() | replaced
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert repr(function(**words))
            return
        except ALLOWED as found:
            error = found
    text = str(error)
    assert text.strip(), f"{name} refuses {list(replaced)} without a word"
    if not any(map(callable, replaced.values())):  # whose own errors are theirs
        assert is_in_words_of_ours(error), f"{name}, {replaced}: {type(error).__name__} {text}"
    assert not any(isinstance(word, pmp.Ledger) and word.entries for word in words.values())
    text.encode()  # no screen and no file can hold a lone surrogate
    if isinstance(error, PymcPrivateError):
        assert str(pickle.loads(pickle.dumps(error))) == text


def replacements(case: Case) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(sorted(case[2]()))
    return st.dictionaries(
        names, st.sampled_from(JUNK).map(lambda make: make()), min_size=1, max_size=2
    )


ANY_FAST = st.integers(0, len(FAST) - 1).flatmap(
    lambda at: st.tuples(st.just(at), replacements(FAST[at]))
)
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=250, derandomize=True, database=None, **QUIET)
@given(drawn=ANY_FAST)
def test_public_functions_answer_or_refuse_in_words_of_ours(drawn) -> None:
    at, replaced = drawn
    use(FAST[at], replaced)


@pytest.mark.parametrize("case", FAST, ids=lambda case: case[0])
def test_the_calls_that_are_disturbed_work_undisturbed(case) -> None:
    if case[0] in ("load", "open"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert case[1](**case[2]()) is not None or case[0] == "charge"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pmp.mean(release().posterior, "beta", delta=decimal.Decimal("0.05")), None),
        (lambda: pmp.temper(private(), np.float32(0.5)), None),
        (lambda: pmp.temper(private(), np.array(0.5)), None),
        (lambda: pmp.trim(private(), box={1: (0, 1)}), "no free variable"),
        (lambda: pmp.Categories(np.array(3)), "numbers PyMC sees"),
        (lambda: pmp.answer(release(), "beta[0] > 0", "yes"), "got: str"),
        (lambda: pmp.answer(release(), "beta[0]", [1], np.array(2)), "lists the queries"),
        (lambda: pmp.predict(release(), model=model(), X=[[1], [1, 2]]), "no array of numbers"),
        (lambda: pmp.predict(release(), np.array([1.0, 2.0]), model=model()), "got: ndarray"),
        (
            lambda: pmp.predict(release(), model=model(), X=[[0, 0]], bounds=[1, 0]),
            "lower < upper",
        ),
        (lambda: pmp.summarize(private(), epsilon=1, accept_prior="no"), "True or False"),
        (lambda: pmp.sample(private(), epsilon=1, again="no"), "True or False"),
        (lambda: pmp.calibrate(private(), epsilon=1, strict="no"), "True or False"),
        (
            lambda: pmp.calibrate(private(), epsilon=1, release="summary", n=np.array([])),
            "records is public",
        ),
        (
            lambda: pmp.calibrate(protected(), epsilon=1, release="summary", n=float("inf")),
            "a whole number",
        ),
        (
            lambda: pmp.calibrate(protected(), epsilon=1, release="summary", n=float("nan")),
            "a whole number",
        ),
        (lambda: pmp.calibrate(protected(), epsilon=1, n=10**400), "a whole number"),
    ],
)
def test_what_looks_like_something_else_is_read_right_or_refused(call, words) -> None:
    if words is None:
        assert repr(call())
        return
    with pytest.raises(PymcPrivateError, match=words):
        call()


@pytest.mark.audit
@pytest.mark.parametrize("case", FAST, ids=lambda case: case[0])
def test_every_argument_of_the_quick_functions_survives_everything(case) -> None:
    extra = polars_values()
    for name in case[2]():
        for value in (*(make() for make in JUNK), *extra):
            use(case, {name: value})


def todays(place: int, step: int) -> Sequence[Callable[[], Any]]:
    """Every step-th thing, from a place that differs between arguments and between days."""
    return JUNK[(place + datetime.date.today().toordinal()) % step :: step]


@pytest.mark.audit
@pytest.mark.parametrize("case", SLOW, ids=lambda case: case[0])
def test_the_slow_functions_survive(case, tmp_path, monkeypatch) -> None:
    """Each argument is replaced by every second thing, today's; about a minute a case at most."""
    monkeypatch.chdir(tmp_path)  # save="x" is a file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(case[1](**case[2]())) or case[0] == "lint"
    for place, name in enumerate(case[2]()):
        for make in todays(place, 2):
            use(case, {name: make()})


@pytest.mark.audit
def test_a_plan_shows_itself_in_every_form() -> None:
    for one in (plan(), plan().at(2)):
        assert one.summary() in repr(one).replace("\n  ", "\n")
        assert one._repr_html_()
        assert len(one.to_frame()) == len(one.frontier)
