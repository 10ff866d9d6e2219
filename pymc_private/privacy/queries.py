"""Error bounds of answers from draws, and of estimated tails: T16, T17."""

from __future__ import annotations

import math

from pymc_private.errors import DomainError

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
    if not (n_draws >= 1 and n_responses >= 1 and n_queries >= 1 and 0.0 < delta < 1.0):
        raise DomainError(
            "numbers of draws, responses and queries are >= 1 and delta lies in (0, 1)",
            got=f"N={n_draws}, |R|={n_responses}, |Q|={n_queries}, delta={delta}",
        )
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
    if not (n >= 1 and 0.0 < beta <= 0.5):
        raise DomainError("n >= 1 and beta lies in (0, 1/2]", got=f"n={n}, beta={beta}")
    return math.sqrt(-math.log(beta) / (2.0 * n)) * UP
