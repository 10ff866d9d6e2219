"""Statistical tests that state both error rates, and the session's allowance of false alarms.

A test may reject right code (a false alarm) and may pass wrong code (a miss). Each test here takes
the probability of the first, and reports the smallest defect for which the second is at most
``1 - power``. Every false alarm that could happen is paid for from one allowance per session, so
the whole suite rejects right code with probability at most ``ALLOWANCE``, whatever the seeds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, stats

ALLOWANCE = 1e-6
FALSE_ALARM, POWER = 1e-9, 0.999


@dataclass
class Allowance:
    """What a session may spend on false alarms.

    Parameters
    ----------
    limit : float
        Greatest sum of probabilities.
    """

    limit: float
    spent: list[float] = field(default_factory=list)

    def spend(self, probability: float) -> None:
        """Pay for one test, or fail: then give each test a smaller probability (and more draws)."""
        self.spent.append(probability)
        total = math.fsum(self.spent)
        if total > self.limit:
            raise AssertionError(
                f"{len(self.spent)} statistical tests may raise false alarms with probability "
                f"{total:.3g} together; allowed: {self.limit:.3g}"
            )


# Parallel workers cannot see each other's ledger: each gets its share.
SESSION = Allowance(ALLOWANCE / int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@dataclass(frozen=True)
class Verdict:
    """What a test saw.

    Parameters
    ----------
    seen : float
        Distance between what was observed and what was expected.
    tolerated : float
        Right code stays within it, but for `false_alarm`.
    detects : float
        Code that is off by this much is rejected with probability `power` at least.
    """

    seen: float
    tolerated: float
    detects: float
    false_alarm: float
    power: float

    @property
    def passes(self) -> bool:
        """Whether right code could well have done this."""
        return self.seen <= self.tolerated

    @property
    def fails_on_any_seed(self) -> bool:
        """Whether a planted fault is so large that another seed would show it as well.

        Seen beyond 3 t for a band t: the truth is off by 2 t at least, and a fresh run is seen
        beyond t, each but for `false_alarm`.
        """
        return self.seen > 3.0 * self.tolerated


def cdf_envelope(
    draws: np.ndarray,
    cdf: Callable[[np.ndarray], np.ndarray],
    *,
    slack: float = 0.0,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare independent draws with a CDF: largest distance of the empirical one.

    Dvoretzky-Kiefer-Wolfowitz with Massart's constant (1990) bounds the false alarm; at the point
    where a wrong CDF is off most, Hoeffding's inequality bounds the miss.

    Parameters
    ----------
    draws : array, shape (n,)
    cdf : callable
        Vectorized, and continuous.
    slack : float
        Error of `cdf` itself, where it comes from quadrature.
    """
    SESSION.spend(false_alarm)
    x, n = np.sort(np.ravel(draws)), np.size(draws)
    at = cdf(x)
    seen = max(np.max(np.arange(1, n + 1) / n - at), np.max(at - np.arange(n) / n))
    tolerated = math.sqrt(math.log(2.0 / false_alarm) / (2.0 * n)) + slack
    detects = tolerated + math.sqrt(-math.log1p(-power) / (2.0 * n)) + slack
    return Verdict(float(seen), tolerated, detects, false_alarm, power)


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
    """
    SESSION.spend(false_alarm)
    least = stats.binom.ppf(false_alarm / 2, trials, expected)
    most = stats.binom.isf(false_alarm / 2, trials, expected)
    tolerated = float(max(expected - least / trials, most / trials - expected))
    # The band is symmetric, so on one side it may be wider than its quantile.
    least = np.ceil(trials * (expected - tolerated) * (1 - 1e-12))
    most = np.floor(trials * (expected + tolerated) * (1 + 1e-12))

    def missed(shift: float) -> float:
        up, down = min(expected + shift, 1.0), max(expected - shift, 0.0)
        high = stats.binom.cdf(most, trials, up)
        low = stats.binom.sf(least - 1, trials, down)
        return max(high, low) - (1.0 - power)

    widest = min(expected, 1.0 - expected)
    detects = optimize.brentq(missed, 0.0, widest) if missed(widest) < 0.0 else math.inf
    return Verdict(abs(successes / trials - expected), tolerated, detects, false_alarm, power)


def neighbors_agree(draws: np.ndarray, median: float, **rates: float) -> Verdict:
    """Compare how often successive draws fall on the same side of the median with one half.

    Of independent draws the agreements are themselves independent fair coins, so the binomial
    tails are exact. A lag-1 autocorrelation r of the signs shows as a shift of r / 2.
    """
    sides = np.ravel(draws) > median
    agreements = int(np.sum(sides[1:] == sides[:-1]))
    return proportion(agreements, len(sides) - 1, 0.5, **rates)
