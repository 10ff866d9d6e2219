"""Do verdicts on plans come true? Simulated studies, private draws, and what they really removed.

Run ``python -m benchmarks.verdict [studies [model ...]] [--save FILE]``; a run that was stopped
goes on where its file ends. For each model and number of records, calibrate once for ten draws (the
plan reads no data), then simulate studies: parameters from the prior, records from the model, draws
by the plan (from a seed). Realized share of the prior variance: 1 - E
(draw - truth)^2 / (2 Var prior), averaged over draws, studies and parameters; a draw of the prior
itself has 0. A verdict is false if the realized share, with two standard errors in its favor,
belongs to another one; it is far off if an informative plan removes less than half, or a prior
plan more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.models.verdict import verdict_of
from pymc_private.posterior.sample import seeded_draw

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Study:
    """A model, its domain, its prior as a generator, and its records as one.

    `build` adds variables that read the data variables of the model; `truth` gives parameters,
    `records` data for them.
    """

    build: Callable[[Arrays], None]
    domain: dict
    truth: Callable[[np.random.Generator], Arrays]
    records: Callable[[Arrays, np.random.Generator, int], Arrays]

    def private(self, rng: np.random.Generator, n: int) -> pmp.PrivateModel:
        """The private model, of one simulated study."""
        with pm.Model(coords={"i": range(n), "entry": range(2)}) as model:
            arrays = self.records(self.truth(rng), rng, n)
            self.build({k: pm.Data(k, v, dims=("i", "entry")[: v.ndim]) for k, v in arrays.items()})
        return pmp.privatize(model, records="i", domain=self.domain)


def disc(rng: np.random.Generator, n: int) -> np.ndarray:
    """Rows of the unit disc."""
    x = rng.normal(size=(n, 2))
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def bernoulli(d: Arrays) -> None:
    pm.Bernoulli("z", pm.Beta("p", 1, 1), observed=d["y"], dims="i")


def normal_mean(d: Arrays) -> None:
    pm.Normal("z", pm.Normal("mu", 0, 1), 1.0, observed=d["y"], dims="i")


def poisson(d: Arrays) -> None:
    pm.Poisson("z", pm.Gamma("rate", 3, 1), observed=d["y"], dims="i")


def logistic(d: Arrays) -> None:
    eta = pm.Normal("a", 0, 1) + d["X"] @ pm.Normal("b", 0, 1, shape=2)
    pm.Bernoulli("z", logit_p=eta, observed=d["y"], dims="i")


def student(d: Arrays) -> None:
    mu, sigma = pm.Normal("mu", 0, 1), pm.Gamma("sigma", 4, 4)
    pm.StudentT("z", nu=4, mu=mu, sigma=sigma, observed=d["y"], dims="i")


def weibull(d: Arrays) -> None:
    pm.Weibull("z", pm.Gamma("a", 6, 4), pm.Gamma("s", 6, 4), observed=d["y"], dims="i")


def censored(d: Arrays) -> None:
    lifetime = pm.Weibull.dist(pm.Gamma("a", 6, 4), pm.Gamma("s", 6, 4))
    alive = pm.math.log1mexp(pm.logcdf(lifetime, d["time"]))
    pm.Potential("z", pm.math.switch(d["event"], pm.logp(lifetime, d["time"]), alive), dims="i")


def absolute_loss(d: Arrays) -> None:
    pm.Potential("z", -abs(d["y"] - pm.Normal("mu", 0, 2)), dims="i")


def censored_records(t: Arrays, rng: np.random.Generator, n: int) -> Arrays:
    life, end = t["s"] * rng.weibull(t["a"], n), rng.uniform(0, 4, n)
    return {"time": np.clip(np.minimum(life, end), 0.01, 4), "event": (life <= end).astype(int)}


def logistic_records(t: Arrays, rng: np.random.Generator, n: int) -> Arrays:
    x = disc(rng, n)
    return {"X": x, "y": rng.binomial(1, 1 / (1 + np.exp(-(t["a"] + x @ t["b"]))))}


STUDIES = {
    "Bernoulli": Study(
        bernoulli, {},
        lambda rng: {"p": rng.beta(1, 1)},
        lambda t, rng, n: {"y": rng.binomial(1, t["p"], n)},
    ),
    "normal mean": Study(
        normal_mean, {"y": (-4, 4)},
        lambda rng: {"mu": rng.normal()},
        lambda t, rng, n: {"y": np.clip(rng.normal(t["mu"], 1, n), -4, 4)},
    ),
    "Poisson": Study(
        poisson, {"y": (0, 12)},
        lambda rng: {"rate": rng.gamma(3, 1)},
        lambda t, rng, n: {"y": np.minimum(rng.poisson(t["rate"], n), 12)},
    ),
    "logistic": Study(
        logistic, {"X": pmp.Ball(1.0)},
        lambda rng: {"a": rng.normal(), "b": rng.normal(size=2)},
        logistic_records,
    ),
    "Student t": Study(
        student, {"y": (-10, 10)},
        lambda rng: {"mu": rng.normal(), "sigma": rng.gamma(4, 0.25)},
        lambda t, rng, n: {"y": np.clip(t["mu"] + t["sigma"] * rng.standard_t(4, n), -10, 10)},
    ),
    "Weibull": Study(
        weibull, {"y": (0.01, 12)},
        lambda rng: {"a": rng.gamma(6, 0.25), "s": rng.gamma(6, 0.25)},
        lambda t, rng, n: {"y": np.clip(t["s"] * rng.weibull(t["a"], n), 0.01, 12)},
    ),
    "censored": Study(
        censored, {"time": (0.01, 4), "event": {0, 1}},
        lambda rng: {"a": rng.gamma(6, 0.25), "s": rng.gamma(6, 0.25)},
        censored_records,
    ),
    "absolute loss": Study(
        absolute_loss, {"y": (-8, 8)},
        lambda rng: {"mu": rng.normal(0, 2)},
        lambda t, rng, n: {"y": np.clip(t["mu"] + rng.laplace(size=n), -8, 8)},
    ),
}  # fmt: skip
SIZES, DRAWS = (30, 100, 300, 1_000, 3_000), 10


Shares = dict[tuple[str, int], dict[int, float]]
"""Realized shares by model and number of records, then by study."""


def stored(path: Path | None) -> Shares:
    """The studies that a file holds."""
    found: Shares = {}
    if path is not None and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            found.setdefault((one["model"], one["n"]), {})[one["study"]] = one["share"]
    return found


def planned(study: Study, n: int) -> pmp.Plan:
    """The plan of ten draws; the records of its model are replaced in each study."""
    private = study.private(np.random.default_rng(n), n)
    return pmp.calibrate(private, epsilon=1, delta=1e-6, draws=DRAWS)


def prior_spread(study: Study) -> Arrays:
    """Standard deviations of the parameters under the prior."""
    rng = np.random.default_rng(0)
    prior = [study.truth(rng) for _ in range(2_000)]
    return {name: np.std([t[name] for t in prior], axis=0) for name in prior[0]}


def realized_share(study: Study, plan: pmp.Plan, spread: Arrays, seed: int) -> float:
    """The share of the prior variance that the draws of one simulated study remove."""
    n = plan.private.n
    rng = np.random.default_rng([n, seed])
    truth = study.truth(rng)
    pm.set_data(study.records(truth, rng, n), model=plan.private.base)
    drawn = seeded_draw(plan, seed, False)
    errors = [np.ravel(((drawn[k] - v) / spread[k]) ** 2) for k, v in truth.items()]
    return float(1.0 - np.mean(np.concatenate(errors)) / 2.0)


def verdict_line(name: str, n: int, plan: pmp.Plan, shares: np.ndarray) -> tuple[str, bool, bool]:
    """A line of the table, and whether the verdict is false, or far off."""
    mean, error = shares.mean(), shares.std() / len(shares) ** 0.5
    near = {verdict_of(float(max(mean + k * error, 0.0))) for k in (-2, 0, 2)}
    wrong = plan.verdict not in near
    off = {"informative": mean < 0.5, "prior": mean > 0.5}.get(plan.verdict, False)
    marks = "  clipped" * plan.chosen.clipped + "  FALSE" * wrong + "  FAR OFF" * bool(off)
    line = f"{name:12s} {n:6d} {plan.verdict:12s} {plan.information:9.2f} {mean:9.2f} {error:6.2f}"
    return line + marks, wrong, bool(off)


def main() -> None:
    """Run the studies that the file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", type=int, nargs="?", default=20)
    parser.add_argument("models", nargs="*", help=", ".join(STUDIES))
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'model':12s} {'n':>6s} {'verdict':12s} {'expected':>9s} {'realized':>9s} {'error':>6s}"
    )
    false = far = total = 0
    known = stored(given.save)
    for name, n in itertools.product(given.models or STUDIES, SIZES):
        study, shares = STUDIES[name], known.get((name, n), {})
        plan, spread = planned(study, n), prior_spread(study)
        for seed in range(given.studies):
            if seed in shares:
                continue
            shares[seed] = realized_share(study, plan, spread, seed)
            if given.save is not None:
                one = {"model": name, "n": n, "study": seed, "share": shares[seed]}
                with given.save.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
        line, wrong, off = verdict_line(name, n, plan, np.array(list(shares.values())))
        false, far, total = false + wrong, far + off, total + 1
        print(line, flush=True)
    print(f"{false} of {total} verdicts false, {far} far off, by {given.studies} studies each")


if __name__ == "__main__":
    main()
