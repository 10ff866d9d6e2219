"""Noisy sums of conjugate models: what leaves, its likelihood, and the coverage of intervals."""

import itertools
import json
import math
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.domains import Counts
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.samplers.randomness import SystemRandomness
from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import LatticeNoise, SimulatedNoise
from pymc_private.summaries.sums.sum_mechanism import SumMechanism

MU, N = 0.2367, 400
FAMILIES = ("bernoulli", "vector", "poisson", "exponential", "normal", "categorical", "multinomial")
QUICK = (
    ("vector", SUBSTITUTE), ("poisson", ADD_REMOVE), ("exponential", SUBSTITUTE),
    ("normal", ADD_REMOVE), ("categorical", SUBSTITUTE), ("multinomial", SUBSTITUTE),
)  # fmt: skip
EVERY = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.audit)
    for pair in itertools.product(FAMILIES, (SUBSTITUTE, ADD_REMOVE))
]


def model_of(family, n):
    """A conjugate model, its domain, and a function that simulates its records."""
    with pm.Model() as model:
        if family in ("bernoulli", "vector"):
            d = 3 if family == "vector" else 1
            shape = (n, d) if d > 1 else n
            p = pm.Beta("p", 2, 3, shape=d if d > 1 else None)
            pm.Bernoulli("y", p, observed=np.zeros(shape, dtype=int))
            return model, (0, 1), lambda p, rng: rng.binomial(1, p, shape)
        if family == "poisson":
            pm.Poisson("y", pm.Gamma("p", 2, 1), observed=np.zeros(n, dtype=int))
            return model, (0, 9), lambda p, rng: rng.poisson(p, n)
        if family == "exponential":
            pm.Exponential("y", pm.Gamma("p", 2, 1), observed=np.ones(n))
            return model, (0, 3), lambda p, rng: rng.exponential(1 / p, n)
        if family == "normal":
            pm.Normal("y", pm.Normal("p", 0, 3), 2.0, observed=np.zeros(n))
            return model, (-6, 7), lambda p, rng: rng.normal(p, 2.0, n)
        p = pm.Dirichlet("p", np.array([1.0, 2.0, 1.0, 3.0]))
        if family == "categorical":
            pm.Categorical("y", p, observed=np.zeros(n, dtype=int))
            domain = pmp.Categories(range(4))
            return model, domain, lambda p, rng: rng.choice(4, n, p=p / p.sum())
        observed = np.tile([5, 0, 0, 0], (n, 1))
        pm.Multinomial("y", 5, p, observed=observed)
        return model, Counts(5), lambda p, rng: rng.multinomial(5, p / p.sum(), n)


@cache
def private_of(family, neighbors=SUBSTITUTE, records_per_unit=1):
    model, domain, _ = model_of(family, N)
    return pmp.privatize(
        model, records={"y": 0}, domain={"y": domain}, neighbors=neighbors,
        records_per_unit=records_per_unit,
    )  # fmt: skip


@cache
def mechanism_of(family, neighbors=SUBSTITUTE, mu=MU, **words):
    n = N if neighbors == ADD_REMOVE else None
    mechanism = SumMechanism(private_of(family, neighbors, **words), mu, n=n)
    return mechanism, model_of(family, N)[2]


def released_of(mechanism, simulate):
    rng = np.random.default_rng(0)
    theta = mechanism.parameters.draws(40, 5)[7:8]
    natural = mechanism.parameters.natural(theta)[mechanism.statistic.name][0]
    noise = SimulatedNoise(rng, mechanism.private.neighbors)
    return mechanism.release({"y": simulate(natural, rng)}, noise)


