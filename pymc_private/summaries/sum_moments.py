"""Mean and variance of one number of a record, clipped to its domain, as a graph of its parameter.

Data are clipped to the declared domain before anything is made of them, so the moments are those of
clipped numbers: clipping then causes no bias. Formulas are closed where there is one, else finite
sums over whole numbers; none takes differences of large numbers where the clip does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.errors import Unsupported

MOST_LEVELS = 4096
"""Most whole numbers in a finite sum."""
Moments = tuple[Variable, Variable]
"""Mean and variance, of the shape of the bounds."""


def clipped_moments(
    likelihood: str, constants: dict[str, float], parameter: Any, low: np.ndarray, high: np.ndarray
) -> Moments:
    """Mean and variance of numbers clipped to [low, high].

    Parameters
    ----------
    likelihood : str
        Name of the distribution, in lower case.
    constants : dict
        Its public numbers: "trials" of the binomial, "sigma" of the normal distribution.
    parameter : Variable
        Probability, rate or mean; broadcasts against the bounds.
    low, high : array
        Finite.
    """
    return MOMENTS[likelihood](parameter, constants, low, high)


def _of_levels(
    log_mass: Variable, levels: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Moments:
    """Moments by a sum over all values, which lie along the last axis."""
    values = np.clip(levels, low[..., None], high[..., None])
    mass = pt.exp(log_mass)
    mean = pt.sum(mass * values, axis=-1)
    return mean, pt.sum(mass * (values - mean[..., None]) ** 2, axis=-1)


def _binomial(p: Variable, constants: dict, low: np.ndarray, high: np.ndarray) -> Moments:
    trials = int(constants.get("trials", 1))
    if np.all(low <= 0) and np.all(high >= trials):
        return trials * p + 0.0 * low, trials * p * (1.0 - p) + 0.0 * low
    _check_levels(trials + 1)
    levels = np.arange(trials + 1.0)
    log_choose = np.array([_log_choose(trials, int(k)) for k in levels])
    chances = pt.log(p)[..., None] * levels + pt.log1p(-p)[..., None] * (trials - levels)
    return _of_levels(log_choose + chances, levels, low, high)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _geometric(p: Variable, constants: dict, low: np.ndarray, high: np.ndarray) -> Moments:
    """Trials up to the first success: the sum over j of P(Y > j) = (1 - p)^j."""
    least, most = np.maximum(np.ceil(low), 1.0), np.floor(high)
    _check_levels(int(most.max()))
    j = np.arange(float(most.max()))
    counted = (j >= least[..., None]) & (j < most[..., None])
    beyond = pt.exp(pt.log1p(-p)[..., None] * j) * counted
    mean = pt.sum(beyond, axis=-1)
    square = pt.sum(beyond * (2.0 * (j - least[..., None]) + 1.0), axis=-1)
    return least + mean, square - mean**2


def _poisson(rate: Variable, constants: dict, low: np.ndarray, high: np.ndarray) -> Moments:
    """The values up to the upper bound, and the mass beyond, which is clipped to it."""
    most = math.floor(high.max())
    _check_levels(most + 1)
    levels = np.arange(most + 1.0)
    log_factorial = np.array([math.lgamma(k + 1.0) for k in levels])
    log_mass = pt.log(rate)[..., None] * levels - rate[..., None] - log_factorial
    mass, values = pt.exp(log_mass), np.clip(levels, low[..., None], high[..., None])
    beyond = pt.maximum(1.0 - pt.sum(mass, axis=-1), 0.0)
    mean = pt.sum(mass * values, axis=-1) + beyond * high
    square = pt.sum(mass * (values - mean[..., None]) ** 2, axis=-1)
    return mean, square + beyond * (high - mean) ** 2


def _exponential(rate: Variable, constants: dict, low: np.ndarray, high: np.ndarray) -> Moments:
    """Integrals of the survival function, once by itself and once times 2 (y - low)."""
    a, width = np.maximum(low, 0.0), high - np.maximum(low, 0.0)
    reached, x = pt.exp(-rate * a), rate * width
    mean = reached * -pt.expm1(-x) / rate
    square = 2.0 * reached * (-pt.expm1(-x) - x * pt.exp(-x)) / rate**2
    return a + mean, pt.maximum(square - mean**2, 0.0)


def _normal(mean: Variable, constants: dict, low: np.ndarray, high: np.ndarray) -> Moments:
    """z clipped to [a, b] is z + (a - z)+ - (z - b)+."""
    sigma = float(constants["sigma"])
    a, b = (low - mean) / sigma, (high - mean) / sigma
    below, above = _upper_mass(-a), _upper_mass(b)
    under, over = _density(a) + a * below, _density(b) - b * above
    first = under - over
    lost = below - a * _density(a) - a**2 * below + above + b * _density(b) - b**2 * above
    variance = pt.maximum(1.0 - lost - first**2, 0.0)
    return mean + sigma * first, sigma**2 * variance


def _upper_mass(x: Variable) -> Variable:
    return 0.5 * pt.erfc(x / math.sqrt(2.0))


def _density(x: Variable) -> Variable:
    return pt.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)


def _check_levels(count: int) -> None:
    if count > MOST_LEVELS:
        raise Unsupported(
            "the domain of a record holds too many whole numbers for its moments",
            got=count,
            allowed=f"{MOST_LEVELS} at most",
            do='a narrower domain, or method="scores"',
        )


MOMENTS: dict[str, Callable[[Variable, dict, np.ndarray, np.ndarray], Moments]] = {
    "bernoulli": _binomial,
    "binomial": _binomial,
    "geometric": _geometric,
    "poisson": _poisson,
    "exponential": _exponential,
    "normal": _normal,
}
"""Moments of each likelihood whose records are single numbers."""
