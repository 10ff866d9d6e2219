"""The trim L against the number of draws N: less prior, or fewer draws (T16)."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.planning.accuracy import trimming_loss
from pymc_private.planning.table import ACCENT, INK, OTHER, Table, axes, headed
from pymc_private.privacy import dkw_halfwidth, draws_affordable, psaqr_loss
from pymc_private.privacy.validation import inside_unit, positive, refuse_mask
from pymc_private.privacy.rounding__printing import number
from pymc_private.privacy.rounding import times_up

POINTS = 60
HIGHEST = 1e6
"""Largest epsilon that is tried for an accuracy goal."""
Outside = Callable[[float], float] | Sequence[float] | np.ndarray


@dataclass(frozen=True, repr=False)
class TradeOff(Table):
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
        budget = f"epsilon = {number(self.epsilon)}"
        budget += f", delta = {number(self.delta)}" if self.delta else ""
        if best[2] < 1:
            return f"At {budget} not one draw fits any of these trims"
        vacuous = " (no news: utilities differ by no more)" if best[-1] >= 1.0 else ""
        return (
            f"At {budget} the best trim is L = {best[0]:.4g} with "
            f"{best[2]:,} draw{'s' if best[2] > 1 else ''}: "
            f"loss at most {number(best[-1])}{vacuous}"
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
        ax = axes(ax)
        at = [row[0] for row in self.rows]
        parts = (
            ("trimming", 3, OTHER, "--"), ("few draws", 4, ACCENT, "--"), ("together", 5, INK, "-"),
        )  # fmt: skip
        for name, k, color, style in parts:
            ax.plot(at, [row[k] for row in self.rows], style, color=color, label=name)
        ax.plot([self.best[0]], [self.best[-1]], "D", color=INK)
        ax.set(xlabel="L, where the prior is trimmed", ylabel="loss, at most", ylim=(0, 1.06))
        ax.set_xscale("log")
        headed(ax, self.title)
        # Below, since every place inside is crossed by a line at some epsilon.
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.19), "ncols": 3}
        ax.legend(frameon=False, fontsize="small", **below)
        counts = ax.twinx()
        counts.plot(at, [max(row[2], 0.5) for row in self.rows], ":", color="0.5")
        counts.set(yscale="log")
        counts.set_ylabel("draws that fit (dotted)", color="0.5")
        counts.spines["top"].set_visible(False)
        return ax


def trade_off(
    outside: Outside,
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
    positive(epsilon=epsilon)
    inside_unit(failure=failure)
    mass, failing, default = _mass(outside, failure)
    tried = default if trims is None else [float(L) for L in trims]
    if not tried:
        raise DomainError("there is no trim to try", allowed="one or more")
    rows = []
    for L in tried:
        positive(L=L)
        R = float(range_of(L)) if range_of is not None else float(times_up(2, L))
        draws = draws_affordable(epsilon, delta, R)
        cut = float(trimming_loss(min(1.0, mass(L))))
        few = min(1.0, psaqr_loss(draws, failing, responses, queries)) if draws else 1.0
        rows.append((L, R, draws, cut, few, min(1.0, cut + few)))
    return TradeOff(float(epsilon), float(delta), tuple(rows))


def epsilon_for_accuracy(goal: float, outside: Outside, **options: Any) -> TradeOff:
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
    inside_unit(goal=goal)

    def at(epsilon: float) -> TradeOff:
        return trade_off(outside, epsilon=epsilon, **options)

    low, high = 1e-3, 1e-3
    while (found := at(high)).best[-1] > goal:
        low, high = high, 4.0 * high
        if high > HIGHEST:
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


def _mass(outside: Outside, failure: float) -> tuple[Callable[[float], float], float, list[float]]:
    """The mass outside as a function, what may still fail, and the trims to try."""
    if callable(outside):
        return outside, failure, list(np.geomspace(0.01, 100.0, POINTS))
    refuse_mask(outside, "values of ell")
    values = np.sort(np.ravel(np.asarray(outside, float)))
    if not values.size or np.isnan(values).any() or values[0] < 0.0:
        raise DomainError("values of ell are numbers >= 0", got=f"{values.size} of them")
    more = dkw_halfwidth(values.size, failure / 2.0)

    def share(L: float) -> float:
        return float(values.size - np.searchsorted(values, L, side="right")) / values.size + more

    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (float(finite[0]), float(finite[-1])) if finite.size else (0.01, 1.0)
    return share, failure / 2.0, list(np.unique(np.geomspace(low, high, POINTS)))
