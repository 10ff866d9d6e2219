"""Parameters as one vector: PyMC's own coordinates, prior and transforms."""

import numpy as np
import pymc as pm
import pytest

from pymc_private import privatize, trim
from pymc_private.errors import DomainError, Unsupported
from pymc_private.summaries.parameters import ParameterVector

N = 47
DATA = np.random.default_rng(0).normal(size=N).clip(-4, 4)


def declared(build):
    """A private model of normal outcomes with the mean that `build` gives."""
    with pm.Model(coords={"row": range(N), "level": list("wxyz")}) as model:
        pm.Normal("y", build(), 1, observed=DATA, dims="row")
    return privatize(model, records="row", domain={"y": (-5, 5)})


def every_transform():
    a, tau = pm.Normal("a", 0, 1), pm.HalfNormal("tau", 1)
    pm.Normal("z", 0, 1, dims="level")
    pm.Dirichlet("w", np.ones(3))
    pm.Normal("c", np.array([-1.0, 1.0]), 1, transform=pm.distributions.transforms.ordered)
    pm.Uniform("u", -1, tau)  # a transform whose bound is another parameter
    return a


@pytest.fixture(scope="module")
def vector():
    return ParameterVector(trim(declared(every_transform), box={"a": (-2, 2)}))


def test_natural_and_unconstrained_are_inverse(vector):
    theta = vector.draws(20, seed=3)
    natural = vector.natural(theta)
    assert vector.size == theta.shape[1] == 11
    np.testing.assert_allclose(vector.unconstrained(natural), theta, rtol=1e-9, atol=1e-9)
    assert abs(natural["a"]).max() < 2
    assert (natural["u"] < natural["tau"]).all()
    np.testing.assert_allclose(natural["w"].sum(axis=1), 1.0)
    assert (np.diff(natural["c"]) > 0).all()


def test_log_prior_is_that_of_pymc_on_its_value_variables(vector):
    logp = vector.model.compile_logp(mode="FAST_COMPILE")
    names = {name: vector.model.rvs_to_values[vector.model[name]].name for name in vector.names}
    theta = vector.draws(4, seed=3)
    points = [{names[k]: v for k, v in vector.split(one).items()} for one in theta]
    np.testing.assert_allclose(vector.log_prior(theta), [logp(one) for one in points], rtol=1e-9)


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.audit)])
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
def test_log_prior_of_a_covariance_matrix_is_that_of_pymc(n):
    def prior():
        sd = pm.HalfNormal.dist(1.0)
        return pm.LKJCholeskyCov("chol", n=n, eta=2.0, sd_dist=sd, compute_corr=False)[0]

    vector = ParameterVector(declared(prior))
    logp, value = vector.model.compile_logp(mode="FAST_COMPILE"), vector.model.value_vars[0].name
    theta = np.random.default_rng(3).normal(0, 0.5, (4, vector.size))
    expected = [logp({value: one}) for one in theta]
    np.testing.assert_allclose(vector.log_prior(theta), expected, rtol=1e-9)


def test_moments_are_those_of_the_prior(vector):
    z, a = vector.slices["z"], vector.slices["a"]
    assert abs(vector.mean[z]).max() < 0.1
    np.testing.assert_allclose(np.diag(vector.covariance)[z], 1.0, atol=0.15)
    assert vector.covariance[a, a][0, 0] > 1.0  # logits of a normal in a box


def test_heavy_tails_do_not_decide_the_covariance():
    vector = ParameterVector(declared(lambda: pm.Cauchy("a", 0, 1)))
    assert 1.0 < vector.covariance[0, 0] < 40.0


def discrete():
    return pm.Poisson("k", 2) + pm.Normal("a", 0, 1)


@pytest.mark.parametrize(
    ("build", "error", "word"),
    [(discrete, Unsupported, "discrete"), (lambda: pm.Flat("a"), DomainError, "improper")],
)
def test_priors_without_a_density_of_unconstrained_numbers_are_refused(build, error, word):
    private = declared(build)
    with pytest.raises(error, match=word) as caught:
        ParameterVector(private)
    assert caught.value.do
