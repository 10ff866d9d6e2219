"""Models beside the zoo: slack at most a fifth, and no pair of records that escapes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import pymc_private as pmp
from benchmarks.held_out import BY_NAME
from benchmarks.zoo import N
from tests.models.brute_force import own_logp, random_points

SOON = {"beta regression", "change point of years", "ordered logistic"}
NAMES = [name if name in SOON else pytest.param(name, marks=pytest.mark.audit) for name in BY_NAME]


@cache
def private(name: str, seed: int = 1):
    return BY_NAME[name].privatize(BY_NAME[name].data(np.random.default_rng(seed), N))


@cache
def certificate(name: str) -> pmp.Certificate:
    return pmp.certify(private(name), progressbar=False)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_held_out_model_has_a_tight_certificate(name):
    found = certificate(name)
    assert 0 < found.searched <= found.range
    assert found.tightness <= 1.2


def whole(model, point):
    """The point, with numbers of the type that each parameter has."""
    types = {name: v.type.dtype for name, v in model.graph.parameters.items()}
    return {name: np.asarray(np.floor(v) if "int" in types[name] else v).astype(types[name])
            for name, v in point.items()}  # fmt: skip


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", NAMES)
def test_no_pair_of_records_escapes_the_range(name):
    """PyMC's own log-likelihood of random records, at random points of the box."""
    model, rng = private(name), np.random.default_rng(7)
    logp = own_logp(model)
    rows = np.array([logp(whole(model, point)) for point in random_points(model, rng, 60)])
    pairs = rows[:, :, None] - rows[:, None, :]
    variation = (pairs.max(axis=0) - pairs.min(axis=0)).max()
    assert 0 < variation <= certificate(name).range * (1 + 1e-12)
