"""Theta_L: ell(theta) against PyMC's own log-likelihood, the region, its draws and its mass."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from benchmarks.zoo import BY_NAME
from pymc_private.certificates.lipschitz.region import boundary_points
from pymc_private.certificates.lipschitz.variation import variation
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.prior import prior_mass
from tests.models.brute_force import natural_logp, own_logp, random_points, stripped
from tests.statistics import cdf_envelope

N = 12
KNOWN, MORE = (
    ["logistic"],
    [
        "categorical",
        "linear",
        "poisson",
        "negative binomial",
        "student t",
        "public offset",
        "two outcomes",
    ],
)


def exponential(seed: int = 0, **keywords):
    """ell(theta) = 5 theta: Lemma 19 of Dimitrakakis et al."""
    rng = np.random.default_rng(seed)
    with pm.Model(coords={"p": range(N)}) as model:
        rate = pm.Exponential("rate", 2.0)
        pm.Exponential("y", lam=rate, observed=rng.uniform(0, 3, N), dims="p")
    return pmp.privatize(model, records="p", domain={"y": (0, 5)}, **keywords)


@cache
def logistic(width: int = 2):
    rng = np.random.default_rng(3)
    with pm.Model(coords={"p": range(N), "k": range(width)}) as model:
        x = pm.Data("X", rng.normal(size=(N, width)) / 3, dims=("p", "k"))
        beta = pm.Normal("beta", 0, 1, shape=width)
        pm.Bernoulli("y", logit_p=x @ beta, observed=rng.integers(0, 2, N), dims="p")
    return pmp.privatize(model, records="p", domain={"X": pmp.Ball(1.0)})


@cache
def up_to_four():
    return pmp.trim(exponential(), lipschitz=4.0)


@cache
def limited(limit: float = 1.5):
    return pmp.trim(logistic(), lipschitz=limit)


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "name", [*KNOWN, *(pytest.param(name, marks=pytest.mark.audit) for name in MORE)]
)
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
def test_the_range_over_two_points_is_at_most_the_sum_of_their_ells(name, neighbors):
    """T24, of PyMC's own log-likelihood of random records at random points of the box."""
    if (name, neighbors) == ("public offset", "add_remove"):
        pytest.skip("something public counts the records")
    entry, rng = BY_NAME[name], np.random.default_rng(5)
    entry = replace(entry, keywords={**entry.keywords, "neighbors": neighbors})
    models = [entry.privatize(entry.data(rng, 37)) for _ in range(2)]
    points = list(random_points(models[0], rng, 30))
    ell = variation(models[0]).at({k: np.stack([p[k] for p in points]) for k in points[0]})
    tables = [np.array([logp(p) for p in points]) for logp in map(own_logp, models)]
    difference = tables[0] - tables[1] if neighbors == "substitute" else tables[0]
    gaps = np.abs(difference[:, None] - difference[None, :]).max(axis=-1)
    bound = ell[:, None] + ell[None, :]
    off = ~np.eye(len(points), dtype=bool)
    assert np.all(gaps[off] <= bound[off])
    assert (gaps[off] / bound[off]).max() > 0.2  # no vacuous bound


def test_ell_of_the_exponential_family_is_rate_times_diameter():
    rates = np.array([1e-6, 0.1, 0.8, 7.0])
    ell = variation(exponential()).at({"rate": rates})
    assert np.all(ell >= 5 * rates)
    np.testing.assert_allclose(ell, 5 * rates, rtol=1e-12)


def test_theta_l_of_the_exponential_family_is_the_interval_up_to_l_over_the_diameter():
    trimmed = up_to_four()
    box = trimmed.box["rate"]
    assert float(box.upper) == pytest.approx(0.8, rel=1e-4)
    exact = -np.expm1(-2.0 * 0.8)
    assert trimmed.prior_mass.lower <= exact <= trimmed.prior_mass.upper
    assert prior_mass(trimmed).estimate == trimmed.prior_mass.estimate
    found = pmp.certify(trimmed)
    assert found.searched <= found.range <= 4.001  # here half of 2 L
    assert "T24" in found.theorem


@pytest.mark.audit
def test_the_certificate_of_a_set_is_at_most_twice_l_and_scales_with_power_and_units():
    trimmed = limited()
    found = pmp.certify(trimmed)
    assert found.range == 3.0
    assert 2.8 < found.searched <= 3.0
    half = replace(pmp.temper(trimmed, Fraction(1, 2)), records_per_unit=3)
    assert pmp.certify(half).range == 4.5


