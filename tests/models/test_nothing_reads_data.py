"""Between `privatize` and the charge nothing reads the data; the user's model is left alone."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, N
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.posterior.assemble import rehearse
from pymc_private.posterior.calibrate import plan_at_cost
from pymc_private.samplers.choose import choose_sampler

pytestmark = pytest.mark.usefixtures("quick")

NAMES = [
    "logistic",
    "poisson",
    "hierarchical",
    "categorical",
    "private offset",
    "public predictor",
    "observed data variable",
    "initial values",
    "potential only",
    "records along the second axis",
]

SOON = ("hierarchical", "private offset")


def overwrite(private):
    """Replace every private value of the copy: floats by NaN, whole numbers by garbage."""
    for source in private.sources:
        data = source.values()
        garbage = np.nan if data.dtype.kind == "f" else np.iinfo(data.dtype).max // 3
        source.variable.set_value(np.full_like(data, garbage))
        held = source.values()
        assert np.isnan(held).all() if held.dtype.kind == "f" else (held > 99).all()


def untrimmed(name, seed=1):
    entry = BY_NAME[name]
    data = entry.data(np.random.default_rng(seed), N)
    keywords = {"records": "person"} | dict(entry.keywords)
    return pmp.privatize(entry.model(data), domain=entry.domain, **keywords)


def told(action):
    """What an action says: its value's text, or its error."""
    try:
        return action()
    except pmp.errors.PymcPrivateError as error:
        return type(error).__name__, str(error)


def facts_of(found):
    return (
        found.range,
        found.searched,
        found.trail,
        found.claims,
        repr(found),
        found.guarantee(3).to_dict(),
    )


def facts_of_plan(plan):
    rehearse(plan, "name")
    figure = plan.plot()
    return (
        plan.fingerprint,
        plan.summary(),
        repr(plan),
        plan._repr_html_(),
        plan.to_frame().to_csv(),
        plan.guarantee.to_dict(),
        plan.sampler,
        facts_of(plan.certificate),
        [line.get_xydata().tolist() for line in figure.lines],
        figure.get_title(),
    )


def everything(private, box):
    """All that may be asked of a private model without a charge."""
    trimmed = pmp.trim(private, box=box)
    tempered = pmp.temper(trimmed, 0.25)
    ends = pmp.trim(private, mass=0.9).region
    return {
        "repr": (repr(private), private._repr_html_(), repr(trimmed), repr(tempered)),
        "box": {k: (v.lower.tolist(), v.upper.tolist()) for k, v in trimmed.box.items()},
        "mass": {k: (v.lower.tolist(), v.upper.tolist()) for k, v in ends.items()},
        "print": (model_fingerprint(private), model_fingerprint(tempered)),
        "untrimmed": told(lambda: facts_of(pmp.certify(private, tolerance=2))),
        "certificate": facts_of(pmp.certify(trimmed, tolerance=2)),
        "tempered": facts_of(pmp.certify(tempered, tolerance=2)),
        "sampler": told(lambda: choose_sampler(trimmed)),
        "model": sorted(trimmed.model.named_vars),
        "start": {k: v.tolist() for k, v in trimmed.model.initial_point().items()},
    }


def planned(private, box):
    """All that may be asked of a plan without a charge."""
    trimmed = pmp.trim(private, box=box)
    budget = {"epsilon": 1.0, "delta": 1e-6, "draws": 4}
    return {
        "plan": told(lambda: facts_of_plan(pmp.calibrate(trimmed, **budget))),
        "refusal": told(lambda: pmp.calibrate(trimmed, **budget | {"temper": False}).summary()),
        "cost": told(lambda: facts_of_plan(plan_at_cost(trimmed, 2, 1e-6))),
    }


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "name", [n if n in SOON else pytest.param(n, marks=pytest.mark.audit) for n in NAMES]
)
def test_the_same_is_said_when_every_private_value_is_overwritten(name):
    kept, swapped = untrimmed(name), untrimmed(name)
    overwrite(swapped)
    first, second = (everything(private, BY_NAME[name].box) for private in (kept, swapped))
    for key, value in first.items():
        assert second[key] == value, key
    if first["sampler"] == "boxes":
        assert planned(kept, BY_NAME[name].box) == planned(swapped, BY_NAME[name].box)


@pytest.mark.audit
def test_a_plan_that_trims_by_itself_reads_no_data():
    kept, swapped = untrimmed("logistic"), untrimmed("logistic")
    overwrite(swapped)
    plans = [pmp.calibrate(p, epsilon=1.0, delta=1e-6, draws=4) for p in (kept, swapped)]
    assert facts_of_plan(plans[0]) == facts_of_plan(plans[1])


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "public predictor"])
def test_other_records_have_the_same_graph_and_the_same_fingerprint(name, private):
    first, second = private(name, 1), private(name, 2)
    assert any(
        not np.array_equal(a.values(), b.values())
        for a, b in zip(first.sources, second.sources, strict=True)
    )
    assert model_fingerprint(first) == model_fingerprint(second)
    assert repr(first) == repr(second)


def test_what_is_public_is_in_the_fingerprint(private):
    assert model_fingerprint(private("public predictor", 1)) != model_fingerprint(
        private("public predictor", 2)
    )


def snapshot(model):
    """All that a user could see change: variables, data, transforms, starts, log-density."""
    start = pm.Model.initial_point(model)
    return {
        "variables": {name: id(variable) for name, variable in model.named_vars.items()},
        "values": {rv.name: id(value) for rv, value in model.rvs_to_values.items()},
        "transforms": {rv.name: id(t) for rv, t in model.rvs_to_transforms.items()},
        "starts": {rv.name: v for rv, v in model.rvs_to_initial_values.items()},
        "dims": dict(model.named_vars_to_dims),
        "coords": {k: tuple(v) for k, v in model.coords.items()},
        "data": {v.name: v.get_value().tolist() for v in model.data_vars},
        "logp": float(model.compile_logp(mode="FAST_COMPILE")(start)),
    }


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", NAMES)
def test_the_users_model_is_left_untouched(name):
    entry = BY_NAME[name]
    data = entry.data(np.random.default_rng(1), N)
    for value in data.values():  # so that something is clipped
        if value.dtype.kind == "f":
            value[0] = 50.0
    keywords = {"records": "person"} | dict(entry.keywords)
    model = entry.model(data)
    before, arrays = snapshot(model), {k: v.copy() for k, v in data.items()}
    private = pmp.privatize(model, domain=entry.domain, **keywords)
    trimmed = pmp.temper(pmp.trim(private, box=entry.box), 0.5)
    overwrite(trimmed)
    _ = trimmed.model.initial_point()
    assert snapshot(model) == before
    assert all(np.array_equal(data[k], arrays[k]) for k in data)
