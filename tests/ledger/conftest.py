"""Ledgers in a file, and other processes that use them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.sqlite"


@pytest.fixture
def ledger(path):
    """A ledger with four charges, two of them completed."""
    ledger = Ledger(path, epsilon=2, delta=1e-5)
    for i in range(4):
        entry = ledger.charge(Guarantee.pure(0.25), f"draw {i}", name="main", key=str(i))
        if i < 2:
            ledger.store(entry, bytes([i]) * 9000)
    return ledger


@pytest.fixture(scope="session")
def elsewhere(rooms):
    """Run Python in another process, with the rooms of the package; give what it printed."""

    def run(*command: object, codes: tuple[int, ...] = (0,), timeout: float = 120) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *map(str, command)],
            env=os.environ | {"PYTHONPATH": str(rooms)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode in codes, done.stderr
        return done.stdout

    return run
