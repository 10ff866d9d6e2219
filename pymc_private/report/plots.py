"""Plots of the released draws, the budget and the privacy curve, drawn without pyplot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_private.models.compat import element_labels, flat_draws
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.release import display, estimates
from pymc_private.release.allowed import as_float
from pymc_private.release.release import Release

if TYPE_CHECKING:  # matplotlib is loaded with the first figure
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 12
MAX_DOTS = 60
"""Above this number of draws a histogram is easier to read than dots."""
LABEL_DENSITY = 12
"""Characters of a title that fit on an inch."""
SMALLEST_DELTA = 1e-12
CURVE_POINTS = 81
HIDDEN_METHODS = ("pure", "none")
"""Not drawn as curves: pure epsilon is a vertical line, and "none" is no accounting at all."""
WIDE, NARROW = 7.4, 3.9
"""Inches: for a page, and for a telephone."""
LINE_STYLES = ("--", "-.", (0, (1, 1.5)), (0, (5, 3)))


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


def plot_posterior(release: Release, *, dark: bool = False, width: float = WIDE) -> Figure:
    """Show every draw of the first elements, with their mean and what bounds it.

    Few draws are shown as what they are, one dot each; from 61 on as a histogram. The band is
    where the mean under the private posterior lies with confidence 0.95 (Hoeffding on the
    public box); no band means that nothing public bounds the variable.

    Parameters
    ----------
    release : Release
    dark : bool
        Draw for a dark page.
    width : float
        Inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    theme = DARK if dark else LIGHT
    panels = list(_scalar_elements(release))
    shown = panels[:MAX_PANELS]
    columns = min(max(1, round(width / 2.2)), len(shown))
    rows = math.ceil(len(shown) / columns)
    tall = 1.15 if release.posterior.sizes["draw"] <= MAX_DOTS else 1.45
    entries = 1 if width >= WIDE else 3  # lines of the legend
    figure = blank_figure(width, 0.55 + 0.2 * entries + tall * rows, theme)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (label, values, low, high) in zip(grid.flat, shown, strict=False):
        title = _shortened(label, int(LABEL_DENSITY * width / columns))
        _panel(axes, title, values, (low, high), theme)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    _posterior_legend(figure, release, _band_name(release, shown), theme, 3 if entries == 1 else 1)
    _posterior_notes(figure, release, len(panels) - len(shown), theme)
    return figure


def _band_name(release: Release, shown: list[tuple[str, np.ndarray, float, float]]) -> str:
    """What the legend says of the band; empty where none is drawn."""
    bands = [(v, (low, high)) for _, v, low, high in shown if math.isfinite(low + high)]
    if not bands:
        return ""
    name = f"mean of the {display.distribution_name(release)} lies here (95%)"
    limits = ((band, _axis_limits(values, band)) for values, band in bands)
    if any(band[0] < left or band[1] > right for band, (left, right) in limits):
        return f"{name},\nor beyond an edge that the band touches"
    return name


def _posterior_legend(
    figure: Figure, release: Release, band_name: str, theme: Theme, columns: int
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    draws = release.posterior.sizes["draw"]
    dots = draws <= MAX_DOTS
    mark = Line2D([], [], marker="o" if dots else "s", linestyle="", color=theme.accent)
    handles: list[tuple[Any, str]] = [
        (mark, "one draw" if dots else f"{draws} draws"),
        (Line2D([], [], color=theme.ink, marker="|", markersize=9, markeredgewidth=2),
         "mean and central 90%"),
    ]  # fmt: skip
    if band_name:
        handles.append((Patch(color=theme.accent, alpha=0.18), band_name))
    figure.legend(
        [handle for handle, _ in handles], [text for _, text in handles], loc="outside lower left",
        ncols=columns, frameon=False, fontsize=8.5, labelcolor=theme.ink, borderaxespad=0.2,
    )  # fmt: skip


def _posterior_notes(figure: Figure, release: Release, hidden: int, theme: Theme) -> None:
    """Above the panels: that the draws are not private, and how many elements are left out."""
    notes = [] if release.private else [display.NOT_PRIVATE]
    notes += [f"{format_count(hidden, 'more element')} not shown"] if hidden else []
    if notes:
        color = theme.muted if release.private else theme.alarm
        figure.suptitle("; ".join(notes), fontsize=9.5, color=color, x=0.01, ha="left")


def _scalar_elements(release: Release) -> Iterator[tuple[str, np.ndarray, float, float]]:
    """Scalar elements: label, draws, and the bounds of the band for the mean."""
    for name, array in release.posterior.data_vars.items():
        mean = estimates.mean(release, str(name))
        lower, upper = np.ravel(np.asarray(mean.lower)), np.ravel(np.asarray(mean.upper))
        draws = flat_draws(array)
        for i, label in enumerate(element_labels(array)):
            yield label, draws[:, i].astype(float), float(lower[i]), float(upper[i])


def _panel(
    axes: Axes, label: str, values: np.ndarray, band: tuple[float, float], theme: Theme
) -> None:
    left, right = _axis_limits(values, band)
    axes.set_xlim(left, right)
    if len(values) <= MAX_DOTS:
        x, height = _stack_dots(values, right - left)
        axes.plot(x, height, "o", color=theme.accent, markersize=5, markeredgewidth=0, alpha=0.9)
        foot, top = -0.75, max(3.6, height.max() + 1.0)
    else:
        counts, edges = np.histogram(values, bins=30, range=(left, right))
        axes.stairs(counts, edges, fill=True, color=theme.accent, alpha=0.75)
        foot, top = -0.11 * counts.max(), 1.08 * counts.max()
    axes.set_ylim(1.75 * foot, top)
    if all(map(math.isfinite, band)):
        axes.barh(
            foot, band[1] - band[0], 0.75 * abs(foot), band[0], color=theme.accent, alpha=0.22
        )
    central = np.quantile(values, [0.05, 0.95])
    axes.plot(central, [foot, foot], color=theme.ink, linewidth=1.6, solid_capstyle="butt")
    axes.plot([values.mean()], [foot], "|", color=theme.ink, markersize=9, markeredgewidth=2)
    axes.set_title(label, loc="left", fontsize=9.5, color=theme.ink)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)
    hide_spines(axes, theme, keep=("bottom",))


