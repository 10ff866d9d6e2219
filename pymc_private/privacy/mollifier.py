"""Relative mollifiers, e^(-epsilon/2) <= Q / Q0 <= e^(epsilon/2): privacy of draws and best member.

What draws reveal (T15b), the weights and gains of boosted density estimation and mode capture
(T14, T28), and the member of a mollifier that is closest to a distribution (T15d).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.renyi import zcdp_to_delta
from pymc_private.privacy.rounding import arb_lower, arb_upper, real, times_up
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_positive,
    takes_numbers,
    vectorized,
)

MAX_EXACT_DRAWS = 20_000
"""Beyond this many draws the zCDP bound, which is larger, replaces the exact curve."""


@vectorized
def moll_delta(epsilon: float, width: float, top: float | None = None) -> float:
    """Delta of one draw from a mollifier: (e^h - e^(epsilon - h)) / (1 + e^h), h = width / 2.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    width : float, nats
        Width of the mollifier, at least 0.
    top : float, nats, optional
        Upper end of its window where that is not symmetric; see `moll_delta_k`.

    Returns
    -------
    float
        In [0, 1], rounded up; 0 from width on.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T15b; attained. Husain, Cranko and Nock (2019) for mollifiers.
    """
    if top is not None:
        return float(moll_delta_k(epsilon, width, 1, top))
    check_nonnegative(epsilon=epsilon, width=width)
    if epsilon >= width:
        return 0.0
    if math.isinf(width):
        return 1.0

    def formula() -> arb:
        h = real(width) / 2
        # (1 - e^(epsilon - 2 h)) / (1 + e^-h)
        return -(real(epsilon) - 2 * h).expm1() / (1 + (-h).exp())

    return min(1.0, arb_upper(formula))


@vectorized
def moll_delta_k(epsilon: float, width: float, k: int, top: float | None = None) -> float:
    """Delta of k draws from one mollifier, rounded up: a trinomial sum.

    The loss of one draw is e, -e or 0 with probabilities v e^e, v and 1 - v (1 + e^e), where
    v = (1 - a) / (e^e - 1) for the window [a, a e^e] of dQ/dQ0, and at most 1 / (1 + e^e), which is
    randomized response. The symmetric window has a = e^-h, h = e / 2, and v = e^-h / (1 + e^h).
    Beyond `MAX_EXACT_DRAWS` draws the zCDP bound of pure e replaces it.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    width : float, nats
        Width e of the mollifier, at least 0.
    k : int
        Draws fixed in advance.
    top : float, nats, optional
        Upper end of the window of log dQ/dQ0, which begins e below it; in (0, e). Default: e / 2.
        A smaller one is less private.

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
    at 1 - s. For s <= 1/2 the difference P(B) - e^epsilon Q(B) rises in t until s and falls after
    it: it is at most s a (e^e - e^epsilon), and s a = v. Two distributions that are high on
    disjoint sets of mass s and low elsewhere attain it for every epsilon, in both directions, so
    they dominate, also k times. For s > 1/2 randomized response bounds it.

    References
    ----------
    Theory T15b for the symmetric window; attained.
    """
    check_nonnegative(epsilon=epsilon, width=width)
    draws = check_count(k, "the number of draws")
    if math.isinf(epsilon) or width == 0.0:
        return 0.0
    if math.isinf(width):
        return 1.0
    if top is not None:
        check_positive(top=top)
        if not top < width:
            raise DomainError(
                "a window of log ratios contains 0, the log ratio of the reference itself",
                got=f"upper end {top}",
                allowed=f"0 < top < {width}",
            )
    if Fraction(epsilon) >= draws * Fraction(width):
        return 0.0
    if draws > MAX_EXACT_DRAWS:
        return zcdp_to_delta(times_up(draws, br_zcdp_tight(times_up(2.0, width))), epsilon)

    def formula() -> arb:
        e = real(width)
        return _trinomial_delta(
            real(epsilon), e, draws, _least_loss_probability(e, e / 2 if top is None else real(top))
        )

    return min(1.0, arb_upper(formula))


def _least_loss_probability(e: arb, top: arb) -> arb:
    """Probability v of the least loss, -e, of one draw from the window [top - e, top]."""
    return (-(top - e).expm1() / e.expm1()).min(1 / (1 + e.exp()))


def _trinomial_delta(epsilon: arb, e: arb, k: int, down: arb) -> arb:
    """Sum the coefficients of (up x^2 + stay x + down)^k against 1 - e^(epsilon - loss)."""
    up = down * e.exp()
    stay = 1 - up - down
    # p_j is the probability of the loss (k - j) e; all terms of the recurrence are positive.
    before, here = arb(0), up**k
    total = arb(0)
    for j in range(k):
        gain = 1 - (epsilon - (k - j) * e).exp()
        if gain <= 0:
            break
        total += here * gain
        after = stay * (k - j) * here + down * (2 * k - j + 1) * before
        before, here = here, after / (up * (j + 1))
    return total


@vectorized
def mbde_theta_sum(epsilon: float, T: int) -> float:
    """Sum of the weights theta_t = (epsilon / (epsilon + 4 ln 2))^t, t = 1..T, rounded up.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    T : int
        Rounds.

    Returns
    -------
    float
        Below epsilon / (4 ln 2).

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T14; Husain, Cranko and Nock (2019).
    """
    check_nonnegative(epsilon=epsilon)
    rounds = check_count(T, "the number of rounds")
    if epsilon == 0.0:
        return 0.0

    def formula() -> arb:
        scale = 4 * arb(2).log()
        theta = real(epsilon) / (real(epsilon) + scale)
        return real(epsilon) / scale * (1 - theta**rounds)

    return arb_upper(formula)


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
    check_nonnegative(theta=theta)
    check_positive(cstar=cstar)
    if not (-1.0 <= gP <= 1.0 and -1.0 <= gQ <= 1.0):
        raise DomainError("edges lie in [-1, 1]", got=f"gP={gP}, gQ={gQ}", allowed="-1 <= g <= 1")

    def formula() -> arb:
        x = real(theta) * real(cstar)
        return x * real(gP) - (x.cosh() - real(gQ) * x.sinh()).log()

    return 0.0 if theta == 0.0 else arb_lower(formula)


@vectorized
def mode_capture_bound(mass: float, kl_inside: float, gain: float, epsilon: float) -> float:
    """Least mass that a member of a mollifier puts on a set B.

    P(B) - KL_B + gain - epsilon/2 (1 - P(B)).

    Parameters
    ----------
    mass : float
        P(B), in [0, 1].
    kl_inside : float, nats
        KL_B = integral over B of log(dP/dQ0) dP.
    gain : float, nats
        KL(P, Q0) - KL(P, Q), as realized.
    epsilon : float, nats
        Width of the mollifier, at least 0: log Q/Q0 is at most epsilon / 2 off B.

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
    check_nonnegative(epsilon=epsilon)
    if not (0.0 <= mass <= 1.0 and math.isfinite(kl_inside) and math.isfinite(gain)):
        raise DomainError(
            "a mass lies in [0, 1], and divergences are finite",
            got=f"mass={mass}, kl_inside={kl_inside}, gain={gain}",
            allowed="0 <= mass <= 1, and finite kl_inside and gain",
        )

    def formula() -> arb:
        outside = 1 - real(mass)
        return real(mass) - real(kl_inside) + real(gain) - real(epsilon) / 2 * outside

    return max(0.0, arb_lower(formula))


