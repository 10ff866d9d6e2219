"""Study planning: accuracy, attacks and robustness before any data are seen.

Imports: errors, privacy; NumPy, SciPy. Nothing here reads a record: every number follows from
the range R of one record (a certificate's, or of `pymc_private.privacy`), from epsilon and
delta, and from public reference data; forecasts for summaries from two standard deviations that
`SummaryPlan.trade_off` simulates.
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
from pymc_private.planning.summary_trade_off import (
    SummaryTradeOff,
    detection_power,
    summary_trade_off,
)

__all__ = [
    "Adversary",
    "Robustness",
    "Study",
    "SummaryTradeOff",
    "TradeOff",
    "advantage",
    "adversary",
    "beta_bernoulli_pair",
    "detection_power",
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
    "summary_trade_off",
    "trade_off",
    "trimming_loss",
]
