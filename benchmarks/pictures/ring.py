"""A ring of modes, mollified: what may be drawn at each epsilon, and a reference that is flat."""

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import pymc_private as pmp


def draw():
    rng = np.random.default_rng(1)
    angles = 2 * np.pi * rng.integers(0, 8, 4000) / 8
    rows = np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(0, 0.12, (4000, 2))
    reference = [stats.norm(0, 1), stats.norm(0, 1)]  # public
    side = np.linspace(-2.2, 2.2, 80)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    figure = Figure(figsize=(8.8, 2.6), layout="constrained")
    panels = figure.subplots(1, 4)
    panels[0].plot(*rows[:800].T, ".", ms=2, color="0.35")
    panels[0].set_title("data", fontsize=10)
    for axes, epsilon in zip(panels[1:], (0.5, 2.0, 6.0), strict=True):
        density = np.exp(pmp.mollify(rows, reference, epsilon=epsilon).logpdf(grid))
        axes.pcolormesh(side, side, density.reshape(80, 80), cmap="Blues", rasterized=True)
        axes.set_title(f"epsilon = {epsilon:g}", fontsize=10)
    for axes in panels:
        axes.set(xticks=[], yticks=[], xlim=(-2.2, 2.2), ylim=(-2.2, 2.2), aspect="equal")
    return figure
