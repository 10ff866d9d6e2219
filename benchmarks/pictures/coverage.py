"""How often intervals of a summary hold, simulated before anything is charged."""

import numpy as np
import pymc as pm
from matplotlib.figure import Figure

import pymc_private as pmp


def draw():
    n = 1000
    with pm.Model(coords={"person": range(n)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, n), dims="person")
        intercept, slope = pm.Normal("intercept", 0, 1), pm.Normal("slope", 0, 1)
        pm.Bernoulli("y", logit_p=intercept + slope * x, observed=np.arange(n) % 2, dims="person")
    private = pmp.privatize(model, records="person", domain={"x": (-1, 1)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    found = plan.coverage(simulations=60, random_seed=1, progressbar=False)
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    found.plot(figure.subplots())
    return figure
