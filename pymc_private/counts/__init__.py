"""Private tables of counts.

What one record is in them, noise on them, and posteriors of probabilities given noisy counts.
Imports: release, samplers, ledger, privacy; narwhals, where a table is counted.
"""

from pymc_private.counts.declared_columns import Bins
from pymc_private.counts.dirichlet import count_posterior, dirichlet, noisy_counts

__all__ = ["Bins", "count_posterior", "dirichlet", "noisy_counts"]
