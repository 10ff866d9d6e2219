r"""What more records or a larger epsilon make of the posterior of a noisy summary.

A likelihood of noisy sums over n records estimates a parameter with variance

    v(n, mu) = a / n + b / (n mu)^2:

the sampling error of the records, and the noise of the release, whose size does not grow with n. mu
is the Gaussian privacy of (epsilon, delta). The two constants come from what is known at one n and
one budget. With a normal prior of variance s0^2 the posterior has variance 1 / (1/s0^2 + 1/v).
Nothing here is a bound: these are forecasts, by normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pymc_private.errors import DomainError
from pymc_private.planning.table import BoundsTable, plain_axes, set_title
from pymc_private.privacy import mu_affordable
from pymc_private.privacy.argument_kinds import DOUBLE, DOUBLES, SEQUENCE, TEXT, takes
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_count, check_open_unit, check_positive

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Numbers of records in the table by default, relative to that of the plan."""
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LARGEST_SD = 1e100
LINE_COLORS = ("#cfe0ef", "#9fc1df", "#6ea2cf", "#3f83bf", "#2b6298", "#1d4266")


@takes(effect=DOUBLES, sd=DOUBLES, level=DOUBLE, null=DOUBLES, prior_mean=DOUBLES, prior_sd=DOUBLE)
def detection_power(
    effect: Any,
    sd: Any,
    *,
    level: float = 0.95,
    null: float = 0.0,
    prior_mean: float = 0.0,
    prior_sd: float = math.inf,
) -> Any:
    """Probability that a central posterior interval excludes a value, if an effect is true.

    Parameters
    ----------
    effect : float or array
        The true value of the parameter.
    sd : float or array
        Posterior standard deviation, the noise of the release in it.
    level : float
        Mass of the interval, in (0, 1).
    null : float
        The value to exclude.
    prior_mean, prior_sd : float
        Of a normal prior, which pulls the posterior mean towards its own.

    Returns
    -------
    float or array

    Raises
    ------
    DomainError
        A standard deviation is not positive, or a level outside (0, 1).

    Notes
    -----
    With r = 1 - sd^2 / prior_sd^2 the posterior mean is N(prior_mean + r (effect - prior_mean), r
    sd^2) over records and noise, all normal. A posterior as wide as its prior has r = 0.

    Examples
    --------
    >>> round(detection_power(0.28, 0.1), 3), round(detection_power(0.0, 0.1), 3)
    (0.8, 0.05)
    """
    check_open_unit(level=level)
    width = np.asarray(sd, dtype=float)
    if not (width > 0).all() or not prior_sd > 0:
        raise DomainError(
            "a standard deviation is positive",
            got=f"sd={sd}, prior_sd={prior_sd}",
            allowed="sd > 0 and prior_sd > 0",
        )
    told = np.clip(1.0 - (width / prior_sd) ** 2, 1e-12, 1.0)
    mean = prior_mean + told * (np.asarray(effect, dtype=float) - prior_mean) - null
    reach, spread = ndtri(0.5 + level / 2.0) * width, np.sqrt(told) * width
    found = ndtr((mean - reach) / spread) + ndtr((-mean - reach) / spread)
    return float(found) if np.ndim(found) == 0 else found


@dataclass(frozen=True, repr=False)
class SummaryTradeOff(BoundsTable):
    """Posterior standard deviation of a parameter by number of records and epsilon.

    Attributes
    ----------
    parameter : str
    delta : float
    effect : float or None
        The true value for which power is told.
    rows : tuple of (int, float, float, float, float)
        Records, epsilon, posterior sd, posterior sd without noise, power (NaN without an effect).
    level : float
        Mass of the interval that is to exclude 0, or another value.
    """

    parameter: str
    delta: float
    effect: float | None
    rows: tuple[tuple[int, float, float, float, float], ...]
    level: float = 0.95

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        names = ("records", "epsilon", "posterior sd", "without noise")
        return names if self.effect is None else (*names, "power")

    @property
    def cells(self) -> Sequence[Sequence[Any]]:
        """Rows of numbers; power where an effect is given."""
        return [row[: len(self.columns)] for row in self.rows]

    @property
    def title(self) -> str:
        """One line above the table."""
        at = f" at delta = {format_number(self.delta)}" if self.delta else " at delta = 0"
        if self.effect is None:
            return f"Posterior sd of {self.parameter}, expected{at}"
        return f"Power for {self.parameter} = {self.effect:g}, {self.level:.0%} intervals{at}"

    def plot(self, ax: Any = None) -> Any:
        """Draw sd, or power, against epsilon, one line for each number of records.

        Dashes are the same without noise.
        """
        ax = plain_axes(ax)
        counts = sorted({row[0] for row in self.rows})
        column = 2 if self.effect is None else 4
        for count, color in zip(counts, LINE_COLORS[-len(counts) :] * len(counts), strict=False):
            rows = sorted(row for row in self.rows if row[0] == count)
            at = [row[1] for row in rows]
            ax.plot(
                at, [row[column] for row in rows], "o-", color=color, label=f"{count:,} records"
            )
            if self.effect is None:
                ax.axhline(rows[0][3], color=color, linestyle="--", linewidth=1)
        budgets = sorted({row[1] for row in self.rows})
        ax.set(xlabel="epsilon (nats)", xscale="log")
        ax.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
        ax.set_xticks([], minor=True)
        if self.effect is None:
            ax.set(ylabel="posterior sd", yscale="log")
        else:
            ax.set(ylabel="power", ylim=(0.0, 1.03))
        set_title(ax, self.title)
        ax.legend(frameon=False, fontsize="small")
        return ax


