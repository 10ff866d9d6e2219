"""Study planning: accuracy, attacks and robustness before any data are seen.

Imports: errors, privacy; NumPy, SciPy. Nothing here reads a record: every number follows from
the range R of one record (a certificate's, or of `pymc_private.privacy`), from epsilon and
delta, and from public reference data.
"""

from pymc_private.planning.accuracy import (
    Study,
    TradeOff,
    draws_needed,
    epsilon_for_accuracy,
    epsilon_needed,
    misspecification_kl,
    misspecification_tv,
    records_needed,
    study,
    trade_off,
    trimming_loss,
)
from pymc_private.planning.adversary import (
    Adversary,
    advantage,
    adversary,
    beta_bernoulli_pair,
    draws_to_distinguish,
    gamma_exponential_pair,
    grid_pair,
    partition_radius,
    reconstruction_floor,
    records_to_distinguish,
    separable_records,
)
from pymc_private.planning.robustness import Robustness, posterior_kl, posterior_tv, robustness

__all__ = [
    "Adversary",
    "Robustness",
    "Study",
    "TradeOff",
    "advantage",
    "adversary",
    "beta_bernoulli_pair",
    "draws_needed",
    "draws_to_distinguish",
    "epsilon_for_accuracy",
    "epsilon_needed",
    "gamma_exponential_pair",
    "grid_pair",
    "misspecification_kl",
    "misspecification_tv",
    "partition_radius",
    "posterior_kl",
    "posterior_tv",
    "reconstruction_floor",
    "records_needed",
    "records_to_distinguish",
    "robustness",
    "separable_records",
    "study",
    "trade_off",
    "trimming_loss",
]
