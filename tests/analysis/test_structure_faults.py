"""Planted faults in the rules that are not elementwise: the tests beside this file catch each."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import SplineWrapper
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot, Max, Sum
from pytensor.tensor.special import LogSoftmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor

from pymc_private.analysis import Bounds, SimplexRows, propagate_bounds
from pymc_private.analysis.intervals.linear_algebra import SOLVERS
from pymc_private.analysis.intervals.ops import OnSimplex, on_simplex
from pymc_private.analysis.intervals.special import _rounded_log_sum_exp
from tests.analysis.graphs import escapes, evaluate, planted
from tests.analysis.structures import (
    BROKEN_LINE,
    STAIRS,
    X,
    Y,
    Z,
    boxes_for,
    cholesky,
    index,
    inv,
    x,
)
from tests.analysis.test_structure_rounding import exact_escapes


def like_ends(op, node, a):
    """Log-softmax as if it rose in every argument."""
    axes = (op.axis if isinstance(op.axis, int) else op.axis[0],)
    low, high = (end - _rounded_log_sum_exp(end, axes, 1.0) for end in (a.lower, a.upper))
    return Bounds(np.minimum(low, high), np.maximum(low, high))


FAULTS = {
    "Sum without rounding": (
        Sum,
        lambda op, node, a: Bounds(a.lower.sum(axis=op.axis), a.upper.sum(axis=op.axis)),
        lambda: exact_escapes("sum"),
    ),
    "Dot of like ends": (
        Dot,
        lambda op, node, a, c: Bounds(a.lower @ c.lower, a.upper @ c.upper),
        lambda: composed_on(lambda: pt.dot(X, Y)),
    ),
    "Max of lower ends": (
        Max,
        lambda op, node, a: Bounds(*[np.max(a.lower, axis=op.axis)] * 2),
        lambda: composed_on(lambda: X.max(axis=1)),
    ),
    "DimShuffle that keeps rows": (
        DimShuffle,
        lambda op, node, a: Bounds(
            a.lower.transpose(op.new_order), a.upper.transpose(op.new_order), a.within
        ),
        lambda: simplex_columns_are_one(),
    ),
    "LogSoftmax of like ends": (
        LogSoftmax,
        like_ends,
        lambda: composed_on(lambda: pt.special.log_softmax(X, axis=1)),
    ),
    "gather of the end rows": (
        AdvancedSubtensor,
        lambda op, node, a, i: Bounds(a.lower[i.lower.astype(int)], a.upper[i.upper.astype(int)]),
        lambda: composed_on(lambda: X[index]),
    ),
    "steps of a spline at the ends alone": (
        SplineWrapper,
        lambda op, node, a: Bounds(
            np.minimum(op.spline(a.lower), op.spline(a.upper)),
            np.maximum(op.spline(a.lower), op.spline(a.upper)),
        ),
        lambda: composed_on(lambda: SplineWrapper(STAIRS)(x)),
    ),
    "spline of its ends": (
        SplineWrapper,
        lambda op, node, a: Bounds(*np.sort([op.spline(a.lower), op.spline(a.upper)], axis=0)),
        lambda: composed_on(lambda: SplineWrapper(BROKEN_LINE)(x)),
    ),
    "OnSimplex with an end moved inward": (
        OnSimplex,
        lambda op, node, a: Bounds(a.lower, np.minimum(a.upper, 0.5)),
        lambda: composed_on(lambda: on_simplex(pt.special.softmax(X, axis=1))),
    ),
    "increment without rounding": (
        AdvancedIncSubtensor,
        lambda op, node, a, c, i: Bounds(*[added(end, c, i) for end in (a.lower, a.upper)]),
        lambda: exact_escapes("added"),
    ),
}


def added(end, c, i):
    total = end.copy()
    np.add.at(total, i.lower.astype(int), c.lower)
    return total


def composed_on(build) -> int:
    rng, out = np.random.default_rng(9), build()
    return sum(len(escapes([out], boxes_for(out, rng), rng, 5)) for _ in range(20))


def simplex_columns_are_one() -> bool:
    box = Bounds(np.zeros((3, 3)), np.ones((3, 3)), SimplexRows())
    out = Z.T.sum(axis=1)
    value = evaluate([out], {Z: np.eye(3)[[0, 0, 0]]})[0]
    fact = propagate_bounds([out], {Z: box})[out]
    return not np.all((fact.lower <= value) & (value <= fact.upper))


@pytest.mark.parametrize("name", FAULTS)
def test_the_contract_catches(name):
    kind, rule, caught = FAULTS[name]
    assert not caught()
    with planted(kind, rule):
        assert caught()


SOLVER_FAULTS = {
    "Cholesky of the end matrices": (
        "Cholesky",
        lambda op, a: Bounds(*(np.linalg.cholesky(end) for end in (a.lower, a.upper))),
        lambda: composed_on(lambda: cholesky(Z + Z.T + 12 * pt.eye(3))),
    ),
    "MatrixInverse of the end matrices": (
        "MatrixInverse",
        lambda op, a: Bounds(*(np.linalg.inv(end) for end in (a.upper, a.lower))),
        lambda: composed_on(lambda: inv(Z + 8 * pt.eye(3))),
    ),
}


@pytest.mark.parametrize("name", SOLVER_FAULTS)
def test_the_contract_catches_a_wrong_solver(name, monkeypatch):
    kind, rule, caught = SOLVER_FAULTS[name]
    assert not caught()
    monkeypatch.setitem(SOLVERS, kind, rule)
    assert caught()
