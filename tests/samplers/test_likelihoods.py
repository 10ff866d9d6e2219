"""Stable forms of likelihoods stand for no other likelihood, whatever its scale."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import log_ndtr

import pymc_private as pmp
from pymc_private.samplers import proximal_likelihoods
from pymc_private.samplers.proximal_likelihoods import GeneralCurve, QuadraticCurve
from pymc_private.samplers.proximal_target import make_posterior, prove_log_concave
from pymc_private.samplers.verified.admission import recognize_verified
from tests.certificates.glms import BY_NAME

N = 5
RNG = np.random.default_rng(2)
X = RNG.uniform(-0.5, 0.5, (N, 2))
UNIT_Y = RNG.uniform(-1.0, 1.0, N)


def structure_of(mean, scale):
    """Structure and whitening of a normal likelihood whose scale, prior and data grow together."""
    with pm.Model(coords={"i": range(N), "f": range(2)}) as model:
        x = pm.Data("x", X, dims=("i", "f"))
        b = pm.Normal("b", 0.0, scale, dims="f")
        pm.Normal("y", mean(x @ b), scale, observed=scale * UNIT_Y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0), "y": (-scale, scale)})
    return make_posterior(pmp.trim(private, box={"b": (-2 * scale, 2 * scale)}))


def gap(structure, white, mean, scale):
    """How far the change of the log-likelihood between two points is from the model's."""
    z = RNG.uniform(-0.3, 0.3, (2, 2))
    u = structure.rows @ z.T + structure.offset[:, None]
    du = u[:, 1:] - u[:, :1]
    change = structure.curve.slope(u[:, :1]) * du - structure.curve.remainder(u[:, :1], du)
    means = mean(X @ white.to_parameters(z).T)
    logs = -0.5 * ((UNIT_Y[:, None] - means / scale) ** 2).sum(axis=0)
    return abs(float(change.sum()) - float(logs[1] - logs[0]))


@pytest.mark.parametrize("low", [pytest.param(-1.0, marks=pytest.mark.audit), None])
def test_censored_outcomes_are_log_concave(low):
    """Branches of one record do not add up: the steepest is a tail 1 + 1 away."""
    with pm.Model(coords={"i": range(N)}) as model:
        latent = pm.Normal.dist(pm.Normal("b", 0, 1), 1.0)
        pm.Censored("y", latent, lower=low, upper=1.0, observed=np.clip(UNIT_Y, -1, 1), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    found = prove_log_concave(pmp.trim(private, box={"b": (-1, 1)})).predictors[0]
    steepest = np.exp(-(2.0**2) / 2 - log_ndtr(-2.0)) / np.sqrt(2 * np.pi)
    assert max(found.high.max(), -found.low.min()) == pytest.approx(steepest, rel=1e-3)
    assert 0.9 < found.smooth.max() <= 1.0 + 1e-6


@pytest.mark.audit
@pytest.mark.parametrize("name", ["ordered probit", "censored normal"])
def test_normal_tails_in_a_branch_are_concave_with_slopes_as_written_by_hand(name):
    """PyMC's two forms of log Phi differ by rounding, so that its own density jumps."""
    glm = BY_NAME[name]
    private = glm.private()
    structure, _ = make_posterior(private)
    assert 0.9 < structure.smoothness.max() <= 1.0 + 1e-6
    # The steepest is a tail 1 + 1 + sqrt(2) away; branches do not add up.
    steepest = np.exp(-(3.41421**2) / 2 - log_ndtr(-3.41421)) / np.sqrt(2 * np.pi)
    assert prove_log_concave(private).predictors[0].high.max() == pytest.approx(steepest, rel=1e-3)
    z = RNG.uniform(-0.2, 0.2, (3, 1))
    u = structure.rows @ z + structure.offset[:, None]
    y = np.asarray(next(s for s in private.sources if s.name == "y").values(), float)
    by_hand = [glm.slope(float(a), b) for a, b in zip(u[:, 0], y, strict=True)]
    np.testing.assert_allclose(np.abs(structure.curve.slope(u))[:, 0], np.abs(by_hand), rtol=1e-6)
    assert len(set(np.sign(by_hand))) == 2


MEANS = {
    "itself": lambda u: u,
    "a thousandth": lambda u: 0.001 * u,
    "a twelfth": lambda u: u / 12.0,
    "nearly itself": lambda u: (1.0 + 1e-12) * u,
}


@pytest.mark.thin(6)
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
@pytest.mark.parametrize("name", MEANS)
def test_what_is_drawn_is_the_model_at_every_scale(name, scale):
    structure, white = structure_of(MEANS[name], scale)
    assert gap(structure, white, MEANS[name], scale) < 1e-9
    assert isinstance(structure.curve, QuadraticCurve if name == "itself" else GeneralCurve)


def test_a_form_that_ignores_a_factor_is_caught(monkeypatch):
    """Planted fault: digits that do not matter, as an absolute tolerance would have it."""
    monkeypatch.setattr(proximal_likelihoods, "SLOPE_TOLERANCE", 1e9)
    structure, white = structure_of(MEANS["a twelfth"], 1e7)
    assert gap(structure, white, MEANS["a twelfth"], 1e7) > 1e-3


def soft_cap(b):
    return 32.0 - pt.softplus(32.0 * (32.0 - b)) / 32.0


@pytest.mark.audit
def test_a_predictor_that_bends_out_of_sight_is_no_straight_one():
    """A mean that is b to the last digit below 30, and stays at 32 beyond."""
    with pm.Model(coords={"i": range(2)}) as model:
        mean = soft_cap(pm.Normal("b", 300, 100))
        pm.Normal("y", mean, 100.0, observed=np.array([560.0, 60.0]), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (60.0, 560.0)})
    private = pmp.trim(private, box={"b": (0.0, 700.0)})
    structure, white = make_posterior(private)
    assert not isinstance(structure.curve, QuadraticCurve)
    z = np.array([[-2.0, 0.0, 2.0]])
    u = structure.rows @ z + structure.offset[:, None]
    b = white.to_parameters(z.T)[:, 0]
    slopes = structure.curve.slope(u).sum(axis=0)
    assert np.abs(slopes[b > 60.0]).max() < 1e-9  # flat beyond the cap, where the plain one is not
    assert (b > 60.0).any()


def test_strict_draws_refuse_it():
    with pm.Model(coords={"i": range(2)}) as model:
        mean = soft_cap(pm.Normal("b", 300, 100))
        pm.Normal("y", mean, 100.0, observed=np.array([560.0, 60.0]), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (60.0, 560.0)})
    with pytest.raises(pmp.errors.Unsupported):
        recognize_verified(pmp.trim(private, box={"b": (0.0, 700.0)}))
