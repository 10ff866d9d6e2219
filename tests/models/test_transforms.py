"""Transforms of priors: walls that are constants are boxes, others are refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import Unsupported
from pymc_private.models.prior import prior_draws, prior_mass

Y = np.array([0.5, 2.0, -1.0, 0.1])
TRANSFORMS = pm.distributions.transforms


def declared(build, **words):
    with pm.Model() as model:
        build()
    words = {"records": {"y": 0}, "domain": {"y": (-3.0, 3.0)}} | words
    return pmp.privatize(model, **words)


def wall_of_data():
    x = pm.Data("x", np.array([0.0, 0.2, 1.0, 0.3]))
    wall = TRANSFORMS.Interval(bounds_fn=lambda *_: (-5.0, 0.05 + x.max()))
    pm.Normal("y", pm.Normal("mu", 0, 1, transform=wall, initval=0.0) + x, 1.0, observed=Y)


def wall_of_public_data():
    cap = pm.Data("cap", 0.4)
    wall = TRANSFORMS.Interval(bounds_fn=lambda *_: (None, cap))
    pm.Normal("y", pm.Normal("mu", 0, 1, transform=wall, initval=0.0), 1.0, observed=Y)


def wall_of_another_parameter():
    a = pm.Normal("a", 0, 1)
    wall = TRANSFORMS.Interval(bounds_fn=lambda *_: (a, None))
    pm.Normal("y", pm.Normal("b", 0, 1, transform=wall, initval=5.0), 1.0, observed=Y)


class Shifted(type(TRANSFORMS.log)):
    """log(x - c), c the least record."""

    name = "shifted"

    def __init__(self, least):
        self.least = least

    def forward(self, value, *inputs):
        return pm.math.log(value - self.least)

    def backward(self, value, *inputs):
        return pm.math.exp(value) + self.least

    def log_jac_det(self, value, *inputs):
        return value


def formula_of_data():
    x = pm.Data("x", np.array([0.0, 0.2, 1.0, 0.3]))
    mu = pm.Normal("mu", 0, 1, transform=Shifted(x.min()), initval=5.0)
    pm.Normal("y", mu + x, 1.0, observed=Y)


PRIVATE = {"records": {"y": 0, "x": 0}, "domain": {"y": (-3.0, 3.0), "x": (0.0, 1.0)}}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (wall_of_data, PRIVATE),
        (formula_of_data, PRIVATE),
        (wall_of_public_data, {"public": ["cap"]}),
        (wall_of_another_parameter, {}),
    ],
)
def test_walls_that_are_no_constants_are_refused(build, words):
    """NUTS kept to a wall made of the data, and no range covered it."""
    with pytest.raises(Unsupported, match="made of more than constants"):
        declared(build, **words)


def test_walls_of_a_prior_s_own_and_constant_ones_pass():
    def build():
        s = pm.HalfNormal("s", 1)
        u, t = pm.Uniform("u", 0, s), pm.TruncatedNormal("t", 0, s, lower=-1, upper=2)
        o = pm.Normal("o", 0, 1, shape=2, transform=TRANSFORMS.ordered, initval=[-1.0, 1.0])
        c = pm.Beta("c", 1, 1, default_transform=TRANSFORMS.Interval(0.2, 0.9), initval=0.5)
        z, p = pm.ZeroSumNormal("z", 1, shape=3), pm.Dirichlet("p", np.ones(3))
        pm.Normal("y", u + t + o[0] + c + z[0] + p[0], 1.0, observed=Y)

    private = declared(build)
    assert (private.box["c"].lower, private.box["c"].upper) == (0.2, 0.9)
    assert private.box["t"].upper == 2.0


def test_the_mass_of_a_prior_that_a_transform_cuts_is_not_told_from_the_whole_one():
    def build():
        cut = TRANSFORMS.Interval(0.0, 1.0)
        pm.Normal("y", pm.Normal("mu", 0, 1, transform=cut, initval=0.5), 1.0, observed=Y)

    with pytest.raises(Unsupported, match="cuts a prior"):
        prior_mass(pmp.trim(declared(build), box={"mu": (0.0, 0.9)}))


# ---- ordered vectors --------------------------------------------------------------------------
def cutpoints(mu=0.0, **transform):
    with pm.Model() as model:
        words = {"initval": np.array([-1.0, 0.0, 1.0])} if not transform else {}
        kind = TRANSFORMS.Ordered(**transform)
        c = pm.Normal("c", mu, 2.0, shape=3, transform=kind, **words)
        pm.Normal("y", c.sum(), 1.0, observed=Y)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-3.0, 3.0)})


@pytest.mark.audit
def test_the_mass_of_ordered_vectors_is_that_of_the_ordered_prior():
    box = {"c": (np.array([-3.0, -1.0, 1.0]), np.array([-1.0, 1.0, 3.0]))}
    draws = np.random.default_rng(1)
    for mu in (0.0, np.array([-1.0, 0.0, 1.0])):
        kept = draws.normal(mu, 2.0, (400_000, 3))
        kept = kept[(np.diff(kept) > 0).all(axis=1)]
        truth = float(((kept >= box["c"][0]) & (kept <= box["c"][1])).all(axis=1).mean())
        mass = prior_mass(pmp.trim(cutpoints(mu), box=box))
        assert mass.lower - 0.005 <= truth <= mass.upper + 0.005
    with pytest.raises(Unsupported, match="seldom in order"):
        prior_mass(pmp.trim(cutpoints(np.array([20.0, 0.0, -20.0])), box=box))


@pytest.mark.parametrize("transform", [{"ascending": False}, {"positive": True}])
def test_other_orders_are_not_taken_for_the_ascending_one(transform):
    with pytest.raises(Unsupported):
        pmp.trim(cutpoints(2.0, **transform), box={"c": (np.arange(3.0), np.arange(3.0) + 0.9)})


@pytest.mark.parametrize(
    "prior",
    [
        lambda: pm.VonMises("c", 0.0, 1.0, shape=3),
        lambda: pm.ZeroSumNormal("c", shape=(2, 3), n_zerosum_axes=2),
    ],
)
def test_priors_with_the_transforms_that_pymc_gives_them_are_drawn_from(prior):
    with pm.Model() as model:
        pm.Normal("y", prior().ravel()[0], 1.0, observed=Y)
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-3.0, 3.0)})
    assert np.isfinite(prior_draws(private, 10)["c"]).all()
