"""Named departures: each score is the derivative of a log density that can be written down."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.criticism.directions import OutcomesAtRows, named_direction
from pymc_private.errors import DomainError, Unsupported
from tests.criticism.criticized_models import (
    ALPHA,
    SD,
    SLOPES,
    covariates,
    mechanism_of,
    private_of,
)

ROWS = covariates(7, seed=5)
X, Z = ROWS["x"][:, None], ROWS["z"][:, None]
ETA = SLOPES[0] + SLOPES[1] * X + SLOPES[2] * Z
STEP = 1e-5


def direction_of(family, name):
    density = mechanism_of(family).model.density
    scale = {"normal": [np.log(SD)], "negative binomial": [np.log(ALPHA)]}.get(family, [])
    by_name = {"slopes": SLOPES[None], "sigma": np.array([SD]), "alpha": np.array([ALPHA])}
    theta = density.parameters.unconstrained({k: by_name[k] for k in density.parameters.names})[0]
    assert len(theta) == 3 + len(scale)
    predictors = density.predictors(theta, ROWS)
    nodes = mechanism_of(family).model.nodes(predictors, ROWS)
    public = OutcomesAtRows(predictors, ROWS, nodes.clipped)
    found = named_direction(name, density, CovariateColumns(private_of(family), density), public)
    return SimpleNamespace(direction=found, theta=theta, predictors=predictors)


def values(family, name, y):
    at = direction_of(family, name)
    return at.direction.values(at.theta, at.predictors, ROWS, y)


def slope(log_density):
    """A central difference at gamma = 0."""
    return (log_density(STEP) - log_density(-STEP)) / (2 * STEP)


COUNTS = np.broadcast_to(np.arange(6), (7, 6))
REALS = ETA + SD * np.linspace(-2.5, 2.5, 6)
ADDED = {"quadratic(x)": X**2, "interaction(x, z)": X * Z, "link": ETA**2}


@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_to_the_predictor(name):
    poisson = slope(lambda g: stats.poisson.logpmf(COUNTS, np.exp(ETA + g * ADDED[name])))
    np.testing.assert_allclose(values("poisson", name, COUNTS), poisson, atol=1e-6)
    normal = slope(lambda g: stats.norm.logpdf(REALS, ETA + g * ADDED[name], SD))
    np.testing.assert_allclose(values("normal", name, REALS), normal, atol=1e-6)


def test_dispersion_is_that_of_the_negative_binomial():
    mean = np.exp(ETA)

    def log_density(alpha):  # from one side: gamma >= 0
        return stats.nbinom.logpmf(COUNTS, 1 / alpha, 1 / (1 + alpha * mean))

    one_sided = (log_density(2e-5) - stats.poisson.logpmf(COUNTS, mean)) / 2e-5
    wanted = values("poisson", "dispersion", COUNTS)
    # Equal but for the mean of the mixed intensity, which the intercept explains.
    np.testing.assert_allclose(wanted, ((COUNTS - mean) ** 2 - mean) / 2, atol=1e-9)
    apart = one_sided - wanted
    np.testing.assert_allclose(apart, 0.5 * (mean - COUNTS), atol=2e-3)


def test_tails_and_skewness_are_those_of_residuals():
    z = (REALS - ETA) / SD

    def student(g):  # of variance one, to first order: the scale shrinks with the tails
        return stats.t.logpdf(z * np.sqrt(1 + 2 * g), 1 / g) + 0.5 * np.log1p(2 * g)

    g = 1e-5
    by_difference = (student(g) - stats.norm.logpdf(z)) / g
    np.testing.assert_allclose(values("normal", "tails", REALS), by_difference, atol=2e-3)
    hermite = np.polynomial.hermite_e.hermeval(z, [0, 0, 0, 1 / 6])
    np.testing.assert_allclose(values("normal", "skewness", REALS), hermite, atol=1e-9)


def test_spread_that_varies_with_a_covariate():
    normal = slope(lambda g: stats.norm.logpdf(REALS, ETA, SD * np.exp(g * X)))
    np.testing.assert_allclose(values("normal", "heteroscedasticity(x)", REALS), normal, atol=1e-6)
    mean = np.exp(ETA)

    def log_density(g):
        alpha = ALPHA * np.exp(g * X)
        return stats.nbinom.logpmf(COUNTS, alpha, alpha / (alpha + mean))

    found = values("negative binomial", "heteroscedasticity(x)", COUNTS)
    np.testing.assert_allclose(found, slope(log_density), atol=1e-5)


@pytest.mark.parametrize(
    ("family", "name", "error", "text"),
    [
        ("poisson", "tails", Unsupported, "normal residuals"),
        ("bernoulli", "skewness", Unsupported, "normal residuals"),  # h' = -p (1 - p), like z's
        ("bernoulli", "dispersion", Unsupported, "two values"),
        ("poisson", "heteroscedasticity(x)", Unsupported, "one parameter of scale"),
        ("poisson", "quadratic(w)", DomainError, "allowed: x, z"),
        ("poisson", "quadratik(x)", DomainError, "did you mean 'quadratic'"),
        ("poisson", "interaction(x)", DomainError, r"interaction\(x, z\)"),
        ("poisson", "link(x)", DomainError, "names its covariates"),
    ],
)
def test_a_departure_without_a_meaning_is_refused(family, name, error, text):
    with pytest.raises(error, match=text) as caught:
        direction_of(family, name)
    assert "nothing was charged" in str(caught.value)
