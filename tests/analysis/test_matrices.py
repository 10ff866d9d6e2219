"""Small matrices number by number: the same function, and what cannot be seen is left alone."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.rewrites import small_matrices
from pymc_private.analysis.rewrites.specialize import holds_on_subdivision, specialize
from tests.analysis.graphs import escapes, evaluate
from tests.analysis.structures import cholesky, inv, solve_triangular

S, V = pt.dscalar("s"), pt.tensor("v", dtype="float64", shape=(3,))
L, R = pt.tensor("l", dtype="float64", shape=(6,)), pt.tensor("r", dtype="float64", shape=())
BOX = {
    S: (np.array(0.6), np.array(1.9)),
    V: (np.full(3, 0.5), np.array([1.5, 2.0, 1.0])),
    L: (np.array([0.5, -1, 0.6, -1, -1, 0.7]), np.array([2.0, 1, 2, 1, 1, 2])),
    R: (np.array(-0.4), np.array(0.4)),
}
C = np.array([[2.0, 0.3, -0.2], [0.3, 1.0, 0.4], [-0.2, 0.4, 1.5]])


def packed() -> pt.TensorVariable:
    return pt.set_subtensor(pt.zeros((3, 3))[np.tril_indices(3)], L)


def correlated() -> pt.TensorVariable:
    rows = [[1.0, R, 0.2 * R], [R, 1.0, R], [0.2 * R, R, 1.0]]
    return pt.stack([pt.stack([pt.as_tensor(c) * 1.0 for c in row]) for row in rows])


def between() -> pt.TensorVariable:
    a, b = V[0], V[1]
    return pt.stack([pt.stack([a**2, R * a * b]), pt.stack([R * a * b, b**2])])


GRAPHS = {
    "Cholesky of a number times a matrix": lambda low: cholesky(S * C, lower=low),
    "Cholesky of an inverse": lambda low: cholesky(inv(S * C), lower=low),
    "Cholesky of a product": lambda low: cholesky(packed() @ packed().T, lower=low),
    "Cholesky of its own factor": lambda low: (lambda x: cholesky(x @ x.T, lower=low))(packed()),
    "Cholesky between scales": lambda low: cholesky(between(), lower=low),
    "Cholesky of correlations": lambda low: cholesky(correlated(), lower=low),
    "Cholesky of a diagonal": lambda low: cholesky(pt.diag(V**2), lower=low),
    "inverse": lambda low: inv(correlated() + C),
    "inverse of a pair": lambda low: inv(between()),
    "solve": lambda low: solve_triangular(packed() if low else packed().T, V, lower=low, b_ndim=1),
    "solve with a factor": lambda low: solve_triangular(
        cholesky(S * C, lower=True), V, lower=True, b_ndim=1
    ),
    "diagonal": lambda low: pt.diagonal(cholesky(correlated() * S, lower=low)),
}


def plain(name: str, lower: bool):
    """The graph as a model has it, and written out."""
    (out,) = simplify([GRAPHS[name](lower)])
    return out, small_matrices.write_out_matrices(out, list(BOX))


def boxes_of(*outputs):
    return {v: BOX[v] for v in ancestors(list(outputs)) if v in BOX}


def inside(rng, boxes):
    return {v: np.asarray(rng.uniform(*box)) for v, box in boxes.items()}


@pytest.mark.thin(3)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_written_out_is_the_same_function(name, lower):
    before, after = plain(name, lower)
    assert not any(
        isinstance(v.owner.op, Blockwise) for v in ancestors([after]) if v.owner is not None
    )
    rng = np.random.default_rng(1)
    for _ in range(5):
        point = inside(rng, boxes_of(before, after))
        old, new = evaluate([before, after], point)
        np.testing.assert_allclose(new, old, rtol=1e-10, atol=1e-12)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", GRAPHS)
def test_values_of_the_op_stay_in_the_bounds_of_what_is_written_out(name):
    """Of the Op's own values, by the bounds of the other form."""
    before, after = plain(name, True)
    rng = np.random.default_rng(2)
    assert escapes([after], boxes_of(after), rng, 10) == []
    boxes = {v: tuple(np.sort(rng.uniform(*b, (2, *b[0].shape)), 0)) for v, b in BOX.items()}
    boxes = {v: boxes[v] for v in boxes_of(before, after)}
    fact = propagate_bounds([after], {v: Bounds(*box) for v, box in boxes.items()})[after]
    for _ in range(20):
        (value,) = evaluate([before], inside(rng, boxes))
        known = ~np.isnan(fact.lower)
        assert np.all(((fact.lower <= value + 1e-9) & (value - 1e-9 <= fact.upper)) | ~known)


