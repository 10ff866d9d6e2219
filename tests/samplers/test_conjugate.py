"""Conjugate models: recognized by structure, drawn exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.certificates.conjugate import conjugate_pair, recognize_conjugate
from pymc_private.errors import Unsupported
from pymc_private.samplers.conjugate import conjugate_model, sample_conjugate
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

BINARY = np.array([0, 1, 1, 0, 1, 1])
COUNTS = np.array([3, 0, 2, 5, 1])
REALS = np.array([0.5, -1.0, 2.0, 0.25])
TABLE = np.array([[1, 2, 0], [0, 3, 0]])
POWER = Fraction(1, 2)


def private(build, y, domain=None, box=None):
    with pm.Model() as model:
        build(y)
    declared = pmp.privatize(
        model, records={"y": 0}, domain={} if domain is None else {"y": domain}
    )
    declared = pmp.temper(declared, POWER)
    return pmp.trim(declared, box=box) if box else declared


def beta_bernoulli(y):
    pm.Bernoulli("y", pm.Beta("p", 2, 3), observed=y)


def uniform_binomial(y):
    pm.Binomial("y", 5, pm.Uniform("p", 0, 1), observed=y)


def beta_geometric(y):
    pm.Geometric("y", pm.Beta("p", 2, 3), observed=y)


def gamma_poisson(y):
    pm.Poisson("y", pm.Gamma("rate", 2, 3), observed=y)


def exponential(y):
    pm.Exponential("y", pm.Exponential("rate", 2.5), observed=y)


def normal(y):
    pm.Normal("y", pm.Normal("mu", 1, 2), 0.5, observed=y)


def normal_gamma(y):
    t = pm.Gamma("t", 2, 3)
    pm.Normal("y", pm.Normal("mu", 0.5, tau=3 * t), tau=t, observed=y)


def categorical(y):
    pm.Categorical("y", p=pm.Dirichlet("p", [1.0, 2.0, 3.0]), observed=y)


def multinomial(y):
    pm.Multinomial("y", 3, pm.Dirichlet("p", np.ones(3)), observed=y)


def mvnormal(y):
    prior = np.array([[1.0, 0.5], [0.5, 2.0]])
    pm.MvNormal("y", pm.MvNormal("m", np.zeros(2), prior), np.array([[2.0, 1], [1, 2]]), observed=y)


PAIRS = np.stack([REALS, REALS[::-1]], axis=1)
VARIANCE = 1 / (0.25 + 0.5 * 4 * 4)
EXACT = {
    "beta and Bernoulli": (beta_bernoulli, BINARY, None, {"p": stats.beta(4, 4)}),
    "uniform and binomial": (uniform_binomial, COUNTS, None, {"p": stats.beta(6.5, 8.0)}),
    "beta and geometric": (beta_geometric, COUNTS + 1, (1, 9), {"p": stats.beta(4.5, 8.5)}),
    "gamma and Poisson": (
        gamma_poisson, COUNTS, (0, 9), {"rate": stats.gamma(7.5, scale=1 / 5.5)},
    ),
    "exponential twice": (
        exponential, np.abs(REALS), (0, 9), {"rate": stats.gamma(3, scale=1 / 4.375)},
    ),
    "normal mean": (
        normal, REALS, (-3, 3),
        {"mu": stats.norm(VARIANCE * (0.25 + 0.5 * 4 * 1.75), math.sqrt(VARIANCE))},
    ),
}  # fmt: skip
BOXES = {"p": (0.4, 0.7), "rate": (0.5, 1.5), "mu": (0.0, 0.4)}


def truncated(law, low, high):
    a, b = law.cdf(low), law.cdf(high)
    return lambda x: (law.cdf(x) - a) / (b - a)


@pytest.mark.thin(12)
@pytest.mark.parametrize("trimmed", [False, True], ids=["whole", "trimmed"])
@pytest.mark.parametrize("name", EXACT)
def test_draws_follow_the_posterior(name, trimmed):
    build, y, domain, laws = EXACT[name]
    ((parameter, law),) = laws.items()
    box = {parameter: BOXES[parameter]} if trimmed else None
    found = sample_conjugate(private(build, y, domain, box), 600, SeededRandomness.from_seed(7))
    exact = truncated(law, *BOXES[parameter]) if trimmed else law.cdf
    assert cdf_envelope(found[parameter], exact).passes


def test_a_forgotten_power_is_caught():
    model = private(beta_bernoulli, np.tile(BINARY, 10)).with_power(Fraction(1))
    found = sample_conjugate(model, 600, SeededRandomness.from_seed(7))
    assert not cdf_envelope(found["p"], stats.beta(2 + 20, 3 + 10).cdf).passes


def test_normal_gamma_draws():
    model = private(normal_gamma, REALS, (-3, 3))
    found = sample_conjugate(model, 2000, SeededRandomness.from_seed(9))
    weight, total, squares = 2.0, 0.5 * REALS.sum(), 0.5 * (REALS**2).sum()
    kappa, a = 3 + weight, 2 + weight / 2
    m = (3 * 0.5 + total) / kappa
    rate = 3 + (squares + 3 * 0.25 - kappa * m**2) / 2
    assert cdf_envelope(found["t"], stats.gamma(a, scale=1 / rate).cdf).passes
    student = stats.t(2 * a, loc=m, scale=math.sqrt(rate / (a * kappa)))
    assert cdf_envelope(found["mu"], student.cdf).passes
    # Given the precision the mean is normal: the two are drawn together.
    z = (found["mu"] - m) * np.sqrt(kappa * found["t"])
    assert cdf_envelope(z, stats.norm.cdf).passes


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("build", "y", "domain", "alpha"),
    [
        (categorical, np.array([0, 2, 2, 1]), None, [1.5, 2.5, 4.0]),
        (multinomial, TABLE, pmp.Counts(3), [1.5, 3.5, 1.0]),
    ],
)
def test_dirichlet_draws(build, y, domain, alpha):
    found = sample_conjugate(private(build, y, domain), 600, SeededRandomness.from_seed(5))["p"]
    assert np.allclose(found.sum(axis=1), 1.0)
    for k, a in enumerate(alpha):
        assert cdf_envelope(found[:, k], stats.beta(a, sum(alpha) - a).cdf).passes


def test_a_trimmed_pair_stays_in_its_box():
    def build(y):
        pm.Categorical("y", p=pm.Dirichlet("p", [1.0, 2.0]), observed=y)

    model = private(build, BINARY, None, {"p": (0.3, 0.7)})
    found = sample_conjugate(model, 600, SeededRandomness.from_seed(5))["p"]
    assert found.min() >= 0.3
    assert found.max() <= 0.7
    assert cdf_envelope(found[:, 0], truncated(stats.beta(1 + 1, 2 + 2), 0.3, 0.7)).passes


def test_mvnormal_draws():
    found = sample_conjugate(private(mvnormal, PAIRS, (-3, 3)), 2000, SeededRandomness.from_seed(3))
    known = np.linalg.inv([[1.0, 0.5], [0.5, 2.0]])
    each = np.linalg.inv([[2.0, 1.0], [1.0, 2.0]])
    cov = np.linalg.inv(known + 0.5 * 4 * each)
    mean = cov @ (0.5 * each @ PAIRS.sum(axis=0))
    for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, -1.0]):
        at = np.array(direction)
        law = stats.norm(at @ mean, math.sqrt(at @ cov @ at))
        assert cdf_envelope(found["m"] @ at, law.cdf).passes


def test_vectors_have_a_posterior_for_each_entry():
    def build(y):
        pm.Bernoulli("y", pm.Beta("p", 2, [3.0, 4.0], shape=2), observed=y)

    model = private(build, np.stack([BINARY, 1 - BINARY], axis=1))
    posterior = recognize_conjugate(model).posterior(model)
    assert posterior["a"].tolist() == [4, 3]
    assert posterior["b"].tolist() == [4, 6]


def test_sums_are_without_rounding():
    huge = np.array([1e16, 1.0, -1e16, 1.0])
    model = private(normal, huge, (-1e17, 1e17))
    posterior = recognize_conjugate(model).posterior(model)
    assert posterior["mean"][()] == posterior["variance"][()] * (Fraction(1, 4) + 4)


def hidden_square(y):
    pm.Bernoulli("y", pm.Beta("p", 2, 3) ** 2, observed=y)


def unknown_scale(y):
    pm.Normal("y", pm.Normal("mu", 1, 2), pm.HalfNormal("s", 1), observed=y)


def with_potential(y):
    p = pm.Beta("p", 2, 3)
    pm.Potential("more", pm.math.log(p))
    pm.Bernoulli("y", p, observed=y)


def hierarchical(y):
    a = pm.Gamma("a", 2, 1)
    pm.Bernoulli("y", pm.Beta("p", a, 3), observed=y)


def other_precision(y):
    t, s = pm.Gamma("t", 2, 3), pm.Gamma("s", 2, 3)
    pm.Normal("y", pm.Normal("mu", 0, tau=s), tau=t, observed=y)


def shifted(y):
    pm.Poisson("y", pm.Gamma("rate", 2, 3) + 1, observed=y)


def crossed_precision(y):
    t = pm.Gamma("t", 2, 3)
    pm.Normal("y", pm.Normal("mu", 0, sigma=t), tau=t, observed=y)


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("build", "y", "domain"),
    [
        (hidden_square, BINARY, None),
        (unknown_scale, REALS, (-3, 3)),
        (with_potential, BINARY, None),
        (hierarchical, BINARY, None),
        (other_precision, REALS, (-3, 3)),
        (crossed_precision, REALS, (-3, 3)),
        (shifted, COUNTS, (0, 9)),
        (exponential, np.abs(REALS), (-1, 9)),  # a record below zero is impossible
        (uniform_binomial, COUNTS, (0, 9)),  # more successes than trials
        (beta_geometric, COUNTS, (0, 9)),
    ],
)
def test_what_only_looks_conjugate_is_not_recognized(build, y, domain):
    assert recognize_conjugate(private(build, y, domain)) is None


def test_clipped_models_are_not_recognized():
    assert recognize_conjugate(pmp.clip(private(beta_bernoulli, BINARY), -2)) is None


def test_trimmed_families_of_several_parameters_are_refused():
    model = private(normal_gamma, REALS, (-3, 3), {"mu": (-1, 1), "t": (0.1, 3)})
    with pytest.raises(pmp.errors.Unsupported, match="boxes"):
        sample_conjugate(model, 1, SeededRandomness.from_seed(1))


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", EXACT)
def test_the_posterior_is_that_of_the_graph(name):
    build, y, domain, laws = EXACT[name]
    ((parameter, law),) = laws.items()
    model = private(build, y, domain)
    points = law.ppf([0.1, 0.5, 0.9])
    graph, source = model.graph, model.sources[0]

    def density(x):
        given = {graph.parameters[parameter]: np.array(x), graph.data["y"]: source.values()}
        return ConcreteValues(given)(graph.record.sum() * float(model.power) + graph.prior)

    found = np.array([density(x) for x in points], dtype=float)
    # PyTensor takes 1 / 3 of a small integer in single precision; here the prior's rate is 3.
    assert np.allclose(np.diff(found), np.diff(law.logpdf(points)), rtol=1e-6)


def cut_line(x):
    transform = pm.distributions.transforms.Interval(0.0, 1.0)
    a, b = (pm.Normal(name, 0, 10, transform=transform, initval=0.5) for name in "ab")
    pm.Normal("y", a + b * pm.Data("x", x), 1.0, observed=REALS)


def cut_mean(x):
    transform = pm.distributions.transforms.Interval(0.0, 1.0)
    pm.Normal("y", pm.Normal("mu", 1, 2, transform=transform, initval=0.5), 0.5, observed=REALS)


def ordered_means(x):
    ordered = pm.distributions.transforms.ordered
    mu = pm.Normal("mu", 0, 1, shape=2, transform=ordered, initval=[-1.0, 1.0])
    pm.Normal("y", mu, 1.0, observed=np.outer(REALS, [1.0, 2.0]))


def cut_coin(x):
    transform = pm.distributions.transforms.Interval(0.2, 1.0)
    pm.Bernoulli("y", pm.Beta("p", 2, 2, transform=transform, initval=0.5), observed=BINARY[:4])


@pytest.mark.parametrize("build", [cut_line, cut_mean, ordered_means, cut_coin])
def test_a_transform_that_cuts_or_orders_a_prior_leaves_no_closed_form(build):
    """The range is that of the support; draws from the whole law would leave it."""
    with pm.Model() as model:
        build(np.array([0.1, 0.2, 0.3, 0.4]))
    words = {} if build is cut_coin else {"domain": {"y": (-10.0, 10.0)}}
    words |= {"public": ["x"]} if build is cut_line else {}
    records = {"y": 0, "x": 0} if build is cut_line else {"y": 0}
    declared = pmp.privatize(model, records=records, **words)
    assert recognize_conjugate(declared) is None
    assert conjugate_pair(declared) is None
    with pytest.raises(Unsupported, match="no conjugate model"):
        conjugate_model(declared)


def test_plain_transforms_keep_the_closed_form():
    cases = ((normal, REALS, (-10, 10)), (beta_bernoulli, BINARY, None))
    for build, y, domain in (*cases, (gamma_poisson, COUNTS, (0, 9))):
        assert recognize_conjugate(private(build, y, domain)) is not None
