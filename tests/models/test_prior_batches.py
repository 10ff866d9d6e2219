"""Prior draws made in one call are those that `pm.draw` makes one by one."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_private.models import prior_batches
from pymc_private.models.prior_batches import FEW, draw_together

COUNT, SEED = 50, 7


def hierarchical():
    mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
    effect = pm.Normal("effect", mu, tau, shape=3)
    pm.Normal("row", mu * tau + effect.sum(), tau**2, shape=(2, 3))
    pm.Normal("column", np.arange(3.0), pm.Exponential("s", 1.0, shape=(2, 1)), shape=(2, 3))


def several_families():
    scale = pm.HalfCauchy("scale", 1.0)
    pm.MvNormal("v", mu=np.zeros(2), cov=scale * np.eye(2))
    pm.StudentT("t", nu=4, mu=pm.Laplace("l", 0, scale), sigma=scale)
    pm.Dirichlet("p", pm.Gamma("a", 2, 1, shape=3), shape=(4, 3))
    pm.Poisson("k", scale)
    pm.Categorical("z", pt.stack([0.2, 0.3, 0.5]))
    pm.Weibull("w", 2.0, scale)


def looked_up():
    group = pm.Normal("group", shape=3)
    index = pm.Data("index", np.array([0, 2, 1, 1]))
    pm.Normal("y", group[index], pm.HalfNormal("s", 1, shape=(2, 1)), shape=(2, 4))


def of_other_random_numbers():
    """A mixture, and a parameter that reads a distribution without a name."""
    pm.ZeroInflatedPoisson("zeros", 0.3, 2.0)
    pm.Normal("y", pm.Normal.dist(pm.Normal("mu"), 1.0), 1.0)


@pytest.fixture
def calls(monkeypatch):
    """Numbers of draws that `pm.draw` is asked for."""
    asked, draw = [], pm.draw

    def spy(variables, draws, **words):
        asked.append(draws)
        return draw(variables, draws=draws, **words)

    monkeypatch.setattr(prior_batches.pm, "draw", spy)
    return asked


def drawn(build):
    """Both ways: together, and one by one."""
    with pm.Model() as model:
        build()
    rvs, words = model.free_RVs, {"random_seed": SEED, "mode": "FAST_COMPILE"}
    expected = pm.draw(rvs, draws=COUNT, **words)
    shapes = [values.shape[1:] for values in expected]
    return draw_together(rvs, shapes, COUNT, SEED), expected


@pytest.mark.parametrize(
    ("build", "asked"),
    [
        (hierarchical, [1, FEW]),
        (several_families, [1, FEW]),
        (looked_up, [1, FEW]),
        (of_other_random_numbers, [COUNT]),
    ],
)
def test_draws_made_together_are_those_made_one_by_one(build, asked, calls):
    found, expected = drawn(build)
    assert calls[1:] == asked
    for together, one_by_one in zip(found, expected, strict=True):
        assert together.shape == one_by_one.shape
        assert np.allclose(together, one_by_one, rtol=1e-12, atol=0)


def test_a_batch_that_is_drawn_wrongly_is_noticed_and_made_one_by_one(calls, monkeypatch):
    """The planted fault: the parents of a distribution enter it as one draw of theirs for all."""
    aligned = prior_batches._aligned

    def first_draw_alone(param, core, batch, batched):
        moved = aligned(param, core, batch, batched)
        return moved if moved is param else pt.zeros_like(moved) + moved[:1]

    monkeypatch.setattr(prior_batches, "_aligned", first_draw_alone)
    found, expected = drawn(hierarchical)
    assert calls[1:] == [1, FEW, COUNT]
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
