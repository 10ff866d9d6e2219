"""The simplified graph is the same function: PyTensor's own rewrites are not always."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.intervals import has_rule
from pymc_private.analysis.rewrites.unbounded import simplify_and_merge_switches

X, SMALL = pt.dvector("x"), pt.vector("k", dtype="int8")
PLAIN = pytensor.compile.mode.Mode(linker="py", optimizer=None)


def up(x):
    return pt.ge(x, 2.0 * x)


CASES = {
    "gradient of a maximum": lambda: pytensor.grad(pt.maximum(X, X + X).sum(), X),
    "gradient of a minimum": lambda: pytensor.grad(pt.minimum(X, X + X + X).sum(), X),
    "twice a complement": lambda: 2.0 * (1.0 - up(X)) - X,
    "complements": lambda: (1.0 - up(X)) + (1.0 - up(X)) + X * up(X),
    "product of conditions": lambda: (X * up(X) + X * up(X)) * (3.0 - up(X) - up(X)),
    "quotient": lambda: X / (1.0 + up(X) + up(X)),
    "literals": lambda: X - 100 - 100 - 2 * (100 - X) + (120 + 120 * X),
    "baked conditions": lambda: (
        2.0 * (1.0 - np.array([True, False])) * X + (1.0 - np.array([True]))
    ),
    "an Op made of others": lambda: pt.diag(X) @ X,
    "another one": lambda: getattr(pt, "xlogy", lambda a, b: a * pt.log(b))(X**2, X**2),
    "complement of a complement": lambda: pt.log1mexp(pt.log1mexp(-(X**2))) * 2.0,
    "small integers": lambda: (2.0 - SMALL) + (2.0 - SMALL) - SMALL * 2.0,
    # PyTensor 2 by itself never returns from these.
    "zeros over a number": lambda: np.zeros(2) / X[0] + X,
    "zeros over a vector": lambda: pt.exp(0.0 / X) + pt.zeros_like(X) / X,
    "a zero found on the way": lambda: (X - X) / X + (0.0 * X) // X,
    "cells of a scaled identity": lambda: (np.eye(2) / X[0])[0, 1] / pt.sqrt(X[0] ** 2) + X,
    "small integers squared": lambda: (1.0 - SMALL) * (1.0 - SMALL) * X,
}


@pytest.mark.parametrize("name", CASES)
def test_simplify_keeps_the_function(name):
    out = CASES[name]()
    (simple,) = simplify([out])
    inputs = [X, SMALL]
    before, after = (
        pytensor.function(inputs, graph, mode=PLAIN, on_unused_input="ignore")
        for graph in (out, simple)
    )
    for x in (np.array([-0.5, 0.7]), np.array([3.0, -2.0])):
        k = np.array([100, -100], "int8")
        np.testing.assert_allclose(after(x, k), before(x, k), rtol=1e-12)


def test_the_logarithm_of_a_complements_complement_is_the_exponent():
    """1 - (1 - e^x), as in a complementary log-log link, whose 0 for large -x has no logarithm."""
    (simple,) = simplify([pt.log1p(-(1.0 - pt.exp(-pt.exp(X))))])
    found = pytensor.function([X], simple, mode=PLAIN)(np.array([0.5, 50.0]))
    np.testing.assert_allclose(found, -np.exp([0.5, 50.0]), rtol=1e-12)


def test_ops_made_of_others_are_unfolded():
    for name in ("an Op made of others", "another one"):
        nodes = [v.owner for v in ancestors(simplify([CASES[name]()])) if v.owner is not None]
        assert all(has_rule(node) for node in nodes)


def test_the_rewrites_of_pytensor_alone_do_not(monkeypatch):
    """Else the casts before them would be needless."""
    from pymc_private.analysis.rewrites import canonical

    monkeypatch.setattr(canonical, "_as_float", lambda variable, dtype: variable)
    out = CASES["gradient of a maximum"]()
    (simple,) = canonical._simplified([out])
    x = np.array([-0.5, 0.7])
    before, after = (pytensor.function([X], graph, mode=PLAIN)(x) for graph in (out, simple))
    assert not np.allclose(before, after)


def test_choices_that_are_added_are_one_choice():
    """Slopes of nested choices: what never happens at once is not added up."""
    value = pt.switch(X > 1, X**2, pt.switch(X < -1, 3.0 * X, -pt.exp(X)))
    slope = pytensor.grad(value.sum(), X)
    (found,) = simplify_and_merge_switches([slope])
    (fact,) = (propagate_bounds([found], {X: Bounds(np.full(2, -2.0), np.full(2, 2.0))})[found],)
    before, after = (pytensor.function([X], graph, mode=PLAIN) for graph in (slope, found))
    for x in (np.array([-1.5, 0.3]), np.array([1.7, -0.9])):
        np.testing.assert_allclose(after(x), before(x), rtol=1e-12)
    assert fact.upper.max() <= 4.0 + 1e-9  # 2 x, beside 3 and -e^x
    assert fact.lower.min() >= -np.exp(2.0) - 1e-9
