"""What somebody who knows all but a few records learns: distinguishing and reconstruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymc_private.errors import DomainError
from pymc_private.planning.robustness import posterior_kl, posterior_tv
from pymc_private.planning.table import ACCENT, OTHER, Table, axes
from pymc_private.privacy import Guarantee, br_delta
from pymc_private.privacy.arguments import (
    MOST,
    inside_unit,
    not_negative,
    positive,
    vectorized,
    whole,
)
from pymc_private.privacy.printing import number
from pymc_private.privacy.rounding import times_up

RECORDS = (1, 2, 5, 10, 20, 50)
UP = 1.0 + 1e-14


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
    n = whole(draws, "the number of draws")
    pinsker = math.sqrt(n * float(posterior_kl(R, records)) / 2.0) * UP
    simple = n * float(posterior_tv(R, records)) * UP
    length = times_up(whole(records, "the number of records"), R)
    return min(1.0, pinsker, simple, float(br_delta(0.0, n, length)))


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
    positive(R=R)
    inside_unit(target=target)
    return _least(lambda n: float(advantage(R, n, records)) >= target)


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
    positive(R=R)
    inside_unit(target=target)
    return _least(lambda k: float(advantage(R, draws, k)) >= target)


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
    """Fewest records in which data sets must differ for the partition adversary to succeed.

    He compares the shares of N draws in m cells with the two posteriors. Their laws on the cells
    are at most 2 tanh(k R / 4) apart, and he needs them to be `partition_radius` apart at least.

    Parameters
    ----------
    R : float, nats
    draws : int
    failure : float
        Probability with which he may err, in (0, 1).
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
    k >= 3 ln(1 / failure) / (4 L N) is necessary as well, and weaker.
    """
    positive(R=R)
    radius = partition_radius(draws, cells, failure)
    return _least(lambda k: 2.0 * float(posterior_tv(R, k)) >= radius)


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
    not_negative(distance=distance)
    tv = min(1.0, float(guarantee.group(records).delta(0.0)))
    return float(distance) / 2.0 * (1.0 - tv) * (1.0 - 1e-15)


@dataclass(frozen=True, repr=False)
class Adversary(Table):
    """What somebody learns who knows all but a few records.

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

    @property
    def cells(self) -> Sequence[Sequence[Any]]:
        """Rows of numbers."""
        return self.rows

    def plot(self, ax: Any = None) -> Any:
        """Draw advantage and least error against the number of records in doubt."""
        ax = axes(ax)
        k = [row[0] for row in self.rows]
        ax.plot(k, [row[1] for row in self.rows], "o-", color=OTHER, label="advantage, at most")
        floors = [row[3] for row in self.rows]
        ax.plot(k, floors, "s-", color=ACCENT, label="error / distance, at least")
        ax.set(xlabel="records in doubt", xscale="log", ylim=(0, 1.02))
        ax.set_title(self.title, loc="left", fontsize="small")
        ax.legend(frameon=False, fontsize="small")
        return ax


def adversary(guarantee: Guarantee, records: Sequence[int] = RECORDS) -> Adversary:
    """Tabulate what somebody learns who knows all but a few records.

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
    rows = []
    for k in records:
        tv = min(1.0, float(guarantee.group(k).delta(0.0)))
        floor = reconstruction_floor(guarantee, 1.0, k)
        rows.append((int(k), tv, min(1.0, (1.0 + tv) / 2.0 * UP), floor))
    claim = "; ".join(str(atom) for atom in guarantee.atoms) or "nothing"
    return Adversary(f"{claim} (delta(0) = {number(guarantee.delta(0.0))})", tuple(rows))


def _least(reached: Callable[[int], bool]) -> int:
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
