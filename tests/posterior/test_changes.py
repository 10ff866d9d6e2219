"""Every road from a model to a draw, and every change of the model's data on the way.

A change is refused before the charge, or the draw is from data inside the domain.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.analysis import Bounds
from pymc_private.counts import publish
from pymc_private.errors import PymcPrivateError
from pymc_private.posterior.rehearsal import RehearsalRandomness
from pymc_private.samplers import nuts
from pymc_private.samplers.randomness import dirichlet_draws

N = 6
BITS = np.array([0, 1, 0, 1, 1, 1])
KINDS = np.array([0, 1, 2, 2, 0, 2])
REALS = np.array([0.5, -0.5, 0.1, 0.0, 0.9, -0.2])
ROWS = np.eye(3, dtype=int)[KINDS]
GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(N, 2)) / 4
ONE = {"epsilon": 1.0, "draws": 1}
LOOSE = ONE | {"delta": 1e-3}


def of_data(y: np.ndarray, build: Callable[..., Any], domain: Any = None, **words: Any) -> Any:
    """A model of one private array `y`, in pm.Data, and a public number `w` = 1."""
    with pm.Model(coords={"i": range(N)}) as model:
        data = pm.Data("y", y, dims=("i", *(f"d{k}" for k in range(1, y.ndim))))
        build(data, pm.Data("w", np.array([1.0, 0.0, 0.0])).sum())
    return pmp.privatize(model, records="i", domain=domain and {"y": domain}, **words)


def coin(y, w):
    pm.Bernoulli("out", p=pm.Uniform("p", 0.2, 0.8) * w, observed=y, dims="i")


def plain_coin(y, w):
    pm.Bernoulli("out", p=pm.Beta("p", 12, 15), observed=y, dims="i")


def cells(y, w):
    pm.Categorical("out", p=pm.Dirichlet("p", a=np.full(3, 4.0)), observed=y, dims="i")


def one_hot(y, w):
    pm.Multinomial("out", 1, pm.Dirichlet("p", a=np.full(3, 4.0)), observed=y)


def events(y, w):
    pm.Poisson("out", pm.Gamma("rate", 2, 1), observed=y, dims="i")


def mean(y, w):
    pm.Normal("out", pm.Normal("mu", 0, 1), 1.0, observed=y, dims="i")


def line(y, w):
    slope, x = pm.Normal("slope", 0, 1, shape=2), pm.Data("x", np.linspace(-1, 1, N), dims="i")
    pm.Normal("out", slope[0] + slope[1] * x, 1.0, observed=y, dims="i")


def logistic(y, w):
    beta = pm.Normal("beta", 0, 1, shape=2)
    pm.Bernoulli("out", logit_p=(y @ beta) * w, observed=BITS, dims="i")


def boxed(private, **box):
    return pmp.trim(private, box=box)


@cache
def slopes():
    return of_data(X, logistic, pmp.Ball(1.0))


ROADS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "boxes": (lambda: of_data(BITS, coin), ONE | {"sampler": "boxes"}),
    "grid": (lambda: of_data(BITS, coin), ONE | {"sampler": pmp.samplers.Grid(points=16)}),
    "inverse of Beta": (lambda: boxed(of_data(BITS, plain_coin), p=(0.3, 0.6)), ONE),
    "inverse of Gamma": (
        lambda: boxed(of_data(BITS, events, (0, 9)), rate=(0.5, 4)),
        ONE | {"clip": False},
    ),
    "inverse of normal": (lambda: boxed(of_data(REALS, mean, (-1, 1)), mu=(-1, 1)), ONE),
    "linear regression": (
        lambda: of_data(REALS, line, (-1, 1), public="x"),
        LOOSE | {"sampler": "conjugate"},
    ),
    "proximal": (slopes, LOOSE | {"sampler": "proximal"}),
    "strict proximal": (slopes, LOOSE | {"sampler": "proximal", "strict": True}),
    "purified": (lambda: boxed(slopes(), beta=(-1.5, 1.5)), ONE | {"sampler": "proximal"}),
    "nuts": (
        lambda: of_data(REALS, mean, (-1, 1)),
        LOOSE | {"sampler": pmp.samplers.Nuts(tv=1e-6, tune=5)},
    ),
    "Beta": (lambda: of_data(BITS, plain_coin), LOOSE | {"sampler": "conjugate"}),
    "Dirichlet": (lambda: of_data(KINDS, cells), LOOSE),
    "Dirichlet, added": (lambda: of_data(KINDS, cells, neighbors="add_remove"), LOOSE),
    "Dirichlet, one-hot": (lambda: of_data(ROWS, one_hot, pmp.Counts(1)), LOOSE),
}
"""What is declared, and what is asked for."""


def first(value: float, of: str = "iuf") -> Callable[[np.ndarray], np.ndarray | None]:
    """The first record, or its first entry, replaced."""

    def changed(y: np.ndarray) -> np.ndarray | None:
        if y.dtype.kind not in of:
            return None
        found = y.copy()
        found[(0,) * y.ndim] = value
        return found

    return changed


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "above": first(50),
    "7": first(7),
    "-1": first(-1),
    "below": first(-50),
    "NaN": first(np.nan, "f"),
    "inf": first(np.inf, "f"),
    "all beyond": lambda y: np.full_like(y, 7),
    "longer": lambda y: np.concatenate([y, y]),
    "shorter": lambda y: y[:3],
    "empty": lambda y: y[:0],
    "another dtype": lambda y: y + 0.5 if y.dtype.kind == "i" else y.astype("float32"),
    "text": lambda y: y.astype(str),
    "another rank": lambda y: y[:, None] if y.ndim == 1 else y[:, 0],
    "wider": lambda y: np.concatenate([y, y], axis=-1) if y.ndim == 2 else None,
}
RESHAPED = ("longer", "shorter", "empty", "wider")


@pytest.fixture(autouse=True, scope="module")
def _unjudged():
    """What a plan is worth is tested by others; here only what it draws from."""

    def refused(*arguments, **words):
        raise pmp.errors.Unsupported("not judged")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc_private.posterior.calibrate.simulated_information", refused)
        yield


@cache
def plan_of(road: str) -> Any:
    """One plan for all changes; each test puts the data back."""
    declare, asked = ROADS[road]
    return pmp.calibrate(declare(), **asked)


@cache
def data_of(road: str) -> np.ndarray:
    return plan_of(road).private.base["y"].get_value()


@pytest.fixture(autouse=True)
def _quick_nuts(monkeypatch):
    """NUTS is run by others; here only which data it is given."""

    def runner(model, runs, tune, seed):
        return {"mu": np.full((runs, 1), np.clip(model["y"].get_value().sum(), -1, 1))}

    monkeypatch.setitem(nuts._RUNNERS, "pymc", runner)
    monkeypatch.setattr(nuts, "to_dataset", lambda d: {k: _Values(v) for k, v in d.items()})


class _Values:
    def __init__(self, values):
        self.values = values


@pytest.fixture
def changed():
    """Set data of a plan's base, and put them back."""
    kept = []

    def change(base, values, name="y"):
        kept.append((base[name], base[name].get_value()))
        base[name].set_value(values)

    yield change
    for variable, values in reversed(kept):
        variable.set_value(values)


