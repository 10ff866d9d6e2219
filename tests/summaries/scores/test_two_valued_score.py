"""Scores of outcomes with two values in few steps: those of the model, and bits that stay."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.density.outcome_support import outcome_support
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.scores import two_valued_score as form
from pymc_private.summaries.scores.clipped_scores import ClippedScore
from pymc_private.summaries.scores.two_valued_score import link_table, two_valued_score

LINKS = {
    "logit": lambda eta: pm.math.invlogit(eta),
    "probit": lambda eta: pm.math.invprobit(eta),
    "cloglog": lambda eta: 1.0 - pm.math.exp(-pm.math.exp(eta)),
    "cauchit": lambda eta: 0.5 + pm.math.arctan(eta) / np.pi,
    "kink": lambda eta: pm.math.clip(0.5 + eta, 0.1, 0.9),
}
DOMAIN = {"X": pmp.Ball(1.0, center=[0.5, 0.0], scale=[1.0, 2.0]), "z": (-1.0, 3.0)}


@cache
def model_of(link="logit", kind="affine"):
    with pm.Model(coords={"row": range(4), "feature": ["one", "two"]}) as model:
        x = pm.Data("X", np.zeros((4, 2)), dims=("row", "feature"))
        z = pm.Data("z", np.zeros(4, dtype=int if kind == "whole" else float), dims="row")
        slopes = pm.Normal("b", 0, 1, dims="feature")
        eta = (
            pm.Normal("a", 0, 1)
            + x @ slopes
            + pm.Normal("c", 0, 1) * (z**2 if kind == "square" else z)
        )
        p = LINKS[link](eta)
        if kind == "by row":
            p = p * 0.8 + 0.1 * pm.math.invlogit(z)
        pm.Bernoulli("y", p, observed=[0, 1, 1, 0], dims="row")
    private = pmp.privatize(model, records="row", domain=DOMAIN)
    density = RecordDensity(private)
    return QuadratureModel(density, outcome_support(private, density.outcome))


def rows_of(rng, count=400):
    x = rng.normal(size=(count, 2))
    x /= np.maximum(1.0, np.sqrt((x**2).sum(axis=1)))[:, None]
    rows = {"X": x * [1.0, 2.0] + [0.5, 0.0], "z": rng.uniform(-1, 3, count)}
    return rows, rng.integers(0, 2, count) * 1.0


@pytest.mark.parametrize(
    ("link", "kind"),
    [("logit", "affine"), ("logit", "whole"), ("probit", ""), ("cloglog", ""), ("cauchit", "")],
)
def test_terms_are_those_of_the_clipped_score(link, kind):
    model, rng = model_of(link, kind), np.random.default_rng(4)
    rows, y = rows_of(rng)
    rows["z"] = np.rint(rows["z"]).astype(int) if kind == "whole" else rows["z"]
    metric = np.eye(4) + 0.2 * rng.normal(size=(4, 4))
    theta = np.array([0.3, 0.8, -0.5, 0.4])
    for bound, weight_bound in ((0.4, 0.05), (3.0, 0.4), (40.0, np.inf)):
        score = ClippedScore(model, theta, metric, bound, weight_bound)
        short = score.in_few_steps()
        assert short.two_valued is not None
        for one, two in zip(
            short.terms_and_factors(rows, y), score.terms_and_factors(rows, y), strict=True
        ):
            np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-11 * bound)


def test_scores_of_other_forms_are_left_as_they_are():
    """No affine predictor, a density that reads the row, a link with a kink, no covariate."""
    arguments = np.full(4, 0.3), np.eye(4), 1.0, 1.0
    assert two_valued_score(model_of(), *arguments) is not None
    for link, kind in (("logit", "square"), ("logit", "by row"), ("kink", "")):
        assert two_valued_score(model_of(link, kind), *arguments) is None, (link, kind)
    with pm.Model(coords={"row": range(2)}) as model:
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1), observed=[0, 1], dims="row")
    private = pmp.privatize(model, records="row")
    density = RecordDensity(private)
    alone = QuadratureModel(density, outcome_support(private, density.outcome))
    assert two_valued_score(alone, np.full(1, 0.3), np.eye(1), 1.0, 1.0) is None


def test_the_range_holds_the_predictors_of_all_rows_of_the_domain():
    rng = np.random.default_rng(1)
    for _ in range(20):
        theta = 3.0 * rng.normal(size=4)
        score = two_valued_score(model_of(), theta, np.eye(4), 1.0, 1.0)
        away = rng.normal(size=(50, 2))
        away /= np.sqrt((away**2).sum(axis=1, keepdims=True))
        surface = away * [1.0, 2.0] + [0.5, 0.0]
        corners = {"X": surface, "z": rng.choice([-1.0, 3.0], 50)}
        eta = model_of().predictors(theta, corners)[:, 0]
        link = score.link
        high = link.low + link.coefficients.shape[1] / link.rate
        assert link.low <= eta.min()
        assert eta.max() <= high
        assert high - link.low <= 4.0 * np.abs(theta[1:]).sum() * 2.0 + 1e-6


def test_polynomials_that_are_not_close_are_not_used(monkeypatch):
    def link(x):
        return 0.5 + 0.4 * np.tanh(x), 1.0 + x**2

    table = link_table(link, -3.0, 2.0)
    points = np.linspace(-3.0, 2.0, 1001)
    for one, two in zip(table.at(points), link(points), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    assert link_table(lambda x: (0.5 + 0.4 * np.abs(x) / 3, np.ones_like(x)), -3.0, 2.0) is None
    assert link_table(lambda x: (np.where(x > 1, np.nan, 0.5), x), -3.0, 2.0) is None
    assert link_table(link, -3.0, np.inf) is None
    monkeypatch.setattr(form, "CELLS", (4,))
    assert link_table(link, -3.0, 2.0) is None


def test_polynomials_beyond_their_range_are_those_of_its_ends_and_p_is_a_probability():
    table = link_table(lambda x: (1.0 / (1.0 + np.exp(-x)), np.ones_like(x)), -50.0, 40.0)
    p, _ = table.at(np.array([-1e300, -50.0, 40.0, 1e300, np.nan, -np.inf]))
    assert p[0] == p[1] == p[4] == p[5]
    np.testing.assert_allclose(p[3], p[2], atol=1e-15)
    every, _ = table.at(np.linspace(-60.0, 50.0, 100_001))
    assert (every >= 0.0).all()
    assert (every <= 1.0).all()


def test_a_term_is_a_function_of_its_record_to_the_last_bit():
    rng = np.random.default_rng(9)
    score = two_valued_score(
        model_of(), np.array([0.3, 2.0, -1.0, 0.7]), np.eye(4) + 0.1, 0.3, 0.02
    )
    rows, y = rows_of(rng, 700)
    whole = score.terms_and_factors(rows, y)
    order = rng.permutation(700)
    for some in (order[:1], order[1:300], order[300:]):
        part = score.terms_and_factors({k: v[some] for k, v in rows.items()}, y[some])
        for one, two in zip(part, whole, strict=True):
            np.testing.assert_array_equal(one, two[some])
