"""The sampler of a plan: the strongest claim that fits, its price, and its words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.certificates.terms import (
    EXACT_TERMS,
    REAL_ARITHMETIC,
    VERIFIED_ARITHMETIC,
    SamplingTerms,
)
from pymc_private.posterior.candidates import remaining_delta
from pymc_private.samplers.choose import SAMPLERS_BY_NAME, choose_sampler, sampler_candidates

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


@pytest.fixture(scope="module")
def seven():
    """A logistic regression that the strict proximal sampler draws, where there is a delta."""
    with pm.Model(coords={"i": range(len(Y)), "f": range(7)}) as model:
        x = pm.Data("x", np.eye(8, 7), dims=("i", "f"))
        pm.Bernoulli("y", logit_p=x @ pm.Normal("b", 0, 1, dims="f"), observed=Y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    return pmp.trim(private, box={"b": (-1, 1)})


def draw(plan):
    return pmp.sample(plan, ledger=pmp.Ledger(epsilon=10, delta=1e-3), progressbar=False)


def test_the_strongest_claim_is_taken(beta, square):
    assert choose_sampler(beta) == pmp.samplers.Conjugate()
    assert choose_sampler(square) == pmp.samplers.Boxes()
    assert choose_sampler(square, strict=True) == pmp.samplers.Grid()
    assert choose_sampler(beta, strict=True) == pmp.samplers.Conjugate()


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["conjugate", "boxes", "grid"])
def test_each_sampler_can_be_named_and_says_what_it_claims(beta, name):
    plan = pmp.calibrate(beta, epsilon=1, draws=3, sampler=name)
    release = draw(plan)
    assert release.facts["sampler"] == plan.sampler == name
    words = release.facts["claim"], release.guarantee.assumptions
    strict = name != "boxes"
    assert words[0] == ("proved" if strict else "proved (real arithmetic)")
    assert (VERIFIED_ARITHMETIC in words[1], REAL_ARITHMETIC in words[1]) == (strict, not strict)
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
    plans = [
        pmp.calibrate(beta, epsilon=1, draws=2, sampler=pmp.samplers.Grid(points=k)) for k in (4, 5)
    ]
    assert plans[0].fingerprint != plans[1].fingerprint
    assert "public grid of 4 points" in " ".join(plans[0].guarantee.assumptions)
    found = draw(plans[0]).posterior["p"].values.ravel()
    assert np.isclose(found[:, None], [0.275, 0.425, 0.575, 0.725]).any(axis=1).all()


def test_a_distance_costs_delta(beta):
    certificate = pmp.certify(beta)
    far = certificate.on(SamplingTerms(tv=1e-9)).guarantee(10)
    exact = certificate.guarantee(10)
    assert far.pure_epsilon == np.inf
    paid = far.delta(1.0) - exact.delta(1.0)
    assert paid == pytest.approx((1 + np.e) * 1e-8, rel=1e-3)


def test_a_budget_without_room_for_the_distance_is_refused():
    with pytest.raises(pmp.errors.Unsupported, match="more delta than there is"):
        remaining_delta(SamplingTerms(tv=1e-6), 1.0, 1e-6, 10)
    assert remaining_delta(EXACT_TERMS, 1.0, 0.0, 10) == 0.0
    assert 0 < remaining_delta(SamplingTerms(tv=1e-10), 1.0, 1e-6, 10) < 1e-6


def test_a_plan_fixes_its_sampler(beta):
    plan = pmp.calibrate(beta, epsilon=1, draws=2, sampler="boxes")
    for other in ({"sampler": "grid"}, {"sampler": pmp.samplers.Conjugate()}):
        with pytest.raises(pmp.errors.DomainError, match="fixes its sampler"):
            pmp.sample(plan, ledger=pmp.Ledger(epsilon=9), **other)
    assert pmp.sample(
        plan, ledger=pmp.Ledger(epsilon=9), sampler="boxes", progressbar=False
    ).private


def test_a_plan_with_cheaper_terms_is_refused(beta):
    plan = pmp.calibrate(beta, epsilon=1, draws=2, sampler="grid")
    with pytest.raises(pmp.errors.Incompatible, match="belong together"):
        replace(plan, certificate=plan.certificate.on(EXACT_TERMS))


def test_unknown_and_unfit_samplers_are_refused(square):
    with pytest.raises(pmp.errors.DomainError, match="no such sampler"):
        pmp.calibrate(square, epsilon=1, sampler="gibbs")
    with pytest.raises(pmp.errors.Unsupported, match="no conjugate model"):
        pmp.calibrate(square, epsilon=1, sampler="conjugate")
    with pytest.raises(pmp.errors.Unsupported, match="floating point"):
        pmp.calibrate(square, epsilon=1, sampler="boxes", strict=True)


def test_every_sampler_tells_its_time_or_why_not(beta, square):
    found = {c.name: c for c in sampler_candidates(square, 10)}
    assert set(found) == set(SAMPLERS_BY_NAME)
    assert "conjugate" in found["conjugate"].why_not
    assert found["boxes"].seconds > 0
    assert all(c.claim for c in sampler_candidates(beta, 10) if not c.why_not)


def test_no_time_is_told_where_the_number_of_records_is_protected(beta):
    found = sampler_candidates(replace(beta, neighbors="add_remove"), 10)
    assert all(np.isnan(c.seconds) for c in found)
    assert str(found[0]) == f"{found[0].name}, {found[0].claim}"


def test_a_coarse_grid_is_not_taken_unasked_and_the_refusal_tells_of_each_sampler(seven):
    assert choose_sampler(seven, strict=True) == pmp.samplers.Proximal(strict=True)
    with pytest.raises(pmp.errors.Unsupported, match="no claim in floating point") as caught:
        choose_sampler(seven, strict=True, pure=True)
    said = str(caught.value)
    for name in ("conjugate: this is no", "boxes: the box sampler", "proximal: a pure guarantee"):
        assert name in said
    assert "grid: its grid would be coarse (3 points along each coordinate)" in said
    assert "a delta above zero" in said
    assert "sampler='grid', as coarse as it is" in said
    assert choose_sampler(seven, "grid", strict=True, pure=True) == pmp.samplers.Grid()
    assert {c.name: c.why_not for c in sampler_candidates(seven, 1, strict=True)}["proximal"] == ""


def test_a_coarse_grid_says_so_loudly(beta):
    coarse = pmp.calibrate(beta, epsilon=1, draws=1, sampler=pmp.samplers.Grid(points=3))
    assert "WARNING: a coarse grid, 3 points along each continuous coordinate" in coarse.summary()
    assert "1/3 of its box" in coarse.summary()
    assert "not taken" not in coarse.summary()
    assert "3 along each continuous coordinate" in " ".join(coarse.guarantee.assumptions)
    assert not pmp.samplers.Grid(points=8).terms(beta).is_coarse


def test_a_strict_plan_says_why_the_others_were_not_taken(square):
    plan = pmp.calibrate(square, epsilon=1, strict=True)
    assert plan.sampler == "grid"
    (line,) = [text for text in plan.summary().splitlines() if text.startswith("in floating")]
    for said in ("conjugate: this is no", "boxes: its claim is one of real", "proximal: ", "nuts"):
        assert said in line


def test_points_of_a_grid_are_counted(beta):
    assert pmp.samplers.Grid(points=np.int64(5)) == pmp.samplers.Grid(points=5)
    assert "int64" not in repr(pmp.samplers.Grid(points=np.int64(5)))
    for points in (0, -3, 2.5, True, "8"):
        with pytest.raises(pmp.errors.DomainError, match="number of points"):
            choose_sampler(beta, pmp.samplers.Grid(points=points))


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


def test_the_samplers_of_a_plan_print_as_a_table(beta):
    plan = pmp.calibrate(beta, epsilon=1, draws=2)
    head, *rows = repr(plan.alternatives()).split("\n")
    assert head.split()[:2] == ["sampler", "time"]
    assert [row.split()[0] for row in rows] == [one.name for one in plan.alternatives()]
    assert "expected time of sampling: seconds" in plan.summary()
    assert "shows no width" in pmp.calibrate(beta, epsilon=1).summary()
