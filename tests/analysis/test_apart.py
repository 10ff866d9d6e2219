"""What is multiplied out is taken back, and nothing else is changed."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt

from pymc_private.analysis.rewrites.algebra import factor_predictors
from tests.analysis.graphs import evaluate


def test_a_product_over_an_axis_is_no_factor():
    """PyTensor's Prod holds a multiplication, as elementwise products do."""
    b, y = pt.dvectors("by")
    value = (y * b).sum() + pt.prod(b)
    at = {b: np.array([2.0, 3.0]), y: np.array([0.5, 7.0])}
    before, after = evaluate([value, factor_predictors(value, [b])], at)
    assert before == after == 28.0