@pytest.mark.thin(6)
@pytest.mark.parametrize(("family", "neighbors"), EVERY)
def test_the_likelihood_is_the_normal_density_of_the_distribution(family, neighbors):
    mechanism, simulate = mechanism_of(family, neighbors)
    released = released_of(mechanism, simulate)
    theta = mechanism.parameters.draws(30, 3)
    natural = mechanism.parameters.natural(theta)[mechanism.statistic.name]
    found = mechanism.log_likelihood(released)(theta)
    statistic = mechanism.statistic
    mean, covariance, _ = statistic.distribution(natural, statistic.count(released))
    observed = statistic.observed(released)
    if neighbors == SUBSTITUTE or family not in ("categorical", "multinomial"):
        true = [
            stats.multivariate_normal(m, c, allow_singular=False).logpdf(observed)
            for m, c in zip(mean, covariance, strict=True)
        ]
        np.testing.assert_allclose(found - found[0], np.array(true) - true[0], rtol=1e-6, atol=1e-6)
    # The graph that the PyMC model takes has the same value, and builds.
    shape = natural.shape[1:]
    parameter = pt.TensorType("float64", shape=shape)()
    value = mechanism.potential(released, {"p": parameter})
    (symbolic,) = VectorizedFunction([parameter], [value])(natural)
    np.testing.assert_allclose(symbolic, found, rtol=1e-9)
    json.dumps(mechanism.facts)
    assert mechanism.information > 1.0


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "neighbors"), EVERY)
def test_noisy_sums_have_the_distribution_that_is_claimed(family, neighbors):
    # Over many data sets from one parameter: mean and variance as of `distribution`.
    mechanism, simulate = mechanism_of(family, neighbors)
    rng = np.random.default_rng(4)
    theta = mechanism.parameters.draws(40, 5)[11:12]
    natural = mechanism.parameters.natural(theta)[mechanism.statistic.name]
    noise, statistic = SimulatedNoise(rng, neighbors), mechanism.statistic
    found = [mechanism.release({"y": simulate(natural[0], rng)}, noise) for _ in range(400)]
    observed = np.array([statistic.observed(r) for r in found])
    if "count" in found[0]:  # what a flat prior of n leaves: the sum less the noisy n times m
        per_record = statistic.distribution(natural, 1.0)[0]
        observed = observed - (np.array([[r["count"]] for r in found]) - 400) * per_record
    mean, covariance, _ = statistic.distribution(natural, 400.0)
    sd = np.sqrt(np.diag(covariance[0]))
    if neighbors == ADD_REMOVE and family in ("categorical", "multinomial"):
        total = 400 * statistic.trials  # the number of records is fixed in this simulation
        sd = np.sqrt(np.diag(covariance[0]) - total * natural[0] ** 2)
        if family == "multinomial":
            sd = np.sqrt(total * natural[0] * (1 - natural[0]) + statistic.sd**2)
    assert np.abs((observed.mean(axis=0) - mean[0]) / sd * 20).max() < 4.5
    np.testing.assert_allclose(observed.std(axis=0), sd, rtol=0.16)


def test_private_sums_are_those_of_the_records_and_of_nothing_else():
    mechanism, _ = mechanism_of("exponential", mu=1e6)
    values = np.random.default_rng(1).exponential(size=400)
    values[:3] = math.inf, 1e300, -5.0  # clipped to the domain, as all data are
    noise = LatticeNoise(SystemRandomness())
    found = mechanism.release({"y": values}, noise)
    clipped = np.clip(values, 0.0, 3.0) - 1.5
    np.testing.assert_allclose(found["sums"], [clipped.sum()], atol=1e-4)
    assert set(found) == {"sums", "sums_sd", "low", "high"}
    assert found["sums_sd"] == pytest.approx(3.0 / 1e6)
    assert mechanism.guarantee.gdp == 1e6


def test_a_record_that_is_not_a_number_adds_nothing():
    mechanism, _ = mechanism_of("normal", mu=1e6)
    values = np.full(400, 0.5)
    values[5] = math.nan
    found = mechanism.release({"y": values}, LatticeNoise(SystemRandomness()))
    np.testing.assert_allclose(found["sums"], [0.0], atol=1e-3)


def test_the_start_is_the_mode_and_its_deviation():
    mechanism, simulate = mechanism_of("bernoulli")
    released = released_of(mechanism, simulate)
    center, covariance = mechanism.start(released)
    likelihood = mechanism.log_likelihood(released)
    grid = center + np.linspace(-6.0, 6.0, 4001)[:, None] * np.sqrt(covariance)
    logs = likelihood(grid) + mechanism.parameters.log_prior(grid)
    assert abs(grid[np.argmax(logs), 0] - center[0]) < 0.01 * math.sqrt(covariance[0, 0])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    sd = math.sqrt((weights * (grid[:, 0] - (weights * grid[:, 0]).sum()) ** 2).sum())
    assert sd == pytest.approx(math.sqrt(covariance[0, 0]), rel=0.15)


def test_much_budget_gives_the_conjugate_posterior():
    mechanism, _ = mechanism_of("poisson", mu=1e4)
    values = np.minimum(np.random.default_rng(3).poisson(1.5, 400), 9)
    released = mechanism.release({"y": values}, SimulatedNoise(np.random.default_rng(0)))
    center, covariance = mechanism.start(released)
    found = importance_draws(
        lambda t: mechanism.log_likelihood(released)(t) + mechanism.parameters.log_prior(t),
        center, covariance, np.random.default_rng(0), draws=4000,
    )  # fmt: skip
    rate = mechanism.parameters.natural(found.points)["p"]
    exact = stats.gamma(2 + values.sum(), scale=1 / 401)
    assert (found.weights * rate).sum() == pytest.approx(exact.mean(), abs=0.15 * exact.std())


@pytest.mark.parametrize("typical", [0.05, 0.5, 1.0])
def test_mu_is_split_to_lose_least(typical):
    mechanism, _ = mechanism_of("bernoulli", ADD_REMOVE)
    statistic = mechanism.statistic.adapted(np.array([[0.5 * typical]]))

    def lost(share):  # variance of the noise of the sum, with that of the number of records
        return 0.25 / (1 - share) + (0.5 * typical) ** 2 / share

    sums, count = statistic.budget
    share = count**2 / MU**2
    assert sums**2 + count**2 <= MU**2
    assert lost(share) <= 1.0001 * min(lost(s) for s in np.linspace(0.01, 0.99, 99)) + 1e-9


