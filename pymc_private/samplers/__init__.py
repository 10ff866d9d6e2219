"""Posterior samplers, what is proved of each, and the choice among them.

Imports: models, analysis, errors. A sampler can be read without knowing differential privacy:
it states how far its draws are from the posterior, and the accounting prices that distance.
"""

from pymc_private.samplers.diagnostics import (
    CouplingEvidence,
    CuratorDiagnostics,
    coupling_evidence,
    diagnose,
)
from pymc_private.samplers.method import Boxes, Conjugate, Grid, Nuts, Proximal

__all__ = [
    "Boxes",
    "Conjugate",
    "CouplingEvidence",
    "CuratorDiagnostics",
    "Grid",
    "Nuts",
    "Proximal",
    "coupling_evidence",
    "diagnose",
]
