"""Scales near zero: where a normal approximation in their logarithm gives intervals too narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_private.summaries.protocol import Caution

NEAR_ZERO = 3.6
"""A positive parameter is near zero below exp(-3.6), 1/37, of its prior median."""
MOST_NEAR_ZERO = 0.05
"""Share of the prior or the posterior there that deserves a warning."""
DRAWS = 4000


def prior_near_zero(parameters: Any) -> list[Caution]:
    """A caution that names the scales whose prior puts much of its mass near zero."""
    return small_scales(scales_near_zero(parameters, parameters.draws(DRAWS)), "prior")


def small_scales(names: Sequence[str], what: str) -> list[Caution]:
    """The caution about these scales, if there are any."""
    if not names:
        return []
    return [
        Caution(
            f"much of the {what} of {', '.join(names)} is near zero, where intervals are too "
            "narrow: a prior that keeps away from zero (pm.Gamma, pm.LogNormal) helps"
        )
    ]


def scales_near_zero(parameters: Any, draws: np.ndarray) -> list[str]:
    """Positive parameters of which many draws lie far below their prior median."""
    found = []
    natural, prior = parameters.natural(draws), parameters.natural(parameters.draws(DRAWS))
    for name, values in natural.items():
        entries = parameters.positive_entries(name)
        if not len(entries):
            continue
        middle = np.median(prior[name].reshape(len(prior[name]), -1)[:, entries], axis=0)
        near = values.reshape(len(values), -1)[:, entries] < np.exp(-NEAR_ZERO) * middle
        if near.mean(axis=0).max() > MOST_NEAR_ZERO:
            found.append(name)
    return found
