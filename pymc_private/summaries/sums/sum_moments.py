"""Mean and variance of one number of a record, clipped to public bounds, given its parameter.

The moments are those of clipped numbers: clipping causes no bias. Formulas are closed where there
is one, else finite sums over whole numbers. They are written once for NumPy and PyTensor: `xp` is
`NUMPY` or the module of PyTensor. The means are analytic functions of the parameter, so that NumPy
takes their slopes from a small imaginary step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special

from pymc_private.errors import Unsupported

MOST_LEVELS = 4096
"""Most whole numbers in a finite sum."""
IMAGINARY_STEP = 1e-30
NUMPY = SimpleNamespace(
    exp=np.exp, log=np.log, log1p=np.log1p, expm1=np.expm1, sum=np.sum, maximum=np.maximum,
    erfc=special.erfc,
)  # fmt: skip
"""The functions of NumPy and SciPy under the names of PyTensor."""
Pair = tuple[Any, Any]
"""Mean and variance."""


def clipped_moments(
    xp: Any,
    likelihood: str,
    constants: dict[str, float],
    parameter: Any,
    low: np.ndarray,
    high: np.ndarray,
) -> Pair:
    """Mean and variance of numbers clipped to [low, high].

    Parameters
    ----------
    xp : module
        `NUMPY`, or PyTensor's.
    likelihood : str
        Name of the distribution, in lower case.
    constants : dict
        Its public numbers: "trials" of the binomial, "sigma" of the normal distribution.
    parameter : array or Variable
        Probability, rate or mean, one for each pair of bounds, which are its last axes.
    low, high : array
        Finite.
    """
    return MOMENTS[likelihood](xp, parameter, constants, low, high)


def mean_slope(
    likelihood: str, constants: dict[str, float], parameter: np.ndarray, low: Any, high: Any
) -> np.ndarray:
    """Derivative of the mean by the parameter, by an imaginary step: exact to rounding."""
    moved = parameter + 1j * IMAGINARY_STEP
    mean, _ = clipped_moments(NUMPY, likelihood, constants, moved, low, high)
    return np.asarray(np.imag(mean)) / IMAGINARY_STEP


def _of_levels(
    xp: Any, log_mass: Any, levels: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Pair:
    """Moments by a sum over all values, which lie along the last axis."""
    values = np.clip(levels, low[..., None], high[..., None])
    mass = xp.exp(log_mass)
    mean = xp.sum(mass * values, axis=-1)
    return mean, xp.sum(mass * (values - mean[..., None]) ** 2, axis=-1)


def _binomial(xp: Any, p: Any, constants: dict, low: np.ndarray, high: np.ndarray) -> Pair:
    trials = int(constants.get("trials", 1))
    if np.all(low <= 0) and np.all(high >= trials):
        return trials * p + 0.0 * low, trials * p * (1.0 - p) + 0.0 * low
    _check_levels(trials + 1)
    levels = np.arange(trials + 1.0)
    log_choose = np.array([_log_choose(trials, int(k)) for k in levels])
    chances = xp.log(p)[..., None] * levels + xp.log1p(-p)[..., None] * (trials - levels)
    return _of_levels(xp, log_choose + chances, levels, low, high)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _geometric(xp: Any, p: Any, constants: dict, low: np.ndarray, high: np.ndarray) -> Pair:
    """Trials up to the first success: the sum over j of P(Y > j) = (1 - p)^j."""
    least, most = np.maximum(np.ceil(low), 1.0), np.floor(high)
    _check_levels(int(most.max()))
    j = np.arange(float(most.max()))
    counted = (j >= least[..., None]) & (j < most[..., None])
    beyond = xp.exp(xp.log1p(-p)[..., None] * j) * counted
    mean = xp.sum(beyond, axis=-1)
    square = xp.sum(beyond * (2.0 * (j - least[..., None]) + 1.0), axis=-1)
    return least + mean, square - mean**2


def _poisson(xp: Any, rate: Any, constants: dict, low: np.ndarray, high: np.ndarray) -> Pair:
    """The values up to the upper bound, and the mass beyond, which is clipped to it."""
    most = math.floor(high.max())
    _check_levels(most + 1)
    levels = np.arange(most + 1.0)
    log_factorial = np.array([math.lgamma(k + 1.0) for k in levels])
    log_mass = xp.log(rate)[..., None] * levels - rate[..., None] - log_factorial
    mass, values = xp.exp(log_mass), np.clip(levels, low[..., None], high[..., None])
    beyond = 1.0 - xp.sum(mass, axis=-1)
    mean = xp.sum(mass * values, axis=-1) + beyond * high
    square = xp.sum(mass * (values - mean[..., None]) ** 2, axis=-1)
    return mean, square + beyond * (high - mean) ** 2


def _exponential(xp: Any, rate: Any, constants: dict, low: np.ndarray, high: np.ndarray) -> Pair:
    """Integrals of the survival function, once by itself and once times 2 (y - low)."""
    a, width = np.maximum(low, 0.0), high - np.maximum(low, 0.0)
    reached, x = xp.exp(-rate * a), rate * width
    mean = reached * -xp.expm1(-x) / rate
    square = 2.0 * reached * (-xp.expm1(-x) - x * xp.exp(-x)) / rate**2
    return a + mean, xp.maximum(square - mean**2, 0.0)


def _normal(xp: Any, mean: Any, constants: dict, low: np.ndarray, high: np.ndarray) -> Pair:
    """z clipped to [a, b] is z + (a - z)+ - (z - b)+."""
    sigma = float(constants["sigma"])
    a, b = (low - mean) / sigma, (high - mean) / sigma
    below, above = _upper_mass(xp, -a), _upper_mass(xp, b)
    under, over = _density(xp, a) + a * below, _density(xp, b) - b * above
    first = under - over
    lost = below - a * _density(xp, a) - a**2 * below + above + b * _density(xp, b) - b**2 * above
    variance = xp.maximum(1.0 - lost - first**2, 0.0)
    return mean + sigma * first, sigma**2 * variance


def _upper_mass(xp: Any, x: Any) -> Any:
    return 0.5 * xp.erfc(x / math.sqrt(2.0))


def _density(xp: Any, x: Any) -> Any:
    return xp.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)


def _check_levels(count: int) -> None:
    if count > MOST_LEVELS:
        raise Unsupported(
            "the domain of a record holds too many whole numbers for its moments",
            got=count,
            allowed=f"{MOST_LEVELS} at most",
            do='a narrower domain, or method="scores"',
        )


MOMENTS: dict[str, Callable[[Any, Any, dict, np.ndarray, np.ndarray], Pair]] = {
    "bernoulli": _binomial,
    "binomial": _binomial,
    "geometric": _geometric,
    "poisson": _poisson,
    "exponential": _exponential,
    "normal": _normal,
}
"""Moments of each likelihood whose records are single numbers."""
