"""A certificate: the proved range of one record's log-likelihood beside the searched one."""

import numpy as np
import pymc as pm
from matplotlib.figure import Figure

import pymc_private as pmp


def draw():
    with pm.Model(coords={"person": range(500)}) as model:
        center = pm.Normal("center", 0, 1)
        spread = pm.HalfNormal("spread", 1)
        pm.StudentT("y", nu=4, mu=center, sigma=spread, observed=np.zeros(500), dims="person")
    private = pmp.privatize(model, records="person", domain={"y": (-3, 3)})
    certificate = pmp.certify(pmp.trim(private, mass=0.9), progressbar=False)
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    certificate.plot(figure.subplots())
    return figure
