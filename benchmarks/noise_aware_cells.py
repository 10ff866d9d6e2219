"""How far is the posterior of noisy cells from the non-private one, and do its intervals cover?

Run ``python -m benchmarks.noise_aware_cells [repetitions]``. Error: root mean square distance of
the posterior mean from the non-private one, in non-private standard deviations, on one data set
with fresh noise each time. Width: of 90% intervals, over the non-private ones. Coverage: of 90%
intervals, parameters drawn from the prior and records from the model. Posteriors by importance
sampling, and by sequential Monte Carlo where fewer than 200 draws are effective; the mechanism is
built once and reads nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.summaries.cells.cell_mechanism import CellMechanism
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu

EPSILONS, DELTA = (0.5, 1.0, 2.0), 1e-6
PARTICLES, MOVES = 1000, 5
GRID = 400
ENOUGH = 200.0
LogDensity = Callable[[np.ndarray], np.ndarray]
Records = dict[str, np.ndarray]


@dataclass(frozen=True)
class Study:
    """A model, its true parameters for the error, and how records are simulated."""

    name: str
    private: Any
    truth: dict[str, float]
    simulate: Callable[[dict[str, float], np.random.Generator], Records]


# ---- models ------------------------------------------------------------------------------------
def mixture(n: int = 1000) -> Study:
    """Two normals of known scale."""

    def simulate(at: dict[str, float], rng: np.random.Generator) -> Records:
        first = rng.random(n) < at["w"]
        y = np.where(first, at["c1"], at["c2"]) + rng.standard_normal(n)
        return {"y": np.clip(y, 0.0, 10.0)}

    truth = {"w": 0.4, "c1": 2.0, "c2": 6.0}
    with pm.Model() as model:
        w = pm.Beta("w", 2, 2)
        means = pm.math.stack([pm.Normal("c1", 2.5, 1), pm.Normal("c2", 5.5, 1)])
        data = simulate(truth, np.random.default_rng(4))
        pm.NormalMixture("y", w=pm.math.stack([w, 1 - w]), mu=means, sigma=1.0, observed=data["y"])
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (0, 10)})
    return Study("mixture of two normals", private, truth, simulate)


def mixture_free(n: int = 1000) -> Study:
    """Two normals with one unknown scale."""

    def simulate(at: dict[str, float], rng: np.random.Generator) -> Records:
        first = rng.random(n) < at["w"]
        y = np.where(first, at["c1"], at["c2"]) + at["sd"] * rng.standard_normal(n)
        return {"y": np.clip(y, -10.0, 10.0)}

    truth = {"w": 0.4, "c1": -1.5, "c2": 1.5, "sd": 0.75}
    with pm.Model() as model:
        w = pm.Beta("w", 2, 2)
        means = pm.math.stack([pm.Normal("c1", -1.5, 1), pm.Normal("c2", 1.5, 1)])
        sd = pm.LogNormal("sd", -0.3, 0.4)
        data = simulate(truth, np.random.default_rng(4))
        pm.NormalMixture("y", w=pm.math.stack([w, 1 - w]), mu=means, sigma=sd, observed=data["y"])
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-10, 10)})
    return Study("mixture, scale free", private, truth, simulate)


def weibull(n: int = 500) -> Study:
    """Censored durations with one binary covariate, whose share is unknown."""

    def simulate(at: dict[str, float], rng: np.random.Generator) -> Records:
        x = rng.integers(0, 2, n)
        t = np.exp(at["b0"] + at["b1"] * x) * rng.weibull(at["k"], n)
        return {"x": x, "t": np.minimum(t, 5.0)}

    truth = {"k": 1.5, "b0": 0.7, "b1": 0.5}
    data = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"person": range(n)}) as model:
        x = pm.Data("x", data["x"], dims="person")
        scale = pm.math.exp(pm.Normal("b0", 0, 1) + pm.Normal("b1", 0, 1) * x)
        free = pm.Weibull.dist(pm.LogNormal("k", 0, 0.5), scale)
        pm.Censored("t", free, lower=None, upper=5.0, observed=data["t"], dims="person")
    private = pmp.privatize(model, records="person", domain={"x": {0, 1}, "t": (0, 5)})
    return Study("Weibull, censored, binary covariate", private, truth, simulate)


STUDIES = (mixture, mixture_free, weibull)


# ---- posteriors --------------------------------------------------------------------------------
def particles(
    likelihood: LogDensity, prior: LogDensity, start: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws of a posterior by tempered sequential Monte Carlo with random-walk moves."""
    theta, power = start.copy(), 0.0
    logs, priors = likelihood(theta), prior(theta)
    while power < 1.0:
        power, weights = _next_power(logs, power)
        places = (rng.random() + np.arange(len(theta))) / len(theta)
        chosen = np.searchsorted(np.cumsum(weights), places).clip(0, len(theta) - 1)
        theta, logs, priors = theta[chosen], logs[chosen], priors[chosen]
        factor = np.linalg.cholesky(np.cov(theta.T) + 1e-9 * np.eye(theta.shape[1]))
        for _ in range(MOVES if power < 1.0 else 4 * MOVES):
            scale = 2.4 / np.sqrt(theta.shape[1]) * rng.choice([0.3, 0.6, 1.0])
            tried = theta + scale * rng.standard_normal(theta.shape) @ factor.T
            tried_logs, tried_priors = likelihood(tried), prior(tried)
            gain = power * (tried_logs - logs) + tried_priors - priors
            moved = np.log(rng.random(len(theta))) < gain
            theta[moved], logs[moved] = tried[moved], tried_logs[moved]
            priors[moved] = tried_priors[moved]
    return theta


