"""Every distribution of PyMC that can be a likelihood, with a domain and a box.

``python -m benchmarks.distributions`` prints the table: model, stack, R, the searched bound and
their ratio, or why there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.zoo import Data, Entry, N, counts, numbers, records
from pymc_private import Counts, Interval, certify

TABLE: list[Entry] = []


def entry(data: Callable, domain: Mapping, box: Mapping, **rest: Any) -> Callable:
    """Add the model that the decorated function builds."""

    def add(build: Callable[[Data], None]) -> Callable[[Data], None]:
        name = build.__name__.replace("_", " ").strip()
        TABLE.append(Entry(name, build, data, domain, box, **rest))
        return build

    return add


def real(low: float, high: float, **box: tuple) -> Callable:
    """One number a record."""
    return entry(records(y=numbers(low, high)), {"y": (low, high)}, box)


def count(low: int, high: int, **box: tuple) -> Callable:
    """One whole number a record."""
    return entry(records(y=counts(low, high)), {"y": (low, high)}, box)


def observe(kind: Any, d: Data, *args: Any, **kwargs: Any) -> None:
    kind("y", *args, observed=d["y"], dims="person", **kwargs)


def normal(name: str = "m", **kwargs: Any) -> Any:
    return pm.Normal(name, 0, 1, **kwargs)


def positive(name: str = "s", **kwargs: Any) -> Any:
    return pm.Gamma(name, 2, 1, **kwargs)


def share(name: str = "p") -> Any:
    return pm.Beta(name, 2, 2)


# ---- numbers on the line -----------------------------------------------------------------


@real(-2, 2, k=(0.5, 2), m=(-1, 1))
def asymmetric_laplace(d: Data) -> None:
    observe(pm.AsymmetricLaplace, d, kappa=positive("k"), mu=normal(), b=1.0)


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def cauchy(d: Data) -> None:
    observe(pm.Cauchy, d, normal(), positive())


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def ex_gaussian(d: Data) -> None:
    observe(pm.ExGaussian, d, mu=normal(), sigma=1.0, nu=positive())


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def gumbel(d: Data) -> None:
    observe(pm.Gumbel, d, normal(), positive())


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def laplace(d: Data) -> None:
    observe(pm.Laplace, d, normal(), positive())


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def logistic(d: Data) -> None:
    observe(pm.Logistic, d, normal(), positive())


@real(-1, 2, m=(-1, 1), s=(0.5, 2))
def moyal(d: Data) -> None:
    observe(pm.Moyal, d, normal(), positive())


@real(-2, 2, m=(-1, 1), s=(0.5, 2))
def normal_density(d: Data) -> None:
    observe(pm.Normal, d, normal(), positive())


@real(-2, 2, m=(-1, 1), a=(-2, 2))
def skew_normal(d: Data) -> None:
    observe(pm.SkewNormal, d, mu=normal(), sigma=1.0, alpha=normal("a"))


@real(-2, 2, a=(1, 3), b=(1, 3))
def skew_student_t(d: Data) -> None:
    observe(pm.SkewStudentT, d, a=positive("a"), b=positive("b"), mu=0.0, sigma=1.0)


@real(-2, 2, m=(-1, 1), nu=(2, 5))
def student_t(d: Data) -> None:
    observe(pm.StudentT, d, positive("nu"), mu=normal(), sigma=1.0)


@real(-2, 2, m=(-1, 1), k=(0.5, 3))
def von_mises(d: Data) -> None:
    observe(pm.VonMises, d, normal(), positive("k"))


@real(-2, 2, m=(-1, 1))
def custom_density(d: Data) -> None:
    observe(pm.CustomDist, d, normal(), logp=lambda value, m: -0.5 * (value - m) ** 2)


@real(-2, 2, m=(-1, 1))
def custom_expression(d: Data) -> None:
    observe(
        pm.CustomDist, d, normal(), dist=lambda m, size: m + 2.0 * pm.Normal.dist(0, 1, size=size)
    )


# ---- positive numbers --------------------------------------------------------------------


@real(0.5, 4, nu=(1, 4))
def chi_squared(d: Data) -> None:
    observe(pm.ChiSquared, d, positive("nu"))


@real(0, 4, s=(0.5, 2))
def exponential(d: Data) -> None:
    observe(pm.Exponential, d, positive())


@real(0.5, 4, a=(1, 3), b=(1, 3))
def gamma(d: Data) -> None:
    observe(pm.Gamma, d, positive("a"), positive("b"))


@real(0.5, 4, m=(1, 3), s=(0.5, 2))
def gamma_mean(d: Data) -> None:
    observe(pm.Gamma, d, mu=positive("m"), sigma=positive())


@real(0, 4, s=(0.5, 2))
def half_cauchy(d: Data) -> None:
    observe(pm.HalfCauchy, d, positive())


@real(0, 4, s=(0.5, 2))
def half_normal(d: Data) -> None:
    observe(pm.HalfNormal, d, positive())


@real(0, 4, nu=(2, 5), s=(0.5, 2))
def half_student_t(d: Data) -> None:
    observe(pm.HalfStudentT, d, positive("nu"), positive())


@real(0.5, 4, a=(1, 3), b=(1, 3))
def inverse_gamma(d: Data) -> None:
    observe(pm.InverseGamma, d, positive("a"), positive("b"))


@real(0.5, 4, m=(2.5, 4), s=(0.5, 2))
def inverse_gamma_mean(d: Data) -> None:
    observe(pm.InverseGamma, d, mu=positive("m"), sigma=positive())


@real(0.5, 4, m=(-1, 1), s=(0.5, 2))
def log_normal(d: Data) -> None:
    observe(pm.LogNormal, d, normal(), positive())


@real(2, 5, a=(1, 3), k=(0.5, 1.5))
def pareto(d: Data) -> None:
    observe(pm.Pareto, d, alpha=positive("a"), m=positive("k"))


@real(0.1, 1, h=(0.5, 2), z=(-1, 1))
def polya_gamma(d: Data) -> None:
    observe(pm.PolyaGamma, d, h=positive("h"), z=normal("z"))


@real(0.5, 4, nu=(0.5, 2), s=(0.5, 2))
def rice(d: Data) -> None:
    observe(pm.Rice, d, nu=positive("nu"), sigma=positive())


@real(0.5, 4, m=(0.5, 2), k=(0.5, 2))
def wald(d: Data) -> None:
    observe(pm.Wald, d, mu=positive("m"), lam=positive("k"))


@real(0.5, 4, a=(1, 2), b=(1, 2))
def weibull(d: Data) -> None:
    observe(pm.Weibull, d, positive("a"), positive("b"))


@real(0.5, 4, p=(0.2, 0.8), a=(1, 3))
def hurdle_gamma(d: Data) -> None:
    observe(pm.HurdleGamma, d, psi=share(), alpha=positive("a"), beta=1.0)


@entry(records(y=counts(0, 1)), {"y": {0.0, 1.5, 2.0}}, {"p": (0.2, 0.8), "a": (1, 3)})
def hurdle_gamma_with_zeros(d: Data) -> None:
    values = np.array([0.0, 1.5])[d["y"]]
    observe(pm.HurdleGamma, {"y": values}, psi=share(), alpha=positive("a"), beta=1.0)


@real(0.5, 4, p=(0.2, 0.8), m=(-1, 1))
def hurdle_log_normal(d: Data) -> None:
    observe(pm.HurdleLogNormal, d, psi=share(), mu=normal(), sigma=1.0)


# ---- numbers in an interval --------------------------------------------------------------


@real(0.2, 0.8, a=(1, 3), b=(1, 3))
def beta(d: Data) -> None:
    observe(pm.Beta, d, positive("a"), positive("b"))


@real(0.2, 0.8, p=(0.3, 0.7), s=(0.1, 0.3))
def beta_mean(d: Data) -> None:
    observe(pm.Beta, d, mu=share(), sigma=share("s"))


@real(0.2, 0.8, p=(0.2, 0.8), nu=(1, 4))
def beta_precision(d: Data) -> None:
    observe(pm.Beta, d, mu=share(), nu=positive("nu"))


@real(0.2, 0.8, m=(0.5, 2))
def interpolated(d: Data) -> None:
    x = np.linspace(0, 1, 11)
    scaled = pm.Interpolated.dist(x, 1 + x * (1 - x))
    m = positive("m")
    pm.Potential("y_scaled", m * pm.logp(scaled, pm.Data("y", d["y"], dims="person")))


@real(0.2, 0.8, a=(1, 3), b=(1, 3))
def kumaraswamy(d: Data) -> None:
    observe(pm.Kumaraswamy, d, positive("a"), positive("b"))


@real(0.2, 0.8, m=(-1, 1), s=(0.5, 2))
def logit_normal(d: Data) -> None:
    observe(pm.LogitNormal, d, normal(), positive())


@real(0.2, 0.8, c=(0.1, 0.9))
def triangular(d: Data) -> None:
    observe(pm.Triangular, d, lower=0.0, upper=1.0, c=share("c"))


@real(0.2, 0.8, c=(0.85, 0.95), u=(1, 2))
def triangular_of_free_end(d: Data) -> None:
    observe(pm.Triangular, d, lower=0.0, upper=positive("u"), c=share("c"))


@real(-1, 1, m=(-1, 1), s=(0.5, 2))
def truncated_normal(d: Data) -> None:
    observe(pm.TruncatedNormal, d, mu=normal(), sigma=positive(), lower=-1.5, upper=1.5)


@real(-1, 1, m=(-1, 1))
def truncated_normal_below(d: Data) -> None:
    observe(pm.TruncatedNormal, d, mu=normal(), sigma=1.0, lower=-1.5)


@real(-1, 1, m=(-1, 1))
def truncated_normal_above(d: Data) -> None:
    observe(pm.TruncatedNormal, d, mu=normal(), sigma=1.0, upper=1.5)


@real(-1, 1, m=(-1, 1), s=(0.5, 2))
def truncated_of_normal(d: Data) -> None:
    observe(pm.Truncated, d, pm.Normal.dist(normal(), positive()), lower=-1.5, upper=1.5)


@real(0.5, 3, a=(1, 3), b=(1, 3))
def truncated_gamma(d: Data) -> None:
    observe(pm.Truncated, d, pm.Gamma.dist(positive("a"), positive("b")), lower=0.2, upper=4.0)


@count(1, 6, s=(1, 4))
def truncated_poisson(d: Data) -> None:
    observe(pm.Truncated, d, pm.Poisson.dist(positive()), lower=1, upper=None)


@count(1, 6, s=(1, 4))
def truncated_poisson_both(d: Data) -> None:
    observe(pm.Truncated, d, pm.Poisson.dist(positive()), lower=1, upper=8)


@real(0.25, 0.75, a=(1, 3), b=(1, 3))
def truncated_beta(d: Data) -> None:
    parts = pm.Beta.dist(positive("a"), positive("b"))
    observe(pm.Truncated, d, parts, lower=0.2, upper=0.8)


@real(-2, 1, m=(-1, 1), s=(0.5, 2))
def censored_normal(d: Data) -> None:
    latent = pm.Normal.dist(normal(), positive())
    observe(pm.Censored, d, latent, lower=-2.0, upper=1.0)


@real(0.5, 3, a=(1, 2), b=(1, 2))
def censored_weibull(d: Data) -> None:
    latent = pm.Weibull.dist(positive("a"), positive("b"))
    observe(pm.Censored, d, latent, lower=None, upper=3.0)


@real(0.2, 0.8, a=(1, 3), b=(1, 3))
def censored_beta(d: Data) -> None:
    latent = pm.Beta.dist(positive("a"), positive("b"))
    observe(pm.Censored, d, latent, lower=0.2, upper=0.8)


@real(0.2, 0.8, u=(1, 2))
def uniform(d: Data) -> None:
    observe(pm.Uniform, d, 0.0, positive("u"))


@real(0.2, 0.8, u=(0.5, 2))
def uniform_whose_end_crosses_the_data(d: Data) -> None:
    observe(pm.Uniform, d, 0.0, positive("u"))


# ---- counts ------------------------------------------------------------------------------


@count(0, 1, p=(0.1, 0.9))
def bernoulli(d: Data) -> None:
    observe(pm.Bernoulli, d, share())


@count(0, 1, m=(-2, 2))
def bernoulli_logit(d: Data) -> None:
    observe(pm.Bernoulli, d, logit_p=normal())


@count(0, 10, a=(1, 3), b=(1, 3))
def beta_binomial(d: Data) -> None:
    observe(pm.BetaBinomial, d, n=10, alpha=positive("a"), beta=positive("b"))


@count(0, 10, p=(0.1, 0.9))
def binomial(d: Data) -> None:
    observe(pm.Binomial, d, 10, share())


@count(0, 10, m=(-2, 2))
def binomial_logit(d: Data) -> None:
    observe(pm.Binomial, d, 10, logit_p=normal())


@count(0, 2, p=(0.1, 0.4))
def categorical(d: Data) -> None:
    observe(pm.Categorical, d, p=pm.Dirichlet("p", np.ones(3)))


@count(0, 1, p=(0.1, 0.9))
def categorical_pair(d: Data) -> None:
    p = share()
    observe(pm.Categorical, d, p=pt.stack([p, 1 - p]))


@count(0, 2, m=(-2, 2))
def categorical_logit(d: Data) -> None:
    observe(pm.Categorical, d, logit_p=normal(shape=3))


@count(0, 2, m=(-2, 2))
def categorical_softmax(d: Data) -> None:
    observe(pm.Categorical, d, p=pm.math.softmax(normal(shape=3)))


@count(0, 5, m=(0.5, 2))
def discrete_uniform(d: Data) -> None:
    m = positive("m")
    each = pm.logp(pm.DiscreteUniform.dist(0, 5), pm.Data("y", d["y"], dims="person"))
    pm.Potential("y_scaled", m * each)


@count(0, 6, p=(0.2, 0.8), b=(0.8, 1.5))
def discrete_weibull(d: Data) -> None:
    observe(pm.DiscreteWeibull, d, q=share(), beta=positive("b"))


@count(1, 6, p=(0.2, 0.8))
def geometric(d: Data) -> None:
    observe(pm.Geometric, d, share())


@count(0, 3, m=(0.5, 2))
def hypergeometric(d: Data) -> None:
    m = positive("m")
    each = pm.logp(pm.HyperGeometric.dist(N=20, k=7, n=5), pm.Data("y", d["y"], dims="person"))
    pm.Potential("y_scaled", m * each)


@count(0, 8, s=(0.5, 4), a=(0.5, 3))
def negative_binomial(d: Data) -> None:
    observe(pm.NegativeBinomial, d, mu=positive(), alpha=positive("a"))


@count(0, 8, p=(0.2, 0.8), a=(0.5, 3))
def negative_binomial_share(d: Data) -> None:
    observe(pm.NegativeBinomial, d, p=share(), n=positive("a"))


@count(0, 3, m=(-1, 1))
def ordered_logistic(d: Data) -> None:
    observe(pm.OrderedLogistic, d, eta=normal(), cutpoints=np.array([-1.0, 0.0, 1.0]))


@count(0, 3, m=(-1, 1))
def ordered_probit(d: Data) -> None:
    observe(pm.OrderedProbit, d, eta=normal(), cutpoints=np.array([-1.0, 0.0, 1.0]))


CUTS = (np.array([-1.5, -0.25, 0.75]), np.array([-0.75, 0.25, 1.5]))


@count(0, 3, m=(-1, 1), c=CUTS)
def ordered_logistic_of_free_cutpoints(d: Data) -> None:
    c = pm.Normal("c", [-1, 0, 1], 1, shape=3)
    observe(pm.OrderedLogistic, d, eta=normal(), cutpoints=c)


@count(0, 3, m=(-1, 1), c=CUTS)
def ordered_probit_of_free_cutpoints(d: Data) -> None:
    c = pm.Normal("c", [-1, 0, 1], 1, shape=3)
    observe(pm.OrderedProbit, d, eta=normal(), cutpoints=c)


@count(0, 8, s=(0.5, 4))
def poisson(d: Data) -> None:
    observe(pm.Poisson, d, positive())


@count(0, 6, s=(1, 4), p=(0.2, 0.8))
def zero_inflated_poisson(d: Data) -> None:
    observe(pm.ZeroInflatedPoisson, d, share(), positive())


@count(0, 6, q=(0.2, 0.8), p=(0.2, 0.8))
def zero_inflated_binomial(d: Data) -> None:
    observe(pm.ZeroInflatedBinomial, d, share(), 6, share("q"))


@count(0, 6, s=(1, 4), p=(0.2, 0.8))
def zero_inflated_negative_binomial(d: Data) -> None:
    observe(pm.ZeroInflatedNegativeBinomial, d, psi=share(), mu=positive(), alpha=2.0)


@count(0, 6, s=(1, 4), p=(0.2, 0.8))
def hurdle_poisson(d: Data) -> None:
    observe(pm.HurdlePoisson, d, psi=share(), mu=positive())


@count(0, 6, s=(1, 4), p=(0.2, 0.8))
def hurdle_negative_binomial(d: Data) -> None:
    observe(pm.HurdleNegativeBinomial, d, psi=share(), mu=positive(), alpha=2.0)


# ---- vectors -----------------------------------------------------------------------------


def compositions(rng: np.random.Generator, n: int) -> Data:
    return {"y": rng.dirichlet([2, 2, 2], n) * 0.7 + 0.1}


def allotments(rng: np.random.Generator, n: int) -> Data:
    return {"y": rng.multinomial(5, [0.3, 0.3, 0.4], n)}


ROWS = {"records": {"y": 0}}
PAIRS = records(y=numbers(-2, 2, 2))


@entry(compositions, {"y": Interval(0.1, 0.8)}, {"a": (1, 3)}, keywords=ROWS)
def dirichlet(d: Data) -> None:
    pm.Dirichlet("y", positive("a", shape=3), observed=d["y"])


@entry(allotments, {"y": Counts(5)}, {"a": (1, 3)}, keywords=ROWS)
def dirichlet_multinomial(d: Data) -> None:
    pm.DirichletMultinomial("y", n=5, a=positive("a", shape=3), observed=d["y"])


@entry(allotments, {"y": Counts(5)}, {"p": (0.1, 0.5)}, keywords=ROWS)
def multinomial(d: Data) -> None:
    pm.Multinomial("y", 5, pm.Dirichlet("p", np.ones(3)), observed=d["y"])


@entry(allotments, {"y": Counts(5)}, {"m": (-1, 1)}, keywords=ROWS)
def multinomial_softmax(d: Data) -> None:
    pm.Multinomial("y", 5, pm.math.softmax(normal(shape=3)), observed=d["y"])


@entry(allotments, {"y": Counts(5)}, {"m": (-1, 1)}, keywords=ROWS)
def ordered_multinomial(d: Data) -> None:
    pm.OrderedMultinomial("y", normal(), np.array([-1.0, 1.0]), 5, observed=d["y"])


def many(rng: np.random.Generator, n: int) -> Data:
    return {"y": rng.multinomial(20, [0.3, 0.3, 0.4], n)}


@entry(many, {"y": Counts(20)}, {"m": (-1, 1)}, keywords=ROWS)
def multinomial_of_many(d: Data) -> None:
    pm.Multinomial("y", 20, pm.math.softmax(normal(shape=3)), observed=d["y"])


@entry(allotments, {"y": (0, 5)}, {"p": (0.1, 0.5)}, keywords=ROWS)
def multinomial_of_any_counts(d: Data) -> None:
    pm.Multinomial("y", 5, pm.Dirichlet("p", np.ones(3)), observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"m": (-1, 1)}, keywords=ROWS)
def mv_normal(d: Data) -> None:
    pm.MvNormal("y", normal(shape=2), cov=np.array([[1.0, 0.5], [0.5, 1.0]]), observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"m": (-1, 1)}, keywords=ROWS)
def mv_normal_chol(d: Data) -> None:
    pm.MvNormal("y", normal(shape=2), chol=np.array([[1.0, 0.0], [0.5, 1.0]]), observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"m": (-1, 1), "s": (0.5, 2)}, keywords=ROWS)
def mv_normal_of_free_chol(d: Data) -> None:
    s = positive()
    chol = pt.stack([pt.stack([s, 0.0]), pt.stack([0.5 * s, s])])
    pm.MvNormal("y", normal(shape=2), chol=chol, observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"s": (0.5, 2)}, keywords=ROWS)
def mv_normal_of_free_covariance(d: Data) -> None:
    pm.MvNormal(
        "y", np.zeros(2), cov=positive() * np.array([[1.0, 0.5], [0.5, 1.0]]), observed=d["y"]
    )


@entry(PAIRS, {"y": (-2, 2)}, {"s": (0.5, 2)}, keywords=ROWS)
def mv_normal_of_free_precision(d: Data) -> None:
    pm.MvNormal(
        "y", np.zeros(2), tau=positive() * np.array([[1.0, 0.5], [0.5, 1.0]]), observed=d["y"]
    )


@entry(PAIRS, {"y": (-2, 2)}, {"s": (0.5, 2), "r": (-0.5, 0.5)}, keywords=ROWS)
def mv_normal_of_free_correlation(d: Data) -> None:
    s, r = positive(shape=2), pm.Uniform("r", -0.9, 0.9)
    cov = pt.stack([pt.stack([s[0] ** 2, r * s[0] * s[1]]), pt.stack([r * s[0] * s[1], s[1] ** 2])])
    pm.MvNormal("y", np.zeros(2), cov=cov, observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"m": (-1, 1), "s": (0.5, 2)}, keywords=ROWS)
def mv_normal_of_scaled_identity(d: Data) -> None:
    pm.MvNormal("y", normal(shape=2), cov=np.eye(2) / positive(), observed=d["y"])


PACKED = (np.array([0.5, -0.5, 0.5]), np.array([2.0, 0.5, 2.0]))


@entry(PAIRS, {"y": (-2, 2)}, {"l": PACKED}, keywords=ROWS)
def mv_normal_of_trimmed_lkj(d: Data) -> None:
    chol, _, _ = pm.LKJCholeskyCov("l", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", np.zeros(2), chol=chol, observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"l": PACKED}, keywords=ROWS)
def mv_normal_of_trimmed_lkj_covariance(d: Data) -> None:
    chol, _, _ = pm.LKJCholeskyCov("l", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", np.zeros(2), cov=chol @ chol.T, observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {}, keywords=ROWS)
def mv_normal_of_lkj(d: Data) -> None:
    chol, _, _ = pm.LKJCholeskyCov("l", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", np.zeros(2), chol=chol, observed=d["y"])


@entry(PAIRS, {"y": (-2, 2)}, {"m": (-1, 1), "nu": (2, 5)}, keywords=ROWS)
def mv_student_t(d: Data) -> None:
    nu, m = positive("nu"), normal(shape=2)
    pm.MvStudentT("y", nu=nu, mu=m, scale=np.array([[1.0, 0.5], [0.5, 1.0]]), observed=d["y"])


@entry(
    records(y=numbers(-2, 2), g=counts(0, 2)),
    {"y": (-2, 2), "g": {0, 1, 2}},
    {"m": (-1, 1), "z": (-1, 1)},
)
def zero_sum_effects(d: Data) -> None:
    group, z = pm.Data("g", d["g"], dims="person"), pm.ZeroSumNormal("z", 1.0, shape=3)
    pm.Normal("y", normal() + z[group], 1.0, observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"z": (-1, 1)})
def zero_sum_entry(d: Data) -> None:
    z = pm.ZeroSumNormal("z", 1.0, shape=3)
    pm.Normal("y", z[0], 1.0, observed=d["y"], dims="person")


# ---- mixtures ----------------------------------------------------------------------------


@real(-2, 2, p=(0.2, 0.8), m=(-1, 1))
def mixture_of_normals(d: Data) -> None:
    p, m = share(), normal(shape=2)
    parts = [pm.Normal.dist(m[0], 1), pm.Normal.dist(m[1], 1)]
    observe(pm.Mixture, d, pt.stack([p, 1 - p]), parts)


@real(-2, 2, p=(0.2, 0.7), m=(-1, 1))
def normal_mixture(d: Data) -> None:
    p, m = pm.Dirichlet("p", np.ones(2)), normal(shape=2)
    observe(pm.NormalMixture, d, p, m, sigma=1.0)


@count(0, 6, p=(0.2, 0.8), s=(1, 4))
def mixture_of_poissons(d: Data) -> None:
    p, s = share(), positive(shape=2)
    observe(pm.Mixture, d, pt.stack([p, 1 - p]), pm.Poisson.dist(s))


def two_normals(d: Data) -> list[Any]:
    """Their weighted log-densities."""
    y, p, m = pm.Data("y", d["y"], dims="person"), share(), normal(shape=2)
    each = [pm.logp(pm.Normal.dist(m[k], 1), y) for k in (0, 1)]
    return [pt.log(p) + each[0], pt.log1p(-p) + each[1]]


@real(-2, 2, p=(0.2, 0.8), m=(-1, 1))
def mixture_by_logaddexp(d: Data) -> None:
    pm.Potential("mixture", pt.logaddexp(*two_normals(d)), dims="person")


@real(-2, 2, p=(0.2, 0.8), m=(-1, 1))
def mixture_by_hand(d: Data) -> None:
    first, second = two_normals(d)
    pm.Potential("mixture", pt.log(pt.exp(first) + pt.exp(second)), dims="person")


@real(-2, 2, m=(-1, 1))
def mixture_of_three_by_hand(d: Data) -> None:
    y, m = pm.Data("y", d["y"], dims="person"), normal(shape=3)
    terms = [pt.exp(pm.logp(pm.Normal.dist(m[k], 1), y)) for k in range(3)]
    pm.Potential("mixture", pt.log(terms[0] + terms[1] + terms[2]), dims="person")


BY_NAME = {one.name: one for one in TABLE}

REFUSED = {
    "polya gamma": "PolyaGamma",  # an Op without a rule: its series is computed in C
    "uniform whose end crosses the data": "Switch reading u, y",  # -inf: true
    "multinomial of any counts": "Switch reading p, y",  # -inf where the sum is not n: true
    "mv normal of lkj": "l reading l",  # its box is open, and it cannot be trimmed
}
"""What each refusal names."""


def line(one: Entry) -> str:
    """One model of the table."""
    name = f"{one.name:36s} {pm.__version__.split('.')[0]:5s}"
    try:
        c = certify(one.privatize(one.data(np.random.default_rng(1), N)))
    except Exception as error:
        text = " ".join(str(error).split())
        return f"{name} {type(error).__name__}: {text}"
    return f"{name} {c.range:10.5g} {c.searched:10.5g} {c.tightness:7.3f} {c.milliseconds:7.0f}"


if __name__ == "__main__":
    print(f"{'model':36s} {'stack':5s} {'R':>10s} {'searched':>10s} {'ratio':>7s} {'ms':>7s}")
    for one in TABLE:
        if len(sys.argv) < 2 or any(word in one.name for word in sys.argv[1:]):
            print(line(one), flush=True)
