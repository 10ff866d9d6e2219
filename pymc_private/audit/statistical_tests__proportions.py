"""The mean test of coins: counts against a probability, by exact binomial tails."""

from __future__ import annotations

import math
import numpy as np
from typing import Any
from scipy import optimize, stats
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, POWER, pay
from pymc_private.audit.statistical_tests__binomial import at_most
from pymc_private.audit.statistical_tests__samples import numbers
from pymc_private.audit.statistical_tests__verdict import Verdict
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, whole

MOST_TRIALS = 10**12
"""Beyond it doubles round counts too much, and a quantile of SciPy may never come back."""


def proportion(
    successes: int,
    trials: int,
    expected: float,
    *,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare a count with a probability, by exact binomial tails of `false_alarm` / 2 each.

    Parameters
    ----------
    successes, trials : int
    expected : float
        Probability of success of right code, in (0, 1).
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of probability.

    Raises
    ------
    DomainError
        No trials or too many, more successes than trials, or an impossible probability.

    References
    ----------
    Clopper and Pearson (1934), turned from limits into a test.

    Examples
    --------
    >>> verdict = proportion(4_980, 10_000, 0.5)
    >>> verdict.passes, round(verdict.tolerated, 3), round(verdict.detects, 3)
    (True, 0.031, 0.046)
    """
    inside_unit(expected=expected, power=power)
    trials = whole(trials, "trials")
    if trials > MOST_TRIALS:
        raise DomainError("too many trials to count", got=trials, allowed=f"1 ... {MOST_TRIALS}")
    if not 0 <= successes <= trials:
        raise DomainError("a count of successes", got=successes, allowed=f"0 ... {trials}")
    pay(false_alarm)
    least = stats.binom.ppf(false_alarm / 2, trials, expected)
    most = stats.binom.isf(false_alarm / 2, trials, expected)
    tolerated = float(max(expected - least / trials, most / trials - expected))
    # The band is symmetric, so on one side it may be wider than its quantile.
    least = np.ceil(trials * (expected - tolerated) * (1 - 1e-12))
    most = np.floor(trials * (expected + tolerated) * (1 + 1e-12))

    def missed(shift: float) -> float:
        up, down = min(expected + shift, 1.0), max(expected - shift, 0.0)
        high = at_most(most, trials, up)
        low = at_most(trials - least, trials, 1.0 - down)
        return max(high, low) - (1.0 - power)

    widest = min(expected, 1.0 - expected)
    detects = optimize.brentq(missed, 0.0, widest) if missed(widest) < 0.0 else math.inf
    return Verdict(abs(successes / trials - expected), tolerated, detects, false_alarm, power)


def neighbors_agree(
    draws: Any, median: float, *, false_alarm: float = FALSE_ALARM, power: float = POWER
) -> Verdict:
    """Compare how often successive draws fall on the same side of the median with one half.

    Of independent draws the agreements are themselves independent fair coins, so the binomial
    tails are exact. A lag-1 autocorrelation r of the signs shows as a shift of r / 2.

    Parameters
    ----------
    draws : array, shape (n,)
        In the order they were drawn, from a law without atoms.
    median : float
        Median of the right law.
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of probability.

    Raises
    ------
    DomainError
        Fewer than two draws, one that is no number, a median that is none, or an impossible rate.

    References
    ----------
    Clopper and Pearson (1934), as `proportion`.

    Examples
    --------
    >>> neighbors_agree(np.random.default_rng(1).random(10_000), 0.5).passes
    True
    >>> neighbors_agree(np.linspace(0, 1, 10_000), 0.5).passes
    False
    """
    if not math.isfinite(median):
        raise DomainError("a median is a finite number", got=median)
    sides = numbers(draws, "draws") > median
    agreements = int(np.sum(sides[1:] == sides[:-1]))
    return proportion(agreements, len(sides) - 1, 0.5, false_alarm=false_alarm, power=power)
