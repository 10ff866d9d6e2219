"""The contract of the rules that are not elementwise, one graph each and in composition."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymc.distributions.dist_math import SplineWrapper
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.continuity import dependent_variables, is_continuous
from pymc_private.analysis.intervals import ops_with_rules
from tests.analysis.graphs import escapes, evaluate, random_box, random_inside
from tests.analysis.structures import BROKEN_LINE, ONE, STAIRS, T, X, boxes_for, x

BOXES, POINTS = 12, 12


def test_every_rule_has_a_graph():
    met = set()
    for structure in ONE:
        for out in (*structure.build(), *simplify(structure.build())):
            met |= {type(v.owner.op) for v in ancestors([out]) if v.owner is not None}
    # Other tests plant Ops of their own.
    ruled = {op for op in ops_with_rules()[0][1:] if not op.__module__.startswith("tests.")}
    assert ruled - met == set()


def tries(structure, seed: int, boxes: int, points: int) -> list:
    rng = np.random.default_rng(seed)
    found = []
    for out in structure.build():
        for _ in range(boxes):
            found += escapes([out], boxes_for(out, rng), rng, points)
    return found


@pytest.mark.parametrize("structure", ONE, ids=str)
def test_no_value_leaves_its_interval(structure):
    assert tries(structure, 1, BOXES, POINTS) == []


@pytest.mark.audit
@pytest.mark.parametrize("structure", ONE, ids=str)
def test_no_value_leaves_its_interval_in_many_trials(structure):
    assert tries(structure, 2, 100, 20) == []


@pytest.mark.parametrize("structure", ONE, ids=str)
def test_simplified_graphs_are_bounded_too(structure):
    rng = np.random.default_rng(3)
    for out, simple in zip(structure.build(), simplify(structure.build()), strict=True):
        boxes = boxes_for(out, rng)
        assert escapes([simple], boxes, rng, 5) == []
        point = {v: random_inside(rng, box).astype(v.type.dtype) for v, box in boxes.items()}
        before, after = evaluate([out, simple], point)
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


UNKNOWN = {"AdvancedSubtensor of unknown rows", "AdvancedSubtensor of pairs", "CumOp", "Dot", "Max"}
UNKNOWN |= {
    "AdvancedIncSubtensor at unknown rows",
    "Blockwise",
    "Join of types",
    "index arithmetic",
    "index beyond the array",
    "power steps",
}


@pytest.mark.parametrize("structure", [s for s in ONE if s.name not in UNKNOWN], ids=str)
def test_what_has_a_rule_is_bounded(structure):
    """The top element would pass every test above and be of no use."""
    rng = np.random.default_rng(4)
    for out in structure.build():
        fact = propagate_bounds([out], {v: Bounds(*box) for v, box in boxes_for(out, rng).items()})[
            out
        ]
        assert not np.isnan(fact.lower).any()


# ---- composition ---------------------------------------------------------------------------

STEPS = [
    lambda m, v: (m * v, v),
    lambda m, v: (pt.exp(-pt.sqr(m)), v),
    lambda m, v: (m, pt.logsumexp(m, axis=0)),
    lambda m, v: (pt.special.log_softmax(m, axis=1), v),
    lambda m, v: (pt.concatenate([m[1:], m[:1]]), v),
    lambda m, v: (m, m.sum(axis=0) / (1.0 + pt.sqr(v))),
    lambda m, v: (m - m.max(axis=1, keepdims=True), v),
    lambda m, v: (pt.switch(m > v, m, v - m), v),
    lambda m, v: (pt.switch(pt.isnan(pt.log(m)), 0.0, pt.log(abs(m) + 1.0)), v),
    lambda m, v: (m, pt.set_subtensor(v[1:3], v[:2] * 2.0)),
    lambda m, v: (pt.dot(m, pt.outer(v, v)) / 10.0, v),
    lambda m, v: (m, pt.cumsum(v) - v.mean()),
    lambda m, v: (m[pt.cast(pt.ceil(pt.sigmoid(m[:, 0]) * 2), "int64")], v),
    lambda m, v: (m.reshape((4, 3)).T, v),
    lambda m, v: (pt.clip(m, v, v + 1.0), pt.maximum(v, m[0])),
    lambda m, v: (pt.softplus(m) - pt.gammaln(1.0 + pt.softplus(m)), v),
    lambda m, v: (m / v, v),
    lambda m, v: (pt.log(m), v),
    lambda m, v: (pt.cos(m) ** 3, pt.erf(v)),
]


def composed(seed: int, length: int) -> list:
    """Escapes of one random graph on one random box."""
    rng = np.random.default_rng(seed)
    m, v = X, x
    for step in rng.integers(0, len(STEPS), length):
        m, v = STEPS[step](m, v)
    boxes = {X: random_box(rng, (3, 4)), x: random_box(rng, (4,))}
    boxes = {key: box for key, box in boxes.items() if key in set(ancestors([m, v]))}
    outputs = [m, v]
    return escapes(outputs, boxes, rng, 8) + escapes(simplify(outputs), boxes, rng, 4)


@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 6))
def test_no_value_leaves_the_interval_of_a_random_graph(seed, length):
    assert composed(seed, length) == []


def test_a_line_with_kinks_is_continuous_and_its_slope_is_not():
    box = {x: Bounds(np.full(4, -1.0), np.full(4, 1.0))}
    for spline, wanted in ((BROKEN_LINE, True), (STAIRS, False)):
        out = Blockwise(SplineWrapper(spline), signature="()->()")(x).sum()
        trail = propagate_bounds([out], box)
        assert trail[out].is_finite
        assert is_continuous(out, dependent_variables([out], [x]), trail) == wanted


def test_batched_ops_without_a_rule_are_refused():
    out = pt.linalg.inv(T)
    fact = propagate_bounds([out], {T: Bounds(np.zeros((2, 3, 3)), np.ones((2, 3, 3)))})
    assert np.isnan(fact[out].lower).all()
    assert fact.culprits(out)


@given(seed=st.integers(0, 2**32 - 1))
def test_batched_products_stay_inside(seed):
    rng = np.random.default_rng(seed)
    boxes = {T: random_box(rng, (2, 3, 3))}
    assert escapes([T @ T, pt.matmul(T[:, 0], T[0])], boxes, rng, 8) == []
