"""The rehearsal: what must fail after the charge fails before it, whatever the data are."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import pymc_private as pmp
from benchmarks.zoo import ZOO, Entry
from pymc_private.analysis.intervals import bound_op
from pymc_private.errors import PymcPrivateError
from pymc_private.models import made_up_records
from pymc_private.models.data_clipping import clip_to_domain
from pymc_private.models.data_variables import Source
from pymc_private.posterior import rehearsal
from pymc_private.posterior.calibrate import plan_at_cost
from pymc_private.release import charge
from pymc_private.samplers import log_density, method, nuts

SECRET = 0.7123456789
N = 30


@pytest.fixture(scope="module")
def private() -> pmp.PrivateModel:
    """A normal mean and scale in a box, with one value that is easily found."""
    values = np.random.default_rng(1).normal(size=N).clip(-2, 2)
    values[0] = SECRET
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), pm.HalfNormal("s", 1), observed=values, dims="person")
    made = pmp.privatize(model, records="person", domain={"y": (-2, 2)})
    return pmp.temper(pmp.trim(made, box={"mu": (-1, 1), "s": (0.5, 2)}), 0.01)


def coin() -> pmp.PrivateModel:
    """A Beta probability of coins."""
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.arange(N) % 2, dims="person")
    return pmp.temper(pmp.privatize(model, records="person"), 0.01)


def regression() -> pmp.PrivateModel:
    """A logistic regression."""
    with pm.Model(coords={"person": range(N)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, N), dims="person")
        b = pm.Normal("b", 0, 1, shape=2)
        outcome = np.arange(N) % 2
        pm.Bernoulli("y", logit_p=b[0] + b[1] * x, observed=outcome, dims="person")
    made = pmp.privatize(model, records="person", domain={"x": (-1, 1)})
    return pmp.temper(pmp.trim(made, box={"b": (-2, 2)}), 0.01)


def plan_of(private: pmp.PrivateModel, sampler: Any, draws: int = 2) -> pmp.Plan:
    """A plan at cost, with room in the delta."""
    return plan_at_cost(private, draws, 1e-6, sampler)


def charged(plan: pmp.Plan, **words: Any) -> tuple[pmp.Ledger, Any]:
    """The ledger and the release, or the error."""
    ledger = pmp.Ledger(epsilon=100, delta=1e-3)
    try:
        return ledger, pmp.sample(
            plan, ledger=ledger, progressbar=False, accept_prior=True, **words
        )
    except (PymcPrivateError, KeyboardInterrupt) as error:
        return ledger, error


def rehearse(plan: pmp.Plan) -> None:
    """The rehearsal alone."""
    rehearsal.rehearse_draw(plan, "name", None, clip_to_domain)


SAMPLERS = {
    "conjugate": (coin, "conjugate", "sample_conjugate"),
    "boxes": (None, "boxes", "sample_by_rejection"),
    "grid": (None, pmp.samplers.Grid(points=8), "sample_grid"),
    "proximal": (regression, "proximal", "sample_proximal"),
    "verified": (regression, pmp.samplers.Proximal(strict=True), "verified_draws"),
    "nuts": (None, pmp.samplers.Nuts(tv=1e-9), "sample_nuts"),
}


# ---- a draw that fails is not charged -----------------------------------------------------------
@pytest.mark.thin(4)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_draw_that_fails_on_made_up_records_charges_nothing(name, private, monkeypatch):
    build, sampler, function = SAMPLERS[name]
    plan = plan_of(build() if build else private, sampler)

    def fail(*arguments, **words):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(method, function, fail)
    ledger, error = charged(plan)
    assert isinstance(error, pmp.errors.Unsupported)
    assert "nothing was charged" in str(error)
    assert "ZeroDivisionError: planted" in str(error)
    assert ledger.entries == ()


class Planted(Op):
    """The identity, until it is told to fail."""

    fails = False

    itypes = (pt.dscalar,)
    otypes = (pt.dscalar,)

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """The same number, or a failure."""
        if Planted.fails:
            raise NotImplementedError("planted Op")
        outputs[0][0] = np.array(inputs[0])

    def pullback(self, inputs: Any, outputs: Any, slopes: Any) -> Any:
        """The slope of the identity."""
        return slopes

    grad = L_op = pullback


bound_op.register(Planted, lambda op, node, known: known)


@pytest.mark.parametrize("sampler", ["boxes", pmp.samplers.Nuts(tv=1e-9)])
def test_a_model_that_cannot_be_evaluated_charges_nothing(sampler, monkeypatch):
    with pm.Model(coords={"person": range(N)}) as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", Planted()(mu), 1.0, observed=np.zeros(N), dims="person")
    made = pmp.trim(
        pmp.privatize(model, records="person", domain={"y": (-2, 2)}), box={"mu": (-1, 1)}
    )
    plan = plan_of(pmp.temper(made, 0.01), sampler)
    monkeypatch.setattr(Planted, "fails", True)
    ledger, error = charged(plan)
    assert isinstance(error, pmp.errors.Unsupported)
    assert "nothing was charged" in str(error)
    assert ledger.entries == ()


def test_a_run_of_nuts_that_does_not_compile_charges_nothing(private, monkeypatch):
    def fail(*arguments, **words):
        raise ValueError("no such instruction")

    monkeypatch.setitem(nuts._RUNNERS, "pymc", fail)
    ledger, error = charged(plan_of(private, pmp.samplers.Nuts(tv=1e-9)))
    assert "no such instruction" in str(error)
    assert ledger.entries == ()


def test_workers_receive_the_model_before_the_charge(private):
    class Broken(ThreadPoolExecutor):
        def submit(self, work, *arguments):
            if any(isinstance(a, pmp.PrivateModel) for a in arguments):
                raise TypeError("cannot be sent")
            return super().submit(work, *arguments)

    with Broken() as executor:
        ledger, error = charged(plan_of(private, "boxes"), executor=executor)
    assert "nothing was charged" in str(error)
    assert ledger.entries == ()


# ---- Ctrl-C -------------------------------------------------------------------------------------
@pytest.mark.thin(2)
@pytest.mark.parametrize(("calls", "entries"), [(1, 0), (2, 1)])
def test_ctrl_c_says_whether_it_is_charged(private, monkeypatch, calls, entries):
    """Call 1 is the rehearsal, call 2 the draw."""
    left, original = [calls], method.sample_by_rejection

    def stop(*arguments):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(method, "sample_by_rejection", stop)
    ledger, error = charged(plan_of(private, "boxes"))
    assert isinstance(error, charge.StoppedDraw)
    assert ("nothing was charged" in str(error)) == (entries == 0)
    assert ("It is charged" in str(error)) == (entries == 1)
    assert len(ledger.entries) == entries


@pytest.mark.audit
@pytest.mark.parametrize(("steps", "entries"), [(1, 0), (40, 1)])
def test_ctrl_c_within_a_run_of_nuts_stops_the_draw(private, monkeypatch, steps, entries):
    """PyMC ends a chain on Ctrl-C and goes on with what it has."""
    left, original = [steps], BaseHMC.astep

    def stop(self, *arguments):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(BaseHMC, "astep", stop)
    ledger, error = charged(plan_of(private, pmp.samplers.Nuts(tv=1e-9, tune=30)))
    assert isinstance(error, charge.StoppedDraw)
    assert len(ledger.entries) == entries


# ---- sequences of a person ----------------------------------------------------------------------
SERIES = np.random.default_rng(2).normal(size=(12, 4)).cumsum(axis=1).clip(-3, 3)


def autoregression(y: Any) -> None:
    rho, s = pm.Normal("rho", 0, 0.5), pm.HalfNormal("s", 1)
    start = pm.Normal.dist(0, 1)
    parts = {"init_dist": start, "observed": y, "dims": ("person", "time")}
    pm.AR("y", rho=pt.stack([rho]), sigma=s, **parts)


def random_walk(y: Any) -> None:
    s = pm.HalfNormal("s", 1)
    start = pm.Normal.dist(0, 1)
    pm.GaussianRandomWalk("y", sigma=s, init_dist=start, observed=y, dims=("person", "time"))


@pytest.mark.audit
@pytest.mark.parametrize("build", [autoregression, random_walk])
def test_series_of_persons_with_a_free_scale_are_drawn(build):
    with pm.Model(coords={"person": range(4), "time": range(3)}) as model:
        build(SERIES[:4, :3])
    private = pmp.privatize(model, records="person", domain={"y": (-3, 3)})
    box = {"s": (0.5, 2)} | ({"rho": (-0.9, 0.9)} if build is autoregression else {})
    ledger, release = charged(plan_of(pmp.temper(pmp.trim(private, box=box), 0.01), "boxes"))
    assert release.posterior["s"].shape == (1, 2)
    assert len(ledger.entries) == 1


@pytest.mark.thin(2)
@pytest.mark.parametrize("build", [autoregression, random_walk])
def test_slopes_of_a_checked_density_are_those_of_its_values(build):
    """PyTensor checks shapes in gradients; several points at once must not fail them."""
    with pm.Model(coords={"person": range(12), "time": range(4)}) as model:
        build(SERIES)
    private = pmp.privatize(model, records="person", domain={"y": (-3, 3)})
    box = {"s": (0.5, 2)} | ({"rho": (-0.9, 0.9)} if build is autoregression else {})
    target = log_density.Target(pmp.trim(private, box=box))
    d, step = target.dimension, 1e-5
    points = np.linspace(target.lower + 0.1, target.upper - 0.1, 5)
    for some in (points[:1], points):
        slopes = target.slopes_at(some)
        for j, move in enumerate(step * np.eye(d)):
            rise = (target.values(some + move) - target.values(some - move)) / (2 * step)
            assert slopes[:, j] == pytest.approx(rise, rel=1e-5, abs=1e-4)
            bend = (target.slopes_at(some + move) - target.slopes_at(some - move)) / (2 * step)
            assert target.hessians_at(some)[:, j] == pytest.approx(bend, rel=1e-4, abs=1e-3)


# ---- it reads no data ---------------------------------------------------------------------------
@pytest.mark.thin(8)
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_rehearsal_is_the_same_when_every_private_value_is_overwritten(
    name, private, monkeypatch
):
    build, sampler, _ = SAMPLERS[name]
    plan = plan_of(build() if build else cloudpickle.loads(cloudpickle.dumps(private)), sampler)
    seen: list[Any] = []
    original = made_up_records.with_records

    def spy(*arguments):
        made = original(*arguments)
        seen.append([source.values() for source in made.sources])
        return made

    monkeypatch.setattr(made_up_records, "with_records", spy)
    rehearse(plan)
    for source in plan.private.sources:
        values = source.values()
        garbage = np.nan if values.dtype.kind == "f" else 99
        source.variable.set_value(np.full_like(values, garbage))
    monkeypatch.setattr(Source, "values", _only_of_copies(plan.private.sources))
    rehearse(plan)
    assert len(seen) == 2
    for before, after in zip(*seen, strict=True):
        assert np.array_equal(before, after)


def _only_of_copies(sources: Any) -> Any:
    """`Source.values`, but the private variables themselves must not be read."""
    original, forbidden = Source.values, {id(source.variable) for source in sources}

    def values(self: Source) -> np.ndarray:
        assert id(self.variable) not in forbidden
        return original(self)

    return values


def test_the_model_of_the_rehearsal_holds_no_private_value():
    values = np.linspace(-1, 1, N)
    values[3] = SECRET
    with pm.Model(coords={"person": range(N)}) as model:
        x, mu = pm.Data("x", values, dims="person"), pm.Normal("mu", 0, 1)
        pm.Normal("y", mu + x + 0.5 * values.copy(), 1.0, observed=values, dims="person")
        pm.Deterministic("d", mu * pt.as_tensor(values.copy()), dims="person")
    domain = {"x": (-1, 1), "y": (-2, 2), "constant_0": (-1, 1)}
    private = pmp.trim(pmp.privatize(model, records="person", domain=domain), box={"mu": (-1, 1)})
    secret = np.float64(SECRET).tobytes()
    assert secret in cloudpickle.dumps(private.base)
    made = made_up_records.with_records(private, {s.name: s.stand_in() for s in private.sources})
    assert secret not in cloudpickle.dumps((made.base, made.sources))
    assert secret not in cloudpickle.dumps(made.model)
    assert secret not in cloudpickle.dumps(made)  # what is sent to workers


# ---- no refusal where the draw would succeed ----------------------------------------------------
SLOW = ("zero inflated poisson",)
"""Models whose second derivatives PyTensor vectorizes for half a minute."""


@pytest.mark.parametrize("one", [pytest.param(e, id=e.name) for e in ZOO if e.name not in SLOW])
@pytest.mark.audit
@pytest.mark.filterwarnings("ignore:calibrate clipped")
def test_models_that_calibrate_pass_the_rehearsal(one: Entry):
    data = one.data(np.random.default_rng(1), 37)
    try:
        plan = pmp.calibrate(one.privatize(data), epsilon=1, delta=1e-6)
    except PymcPrivateError:
        pytest.skip("no plan")
    rehearse(plan)


@pytest.mark.audit
def test_records_that_are_impossible_under_the_model_are_no_refusal():
    """A 0 is impossible under a Beta; NUTS cannot start from such records."""
    with pm.Model(coords={"person": range(N)}) as model:
        a = pm.Gamma("a", 2, 1)
        pm.Beta("y", a, 1.0, observed=np.linspace(0.2, 0.8, N), dims="person")
    made = pmp.privatize(model, records="person", domain={"y": (0.2, 0.8)})
    plan = plan_of(pmp.temper(pmp.trim(made, box={"a": (1, 3)}), 0.01), pmp.samplers.Nuts(tv=1e-9))

    def impossible(private):
        return {"y": np.zeros(N)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made_up_records, "uniform_records", impossible)
        rehearsal.rehearse_draw(plan, "name", None, lambda private: None)
        patch.setattr(made_up_records, "corner_records", impossible)
        patch.setattr(made_up_records, "simulated_records", impossible)
        rehearsal.rehearse_draw(plan, "name", None, lambda private: None)


def test_a_draw_that_takes_long_is_given_up_as_rehearsed(private, monkeypatch):
    """By a clock that shows a quarter of the time more with each random number."""
    given = []

    def endless(target, draws, randomness, progress):
        while len(given) < 100:
            given.append(randomness.uniform(3))
        raise AssertionError("not given up")

    clock = itertools.count(step=rehearsal.MOST_SECONDS / 4)
    monkeypatch.setattr(method, "sample_by_rejection", endless)
    monkeypatch.setattr(rehearsal, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    rehearse(plan_of(private, "boxes"))
    assert len(given) == 5
