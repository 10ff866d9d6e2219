"""Metrics that keep structural zeros."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.summaries.structure import pairs_read_together, structure_of
from pymc_private.summaries.symmetric import matrix_power

GROUPS, SHARED = 6, 2
SIZE = GROUPS + SHARED


def records(rng: np.random.Generator, count: int) -> np.ndarray:
    """Jacobians (N, 1, p) of records of one group each, shared parameters first."""
    found = np.zeros((count, 1, SIZE))
    found[:, 0, :SHARED] = rng.uniform(0.5, 1.5, (count, SHARED))
    found[np.arange(count), 0, SHARED + rng.integers(0, GROUPS, count)] = 1.0
    return found


@pytest.fixture
def arrow() -> tuple:
    """Give Jacobians of records, their information and its structure."""
    rows = records(np.random.default_rng(1), 200)
    information = np.einsum("nip,niq->pq", rows, rows) / 200 + 1e-3 * np.eye(SIZE)
    return rows, information, structure_of(pairs_read_together([rows]))


def test_groups_are_eliminated_before_what_all_records_share(arrow):
    *_, structure = arrow
    assert set(structure.order[:GROUPS]) == set(range(SHARED, SIZE))
    assert structure.entries == GROUPS + GROUPS * SHARED + SHARED * (SHARED + 1) // 2
    assert not structure.is_full


def test_what_a_record_adds_keeps_the_zeros_in_the_metric(arrow):
    rows, information, structure = arrow
    metric, root = structure.metric(information)
    np.testing.assert_allclose(metric @ information @ metric.T, np.eye(SIZE), atol=1e-6)
    np.testing.assert_allclose(metric @ root, np.eye(SIZE), atol=1e-6)
    for row in rows[:20]:
        vector = metric @ row[0]
        added = np.outer(vector, vector)
        np.testing.assert_array_equal(structure.known(added), added)


def test_a_symmetric_root_would_lose_them(arrow):
    rows, information, structure = arrow
    vector = matrix_power(information, -0.5) @ rows[0, 0]
    added = np.outer(vector, vector)
    assert np.abs(structure.known(added) - added).max() > 0.01


def test_parameters_that_all_meet_have_the_symmetric_root():
    structure = structure_of(np.ones((3, 3), dtype=bool))
    information = np.diag([1.0, 4.0, 9.0]) + 0.5
    assert structure.is_full
    np.testing.assert_array_equal(structure.metric(information)[0], matrix_power(information, -0.5))


def test_what_is_reached_through_later_parameters_has_no_zeros():
    """In a chain 0 - 1 - 2 - 3 the ends are eliminated first, and W mixes what lies behind them."""
    chain = np.eye(4, dtype=bool)
    chain[0, 1] = chain[1, 2] = chain[2, 3] = True
    structure = structure_of(chain)
    information = np.eye(4) * 2.0 + chain + chain.T
    metric, _ = structure.metric(information)
    for k in range(3):
        vector = metric[:, k] + metric[:, k + 1]
        assert np.abs(np.outer(vector, vector) * ~structure.pairs).max() == 0.0
