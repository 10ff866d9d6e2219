"""Accuracy and its price: records, draws, epsilon and the trim (T1, T3, T16, T17).

Closed-form inverses (records, draws, epsilon), the trade-off between the trim L of the prior
and the number N of draws that fit a budget, and the table of a whole study. Dimitrakakis et
al. (2017) are corrected where their statements fail: Lemmas 14 and 15, Corollary 16, Theorem
17.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.planning.adversary import advantage
from pymc_private.planning.table import ACCENT, INK, OTHER, BoundsTable, plain_axes, set_title
from pymc_private.privacy import (
    br_eps,
    br_tv,
    br_zcdp_tight,
    dkw_halfwidth,
    draws_affordable,
    power_affordable,
    psaqr_loss,
)
from pymc_private.privacy.argument_kinds import DOUBLE, FUNCTION, NUMBER, NUMBERS, takes
from pymc_private.privacy.rounding import format_number, times_up
from pymc_private.privacy.validation import (
    MAX_COUNT,
    check_count,
    check_counts,
    check_delta,
    check_nonnegative,
    check_open_unit,
    check_positive,
    double_up,
    exact_fraction,
    listed,
    refuse_mask,
    takes_numbers,
    vectorized,
)

DEFAULT_TRIMS = 60
"""Number of trims tried by default."""
MAX_EPSILON = 1e6
"""Largest epsilon that is tried for an accuracy goal."""
OutsideMass = Callable[[float], float] | Sequence[float] | np.ndarray
DEFAULT_EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DEFAULT_DRAWS = (1, 10, 100, 1000)
DRAWS_COLORS = ("#cfe0ef", "#9fc1df", "#6ea2cf", "#3f83bf", "#2b6298", "#1d4266")


@takes(information=NUMBER, R=NUMBER, epsilon=DOUBLE, delta=DOUBLE, draws=NUMBER)
def records_needed(
    information: float, R: float, epsilon: float, delta: float = 0.0, draws: int = 1
) -> int:
    """Records after which a private posterior is as sharp as one of so many without privacy.

    The likelihood is taken to the largest power w in (0, 1] that fits the budget; n records then
    count as w n. So many are needed: ``ceil(information / w)``.

    Parameters
    ----------
    information : float
        Records a posterior without privacy would rest on, > 0.
    R : float, nats
        Range of one record at power 1.
    epsilon : float, nats
    delta : float
        In [0, 1).
    draws : int

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range, or no power fits the budget.

    References
    ----------
    Theory T1, T3; `pymc_private.privacy.power_affordable`.

    Examples
    --------
    >>> records_needed(200, R=2.0, epsilon=1, delta=1e-6, draws=10)
    2582
    """
    check_positive(information=information)
    power = power_affordable(epsilon, delta, draws, R)
    if power <= 0.0:
        raise DomainError(
            "no power of the likelihood fits this budget",
            got=f"epsilon = {epsilon}, delta = {delta}",
            do="a larger epsilon or delta, fewer draws, or a smaller range",
        )
    return math.ceil(exact_fraction(information) / Fraction(power))


@takes(loss=DOUBLE, failure=DOUBLE)
def draws_needed(loss: float, responses: int = 2, queries: int = 1, failure: float = 0.05) -> int:
    """Fewest draws after which the best response loses no more than `loss` (utilities in [0, 1]).

    Parameters
    ----------
    loss : float
        > 0.
    responses, queries : int
    failure : float
        Probability that the bound fails, in (0, 1).

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range, or more than 10**18 draws would be needed.

    References
    ----------
    Inverse of `pymc_private.privacy.psaqr_loss`; theory T16.

    Examples
    --------
    >>> draws_needed(0.1), draws_needed(0.1, responses=100, queries=1000)
    (877, 3041)
    """
    check_positive(loss=loss)
    check_open_unit(failure=failure)
    loss = min(float(loss), 1e9)  # whose square is a double
    log_cases = math.log(
        2.0 * check_count(responses, "responses") * check_count(queries, "queries") / failure
    )
    if loss < math.sqrt(2.0 * log_cases / MAX_COUNT) * (1.0 + 1e-9):
        raise DomainError(
            "no number of draws that could be made is enough for so small a loss",
            got=loss,
            allowed=f"at least {math.sqrt(2.0 * log_cases / MAX_COUNT) * 1.01:.3g}",
            do="allow a larger loss: it falls as one over the root of the draws",
        )
    n = max(1, math.ceil(2.0 * log_cases / loss**2 * (1.0 - 1e-9)))
    while psaqr_loss(n, failure, responses, queries) > loss:
        n += max(1, n // 10**9)
    return n


@takes(R=NUMBER, draws=NUMBER, delta=NUMBER, power=NUMBER)
def epsilon_needed(R: float, draws: int, delta: float = 0.0, power: float = 1.0) -> float:
    """Epsilon of so many draws from a posterior of range R at a power, rounded up.

    Parameters
    ----------
    R : float, nats
    draws : int
    delta : float
    power : float
        In (0, 1].

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T1, T3.
    """
    check_positive(power=power)
    check_nonnegative(R=R)
    return float(br_eps(delta, draws, times_up(power, R)))


@takes(outside=NUMBERS)
@vectorized
def trimming_loss(outside: float) -> float:
    """Expected utility lost by trimming the prior to a region, for utilities in [0, 1]: 2 mass.

    Parameters
    ----------
    outside : float
        Mass that the *posterior* of the untrimmed model has outside of the region, for these data;
        or the *prior* mass, for an average over data that the prior predicts.

    Returns
    -------
    float
        For the response that is best under the trimmed posterior.

    Raises
    ------
    DomainError
        It is no probability.

    Notes
    -----
    Total variation of the trimmed and the untrimmed posterior *is* the posterior mass outside. The
    printed theorem puts the prior mass there for every data set, which is false: a prior mass of
    0.09 can be a posterior mass of 1. By Markov's inequality data whose posterior mass exceeds t
    have prior predictive probability of at most outside / t.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 14 and Theorem 17, corrected; theory T16.
    """
    if not 0.0 <= outside <= 1.0:
        raise DomainError("a mass is a probability", got=outside, allowed="0 <= outside <= 1")
    return min(1.0, 2.0 * float(outside))


@takes(eta=NUMBERS)
@vectorized
def misspecification_kl(eta: float) -> float:
    """Divergence of a posterior whose log-likelihood of the whole data errs by eta at most.

    For every data set at most eta^2 / 2, and at most 2 eta; rounded up.

    Parameters
    ----------
    eta : float, nats
        Largest error of log p(x | theta) over theta.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        eta is negative.

    References
    ----------
    Dimitrakakis et al. (2017), Lemma 15, corrected: the log ratio of the two posteriors has a range
    of 2 eta (T1), and T2 does the rest.
    """
    return float(br_zcdp_tight(times_up(2, double_up(eta, "eta"))))


@takes(eta=NUMBERS)
@vectorized
def misspecification_tv(eta: float) -> float:
    """Total variation of the same posterior: at most tanh(eta / 2); its regret is twice that.

    Parameters
    ----------
    eta : float, nats

    Returns
    -------
    float
        Rounded up.

    Raises
    ------
    DomainError
        eta is negative.

    References
    ----------
    Dimitrakakis et al. (2017), Corollary 16, corrected.
    """
    return float(br_tv(times_up(2, double_up(eta, "eta"))))


@dataclass(frozen=True, repr=False)
class TradeOff(BoundsTable):
    """Loss of queries against the trim L, at one budget.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    rows : tuple of (float, float, int, float, float, float)
        L; range R; draws N that fit; loss by trimming; loss by few draws; their sum.
    """

    epsilon: float
    delta: float
    rows: tuple[tuple[float, float, int, float, float, float], ...]

    columns = ("L", "R", "draws", "trimming", "few draws", "loss")

    @property
    def best(self) -> tuple[float, float, int, float, float, float]:
        """The row of the least loss; the first of several."""
        return min(self.rows, key=lambda row: row[-1])

    @property
    def title(self) -> str:
        """One line above the table."""
        best = self.best
        budget = f"epsilon = {format_number(self.epsilon)}"
        budget += f", delta = {format_number(self.delta)}" if self.delta else ""
        if best[2] < 1:
            return f"At {budget} not one draw fits any of these trims"
        vacuous = " (no news: utilities differ by no more)" if best[-1] >= 1.0 else ""
        return (
            f"At {budget} the best trim is L = {best[0]:.4g} with "
            f"{best[2]:,} draw{'s' if best[2] > 1 else ''}: "
            f"loss at most {format_number(best[-1])}{vacuous}"
        )

    @property
    def cells(self) -> Sequence[Sequence[Any]]:
        """Rows near the best, ten at most."""
        at = self.rows.index(self.best)
        step = max(1, len(self.rows) // 9)
        picked = sorted({*range(at % step, len(self.rows), step), at})
        return [self.rows[i] for i in picked]

    def plot(self, ax: Any = None) -> Any:
        """Draw both losses and their sum against L, and the number of draws."""
        ax = plain_axes(ax)
        at = [row[0] for row in self.rows]
        parts = (
            ("trimming", 3, OTHER, "--"), ("few draws", 4, ACCENT, "--"), ("together", 5, INK, "-"),
        )  # fmt: skip
        for name, k, color, style in parts:
            ax.plot(at, [row[k] for row in self.rows], style, color=color, label=name)
        ax.plot([self.best[0]], [self.best[-1]], "D", color=INK)
        ax.set(xlabel="L, where the prior is trimmed", ylabel="loss, at most", ylim=(0, 1.06))
        ax.set_xscale("log")
        set_title(ax, self.title)
        # Below the axes, since lines cross every position inside at some epsilon.
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.19), "ncols": 3}
        ax.legend(frameon=False, fontsize="small", **below)
        counts = ax.twinx()
        counts.plot(at, [max(row[2], 0.5) for row in self.rows], ":", color="0.5")
        counts.set(yscale="log")
        counts.set_ylabel("draws that fit (dotted)", color="0.5")
        counts.spines["top"].set_visible(False)
        return ax


@takes(
    epsilon=NUMBER,
    delta=NUMBER,
    failure=DOUBLE,
    trims=NUMBERS.optional,
    range_of=FUNCTION.optional,
)
def trade_off(
    outside: OutsideMass,
    *,
    epsilon: float,
    delta: float = 0.0,
    responses: int = 2,
    queries: int = 1,
    failure: float = 0.05,
    trims: Sequence[float] | None = None,
    range_of: Callable[[float], float] | None = None,
) -> TradeOff:
    """Find the trim L and the number of draws N that lose least (utilities in [0, 1]).

    Minimizes ``2 mass outside of Theta_L + 2 sqrt(ln(2 |R| |Q| / failure) / (2 N(L)))``, where
    N(L) draws of range 2 L fit the budget.

    Parameters
    ----------
    outside : callable or array
        Mass outside of Theta_L, as a function of L: of the posterior at *public* reference data,
        or of the prior, for an average over what it predicts. Or values of ell(theta) at
        independent draws of it; their share above L is raised by the DKW half-width.
    epsilon : float, nats
    delta : float
    responses, queries : int
        Of the questions to come.
    failure : float
        Probability that the bound of the loss fails; a sample of `outside` takes half of it.
    trims : sequence of float, optional
        Values of L to try; default 60 between 0.01 and 100, or over the sample.
    range_of : callable, optional
        R of one record after trimming to L; default 2 L.

    Returns
    -------
    TradeOff

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Dimitrakakis et al. (2017), Corollary 16 and Theorem 17, corrected; theory T16, T17.
    """
    check_positive(epsilon=epsilon)
    check_open_unit(failure=failure)
    mass, failing, default = _outside_mass(outside, failure)
    tried = default if trims is None else np.ravel(trims).astype(float).tolist()
    if not tried:
        raise DomainError(
            "trims= lists no Lipschitz bound", got="an empty list", allowed="one number > 0 or more"
        )
    rows = []
    for L in tried:
        check_positive(L=L)
        R = float(range_of(L)) if range_of is not None else float(times_up(2, L))
        draws = draws_affordable(epsilon, delta, R)
        cut = float(trimming_loss(min(1.0, mass(L))))
        few = min(1.0, psaqr_loss(draws, failing, responses, queries)) if draws else 1.0
        rows.append((L, R, draws, cut, few, min(1.0, cut + few)))
    return TradeOff(float(epsilon), float(delta), tuple(rows))


@takes(goal=DOUBLE)
def epsilon_for_accuracy(goal: float, outside: OutsideMass, **options: Any) -> TradeOff:
    """Find the smallest epsilon, to 0.1%, at which some trim loses no more than a goal.

    Parameters
    ----------
    goal : float
        Loss, in (0, 1).
    outside, **options
        As of `trade_off`, without epsilon.

    Returns
    -------
    TradeOff
        At that epsilon; its `best` keeps the goal.

    Raises
    ------
    DomainError
        An argument is out of its range, or no epsilon up to a million is enough: then the trims
        tried leave too much mass outside.
    """
    check_open_unit(goal=goal)

    def at(epsilon: float) -> TradeOff:
        return trade_off(outside, epsilon=epsilon, **options)

    low, high = 1e-3, 1e-3
    while (found := at(high)).best[-1] > goal:
        low, high = high, 4.0 * high
        if high > MAX_EPSILON:
            raise DomainError(
                "no epsilon reaches this accuracy",
                got=goal,
                do="allow larger trims, a smaller sample error (more values of ell), or more loss",
            )
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        tried = at(middle)
        if tried.best[-1] <= goal:
            high, found = middle, tried
        else:
            low = middle
    return found


def _outside_mass(
    outside: OutsideMass, failure: float
) -> tuple[Callable[[float], float], float, list[float]]:
    """Mass outside as a function of L, its remaining failure probability, and the trims to try."""
    if callable(outside):
        return outside, failure, list(np.geomspace(0.01, 100.0, DEFAULT_TRIMS))
    refuse_mask(outside, "values of ell")
    read = NUMBERS.of(outside, "outside", "a trade-off")
    values = np.sort(np.ravel(np.asarray(read, float)))
    if not values.size or np.isnan(values).any() or values[0] < 0.0:
        raise DomainError(
            "outside= holds values of ell(theta), which are numbers >= 0",
            got=f"{values.size} numbers"
            + (", NaN or negative ones among them" if values.size else ""),
            allowed="an array of numbers >= 0, or a function of L",
        )
    more = dkw_halfwidth(values.size, failure / 2.0)

    def share(L: float) -> float:
        return float(values.size - np.searchsorted(values, L, side="right")) / values.size + more

    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (float(finite[0]), float(finite[-1])) if finite.size else (0.01, 1.0)
    return share, failure / 2.0, list(np.unique(np.geomspace(low, high, DEFAULT_TRIMS)))


@dataclass(frozen=True, repr=False)
class Study(BoundsTable):
    """Records that a study needs, by epsilon and number of draws.

    Attributes
    ----------
    R : float, nats
        Range of one record at power 1.
    delta : float
    information : float
        Records that a posterior without privacy would rest on.
    rows : tuple of (float, int, int, float, float, float)
        Epsilon, draws, records needed, power of the likelihood, loss bound of a yes-or-no question,
        largest advantage of an adversary who doubts one record.
    """

    R: float
    delta: float
    information: float
    rows: tuple[tuple[float, int, int, float, float, float], ...]

    columns = ("epsilon", "draws", "records needed", "power", "loss of an answer", "advantage")
    lower = frozenset({"power"})

    @property
    def title(self) -> str:
        """One line above the table."""
        return (
            f"To match {self.information:g} records without privacy, at range "
            f"{format_number(self.R)} and delta = {format_number(self.delta)}"
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the records needed against epsilon, one line for each number of draws."""
        ax = plain_axes(ax)
        counts = sorted({row[1] for row in self.rows})
        for count, color in zip(counts, DRAWS_COLORS[-len(counts) :] * len(counts), strict=False):
            rows = [row for row in self.rows if row[1] == count]
            name = f"{count:,} draw{'s' if count > 1 else ''}"
            ax.plot([r[0] for r in rows], [r[2] for r in rows], "o-", color=color, label=name)
        ax.axhline(self.information, color="0.6", lw=1, ls=":")
        ax.set(xlabel="epsilon (nats)", ylabel="records needed", xscale="log", yscale="log")
        set_title(ax, self.title)
        ax.legend(frameon=False, fontsize="small")
        return ax


