"""Privacy cost of approximate draws: T18, T20, T21, T29, and rounding to a grid.

Total variation costs delta (T18), noise turns a Wasserstein distance into a pure or Gaussian
guarantee (T20), and a proximal sampler converges in a known number of steps (T21).

T29, purification: distributions near bounded-range ones become bounded-range by a few uniform
draws. Q1 and Q2 are the distributions of exact draws from two neighbors, on a finite public set Y:
their log ratio lies in [-c, b], b and c >= 0, b + c <= R. What is drawn are P1 and P2,
KL(Pi || Qi) <= K, and with a public probability gamma a uniform element of Y in their place. For K
as below the log ratio of these mixtures lies in [-c - s, b + s]: they are (R + 2 s)-bounded-range,
hence (R + 2 s)-private, without any delta.

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
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.rounding import arb_lower, arb_upper, real
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_open_unit,
    check_positive,
    vectorized,
)


@vectorized
def approx_delta(epsilon: float, delta: float, tv: float) -> float:
    """Delta of a sampler within total variation tv of an (epsilon, delta)-private distribution.

    delta + (1 + e^epsilon) tv.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta, tv : float
        In [0, 1].

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T18.
    """
    return approx_delta_n(epsilon, delta, tv, 1)


@vectorized
def approx_delta_n(epsilon: float, delta: float, tv: float, n: int) -> float:
    """Delta of n independent runs, each within tv: delta + (1 + e^epsilon) (1 - (1 - tv)^n).

    Parameters
    ----------
    epsilon, delta : float
        Of the exact release of n draws; nats, and in [0, 1].
    tv : float
        Total variation of one run, in [0, 1].
    n : int
        Runs, at least 1.

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T18.
    """
    check_nonnegative(epsilon=epsilon, delta=delta, tv=tv)
    runs = check_count(n, "the number of runs")
    if not (delta <= 1.0 and tv <= 1.0):
        raise DomainError(
            "delta and tv are at most 1", got=f"delta={delta}, tv={tv}", allowed="<= 1"
        )
    if tv == 0.0:
        return float(delta)
    if tv == 1.0 or math.isinf(epsilon):
        return 1.0

    def formula() -> arb:
        apart = -(runs * (-real(tv)).log1p()).expm1()
        return real(delta) + (1 + real(epsilon).exp()) * apart

    return min(1.0, arb_upper(formula))


@vectorized
def winf_pure_eps(epsilon: float, winf: float, laplace_scale: float) -> float:
    """Pure epsilon of a draw near an epsilon-private one, plus Laplace noise.

    epsilon + 2 winf / scale, rounded up, where the draw is within W_inf <= winf (l1) of the private
    distribution.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    winf : float
        At least 0, in the units of the parameters.
    laplace_scale : float
        > 0, in the same units.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Lin, Ma, Wang, Redberg and Bu (2024); theory T20.
    """
    check_nonnegative(epsilon=epsilon, winf=winf)
    check_positive(laplace_scale=laplace_scale)
    if math.isinf(epsilon) or math.isinf(winf):
        return math.inf
    return arb_upper(lambda: real(epsilon) + 2 * real(winf) / real(laplace_scale))


@vectorized
def winf_gdp_mu(mu: float, winf: float, noise_sd: float) -> float:
    """Mu of a draw near a mu-GDP one, plus Gaussian noise.

    mu + 2 winf / sd, rounded up, where the draw is within W_inf <= winf (l2) of the private
    distribution.

    Parameters
    ----------
    mu, winf : float
        At least 0.
    noise_sd : float
        > 0, in the units of winf.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Lin, Ma, Wang, Redberg and Bu (2024); theory T20.
    """
    check_nonnegative(mu=mu, winf=winf)
    check_positive(noise_sd=noise_sd)
    return winf_pure_eps(mu, winf, noise_sd)


@vectorized
def proximal_steps(kl0: float, tv: float, eta_m: float) -> int:
    """Steps after which a proximal sampler is within tv of its target.

    ceil(ln(KL_0 / (2 tv^2)) / (2 ln(1 + eta m))), 0 if KL_0 <= 2 tv^2.

    Parameters
    ----------
    kl0 : float, nats
        Divergence of the start, at least 0.
    tv : float
        In (0, 1].
    eta_m : float
        Step size times strong convexity, > 0.

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
    check_nonnegative(kl0=kl0)
    check_positive(tv=tv, eta_m=eta_m)
    if not tv <= 1.0 or math.isinf(kl0):
        raise DomainError(
            "tv is at most 1 and kl0 is finite",
            got=f"tv={tv}, kl0={kl0}",
            allowed="0 < tv <= 1 and 0 <= kl0 < inf",
        )
    if kl0 == 0.0:
        return 0
    return steps_to_contract(lambda: (real(kl0) / (2 * real(tv) ** 2)).log(), eta_m)