@pytest.fixture
def book(request):
    """A ledger for either relation."""

    def make(private):
        return pmp.Ledger(epsilon=9, delta=0.1, neighbors=private.neighbors)

    return make


def source(private: Any) -> Any:
    """The variable that is changed."""
    return next(one for one in private.sources if one.variable.name == "y")


def inside(private: Any, y: np.ndarray) -> np.ndarray:
    """What a changed array is clipped to, written down anew."""
    domain, found = source(private).domain, y.copy()
    if isinstance(domain, pmp.Interval):
        found[~np.isfinite(found)] = domain.lower
        return np.clip(found, domain.lower, domain.upper)
    if isinstance(domain, pmp.Categories):
        found[~np.isin(found, domain.values)] = domain.values[0]
    elif isinstance(domain, pmp.Counts):
        found[(found.sum(axis=1) != 1) | (found < 0).any(axis=1)] = domain.corners((3,))[0]
    else:
        found[~np.isfinite(found).all(axis=1)] = domain.corners((2,))[0]
        found /= np.maximum(np.linalg.norm(found, axis=1), 1.0)[:, None]
    return found


def watched(monkeypatch, plan) -> list[np.ndarray]:
    """The private data as the sampler of a plan finds them; not those of the rehearsal."""
    seen, kind = [], type(plan.method)
    original = kind.sample

    def spy(self, private, draws, randomness, *others):
        if not isinstance(randomness, RehearsalRandomness):
            seen.append(source(private).values().copy())
        return original(self, private, draws, randomness, *others)

    monkeypatch.setattr(kind, "sample", spy)
    return seen


