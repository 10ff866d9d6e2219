"""Labels of groups: what is refused before a charge, rows by group, and labels that are changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, NotInformative
from pymc_private.summaries.scores.clipped_scores import ClippedScore, score_rows
from pymc_private.summaries.scores.group_labels import (
    predicted_error,
    refuse_tiny_groups,
    small_group_cautions,
)
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.reference_levels import RowsPerLevel
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism

GROUPS, RECORDS, MU = 5, 400, 1.0
SHARES = np.array([0.5, 0.2, 0.15, 0.1, 0.05])


def hierarchy(labels: np.ndarray, domain: Any = None, **scale: Any) -> pmp.PrivateModel:
    """Give a Poisson regression with effects of groups; labels are public without a domain."""
    rng = np.random.default_rng(1)
    with pm.Model(coords={"row": np.arange(RECORDS), "group": np.arange(GROUPS)}) as model:
        sd = pm.Gamma("sd", **scale) if scale else pm.LogNormal("sd", -0.7, 0.5)
        effect = pm.Normal("effect", 0, sd, dims="group")
        group = pm.Data("g", labels, dims="row")
        x = pm.Data("x", rng.uniform(-1, 1, RECORDS), dims="row")
        rate = pm.math.exp(effect[group] + pm.Normal("slope") * x)
        pm.Poisson("y", rate, observed=rng.poisson(1.0, RECORDS), dims="row")
    public = ["g"] if domain is None else []
    known = {} if domain is None else {"g": domain}
    return pmp.privatize(
        model, records="row", domain={"x": (-1.0, 1.0), "y": (0, 50)} | known, public=public
    )


def private_labels() -> pmp.PrivateModel:
    """Give the model with private labels of equal shares."""
    return hierarchy(np.arange(RECORDS) % GROUPS, pmp.Categories(range(GROUPS)))


@pytest.fixture(scope="module")
def mechanism() -> ScoreMechanism:
    """Give the scores of a hierarchy with private labels."""
    return score_mechanism(private_labels(), MU)


def test_every_group_has_as_many_rows_in_the_reference(mechanism):
    for reference in (mechanism.design.large, mechanism.design.small):
        counts = np.unique(reference.rows["g"], return_counts=True)[1]
        assert len(counts) == GROUPS
        assert set(counts) == {counts[0]}
        for level in range(GROUPS):  # spread over the domain in each group
            mine = np.sort(reference.rows["x"][reference.rows["g"] == level])
            np.testing.assert_allclose(mine, np.linspace(-1, 1, len(mine)), atol=2.1 / len(mine))


def test_public_labels_have_their_own_shares_in_the_reference():
    labels = np.repeat(np.arange(GROUPS), (SHARES * RECORDS).astype(int))
    design = score_mechanism(hierarchy(labels), MU).design
    (name,) = set(design.large.rows) - {"x"}
    for reference in (design.large, design.small):
        found = [reference.weights[reference.rows[name] == k].sum() for k in range(GROUPS)]
        np.testing.assert_allclose(found, SHARES)


@pytest.mark.parametrize(("levels", "rows"), [(5, 32), (30, 8), (85, 8), (500, 2)])
def test_groups_share_the_rows_that_can_be_afforded(levels, rows):
    assert RowsPerLevel(128, least=8, most=1024).of(levels) == rows


@pytest.mark.parametrize("y", [0.0, 1.0, 50.0])
def test_a_record_that_changes_its_label_moves_sums_by_no_more_than_their_sensitivity(mechanism, y):
    """Terms of extreme records at all labels, in the metric of a release: 2 C, and root 2 K."""
    theta = mechanism.design.prior.mean + 0.5
    rows = {"g": np.arange(GROUPS).repeat(2), "x": np.tile([-1.0, 1.0], GROUPS)}
    scored = mechanism_score(mechanism, theta)
    terms = scored.terms(rows, np.full(2 * GROUPS, y))
    curvature = matrices_of(scored.curvature_factors(rows))
    moments = mechanism.design.moments
    moved = moments.terms(rows)
    assert np.linalg.norm(terms, axis=1).max() <= scored.bound * (1 + 1e-9)
    for i in range(2 * GROUPS):
        for j in range(i):
            assert np.linalg.norm(terms[i] - terms[j]) <= 2 * scored.bound
            gap = np.linalg.norm(curvature[i] - curvature[j])
            assert gap <= np.sqrt(2) * scored.weight_bound * (1 + 1e-9)
            assert np.linalg.norm(moved[i] - moved[j]) <= np.sqrt(2) * moments.bound * (1 + 1e-9)
    assert np.linalg.norm(terms[0] - terms[2]) > 0.0  # the label matters


def mechanism_score(mechanism: ScoreMechanism, theta: np.ndarray) -> Any:
    """Give a clipped score at theta whose bounds clip many records."""
    design = mechanism.design
    scored = score_rows(mechanism.model, theta, design.large.rows)
    metric, _ = scored.metric(design.large.weights, design.structure)
    return ClippedScore(mechanism.model, theta, metric, 0.8, 1.2)


def matrices_of(factors: np.ndarray) -> np.ndarray:
    """Give the sum of f_j f_j' of each row."""
    return np.swapaxes(factors, 1, 2) @ factors


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (pmp.Categories(range(GROUPS + 2)), "declared labels 5, 6 for an array of length 5"),
        (pmp.Interval(0, GROUPS - 1), "is a position in an array of parameters"),
    ],
)
def test_labels_that_do_not_fit_their_array_are_refused(domain, message):
    private = hierarchy(np.arange(RECORDS) % GROUPS, domain)
    with pytest.raises(DomainError, match=message):
        score_mechanism(private, MU)


def test_public_groups_without_a_record_are_named():
    with pytest.raises(DomainError, match="no record in group 3 of"):
        score_mechanism(hierarchy(np.array([0, 1, 2, 4])[np.arange(RECORDS) % 4]), MU)


def test_groups_of_few_records_are_refused_by_predicted_error():
    assert predicted_error(25, 2500, 0.2) == pytest.approx(1.0)
    refuse_tiny_groups(30, 3000, 0.2367)
    assert small_group_cautions(30, 3000, 0.2367) == []
    (caution,) = small_group_cautions(86, 900, 0.2367)
    assert "small groups" in caution.text
    assert "TOO NARROW" in caution.text
    with pytest.raises(NotInformative, match="too small for this budget"):
        refuse_tiny_groups(600, 3000, 0.2367)
    with pytest.raises(NotInformative, match="two records or more"):
        refuse_tiny_groups(600, 1000, 5.0)


def test_a_scale_whose_prior_sits_at_zero_is_named_before_the_charge():
    labels = np.arange(RECORDS) % GROUPS
    known = pmp.Categories(range(GROUPS))
    near = score_mechanism(hierarchy(labels, known, alpha=0.3, beta=1.0), MU)
    assert any("the prior of sd is near zero" in c.text for c in near.cautions())


def test_a_scale_that_keeps_away_from_zero_is_not(mechanism):
    assert not any("near zero" in c.text for c in mechanism.cautions())
