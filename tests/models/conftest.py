"""Private models and certificates of the zoo, made once a session."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.zoo import BY_NAME, N
from pymc_private import certify


@cache
def private_of(name: str, seed: int = 1):
    entry = BY_NAME[name]
    return entry.privatize(entry.data(np.random.default_rng(seed), N))


@cache
def certificate_of(name: str):
    entry = BY_NAME[name]
    # Refined only as far as the test asks: what is counted is work, so this is the same each time.
    return certify(private_of(name), tolerance=0.05 if entry.exact else entry.ceiling - 1)


@pytest.fixture(scope="session")
def private():
    """Give the private model of a zoo entry, by name (and seed of its data)."""
    return private_of


@pytest.fixture(scope="session")
def certificate():
    """Give the certificate of a zoo entry, by name."""
    return certificate_of
