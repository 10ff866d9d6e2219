"""Plots of a `Check`, z of its departures and cells, and of sensitivity by power-scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from pymc_private.privacy.plots import axes_or_new
from pymc_private.summaries.plots import CHOSEN_COLOR, LINE_COLOR, OTHER_COLOR


def plot_check(check: Any, ax: Any = None) -> Any:
    """Plot z of each departure over the band that holds 95% of them under the fitted model."""
    ax = axes_or_new(ax, 5.5, 1.2 + 0.4 * len(check.tests))
    places = np.arange(len(check.tests))[::-1]
    critical = float(ndtri(1.0 - 0.05 / (2 * len(check.tests))))
    usual = float(ndtri(0.975))
    ax.axvspan(-critical, critical, color=LINE_COLOR, alpha=0.25, linewidth=0)
    ax.axvspan(-usual, usual, color=LINE_COLOR, alpha=0.35, linewidth=0)
    ax.axvline(0.0, color=LINE_COLOR, linewidth=1)
    for place, test in zip(places, check.tests, strict=True):
        seen = check.p_holm[test.name] < 0.05
        ax.plot([0.0, test.z], [place, place], color=OTHER_COLOR, linewidth=1)
        ax.plot(test.z, place, "o", color=CHOSEN_COLOR if seen else OTHER_COLOR)
    ax.set_yticks(places, [test.name for test in check.tests])
    ax.set_ylim(-0.6, len(places) - 0.4)
    reach = 1.15 * max(critical, *(abs(test.z) for test in check.tests))
    ax.set_xlim(-reach, reach)
    ax.set_xlabel("z: standard deviations from the fitted model")
    bands = "band: 95% each" if len(places) == 1 else "bands: 95% each, and of all together"
    ax.set_title(bands, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_cells(check: Any) -> Any:
    """Plot noisy counts by F(y | x), with the band of a right model, and residuals of all cells.

    Bands and residuals take the fit as known: they are for looking, the contrasts are the tests.
    """
    import matplotlib.pyplot as plt

    counts, noise = check.counts, check.counts_noise_sd
    bins, size = counts.shape
    figure = plt.figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    total = counts.sum()
    share = counts.sum(axis=0) / total * size
    sd = np.sqrt(total / size * (1 - 1 / size) + bins * noise**2) / total * size
    middles = (np.arange(size) + 0.5) / size
    left.axhspan(1 - 1.96 * sd, 1 + 1.96 * sd, color=LINE_COLOR, alpha=0.4, linewidth=0)
    left.axhline(1.0, color=LINE_COLOR, linewidth=1)
    left.bar(middles, share, width=0.9 / size, color=OTHER_COLOR, alpha=0.7)
    left.set_xlim(0, 1)
    left.set_ylim(0, max(1.3, 1.1 * share.max()))
    left.set_xlabel("F(y | x) under the fitted model")
    left.set_title("density of F, band: 95% each", fontsize=10)
    row = np.maximum(counts.sum(axis=1, keepdims=True), size) / size
    z = (counts - counts.mean(axis=1, keepdims=True)) / np.sqrt(row * (1 - 1 / size) + noise**2)
    image = right.imshow(
        z, cmap="RdBu_r", vmin=-4, vmax=4, origin="lower", aspect="auto", extent=(0, 1, 0, bins)
    )
    right.set_yticks(np.arange(bins) + 0.5, [f"{k + 1}" for k in range(bins)])
    right.set_xlabel("F(y | x)")
    right.set_ylabel("bin of the linear predictor")
    right.set_title("residuals in standard deviations", fontsize=10)
    figure.colorbar(image, ax=right)
    left.spines[["top", "right"]].set_visible(False)
    return figure


def plot_power_scaling(found: Any, notable: float, ax: Any = None) -> Any:
    """Plot the sensitivities of each element to prior and summary; the line is worth a thought."""
    ax = axes_or_new(ax, 5.5, 1.2 + 0.3 * len(found.names))
    places = np.arange(len(found.names))[::-1]
    ax.axvline(notable, color=LINE_COLOR, linewidth=1)
    ax.plot(found.likelihood, places, "o", color=OTHER_COLOR, label="summary")
    ax.plot(found.prior, places, "D", color=CHOSEN_COLOR, label="prior")
    ax.set_yticks(places, found.names)
    ax.set_ylim(-0.6, len(places) - 0.4)
    ax.set_xlim(0.0, 1.1 * max(2.0 * notable, found.prior.max(), found.likelihood.max()))
    ax.set_xlabel("sensitivity to the power of")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
