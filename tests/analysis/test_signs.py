"""Products with signs, written as kinks, are the same function; what is none of them stays."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import simplify
from pymc_private.analysis.rewrites.algebra import signs_to_absolute_values

PLACES = np.array([-3.0, -0.2, 0.0, 0.4, 5.0])


def names(value):
    """Of the scalar functions in a graph."""
    ops = [getattr(v.owner, "op", None) for v in ancestors([value])]
    return {type(op.scalar_op).__name__ for op in ops if hasattr(op, "scalar_op")}


@pytest.mark.parametrize("options", [{"kappa": 1.5}, {"kappa": 0.3}, {"q": 0.9}])
def test_the_asymmetric_laplace_density_becomes_kinks(options):
    u = pt.tensor("u", shape=(5,), dtype="float64")
    density = simplify([pm.logp(pm.AsymmetricLaplace.dist(b=2.0, mu=u, **options), 0.4).sum()])[0]
    found = signs_to_absolute_values(density)
    assert "Sign" in names(density)
    assert "Sign" not in names(found)
    assert "Abs" in names(found)
    assert found.eval({u: PLACES}) == pytest.approx(density.eval({u: PLACES}), rel=1e-12)


@pytest.mark.parametrize(
    "form",
    [
        lambda v: v * pt.sign(v) * pt.pow(-2.0, pt.sign(v)),  # no number above zero
        lambda v: v * pt.sign(v) * pt.pow(2.0, pt.sign(v + 1.0)),  # of another variable
        lambda v: v * pt.pow(2.0, pt.sign(v)) + pt.sign(v),  # not multiplied by the sign
    ],
)
def test_other_products_are_left_alone(form):
    v = pt.tensor("v", shape=(5,), dtype="float64")
    value = form(v).sum()
    assert signs_to_absolute_values(value) is value
