"""Relative mollifiers, e^(-eps/2) <= Q / Q0 <= e^(eps/2): what draws reveal (T14, T15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.arguments import not_negative, positive, vectorized
from pymc_private.privacy.atoms import whole
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.enclosure import lower, real, upper
from pymc_private.privacy.renyi import zcdp_to_delta
from pymc_private.privacy.rounding import times_up

MOST_DRAWS_EXACT = 20_000
"""Beyond this many draws the exact curve gives way to the zCDP bound, valid but larger."""


@vectorized
def moll_delta(eps: float, eps_mollifier: float) -> float:
    """Delta of one draw from a mollifier: (e^h - e^(eps - h)) / (1 + e^h), h = eps_mollifier / 2.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    eps_mollifier : float, nats
        Width of the mollifier, at least 0.

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
def moll_delta_k(eps: float, eps_mollifier: float, k: int) -> float:
    """Delta of k draws from one mollifier, rounded up: a trinomial sum.

    The loss of one draw is e, -e or 0 with probabilities q e^h, q e^-h and (1 - 2 q) e^-h,
    q = 1 / (1 + e^h). Beyond `MOST_DRAWS_EXACT` draws the zCDP bound of pure e takes its place.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    eps_mollifier : float, nats
        Width e = 2 h of the mollifier, at least 0.
    k : int
        Draws fixed in advance.

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
    Theory T15b; attained.
    """
    not_negative(eps=eps, eps_mollifier=eps_mollifier)
    draws = whole(k, "the number of draws")
    if math.isinf(eps) or eps_mollifier == 0.0:
        return 0.0
    if math.isinf(eps_mollifier):
        return 1.0
    if Fraction(eps) >= draws * Fraction(eps_mollifier):
        return 0.0
    if draws > MOST_DRAWS_EXACT:
        return zcdp_to_delta(times_up(draws, br_zcdp_tight(times_up(2.0, eps_mollifier))), eps)
    return min(1.0, upper(lambda: _trinomial_delta(real(eps), real(eps_mollifier), draws)))


def mollify(P: Sequence[float], Q0: Sequence[float], eps: float) -> np.ndarray:
    """Give the member of the mollifier closest to P: clip(P / C, e^-h Q0, e^h Q0), with unit mass.

    Where no C does (P = 0 on too much of Q0) it is e^h Q0 on the support of P, and what is left
    over is spread in proportion to Q0.

    Parameters
    ----------
    P, Q0 : sequence of float, shape (d,)
        Probabilities; Q0 positive.
    eps : float, nats
        Width of the mollifier, h = eps / 2, at least 0.

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
    p, q = _laws(P, Q0, eps)
    return np.array([float(x.mid()) for x in _mollified(p, q, eps)])


def mollify_gain(P: Sequence[float], Q0: Sequence[float], eps: float) -> float:
    """KL(P, Q0) - KL(P, mollify(P, Q0, eps)), rounded down: at most eps / 2.

    Parameters
    ----------
    P, Q0, eps
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
    p, q = _laws(P, Q0, eps)

    def formula() -> arb:
        made = _mollified(p, q, eps)
        rows = zip(p, q, made, strict=True)
        return sum((real(a) * (m / real(b)).log() for a, b, m in rows if a > 0), arb(0))

    return max(0.0, lower(formula))


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


def _laws(P: Sequence[float], Q0: Sequence[float], eps: float) -> tuple[list, list]:
    """Exact, normalized probabilities."""
    not_negative(eps=eps)
    p, q = np.asarray(P, float), np.asarray(Q0, float)
    fits = p.ndim == 1 and p.shape == q.shape and np.isfinite([*p, *q]).all()
    if not fits or (p < 0.0).any() or not (q > 0.0).all() or math.isinf(eps):
        raise DomainError(
            "P and Q0 are probabilities of one length, Q0 positive, and eps is finite",
            got=f"shapes {p.shape} and {q.shape}, eps={eps}",
        )
    for name, law in (("P", p), ("Q0", q)):
        if abs(law.sum() - 1.0) > 1e-6:
            raise DomainError(f"{name} sums to one", got=law.sum(), allowed="1 within 1e-6")
    exact = [[Fraction(x) for x in law] for law in (p, q)]
    first, second = ([x / sum(law) for x in law] for law in exact)
    return first, second


def _mollified(p: list, q: list, eps: float) -> list[arb]:
    """clip(P / C, e^-h Q0, e^h Q0), C from the cells strictly between the two ends."""
    h = real(eps) / 2
    low, high = (-h).exp(), h.exp()
    filled = sum((high if a else low) * real(b) for a, b in zip(p, q, strict=True))
    if eps == 0.0:
        return [real(b) for b in q]
    if filled <= 1:
        return _left_over(p, q, high)
    ratios = sorted({a / b for a, b in zip(p, q, strict=True) if a})
    # As C grows the mass falls; the cells at each end change only where P / (C Q0) meets an end.
    ends = [real(t) / e for t in ratios for e in (low, high)]
    ends.sort(key=lambda x: float(x.mid()))
    c = _scale(p, q, low, high, ends)
    return [_clip(real(a) / c, low * real(b), high * real(b)) for a, b in zip(p, q, strict=True)]


def _left_over(p: list, q: list, high: arb) -> list[arb]:
    """P is zero on so much of Q0 that its support cannot take all the rest."""
    inside = sum((real(b) for a, b in zip(p, q, strict=True) if a), arb(0))
    outside = sum((b for a, b in zip(p, q, strict=True) if not a), Fraction(0))
    share = (1 - high * inside) / real(outside) if outside else arb(0)
    return [high * real(b) if a else share * real(b) for a, b in zip(p, q, strict=True)]


def _mass(p: list, q: list, low: arb, high: arb, c: arb) -> arb:
    parts = [_clip(real(a) / c, low * real(b), high * real(b)) for a, b in zip(p, q, strict=True)]
    return sum(parts, arb(0))


def _clip(x: arb, low: arb, high: arb) -> arb:
    return x.max(low).min(high)


def _scale(p: list, q: list, low: arb, high: arb, ends: list[arb]) -> arb:
    """C of unit mass: between two neighboring ends the mass is fixed + free / C."""
    first, last = 0, len(ends) - 1
    while last - first > 1:
        middle = (first + last) // 2
        if _mass(p, q, low, high, ends[middle]).mid() >= 1:
            first = middle
        else:
            last = middle
    between = (ends[first] + ends[last]) / 2
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


def _trinomial_delta(eps: arb, e: arb, k: int) -> arb:
    """Sum the coefficients of (up x^2 + stay x + down)^k against 1 - e^(eps - loss)."""
    h = e / 2
    q = 1 / (1 + h.exp())
    up, stay, down = q * h.exp(), (1 - 2 * q) * (-h).exp(), q * (-h).exp()
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
