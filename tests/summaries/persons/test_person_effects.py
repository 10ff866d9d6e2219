"""Effects of persons: slopes however they are written, against the normal distribution."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.errors import Unsupported
from pymc_private.summaries.persons.person_density import PersonDensity
from pymc_private.summaries.persons.person_effects import Factors

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link")
N, MOST = 12, 3
WHO = np.repeat(np.arange(N), 1 + np.arange(N) % MOST)
RNG = np.random.default_rng(8)
X, Y = RNG.uniform(-1, 1, len(WHO)), RNG.normal(0, 1.2, len(WHO))


def density(effects) -> PersonDensity:
    """Give the density of persons whose rows read effects(x) beside c, of standard deviation 1."""
    names: list[str] = []
    with pm.Model(
        coords={"person": range(N), "row": range(len(WHO)), "effect": ["a", "b"]}
    ) as model:
        x = pm.Data("x", X, dims="row")
        pm.Normal("y", pm.Normal("c") + effects(x, names), 1.0, observed=Y, dims="row")
    shared = pmp.marginalize(model, *names, points=3, rows_per_record=MOST)
    private = pmp.privatize(shared, records="person", domain={"x": (-1, 1), "y": (-8, 8)})
    return PersonDensity(private)


def own(name: str, names: list[str], sd=1.0):
    """Give a normal variable of each person, in rows."""
    names.append(name)
    return pm.Normal(name, 0, sd, dims="person")[WHO]


def pair(name: str, names: list[str], chol):
    """Give two of them."""
    names.append(name)
    return pm.MvNormal(name, np.zeros(2), chol=chol, dims=("person", "effect"))


def scales():
    """Give two standard deviations."""
    return pm.LogNormal("s", -0.5, 0.5, shape=2)


def lower():
    """Give a factor of a covariance."""
    sd = pm.LogNormal.dist(-0.5, 0.5, size=2)
    return pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)[0]


def centered(x, names):
    """Independent, with scales of their own."""
    s = scales()
    return own("a", names, s[0]) + own("b", names, s[1]) * x


def outside(x, names):
    """Independent, scaled where rows read them."""
    s = scales()
    return s[0] * own("a", names) + s[1] * own("b", names) * x


def together(x, names):
    """An MvNormal pair."""
    both = pair("ab", names, lower())
    return both[WHO, 0] + both[WHO, 1] * x


def looked_up_once(x, names):
    """The same, by one lookup."""
    both = pair("ab", names, lower())[WHO]
    return both[:, 0] + both[:, 1] * x


def turned(x, names):
    """Independent numbers, turned where rows read them."""
    chol = lower()
    a, b = own("a", names), own("b", names)
    return chol[0, 0] * a + (chol[1, 0] * a + chol[1, 1] * b) * x


def slope_alone(x, names):
    """One effect, a slope."""
    return own("b", names, pm.LogNormal("s", -0.5, 0.5)) * x


def covariance(natural: dict[str, np.ndarray]) -> np.ndarray:
    """Give that of the effects at natural parameters of one vector."""
    if "chol" in natural:
        root = np.zeros((2, 2))
        root[np.tril_indices(2)] = natural["chol"]
        return root @ root.T
    s = np.atleast_1d(natural["s"])
    return np.diag([*(s if len(s) == 2 else [0.0, s[0]])]) ** 2


@pytest.mark.audit
@pytest.mark.parametrize(
    "effects", [slope_alone, centered, outside, together, looked_up_once, turned]
)
def test_slopes_are_integrated_out_however_they_are_written(effects):
    model = density(effects)
    records = {"x": np.zeros((N, MOST)), "person_rows": np.bincount(WHO)}
    y = np.zeros((N, 1, MOST))
    for n in range(N):
        mine = n == WHO
        records["x"][n, : mine.sum()], y[n, 0, : mine.sum()] = X[mine], Y[mine]
    theta = model.parameters.draws(2, 3)
    found = model.log_density(theta, records, y)[..., 0]
    natural = model.parameters.natural(theta)
    for k in range(2):
        at = {name: v[k] for name, v in natural.items()}
        for n in range(N):
            z = np.column_stack([np.ones((n == WHO).sum()), X[n == WHO]])
            v = np.eye(len(z)) + z @ covariance(at) @ z.T
            truth = stats.multivariate_normal.logpdf(Y[n == WHO], np.full(len(z), at["c"]), v)
            assert found[k, n] == pytest.approx(truth, abs=1e-8)


def three(x, names):
    """Three effects."""
    return own("a", names) + own("b", names) * x + own("d", names, scales()[0]) * x**2


def alike(x, names):
    """Two effects that rows read alike."""
    s = scales()
    return own("a", names, s[0]) + own("b", names, s[1]) + 0.5 * x


def moved_by_covariates(x, names):
    """A scale that depends on the row."""
    return own("a", names) * pm.math.exp(pm.Normal("g") * x)


def squared(x, names):
    """An effect that is no linear one."""
    return own("a", names, scales()[0]) ** 2 + 0.5 * x


@pytest.mark.audit
@pytest.mark.parametrize(
    ("effects", "message"),
    [
        (three, "one or two normal effects"),
        (alike, "do not tell the effects of a person apart"),
        (moved_by_covariates, "one covariance for all persons"),
        (squared, "enter the predictors of rows linearly"),
    ],
)
def test_other_effects_are_refused(effects, message):
    with pytest.raises(Unsupported, match=message):
        density(effects)


def test_loadings_give_back_what_was_multiplied():
    rng = np.random.default_rng(3)
    x, at_prior_mean, elsewhere = rng.normal(size=(5, 3, 2)), rng.normal(size=(2, 2)), np.eye(2)
    factors = Factors.of(x @ at_prior_mean)
    loadings = factors.loadings(x @ at_prior_mean)
    chosen = np.stack([(x @ elsewhere)[n, j] for n, j in factors.rows])
    np.testing.assert_allclose(loadings @ chosen, x @ elsewhere)
    assert np.abs(loadings).max() <= 1 + 1e-9  # the public rows span most
