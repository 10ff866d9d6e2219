"""Points of a summary's model, whose value variables are in units of its posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def scaled_point(
    model: Any, parts: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], float]:
    """Values of the variables of a model at unconstrained parts, and the log of all scales."""
    point, logs = {}, 0.0
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        point[model.rvs_to_values[rv].name] = (parts[rv.name] - transform.middle) / transform.scale
        logs += float(np.log(transform.scale).sum())
    return point, logs
