"""Calibration of log BF(check | summary) by data sets of both models.

Run ``python -m benchmarks.bayes_factor [data sets of each model] [--n N] [--groups] [--save F]``.
The fitted model is a logistic regression, the other one has an interaction gamma ~ N(0,
`GAMMA_SD`^2). With ``--groups`` the fitted model has intercepts of `GROUPS` groups, the other one
slopes, too, with a half-normal standard deviation gamma. In each data set of the other model gamma
is drawn from this prior. A summary at `EPSILON` and a check at `CHECK_EPSILON` are released with
simulated noise. If the Bayes factors are right, then of
all data sets with posterior odds o, taken half from each model, a share o / (1 + o) is of the other
one; and 1 / BF has mean 1 under it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from benchmarks.criticism import DELTA, SLOPES, SPREAD, logistic
from pymc_private.criticism.alternative_model import alternative_direction
from pymc_private.criticism.extended_model import log_evidence_ratio
from pymc_private.criticism.fitted_summary import fitted_summary
from pymc_private.criticism.group_slopes import planned_groups
from pymc_private.criticism.planned_test import planned_test
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu

EPSILON, CHECK_EPSILON, GAMMA_SD = 1.0, 1.0, 0.7
GROUPS, EFFECT_SD = 10, 0.5
EDGES = (0.0, 0.15, 0.3, 0.5, 0.8, 1.0)
"""Of the bins of predicted probabilities."""


def model_of(x: np.ndarray, z: np.ndarray, y: np.ndarray, extended: bool) -> pm.Model:
    """The fitted model or the one with an interaction."""
    with pm.Model() as model:
        columns = [pm.Data(name, values) for name, values in (("x", x), ("z", z))]
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        eta = slopes[0] + slopes[1] * columns[0] + slopes[2] * columns[1]
        if extended:
            eta = eta + pm.Normal("gamma", 0, GAMMA_SD) * columns[0] * columns[1]
        pm.Bernoulli("y", logit_p=eta, observed=y)
    return model


class BayesFactorStudy:
    """Both models, and the mechanism of the fitted one.

    Parameters
    ----------
    n : int
    """

    def __init__(self, n: int) -> None:
        self.n = n
        rows = np.random.default_rng(0).uniform(-1, 1, (2, n))
        own, self.other = (
            model_of(*rows, np.arange(n) % 2, extended) for extended in (False, True)
        )
        self.declare(own, records=dict.fromkeys("xzy", 0), domain={"x": (-1, 1), "z": (-1, 1)})

    def declare(self, model: pm.Model, **words: Any) -> None:
        """Make the mechanism of the fitted model."""
        self.private = pmp.privatize(model, **words)
        self.mechanism: Any = make_summary_plan(
            self.private, epsilon=EPSILON, delta=DELTA, method="scores"
        ).mechanism

    def records(self, extended: bool, rng: np.random.Generator) -> tuple[dict[str, Any], float]:
        """Covariates and outcomes of one data set, and its gamma."""
        rows = {name: rng.uniform(-1, 1, self.n) for name in "xz"}
        slopes = SLOPES + SPREAD * rng.standard_normal(3)
        gamma = GAMMA_SD * float(rng.standard_normal()) if extended else 0.0
        eta = slopes[0] + slopes[1] * rows["x"] + slopes[2] * rows["z"]
        return rows | {"y": logistic(eta + gamma * rows["x"] * rows["z"], rng)}, gamma

    def data_set(self, extended: bool, number: int) -> dict[str, Any]:
        """The log Bayes factor of one data set, in JSON types."""
        rng = np.random.default_rng([number, int(extended)])
        records, gamma = self.records(extended, rng)
        noise = SimulatedNoise(rng)
        names = {source.name for source in self.private.sources}
        released = self.mechanism.release({k: records[k] for k in names}, noise)
        fit = fitted_summary(self.mechanism, released)
        density = self.mechanism.model.density
        direction = alternative_direction(self.other, self.private, density, fit, {})
        part = self.part(fit, direction)
        rows = records | self.mechanism.design.public_rows
        y = np.asarray(rows.pop("y"), dtype=float)
        sums = part.release([(rows, y, len(y))], noise)
        (test,), (forecast,) = part.tested_all(sums, 0.05), part.forecasts
        return {
            "n": self.n,
            "extended": extended,
            "number": number,
            "gamma": gamma,
            "log_bf": log_evidence_ratio(self.mechanism, released, part, sums),
            "z": test.z,
            "sd": forecast.smallest() if direction.groups else test.estimate_sd,
        }

    def part(self, fit: Any, direction: Any) -> Any:
        """What is planned of the check."""
        mu = largest_mu(CHECK_EPSILON, DELTA)
        if direction.groups is None:
            return planned_test(fit, direction, NoiseScale(), mu)
        label = direction.label
        return planned_groups(fit, direction, label, direction.groups, NoiseScale(), mu)


class GroupsStudy(BayesFactorStudy):
    """The same where slopes of groups vary."""

    def __init__(self, n: int) -> None:
        self.n = n
        own, self.other = (self.model(extended) for extended in (False, True))
        self.declare(own, records="row", domain={"x": (-1, 1)}, public=["g"])

    @property
    def labels(self) -> np.ndarray:
        """The group of each record."""
        return np.arange(self.n) % GROUPS

    def model(self, extended: bool) -> pm.Model:
        """Intercepts of groups, and slopes where it is the other one; made-up records."""
        with pm.Model(coords={"row": range(self.n), "group": range(GROUPS)}) as model:
            x = pm.Data("x", np.linspace(-1, 1, self.n), dims="row")
            g = pm.Data("g", self.labels, dims="row")
            effect = pm.Normal("effect", pm.Normal("mean", 0, EFFECT_SD), EFFECT_SD, dims="group")
            slope = pm.Normal("slope", 0, 1)
            eta = effect[g] + slope * x
            if extended:
                sd = pm.HalfNormal("gamma", GAMMA_SD)
                eta = eta + pm.Normal("b", 0, sd, dims="group")[g] * x
            pm.Bernoulli("y", logit_p=eta, observed=np.arange(self.n) % 2, dims="row")
        return model

    def records(self, extended: bool, rng: np.random.Generator) -> tuple[dict[str, Any], float]:
        """Covariates and outcomes of one data set, and the standard deviation of its slopes."""
        x = rng.uniform(-1, 1, self.n)
        mean, slope = EFFECT_SD * rng.standard_normal(), rng.standard_normal()
        effect = mean + EFFECT_SD * rng.standard_normal(GROUPS)
        gamma = GAMMA_SD * abs(float(rng.standard_normal())) if extended else 0.0
        slopes = slope + gamma * rng.standard_normal(GROUPS)
        g = self.labels
        return {"x": x, "y": logistic(effect[g] + slopes[g] * x, rng)}, gamma


def lines_of(found: Sequence[dict[str, Any]]) -> list[str]:
    """The means of BF and 1 / BF, and the bins of predicted probabilities."""
    logs = {kind: np.array([one["log_bf"] for one in found if one["extended"] is kind])
            for kind in (False, True)}  # fmt: skip
    lines = []
    for name, values in (("1 / BF, the other model", np.exp(-logs[True])),
                         ("BF, the fitted model", np.exp(logs[False]))):  # fmt: skip
        error = values.std(ddof=1) / np.sqrt(len(values))
        lines.append(f"mean of {name}: {values.mean():.2f} ± {error:.2f} ({len(values)})")
    chance = 1.0 / (1.0 + np.exp(-np.concatenate([logs[True], logs[False]])))
    truth = np.repeat([1.0, 0.0], [len(logs[True]), len(logs[False])])
    lines += ["| predicted | mean | data sets | share of the other model |", "|---|---|---|---|"]
    for low, high in pairwise(EDGES):
        inside = (chance >= low) & (chance < high)
        if count := int(inside.sum()):
            share = truth[inside].mean()
            error = np.sqrt(max(share * (1 - share), 0.25 / count) / count)
            lines.append(f"| {low:g} to {high:g} | {chance[inside].mean():.2f} | {count} | "
                         f"{share:.2f} ± {error:.2f} |")  # fmt: skip
    return lines


def main() -> None:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_sets", nargs="?", type=int, default=40)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--groups", action="store_true")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    if options.save is not None and options.save.exists():
        found = [json.loads(line) for line in options.save.read_text().splitlines()]
    found = [one for one in found if one["n"] == options.n]
    known = {(one["extended"], one["number"]) for one in found}
    study = (GroupsStudy if options.groups else BayesFactorStudy)(options.n)
    for number in range(options.data_sets):
        for extended in (False, True):
            if (extended, number) in known:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(study.data_set(extended, number))
            if options.save is not None:
                with options.save.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    print(*lines_of(found), sep="\n")


if __name__ == "__main__":
    main()
