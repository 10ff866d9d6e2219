"""Slopes that vary among groups: noisy sums within groups, and what is read of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from benchmarks.criticism_hierarchies import HierarchyChecks
from pymc_private.criticism.charged_check import noisy_sums
from pymc_private.criticism.check_result import Check, VarianceTest
from pymc_private.criticism.variance_law import VarianceLaw
from pymc_private.errors import DomainError, NotInformative, Unsupported
from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise
from pymc_private.summaries.summary_job import records_of
from tests.criticism.criticized_models import assert_sums_cost_what_is_charged

N, GROUPS, SPREAD = 3000, 8, 1.2
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = {"g": np.arange(N) % GROUPS, "x": np.random.default_rng(3).uniform(-1, 1, N)}
EFFECTS, SLOPES = np.random.default_rng(4).standard_normal((2, GROUPS))


def outcomes(spread):
    g, x = ROWS["g"], ROWS["x"]
    eta = 0.5 * EFFECTS[g] + (0.5 + spread * (SLOPES - SLOPES.mean())[g]) * x
    return (np.random.default_rng(5).random(N) < 1 / (1 + np.exp(-eta))).astype(int)


def model_of(y, slopes=False, groups=GROUPS):
    with pm.Model(coords={"row": range(N), "group": range(groups)}) as model:
        sd = pm.LogNormal("sd", -0.7, 0.5)
        effect = pm.Normal("effect", pm.Normal("mean"), sd, dims="group")
        g, x = (pm.Data(name, v, dims="row") for name, v in (("g", ROWS["g"] % groups), ROWS_X))
        slope = pm.Normal("slope", dims="group")[g] if slopes else pm.Normal("slope")
        pm.Bernoulli("y", logit_p=effect[g] + slope * x, observed=y, dims="row")
    return model


ROWS_X = ("x", ROWS["x"])


@cache
def summary_of(spread, public=True, **words):
    domain = {"x": (-1, 1)} | ({} if public else {"g": pmp.Categories(range(GROUPS))})
    private = pmp.privatize(
        model_of(outcomes(spread), **words), records="row", public=["g"] if public else [],
        domain=domain,
    )  # fmt: skip
    plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    return pmp.summarize(plan, random_seed=1, progressbar=False)


@cache
def plan_of(spread, public=True):
    return pmp.check_plan(summary_of(spread, public), "slopes(x, g)", **BUDGET)


@pytest.mark.audit
@pytest.mark.parametrize("public", [pytest.param(True, marks=pytest.mark.audit), False])
def test_slopes_that_vary_are_seen_and_common_ones_are_not(public):
    result = pmp.check(plan_of(SPREAD, public), random_seed=2)
    (test,) = result.tests
    assert isinstance(test, VarianceTest)
    low, high = test.interval()
    assert test.p < 1e-3
    assert low < np.std(SPREAD * SLOPES) < high
    assert low < test.estimate < high
    assert "a departure of" in repr(result)
    (other,) = pmp.check(plan_of(0.0, public), random_seed=2).tests
    assert other.p > 0.01
    assert other.interval()[0] == 0.0
    assert other.z >= 0.0


@pytest.mark.audit
def test_a_plan_tells_the_smallest_spread_and_what_is_found_is_stored(tmp_path):
    plan = plan_of(SPREAD)
    (test,) = plan.tests
    size = test.smallest()
    assert 0.2 < size < 2.0
    assert abs(test.power(size) - 0.8) < 1e-6
    assert test.power(0.0) < 0.0501
    assert "standard deviation of the coefficient of x among groups of g" in repr(plan)
    assert "level 0.05, one-sided" in repr(plan)
    assert_sums_cost_what_is_charged(plan)
    result = pmp.check(plan, random_seed=2)
    loaded = Check.load(result.save(tmp_path / "check.json"))
    assert loaded == result
    assert loaded["slopes(x,g)"].p == result.tests[0].p
    assert isinstance(loaded.tests[0], VarianceTest)
    frame = loaded.to_frame()
    assert abs(frame["smallest seen"].iloc[0] - size) < 1e-9
    loaded.plot()


@pytest.mark.audit
def test_several_departures_share_a_check():
    plan = pmp.check_plan(summary_of(SPREAD), ["slopes(x, g)", "quadratic(x)"], **BUDGET)
    result = pmp.check(plan, random_seed=3)
    assert result.p_holm["slopes(x, g)"] < 0.05
    assert [t.name for t in result.tests] == ["slopes(x, g)", "quadratic(x)"]


def test_a_record_adds_to_the_sum_of_its_group_alone_and_no_more_than_its_bound():
    (part,) = plan_of(SPREAD).parts
    statistic, wild = part.statistic, (np.nan, np.inf, -np.inf, 1e300, -1.0, GROUPS, 0.5)
    rows = {name: v[:200].astype(float) for name, v in ROWS.items()}
    y = outcomes(SPREAD)[:200].astype(float)
    rows["x"][:7], y[3:9] = wild, (np.nan, np.inf, 1e300, -np.inf, 0.0, 1.0)
    rows["g"][20:27] = wild
    by_name = {statistic.label.rows: rows["g"]}
    read = {name: by_name.get(name, rows["x"]) for name in (statistic.label.rows, "x")}
    with np.errstate(all="ignore"):
        terms = statistic.group_terms(read, y)
    assert terms.shape == (200, GROUPS)
    assert (np.count_nonzero(terms, axis=1) <= 1).all()
    assert (np.abs(terms) <= statistic.bound).all()
    assert (terms[20:26] == 0.0).all()  # labels of no group, though 1/2 is read as 0
    seen = np.flatnonzero(np.abs(terms).sum(axis=1))
    inside = seen[(seen < 20) | (seen > 26)]
    assert (np.argmax(np.abs(terms[inside]), axis=1) == rows["g"][inside]).all()
    for k in (0, 5, 40, 150):
        alone = {name: np.repeat(v[k : k + 1], 200, axis=0) for name, v in read.items()}
        with np.errstate(all="ignore"):
            again = statistic.group_terms(alone, np.full(200, y[k]))
        np.testing.assert_array_equal(again, np.repeat(terms[k : k + 1], 200, axis=0))
    lattice, scale = TermLattice(statistic.bound), NoiseScale()
    moved = np.ldexp(1.0, lattice.exponent) * np.linalg.norm(
        np.diff(lattice.terms(terms, False)[inside].astype(float), axis=0), axis=1
    )
    assert moved.max() <= 2 * statistic.bound * (1 + 1e-9)
    assert part.forecast.noise_sd >= 2 * statistic.bound / part.mu * (1 - 1e-12)
    assert scale.sd(statistic.bound, False, part.mu, GROUPS) == part.forecast.noise_sd


@pytest.mark.audit
def test_the_sums_of_simulated_records_are_what_the_plan_expects():
    """Noise aside, sums of the summary's own records are near their mean given it."""
    plan = plan_of(0.0)
    (part,) = plan.parts
    (told,) = noisy_sums(plan, records_of(plan.private), SimulatedNoise(np.random.default_rng(6)))
    away = np.linalg.solve(np.linalg.cholesky(part.spread), told - part.mean)
    assert 0.1 < (away**2).mean() < 3.0
    assert part.spread.shape == part.effects.shape == (GROUPS, GROUPS)
    # A common slope is in the model: the sums do not tell it, each group's own they do.
    common = part.effects @ np.ones(GROUPS)
    assert np.abs(common).max() < 0.5 * np.abs(np.diag(part.effects)).min()
    assert len(part.forecast.law.weights) <= GROUPS
    same = VarianceLaw.of(part.spread, part.effects)
    np.testing.assert_allclose(same.weights, part.forecast.law.weights)


