"""Attacks on the Gaussian bound that succeeded once; each is refused since."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import transforms

import pymc_private as pmp
from pymc_private.certificates.linear_predictors import Coefficients, NotConcave
from pymc_private.certificates.log_concave import concavity
from pymc_private.certificates.record_gradient import (
    NearlySingular,
    precision_lower_bound,
    whitener,
)
from pymc_private.certificates.terms import SamplingTerms
from pymc_private.samplers.proximal_target import plan_schedule, whiten

N = 6


def private_of(build, domain=None, **keywords):
    with pm.Model(coords={"i": range(N)}) as model:
        u = build(pm.Data("x", np.linspace(-1, 1, N), dims="i"))
        pm.Bernoulli("y", logit_p=u, observed=np.arange(N) % 2, dims="i")
    return pmp.privatize(model, records="i", domain={"x": (-1, 1)}, **keywords)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("top", "own"), [(2.158806172541538, 1.6054539432241523e-05), (1.0, 1e-3), (3e-5, 1e3)]
)
def test_scales_far_apart_do_not_lower_mu(top, own):
    """P has entries of 1e10 and a least eigenvalue near 1: its rounding is no part of mu.

    For x (b_1 + b_2), b_j ~ Normal(t, own), t ~ Normal(0, top), mu is twice a standard deviation.
    """

    def build(x):
        b = pm.Normal("b", pm.Normal("t", 0, top), own, shape=2)
        return x * (b[0] + b[1])

    exact = 2 * math.sqrt(4 * top**2 + 2 * own**2)
    assert exact * (1 + 1e-12) <= concavity(private_of(build)).mu() <= exact * 1.001


def test_a_precision_and_its_root_are_on_the_safe_side_for_every_rounding():
    rng = np.random.default_rng(0)
    for size in (2, 5):
        rows = rng.integers(-9, 10, (size + 2, size)).astype(float)
        weights = 2.0 ** rng.integers(-20, 20, size + 2)
        radius = 1e-13 * np.abs(rng.normal(size=rows.shape))
        low = precision_lower_bound(Coefficients(rows[None], radius[None], (), True), weights)
        for sign in (-1, 1):
            moved = [[Fraction(v) for v in row] for row in rows + sign * radius]
            exact = _exact(moved, [Fraction(w) for w in weights])
            assert _is_positive(_minus(exact, low))
        w = whitener(low)
        inside = _congruent([[Fraction(v) for v in row] for row in w], low)
        assert _is_positive(_minus(inside, np.eye(size)))
    with pytest.raises(NearlySingular):
        whitener(np.ones((2, 2)))


def _exact(rows, weights):
    size = len(rows[0])
    return [
        [sum(w * r[i] * r[j] for w, r in zip(weights, rows, strict=True)) for j in range(size)]
        for i in range(size)
    ]


def _congruent(w, matrix):
    m = [[Fraction(v) for v in row] for row in matrix]
    k = range(len(m))
    half = [[sum(w[i][a] * m[a][j] for a in k) for j in k] for i in k]
    return [[sum(half[i][a] * w[j][a] for a in k) for j in k] for i in k]


def _minus(exact, matrix):
    return [
        [e - Fraction(v) for e, v in zip(row, other, strict=True)]
        for row, other in zip(exact, matrix, strict=True)
    ]


def _is_positive(m):
    """Whether a matrix of fractions is positive semi-definite, by elimination."""
    m = [list(row) for row in m]
    for k in range(len(m)):
        if m[k][k] <= 0:
            return m[k][k] == 0 and not any(m[k][k:])
        for i in range(k + 1, len(m)):
            ratio = m[i][k] / m[k][k]
            m[i] = [a - ratio * b for a, b in zip(m[i], m[k], strict=True)]
    return True


def test_a_correlated_prior_is_priced_along_its_longest_axis():
    def build(x):
        b = pm.MvNormal("b", np.zeros(2), cov=[[2.0, 1.0], [1.0, 2.0]])
        return b[0] * x + b[1] * x

    proved = concavity(private_of(build))
    assert proved.mu() == pytest.approx(2 * math.sqrt(6), rel=1e-6)
    assert proved.strength() == pytest.approx(1 / 3, rel=1e-6)
    np.testing.assert_allclose(whiten(private_of(build)).matrix.T @ whiten(
        private_of(build)).matrix, [[2, 1], [1, 2]], rtol=1e-12)  # fmt: skip


def test_a_transform_that_restricts_a_parameter_is_seen():
    def ordered(x):
        start = np.array([-1.0, 1.0])
        b = pm.Normal("b", 0, 1, shape=2, transform=transforms.ordered, initval=start)
        return b[0] + b[1] * x

    private = private_of(ordered)
    assert concavity(private).mu() == pytest.approx(2 * math.sqrt(2), rel=1e-6)  # a convex set
    with pytest.raises(pmp.errors.Unsupported, match="order"):
        pmp.samplers.Proximal().check(private)
    circle = private_of(lambda x: pm.Normal("b", 0, 1, transform=transforms.circular) * x)
    with pytest.raises(NotConcave, match="transform of 'b'"):
        concavity(circle)


def test_public_data_that_change_are_read_anew():
    def build(x):
        return pm.Normal("b", 0, pm.Data("scale", 1.0)) * x

    private = private_of(build, public=["scale"])
    assert concavity(private).mu() == pytest.approx(2)
    steps = plan_schedule(private, 1e-3).steps
    private.base["scale"].set_value(5.0)
    assert concavity(private).mu() == pytest.approx(10)
    assert pmp.certify(private, progressbar=False).mu == pytest.approx(10)
    assert plan_schedule(private, 1e-3).steps > steps


def test_the_start_of_the_proximal_sampler_is_the_prior_itself():
    """Not one with the precision that was rounded down: that one is farther away than t."""
    white = whiten(private_of(lambda x: pm.Normal("b", 1e6, 3.0) * x))
    assert white.center[0] == pytest.approx(1e6, rel=1e-14)
    assert white.matrix[0, 0] == pytest.approx(3.0, rel=1e-14)


def test_a_prior_that_is_nearly_gaussian_is_not_gaussian():
    private = private_of(lambda x: pm.StudentT("b", nu=1e7, mu=0, sigma=1) * x)
    private = pmp.trim(private, box={"b": (-1, 1)})
    assert math.isfinite(concavity(private).mu())
    assert not whiten(private).reference.is_prior  # what is not normal about it is a residual


def test_densities_known_up_to_some_nats_have_no_gaussian_road():
    certificate = pmp.certify(private_of(lambda x: pm.Normal("b", 0, 1) * x), progressbar=False)
    assert math.isfinite(certificate.mu)
    assert certificate.on(SamplingTerms(slack=Fraction(1, 100))).charged_mu == math.inf
