"""Bounds from a stochastic Lipschitz condition: T6.

The prior satisfies P(ell > L) <= e^(-c (L - L0)) for L >= L0, one record changes the log-likelihood
by at most ell rho, and p(x | theta) <= C times the marginal. Use these only where no exact result
applies: they are looser by far.
"""

from __future__ import annotations

from flint import arb
from pymc_private.privacy.validation import inside_unit, not_negative, positive, vectorized
from pymc_private.privacy.rounding__enclosure import real, upper

@vectorized
def sl_kl_bound(L0: float, c: float, C: float, rho: float) -> float:
    """Symmetrized Kullback-Leibler divergence: at most 2 rho (L0 + (1 + ln C) / c), rounded up.

    Parameters
    ----------
    L0 : float
        At least 0.
    c : float
        > 0.
    C : float
        At least 1.
    rho : float
        Distance of the data sets, at least 0.

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
    Theory T6(i), which replaces Dimitrakakis et al. (2017), Theorem 7.2.
    """
    _check(L0, c, C, rho)
    return upper(lambda: 2 * real(rho) * _mean_tail(L0, c, C))


@vectorized
def sl_tv_bound(L0: float, c: float, C: float, rho: float) -> float:
    """Total variation: at most sqrt(rho (L0 + (1 + ln C) / c) / 2), rounded up, capped at 1.

    Parameters
    ----------
    L0, c, C, rho : float
        As in `sl_kl_bound`.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T6(ii).
    """
    _check(L0, c, C, rho)
    return min(1.0, upper(lambda: (real(rho) * _mean_tail(L0, c, C) / 2).sqrt()))


@vectorized
def sl_eps(L0: float, c: float, C: float, rho: float, delta: float) -> float:
    """Epsilon at `delta`: 2 L rho - ln(1 - delta) with L = L0 + ln(C / delta) / c, rounded up.

    Parameters
    ----------
    L0, c, C, rho : float
        As in `sl_kl_bound`.
    delta : float
        In (0, 1).

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
    Theory T6(iii).
    """
    _check(L0, c, C, rho)
    inside_unit(delta=delta)

    def formula() -> arb:
        L = real(L0) + (real(C) / real(delta)).log() / real(c)
        return 2 * L * real(rho) - (-real(delta)).log1p()

    return upper(formula)


def _mean_tail(L0: float, c: float, C: float) -> arb:
    return real(L0) + (1 + real(C).log()) / real(c)


def _check(L0: float, c: float, C: float, rho: float) -> None:
    not_negative(L0=L0, rho=rho, C_minus_1=C - 1)
    positive(c=c, C=C)
