"""Covariates of persons: rows of the reference get the shares of rare levels of the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from benchmarks.noise_aware_persons import Setting
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.persons import person_moments
from pymc_private.summaries.scores.model_scores import score_mechanism

AT = {"c": 0.0, "b": np.zeros(2), "s": 0.5}


def shares_and_weights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give shares of both dummies in the reference and the records, and weights of persons."""
    setting = Setting.of("logistic:600:4:rare")
    rng = np.random.default_rng(1)
    records: dict[str, Any] = setting.by_person(setting.rows(AT, rng))
    mechanism = score_mechanism(setting.private(effects=True), 50.0)
    found = mechanism.release(records, SimulatedNoise(rng))
    density = mechanism.design.model.density
    rows = {key[6:]: v for key, v in found.items() if key.startswith("large:")}
    (name,) = (s.name for s in density.covariates if s.name in density.of_rows)
    both = []
    for table, weights in ((rows, found["large_weights"]), (records, np.full(600, 1 / 600))):
        has = density.has_rows(table)
        each = (weights / has.sum(axis=1))[:, None] * has
        both.append(np.einsum("nk,nkj->j", each, np.asarray(table[name], float)))
    return both[0], both[1], found["large_weights"]


def test_rows_have_the_shares_of_rare_levels_and_persons_keep_their_weight():
    found, expected, weights = shares_and_weights()
    assert found == pytest.approx(expected, abs=0.04)
    assert 1.0 / (weights**2).sum() > 64


def test_weights_of_persons_alone_cannot(monkeypatch):
    """The planted fault: levels stay as they were."""
    monkeypatch.setattr(person_moments, "units_of_rows", lambda density, units: {})
    found, expected, _ = shares_and_weights()
    assert np.abs(found - expected).max() > 0.1


# ---- what a person has once ------------------------------------------------------------------
PERSONS, MOST = 400, 4


def persons_model(own: np.ndarray) -> pmp.PrivateModel:
    """Give persons with a dummy of their own beside two of their rows."""
    who = np.repeat(np.arange(PERSONS), MOST)
    coords = {"person": range(PERSONS), "row": range(len(who))}
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", np.zeros((len(who), 2)), dims=("row", None))
        g = pm.Data("g", own, dims="person")
        eta = pm.Normal("c") + x @ pm.Normal("b", shape=2) + (pm.Normal("d") * g)[who]
        eta = eta + pm.Normal("a", 0, pm.LogNormal("s", -0.5, 0.5), dims="person")[who]
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(len(who), int), dims="row")
    shared = pmp.marginalize(model, "a", rows_per_record=MOST, points=3)
    domain = {"x": {0.0, 1.0}, "g": {0.0, 1.0}, "y": {0, 1}}
    return pmp.privatize(shared, records="person", domain=domain)


def test_what_a_person_has_once_is_one_level_and_the_number_of_rows_is_kept():
    """Float columns, levels that go together, shares of a few percent."""
    mechanism = score_mechanism(persons_model(np.zeros(PERSONS)), 20.0)
    design, rng = mechanism.design, np.random.default_rng(3)
    density = design.model.density
    g = 1.0 * (rng.random(PERSONS) < 0.1)
    x = 1.0 * (rng.random((PERSONS, MOST, 2)) < (0.05 + 0.6 * g)[:, None, None])
    y = 1.0 * (rng.random((PERSONS, MOST)) < 0.4)
    rows = {"x": x, "g": g, density.count: rng.integers(1, MOST + 1, PERSONS)}
    records = {
        name: rows[name].reshape(np.shape(start)) for name, start in start_of(mechanism).items()
    } | {design.outcome: y}
    found = mechanism.release(records, SimulatedNoise(rng))
    for which, before in (("large", design.large), ("small", design.small)):
        own, weights = found[f"{which}:g"], found[f"{which}_weights"]
        assert set(np.unique(own)) <= {0.0, 1.0}
        assert weights @ own == pytest.approx(g.mean(), abs=0.05)
        assert (found[f"{which}:{density.count}"] == before.rows[density.count]).all()


def start_of(mechanism: Any) -> dict[str, np.ndarray]:
    """Give the covariates of the persons that the model holds, by name."""
    sources = mechanism.design.model.density.covariates
    return {s.name: np.zeros((PERSONS, *s.row_shape)) for s in sources}


def test_uniform_numbers_stay_with_their_places():
    density = score_mechanism(persons_model(np.zeros(PERSONS)), 20.0).design.model.density
    unit = np.random.default_rng(0).random((5, MOST * 2))
    found = person_moments.units_of_rows(density, {"x": unit, "g": np.arange(5.0)[:, None]})
    assert list(found) == ["g", "x"]  # what a person has once is drawn first
    assert (found["x"].reshape(5, MOST, 2)[:, 1] == unit[:, 2:4]).all()
    assert (found["g"].reshape(5, MOST) == np.arange(5.0)[:, None]).all()
    known = person_moments.units_of_rows(density, {"g": np.arange(5.0)[:, None]})
    assert not known
