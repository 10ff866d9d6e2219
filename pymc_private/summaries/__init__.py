"""Noisy summaries: one noisy statistic of the records, and a PyMC model of its noise (from T30 on).

Imports: counts, release, samplers, certificates, models, ledger, privacy, analysis.
"""

from pymc_private.models.reference_rows import KnownCovariates
from pymc_private.summaries.refine import RefinementPlan, refine, refinement_plan

__all__ = ["KnownCovariates", "RefinementPlan", "refine", "refinement_plan"]