@pytest.mark.audit
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_false_alarms_and_power_are_as_planned(spread):
    """14 data sets with summaries of their own; se .06 and .11."""
    checks = HierarchyChecks("logistic:10:1000:private", 1.0, spread)
    checks.departures = ("slopes(x, g)",)
    found = np.array([checks.found(k)[0] for k in range(14)])
    seen = (found[:, 0] < 0.05).mean()
    assert abs(seen - (found[:, 2].mean() if spread else 0.05)) < (0.25 if spread else 0.15)


# ---- nothing charged -----------------------------------------------------------------------------
@pytest.mark.audit
def test_what_is_no_departure_of_groups_is_refused():
    summary = summary_of(0.0)
    with pytest.raises(DomainError, match=r"slopes\(x, g\)"):
        pmp.check_plan(summary, "slopes(x)", **BUDGET)
    with pytest.raises(Unsupported, match="no position in an array"):
        pmp.check_plan(summary, "slopes(g, x)", **BUDGET)
    with pytest.raises(DomainError, match="no covariate is called so"):
        pmp.check_plan(summary, "slopes(z, g)", **BUDGET)


@pytest.mark.audit
def test_slopes_that_the_model_has_and_two_groups_are_refused():
    with pytest.raises(Unsupported, match="nothing to see of 'slopes"):
        pmp.check_plan(summary_of(0.0, slopes=True), "slopes(x, g)", **BUDGET)
    with pytest.raises(Unsupported, match="many groups"):
        pmp.check_plan(summary_of(0.0, groups=2), "slopes(x, g)", **BUDGET)


def test_noise_that_would_drown_it_is_refused_with_the_smallest_spread():
    plan = pmp.check_plan(summary_of(0.0), "slopes(x, g)", epsilon=0.1, delta=1e-6)
    (test,) = plan.tests
    assert test.drowned
    assert "REFUSED" in repr(plan)
    book = pmp.Ledger(epsilon=5, delta=1e-4)
    with pytest.raises(NotInformative, match=f"so that {test.smallest():.2g} is the smallest"):
        pmp.check(plan, ledger=book)
    assert book.entries == ()