def _shortened(label: str, most: int) -> str:
    """A label of so many letters at most: elements of an array differ at its end."""
    kept = most - 1
    return label if len(label) <= most else f"{label[: kept // 2]}…{label[-(kept - kept // 2) :]}"


def _axis_limits(values: np.ndarray, band: tuple[float, float]) -> tuple[float, float]:
    """Limits of the axis: the draws with room, or the band around draws that are all equal."""
    low, high = float(values.min()), float(values.max())
    if low == high and all(map(math.isfinite, band)):
        low, high = band
    room = 0.14 * (high - low) or max(abs(low), 1.0) * 0.1
    return low - room, high + room


def _stack_dots(values: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Place draws that would overlap on top of each other, at their own x."""
    ordered = np.sort(values)
    cells = np.floor((ordered - ordered[0]) / (width / 26)).astype(int)
    height = np.array([np.sum(cells[:i] == cell) for i, cell in enumerate(cells)], dtype=float)
    return ordered, height


def plot_budget(release: Release, ledger: Any = None, *, dark: bool = False) -> Figure:
    """Show what is spent and what is left, in epsilon and in delta.

    Parameters
    ----------
    release : Release
    ledger : Ledger, optional
        Without one the bar shows this release against the budget in its facts.
    dark : bool
        Draw for a dark page.

    Returns
    -------
    matplotlib.figure.Figure
    """
    theme = DARK if dark else LIGHT
    bars = [bar for bar in _budget_bars(release, ledger) if bar[2] > 0]
    figure = blank_figure(4.6, 0.3 + 0.62 * max(len(bars), 1), theme)
    axes = figure.subplots()
    for row, (_, spent, budget, text) in enumerate(bars):
        share = min(1.0, spent / budget) if math.isfinite(spent) else 1.0
        color = theme.accent if math.isfinite(spent) else theme.alarm
        axes.barh(row, 1.0, height=0.34, color=theme.muted, alpha=0.22)
        axes.barh(row, share, height=0.34, color=color)
        axes.text(0, row - 0.26, text, ha="left", va="bottom", fontsize=9, color=theme.ink)
    axes.set_ylim(len(bars) - 0.75, -0.6)
    axes.set_xlim(0, 1.002)
    axes.set_xticks([])
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    hide_spines(axes, theme, keep=())
    axes.tick_params(length=0)
    if not release.private:
        axes.set_title(display.NOT_PRIVATE, color=theme.alarm, loc="left", fontsize=10)
    return figure


def _budget_bars(release: Release, ledger: Any) -> list[tuple[str, float, float, str]]:
    """Name, spent, budget and caption of each bar; an unknown budget is taken as what was spent."""
    if ledger is not None:
        word, spent, budget, left = "spent", ledger.spent, ledger.budget, ledger.left
    else:
        word, spent, left = "this release", display.stated_epsilon_delta(release), None
        known = release.facts.get("budget")
        budget = (known["epsilon"], known["delta"]) if known else spent
    bars = []
    for at, name in enumerate(("epsilon", "delta")):
        text = f"{word} {format_number(spent[at])}"
        if left is not None:
            text += f", left {format_number(left[at], up=False)}"
        if left is not None or release.facts.get("budget"):
            text += f", of {format_number(budget[at])}"
        bars.append((name, as_float(spent[at]), as_float(budget[at]), text))
    return bars


def plot_curve(
    guarantee: Guarantee, *, delta: float | None = None, dark: bool = False, width: float = WIDE
) -> Figure:
    """Show delta as a function of epsilon: the best proved curve, and each accounting method's own.

    Parameters
    ----------
    guarantee : Guarantee
    delta : float, optional
        Mark the point (epsilon, delta) of this delta.
    dark : bool
        Draw for a dark page.
    width : float
        Inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    theme = DARK if dark else LIGHT
    figure = blank_figure(width, 3.3, theme)
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_ylim(SMALLEST_DELTA, 1.6)
    axes.set_xlabel("epsilon (nats)", color=theme.ink)
    axes.set_ylabel("delta", color=theme.ink)
    hide_spines(axes, theme, keep=("bottom", "left"))
    axes.grid(True, color=theme.muted, alpha=0.18, linewidth=0.6)
    headline = math.inf if delta is None or delta >= 1 else guarantee.epsilon(delta)
    right = _last_epsilon(guarantee)
    if math.isfinite(headline):
        right = max(right, 1.05 * headline)
    axes.set_xlim(0, right)
    if guarantee.delta(1.0) >= 1 and math.isinf(guarantee.epsilon(0.5)):
        axes.text(right / 2, 1e-6, display.NOT_PRIVATE, color=theme.alarm, ha="center", size=14)
        return figure
    _draw_curves(axes, guarantee, right, theme)
    if math.isfinite(guarantee.pure_epsilon) and guarantee.pure_epsilon <= right:
        axes.axvline(guarantee.pure_epsilon, color=theme.ink, linewidth=1.1, linestyle=":",
                     label=f"pure: {format_number(guarantee.pure_epsilon)}")  # fmt: skip
    if delta is not None and math.isfinite(headline):  # at the lower edge if delta is below it
        text = f"epsilon {format_number(headline)} at delta {format_number(delta)}"
        axes.plot([headline], [max(delta, SMALLEST_DELTA)], "o", color=theme.accent, markersize=7,
                  markeredgecolor=theme.paper, markeredgewidth=1.5, label=text, zorder=3,
                  clip_on=False)  # fmt: skip
    axes.legend(frameon=False, fontsize=8.5, labelcolor=theme.ink, loc="lower left")
    return figure


def _draw_curves(axes: Axes, guarantee: Guarantee, right: float, theme: Theme) -> None:
    """Draw the best curve, and each method's own where some of it lies in the picture."""
    epsilons, best, methods = _privacy_curve(guarantee, right)
    winner = "the best of these"
    styles = iter(LINE_STYLES * 2)
    for label, deltas in methods:
        if np.array_equal(deltas[best > 0], best[best > 0]):
            winner = label  # drawn once, as the winner
            continue
        if not (deltas >= SMALLEST_DELTA).any():  # nothing of it lies in the picture
            continue
        axes.plot(
            epsilons, deltas, color=theme.muted, label=label, linestyle=next(styles), linewidth=1.1
        )
    axes.plot(epsilons, best, color=theme.accent, linewidth=2.4, label=f"proved: {winner}")


def _last_epsilon(guarantee: Guarantee) -> float:
    """The right end of the curve: where delta becomes negligible, or the pure epsilon."""
    small = [guarantee.epsilon(delta) for delta in (1e-11, 1e-5, 0.5)]
    finite = [epsilon for epsilon in small if math.isfinite(epsilon)][:1]
    candidates = [e for e in (guarantee.pure_epsilon, *finite) if math.isfinite(e) and e > 0]
    return 1.05 * min(candidates) if candidates else 10.0


@lru_cache(maxsize=16)
def _privacy_curve(
    guarantee: Guarantee, right: float
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, np.ndarray]]]:
    """Epsilons, the best delta, and delta by each accounting method but pure; NaN where it is 0.

    Cached: the light and the dark picture show the same curve, and a point takes milliseconds
    for many draws.
    """
    epsilons = np.linspace(0, right, CURVE_POINTS)
    points = [guarantee.delta_by_method(float(epsilon)) for epsilon in epsilons]
    best = np.array([min(point.values()) or np.nan for point in points])
    names = dict.fromkeys(name for point in points for name in point if name not in HIDDEN_METHODS)
    methods = [
        (name, np.array([point.get(name, np.nan) or np.nan for point in points])) for name in names
    ]
    return epsilons, best, methods


def blank_figure(width: float, height: float, theme: Theme) -> Figure:
    """An empty figure of a size in inches, made without pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor=theme.paper)
    figure.set_layout_engine("constrained", wspace=0.06, hspace=0.06)
    return figure


def hide_spines(axes: Axes, theme: Theme, keep: tuple[str, ...]) -> None:
    """Hide all spines but those to keep, which carry a scale."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
        spine.set_color(theme.muted)
    axes.tick_params(colors=theme.muted, labelcolor=theme.ink, labelsize=8.5, length=3)
