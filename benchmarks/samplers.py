"""Independent draws per second of each sampler beside fresh NUTS runs, in one process.

    python -m benchmarks.samplers            # everything, some minutes
    python -m benchmarks.samplers --quick    # without the large sizes and without NUTS

Prints the claim of each row. Peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.samplers.randomness import SystemRandomness


def logistic(n: int, d: int, sd: float, power: str) -> pmp.PrivateModel:
    """Logistic regression on the unit ball, at a power that a budget would give."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(int)
    with pm.Model(coords={"i": range(n), "f": range(d)}) as model:
        data = pm.Data("x", x, dims=("i", "f"))
        beta = pm.Normal("beta", 0, sd, dims="f")
        pm.Bernoulli("y", logit_p=data @ beta, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    return pmp.temper(private, Fraction(power))


def two_parameters(n: int) -> pmp.PrivateModel:
    """A slope and an intercept in a box, for the box sampler and the grid."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    with pm.Model(coords={"i": range(n)}) as model:
        data = pm.Data("x", x, dims="i")
        eta = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * data
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    private = pmp.trim(private, box={"a": (-3, 3), "b": (-3, 3)})
    return pmp.temper(private, Fraction(1, 100))


def coins(n: int) -> pmp.PrivateModel:
    """A Beta posterior."""
    y = (np.random.default_rng(3).random(n) < 0.3).astype(int)
    with pm.Model(coords={"i": range(n)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=y, dims="i")
    return pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.05, 0.95)})


def row(words: str, private: pmp.PrivateModel, method: object, draws: int) -> None:
    """Time one sampler, check and compilation included."""
    start, used = time.perf_counter(), time.process_time()
    method.check(private)
    claim = method.claim(private)
    method.sample(private, draws, SystemRandomness(), lambda done: None)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"{words:38s} {draws:5d} draws {seconds:7.1f} s, {used:7.1f} s of CPU "
        f"{draws / used:8.1f} /s {peak:6.0f} MB  {claim}",
        flush=True,
    )


Job = tuple[str, Callable[[], pmp.PrivateModel], object, int]


def jobs() -> list[Job]:
    """What is timed always."""
    middle, wide = (
        (lambda: logistic(398, 31, 1.0, "0.13")),
        (lambda: logistic(398, 31, 4.0, "0.25")),
    )
    return [
        ("conjugate, Beta n=1000", lambda: coins(1000), pmp.samplers.Conjugate(), 1000),
        ("boxes, 2 parameters n=1e4", lambda: two_parameters(10_000), pmp.samplers.Boxes(), 1000),
        ("grid, 2 parameters n=1000", lambda: two_parameters(1000), pmp.samplers.Grid(), 1000),
        ("proximal, n=398 d=31 s=1", middle, pmp.samplers.Proximal(), 100),
        ("the same, t=1e-8", middle, pmp.samplers.Proximal(tv=1e-8), 100),
        ("the same, strict", middle, pmp.samplers.Proximal(tv=1e-8, strict=True), 100),
        ("proximal, n=398 d=31 s=4", wide, pmp.samplers.Proximal(), 10),
        ("the same, strict", wide, pmp.samplers.Proximal(strict=True), 10),
    ]


def long_jobs() -> list[Job]:
    """What takes minutes: many records, and fresh runs of NUTS."""
    large = lambda: logistic(100_000, 100, 1.0, "0.0005")  # noqa: E731
    found = [
        ("proximal, n=1e5 d=100", large, pmp.samplers.Proximal(), 100),
        ("the same, strict", large, pmp.samplers.Proximal(strict=True), 10),
    ]
    for backend in ("pymc", "nutpie"):
        if importlib.util.find_spec(backend) is not None:
            method = pmp.samplers.Nuts(tv=1e-3, backend=backend, tune=500)
            words = f"fresh NUTS runs ({backend}), n=398 d=31"
            found.append((words, lambda: logistic(398, 31, 1.0, "0.13"), method, 20))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for words, build, method, draws in [*jobs(), *([] if quick else long_jobs())]:
        row(words, build(), method, draws)


if __name__ == "__main__":
    main()
