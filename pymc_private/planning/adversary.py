"""Distinguishing and reconstruction bounds for an adversary (T3, T27).

The adversary knows all but k records. Upper bounds on the advantage of any test and lower
bounds on the error of any reconstruction; the partition adversary of Dimitrakakis et al.
(2017), Lemma 12; and the exact epsilon of one draw for a given pair of data sets, which shows
how much a bound leaves unused. These pairs are public and made up, computed to the accuracy of
doubles; a pair is no worst case, so none of them is a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from pymc_private.errors import DomainError
from pymc_private.planning.robustness import posterior_kl, posterior_tv
from pymc_private.planning.table import ACCENT, OTHER, BoundsTable, plain_axes, set_title
from pymc_private.privacy import Guarantee, br_delta
from pymc_private.privacy.argument_kinds import DOUBLE, NUMBER, NUMBERS, takes
from pymc_private.privacy.rounding import format_number, times_up
from pymc_private.privacy.validation import (
    MAX_COUNT,
    check_count,
    check_counts,
    check_nonnegative,
    check_open_unit,
    check_positive,
    refuse_mask,
    takes_numbers,
    vectorized,
)

DEFAULT_RECORDS = (1, 2, 5, 10, 20, 50)
ROUND_UP_FACTOR = 1.0 + 1e-14


@takes(R=NUMBERS, draws=NUMBERS, records=NUMBERS)
@vectorized
def advantage(R: float, draws: int, records: int = 1) -> float:
    """Largest advantage of any test between two data sets that differ in so many records.

    The probability of saying "x" when x is true, less that when y is: at most the total variation
    of N draws, which is at most delta_N(0) of T3 at range k R, N tanh(k R / 4), and
    sqrt(N KL / 2) <= sqrt(N) k R / 4.

    Parameters
    ----------
    R : float, nats
        Range of one record.
    draws : int
        N.
    records : int
        k.

    Returns
    -------
    float
        In [0, 1], rounded up. A test that errs with probability p on either side has advantage
        1 - 2 p.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T3; Dimitrakakis et al. (2017), Theorem 13, corrected: its condition is necessary for
    a test, not sufficient.
    """
    n = check_count(draws, "the number of draws")
    pinsker = math.sqrt(n * float(posterior_kl(R, records)) / 2.0) * ROUND_UP_FACTOR
    simple = n * float(posterior_tv(R, records)) * ROUND_UP_FACTOR
    length = times_up(check_count(records, "the number of records"), R)
    return min(1.0, pinsker, simple, float(br_delta(0.0, n, length)))


@takes(R=NUMBER, target=DOUBLE, records=NUMBER)
def draws_to_distinguish(R: float, target: float, records: int = 1) -> int:
    """Fewest draws that an adversary needs for an advantage: with fewer, no test has it.

    Parameters
    ----------
    R : float, nats
    target : float
        The advantage, in (0, 1).
    records : int

    Returns
    -------
    int
        A necessary number, never a sufficient one; at most 10**18.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `advantage`.
    """
    return _fewest_reaching(lambda n: advantage(R, n, records), R, target)


@takes(R=NUMBER, draws=NUMBER, target=DOUBLE)
def records_to_distinguish(R: float, draws: int, target: float) -> int:
    """Fewest records two data sets must differ in, before any test has an advantage.

    Parameters
    ----------
    R : float, nats
    draws : int
    target : float
        The advantage, in (0, 1).

    Returns
    -------
    int
        A necessary number, never a sufficient one; at most 10**18.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `advantage`; Dimitrakakis et al. (2017), Theorem 13, corrected.
    """
    return _fewest_reaching(lambda k: advantage(R, draws, k), R, target)


def _fewest_reaching(reached: Callable[[int], float], R: float, target: float) -> int:
    """Smallest number at which the bound of an advantage reaches a target."""
    check_positive(R=R)
    check_open_unit(target=target)
    return smallest_reaching(lambda count: float(reached(count)) >= target)


@takes(distance=DOUBLE, records=NUMBER)
def reconstruction_floor(guarantee: Guarantee, distance: float, records: int = 1) -> float:
    """Error that no reconstruction of the data can beat, whatever it computes; rounded down.

    Of any two data sets that differ in `records` records and are `distance` apart in the
    adversary's own metric, one is estimated with expected error ``distance (1 - TV) / 2`` or more.

    Parameters
    ----------
    guarantee : Guarantee
        Of everything that is released.
    distance : float
        At least 0, in the units of the error.
    records : int

    Returns
    -------
    float
        In the units of `distance`.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Le Cam; Dimitrakakis et al. (2017), Lemma 18; theory T27.

    Examples
    --------
    >>> round(reconstruction_floor(Guarantee.bounded_range_of(0.1, draws=10), distance=1), 4)
    0.4678
    """
    check_nonnegative(distance=distance)
    _check_guarantee(guarantee)
    tv = min(1.0, float(guarantee.group(records).delta(0.0)))
    return float(distance) / 2.0 * (1.0 - tv) * (1.0 - 1e-15)


def _check_guarantee(guarantee: object) -> None:
    if not isinstance(guarantee, Guarantee):
        raise DomainError(
            "what an adversary learns is judged from a guarantee",
            got=type(guarantee).__name__,
            allowed="a pmp.Guarantee",
            do="plan.guarantee, release.guarantee, or pmp.Guarantee.pure(1.0)",
        )


@dataclass(frozen=True, repr=False)
class Adversary(BoundsTable):
    """Bounds on what an adversary learns who knows all but a few records.

    Attributes
    ----------
    claim : str
        The guarantee in few words.
    rows : tuple of (int, float, float, float)
        Records in doubt, largest advantage of a test, largest probability of guessing between two
        data sets, and least error of a reconstruction as a share of their distance.
    """

    claim: str
    rows: tuple[tuple[int, float, float, float], ...]

    columns = ("records in doubt", "advantage", "right guesses", "error at least")
    lower = frozenset({"error at least"})

    @property
    def title(self) -> str:
        """One line above the table."""
        return f"Who knows all other records, and sees {self.claim}"

    def plot(self, ax: Any = None) -> Any:
        """Draw advantage and least error against the number of records in doubt."""
        ax = plain_axes(ax)
        k = [row[0] for row in self.rows]
        ax.plot(k, [row[1] for row in self.rows], "o-", color=OTHER, label="advantage, at most")
        floors = [row[3] for row in self.rows]
        ax.plot(k, floors, "s-", color=ACCENT, label="error / distance, at least")
        ax.set(xlabel="records in doubt", xscale="log", ylim=(0, 1.02))
        set_title(ax, self.title)
        ax.legend(frameon=False, fontsize="small")
        return ax


@takes_numbers
def adversary(guarantee: Guarantee, records: Sequence[int] = DEFAULT_RECORDS) -> Adversary:
    """Tabulate what an adversary learns who knows all but a few records.

    Parameters
    ----------
    guarantee : Guarantee
        Of everything that is released.
    records : sequence of int
        How many records are in doubt.

    Returns
    -------
    Adversary

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T3, T27: a test's advantage is at most the total variation delta(0).
    """
    _check_guarantee(guarantee)
    rows = []
    for k in check_counts(records, "numbers of records"):
        tv = min(1.0, float(guarantee.group(k).delta(0.0)))
        floor = reconstruction_floor(guarantee, 1.0, k)
        rows.append((k, tv, min(1.0, (1.0 + tv) / 2.0 * ROUND_UP_FACTOR), floor))
    claim = "; ".join(str(event) for event in guarantee.events) or "nothing"
    return Adversary(f"{claim} (delta(0) = {format_number(guarantee.delta(0.0))})", tuple(rows))


@takes_numbers
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
    n, m = check_count(draws, "the number of draws"), check_count(cells, "the number of cells")
    check_open_unit(failure=failure)
    if m < 2:
        raise DomainError("a partition has two cells or more", got=m, allowed="2, 3, ...")
    log_events = math.log(2.0**m - 2.0) if m < 1000 else m * math.log(2.0)
    return min(2.0, math.sqrt(2.0 * (log_events - math.log(failure)) / n) * ROUND_UP_FACTOR)


@takes_numbers
def separable_records(R: float, draws: int, failure: float, cells: int = 2) -> int:
    """Fewest records in which data sets must differ for the partition adversary to be sure.

    He compares the shares of N draws in m cells with the two posteriors. Their probabilities of
    the cells are at most 2 tanh(k R / 4) apart, and to be sure he needs them more than two radii
    apart (`partition_radius`). He may be right more often than he is sure; what no test can do
    with fewer records is `records_to_distinguish`.

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
    check_positive(R=R)
    radius = partition_radius(draws, cells, failure)
    return smallest_reaching(lambda k: float(posterior_tv(R, k)) >= radius)