@takes_numbers
def study(
    R: float,
    information: float,
    *,
    delta: float = 1e-6,
    epsilons: Sequence[float] = DEFAULT_EPSILONS,
    draws: Sequence[int] = DEFAULT_DRAWS,
    failure: float = 0.05,
) -> Study:
    """Tabulate records, draws and epsilon for one accuracy goal.

    Parameters
    ----------
    R : float, nats
        Range of one record, as of ``certificate.range`` of a model on made-up data.
    information : float
        Records that a posterior without privacy would rest on to be sharp enough.
    delta : float
    epsilons : sequence of float, nats
    draws : sequence of int
    failure : float
        Probability that the loss bound of an answer fails.

    Returns
    -------
    Study

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T1, T3, T16.

    Examples
    --------
    >>> study(2.0, 100, epsilons=[1], draws=[1, 10])
    To match 100 records without privacy, at range 2 and delta = 1e-6
    epsilon  draws  records needed    power  loss of an answer  advantage
          1      1             200   0.5007                  1     0.2453
          1     10           1,291  0.07748             0.9362    0.09951
    """
    check_positive(R=R, information=information)
    R, delta, rows = double_up(R, "R"), check_delta(delta), []
    for epsilon in listed(epsilons, "epsilons"):
        for count in check_counts(draws, "numbers of draws"):
            power = power_affordable(epsilon, delta, count, R)
            need = records_needed(information, R, epsilon, delta, count)
            loss = min(1.0, psaqr_loss(count, failure, 2, 1))
            seen = float(advantage(times_up(power, R), count))
            rows.append((float(epsilon), count, need, power, loss, seen))
    return Study(R, delta, float(information), tuple(rows))
