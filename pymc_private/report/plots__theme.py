"""Colors and bare figures: one accent, the rest is ink on paper."""

from __future__ import annotations

from dataclasses import dataclass
from matplotlib.axes import Axes
from matplotlib.figure import Figure

@dataclass(frozen=True)
class Theme:
    """Colors of a figure: one accent, the rest is ink on paper."""

    paper: str
    ink: str
    muted: str
    accent: str
    alarm: str


LIGHT = Theme("#ffffff", "#1f2328", "#656d76", "#2b6298", "#b3261e")
DARK = Theme("#15181c", "#e4e6e8", "#9aa3ac", "#82b4e3", "#ff8a80")


def blank(width: float, height: float, theme: Theme) -> Figure:
    """Open a figure of a size in inches, without pyplot."""
    figure = Figure(figsize=(width, height), facecolor=theme.paper)
    figure.set_layout_engine("constrained", wspace=0.06, hspace=0.06)
    return figure


def quieten(axes: Axes, theme: Theme, keep: tuple[str, ...]) -> None:
    """Leave only the lines that carry a scale."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
        spine.set_color(theme.muted)
    axes.tick_params(colors=theme.muted, labelcolor=theme.ink, labelsize=8.5, length=3)
