"""Used from outside of the checkout: a release of each kind, saved, loaded and reported."""

import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_private as pmp

logging.getLogger("pymc").setLevel(logging.ERROR)


def declared() -> pmp.PrivateModel:
    """A small logistic regression with its domain."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 2000)
    with pm.Model(coords={"person": range(2000)}) as model:
        age = pm.Data("age", x, dims="person")
        slope = pm.Normal("slope", 0, 1)
        pm.Bernoulli("y", logit_p=slope * age, observed=rng.random(2000) < 0.5, dims="person")
    return pmp.privatize(model, records="person", domain={"age": (-1, 1)})


def require(condition: bool, words: str) -> None:
    """Stop if something is not as it should be."""
    if not condition:
        raise SystemExit(f"smoke: {words}")


def main(folder: Path) -> None:
    """Plan, charge, release, save, load and report."""
    private = declared()
    ledger = pmp.Ledger(folder / "study.sqlite", epsilon=3, delta=1e-5)
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    summary = pmp.summarize(plan, ledger=ledger, save=folder / "summary.nc", progressbar=False)
    with summary.model():
        idata = pm.sample(draws=50, tune=100, chains=1, cores=1, random_seed=1, progressbar=False)
    print(pmp.prob(idata, "slope > 0"))
    release = pmp.sample(
        private, epsilon=1, delta=1e-6, draws=3, ledger=ledger, save=folder / "draws.nc",
        progressbar=False,
    )  # fmt: skip
    promise: pmp.Guarantee = release.guarantee
    epsilon: float = promise.epsilon(1e-6)
    require(epsilon <= 1, f"epsilon = {epsilon}")
    pmp.counts.noisy_counts([[4, 2], [3, 1]], epsilon=0.5, ledger=ledger)
    for file in ("summary.nc", "draws.nc"):
        require("epsilon" in str(pmp.report(pmp.load(folder / file), ledger)), file)
    print(ledger)


if __name__ == "__main__":
    require("site-packages" in pmp.__file__, f"not the installed package: {pmp.__file__}")
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
    print(f"smoke: ok on Python {sys.version.split()[0]}")
