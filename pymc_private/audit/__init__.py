"""Attacks and statistical tests: whether draws keep what the guarantee says.

Imports: errors, privacy; NumPy, SciPy. Nothing imports this room, and it knows no model and no
sampler: it judges draws, whoever made them. What it finds is proved but for a stated probability;
what it does not find proves nothing.
"""

from pymc_private.audit.allowance import ALLOWANCE, FALSE_ALARM, POWER, Allowance
from pymc_private.audit.envelopes import cdf_envelope, mean_envelope
from pymc_private.audit.epsilon import EpsilonBound, epsilon_lower_bound
from pymc_private.audit.events import Event
from pymc_private.audit.lattice import LatticeLeak, lattice_leak
from pymc_private.audit.proportions import neighbors_agree, proportion
from pymc_private.audit.verdict import Verdict

__all__ = [
    "ALLOWANCE",
    "FALSE_ALARM",
    "POWER",
    "Allowance",
    "EpsilonBound",
    "Event",
    "LatticeLeak",
    "Verdict",
    "cdf_envelope",
    "epsilon_lower_bound",
    "lattice_leak",
    "mean_envelope",
    "neighbors_agree",
    "proportion",
]
