"""Robustness of a posterior to changed records: divergence and total variation (T1, T2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pymc_private.planning.table import ACCENT, OTHER, BoundsTable, plain_axes, set_title
from pymc_private.privacy import br_tv, br_zcdp_tight
from pymc_private.privacy.argument_kinds import NUMBERS, takes
from pymc_private.privacy.rounding import times_up
from pymc_private.privacy.validation import (
    check_count,
    check_counts,
    check_nonnegative,
    double_up,
    takes_numbers,
    vectorized,
)

DEFAULT_RECORDS = (1, 2, 5, 10, 20, 50, 100)


@takes(R=NUMBERS, records=NUMBERS)
@vectorized
def posterior_kl(R: float, records: int = 1) -> float:
    """Divergence KL of the posteriors of two data sets that differ in so many records, rounded up.

    At most ``z - 1 - ln z`` with ``z = k R / (e^(k R) - 1)``, which is below both k R and
    (k R)^2 / 8. The printed theorem says 2 L rho >= R only.

    Parameters
    ----------
    R : float, nats
        Range of one record.
    records : int
        k: how many are replaced, added or removed, as R says.

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
    Dimitrakakis et al. (2017), Theorem 7, sharpened; theory T1, T2.
    """
    return float(br_zcdp_tight(_group_range(R, records)))


@takes(R=NUMBERS, records=NUMBERS)
@vectorized
def posterior_tv(R: float, records: int = 1) -> float:
    """Total variation of the same two posteriors: at most tanh(k R / 4), rounded up.

    No posterior probability moves by more, and no expected utility in [0, 1] either.

    Parameters
    ----------
    R : float, nats
    records : int

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T2.
    """
    return float(br_tv(_group_range(R, records)))


@dataclass(frozen=True, repr=False)
class Robustness(BoundsTable):
    """Bounds on how far the posterior moves when records change.

    Attributes
    ----------
    R : float, nats
        Range of one record.
    rows : tuple of (int, float, float, float)
        Records, divergence (nats), total variation, largest factor of any posterior odds.
    """

    R: float
    rows: tuple[tuple[int, float, float, float], ...]

    columns = ("records changed", "KL (nats)", "probability moves", "odds change by")

    @property
    def title(self) -> str:
        """One line above the table."""
        return f"Robustness of a posterior of range {self.R:.4g} (T1, T2), upper bounds"

    def plot(self, ax: Any = None) -> Any:
        """Draw divergence and total variation against the number of changed records."""
        ax = plain_axes(ax)
        k = [row[0] for row in self.rows]
        ax.plot(k, [row[1] for row in self.rows], "o-", color=ACCENT, label="KL (nats)")
        ax.plot(k, [row[2] for row in self.rows], "s-", color=OTHER, label="total variation")
        ax.set(xlabel="records changed", xscale="log", yscale="log")
        set_title(ax, self.title)
        ax.legend(frameon=False, fontsize="small")
        return ax


@takes_numbers
def robustness(R: float, records: Sequence[int] = DEFAULT_RECORDS) -> Robustness:
    """Tabulate how far the posterior moves when records change.

    Parameters
    ----------
    R : float, nats
        Range of one record, as of ``certificate.range``.
    records : sequence of int

    Returns
    -------
    Robustness

    Raises
    ------
    DomainError
        An argument is out of its range.

    Examples
    --------
    >>> robustness(0.1, records=[1, 10])
    Robustness of a posterior of range 0.1 (T1, T2), upper bounds
    records changed  KL (nats)  probability moves  odds change by
                  1    0.00125              0.025           1.106
                 10     0.1234              0.245           2.719
    """
    check_nonnegative(R=R)
    rows = tuple(
        (k, float(posterior_kl(R, k)), float(posterior_tv(R, k)), _exp_up(_group_range(R, k)))
        for k in check_counts(records, "numbers of records")
    )
    return Robustness(double_up(R, "a range"), rows)


def _group_range(R: float, records: int) -> float:
    """Range of `records` records, rounded up."""
    length, k = double_up(R, "a range"), check_count(records, "the number of records")
    return length if math.isinf(length) or k == 1 else float(times_up(k, length))


def _exp_up(x: float) -> float:
    """Exponential, rounded up."""
    return math.inf if x > 700 else math.nextafter(math.exp(x) * (1 + 1e-15), math.inf)
