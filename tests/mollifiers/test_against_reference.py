"""The plug-in clip and MBDE against results computed by other code, within stated tolerances."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy import stats

from pymc_private import MollifiedBoosting, mollify

PARTS = [stats.norm(0.3, 0.1), stats.norm(0.5, 0.1**0.5), stats.norm(0.7, 0.1**0.5)]
GRID = np.linspace(-6, 6, 4801)
TARGET = sum(part.pdf(GRID) for part in PARTS)
TARGET = TARGET / TARGET.sum()


@pytest.fixture(scope="module")
def expected(shared):
    with (shared / "reference" / "mbde_reference.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["domain"] == "mix1d"]
    return {(r["method"], float(r["eps"]), r["metric"]): float(r["mean"]) for r in rows}


def sample(seed: int, n: int = 10_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parts = np.column_stack([p.rvs(n, random_state=rng) for p in PARTS])
    return parts[np.arange(n), rng.integers(0, 3, n)]


def divergence(log_ratio: np.ndarray) -> float:
    law = stats.norm.pdf(GRID) * np.exp(log_ratio)
    return float(TARGET @ np.log(TARGET / (law / law.sum())))


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize("name", ["kde", "histogram"])
def test_the_plug_in_clip_is_as_near_as_the_reference_says(expected, name, epsilon):
    label = {"kde": "plugin_kde", "histogram": "plugin_hist_64"}[name]
    found = [
        divergence(mollify(sample(seed), stats.norm(), epsilon, estimate=name).log_ratio(GRID))
        for seed in range(2)
    ]
    assert np.mean(found) == pytest.approx(expected[label, epsilon, "kl"], abs=0.004)


@pytest.mark.audit
@pytest.mark.parametrize(("name", "tolerance"), [("trees", 0.01), ("network", 0.06)])
def test_classifiers_as_estimates_are_as_near(expected, name, tolerance):
    label = {"trees": "plugin_gbdt", "network": "plugin_nn1"}[name]
    law = [mollify(sample(s), stats.norm(), 1.0, estimate=name).log_ratio(GRID) for s in range(4)]
    found = np.mean([divergence(ratio) for ratio in law])
    assert found == pytest.approx(expected[label, 1.0, "kl"], abs=tolerance)


@pytest.mark.audit
@pytest.mark.parametrize(("epsilon", "tolerance"), [(0.5, 0.008), (1.0, 0.008), (5.0, 0.02)])
def test_boosting_is_as_near_and_below_its_ceiling(expected, epsilon, tolerance):
    models = [
        MollifiedBoosting(epsilon, random_state=s, progressbar=False).fit(sample(s))
        for s in range(4)
    ]
    found = np.mean([divergence(model.log_ratio(GRID)) for model in models])
    assert found == pytest.approx(expected["mbde_T3", epsilon, "kl"], abs=tolerance)
    assert found >= expected["mbde_ceiling", epsilon, "kl"] - 0.002
