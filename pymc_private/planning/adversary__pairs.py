"""The exact epsilon of one draw for a given pair of data sets: how much a bound leaves unused.

These are diagnostics of public, made-up pairs, to the accuracy of doubles. A pair is no worst case,
so none of them is a guarantee.
"""

from __future__ import annotations

import math
import numpy as np
from scipy import special
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import not_negative, positive, refuse_mask

def grid_pair(log_prior: np.ndarray, log_x: np.ndarray, log_y: np.ndarray) -> float:
    """Pure epsilon of one posterior draw, for two data sets and parameters on a grid.

    max over both directions of ``max_theta g - ln(phi(x) / phi(y))``, g = log p(x) - log p(y).

    Parameters
    ----------
    log_prior : array, shape (m,)
        Log weights, up to a constant; -inf is outside of the support.
    log_x, log_y : array, shape (m,)
        Log-likelihoods of the two data sets.

    Returns
    -------
    float
        nats; infinite where one posterior has an atom that the other lacks.

    Raises
    ------
    DomainError
        Shapes that differ, NaN, or an empty support.

    References
    ----------
    Dimitrakakis et al. (2017), Theorem 6, read as an essential supremum.

    Examples
    --------
    >>> theta = np.array([0.2, 0.5, 0.8])
    >>> round(grid_pair(np.zeros(3), np.log(theta), np.log1p(-theta)), 4)
    1.3863
    """
    for part in (log_prior, log_x, log_y):
        refuse_mask(part, "log-likelihoods")
    prior, x, y = (np.asarray(part, float) for part in (log_prior, log_x, log_y))
    if not (prior.shape == x.shape == y.shape) or prior.ndim != 1:
        raise DomainError("one prior weight and two log-likelihoods for each point of the grid",
                          got=f"shapes {prior.shape}, {x.shape}, {y.shape}")  # fmt: skip
    inside = prior > -math.inf
    if not inside.any() or any(np.isnan(part[inside]).any() for part in (prior, x, y)):
        raise DomainError("a grid has a support, and no NaN on it")
    prior, x, y = prior[inside], x[inside], y[inside]
    of_x, of_y = (part - special.logsumexp(prior + part) for part in (x, y))
    either = (of_x > -math.inf) | (of_y > -math.inf)
    return float(np.max(np.abs(of_x[either] - of_y[either]), initial=0.0))


def beta_bernoulli_pair(
    alpha: float, beta: float, n: int, x: int, y: int, lower: float = 0.0, upper: float = 1.0
) -> float:
    """Pure epsilon of one draw of a coin's bias, for x and y successes among n.

    Parameters
    ----------
    alpha, beta : float
        Of the Beta prior, trimmed to [lower, upper].
    n, x, y : int
    lower, upper : float
        0 <= lower < upper <= 1.

    Returns
    -------
    float
        nats; infinite where x differs from y and an end is 0 or 1.

    Raises
    ------
    DomainError
        An argument is out of its range, or a posterior has no mass there that doubles can hold.

    References
    ----------
    g = (x - y) logit(theta); the evidences are incomplete beta functions.
    """
    positive(alpha=alpha, beta=beta)
    if not (0 <= x <= n and 0 <= y <= n and 0.0 <= lower < upper <= 1.0):
        raise DomainError("counts within n, and ends within [0, 1]", got=(x, y, n, lower, upper))
    if x == y:
        return 0.0
    evidence = [_log_beta_mass(alpha + k, beta + n - k, lower, upper) for k in (x, y)]
    ends = [(x - y) * float(special.logit(end)) for end in (lower, upper)]
    return _epsilon(max(ends), min(ends), evidence[0] - evidence[1])


def gamma_exponential_pair(
    shape: float,
    rate: float,
    n: int,
    x: float,
    y: float,
    lower: float = 0.0,
    upper: float = math.inf,
) -> float:
    """Pure epsilon of one draw of an exponential rate, for sums x and y of n records.

    Parameters
    ----------
    shape, rate : float
        Of the Gamma prior, trimmed to [lower, upper].
    n : int
    x, y : float
        Sums of the records, at least 0.
    lower, upper : float
        0 <= lower < upper.

    Returns
    -------
    float
        nats; infinite where x differs from y and upper is infinite.

    Raises
    ------
    DomainError
        An argument is out of its range, or a posterior has no mass there that doubles can hold.

    References
    ----------
    g = (y - x) theta; the evidences are incomplete gamma functions.
    """
    positive(shape=shape, rate=rate)
    not_negative(n=n, x=x, y=y, lower=lower)
    if not lower < upper:
        raise DomainError("lower < upper", got=(lower, upper))
    if x == y:
        return 0.0
    evidence = [_log_gamma_mass(shape + n, rate + total, lower, upper) for total in (x, y)]
    ends = [(y - x) * end for end in (lower, upper)]
    return _epsilon(max(ends), min(ends), evidence[0] - evidence[1])


def _epsilon(greatest: float, least: float, log_evidence: float) -> float:
    if not math.isfinite(log_evidence):
        raise DomainError(
            "the posterior has too little mass between these ends for doubles",
            do="use grid_pair on a grid between the ends",
        )
    return max(greatest - log_evidence, log_evidence - least)


def _log_beta_mass(a: float, b: float, lower: float, upper: float) -> float:
    """Log of the integral of theta^(a-1) (1-theta)^(b-1) over [lower, upper]."""
    if upper <= a / (a + b):  # differences of small numbers, not of numbers near 1
        mass = special.betainc(a, b, upper) - special.betainc(a, b, lower)
    else:
        mass = special.betaincc(a, b, lower) - special.betaincc(a, b, upper)
    with np.errstate(divide="ignore"):
        return float(np.log(mass) + special.betaln(a, b))


def _log_gamma_mass(a: float, b: float, lower: float, upper: float) -> float:
    """Log of the integral of theta^(a-1) e^(-b theta) over [lower, upper]."""
    if upper <= a / b:
        mass = special.gammainc(a, b * upper) - special.gammainc(a, b * lower)
    else:
        mass = special.gammaincc(a, b * lower) - special.gammaincc(a, b * upper)
    with np.errstate(divide="ignore"):
        return float(np.log(mass) + special.gammaln(a) - a * math.log(b))
