"""Calibration of log BF(check | summary) by data sets of both models.

Run ``python -m benchmarks.bayes_factor [data sets of each model] [--n N] [--save FILE]``. The
fitted model is a logistic regression, the other one has an interaction gamma ~ N(0, `GAMMA_SD`^2).
In each data set of the other model gamma is drawn from this prior. A summary at `EPSILON` and a
check at `CHECK_EPSILON` are released with simulated noise. If the Bayes factors are right, then of
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
from pymc_private.criticism.planned_test import planned_test
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu

EPSILON, CHECK_EPSILON, GAMMA_SD = 1.0, 1.0, 0.7
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
        self.private = pmp.privatize(
            own, records=dict.fromkeys("xzy", 0), domain={"x": (-1, 1), "z": (-1, 1)}
        )
        self.mechanism: Any = make_summary_plan(
            self.private, epsilon=EPSILON, delta=DELTA, method="scores"
        ).mechanism

    def data_set(self, extended: bool, number: int) -> dict[str, Any]:
        """The log Bayes factor of one data set, in JSON types."""
        rng = np.random.default_rng([number, int(extended)])
        rows = {name: rng.uniform(-1, 1, self.n) for name in "xz"}
        slopes = SLOPES + SPREAD * rng.standard_normal(3)
        gamma = GAMMA_SD * float(rng.standard_normal()) if extended else 0.0
        eta = slopes[0] + slopes[1] * rows["x"] + slopes[2] * rows["z"]
        y = logistic(eta + gamma * rows["x"] * rows["z"], rng)
        noise = SimulatedNoise(rng)
        released = self.mechanism.release(rows | {"y": y}, noise)
        fit = fitted_summary(self.mechanism, released)
        density = self.mechanism.model.density
        direction = alternative_direction(self.other, self.private, density, fit, {})
        mu = largest_mu(CHECK_EPSILON, DELTA)
        test = planned_test(fit, direction, NoiseScale(), mu)
        terms = test.statistic.terms(rows, y.astype(float))
        total = float(noise.total([terms[:, None]], test.statistic.bound, False, mu)[0])
        return {
            "n": self.n,
            "extended": extended,
            "number": number,
            "gamma": gamma,
            "log_bf": log_evidence_ratio(self.mechanism, released, test, total),
            "z": (total - test.null.mean) / test.sd,
            "sd": test.sd / abs(test.sensitivity),
        }


def lines_of(found: Sequence[dict[str, Any]]) -> list[str]:
    """The means of BF and 1 / BF, and the bins of predicted probabilities."""
    logs = {kind: np.array([one["log_bf"] for one in found if one["extended"] is kind])
            for kind in (False, True)}  # fmt: skip
    lines = []
    for name, values in (("1 / BF, interaction", np.exp(-logs[True])),
                         ("BF, none", np.exp(logs[False]))):  # fmt: skip
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
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    if options.save is not None and options.save.exists():
        found = [json.loads(line) for line in options.save.read_text().splitlines()]
    found = [one for one in found if one["n"] == options.n]
    known = {(one["extended"], one["number"]) for one in found}
    study = BayesFactorStudy(options.n)
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
