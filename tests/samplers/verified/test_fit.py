"""From a PyMC model to strict draws: what fits, what is refused by name, and the promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import norm

import pymc_private as pmp
from pymc_private.certificates.terms import REAL_ARITHMETIC, VERIFIED_ARITHMETIC
from pymc_private.samplers import choose as choosing
from pymc_private.samplers.proximal_target import make_posterior, prove_log_concave
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.samplers.verified.admission import (
    is_copied,
    make_verified_posterior,
    recognize_verified,
)
from pymc_private.samplers.verified.arithmetic import (
    VerifiedExponential,
    VerifiedLogistic,
    VerifiedQuadratic,
)
from tests.statistics import cdf_envelope

N = 14
RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (N, 2))
BINARY = (RNG.random(N) < 0.6).astype(int)
REALS = RNG.uniform(-1, 1, N)
COUNTS = RNG.poisson(1.5, N)
GROUP = np.arange(N) % 3
COORDS = {"i": range(N), "f": ["one", "two"], "g": range(3)}
DOMAIN = {"x": (-1, 1)}


def data():
    return pm.Data("x", X, dims=("i", "f"))


def logistic():
    eta = data() @ pm.Normal("beta", 0.5, [1.0, 2.0], dims="f") + pm.Normal("a", -0.3, 1.5)
    pm.Bernoulli("y", logit_p=eta, observed=BINARY, dims="i")


def linear():
    x, b = data(), pm.Normal("beta", 0.5, [1.0, 2.0], dims="f")
    pm.Normal("y", x[:, 0] * b[0] - x[:, 1] * b[1], 0.7, observed=REALS, dims="i")


def counts():
    eta = data() @ pm.Normal("beta", 0, 1, dims="f")
    pm.Poisson("y", pm.math.exp(eta), observed=COUNTS, dims="i")


def groups():
    a = pm.Normal("a", 0, 1, dims="g")
    eta = a[pm.Data("group", GROUP, dims="i")] + pm.Normal("b", 0, 1) * data()[:, 0]
    pm.Bernoulli("y", logit_p=eta, observed=BINARY, dims="i")


def squares():
    eta = data()[:, 0] ** 2 * pm.Normal("b", 0, 1) + pm.Normal("a", 0, 1)
    pm.Bernoulli("y", logit_p=eta, observed=BINARY, dims="i")


def twice():
    """The slopes of one coefficient add up: a sum of two doubles is rounded."""
    x, b = data(), pm.Normal("b", 0, 1)
    pm.Bernoulli("y", logit_p=b * x[:, 0] + b * x[:, 1], observed=BINARY, dims="i")


def probit():
    p = pm.math.invprobit(data() @ pm.Normal("beta", 0, 1, dims="f"))
    pm.Bernoulli("y", p, observed=BINARY, dims="i")


def correlated():
    beta = pm.MvNormal("beta", np.zeros(2), np.array([[1.0, 0.5], [0.5, 2.0]]), dims="f")
    pm.Bernoulli("y", logit_p=data() @ beta, observed=BINARY, dims="i")


def laplace():
    eta = pm.Laplace("b", 0, 1) * data()[:, 0]
    pm.Bernoulli("y", logit_p=eta, observed=BINARY, dims="i")


def half_normal():
    pm.Bernoulli("y", logit_p=pm.HalfNormal("b") * data()[:, 0], observed=BINARY, dims="i")


def private_of(build, power=Fraction(1, 5), box=None):
    with pm.Model(coords=COORDS) as model:
        build()
    domain = DOMAIN | ({"y": (-1, 1)} if build is linear else {})
    domain |= {"y": (0, 9)} if build is counts else {}
    domain |= {"group": pmp.Categories([0, 1, 2])} if build is groups else {}
    declared = pmp.temper(pmp.privatize(model, records="i", domain=domain), power)
    return pmp.trim(declared, box=box) if box else declared


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("build", "curve"),
    [
        (logistic, VerifiedLogistic),
        (linear, VerifiedQuadratic),
        (groups, VerifiedLogistic),
        (counts, VerifiedExponential),
        (half_normal, VerifiedLogistic),
    ],
)
def test_records_are_those_of_the_plain_sampler(build, curve):
    private = private_of(build, box={"beta": (-1, 2)} if build in (linear, counts) else None)
    records, structure = make_verified_posterior(private)
    plain, white = make_posterior(private)
    assert isinstance(records.curve, curve)
    np.testing.assert_allclose(records.rows, plain.rows, rtol=1e-14, atol=0)
    np.testing.assert_allclose(records.whitened_offset, plain.offset, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(structure.smoothness, plain.smoothness)
    np.testing.assert_array_equal(records.center, white.center)
    np.testing.assert_array_equal(records.scale, np.diag(white.matrix))
    real = Fraction(plain.curve.weight)  # a power above the promised one would cost more
    assert real * (1 - Fraction(1, 2**38)) < Fraction(records.curve.weight) < real


LIKELIHOODS = {
    "logistic": (
        VerifiedLogistic,
        lambda u: pm.Bernoulli("y", logit_p=u, observed=BINARY, dims="i"),
    ),
    "linear": (VerifiedQuadratic, lambda u: pm.Normal("y", u, 0.7, observed=REALS, dims="i")),
    "Poisson": (
        VerifiedExponential,
        lambda u: pm.Poisson("y", pm.math.exp(u), observed=COUNTS, dims="i"),
    ),
}
ONE_COEFFICIENT = {
    "a vector of one": lambda x: x @ pm.Normal("b", 0, 1, shape=1),
    "a scalar": lambda x: pm.Normal("b", 0, 1) * x[:, 0],
}


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("likelihood", "written"),
    [
        ("logistic", "a vector of one"),
        ("linear", "a scalar"),
        ("Poisson", "a vector of one"),
        ("Poisson", "a scalar"),
        pytest.param("logistic", "a scalar", marks=pytest.mark.audit),
        pytest.param("linear", "a vector of one", marks=pytest.mark.audit),
    ],
)
def test_one_coefficient_is_one_predictor(likelihood, written):
    """PyTensor multiplies y into x b: y x b beside e^(x b) is one predictor, not two."""
    curve, observe = LIKELIHOODS[likelihood]
    with pm.Model(coords={"i": range(N)}) as model:
        observe(ONE_COEFFICIENT[written](pm.Data("x", X[:, :1], dims=("i", None))))
    domain = DOMAIN | {"linear": {"y": (-1, 1)}, "Poisson": {"y": (0, 9)}}.get(likelihood, {})
    private = pmp.trim(pmp.privatize(model, records="i", domain=domain), box={"b": (-1, 1)})
    records, _ = make_verified_posterior(private)
    assert isinstance(records.curve, curve)
    np.testing.assert_array_equal(records.rows, X[:, :1])
    found = prove_log_concave(private)
    assert len(found.predictors) == 1
    if likelihood == "Poisson":
        assert found.gradient() < 17.27  # 2 (9 - 1 / e)


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("build", "box", "named"),
    [
        (squares, None, "computes from the data"),
        (twice, None, "computes from the data"),
        (probit, {"beta": (-1, 1)}, "whose float error is not bounded"),
        (correlated, None, "a correlated prior"),
        (laplace, {"b": (-2, 2)}, "a prior that is not Gaussian"),
    ],
)
def test_what_is_not_proved_is_refused_by_name(build, box, named):
    private = private_of(build, box=box)
    with pytest.raises(
        pmp.errors.Unsupported, match="no claim in floating point is proved"
    ) as caught:
        choosing.choose_sampler(private, "proximal", strict=True)
    assert named in str(caught.value)
    assert "what to do" in str(caught.value)
    assert not choosing.choose_sampler(private, "proximal").terms(private).strict


@pytest.mark.audit
def test_the_strongest_claim_in_floating_point_is_the_proximal_sampler():
    private = private_of(logistic)
    method = choosing.choose_sampler(private, strict=True)
    assert (
        method
        == pmp.samplers.Proximal(strict=True)
        == choosing.choose_sampler(private, "proximal", strict=True)
    )
    plain, terms = pmp.samplers.Proximal().terms(private), method.terms(private)
    assert VERIFIED_ARITHMETIC in terms.words
    assert REAL_ARITHMETIC in plain.words
    assert 1.1e-10 <= terms.tv < 1e-8  # t and what floating point costs
    assert method.claim(private).startswith("proved, each draw within")
    assert "floating point costs" in terms.assumption
    assert method.seconds(private, 3) > pmp.samplers.Proximal().seconds(private, 3)
    with pytest.raises(pmp.errors.Unsupported, match=r"proximal: .*computes from the data"):
        choosing.choose_sampler(private_of(squares), strict=True)


def test_the_charge_is_public():
    """Other records, the same terms."""
    one = pmp.samplers.Proximal(strict=True).terms(private_of(logistic))
    X[:], kept = np.sign(X), X.copy()
    try:
        assert pmp.samplers.Proximal(strict=True).terms(private_of(logistic)) == one
    finally:
        X[:] = kept


@pytest.mark.audit
def test_a_plan_and_its_draws():
    plan = pmp.calibrate(
        private_of(logistic, Fraction(1)),
        epsilon=1.0,
        delta=1e-5,
        draws=2,
        strict=True,
        clip=False,
    )
    assert plan.sampler == "proximal"
    assert "real arithmetic" not in str(plan.guarantee)
    with pytest.warns(pmp.errors.PrivacyWarning):
        assert pmp.sample(plan).posterior["beta"].shape == (1, 2, 2)


def test_a_release():
    proximal = pmp.samplers.Proximal(strict=True)
    with pytest.warns(pmp.errors.PrivacyWarning):
        release = pmp.sample(private_of(logistic), draws=2, delta=1e-5, sampler=proximal)
    assert release.posterior["beta"].shape == (1, 2, 2)
    assert "real arithmetic" not in repr(release)
    assert "proved, each draw within" in repr(release)


def test_draws_are_those_of_the_plain_sampler():
    private = private_of(linear, box={"beta": (-9, 9)})
    draws = pmp.samplers.Proximal(tv=1e-4, strict=True).sample(
        private, 700, SeededRandomness.from_seed(2), lambda done: None
    )["beta"]
    structure, white = make_posterior(private)
    precision = np.eye(2) + structure.curve.weight * structure.rows.T @ structure.rows
    pull = structure.curve.weight * structure.rows.T @ (structure.curve.y - structure.offset)
    # The box is far: it holds all but 1e-10 of the mass.
    mean = white.to_parameters(np.linalg.solve(precision, pull)[None])[0]
    sd = np.sqrt(np.diag(white.matrix.T @ np.linalg.inv(precision) @ white.matrix))
    for k in range(2):
        assert cdf_envelope(draws[:, k], norm(mean[k], sd[k]).cdf).passes
        assert not cdf_envelope(draws[:, k], norm(mean[k] + 0.5 * sd[k], sd[k]).cdf).passes


def test_graphs_that_copy_are_told_from_graphs_that_compute():
    x, i = pt.vector("x", shape=(3,)), pt.lscalar("i")
    zeros = pt.zeros(3)
    copies = [
        x,
        x[1],
        -x,
        4.0 * x,
        pt.concatenate([x, pt.ones(2)]),
        pt.stack([x[0], x[1]]),
        x[::-1].reshape((3, 1)),
        pt.set_subtensor(x[i], 2.0),
        pt.inc_subtensor(zeros[i], x[0]),
        pt.inc_subtensor(pt.inc_subtensor(zeros[0], x[1])[2], x[1]),
        pt.inc_subtensor(zeros[i[None]], x[0]),
    ]
    computes = [
        x + x,
        3.0 * x,
        x * x,
        pt.exp(x),
        pt.concatenate([x**2, pt.ones(2)]),
        pt.concatenate([pt.ones(2), x**2]),
        pt.inc_subtensor(x[0], x[1]),
        pt.inc_subtensor(pt.inc_subtensor(zeros[0], x[1])[i], x[1]),
        pt.inc_subtensor(pt.inc_subtensor(zeros[0:2], x[1])[1:3], x[1]),
        pt.inc_subtensor(zeros[pt.stack([i, i])], x[0]),
        pt.cast(x, "float32"),
        x.sum(),
        x[pt.cast(pt.floor(x[0]), "int64")],
    ]
    assert [is_copied(v) for v in copies] == [True] * len(copies)
    assert [is_copied(v) for v in computes] == [False] * len(computes)
    assert recognize_verified(private_of(groups)).weight == 1.0


@pytest.mark.audit
def test_a_plan_in_a_box_is_found_where_the_probe_at_no_power_would_leap_over_its_walls():
    """At a power of 2^-40 steps without an end would take the noise far beyond the walls."""
    private = private_of(logistic, power=1, box={"beta": (-3.0, 3.0), "a": (-3.0, 3.0)})
    plan = pmp.calibrate(private, epsilon=1.0, delta=1e-6, strict=True, sampler="proximal")
    assert plan.sampler == "proximal"
    assert plan.method.terms(plan.private).strict
