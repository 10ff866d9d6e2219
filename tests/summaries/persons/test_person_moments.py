"""Covariates of persons: rows of the reference get the shares of rare levels of the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
