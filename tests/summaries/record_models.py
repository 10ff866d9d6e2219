"""Models with one scalar outcome per record, and the predictors that each should have."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pymc as pm

from pymc_private import privatize

N = 61  # equals no other length of the models
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 3))
GROUP = RNG.integers(0, 4, N)
OFFSET, EXPOSURE = RNG.normal(0, 0.3, N), RNG.uniform(0.5, 2, N)
REALS, POSITIVE = RNG.normal(size=N), RNG.gamma(2.0, size=N).clip(0.05, 20.0)
SHARES, COUNTS, BITS = RNG.uniform(0.02, 0.98, N), RNG.integers(0, 6, N), RNG.integers(0, 2, N)
MANY_ZEROS = COUNTS * (RNG.random(N) < 0.6)
ORDERED = pm.distributions.transforms.ordered


@dataclass(frozen=True)
class RecordModel:
    """A model, its outcome and the number of its predictors."""

    build: Callable[[np.ndarray], object]
    y: np.ndarray
    domain: dict
    predictors: int
    keywords: dict = field(default_factory=dict)

    def private(self):
        """The private model."""
        with pm.Model() as model:
            self.build(self.y)
        records = dict.fromkeys(self.domain, 0) | dict.fromkeys(self.keywords.get("public", ()), 0)
        return privatize(model, records=records, domain=self.domain, **self.keywords)


MODELS: dict[str, RecordModel] = {}
WITH_X = {"X": (-1, 1)}


def model(y, domain, predictors, **keywords):
    """Add the model that the decorated function builds."""

    def add(build):
        name = build.__name__.replace("_", " ")
        MODELS[name] = RecordModel(build, y, {**domain[0], "y": domain[1]}, predictors, keywords)
        return build

    return add


def normal(name, **words):
    return pm.Normal(name, 0, 1, **words)


def linear():
    return normal("a") + pm.Data("X", X) @ normal("b", shape=3)


def scale(name="s"):
    return pm.HalfNormal(name, 1)


@model(REALS, (WITH_X, (-5, 5)), 2)
def linear_regression(y):
    pm.Normal("y", linear(), scale(), observed=y)


@model(BITS, (WITH_X, {0, 1}), 1)
def logistic(y):
    pm.Bernoulli("y", logit_p=linear(), observed=y)


@model(BITS, (WITH_X, {0, 1}), 1)
def probit(y):
    pm.Bernoulli("y", p=pm.math.invprobit(linear()), observed=y)


@model(BITS, (WITH_X, {0, 1}), 1)
def cloglog(y):
    pm.Bernoulli("y", p=1 - pm.math.exp(-pm.math.exp(linear())), observed=y)


@model(BITS, ({"x1": (-1, 1), "x2": (-1, 1)}, {0, 1}), 1)
def scalar_slopes(y):
    slopes = normal("b1") * pm.Data("x1", X[:, 0]) + normal("b2") * pm.Data("x2", X[:, 1])
    pm.Bernoulli("y", logit_p=normal("a") + slopes, observed=y)


@model(COUNTS, (WITH_X, (0, 5)), 1)
def binomial(y):
    pm.Binomial("y", n=5, p=pm.math.invlogit(linear()), observed=y)


@model(COUNTS, (WITH_X, (0, 60)), 1, public=["offset"])
def poisson_with_offset(y):
    pm.Poisson("y", pm.math.exp(linear() + pm.Data("offset", OFFSET)), observed=y)


@model(COUNTS, (WITH_X | {"exposure": (0.5, 2)}, (0, 60)), 1)
def poisson_with_exposure(y):
    pm.Poisson("y", pm.Data("exposure", EXPOSURE) * pm.math.exp(linear()), observed=y)


@model(COUNTS, (WITH_X, (0, 60)), 2)
def negative_binomial(y):
    pm.NegativeBinomial("y", mu=pm.math.exp(linear()), alpha=scale(), observed=y)


@model(REALS, (WITH_X, (-9, 9)), 2)
def student(y):
    pm.StudentT("y", nu=4, mu=linear(), sigma=scale(), observed=y)


@model(POSITIVE, (WITH_X, (1e-3, 50)), 2)
def gamma(y):
    shape = scale()
    pm.Gamma("y", alpha=shape, beta=shape / pm.math.exp(linear()), observed=y)


@model(SHARES, (WITH_X, (0.01, 0.99)), 2)
def beta(y):
    mean, size = pm.math.invlogit(linear()), pm.HalfNormal("k", 3)
    pm.Beta("y", alpha=mean * size, beta=(1 - mean) * size, observed=y)


@model(COUNTS % 4, (WITH_X, {0, 1, 2, 3}), 4)
def ordinal(y):
    cuts = pm.Normal("c", np.array([-1.0, 0.0, 1.0]), 1, transform=ORDERED)
    slope = pm.Data("X", X) @ normal("b", shape=3)
    pm.OrderedLogistic("y", eta=slope, cutpoints=cuts, observed=y)


@model(np.minimum(POSITIVE, 2.0), (WITH_X, (1e-3, 2)), 2)
def censored_weibull(y):
    law = pm.Weibull.dist(scale(), pm.math.exp(linear()))
    pm.Censored("y", law, lower=None, upper=2.0, observed=y)


@model(np.minimum(POSITIVE, 2.0), (WITH_X, (1e-3, 2)), 2)
def censored_lognormal(y):
    pm.Censored("y", pm.LogNormal.dist(linear(), scale()), lower=None, upper=2.0, observed=y)


@model(MANY_ZEROS, (WITH_X | {"X2": (-1, 1)}, (0, 60)), 2)
def zero_inflated(y):
    zeros = normal("c0") + normal("c1") * pm.Data("X2", X[:, ::-1].copy())[:, 0]
    pm.ZeroInflatedPoisson("y", pm.math.invlogit(zeros), pm.math.exp(linear()), observed=y)


@model(BITS, (WITH_X | {"group": {0, 1, 2, 3}}, {0, 1}), 1)
def groups(y):
    level = normal("mu") + scale("tau") * normal("z", shape=4)
    alpha = pm.Deterministic("alpha", level)
    slope = pm.Data("X", X) @ normal("b", shape=3)
    pm.Bernoulli("y", logit_p=alpha[pm.Data("group", GROUP)] + slope, observed=y)


@model(REALS, ({}, (-5, 5)), 2)
def no_covariates(y):
    pm.Normal("y", normal("a"), scale(), observed=y)


@model(REALS, ({}, (-5, 5)), 5)
def mixture(y):
    w, means = pm.Beta("w", 2, 2), pm.Normal("c", np.array([-1.0, 1.0]), 1, shape=2)
    weights = pm.math.stack([w, 1 - w])
    pm.NormalMixture(
        "y", weights, means, scale("s2") + np.zeros(2) + [0.0, 0.1] * scale(), observed=y
    )


def rows_of(density, private):
    """Arrays of the covariates, and the outcomes as a column."""
    rows = {s.name: np.moveaxis(s.values(), s.axis, 0) for s in density.covariates}
    return rows | density.public_rows, np.asarray(density.outcome.values(), float)[:, None]
