"""Nodes of a person's outcomes: masses, expectations, and what they may depend on."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.summaries.persons.effect_integrals import FAMILIES, Places
from pymc_private.summaries.persons.person_nodes import pairs_for, person_nodes, tilted_mass
from pymc_private.summaries.scores.clipped_scores import clipping, score_center

RNG = np.random.default_rng(6)
N, ENDS = 8, (-np.inf, np.inf)


def setting(kind: str, width: int):
    """Give a family, predictors, places of intercepts, and entries of persons."""
    family = FAMILIES[kind]()
    parts = [RNG.normal(0, 0.6, (N, width)), np.full((N, 1), 0.7), np.full((N, family.extra), 0.8)]
    has = np.arange(width) < RNG.integers(1, width + 1, N)[:, None]
    return (
        family,
        np.concatenate(parts, axis=1),
        Places.of_intercepts(has),
        [RNG.uniform(-1, 1, (N, width, 2))],
    )


@pytest.mark.parametrize(
    ("kind", "width"), [("BernoulliRV", 4), ("BernoulliRV", 9), ("PoissonRV", 4), ("NormalRV", 4)]
)
def test_scores_have_mean_zero_and_masses_add_up_to_one(kind, width):
    family, at, places, entries = setting(kind, width)
    nodes = person_nodes(family, at, places, entries, ENDS)
    assert nodes.values.shape[:2] == nodes.mass.shape
    np.testing.assert_allclose(nodes.mass.sum(axis=1), 1.0)
    scores = family.scores(at, places, nodes.values)
    spread = np.sqrt((scores**2 * nodes.mass[..., None]).sum(axis=1))
    mean = (scores * nodes.mass[..., None]).sum(axis=1)
    assert np.median(np.abs(mean).max(axis=1) / spread.max(axis=1)) < 1e-3


def test_all_patterns_have_their_probabilities():
    family, at, places, entries = setting("BernoulliRV", 4)
    nodes = person_nodes(family, at, places, entries, ENDS)
    assert nodes.values.shape == (N, 16, 4)
    np.testing.assert_allclose(nodes.total, 1.0, atol=1e-12)
    assert (nodes.mass > 0).sum(axis=1).tolist() == (2 ** places.has.sum(axis=1)).tolist()


@pytest.mark.parametrize("kind", FAMILIES)
def test_nodes_are_a_function_of_their_person_to_the_last_bit(kind):
    family, at, places, entries = setting(kind, 8)
    whole = person_nodes(family, at, places, entries, ENDS)
    order = RNG.permutation(N)
    moved_places = Places.of_intercepts(places.has[order])
    moved = person_nodes(family, at[order], moved_places, [entries[0][order]], ENDS)
    np.testing.assert_array_equal(moved.values, whole.values[order])
    np.testing.assert_array_equal(moved.mass, whole.mass[order])
    other = person_nodes(family, at, places, [entries[0] + 0.1], ENDS)
    assert not np.array_equal(other.values, whole.values)  # the shift is the person's own


def test_what_nodes_miss_averages_out_over_persons():
    """The mean count beyond 3 over many persons, which no control variate makes exact."""
    family = FAMILIES["PoissonRV"]()
    count = 400
    at, places = (
        np.tile([0.2, 0.4, 0.7], (count, 1)),
        Places.of_intercepts(np.ones((count, 2), bool)),
    )
    nodes = person_nodes(family, at, places, [RNG.uniform(-1, 1, (count, 2))], ENDS)
    found = ((nodes.values[..., 0] > 3) * nodes.mass).sum(axis=1)
    z = RNG.standard_normal(400_000)
    truth = (RNG.poisson(np.exp(0.2 + 0.7 * z)) > 3).mean()
    assert found.mean() == pytest.approx(truth, abs=4e-3)
    assert found.std() > 1e-3


def test_masses_stay_positive_where_scores_are_wild():
    scores = RNG.standard_cauchy((5, 64, 3)) * 1e150
    scores[0, 0, 0] = np.nan
    mass = tilted_mass(scores)
    assert np.isfinite(mass).all()
    assert (mass >= 0.0).all()
    assert mass[0, 0] == 0.0


def test_more_persons_have_more_nodes_as_far_as_they_are_affordable():
    assert [pairs_for(n, 256) for n in (30, 1000, 4000, 1e6)] == [64, 128, 256, 256]
    assert pairs_for(1e6, 64) == 64


@pytest.mark.audit
def test_more_nodes_leave_clipped_scores_less_of_a_mean():
    """Skewed scores, centered by their own nodes: the mean over the distribution falls as 1 / Q."""
    family = FAMILIES["NormalRV"]()
    count, width = 3000, 2
    at = np.tile([0.0, 0.0, 0.8, 0.6], (count, 1))
    places, rng = Places.of_intercepts(np.ones((count, width), bool)), np.random.default_rng(2)
    entries = [rng.uniform(-1, 1, (count, 3))]
    unit = rng.random((count, 40, width))
    y = family.outcomes(at, places, rng.standard_normal((count, 40, 1)), unit)
    found = []
    for pairs in (8, 128):
        nodes = person_nodes(family, at, places, entries, ENDS, pairs)
        inner = np.moveaxis(family.scores(at, places, nodes.values), 2, 0)
        center = score_center(inner, nodes.mass, 1.0)
        away = np.moveaxis(family.scores(at, places, y), 2, 0) - center[:, :, None]
        psi = away * clipping(np.sqrt((away**2).sum(axis=0)), 1.0)
        found.append(psi.mean(axis=(1, 2)) / psi.std(axis=(1, 2)))
    few, many = np.abs(found).max(axis=1)
    assert many < few / 2.0
    assert many < 0.02
