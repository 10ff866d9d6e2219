"""Draws on a public grid: exact in floating point, whatever other records hold."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.samplers import grid
from pymc_private.samplers.grid import (
    GridScores,
    draw_points,
    make_parameter_grid,
    sample_grid,
    total_scores,
)
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import SESSION

X = np.array([-1.0, -0.4, 0.1, 0.7, 1.0, 0.1])
Y = np.array([0, 0, 1, 1, 1, 1])


def logistic(x=X, y=Y):
    with pm.Model(coords={"i": range(len(y))}) as model:
        at = pm.Data("x", x, dims="i")
        a = pm.Normal("a", 0, 1)
        b = pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=a + b * at, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    return pmp.trim(private, box={"a": (-2, 2), "b": (-1, 3)})


def law(points, x=X, y=Y, power=1.0):
    """The posterior on the grid, written by hand."""
    eta = points[:, :1] + points[:, 1:] * x
    likelihood = (y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
    weight = np.exp(power * likelihood - points[:, 0] ** 2 / 2 - points[:, 1] ** 2 / 8)
    return weight / weight.sum()


def fits(points, drawn, probabilities) -> bool:
    """Whether counts on the grid follow their law: chi-square, level 1e-8."""
    SESSION.spend(1e-8)
    place = {tuple(p): k for k, p in enumerate(points)}
    counts = np.bincount([place[tuple(p)] for p in drawn], minlength=len(points))
    return stats.chisquare(counts, probabilities * len(drawn)).pvalue > 1e-8


def draw(private, points=5, draws=4000, power=Fraction(1, 2), seed=3):
    on = make_parameter_grid(private, points)
    totals = total_scores(GridScores(private, on), private)
    return on, draw_points(on, totals, power, draws, SeededRandomness.from_seed(seed))


def test_draws_follow_the_posterior_on_the_grid():
    on, drawn = draw(logistic())
    assert on.points.shape == (25, 2)
    assert fits(on.points, drawn, law(on.points, power=0.5))


def test_a_wrong_power_is_caught():
    on, drawn = draw(logistic(), power=Fraction(1, 4))
    assert not fits(on.points, drawn, law(on.points, power=0.5))


def test_scores_are_within_tau_of_the_log_likelihood():
    private = logistic()
    on = make_parameter_grid(private, 5)
    scores = GridScores(private, on)
    for x, y in itertools.product((-1.0, 0.3), (0, 1)):
        found = scores.log_likelihood((np.array(y), np.array(x)), 0) * float(on.unit)
        eta = on.points[:, 0] + on.points[:, 1] * x
        assert np.max(np.abs(found - (y * eta - np.logaddexp(0.0, eta)))) <= on.tau


def test_totals_of_neighbors_differ_by_two_records_exactly():
    one, other = logistic(), logistic(x=np.append(X[:-1], 0.123))
    on = make_parameter_grid(one, 5)
    scores = GridScores(one, on)
    first = np.array(total_scores(scores, one))
    second = np.array(total_scores(GridScores(other, on), other))
    moved = [scores.log_likelihood((np.array(1), np.array(v)), 5) for v in (X[-1], 0.123)]
    assert np.array_equal(first - second, moved[0] - moved[1])


def test_ranges_grow_by_at_most_four_tau(monkeypatch):
    # A coarse tau makes the rounding large enough to see.
    private = logistic()
    monkeypatch.setattr(grid, "TAU_BITS", 2)
    on = make_parameter_grid(private, 5)
    assert on.tau == Fraction(1, 4)
    scores = GridScores(private, on)
    records = list(itertools.product((np.array(0), np.array(1)), map(np.array, (-1.0, 0.2, 1.0))))
    values = np.array([scores.log_likelihood(record, 0) for record in records]) * float(on.unit)
    gaps = values[:, None] - values[None]
    assert np.ptp(gaps, axis=-1).max() <= pmp.certify(private).range + 4 * float(on.tau)


def test_a_record_that_intervals_do_not_know_counts_as_a_public_one(monkeypatch):
    private = logistic()
    scores = GridScores(private, make_parameter_grid(private, 5))
    true = scores._bounds

    def blurred(record, row):
        low, high = true(record, row)
        return low, high + (record[1] == 0.5)

    monkeypatch.setattr(scores, "_bounds", blurred)
    assert np.array_equal(
        scores.log_likelihood((np.array(1), np.array(0.5)), 0),
        scores.log_likelihood(scores.stand_in, 0),
    )


def test_draws_are_points_of_a_grid_that_the_data_do_not_move():
    one, other = logistic(), logistic(y=1 - Y)
    for private in (one, other):
        drawn = sample_grid(private, 20, SeededRandomness.from_seed(1), points=4)
        assert set(drawn["a"]) <= {-1.5, -0.5, 0.5, 1.5}
        assert set(drawn["b"]) <= {-0.5, 0.5, 1.5, 2.5}


def test_discrete_parameters_keep_their_values():
    with pm.Model(coords={"i": range(4)}) as model:
        k = pm.DiscreteUniform("k", 1, 6)
        pm.Bernoulli("y", p=k / 7, observed=np.array([1, 1, 1, 0]), dims="i")
    private = pmp.privatize(model, records="i")
    on, drawn = draw(private, draws=3000, power=Fraction(1))
    k = on.points[:, 0]
    assert k.tolist() == [1, 2, 3, 4, 5, 6]
    weight = (k / 7) ** 3 * (1 - k / 7)
    assert fits(on.points, drawn, weight / weight.sum())


def test_points_without_prior_mass_are_left_out():
    with pm.Model(coords={"i": range(3)}) as model:
        a = pm.Normal("a", 0, 1)
        pm.Potential("half", pm.math.switch(a > 0, 0.0, -np.inf))
        pm.Bernoulli("y", logit_p=a, observed=np.array([1, 0, 1]), dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"a": (-1, 1)})
    assert make_parameter_grid(private, 4).points.ravel().tolist() == [0.25, 0.75]


@pytest.mark.parametrize("points", [300, 10**6, 10**15])
def test_a_grid_too_fine_is_refused(points):
    with pytest.raises(pmp.errors.Unsupported, match="too many points"):
        make_parameter_grid(logistic(), points)


def test_an_open_parameter_is_refused():
    private = pmp.privatize(logistic().base, records="i", domain={"x": (-1, 1)})
    with pytest.raises(pmp.errors.Unsupported, match="two finite bounds"):
        make_parameter_grid(private)


def test_the_expected_number_of_trials_is_public():
    # The most likely point is always accepted, so K trials suffice on average: even when the
    # posterior is one point in 256.
    on = make_parameter_grid(logistic(), 16)
    totals = [0] + [-(10**12)] * (len(on.points) - 1)
    drawn = draw_points(on, totals, Fraction(1), 2, SeededRandomness.from_seed(5))
    assert np.array_equal(drawn, on.points[[0, 0]])


def test_an_empty_sum_is_the_prior():
    on = make_parameter_grid(logistic(), 5)
    drawn = draw_points(on, [0] * 25, Fraction(1), 4000, SeededRandomness.from_seed(6))
    assert fits(on.points, drawn, law(on.points, x=np.empty(0), y=np.empty(0)))
