"""A decision from fixed draws (PSAQR): expected utilities, and what the choice may lose."""

import numpy as np
import pymc as pm
from matplotlib.figure import Figure

import pymc_private as pmp


def draw():
    n = 4000
    calls = np.random.default_rng(1).integers(0, 2, n)
    with pm.Model(coords={"call": range(n)}) as model:
        rate = pm.Beta("rate", 2, 2)
        pm.Bernoulli("urgent", rate, observed=calls, dims="call")
    private = pmp.privatize(model, records="call")
    plan = pmp.calibrate(private, epsilon=2, delta=1e-6, draws=100)
    release = pmp.sample(plan, ledger=pmp.Ledger(epsilon=2, delta=1e-5), progressbar=False)
    near = "1 - 2 * abs(rate - response) if abs(rate - response) < 0.5 else 0"  # within [0, 1]
    answer = pmp.answer(release, near, [0.1, 0.3, 0.5, 0.7, 0.9])
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    answer.plot(figure.subplots())
    return figure