def test_every_point_of_the_set_has_ell_at_most_l_and_the_box_around_it_is_not_the_set():
    trimmed = limited()
    np.testing.assert_allclose(trimmed.box["beta"].upper, 1.5, rtol=1e-4)
    edge = [np.linalg.norm(p["beta"].lower) for p in boundary_points(trimmed, trimmed.theta_l)]
    assert 1.49 < max(edge) <= 1.5
    wall = natural_logp(stripped(trimmed.model), without=("y",))
    assert np.isfinite(wall({"beta": np.array([1.0, 1.0])}))
    assert wall({"beta": np.array([1.2, 1.2])}) == -np.inf  # inside the box, outside the set


def test_the_wall_is_the_only_change_of_the_joint_density():
    private, trimmed = logistic(), limited()
    assert all(np.isfinite(v) for v in trimmed.model.point_logps().values())  # the start is inside
    free, walled = natural_logp(private.model), natural_logp(stripped(trimmed.model))
    for beta in ([0.0, 0.0], [1.0, -1.0], [-0.2, 1.4]):
        point = {"beta": np.array(beta)}
        assert walled(point) == pytest.approx(free(point), rel=1e-12)


@pytest.mark.parametrize("build", [exponential, pytest.param(logistic, marks=pytest.mark.audit)])
def test_a_box_within_theta_l_is_within_it(build):
    private = build()
    box = pmp.trim(private, lipschitz=2.0, shape="box")
    assert box.theta_l is None
    rng = np.random.default_rng(1)
    points = list(random_points(box, rng, 64))
    stacked = {k: np.stack([p[k] for p in points]) for k in points[0]}
    ell = variation(private).at(stacked)
    assert ell.max() <= 2.0 * (1 + 1e-9)
    assert ell.max() > 1.9  # as large as it can be
    assert pmp.certify(box).range <= 4.0


@pytest.mark.audit
def test_a_box_within_theta_l_needs_no_symbolic_rules():
    entry = BY_NAME["softmax"]
    private = entry.privatize(entry.data(np.random.default_rng(0), 37))
    with pytest.raises(pmp.errors.Unsupported, match="shape='box'"):
        pmp.trim(private, lipschitz=2.0)
    assert pmp.certify(pmp.trim(private, lipschitz=2.0, shape="box")).range <= 4.0


@pytest.mark.audit
def test_draws_from_theta_l_follow_the_posterior_restricted_to_it():
    """Against the closed form."""
    private = exponential()
    trimmed = pmp.trim(private, lipschitz=1.0)  # cuts where the posterior is
    drawn = pmp.sample(trimmed, draws=120, random_seed=4, progressbar=False)
    values = np.ravel(drawn.posterior["rate"].values)
    y = private.sources[0].values()
    exact = stats.gamma(1 + N, scale=1 / (2.0 + y.sum()))
    assert values.max() <= 0.2
    assert exact.cdf(0.2) < 0.5
    inside = cdf_envelope(values, lambda x: exact.cdf(np.minimum(x, 0.2)) / exact.cdf(0.2))
    assert inside.passes, inside
    assert not cdf_envelope(values, exact.cdf).passes  # the unrestricted posterior is seen


@pytest.mark.audit
def test_a_second_limit_meets_the_first():
    once = limited()
    assert pmp.trim(once, lipschitz=2.0) is once
    twice = pmp.trim(once, lipschitz=1.0)
    assert pmp.certify(twice).range == 2.0
    boxed = pmp.trim(once, box={"beta": (0, 1)})
    assert pmp.certify(boxed).range <= 3.0
    assert all(np.isfinite(v) for v in boxed.model.point_logps().values())


@pytest.mark.audit
def test_a_clip_takes_the_bound_away_but_not_the_region():
    trimmed = up_to_four()
    clipped = pmp.clip(trimmed, -60.0, 5.0)
    assert "T24" not in pmp.certify(clipped).theorem
    wall = natural_logp(stripped(clipped.model))
    assert wall({"rate": np.array(0.79)}) > -np.inf
    assert wall({"rate": np.array(0.81)}) == -np.inf


def test_the_region_belongs_to_the_fingerprint_and_survives_pickling():
    trimmed, other = limited(), pmp.trim(limited(), lipschitz=1.4)
    prints = [model_fingerprint(p) for p in (logistic(), trimmed, other)]
    assert len(set(prints)) == 3
    copy = pickle.loads(pickle.dumps(trimmed))
    assert model_fingerprint(copy) == prints[1]
    found = pmp.certify(copy)
    assert found.range == 3.0
    assert found.covers(trimmed)


