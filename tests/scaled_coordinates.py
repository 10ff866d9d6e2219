"""Points of a summary's model, whose value variables are coordinates made for its posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_private.summaries.posterior_coordinates import PartiallyCentered


def scaled_point(
    model: Any, parts: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], float]:
    """Values of the variables of a model at unconstrained parts, and the log of all scales."""
    point, logs, known = {}, 0.0, {}
    for rv in model.free_RVs:  # those above others come first
        transform, part = model.rvs_to_transforms[rv], parts[rv.name]
        if isinstance(transform, PartiallyCentered):
            inputs = rv.owner.inputs
            value = transform.forward(pt.as_tensor(part), *inputs)
            graphs = [value, transform.log_jac_det(value, *inputs).sum()]
            found = [each.eval() for each in graph_replace(graphs, known, strict=False)]
            point[model.rvs_to_values[rv].name], natural = found[0], part
            logs += float(found[1])
        else:
            value = (part - transform.middle) / transform.scale
            point[model.rvs_to_values[rv].name] = value
            logs += float(np.log(transform.scale).sum())
            natural = transform.backward(pt.as_tensor(value), *(rv.owner.inputs)).eval()
        known[rv] = pt.as_tensor(natural)
    return point, logs
