"""Real hierarchies, persons with several rows, and answers of persons: sets that packages carry.

Run ``python -m benchmarks.noise_aware_packaged [releases] [epsilons] [part of a name] ...``, for
example ``4 1,2 radon``. What is printed is that of `benchmarks.noise_aware_real_groups`: error and
width of summaries of one fixed data set beside its posterior and ten draws, or why nothing is
released. Radon: 919 houses of 85 counties, floor, and log uranium of the county. Languages: 2,287
pupils of 133 classes, IQ and status. Wages: 545 men, 8 years each, an effect of each man. Wheeze:
537 children, 4 visits each, an effect of each child. Verbal aggression: 316 persons, 24 items
(Rasch). Sleep: 18 persons, 10 days each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

import pymc_private as pmp
from benchmarks.noise_aware_hierarchies import SCALE_PRIOR
from benchmarks.noise_aware_real import between, signs
from benchmarks.noise_aware_real_groups import Columns, Groups, asked, print_set
from benchmarks.packaged_data import packaged

POINTS = 21
"""Quadrature nodes of an ability."""


@dataclass(frozen=True)
class Persons:
    """Persons with several rows as records, the effect of each integrated out."""

    data: str
    person: str
    covariates: Callable[[pd.DataFrame], Columns]
    outcome: Callable[[pd.DataFrame], np.ndarray]
    ends: tuple[float, float] | None = None

    def private(self) -> pmp.PrivateModel:
        """The model with its records and domains."""
        table = packaged(self.data)
        who, kinds = pd.factorize(table[self.person])
        x = np.column_stack(list(self.covariates(table).values()))
        y = np.asarray(self.outcome(table), float)
        coords = {"person": range(len(kinds)), "row": range(len(y))}
        with pm.Model(coords=coords) as model:
            data = pm.Data("x", x, dims=("row", None))
            own = pm.Normal("own", 0.0, pm.LogNormal("s", -0.5, 0.5), dims="person")
            eta = pm.Normal("c") + data @ pm.Normal("b", shape=x.shape[1]) + own[who]
            if self.ends is None:
                pm.Bernoulli("y", logit_p=eta, observed=y.astype(int), dims="row")
            else:
                y = np.clip(y, *self.ends)
                pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
        most = int(np.bincount(who).max())
        shared = pmp.marginalize(model, "own", rows_per_record=most)
        domain = {"x": (-1.0, 1.0), "y": self.ends or {0, 1}}
        return pmp.privatize(shared, records="person", domain=domain)


@dataclass(frozen=True)
class Radon:
    """Houses of counties, whose uranium is a public array of theirs."""

    public: bool

    def private(self) -> pmp.PrivateModel:
        """The model with its records and domains."""
        table = packaged("radon")
        county, kinds = pd.factorize(table.county.str.strip(), sort=True)
        uranium = np.log(table.groupby(county).Uppm.mean().to_numpy())
        y = np.clip(table.log_radon.to_numpy(), -3.0, 5.0)
        with pm.Model(coords={"row": range(len(y)), "county": kinds}) as model:
            mean, sd = pm.Normal("mean"), pm.LogNormal("sd", *SCALE_PRIOR)
            known = pm.Normal("trend") * pm.Data("uranium", uranium, dims="county")
            effect = pm.Normal("effect", mean + known, sd, dims="county")
            floor = pm.Data("floor", signs(table.floor == 1), dims="row")
            eta = effect[pm.Data("g", county, dims="row")] + pm.Normal("slope") * floor
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
        domain: dict[str, Any] = {"y": (-3.0, 5.0), "floor": {-1, 1}}
        domain |= {} if self.public else {"g": pmp.Categories(range(len(kinds)))}
        public = ["uranium", "g"] if self.public else ["uranium"]
        return pmp.privatize(model, records="row", domain=domain, public=public)


@dataclass(frozen=True)
class Answers:
    """Rasch's model of persons' answers, abilities integrated out."""

    data: str

    def private(self) -> pmp.PrivateModel:
        """The model with its records and domains."""
        table = packaged(self.data)
        answers = table.pivot(index="id", columns="item", values="r2").to_numpy() == "Y"
        n, items = answers.shape
        with pm.Model() as model:
            ability = pm.Normal("ability", 0, pm.LogNormal("s", 0.0, 0.5), shape=n)[:, None]
            eta = ability - pm.Normal("hard", 0, 1, shape=items)
            pm.Bernoulli("y", logit_p=eta, observed=answers.astype(int))
        shared = pmp.marginalize(model, "ability", points=POINTS)
        return pmp.privatize(shared, records={"y": 0}, domain={"y": {0, 1}})


def pupil(t: pd.DataFrame) -> Columns:
    """Verbal IQ and status of the family."""
    return {"IQ": between(t.IQ, 1, 20), "status": between(t.SES, 0, 60)}


def man(t: pd.DataFrame) -> Columns:
    """Schooling, experience, union and marriage."""
    return {
        "school": between(t.school, 0, 20),
        "experience": between(t.exper, 0, 20),
        "union": signs(t.union == "yes"),
        "married": signs(t.married == "yes"),
    }


SETS: dict[str, tuple[Groups | Persons | Radon | Answers, str]] = {
    "radon by private county": (Radon(public=False), "scores"),
    "radon by public county": (Radon(public=True), "scores"),
    "language by class": (
        Groups(
            "nlschools", "class", pupil, lambda t: (t.lang - 40) / 10, "normal", (-4.0, 2.0),
            packaged,
        ),
        "scores",
    ),
    "wages of men": (Persons("Males", "nr", man, lambda t: t.wage, (-3.0, 5.0)), "scores"),
    "wheeze of children": (
        Persons(
            "ohio",
            "id",
            lambda t: {"age": between(t.age, -2, 1), "smoke": signs(t.smoke == 1)},
            lambda t: t.resp,
        ),
        "scores",
    ),
    "verbal aggression": (Answers("VerbAgg"), "records"),
    "sleep of persons": (
        Persons(
            "sleepstudy", "Subject", lambda t: {"days": between(t.Days, 0, 9)},
            lambda t: (t.Reaction - 300) / 50, (-4.0, 6.0),
        ),
        "scores",
    ),
}  # fmt: skip
"""The sets, and which kind of summary they have."""


def main() -> None:
    """Print the lines."""
    given = asked()
    for name, (data, method) in SETS.items():
        if not given.names or any(part in name for part in given.names):
            print_set(name, data.private(), given, method)


if __name__ == "__main__":
    main()
