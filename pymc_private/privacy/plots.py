"""Axes of plots; plots of delta against epsilon, the cost of many draws, and sample sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pymc_private.privacy.validation import check_axes

MIN_DELTA = 1e-12
"""Curves are drawn down to this delta."""
COLORS = ("#3b6ea8", "#c0652b", "#4f8f4f", "#8b5aa8", "#8a8a8a")


def axes_or_new(ax: Any, width: float = 6.0, height: float = 4.0) -> Any:
    """Axes that were given, or new ones of pyplot, whose figure a notebook shows.

    Raises
    ------
    DomainError
        `ax` is no matplotlib Axes.
    """
    check_axes(ax)
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


class _HasCurves(Protocol):
    """A `Guarantee`, as far as its plot needs it."""

    @property
    def events(self) -> Sequence[object]: ...
    def epsilon(self, delta: float) -> float: ...
    def delta_by_method(self, epsilon: float) -> Mapping[str, float]: ...


def plot_privacy_curves(
    guarantee: _HasCurves,
    ax: Any = None,
    *,
    epsilons: Sequence[float] | None = None,
    points: int = 80,
) -> Any:
    """Plot delta(epsilon) by every accounting method that applies, the smallest one in bold.

    Parameters
    ----------
    guarantee : Guarantee
    ax : matplotlib Axes, optional
    epsilons : sequence of float, nats, optional
        Where to evaluate; default from 0 to where delta has fallen to 1e-12.
    points : int
        Number of epsilons by default.

    Returns
    -------
    matplotlib Axes
    """
    end = min(guarantee.epsilon(MIN_DELTA), 100.0)
    at = np.linspace(0.0, end, points) if epsilons is None else np.asarray(epsilons, float)
    found = [guarantee.delta_by_method(float(epsilon)) for epsilon in at]
    said = [name for deltas in found for name, delta in deltas.items() if delta < 1.0]
    names = list(dict.fromkeys(said))  # of methods that say anything
    ax = axes_or_new(ax)
    for name, color in zip(names, COLORS * len(names), strict=False):
        deltas = [max(by_method.get(name, 1.0), MIN_DELTA / 10) for by_method in found]
        ax.plot(at, deltas, color=color, label=name)
    best = [max(min(deltas.values()), MIN_DELTA / 10) for deltas in found]
    ax.plot(at, best, color="black", lw=3.5, alpha=0.25, zorder=0, label="what may be claimed")
    ax.set(xlabel="epsilon (nats)", ylabel="delta", yscale="log", ylim=(MIN_DELTA, 1.5))
    ax.set_title(
        "; ".join(str(event) for event in guarantee.events) or "nothing", fontsize="medium"
    )
    return _finish(ax)


def plot_epsilon_growth(
    draws: Sequence[int], epsilons: Mapping[str, Sequence[float]], title: str, ax: Any = None
) -> Any:
    """Plot epsilon against the number of draws, by accounting method."""
    ax = axes_or_new(ax)
    for (name, values), color in zip(epsilons.items(), COLORS, strict=False):
        ax.plot(draws, values, "o-", color=color, label=name)
    ax.set(xlabel="draws", ylabel="epsilon (nats)", xscale="log", yscale="log")
    ax.set_title(title, fontsize="medium")
    return _finish(ax)


def plot_sample_sizes(
    etas: Sequence[float], records: Mapping[float, Sequence[float]], title: str, ax: Any = None
) -> Any:
    """Plot records against the divergence eta, for each probability of more than eta."""
    ax = axes_or_new(ax)
    for (beta, needed), color in zip(records.items(), COLORS * len(records), strict=False):
        ax.plot(etas, needed, color=color, label=f"all but {beta:g} of the draws")
    ax.set(xlabel="KL divergence from the data (nats)", ylabel="records", xscale="log")
    ax.set(yscale="log")
    ax.set_title(title, fontsize="medium")
    return _finish(ax)


def _finish(ax: Any) -> Any:
    ax.legend(frameon=False, fontsize="small")
    ax.grid(alpha=0.25)
    return ax
