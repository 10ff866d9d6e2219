"""A class that bears the name of one of PyMC's is not taken for it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.analysis.traversal import library_class_name
from pymc_private.certificates.lipschitz.tail import lipschitz_tail
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.distributions import transform_name

COINS = np.array([0, 1, 1, 0, 1])
TRANSFORMS = pm.distributions.transforms


def in_a_box(build, y, domain, box):
    with pm.Model(coords={"i": range(len(y))}) as model:
        build(y)
    private = pmp.privatize(model, records="i", domain={"y": domain})
    return pmp.trim(private, box={"p": box})


def steep_prior(y):
    p = pm.CustomDist("p", 2.0, 2.0, logp=lambda v, a, b: -200 * (v - 0.9) ** 2, class_name="Beta")
    pm.Bernoulli("y", p, observed=y, dims="i")


def quartic_likelihood(y):
    p = pm.Normal("p", 0, 1)
    density = lambda v, p, s: -((v - p) ** 4)  # noqa: E731
    pm.CustomDist("y", p, 1.0, logp=density, observed=y, dims="i", class_name="NormalRV")


def flat_likelihood(y):
    p = pm.Beta("p", 2, 2)
    pm.CustomDist(
        "y", p, logp=lambda v, p: -((v - p) ** 2), observed=y, dims="i", class_name="Bernoulli",
        dtype="int64",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("build", "y", "domain", "box"),
    [
        (steep_prior, COINS, pmp.Categories([0, 1]), (0.05, 0.95)),
        (flat_likelihood, COINS, pmp.Categories([0, 1]), (0.05, 0.95)),
        (quartic_likelihood, np.array([0.1, 0.5]), (-1, 1), (-1, 1)),
    ],
)
def test_a_density_of_the_users_own_is_not_drawn_as_a_conjugate_one(build, y, domain, box):
    private = in_a_box(build, y, domain, box)
    with pytest.raises(Unsupported):
        pmp.samplers.Conjugate().check(private)


def test_a_density_of_the_users_own_implies_no_domain():
    with pm.Model(coords={"i": range(5)}) as model:
        p = pm.Beta("p", 2, 2)
        density = lambda v, p: -50 * (v - p) ** 2  # noqa: E731
        pm.CustomDist("y", p, logp=density, observed=COINS, dims="i", class_name="BernoulliRV")
    with pytest.raises(DomainError, match="no declared domain"):
        pmp.privatize(model, records="i")


def tail_of(prior):
    with pm.Model(coords={"i": range(5)}) as model:
        pm.Bernoulli("y", prior(), observed=COINS, dims="i")
    return lipschitz_tail(pmp.privatize(model, records="i"), draws=20)


def flat_prior():
    return pm.CustomDist(
        "p", 3.0, 3.0,
        logp=lambda v, a, b: pt.zeros_like(v), class_name="BetaRV",
        random=lambda a, b, rng, size: rng.uniform(size=size), transform=TRANSFORMS.logodds,
    )  # fmt: skip


def test_the_family_of_a_users_prior_is_not_taken_for_pymcs():
    assert tail_of(lambda: pm.Beta("p", 3, 3)).is_proved
    assert not tail_of(flat_prior).is_proved


def test_names_of_the_libraries_own_classes():
    class LogTransform(type(TRANSFORMS.log)):
        pass

    assert library_class_name(None) == "NoneType"
    assert library_class_name(LogTransform()) != "LogTransform"
    with pm.Model() as model:
        x = pm.Gamma("x", 1, 1)
        u = pm.Uniform("u", 0, 1)
        z = pm.Normal("z", 0, 1)
        s = pm.Dirichlet("s", np.ones(3))
        c = pm.ZeroSumNormal("c", shape=4)
        o = pm.Normal("o", [0, 1], 1, transform=TRANSFORMS.ordered)
    named = [transform_name(model, rv) for rv in (x, u, z, s, c, o)]
    assert named[:5] == [
        "LogTransform",
        "Interval",
        "NoneType",
        "SimplexTransform",
        "ZeroSumTransform",
    ]
    assert library_class_name(x.owner.op) == "GammaRV"
    assert named[5] == "Ordered"
