"""Weighted means keep their values, and lie between their terms."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds
from pymc_private.analysis.intervals.ops import equal_forms, on_simplex
from pymc_private.analysis.rewrites import weighted_means
from pymc_private.analysis.rewrites.weighted_means import (
    enclose_weighted_means,
    first_of_touched_forms,
)
from pymc_private.analysis.traversal import rebuild
from tests.analysis.graphs import evaluate

A, B, Z = pt.dscalars("abz")
FORMS = {
    "a (1 - w) + b w": lambda w: A * (1.0 - w) + B * w,
    "w b + (1 - w) a + a": lambda w: w * B + (1.0 - w) * A + A,
    "a + (b - a) w": lambda w: A + (B - A) * w,
}


def box(**ends: tuple[float, float]) -> dict:
    """Bounds of a, b and z."""
    wanted = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "z": (-9.0, 9.0)} | ends
    return {v: Bounds(*map(np.array, wanted[v.name])) for v in (A, B, Z)}


@pytest.mark.parametrize("name", FORMS)
def test_a_mean_is_the_same_number_between_its_terms(name):
    written = FORMS[name](pt.sigmoid(Z))
    found = enclose_weighted_means(written, box())
    fact = propagate_bounds([found], box())[found]
    reach = 2.0 if name.endswith("+ a") else 1.0
    assert (float(fact.lower), float(fact.upper)) == (-reach, reach)
    rng = np.random.default_rng(3)
    for point in rng.uniform(-1, 1, (20, 3)):
        given = {v: np.array(x) for v, x in zip((A, B, Z), point * [1, 1, 9], strict=True)}
        one, other = evaluate([written, found], given)
        assert float(one) == pytest.approx(float(other), abs=1e-12)


def test_a_weight_that_may_exceed_one_is_left_alone(monkeypatch):
    """Planted: without the proof of 0 <= w <= 1 the bounds miss a value that is attained."""
    written = A * (1.0 - Z) + B * Z
    assert enclose_weighted_means(written, box(z=(0.0, 1.5))) is written
    anything = {v: Bounds(np.array(0.0), np.array(1.0)) for v in (A, B, Z)}
    monkeypatch.setattr(
        weighted_means, "propagate_bounds", lambda outs, _: propagate_bounds(outs, anything)
    )
    found = enclose_weighted_means(written, box(z=(0.0, 1.5)))
    (value,) = evaluate([written], {A: np.array(-1.0), B: np.array(1.0), Z: np.array(1.5)})
    assert propagate_bounds([found], box(z=(0.0, 1.5)))[found].upper < float(value)


def test_a_mean_of_one_term_is_the_term():
    w = pt.sigmoid(Z)
    written = pt.log(A * (1.0 - w) + A * w)
    found = enclose_weighted_means(written, box(a=(1.0, 2.0)))
    fact = propagate_bounds([found], box(a=(1.0, 2.0)))[found]
    assert float(fact.upper) == pytest.approx(np.log(2.0), abs=1e-14)


@pytest.mark.parametrize("stated", [on_simplex, lambda v: equal_forms(v, pt.minimum(v, 1.0))])
def test_what_is_stated_of_parts_is_not_stated_of_free_numbers(stated):
    """Rows of (a, 1 - a) sum to one; those of (a, c) do not, where c takes the place of 1 - a."""
    a, b, c = pt.dscalars("a", "b", "c")
    rest = 1 - a
    row = stated(pt.stack([a, rest]))
    (kept,) = rebuild([row + b], {b: c}, first_of_touched_forms)
    assert row in ancestors([kept])
    (left,) = rebuild([row + b], {rest: c}, first_of_touched_forms)
    made = [v.owner.op for v in ancestors([left]) if v.owner is not None]
    assert row.owner.op not in made
