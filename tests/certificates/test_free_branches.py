"""Change points: each branch a coordinate, so that the range is proved across the jump."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from benchmarks.held_out import BY_NAME
from benchmarks.zoo import N
from pymc_private.analysis import Bounds
from pymc_private.certificates import free_branches
from pymc_private.certificates.free_branches import comparisons
from pymc_private.models.record_likelihood import InputColumn, Role
from tests.analysis.graphs import evaluate

ALONE = 10 * np.log(10) - 4.5
"""The range over the rate in [0.5, 5] of y log r - r at y = 10; at no y is it greater."""


def certified(name: str) -> pmp.Certificate:
    one = BY_NAME[name]
    return pmp.certify(one.privatize(one.data(np.random.default_rng(1), N)), progressbar=False)


def test_a_change_point_has_the_range_of_both_rates():
    """One record before, one after every change: each moves by as much as its own rate can."""
    found = certified("change point")
    assert found.range * (1 + 1e-12) >= 2 * ALONE
    assert found.range <= 2.02 * ALONE
    assert found.searched >= 1.9 * ALONE


def test_branches_that_are_never_taken_are_caught(monkeypatch):
    """Planted: a branch variable that is always zero."""
    monkeypatch.setattr(free_branches, "EITHER", (0.0, 0.0))
    with pytest.raises(pmp.errors.NotCertified, match="contradicts a search"):
        certified("change point")


def sides(comparison):
    """A comparison of x with t as `x < t` of the two, negated or not."""
    x, t = pt.dscalar("x"), pt.dscalar("t")
    unit = Bounds(np.array(0.0), np.array(1.0))
    columns = [InputColumn(x, Role.RECORD, unit), InputColumn(t, Role.POINT, unit)]
    graph = pt.switch(comparison(x, t), 1.0, 2.0)
    ((variable, (first, second, negated)),) = comparisons(graph, columns).items()
    return [x, t], variable, (pt.lt(first, second), negated)


@pytest.mark.parametrize("comparison", [pt.lt, pt.le, pt.gt, pt.ge])
def test_each_comparison_is_less_than_or_its_negation(comparison):
    inputs, variable, (less, negated) = sides(comparison)
    for point in [(0.2, 0.7), (0.7, 0.2), (0.5, 0.5)]:
        given = {v: np.array(value) for v, value in zip(inputs, point, strict=True)}
        whole, part = evaluate([variable, less], given)
        assert bool(whole) == (bool(part) != negated)


def test_a_comparison_of_records_alone_keeps_its_link():
    """y > 0 is a fact of the record: a free branch would give losses to records without any."""
    with pm.Model() as model:
        t, y = pm.Uniform("t", 0, 1), pm.Data("y", np.linspace(-1, 1, N))
        pm.Potential("loss", pt.switch(y > 0.0, t * y, 0.0))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})
    assert pmp.certify(private).range == pytest.approx(1.0, rel=0.02)


@pytest.mark.audit
def test_a_comparison_with_what_may_be_no_number_keeps_its_link():
    """Of NaN neither t < x nor t >= x is true: here the loss is 5 t wherever a is negative."""
    with pm.Model() as model:
        a, t = pm.Uniform("a", -1, 1), pm.Data("t", np.linspace(0, 1, N))
        x = pt.log(a)
        pm.Potential("loss", pt.switch(t < x, 0.0, pt.switch(t >= x, 1.0, 5.0 * t)))
    private = pmp.privatize(model, records={"t": 0}, domain={"t": (0, 1)})
    assert pmp.certify(private).range >= 5.0
