"""Queries on draws of MCMC: errors from effective sample sizes, and no draws that hold data."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.models.compat import to_groups

CHAINS, DRAWS = 4, 400
CENTERS = np.array([1.0, -2.0])


def chain(rng: np.random.Generator, shape: tuple[int, ...], persistence: float) -> np.ndarray:
    """Draws of a stationary autoregression with standard normal margins."""
    found = np.empty((CHAINS, DRAWS, *shape))
    found[:, 0] = rng.normal(size=(CHAINS, *shape))
    for t in range(1, DRAWS):
        step = rng.normal(size=(CHAINS, *shape)) * np.sqrt(1 - persistence**2)
        found[:, t] = persistence * found[:, t - 1] + step
    return found


def dataset(persistence: float = 0.8, seed: int = 0) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    return xr.Dataset(
        {
            "beta": (
                ("chain", "draw", "feature"),
                chain(rng, (2,), persistence) + np.array([1.0, -2.0]),
            ),
            "sigma": (("chain", "draw"), np.exp(0.1 * chain(rng, (), persistence))),
        },
        coords={"feature": ["age", "rate"], "chain": range(CHAINS), "draw": range(DRAWS)},
    )


@pytest.fixture(scope="module")
def draws() -> xr.Dataset:
    return dataset()


def test_means_have_the_errors_of_arviz(draws):
    found = pmp.mean(to_groups(posterior=draws), "beta")
    assert np.allclose(found.value, draws["beta"].mean(("chain", "draw")))
    assert np.allclose(found.mcse, az.mcse(draws, method="mean")["beta"])
    assert list(found.value["feature"].values) == ["age", "rate"]
    independent = draws["beta"].values.reshape(-1, 2).std(axis=0) / np.sqrt(CHAINS * DRAWS)
    assert (np.asarray(found.mcse) > 2 * independent).all()
    assert "independent" not in found.method
    assert "free if they are of summary.model()" in found.note
    assert (found.lower <= found.value).all()
    assert (found.value <= found.upper).all()


def test_the_errors_hold_as_often_as_they_say():
    misses = [
        float(abs(pmp.mean(dataset(seed=k), "beta").value[0] - 1.0))
        > float(pmp.mean(dataset(seed=k), "beta", delta=0.2).error[0])
        for k in range(40)
    ]
    assert sum(misses) <= 12  # each of two elements misses with probability 0.1


def test_quantiles_and_probabilities(draws):
    q = pmp.quantile(draws, "sigma", [0.05, 0.5])
    assert q.value.dims == ("quantile",)
    assert np.allclose(q.mcse[1], az.mcse(draws, method="quantile", prob=0.5)["sigma"])
    assert float(pmp.quantile(draws, "sigma", 0.5)) == pytest.approx(float(q.value[1]))
    positive = pmp.prob(draws, "beta['age'] > 0")
    truth = (draws["beta"].sel(feature="age") > 0).astype(float)
    assert float(positive) == pytest.approx(float(truth.mean()))
    assert positive.mcse > np.sqrt(float(truth.mean()) * (1 - float(truth.mean())) / truth.size)
    never = pmp.prob(draws, lambda d: d["sigma"] < 0)
    assert float(never) == 0.0
    assert 0.0 < never.mcse < 0.01
    assert never.lower == 0.0 < never.upper


def test_answers_have_errors_from_the_effective_number(draws):
    found = pmp.answer(draws, "1 - minimum(abs(sigma - response), 1)", [0.8, 1.0, 1.2])
    assert found.response == 1.0
    assert found.loss_bound == np.inf
    assert "dependent" in found.reason
    assert "free if they are of summary.model()" in repr(found)
    iid = pmp.answer(dataset(0.0), "1 - minimum(abs(sigma - response), 1)", [1.0])
    assert found.mcse > 1.5 * iid.mcse
    assert (
        pmp.queries.choose(draws, {"up": "beta['age'] > 0", "down": "beta['age'] < 0"}).response
        == "up"
    )


def test_draws_that_come_with_data_are_refused(draws):
    fitted = to_groups(posterior=draws, observed_data=xr.Dataset({"y": ("n", np.zeros(3))}))
    for ask in (
        lambda: pmp.mean(fitted, "beta"),
        lambda: pmp.prob(fitted, "sigma > 1"),
        lambda: pmp.answer(fitted, "sigma", [1.0]),
    ):
        with pytest.raises(pmp.errors.DomainError, match="not private"):
            ask()


@pytest.mark.parametrize("wrong", [3, "idata.nc", xr.Dataset({"y": ("n", np.zeros(3))})])
def test_what_is_no_draws_is_refused(wrong):
    with pytest.raises(pmp.errors.DomainError, match="computed from a release"):
        pmp.mean(wrong, "beta")


@pytest.mark.parametrize("name", ["gamma", 3])
def test_an_unknown_variable_is_named(draws, name):
    with pytest.raises(pmp.errors.DomainError, match="No such variable"):
        pmp.mean(draws, name)


def test_a_release_answers_as_its_own_methods_do():
    posterior = xr.Dataset({"p": (("chain", "draw"), np.linspace(0.2, 0.4, 5)[None])})
    guarantee = pmp.Guarantee.pure(1.0)
    facts = {"epsilon": 1.0, "delta": 0, "ranges": {"p": [0.0, 1.0]}}
    release = pmp.Release(posterior, guarantee, facts)
    assert repr(pmp.mean(release, "p")) == repr(release.mean("p"))
    assert repr(pmp.quantile(release, "p", 0.5)) == repr(release.quantile("p", 0.5))
    assert repr(pmp.prob(release, "p > 0.3")) == repr(release.prob("p > 0.3"))


def test_release_summary_and_plain_draws_stand_side_by_side(draws):
    posterior = draws.isel(chain=[0], draw=range(20)).drop_vars(("chain", "draw"))
    facts = {"epsilon": 1.0, "delta": 0}
    release = pmp.Release(posterior, pmp.Guarantee.pure(1.0), facts)
    plain = to_groups(posterior=dataset(0.0), observed_data=xr.Dataset({"y": ("n", np.zeros(3))}))
    found = pmp.compare(release, plain, summary=draws)
    assert "NOT PRIVATE" in repr(found)
    assert list(found.frame.columns) == [
        "private_mean", "private_sd", "summary_mean", "summary_sd", "other_mean", "other_sd",
        "shift", "summary_shift",
    ]  # fmt: skip
    two = pmp.compare(draws, plain)
    assert np.allclose(two.frame["private_mean"], found.frame["summary_mean"])
    with pytest.raises(pmp.errors.DomainError, match="curator only"):
        pmp.compare(plain, draws)


def test_an_empty_group_of_data_is_no_data(draws):
    fitted = to_groups(posterior=draws, observed_data=xr.Dataset())
    assert float(pmp.mean(fitted, "sigma")) == pytest.approx(float(draws["sigma"].mean()))


def test_predictions_take_the_private_model_and_miss_the_outcome_of_a_summary():
    with pm.Model(coords={"feature": ["age", "rate"], "row": range(5)}) as model:
        beta = pm.Normal("beta", 0, 1, dims="feature")
        x = pm.Data("x", np.zeros((5, 2)), dims=("row", "feature"))
        pm.Normal("y", x @ beta, pm.HalfNormal("sigma"), observed=np.zeros(5), dims="row")
    private = pmp.privatize(model, records="row", domain={"x": (-1, 1), "y": (-3, 3)})
    at = {"x": np.eye(2), "bounds": (-50.0, 50.0)}
    found = pmp.predict(dataset(), model=private, **at)
    assert np.abs(found.mean.value - CENTERS).max() < 6 * np.max(found.mean.mcse)
    with pm.Model(coords=model.coords) as without:
        pm.Deterministic("twice", 2 * pm.Normal("beta", 0, 1, dims="feature"), dims="feature")
    with pytest.raises(pmp.errors.DomainError, match="the original model") as caught, without:
        pmp.predict(dataset(), **at)
    assert caught.value.allowed == "twice"
