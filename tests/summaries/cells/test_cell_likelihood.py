"""Likelihood of noisy counts: dense Gaussians, integrals and exact sums as the other road."""

import itertools

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special, stats

from pymc_private.errors import DomainError
from pymc_private.summaries.cells import cell_likelihood
from pymc_private.summaries.cells.cell_likelihood import (
    NoisyCells,
    cell_log_likelihood,
    symbolic_cell_log_likelihood,
)
from pymc_private.summaries.density.batched import NumpyProgram

RNG = np.random.default_rng(33)


def dense(counts, total, q, variance, multinomial=True):
    covariance = total * np.diag(q) + variance * np.eye(len(q))
    covariance -= multinomial * total * np.outer(q, q)
    return stats.multivariate_normal.logpdf(counts, total * q, covariance)


def centered(values):
    values = np.asarray(values)
    return values - values.mean()


def test_known_total_is_the_dense_normal_density():
    q = RNG.dirichlet(np.ones(6), 5)
    counts, n, variance = RNG.normal(100, 30, 6), 600, 50.0
    found = cell_log_likelihood(NoisyCells(counts[None], variance, n), q[:, None])
    assert centered(found) == pytest.approx(centered([dense(counts, n, p, variance) for p in q]))
    # Planted fault: independent counts instead of multinomial ones.
    wrong = [dense(counts, n, p, variance, multinomial=False) for p in q]
    assert abs(centered(found) - centered(wrong)).max() > 0.5


def test_unknown_shares_are_integrated_out():
    cells = NoisyCells(np.array([[30.0, 52.0, 18.0], [75.0, 60.0, 70.0]]), 36.0, 300.0)
    q = RNG.dirichlet(4 * np.ones(3), (5, 2))
    grid = np.linspace(0.0, 300.0, 1201)
    expected = [
        special.logsumexp(_plugged(cells, 0, grid, p[0]) + _plugged(cells, 1, 300.0 - grid, p[1]))
        for p in q
    ]
    found = cell_log_likelihood(cells, q)
    assert centered(found) == pytest.approx(centered(expected), abs=1e-3)


def _plugged(cells, g, totals, q, multinomial=True):
    """The normal density at some totals, its covariance at the public estimate of the total."""
    m = cells.totals[g]
    covariance = m * np.diag(q) - multinomial * m * np.outer(q, q) + cells.variance * np.eye(len(q))
    return stats.multivariate_normal.logpdf(cells.counts[g] - totals[:, None] * q, None, covariance)


def test_an_unknown_number_of_records_is_integrated_over_positive_numbers():
    cells = NoisyCells(np.array([[3.0, -4.0, 9.0]]), 25.0, None)
    q = RNG.dirichlet(np.ones(3), 5)
    grid = np.linspace(0.0, 200.0, 4001)
    expected = [special.logsumexp(_plugged(cells, 0, grid, p, multinomial=False)) for p in q]
    found = cell_log_likelihood(cells, q[:, None])
    assert centered(found) == pytest.approx(centered(expected), abs=2e-3)


@pytest.mark.parametrize("sd", [0.2, 0.8])
def test_small_noise_is_convolved_with_whole_counts(sd):
    n, noisy = 40, np.array([[2.1, 30.4, 7.3]])
    q = np.array([[0.05, 0.75, 0.2], [0.1, 0.7, 0.2], [0.02, 0.68, 0.3], [0.3, 0.3, 0.4]])
    whole = [c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n]
    noise = stats.norm.logpdf(noisy, np.array(whole), sd).sum(axis=1)
    exact = [special.logsumexp(stats.multinomial.logpmf(whole, n, p) + noise) for p in q]
    found = cell_log_likelihood(NoisyCells(noisy, sd**2, n), q[:, None])
    assert centered(found) == pytest.approx(centered(exact), abs=0.2)
    normal = [dense(noisy[0], n, p, sd**2) for p in q]  # the planted fault
    assert abs(centered(normal) - centered(exact)).max() > 0.5


def test_no_record_tells_nothing_and_one_without_noise_its_own_probability():
    q, sd = RNG.dirichlet(np.ones(3), 6), 0.03
    nothing = cell_log_likelihood(NoisyCells(RNG.normal(0, 5, (1, 3)), 25.0, 0.0), q[:, None])
    assert centered(nothing) == pytest.approx(0.0, abs=1e-9)
    one = NoisyCells(np.array([[0.0, 1.0, 0.0]]) + RNG.normal(0, sd, (1, 3)), sd**2, 1.0)
    found = centered(cell_log_likelihood(one, q[:, None]))
    assert found == pytest.approx(centered(np.log(q[:, 1])), abs=1e-6)
    assert abs(found - centered(np.log(q[:, 0]))).max() > 0.5  # the planted fault: another cell


@pytest.mark.parametrize(
    ("counts", "variance", "n"),
    [
        (np.array([[10.0, 25.0, 70.0]]), 30.0, 100.0),
        (np.array([[10.0, 25.0, 70.0]]), 30.0, None),
        (np.array([[10.0, -25.0, 7.0], [20.0, 30.0, 9.0]]), 30.0, 100.0),
        (np.array([[10.0, 25.0, 70.0]]), 0.3, 100.0),
        (np.array([[10.0, 25.0, 70.0]]), 0.3, None),
    ],
)
def test_both_forms_agree_and_have_a_gradient(counts, variance, n):
    cells = NoisyCells(counts, variance, n)
    q = RNG.dirichlet(np.ones(3), (1, len(counts)))
    variable = pt.matrix()
    value = symbolic_cell_log_likelihood(cells, variable)
    found, gradient = NumpyProgram([variable], [value, pytensor.grad(value, variable)])(q[0])
    assert found == pytest.approx(cell_log_likelihood(cells, q)[0], rel=1e-10)
    step = 1e-6 * (np.arange(3.0) - 1.0) * np.ones((len(counts), 1))
    ends = cell_log_likelihood(cells, np.concatenate([q + step, q - step]))
    assert (gradient * step).sum() == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-4, abs=1e-12)


def test_logarithms_of_the_normal_cdf_and_their_gradient_are_finite():
    x = pt.vector()
    value = cell_likelihood._log_ndtr(pt, x)
    at = np.array([-40.0, -8.0, -1.0, 0.0, 3.0, 40.0])
    found, gradient = NumpyProgram([x], [value, pytensor.grad(value.sum(), x)])(at)
    assert found == pytest.approx(special.log_ndtr(at), rel=1e-12, abs=1e-300)
    assert np.isfinite(gradient).all()


def test_totals_are_positive_and_add_up():
    totals = NoisyCells(np.array([[-9.0, 2.0], [60.0, 50.0], [1.0, 4.0]]), 36.0, 100.0).totals
    assert (totals > 0.0).all()
    assert totals.sum() == pytest.approx(100.0)


def test_counts_that_are_no_table_are_refused():
    with pytest.raises(DomainError, match="table of finite numbers"):
        NoisyCells(np.array([[np.nan, 1.0]]), 1.0, 10.0)
