"""No draw that is private asks NumPy for random numbers: theirs can be foretold from outputs."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.samplers.choose import SAMPLERS_BY_NAME
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness

Y = np.array([0, 1, 1, 0, 1, 1, 0, 1])


def _refuse(*arguments, **named):
    raise AssertionError("a private draw asked NumPy for randomness")


@pytest.fixture
def no_numpy(monkeypatch):
    """Call it, and NumPy's generators raise; a plan may ask them before, it reads no data."""
    names = ("default_rng", "RandomState", "random", "rand", "randn", "normal", "uniform", "choice")

    def refuse() -> None:
        for name in names:
            monkeypatch.setattr(np.random, name, _refuse)

    return refuse


def beta():
    with pm.Model(coords={"i": range(len(Y))}) as model:
        pm.Bernoulli("y", p=pm.Beta("p", 2, 2), observed=Y, dims="i")
    return pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.8)})


def regression():
    x = np.linspace(-1, 1, len(Y))
    with pm.Model(coords={"i": range(len(Y))}) as model:
        covariate = pm.Data("x", x, dims="i")
        slope = pm.Normal("b", 0, 1)
        pm.Bernoulli("y", logit_p=slope * covariate, observed=Y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    return pmp.trim(private, box={"b": (-2, 2)})


# NUTS runs on a generator of its back end, and its claim says so.
EXACT = [name for name in SAMPLERS_BY_NAME if name != "nuts"]


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", EXACT)
def test_private_draws_come_from_the_operating_system(name, no_numpy):
    private = regression() if name == "proximal" else beta()
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=2, sampler=name)
    no_numpy()
    drawn = plan.method.sample(plan.private, 2, SystemRandomness(), lambda done: None)
    assert all(len(values) == 2 for values in drawn.values())


def test_the_dirichlet_road_too(no_numpy):
    def release():
        ledger = pmp.Ledger(epsilon=3, delta=1e-5)
        return pmp.dirichlet([3, 4, 5], epsilon=1, delta=1e-6, method="exact", ledger=ledger)

    release()  # imports what asks NumPy once, as it loads
    no_numpy()
    assert np.isfinite(np.asarray(release().posterior.to_array())).all()


@pytest.mark.parametrize("name", EXACT[:1])
def test_a_seeded_draw_does_ask_numpy_so_the_patch_is_seen(name, no_numpy):
    plan = pmp.calibrate(beta(), epsilon=1, draws=2, sampler=name)
    no_numpy()
    with pytest.raises(AssertionError, match="asked NumPy"):
        plan.method.sample(plan.private, 2, SeededRandomness.from_seed(1), lambda done: None)
