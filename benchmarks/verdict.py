"""Do verdicts on plans come true? Simulated studies, released draws, and what they really removed.

Run ``python -m benchmarks.verdict [studies]``. For each model and number of records, calibrate once
(the plan reads no data), then simulate studies: parameters from the prior, records from the model,
draws by the plan (from a seed). Realized share of the prior variance: 1 - E (draw - truth)^2 /
(2 Var prior), averaged over draws, studies and parameters; a draw of the prior itself has 0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp

Study = tuple[str, Callable[[np.random.Generator, int], tuple[Any, dict[str, np.ndarray]]]]


def bernoulli(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, np.ndarray]]:
    p = rng.beta(1, 1)
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=(rng.random(n) < p).astype(int))
    return pmp.privatize(model, records={"y": 0}), {"p": np.array(p)}


def normal_mean(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, np.ndarray]]:
    mu = rng.normal()
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=rng.normal(mu, 1, n))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-4, 4)}), {"mu": np.array(mu)}


def poisson(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, np.ndarray]]:
    rate = rng.gamma(3, 1)
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 3, 1), observed=rng.poisson(rate, n))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (0, 12)}), {"rate": np.array(rate)}


def logistic(rng: np.random.Generator, n: int) -> tuple[Any, dict[str, np.ndarray]]:
    x = rng.normal(size=(n, 2))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    b, a = rng.normal(size=2), rng.normal()
    y = rng.random(n) < 1 / (1 + np.exp(-(a + x @ b)))
    with pm.Model(coords={"i": range(n)}) as model:
        rows = pm.Data("X", x, dims=("i", None))
        eta = pm.Normal("a", 0, 1) + rows @ pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=eta, observed=y.astype(int), dims="i")
    private = pmp.privatize(model, records="i", domain={"X": pmp.Ball(1.0)})
    return private, {"a": np.array(a), "b": b}


MODELS = (bernoulli, normal_mean, poisson, logistic)
SIZES = (30, 100, 300, 1_000, 3_000)


def realized_share(build: Callable, n: int, draws: int, studies: int) -> Iterator[tuple]:
    """Plan once; then give, study by study, draws and truth in prior standard deviations."""
    rng = np.random.default_rng(n)
    spread = {
        name: np.std([build(rng, 2)[1][name] for _ in range(400)], axis=0)
        for name in build(rng, 2)[1]
    }
    plan = None
    for seed in range(studies):
        private, truth = build(rng, n)
        own = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=draws)
        plan = plan or own
        release = pmp.sample(own, random_seed=seed, progressbar=False)
        for name, value in truth.items():
            error = (release.posterior[name].values[0] - value) / spread[name]
            yield plan, np.mean(error**2)


def main(studies: int) -> None:
    warnings.simplefilter("ignore")
    print(
        f"{'model':12s} {'n':>6s} {'draws':>5s} {'verdict':12s} {'expected':>9s} {'realized':>9s}"
    )
    false = total = 0
    for build in MODELS:
        for n in SIZES:
            found = list(realized_share(build, n, 10, studies))
            plan = found[0][0]
            realized = 1 - np.mean([error for _, error in found]) / 2
            wrong = plan.verdict == "prior" and realized > 0.5
            wrong = wrong or (plan.verdict == "informative" and realized < 0.5)
            false, total = false + wrong, total + 1
            print(
                f"{build.__name__:12s} {n:6d} {plan.draws:5d} {plan.verdict:12s} "
                f"{plan.information:9.2f} {realized:9.2f}{'  FALSE' if wrong else ''}",
                flush=True,
            )
    print(f"{false} of {total} verdicts contradicted by {studies} studies each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