def test_a_factor_that_is_not_triangular_is_not_taken_for_its_own(monkeypatch):
    full = pt.set_subtensor(pt.zeros((3, 3))[np.triu_indices(3)], L)
    (out,) = simplify([cholesky(full @ full.T, lower=True)])
    point = inside(np.random.default_rng(3), boxes_of(out))

    def difference():
        old, new = evaluate([out, small_matrices.write_out_matrices(out, list(BOX))], point)
        return abs(new - old).max()

    assert difference() < 1e-10
    monkeypatch.setattr(small_matrices, "is_zero", lambda x: True)  # the planted fault
    assert not difference() < 1e-3


# ---- conditions in pieces, and forms that want positive factors ------------------------------


def facts(**ends):
    return {BY_NAME[name]: Bounds(*map(np.asarray, pair)) for name, pair in ends.items()}


X, Y = pt.dscalar("x"), pt.dscalar("y")
BY_NAME = {"x": X, "y": Y}


def test_a_condition_is_proved_on_pieces():
    box = facts(x=(0.0, 2.0), y=(1.0, 3.0))
    assert holds_on_subdivision(X * (2.0 - X) > -0.05, box)  # one walk says: above -4
    assert not holds_on_subdivision(X * (2.0 - X) > 0.05, box)
    assert not holds_on_subdivision(X < 1.9999, box)
    assert not holds_on_subdivision(X > 0.0, box)  # false at one end only


def test_conditions_of_whole_numbers_are_proved_number_by_number():
    k = pt.lscalar("k")
    box = {k: Bounds(np.array(0.0), np.array(9.0))}
    assert holds_on_subdivision(pt.eq((2 * k) % 2, 0) | (k * (k - 1) >= 0), box)
    assert not holds_on_subdivision(pt.neq(k, 7), box)


@pytest.mark.parametrize("lower", [0.5, 0.0, -0.5])
def test_logs_of_products_are_parted_only_where_factors_are_positive(lower):
    value = pt.log(X * Y / (X + 3.0)) + pt.sqrt(X**2)
    box = facts(x=(lower, 2.0), y=(1.0, 3.0))
    new = specialize(value, box)
    for x in np.linspace(lower, 2.0, 5):
        point = {X: np.float64(x), Y: np.float64(1.7)}
        old, now = evaluate([value, new], point)
        np.testing.assert_allclose(now, old, rtol=1e-12)
    roots = [v for v in ancestors([new]) if v.owner is not None and "qrt" in str(v.owner.op)]
    assert bool(roots) == (lower <= 0.0)


class WithoutRule(Op):
    """Twice a number, by an Op that intervals do not know."""

    __props__ = ()
    itypes: ClassVar = [pt.dscalar]
    otypes: ClassVar = [pt.dscalar]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2.0 * inputs[0])


@pytest.mark.parametrize("ends", [(1.0, 1.0), (1.0, 3.0)])
def test_of_a_batch_of_an_op_without_a_rule_exact_elements_are_folded(ends):
    x = pt.vector("x", shape=(2,))
    box = Bounds(np.array([ends[0], 2.0]), np.array([ends[1], 3.0]))
    out = Blockwise(WithoutRule(), signature="()->()")(x)
    fact = propagate_bounds([out], {x: box})[out]
    exact = ends[0] == ends[1]
    assert fact.shape == (2,)
    assert (fact.lower[0] == fact.upper[0] == 2.0) == exact
    assert np.isnan(fact.lower).tolist() == [not exact, True]
