"""Noisy summaries of hierarchies: error, width and coverage of their posteriors by NUTS.

Run ``python -m benchmarks.noise_aware_hierarchies [simulations] [epsilon] [setting] ...``, a
setting being ``family:groups:records``, for example ``logistic:30:3000``. In each simulation
parameters come from the prior and records from the model, labels of groups are private, and both
posteriors are sampled by `pm.sample` (two chains of 300 draws after 500 steps of tuning). Error:
root mean square distance of posterior means, in non-private posterior standard deviations; width:
median ratio of standard deviations; coverage: of 90% intervals, with a standard error over
simulations. Effects of groups, what is above them, and what all records share are told apart.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model

DELTA, SEED = 1e-6, 7
OPTIONS: dict[str, Any] = {"draws": 300, "tune": 500, "chains": 2, "cores": 1, "progressbar": False}
SETTINGS = ("logistic:30:3000", "normal:30:3000", "poisson:30:3000", "logistic:30:10000")
SCALE_PRIOR = (-0.7, 0.5)
"""Mean and standard deviation of the logarithm of the effects' standard deviation."""


def simulated(family: str, at: dict[str, Any], n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Records of one data set."""
    group, x = rng.integers(0, len(at["effect"]), n), rng.uniform(-1, 1, n)
    eta = np.asarray(at["effect"])[group] + float(at["slope"]) * x
    if family == "logistic":
        y = 1.0 * (rng.random(n) < 1.0 / (1.0 + np.exp(-eta)))
    elif family == "poisson":
        y = np.clip(1.0 * rng.poisson(np.exp(eta)), 0.0, 300.0)
    else:
        y = np.clip(eta + float(at["sigma"]) * rng.standard_normal(n), -15.0, 15.0)
    return {"g": group, "x": x, "y": y}


def model_of(family: str, records: dict[str, Any], groups: int) -> pm.Model:
    """A hierarchy that holds these records."""
    coords = {"row": np.arange(len(records["y"])), "group": np.arange(groups)}
    with pm.Model(coords=coords) as model:
        mean, sd = pm.Normal("mean"), pm.LogNormal("sd", *SCALE_PRIOR)
        effect, slope = pm.Normal("effect", mean, sd, dims="group"), pm.Normal("slope")
        g, x = (pm.Data(name, records[name], dims="row") for name in ("g", "x"))
        eta, y = effect[g] + slope * x, records["y"]
        if family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=y.astype(int), dims="row")
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=y.astype(int), dims="row")
        else:
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
    return model


def declared(family: str, model: pm.Model, groups: int) -> pmp.PrivateModel:
    """The model with its domains; labels of groups are private."""
    domain: dict[str, Any] = {"g": pmp.Categories(range(groups)), "x": (-1.0, 1.0)}
    ends = {"poisson": (0.0, 300.0), "normal": (-15.0, 15.0)}
    domain |= {"y": ends[family]} if family in ends else {}
    return pmp.privatize(model, records="row", domain=domain)


def sampled(model: pm.Model, seed: int) -> dict[str, np.ndarray]:
    """Draws of each free variable, shape (draws, cells), by NUTS."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pm.sample(**OPTIONS, random_seed=seed, compute_convergence_checks=False).posterior
    names = [rv.name for rv in model.free_RVs]
    count = OPTIONS["draws"] * OPTIONS["chains"]
    return {name: found[name].to_numpy().reshape(count, -1) for name in names}


def measured(family: str, groups: int, n: int, epsilon: float, simulations: int) -> None:
    """Print a line of the table after each simulation."""
    start = {"effect": np.zeros(groups), "slope": 0.5, "sigma": 1.0}
    first = simulated(family, start, n, np.random.default_rng(0))
    private = declared(family, model_of(family, first, groups), groups)
    plan = make_summary_plan(private, epsilon=epsilon, delta=DELTA, method="scores")
    mechanism, rows = plan.mechanism, []
    print(f"{family} {groups} groups, n {n}, epsilon {epsilon:g}: usable {mechanism.usable:.2f}")
    for k, theta in enumerate(mechanism.parameters.draws(simulations, SEED)):
        rng, began = np.random.default_rng([SEED, k]), time.time()
        at = {name: v[0] for name, v in mechanism.parameters.natural(theta[None]).items()}
        records = simulated(family, at, n, rng)
        released = mechanism.release(records, SimulatedNoise(rng, private.neighbors, 1))
        refused = any(caution.refuse for caution in mechanism.warnings(released))
        draws = sampled(noise_aware_model(private, mechanism, released), k)
        exact = sampled(model_of(family, records, groups), k)
        row: dict[str, Any] = {"refused": refused}
        for name, values in draws.items():
            truth, other = np.reshape(at[name], -1), exact[name]
            low, high = np.quantile(values, [0.05, 0.95], axis=0)
            row[name] = (
                (values.mean(axis=0) - other.mean(axis=0)) / other.std(axis=0),
                values.std(axis=0) / other.std(axis=0),
                (low <= truth) & (truth <= high),
            )
        rows.append(row)
        print(line_of(rows), f"({time.time() - began:.0f} s)", flush=True)


def line_of(rows: list[dict[str, Any]]) -> str:
    """Error / width / coverage of each variable over the simulations so far."""
    parts = []
    for name in (key for key in rows[0] if key != "refused"):
        errors, widths, held = (np.array([row[name][j] for row in rows]) for j in range(3))
        spread = held.mean(axis=1).std() / np.sqrt(len(rows))
        parts.append(
            f"{name} {np.sqrt(np.mean(errors**2)):.2f}/{np.median(widths):.2f}/"
            f"{held.mean():.2f}±{spread:.2f}"
        )
    refused = sum(row["refused"] for row in rows)
    return f"{len(rows)} simulations: {', '.join(parts)}, refused {refused}"


def main(simulations: int = 20, epsilon: float = 1.0, settings: tuple[str, ...] = ()) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for setting in settings or SETTINGS:
        family, groups, n = setting.split(":")
        measured(family, int(groups), int(n), epsilon, simulations)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if sys.argv[1:] else 20,
        float(sys.argv[2]) if sys.argv[2:] else 1.0,
        tuple(sys.argv[3:]),
    )