def steps_to_contract(log_ratio: Callable[[], arb], eta_m: float) -> int:
    """Steps that divide a divergence by e^log_ratio, each by (1 + eta m)^2 (T21); rounded up."""
    steps = arb_upper(lambda: log_ratio() / (2 * real(eta_m).log1p()))
    if math.isinf(steps):
        raise DomainError(
            "so many steps are needed that a double does not count them",
            got=f"eta_m={eta_m}",
            allowed="a larger eta_m",
            do="a larger step size eta, or a better conditioned target",
        )
    return max(0, math.ceil(steps))


@vectorized
def rounding_tv(omega: float, width: float, f_max: float, coordinates: int = 1) -> float:
    """Total variation that a grid leaves between a computed draw and an ideal one.

    2 omega (1 / width + 3 f_max) for each coordinate. Rounding an ideal draw costs nothing. One
    that is computed within omega of it falls on another multiple only if the ideal one lies within
    omega of the border of a cell. Charge the sum over draws by `approx_delta_n`.

    Parameters
    ----------
    omega : float
        Proved distance of the computed coordinate from an ideal one, at most width / 2.
    width : float
        Of the grid, > 0.
    f_max : float
        Largest density of the coordinate, which is unimodal.
    coordinates : int
        How many of them, at least 1.

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory, section 8.
    """
    check_nonnegative(omega=omega, f_max=f_max)
    check_positive(width=width)
    if not 2.0 * omega <= width:
        raise DomainError(
            "the rounding width omega is at most half the width of the box",
            got=f"omega={omega}, width={width}",
            allowed=f"omega <= {width / 2}",
        )
    count = check_count(coordinates, "the number of coordinates")
    return min(
        1.0, arb_upper(lambda: 2 * count * real(omega) * (1 / real(width) + 3 * real(f_max)))
    )


@vectorized
def purified_log_kl(slack: Fraction | float, gamma: Fraction | float, log_points: float) -> float:
    """Log of the divergence within which a sampler has to be of its target for a pure guarantee.

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
    Theory T29. Mixing with a uniform distribution turns small additive errors into none on finite
    sets: Lin, Wang, Ma and Wang (2025) do so for (epsilon, delta)-private mechanisms.
    """
    check_positive(slack=slack)
    check_open_unit(gamma=gamma)
    check_nonnegative(log_points=log_points)
    if math.isinf(log_points):
        raise DomainError(
            "log_points is the logarithm of a number of outputs, which is finite",
            got=log_points,
            allowed="0 <= log_points < inf",
            do="round outputs to a grid, of which this counts the points",
        )

    def formula() -> arb:
        side = real(Fraction(slack) / 4)  # s / 2
        a, share = -(-side).expm1(), real(gamma)
        near = 2 * a * (1 - a) * share / (1 - share) * side.tanh()
        return near.log() - real(log_points)

    return arb_lower(formula)


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
    check_nonnegative(kl0=kl0)
    check_positive(eta_m=eta_m)
    if math.isinf(kl0) or not math.isfinite(log_kl):
        raise DomainError(
            "kl0 and log_kl are finite",
            got=f"kl0={kl0}, log_kl={log_kl}",
            allowed="0 <= kl0 < inf, and a finite log_kl",
        )
    if kl0 == 0.0:
        return 0
    return steps_to_contract(lambda: real(kl0).log() - real(log_kl), eta_m)
