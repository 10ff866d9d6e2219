"""What somebody who knows all but a few records learns: distinguishing and reconstruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.planning.adversary__partition import least
from pymc_private.planning.robustness import posterior_kl, posterior_tv
from pymc_private.planning.table import ACCENT, OTHER, Table, axes, headed
from pymc_private.privacy import Guarantee, br_delta
from pymc_private.privacy.validation import inside_unit, not_negative, positive, vectorized, whole
from pymc_private.privacy.rounding__printing import number
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
    return _fewest(lambda n: advantage(R, n, records), R, target)


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
    return _fewest(lambda k: advantage(R, draws, k), R, target)


def _fewest(reached: Callable[[int], float], R: float, target: float) -> int:
    """The least number at which the bound of an advantage reaches a target."""
    positive(R=R)
    inside_unit(target=target)
    return least(lambda count: float(reached(count)) >= target)


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
    _check(guarantee)
    tv = min(1.0, float(guarantee.group(records).delta(0.0)))
    return float(distance) / 2.0 * (1.0 - tv) * (1.0 - 1e-15)


def _check(guarantee: object) -> None:
    if not isinstance(guarantee, Guarantee):
        raise DomainError(
            "what somebody learns is judged from a guarantee",
            got=type(guarantee).__name__,
            allowed="a pmp.Guarantee",
            do="plan.guarantee, release.guarantee, or pmp.Guarantee.pure(1.0)",
        )


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

    def plot(self, ax: Any = None) -> Any:
        """Draw advantage and least error against the number of records in doubt."""
        ax = axes(ax)
        k = [row[0] for row in self.rows]
        ax.plot(k, [row[1] for row in self.rows], "o-", color=OTHER, label="advantage, at most")
        floors = [row[3] for row in self.rows]
        ax.plot(k, floors, "s-", color=ACCENT, label="error / distance, at least")
        ax.set(xlabel="records in doubt", xscale="log", ylim=(0, 1.02))
        headed(ax, self.title)
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
    _check(guarantee)
    rows = []
    for k in records:
        tv = min(1.0, float(guarantee.group(k).delta(0.0)))
        floor = reconstruction_floor(guarantee, 1.0, k)
        rows.append((int(k), tv, min(1.0, (1.0 + tv) / 2.0 * UP), floor))
    claim = "; ".join(str(atom) for atom in guarantee.atoms) or "nothing"
    return Adversary(f"{claim} (delta(0) = {number(guarantee.delta(0.0))})", tuple(rows))
