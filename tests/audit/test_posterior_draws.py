"""This package's own draws, audited from outside: the certificate and the grid hold."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.samplers.boxes import sample_boxes
from pymc_private.samplers.randomness import SeededRandomness, grid_width, round_to_grid
from pymc_private.samplers.target import Target
from tests.statistics import epsilon_lower_bound, lattice_leak

DRAWS = 3000
SMALLER = 0.1


def model(answer: int, power: float) -> pmp.PrivateModel:
    """Six coins of an unknown bias; the first is the record that two neighbors differ in."""
    with pm.Model(coords={"person": range(6)}) as coins:
        p = pm.Uniform("p", 0, 1)
        pm.Bernoulli("y", p=p, observed=np.array([answer, 0, 1, 0, 1, 0]), dims="person")
    private = pmp.privatize(coins, records="person")
    return pmp.temper(pmp.trim(private, box={"p": (0.1, 0.9)}), power)


def draws(answer: int, power: float, seed: int) -> np.ndarray:
    target = Target(model(answer, power))
    points = sample_boxes(target, DRAWS, SeededRandomness.from_seed(seed))
    return round_to_grid(points, target.lower, target.upper)


@pytest.fixture(scope="module")
def outputs() -> tuple[np.ndarray, np.ndarray]:
    return draws(1, 1.0, seed=1), draws(0, 1.0, seed=2)


def test_posterior_draws_keep_the_certified_range(outputs):
    certified = pmp.certify(model(0, 1.0)).range
    found = epsilon_lower_bound(*outputs)
    assert 0.2 < found.epsilon < certified
    assert not found.refutes(certified)


def test_a_sampler_that_ignores_the_power_breaks_the_certificate(outputs):
    promised = pmp.certify(model(0, SMALLER / np.log(81))).range
    assert promised == pytest.approx(SMALLER)
    assert epsilon_lower_bound(*outputs).refutes(promised)


def test_posterior_draws_are_on_the_public_grid_and_their_low_bits_agree(outputs):
    width = grid_width(np.array([0.1]), np.array([0.9]))
    assert not lattice_leak(*outputs, width=width, claim=np.log(81)).leaks


def test_a_sampler_that_forgets_to_round_is_caught(outputs):
    points = sample_boxes(Target(model(0, 1.0)), 50, SeededRandomness.from_seed(3))
    assert lattice_leak(points, width=grid_width(np.array([0.1]), np.array([0.9]))).leaks
