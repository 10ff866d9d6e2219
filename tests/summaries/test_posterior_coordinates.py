"""Partially centered effects: the same posterior, in coordinates that suit it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_private import privatize
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.posterior_coordinates import (
    PartiallyCentered,
    ScaledTransform,
    start_at_center,
    value_covariance,
)
from pymc_private.summaries.prior_model import prior_model

ANCHOR = np.array([[0.5, -1.0, 2.0], [0.1, 0.4, -0.3]])
CURVATURE = np.array([[30.0, 0.0, 2.0], [1.0, 4.0, 0.2]])
"""Of the log-likelihood of the effects: one is told much, another nothing."""


@pytest.fixture(scope="module")
def plain() -> pm.Model:
    """Give effects of two columns of three groups each, and one group's, with own mean and sd."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        tau = pm.HalfNormal("tau", 1, shape=3)
        pm.Normal("effect", mu, tau, shape=(2, 3))
        pm.Normal("single", mu, tau[0], shape=1)
        pm.Normal("free", 0, 3)
        pm.Bernoulli("y", 0.5, observed=np.arange(40) % 2)
    return model


@pytest.fixture(scope="module")
def parameters(plain) -> ParameterVector:
    return ParameterVector(privatize(plain, records={"y": 0}))


def known_likelihood(parameters: ParameterVector) -> Any:
    """Give a log-likelihood of the effects alone, normal about `ANCHOR`."""

    def log_likelihood(theta: np.ndarray) -> np.ndarray:
        away = parameters.natural(theta)["effect"] - ANCHOR
        return -0.5 * (CURVATURE * away**2).sum(axis=(1, 2))

    return log_likelihood


def centered(plain, parameters, log_likelihood=None) -> pm.Model:
    """Give the model of that posterior, in coordinates made at a point that is not its mode."""
    model = prior_model(privatize(plain, records={"y": 0}))
    with model:
        away = model["effect"] - ANCHOR
        pm.Potential("known", -0.5 * (CURVATURE * away**2).sum())
    center, covariance = start(parameters)
    start_at_center(
        model, parameters, center, covariance, log_likelihood or known_likelihood(parameters)
    )
    return model


def start(parameters: ParameterVector) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(parameters.size, parameters.size))
    return rng.normal(0, 0.3, parameters.size), root @ root.T / parameters.size


def anywhere(model: pm.Model, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=np.shape(v)) for name, v in model.initial_point().items()}


def natural_values(model: pm.Model) -> Any:
    """Give free variables as a function of a point of value variables."""
    outs = model.replace_rvs_by_values(model.free_RVs)
    found = model.compile_fn(outs, mode="FAST_COMPILE")
    names = [rv.name for rv in model.free_RVs]
    return lambda point: dict(zip(names, found(point), strict=True))


def test_effects_given_all_else_are_standard_normal(plain, parameters):
    """Whatever their prior's mean and standard deviation, and wherever the anchor."""
    model = centered(plain, parameters)
    slopes = model.compile_dlogp([model["effect"]], mode="FAST_COMPILE")
    for seed in range(4):
        point = anywhere(model, seed)
        np.testing.assert_allclose(slopes(point), -point["effect_centered__"].ravel(), atol=1e-7)


def test_coordinates_leave_the_posterior(plain, parameters):
    """The density of natural values, and the Jacobian of the way there by differences."""
    model = centered(plain, parameters)
    point, at = anywhere(model, 5), natural_values(model)
    natural = at(point)
    with prior_model(privatize(plain, records={"y": 0})) as same:
        pm.Potential("known", -0.5 * (CURVATURE * (same["effect"] - ANCHOR) ** 2).sum())
    raw = {"tau_log__": np.log(natural.pop("tau")), **natural}
    expected = same.compile_logp(jacobian=False, mode="FAST_COMPILE")(raw)
    found = model.compile_logp(jacobian=False, mode="FAST_COMPILE")(point)
    assert np.isclose(found, expected)

    def flat(values: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(v) for v in values.values()])

    columns = []
    for name, value in point.items():
        for k in range(value.size):
            step = 1e-6 * (np.arange(value.size) == k).reshape(value.shape)
            ahead, behind = at({**point, name: value + step}), at({**point, name: value - step})
            columns.append((flat(ahead) - flat(behind)) / 2e-6)
    volume = np.linalg.slogdet(np.array(columns))[1]
    whole = model.compile_logp(mode="FAST_COMPILE")(point)
    assert np.isclose(whole - found, volume, atol=1e-6)


def test_only_effects_are_centered_and_chains_start_at_the_center(plain, parameters):
    model = centered(plain, parameters)
    kinds = {rv.name: type(model.rvs_to_transforms[rv]) for rv in model.free_RVs}
    assert kinds == {
        "mu": ScaledTransform,
        "tau": ScaledTransform,
        "effect": PartiallyCentered,
        "single": PartiallyCentered,
        "free": ScaledTransform,
    }
    center, _ = start(parameters)
    found = natural_values(model)(model.initial_point())
    for name, value in parameters.natural(center[None]).items():
        np.testing.assert_allclose(found[name], value[0], atol=1e-8)


def test_a_likelihood_that_is_not_concave_tells_nothing(plain, parameters):
    """Effects are then in units of their prior: the non-centered parametrization."""
    model = centered(plain, parameters, lambda theta: -known_likelihood(parameters)(theta))
    point = anywhere(model, 7)
    found = natural_values(model)(point)
    expected = found["mu"] + found["tau"] * point["effect_centered__"]
    np.testing.assert_allclose(found["effect"], expected)


def test_constants_that_are_zero_everywhere_end_rewriting():
    """PyTensor 2 replaces products with such constants by themselves, for ever."""
    nothing = np.zeros(4)
    transform = PartiallyCentered(nothing, nothing, nothing)
    with pm.Model() as model:
        pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=4, transform=transform)
    slopes = model.compile_dlogp(mode="FAST_COMPILE")
    assert np.isfinite(slopes(model.initial_point())).all()


def test_an_infinite_likelihood_leaves_units_of_the_posterior(plain, parameters):
    def log_likelihood(theta: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(theta)) == 0, -3.0, -np.inf)

    model = centered(plain, parameters, log_likelihood)
    assert isinstance(model.rvs_to_transforms[model["effect"]], ScaledTransform)
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(model.initial_point()))


def test_covariance_of_values_is_that_of_their_draws(plain, parameters):
    """Of a narrow normal in unconstrained coordinates, where values are nearly linear in them."""
    model = centered(plain, parameters)
    center, covariance = start(parameters)
    narrow = 1e-4 * covariance
    metric = value_covariance(model, parameters, center, narrow)
    rng = np.random.default_rng(11)
    theta = rng.multivariate_normal(center, narrow, 4_000)
    natural = parameters.natural(theta)
    transforms = model.rvs_to_transforms
    prior = {
        "effect": (natural["mu"][:, None, None], natural["tau"][:, None, :]),
        "single": (natural["mu"][:, None], natural["tau"][:, :1]),
    }
    parts = []
    for rv in model.free_RVs:
        found = transforms[rv].forward(pt.as_tensor(natural[rv.name]), *prior.get(rv.name, ()))
        parts.append(found.eval(mode="FAST_COMPILE").reshape(len(theta), -1))
    drawn = np.cov(np.concatenate(parts, axis=1).T)
    units = np.sqrt(np.outer(np.diag(metric), np.diag(metric)))
    np.testing.assert_allclose(drawn / units, metric / units, atol=0.08)
