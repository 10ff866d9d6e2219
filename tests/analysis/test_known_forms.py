"""Canonical forms that are found once for all graphs of one structure."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import equal_computations
from pytensor.graph.op import Op

from pymc_private.analysis import simplify
from pymc_private.analysis.rewrites import canonical, known_forms
from pymc_private.analysis.rewrites.known_forms import by_structure


def graph(x, number=2.0, power=3):
    return pt.log1p(pt.exp(number * x)) + pt.sum(x**power) - pt.as_tensor(number)


class Counted:
    """A simplification that counts its graphs."""

    def __init__(self):
        self.times = 0

    def __call__(self, outputs):
        self.times += 1
        return canonical._simplified(outputs)


def test_graphs_of_one_structure_have_one_form_each_with_its_own_leaves():
    counted, (x, y) = Counted(), (pt.dvector("x"), pt.dvector("x"))
    one, two = (by_structure(counted, [graph(v)]) for v in (x, y))
    again = by_structure(counted, [graph(x)])
    assert counted.times == 1
    assert equal_computations(one, again)
    assert equal_computations(one, two, [x], [y])
    assert one[0].owner is not again[0].owner  # a rewrite of one leaves the other alone
    at = np.array([0.3, -0.2])
    found, wanted = (pytensor.function([y], v, mode="FAST_COMPILE")(at) for v in (two[0], graph(y)))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


x = pt.dvector("x")
OTHERS = {
    "number": lambda: [graph(x, number=2.5)],
    "sign of zero": lambda: [graph(x, number=-0.0)],
    "power": lambda: [graph(x, power=2)],
    "type": lambda: [graph(pt.fvector("x"))],
    "length": lambda: [graph(pt.vector("x", shape=(3,), dtype="float64"))],
    "name": lambda: [graph(pt.dvector("y"))],
    "leaf": lambda: [graph(pytensor.shared(np.zeros(2), "x"))],
    "order": lambda: [x, graph(x)],
    "leaves that were one": lambda: [x + pt.dvector("x")],
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_structure_is_another_form(other):
    counted = Counted()
    for outputs in ([graph(x)], [graph(x, number=0.0)], [x + x], [graph(x), x]):
        by_structure(counted, outputs)
    before = counted.times
    by_structure(counted, OTHERS[other]())
    assert counted.times == before + 1 == 5


class Shift(Op):
    """An Op of a user's whose equality forgets what it computes."""

    __props__ = ()

    def __init__(self, by):
        self.by = by

    def make_node(self, v):
        return pytensor.graph.basic.Apply(self, [v], [v.type()])

    def perform(self, node, inputs, storage):
        storage[0][0] = inputs[0] + self.by


def test_ops_of_users_and_large_constants_are_not_taken_for_known():
    counted = Counted()
    for by in (1, 2):
        (out,) = by_structure(counted, [pt.exp(Shift(by)(x))])
        assert out.owner.inputs[0].owner.op.by == by
    large = np.zeros(known_forms.MOST_BYTES)
    for _ in range(2):
        by_structure(counted, [x[0] + large])
    assert counted.times == 4


def test_values_are_kept_of_graphs_that_read_nothing():
    times = []

    def evaluate(outputs):
        times.append(len(outputs))
        return pytensor.function([], list(outputs), mode="FAST_COMPILE")()

    level = pytensor.shared(1.0)
    for _ in range(2):
        (found,) = known_forms.value_by_structure(evaluate, [pt.exp(pt.as_tensor(np.float64(2.0)))])
        assert found == np.exp(2.0)
        found.fill(0.0)  # of the caller alone
        known_forms.value_by_structure(evaluate, [pt.exp(level)])
    assert len(times) == 3


def test_nothing_of_a_model_is_kept():
    leaf = pytensor.shared(np.arange(1000.0), "private")
    forms = simplify([graph(leaf)]), simplify([graph(leaf)])
    gone = weakref.ref(leaf)
    del leaf, forms
    gc.collect()
    assert gone() is None


def test_a_structure_that_forgets_its_numbers_is_caught(monkeypatch):
    """A planted fault: constants that are compared by their types."""

    def value(number):
        (form,) = by_structure(counted, [x * (pt.as_tensor(number) + 1.0)])
        return pytensor.function([x], form, mode="FAST_COMPILE")(np.ones(2))

    counted = Counted()
    assert [value(number)[0] for number in (2.0, 5.0)] == [3.0, 6.0]
    monkeypatch.setattr(known_forms, "_leaf", lambda variable: (variable.type,))
    counted = Counted()
    assert [value(number)[0] for number in (2.0, 5.0)] != [3.0, 6.0]
