"""Statistical tests of draws with stated false alarm and power.

Draws against a CDF (Dvoretzky-Kiefer-Wolfowitz), a mean (Hoeffding) or a probability (exact
binomial tails, Clopper and Pearson 1934). Each test returns a `Verdict`: the distance seen,
the distance tolerated, and the smallest defect it would have detected. Inside an `Allowance`
the false alarms of a whole session are added up (union bound) and bounded. Also here: the
Clopper-Pearson limits and the checks of samples on which the rest of the audit rests.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize, special, stats

from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import ARRAY, DOUBLE, FUNCTION, NUMBERS, PAIR, takes
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_open_unit,
    refuse_mask,
)

ALLOWANCE = 1e-6
"""Probability with which a whole session may reject correct code, unless it says otherwise."""
FALSE_ALARM = 1e-9
"""Probability with which one test may reject correct code, unless it says otherwise."""
POWER = 0.999
"""Probability with which a defect of the size a test reports is found."""
MOST_TRIALS = 10**12
"""Beyond it doubles round counts too much, and a quantile of SciPy may never come back."""
MIN_DRAWS = 8
"""Each part of a sample needs a draw or two."""

LEAST_POWER = 1e-6
"""No test is planned for less power."""

# The inverse of the incomplete beta errs by some 1e-12; the limits go outward by more.
_LIMIT_SLACK = 1e-9
Sample: TypeAlias = np.ndarray | Callable[[int], np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """Result of a statistical test: the distance seen, and the smallest defect it would have found.

    Parameters
    ----------
    seen : float
        Distance between what was observed and what was expected.
    tolerated : float
        Correct code stays within it, but for `false_alarm`.
    detects : float
        Code that is off by this much is rejected with probability `power` at least; infinite if the
        draws are too few for any defect.
    false_alarm : float
        Probability with which correct code is rejected, at most.
    power : float
        Probability with which a defect of the size `detects` is found, at least.
    """

    seen: float
    tolerated: float
    detects: float
    false_alarm: float
    power: float

    @property
    def passes(self) -> bool:
        """Whether correct code could well have done this."""
        return self.seen <= self.tolerated

    @property
    def fails_on_any_seed(self) -> bool:
        """Whether a planted fault is so large that another seed would show it as well.

        Seen beyond 3 t for a band t: the truth is off by 2 t at least, and a fresh run is seen
        beyond t, each but for `false_alarm`.
        """
        return self.seen > 3.0 * self.tolerated

    def __bool__(self) -> bool:
        # `assert verdict` would read as "it passes" and never fail.
        raise TypeError("a verdict has no truth value; ask .passes or .fails_on_any_seed")


_OPEN_ALLOWANCES: list[Allowance] = []
_ALLOWANCE_LOCK = threading.Lock()


@dataclass(eq=False)
class Allowance:
    """Budget of false alarms for a session of tests.

    Each test of `pymc_private.audit` may reject correct code with the probability it is given.
    Inside ``with Allowance(1e-6):`` these probabilities are added up, and the test that would
    exceed the limit refuses to run. So the whole session rejects correct code with probability at
    most `limit`, however many tests it has and whatever they share (union bound). The innermost
    allowance is charged.

    Parameters
    ----------
    limit : float
        Greatest sum of probabilities; infinite to run tests whose alarms do not count, as in a
        simulation of their rates.

    Raises
    ------
    DomainError
        `limit` is no positive number, or `spent` is no list of probabilities within it.

    Examples
    --------
    >>> from pymc_private.audit import proportion
    >>> with Allowance(1e-6) as session:
    ...     verdict = proportion(48, 100, 0.5)
    >>> verdict.passes, session.spent
    (True, [1e-09])
    """

    limit: float = ALLOWANCE
    spent: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.limit > 0.0:
            raise DomainError("an allowance is positive", got=self.limit, allowed="limit > 0")
        self._total = Fraction(0)
        spent, self.spent = self.spent, []
        for probability in spent:
            self.spend(probability)

    def spend(self, probability: float) -> None:
        """Pay for one test, or refuse it whole.

        Parameters
        ----------
        probability : float
            That this test rejects correct code.

        Raises
        ------
        DomainError
            It is no probability, or the sum would exceed the limit.
        """
        check_open_unit(probability=probability)
        with _ALLOWANCE_LOCK:
            # Exact in the decimals the user wrote: a thousand times 1e-9 is 1e-6.
            total = self._total + _decimal(probability)
            if not math.isinf(self.limit) and total > _decimal(self.limit):
                raise DomainError(
                    "the allowance of false alarms is spent",
                    got=f"{len(self.spent) + 1} tests, {float(total):.3g} together",
                    allowed=f"{self.limit:.3g}",
                    do="give each test a smaller false_alarm (and more draws)",
                )
            self.spent.append(probability)
            self._total = total

    def __enter__(self) -> Allowance:
        _OPEN_ALLOWANCES.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN_ALLOWANCES.remove(self)


def spend_false_alarm(false_alarm: float) -> None:
    """Charge one test to the innermost open allowance, if there is one.

    Raises
    ------
    DomainError
        `false_alarm` is not in (0, 1), or the allowance does not have it.
    """
    check_open_unit(false_alarm=false_alarm)
    if _OPEN_ALLOWANCES:
        _OPEN_ALLOWANCES[-1].spend(false_alarm)


def _decimal(probability: float) -> Fraction:
    return Fraction(repr(float(probability)))


@takes(draws=NUMBERS, cdf=FUNCTION, slack=DOUBLE, false_alarm=DOUBLE, power=DOUBLE)
def cdf_envelope(
    draws: Any,
    cdf: Callable[[np.ndarray], np.ndarray],
    *,
    slack: float = 0.0,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare independent draws with a CDF: largest distance of the empirical one.

    The Dvoretzky-Kiefer-Wolfowitz inequality bounds the false alarm; at the point where a wrong
    CDF is off most, Hoeffding's inequality bounds the miss.

    Parameters
    ----------
    draws : array, shape (n,)
        Other shapes are taken flat; all draws must be independent.
    cdf : callable
        From an array, shape (k,), to probabilities, shape (k,). May have jumps: it is read at each
        draw and at the double below it.
    slack : float
        Error of `cdf` itself, where it comes from quadrature.
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of probability.

    Raises
    ------
    DomainError
        No draws, a draw or a probability that is no number, or an impossible rate.

    References
    ----------
    Massart (1990), Corollary 1; Hoeffding (1963), Theorem 1.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(10_000)
    >>> verdict = cdf_envelope(draws, lambda x: np.clip(x, 0, 1))
    >>> verdict.passes, round(verdict.tolerated, 3), round(verdict.detects, 3)
    (True, 0.033, 0.051)
    """
    _check_rates(power, slack)
    values, counts = np.unique(flat_numbers(draws, "draws"), return_counts=True)
    n = int(counts.sum())
    spend_false_alarm(false_alarm)
    with np.errstate(over="ignore"):
        below = _checked_cdf(cdf, np.nextafter(values, -np.inf))
    at = _checked_cdf(cdf, values)
    cumulative = np.cumsum(counts)
    seen = max(np.max(cumulative / n - at), np.max(below - (cumulative - counts) / n))
    tolerated = math.sqrt(math.log(2.0 / false_alarm) / (2.0 * n)) + slack
    detects = tolerated + math.sqrt(-math.log1p(-power) / (2.0 * n)) + slack
    return Verdict(float(seen), tolerated, detects, false_alarm, power)


