"""Every sampler of this package, audited from outside on two neighbors."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.samplers.randomness import SeededRandomness, grid_width
from tests.statistics import epsilon_lower_bound, lattice_leak

pytestmark = pytest.mark.usefixtures("quick")

SAMPLERS = {
    "conjugate": (pmp.samplers.Conjugate(), 4000),
    "boxes": (pmp.samplers.Boxes(), 3000),
    "grid": (pmp.samplers.Grid(points=40), 4000),
    "proximal": (pmp.samplers.Proximal(tv=1e-6), 3000),
    "purified": (pmp.samplers.Proximal(pure=True, bits=5), 3000),
}
DELTA = 1e-2


def coins(answer: int, power: float) -> pmp.PrivateModel:
    """Two coins of an unknown bias; the first is the record that neighbors differ in."""
    with pm.Model(coords={"person": range(2)}) as model:
        p = pm.Beta("p", 2, 2)
        pm.Bernoulli("y", p=p, observed=np.array([answer, 0]), dims="person")
    private = pmp.privatize(model, records="person")
    return pmp.temper(pmp.trim(private, box={"p": (0.1, 0.9)}), power)


def slopes(answer: int, power: float) -> pmp.PrivateModel:
    """A logistic slope, for the proximal sampler: no box, a Gaussian price."""
    x = np.array([1.0, -0.3])
    with pm.Model(coords={"person": range(2)}) as model:
        at = pm.Data("x", x, dims="person")
        logit = pm.Normal("p", 0, 1.5) * at
        pm.Bernoulli("y", logit_p=logit, observed=np.array([answer, 0]), dims="person")
    return pmp.temper(pmp.privatize(model, records="person", domain={"x": (-1, 1)}), power)


def boxed_slopes(answer: int, power: float) -> pmp.PrivateModel:
    """The same in a box, which has a range, for a pure promise."""
    return pmp.trim(slopes(answer, power), box={"p": (-2.0, 2.0)})


MODELS = {"proximal": slopes, "purified": boxed_slopes}


def outputs(name: str, power: float = 1.0) -> list[np.ndarray]:
    method, draws = SAMPLERS[name]
    build = MODELS.get(name, coins)
    return [
        method.sample(build(y, power), draws, SeededRandomness.from_seed(y + 5), lambda done: None)[
            "p"
        ]
        for y in (1, 0)
    ]


def claim(name: str, power: float = 1.0) -> float:
    method, _ = SAMPLERS[name]
    private = MODELS.get(name, coins)(0, power)
    terms = method.terms(private)
    return pmp.certify(private).on(terms).guarantee(1).epsilon(DELTA)


@pytest.mark.audit
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_keep_the_promise_and_a_price_without_the_power_is_refuted(name):
    found = epsilon_lower_bound(*outputs(name), delta=DELTA)
    assert 0.1 < found.epsilon < claim(name)
    assert not found.refutes(claim(name))
    # Planted: a price that forgot the power.
    assert found.refutes(claim(name, 0.03))


@pytest.mark.audit
def test_conjugate_draws_lie_on_the_public_grid():
    width = grid_width(np.array([0.1]), np.array([0.9]))
    found = [draws[:, None] for draws in outputs("conjugate")]
    assert not lattice_leak(*found, width=width, claim=claim("conjugate")).leaks
