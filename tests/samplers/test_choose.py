"""The sampler of a plan: the strongest claim that fits, its price, and its words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.mechanisms.affordable import exact_delta
from pymc_private.models.terms import EXACT, REAL, STRICT, Terms
from pymc_private.samplers.choose import BY_NAME, candidates, choose

Y = np.array([0, 1, 1, 0, 1, 1, 0, 1])


@pytest.fixture(scope="module")
def beta():
    with pm.Model(coords={"i": range(len(Y))}) as model:
        pm.Bernoulli("y", p=pm.Beta("p", 2, 2), observed=Y, dims="i")
    return pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.8)})


@pytest.fixture(scope="module")
def square():
    with pm.Model(coords={"i": range(len(Y))}) as model:
        pm.Bernoulli("y", p=pm.Beta("p", 2, 2) ** 2, observed=Y, dims="i")
    return pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.8)})


def draw(plan):
    return pmp.sample(plan, ledger=pmp.Ledger(epsilon=10, delta=1e-3), progressbar=False)


def test_the_strongest_claim_is_taken(beta, square):
    assert choose(beta) == pmp.Conjugate()
    assert choose(square) == pmp.Boxes()
    assert choose(square, strict=True) == pmp.Grid()
    assert choose(beta, strict=True) == pmp.Conjugate()


@pytest.mark.parametrize("name", ["conjugate", "boxes", "grid"])
def test_each_sampler_can_be_named_and_says_what_it_claims(beta, name):
    plan = pmp.calibrate(beta, epsilon=1, draws=3, sampler=name)
    release = draw(plan)
    assert release.facts["sampler"] == plan.sampler == name
    words = release.facts["claim"], release.guarantee.assumptions
    strict = name != "boxes"
    assert words[0] == ("proved" if strict else "proved (real arithmetic)")
    assert (STRICT in words[1], REAL in words[1]) == (strict, not strict)
    values = release.posterior["p"].values
    assert values.shape == (1, 3)
    assert np.all((values >= 0.2) & (values <= 0.8))


def test_a_grid_pays_four_tau_per_draw(beta):
    exact = pmp.calibrate(beta, epsilon=5, draws=2, sampler="boxes")
    grid = pmp.calibrate(beta, epsilon=5, draws=2, sampler="grid")
    tau = Fraction(1, 2**20)
    more = Fraction(grid.guarantee.pure_epsilon) - Fraction(exact.guarantee.pure_epsilon)
    per_draw = more / 2 / grid.private.power
    if exact.private.power == grid.private.power:
        assert 4 * tau <= per_draw <= 4 * tau * Fraction(1001, 1000)
    tight = pmp.calibrate(beta, epsilon=0.5, draws=2, sampler="grid")
    assert tight.guarantee.pure_epsilon <= 0.5
    assert tight.private.power < 1


def test_grid_points_are_part_of_the_plan(beta):
    plans = [pmp.calibrate(beta, epsilon=1, draws=2, sampler=pmp.Grid(points=k)) for k in (4, 5)]
    assert plans[0].fingerprint != plans[1].fingerprint
    assert "public grid of 4 points" in " ".join(plans[0].guarantee.assumptions)
    found = draw(plans[0]).posterior["p"].values.ravel()
    assert np.isclose(found[:, None], [0.275, 0.425, 0.575, 0.725]).any(axis=1).all()


def test_a_distance_costs_delta(beta):
    certificate = pmp.certify(beta)
    far = certificate.on(Terms(tv=1e-9)).guarantee(10)
    exact = certificate.guarantee(10)
    assert far.pure_epsilon == np.inf
    paid = far.delta(1.0) - exact.delta(1.0)
    assert paid == pytest.approx((1 + np.e) * 1e-8, rel=1e-3)


def test_a_budget_without_room_for_the_distance_is_refused():
    with pytest.raises(pmp.Unsupported, match="more delta than there is"):
        exact_delta(Terms(tv=1e-6), 1.0, 1e-6, 10)
    assert exact_delta(EXACT, 1.0, 0.0, 10) == 0.0
    assert 0 < exact_delta(Terms(tv=1e-10), 1.0, 1e-6, 10) < 1e-6


def test_a_plan_fixes_its_sampler(beta):
    plan = pmp.calibrate(beta, epsilon=1, draws=2, sampler="boxes")
    for other in ({"sampler": "grid"}, {"sampler": pmp.Conjugate()}, {"strict": True}):
        with pytest.raises(pmp.DomainError, match="fixes its sampler"):
            pmp.sample(plan, ledger=pmp.Ledger(epsilon=9), **other)
    assert pmp.sample(
        plan, ledger=pmp.Ledger(epsilon=9), sampler="boxes", progressbar=False
    ).private


def test_a_plan_with_cheaper_terms_is_refused(beta):
    plan = pmp.calibrate(beta, epsilon=1, draws=2, sampler="grid")
    with pytest.raises(pmp.Incompatible, match="belong together"):
        replace(plan, certificate=plan.certificate.on(EXACT))


def test_unknown_and_unfit_samplers_are_refused(square):
    with pytest.raises(pmp.DomainError, match="no such sampler"):
        pmp.calibrate(square, epsilon=1, sampler="gibbs")
    with pytest.raises(pmp.Unsupported, match="no conjugate model"):
        pmp.calibrate(square, epsilon=1, sampler="conjugate")
    with pytest.raises(pmp.Unsupported, match="floating point"):
        pmp.calibrate(square, epsilon=1, sampler="boxes", strict=True)


def test_every_sampler_tells_its_time_or_why_not(beta, square):
    found = {c.name: c for c in candidates(square, 10)}
    assert set(found) == set(BY_NAME)
    assert "conjugate" in found["conjugate"].why_not
    assert found["boxes"].seconds > 0
    assert all(c.claim for c in candidates(beta, 10) if not c.why_not)


def test_no_time_is_told_where_the_number_of_records_is_protected(beta):
    found = candidates(replace(beta, neighbors="add_remove"), 10)
    assert all(np.isnan(c.seconds) for c in found)
    assert str(found[0]) == f"{found[0].name}, {found[0].claim}"


def test_a_plan_tells_its_alternatives(beta):
    found = {c.name: str(c) for c in pmp.calibrate(beta, epsilon=1, draws=2).alternatives()}
    assert "proved (real arithmetic), seconds" in found["boxes"]
    assert "nobody can prove" in found["nuts"]


def test_at_cost_takes_a_sampler_too(beta):
    release = pmp.sample(
        beta, draws=1, sampler="grid", ledger=pmp.Ledger(epsilon=9), progressbar=False
    )
    assert release.facts["sampler"] == "grid"


def test_a_seed_marks_every_sampler_not_private(beta):
    for name in ("conjugate", "boxes", "grid"):
        plan = pmp.calibrate(beta, epsilon=1, draws=2, sampler=name)
        first, second = (pmp.sample(plan, random_seed=4, progressbar=False) for _ in range(2))
        assert not first.private
        assert first.guarantee.epsilon(0.1) == np.inf
        assert first.posterior.equals(second.posterior)
