"""Criticism of a model that was fitted to a noisy summary: score tests within the budget (T38).

What needs no budget is here, too: the extended model, and sensitivity to the prior.

Imports: summaries and all below.
"""

from pymc_private.criticism.charged_check import check
from pymc_private.criticism.check_plan import CheckPlan, check_plan
from pymc_private.criticism.check_result import Check
from pymc_private.criticism.extended_model import extended_model, log_bayes_factor
from pymc_private.criticism.power_scaling import PowerScaling, power_scaling

__all__ = [
    "Check",
    "CheckPlan",
    "PowerScaling",
    "check",
    "check_plan",
    "extended_model",
    "log_bayes_factor",
    "power_scaling",
]
