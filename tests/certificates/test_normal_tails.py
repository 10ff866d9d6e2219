"""Models with log Phi: what gradient samplers draw from is what is certified."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from tests.models.brute_force import natural_logp

HERE, THERE = -9.0, 0.0


def censored(clip=False):
    """Two of three outcomes are known to be above 1."""
    with pm.Model(coords={"i": range(3)}) as model:
        errors = pm.Normal.dist(pm.Normal("m", 0, 10), 1.0)
        pm.Censored("y", errors, lower=None, upper=1.0, observed=[1.0, 1.0, 0.5], dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    return model, pmp.clip(private, -1000.0, 0.0) if clip else private


def rise(model):
    """Log density here less that there."""
    logp = natural_logp(model)
    return logp({"m": np.array(HERE)}) - logp({"m": np.array(THERE)})


def truth(power):
    """The same by SciPy."""
    logs = [
        stats.norm.logpdf(m, 0, 10)
        + power * (2 * stats.norm.logsf(1.0, m) + stats.norm.logpdf(0.5, m))
        for m in (HERE, THERE)
    ]
    return logs[0] - logs[1]


@pytest.mark.thin(4)
@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("clip", [False, True])
def test_a_private_model_reads_log_phi_to_the_last_digits(power, clip):
    _, private = censored(clip)
    drawn = private if power == 1.0 else pmp.temper(private, power)
    assert rise(drawn.model) == pytest.approx(truth(power), rel=1e-13)


def test_pymcs_own_forms_differ():
    """Why the private model is another one; if this fails, PyMC no longer needs it."""
    model, _ = censored()
    assert abs(rise(model) - truth(1.0)) > 1e-9
