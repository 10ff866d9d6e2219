"""Error bounds of answers estimated from draws, and of estimated tails: T16, T17."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pymc_private.errors import DomainError
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_open_unit,
    check_positive,
    takes_numbers,
)

ROUNDING_FACTOR = 1.0 + 1e-14
NET_RADII = 120
"""Number of radii of nets that are tried, each 0.78 of the one before."""


@takes_numbers
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
    n_draws = check_count(n_draws, "the number of draws")
    n_responses = check_count(n_responses, "the number of responses")
    n_queries = check_count(n_queries, "the number of queries")
    check_open_unit(delta=delta)
    return _uniform_loss(n_draws, math.log(n_responses) + math.log(n_queries) - math.log(delta))


@takes_numbers
def psaqr_net_loss(
    n_draws: int,
    delta: float,
    lipschitz: float,
    widths: Sequence[float],
    n_queries: int = 1,
    gap: float = 0.0,
) -> float:
    """Loss of a response chosen from a box of them, for Lipschitz utilities in [0, 1].

    min over eta of ``2 sqrt(ln(2 M |Q| / delta) / (2 N)) + 4 L eta + gap``, where
    ``M = prod ceil(w_i / (2 eta))`` balls of radius eta cover the box.

    Parameters
    ----------
    n_draws : int
        At least 1.
    delta : float
        Probability that the bound fails, in (0, 1).
    lipschitz : float
        L: the utility of two responses differs by at most L times the largest difference of a
        coordinate, at every theta.
    widths : sequence of float
        Sides of the box, > 0.
    n_queries : int
        All that may be asked.
    gap : float
        How far the chosen response may fall short of the best one by the draws.

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
    Hoeffding (1963) on the centers of the balls; between them both means move by at most L eta,
    so they are within t + 2 L eta of each other everywhere; eta does not depend on the draws.
    Theory T16.
    """
    n_draws, n_queries = (
        check_count(n_draws, "the number of draws"),
        check_count(n_queries, "queries"),
    )
    check_open_unit(delta=delta)
    check_nonnegative(lipschitz=lipschitz, gap=gap)
    sides = [float(width) for width in widths]
    if not sides:
        raise DomainError("the box has no sides", got="no widths", allowed="one width or more")
    check_positive(**{f"width_{i}": side for i, side in enumerate(sides)})

    def loss(log_eta: float) -> float:
        eta = math.exp(log_eta)
        balls = sum(math.log(math.ceil(side / (2.0 * eta) * ROUNDING_FACTOR)) for side in sides)
        cases = balls + math.log(n_queries) - math.log(delta)
        return _uniform_loss(n_draws, cases) + 4.0 * lipschitz * eta * ROUNDING_FACTOR

    # Any eta is right; these were fixed before the draws, and lie close enough.
    return (
        min(loss(math.log(max(sides)) - 0.25 * k) for k in range(NET_RADII)) + gap
    ) * ROUNDING_FACTOR


@takes_numbers
def psaqr_dialogue_loss(n_draws: int, delta: float, responses: Sequence[int]) -> list[float]:
    """Losses of a dialogue: each question may depend on the responses given before it.

    Question k of as many as one likes, with R_k responses: at most
    ``2 sqrt(ln(2 R_1 ... R_k k (k + 1) / delta) / (2 N))``, all of them together.

    Parameters
    ----------
    n_draws : int
        At least 1.
    delta : float
        Probability that any of the bounds fails, in (0, 1).
    responses : sequence of int
        Number of responses to choose from, question by question.

    Returns
    -------
    list of float
        In units of a utility in [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T16: before question k there were at most R_1 ... R_(k-1) histories, so that many
    queries are possible; question k may fail with probability delta / (k (k + 1)), which sum to
    delta.
    """
    n_draws = check_count(n_draws, "the number of draws")
    check_open_unit(delta=delta)
    losses, histories = [], 0.0
    for k, count in enumerate(responses, start=1):
        histories += math.log(check_count(count, "the number of responses"))
        losses.append(_uniform_loss(n_draws, histories + math.log(k * (k + 1)) - math.log(delta)))
    return losses


def _uniform_loss(n_draws: int, log_cases: float) -> float:
    """2 sqrt((ln 2 + log_cases) / (2 N)): twice Hoeffding's half-width, rounded up."""
    return 2.0 * math.sqrt((math.log(2.0) + log_cases) / (2.0 * n_draws)) * ROUNDING_FACTOR


@takes_numbers
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
    n = check_count(n, "the sample size")
    check_open_unit(beta=beta)
    if not beta <= 0.5:
        raise DomainError("beta lies in (0, 1/2]", got=beta, allowed="0 < beta <= 1/2")
    return math.sqrt(-math.log(beta) / (2.0 * n)) * ROUNDING_FACTOR
