"""Comparison of accounting methods for N posterior draws: the table of T4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pymc_private.privacy import cards
from pymc_private.privacy.bounded_range import br_eps, br_zcdp_tight
from pymc_private.privacy.plots import plot_epsilon_growth
from pymc_private.privacy.renyi import zcdp_to_eps
from pymc_private.privacy.rounding import format_number, times_up
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_open_unit,
    takes_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_DRAWS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class EpsilonComparison:
    """Epsilon of N draws of one range by three accounting methods, nats, rounded up.

    Attributes
    ----------
    R : float
        Range of one record, nats.
    delta : float
    rows : tuple of (int, float, float, float)
        Draws, and epsilon by pure composition, by zCDP and by the exact curve.
    """

    R: float
    delta: float
    rows: tuple[tuple[int, float, float, float], ...]

    columns = {"pure": "pure", "zCDP (T4)": "zcdp", "exact (T3)": "exact"}  # noqa: RUF012

    def to_frame(self) -> pd.DataFrame:
        """Table with one row per number of draws."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=["draws", *self.columns.values()])

    def plot(self, ax: Any = None) -> Any:
        """Plot epsilon against the number of draws."""
        frame = self.to_frame()
        epsilons = {name: frame[column] for name, column in self.columns.items()}
        title = f"range {self.R:g}, delta = {self.delta:g}"
        return plot_epsilon_growth(frame["draws"], epsilons, title, ax)

    def __repr__(self) -> str:
        lines = [
            f"{n:>8d}" + "".join(f" {format_number(x, 5):>12}" for x in row)
            for n, *row in self.rows
        ]
        titles = f"{'draws':>8} {'pure':>12} {'zCDP':>12} {'exact':>12}"
        return "\n".join([self._title(), titles, *lines])

    def _repr_html_(self) -> str:
        rows = [[str(n), *(format_number(x, 5) for x in row)] for n, *row in self.rows]
        table = cards.html_table(("draws", "pure", "zCDP", "exact"), rows)
        return cards.html_card(self._title(), [], below=table)

    def _title(self) -> str:
        delta, R = format_number(self.delta, 6), format_number(self.R, 6)
        return f"epsilon at delta = {delta} of draws of range {R}"


@takes_numbers
def compare(
    R: float, draws: Sequence[int] = DEFAULT_DRAWS, delta: float = 1e-6
) -> EpsilonComparison:
    """Compare accounting methods from N exact posterior draws to epsilon.

    Parameters
    ----------
    R : float
        Range of one record's log-likelihood, nats.
    draws : sequence of int
    delta : float
        In (0, 1).

    Returns
    -------
    EpsilonComparison
        With ``to_frame()`` and ``plot()``.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T1-T4.

    Examples
    --------
    >>> compare(0.1)
    epsilon at delta = 1e-6 of draws of range 0.1
       draws         pure         zCDP        exact
           1          0.1          0.1     0.099383
          10            1      0.70016      0.62864
         100           10        2.419       2.2461
        1000          100       8.8452       8.3007
    """
    check_nonnegative(R=R)
    check_open_unit(delta=delta)
    return EpsilonComparison(
        float(R), float(delta), tuple(_compare_row(R, n, delta) for n in draws)
    )


def _compare_row(R: float, n: int, delta: float) -> tuple[int, float, float, float]:
    check_count(n, "the number of draws")
    pure = times_up(n, R)
    rho = times_up(n, br_zcdp_tight(R))
    return n, pure, min(pure, zcdp_to_eps(rho, delta)), br_eps(delta, n, R)
