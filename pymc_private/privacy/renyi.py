"""Renyi, zero-concentrated and pure differential privacy, converted to (epsilon, delta): T4.

Any order greater than one gives a valid bound, so a numerical search over orders is safe: it can
only miss the best one. Results are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import scipy
from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.rounding import SMALLEST_DOUBLE, arb_upper, real, times_up
from pymc_private.privacy.validation import is_number, vectorized

MACHINE_EPSILON = 2.0**-52
ERROR_ULPS = 8.0
"""Units in the last place by which a sum of a few logarithms may err, per unit of their size."""
MIN_EXCESS_ORDER, MAX_EXCESS_ORDER = 1e-9, 1e15
"""Between these, the order minus one is searched."""


@vectorized
def rdp_to_eps(order: float, rdp: float, delta: float) -> float:
    """Convert a Renyi divergence at one order: D + log(l-1) - (log delta + l log l) / (l-1).

    Parameters
    ----------
    order : float
        l > 1; inf takes the divergence for the pure epsilon.
    rdp : float, nats
        Renyi divergence of that order.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        epsilon in nats, at least 0, rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Proposition 12; theory T4.
    """
    _check_order_and_value(order, rdp, "rdp")
    _check_open_delta(delta)
    if math.isinf(order) or math.isinf(rdp):
        return rdp
    m = order - 1.0
    # log(m) - l log(l) / m, written so that nothing cancels for small m.
    parts = (rdp, math.log(m), -math.log(order), -math.log(delta) / m, -math.log(order) / m)
    size = 1.0 + math.fsum(abs(part) for part in parts)
    return max(0.0, math.fsum(parts) + ERROR_ULPS * MACHINE_EPSILON * size)


@vectorized
def rdp_to_delta(order: float, rdp: float, epsilon: float) -> float:
    """Convert the other way: e^((l-1)(D - epsilon)) / (l-1) (1 - 1/l)^l, rounded up.

    Parameters
    ----------
    order : float
        l > 1; inf takes the divergence for the pure epsilon.
    rdp : float, nats
        Renyi divergence of that order.
    epsilon : float, nats
        At least 0.

    Returns
    -------
    float
        delta in [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Proposition 12; theory T4.
    """
    _check_order_and_value(order, rdp, "rdp")
    _check_order_and_value(2.0, epsilon, "epsilon")
    if math.isinf(order):
        return 0.0 if rdp <= epsilon else 1.0
    if math.isinf(epsilon) or math.isinf(rdp):
        return 1.0 if math.isinf(rdp) else 0.0
    exponent, size = _log_delta(order, rdp, epsilon)
    exponent += ERROR_ULPS * MACHINE_EPSILON * size
    return (
        1.0
        if exponent >= 0.0
        else min(1.0, math.exp(exponent) * (1.0 + 4.0 * MACHINE_EPSILON) + SMALLEST_DOUBLE)
    )


@vectorized
def zcdp_to_eps(rho: float, delta: float) -> float:
    """Least epsilon at `delta` of rho-zCDP over real orders, rounded up; no pure bound caps it.

    Parameters
    ----------
    rho : float
    delta : float
        In (0, 1).

    Returns
    -------
    float
        epsilon in nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Canonne, Kamath and Steinke (2020); Bun and Steinke (2016); theory T4.
    """
    _check_order_and_value(2.0, rho, "rho")
    _check_open_delta(delta)
    if rho == 0.0 or math.isinf(rho):
        return rho

    # The derivative in the order l = 1 + m is (rho m^2 + log(1 + m) + log delta) / m^2.
    order = _stationary_order(
        lambda m: rho * m * m + math.log1p(m) + math.log(delta), math.sqrt(-math.log(delta) / rho)
    )
    return rdp_to_eps(order, times_up(order, rho), delta)


@vectorized
def zcdp_to_delta(rho: float, epsilon: float) -> float:
    """Least delta at `epsilon` of rho-zCDP over real orders, rounded up.

    Parameters
    ----------
    rho : float
    epsilon : float, nats
        At least 0.

    Returns
    -------
    float
        delta in [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Canonne, Kamath and Steinke (2020); Bun and Steinke (2016); theory T4.
    """
    _check_order_and_value(2.0, rho, "rho")
    _check_order_and_value(2.0, epsilon, "epsilon")
    if rho == 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0
    # The derivative of log delta in the order l = 1 + m; at m >= 1 the last term is below 0.7.
    order = _stationary_order(
        lambda m: rho * (2.0 * m + 1.0) - epsilon - math.log1p(1.0 / m),
        max(1.0, (epsilon + 0.7) / rho / 2),
    )
    return rdp_to_delta(order, times_up(order, rho), epsilon)


def pure_to_delta(total: float, epsilon: float) -> float:
    """Delta at `epsilon` of a pure epsilon: (e^total - e^epsilon) / (e^total + 1), rounded up.

    Randomized response has this curve and dominates every total-private mechanism.

    Parameters
    ----------
    total, epsilon : float, nats

    References
    ----------
    Kairouz, Oh and Viswanath (2015), Theorem 3.
    """
    if total <= epsilon:
        return 0.0
    if math.isinf(total):
        return 1.0
    share = -math.expm1(epsilon - total) / (1.0 + math.exp(-total))
    return min(1.0, share * (1.0 + ERROR_ULPS * MACHINE_EPSILON) + SMALLEST_DOUBLE)


def pure_to_eps(total: float, delta: float) -> float:
    """Epsilon at `delta` of a pure epsilon: inverse of `pure_to_delta`, rounded up.

    ln(e^total (1 - delta) - delta), whose argument needs many digits for delta near one.
    """
    if delta == 0.0 or total == 0.0 or math.isinf(total):
        return total

    def formula() -> arb:
        left = 1 - real(delta) * (1 + (-real(total)).exp())
        # The logarithm of nothing or less: epsilon is 0 or below.
        return arb(0) if left <= 0 else real(total) + left.log()

    return max(0.0, min(total, arb_upper(formula)))


def delta_from_divergences(
    divergence: Callable[[float], float], last: float, epsilon: float
) -> float:
    """Delta at `epsilon` from divergences of all orders in [1, last), rounded up.

    Every order gives a bound; so does order 1, by Pinsker's inequality.
    """

    def bound(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        return rdp_to_delta(order, divergence(order), epsilon)

    if not last - 1.0 > MIN_EXCESS_ORDER:
        return 1.0
    low, high = math.log(MIN_EXCESS_ORDER), math.log(min(last - 1.0, MAX_EXCESS_ORDER))
    found = scipy.optimize.minimize_scalar(
        lambda x: math.log(bound(x) + SMALLEST_DOUBLE), bounds=(low, high), method="bounded"
    )
    pinsker = arb_upper(lambda: (real(divergence(1.0)) / 2).sqrt())
    return min(1.0, pinsker, bound(float(found.x)))


def _log_delta(order: float, rdp: float, epsilon: float) -> tuple[float, float]:
    """Log delta of T4 at one order, and the size of its terms for the error bound."""
    m = order - 1.0
    if order < 2.0:
        parts = (m * rdp, -m * epsilon, m * math.log(m), -order * math.log(order))
    else:
        parts = (m * rdp, -m * epsilon, order * math.log1p(-1.0 / order), -math.log(m))
    return math.fsum(parts), 1.0 + math.fsum(abs(part) for part in parts)


def _stationary_order(slope: Callable[[float], float], high: float) -> float:
    """Order 1 + m where an increasing slope crosses zero; any order would be safe.

    `high` is an m at which the slope is not negative. Below `MIN_EXCESS_ORDER` an order could not
    be told from one.
    """
    low, high = (
        math.log(MIN_EXCESS_ORDER),
        math.log(min(max(high, MIN_EXCESS_ORDER), MAX_EXCESS_ORDER)),
    )
    if slope(math.exp(low)) >= 0.0:
        return 1.0 + MIN_EXCESS_ORDER
    if slope(math.exp(high)) <= 0.0:
        return 1.0 + math.exp(high)
    found = scipy.optimize.brentq(
        lambda u: slope(math.exp(u)), low, high, xtol=1e-9, rtol=1e-12, disp=False
    )
    return 1.0 + math.exp(found)


def _check_order_and_value(order: float, value: float, name: str) -> None:
    if not (is_number(order) and order > 1.0):
        raise DomainError("a Renyi order must exceed 1", got=order, allowed="order > 1")
    if not (is_number(value) and value >= 0.0):
        raise DomainError(f"{name} is not negative", got=value, allowed=f"{name} >= 0")


def _check_open_delta(delta: float) -> None:
    if not (is_number(delta) and 0.0 < delta < 1.0):
        raise DomainError("delta is a probability", got=delta, allowed="0 < delta < 1")
