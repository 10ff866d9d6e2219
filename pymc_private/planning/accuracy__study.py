"""How many records, how many draws, which epsilon: one table before any data are seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.planning.accuracy import records_needed
from pymc_private.planning.adversary import advantage
from pymc_private.planning.table import Table, axes, headed
from pymc_private.privacy import power_affordable, psaqr_loss
from pymc_private.privacy.rounding__printing import number
from pymc_private.privacy.rounding import times_up

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DRAWS = (1, 10, 100, 1000)
SHADES = ("#cfe0ef", "#9fc1df", "#6ea2cf", "#3f83bf", "#2b6298", "#1d4266")


@dataclass(frozen=True, repr=False)
class Study(Table):
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
            f"To know what {self.information:g} records tell without privacy, at range "
            f"{number(self.R)} and delta = {number(self.delta)}"
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the records needed against epsilon, one line for each number of draws."""
        ax = axes(ax)
        counts = sorted({row[1] for row in self.rows})
        for count, color in zip(counts, SHADES[-len(counts) :] * len(counts), strict=False):
            mine = [row for row in self.rows if row[1] == count]
            name = f"{count:,} draw{'s' if count > 1 else ''}"
            ax.plot([r[0] for r in mine], [r[2] for r in mine], "o-", color=color, label=name)
        ax.axhline(self.information, color="0.6", lw=1, ls=":")
        ax.set(xlabel="epsilon (nats)", ylabel="records needed", xscale="log", yscale="log")
        headed(ax, self.title)
        ax.legend(frameon=False, fontsize="small")
        return ax


def study(
    R: float,
    information: float,
    *,
    delta: float = 1e-6,
    epsilons: Sequence[float] = EPSILONS,
    draws: Sequence[int] = DRAWS,
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
    To know what 100 records tell without privacy, at range 2 and delta = 1e-6
    epsilon  draws  records needed    power  loss of an answer  advantage
          1      1             200   0.5007                  1     0.2453
          1     10           1,291  0.07748             0.9362    0.09951
    """
    rows = []
    for epsilon in epsilons:
        for count in draws:
            power = power_affordable(epsilon, delta, count, R)
            need = records_needed(information, R, epsilon, delta, count)
            loss = min(1.0, psaqr_loss(count, failure, 2, 1))
            seen = float(advantage(times_up(power, R), count))
            rows.append((float(epsilon), int(count), need, power, loss, seen))
    return Study(float(R), float(delta), float(information), tuple(rows))
