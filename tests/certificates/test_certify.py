"""Certified ranges against formulas, against searches, and against PyMC's own log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, N
from pymc_private.analysis import Bounds, propagate_bounds
from pymc_private.analysis.rewrites.normal_cdf import has_log_phi
from pymc_private.certificates.range_bound import range_of_table
from pymc_private.certificates.record_bounds import RecordBounds
from tests.models.brute_force import own_logp, random_points

ZOO = list(BY_NAME)


OFF = 4e-8  # PyMC's log Phi is off by up to 1.7e-8 (it jumps); a private model has log Phi itself

# Every other model at every run, the rest with the audits.
HALF = [
    pytest.param(name, marks=pytest.mark.audit) if place % 2 else name
    for place, name in enumerate(ZOO)
]


@cache
def own(private: Callable, name: str, seed: int = 1) -> Callable:
    """PyMC's log-likelihood of a model of the zoo, compiled once."""
    return own_logp(private(name, seed))


@pytest.mark.thin(24)
@pytest.mark.parametrize("name", ZOO)
def test_a_model_of_the_zoo_has_a_tight_certificate(name, certificate):
    entry, found = BY_NAME[name], certificate(name)
    assert np.isfinite(found.range)
    assert 0 < found.searched <= found.range
    assert found.tightness <= entry.ceiling


