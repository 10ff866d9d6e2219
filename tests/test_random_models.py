"""Models that nobody wrote: planned, released and reported, or refused in words of ours.

Each is put together at random: likelihood, prior, covariate, names, types of data, domain,
neighbors and budget, some of them impossible. Whatever comes of it, no text quotes a record, an
error that says that nothing was charged is right, and what is released costs at most what was
asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError

SECRET = 0.7391827364551
"""A number that stands in the data, and in no text."""
ALLOWED = (PymcPrivateError, ValueError, TypeError, KeyError, NotImplementedError)
"""PyMC itself raises the last two for names and coordinates that it does not take."""

OUTCOMES: dict[str, Callable[[Any, Any], Any]] = {
    "Normal": lambda mu, words: pm.Normal(mu=mu, sigma=1, **words),
    "Normal, free scale": lambda mu, words: pm.Normal(
        mu=mu, sigma=pm.HalfNormal("scale", 1), **words
    ),
    "StudentT": lambda mu, words: pm.StudentT(nu=4, mu=mu, sigma=1, **words),
    "Bernoulli": lambda mu, words: pm.Bernoulli(logit_p=mu, **words),
    "Poisson": lambda mu, words: pm.Poisson(mu=pm.math.exp(mu), **words),
    "Exponential": lambda mu, words: pm.Exponential(lam=pm.math.exp(mu), **words),
    "Gamma": lambda mu, words: pm.Gamma(alpha=2, beta=pm.math.exp(mu), **words),
    "Beta": lambda mu, words: pm.Beta(mu=pm.math.sigmoid(mu), nu=3, **words),
    "Laplace": lambda mu, words: pm.Laplace(mu=mu, b=1, **words),
    "Censored": lambda mu, words: pm.Censored(
        dist=pm.Normal.dist(mu, 1), lower=None, upper=0.9, **words
    ),
    "Mixture": lambda mu, words: pm.NormalMixture(
        w=[0.5, 0.5], mu=pm.math.stack([mu, mu + 2], axis=-1), sigma=1, **words
    ),
}
PRIORS: dict[str, Callable[[str], Any]] = {
    "Normal": lambda name: pm.Normal(name, 0, 1),
    "wide": lambda name: pm.Normal(name, 0, 1e6),
    "Flat": lambda name: pm.Flat(name),
    "Uniform": lambda name: pm.Uniform(name, -1, 1),
    "Cauchy": lambda name: pm.Cauchy(name, 0, 1),
    "Laplace": lambda name: pm.Laplace(name, 0, 1),
    "hierarchy": lambda name: pm.Normal(name, pm.Normal("above", 0, 1), pm.HalfNormal("spread", 1)),
    "Bernoulli": lambda name: pm.Bernoulli(name, 0.5),
}
COVARIATES = ("none", "data", "matrix", "label", "constant", "mean", "order", "public")
NAMES = ("slope", "né 数 🙂", "a b", "a/b", "x::y", "1", "x" * 300, "chain", "draw", "\ud800", "")
VALUES = ("plain", "float32", "integer", "bool", "read-only", "pandas", "masked", "NaN", "inf")


@dataclass(frozen=True)
class Recipe:
    """All that a random model is made of, and what is asked of it."""

    outcome: str
    prior: str
    covariate: str
    name: str
    values: str
    n: int
    labels: str
    domain: Any
    neighbors: str
    per_unit: int
    epsilon: float
    delta: float
    release: str


PLAIN: dict[str, Any] = {
    "outcome": "Bernoulli", "prior": "Normal", "covariate": "none", "name": "slope",
    "values": "plain", "n": 60, "labels": "text", "domain": (0, 1), "neighbors": "substitute",
    "per_unit": 1, "epsilon": 1.0, "delta": 1e-6, "release": "summary",
}  # fmt: skip
ODD: dict[str, tuple[Any, ...]] = {
    "prior": tuple(PRIORS), "name": NAMES, "values": VALUES, "n": (200, 29, 2, 1),
    "labels": ("range", "twice"), "domain": ((-3, 5), (1, 0), (0, float("inf")), {0, 1}, None),
    "neighbors": ("add_remove", "any"), "per_unit": (3, 0), "epsilon": (0.01, 50.0, 1e-9, 1e6),
    "delta": (0.0, 0.5, 1e-300), "release": ("draws", "auto"),
}  # fmt: skip
"""What may stand in the place of an ordinary part, two at a time."""
CHANGES = st.lists(st.sampled_from(sorted(ODD)), max_size=2, unique=True).flatmap(
    lambda parts: st.fixed_dictionaries({part: st.sampled_from(ODD[part]) for part in parts})
)
RECIPES = st.builds(
    lambda outcome, covariate, changes: Recipe(
        **PLAIN | {"outcome": outcome, "covariate": covariate} | changes
    ),
    st.sampled_from(sorted(OUTCOMES)),
    st.sampled_from(COVARIATES),
    CHANGES,
)


def data_of(recipe: Recipe) -> Any:
    """Outcomes in [0, 1], one of them the secret, as some type of array."""
    values = np.random.default_rng(recipe.n).uniform(0, 1, recipe.n).round(2)
    values[0] = SECRET
    if recipe.outcome in ("Bernoulli", "Poisson"):
        values = (values > 0.5).astype(float)
    made = {
        "float32": lambda: values.astype(np.float32), "integer": lambda: values.round().astype(int),
        "bool": lambda: values > 0.5, "pandas": lambda: pd.Series(values),
        "masked": lambda: np.ma.masked_less(values, 0.1),
        "NaN": lambda: np.append(values[1:], np.nan),
        "inf": lambda: np.append(values[1:], np.inf),
    }  # fmt: skip
    found = made.get(recipe.values, lambda: values)()
    if recipe.values == "read-only":
        found.flags.writeable = False
    return found


def model_of(recipe: Recipe) -> pm.Model:
    """The model of a recipe."""
    n, x = recipe.n, np.linspace(0, 1, recipe.n)
    labels = {"range": range(n), "text": [f"p{k}" for k in range(n)], "twice": ["p"] * n}
    with pm.Model(coords={"person": labels[recipe.labels]}) as model:
        slope = PRIORS[recipe.prior](recipe.name)
        held = pm.Data("x", np.stack([x, x], -1), dims=("person", "side"))
        label = pm.Data("label", np.arange(n) % 2, dims="person")
        mu = {
            "none": lambda: slope, "data": lambda: slope * held[:, 0],
            "matrix": lambda: held @ pm.math.stack([slope, slope]),
            "label": lambda: pm.math.stack([slope, -slope])[label],
            "constant": lambda: slope * x, "mean": lambda: slope * (held[:, 0] - held.mean()),
            "order": lambda: slope * held[::-1, 0], "public": lambda: slope * held[:, 1],
        }[recipe.covariate]()  # fmt: skip
        words = {"name": "y", "observed": data_of(recipe), "dims": "person"}
        OUTCOMES[recipe.outcome](mu, words)
    return model


def released(recipe: Recipe, ledger: pmp.Ledger) -> Any:
    """The whole road: a release and the text of its report."""
    domain = {"x": (0, 1), "label": {0, 1}} | ({"y": recipe.domain} if recipe.domain else {})
    if recipe.outcome == "Bernoulli":
        domain.pop("y", None)
    private = pmp.privatize(
        model_of(recipe), records="person", domain=domain, neighbors=recipe.neighbors,
        records_per_unit=recipe.per_unit, public=["x"] if recipe.covariate == "public" else (),
    )  # fmt: skip
    repr(private)
    words = {"epsilon": recipe.epsilon, "delta": recipe.delta, "release": recipe.release}
    words |= {} if recipe.release == "summary" else {"draws": 2}
    plan = pmp.calibrate(private, **words)
    assert plan.summary()
    publish = pmp.summarize if isinstance(plan, pmp.SummaryPlan) else pmp.sample
    return publish(plan, ledger=ledger, name="main", accept_prior=True, progressbar=False)


def followed(summary: pmp.Summary, ledger: pmp.Ledger) -> str:
    """What is made of a summary: its model, a check and a second round, or words of refusal."""
    before, text = len(ledger.entries), ""
    try:
        with summary.model(accept=True) as model:
            assert np.isfinite(model.compile_logp()(model.initial_point()))
    except ALLOWED as error:
        text += str(error)
    for follow in (
        lambda: pmp.check(
            pmp.check_plan(summary, "link", epsilon=3, delta=1e-6, accept=True),
            ledger=ledger, progressbar=False,
        ),
        lambda: pmp.refine(summary, epsilon=3, ledger=ledger, progressbar=False, accept=True),
    ):  # fmt: skip
        try:
            made = follow()
            words, charges = repr(made) + str(pmp.report(made, ledger)), (before + 1,)
        except np.linalg.LinAlgError:
            raise
        except ALLOWED as error:
            words = str(error)
            charges = (before,) if "nothing was charged" in words else (before, before + 1)
        assert len(ledger.entries) in charges
        before, text = len(ledger.entries), text + words
    return text


def check(recipe: Recipe, follow: bool = False) -> str:
    """Release, and tell what came of it; `follow` makes of a summary all that can be made."""
    relation = recipe.neighbors if recipe.neighbors != "any" else "substitute"
    ledger = pmp.Ledger(epsilon=1e7, delta=0.9, neighbors=relation)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = released(recipe, ledger)
        except np.linalg.LinAlgError:
            raise  # a ValueError, and no word of ours
        except ALLOWED as error:
            made, text = None, str(error)
            if "nothing was charged" in text:
                assert ledger.entries == ()
        else:
            assert len(ledger.entries) == 1
            assert made.guarantee.epsilon(recipe.delta) <= recipe.epsilon
            text = repr(made) + str(pmp.report(made, ledger))
            if follow and isinstance(made, pmp.Summary):
                text += followed(made, ledger)
    text += "".join(str(one.message) for one in warned)
    assert text.strip()
    assert str(SECRET)[:8] not in text
    return f"refused: {text}" if made is None else type(made).__name__


QUIET = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        # Beyond the domain scores are all one number.
        pytest.param({"outcome": "Laplace"}, "Summary", marks=pytest.mark.audit),
        ({"values": "NaN"}, "refused"),
        ({"covariate": "mean"}, "refused"),
        ({"outcome": "Poisson", "prior": "wide", "covariate": "data"}, "refused: no summary fits"),
    ],
)
def test_an_ordinary_recipe_is_released_and_two_faults_are_refused(changed, outcome) -> None:
    assert check(Recipe(**PLAIN | changed)).startswith(outcome)


@pytest.mark.audit
@settings(max_examples=20, derandomize=True, **QUIET)
@given(recipe=RECIPES)
def test_random_models_are_released_or_refused_in_words(recipe) -> None:
    check(recipe)


SUMMARIES = st.builds(
    lambda outcome, covariate, part: Recipe(
        **PLAIN | {"outcome": outcome, "covariate": covariate, "n": 200, "epsilon": 5.0} | part
    ),
    st.sampled_from(sorted(OUTCOMES)),
    st.sampled_from(("none", "data", "label", "matrix")),
    st.sampled_from(({}, {"neighbors": "add_remove"}, {"per_unit": 3}, {"prior": "hierarchy"},
                     {"name": "né 数 🙂"}, {"values": "integer"}, {"prior": "Uniform"})),
)  # fmt: skip


@pytest.mark.audit
@settings(max_examples=4, derandomize=True, **QUIET)
@given(recipe=SUMMARIES)
def test_what_is_made_of_random_summaries_is_right_or_refused_in_words(recipe) -> None:
    check(recipe, follow=True)
