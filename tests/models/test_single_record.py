"""One row out of a record graph: proved once, with as many rows as it takes."""

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models import record_likelihood as module
from pymc_private.models.record_likelihood import single_record
from pymc_private.models.sequences.row_identity import STACKED_ROWS


def logistic(n=400):
    with pm.Model(coords={"i": range(n)}) as model:
        x = pm.Data("x", np.zeros((n, 2)), dims=("i", "k"))
        shift = pm.Data("shift", 0.5)
        b = pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=shift + x @ b, observed=np.zeros(n, int), dims="i")
    domain = {"x": pmp.Ball(1.0)}
    return pmp.privatize(model, records="i", domain=domain, public=["shift"])


def row_of(private):
    return single_record(private.graph, private.sources, private.n, private.shapes)


def test_certificates_look_at_a_few_rows_once_whatever_the_number_of_records(monkeypatch):
    private, seen = logistic(), []
    proof = module._rows_are_equivalent

    def noted(record, values, stand_ins, axes, n):
        seen.append(n)
        return proof(record, values, stand_ins, axes, n)

    monkeypatch.setattr(module, "_rows_are_equivalent", noted)
    for form in (private, pmp.temper(private, 0.5), pmp.trim(private, box={"b": (0.0, 1.0)})):
        pmp.certify(form, tolerance=1.0)
    assert seen == [STACKED_ROWS]


def test_regions_and_powers_share_the_answer():
    private = logistic()
    assert row_of(private) is row_of(pmp.temper(pmp.trim(private, mass=0.9), 0.5))


def test_public_data_that_change_are_read_anew():
    """`set_data` on the private copy: the shift is a constant of the one row."""
    private = logistic()
    before = pmp.certify(pmp.trim(private, box={"b": (0.0, 1.0)})).range
    first = row_of(private)
    (shift,) = (v for v in private.base.data_vars if v.name == "shift")
    shift.set_value(9.0)
    assert row_of(private) is not first
    assert pmp.certify(pmp.trim(private, box={"b": (0.0, 1.0)})).range > 1.2 * before


def test_rows_that_differ_are_still_looked_at_one_by_one():
    n = 2 * STACKED_ROWS
    with pm.Model(coords={"i": range(n)}) as model:
        b = pm.Normal("b", 0, 1)
        weight = np.ones(n)
        weight[-1] = 2.0  # far beyond the rows that an unpinned graph is proved with
        pm.Normal("y", b * pm.Data("w", weight, dims="i"), 1.0, observed=np.zeros(n), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)}, public=["w"])
    assert private.graph.rows_differ
    assert next(iter(row_of(private).public.values())).shape == (n,)
    found = pmp.certify(pmp.trim(private, box={"b": (-1.0, 1.0)}))
    assert found.range == pytest.approx(8.0, rel=0.01)  # 2 (change of b) x 2 (change of y) x 2
