"""What is known of whole rows: in a ball (Cauchy and Schwarz), on the simplex (sums to one)."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, Ellipsoid, SimplexRows, propagate_bounds, simplify
from tests.analysis.graphs import evaluate, random_box, random_inside
from tests.analysis.structures import X, Y, x


def ball_rows(rng, center, scale, radius, count):
    z = rng.normal(size=(count, len(center)))
    z *= radius / np.linalg.norm(z, axis=1, keepdims=True) * rng.choice([1.0, 0.5], (count, 1))
    return center + scale * z


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "build", [lambda: pt.dot(X, x), lambda: pt.dot(X, Y), lambda: pt.dot(x, Y)]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_products_with_rows_in_a_ball(build, seed):
    rng = np.random.default_rng(seed)
    center, scale = rng.normal(size=4), rng.uniform(0.1, 3, 4)
    radius = rng.uniform(0.1, 4)
    (out,) = simplify([build()])
    rows = X if X in ancestors([out]) else x
    box = (center - scale * radius, center + scale * radius)
    shape = (3, 4) if rows is X else (4,)
    ball = [np.broadcast_to(end, shape) for end in box]
    other = Y if Y in ancestors([out]) else x
    low, high = random_box(rng, (4, 2) if other is Y else (4,))
    facts = {rows: Bounds(*ball, Ellipsoid(center, scale, radius)), other: Bounds(low, high)}
    fact = propagate_bounds([out], facts)[out]
    plain = propagate_bounds([out], facts | {rows: Bounds(*ball)})[out]
    assert np.all(fact.lower >= plain.lower)
    assert np.all(fact.upper <= plain.upper)
    for _ in range(5):
        inside = ball_rows(rng, center, scale, radius, 3).reshape(3, 4)
        values = {rows: inside if rows is X else inside[0], other: random_inside(rng, (low, high))}
        (value,) = evaluate([out], values)
        assert value.shape == fact.shape
        assert np.all((fact.lower - 1e-12 <= value) & (value <= fact.upper + 1e-12))


def test_the_ball_bound_is_reached():
    """Cauchy and Schwarz with equality, for a center at zero and any box of y."""
    rng = np.random.default_rng(8)
    scale, radius = rng.uniform(0.1, 3, 4), 1.7
    low, high = random_box(rng, (4,))
    (out,) = simplify([pt.dot(X, x)])
    ball = np.broadcast_to(scale * radius, (3, 4))
    rows = Bounds(-ball, ball, Ellipsoid(np.zeros(4), scale, radius))
    fact = propagate_bounds([out], {X: rows, x: Bounds(low, high)})[out]
    far = np.where(abs(low) > abs(high), low, high) * scale
    worst = scale * far / np.linalg.norm(far) * radius
    reached = worst @ (far / scale)
    np.testing.assert_allclose(fact.upper, np.full(3, reached), rtol=1e-12)
    np.testing.assert_allclose(fact.lower, np.full(3, -reached), rtol=1e-12)


def test_rows_of_a_simplex_sum_to_one_and_columns_do_not():
    box = Bounds(np.zeros((3, 4)), np.ones((3, 4)), SimplexRows())
    wide = propagate_bounds([X.sum(axis=0)], {X: box})
    narrow = [
        X.sum(axis=1),
        X.dimshuffle(0, "x", 1).sum(axis=2),
        pt.special.softmax(X, axis=-1).sum(axis=-1),
    ]
    for out in narrow:
        fact = propagate_bounds([out], {X: box})[out]
        np.testing.assert_allclose(fact.lower, 1.0, atol=1e-14)
        np.testing.assert_allclose(fact.upper, 1.0, atol=1e-14)
    for out in (
        X.sum(axis=0),
        X.T.sum(axis=1),
        (2.0 * X).sum(axis=1),
        X.sum(),
        X[:, :2].sum(axis=1),
    ):
        fact = propagate_bounds([out], {X: box})[out]
        assert np.all(fact.upper - fact.lower >= 1.9)
    assert wide.facts
