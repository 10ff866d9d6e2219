"""Error bounds of answers from draws, and of estimated tails: T16, T17."""

from __future__ import annotations

import math

from pymc_private.errors import DomainError

UP = 1.0 + 1e-14


def psaqr_loss(n_draws: int, delta: float, n_responses: int, n_queries: int) -> float:
    """Loss of the empirically best response against the optimum, for utilities in [0, 1].

    2 sqrt(ln(2 |R| |Q| / delta) / (2 N)), with probability at least 1 - delta over the draws, for
    all |Q| queries at once (adaptive ones included, if chosen among these).

    Parameters
    ----------
    n_draws, n_responses, n_queries : int
    delta : float
        Probability that the bound fails.

    References
    ----------
    Hoeffding (1963) and the union bound; corrects Dimitrakakis et al. (2017), Lemma 11; theory T16.
    """
    if not (n_draws >= 1 and n_responses >= 1 and n_queries >= 1 and 0.0 < delta < 1.0):
        raise DomainError(
            "numbers of draws, responses and queries are >= 1 and delta lies in (0, 1)",
            got=f"N={n_draws}, |R|={n_responses}, |Q|={n_queries}, delta={delta}",
        )
    return 2.0 * math.sqrt(math.log(2.0 * n_responses * n_queries / delta) / (2.0 * n_draws)) * UP


def dkw_halfwidth(n: int, beta: float) -> float:
    """One-sided half-width sqrt(ln(1/beta) / (2 n)) of an empirical CDF, beta <= 1/2.

    References
    ----------
    Massart (1990); theory T17.
    """
    if not (n >= 1 and 0.0 < beta <= 0.5):
        raise DomainError("n >= 1 and beta in (0, 1/2]", got=f"n={n}, beta={beta}")
    return math.sqrt(math.log(1.0 / beta) / (2.0 * n)) * UP
