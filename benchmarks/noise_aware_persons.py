"""Persons with several rows as records, beside rows as records of units of several (T24).

Run ``python -m benchmarks.noise_aware_persons [simulations] [epsilon] [setting] ...``, a setting
being ``family:persons:rows``, for example ``logistic:1000:4`` (logistic, poisson, normal,
negative_binomial); with ``:alike`` behind it the two covariates of a person's rows are correlated
(.5), with ``:rare`` they are rare dummies, else independent; with ``:slopes`` persons have a slope
of the first covariate, too, correlated with their intercept (LKJ prior). Numbers of rows are
uniform from one to the most. In each simulation parameters come from the prior and rows from the
model: predictor c + x b + a of the person, a ~ N(0, s). All posteriors are found by importance
sampling.

*Persons*: `marginalize(model, "a", rows_per_record=rows)`. *Rows*: a model without a, each row a
record, and ``records_per_unit=rows``, which protects the same; its posterior takes rows as
independent. Printed for both: error of posterior means of the coefficients b, in standard
deviations of the posterior of the persons' records (median over simulations and root mean square),
median width of 90% intervals relative to that posterior, and coverage of 90% and 50% intervals of
b; for persons also the coverage of all parameters. Only the first ``--compared`` data sets
(default: all) are compared with the posterior of the records and with rows; the others tell
coverage of persons.
``--seed`` gives other data sets; ``--save FILE`` adds a JSON line for each simulation, of all
parameters and of b, and goes on where the file stopped. ``python -m benchmarks.noise_aware_coverage
--persons FILE`` adds it to the stored table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import ndtri

import pymc_private as pmp
from benchmarks.noise_aware import add_line, missing, non_private, posterior
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.parameters import coordinate_names

DELTA, SEED, LEVEL, HALF = 1e-6, 41, (0.05, 0.95), (0.25, 0.75)
PRIOR_SD = {"logistic": 1.0, "normal": 1.0, "poisson": 0.5, "negative_binomial": 0.5}
COUNTS = ("poisson", "negative_binomial")
MOST_COUNT, WIDEST = 200.0, 12.0
SETTINGS = ("logistic:1000:4", "poisson:1000:4", "normal:1000:4")
DRAWS = 1500


@dataclass(frozen=True)
class Setting:
    """A family, numbers of persons and of rows, and ``alike``, ``rare`` or ``slopes``."""

    family: str
    persons: int
    most: int
    kind: str = ""

    @classmethod
    def of(cls, text: str) -> Setting:
        """A setting as it is written."""
        family, persons, most, *kind = text.split(":")
        return cls(family, int(persons), int(most), *kind)

    @property
    def text(self) -> str:
        """A setting as it is written."""
        return ":".join(
            [self.family, str(self.persons), str(self.most), *filter(None, [self.kind])]
        )

    def rows(self, at: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One data set, a line per row."""
        counts = rng.integers(1, self.most + 1, self.persons)
        who = np.repeat(np.arange(self.persons), counts)
        own = rng.uniform(-1, 1, (self.persons, 2))[who]
        x = rng.uniform(-1, 1, (len(who), 2))
        if self.kind == "alike":
            x = (own + x) / 2.0
        if self.kind == "rare":  # of 5% of all rows, and of 15%, mostly all rows of a person
            z = np.sqrt([0.0, 0.8]) * ndtri((own + 1.0) / 2.0) + np.sqrt([1.0, 0.2]) * ndtri(
                (x + 1.0) / 2.0
            )
            x = 1.0 * (z < ndtri([0.05, 0.15]))
        eta = float(at["c"]) + x @ np.asarray(at["b"])
        if self.kind == "slopes":
            lower = np.zeros((2, 2))
            lower[np.tril_indices(2)] = np.asarray(at["chol"])
            a, slope = lower @ rng.standard_normal((2, self.persons))
            eta = eta + a[who] + slope[who] * x[:, 0]
        else:
            eta = eta + (float(at["s"]) * rng.standard_normal(self.persons))[who]
        if self.family == "logistic":
            y = 1.0 * (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-eta)))
        elif self.family in COUNTS:
            mean = np.exp(np.minimum(eta, 20.0))
            if self.family == "negative_binomial":
                mean *= rng.gamma(float(at["alpha"]), 1.0 / float(at["alpha"]), len(who))
            y = np.minimum(rng.poisson(mean), MOST_COUNT)
        else:
            y = np.clip(eta + float(at["sigma"]) * rng.standard_normal(len(who)), -WIDEST, WIDEST)
        return {"who": who, "x": x, "y": y}

    def model(self, data: dict[str, np.ndarray], effects: bool) -> pm.Model:
        """The model with or without effects of persons."""
        sd, coords = PRIOR_SD[self.family], {"person": range(self.persons), "effect": range(2)}
        with pm.Model(coords=coords | {"row": range(len(data["y"]))}) as model:
            x = pm.Data("x", data["x"], dims=("row", None))
            eta = pm.Normal("c", 0, sd) + x @ pm.Normal("b", 0, sd, shape=2)
            if effects and self.kind == "slopes":
                sd = pm.LogNormal.dist(-0.5, 0.5, size=2)
                chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
                own = pm.MvNormal("a", np.zeros(2), chol=chol, dims=("person", "effect"))
                eta = eta + own[data["who"], 0] + own[data["who"], 1] * x[:, 0]
            elif effects:
                s = pm.LogNormal("s", -0.5, 0.5)
                eta = eta + pm.Normal("a", 0, s, dims="person")[data["who"]]
            if self.family == "logistic":
                pm.Bernoulli("y", logit_p=eta, observed=data["y"].astype(int), dims="row")
            elif self.family == "poisson":
                pm.Poisson("y", pm.math.exp(eta), observed=data["y"].astype(int), dims="row")
            elif self.family == "negative_binomial":
                alpha = pm.LogNormal("alpha", 1.0, 0.5)
                y = data["y"].astype(int)
                pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=alpha, observed=y, dims="row")
            else:
                pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=data["y"], dims="row")
        return model

    def private(self, effects: bool) -> pmp.PrivateModel:
        """The model with its domains, of rows that stand in for those of all data sets."""
        start = {"c": 0.0, "b": [0.0, 0.0], "s": 0.5, "sigma": 1.0, "alpha": 2.0}
        start["chol"] = [0.5, 0.0, 0.5]
        model = self.model(self.rows(start, np.random.default_rng(0)), effects)
        domain: dict[str, Any] = {"x": (-1.0, 1.0), "y": {0, 1}}
        if self.kind == "rare":
            domain["x"] = {0.0, 1.0}
        if self.family != "logistic":
            domain["y"] = (0.0, MOST_COUNT) if self.family in COUNTS else (-WIDEST, WIDEST)
        if not effects:
            units = {"records": "row", "records_per_unit": self.most}
            return pmp.privatize(model, domain=domain, **units)
        shared = pmp.marginalize(model, "a", rows_per_record=self.most, points=3)
        return pmp.privatize(shared, records="person", domain=domain)

    def by_person(self, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same rows with one record per person."""
        shared = pmp.marginalize(self.model(data, True), "a", rows_per_record=self.most, points=3)
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
    """Errors, widths and what was held, of some coordinates; no errors without an exact one."""
    low, high = (q[mine] for q in found.quantiles(LEVEL))
    inner = [q[mine] for q in found.quantiles(HALF)]
    held = {
        "outer": ((low <= theta[own]) & (theta[own] <= high)).tolist(),
        "inner": ((inner[0] <= theta[own]) & (theta[own] <= inner[1])).tolist(),
        "effective": found.effective,
    }
    if exact is None:
        return held
    ends = [q[own] for q in exact.quantiles(LEVEL)]
    return held | {
        "error": ((found.mean[mine] - exact.mean[own]) / exact.sd[own]).tolist(),
        "width": ((high - low) / (ends[1] - ends[0])).tolist(),
    }


class Study:
    """One setting at one epsilon: both plans, made once."""

    def __init__(self, setting: Setting, epsilon: float) -> None:
        self.setting = setting
        self.persons, self.rows = (
            make_summary_plan(
                setting.private(effects), epsilon=epsilon, delta=DELTA, method="scores"
            )
            for effects in (True, False)
        )
        model = self.persons.mechanism.model
        self.density = SimpleNamespace(
            outcome=model.density.outcome,
            public_rows={},
            parameters=model.parameters,
            predictors=model.predictors,
            scores=model.scores,
            jacobian=model.jacobian,
            log_density=model.log_density,
        )

    def one(self, theta: np.ndarray, rng: np.random.Generator, whole: bool) -> dict[str, Any]:
        """One simulation at a parameter vector, compared with others if `whole`."""
        parameters = self.density.parameters
        at = {name: v[0] for name, v in parameters.natural(theta[None]).items()}
        data = self.setting.rows(at, rng)
        records = self.setting.by_person(data)
        exact = non_private(self.density, records, theta, rng) if whole else None
        found, refused = released(self.persons, records, 1, rng)
        every = list(range(len(theta)))
        own, theirs = (slopes_of(plan) for plan in (self.persons, self.rows))
        result = {
            "all": compared(found, exact, theta, every, every) | {"refused": refused},
            "persons": compared(found, exact, theta, own, own) | {"refused": refused},
        }
        if whole:
            flat = {"x": data["x"], "y": data["y"]}
            of_rows, refused = released(self.rows, flat, self.setting.most, rng)
            result["rows"] = compared(of_rows, exact, theta, theirs, own) | {"refused": refused}
        return result


def slopes_of(plan: Any) -> list[int]:
    """The coordinates of the slopes."""
    names = coordinate_names(plan.mechanism.parameters)
    return [k for k, name in enumerate(names) if name.startswith("b[")]


def lines_of(rows: list[dict[str, Any]]) -> str:
    """Error (median, root mean square) / width / coverage of each kind over simulations."""
    parts = []
    for kind in ("all", "persons", "rows"):
        mine = [row[kind] for row in rows if kind in row]
        if not mine:
            continue
        refused = sum(row["refused"] for row in mine)
        held = [coverage_of(mine, level) for level in ("outer", "inner")]
        text = f"{kind} {held[0]}, 50% {held[1]} of {len(mine)}"
        whole = [row for row in mine if "error" in row]
        if whole:
            errors, widths = (np.array([row[key] for row in whole]) for key in ("error", "width"))
            middle = np.median(np.sqrt((errors**2).mean(axis=1)))
            text += f", error {middle:.2f} ({np.sqrt((errors**2).mean()):.2f}), "
            text += f"width {np.median(widths):.2f} of {len(whole)}"
        least = min(row["effective"] for row in mine)
        parts.append(f"{text}, refused {refused}, effective {least:.0f}")
    return "; ".join(parts)


def coverage_of(rows: list[dict[str, Any]], level: str) -> str:
    """The share of intervals that held, with its standard error between data sets."""
    each = np.array([row[level] for row in rows]).mean(axis=1)
    return f"{each.mean():.3f}±{each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0:.3f}"


def measured(setting: Setting, asked: Any) -> None:
    """Print what a setting gives, after each simulation."""
    study, rows = Study(setting, asked.epsilon), list[dict[str, Any]]()
    print(f"{setting} at epsilon {asked.epsilon:g}: {study.persons.summary()}", flush=True)
    draws = study.density.parameters.draws(asked.simulations, asked.seed)
    wanted = list(range(asked.simulations))
    if asked.save:
        wanted = missing(asked.save, setting.text, asked.epsilon, asked.simulations, asked.seed)
    for k in wanted:
        began = time.process_time()
        whole = asked.compared is None or k < asked.compared
        rows.append(study.one(draws[k], np.random.default_rng([asked.seed, k]), whole))
        print(f"{lines_of(rows)} ({time.process_time() - began:.0f} s)", flush=True)
        if asked.save:
            parts = dict(rows[-1])
            one = {"method": "scores", "simulation": k} | parts.pop("all") | parts
            add_line(asked.save, setting.text, asked.epsilon, asked.seed, one)


def main() -> None:
    """Run the settings named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulations", nargs="?", type=int, default=10)
    parser.add_argument("epsilon", nargs="?", type=float, default=1.0)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--compared", type=int)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    for text in asked.settings:
        measured(Setting.of(text), asked)


if __name__ == "__main__":
    main()
