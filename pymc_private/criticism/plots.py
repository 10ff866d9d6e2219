"""The plot of a `Check`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from pymc_private.summaries.plots import CHOSEN_COLOR, LINE_COLOR, OTHER_COLOR


def plot_check(check: Any, ax: Any = None) -> Any:
    """Plot z of each departure over the band that holds 95% of them under the fitted model."""
    if ax is None:
        from matplotlib.figure import Figure

        height = 1.2 + 0.4 * len(check.tests)
        ax = Figure(figsize=(5.5, height), layout="constrained").add_subplot()
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
