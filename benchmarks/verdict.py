"""Do verdicts on plans come true? Simulated studies, private draws, and what they really removed.

Run ``python -m benchmarks.verdict [studies [model ...]]``. For each model, number of records and of
draws, calibrate once (the plan reads no data), then simulate studies: parameters from the prior,
records from the model, draws by the plan (from a seed). Realized share of the prior variance: 1 - E
(draw - truth)^2 / (2 Var prior), averaged over draws, studies and parameters; a draw of the prior
itself has 0. A verdict is false if the realized share, with two standard errors in its favor,
belongs to another one; it is far off if an informative plan removes less than half, or a prior
plan more.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

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
}  # fmt: skip
SIZES, DRAWS = (30, 100, 300, 1_000, 3_000), 10


def realized_shares(study: Study, n: int, studies: int) -> tuple[pmp.Plan, np.ndarray]:
    """The plan, and the share of the prior variance that its draws remove, study by study."""
    rng = np.random.default_rng(n)
    plan = pmp.calibrate(study.private(rng, n), epsilon=1, delta=1e-6, draws=DRAWS)
    prior = [study.truth(rng) for _ in range(2_000)]
    spread = {name: np.std([t[name] for t in prior], axis=0) for name in prior[0]}
    shares = []
    for seed in range(studies):
        truth = study.truth(rng)
        pm.set_data(study.records(truth, rng, n), model=plan.private.base)
        drawn = seeded_draw(plan, seed, False)
        errors = [np.ravel(((drawn[k] - v) / spread[k]) ** 2) for k, v in truth.items()]
        shares.append(1.0 - np.mean(np.concatenate(errors)) / 2.0)
    return plan, np.array(shares)


def main(studies: int, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(
        f"{'model':12s} {'n':>6s} {'verdict':12s} {'expected':>9s} {'realized':>9s} {'error':>6s}"
    )
    false = far = total = 0
    for name in names or STUDIES:
        for n in SIZES:
            plan, shares = realized_shares(STUDIES[name], n, studies)
            mean, error = shares.mean(), shares.std() / studies**0.5
            near = {verdict_of(float(max(mean + k * error, 0.0))) for k in (-2, 0, 2)}
            wrong = plan.verdict not in near
            off = (plan.verdict == "informative" and mean < 0.5) or (
                plan.verdict == "prior" and mean > 0.5
            )
            false, far, total = false + wrong, far + off, total + 1
            print(
                f"{name:12s} {n:6d} {plan.verdict:12s} {plan.information:9.2f} {mean:9.2f} "
                f"{error:6.2f}{'  clipped' if plan.chosen.clipped else ''}"
                f"{'  FALSE' if wrong else ''}{'  FAR OFF' if off else ''}",
                flush=True,
            )
    print(f"{false} of {total} verdicts false, {far} far off, by {studies} studies each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
