"""This package's own draws, audited from outside: the certificate and the grid hold."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.audit import attaining_records, release_leaks, seed_reuse
from pymc_private.planning import reconstruction_floor
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.randomness import SeededRandomness, grid_width, round_to_grid
from pymc_private.samplers.rejection import sample_by_rejection
from tests.statistics import epsilon_lower_bound, lattice_leak, membership, reconstruction

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
    points = sample_by_rejection(target, DRAWS, SeededRandomness.from_seed(seed))
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
    points = sample_by_rejection(Target(model(0, 1.0)), 50, SeededRandomness.from_seed(3))
    assert lattice_leak(points, width=grid_width(np.array([0.1]), np.array([0.9]))).leaks


def log_odds(p: np.ndarray) -> np.ndarray:
    return np.sum(np.log(p) - np.log1p(-p), axis=1)


def test_no_adversary_beats_the_total_variation_that_the_certificate_leaves(outputs):
    claim = pmp.certify(model(0, 1.0)).guarantee(1)
    found = membership(*outputs, score=log_odds, claim=claim)
    assert not found.breaks
    assert found.at_least > 0.05
    tempered = pmp.certify(model(0, 0.01)).guarantee(1)
    assert membership(*outputs, score=log_odds, claim=tempered).breaks  # a power that is ignored


def test_ten_draws_tell_more_than_one_and_no_more_than_ten_may(outputs):
    ten = [part.reshape(-1, 10) for part in outputs]
    claim = pmp.certify(model(0, 1.0)).guarantee(10)
    found = membership(*ten, score=log_odds, claim=claim)
    one = membership(*outputs, score=log_odds)
    assert not found.breaks
    assert found.advantage > one.advantage
    floor = reconstruction_floor(claim, 1.0)
    worlds = {1: list(ten[0]), 0: list(ten[1])}
    guesses = reconstruction(lambda p: int(log_odds(p[None])[0] > 0), worlds, floor=floor)
    assert not guesses.breaks


def test_the_certificates_worst_pair_is_the_record_that_was_varied():
    one, other = attaining_records(pmp.certify(model(0, 1.0)))
    assert {float(one["y"]), float(other["y"])} == {0.0, 1.0}


def test_a_release_holds_nothing_but_draws_and_public_facts():
    secret = {"y": np.array([1, 0, 1, 0, 1, 0])}
    release = pmp.sample(model(1, 1.0), draws=3, random_seed=1, progressbar=False)
    assert not release_leaks(release, secret).leaks
    assert not release_leaks(release.to_arviz(), secret).leaks
    # The same draws, made into a release on neighboring data: nothing else may differ.
    twin = pmp.sample(model(0, 1.0), draws=3, random_seed=1, progressbar=False)
    same = pmp.Release(release.posterior, twin.guarantee, twin.facts, twin.private)
    assert not release_leaks(release, twin=same).leaks


def test_our_own_seeded_draws_are_found_by_their_seed():
    def replay(answer: int, seed: int) -> np.ndarray:
        release = pmp.sample(model(answer, 1.0), draws=2, random_seed=seed, progressbar=False)
        return release.posterior["p"].values

    found = seed_reuse(replay(1, 42), replay, [0, 1], [42])
    assert found.data == 1
