"""A plan for draws: what one record's worth is left of the data, by number of draws."""

from matplotlib.figure import Figure

import pymc_private as pmp
from pymc_private import demo


def draw():
    private = demo.declare_records(demo.fair_model())
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=[10, 1, 3, 30, 100])
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    plan.plot(figure.subplots())
    return figure
