"""The exact privacy of Dirichlet draws when one record is added or removed: T10.

One cell's count changes by one: the pair is Gamma(alpha + r) against Gamma(alpha), in both
directions ("more_first": the larger data set is P), attained in the limit of many other counts.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, is_double, not_negative, order_of, positive, vectorized
from pymc_private.privacy.rounding__enclosure import ENOUGH, real, upper
from pymc_private.privacy.beta_gamma_pairs__pair_series import LARGEST, gamma_curve
from pymc_private.privacy.renyi import delta_of_orders
from pymc_private.privacy.rounding import least_argument

SMALL = 64.0
"""Beyond this prior parameter other ways than the lower incomplete Gamma function serve."""
DIRECTIONS = ("both", "more_first", "more_second")


@vectorized
def gamma_pair_delta(eps: float, r: float, alpha: float, direction: str = "both") -> float:
    """Delta of one Dirichlet draw under addition or removal, rounded up.

    With k = ln G(alpha + r) - ln G(alpha): "more_first" is Q(alpha + r, g) - e^eps Q(alpha, g) at
    g = exp((eps + k) / r), "more_second" is P(alpha, g) - e^eps P(alpha + r, g) at
    g = exp((k - eps) / r).

    Parameters
    ----------
    eps : float, nats
        At least 0.
    r : float
        Power of the counts, > 0.
    alpha : float
        Least prior parameter of any cell, > 0.
    direction : {"both", "more_first", "more_second"}
        "both" gives the larger.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T10.
    """
    not_negative(eps=eps)
    positive(r=r, alpha=alpha)
    if _direction(direction) == "both":
        return max(gamma_pair_delta(eps, r, alpha, d) for d in DIRECTIONS[1:])
    if math.isinf(eps):
        return 0.0
    return min(1.0, max(0.0, _one_way(eps, r, alpha, direction)))


def gamma_pair_curve(eps: float, r: float, alpha: float, direction: str) -> float:
    """Give delta of a pair by its series, a little above `gamma_pair_delta` and faster."""
    found = gamma_curve(eps, r, alpha, first=direction == "more_first")
    return min(1.0, found) if math.isfinite(found) else _few_digits(eps, r, alpha, direction)


@lru_cache(maxsize=8192)
def _few_digits(eps: float, r: float, alpha: float, direction: str) -> float:
    if alpha > LARGEST:
        return float(gamma_pair_delta(eps, r, alpha, direction))
    return min(1.0, max(0.0, _by_balls(eps, r, alpha, direction, enough=40)))


def _one_way(eps: float, r: float, alpha: float, direction: str) -> float:
    """Give delta in one direction, rounded up, in bounded time."""
    if alpha >= SMALL and all(map(is_double, (eps, r, alpha))):
        found = gamma_curve(eps, r, alpha, first=direction == "more_first")
        if math.isfinite(found):
            return found
    if alpha <= LARGEST:
        return _by_balls(eps, r, alpha, direction)

    # Larger parameters are dominated by smaller ones: add one Gamma variable to both sides.
    def divergence(order: float) -> float:
        return float(gamma_pair_rdp(order, r, alpha, direction))

    return min(
        gamma_pair_delta(eps, r, LARGEST, direction),
        delta_of_orders(divergence, 1.0 + alpha / r, eps),
    )


def _by_balls(eps: float, r: float, alpha: float, direction: str, enough: int = ENOUGH) -> float:
    formula = _more_first if direction == "more_first" else _more_second
    return upper(lambda: formula(real(eps), real(r), real(alpha)), enough)


def lower_gamma(x: arb, a: arb) -> arb:
    """P(a, x); for large a by Q(a, x), whose computation takes no longer there.

    Where P(a, x) <= x^a e^-x / (G(a + 1) (1 - x / (a + 1))) is beyond the smallest double, that
    says enough: no one needs the digits that 1 - Q would lose.
    """
    if not a > SMALL:
        return x.gamma_lower(a, 1)
    if x < a:
        log_most = a * x.log() - x - (a + 1).lgamma() - (-x / (a + 1)).log1p()
        if log_most < -800:
            return arb(0).union((arb(-800)).exp())
    return 1 - x.gamma_upper(a, 1)


@vectorized
def gamma_pair_eps(delta: float, r: float, alpha: float, direction: str = "both") -> float:
    """Least epsilon at `delta` of one Dirichlet draw under addition or removal, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1).
    r, alpha, direction
        As in `gamma_pair_delta`.

    Returns
    -------
    float
        epsilon in nats, at which `gamma_pair_delta` was evaluated and found at most delta.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `gamma_pair_delta` (T10).
    """
    inside_unit(delta=delta)
    positive(r=r, alpha=alpha)
    if gamma_pair_delta(0.0, r, alpha, direction) <= delta:
        return 0.0
    return least_argument(lambda eps: gamma_pair_delta(eps, r, alpha, direction), delta, float(r))


@vectorized
def gamma_pair_rdp(order: float, r: float, alpha: float, direction: str = "both") -> float:
    """Renyi divergence of one Dirichlet draw under addition or removal, rounded up.

    Parameters
    ----------
    order : float
        At least 1; 1 is the Kullback-Leibler divergence.
    r, alpha, direction
        As in `gamma_pair_delta`.

    Returns
    -------
    float
        nats; "more_second" is inf from the order 1 + alpha / r on, "more_first" at order inf only.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T10.
    """
    order_of(order)
    positive(r=r, alpha=alpha)
    if _direction(direction) == "both":
        return max(gamma_pair_rdp(order, r, alpha, d) for d in DIRECTIONS[1:])
    first = direction == "more_first"
    beyond = not first and (math.isinf(order) or _beyond(order, r, alpha))
    if math.isinf(order) or beyond:
        return math.inf
    return upper(lambda: _renyi(real(order), real(r), real(alpha), first=first))


def _direction(direction: str) -> str:
    if direction not in DIRECTIONS:
        raise DomainError("direction=", got=repr(direction), allowed=", ".join(DIRECTIONS))
    return direction


def _beyond(order: float, r: float, alpha: float) -> bool:
    return (Fraction(order) - 1) * Fraction(r) >= Fraction(alpha)


def _more_first(eps: arb, r: arb, alpha: arb) -> arb:
    shift = (alpha + r).lgamma() - alpha.lgamma()
    g = ((eps + shift) / r).exp()
    return g.gamma_upper(alpha + r, 1) - eps.exp() * g.gamma_upper(alpha, 1)


def _more_second(eps: arb, r: arb, alpha: arb) -> arb:
    shift = (alpha + r).lgamma() - alpha.lgamma()
    g = ((shift - eps) / r).exp()
    return lower_gamma(g, alpha) - eps.exp() * lower_gamma(g, alpha + r)


def _renyi(order: arb, r: arb, alpha: arb, *, first: bool) -> arb:
    more, less = (alpha + r).lgamma(), alpha.lgamma()
    if order == 1:
        shift = more - less
        return r * (alpha + r).digamma() - shift if first else shift - r * alpha.digamma()
    if first:
        top = (alpha + order * r).lgamma() - order * more - (1 - order) * less
    else:
        top = (alpha - (order - 1) * r).lgamma() - order * less - (1 - order) * more
    return top / (order - 1)
