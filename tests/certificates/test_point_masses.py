"""Entries that may equal a point mass: no record is lost, and none is made up."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.certificates import range_objective
from pymc_private.models.record_likelihood import Role
from tests.analysis.graphs import evaluate
from tests.certificates.objectives import first_objective

N = 7


def private(jump: float = 3.0):
    """A loss with a point mass at either end, and one inside, at which the record matters most."""
    with pm.Model(coords={"i": range(N)}) as model:
        y, t = pm.Data("y", np.zeros(N), dims="i"), pm.Uniform("t", 0, 1)
        inside = pt.switch(pt.eq(y, 0.25), -jump * t, y * t)
        pm.Potential("loss", pt.switch(pt.eq(y, 1.0), 2.0 * t, inside), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-1, 1)})


def objective():
    return first_objective(private())


def test_a_range_is_attained_at_its_point_masses():
    found = pmp.certify(private())
    assert found.range == pytest.approx(5.0, rel=0.011)  # y = 1 against y = 0.25
    assert found.searched == pytest.approx(5.0, rel=1e-6)


def test_at_the_right_kind_the_function_is_the_same():
    made = objective()
    columns = {str(c.variable.name): c.variable for c in made.coordinates.columns}
    y, t, which = columns["y"], columns["t"], columns["which y"]
    for number, kind, wanted in [(0.25, 1, -3.0), (1.0, 2, 2.0), (-0.4, 0, -0.4), (0.9, 0, 0.9)]:
        for shown in (
            (number, 0.1) if kind else (number,)
        ):  # of a point mass y itself does not count
            point = {y: np.array(shown), t: np.array(0.5), which: np.array(kind, "int8")}
            (value,) = evaluate([made.value], point)
            assert float(value) == pytest.approx(0.5 * wanted)


def test_a_number_beside_an_atom_is_none():
    levels, which = np.array([0.25, 1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    moved = range_objective.move_off_point_masses(
        levels, which, np.array([0.25, 0.25, 1.0, 0.5]), 0.0
    )
    assert moved[0] < 0.25 == moved[1]
    assert moved[2] < 1.0
    assert moved[3] == 0.5
    assert (abs(moved - [0.25, 0.25, 1.0, 0.5]) < 1e-15).all()


def test_what_is_attained_is_no_limit_beyond_the_records():
    made = objective()
    points = np.tile(made.coordinates.lower, (1, 1))
    for variable, copy in made.coordinates.slices:
        place, name = made.coordinates.slices[variable, copy], str(variable.name)
        points[0, place] = {"y": (0.25, 0.0), "t": (0.0, 1.0), "which y": (0.0, 0.0)}[name][copy[0]]
    assert made.attained(points)[0] <= 0.25  # not 3: y is said to be no point mass


def test_atoms_that_are_forgotten_are_caught(monkeypatch):
    true = range_objective.split_at_point_masses

    def forgetful(value, columns):
        value, columns, found = true(value, columns)
        whole = [c for c in columns if c.role is Role.RECORD and c.is_whole]
        for column in whole:
            column.bounds.upper[...] = 0.0
        return value, columns, found

    monkeypatch.setattr(range_objective, "split_at_point_masses", forgetful)
    with pytest.raises(pmp.errors.NotCertified, match="the bound contradicts a search"):
        pmp.certify(private())


def test_levels_and_single_numbers_have_no_point_masses():
    with pm.Model(coords={"i": range(N)}) as model:
        y, t = pm.Data("y", np.zeros(N), dims="i"), pm.Uniform("t", 0, 1)
        pm.Potential("loss", pt.switch(pt.eq(y, 1.0), 2.0 * t, y * t), dims="i")
    made = pmp.privatize(model, records="i", domain={"y": {0.0, 0.5, 1.0}})
    assert first_objective(made)._masses == {}
    assert pmp.certify(made).range == pytest.approx(2.0, rel=0.011)
