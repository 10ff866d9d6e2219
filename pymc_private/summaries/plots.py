"""Plots of a `SummaryPlan`, of its simulated `Coverage` and of its `EffectPower`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_count, format_number

SIZE = 5.5, 3.2
"""Inches."""
CHOSEN_COLOR, OTHER_COLOR, LINE_COLOR = "#b3462b", "0.35", "0.7"


def plot_summary_plan(plan: Any, ax: Any = None) -> Any:
    """Plot the expected information of each method that accepts the model."""
    ax = axes_or_new(ax, *SIZE)
    names = [method for method, _ in plan.weighed]
    values = [nats for _, nats in plan.weighed]
    colors = [CHOSEN_COLOR if name == plan.method else OTHER_COLOR for name in names]
    places = np.arange(len(names))
    ax.barh(places, values, color=colors, height=0.6)
    for place, value in zip(places, values, strict=True):
        ax.annotate(f"{value:.3g}", (value, place), (4, 0), textcoords="offset points", va="center")
    if plan.whole == plan.whole:
        ax.axvline(plan.whole, color=LINE_COLOR, linestyle="--")
        ax.annotate(
            "without privacy", (plan.whole, len(names) - 0.45), (-4, 0), fontsize=8,
            textcoords="offset points", ha="right", va="top", color=OTHER_COLOR,
        )  # fmt: skip
    ax.set_yticks(places, names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlim(0, 1.15 * max([v for v in (*values, plan.whole) if v == v] or [1.0]))
    ax.set_xlabel("expected information (nats)")
    budget = f"epsilon = {format_number(plan.epsilon, 6)}, delta = {format_number(plan.delta, 6)}"
    ax.set_title(f"One summary at {budget}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_coverage(coverage: Any, ax: Any = None) -> Any:
    """Plot the share of intervals that held their parameter against their mass."""
    ax = axes_or_new(ax, *SIZE)
    levels = np.array(coverage.levels)
    ax.plot([0, 1], [0, 1], color=LINE_COLOR, linewidth=1, zorder=0)
    each = coverage.held.mean(axis=0)
    for row in each:
        ax.scatter(levels, row, s=10, color=OTHER_COLOR, alpha=0.5, zorder=1)
    ax.errorbar(
        levels, coverage.found, 2.0 * coverage.errors, fmt="o", color=CHOSEN_COLOR, capsize=3,
        zorder=2,
    )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, max(1.02, 1.02 * float(np.max(coverage.found + 2.0 * coverage.errors))))
    ax.set_xlabel("mass of the interval")
    ax.set_ylabel("share that held the parameter")
    ax.set_title(f"{format_count(coverage.simulations, 'simulation')}, ± 2 standard errors",
                 fontsize=10)  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_power(found: Any, ax: Any = None) -> Any:
    """Plot the power of a plan against the true value of the parameter."""
    ax = axes_or_new(ax, *SIZE)
    reach = max(1.5 * abs(found.effect - found.null), 4.0 * float(np.median(found.sd)))
    at = found.null + np.linspace(-reach, reach, 201)
    ax.plot(at, found.at(at), color=OTHER_COLOR)
    ax.axhline(1.0 - found.level, color=LINE_COLOR, linestyle="--", linewidth=1)
    ax.errorbar(
        [found.effect], [found.found], 2.0 * found.error, fmt="o", color=CHOSEN_COLOR, capsize=3,
        label=f"{found.simulations} simulations",
    )  # fmt: skip
    ax.set(xlabel=f"true {found.parameter}", ylabel="power", ylim=(0.0, 1.03))
    ax.set_title(f"{found.level:.0%} interval excludes {found.null:g}", fontsize=10)
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
