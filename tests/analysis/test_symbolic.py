"""Mode B: ends that are PyTensor variables give a graph of the bounds, the same as with numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, Ellipsoid, propagate_bounds, simplify
from tests.analysis.graphs import evaluate, random_box, random_inside
from tests.analysis.structures import X, Z, s, x, y

GRAPHS = {
    "normal": lambda: -0.5 * pt.sqr((x - s) / pt.exp(y)) - y,
    "logistic": lambda: -pt.softplus(-(pt.dot(X, x) + s)),
    "poisson": lambda: x * pt.exp(s) - pt.gammaln(1.0 + pt.exp(x)),
    "switch": lambda: pt.switch(pt.gt(x, s), pt.log1p(pt.exp(x)), abs(y)),
    "switch on numbers": lambda: pt.switch(x, y, s),
    "clip": lambda: pt.clip(x, s, s + 1.0),
    "logic": lambda: pt.switch((x > 0) & ~(y > 0) | pt.eq(x, y), 1.0, -1.0),
    "isnan": lambda: pt.switch(pt.isnan(x), 0.0, pt.maximum(x, y)),
    "extremes": lambda: X.max(axis=1) - X.min(axis=0).sum(),
    "sums": lambda: X.sum(axis=0) * x + X.mean(),
    "log-sum-exp": lambda: pt.logsumexp(X, axis=1),
    "division": lambda: x / Z.sum() + 1.0 / (1.0 + pt.sqr(y)),
    "shapes": lambda: X.T.reshape((2, 6))[:, 1:].sum(axis=0) + pt.concatenate([x, y[:1]]),
    "stack": lambda: pt.stack([s, x[0], y[1] * 2]),
    "indexes": lambda: X[pt.constant([0, 2, 2])] * x[pt.constant([1, 3, 0, 0])],
    "powers": lambda: x**2 + y**3 - Z[0, 0] ** -2 + Z[0] ** 0.5 @ Z[1],
    "special": lambda: pt.erf(x) + pt.erfc(y) + pt.sigmoid(s) + pt.cos(x) + pt.sin(y),
    "gamma": lambda: pt.psi(Z[0]) + pt.gammaincc(Z[0], Z[1]) + pt.math.tri_gamma(Z[2]),
    "casts": lambda: pt.cast(x, "int64") * 2.0 + pt.cast(y > 0, "float64") + pt.floor(x),
    "filled": lambda: pt.alloc(s, 4) + pt.second(x, s) + pt.zeros_like(x),
}
NUMBERS = {X: (3, 4), Z: (3, 3), x: (4,), y: (4,), s: ()}


def box_of(variable, rng):
    low, high = (0.5, 2.0) if variable is Z else (-2.0, 2.0)
    return random_box(rng, NUMBERS[variable], low, high)


@pytest.mark.thin(12)
@pytest.mark.parametrize("name", GRAPHS)
def test_symbolic_ends_agree_with_numbers_and_hold_values(name):
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        (out,) = simplify([GRAPHS[name]()])
    inputs = [v for v in ancestors([out]) if v in NUMBERS]
    ends = {v: (v.type(name=f"{v}_low"), v.type(name=f"{v}_high")) for v in inputs}
    fact = propagate_bounds([out], {v: Bounds(*pair) for v, pair in ends.items()})[out]
    assert fact.is_symbolic
    flat = [end for v in inputs for end in ends[v]]
    evaluate_ends = pytensor.function(flat, [fact.lower, fact.upper], mode="FAST_COMPILE")
    for _ in range(5):
        boxes = {v: box_of(v, rng) for v in inputs}
        lower, upper = evaluate_ends(*[end for v in inputs for end in boxes[v]])
        numbers = propagate_bounds([out], {v: Bounds(*box) for v, box in boxes.items()})[out]
        np.testing.assert_allclose(lower, numbers.lower, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(upper, numbers.upper, rtol=1e-9, atol=1e-9)
        for _ in range(5):
            (value,) = evaluate([out], {v: random_inside(rng, box) for v, box in boxes.items()})
            assert np.all(lower <= value + 1e-9)
            assert np.all(value <= upper + 1e-9)


def test_one_number_and_one_graph_of_a_ball():
    """Mode B as the certifier uses it: the record in its domain, the parameter symbolic."""
    rng = np.random.default_rng(2)
    (out,) = simplify([pt.dot(X, x)])
    ball = np.ones((3, 4))
    rows = Bounds(-ball, ball, Ellipsoid(np.zeros(4), np.ones(4), 1.0))
    fact = propagate_bounds([out], {X: rows, x: Bounds(x, x)})[out]
    upper = pytensor.function([x], fact.upper, mode="FAST_COMPILE")
    for _ in range(5):
        value = rng.normal(size=4)
        np.testing.assert_allclose(upper(value), np.linalg.norm(value), rtol=1e-9)


def test_an_op_without_a_symbolic_rule_is_top():
    out = pt.cumsum(x).sum() + X.prod()
    ends = {v: Bounds(v.type(), v.type()) for v in (x, X)}
    trail = propagate_bounds([out], ends)
    assert np.isnan(trail[out].lower).all()