# ---- the closest member of a mollifier ------------------------------------------------------
@takes_numbers
def mollify(P: Sequence[float], Q0: Sequence[float], epsilon: float) -> np.ndarray:
    """Member of the mollifier closest to P: clip(P / C, e^-h Q0, e^h Q0), with unit mass.

    Where no C gives unit mass (P = 0 on too much of Q0) it is e^h Q0 on the support of P, and the
    rest of the mass is spread in proportion to Q0.

    Parameters
    ----------
    P, Q0 : sequence of float, shape (d,)
        Probabilities; Q0 positive.
    epsilon : float, nats
        Width of the mollifier, h = epsilon / 2, at least 0.

    Returns
    -------
    ndarray, shape (d,)
        Nearest doubles; they sum to one up to rounding.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T15d; Husain, Balle, Cranko and Nock (2020), equation 8, completed.
    """
    p, q = _normalized_probabilities(P, Q0, epsilon)
    return np.array([float(x.mid()) for x in _mollified_balls(p, q, epsilon)])


@takes_numbers
def mollify_gain(P: Sequence[float], Q0: Sequence[float], epsilon: float) -> float:
    """KL(P, Q0) - KL(P, mollify(P, Q0, epsilon)), rounded down: at most epsilon / 2.

    Parameters
    ----------
    P, Q0, epsilon
        As in `mollify`.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T15d.
    """
    p, q = _normalized_probabilities(P, Q0, epsilon)

    def formula() -> arb:
        rows = zip(p, q, _mollified_balls(p, q, epsilon), strict=True)
        return sum((real(a) * (m / real(b)).log() for a, b, m in rows if a > 0), arb(0))

    return max(0.0, arb_lower(formula))