@pytest.mark.thin(28)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("road", ROADS)
def test_changed_data_are_refused_before_the_charge_or_clipped_in_it(
    road, change, changed, book, monkeypatch
):
    plan, values = plan_of(road), CHANGES[change](data_of(road))
    if values is None:
        return  # nothing of the kind can be held
    ledger, seen = book(plan.private), watched(monkeypatch, plan)
    try:
        changed(plan.private.base, values)
    except (TypeError, ValueError):  # PyTensor holds arrays of one type and rank
        assert np.array_equal(plan.private.base["y"].get_value(), data_of(road))
        return
    if change in RESHAPED:
        with pytest.raises(pmp.errors.Incompatible, match="another shape of y"):
            pmp.sample(plan, ledger=ledger, progressbar=False)
        assert (ledger.entries, seen) == ((), [])
        return
    held = plan.private.base["y"].get_value()  # as PyTensor holds it
    pmp.sample(plan, ledger=ledger, progressbar=False)
    assert len(ledger.entries) == len(seen) == 1
    assert np.allclose(seen[0], inside(plan.private, held), rtol=1e-9, atol=0)


@pytest.mark.thin(3)
@pytest.mark.parametrize("road", ROADS)
def test_a_draw_is_that_of_the_data_inside_the_domain(road, changed):
    plan = plan_of(road)
    values = first(7)(data_of(road))
    changed(plan.private.base, inside(plan.private, values))
    expected = pmp.sample(plan, random_seed=3, progressbar=False).posterior
    changed(plan.private.base, values)
    found = pmp.sample(plan, random_seed=3, progressbar=False).posterior
    assert all(np.allclose(found[name], expected[name], atol=1e-6) for name in expected.data_vars)


@pytest.mark.thin(6)
@pytest.mark.parametrize("values", [[2.0, 0.0, 0.0], [1.0, 0.0], [np.nan, 0.0, 0.0]])
@pytest.mark.parametrize("road", ROADS)
def test_a_changed_public_array_is_refused_where_the_model_reads_it(road, values, changed, book):
    plan = plan_of(road)
    ledger, reads = book(plan.private), road in READS
    changed(plan.private.base, np.array(values), name="w")
    if not reads:
        assert pmp.sample(plan, ledger=ledger, progressbar=False).private
        return
    with pytest.raises(pmp.errors.Incompatible, match="changed after it was certified"):
        pmp.sample(plan, ledger=ledger, progressbar=False)
    assert ledger.entries == ()


READS = ("boxes", "grid", "proximal", "strict proximal", "purified")


def other_power(private):
    return private.with_power(private.power / 2)


def other_region(private):
    (name, box), *_ = private.box.items()
    low = np.where(np.isfinite(box.lower), box.lower, -5.0)
    high = np.where(np.isfinite(box.upper), box.upper, 5.0)
    return private.with_region({name: Bounds(low, (low + high) / 2)})


def whole_power(private):
    return private.with_power(Fraction(2))


@pytest.mark.parametrize("other", [other_power, whole_power, other_region])
@pytest.mark.parametrize("road", ROADS)
def test_another_region_or_power_is_refused(road, other, book):
    plan = plan_of(road)
    moved, ledger = other(plan.private), book(plan.private)
    with pytest.raises(PymcPrivateError):
        replace(plan, private=moved)
    forced = copy.copy(plan)
    object.__setattr__(forced, "private", moved)
    with pytest.raises(pmp.errors.Incompatible, match="changed after it was certified"):
        pmp.sample(forced, ledger=ledger, progressbar=False)
    assert ledger.entries == ()


AT_ONCE = ("inverse of Beta", "inverse of normal", "Dirichlet", "Dirichlet, added")


@pytest.mark.thin(16)
@pytest.mark.parametrize("epsilon", [None, 1.0], ids=["at cost", "within a budget"])
@pytest.mark.parametrize("change", ["7", "-1", "NaN", "longer", "shorter", "another rank"])
@pytest.mark.parametrize("road", AT_ONCE)
def test_a_private_model_given_to_sample_is_checked_the_same(
    road, change, epsilon, changed, monkeypatch
):
    plan = plan_of(road)
    private, values = ROADS[road][0](), CHANGES[change](data_of(road))
    if values is None:
        return
    ledger = pmp.Ledger(epsilon=99, delta=0.5, neighbors=private.neighbors)
    seen, words = watched(monkeypatch, plan), {"draws": 1, "epsilon": epsilon, "delta": 1e-3}
    try:
        changed(private.base, values)
    except (TypeError, ValueError):
        return
    if change in RESHAPED:
        with pytest.raises(pmp.errors.Incompatible, match="another shape of y"):
            pmp.sample(private, ledger=ledger, progressbar=False, **words)
        assert (ledger.entries, seen) == ((), [])
        return
    pmp.sample(private, ledger=ledger, progressbar=False, **words)
    assert len(ledger.entries) == len(seen) == 1
    assert np.array_equal(seen[0], inside(private, values))