def test_noise_pays_for_units_of_several_records():
    one, four = (mechanism_of("normal", records_per_unit=k)[0].statistic for k in (1, 4))
    np.testing.assert_allclose(four.sd / four.width, 4.0 * one.sd / one.width)
    assert (four.width <= one.width).all()  # more noise, narrower bounds


@pytest.mark.parametrize("neighbors", [SUBSTITUTE, ADD_REMOVE])
def test_bounds_are_narrowed_within_the_domain_where_noise_outweighs_what_is_lost(neighbors):
    little, much = (mechanism_of("poisson", neighbors, mu=mu)[0] for mu in (MU, 1e5))
    assert 0 <= little.statistic.low < little.statistic.high < 9
    assert (much.statistic.low, much.statistic.high) == (0, 9)
    # The released bounds are those of the likelihood, whatever a later version would choose.
    released = released_of(little, model_of("poisson", N)[2])
    theta = little.parameters.draws(20, 2)
    found = little.log_likelihood(released)(theta)
    wide = SumMechanism(little.private, MU, n=N if neighbors == ADD_REMOVE else None)
    wide.statistic = much.statistic
    np.testing.assert_array_equal(wide.log_likelihood(released)(theta), found)
    other = {**released, "high": np.array(9.0)}
    assert np.abs(wide.log_likelihood(other)(theta) - found).max() > 1.0


def test_expected_information_grows_with_the_budget_to_that_of_the_records():
    found = [mechanism_of("normal", mu=mu)[0].information for mu in (0.05, 0.5, 1e5)]
    assert found[0] < found[1] < found[2]
    # Without noise or clipping it would be log(1 + n 9 / 4) / 2; the clip takes some.
    assert 0.7 < found[2] / (0.5 * math.log1p(400 * 9 / 4)) < 1.0


def test_sums_that_do_not_fit_are_told_of():
    mechanism, _ = mechanism_of("exponential")
    statistic = mechanism.statistic
    impossible = {
        "sums": statistic.width * N + 40.0 * statistic.sd, "sums_sd": statistic.sd,
        "low": statistic.low, "high": statistic.high,
    }  # fmt: skip
    (caution,) = mechanism.warnings(impossible)
    assert caution.refuse
    assert "does not fit" in caution.text
    counted, simulate = mechanism_of("exponential", ADD_REMOVE)
    released = released_of(counted, simulate)
    assert counted.warnings(released) == []
    released["count"] = np.array(0.5 * released["count_sd"])
    assert any(c.refuse and "number of records" in c.text for c in counted.warnings(released))
    loud, simulate = mechanism_of("bernoulli", mu=50.0)
    rare = {"sums": np.array([-198.0]), "sums_sd": loud.statistic.sd, "low": 0.0, "high": 1.0}
    assert any("rough approximation" in c.text for c in loud.warnings(rare))


def test_other_models_are_refused_by_name():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m", 0, 1), pm.HalfNormal("s", 1), observed=np.zeros(50))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-3, 3)})
    with pytest.raises(Unsupported, match="conjugate prior") as refusal:
        SumMechanism(private, MU)
    assert "scores" in str(refusal.value)
    with pytest.raises(DomainError):
        mechanism_of("bernoulli", mu=0.0)


@pytest.mark.parametrize("public", [(), ("x",)])
def test_slopes_through_the_origin_are_refused(public):
    """The sum of outcomes says nothing of a covariate; information alone would prefer it."""
    x = np.random.default_rng(0).uniform(0.0, 0.6, 2000)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * pm.Data("x", x), 1, observed=0.8 * x)
    domain = {"y": (-7, 7)} | ({} if public else {"x": (0, 1)})
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain=domain, public=public)
    with pytest.raises(Unsupported, match="conjugate prior"):
        SumMechanism(private, MU)


@pytest.mark.audit
@pytest.mark.parametrize("neighbors", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_cover(family, neighbors):
    mechanism, simulate = mechanism_of(family, neighbors)
    rng, sims = np.random.default_rng(12), 60
    noise, parameters = SimulatedNoise(rng, neighbors), mechanism.parameters
    theta = parameters.draws(sims, 77)
    natural = parameters.natural(theta)[mechanism.statistic.name]
    hits = []
    for i in range(sims):
        released = mechanism.release({"y": simulate(natural[i], rng)}, noise)
        likelihood = mechanism.log_likelihood(released)

        def posterior(t, likelihood=likelihood):
            return likelihood(t) + parameters.log_prior(t)

        center, covariance = mechanism.start(released)
        found = importance_draws(posterior, center, covariance, rng, draws=1500)
        assert found.effective > 300
        low, high = found.quantiles([0.05, 0.95])
        hits.append((low <= theta[i]) & (theta[i] <= high))
    error = math.sqrt(0.9 * 0.1 / np.size(hits))
    assert abs(np.mean(hits) - 0.9) < 4.0 * error
