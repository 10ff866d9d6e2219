"""The noise-aware model: the prior and one potential, and nothing of the records."""

from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_private import privatize, trim
from pymc_private.errors import Incompatible
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.posterior_coordinates import start_at_center
from pymc_private.summaries.prior_model import array_shapes, prior_model

N = 4099  # equals no other length, and no other array is as large
MARK = 1.2345678987654321
"""A data value to be found in pickles."""


@dataclass
class NoisyMean:
    """A mechanism that released one number, a noisy mean of a parameter."""

    parameters: ParameterVector
    read: Any = None
    facts: dict = field(default_factory=dict)

    def potential(self, released, parameters):
        noisy = -0.5 * (parameters["b"].sum() - released["mean"][0]) ** 2 / 0.01
        return noisy if self.read is None else noisy + 0.0 * self.read.sum()

    def start(self, released):
        return np.zeros(self.parameters.size), np.eye(self.parameters.size)

    def log_likelihood(self, released):
        return lambda theta: np.zeros(len(theta))


@pytest.fixture(scope="module")
def private():
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (N, 3))
    table[7, 1] = MARK / 2
    coords = {"row": [f"person {k}" for k in range(N)], "feature": list("abc"), "site": list("xy")}
    with pm.Model(coords=coords) as model:
        data = pm.Data("X", table, dims=("row", "feature"))
        offset = pm.Data("offset", rng.normal(size=N), dims="row")
        site = pm.Data("site_of", rng.integers(0, 2, N), dims="row")
        width = pm.Data("width", np.array(2.0))
        tau = pm.HalfNormal("tau", width)
        z = pm.Normal("z", 0, 1, dims="site")
        effect = pm.Deterministic("effect", tau * z, dims="site")
        b = pm.Normal("b", 0, 1, shape=data.shape[1])
        pm.Deterministic("total", b.sum() + effect.mean())
        mean = pm.Deterministic("mean", data @ b + offset + effect[site], dims="row")
        pm.Deterministic("grand_mean", mean.mean())
        pm.Deterministic("offset_mean", tau * offset.mean())
        pm.Deterministic("size", tau * data.shape[0])
        pm.Normal("y", mean, 1, observed=rng.normal(size=N).clip(-4, 4), dims="row")
    domain = {"X": (-1, 1), "site_of": {0, 1}, "y": (-5, 5)}
    return privatize(model, records="row", domain=domain, public=["offset"])


@pytest.fixture(scope="module")
def model(private):
    mechanism = NoisyMean(ParameterVector(private))
    return noise_aware_model(private, mechanism, {"mean": np.array([0.7])})


def test_names_dims_and_coords_stay_without_the_records(model):
    assert [rv.name for rv in model.free_RVs] == ["tau", "z", "b"]
    assert {v.name for v in model.deterministics} == {"effect", "total"}
    assert dict(model.coords) == {"site": ("x", "y")}
    assert model.named_vars_to_dims["effect"] == ("site",)
    assert [v.name for v in model.data_vars] == ["width"]
    assert not model.observed_RVs


def test_no_array_of_the_records_is_in_it(private, model):
    every = [*model.named_vars.values(), *model.rvs_to_values.values(), model.logp()]
    sizes = [shape for shape in array_shapes(every) if N in shape]
    assert not sizes
    payload = cloudpickle.dumps(model)
    assert len(payload) < 200_000
    for secret in (np.float64(MARK / 2).tobytes(), b"person 17"):
        assert secret not in payload
        assert secret in cloudpickle.dumps(private.base)  # the search would find it
    assert cloudpickle.loads(payload).free_RVs


def test_it_has_the_density_of_the_prior_and_the_potential(model):
    scaled = model.initial_point()
    assert set(scaled) == {"tau_scaled__", "z_scaled__", "b_scaled__"}
    assert all(np.all(value == 0.0) for value in scaled.values())  # the center, in its units
    point = {"tau_log__": np.array(0.0), "z": np.zeros(2), "b": np.zeros(3)}
    with pm.Model() as plain:
        pm.HalfNormal("tau", 2.0)
        pm.Normal("z", 0, 1, shape=2)
        pm.Normal("b", 0, 1, shape=3)
    expected = plain.compile_logp(mode="FAST_COMPILE")(point) - 0.5 * 0.7**2 / 0.01
    assert np.isclose(model.compile_logp(mode="FAST_COMPILE")(scaled), expected)


