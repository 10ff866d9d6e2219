"""Bounds from a stochastic Lipschitz condition, and the constants of common models: T5, T6.

The prior satisfies P(ell > L) <= e^(-c (L - L0)) for L >= L0, one record changes the log-likelihood
by at most ell rho, and p(x | theta) <= C times the marginal (T6). Use these only where no exact
result applies: they are looser by far. The constants c and C of the model families, and the range
of a binary Bayesian network (T5), follow the lemmas of Dimitrakakis et al. (2017), corrected.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from flint import arb
from scipy.special import gammaln, xlogy

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
    _check_condition(L0, c, C, rho)
    return arb_upper(lambda: 2 * real(rho) * _mean_lipschitz_bound(L0, c, C))


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
    _check_condition(L0, c, C, rho)
    return min(1.0, arb_upper(lambda: (real(rho) * _mean_lipschitz_bound(L0, c, C) / 2).sqrt()))


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
    _check_condition(L0, c, C, rho)
    check_open_unit(delta=delta)

    def formula() -> arb:
        L = real(L0) + (real(C) / real(delta)).log() / real(c)
        return 2 * L * real(rho) - (-real(delta)).log1p()

    return arb_upper(formula)


def _mean_lipschitz_bound(L0: float, c: float, C: float) -> arb:
    return real(L0) + (1 + real(C).log()) / real(c)


def _check_condition(L0: float, c: float, C: float, rho: float) -> None:
    check_nonnegative(L0=L0, rho=rho, C_minus_1=C - 1)
    check_positive(c=c, C=C)


MAX_TRIALS = 2_000_000
"""Of a Beta-Bernoulli model, whose constant is found by enumeration."""


@vectorized
def beta_binomial_c(alpha: float) -> float:
    """Rate c = 2^(1 - 2 alpha) / B(alpha, alpha) of a Beta(alpha, alpha) prior, rounded down.

    Parameters
    ----------
    alpha : float
        Above 1.

    Raises
    ------
    DomainError
        alpha is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 21, corrected: L0 = 0 on sequences.
    """
    check_positive(alpha_minus_1=alpha - 1)

    def formula() -> arb:
        a = real(alpha)
        return ((1 - 2 * a) * arb(2).log() + (2 * a).lgamma() - 2 * a.lgamma()).exp()

    return arb_lower(formula)


@vectorized
def beta_bernoulli_C(alpha: float, n: int) -> float:
    """C of n Bernoulli trials under Beta(alpha, alpha): max_k sup_theta p / phi, rounded up.

    Parameters
    ----------
    alpha : float
        > 0.
    n : int
        At least 1.

    Returns
    -------
    float
        The likelihood is that of the sequence.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory, errata of Dimitrakakis et al. (2017), Lemma 21; by enumeration of k.
    """
    check_positive(alpha=alpha)
    count = check_count(n, "the number of trials")
    if count > MAX_TRIALS:
        raise DomainError(
            "too many trials: every number of successes is looked at",
            got=f"n={count}",
            allowed=f"n <= {MAX_TRIALS}",
        )
    k = np.arange(count // 2 + 1, dtype=float)  # the ratio is symmetric in k
    rough = xlogy(k, k / count) + xlogy(count - k, 1 - k / count)
    a = float(alpha)
    rough -= gammaln(a + k) + gammaln(a + count - k)
    # gammaln errs by a few units in the last place of terms of this size: far less than allowed.
    near = 1e-11 * (1.0 + count * math.log(count + a + 2.0)) + 1e-9
    best = k[rough >= rough.max() - near]
    return max(arb_upper(functools.partial(_bernoulli_ratio, int(x), count, alpha)) for x in best)


@vectorized
def exp_exp_C(c1: float, c2: float, B: float) -> float:
    """C of one exponential record in [0, B], rate in [c1, c2], rounded up.

    c2 / min(c1 e^(-c1 B), c2 e^(-c2 B)).

    Parameters
    ----------
    c1, c2 : float
        0 < c1 <= c2.
    B : float
        At least 0.

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 19, for one record.
    """
    return laplace_C(c1, c2, B, 0.0)


@vectorized
def laplace_C(c1: float, c2: float, B: float, mu: float) -> float:
    """C of one Laplace record, inverse scale in [c1, c2]: as `exp_exp_C` at D = B + abs(mu).

    Parameters
    ----------
    c1, c2 : float
        0 < c1 <= c2.
    B : float
        Records lie in [-B, B].
    mu : float
        Known location.

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 20, corrected.
    """
    _check_rate_interval(c1, c2, B)

    def formula() -> arb:
        D = real(B) + abs(real(mu))
        low, high = real(c1), real(c2)
        return high / (low * (-low * D).exp()).min(high * (-high * D).exp())

    return arb_upper(formula)


@vectorized
def normal_var_C(c1: float, c2: float, B: float, mu: float) -> float:
    """C of one normal record, precision in [c1, c2].

    max(sqrt(c2 / c1) e^(c1 D^2 / 2), e^(c2 D^2 / 2)), D = B + abs(mu).

    Parameters
    ----------
    c1, c2, B, mu : float
        As in `laplace_C`.

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 22, corrected.
    """
    _check_rate_interval(c1, c2, B)

    def formula() -> arb:
        square = (real(B) + abs(real(mu))) ** 2 / 2
        low, high = real(c1), real(c2)
        return ((high / low).sqrt() * (low * square).exp()).max((high * square).exp())

    return arb_upper(formula)


@vectorized
def bayes_net_row_eps(K: int, min_prob: float) -> float:
    """Range of one row of a binary Bayesian network: 2 K ln((1 - a) / a), rounded up.

    Parameters
    ----------
    K : int
        Factors, at least 1.
    min_prob : float
        Least entry a of the conditional tables, in (0, 1/2].

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
    Dimitrakakis et al. (2017), Lemma 24, corrected; theory T5.
    """
    factors = check_count(K, "the number of factors")
    if not 0.0 < min_prob <= 0.5:
        raise DomainError("min_prob lies in (0, 1/2]", got=min_prob, allowed="0 < a <= 1/2")
    a = min_prob
    return 0.0 if a == 0.5 else arb_upper(lambda: 2 * factors * ((1 - real(a)) / real(a)).log())


def _check_rate_interval(c1: float, c2: float, B: float) -> None:
    check_positive(c1=c1, c2=c2)
    check_nonnegative(B=B, c2_minus_c1=c2 - c1)


def _bernoulli_ratio(k: int, n: int, alpha: float) -> arb:
    """sup_theta theta^k (1-theta)^(n-k) B(alpha, alpha) / B(alpha + k, alpha + n - k)."""
    a, m = real(alpha), arb(n)
    parts = [x * (arb(x) / m).log() for x in (k, n - k) if x]
    top = sum(parts, arb(0)) + 2 * a.lgamma() + (2 * a + n).lgamma()
    return (top - (2 * a).lgamma() - (a + k).lgamma() - (a + n - k).lgamma()).exp()
