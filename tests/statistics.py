"""The suite's allowance of false alarms: the statistical tests of `pymc_private.audit` pay from it.

The whole suite rejects right code with probability at most ``ALLOWANCE``, whatever the seeds.
"""

from __future__ import annotations

import os

from pymc_private.audit import (
    ALLOWANCE,
    Allowance,
    cdf_envelope,
    epsilon_lower_bound,
    lattice_leak,
    mean_envelope,
    membership,
    neighbors_agree,
    proportion,
    reconstruction,
)

__all__ = [
    "ALLOWANCE",
    "SESSION",
    "Allowance",
    "cdf_envelope",
    "epsilon_lower_bound",
    "lattice_leak",
    "mean_envelope",
    "membership",
    "neighbors_agree",
    "proportion",
    "reconstruction",
]

# Parallel workers cannot see each other's ledger: each gets its share.
SESSION = Allowance(ALLOWANCE / int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
SESSION.__enter__()  # open until the process ends
