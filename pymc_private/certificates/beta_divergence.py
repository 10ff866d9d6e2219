"""The `beta_divergence` function: records scored by a bounded score of their density.

Where the density of an outcome is at most M, its score varies by M^beta (1 / beta + 1 / (1 + beta))
at most, without a clip. Certificates come from intervals, as those of any model (T1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymc_private.certificates.clip import finite_number, refuse_improper
from pymc_private.errors import DomainError, Unsupported, suggest_arguments
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.models.scored_model import scored_model

LEAST_BETA, MOST_BETA = 1e-6, 100.0
"""Below the first a score is the log-density to all digits; above the second densities overflow."""


@suggest_arguments
def beta_divergence(private: PrivateModel, beta: float = 0.5) -> PrivateModel:
    """Score each outcome by the beta-divergence in place of its log-density.

    With f the density of an outcome y given the parameters (and covariates), the score is
    ``(f(y)^beta - 1) / beta - (I - 1) / (1 + beta)``, I being the integral of f^(1 + beta). It is
    bounded for any bounded density, so that one record can change it by a bounded amount, and it
    tends to log f(y) as beta tends to zero. Records that the model finds unlikely count less.

    Parameters
    ----------
    private : PrivateModel
    beta : float
        Positive; fixed without looking at the data. The larger, the less unlikely records count;
        0.5 is the choice of Jewson et al.

    Returns
    -------
    PrivateModel
        Like the given one: trim, temper, certify and calibrate it. Its `.model` is a plain PyMC
        model, in which a potential ``<name>_beta`` has taken the place of each outcome.

    Raises
    ------
    DomainError
        A beta that is not positive and finite; a prior that is improper on the region.
    Unsupported
        A factor of the records that is no distribution of data (a potential, a sequence), or an
        outcome whose integral is not known; a model that is clipped or scored already.

    Notes
    -----
    The posterior is that of a score, not of a likelihood (general Bayes). If the records come from
    the model, it concentrates at their parameters, and with a share of records from elsewhere near
    them; but its width is not that of the model's posterior, and no coverage is promised. Outcomes
    of a record with several entries are scored one by one. An unbounded density (a scale that may
    be zero) has no certificate: `trim` the scale.

    The integral has a closed form for the usual families and is a sum or a fixed rule over the
    declared domain otherwise (`pymc_private.models.density_powers`). A density that is narrower
    than the rule's steps, a hundredth of the domain or so, is scored wrongly: trim its scale. The
    certificate is about the function that is computed, whatever its accuracy.

    References
    ----------
    Basu, Harris, Hjort and Jones (1998); Bissiri, Holmes and Walker (2016); Jewson, Ghalebikesabi
    and Holmes (2023), "Differentially private statistical inference through beta-divergence one
    posterior sampling". Theory T1, T39.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_private as pmp
    >>> with pm.Model(coords={"visit": range(4)}) as model:
    ...     _ = pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.zeros(4), dims="visit")
    >>> private = pmp.privatize(model, records="visit", domain={"y": (-3, 3)})
    >>> round(pmp.certify(pmp.beta_divergence(private, beta=0.5)).range, 2)
    2.5
    """
    private = require_private_model(private)
    beta = finite_number("beta of a beta-divergence", beta)
    _refuse_unscorable(private, beta)
    refuse_improper(private, "scored")
    found = scored_model(private, beta)
    return replace(found, claims=(*found.claims, *score_claims(found)))


def _refuse_unscorable(private: PrivateModel, beta: float) -> None:
    """Refuse an impossible beta, and models that were changed, or read records, in other ways."""
    if not LEAST_BETA <= beta <= MOST_BETA:
        raise DomainError(
            "beta of a beta-divergence must be positive",
            got=f"{beta:.6g}",
            allowed=f"{LEAST_BETA:g} to {MOST_BETA:g}",
            do="0.5, or less where few records are unlikely",
        )
    changed = {
        "a clipped model": private.graph.clip is not None,
        "a model that is scored already": private.score is not None,
        "a model trimmed to Theta_L": private.theta_l is not None,
        "factor rows that read several records": bool(private.graph.windows),
    }
    found = [words for words, holds in changed.items() if holds]
    if found:
        raise Unsupported(
            "the beta-divergence takes the place of densities of single records",
            got=found[0],
            allowed="models as privatize, trim(box=, mass=) and temper leave them",
            do="call beta_divergence before clip and trim(lipschitz=); clip a sequence instead",
        )


def score_claims(private: PrivateModel) -> tuple[str, ...]:
    """What a score assumes, and the choice it makes."""
    score: Any = private.score
    return (
        f"beta-divergence with beta = {score.beta:.12g} in place of the log-density of "
        f"{', '.join(score.original.graph.factors)}; chosen without looking at the data",
        "the prior is proper on the region, as the posterior of a bounded score needs",
    )
