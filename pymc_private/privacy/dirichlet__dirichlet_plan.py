"""One Dirichlet draw that meets a budget at the least expected divergence (T12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from scipy.optimize import minimize_scalar
from pymc_private.privacy.validation import inside_unit, positive
from pymc_private.privacy.beta_gamma_pairs import beta_pair_alpha
from pymc_private.privacy.dirichlet import dirichlet_expected_kl

@dataclass(frozen=True)
class DirichletPlan:
    """A power of the counts and a prior parameter that meet a budget.

    Attributes
    ----------
    r, alpha : float
        Draw from Dir(r f + alpha).
    expected_kl : float
        At the public profile, nats.
    """

    r: float
    alpha: float
    expected_kl: float


def dirichlet_plan(epsilon: float, delta: float, profile: Sequence[float]) -> DirichletPlan:
    """Choose r and alpha of one Dirichlet draw with the least expected divergence.

    For each r the least alpha that meets the budget is exact (T9); r is then searched. The profile
    is public: uniform, prior-predictive or of earlier public data, never the private counts.

    Parameters
    ----------
    epsilon : float, nats
        > 0.
    delta : float
        In (0, 1).
    profile : sequence of float
        Counts to judge by.

    Returns
    -------
    DirichletPlan
        Meets (epsilon, delta) whatever the search found.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T12.
    """
    positive(epsilon=epsilon)
    inside_unit(delta=delta)

    def plan(log_r: float) -> DirichletPlan:
        r = math.exp(log_r)
        alpha = beta_pair_alpha(epsilon, delta, r)
        return DirichletPlan(r, alpha, dirichlet_expected_kl(profile, r, alpha))

    start = math.log(epsilon)
    found = minimize_scalar(
        lambda x: plan(x).expected_kl,
        bounds=(start - 6.0, start + 4.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return plan(float(found.x))
