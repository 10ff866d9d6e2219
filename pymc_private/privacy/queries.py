"""Error bounds of answers from draws, and of estimated tails: T16, T17."""

from __future__ import annotations

import math

from pymc_private.errors import DomainError
from pymc_private.privacy.arguments import inside_unit, whole

UP = 1.0 + 1e-14


def psaqr_loss(n_draws: int, delta: float, n_responses: int, n_queries: int) -> float:
    """Loss of the empirically best response against the optimum, for utilities in [0, 1].

    ``2 sqrt(ln(2 |R| |Q| / delta) / (2 N))``, with probability at least 1 - delta over the draws,
    for all queries at once (adaptive ones included, if chosen among these).

    Parameters
    ----------
    n_draws, n_responses, n_queries : int
        At least 1.
    delta : float
        Probability that the bound fails, in (0, 1).

    Returns
    -------
    float
        In units of the utility; above 1 it says nothing.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Hoeffding (1963) and the union bound; corrects Dimitrakakis et al. (2017), Lemma 11; theory T16.
    """
    n_draws = whole(n_draws, "the number of draws")
    n_responses = whole(n_responses, "the number of responses")
    n_queries = whole(n_queries, "the number of queries")
    inside_unit(delta=delta)
    log_cases = math.log(2.0) + math.log(n_responses) + math.log(n_queries) - math.log(delta)
    return 2.0 * math.sqrt(log_cases / (2.0 * n_draws)) * UP


def dkw_halfwidth(n: int, beta: float) -> float:
    """One-sided half-width sqrt(ln(1/beta) / (2 n)) of an empirical CDF.

    Parameters
    ----------
    n : int
        Sample size, at least 1.
    beta : float
        Probability that the envelope fails somewhere, in (0, 1/2].

    Returns
    -------
    float
        In units of probability.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Massart (1990), whose constant needs beta <= 1/2; theory T17.
    """
    n = whole(n, "the sample size")
    inside_unit(beta=beta)
    if not beta <= 0.5:
        raise DomainError("beta lies in (0, 1/2]", got=beta, allowed="0 < beta <= 1/2")
    return math.sqrt(-math.log(beta) / (2.0 * n)) * UP
