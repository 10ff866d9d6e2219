"""What an approximate draw costs on top of an exact one: T18, T20, T21, and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import not_negative, positive, vectorized, whole
from pymc_private.privacy.rounding__enclosure import real, upper

@vectorized
def approx_delta(eps: float, delta: float, tv: float) -> float:
    """Delta of a sampler within total variation tv of an (eps, delta)-private law.

    delta + (1 + e^eps) tv.

    Parameters
    ----------
    eps : float, nats
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
    return approx_delta_n(eps, delta, tv, 1)


@vectorized
def approx_delta_n(eps: float, delta: float, tv: float, n: int) -> float:
    """Delta of n independent runs, each within tv: delta + (1 + e^eps) (1 - (1 - tv)^n).

    Parameters
    ----------
    eps, delta : float
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
    not_negative(eps=eps, delta=delta, tv=tv)
    runs = whole(n, "the number of runs")
    if not (delta <= 1.0 and tv <= 1.0):
        raise DomainError(
            "delta and tv are at most 1", got=f"delta={delta}, tv={tv}", allowed="<= 1"
        )
    if tv == 0.0:
        return float(delta)
    if tv == 1.0 or math.isinf(eps):
        return 1.0

    def formula() -> arb:
        apart = -(runs * (-real(tv)).log1p()).expm1()
        return real(delta) + (1 + real(eps).exp()) * apart

    return min(1.0, upper(formula))


@vectorized
def winf_pure_eps(eps: float, winf: float, laplace_scale: float) -> float:
    """Pure epsilon of a draw within W_inf <= winf (l1) of an eps-private law, plus Laplace noise.

    eps + 2 winf / scale, rounded up.

    Parameters
    ----------
    eps : float, nats
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
    not_negative(eps=eps, winf=winf)
    positive(laplace_scale=laplace_scale)
    if math.isinf(eps) or math.isinf(winf):
        return math.inf
    return upper(lambda: real(eps) + 2 * real(winf) / real(laplace_scale))


@vectorized
def winf_gdp_mu(mu: float, winf: float, noise_sd: float) -> float:
    """Give mu of a draw within W_inf <= winf (l2) of a mu-GDP law, plus Gaussian noise.

    mu + 2 winf / sd, rounded up.

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
    not_negative(mu=mu, winf=winf)
    positive(noise_sd=noise_sd)
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
    not_negative(kl0=kl0)
    positive(tv=tv, eta_m=eta_m)
    if not tv <= 1.0 or math.isinf(kl0):
        raise DomainError("tv is at most 1 and kl0 is finite", got=f"tv={tv}, kl0={kl0}")
    if kl0 == 0.0:
        return 0
    return steps_of(lambda: (real(kl0) / (2 * real(tv) ** 2)).log(), eta_m)


def steps_of(log_ratio: Callable[[], arb], eta_m: float) -> int:
    """Steps that divide a divergence by e^log_ratio, each by (1 + eta m)^2 (T21); rounded up."""
    steps = upper(lambda: log_ratio() / (2 * real(eta_m).log1p()))
    if math.isinf(steps):
        raise DomainError("eta_m is too small: no double counts the steps", got=eta_m)
    return max(0, math.ceil(steps))


@vectorized
def rounding_tv(omega: float, width: float, f_max: float, coordinates: int = 1) -> float:
    """Total variation that a grid leaves between a computed draw and an ideal one.

    2 omega (1 / width + 3 f_max) for each coordinate. An ideal draw is rounded for nothing. One
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
    not_negative(omega=omega, f_max=f_max)
    positive(width=width)
    if not 2.0 * omega <= width:
        raise DomainError("omega is at most half the width", got=f"{omega} of {width}")
    count = whole(coordinates, "the number of coordinates")
    return min(1.0, upper(lambda: 2 * count * real(omega) * (1 / real(width) + 3 * real(f_max))))
