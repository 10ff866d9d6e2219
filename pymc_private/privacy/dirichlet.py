"""Dirichlet laws: their divergences, what a draw of them costs in accuracy, and older bounds."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from fractions import Fraction
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import order_of, positive, vectorized
from pymc_private.privacy.rounding__enclosure import nearest, real, upper
from pymc_private.privacy.rounding import least_argument

def dirichlet_rdp(order: float, u: Sequence[float], v: Sequence[float]) -> float:
    """Renyi divergence D_l(Dir(u) || Dir(v)), rounded up.

    [ln B(l u + (1-l) v) - l ln B(u) - (1-l) ln B(v)] / (l - 1).

    Parameters
    ----------
    order : float
        At least 1; 1 is the Kullback-Leibler divergence, inf the largest log ratio.
    u, v : sequence of float, shape (d,)
        Parameters, > 0.

    Returns
    -------
    float
        nats; inf where l u + (1-l) v is not positive throughout.

    Raises
    ------
    DomainError
        An argument is out of its range, or the shapes differ.

    References
    ----------
    Geumlek, Song and Chaudhuri (2017); theory T13.
    """
    order_of(order)
    first, second = _vector(u, "u"), _vector(v, "v")
    if len(first) != len(second):
        raise DomainError(
            "u and v have one length", got=f"{len(first)} and {len(second)}", allowed="equal"
        )
    if np.array_equal(first, second):
        return 0.0
    if math.isinf(order):
        return _largest_ratio(first, second)
    slope = Fraction(order)
    pairs = list(zip(map(Fraction, first), map(Fraction, second), strict=True))
    mixed = [slope * a + (1 - slope) * b for a, b in pairs]
    if min(mixed) <= 0:
        return math.inf
    if order == 1.0:
        return upper(lambda: _kl(first, second))

    def formula() -> arb:
        top = _log_beta(mixed) - real(order) * _log_beta(first)
        return (top - (1 - real(order)) * _log_beta(second)) / (real(order) - 1)

    return max(0.0, upper(formula))


def dirichlet_expected_kl(counts: Sequence[float], r: float, alpha: float) -> float:
    """Expected KL(f / sum f || y) of one draw y ~ Dir(r f + alpha): its cost in accuracy.

    sum over f_i > 0 of f~_i (ln f~_i - psi(r f_i + alpha)) + psi(r N + d alpha). To calibrate, take
    the counts of a public profile, never the private ones.

    Parameters
    ----------
    counts : sequence of float, shape (d,)
        f, at least 0, not all 0.
    r, alpha : float
        > 0.

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
    Theory T12.
    """
    positive(r=r, alpha=alpha)
    f = np.asarray(counts, float)
    if f.ndim != 1 or not np.isfinite(f).all() or (f < 0.0).any() or not (f > 0.0).any():
        raise DomainError("counts are numbers >= 0, not all 0", allowed="a vector of counts")
    return nearest(lambda: _expected_kl([real(x) for x in f], real(r), real(alpha)))


@vectorized
def ponnoprat_rdp(order: float, r: float, d2sq: float, dinf: float) -> float:
    """Older bound on the Renyi divergence: l r^2 D2^2 psi'(1 + 3 (l-1) r Dinf) / 2, rounded up.

    Valid for alpha = 1 + 4 (l-1) r Dinf; `beta_pair_rdp` is exact and never larger.

    Parameters
    ----------
    order : float
        At least 1.
    r : float
        > 0.
    d2sq, dinf : float
        Squared Euclidean and largest change of the counts: 2, 1 if a record is substituted.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Theorem 1.
    """
    order_of(order)
    positive(order=order, r=r, d2sq=d2sq, dinf=dinf)

    def formula() -> arb:
        at = 1 + 3 * (real(order) - 1) * real(r) * real(dinf)
        return real(order) * real(r) ** 2 * real(d2sq) * arb(2).zeta(at) / 2

    return upper(formula)


@vectorized
def ponnoprat_r(order: float, eps: float, d2sq: float, dinf: float) -> float:
    """Largest r at which `ponnoprat_rdp` is at most eps, rounded down.

    Parameters
    ----------
    order : float
        At least 1.
    eps : float, nats
        > 0.
    d2sq, dinf : float
        As in `ponnoprat_rdp`.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Algorithm 1.
    """
    order_of(order)
    positive(eps=eps, d2sq=d2sq, dinf=dinf)
    # The divergence grows with r: its reciprocal's least argument is the largest r.
    inverse = least_argument(
        lambda q: min(1.0, 0.5 * ponnoprat_rdp(order, 1.0 / q, d2sq, dinf) / eps), 0.5, 1.0
    )
    return math.nextafter(1.0 / inverse, 0.0)


@vectorized
def dirichlet_kl_tail_bound(beta: float, eta: float) -> float:
    """Pr[KL > eta] <= exp(-beta eta^2 / (2 (2 + eta) (4 + 3 eta))), rounded up.

    Proved for alpha >= 1/2 and beta >= d alpha / (e^(eta/2) - 1), which the caller checks; false
    for smaller alpha.

    Parameters
    ----------
    beta : float
        r N, > 0.
    eta : float, nats
        > 0.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Theorem 2, corrected.
    """
    positive(beta=beta, eta=eta)

    def formula() -> arb:
        n = real(eta)
        return (-real(beta) * n**2 / (2 * (2 + n) * (4 + 3 * n))).exp()

    return min(1.0, upper(formula))


def _vector(values: Sequence[float], name: str) -> np.ndarray:
    vector = np.asarray(values, float)
    if vector.ndim != 1 or not len(vector) or not np.all((vector > 0.0) & np.isfinite(vector)):
        raise DomainError(f"{name} holds positive numbers", allowed="a vector, each entry > 0")
    return vector


def _log_beta(parameters: Sequence[float | Fraction] | np.ndarray) -> arb:
    parts = [real(p) for p in parameters]
    return sum((p.lgamma() for p in parts), arb(0)) - sum(parts, arb(0)).lgamma()


def _kl(u: np.ndarray, v: np.ndarray) -> arb:
    total = sum((real(a) for a in u), arb(0)).digamma()
    pairs = zip(map(real, u), map(real, v), strict=True)
    return (
        _log_beta(v)
        - _log_beta(u)
        + sum(((a - b) * (a.digamma() - total) for a, b in pairs), arb(0))
    )


def _largest_ratio(u: np.ndarray, v: np.ndarray) -> float:
    """Supremum of the log density ratio, B(v)/B(u) prod y^(u-v): finite if no u_i < v_i."""
    rises = [Fraction(a) - Fraction(b) for a, b in zip(u, v, strict=True)]
    if min(rises) < 0:
        return math.inf

    def formula() -> arb:
        total = real(sum(rises, Fraction(0)))
        ys = [(real(rise), real(rise) / total) for rise in rises if rise > 0]
        return _log_beta(v) - _log_beta(u) + sum((rise * y.log() for rise, y in ys), arb(0))

    return max(0.0, upper(formula))


def _expected_kl(f: list[arb], r: arb, alpha: arb) -> arb:
    n = sum(f, arb(0))
    parts = [(x / n) * ((x / n).log() - (r * x + alpha).digamma()) for x in f if not x.is_zero()]
    return sum(parts, arb(0)) + (r * n + len(f) * alpha).digamma()
