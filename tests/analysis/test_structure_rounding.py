"""Sums, products and solutions of linear systems, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from tests.analysis.graphs import evaluate, random_box
from tests.analysis.structures import X, Y, Z, solve, x, y


def nasty(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of all sizes that nearly cancel."""
    big = rng.normal(size=shape) * 10.0 ** rng.integers(-8, 9, shape)
    return np.where(rng.random(shape) < 0.3, -np.roll(big, 1), big)


def fractions(array: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(array)


def holds(fact: Bounds, exact: np.ndarray) -> bool:
    low, high = fractions(np.asarray(fact.lower)), fractions(np.asarray(fact.upper))
    return bool(np.all(low <= exact) and np.all(exact <= high))


EXACT = {
    "sum": (lambda: X.sum(axis=1), lambda a: a[X].sum(axis=1)),
    "cumsum": (lambda: pt.cumsum(X, axis=1), lambda a: np.cumsum(a[X], axis=1)),
    "product": (lambda: X.prod(axis=1), lambda a: a[X].prod(axis=1)),
    "matrix": (lambda: pt.dot(X, Y), lambda a: a[X] @ a[Y]),
    "vector": (lambda: simplify([pt.dot(X, x)])[0], lambda a: a[X] @ a[x]),
    "added": (
        lambda: pt.inc_subtensor(x[pt.constant([1, 1, 2, 1])], y),
        lambda a: a[x] + [0, a[y][0] + a[y][1] + a[y][3], a[y][2], 0],
    ),
}
LENGTHS = {X: (3, 40), Y: (40, 2), x: (40,), y: (4,)}


def exact_escapes(name: str) -> int:
    rng = np.random.default_rng(5)
    build, exact = EXACT[name]
    out, missed = build(), 0
    for _ in range(25):
        shapes = {v: LENGTHS[v] for v in ancestors([out]) if v in LENGTHS}
        shapes |= {x: (4,)} if name == "added" else {}
        values = {v: nasty(rng, *shape) for v, shape in shapes.items()}
        given_ = {v: Bounds(value, value.copy()) for v, value in values.items()}
        fact = propagate_bounds([out], given_)[out]
        missed += not holds(fact, exact({v: fractions(value) for v, value in values.items()}))
    return missed


@pytest.mark.parametrize("name", EXACT)
def test_rounding_is_paid_for(name):
    assert exact_escapes(name) == 0


def test_a_sum_that_overflows_on_the_way_is_not_bounded_by_the_largest_double():
    big = np.array([1.7e308, 1.7e308, -1.7e308, -1.7e308, 5.0])
    for out in (x.sum(), pt.cumsum(x)[-1], pt.dot(x, pt.ones(5))):
        fact = propagate_bounds([out], {x: Bounds(big, big.copy())})[out]
        low, high = np.ravel(fact.lower), np.ravel(fact.upper)
        assert np.all(np.isnan(low) | ((low <= 5.0) & (high >= 5.0)))


def test_triangular_solutions_are_enclosed():
    rng = np.random.default_rng(6)
    for lower in (True, False):
        out = solve(Z, x, lower=lower)
        for _ in range(20):
            a, c = rng.uniform(0.1, 2, (3, 3)) * rng.choice([-1, 1], (3, 3)), nasty(rng, 3)
            fact = propagate_bounds([out], {Z: Bounds(a, a.copy()), x: Bounds(c, c.copy())})[out]
            exact = substitute(fractions(a), fractions(c), range(3) if lower else range(2, -1, -1))
            assert holds(fact, exact)


def substitute(a: np.ndarray, c: np.ndarray, order: range) -> np.ndarray:
    solved = np.zeros(3, object)
    done: list[int] = []
    for i in order:
        solved[i] = (c[i] - sum(a[i, j] * solved[j] for j in done)) / a[i, i]
        done.append(i)
    return solved


@pytest.mark.parametrize("axis", [0, 1])
def test_log_softmax_is_exact_at_corners(axis):
    rng = np.random.default_rng(7)
    out = pt.special.log_softmax(X, axis=axis)
    low, high = random_box(rng, (3, 4))
    fact = propagate_bounds([out], {X: Bounds(low, high)})[out]
    for place in np.ndindex(3, 4):
        own = np.zeros((3, 4), bool)
        own[place] = True
        least, most = (
            evaluate([out], {X: np.where(own, low, high)}),
            evaluate([out], {X: np.where(own, high, low)}),
        )
        assert fact.lower[place] == pytest.approx(least[0][place], abs=1e-12)
        assert fact.upper[place] == pytest.approx(most[0][place], abs=1e-12)
