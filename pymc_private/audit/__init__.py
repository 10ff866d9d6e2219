"""Attacks and statistical tests: whether draws keep what the guarantee says.

Imports: errors, privacy, planning; NumPy, SciPy. Nothing imports this room, and it knows no model
and no sampler: it judges draws, whoever made them. What it finds is proved but for a stated
probability; what it does not find proves nothing.
"""

from pymc_private.audit.statistical_tests__allowance import ALLOWANCE, Allowance, FALSE_ALARM, POWER
from pymc_private.audit.attacks import Attack, Reconstruction, attack, membership, reconstruction
from pymc_private.audit.epsilon__delta import DeltaBound, delta_lower_bound
from pymc_private.audit.statistical_tests import cdf_envelope, mean_envelope
from pymc_private.audit.epsilon import EpsilonBound, epsilon_lower_bound
from pymc_private.audit.events import Event
from pymc_private.audit.floating_point import LatticeLeak, lattice_leak
from pymc_private.audit.leaks import Leak, ReleaseLeaks, release_leaks
from pymc_private.audit.attacks__neighbors import Neighbors, attaining_records, worst_neighbors
from pymc_private.audit.attacks__partition import PartitionGuess, partition_adversary
from pymc_private.audit.statistical_tests__proportions import neighbors_agree, proportion
from pymc_private.audit.floating_point__seeds import SeedReuse, seed_reuse
from pymc_private.audit.events__trials import outputs
from pymc_private.audit.statistical_tests__verdict import Verdict

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