def _checked_cdf(cdf: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    probabilities = np.asarray(cdf(values), float)
    if probabilities.shape != values.shape or not np.all(
        (probabilities >= -1e-9) & (probabilities <= 1.0 + 1e-9)
    ):
        raise DomainError(
            "a CDF gives one probability per value",
            got=f"shape {probabilities.shape} for {values.shape}, or values outside [0, 1]",
            allowed="probabilities in [0, 1], of the shape of the values",
            do="write it with NumPy or SciPy functions, which take arrays",
        )
    return probabilities


@takes(
    draws=NUMBERS,
    expected=DOUBLE,
    bounds=PAIR,
    deviation=DOUBLE.optional,
    false_alarm=DOUBLE,
    power=DOUBLE,
)
def mean_envelope(
    draws: Any,
    expected: float,
    *,
    bounds: tuple[float, float],
    deviation: float | None = None,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare the mean of independent, bounded draws with what it should be.

    Hoeffding's inequalities bound both errors; the false alarm uses the standard deviation of the
    correct distribution where it is given, the miss never does, for a wrong one may have another.

    Parameters
    ----------
    draws : array, shape (n,)
        Other shapes are taken flat; all draws must be independent.
    expected : float
        Mean of the correct distribution.
    bounds : tuple of float
        The correct distribution and the wrong ones stay within; the unit is that of the draws.
    deviation : float, optional
        At least the standard deviation of the correct distribution.
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of the draws.

    Raises
    ------
    DomainError
        No draws, a draw that is no number or outside `bounds`, a mean that is not inside them, or
        an impossible rate.

    References
    ----------
    Hoeffding (1963), Theorems 1 and 3.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(10_000)
    >>> verdict = mean_envelope(draws, 0.5, bounds=(0, 1), deviation=12**-0.5)
    >>> verdict.passes, round(verdict.tolerated, 3), round(verdict.detects, 3)
    (True, 0.019, 0.038)
    """
    _check_rates(power)
    x, (low, high) = flat_numbers(draws, "draws"), map(float, bounds)
    width = high - low
    if not low < expected < high or not math.isfinite(width):
        raise DomainError("a mean lies inside its bounds", got=expected, allowed=f"({low}, {high})")
    if np.any((x < low) | (x > high)):
        raise DomainError(
            "a draw lies outside the bounds that the test rests on",
            allowed=f"[{low}, {high}]",
            do="widen the bounds, or test a bounded function of the draws",
        )
    if deviation is not None and not deviation > 0.0:
        raise DomainError("a standard deviation is positive", got=deviation, allowed="> 0, or None")
    spend_false_alarm(false_alarm)
    n, mean = x.size, (expected - low) / width
    spread = math.inf if deviation is None else min(deviation / width, 1.0) ** 2
    need = math.log(2.0 / false_alarm) / n
    tolerated = (
        max(
            _hoeffding_deviation(mean, spread, need), _hoeffding_deviation(1.0 - mean, spread, need)
        )
        * width
    )
    # What is seen is rounded, and may lie at a bound that no draw exceeds.
    tolerated = tolerated * (1.0 + 1e-12) + 4.0 * math.ulp(max(abs(low), abs(high)))
    miss = -math.log1p(-power) / n
    band = tolerated / width
    detects = max(_detectable_shift(mean, band, miss), _detectable_shift(1.0 - mean, band, miss))
    scale = math.frexp(width)[1]  # a power of two, so that no sum of large draws overflows
    seen = math.ldexp(abs(math.fsum(np.ldexp(x - expected, -scale))) / n, scale)
    return Verdict(seen, tolerated, detects * width, false_alarm, power)


def _bernoulli_kl(p: float, q: float) -> float:
    """Kullback-Leibler divergence between two Bernoulli distributions, nats."""
    return float(special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q))


def _hoeffding_deviation(mean: float, spread: float, need: float) -> float:
    """Least excess t over the mean of a distribution on [0, 1] with KL(t) >= `need` (Theorem 3).

    KL is that of the coins (s + b t) / (b^2 + s) and s / (b^2 + s), b = 1 - mean, s the variance:
    the two-point distribution that is furthest out. Without a variance s = mean (1 - mean):
    Theorem 1.
    """
    room, spread = 1.0 - mean, min(spread, mean * (1.0 - mean))
    total = room * room + spread
    if total == 0.0:
        return 0.0  # the mean is a bound

    def lacking(t: float) -> float:
        return _bernoulli_kl(min(1.0, (spread + room * t) / total), spread / total) - need

    if lacking(room) <= 0.0:
        return room  # no draw exceeds the bounds
    return _rounded_outward(optimize.brentq(lacking, 0.0, room, xtol=1e-15), room)


def _detectable_shift(mean: float, tolerated: float, need: float) -> float:
    """Least shift d of the mean of a distribution on [0, 1] that is seen beyond `tolerated`."""
    edge, room = mean + tolerated, 1.0 - mean
    if tolerated >= room:
        return math.inf

    def lacking(d: float) -> float:
        return _bernoulli_kl(edge, min(1.0, mean + d)) - need

    # At d = room the distribution is a point mass at its upper bound, seen for certain.
    closest = room - (room - tolerated) * 1e-12
    if lacking(closest) <= 0.0:
        return room
    return _rounded_outward(optimize.brentq(lacking, tolerated, closest, xtol=1e-15), room)


def _rounded_outward(root: float, most: float) -> float:
    """Root of a root finder, moved to the safe side."""
    return min(most, root * (1.0 + 1e-9) + 1e-14)


@takes(successes=DOUBLE, expected=DOUBLE, false_alarm=DOUBLE, power=DOUBLE)
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
        Probability of success of correct code, in (0, 1).
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
    check_open_unit(expected=expected)
    _check_rates(power)
    trials = check_count(trials, "trials")
    if trials > MOST_TRIALS:
        raise DomainError("too many trials to count", got=trials, allowed=f"1 ... {MOST_TRIALS}")
    if not 0 <= successes <= trials:
        raise DomainError("a count of successes", got=successes, allowed=f"0 ... {trials}")
    spend_false_alarm(false_alarm)
    least = stats.binom.ppf(false_alarm / 2, trials, expected)
    most = stats.binom.isf(false_alarm / 2, trials, expected)
    tolerated = float(max(expected - least / trials, most / trials - expected))
    # The band is symmetric, so on one side it may be wider than its quantile.
    least = np.ceil(trials * (expected - tolerated) * (1 - 1e-12))
    most = np.floor(trials * (expected + tolerated) * (1 + 1e-12))

    def missed(shift: float) -> float:
        up, down = min(expected + shift, 1.0), max(expected - shift, 0.0)
        high = binomial_cdf(most, trials, up)
        low = binomial_cdf(trials - least, trials, 1.0 - down)
        return max(high, low) - (1.0 - power)

    widest = min(expected, 1.0 - expected)
    detects = optimize.brentq(missed, 0.0, widest) if missed(widest) < 0.0 else math.inf
    return Verdict(abs(successes / trials - expected), tolerated, detects, false_alarm, power)


@takes(draws=NUMBERS, median=DOUBLE, false_alarm=DOUBLE, power=DOUBLE)
def neighbors_agree(
    draws: Any, median: float, *, false_alarm: float = FALSE_ALARM, power: float = POWER
) -> Verdict:
    """Compare how often successive draws fall on the same side of the median with one half.

    Of independent draws the agreements are themselves independent fair coins, so the binomial
    tails are exact. A lag-1 autocorrelation r of the signs shows as a shift of r / 2.

    Parameters
    ----------
    draws : array, shape (n,)
        In the order they were drawn, from a distribution without point masses.
    median : float
        Median of the correct distribution.
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
        raise DomainError(
            "a median is a finite number",
            got=median,
            allowed="the median of the distribution under test",
        )
    sides = flat_numbers(draws, "draws") > median
    agreements = int(np.sum(sides[1:] == sides[:-1]))
    return proportion(agreements, len(sides) - 1, 0.5, false_alarm=false_alarm, power=power)


def _check_rates(power: float, slack: float = 0.0) -> None:
    check_open_unit(power=power)
    if power < LEAST_POWER:
        raise DomainError(
            "a test is planned for some power", got=power, allowed=f"{LEAST_POWER:g} or more"
        )
    check_nonnegative(slack=slack)


def binomial_cdf(successes: float, trials: int, probability: float) -> float:
    """Probability of at most so many successes."""
    if not 0.0 <= successes < trials:
        return float(successes >= trials)
    k = float(np.floor(successes))
    return float(special.betainc(trials - k, k + 1.0, 1.0 - probability))


def clopper_pearson_lower(successes: Any, trials: Any, error: float) -> Any:
    """Least probability that explains a count, but for `error`; 0 where nothing was counted.

    `error` is the probability with which the limit exceeds the truth, at most. Expected counts may
    be fractions: then the limit is that of a typical run.
    """
    refuse_mask(successes, "counts of successes")
    refuse_mask(trials, "counts of trials")
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    limit = special.betaincinv(np.maximum(k, 1e-300), n - k + 1.0, error)
    return np.where(k > 0.0, limit * (1.0 - _LIMIT_SLACK), 0.0)[()]


def clopper_pearson_upper(successes: Any, trials: Any, error: float) -> Any:
    """Greatest probability that explains a count, but for `error`; 1 if every trial succeeded.

    `error` is the probability with which the limit falls below the truth, at most.
    """
    refuse_mask(successes, "counts of successes")
    refuse_mask(trials, "counts of trials")
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    limit = special.betainccinv(k + 1.0, np.maximum(n - k, 1e-300), error)
    return np.where(k < n, np.minimum(1.0, limit * (1.0 + _LIMIT_SLACK)), 1.0)[()]


def flat_numbers(values: Any, name: str) -> np.ndarray:
    """Array of any shape as doubles, shape (n,).

    Raises
    ------
    DomainError
        It is empty, or holds what is no number.
    """
    flat = np.ravel(_as_doubles(values, name))
    if not flat.size or np.isnan(flat).any():
        raise DomainError(
            f"{name}: one number or more, none of them NaN",
            got="no numbers"
            if not flat.size
            else f"{int(np.isnan(flat).sum())} NaN among {flat.size}",
            allowed="an array of numbers",
            do="give missing outputs a number of their own",
        )
    return flat


def take_sample(sample: Sample, draws: int | None, name: str) -> np.ndarray:
    """Sample of shape (n,) or (n, d), or `draws` outputs of a sampler, as doubles of shape (n, d).

    Raises
    ------
    DomainError
        Not an array of numbers, fewer draws than `MIN_DRAWS`, or not as many as were requested.
    """
    if callable(sample):
        if draws is None:
            raise DomainError(
                f"{name} draws on demand", got="no number of draws", do="say draws=10_000"
            )
        found = _as_doubles(sample(check_count(draws, "draws")), name)
        if found.ndim and len(found) != draws:
            raise DomainError(f"{name} gave another number of draws", got=len(found), allowed=draws)
    else:
        found = _as_doubles(sample, name)
    if found.ndim not in (1, 2) or len(found) < MIN_DRAWS or not found.size:
        raise DomainError(
            f"{name}: an array of draws",
            got=f"shape {found.shape}",
            allowed=f"(n,) or (n, d) with n >= {MIN_DRAWS}",
        )
    return found.reshape(len(found), -1)


def take_two_samples(p: Sample, q: Sample, draws: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Two samples that may be compared.

    Raises
    ------
    DomainError
        As `take_sample`, or one has more coordinates than the other.
    """
    first, second = take_sample(p, draws, "p"), take_sample(q, draws, "q")
    if first.shape[1] != second.shape[1]:
        raise DomainError(
            "two neighbors give outputs of one shape",
            got=f"{first.shape[1]} and {second.shape[1]} coordinates",
            allowed="as many coordinates of each",
            do="check that the mechanism gives as many numbers whatever the data",
        )
    return first, second


def split_in_halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of a shuffled sample."""
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


def _as_doubles(values: Any, name: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise DomainError(
            f"{name}: an array without a mask", got="a masked array", do="fill or compress it"
        )
    array = np.asarray(ARRAY.of(values, name, "a test"))
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise DomainError(
            f"{name}: an array of numbers",
            got=f"type {array.dtype}",
            allowed="booleans, integers, floats of at most 64 bits",
            do="number the labels",
        )
    if array.dtype.kind in "ui" and array.size and _largest_magnitude(array) >= 2**53:
        raise DomainError(
            f"{name}: integers that doubles tell apart",
            got=f"{_largest_magnitude(array)}",
            allowed="below 2^53 in size",
            do="number the labels",
        )
    return array.astype(np.float64)


def _largest_magnitude(array: np.ndarray) -> int:
    return max(-int(array.min()), int(array.max()))
