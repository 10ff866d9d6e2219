"""What happens between a plan and its release: changed models, odd draws, stops, names, prices."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.posterior.assemble import check_unchanged
from pymc_private.release import charge
from pymc_private.release.allowed import check_netcdf_names
from pymc_private.samplers import method

N = 6
ANSWERS = np.array([0, 1, 0, 1, 1, 1])


def coins(more=None, name="p", dims=None) -> pm.Model:
    """A probability of six coins, and what `more` makes of it."""
    with pm.Model(coords={"i": range(N), **({dims: ["only"]} if dims else {})}) as model:
        p = pm.Uniform(name, 0.2, 0.8, dims=dims)
        pm.Bernoulli("y", p=p.sum(), observed=ANSWERS, dims="i")
        if more:
            pm.Deterministic(more.__name__, more(p))
    return model


def plan_of(model, **keywords):
    keywords = {"epsilon": 1, "draws": 1, "clip": False} | keywords
    return pmp.calibrate(pmp.privatize(model, records="i"), **keywords)


def draw(plan, ledger=None, **keywords):
    ledger = ledger if ledger is not None else pmp.Ledger(epsilon=5)
    return pmp.sample(plan, ledger=ledger, progressbar=False, **keywords)


@pytest.fixture(scope="module")
def slope_plan():
    """Plan a slope whose data are private and whose weights are public."""
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.full(N, 0.5), dims="i")
        w = pm.Data("w", np.array([1.0, 2.0, 3.0]))
        slope = pm.Uniform("slope", -1, 1)
        pm.Bernoulli("y", logit_p=w.sum() * slope * x, observed=ANSWERS, dims="i")
    return pmp.calibrate(
        pmp.privatize(model, records="i", domain={"x": (0, 1)}), epsilon=1, draws=2, clip=False
    )


@pytest.fixture
def weighted(slope_plan):
    """Put the data of that plan back."""
    held = {name: slope_plan.private.base[name].get_value() for name in "xw"}
    yield slope_plan
    for name, values in held.items():
        slope_plan.private.base[name].set_value(values)


@pytest.mark.thin(4)
@pytest.mark.parametrize("keywords", [{}, {"random_seed": 1}, {"name": "main"}])
def test_a_plan_whose_public_data_were_changed_is_refused(weighted, keywords):
    book = pmp.Ledger(epsilon=5)
    pm.set_data({"w": np.array([100.0, 200.0, 300.0])}, model=weighted.private.base)
    with pytest.raises(pmp.errors.Incompatible, match="changed after it was certified"):
        draw(weighted, book, **keywords)
    assert book.entries == ()


def test_a_plan_whose_data_changed_their_shape_is_refused(weighted):
    book = pmp.Ledger(epsilon=5)
    weighted.private.base["x"].set_value(np.full(2 * N, 0.5))
    with pytest.raises(pmp.errors.Incompatible, match="another shape of x"):
        draw(weighted, book)
    assert book.entries == ()


def test_data_that_left_their_domain_are_clipped_again_after_the_charge(weighted):
    base = weighted.private.base
    pm.set_data({"x": np.ones(N)}, model=base)
    inside = draw(weighted, random_seed=3)
    pm.set_data({"x": np.full(N, 50.0)}, model=base)
    check_unchanged(weighted)  # before the charge nothing looks at them
    assert np.all(base["x"].get_value() == 50.0)
    again = draw(weighted, random_seed=3).posterior
    assert np.array_equal(again["slope"], inside.posterior["slope"])
    pm.set_data({"x": np.full(N, 50.0)}, model=base)
    draw(weighted)
    assert np.all(base["x"].get_value() == 1.0)


@pytest.mark.thin(8)
@pytest.mark.parametrize("low", [0.2, 0.31, 0.4])
@pytest.mark.parametrize(("draws", "delta"), [(1, 0.0), (2, 1e-3), (2, 0.3)])
def test_at_cost_without_a_ledger_is_never_refused(low, draws, delta):
    private = pmp.trim(pmp.privatize(coins(), records="i"), box={"p": (low, 0.7)})
    with pytest.warns(pmp.errors.PrivacyWarning, match="no ledger"):
        release = pmp.sample(private, draws=draws, delta=delta, progressbar=False)
    assert release.private


def fails_for_some(p):
    """Read beyond an array where p exceeds 0.55: not at the middle, 0.5."""
    return pt.stack([p, 2 * p])[2 * pt.cast(p > 0.55, "int64")]


def varies_in_length(p):
    return pt.arange(pt.cast(20 * p, "int64"))


@pytest.mark.thin(4)
@pytest.mark.parametrize("odd", [fails_for_some, varies_in_length])
def test_a_deterministic_that_fails_at_some_draws_is_withheld_and_no_draw_is_lost(odd):
    book = pmp.Ledger(epsilon=5)
    release = draw(plan_of(coins(odd), draws=40), book, name="main")
    assert set(release.posterior.data_vars) == {"p"}
    assert release.posterior.sizes["draw"] == 40
    assert release.facts["withheld"] == release.facts["uncomputed"] == [odd.__name__]
    said = f"{odd.__name__} (could not be computed at every draw)"
    assert said in repr(release)
    assert said in str(pmp.report(release))
    with pytest.raises(pmp.errors.DomainError, match="could not be computed at every draw"):
        release.mean(odd.__name__)
    assert pmp.Release.from_bytes(release.to_bytes()) == release
    assert draw(plan_of(coins(odd), draws=40), book, name="main") == release
    assert len(book.entries) == 1


def test_a_deterministic_with_random_numbers_of_its_own_is_withheld():
    def noisy(p):
        return p + pm.Normal.dist(0, 1)

    release = draw(plan_of(coins(noisy), draws=4))
    assert release.facts["withheld"] == ["noisy"]
    assert set(release.posterior.data_vars) == {"p"}
    with pytest.raises(pmp.errors.DomainError, match="random numbers of its own"):
        release.mean("noisy")


def test_a_deterministic_that_makes_no_number_keeps_its_nan_and_warns_nobody():
    def logarithm(p):
        return pt.log(p - 0.5)

    release = draw(plan_of(coins(logarithm), draws=40))
    assert np.isnan(release.posterior["logarithm"]).any()
    assert "uncomputed" not in release.facts


def test_a_deterministic_that_cannot_be_computed_at_all_is_refused_before_the_charge():
    def always(p):
        return pt.stack([p, 2 * p])[2 * pt.cast(p > 0.0, "int64")]

    book = pmp.Ledger(epsilon=5)
    with pytest.raises(pmp.errors.Unsupported, match=r"nothing was charged[\s\S]*always"):
        draw(plan_of(coins(always)), book)
    assert book.entries == ()


@pytest.mark.thin(2)
@pytest.mark.parametrize(("stored", "charges"), [(True, 1), (False, 2)])
def test_a_stop_while_storing_says_that_the_release_may_be_there(monkeypatch, stored, charges):
    book, plan, original = pmp.Ledger(epsilon=5), plan_of(coins()), pmp.Ledger.store

    def stop(self, entry, content):
        if stored:
            original(self, entry, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(pmp.Ledger, "store", stop)
    with pytest.raises(charge.StoppedDraw, match="returns it free") as caught:
        draw(plan, book, name="main")
    assert "nothing is released" not in str(caught.value)
    monkeypatch.undo()
    assert draw(plan, book, name="main", again=not stored).private
    assert len(book.entries) == charges


def test_no_warning_of_a_charged_draw_reaches_the_cell(monkeypatch):
    original = method.sample_conjugate

    def loud(*arguments):
        warnings.warn("the data overflow", RuntimeWarning, stacklevel=1)
        return original(*arguments)

    monkeypatch.setattr(method, "sample_conjugate", loud)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        draw(plan_of(coins()))
    assert heard == []


def test_a_dim_with_a_slash_is_refused_before_the_charge():
    book = pmp.Ledger(epsilon=5)
    with pytest.raises(pmp.errors.DomainError, match=r"nothing was charged[\s\S]*a/b"):
        draw(plan_of(coins(dims="a/b")), book)
    assert book.entries == ()


def test_a_variable_with_a_slash_is_refused():  # PyMC 6 does not let one be made
    with pytest.raises(pmp.errors.DomainError, match="a/b"):
        check_netcdf_names(xr.Dataset({"a/b": (("chain", "draw"), np.ones((1, 2)))}))


def test_a_plan_that_needs_the_whole_delta_of_a_ledger_is_paid_first_or_told_about_shares():
    plan = plan_of(coins(), epsilon=1, delta=1e-6, draws=20)
    assert draw(plan, pmp.Ledger(epsilon=1, delta=1e-6)).private
    later = pmp.Ledger(epsilon=1.1, delta=1e-6)
    later.charge(pmp.Guarantee.pure(0.05), "the first charge fixes the shares")
    halves = pmp.Ledger(epsilon=1, delta=1e-6, shares={"approximate": 5e-7, "zcdp": 5e-7})
    for ledger in (later, halves):
        with pytest.raises(pmp.errors.BudgetExceeded, match="the rest for zCDP") as caught:
            draw(plan, ledger)
        assert caught.value.asked.delta > 0
    assert "without shares=" in str(caught.value)


def test_a_plan_that_is_refused_for_its_epsilon_hears_nothing_of_shares():
    plan = plan_of(coins(), epsilon=1, delta=1e-6, draws=20)
    with pytest.raises(pmp.errors.BudgetExceeded) as caught:
        draw(plan, pmp.Ledger(epsilon=0.1, delta=4e-6))
    assert "the rest for zCDP" not in str(caught.value)


def test_a_refused_plan_prints_its_price_rounded_up():
    private = pmp.privatize(coins(), records="i")
    price = pmp.certify(private).guarantee(5).epsilon(0)
    with pytest.raises(pmp.errors.BudgetExceeded) as caught:
        pmp.calibrate(private, epsilon=0.5, draws=5, temper=False)
    printed = float(str(caught.value).split("got: epsilon ")[1].split()[0])
    assert price <= printed <= price * 1.001


@pytest.mark.thin(2)
@pytest.mark.parametrize("keywords", [{}, {"epsilon": 1.0}])
@pytest.mark.parametrize("patience", [-1.0, 1e9])
def test_without_a_progress_bar_sampling_prints_nothing(monkeypatch, capsys, keywords, patience):
    monkeypatch.setattr("pymc_private.models.compat.BAR_DELAY", patience)
    private = pmp.privatize(coins(), records="i")
    pmp.sample(private, draws=1, ledger=pmp.Ledger(epsilon=50), progressbar=False, **keywords)
    assert capsys.readouterr() == ("", "")


def test_a_bar_that_never_started_prints_no_empty_line(capsys):
    pmp.certify(pmp.privatize(coins(), records="i"))
    assert capsys.readouterr() == ("", "")
