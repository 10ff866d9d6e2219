"""Priors that are not Gaussian: the proximal sampler's start, its speed, and its draws (T21)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_private as pmp
from pymc_private.samplers import proximal_target
from pymc_private.samplers.proximal import ProximalSchedule, sample_proximal
from pymc_private.samplers.proximal_target import (
    make_posterior,
    plan_schedule,
    public_constants,
    whiten,
)
from pymc_private.samplers.randomness import SeededRandomness
from tests.samplers.test_linear import graph_slope
from tests.statistics import cdf_envelope, epsilon_lower_bound

N = 12
X = np.linspace(-1, 1, N)
Y = (np.arange(N) % 3 == 0).astype(int)
PRIORS = {
    "Laplace": (lambda: pm.Laplace("b", 0.2, 0.5), stats.laplace(0.2, 0.5), (-1.5, 2.0)),
    "logistic": (lambda: pm.Logistic("b", 0, 1), stats.logistic(), (-2.0, 2.0)),
    "exponential": (lambda: pm.Exponential("b", 2.0), stats.expon(scale=0.5), (0.0, 3.0)),
    "beta": (lambda: pm.Beta("b", 2, 3), stats.beta(2, 3), (0.1, 0.9)),
    "uniform": (lambda: pm.Uniform("b", -1, 2), stats.uniform(-1, 3), (-1.0, 2.0)),
    "truncated normal": (
        lambda: pm.TruncatedNormal("b", 0.3, 1, lower=-1, upper=2),
        stats.norm(0.3, 1),
        (-1.0, 2.0),
    ),
}


def private_of(name, y=Y):
    prior, _, (low, high) = PRIORS[name]
    with pm.Model(coords={"i": range(len(y))}) as model:
        x = pm.Data("x", X[: len(y)], dims="i")
        pm.Bernoulli("y", logit_p=prior() * x + 0.1, observed=y, dims="i")
    declared = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    own = name in ("uniform", "truncated normal")
    return declared if own else pmp.trim(declared, box={"b": (low, high)})


def on_grid(name, points=1501, y=Y):
    """Cell middles and edges, and the posterior's weights, by the definition."""
    _, law, (low, high) = PRIORS[name]
    edges = np.linspace(low, high, points)
    at = (edges[1:] + edges[:-1]) / 2
    u = at[:, None] * X[: len(y)] + 0.1
    return at, edges, normalized(law.logpdf(at) + (y * u - np.logaddexp(0.0, u)).sum(axis=1))


def normalized(logs):
    weight = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def cdf_of(edges, weight):
    return lambda at: np.interp(at, edges, np.append(0.0, np.cumsum(weight)))


def draws(private, count=600, tv=1e-3, seed=3):
    randomness = SeededRandomness.from_seed(seed)
    return pmp.samplers.Proximal(tv=tv).sample(private, count, randomness, lambda done: None)


SLOW = ("logistic", "exponential", "truncated normal")


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.audit] * (n in SLOW)) for n in PRIORS]
)
def test_the_divergence_contracts_as_fast_as_the_schedule_says(name):
    """On a grid, without a sampler: the start's bound and every step's, at the public constants."""
    private = private_of(name)
    white, schedule = whiten(private), plan_schedule(private, 1e-3)
    at, _, target = on_grid(name, 701)
    z = (at - white.center) / white.matrix[0, 0]
    law, eta = normalized(-(z**2) / 2), schedule.eta
    wide = 6 * math.sqrt(eta)
    y = np.arange(z[0] - wide, z[-1] + wide, min(math.sqrt(eta) / 8, (z[-1] - z[0]) / 200))
    forward = normalized(-((z[:, None] - y) ** 2) / (2 * eta))
    back = normalized(np.log(target) - (z - y[:, None]) ** 2 / (2 * eta))
    move = forward @ back

    def divergence(p):
        return float(np.sum(special.rel_entr(p, target)))

    start = divergence(law)
    assert start <= public_constants(private)[1]
    for k in range(1, 7):
        law = law @ move
        slowest = (1 + eta * white.reference.log_sobolev) ** (-2 * k)
        assert divergence(law) <= start * slowest * (1 + 1e-6) + 1e-9