@takes(
    sampling_sd=DOUBLE,
    noise_sd=DOUBLE,
    epsilon=DOUBLE,
    delta=DOUBLE,
    records=SEQUENCE.optional,
    epsilons=SEQUENCE,
    parameter=TEXT,
    effect=DOUBLE.optional,
    level=DOUBLE,
    null=DOUBLE,
    prior_mean=DOUBLE,
    prior_sd=DOUBLE,
)
def summary_trade_off(
    sampling_sd: float,
    noise_sd: float,
    *,
    n: int,
    epsilon: float,
    delta: float,
    records: Sequence[int] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    parameter: str = "the parameter",
    effect: float | None = None,
    level: float = 0.95,
    null: float = 0.0,
    prior_mean: float = 0.0,
    prior_sd: float = math.inf,
) -> SummaryTradeOff:
    """Posterior sd and power of a summary for other numbers of records and budgets.

    Parameters
    ----------
    sampling_sd, noise_sd : float
        Standard deviations of an estimate at `n` and (`epsilon`, `delta`): from the records, and
        from the noise.
    n : int
    epsilon, delta : float
        nats; delta = 0 for noise in proportion to 1 / epsilon.
    records : sequence of int, optional
        Default: a quarter of `n` to four times `n`.
    epsilons : sequence of float
    parameter : str
        For titles.
    effect : float, optional
        Tell the power for this true value, too.
    level, null, prior_mean, prior_sd : float
        As of `detection_power`.

    Returns
    -------
    SummaryTradeOff

    Raises
    ------
    DomainError
        An argument is out of its range.

    Notes
    -----
    The law holds as long as the plan stays of the same kind: numbers of rounds, of parameters and
    of bounds. With so few records that a summary would be refused, it is too favorable.

    Examples
    --------
    >>> table = summary_trade_off(0.1, 0.1, n=1000, epsilon=1, delta=1e-6, records=[1000, 4000],
    ...                           epsilons=[1])
    >>> [round(row[2], 4) for row in table.rows]
    [0.1414, 0.0559]
    """
    check_positive(epsilon=epsilon)
    check_open_unit(level=level)
    _check_estimate(sampling_sd, noise_sd, prior_sd, effect, null, prior_mean)
    counts = _default_records(n) if records is None else records
    here = _privacy(epsilon, delta)
    rows = []
    for count in counts:
        check_count(count, "records")
        for budget in epsilons:
            there = n * here / (count * _privacy(budget, delta))
            sampled = sampling_sd**2 * n / count
            noise = noise_sd * there if noise_sd else 0.0
            sd, exact = (
                _posterior_sd(variance, prior_sd) for variance in (sampled + noise * noise, sampled)
            )
            found = math.nan
            if effect is not None:
                words = {"level": level, "null": null, "prior_mean": prior_mean}
                found = 1.0 - level  # without bound there is only noise
                if math.isfinite(sd):
                    found = detection_power(effect, sd, prior_sd=prior_sd, **words)
            rows.append((int(count), float(budget), sd, exact, found))
    return SummaryTradeOff(parameter, float(delta), effect, tuple(rows), level)


def _check_estimate(
    sampling_sd: float,
    noise_sd: float,
    prior_sd: float,
    effect: float | None,
    null: float,
    prior_mean: float,
) -> None:
    """Refuse numbers of which no law of an estimate can be made."""
    check_positive(sampling_sd=sampling_sd)
    stated = {"effect": effect, "null": null, "prior_mean": prior_mean}
    wrong = [name for name, value in stated.items() if value is not None and not abs(value) < 1e300]
    if wrong:
        raise DomainError(
            "effects and means are numbers", got=f"no finite {wrong[0]}", allowed="below 1e300"
        )
    sampled_well = 1.0 / LARGEST_SD <= sampling_sd <= LARGEST_SD
    if not (sampled_well and 0.0 <= noise_sd <= LARGEST_SD and prior_sd > 0.0):
        raise DomainError(
            "standard deviations are not negative, and have squares that are numbers",
            got=f"{sampling_sd}, {noise_sd}, {prior_sd}",
            allowed=f"sampling_sd from {1.0 / LARGEST_SD:g} and noise_sd from 0 to {LARGEST_SD:g}, "
            "prior_sd > 0",
        )


def _posterior_sd(variance: float, prior_sd: float) -> float:
    """Posterior standard deviation of an estimate with a normal prior; without bound, infinite."""
    narrow = prior_sd * prior_sd  # a product overflows to infinity, where a power raises
    precision = (1.0 / narrow if narrow else math.inf) + (1.0 / variance if variance else math.inf)
    return 1.0 / math.sqrt(precision) if precision else math.inf


def _default_records(n: int) -> list[int]:
    check_count(n, "n")
    return [max(1, round(n * factor)) for factor in FACTORS]


def _privacy(epsilon: float, delta: float) -> float:
    """To what the noise is in inverse proportion: mu, or epsilon where delta is 0."""
    check_positive(epsilon=epsilon)
    if not 0.0 <= delta < 1.0:
        raise DomainError("delta is out of range", got=delta, allowed="0 <= delta < 1")
    return float(mu_affordable(float(epsilon), delta)) if delta > 0.0 else float(epsilon)
