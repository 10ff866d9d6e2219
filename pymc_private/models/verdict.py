"""Verdict on a plan: how much of the prior's uncertainty its release is expected to remove.

In the Gaussian approximation an expected information gain of g nats per parameter
(`models.information`) divides the variance of a parameter by e^(2g), so the share 1 - e^(-2g) of
the prior variance is removed (geometric mean over parameters). That share is the one measure by
which a plan is judged, before the data are read; no figure here is a privacy claim.

Thresholds. A plan is informative from a share of 0.75 on: the posterior is at most half as wide
as the prior. Below 0.2 it is more than 0.89 as wide, and ten draws are hardly told from ten draws
of the prior. `benchmarks/verdict.py` compares the share with what draws really remove in simulated
studies: near a threshold, and with few records, the two may fall on different sides of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from pymc_private.errors import DomainError
from pymc_private.models.prior import in_region, prior_draws
from pymc_private.models.private_model import PrivateModel

INFORMATIVE_SHARE, WEAK_SHARE = 0.75, 0.2
"""Shares of the prior variance from which a plan is informative, or at least weak."""
VERDICTS = ("prior", "weak", "informative")
"""From worst to best."""
FEWEST_PRIOR_DRAWS = 500
"""Prior draws in the region from which its quantiles are told."""
MOST_ELEMENTS = 1000
"""Variables of more elements have no quantiles: a release should stay small."""


def free_coordinates(private: PrivateModel) -> int:
    """Number of continuous coordinates of the parameters, after PyMC's value transforms."""
    base = private.base
    transforms = [base.rvs_to_transforms[rv] for rv in base.free_RVs]
    if all(t is None or t.ndim_supp == 0 for t in transforms):  # elementwise: shapes stay
        continuous = [rv.name for rv in base.free_RVs if rv.type.dtype.startswith("float")]
        return sum(math.prod(private.shapes[name]) for name in continuous)
    point = base.initial_point(random_seed=0)
    return sum(value.size for value in point.values() if np.asarray(value).dtype.kind == "f")


def variance_removed(nats: float, coordinates: int) -> float:
    """Share of the prior variance of a parameter that an information gain removes.

    Parameters
    ----------
    nats : float
        Expected information gain about all parameters; NaN if unknown.
    coordinates : int
        Number of parameters.

    Returns
    -------
    float
        In [0, 1]: 1 - e^(-2 nats / coordinates), the geometric mean over parameters.
    """
    return -math.expm1(-2.0 * max(nats, 0.0) / max(coordinates, 1)) if nats == nats else math.nan


def verdict_of(share: float) -> str:
    """Verdict on a share of the prior variance: "informative", "weak" or "prior"; "" if unknown."""
    if math.isnan(share):
        return ""
    if share >= INFORMATIVE_SHARE:
        return "informative"
    return "weak" if share >= WEAK_SHARE else "prior"


def variance_removed_by_draws(share: float, draws: int) -> float:
    """Share of the prior variance that N draws let their reader remove (Gaussian approximation).

    The posterior removes the share s of the prior variance 1: its mean m varies by s around the
    prior mean, and N draws of variance 1 - s tell m with an error of (1 - s) / N. The best linear
    guess of the parameter from them removes s^2 / (s + (1 - s) / N).

    Parameters
    ----------
    share : float
        Of the prior variance, removed by the posterior that is drawn from.
    draws : int
        Number N of draws, at least 1.
    """
    return share**2 / (share + (1.0 - share) / draws) if share > 0.0 else 0.0


def share_text(share: float) -> str:
    """A share in percent, with a decimal place near 100%."""
    return f"{share:.0%}" if share < 0.99 else f"{min(share, 0.9999):.2%}"


def relative_width(share: float) -> float:
    """Posterior width in prior widths, from the share of the variance that is removed."""
    return math.sqrt(max(1.0 - share, 0.0))


def prior_quantiles(private: PrivateModel, scores: Sequence[float]) -> dict[str, list]:
    """Quantiles of the prior of each continuous parameter at normal scores; reads no data.

    Of the prior on the region, from prior draws, to six digits; the first axis is that of the
    scores. Empty where the prior cannot be drawn from, or where the region holds too few draws.
    """
    try:
        drawn = prior_draws(private)
    except (DomainError, NotImplementedError):
        return {}
    inside = in_region(private, drawn)
    if inside.sum() < FEWEST_PRIOR_DRAWS:
        return {}
    shares = ndtr(scores)
    found = {}
    for name, values in drawn.items():
        if values.dtype.kind == "f" and values[0].size <= MOST_ELEMENTS:
            table = np.quantile(values[inside], shares, axis=0)
            found[name] = np.vectorize(lambda x: float(f"{x:.6g}"), otypes=[float])(table).tolist()
    return found