FLAT = {
    "uniform": (lambda: pm.Uniform("b", -1, 1), stats.uniform(-1, 2), (-1.0, 1.0)),
    "laplace": (lambda: pm.Laplace("b", 0, 20), stats.laplace(0, 20), (-1.0, 1.0)),
    "exponential": (lambda: pm.Exponential("b", 0.05), stats.expon(0, 20), (0.0, 1.0)),
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", FLAT)
def test_where_records_say_little_the_start_is_still_as_far_as_it_is(name):
    """The helper's own slope counts: the start is normal, the posterior nearly flat."""
    prior, law, (low, high) = FLAT[name]
    records = np.array([0.01, -0.01])
    with pm.Model(coords={"i": range(2)}) as model:
        x = pm.Data("x", records, dims="i")
        pm.Bernoulli("y", logit_p=prior() * x, observed=[1, 0], dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-0.01, 0.01)})
    if name != "uniform":
        private = pmp.trim(private, box={"b": (low, high)})
    at = np.linspace(low, high, 2001)
    u = at[:, None] * records
    target = normalized(law.logpdf(at) + ([1, 0] * u - np.logaddexp(0.0, u)).sum(axis=1))
    white = whiten(private)
    z = (at - white.center) / white.matrix[0, 0]
    start = float(np.sum(special.rel_entr(normalized(-(z**2) / 2), target)))
    assert start > 0.01
    assert start <= public_constants(private)[1]


def test_a_singular_quadratic_prior_is_refused_in_words():
    with pm.Model(coords={"i": range(4)}) as model:
        x = pm.Data("x", X[:4], dims="i")
        a, b = pm.Uniform("a", -1, 1), pm.Uniform("b", -1, 1)
        pm.Potential("together", -((a + b) ** 2) / 2)
        pm.Bernoulli("y", logit_p=a + b * x, observed=Y[:4], dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    with pytest.raises(pmp.errors.Unsupported):
        plan_schedule(private, 1e-3)


@pytest.mark.parametrize("name", ["exponential"])
def test_draws_follow_the_posterior(name):
    _, edges, weight = on_grid(name)
    assert cdf_envelope(draws(private_of(name))["b"], cdf_of(edges, weight)).passes


def test_the_structure_has_the_slope_of_the_graph():
    """Vectors of parameters of several kinds, in boxes and without."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-0.5, 0.5, (N, 4)), Y
    with pm.Model(coords={"i": range(N), "f": range(4)}) as model:
        data = pm.Data("x", x, dims=("i", "f"))
        b, c = pm.Laplace("b", 0.1, 0.7, shape=2), pm.Normal("c", 0.3, [1.0, 2.0], shape=2)
        pm.Bernoulli("y", logit_p=data[:, :2] @ b + data[:, 2:] @ c, observed=y, dims="i")
    declared = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    private = pmp.trim(declared, box={"b": (-1.5, 2)})
    s, white = make_posterior(private)
    assert np.array_equal(s.prior_curvature, [0.0, 0.0, 1.0, 1.0])
    for _ in range(3):
        z = rng.uniform(np.maximum(s.lower, -1), np.minimum(s.upper, 1))
        u = s.rows @ z[:, None] + s.offset[:, None]
        found = -s.prior_curvature * z + (s.curve.slope(u).T @ s.rows)[0]
        exact = white.matrix @ graph_slope(private, white.to_parameters(z[None])[0])
        assert np.allclose(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fault", ["own", "residual"])
def test_a_prior_taken_for_the_law_of_the_start_is_caught(fault):
    name = "uniform" if fault == "own" else "Laplace"
    s, white = make_posterior(private_of(name))
    if fault == "own":
        s = replace(s, prior_curvature=1.0)
    else:
        rows = len(s.rows) - 1
        s = replace(
            s, rows=s.rows[:rows], offset=s.offset[:rows], smoothness=s.smoothness[:rows],
            curve=s.curve.first,
        )  # fmt: skip
    z = sample_proximal(s, ProximalSchedule(0.3, 40, 1e-3), 3000, SeededRandomness.from_seed(3))
    _, edges, weight = on_grid(name)
    assert not cdf_envelope(white.to_parameters(z)[:, 0], cdf_of(edges, weight)).passes


def test_what_has_no_proved_speed_is_refused_by_name():
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", X, dims="i")
        eta = pm.Laplace("b", 0, 1) * x + pm.Normal("a", 0, 1)
        pm.Bernoulli("y", logit_p=eta, observed=Y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    with pytest.raises(pmp.errors.Unsupported, match=r"'b'.*neither Gaussian"):
        pmp.samplers.Proximal().check(private)
    pmp.samplers.Proximal().check(pmp.trim(private, box={"b": (-2, 2)}))  # 'a' needs no box
    with pm.Model(coords={"i": range(N)}) as model:
        b = pm.Laplace("b", 0, 1)
        pm.Bernoulli("y", logit_p=b * pm.Normal("c", b, 1), observed=Y, dims="i")
    private = pmp.privatize(model, records="i")
    with pytest.raises(pmp.errors.Unsupported, match="log-concave posterior"):
        pmp.samplers.Proximal().check(private)


@pytest.mark.audit
def test_no_claim_about_the_bits_is_made():
    """strict=True is refused before the charge: no error of its floating point is bounded."""
    with pytest.raises(pmp.errors.Unsupported, match="no claim in floating point") as caught:
        pmp.calibrate(private_of("Laplace"), epsilon=1, delta=1e-4, sampler="proximal", strict=True)
    assert "strict=True with proximal" in str(caught.value)


def test_the_claim_says_where_the_chain_starts():
    terms = pmp.samplers.Proximal().terms(private_of("Laplace"))
    assert "from a normal distribution on the region" in terms.assumption
    assert (
        "from the prior" in pmp.samplers.Proximal().terms(private_of("truncated normal")).assumption
    )
    certificate = pmp.certify(private_of("Laplace"))
    assert math.isinf(certificate.mu)  # T7 wants strong concavity, no helper gives it
    promise = certificate.on(terms).guarantee(2)
    assert promise.epsilon(1e-4) <= 2 * certificate.range


def three():
    """A normal coefficient without walls, a Laplace and a beta one in boxes."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (15, 2)) / np.sqrt(2)
    y = (rng.random(15) < 0.6).astype(int)
    with pm.Model(coords={"i": range(15), "f": range(2)}) as model:
        data = pm.Data("x", x, dims=("i", "f"))
        a, b, c = pm.Normal("a", 0.5, 0.8), pm.Laplace("b", 0, 0.7), pm.Beta("c", 2, 2)
        eta = a + b * data[:, 0] + c * data[:, 1]
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="i")
    declared = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    return pmp.trim(declared, box={"b": (-1.5, 2), "c": (0.1, 0.9)}), x, y


