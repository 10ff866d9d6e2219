"""What one record adds to a check: bounded, centered, and a function of this record alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from pymc_private.criticism.check_statistic import check_statistic
from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.criticism.directions import OutcomesAtRows, named_direction
from pymc_private.criticism.fitted_summary import fitted_summary
from pymc_private.criticism.planned_test import planned_test
from pymc_private.errors import Unsupported
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.scores.clipped_scores import score_rows
from tests.criticism.criticized_models import (
    covariates,
    mechanism_of,
    outcomes,
    private_of,
    released_of,
)

NAMES = {
    "bernoulli": "interaction(x, z)",
    "poisson": "dispersion",
    "normal": "tails",
}
FAMILIES = ["bernoulli", "poisson", pytest.param("normal", marks=pytest.mark.audit)]
MU = 0.13


@cache
def fit_of(family):
    return fitted_summary(mechanism_of(family), released_of(family))


@cache
def planned(family, name=None):
    fit, density = fit_of(family), mechanism_of(family).model.density
    public = OutcomesAtRows(fit.scored.predictors, fit.rows, fit.scored.values)
    columns = CovariateColumns(private_of(family), density)
    direction = named_direction(name or NAMES[family], density, columns, public)
    return planned_test(fit, direction, NoiseScale(), MU)


def extreme_records(family):
    """Records inside and far outside of the domain, and no numbers."""
    rows, y = covariates(60, seed=8), outcomes(family, covariates(60, seed=8)).astype(float)
    wild = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e20, -1e20, 40.0, 0.0, 1.0]
    x, z = rows["x"].copy(), rows["z"].copy()
    x[:10], z[10:20], y[20:30] = wild, wild, wild
    x[30:40], y[30:40] = wild, wild[::-1]
    x[40:42], z[40:42] = [1.0, -1.0], [1.0, -1.0]
    return {"x": x, "z": z}, y


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_record_adds_more_than_the_bound(family):
    statistic = planned(family).statistic
    rows, y = extreme_records(family)
    terms = statistic.terms(rows, y)
    assert np.isfinite(terms).all()
    assert np.abs(terms).max() <= statistic.bound
    # The bound binds: without it the same records add far more.
    unclipped = replace(statistic, bound=1e6 * statistic.bound).terms(rows, y)
    assert np.abs(unclipped).max() > 3 * statistic.bound


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_term_is_a_function_of_its_record_to_the_last_bit(family):
    statistic = planned(family).statistic
    rows, y = extreme_records(family)
    terms = statistic.terms(rows, y)
    order = np.random.default_rng(0).permutation(len(y))
    moved = statistic.terms({k: v[order] for k, v in rows.items()}, y[order])
    assert np.array_equal(moved, terms[order])
    others = {k: np.concatenate([v[:30], v[:30]]) for k, v in rows.items()}
    assert np.array_equal(statistic.terms(others, np.tile(y[:30], 2))[:30], terms[:30])


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_terms_have_mean_zero_whatever_the_covariates(family):
    """At rows that are not those of the reference, corners of the domain among them."""
    test = planned(family)
    statistic = test.statistic
    rows = covariates(40, seed=11)
    rows["x"][:4], rows["z"][:4] = [1, 1, -1, -1], [1, -1, 1, -1]
    scored = score_rows(statistic.model, statistic.theta, rows)
    values = np.concatenate(
        [
            statistic.terms(rows, scored.values[:, q])[:, None]
            for q in range(scored.values.shape[1])
        ],
        axis=1,
    )
    means = (scored.mass * values).sum(axis=1)
    assert np.abs(means).max() < 1e-8 * statistic.bound
    np.testing.assert_allclose(values, statistic.at(scored), atol=1e-12 * statistic.bound)
    # A statistic that is clipped around zero and not around its center has another mean.
    uncentered = np.clip(values + 0.05 * statistic.bound, -statistic.bound, statistic.bound)
    assert np.abs((scored.mass * uncentered).sum(axis=1)).max() > 1e-3 * statistic.bound


def test_noise_is_twice_the_bound_and_once_under_add_remove():
    test = planned("poisson")
    assert test.noise_sd == pytest.approx(2 * test.statistic.bound / MU, rel=1e-6)
    alone = NoiseScale("add_remove").sd(test.statistic.bound, False, MU, 1)
    assert alone == pytest.approx(test.statistic.bound / MU, rel=1e-6)


def test_a_score_that_the_model_explains_is_refused():
    """The slope of x is a parameter of the model."""
    fit = fit_of("bernoulli")

    def values(theta, predictors, rows, y):
        return fit.model.scores(predictors, rows, y)[:, :, 0] * rows["x"][:, None]

    direction = SimpleNamespace(name="slope of x", unit="", values=values)
    with pytest.raises(Unsupported, match="own parameters explain"):
        check_statistic(fit, direction, lambda bound: 1.0)
