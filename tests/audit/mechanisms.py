"""Mechanisms whose epsilon is known in closed form, with the faults that audits must catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pymc_private.privacy import gdp_eps

Outputs = Callable[[np.random.Generator, int, float], np.ndarray]
"""Outputs on one input; the last argument scales the noise, or divides the range."""


@dataclass(frozen=True)
class Mechanism:
    """Outputs on two neighbors, the epsilon that is claimed, and what it truly is when faulty."""

    p: Outputs
    q: Outputs
    epsilon: float
    delta: float
    score: Callable[[np.ndarray], np.ndarray]
    faulty: float

    def samples(self, rng: np.random.Generator, n: int, fault: float = 1.0) -> tuple:
        return self.p(rng, n, fault), self.q(rng, n, fault)


def respond(rng, n, fault, *, answer):
    """Randomized response: the truth with probability e / (1 + e)."""
    lies = rng.random(n) >= 1 / (1 + np.exp(-1.0 / fault))
    return np.where(lies, 1 - answer, answer)


def laplace(rng, n, fault, *, value):
    return value + fault * rng.laplace(size=n)


def gaussian(rng, n, fault, *, value, size):
    return value / np.sqrt(size) + fault * rng.normal(size=(n, size))


RANGE, SHARE = 1.8, 0.9


def two_point(rng, n, fault, *, likelier):
    """A posterior on two points; loss t = 0.9 R on the first, t - R on the other (theory T2)."""
    length = RANGE / fault
    t = SHARE * length
    q = np.expm1(length - t) / np.expm1(length)
    return rng.random(n) < (q * np.exp(t) if likelier else q)


def first(x: np.ndarray) -> np.ndarray:
    return x[:, 0]


def minus_sum(x: np.ndarray) -> np.ndarray:
    return -x.sum(axis=1)


MECHANISMS = {
    "randomized response": Mechanism(
        partial(respond, answer=1), partial(respond, answer=0), 1.0, 0.0, first, 2.0
    ),
    "laplace": Mechanism(
        partial(laplace, value=0.0), partial(laplace, value=1.0), 1.0, 0.0, minus_sum, 2.0
    ),
    "gaussian": Mechanism(
        partial(gaussian, value=0.0, size=1), partial(gaussian, value=1.0, size=1),
        float(gdp_eps(0.1, 1.0)), 0.1, minus_sum, float(gdp_eps(0.1, 2.0)),
    ),
    "gaussian in three dimensions": Mechanism(
        partial(gaussian, value=0.0, size=3), partial(gaussian, value=1.0, size=3),
        float(gdp_eps(0.1, 1.0)), 0.1, minus_sum, float(gdp_eps(0.1, 2.0)),
    ),
    "two-point posterior": Mechanism(
        partial(two_point, likelier=True), partial(two_point, likelier=False),
        SHARE * RANGE, 0.0, first, 2 * SHARE * RANGE,
    ),
}  # fmt: skip