def test_nothing_reads_the_data():
    private = exponential()
    for source in private.sources:
        source.variable.set_value(np.full(N, np.nan))
    trimmed, other = pmp.trim(private, lipschitz=4.0), up_to_four()
    assert trimmed.theta_l.start == other.theta_l.start
    assert trimmed.box["rate"].upper == other.box["rate"].upper


@pytest.mark.thin(3)
@pytest.mark.parametrize("limit", [0.0, -1.0, np.inf, np.nan, True, "2", None])
def test_an_impossible_l_is_refused(limit):
    with pytest.raises(pmp.errors.DomainError):
        pmp.trim(exponential(), lipschitz=limit)


def test_l_below_the_infimum_of_ell_is_refused_and_tells_the_least_found():
    private = pmp.trim(exponential(), box={"rate": (1.0, 2.0)})  # ell >= 5
    for shape, words in (("set", r"L above 5\."), ("box", "no box")):
        with pytest.raises(pmp.errors.DomainError, match="L = 4") as refusal:
            pmp.trim(private, lipschitz=4.0, shape=shape)
        assert re.search(words, str(refusal.value))


@pytest.mark.parametrize(
    "keywords",
    [{}, {"mass": 0.9, "lipschitz": 1.0}, {"lipschitz": 1.0, "shape": "ball"}, {"mass": 1.0}],
)
def test_no_region_two_regions_or_a_strange_one_is_refused(keywords):
    with pytest.raises(pmp.errors.DomainError):
        pmp.trim(exponential(), **keywords)


def test_improper_priors_have_no_mass_but_a_box_can_be_looked_in():
    with pm.Model(coords={"p": range(N)}) as model:
        mean = pm.Flat("mean")
        pm.Normal("y", mean, 1, observed=np.zeros(N), dims="p")
    private = pmp.privatize(model, records="p", domain={"y": (-1, 1)})
    with pytest.raises(pmp.errors.DomainError, match="improper"):
        pmp.trim(private, mass=0.9)
    with pytest.raises(pmp.errors.DomainError, match="box"):
        pmp.trim(private, lipschitz=2.0)
    boxed = pmp.trim(private, box={"mean": (-9, 9)})
    with pytest.raises(pmp.errors.DomainError, match="improper"):
        _ = boxed.prior_mass
    found = pmp.trim(boxed, lipschitz=2.0)  # sup - inf = (1 + |mean|)^2 / 2
    np.testing.assert_allclose(found.box["mean"].upper, 1.0, rtol=1e-2)


def test_a_plan_says_the_limit_and_draws():
    trimmed = up_to_four()
    plan = pmp.calibrate(trimmed, epsilon=2.0, delta=1e-6, draws=2)
    assert "at most L = 4 nats" in plan.summary()
    assert "of the prior's mass" in plan.summary()  # tempering keeps the region
    assert "at most L = 4 nats" in repr(trimmed)
    assert plan.guarantee.epsilon(1e-6) <= 2.0


def two_rates():
    with pm.Model(coords={"i": range(20), "k": range(2)}) as model:
        rate = pm.Gamma("rate", 2, 2, dims="k")
        pm.Exponential("y", rate, observed=np.full((20, 2), 0.5), dims=("i", "k"))
    return pmp.privatize(model, records="i", domain={"y": (0.1, 3)})


@pytest.mark.audit
def test_no_sampler_draws_from_the_box_around_the_set():
    """An inverse CDF for each coordinate would know the box alone, and R of the set is smaller."""
    trimmed = pmp.trim(two_rates(), lipschitz=2.0)
    with pytest.raises(pmp.errors.Unsupported):
        pmp.calibrate(trimmed, epsilon=100, sampler="conjugate")
    assert pmp.calibrate(two_rates_in_a_box(), epsilon=100, sampler="conjugate").sampler
    plan = pmp.calibrate(trimmed, epsilon=100, draws=40, sampler="grid")
    drawn = pmp.sample(plan, random_seed=1, progressbar=False).posterior["rate"].values[0]
    # |x - y| <= 2.9 in each outcome: one record changes the log-likelihood by 2.9 (r_1 + r_2).
    assert (2.9 * drawn.sum(axis=1)).max() <= 2.0 + 0.05


def two_rates_in_a_box():
    return pmp.trim(two_rates(), box={"rate": (0.1, 0.6)})