def _next_power(logs: np.ndarray, power: float) -> tuple[float, np.ndarray]:
    """The power at which half of the particles are effective, and their weights."""

    def weights_at(other: float) -> np.ndarray:
        weights = np.exp((other - power) * (logs - logs.max()))
        return weights / weights.sum()

    low, high = power, 1.0
    if 1.0 / (weights_at(1.0) ** 2).sum() > len(logs) / 2:
        return 1.0, weights_at(1.0)
    for _ in range(40):
        middle = (low + high) / 2
        enough = 1.0 / (weights_at(middle) ** 2).sum() > len(logs) / 2
        low, high = (middle, high) if enough else (low, middle)
    low = max(low, power + 1e-6)
    return low, weights_at(low)


def records_likelihood(cells: CellMechanism, records: Records) -> LogDensity:
    """The likelihood of the records themselves, outcomes rounded to a fine grid."""
    densities = cells.probabilities.densities
    outcome = densities.outcome
    y = np.asarray(records[outcome.name], float)
    others = [np.asarray(records[s.name]) for s in densities.covariates]
    bounds = outcome.domain.bounds(())
    low, high = float(bounds.lower), float(bounds.upper)
    width = (high - low) / GRID
    rounded = np.where(y >= high, high, low + width * (np.floor((y - low) / width) + 0.5))
    rounded = np.where(y <= low, low, rounded)
    table = np.column_stack([rounded, *others])
    distinct, counts = np.unique(table, axis=0, return_counts=True)
    sources = (outcome, *densities.covariates)
    data = [c.astype(s.dtype) for c, s in zip(distinct.T, sources, strict=True)]
    return lambda theta: densities.logs(cells.parameters.natural(theta), data) @ counts


def interval(draws: np.ndarray) -> np.ndarray:
    return np.quantile(draws, [0.05, 0.95], axis=0)


# ---- the table ---------------------------------------------------------------------------------
def measure(study: Study, epsilon: float, repetitions: int, edges: Any = None) -> dict[str, Any]:
    """Error, width and coverage of one model at one epsilon."""
    cells = CellMechanism(study.private, largest_mu(epsilon, DELTA), edges=edges)
    prior, rng = cells.parameters.log_prior, np.random.default_rng([int(10 * epsilon), 36])
    hard = 0
    noise = SimulatedNoise(rng, study.private.neighbors, 1)
    records = study.simulate(study.truth, np.random.default_rng(4))

    def by_particles(likelihood: LogDensity) -> np.ndarray:
        return particles(likelihood, prior, cells.parameters.draws(PARTICLES, 7), rng)

    def posterior(released: Any) -> np.ndarray:
        nonlocal hard
        likelihood = cells.log_likelihood(released)
        found = importance_draws(
            lambda theta: likelihood(theta) + prior(theta), *cells.start(released), rng, climb=False
        )
        if found.effective < ENOUGH:
            hard += 1
            return by_particles(likelihood)
        return found.points[rng.choice(len(found.points), 4000, p=found.weights)]

    exact = by_particles(records_likelihood(cells, records))
    ends = interval(exact)
    errors, widths, covered = [], [], []
    for k in range(repetitions):
        draws = posterior(cells.release(records, noise))
        errors.append((draws.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0))
        widths.append(np.ptp(interval(draws), axis=0) / np.ptp(ends, axis=0))
        truth = cells.parameters.draws(1, 1000 + k)
        at = {name: float(v[0]) for name, v in cells.parameters.natural(truth).items()}
        released = cells.release(study.simulate(at, rng), noise)
        low, high = interval(posterior(released))
        covered.append((truth[0] >= low) & (truth[0] <= high))
    return {
        "cells": cells.partition.shape,
        "information": cells.information,
        "error": float(np.sqrt(np.mean(np.square(errors)))),
        "width": float(np.median(widths)),
        "coverage": float(np.mean(covered)),
        "hard": hard,
    }


def main(repetitions: int = 40, studies: Any = STUDIES) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    for make in studies:
        study = make()
        for epsilon in EPSILONS:
            start = time.time()
            found = measure(study, epsilon, repetitions)
            groups, width = found["cells"]
            print(
                f"{study.name:38} epsilon {epsilon:3g}  cells {groups} x {width:2}  "
                f"error {found['error']:.2f}  width {found['width']:.2f}  "
                f"coverage {found['coverage']:.3f}  by particles {found['hard']}  "
                f"{time.time() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    named = {make.__name__: make for make in STUDIES}
    main(int((sys.argv[1:] or ["40"])[0]), [named[a] for a in sys.argv[2:]] or STUDIES)
