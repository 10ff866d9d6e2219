"""Private draws of the probabilities of three categories, by epsilon, on their simplex."""

import numpy as np
from matplotlib.figure import Figure

import pymc_private as pmp

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def draw():
    counts = [60, 30, 10]
    shares = np.array(counts) / 100
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    for axes, epsilon in zip(figure.subplots(1, 3), (0.1, 0.5, 2.0), strict=True):
        ledger = pmp.Ledger(epsilon=201 * epsilon, delta=0.01)  # the table is made up
        drawn = [
            pmp.dirichlet(counts, epsilon=epsilon, delta=1e-6, method="exact", ledger=ledger)
            for _ in range(200)
        ]
        points = np.array([np.ravel(one.posterior["p"]) for one in drawn]) @ CORNERS
        axes.fill(*CORNERS.T, fc="#f3f5f7", ec="0.6")
        axes.plot(*points.T, "o", ms=3, alpha=0.5, color="#2b6298")
        axes.plot(*(shares @ CORNERS), "x", ms=9, mew=2, color="k")
        for corner, name in zip(CORNERS, ("red", "green", "blue"), strict=True):
            axes.annotate(name, corner, ha="center", va="bottom" if corner[1] else "top")
        axes.set_title(f"epsilon = {epsilon:g}", fontsize=10)
        axes.set_aspect("equal")
        axes.axis("off")
        axes.margins(0.12)
    return figure