def _normalized_probabilities(
    P: Sequence[float], Q0: Sequence[float], epsilon: float
) -> tuple[list, list]:
    """P and Q0 as exact, normalized probabilities."""
    check_nonnegative(epsilon=epsilon)
    p, q = np.asarray(P, float), np.asarray(Q0, float)
    fits = p.ndim == 1 and p.shape == q.shape and np.isfinite([*p, *q]).all()
    if not fits or (p < 0.0).any() or not (q > 0.0).all() or math.isinf(epsilon):
        raise DomainError(
            "P and Q0 are probabilities of one length, Q0 positive, and epsilon is finite",
            got=f"shapes {p.shape} and {q.shape}, epsilon={epsilon}",
            allowed="two vectors of one length, P >= 0, Q0 > 0, and epsilon < inf",
            do="leave categories out to which Q0 gives nothing",
        )
    for name, masses in (("P", p), ("Q0", q)):
        if abs(masses.sum() - 1.0) > 1e-6:
            raise DomainError(f"{name} sums to one", got=masses.sum(), allowed="1 within 1e-6")
    exact = [[Fraction(x) for x in masses] for masses in (p, q)]
    first, second = ([x / sum(masses) for x in masses] for masses in exact)
    return first, second


def _mollified_balls(p: list, q: list, epsilon: float) -> list[arb]:
    """clip(P / C, e^-h Q0, e^h Q0), with C from the cells strictly between the two bounds."""
    h = real(epsilon) / 2
    low, high = (-h).exp(), h.exp()
    filled = sum((high if a else low) * real(b) for a, b in zip(p, q, strict=True))
    if epsilon == 0.0:
        return [real(b) for b in q]
    if filled <= 1:
        return _fill_off_support(p, q, high)
    ratios = sorted({a / b for a, b in zip(p, q, strict=True) if a})
    # As C grows the mass falls; the cells at a bound change only where P / (C Q0) reaches a bound.
    breaks = [real(t) / bound for t in ratios for bound in (low, high)]
    breaks.sort(key=lambda x: float(x.mid()))
    return _clipped(p, q, low, high, _unit_mass_scale(p, q, low, high, breaks))


def _fill_off_support(p: list, q: list, high: arb) -> list[arb]:
    """Member for a P that is zero on so much of Q0 that its support cannot take all of the mass."""
    inside = sum((real(b) for a, b in zip(p, q, strict=True) if a), arb(0))
    outside = sum((b for a, b in zip(p, q, strict=True) if not a), Fraction(0))
    share = (1 - high * inside) / real(outside) if outside else arb(0)
    return [high * real(b) if a else share * real(b) for a, b in zip(p, q, strict=True)]


def _clipped(p: list, q: list, low: arb, high: arb, c: arb) -> list[arb]:
    pairs = zip(p, q, strict=True)
    return [(real(a) / c).max(low * real(b)).min(high * real(b)) for a, b in pairs]


def _unit_mass_scale(p: list, q: list, low: arb, high: arb, breaks: list[arb]) -> arb:
    """C of unit mass: between two neighboring breaks the mass is fixed + free / C."""
    first, last = 0, len(breaks) - 1
    while last - first > 1:
        middle = (first + last) // 2
        if sum(_clipped(p, q, low, high, breaks[middle]), arb(0)).mid() >= 1:
            first = middle
        else:
            last = middle
    between = (breaks[first] + breaks[last]) / 2
    fixed, free = arb(0), arb(0)
    for a, b in zip(p, q, strict=True):
        x = real(a) / between
        if x < low * real(b):
            fixed += low * real(b)
        elif x > high * real(b):
            fixed += high * real(b)
        else:
            free += real(a)
    return between if free.is_zero() else free / (1 - fixed)
