"""Cells of the linear predictor and of F: points of simplexes with equal means under the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pymc_private.criticism.pit_cells import (
    bin_shares,
    contrast_weights,
    packed_diagonals,
    pit_of,
)
from pymc_private.criticism.planned_cells import planned_cells
from pymc_private.summaries.density.outcome_nodes import outcome_nodes
from pymc_private.summaries.density.outcome_support import OutcomeSupport
from pymc_private.summaries.lattice import unpack_symmetric
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.scores.clipped_scores import score_rows
from tests.criticism.criticized_models import covariates, mechanism_of, outcomes
from tests.criticism.test_check_statistic import extreme_records, fit_of

FAMILIES = ["bernoulli", "poisson", pytest.param("normal", marks=pytest.mark.audit)]


def planned(family):
    model = mechanism_of(family).model
    continuous = model.support.kind == "continuous"
    return planned_cells(fit_of(family), model.density, continuous, NoiseScale(), mu=0.24)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_record_adds_a_point_of_a_simplex_in_one_block(family):
    pit = planned(family).pit
    terms = pit.terms(*extreme_records(family))
    matrices = unpack_symmetric(terms)
    diagonals = np.einsum("nii->ni", matrices)
    assert np.array_equal(packed_diagonals(diagonals), terms)  # nothing off the diagonal
    assert (diagonals >= 0.0).all()
    assert np.isin(diagonals.sum(axis=1).round(12), [0.0, 1.0]).all()
    assert (np.linalg.norm(terms, axis=1) <= 1.0 + 1e-12).all()
    blocks = (diagonals.reshape(-1, pit.bins, pit.size).sum(axis=2) > 0.0).sum(axis=1)
    assert blocks.max() == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cell_is_a_function_of_its_record_to_the_last_bit(family):
    pit, (rows, y) = planned(family).pit, extreme_records(family)
    order = np.random.default_rng(0).permutation(len(y))
    moved = pit.terms({k: v[order] for k, v in rows.items()}, y[order])
    assert np.array_equal(moved, pit.terms(rows, y)[order])


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_every_bin_of_the_transform_has_the_same_mean_whatever_the_covariates(family):
    pit = planned(family).pit
    rows = covariates(20, seed=12)
    rows["x"][:2], rows["z"][:2] = [1.0, -1.0], [-1.0, 1.0]
    scored = score_rows(pit.model, pit.theta, rows)
    mean = np.zeros((20, pit.bins, pit.size))
    seen = np.zeros((20, 0))
    for q in range(scored.values.shape[1]):
        y, weight = scored.values[:, q], scored.mass[:, q].copy()
        weight[(seen == y[:, None]).any(axis=1)] = 0.0  # a value that came already
        every = np.where(scored.values == y[:, None], scored.mass, 0.0).sum(axis=1)
        weight = np.where(weight > 0.0, every, 0.0)
        seen = np.column_stack([seen, y])
        counts = unpack_symmetric(pit.terms(rows, y))
        mean += weight[:, None, None] * np.einsum("nii->ni", counts).reshape(mean.shape)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0 / pit.size, atol=1e-9)


def test_the_transform_is_the_distribution_function():
    rows, pit = covariates(500, seed=9), planned("poisson").pit
    scored, y = score_rows(pit.model, pit.theta, rows), outcomes("poisson", rows, seed=10)
    low, high = pit_of(scored.values, scored.mass, y)
    mean = np.exp(scored.predictors[:, 0])
    np.testing.assert_allclose(low, stats.poisson.cdf(y - 1, mean), atol=1e-8)
    np.testing.assert_allclose(high, stats.poisson.cdf(y, mean), atol=1e-8)


@pytest.mark.parametrize(
    "law", [stats.norm(0.3, 0.7), stats.t(4), stats.gamma(2), stats.beta(2, 5)]
)
def test_between_nodes_the_distribution_function_is_interpolated(law):
    lower, upper = law.support()
    y = law.rvs(2000, random_state=1)
    ends = tuple(np.clip(law.support(), -50, 50))
    support = OutcomeSupport("continuous", lower=lower, upper=upper, domain=ends)
    nodes = outcome_nodes(law.logpdf, support, rows=len(y))
    low, high = pit_of(nodes.clipped, nodes.mass, y)
    assert np.array_equal(low, high)
    assert np.abs(low - law.cdf(y)).max() < 4e-3


def test_shares_of_intervals():
    found = bin_shares(np.array([0.1, 0.25, 0.3, 0.0]), np.array([0.6, 0.25, 0.3, 1.0]), 4)
    wanted = [[0.3, 0.5, 0.2, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0.25] * 4]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_contrasts_are_orthonormal_and_free_of_the_size_of_bins():
    every = [contrast_weights(4, 8, d) for d in ((2, 1), (0, 2), (1, 2), (0, 3), (0, 4))]
    gram = [[float((a * b).sum()) for b in every] for a in every]
    np.testing.assert_allclose(gram, np.eye(len(every)), atol=1e-12)
    assert np.abs([a.sum(axis=1) for a in every]).max() < 1e-12


def test_dispersion_is_seen_as_spread_and_not_where_there_is_none():
    part, rows = planned("poisson"), covariates(2000, seed=20)
    z = {}
    for family in ("poisson", "negative binomial"):
        y = outcomes(family, rows, seed=21).astype(float)
        counts = part.pit.counts(part.pit.terms(rows, y).sum(axis=0))
        z[family] = {
            forecast.name: (number - forecast.null.mean) / forecast.null.variance**0.5
            for forecast, number in zip(part.forecasts, part.numbers(counts), strict=True)
        }
    assert z["negative binomial"]["cells: spread"] > 8
    assert max(map(abs, z["poisson"].values())) < 4