@pytest.mark.audit
def test_three_parameters_agree_with_quadrature():
    private, x, y = three()
    found = draws(private, 3000, 1e-6)
    ends = {"a": (-3.5, 4.5), "b": (-1.5, 2.0), "c": (0.1, 0.9)}
    edges = {k: np.linspace(*e, 91) for k, e in ends.items()}
    a, b, c = np.meshgrid(*[(e[1:] + e[:-1]) / 2 for e in edges.values()], indexing="ij")
    logs = stats.norm.logpdf(a, 0.5, 0.8) + stats.laplace.logpdf(b, 0, 0.7)
    logs += stats.beta.logpdf(c, 2, 2)
    for (one, two), outcome in zip(x, y, strict=True):
        u = a + b * one + c * two
        logs += outcome * u - np.logaddexp(0, u)
    weight = np.exp(logs - logs.max())
    for axis, name in enumerate(ends):
        margin = weight.sum(axis=tuple({0, 1, 2} - {axis}))
        law = cdf_of(edges[name], margin / margin.sum())
        assert cdf_envelope(found[name], law).passes
        assert not cdf_envelope(found[name] + 0.1, law).passes


@pytest.mark.audit
@pytest.mark.parametrize("name", PRIORS)
def test_many_draws_follow_the_posterior(name):
    _, edges, weight = on_grid(name)
    assert cdf_envelope(draws(private_of(name), 4000, 1e-6)["b"], cdf_of(edges, weight)).passes


@pytest.mark.audit
def test_worst_neighbors_keep_the_promise_and_half_the_range_is_refuted():
    outcomes = [np.array([y, 0]) for y in (1, 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.samplers.test_reference.X", np.array([1.0, 0.0]))
        p, q = (
            draws(private_of("uniform", y), 6000, 1e-6, seed=k)["b"] for k, y in enumerate(outcomes)
        )
        private = private_of("uniform", outcomes[0])
        claim = pmp.certify(private).on(pmp.samplers.Proximal(tv=1e-6).terms(private)).guarantee(1)
    found = epsilon_lower_bound(p, q, delta=1e-2)
    assert not found.refutes(claim.epsilon(1e-2))
    assert found.epsilon > 0.1 * claim.epsilon(1e-2)
    assert found.refutes(0.1 * claim.epsilon(1e-2))  # planted: a tenth of the price


def test_the_prior_reads_no_data(monkeypatch):
    private = private_of("Laplace")
    monkeypatch.setattr(
        proximal_target, "record_inputs", None
    )  # nothing but `make_posterior` may ask
    plan_schedule(private, 1e-6)
