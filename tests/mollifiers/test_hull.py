"""Hulls: what any two mixtures differ by, and the projection onto them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from pymc_private import mollify
from pymc_private.errors import DomainError
from pymc_private.mollifiers import Box, Hull
from pymc_private.mollifiers.mollified_distributions import project_to_hull
from pymc_private.mollifiers.references import QuantileReference

LAWS = np.random.default_rng(2).dirichlet(np.full(6, 2.0), size=3)


def test_any_two_mixtures_differ_by_at_most_its_epsilon():
    hull, rng = Hull(LAWS), np.random.default_rng(0)
    weights = np.concatenate([np.eye(3), rng.dirichlet(np.full(3, 0.2), size=100)])
    mixtures = np.log(weights @ LAWS)
    worst = (mixtures.max(axis=0) - mixtures.min(axis=0)).max()
    assert worst <= hull.epsilon <= worst + 1e-10


def test_the_hull_of_randomized_response_costs_its_epsilon():
    assert Hull.randomized_response(7, 1.5).epsilon == pytest.approx(1.5, abs=1e-9)
    assert Hull.randomized_response(7, 1.5).epsilon <= 1.5


def test_the_projection_has_the_least_divergence():
    hull, rng = Hull(LAWS), np.random.default_rng(1)
    for _ in range(5):
        target = rng.dirichlet(np.ones(6))
        found = target @ np.log(project_to_hull(target, hull) @ LAWS)

        def loss(free, target=target):
            weights = np.exp(free) / np.exp(free).sum()
            return -(target @ np.log(weights @ LAWS))

        best = max(-minimize(loss, rng.normal(size=3), method="Nelder-Mead").fun for _ in range(3))
        assert found >= best - 1e-7


def test_a_hull_too_wide_is_refused_and_shrinks_to_what_is_asked():
    hull, target = Hull(LAWS), np.full(6, 1 / 6)
    with pytest.raises(DomainError, match="differ by more than epsilon"):
        mollify(target, hull, 0.5)
    law = mollify(target, hull.shrunk(0.5), 0.5)
    assert law.guarantee(2).pure_epsilon <= 1.0
    assert law.probabilities.sum() == pytest.approx(1.0)
    assert law.sample(4, random_seed=1, progressbar=False).posterior.sizes["draw"] == 4


def test_response_on_cells_draws_the_reference_inside_them():
    base = QuantileReference([stats.norm()])
    hull = Hull.randomized_response_on_cells(base, 4, 1.0)
    rows = np.random.default_rng(3).normal(2.0, 0.1, size=(100, 1))
    law = mollify(rows, hull, 1.0)
    top = math.exp(1.0) * 4 / (3 + math.exp(1.0))
    assert np.exp(law.log_ratio([2.0])) == pytest.approx([top], rel=1e-6)
    drawn = law.sample(500, random_seed=1, progressbar=False).posterior.x.values
    assert abs((drawn > stats.norm.ppf(0.75)).mean() - top / 4) < 0.15


@pytest.mark.parametrize("given", [stats.norm(), [stats.norm()], Box(-3, 3)])
def test_cells_are_those_of_any_reference_with_quantiles(given):
    hull = Hull.randomized_response_on_cells(given, 4, 1.0)
    assert repr(hull).startswith("Hull of 4 distributions on 4 cells of ")
    rows = np.random.default_rng(3).normal(2.0, 0.1, size=(100, 1))
    assert mollify(rows, hull, 1.0).log_ratio([2.0])[0] > 0.6


def test_what_is_no_hull_is_refused_by_name():
    with pytest.raises(DomainError, match="known quantiles"):
        Hull.randomized_response_on_cells(stats.gaussian_kde([0.0, 1.0, 3.0]), 4, 1.0)
    with pytest.raises(DomainError, match="on the same categories"):
        Hull([stats.norm(), stats.norm(1)])
    with pytest.raises(DomainError, match="on the same categories"):
        Hull([[0.5, 0.5], [1.0]])


def test_a_category_under_some_laws_only_is_refused():
    with pytest.raises(DomainError, match="possible under all distributions"):
        Hull([[0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(DomainError, match="no support"):
        mollify([0.0, 0.0, 1.0], Hull([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]), 1.0)
