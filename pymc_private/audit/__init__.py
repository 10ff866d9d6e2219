"""Audits of mechanisms: lower bounds on epsilon and delta, attacks and leak tests.

Imports: errors, privacy, planning; NumPy, SciPy. No other subpackage imports this one, and it
knows no model and no sampler: it judges draws, whoever made them. A violation it reports is
proved but for a stated probability; finding none proves nothing.
"""

from pymc_private.audit.attacks import (
    Attack,
    Neighbors,
    PartitionGuess,
    Reconstruction,
    attack,
    attaining_records,
    membership,
    partition_adversary,
    reconstruction,
    worst_neighbors,
)
from pymc_private.audit.epsilon import (
    DeltaBound,
    EpsilonBound,
    delta_lower_bound,
    epsilon_lower_bound,
)
from pymc_private.audit.events import Event, outputs
from pymc_private.audit.floating_point import LatticeLeak, SeedReuse, lattice_leak, seed_reuse
from pymc_private.audit.leaks import Leak, ReleaseLeaks, release_leaks
from pymc_private.audit.statistical_tests import (
    ALLOWANCE,
    FALSE_ALARM,
    POWER,
    Allowance,
    Verdict,
    cdf_envelope,
    mean_envelope,
    neighbors_agree,
    proportion,
)

__all__ = [
    "ALLOWANCE",
    "FALSE_ALARM",
    "POWER",
    "Allowance",
    "Attack",
    "DeltaBound",
    "EpsilonBound",
    "Event",
    "LatticeLeak",
    "Leak",
    "Neighbors",
    "PartitionGuess",
    "Reconstruction",
    "ReleaseLeaks",
    "SeedReuse",
    "Verdict",
    "attack",
    "attaining_records",
    "cdf_envelope",
    "delta_lower_bound",
    "epsilon_lower_bound",
    "lattice_leak",
    "mean_envelope",
    "membership",
    "neighbors_agree",
    "outputs",
    "partition_adversary",
    "proportion",
    "reconstruction",
    "release_leaks",
    "seed_reuse",
    "worst_neighbors",
]
