"""Budgets of counts beyond all sense: an answer, or a clear error; never a raw one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pymc_private.counts.denoise import lattices
from pymc_private.errors import DomainError
from pymc_private.privacy.dirichlet_tables import TableSensitivity, joint_plan
from pymc_private.privacy.inverse import mu_affordable
from pymc_private.privacy.noisy_counts import (
    MAX_DIVERGENCE,
    MAX_EPSILON,
    MAX_SCALE,
    MIN_SCALE,
    CountBudget,
    CountProfile,
    clip_budget,
    noise_plan,
    plan_within_range,
)

AT = 1e-5
GRID = {
    **{
        f"epsilon {e:g}, delta {d:g}": {"epsilon": e, "delta": d}
        for e in (1e-300, 1e-12, 1e5, 1e8, 1e300)
        for d in (0.0, AT, 1e-300)
    },
    **{
        f"{v:g} at order {o:g}": {"rdp": (o, v), "delta": AT}
        for o in (1 + 1e-15, 2.0, 1e6, 1e300)
        for v in (1e-300, 1e-12, 1e12, 1e300)
    },
    **{f"rho {v:g}": {"zcdp": v, "delta": AT} for v in (1e-300, 1e-12, 1e12, 1e300)},
}


@pytest.mark.thin(3)
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize("given", GRID.values(), ids=GRID)
def test_noise_is_priced_within_the_budget_or_refused(given, neighbors):
    budget = CountBudget.of(**given)
    try:
        plan = noise_plan(budget, 3, neighbors)
    except DomainError as error:
        refused = error
    else:
        assert budget.fits(plan.guarantee)
        assert MIN_SCALE[plan.distribution] <= plan.scale <= MAX_SCALE
        return
    assert "nothing was charged" in str(refused)
    assert ">=" in refused.allowed


def test_the_least_budget_that_is_named_serves():
    with pytest.raises(DomainError) as refused:
        noise_plan(CountBudget.of(1e-15), 1)
    least = float(refused.value.allowed.split(">=")[1].split(",")[0])
    assert noise_plan(CountBudget.of(least), 1).scale <= MAX_SCALE


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 1e-300, "delta": AT}, {"rdp": (2.0, 1e-300), "delta": AT},
        {"rdp": (1e300, 1.0), "delta": AT},
    ],
)  # fmt: skip
def test_dirichlet_draws_below_the_range_are_refused_in_words(given):
    with pytest.raises(DomainError, match="nothing was charged") as refused:
        plan_within_range(
            joint_plan, CountBudget.of(**given), [CountProfile(4, 1, 800.0)], TableSensitivity(1)
        )
    assert "epsilon >=" in refused.value.allowed


@pytest.mark.parametrize(
    "given", [{"epsilon": 1e300, "delta": AT}, {"rdp": (2.0, 1e300), "delta": AT}]
)
def test_dirichlet_draws_above_the_range_cost_no_more_than_its_end(given):
    budget = CountBudget.of(**given)
    plan = plan_within_range(joint_plan, budget, [CountProfile(4, 1, 800.0)], TableSensitivity(1))
    assert budget.fits(plan.guarantee)
    assert clip_budget(budget).fits(plan.guarantee)
    assert np.isfinite(plan.expected_kl).all()


def test_what_is_planned_for_is_never_more_than_was_asked():
    for epsilon in (1e-6, 1.0, 1e3, 1e9):
        assert clip_budget(CountBudget.of(epsilon, AT)).epsilon == min(epsilon, MAX_EPSILON)
    for divergence in (1e-6, 1.0, 1e9):
        found = clip_budget(CountBudget.of(rdp=(2.0, divergence), delta=AT))
        assert (found.order, found.rdp) == (2.0, min(divergence, MAX_DIVERGENCE))


def test_a_search_that_breaks_down_is_a_refusal():
    def broken(budget):
        raise ValueError("the function value is NaN")

    with pytest.raises(DomainError, match="nothing was charged"):
        plan_within_range(broken, CountBudget.of(1.0, AT))


def test_gaussian_noise_of_tiny_budgets_is_found():
    assert 0.0 < mu_affordable(1e-12, 1e-300) < 1e-12


def test_one_category_costs_nothing_in_accuracy():
    assert CountProfile(1, 1, 800.0).dirichlet_kl(0.3, 2.0) == pytest.approx(0.0, abs=1e-12)


def test_places_in_wide_bins_follow_the_prior():
    uniform = np.linspace(0.001, 0.999, 50)
    n = np.arange(3, 1003)
    upto = np.cumsum(special.softmax(special.gammaln(n + 0.3) - special.gammaln(n + 1.0)))
    found = lattices.draw_within_bin(3, 1000, 0.3, uniform)
    assert np.abs(np.searchsorted(upto, uniform) - found).max() <= 1
    far = lattices.draw_within_bin(0, 2**37, 1.0, uniform)  # 1 TB, if all were listed
    assert np.allclose(far / 2**37, uniform, atol=1e-6)
