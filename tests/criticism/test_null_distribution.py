"""The null distribution of T38 against records that are simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pymc_private.criticism.null_distribution import null_distribution, sensitivity
from tests.criticism.test_check_statistic import fit_of, planned

COPIES, SIMULATIONS = 40, 6000


class Simulation:
    """Sums over simulated binary records whose covariates are the reference itself.

    c is the sum of the statistic, g the p numbers of the summary less their mean at theta^. There
    are `COPIES` records of each row, scaled so that mean and variance are those of n records.
    """

    def __init__(self, theta, seed, statistic, extra=0.0):
        fit = self.fit = fit_of("bernoulli")
        self.values = statistic.at(fit.scored)
        rng = np.random.default_rng(seed)
        x, z = fit.rows["x"], fit.rows["z"]
        assert np.array_equal(fit.scored.values, np.tile([0.0, 1.0], (len(x), 1)))
        design = np.column_stack([np.ones(len(x)), x, z])
        p = 1 / (1 + np.exp(-(theta @ design.T + extra * x * z)))
        away = rng.binomial(COPIES, p) - COPIES * p
        self.away = away * np.sqrt(fit.weights / COPIES)
        self.more = (p - fit.at.mass[:, 1]) * fit.weights  # ones more than at theta^
        f, psi = (np.diff(a, axis=1)[:, 0] for a in (self.values, fit.released))
        self.c = (self.more + self.away) @ f
        noise = rng.multivariate_normal(np.zeros(3), self._noise(psi), len(p), method="eigh")
        self.g = self.more @ psi @ fit.scaling.T + self.away @ psi @ fit.spread.T + noise

    def _noise(self, psi):
        """What varies in g beside outcomes."""
        fit = self.fit
        of_row = fit.mass[:, 1] * fit.at.mass[:, 0]
        return fit.noisy_covariance - fit.spread @ ((psi.T * of_row) @ psi) @ fit.spread.T


def posterior_draws():
    fit, rng = fit_of("bernoulli"), np.random.default_rng(7)
    return rng.multivariate_normal(fit.mean, fit.covariance, SIMULATIONS)


def least_squares(y, x):
    """Slopes of y on x."""
    return np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]


def test_the_null_distribution_is_that_of_simulated_records():
    """Given theta, c is linear in g: put the g that was released in the place of the simulated.

    The statistic keeps what the model's own score explains, so that what the summary knows of theta
    and what c and g have in common matter much; without it, little.
    """
    fit, projected = fit_of("bernoulli"), planned("bernoulli", "quadratic(x)").statistic
    statistic = replace(projected, tilt=np.zeros(3))
    at_mean = Simulation(np.tile(fit.mean, (SIMULATIONS, 1)), 8, statistic)
    gain = least_squares(at_mean.c, at_mean.g)
    among = Simulation(posterior_draws(), 9, statistic)
    c = among.c + (fit.residual - among.g) @ gain
    found = null_distribution(fit, among.values)
    assert abs(c.mean() - found.mean) < 0.1 * c.std()
    np.testing.assert_allclose(c.var(), found.variance, rtol=0.08)
    # Both simpler forms are seen to be wrong: known theta, and the posterior predictive.
    slope = fit.score_sum(among.values)
    for simpler in (found.whole, found.whole + slope @ fit.covariance @ slope):
        assert abs(c.var() / simpler - 1) > 0.25


def test_a_departure_moves_the_sum_as_far_as_was_said():
    """With records of gamma = 0.2, and the posterior mean that their summary has."""
    fit, statistic = fit_of("bernoulli"), planned("bernoulli").statistic
    theta = np.tile(fit.mean, (SIMULATIONS, 1))
    here, there = Simulation(theta, 8, statistic), Simulation(theta, 8, statistic, extra=0.2)
    v = statistic.direction.values(fit.mean, fit.scored.predictors, fit.rows, fit.scored.values)
    g, c = there.g.mean(axis=0) - here.g.mean(axis=0), there.c.mean() - here.c.mean()
    moved = fit.covariance @ fit.slope.T @ np.linalg.solve(fit.noisy_covariance, g)
    away = Simulation(np.tile(fit.mean + moved, (SIMULATIONS, 1)), 8, statistic)
    gain = least_squares(here.c, here.g)
    # The new posterior mean takes its own means of c and g out of what is left.
    own = away.c.mean() - here.c.mean() - gain @ (away.g.mean(axis=0) - here.g.mean(axis=0))
    found = (c - gain @ g - own) / 0.2
    np.testing.assert_allclose(found, sensitivity(fit, there.values, v), rtol=0.08)
