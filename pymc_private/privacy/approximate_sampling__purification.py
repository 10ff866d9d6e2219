"""T29: laws near bounded-range ones become bounded-range by a few uniform draws.

Q1 and Q2 are the laws of exact draws from two neighbors, on a finite public set Y: their log ratio
lies in [-c, b], b and c >= 0, b + c <= R. What is drawn are P1 and P2, KL(Pi || Qi) <= K, and with
a public probability gamma a uniform element of Y in their place. For K as below the log ratio of
these mixtures lies in [-c - s, b + s]: they are (R + 2 s)-bounded-range, hence (R + 2 s)-private,
without any delta.

*Proof.* On one point, kl(p, q) >= (p - q)^2 / (2 max(p, q)), since kl(p, q) is the integral of
(x - p) / (x (1 - x)) from p to q. For any 0 < a < 1 so p1 <= q1 + sqrt(2 p1 K) gives
(1 - a) p1 <= q1 + K / 2a, and q2 <= p2 + sqrt(2 q2 K) gives (1 - a) q2 <= p2 + K / 2a. Together
with q1 <= e^b q2, and e^s = (1 - a)^-2,

    p1 <= e^(b + s) p2 + (1 + e^(b + s)) K / (2 a (1 - a)).

The mixtures keep (1 - gamma) p1 + gamma / |Y| <= e^(b + s) ((1 - gamma) p2 + gamma / |Y|) as soon
as (1 - gamma) (1 + e^(b + s)) K / (2 a (1 - a)) <= (e^(b + s) - 1) gamma / |Y|, and b + s >= s.
The other side is the same with c. On a finite set what holds of each point holds of each event. []
"""

from __future__ import annotations

import math
from fractions import Fraction
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.approximate_sampling import steps_of
from pymc_private.privacy.validation import inside_unit, not_negative, positive, vectorized
from pymc_private.privacy.rounding__enclosure import lower, real

@vectorized
def purified_log_kl(slack: Fraction | float, gamma: Fraction | float, log_points: float) -> float:
    """How near to its law a sampler has to be for a pure promise, as the logarithm of a divergence.

    ln K with K = 2 a (1 - a) gamma / (1 - gamma) tanh(s / 2) / points, where s = slack / 2 and
    a = 1 - e^(-s / 2).

    Parameters
    ----------
    slack : float, nats
        2 s, by which the range of one draw is to grow, > 0.
    gamma : float
        Probability of a uniform element of Y, in (0, 1).
    log_points : float
        ln of the number of points of Y, at least 0.

    Returns
    -------
    float
        Rounded down. Nothing underflows: -1000 is as good as -10.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T29. Mixing with a uniform law turns small additive errors into none on finite sets: Lin,
    Wang, Ma and Wang (2025) do so for (epsilon, delta)-private mechanisms.
    """
    positive(slack=slack)
    inside_unit(gamma=gamma)
    not_negative(log_points=log_points)
    if math.isinf(log_points):
        raise DomainError("the set of outputs is finite", got=log_points)

    def formula() -> arb:
        side = real(Fraction(slack) / 4)  # s / 2
        a, share = -(-side).expm1(), real(gamma)
        near = 2 * a * (1 - a) * share / (1 - share) * side.tanh()
        return near.log() - real(log_points)

    return lower(formula)


@vectorized
def proximal_steps_to(kl0: float, log_kl: float, eta_m: float) -> int:
    """Steps after which a proximal sampler is within a divergence e^log_kl of its target.

    ceil((ln KL_0 - log_kl) / (2 ln(1 + eta m))), 0 if that is negative.

    Parameters
    ----------
    kl0 : float, nats
        Divergence of the start, at least 0.
    log_kl : float
        Logarithm of the divergence to be reached.
    eta_m : float
        Step size times log-Sobolev constant, > 0.

    Returns
    -------
    int
        Rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Chen, Chewi, Salim and Wibisono (2022); theory T21.
    """
    not_negative(kl0=kl0)
    positive(eta_m=eta_m)
    if math.isinf(kl0) or not math.isfinite(log_kl):
        raise DomainError("kl0 and log_kl are finite", got=f"kl0={kl0}, log_kl={log_kl}")
    if kl0 == 0.0:
        return 0
    return steps_of(lambda: real(kl0).log() - real(log_kl), eta_m)