def smallest_reaching(reached: Callable[[int], bool]) -> int:
    """Smallest whole number at which an increasing condition holds, or `MAX_COUNT`."""
    high = 1
    while not reached(high):
        high *= 4
        if high >= MAX_COUNT:
            return MAX_COUNT
    low = max(high // 4, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


@takes(log_prior=NUMBERS, log_x=NUMBERS, log_y=NUMBERS)
def grid_pair(log_prior: np.ndarray, log_x: np.ndarray, log_y: np.ndarray) -> float:
    """Pure epsilon of one posterior draw, for two data sets and parameters on a grid.

    max over both directions of ``max_theta g - ln(phi(x) / phi(y))``, g = log p(x) - log p(y).

    Parameters
    ----------
    log_prior : array, shape (m,)
        Log weights, up to a constant; -inf is outside of the support.
    log_x, log_y : array, shape (m,)
        Log-likelihoods of the two data sets.

    Returns
    -------
    float
        nats; infinite where one posterior has a point mass that the other lacks.

    Raises
    ------
    DomainError
        Shapes that differ, NaN, or an empty support.

    References
    ----------
    Dimitrakakis et al. (2017), Theorem 6, read as an essential supremum.

    Examples
    --------
    >>> theta = np.array([0.2, 0.5, 0.8])
    >>> round(grid_pair(np.zeros(3), np.log(theta), np.log1p(-theta)), 4)
    1.3863
    """
    for part in (log_prior, log_x, log_y):
        refuse_mask(part, "log-likelihoods")
    prior, x, y = (np.asarray(part, float) for part in (log_prior, log_x, log_y))
    if not (prior.shape == x.shape == y.shape) or prior.ndim != 1:
        raise DomainError(
            "one prior weight and two log-likelihoods for each point of the grid",
            got=f"shapes {prior.shape}, {x.shape}, {y.shape}",
            allowed="three vectors of one length",
        )
    inside = prior > -math.inf
    if not inside.any() or any(np.isnan(part[inside]).any() for part in (prior, x, y)):
        raise DomainError(
            "the prior has no mass on the grid, or a number on it is NaN",
            got=f"{int(inside.sum())} points with prior mass",
            allowed="a finite log_prior at one point or more, and no NaN there",
        )
    prior, x, y = prior[inside], x[inside], y[inside]
    of_x, of_y = (part - special.logsumexp(prior + part) for part in (x, y))
    either = (of_x > -math.inf) | (of_y > -math.inf)
    return float(np.max(np.abs(of_x[either] - of_y[either]), initial=0.0))


@takes(alpha=DOUBLE, beta=DOUBLE, n=DOUBLE, x=DOUBLE, y=DOUBLE, lower=DOUBLE, upper=DOUBLE)
def beta_bernoulli_pair(
    alpha: float, beta: float, n: int, x: int, y: int, lower: float = 0.0, upper: float = 1.0
) -> float:
    """Pure epsilon of one draw of a coin's bias, for x and y successes among n.

    Parameters
    ----------
    alpha, beta : float
        Of the Beta prior, trimmed to [lower, upper].
    n, x, y : int
    lower, upper : float
        0 <= lower < upper <= 1.

    Returns
    -------
    float
        nats; infinite where x differs from y and a bound is 0 or 1.

    Raises
    ------
    DomainError
        An argument is out of its range, or a posterior has no mass there that doubles can hold.

    References
    ----------
    g = (x - y) logit(theta); the evidences are incomplete beta functions.
    """
    check_positive(alpha=alpha, beta=beta)
    if not (0 <= x <= n and 0 <= y <= n and 0.0 <= lower < upper <= 1.0):
        raise DomainError(
            "x and y count successes among n, and the bounds are of a probability",
            got=f"x={x}, y={y}, n={n}, bounds ({lower}, {upper})",
            allowed="0 <= x, y <= n, and 0 <= lower < upper <= 1",
        )
    if x == y:
        return 0.0
    evidence = [_log_beta_mass(alpha + k, beta + n - k, lower, upper) for k in (x, y)]
    ratios = [(x - y) * float(special.logit(bound)) for bound in (lower, upper)]
    return _pair_epsilon(max(ratios), min(ratios), evidence[0] - evidence[1])


@takes(shape=DOUBLE, rate=DOUBLE, n=DOUBLE, x=DOUBLE, y=DOUBLE, lower=DOUBLE, upper=DOUBLE)
def gamma_exponential_pair(
    shape: float,
    rate: float,
    n: int,
    x: float,
    y: float,
    lower: float = 0.0,
    upper: float = math.inf,
) -> float:
    """Pure epsilon of one draw of an exponential rate, for sums x and y of n records.

    Parameters
    ----------
    shape, rate : float
        Of the Gamma prior, trimmed to [lower, upper].
    n : int
    x, y : float
        Sums of the records, at least 0.
    lower, upper : float
        0 <= lower < upper.

    Returns
    -------
    float
        nats; infinite where x differs from y and upper is infinite.

    Raises
    ------
    DomainError
        An argument is out of its range, or a posterior has no mass there that doubles can hold.

    References
    ----------
    g = (y - x) theta; the evidences are incomplete gamma functions.
    """
    check_positive(shape=shape, rate=rate)
    check_nonnegative(n=n, x=x, y=y, lower=lower)
    if not lower < upper:
        raise DomainError(
            "the bounds of the rate are in the wrong order",
            got=f"({lower}, {upper})",
            allowed="lower < upper",
        )
    if x == y:
        return 0.0
    evidence = [_log_gamma_mass(shape + n, rate + total, lower, upper) for total in (x, y)]
    ratios = [(y - x) * bound for bound in (lower, upper)]
    return _pair_epsilon(max(ratios), min(ratios), evidence[0] - evidence[1])


def _pair_epsilon(greatest: float, least: float, log_evidence: float) -> float:
    """Largest absolute log ratio of two posteriors, from the extremes of g and the evidences."""
    if not math.isfinite(log_evidence):
        raise DomainError(
            "the posterior has too little mass between these bounds for doubles",
            do="use grid_pair on a grid between the bounds",
        )
    return max(greatest - log_evidence, log_evidence - least)


def _log_beta_mass(a: float, b: float, lower: float, upper: float) -> float:
    """Log of the integral of theta^(a-1) (1-theta)^(b-1) over [lower, upper]."""
    if upper <= a / (a + b):  # differences of small numbers, not of numbers near 1
        mass = special.betainc(a, b, upper) - special.betainc(a, b, lower)
    else:
        mass = special.betaincc(a, b, lower) - special.betaincc(a, b, upper)
    with np.errstate(divide="ignore"):
        return float(np.log(mass) + special.betaln(a, b))


def _log_gamma_mass(a: float, b: float, lower: float, upper: float) -> float:
    """Log of the integral of theta^(a-1) e^(-b theta) over [lower, upper]."""
    if upper <= a / b:
        mass = special.gammainc(a, b * upper) - special.gammainc(a, b * lower)
    else:
        mass = special.gammaincc(a, b * lower) - special.gammaincc(a, b * upper)
    with np.errstate(divide="ignore"):
        return float(np.log(mass) + special.gammaln(a) - a * math.log(b))
