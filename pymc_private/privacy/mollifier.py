"""Relative mollifiers, e^(-eps/2) <= Q / Q0 <= e^(eps/2): what draws reveal (T14, T15)."""

from __future__ import annotations

import math
from fractions import Fraction
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import not_negative, positive, vectorized, whole
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.rounding__enclosure import lower, real, upper
from pymc_private.privacy.renyi import zcdp_to_delta
from pymc_private.privacy.rounding import times_up

MOST_DRAWS_EXACT = 20_000
"""Beyond this many draws the exact curve gives way to the zCDP bound, valid but larger."""


@vectorized
def moll_delta(eps: float, eps_mollifier: float, top: float | None = None) -> float:
    """Delta of one draw from a mollifier: (e^h - e^(eps - h)) / (1 + e^h), h = eps_mollifier / 2.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    eps_mollifier : float, nats
        Width of the mollifier, at least 0.
    top : float, nats, optional
        Upper end of its window where that is not symmetric; see `moll_delta_k`.

    Returns
    -------
    float
        In [0, 1], rounded up; 0 from eps_mollifier on.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T15b; attained. Husain, Cranko and Nock (2019) for mollifiers.
    """
    if top is not None:
        return float(moll_delta_k(eps, eps_mollifier, 1, top))
    not_negative(eps=eps, eps_mollifier=eps_mollifier)
    if eps >= eps_mollifier:
        return 0.0
    if math.isinf(eps_mollifier):
        return 1.0

    def formula() -> arb:
        h = real(eps_mollifier) / 2
        # (1 - e^(eps - 2 h)) / (1 + e^-h)
        return -(real(eps) - 2 * h).expm1() / (1 + (-h).exp())

    return min(1.0, upper(formula))


@vectorized
def moll_delta_k(eps: float, eps_mollifier: float, k: int, top: float | None = None) -> float:
    """Delta of k draws from one mollifier, rounded up: a trinomial sum.

    The loss of one draw is e, -e or 0 with probabilities v e^e, v and 1 - v (1 + e^e), where
    v = (1 - a) / (e^e - 1) for the window [a, a e^e] of dQ/dQ0, and at most 1 / (1 + e^e), which is
    randomized response. The symmetric window has a = e^-h, h = e / 2, and v = e^-h / (1 + e^h).
    Beyond `MOST_DRAWS_EXACT` draws the zCDP bound of pure e takes its place.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    eps_mollifier : float, nats
        Width e of the mollifier, at least 0.
    k : int
        Draws fixed in advance.
    top : float, nats, optional
        Upper end of the window of log dQ/dQ0, which begins e below it; in (0, e). Default: e / 2.
        Less of it promises less.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    Notes
    -----
    Any set B of reference mass t has P(B) <= min(t a e^e, 1 - (1 - t) a) and
    Q(B) >= max(t a, 1 - (1 - t) a e^e). The first bends at s = (1 - a) / (a (e^e - 1)), the second
    at 1 - s. For s <= 1/2 the difference P(B) - e^eps Q(B) rises in t until s and falls after it:
    it is at most s a (e^e - e^eps), and s a = v. Two laws that are high on disjoint sets of mass s
    and low elsewhere attain it for every eps, in both directions, so they dominate, also k times.
    For s > 1/2 randomized response bounds it.

    References
    ----------
    Theory T15b for the symmetric window; attained.
    """
    not_negative(eps=eps, eps_mollifier=eps_mollifier)
    draws = whole(k, "the number of draws")
    if math.isinf(eps) or eps_mollifier == 0.0:
        return 0.0
    if math.isinf(eps_mollifier):
        return 1.0
    if top is not None:
        positive(top=top)
        if not top < eps_mollifier:
            raise DomainError(
                "a window has the reference strictly inside",
                got=f"upper end {top}",
                allowed=f"0 < top < {eps_mollifier}",
            )
    if Fraction(eps) >= draws * Fraction(eps_mollifier):
        return 0.0
    if draws > MOST_DRAWS_EXACT:
        return zcdp_to_delta(times_up(draws, br_zcdp_tight(times_up(2.0, eps_mollifier))), eps)

    def formula() -> arb:
        e = real(eps_mollifier)
        return _trinomial_delta(real(eps), e, draws, _high(e, e / 2 if top is None else real(top)))

    return min(1.0, upper(formula))


