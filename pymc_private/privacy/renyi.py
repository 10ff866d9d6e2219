"""Renyi and zero-concentrated privacy, and the conversion to (epsilon, delta): T4.

Any order greater than one gives a valid bound, so a numerical search over orders is safe: it can
only miss the best one. Results are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

from pymc_private.errors import DomainError

SLACK = 1e-13


def rdp_to_eps(order: float, rdp: float, delta: float) -> float:
    """Convert a Renyi divergence at one order: D + log((l-1)/l) - (log delta + log l)/(l-1).

    Parameters
    ----------
    order : float
        lambda > 1.
    rdp : float, nats
        Renyi divergence of that order.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        epsilon in nats, at least 0, rounded up.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Proposition 12; theory T4.
    """
    _check_order(order)
    if not 0.0 < delta < 1.0:
        raise DomainError("delta is a probability", got=delta, allowed="0 < delta < 1")
    # The same as D + log(l-1) - (log delta + l log l)/(l-1).
    value = rdp + math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0)
    return max(0.0, value + SLACK * (1.0 + abs(rdp) + abs(math.log(delta)) / (order - 1.0)))


def rdp_to_delta(order: float, rdp: float, eps: float) -> float:
    """Convert the other way: e^((l-1)(D - eps)) / (l-1) (1 - 1/l)^l, at most 1, rounded up."""
    _check_order(order)
    exponent = (
        (order - 1.0) * (rdp - eps) - math.log(order - 1.0) + order * math.log1p(-1.0 / order)
    )
    scale = 1.0 + abs((order - 1.0) * rdp) + abs((order - 1.0) * eps) + abs(math.log(order - 1.0))
    return 1.0 if exponent >= 0.0 else min(1.0, math.exp(exponent) * (1.0 + 8e-16 * scale + SLACK))


def zcdp_to_eps(rho: float, delta: float) -> float:
    """Least epsilon at `delta` of rho-zCDP over real orders (T4); not capped by a pure bound."""
    _check_rho(rho)
    if rho == 0.0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    guess = 1.0 + math.sqrt(math.log(1.0 / delta) / rho)
    return _least(lambda order: rdp_to_eps(order, rho * order, delta), guess)


def zcdp_to_delta(rho: float, eps: float) -> float:
    """Least delta at `eps` of rho-zCDP over real orders (T4), rounded up."""
    _check_rho(rho)
    if rho == 0.0:
        return 0.0
    if math.isinf(rho):
        return 1.0

    def log_delta(order: float) -> float:
        return (
            (order - 1.0) * (rho * order - eps)
            - math.log(order - 1.0)
            + order * math.log1p(-1.0 / order)
        )

    guess = max((eps + rho) / (2.0 * rho), 1.0 + 1e-6)
    best = _argmin(log_delta, guess)
    return rdp_to_delta(best, rho * best, eps)


def _argmin(f: Callable[[float], float], guess: float) -> float:
    """An order near the best one; any order is safe."""
    centre = math.log(guess - 1.0) if guess > 1.0 else 0.0
    found = minimize_scalar(
        lambda u: f(1.0 + math.exp(u)),
        bounds=(centre - 8.0, centre + 8.0),
        method="bounded",
        options={"xatol": 1e-11},
    )
    return 1.0 + math.exp(float(found.x))


def _least(f: Callable[[float], float], guess: float) -> float:
    return f(_argmin(f, guess))


def _check_order(order: float) -> None:
    if not order > 1.0:
        raise DomainError("a Renyi order must exceed 1", got=order, allowed="order > 1")


def _check_rho(rho: float) -> None:
    if not rho >= 0.0:
        raise DomainError("rho is not negative", got=rho, allowed="rho >= 0")
