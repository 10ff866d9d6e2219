"""Plots of guarantees: delta against epsilon, the cost of many draws, and sample sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pymc_private.privacy.accounting_comparison import EpsilonComparison
    from pymc_private.privacy.guarantee import Guarantee

MIN_DELTA = 1e-12
COLORS = ("#3b6ea8", "#c0652b", "#4f8f4f", "#8b5aa8", "#8a8a8a")


def plot_privacy_curves(
    guarantee: Guarantee,
    ax: Any = None,
    *,
    epsilons: Sequence[float] | None = None,
    points: int = 80,
) -> Any:
    """Draw delta(epsilon) by every road that is open, the best one in bold.

    Parameters
    ----------
    guarantee : Guarantee
    ax : matplotlib Axes, optional
    epsilons : sequence of float, nats, optional
        Where to draw; default from 0 to where delta has fallen to 1e-12.
    points : int

    Returns
    -------
    matplotlib Axes
    """
    ax = ax or _new_axes()
    end = min(guarantee.epsilon(MIN_DELTA), 100.0)
    at = np.linspace(0.0, end, points) if epsilons is None else np.asarray(epsilons, float)
    found = [guarantee.roads(float(epsilon)) for epsilon in at]
    names = list(dict.fromkeys(name for roads in found for name in roads))
    for name, color in zip(names, COLORS * len(names), strict=False):
        ax.plot(at, [max(r.get(name, 1.0), MIN_DELTA / 10) for r in found], color=color, label=name)
    best = [max(min(roads.values()), MIN_DELTA / 10) for roads in found]
    ax.plot(at, best, color="black", lw=3.5, alpha=0.25, zorder=0, label="what may be claimed")
    ax.set(xlabel="epsilon (nats)", ylabel="delta", yscale="log", ylim=(MIN_DELTA, 1.5))
    ax.set_title("; ".join(str(atom) for atom in guarantee.atoms) or "nothing", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.25)
    return ax


def plot_epsilon_growth(comparison: EpsilonComparison, ax: Any = None) -> Any:
    """Draw epsilon against the number of draws, by road.

    Parameters
    ----------
    comparison : Comparison
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = ax or _new_axes()
    frame = comparison.to_frame()
    for (name, column), color in zip(comparison.columns.items(), COLORS, strict=False):
        ax.plot(frame["draws"], frame[column], "o-", color=color, label=name)
    ax.set(xlabel="draws", ylabel="epsilon (nats)", xscale="log", yscale="log")
    ax.set_title(f"range {comparison.R:g}, delta = {comparison.delta:g}", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.25)
    return ax


def plot_sample_sizes(
    cells: int, r: float, alpha: float, ax: Any = None, *, betas: Sequence[float] = (0.05, 0.001)
) -> Any:
    """Draw the records that a Dirichlet draw needs; see `dirichlet_size.plot_sample_size`."""
    from pymc_private.privacy.dirichlet import dirichlet_sample_size

    ax = ax or _new_axes()
    etas = np.geomspace(0.003, 3.0, 60)
    for beta, color in zip(betas, COLORS * len(betas), strict=False):
        needed = [dirichlet_sample_size(float(e), beta, cells, r, alpha) for e in etas]
        ax.plot(etas, needed, color=color, label=f"all but {beta:g} of the draws")
    ax.set(xlabel="KL divergence from the data (nats)", ylabel="records", xscale="log")
    ax.set(yscale="log")
    ax.set_title(f"{cells} categories, r = {r:g}, alpha = {alpha:g}", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.25)
    return ax


def _new_axes() -> Any:
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.0, 4.0), layout="constrained")[1]
