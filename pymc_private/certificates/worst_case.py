"""The worst case of a range bound: two records and two parameter points, and their plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_number

MOST_PLOTTED = 14
"""Coordinates in a picture."""
RECORD_COLOR, POINT_COLOR = "#2b6298", "#b3462b"


@dataclass(frozen=True)
class WorstCaseValue:
    """One number of the model at the pair of records and parameter points that differ most.

    Parameters
    ----------
    name : str
        Of the variable, with the entry's index.
    role : {"record", "point", "pair", "shared"}
        Whether it belongs to a record, to a parameter point, to both (a linear predictor), or to
        something public.
    low, high : float
        All that it can be.
    values : tuple of float
        At both records, at both points, at all four pairs, or once.
    """

    name: str
    role: str
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The values as shares of the way from low to high."""
        width = self.high - self.low
        return tuple((v - self.low) / width if width > 0 else 0.5 for v in self.values)


def plot_worst_case(
    values: Sequence[WorstCaseValue], proved: float, found: float, is_relaxed: bool, ax: Any = None
) -> Any:
    """Draw each number within its range, at both records and both parameter points.

    `is_relaxed` says whether the values are of the bound alone: then no such records need exist.
    """
    shown = list(values)[:MOST_PLOTTED]
    ax = axes_or_new(ax, 6.4, 1.5 + 0.32 * max(len(shown), 2))
    for k, value in enumerate(shown):
        ax.plot([0, 1], [k, k], color="0.85", lw=5, solid_capstyle="round", zorder=1)
        ax.text(-0.045, k, f"{value.low:.3g}", ha="right", va="center", fontsize="small")
        ax.text(1.045, k, f"{value.high:.3g}", ha="left", va="center", fontsize="small")
        _draw_markers(ax, value, k)
    words = f"proved R = {format_number(proved, 5)}, found {format_number(found, 5, up=False)}: "
    ax.set_title(words + _slack_in_words(proved, found), fontsize="medium", loc="left")
    left_out = f"; {len(values) - len(shown)} more not shown" if len(values) > len(shown) else ""
    note = "where the bound is attained" if is_relaxed else "where the range is attained"
    note += f": filled x, t; hollow x', t'{left_out}"
    if any(value.role == "pair" for value in shown):
        note += "\nof both: filled x, hollow x'; circles t, diamonds t'"
    ax.set_xlabel(note, fontsize="small")
    ax.set_yticks(range(len(shown)), [value.name for value in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(-0.22, 1.22)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def _slack_in_words(proved: float, found: float) -> str:
    """How far the bound is above the truth at most, rounded up."""
    if proved <= found:
        return "exact"
    percent = np.ceil(1000.0 * (proved / found - 1.0)) / 10.0 if found > 0 else np.inf
    if percent <= 0.1:
        return "less than 0.1% above the truth"
    return f"at most {percent:.1f}% above the truth" if np.isfinite(percent) else "nothing found"


def _draw_markers(ax: Any, number: WorstCaseValue, line: int) -> None:
    """Markers of one number, one above the other.

    Of a number of both, four values are of (x, t), (x', t), (x, t'), (x', t'); two are of (x, t),
    (x, t').
    """
    color = (
        RECORD_COLOR
        if number.role == "record"
        else POINT_COLOR
        if number.role == "point"
        else "0.3"
    )
    offsets = np.linspace(-0.2, 0.2, len(number.values)) if len(number.values) > 1 else [0.0]
    for k, (share, offset) in enumerate(zip(number.shares, offsets, strict=True)):
        first, last = k % 2 == 0, False
        if number.role == "pair":
            first, last = (first, k >= 2) if len(number.values) == 4 else (True, k == 1)
        face, shape = color if first else "white", "D" if last else "o"
        size = 30 if last else 42
        ax.scatter(
            [share], [line + offset], s=size, color=face, edgecolor=color, lw=1.4, marker=shape,
            zorder=2,
        )  # fmt: skip
