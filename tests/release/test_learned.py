"""What draws tell against their prior: calibrated on draws of the prior, honest about few draws."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.models import verdict
from pymc_private.models.verdict import prior_quantiles
from pymc_private.privacy import Guarantee
from pymc_private.release import learned
from pymc_private.release.allowed import PRIOR_SCORES, check_facts
from pymc_private.release.learned import learned_lines, relative_widths, what_was_learned
from pymc_private.release.release import Release

PRIORS = {
    "normal": stats.norm(3, 2), "uniform": stats.uniform(), "cauchy": stats.cauchy(),
    "gamma": stats.gamma(2),
}  # fmt: skip


def released(values, prior=PRIORS["normal"], **facts):
    """A release of draws, shape (draws, elements), under one prior."""
    table = prior.ppf(stats.norm.cdf(PRIOR_SCORES))
    quantiles = np.repeat(table[:, None], values.shape[1], axis=1).tolist()
    posterior = xr.Dataset({"b": (("chain", "draw", "k"), values[None])})
    guarantee = Guarantee.bounded_range_of(0.1, draws=len(values))
    return Release(posterior, guarantee, {"prior_quantiles": {"b": quantiles}} | facts)


@pytest.mark.parametrize("name", PRIORS)
def test_draws_of_any_prior_are_called_draws_of_the_prior(name):
    rng = np.random.default_rng(1)
    values = PRIORS[name].rvs((4000, 2), random_state=rng)
    found = what_was_learned(released(values, PRIORS[name]))
    assert abs(found.share) < 0.08  # the quantiles are joined by straight lines
    assert found.is_like_prior
    assert relative_widths(released(values, PRIORS[name]), "b") == pytest.approx([1, 1], abs=0.06)
    assert "hardly distinguishable" in learned_lines(released(values, PRIORS[name]))[0]


@pytest.mark.thin(2)
@pytest.mark.parametrize(("draws", "elements"), [(5, 1), (10, 3)])
def test_the_interval_of_the_share_holds_as_often_as_it_says(draws, elements):
    """Posteriors half as wide as their prior; elements independent of each other."""
    rng, hits = np.random.default_rng(2), 0
    for _ in range(300):
        found = what_was_learned(released(3 + rng.normal(0, 1, (draws, elements))))
        hits += found.lower <= 0.75 <= found.upper
    # 0.9 of 300 less than 4.5 standard errors; more elements may make it hold more often.
    assert hits >= 300 * learned.CONFIDENCE - 4.5 * math.sqrt(300 * 0.09)


def test_few_draws_have_no_width():
    for draws in (1, 4):
        one = released(np.linspace(0, 1, draws)[:, None], expected_share=0.6)
        assert what_was_learned(one) is None
        assert np.isnan(relative_widths(one, "b")).all()
        assert learned_lines(one) == (
            "expected before the draw: 60% of the prior variance of a parameter removed "
            f"({draws} draw{'s' * (draws > 1)} cannot show a width)",
        )


def test_draws_elsewhere_than_the_prior_are_not_called_the_prior():
    rng = np.random.default_rng(3)
    found = what_was_learned(released(3 + 2 * rng.normal(2.0, 1.0, (20, 1))))
    assert found.moved
    assert not found.is_like_prior


def test_nothing_is_told_without_public_facts_of_the_prior():
    bare = Release(
        xr.Dataset({"b": (("chain", "draw"), np.zeros((1, 9)))}),
        Guarantee.bounded_range_of(0.1, 9),
        {},
    )
    assert learned_lines(bare) == ()
    assert np.isnan(relative_widths(bare, "b")).all()


@pytest.mark.parametrize(
    "table", [[1.0], list(range(13, 0, -1)), list("abcdefghijklm"), [math.inf] * 13]
)
def test_quantiles_that_are_none_are_refused(table):
    with pytest.raises(DomainError, match="prior_quantiles"):
        check_facts({"prior_quantiles": {"b": table}})
    with pytest.raises(DomainError, match="expected_share"):
        check_facts({"expected_share": 1.2})


def normals(n=30, seed=0):
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0, shape=2)
        pm.Normal("y", mu[0], 1.0, observed=np.random.default_rng(seed).normal(size=n))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-4, 4)})


def test_quantiles_are_those_of_the_prior_on_the_region_and_read_no_data():
    table = np.array(prior_quantiles(normals(), PRIOR_SCORES)["mu"])
    assert table.shape == (13, 2)
    assert table[2:11] == pytest.approx(1 + 2 * np.array([PRIOR_SCORES[2:11]] * 2).T, abs=0.35)
    assert prior_quantiles(normals(seed=5), PRIOR_SCORES)["mu"] == table.tolist()
    boxed = pmp.trim(normals(), box={"mu": (0, 2)})
    inside = np.array(prior_quantiles(boxed, PRIOR_SCORES)["mu"])
    assert inside.min() >= 0
    assert inside.max() <= 2


def test_the_thresholds_of_plans_and_of_releases_agree():
    assert verdict.WEAK_SHARE == learned.WEAK_SHARE


@pytest.mark.audit
def test_a_release_and_its_report_say_what_was_learned():
    plan = pmp.calibrate(normals(400), epsilon=1, delta=1e-6, draws=6)
    release = pmp.sample(plan, random_seed=1, progressbar=False)
    assert release.facts["expected_share"] == plan.information
    assert "learned" in release.summary().splitlines()[1]
    text = pmp.report(release).text
    assert "of prior" in text
    assert text.index("learned") < text.index("What this means")
