"""Persons with several rows as records, beside rows as records of units of several (T24).

Run ``python -m benchmarks.noise_aware_persons [simulations] [epsilon] [setting] ...``, a setting
being ``family:persons:rows``, for example ``logistic:1000:4``; with ``:alike`` behind it the two
covariates of a person's rows are correlated (.5), else independent. Numbers of rows are uniform
from one to the most. In each simulation parameters come from the prior and rows from the model:
predictor c + x b + a of the person, a ~ N(0, s). All posteriors are found by importance sampling.

*Persons*: `marginalize(model, "a", rows_per_record=rows)`. *Rows*: a model without a, each row a
record, and ``records_per_unit=rows``, which protects the same; its posterior takes rows as
independent. Printed for both: error of posterior means of the coefficients b, in standard
deviations of the posterior of the persons' records (median over simulations and root mean square),
median width of 90% intervals relative to that posterior, and coverage of 90% intervals of b; for
persons also the coverage of all parameters. ``--seed`` gives other data sets, ``--save FILE`` adds
a JSON line for each simulation.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from benchmarks.noise_aware import non_private, posterior
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.coverage import coordinate_names
from pymc_private.summaries.noise import SimulatedNoise

DELTA, SEED, LEVEL = 1e-6, 41, (0.05, 0.95)
PRIOR_SD = {"logistic": 1.0, "normal": 1.0, "poisson": 0.5}
MOST_COUNT, WIDEST = 200.0, 12.0
SETTINGS = ("logistic:1000:4", "poisson:1000:4", "normal:1000:4")
DRAWS = 1500


@dataclass(frozen=True)
class Setting:
    """A family, numbers of persons and of rows, and whether a person's covariates are alike."""

    family: str
    persons: int
    most: int
    alike: str = ""

    @classmethod
    def of(cls, text: str) -> Setting:
        """A setting as it is written."""
        family, persons, most, *alike = text.split(":")
        return cls(family, int(persons), int(most), *alike)

    def rows(self, at: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One data set, a line per row."""
        counts = rng.integers(1, self.most + 1, self.persons)
        who = np.repeat(np.arange(self.persons), counts)
        own = rng.uniform(-1, 1, (self.persons, 2))[who]
        x = rng.uniform(-1, 1, (len(who), 2))
        if self.alike:
            x = (own + x) / 2.0
        a = float(at["s"]) * rng.standard_normal(self.persons)
        eta = float(at["c"]) + x @ np.asarray(at["b"]) + a[who]
        if self.family == "logistic":
            y = 1.0 * (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-eta)))
        elif self.family == "poisson":
            y = np.minimum(rng.poisson(np.exp(np.minimum(eta, 20.0))), MOST_COUNT)
        else:
            y = np.clip(eta + float(at["sigma"]) * rng.standard_normal(len(who)), -WIDEST, WIDEST)
        return {"who": who, "x": x, "y": y}

    def model(self, data: dict[str, np.ndarray], effects: bool) -> pm.Model:
        """The model with or without effects of persons."""
        sd, coords = PRIOR_SD[self.family], {"person": range(self.persons)}
        with pm.Model(coords=coords | {"row": range(len(data["y"]))}) as model:
            x = pm.Data("x", data["x"], dims=("row", None))
            eta = pm.Normal("c", 0, sd) + x @ pm.Normal("b", 0, sd, shape=2)
            if effects:
                s = pm.LogNormal("s", -0.5, 0.5)
                eta = eta + pm.Normal("a", 0, s, dims="person")[data["who"]]
            if self.family == "logistic":
                pm.Bernoulli("y", logit_p=eta, observed=data["y"].astype(int), dims="row")
            elif self.family == "poisson":
                pm.Poisson("y", pm.math.exp(eta), observed=data["y"].astype(int), dims="row")
            else:
                pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=data["y"], dims="row")
        return model

    def private(self, effects: bool) -> pmp.PrivateModel:
        """The model with its domains, of rows that stand in for those of all data sets."""
        start = {"c": 0.0, "b": [0.0, 0.0], "s": 0.5, "sigma": 1.0}
        model = self.model(self.rows(start, np.random.default_rng(0)), effects)
        domain: dict[str, Any] = {"x": (-1.0, 1.0), "y": {0, 1}}
        if self.family != "logistic":
            domain["y"] = (0.0, MOST_COUNT) if self.family == "poisson" else (-WIDEST, WIDEST)
        if not effects:
            units = {"records": "row", "records_per_unit": self.most}
            return pmp.privatize(model, domain=domain, **units)
        shared = pmp.marginalize(model, "a", rows_per_record=self.most)
        return pmp.privatize(shared, records="person", domain=domain)

    def by_person(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same rows with one record per person."""
        shared = pmp.marginalize(self.model(data, True), "a", rows_per_record=self.most)
        return {v.name: np.asarray(v.get_value(), float) for v in shared.data_vars}


def released(plan: Any, records: dict[str, np.ndarray], units: int, rng: Any) -> Any:
    """Weighted draws of the posterior of one summary, and whether it would be refused."""
    mechanism = plan.mechanism
    noise = SimulatedNoise(rng, plan.private.neighbors, units)
    summary = mechanism.release(records, noise)
    refused = any(caution.refuse for caution in mechanism.warnings(summary))
    start = mechanism.start(summary)
    prior = mechanism.parameters.log_prior
    return posterior(mechanism.log_likelihood(summary), prior, start, rng, DRAWS / 4), refused


def compared(found: Any, exact: Any, theta: np.ndarray, mine: list[int], own: list[int]) -> Any:
    """Errors, widths and what was held, of some coordinates."""
    low, high = (q[mine] for q in found.quantiles(LEVEL))
    ends = [q[own] for q in exact.quantiles(LEVEL)]
    return {
        "error": ((found.mean[mine] - exact.mean[own]) / exact.sd[own]).tolist(),
        "width": ((high - low) / (ends[1] - ends[0])).tolist(),
        "held": ((low <= theta[own]) & (theta[own] <= high)).tolist(),
        "effective": found.effective,
    }


def measured(setting: Setting, epsilon: float, simulations: int, seed: int, save: str) -> None:
    """Print what a setting gives, after each simulation."""
    plans = {
        kind: make_summary_plan(
            setting.private(kind == "persons"), epsilon=epsilon, delta=DELTA, method="scores"
        )
        for kind in ("persons", "rows")
    }
    print(f"{setting} at epsilon {epsilon:g}: {plans['persons'].summary()}", flush=True)
    model = plans["persons"].mechanism.model
    density = SimpleNamespace(
        outcome=model.density.outcome,
        public_rows={},
        parameters=model.parameters,
        predictors=model.predictors,
        scores=model.scores,
        jacobian=model.jacobian,
        log_density=model.log_density,
    )
    parameters, rows = model.parameters, list[dict[str, Any]]()
    names = coordinate_names(parameters)
    other = coordinate_names(plans["rows"].mechanism.parameters)
    slopes = [k for k, name in enumerate(names) if name.startswith("b[")]
    theirs = [k for k, name in enumerate(other) if name.startswith("b[")]
    for k, theta in enumerate(parameters.draws(simulations, seed)):
        rng, began = np.random.default_rng([seed, k]), time.process_time()
        at = {name: v[0] for name, v in parameters.natural(theta[None]).items()}
        data = setting.rows(at, rng)
        records = setting.by_person(data)
        exact = non_private(density, records, theta, rng)
        found, refused = released(plans["persons"], records, 1, rng)
        flat = {"x": data["x"], "y": data["y"]}
        of_rows, refused_rows = released(plans["rows"], flat, setting.most, rng)
        every = list(range(len(names)))
        rows.append({
            "all": compared(found, exact, theta, every, every) | {"refused": refused},
            "persons": compared(found, exact, theta, slopes, slopes) | {"refused": refused},
            "rows": compared(of_rows, exact, theta, theirs, slopes) | {"refused": refused_rows},
            "exact": exact.effective,
        })  # fmt: skip
        print(f"{lines_of(rows)} ({time.process_time() - began:.0f} s)", flush=True)
        if save:
            line = {"setting": str(setting), "epsilon": epsilon, "seed": seed, "k": k} | rows[-1]
            with open(save, "a") as file:
                file.write(json.dumps(line) + "\n")


def lines_of(rows: list[dict[str, Any]]) -> str:
    """Error (median, root mean square) / width / coverage of each kind over simulations."""
    parts = []
    for kind in ("all", "persons", "rows"):
        errors, widths, held = (
            np.array([row[kind][key] for row in rows]) for key in ("error", "width", "held")
        )
        each = held.mean(axis=1)
        middle = np.median(np.sqrt((errors**2).mean(axis=1)))
        refused = sum(row[kind]["refused"] for row in rows)
        parts.append(
            f"{kind} {middle:.2f} ({np.sqrt((errors**2).mean()):.2f})/{np.median(widths):.2f}/"
            f"{each.mean():.3f}±{each.std() / np.sqrt(len(each)):.3f} refused {refused} "
            f"effective {min(row[kind]['effective'] for row in rows):.0f}"
        )
    return f"{len(rows)} simulations: {', '.join(parts)}"


def main() -> None:
    """Run the settings named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulations", nargs="?", type=int, default=10)
    parser.add_argument("epsilon", nargs="?", type=float, default=1.0)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--save", default="")
    asked = parser.parse_args()
    for text in asked.settings:
        measured(Setting.of(text), asked.epsilon, asked.simulations, asked.seed, asked.save)


if __name__ == "__main__":
    main()
