"""The pooled likelihood against what it is an efficient form of."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_private.summaries import stretched_mean as module
from pymc_private.summaries.lattice import unpack_symmetric
from pymc_private.summaries.scores.clipped_scores import ClippedScore, score_rows
from pymc_private.summaries.scores.pilot import (
    NoisyScore,
    NormalPrior,
    model_at_point,
    posterior_mode,
)
from pymc_private.summaries.scores.quadratic_noise import RoundNoise
from pymc_private.summaries.scores.score_likelihood import Curvature, pooled_likelihood
from pymc_private.summaries.scores.score_slopes import PooledSlopes
from tests.summaries.score_models import Normal, Poisson

RNG = np.random.default_rng(2)
N = 400.0


def setting(model, thetas, rows=40):
    """Releases without noise at some parameters, true parameters `thetas[-1]`."""
    x = {"x": RNG.uniform(-1, 1, (rows, 2))}
    weights = np.full(rows, N / rows)
    truth, releases = thetas[-1], []
    at = model_at_point(model, truth, x)
    for theta in thetas:
        scored = score_rows(model, theta, x)
        metric, _ = scored.metric(weights / N)
        frame = scored.framed(metric)
        bound = float(np.quantile(frame.norms(), 0.8))
        score = ClippedScore(model, theta, metric, bound, np.inf)
        clipped = score.at(x)
        psi = np.einsum("knq,nq,nkp->p", clipped.psi(at.values), at.mass, frame.basis)
        releases.append(NoisyScore(score, clipped, psi * N / rows, 3.0))
    return x, weights, releases


def test_a_covariance_quadratic_in_means_is_that_of_noisy_matrices():
    rounds, k, p, sd = 3, 4, 3, 0.7
    scaling, projection = RNG.normal(size=(rounds, p, p)), RNG.normal(size=(rounds, k, p))
    means = RNG.normal(size=(2, rounds, p))
    units = unpack_symmetric(np.eye(p * (p + 1) // 2))  # independent directions of the noise
    for common in (True, False):
        noise = RoundNoise(sd, scaling, projection, common)
        scaled = np.einsum("tab,stb->sta", scaling, means)
        each = np.einsum("tij,ujl,stl->suti", projection, units, scaled)
        groups = [each.sum(axis=2)[:, :, None]] if common else [each]
        expected = sd**2 * sum(np.einsum("suti,sutj->sij", g, g) for g in groups)
        np.testing.assert_allclose(noise.covariance(means), expected, rtol=1e-10)


def test_one_round_is_the_normal_density_of_its_own_numbers():
    """With one release and G invertible, G z and z have the same likelihood."""
    model = Poisson(np.zeros(3), np.ones(3))
    truth = np.array([0.3, 0.5, -0.4])
    x, weights, releases = setting(model, [truth])
    public, _ = releases[0].clipped.moments(weights)
    noisy = public + np.diag([20.0, -10.0, 5.0])
    tau = 4.0
    curvature = Curvature(noisy, public, tau)
    pooled = pooled_likelihood(
        model,
        releases,
        curvature,
        truth,
        np.eye(len(truth)) / N,
        (x, weights),
        (x, weights),
        reference_error=0.2,
    )
    thetas = truth + 0.1 * RNG.normal(size=(5, 3))
    found = pooled.log_likelihood(model, thetas)
    expected = []
    clipped, release = releases[0].clipped, releases[0]
    at = model_at_point(model, truth, x)
    psi = clipped.vectors(at.values)
    base = model.log_density(truth[None], x, at.values)[0]
    square = None
    for theta in [truth, *thetas]:
        mass = at.mass * np.exp(model.log_density(theta[None], x, at.values)[0] - base)
        mass /= mass.sum(axis=1, keepdims=True)
        m = np.einsum("nq,nqp->p", mass * weights[:, None], psi)
        delta = np.linalg.solve(public, m)
        second = np.einsum("nq,nqp,nqr->pr", at.mass * weights[:, None], psi, psi)
        # L V L' with L = H_pub^1/2 D^1/2 H_pub^-1/2
        values, vectors = np.linalg.eigh(public)
        root, inverse = (vectors * values**0.5) @ vectors.T, (vectors * values**-0.5) @ vectors.T
        w, u = np.linalg.eigh(inverse @ noisy @ inverse)
        spread = root @ (u * w**0.5) @ u.T @ inverse
        mean_at_truth = np.einsum("nq,nqp->p", at.mass * weights[:, None], psi)
        outcome = spread @ (second - np.outer(mean_at_truth, mean_at_truth) / N) @ spread.T
        turned = psi @ (pooled_projection(pooled, root, inverse, noisy) @ spread).T
        size = np.einsum("nq,nq->", mass * weights[:, None], (turned**2).sum(axis=2))
        square = size if square is None else square
        covariance = outcome * (size / square) + release.sd**2 * np.eye(3)
        covariance += tau**2 / 2 * (delta @ delta * np.eye(3) + np.outer(delta, delta))
        residual = release.value - noisy @ delta
        solved = np.linalg.solve(covariance, residual)
        expected.append(-0.5 * (residual @ solved + np.linalg.slogdet(covariance)[1]))
    difference = found - np.array(expected[1:])
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)


def pooled_projection(pooled, root, inverse, noisy):
    """G, of which the likelihood keeps G times H_pub^1/2 D H_pub^-1/2 (one round)."""
    return pooled.projection @ np.linalg.inv(root @ inverse @ noisy @ inverse @ inverse)


def test_means_at_the_center_are_those_of_the_large_reference():
    model = Normal(np.zeros(4), np.ones(4))
    truth = np.array([0.2, 0.6, -0.5, -0.3])
    x, weights, releases = setting(model, [np.zeros(4), truth + 0.05, truth], rows=90)
    small = {"x": x["x"][:20]}
    public, _ = releases[-1].clipped.moments(weights)
    curvature = Curvature(public, public, 1.0)
    pooled = pooled_likelihood(
        model,
        releases,
        curvature,
        truth,
        np.eye(len(truth)) / N,
        (x, weights),
        (small, np.full(20, N / 20)),
        0.2,
    )
    # Outcomes were replaced by their model, so that every residual at the truth is 0 ...
    mass = model_at_point(model, truth, small).mass.reshape(1, -1)
    means, ratio = pooled.moments(mass, truth[None])
    np.testing.assert_allclose(means @ pooled.projection.T, pooled.observed[None], atol=1e-7)
    np.testing.assert_allclose(ratio, 1.0, atol=1e-10)
    # ... and the likelihood is largest about there.
    steps = np.concatenate([np.eye(4), -np.eye(4)]) * 0.05
    values = pooled.log_likelihood(model, np.concatenate([truth[None], truth + steps]))
    assert values[0] >= values[1:].max() - 0.02


def test_the_mode_of_exact_releases_is_the_truth():
    model = Poisson(np.zeros(3), np.ones(3))
    truth = np.array([0.3, 0.8, -0.4])
    x, weights, releases = setting(model, [np.zeros(3), truth + 0.2, truth])
    weak = NormalPrior(np.zeros(3), 1e4 * np.eye(3))
    mode, covariance = posterior_mode(
        model, x, weights, weak, releases, np.zeros(3), reference_error=0.0, steps=30
    )
    np.testing.assert_allclose(mode, truth, atol=2e-3)
    assert np.linalg.eigvalsh(covariance)[0] > 0


def of_a_steeper_reference(small: bool = True):
    """Give a model, its true parameters and the likelihood of one release."""
    model = Poisson(np.zeros(3), np.ones(3))
    truth = np.array([0.8, 0.5, 0.0])
    x, weights, releases = setting(model, [truth - 0.1, truth], rows=200)
    steep = np.argsort(-np.abs(x["x"][:, 0]))[:40]
    public, _ = releases[-1].clipped.moments(weights)
    large = x, weights
    pooled = pooled_likelihood(
        model,
        releases,
        Curvature(public, public, 4.0),
        truth,
        np.eye(3) / N,
        large,
        ({"x": x["x"][steep]}, np.full(40, N / 40)) if small else large,
        0.2,
    )
    return model, truth, pooled


def slopes(model, pooled, theta):
    """Derivatives of the means of all rounds by differences, shape (T p, p)."""
    shifts = 1e-5 * np.concatenate([np.eye(3), -np.eye(3)])
    means, _ = pooled.moments(pooled.node_mass(model, theta + shifts), theta + shifts)
    return (means[:3] - means[3:]).T / 2e-5


@pytest.mark.parametrize("most", [4.0, 1.2, 1.0])
def test_derivatives_at_the_center_are_those_of_the_large_reference(monkeypatch, most):
    """Also where the stretch is held at its bounds and a linear term is left."""
    monkeypatch.setattr(module, "MOST_STRETCH", most)
    state = RNG.bit_generator.state
    model, truth, pooled = of_a_steeper_reference()
    RNG.bit_generator.state = state
    _, _, exact = of_a_steeper_reference(small=False)
    expected = slopes(model, exact, truth)
    np.testing.assert_allclose(slopes(model, pooled, truth), expected, atol=1e-5 * N)
    assert (np.abs(pooled.slope).max() > 1.0) == (most < 4.0)


@pytest.mark.parametrize("most", [4.0, 1.2])
def test_both_forms_of_a_likelihood_with_a_linear_term_are_its_own(monkeypatch, most):
    monkeypatch.setattr(module, "MOST_STRETCH", most)
    model, truth, pooled = of_a_steeper_reference()
    shifts = 1e-5 * np.concatenate([np.eye(3), -np.eye(3)])
    theta = truth + np.array([0.05, -0.1, 0.08])
    values = pooled.log_likelihood(model, theta + shifts)
    logs = model.log_density(theta[None], pooled.rows, pooled.values)[0]
    found, (of_logs, of_theta) = PooledSlopes(pooled)(logs.copy(), theta)
    moved = model.log_density(theta + shifts, pooled.rows, pooled.values)
    through = ((moved[:3] - moved[3:]) / 2e-5 * of_logs).sum(axis=(1, 2))
    np.testing.assert_allclose(through + of_theta, (values[:3] - values[3:]) / 2e-5, rtol=1e-4)
    symbols = pt.as_tensor(logs), pt.as_tensor(theta)
    assert float(PooledSlopes(pooled).symbolic(*symbols).eval()) == pytest.approx(found, rel=1e-8)
    assert found == pytest.approx(pooled.log_likelihood(model, theta[None])[0], rel=1e-8)


def test_a_singular_slope_is_left_alone_where_it_tells_nothing():
    wide = np.diag([2.0, 3.0, 1.0])
    narrow = np.diag([1.0, 1e-14, 1.0])
    np.testing.assert_allclose(module.stretch(wide, narrow), np.diag([2.0, 1.0, 1.0]), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-7, 1e-3, 1e3, 1e7])
def test_units_of_the_parameters_are_of_no_account(unit):
    """A slope per cent of income and one per million of it are stretched alike."""
    rng = np.random.default_rng(3)
    narrow = np.eye(3) + 0.2 * rng.standard_normal((3, 3))
    wide = narrow @ (np.eye(3) + 0.2 * rng.standard_normal((3, 3)))
    units = np.array([1.0, 1.0, unit])
    expected = wide @ np.linalg.inv(narrow)
    np.testing.assert_allclose(module.stretch(wide * units, narrow * units), expected)


@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_slopes_that_are_not_finite_stretch_nothing(worst):
    wide = np.diag([2.0, worst])
    assert np.array_equal(module.stretch(wide, np.eye(2)), np.eye(2))
    assert np.array_equal(module.stretch(np.eye(2), wide), np.eye(2))


def second_rise() -> float:
    """Give the most that a likelihood rises again away from its mode, of a steeper reference."""
    model, truth, pooled = of_a_steeper_reference()
    rises = []
    for direction in np.concatenate([np.eye(3), -np.eye(3)]):
        steps = np.linspace(0.0, 4.0, 41)[:, None]
        values = pooled.log_likelihood(model, truth + steps * direction)
        rises.append((values - np.minimum.accumulate(values)).max())
    return float(np.max(rises))


def test_a_likelihood_has_no_second_mode_where_its_reference_is_steeper():
    assert second_rise() < 1.0


def test_a_correction_that_is_linear_in_the_parameters_is_caught(monkeypatch):
    """The planted fault: it outgrows the scores, which are bounded."""
    monkeypatch.setattr(module, "MOST_STRETCH", 1.0)
    assert second_rise() > 4.0
