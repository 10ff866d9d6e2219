"""The member of a mollifier that is closest to a law: T15d."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from fractions import Fraction
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import not_negative
from pymc_private.privacy.rounding__enclosure import lower, real

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
