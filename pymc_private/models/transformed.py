"""The trimmed and tempered model as a plain PyMC model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval as IntervalTransform
from pymc.model.transform.conditioning import change_value_transforms

from pymc_private.analysis import Interval as Bounds
from pymc_private.models.compat import copy_model

TEMPER = "likelihood_power"


def restricted_model(
    base: pm.Model, region: Mapping[str, Bounds], power: float, factors: Sequence[str]
) -> pm.Model:
    """Joint prior restricted to a box, likelihood to a power.

    The prior terms stay as they are: restricting the joint prior only needs a new normalizer, which
    no sampler reads. Interval transforms keep gradient samplers inside without a wall.
    `pm.sample_prior_predictive` knows nothing of transforms; it draws from the untrimmed prior.
    """
    transforms = {name: _interval(bounds) for name, bounds in region.items()}
    model = change_value_transforms(base, transforms) if transforms else copy_model(base)[0]
    for name, bounds in region.items():
        # The default start would be the prior's center, which may lie outside the box.
        middle = (np.asarray(bounds.lower) + np.asarray(bounds.upper)) / 2
        model.rvs_to_initial_values[model[name]] = middle
    if power != 1.0:
        with model:
            logps = model.logp(vars=[model[name] for name in factors], sum=False)
            pm.Potential(TEMPER, (power - 1.0) * pt.sum([term.sum() for term in logps]))
    return model


def _interval(bounds: Bounds) -> Any:
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    if low.ndim == 0:
        return IntervalTransform(float(low), float(high))
    # Array ends are only taken through bounds_fn.
    return IntervalTransform(bounds_fn=lambda *_: (pt.constant(low), pt.constant(high)))
