"""delta(epsilon) of five exact draws by every accounting method, and the best of them."""

from matplotlib.figure import Figure

import pymc_private as pmp


def draw():
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    pmp.Guarantee.bounded_range_of(0.3, draws=5).plot(figure.subplots())
    return figure
