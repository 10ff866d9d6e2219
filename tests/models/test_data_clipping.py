"""Records clipped one by one: fast where nothing is to be clipped, and the same to the bit."""

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models import data_clipping
from pymc_private.models.data_clipping import clipped_records

DOMAINS = {
    "interval": pmp.Interval(-1.0, 1.0),
    "intervals": pmp.Interval([-1.0, 0.0, -0.5], [1.0, 0.5, 2.0]),
    "ball": pmp.Ball(1.0),
    "ellipsoid": pmp.Ball(1.3, center=[0.5, 0.0, 1.0], scale=[1.0, 2.0, 0.25]),
}


def source_of(domain):
    with pm.Model() as model:
        x = pm.Data("x", np.full((4, 3), 0.25))
        pm.Normal("y", x @ pm.Normal("b", shape=3), 1.0, observed=np.zeros(4))
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain={"x": domain, "y": (-9, 9)})
    return next(source for source in private.sources if source.name == "x")


def records():
    """Inside, outside, at the surface to the last bits, and no numbers."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 3))
    rows[206:] *= rng.choice([0.1, 1.0, 1e200], (394, 1))
    rows[:200] /= np.linalg.norm(rows[:200], axis=1, keepdims=True)
    rows[:200] *= 1.0 + 1e-15 * rng.integers(-3, 4, (200, 1))
    rows[200:206, 1] = np.nan, np.inf, -np.inf, -0.0, 1.0, -1.0
    return rows[rng.permutation(600)]


@pytest.mark.parametrize("kind", DOMAINS)
def test_records_inside_are_left_alone_and_all_others_clipped_as_before(kind):
    source, rows = source_of(DOMAINS[kind]), records()
    found, expected = clipped_records(source, rows), data_clipping._clipped_rows(source, rows)
    np.testing.assert_array_equal(found, expected)
    alone = np.concatenate([clipped_records(source, row[None]) for row in rows])
    assert alone.tobytes() == found.tobytes()
    held = source.domain.holds(rows)
    assert 0 < held.sum() < len(rows)
    assert found[held].tobytes() == rows[held].tobytes()
    assert clipped_records(source, rows[held]).tobytes() == rows[held].tobytes()


@pytest.mark.parametrize("radius", [1e-170, 1e-150, 1e150, 1e170])
def test_no_row_is_surely_inside_a_ball_whose_square_is_no_double(radius):
    rows = np.array([[2.0, 0.0, 0.0], [0.5, 0.5, 0.0]]) * radius
    assert not pmp.Ball(radius).holds(rows).any()


def test_a_domain_is_printed_as_it_would_be_typed():
    assert repr(pmp.Interval(np.log(2), np.int64(3))) == f"Interval(lower={np.log(2)}, upper=3)"
    assert repr(pmp.Ball(np.float64(2))) == "Ball(radius=2.0, center=0.0, scale=1.0)"
