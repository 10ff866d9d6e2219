"""Tables of bounds as text, HTML, data frame and plot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pymc_private.privacy import cards
from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_number

if TYPE_CHECKING:
    import pandas as pd

ACCENT, OTHER, INK, FAINT = "#2b6298", "#b3462b", "#1f2328", "#9aa3ac"
TITLE_WIDTH = 60
"""Characters of a title line."""


class BoundsTable:
    """Base of the results of `pymc_private.planning`: a title, columns, rows, and a plot.

    A subclass gives `title`, `columns` and `rows`; numbers are upper bounds unless the column's
    name is in `lower`.
    """

    rows: Any
    lower: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """One line above the table."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        raise NotImplementedError

    @property
    def cells(self) -> Sequence[Sequence[Any]]:
        """Rows of numbers and words."""
        return self.rows

    def to_frame(self) -> pd.DataFrame:
        """Data frame of the table."""
        import pandas as pd

        return pd.DataFrame([list(row) for row in self.cells], columns=list(self.columns))

    def _text(self) -> list[list[str]]:
        up = [name not in self.lower for name in self.columns]
        return [list(map(_cell_text, row, up)) for row in self.cells]

    def __repr__(self) -> str:
        rows = [list(self.columns), *self._text()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.columns))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([self.title, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        return cards.html_card(self.title, [], below=cards.html_table(self.columns, self._text()))


def set_title(ax: Any, title: str) -> None:
    """Set a title, wrapped to lines that fit the axes."""
    ax.set_title(textwrap.fill(title, TITLE_WIDTH), loc="left", fontsize="small")


def plain_axes(ax: Any, width: float = 6.0, height: float = 3.6) -> Any:
    """Given axes, or new ones, with two spines and a grid."""
    ax = axes_or_new(ax, width, height)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(alpha=0.25)
    return ax


def _cell_text(cell: Any, up: bool) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return format_number(cell, 4, up=up)