@vectorized
def mbde_theta_sum(eps: float, T: int) -> float:
    """Sum of the weights theta_t = (eps / (eps + 4 ln 2))^t, t = 1..T, rounded up.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    T : int
        Rounds.

    Returns
    -------
    float
        Below eps / (4 ln 2).

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T14; Husain, Cranko and Nock (2019).
    """
    not_negative(eps=eps)
    rounds = whole(T, "the number of rounds")
    if eps == 0.0:
        return 0.0

    def formula() -> arb:
        scale = 4 * arb(2).log()
        theta = real(eps) / (real(eps) + scale)
        return real(eps) / scale * (1 - theta**rounds)

    return upper(formula)


@vectorized
def mbde_drop_bound(theta: float, cstar: float, gP: float, gQ: float) -> float:
    """Least drop of KL(P, Q_t) in one round: theta c gP - ln(cosh theta c - gQ sinh theta c).

    Parameters
    ----------
    theta : float
        Weight of the round, at least 0.
    cstar : float
        Bound c of the classifier, > 0.
    gP, gQ : float
        Edges of the weak learner on P and on Q, in [-1, 1].

    Returns
    -------
    float
        nats, rounded down.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T14, which corrects the bounds of Husain, Cranko and Nock (2019).
    """
    not_negative(theta=theta)
    positive(cstar=cstar)
    if not (-1.0 <= gP <= 1.0 and -1.0 <= gQ <= 1.0):
        raise DomainError("edges lie in [-1, 1]", got=f"gP={gP}, gQ={gQ}", allowed="-1 <= g <= 1")

    def formula() -> arb:
        x = real(theta) * real(cstar)
        return x * real(gP) - (x.cosh() - real(gQ) * x.sinh()).log()

    return 0.0 if theta == 0.0 else lower(formula)


@vectorized
def mode_capture_bound(mass: float, kl_inside: float, gain: float, eps: float) -> float:
    """Least mass that a member of a mollifier puts on a set: P(B) - KL_B + gain - eps/2 (1 - P(B)).

    Parameters
    ----------
    mass : float
        P(B), in [0, 1].
    kl_inside : float, nats
        KL_B = integral over B of log(dP/dQ0) dP.
    gain : float, nats
        KL(P, Q0) - KL(P, Q), as realized.
    eps : float, nats
        Width of the mollifier, at least 0: log Q/Q0 is at most eps / 2 off B.

    Returns
    -------
    float
        Rounded down, and at least 0.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T28, which replaces the unproved theorem of Husain, Cranko and Nock (2019).
    """
    not_negative(eps=eps)
    if not (0.0 <= mass <= 1.0 and math.isfinite(kl_inside) and math.isfinite(gain)):
        raise DomainError(
            "a mass lies in [0, 1], and divergences are finite",
            got=f"mass={mass}, kl_inside={kl_inside}, gain={gain}",
        )

    def formula() -> arb:
        outside = 1 - real(mass)
        return real(mass) - real(kl_inside) + real(gain) - real(eps) / 2 * outside

    return max(0.0, lower(formula))


def _high(e: arb, top: arb) -> arb:
    """Probability v of the least loss, -e, of one draw from the window [top - e, top]."""
    return (-(top - e).expm1() / e.expm1()).min(1 / (1 + e.exp()))


def _trinomial_delta(eps: arb, e: arb, k: int, down: arb) -> arb:
    """Sum the coefficients of (up x^2 + stay x + down)^k against 1 - e^(eps - loss)."""
    up = down * e.exp()
    stay = 1 - up - down
    # p_j is the probability of the loss (k - j) e; all terms of the recurrence are positive.
    before, here = arb(0), up**k
    total = arb(0)
    for j in range(k):
        gain = 1 - (eps - (k - j) * e).exp()
        if gain <= 0:
            break
        total += here * gain
        after = stay * (k - j) * here + down * (2 * k - j + 1) * before
        before, here = here, after / (up * (j + 1))
    return total
