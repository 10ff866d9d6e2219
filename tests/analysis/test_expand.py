"""Products of sums written out are the same function, whatever is broadcast."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.rewrites.algebra import addends, expand_products

X, A, B = pt.dvector("x"), pt.bvector("a"), pt.bvector("b")
GIVEN = {X: np.array([2.0, -3.0]), A: np.array([100, 7], "int8"), B: np.array([100, 5], "int8")}
MODE = pytensor.compile.Mode(linker="py", optimizer=None)


def value(graph):
    """By plain Python, without rewrites."""
    return pytensor.function([*GIVEN], graph, mode=MODE, on_unused_input="ignore")(*GIVEN.values())


CASES = {
    "square of a sum": pt.sqr(X - 3.0 * X[::-1]).sum(),
    "exponents broadcast the base": (((X + 1.0)[:, None]) ** np.array([[2.0, 2.0, 2.0]])).sum(),
    "a divisor broadcasts the sum": ((X + 1.0)[:, None] / np.array([[2.0, 4.0, 8.0]])).sum(),
    "a factor broadcasts the sum": ((X + 1.0)[:, None] * np.array([[2.0, 4.0, 8.0]])).sum(),
    "a term is broadcast": ((X + 1.0)[:, None] + np.array([[2.0, 4.0, 8.0]])).sum(),
    "narrow integers wrap": (0.5 * (A + B)).sum(),
    "their squares wrap": (0.5 * pt.sqr(A + B)).sum(),
    "truth values are no numbers": (1.0 * (pt.gt(A, 0) + pt.gt(B, 0))).sum(),
}


@pytest.mark.parametrize("name", CASES)
def test_a_product_written_out_is_the_same_function(name):
    assert value(expand_products(CASES[name])) == pytest.approx(value(CASES[name]))


@pytest.mark.parametrize(
    "graph", [A + B, A - B, -A, A.sum(dtype="int8"), pt.gt(A, 0) + pt.gt(B, 0)]
)
def test_sums_that_wrap_around_have_no_addends(graph):
    """In eight bits 100 + 100 is -56."""
    assert addends(graph, lambda v: False, ConcreteValues(GIVEN)) is None


def test_the_addends_of_broadcast_terms_add_up_to_the_sum():
    graph = X[:, None] + np.array([[2.0, 4.0, 8.0]])
    parts = addends(graph, lambda v: False, ConcreteValues(GIVEN))
    assert sum(value(part).sum() for part in parts) == pytest.approx(value(graph).sum())