def test_coordinates_are_those_of_the_prior_in_units_of_the_posterior():
    """Jitter of one unit is then one standard deviation, for every kind of value transform."""
    with pm.Model() as plain:
        pm.Normal("a", 0, 1)
        pm.HalfNormal("s", 1)
        pm.Dirichlet("w", [1.0, 2.0, 3.0])
        pm.MvNormal("m", np.zeros(2), np.array([[1.0, 0.3], [0.3, 2.0]]), shape=(3, 2))
        ordered = pm.distributions.transforms.ordered
        pm.Normal("cut", 0, 1, shape=(2, 3), transform=ordered, initval=[[-1, 0, 1]] * 2)
        pm.Bernoulli("y", 0.5, observed=np.arange(40) % 2)
    parameters = ParameterVector(privatize(plain, records={"y": 0}))
    rng = np.random.default_rng(3)
    center, sd = rng.normal(0, 0.3, parameters.size), rng.uniform(0.01, 0.2, parameters.size)
    made = prior_model(privatize(plain, records={"y": 0}))
    start_at_center(made, parameters, center, np.diag(sd**2), lambda theta: np.zeros(len(theta)))
    jittered = rng.uniform(-1, 1, parameters.size)
    point = {
        made.rvs_to_values[made[name]].name: part
        for name, part in parameters.split(jittered).items()
    }
    theta = center + sd * jittered
    expected = parameters.log_prior(theta[None])[0] + np.log(sd).sum()
    assert np.isclose(made.compile_logp(mode="FAST_COMPILE")(point), expected)
    initial = made.initial_point()
    assert all(np.allclose(value, 0.0, atol=1e-8) for value in initial.values())
    free = made.free_RVs
    outs = made.replace_rvs_by_values(free)
    values = made.compile_fn(outs, mode="FAST_COMPILE")(point)
    values = dict(zip([rv.name for rv in free], values, strict=True))
    for name, natural in parameters.natural(theta[None]).items():
        np.testing.assert_allclose(values[name], natural[0], atol=1e-12)


@pytest.mark.audit
def test_nuts_samples_it(model):
    with model:
        drawn = pm.sample(
            200, tune=300, chains=1, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    posterior = drawn.posterior
    total = posterior["b"].values.sum(axis=-1)
    assert abs(total.mean() - 0.7) < 0.05
    assert total.std() < 0.2
    assert {"effect", "total"} <= set(posterior.data_vars)


def test_a_region_stays(private):
    trimmed = trim(private, box={"b": (-0.5, 0.5)})
    mechanism = NoisyMean(ParameterVector(trimmed))
    made = noise_aware_model(trimmed, mechanism, {"mean": np.array([0.0])})
    b = made.replace_rvs_by_values([made["b"]])[0]
    far = {made.rvs_to_values[made["b"]]: np.array([50.0, -50.0, 0.0])}
    assert abs(b.eval(far, mode="FAST_COMPILE")).max() <= 0.5


def test_a_potential_that_reads_records_is_refused(private):
    source = next(s for s in private.sources if s.name == "y")
    mechanism = NoisyMean(ParameterVector(private), read=source.variable)
    with pytest.raises(Incompatible, match="private data"):
        noise_aware_model(private, mechanism, {"mean": np.array([0.0])})


@pytest.mark.parametrize("n", [40, 41])
def test_what_stays_does_not_tell_a_protected_number_of_records(n):
    grid, rng = np.linspace(-1, 1, 40), np.random.default_rng(0)
    with pm.Model(coords={"row": range(n), "grid": grid}) as model:
        b = pm.Normal("b", 0, 1, shape=2)
        x = pm.Data("x", rng.uniform(-1, 1, n), dims="row")
        at = pm.Data("at", grid, dims="grid")
        pm.Deterministic("curve", b[0] + b[1] * at, dims="grid")
        pm.Deterministic("undeclared", b[0] + b[1] * grid)  # it might be data of the records
        pm.Bernoulli("y", logit_p=b[0] + b[1] * x, observed=rng.integers(0, 2, n), dims="row")
    private = privatize(
        model, records="row", domain={"x": (-1, 1)}, neighbors="add_remove", public=["at"]
    )
    kept = prior_model(private)
    assert [v.name for v in kept.deterministics] == ["curve"]
    assert list(kept.coords) == ["grid"]