@pytest.mark.thin(24)
@pytest.mark.parametrize("name", HALF)
def test_draws_cost_their_ranges_together(name, certificate):
    assert certificate(name).guarantee(3).pure_epsilon >= 3 * certificate(name).range


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", [name for name in ZOO if BY_NAME[name].exact])
def test_the_range_is_the_formula_of_t5(name, certificate):
    exact, found = BY_NAME[name].exact, certificate(name)
    assert found.range >= exact * (1 - 1e-12)
    assert found.searched <= exact * (1 + 1e-9)
    assert found.range <= exact * BY_NAME[name].within


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", HALF)
def test_no_pair_of_records_escapes_the_range(name, private, certificate):
    """PyMC's own log-likelihood of random records, at random points of the box."""
    found, rng = certificate(name), np.random.default_rng(7)
    models = [private(name), private(name, 2)]
    most = found.range + (OFF if has_log_phi(models[0].graph.record) else 0.0)
    points = list(random_points(models[0], rng, 120))
    compiled = [own(private, name), own(private, name, 2)]
    tables = [np.array([logp(p) for p in points]) for logp in compiled]
    assert np.isfinite(tables).all()
    pairs = tables[0] - tables[1]  # the same row of two datasets
    variation = pairs.max(axis=0) - pairs.min(axis=0)
    assert variation.max() <= most
    if not models[0].graph.rows_differ:
        logp = tables[0]
        pairs = logp[:, :, None] - logp[:, None, :]
        variation = pairs.max(axis=0) - pairs.min(axis=0)
        assert variation.max() <= most
    # Not vacuous: what was tried at random comes near what the search found.
    assert variation.max() > 0.5 * found.searched


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", ZOO)
def test_the_record_graph_is_the_models_own_likelihood(name, private):
    model, rng = private(name), np.random.default_rng(3)
    rows = RecordBounds(model.graph, model.sources, model.n)
    data = {model.graph.data[s.name]: Bounds.point(s.values()) for s in model.sources}
    logp = own(private, name)
    for point in random_points(model, rng, 4):
        given = rows._given({k: Bounds(v, v) for k, v in point.items()}, [rows.cells[0]] * N)
        fact = propagate_bounds([model.graph.record], given | data)[model.graph.record]
        # PyMC writes log Phi in two forms that differ by rounding; the record graph in one.
        value, slack = logp(point), 1e-7 if name == "censored" else 1e-9
        assert np.all(fact.lower <= value + slack * (1 + np.abs(value)))
        assert np.all(fact.upper >= value - slack * (1 + np.abs(value)))
        assert np.max(fact.upper - fact.lower) < 1e-6


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", HALF)
def test_a_row_reads_its_own_record_only(name, private):
    model, other = private(name), private(name, 2)
    rows = RecordBounds(model.graph, model.sources, model.n)
    point = next(random_points(model, np.random.default_rng(5), 1))
    given = rows._given({k: Bounds(v, v) for k, v in point.items()}, [rows.cells[0]] * N)

    def record_logp(swapped):
        data = {}
        for mine, theirs in zip(model.sources, other.sources, strict=True):
            values = np.moveaxis(mine.values().copy(), mine.axis, 0)
            if swapped is not None:
                values[swapped] = np.moveaxis(theirs.values(), mine.axis, 0)[swapped]
            data[model.graph.data[mine.name]] = Bounds.point(np.moveaxis(values, 0, mine.axis))
        return propagate_bounds([model.graph.record], given | data)[model.graph.record].lower

    before, after = record_logp(None), record_logp(N // 2)
    assert np.array_equal(np.delete(before, N // 2), np.delete(after, N // 2))


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", HALF)
def test_rows_may_be_stacked_in_any_number(name, private):
    """The coarse table of a few rows is that of all n rows, each with its own cell."""
    model = private(name)
    stacked = RecordBounds(model.graph, model.sources, model.n)
    whole = RecordBounds(replace(model.graph, rows_differ=True), model.sources, model.n)
    cells = stacked.cells[:: max(len(stacked.cells) // 5, 1)]
    for low, full in zip(
        stacked.table(model.box, cells), whole.table(model.box, cells), strict=True
    ):
        # The error bound of a sum counts its terms, so ends may differ in the last place.
        np.testing.assert_allclose(np.broadcast_to(low, full.shape), full, rtol=1e-12, atol=1e-300)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["logistic", "normal", "softmax", "public offset"])
def test_the_same_model_has_the_same_certificate_each_time(name, private, certificate):
    entry = BY_NAME[name]
    again = pmp.certify(private(name, 2), tolerance=0.05 if entry.exact else entry.ceiling - 1)
    assert (again.range, again.searched) == (certificate(name).range, certificate(name).searched)


def test_a_planted_escape_is_caught(private):
    """The audit above sees a certificate that is a tenth too small."""
    model, rng = private("bernoulli"), np.random.default_rng(7)
    logp = own_logp(model)
    table = np.array([logp(p) for p in random_points(model, rng, 120)])
    pairs = table[:, :, None] - table[:, None, :]
    assert (pairs.max(axis=0) - pairs.min(axis=0)).max() > 0.9 * BY_NAME["bernoulli"].exact


def test_a_power_scales_the_range_and_rounds_it_up(private, certificate):
    third = pmp.temper(private("normal mean"), Fraction(1, 3))
    found, whole = pmp.certify(third), certificate("normal mean")
    assert Fraction(found.range) >= Fraction(whole.range) / 3
    assert found.range == pytest.approx(whole.range / 3, rel=1e-15)
    assert whole.tempered(Fraction(1, 3)).range == found.range


def test_likelihood_terms_that_do_not_read_the_parameters_cancel():
    """T1: counts' factorials cost nothing; a range of zero is certified as such."""
    with pm.Model(coords={"i": range(5)}) as model:
        pm.Normal("mu", 0, 1)
        pm.Poisson("y", 2.0, observed=[0, 1, 2, 3, 4], dims="i")
    found = pmp.certify(pmp.privatize(model, records="i", domain={"y": (0, 9)}))
    assert found.range < 1e-9


def test_the_three_inequalities_of_t24_hold_for_random_tables():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.normal(size=(rng.integers(1, 5), rng.integers(1, 5), 6))  # cells K, X; points
        lower, upper = values.min(axis=2)[..., None], values.max(axis=2)[..., None]
        proved = range_of_table(lower, upper)
        truth = 0.0
        for x in range(values.shape[1]):
            for y in range(values.shape[1]):
                g = values[:, x, :, None] - values[:, y, None, :]
                truth = max(truth, g.max() - g.min())
        assert truth <= proved


def test_a_certificate_says_that_numbers_in_the_model_are_taken_on_trust():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, float(np.array([0.3, 0.9]).sum()))
        pm.Normal("y", mu, 1.0, observed=np.array([0.3, 0.9]))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (0, 1)})
    found = pmp.certify(pmp.trim(private, box={"mu": (0, 1)}))
    assert repr(found).count("every number and array written into the model") == 1


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("short", "cut", "said"),
    [("float64", False, ""), ("float64", True, "up to 2e-8"), ("float32", False, "about 1e-7")],
)
def test_single_precision_is_said_exactly_where_it_is(short, cut, said):
    answers = np.array([-1.0, 0.2, 0.7], dtype=short)
    with pytensor.config.change_flags(floatX=short), pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        if cut:
            pm.CustomDist(
                "y", mu, observed=answers,
                dist=lambda mu, size: pt.clip(pm.Normal.dist(mu, 1.0, size=size), -1, 1),
            )  # fmt: skip
        else:
            pm.Normal("y", mu, 1.0, observed=answers)
        private = pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})
        found = pmp.certify(pmp.trim(private, box={"mu": (-1, 1)}))
    short = [claim for claim in found.claims if "float32" in claim]
    assert len(short) == (said != "")
    assert said in "".join(short)
