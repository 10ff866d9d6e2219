"""What an accuracy costs: records, draws, epsilon, and the loss of another posterior."""

from __future__ import annotations

import math
from fractions import Fraction
from pymc_private.errors import DomainError
from pymc_private.privacy import br_eps, br_tv, br_zcdp_tight, power_affordable, psaqr_loss
from pymc_private.privacy.validation import MOST, inside_unit, number_up, positive, vectorized, whole
from pymc_private.privacy.rounding import times_up

def records_needed(
    information: float, R: float, epsilon: float, delta: float = 0.0, draws: int = 1
) -> int:
    """Records after which a private posterior is as sharp as one of so many without privacy.

    The likelihood is taken to the largest power w in (0, 1] that fits the budget; n records then
    count as w n. So many are needed: ``ceil(information / w)``.

    Parameters
    ----------
    information : float
        Records a posterior without privacy would rest on, > 0.
    R : float, nats
        Range of one record at power 1.
    epsilon : float, nats
    delta : float
        In [0, 1).
    draws : int

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range, or no power fits the budget.

    References
    ----------
    Theory T1, T3; `pymc_private.privacy.power_affordable`.

    Examples
    --------
    >>> records_needed(200, R=2.0, epsilon=1, delta=1e-6, draws=10)
    2582
    """
    positive(information=information)
    power = power_affordable(epsilon, delta, draws, R)
    if power <= 0.0:
        raise DomainError("no power of the likelihood fits this budget", got=epsilon)
    return math.ceil(Fraction(information) / Fraction(power))


def draws_needed(loss: float, responses: int = 2, queries: int = 1, failure: float = 0.05) -> int:
    """Fewest draws after which the best response loses no more than `loss` (utilities in [0, 1]).

    Parameters
    ----------
    loss : float
        > 0.
    responses, queries : int
    failure : float
        Probability that the bound fails, in (0, 1).

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range, or more than 10**18 draws would be needed.

    References
    ----------
    Inverse of `pymc_private.privacy.psaqr_loss`; theory T16.

    Examples
    --------
    >>> draws_needed(0.1), draws_needed(0.1, responses=100, queries=1000)
    (877, 3041)
    """
    positive(loss=loss)
    inside_unit(failure=failure)
    log_cases = math.log(2.0 * whole(responses, "responses") * whole(queries, "queries") / failure)
    if loss < math.sqrt(2.0 * log_cases / MOST) * (1.0 + 1e-9):
        raise DomainError(
            "no number of draws that could be made is enough for so small a loss",
            got=loss,
            allowed=f"at least {math.sqrt(2.0 * log_cases / MOST) * 1.01:.3g}",
            do="allow a larger loss: it falls as one over the root of the draws",
        )
    n = max(1, math.ceil(2.0 * log_cases / loss**2 * (1.0 - 1e-9)))
    while psaqr_loss(n, failure, responses, queries) > loss:
        n += max(1, n // 10**9)
    return n


def epsilon_needed(R: float, draws: int, delta: float = 0.0, power: float = 1.0) -> float:
    """Epsilon of so many draws from a posterior of range R at a power, rounded up.

    Parameters
    ----------
    R : float, nats
    draws : int
    delta : float
    power : float
        In (0, 1].

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
    Theory T1, T3.
    """
    positive(power=power)
    return float(br_eps(delta, draws, times_up(power, R)))


@vectorized
def trimming_loss(outside: float) -> float:
    """Expected utility lost by trimming the prior to a region, for utilities in [0, 1]: 2 mass.

    Parameters
    ----------
    outside : float
        Mass that the *posterior* of the untrimmed model has outside of the region, for these data;
        or the *prior* mass, for an average over data that the prior predicts.

    Returns
    -------
    float
        For the response that is best under the trimmed posterior.

    Raises
    ------
    DomainError
        It is no probability.

    Notes
    -----
    Total variation of the trimmed and the untrimmed posterior *is* the posterior mass outside. The
    printed theorem puts the prior mass there for every data set, which is false: a prior mass of
    0.09 can be a posterior mass of 1. By Markov's inequality data whose posterior mass exceeds t
    have prior predictive probability of at most outside / t.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 14 and Theorem 17, corrected; theory T16.
    """
    if not 0.0 <= outside <= 1.0:
        raise DomainError("a mass is a probability", got=outside, allowed="0 <= outside <= 1")
    return min(1.0, 2.0 * float(outside))


@vectorized
def misspecification_kl(eta: float) -> float:
    """Divergence of a posterior whose log-likelihood of the whole data errs by eta at most.

    For every data set at most eta^2 / 2, and at most 2 eta; rounded up.

    Parameters
    ----------
    eta : float, nats
        Largest error of log p(x | theta) over theta.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        eta is negative.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 15, corrected: the log ratio of the two posteriors has a range
    of 2 eta (T1), and T2 does the rest.
    """
    return float(br_zcdp_tight(times_up(2, number_up(eta, "eta"))))


@vectorized
def misspecification_tv(eta: float) -> float:
    """Total variation of the same posterior: at most tanh(eta / 2); its regret is twice that.

    Parameters
    ----------
    eta : float, nats

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    DomainError
        eta is negative.

    References
    ----------
    Dimitrakakis et al. (2017), Corollary 16, corrected.
    """
    return float(br_tv(times_up(2, number_up(eta, "eta"))))
