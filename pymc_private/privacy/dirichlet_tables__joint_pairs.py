"""The curve of many Dirichlet draws together, quickly: a guess that a proof then confirms.

delta(eps) = E (1 - e^(eps - L))+ = 1/(2 pi i) int M(t) e^(-t eps) / (t (t+1)) dt along Re t = c > 0
with M the moment generating function of the total loss L, which for Beta and Gamma pairs (T9, T10)
is a ratio of Gamma functions. No privacy number comes from here: `dirichlet_joint` evaluates the
proved curve at what this search finds.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from scipy import optimize, special
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

X = np.linspace(0.0, 6.0, 160)
"""The path is c + i w sinh(x)."""


def guess_delta(
    eps: float, r: float, alpha: float, count: int, neighbors: str, beta: float | None = None
) -> float:
    """Estimate delta at `eps` of `count` draws together: a few digits, either side of the truth."""
    if neighbors != ADD_REMOVE:
        b = alpha if beta is None else beta
        return max(_along(eps, count, y / r, _beta(r, x, y)) for x, y in {(alpha, b), (b, alpha)})
    first = _along(eps, count, math.inf, lambda t: _gamma(t, r, alpha))
    return max(first, _along(eps, count, alpha / r, lambda t: _gamma(-1.0 - t, r, alpha)))


def guess_alpha(eps: float, delta: float, r: float, count: int, neighbors: str) -> float:
    """Estimate the least prior parameter at which `count` draws together are (eps, delta)."""

    def excess(log_alpha: float) -> float:
        found = guess_delta(eps, r, math.exp(log_alpha), count, neighbors)
        return math.log(max(found, 1e-300)) - math.log(delta)

    # A Gaussian of the same variance is close where alpha is large: count r^2 2 / alpha = mu^2.
    mu = eps / math.sqrt(2.0 * math.log(1.25 / delta) + 2.0 * eps)
    high = low = math.log(max(2.0 * count * r**2 / mu**2, 1e-3 * r))
    while excess(high) > 0.0:
        low, high = high, high + 0.7
    while low == high or excess(low) <= 0.0:
        low, high = low - 0.7, low
        if low < -60.0:
            return math.exp(low)
    return math.exp(float(optimize.brentq(excess, low, high, xtol=1e-5)))


LogMoment = Callable[[np.ndarray], np.ndarray]


def _beta(r: float, a: float, b: float) -> LogMoment:
    """Give ln E e^(t L) of Beta(a + r, b) against Beta(a, b + r)."""
    first = special.loggamma(a + r) + special.loggamma(b)
    shift = first - special.loggamma(a) - special.loggamma(b + r)

    def log_moment(t: np.ndarray) -> np.ndarray:
        top = special.loggamma(a + r + r * t) + special.loggamma(b - r * t)
        return np.asarray(top - first - t * shift)

    return log_moment


def _gamma(t: np.ndarray, r: float, a: float) -> np.ndarray:
    """Give ln E e^(t L) under the larger data set; of the smaller one it is that of -1 - t."""
    shift = special.loggamma(a + r) - special.loggamma(a)
    return np.asarray(special.loggamma(a + r + r * t) - special.loggamma(a + r) - t * shift)


def _along(eps: float, count: int, last: float, log_moment: LogMoment) -> float:
    """Integrate along the path through the saddle point."""

    def height(c: float) -> float:
        t = np.array(c + 0j)
        return float(count * log_moment(t).real - c * eps - math.log(c) - math.log1p(c))

    ends = (-12.0, math.log(last) - 1e-9 if math.isfinite(last) else 12.0)
    found = optimize.minimize_scalar(
        lambda u: height(math.exp(u)), bounds=ends, method="bounded", options={"xatol": 1e-3}
    )
    c = math.exp(float(found.x))
    step = 1e-3 * min(c, last - c if math.isfinite(last) else c)
    bend = (height(c + step) + height(c - step) - 2.0 * height(c)) / step**2
    w = 1.0 / math.sqrt(max(bend, 1e-12))
    t = c + 1j * w * np.sinh(X)
    integrand = np.exp(count * log_moment(t) - t * eps - np.log(t) - np.log1p(t)).real
    return float(np.trapezoid(integrand * w * np.cosh(X), X) / math.pi)
