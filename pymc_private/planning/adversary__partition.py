"""The partition adversary: what shares of the draws in a few cells can tell (Lemma 12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pymc_private.errors import DomainError
from pymc_private.planning.robustness import posterior_tv
from pymc_private.privacy.validation import MOST, inside_unit, positive, whole

UP = 1.0 + 1e-14


def partition_radius(draws: int, cells: int, failure: float) -> float:
    """How far N draws' shares of m cells lie from their probabilities, in L1, but for `failure`.

    sqrt(2 ln((2^m - 2) / failure) / N); Lemma 12 has sqrt(3 ln(1 / failure) / N), which is larger
    for its m <= log2 sqrt(1 / failure).

    Parameters
    ----------
    draws, cells : int
        N, and m >= 2.
    failure : float
        In (0, 1).

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Weissman et al. (2003), Theorem 2.1; Dimitrakakis et al. (2017), Lemma 12.
    """
    n, m = whole(draws, "the number of draws"), whole(cells, "the number of cells")
    inside_unit(failure=failure)
    if m < 2:
        raise DomainError("a partition has two cells or more", got=m, allowed="2, 3, ...")
    log_events = math.log(2.0**m - 2.0) if m < 1000 else m * math.log(2.0)
    return min(2.0, math.sqrt(2.0 * (log_events - math.log(failure)) / n) * UP)


def separable_records(R: float, draws: int, failure: float, cells: int = 2) -> int:
    """Fewest records in which data sets must differ for the partition adversary to be sure.

    He compares the shares of N draws in m cells with the two posteriors. Their laws on the cells
    are at most 2 tanh(k R / 4) apart, and to be sure he needs them more than two radii apart
    (`partition_radius`). He may be right more often than he is sure; what no test can do with
    fewer records is `records_to_distinguish`.

    Parameters
    ----------
    R : float, nats
    draws : int
    failure : float
        Probability with which a sure answer is wrong, in (0, 1).
    cells : int

    Returns
    -------
    int
        A necessary number; 10**18 if no number of records is enough for so few draws.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 12 and Theorem 13, corrected and sharpened: the theorem's
    k >= 3 ln(1 / failure) / (4 L N) is necessary for it as well, and weaker.
    """
    positive(R=R)
    radius = partition_radius(draws, cells, failure)
    return least(lambda k: float(posterior_tv(R, k)) >= radius)


def least(reached: Callable[[int], bool]) -> int:
    """The least whole number at which an increasing condition holds, or `MOST`."""
    high = 1
    while not reached(high):
        high *= 4
        if high >= MOST:
            return MOST
    low = max(high // 4, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
