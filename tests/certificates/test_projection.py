"""Points that a search tries are records and parameters: rows have their sums."""

from __future__ import annotations

import numpy as np
import pytest

import pymc_private as pmp
from benchmarks.distributions import BY_NAME
from benchmarks.zoo import N
from pymc_private.certificates import range_objective
from tests.certificates.objectives import first_objective


def private_of(name):
    one = BY_NAME[name]
    return one.privatize(one.data(np.random.default_rng(1), N))


def objective(name):
    return first_objective(private_of(name))


def rows_of(made, points, column):
    for copy in column.role.copies(made.coordinates.contrast):
        yield points[:, made.coordinates.slices[column.variable, copy]]


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["dirichlet multinomial", "multinomial", "normal mixture"])
def test_rows_have_their_sums_and_stay_in_the_box(name):
    made, rng = objective(name), np.random.default_rng(4)
    lower, upper = made.coordinates.lower, made.coordinates.upper
    points = rng.uniform(lower, upper, (300, len(lower)))
    points = np.where(made.whole, np.round(points), points)
    moved = range_objective.project_onto_domain(points, made.coordinates, {})
    assert np.all((moved >= lower) & (moved <= upper))
    np.testing.assert_array_equal(moved[:, made.whole], np.round(moved[:, made.whole]))
    summed = [c for c in made.coordinates.columns if range_objective.has_fixed_sums(c)]
    assert summed
    for column in summed:
        for rows in rows_of(made, moved, column):
            total = column.bounds.within.total
            np.testing.assert_allclose(rows.sum(axis=1), total, atol=0 if column.is_whole else 1e-9)


@pytest.mark.thin(2)
@pytest.mark.parametrize(("name", "most"), [("dirichlet multinomial", 1.02), ("multinomial", 1.05)])
def test_what_is_found_is_near_what_is_proved(name, most):
    found = pmp.certify(private_of(name))
    assert not found.is_relaxed
    assert found.tightness <= most + 1e-6
    for place in found.where:
        assert place.low <= min(place.values) <= max(place.values) <= place.high


def test_points_that_are_no_records_would_be_found_beyond_the_truth(monkeypatch):
    """All counts at once, and all probabilities, are no row."""
    made, bound = objective("multinomial"), pmp.certify(private_of("multinomial")).range
    point = made.coordinates.lower.copy()
    for (_, copy), place in made.coordinates.slices.items():
        point[place] = (made.coordinates.upper if copy == (0,) else made.coordinates.lower)[place]
    assert made.attained(point[None])[0] <= bound
    monkeypatch.setattr(range_objective, "project_onto_domain", lambda points, *_: points)
    assert made.attained(point[None])[0] > 1.2 * bound
