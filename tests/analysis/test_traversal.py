"""Evaluation of one node: what compiled code computes."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_private.analysis.traversal import evaluate_node

FUNCTIONS = ("reciprocal", "sqrt", "log1p", "tanh", "sigmoid", "erf")


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_integers_are_real_numbers(name, dtype):
    x = pt.tensor("x", shape=(2,), dtype=dtype)
    values = np.array([1, 1 if dtype == "bool" else 2], dtype=dtype)
    (found,) = evaluate_node(getattr(pt, name)(x).owner, [values])
    real = pt.dvector("real")
    (expected,) = evaluate_node(getattr(pt, name)(real).owner, [values.astype(float)])
    np.testing.assert_allclose(found, expected, rtol=3e-7)
