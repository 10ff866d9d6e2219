"""How tight and how fast `certify` is, on every model of the tests' tables and those held out.

``python -m benchmarks.certifier`` prints the shares of models within 1, 2 and 5 percent of a value
that is found; milliseconds of `certify`, and with the Gaussian constants, which are proved when
they are asked for; how the bound's cost grows with the number of records, the time of the proof
that records do not mix, and peak memory. All in one run.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from benchmarks.distributions import TABLE
from benchmarks.held_out import HELD_OUT
from benchmarks.zoo import ZOO, N
from pymc_private.certificates.certify import record_classes

WHAT = ("certify", "certify once its graphs are built", "certify with a guarantee")


def certified() -> tuple[list[pmp.Certificate], np.ndarray]:
    """A certificate of each model that has one; seconds of `certify`, of the graphs of records that
    it builds (built once before, to be timed apart), and of `certify` with its constants.

    By the clock and of the processor, shape (models, 3, 2).
    """
    found, seconds = [], []
    for entry in (*ZOO, *TABLE, *HELD_OUT):
        try:
            data = entry.data(np.random.default_rng(1), N)
            private, again = entry.privatize(data), entry.privatize(data)
            start = now()
            record_classes(again)
            built = now()
            certificate = pmp.certify(private, progressbar=False)
            middle = now()
            certificate.guarantee()
        except pmp.errors.NotCertified as refusal:
            print(f"refused: {entry.name}: {'; '.join(refusal.blame)}")
            continue
        found.append(certificate)
        certified = middle - built
        seconds.append([certified, certified - (built - start), now() - built])
    return found, np.array(seconds)


def now() -> np.ndarray:
    """The clock, and the time of this process alone."""
    return np.array([time.perf_counter(), time.process_time()])


def logistic(n: int, columns: int) -> pm.Model:
    """A logistic regression on so many records."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(n, columns)) / (3.0 * columns**0.5)
    with pm.Model(coords={"person": range(n)}) as model:
        x = pm.Data("X", rows, dims=("person", None))
        slopes = pm.Normal("b", 0, 1, shape=columns)
        pm.Bernoulli("y", logit_p=x @ slopes, observed=rng.integers(0, 2, n), dims="person")
    return model


def scaled(n: int, columns: int = 20) -> tuple[float, float]:
    """Seconds of `privatize` (with the proof that records do not mix) and of `certify`."""
    model = logistic(n, columns)
    start = time.perf_counter()
    private = pmp.privatize(model, records="person", domain={"X": pmp.Ball(1.0)})
    middle = time.perf_counter()
    pmp.certify(pmp.trim(private, box={"b": (-2, 2)}), progressbar=False)
    return middle - start, time.perf_counter() - middle


def main() -> None:
    """Print everything."""
    found, seconds = certified()
    ratios: Any = np.array([c.tightness for c in found])
    print(f"models certified: {len(found)}")
    for gap in (0.01, 0.02, 0.05):
        print(f"  within {gap:.0%} of what is found: {np.mean(ratios <= 1 + gap + 1e-6):.0%}")
    print(f"  ratio: median {np.median(ratios):.4f}, worst {ratios.max():.2f}")
    marks = np.quantile(1e3 * seconds, [0.5, 0.95, 1.0], axis=0)
    for k, what in enumerate(WHAT):
        for j, clock in enumerate(("clock", "processor")):
            words = "median {:.0f}, 95% {:.0f}, worst {:.0f}".format(*marks[:, k, j])
            print(f"  ms of {what}, by the {clock}: {words}")
    for n in (1_000, 100_000, 1_000_000):
        proof, bound = scaled(n)
        print(f"logistic, n = {n}, 20 columns: privatize {proof:.2f} s, certify {bound:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
