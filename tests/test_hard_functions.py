"""Hard use of methods, planning, audits and samplers: the promise of `test_hard_use`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pymc_private as pmp
from pymc_private import audit, counts, estimators, mollifiers, planning, queries, samplers
from pymc_private.audit import statistical_tests
from tests import test_hard_use as hard

PURE = pmp.Guarantee.pure(0.5)
ONES, ZEROS = np.r_[np.ones(90), np.zeros(10)], np.r_[np.ones(10), np.zeros(90)]


def charged(**words: Any) -> pmp.Ledger:
    """A ledger with one charge."""
    made = hard.ledger()
    made.charge(PURE, "first", **{"name": "first", "key": "k"} | words)
    return made


@cache
def spent() -> pmp.Ledger:
    return charged()


def of(function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """The function with its leading arguments given, others by keyword."""
    return lambda **words: function(*first, **words)


@cache
def naive_bayes() -> pd.DataFrame:
    return pd.DataFrame({"a": [0, 1] * 10, "b": [0, 0, 1, 1] * 5})


def fitted(**words: Any) -> Any:
    """Rows are given: scikit-learn itself refuses others."""
    model = estimators.DirichletNaiveBayes(**words, ledger=hard.ledger())
    return model.fit(naive_bayes()[["a"]], naive_bayes()["b"])


def written(release: pmp.Release, path: Any, overwrite: Any) -> Any:
    return release.save(path, overwrite=overwrite)


def noisy_sums(data: Any, draws: int, seed: int) -> np.ndarray:
    return data["y"].sum() + np.random.default_rng(seed).laplace(size=draws)


@cache
def mollified() -> Any:
    return mollifiers.mollify([0.1, 0.4, 0.2], mollifiers.Box(0, 1), epsilon=1.0)


LEDGER: tuple[hard.Case, ...] = (
    (
        "charge of a name",
        lambda **words: hard.ledger().charge(PURE, **words),
        lambda: {"label": "x", "delta": 0, "name": "x", "key": "k"},
    ),
    (
        "check a charge",
        lambda **words: hard.ledger().check(**words),
        lambda: {"guarantee": PURE, "delta": 0},
    ),
    ("find", lambda **words: spent().find(**words), lambda: {"name": "first", "key": "k"}),
    ("fetch", lambda **words: spent().fetch(**words), lambda: {"entry": spent().entries[0]}),
    (
        "store",
        lambda **words: charged().store(**words),
        lambda: {"entry": spent().entries[0], "content": b"x"},
    ),
    ("verify", lambda **words: spent().verify(**words), lambda: {"head": spent().head}),
    (
        "Ledger with shares",
        pmp.Ledger,
        lambda: {"epsilon": 1, "delta": 1e-6, "shares": None, "path": None, "neighbors": "any"},
    ),
)
GUARANTEES: tuple[hard.Case, ...] = (
    ("delta", of(lambda epsilon: pmp.Guarantee.gdp_of(0.3).delta(epsilon)), lambda: {"epsilon": 1}),
    ("rdp", lambda order: PURE.rdp(order), lambda: {"order": 2.0}),
    ("group", lambda k: PURE.group(k), lambda: {"k": 2}),
    ("within", lambda tv, runs: PURE.within(tv, runs), lambda: {"tv": 1e-9, "runs": 1}),
    (
        "restated",
        lambda neighbors: pmp.Guarantee.pure(0.5, neighbors="any").restated(neighbors),
        lambda: {"neighbors": "add_remove"},
    ),
    ("exact epsilon", lambda delta: PURE.exact_epsilon(delta), lambda: {"delta": 0}),
    ("delta by method", lambda epsilon: PURE.delta_by_method(epsilon), lambda: {"epsilon": 1}),
    ("from_dict", pmp.Guarantee.from_dict, lambda: {"record": PURE.to_dict()}),
    ("gaussian_of", pmp.Guarantee.gaussian_of, lambda: {"sensitivity": 1, "sd": 2}),
    ("laplace_of", pmp.Guarantee.laplace_of, lambda: {"sensitivity": 1, "scale": 2}),
    (
        "discrete_gaussian_of",
        pmp.Guarantee.discrete_gaussian_of,
        lambda: {"sensitivity": 1, "sigma": 2},
    ),
    ("zcdp_of", pmp.Guarantee.zcdp_of, lambda: {"rho": 0.1}),
    ("rdp_of", pmp.Guarantee.rdp_of, lambda: {"order": 2.0, "rdp": 0.1}),
    (
        "exponential_mechanism_of",
        pmp.Guarantee.exponential_mechanism_of,
        lambda: {"epsilon": 1, "neighbors": "substitute"},
    ),
    (
        "randomized_response_of",
        pmp.Guarantee.randomized_response_of,
        lambda: {"truth": 0.7, "levels": 2},
    ),
    ("mollifier_of", pmp.Guarantee.mollifier_of, lambda: {"epsilon": 1, "draws": 1}),
    ("posterior_of", pmp.Guarantee.posterior_of, lambda: {"R": 0.1, "mu": 0.1, "draws": 1}),
    (
        "dirichlet_of",
        pmp.Guarantee.dirichlet_of,
        lambda: {"r": 1, "alpha": 2.0, "tables": 1, "draws": 1},
    ),
    (
        "noisy_counts_of",
        pmp.Guarantee.noisy_counts_of,
        lambda: {"tables": 1, "noise": Fraction(2), "distribution": "discrete_gaussian"},
    ),
    ("none", pmp.Guarantee.none, lambda: {"reason": "a reason"}),
    ("jointly", lambda part: pmp.Guarantee.jointly(PURE, part), lambda: {"part": PURE}),
)
RELEASES: tuple[hard.Case, ...] = (
    (
        "save",
        lambda **words: written(hard.release(), **words),
        lambda: {"path": "x.nc", "overwrite": True},
    ),
    ("from_bytes", pmp.Release.from_bytes, lambda: {"content": hard.release().to_bytes()}),
    ("Summary.from_bytes", pmp.Summary.from_bytes, lambda: {"content": b"x"}),
    ("to_arviz", lambda chains: hard.release().to_arviz(chains), lambda: {"chains": 1}),
    (
        "interval",
        lambda **words: hard.release().interval(**words),
        lambda: {"name": "beta", "prob": 0.9, "delta": 0.05},
    ),
    (
        "Release",
        pmp.Release,
        lambda: {
            "posterior": hard.release().posterior,
            "guarantee": hard.release().guarantee,
            "facts": hard.release().facts,
            "private": True,
        },
    ),
    (
        "ask",
        lambda **words: queries.Dialogue(hard.release()).ask(**words),
        lambda: {"utility": "beta[0] > 0", "responses": [1, 2], "query": None, "bounds": (0, 1)},
    ),
    ("Dialogue", queries.Dialogue, lambda: {"release": hard.release(), "delta": 0.05}),
    ("Subsets", queries.Subsets, lambda: {"options": ["a", "b"], "sizes": 1}),
    (
        "choose with losses",
        queries.choose,
        lambda: {
            "release": hard.release(),
            "hypotheses": {"up": "beta[0] > 0", "down": "beta[0] <= 0"},
            "losses": {"up": {"up": 0, "down": 1}, "down": {"up": 1, "down": 0}},
            "delta": 0.05,
        },
    ),
    (
        "answer with Lipschitz",
        queries.answer,
        lambda: {
            "release": hard.release(),
            "utility": lambda draws, response: np.clip(draws["beta"][..., 0] * 0.5, 0, 1),
            "responses": [1, 2],
            "lipschitz": 1.0,
            "possible_queries": 3,
        },
    ),
    (
        "prior_predictive",
        lambda **words: hard.private().prior_predictive(**words),
        lambda: {"draws": 3, "records": 4, "reference": None, "random_seed": 1},
    ),
    ("compare three", pmp.compare, lambda: {"release": hard.release(),
        "idata": hard.release().posterior, "summary": None}),
)  # fmt: skip
COUNTS: tuple[hard.Case, ...] = (
    ("Bins", counts.Bins, lambda: {"edges": [0, 1, 2]}),
    (
        "noisy_counts of a table",
        counts.noisy_counts,
        lambda: {
            "data": naive_bayes(),
            "categories": {"a": [0, 1]},
            "epsilon": 1.0,
            "tables": None,
            "n": None,
            "id": None,
            "unit": "row",
            "neighbors": "substitute",
            "ledger": hard.ledger(),
        },
    ),
    (
        "dirichlet with options",
        pmp.dirichlet,
        lambda: {
            "counts": [5, 3, 1],
            "epsilon": 1.0,
            "delta": 1e-6,
            "method": "auto",
            "neighbors": "substitute",
            "unit": "row",
            "minimum": 0.0,
            "draws": None,
            "ledger": hard.ledger(),
        },
    ),
    (
        "count_posterior",
        counts.count_posterior,
        lambda: {
            "release": counts.noisy_counts([[4, 2], [3, 1]], epsilon=1.0, ledger=hard.ledger()),
            "draws": 5,
            "minimum": 0.0,
            "consistent": True,
        },
    ),
    (
        "naive Bayes",
        fitted,
        lambda: {
            "epsilon": 1.0,
            "delta": 1e-5,
            "categories": {"a": [0, 1]},
            "classes": [0, 1],
            "draws": None,
            "unit": "row",
            "random_state": None,
        },
    ),
)
PLANNING: tuple[hard.Case, ...] = (
    ("advantage", planning.advantage, lambda: {"R": 1.0, "draws": 3, "records": 1}),
    (
        "beta_bernoulli_pair",
        planning.beta_bernoulli_pair,
        lambda: {"alpha": 1, "beta": 1, "n": 5, "x": 2, "y": 3, "lower": 0.0, "upper": 1.0},
    ),
    (
        "gamma_exponential_pair",
        planning.gamma_exponential_pair,
        lambda: {"shape": 1, "rate": 1, "n": 5, "x": 2, "y": 3, "lower": 0.0, "upper": 9.0},
    ),
    (
        "grid_pair",
        planning.grid_pair,
        lambda: {"log_prior": [0.0, 0.0], "log_x": [-1.0, 0.0], "log_y": [0.0, -1.0]},
    ),
    (
        "detection_power",
        planning.detection_power,
        lambda: {
            "effect": 0.5,
            "sd": 0.2,
            "level": 0.95,
            "null": 0.0,
            "prior_mean": 0.0,
            "prior_sd": 1.0,
        },
    ),
    (
        "draws_needed",
        planning.draws_needed,
        lambda: {"loss": 0.1, "responses": 2, "queries": 1, "failure": 0.05},
    ),
    (
        "draws_to_distinguish",
        planning.draws_to_distinguish,
        lambda: {"R": 1.0, "target": 0.5, "records": 1},
    ),
    (
        "epsilon_needed",
        planning.epsilon_needed,
        lambda: {"R": 1.0, "draws": 2, "delta": 0.0, "power": 1.0},
    ),
    (
        "epsilon_for_accuracy",
        planning.epsilon_for_accuracy,
        lambda: {"goal": 0.9, "outside": np.linspace(0.01, 1, 2000)},
    ),
    (
        "trade_off",
        planning.trade_off,
        lambda: {
            "outside": np.linspace(0.01, 1, 2000),
            "epsilon": 1.0,
            "responses": 2,
            "queries": 1,
            "failure": 0.05,
        },
    ),
    ("misspecification_kl", planning.misspecification_kl, lambda: {"eta": 0.1}),
    ("misspecification_tv", planning.misspecification_tv, lambda: {"eta": 0.1}),
    ("trimming_loss", planning.trimming_loss, lambda: {"outside": 0.1}),
    (
        "partition_radius",
        planning.partition_radius,
        lambda: {"draws": 10, "cells": 3, "failure": 0.05},
    ),
    ("posterior_kl", planning.posterior_kl, lambda: {"R": 1.0, "records": 1}),
    ("posterior_tv", planning.posterior_tv, lambda: {"R": 1.0, "records": 1}),
    (
        "reconstruction_floor",
        planning.reconstruction_floor,
        lambda: {"guarantee": PURE, "distance": 1.0, "records": 1},
    ),
    (
        "records_needed",
        planning.records_needed,
        lambda: {"information": 1.0, "R": 1.0, "epsilon": 1.0, "delta": 0.0, "draws": 1},
    ),
    (
        "records_to_distinguish",
        planning.records_to_distinguish,
        lambda: {"R": 1.0, "draws": 3, "target": 0.5},
    ),
    (
        "separable_records",
        planning.separable_records,
        lambda: {"R": 1.0, "draws": 3, "failure": 0.05, "cells": 2},
    ),
    (
        "summary_trade_off",
        planning.summary_trade_off,
        lambda: {
            "sampling_sd": 0.1,
            "noise_sd": 0.1,
            "n": 100,
            "epsilon": 1.0,
            "delta": 1e-6,
            "records": None,
            "epsilons": (0.5, 1.0),
            "parameter": "beta",
            "effect": 0.3,
            "level": 0.95,
        },
    ),
)
AUDITS: tuple[hard.Case, ...] = (
    (
        "attack",
        audit.attack,
        lambda: {
            "accuses": lambda output: isinstance(output, float) and output > 0.5,
            "members": ONES,
            "others": ZEROS,
            "claim": PURE,
            "false_alarm": 1e-3,
        },
    ),
    (
        "cdf_envelope",
        audit.cdf_envelope,
        lambda: {
            "draws": np.linspace(0.01, 0.99, 50),
            "cdf": lambda x: np.clip(x, 0, 1),
            "slack": 0.0,
            "false_alarm": 1e-3,
            "power": 0.9,
        },
    ),
    (
        "mean_envelope",
        audit.mean_envelope,
        lambda: {
            "draws": np.linspace(0, 1, 50),
            "expected": 0.5,
            "bounds": (0, 1),
            "deviation": None,
            "false_alarm": 1e-3,
            "power": 0.9,
        },
    ),
    (
        "neighbors_agree",
        audit.neighbors_agree,
        lambda: {"draws": np.linspace(0, 1, 50), "median": 0.5, "false_alarm": 1e-3, "power": 0.9},
    ),
    (
        "proportion",
        audit.proportion,
        lambda: {
            "successes": 5,
            "trials": 10,
            "expected": 0.5,
            "false_alarm": 1e-3,
            "power": 0.9,
        },
    ),
    (
        "epsilon_lower_bound",
        audit.epsilon_lower_bound,
        lambda: {
            "p": ONES,
            "q": ZEROS,
            "delta": 0.0,
            "score": None,
            "classifier": None,
            "draws": None,
            "false_alarm": 1e-3,
            "random_seed": 0,
        },
    ),
    (
        "delta_lower_bound",
        audit.delta_lower_bound,
        lambda: {"p": ONES, "q": ZEROS, "epsilon": 0.0, "score": None, "false_alarm": 1e-3},
    ),
    (
        "membership",
        audit.membership,
        lambda: {"p": ONES, "q": ZEROS, "claim": PURE, "score": None, "false_alarm": 1e-3},
    ),
    (
        "lattice_leak",
        audit.lattice_leak,
        lambda: {
            "p": ONES,
            "q": ZEROS,
            "width": 1.0,
            "claim": PURE,
            "delta": 0.0,
            "bits": 8,
            "slack": 1e-6,
            "draws": None,
            "false_alarm": 1e-3,
        },
    ),
    (
        "outputs",
        audit.outputs,
        lambda: {
            "mechanism": lambda data, draws, seed: np.arange(draws),
            "data": [1, 2],
            "draws": 5,
            "executor": None,
            "chunks": None,
            "random_seed": 0,
        },
    ),
    (
        "partition_adversary",
        audit.partition_adversary,
        lambda: {
            "cells": [0, 1, 0, 1, 1],
            "x": [0.2, 0.8],
            "y": [0.8, 0.2],
            "false_alarm": 1e-3,
        },
    ),
    (
        "reconstruction",
        audit.reconstruction,
        lambda: {
            "guess": lambda output: "a",
            "worlds": {"a": [0, 0, 1], "b": [1, 1, 1]},
            "distance": None,
            "largest": 1.0,
            "floor": None,
            "false_alarm": 1e-3,
        },
    ),
    (
        "release_leaks",
        audit.release_leaks,
        lambda: {"published": hard.release(), "secrets": {"X": [0.123456]}, "twin": None,
                 "draws": ()},
    ),
    (
        "seed_reuse",
        audit.seed_reuse,
        lambda: {
            "released": [0.51, 0.52],
            "replay": lambda candidate, seed: [0.25 + seed / 7, 0.1],
            "candidates": [1],
            "seeds": [1, 2],
            "coincidence": 0.0,
        },
    ),
    (
        "worst_neighbors",
        audit.worst_neighbors,
        lambda: {
            "mechanism": noisy_sums,
            "records": ({"y": np.array(0.0)}, {"y": np.array(1.0)}),
            "n": 3,
            "delta": 0.0,
            "draws": 20,
            "executor": None,
            "random_seed": 0,
        },
    ),
)  # fmt: skip
MOLLIFIERS: tuple[hard.Case, ...] = (
    ("Box", mollifiers.Box, lambda: {"lower": 0, "upper": 1}),
    (
        "Hull",
        mollifiers.Hull,
        lambda: {"distributions": [[0.5, 0.5], [0.4, 0.6]], "labels": None},
    ),
    (
        "Window",
        mollifiers.Window,
        lambda: {"lower": -0.5, "upper": 0.5, "epsilon": 1.0},
    ),
    (
        "LocalSampler",
        mollifiers.LocalSampler,
        lambda: {
            "reference": mollifiers.Box(0, 1),
            "epsilon": 1.0,
            "kind": "clip",
            "window": "symmetric",
            "estimate": None,
            "local_draws": 10,
        },
    ),
    ("logpdf", lambda x: mollified().logpdf(x), lambda: {"x": [0.1, 0.4]}),
    ("log_ratio", lambda x: mollified().log_ratio(x), lambda: {"x": [0.1, 0.4]}),
    (
        "guarantee",
        lambda **words: mollified().guarantee(**words),
        lambda: {"draws": 1, "neighbors": "any"},
    ),
    (
        "mollify finite",
        mollifiers.mollify,
        lambda: {
            "target": [0.1, 0.4, 0.2],
            "reference": mollifiers.Box(0, 1),
            "total": (1.0, 1e-6, 2),
            "estimate": None,
            "pool": None,
        },
    ),
)
SAMPLERS: tuple[hard.Case, ...] = (
    ("Grid", samplers.Grid, lambda: {"points": {"beta": [0.0, 1.0]}}),
    (
        "Nuts",
        samplers.Nuts,
        lambda: {"tv": 1e-3, "backend": "pymc", "tune": 10, "states_per_run": 1},
    ),
    (
        "Proximal",
        samplers.Proximal,
        lambda: {"tv": 1e-9, "strict": False, "pure": False, "bits": 12},
    ),
    ("Metric", pmp.Metric, lambda: {"distances": {"X": "l2"}, "weights": {"X": 1.0}}),
    (
        "privatize with more",
        pmp.privatize,
        lambda: {
            "model": hard.model(),
            "records": "person",
            "domain": {"X": pmp.Ball(1.0)},
            "constants": "private",
            "n": None,
            "records_per_unit": 1,
        },
    ),
    (
        "marginalize",
        lambda name, **words: pmp.marginalize(hard.model(), name, **words),
        lambda: {"name": "beta", "points": 3, "rows_per_record": None},
    ),
    (
        "trim with more",
        pmp.trim,
        lambda: {"private": hard.private(), "box": None, "mass": 0.9, "shape": "set"},
    ),
)
GROUPS = {
    "ledger": LEDGER,
    "guarantees": GUARANTEES,
    "releases": RELEASES,
    "counts": COUNTS,
    "planning": PLANNING,
    "audits": AUDITS,
    "mollifiers": MOLLIFIERS,
    "samplers": SAMPLERS,
}
CASES = [case for group in GROUPS.values() for case in group]
REFUSED_AS_THEY_ARE = {"Summary.from_bytes", "marginalize", "store", "fetch"}
"""Calls that a refusal answers even undisturbed."""


@pytest.mark.audit
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_further_functions_survive_everything(case, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # save="x" is a file
    # Calls on junk are no tests of this suite: none of them pays from its allowance.
    monkeypatch.setattr(statistical_tests, "_OPEN_ALLOWANCES", [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case[0] not in REFUSED_AS_THEY_ARE:
            case[1](**case[2]())
    for place, name in enumerate(names := list(case[2]())):
        step = min(len(names), 2)  # of several arguments each gets every second thing
        for value in (*(make() for make in hard.todays(place, step)), *hard.polars_values()):
            hard.use(case, {name: value})