def test_a_public_array_changed_before_the_plan_is_in_the_plan(changed):
    """What is certified is what the model holds then, and what is drawn from."""
    private = ROADS["boxes"][0]()
    changed(private.base, np.array([0.5, 0.0, 0.0]), name="w")
    plan = pmp.calibrate(private, sampler="boxes", **ONE)
    assert plan.fingerprint != plan_of("boxes").fingerprint
    assert pmp.sample(plan, random_seed=1, progressbar=False) is not None


def test_how_many_records_were_beyond_clipping_goes_to_the_logger_alone(
    changed, book, caplog, capsys
):
    plan = plan_of("Dirichlet")
    changed(plan.private.base, np.array([0, 1, 7, 2, -1, 2], dtype=data_of("Dirichlet").dtype))
    release = pmp.sample(plan, ledger=book(plan.private), progressbar=False)
    assert "2 of 6 records of y could not be clipped" in caplog.text
    assert capsys.readouterr() == ("", "")
    assert "could not be clipped" not in repr(release) + str(release.facts)


def test_another_record_stays_as_it_is(changed, book):
    """The map into the domain is one of each record by itself: neighbors stay neighbors."""
    plan = plan_of("Dirichlet, one-hot")
    values = data_of("Dirichlet, one-hot").copy()
    values[2], values[4] = [3, -1, 0], [1, 1, 1]
    changed(plan.private.base, values)
    pmp.sample(plan, ledger=book(plan.private), progressbar=False)
    found = plan.private.base["y"].get_value()
    rest = [0, 1, 3, 5]
    assert np.array_equal(found[rest], ROWS[rest])
    assert found.sum(axis=1).tolist() == [1] * N


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("hold", [np.asarray, xr.DataArray, pd.Series, pd.DataFrame])
def test_counts_changed_between_plan_and_draw_do_not_matter(kind, hold, monkeypatch):
    """What is drawn from are counts as they were when they were checked and priced."""
    given = np.array([[119, 74, 618], [3, 40, 5]], dtype=kind)
    given = given[0] if hold is pd.Series else given
    counts, seen, charge = hold(given), [], pmp.Ledger.charge

    def meddling(self, *arguments, **words):
        given[...] = -1
        return charge(self, *arguments, **words)

    def spy(parameters, draws, randomness):
        seen.append(parameters)
        return dirichlet_draws(parameters, draws, randomness)

    monkeypatch.setattr(pmp.Ledger, "charge", meddling)
    monkeypatch.setattr(publish, "dirichlet_draws", spy)
    book = pmp.Ledger(epsilon=5, delta=0.1)
    words = {"epsilon": 1, "delta": 1e-4, "method": "exact", "ledger": book}
    release = pmp.dirichlet(counts, **words)
    power, alpha = (next(iter(release.facts["counts"][key].values())) for key in ("r", "alpha"))
    before = [[119, 74, 618], [3, 40, 5]][: 1 if hold is pd.Series else 2]
    assert np.allclose(np.reshape(seen[0], np.shape(before)), power * np.array(before) + alpha)


def test_a_potential_added_to_the_base_is_seen():
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.zeros(4), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=1)
    with plan.private.base as base:
        pm.Potential("extra", 1000 * base["mu"] * base["y"].sum())
    with pytest.raises(pmp.errors.Incompatible, match="changed after it was certified"):
        pmp.sample(plan, ledger=pmp.Ledger(epsilon=1, delta=1e-5), progressbar=False)


@pytest.mark.parametrize("planned", [True, False])
def test_a_potential_added_to_the_users_model_is_seen(planned):
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.zeros(4), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    words = {"epsilon": 1, "delta": 1e-6, "draws": 1}
    plan = pmp.calibrate(private, **words) if planned else None
    with model:
        pm.Potential("extra", 1000 * model["mu"])
    if not planned:
        with pytest.raises(pmp.errors.Incompatible, match="changed after it was declared"):
            pmp.calibrate(private, **words)
        return
    with pytest.raises(pmp.errors.Incompatible, match=r"extra of the model that privatize copied"):
        pmp.sample(plan, ledger=pmp.Ledger(epsilon=1, delta=1e-5), progressbar=False)
