"""Values survive pickling and copying, and print themselves without data."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.fingerprint import model_fingerprint

N = 15
SECRET = 1.23456789
ROADS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "deepcopy": copy.deepcopy,
    "twice": lambda value: copy.deepcopy(pickle.loads(pickle.dumps(value))),
}


def starts():
    """A start that only cloudpickle can carry."""
    return np.array(0.1)


@pytest.fixture(scope="module")
def private():
    """Give a model with data of every kind, trimmed and tempered."""
    rng = np.random.default_rng(0)
    y, offset = rng.uniform(-2, 2, N), rng.uniform(0, 1, N)
    y[3], offset[3] = SECRET, SECRET - 0.5
    with pm.Model(coords={"i": range(N)}) as model:
        mu = pm.Normal("mu", 0, 1, initval=starts())
        a = pm.Normal("a", 0, 1, shape=2)
        x = pm.Data("x", np.where(np.arange(N) == 3, SECRET, 0.5), dims="i")
        g = pm.Data("g", np.arange(N) % 2, dims="i")
        pm.Normal("y", mu * x + a[g] + offset, 1.0, observed=y, dims="i")
    domain = {"y": (-2, 2), "x": (-2, 2), "g": {0, 1}, "constant_0": (0, 1)}
    whole = pmp.privatize(model, records="i", domain=domain)
    trimmed = pmp.trim(whole, box={"mu": (-1, 1), "a": (-1, [1, 2])})
    return pmp.temper(trimmed, 0.25)


@pytest.fixture(scope="module")
def plan(private):
    """Give a plan for it."""
    return pmp.calibrate(private, epsilon=1.0, delta=1e-6, draws=3, clip=False)


@pytest.mark.thin(8)
@pytest.mark.parametrize("road", ROADS)
def test_a_private_model_survives(private, road):
    carried = ROADS[road](private)
    assert repr(carried) == repr(private)
    assert model_fingerprint(carried) == model_fingerprint(private)
    assert carried.power == private.power
    for old, new in zip(private.sources, carried.sources, strict=True):
        assert np.array_equal(old.values(), new.values())
        assert old.variable is not new.variable
    first, second = (pmp.certify(p, tolerance=3, seconds=0) for p in (private, carried))
    assert first.range == second.range
    start = private.model.initial_point()
    logps = [p.model.compile_logp(mode="FAST_COMPILE")(start) for p in (private, carried)]
    assert logps[0] == logps[1]


def test_a_copy_has_its_own_data(private):
    carried = copy.deepcopy(private)
    carried.sources[0].variable.set_value(np.zeros(N))
    assert private.sources[0].values().any()
    # The graph of the copy reads the copy's data, not those of the first.
    sources = {s.name: s.variable for s in carried.sources}
    assert carried.base["x"] is sources["x"]


@pytest.mark.thin(8)
@pytest.mark.parametrize("road", ROADS)
def test_a_plan_survives(plan, road):
    carried = ROADS[road](plan)
    assert carried.fingerprint == plan.fingerprint
    assert carried.summary() == plan.summary()
    assert carried.guarantee == plan.guarantee
    assert repr(carried.certificate) == repr(plan.certificate)
    assert carried.to_frame().equals(plan.to_frame())


@pytest.mark.parametrize("road", ROADS)
def test_a_certificate_survives(plan, road):
    assert ROADS[road](plan.certificate) == plan.certificate


def test_the_repr_says_that_the_model_holds_data(private):
    assert "holds confidential data" in repr(private)
    assert "holds confidential data" in private._repr_html_()


def test_nothing_that_prints_shows_a_data_value(private, plan):
    texts = [
        repr(private),
        private._repr_html_(),
        repr(plan),
        plan._repr_html_(),
        plan.summary(),
        repr(plan.certificate),
        plan.certificate._repr_html_(),
        "\n".join(plan.certificate.trail),
        repr(pmp.constants(private.base)),
        repr(private.sources),
        repr(private.graph),
        repr(private.graph.record),
    ]
    for text in texts:
        assert "1.2345" not in text
        assert "0.7345" not in text


def test_markup_in_names_is_escaped():
    with pm.Model(coords={"<b>": range(3)}) as model:
        pm.Normal("y", pm.Normal("<i>mu"), 1, observed=np.zeros(3), dims="<b>")
    private = pmp.privatize(model, records="<b>", domain={"y": (-1, 1)})
    trimmed = pmp.trim(private, box={"<i>mu": (0, 1)})
    plan = pmp.calibrate(trimmed, epsilon=1.0)
    for html in (trimmed._repr_html_(), plan._repr_html_(), plan.certificate._repr_html_()):
        assert "<b>" not in html.replace("<b>1</b>", "")
        assert "<i>" not in html
