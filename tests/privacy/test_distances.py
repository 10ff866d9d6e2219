"""Promises by distance: they scale with it, and never add to a promise for a replaced record."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.ledger import Ledger
from pymc_private.privacy import Guarantee
from pymc_private.privacy.neighbors import (
    describe_neighbors,
    distance_relation,
    parse_distance_relation,
)

ONE = distance_relation(1, "|y - y'|")


def promise(R: float, draws: int = 1, relation: str = ONE) -> Guarantee:
    return Guarantee.bounded_range_of(R, draws, neighbors=relation)


@settings(max_examples=20)
@given(st.floats(0.01, 100.0), st.integers(1, 20))
def test_the_range_scales_with_the_distance_and_is_rounded_up(distance, draws):
    moved = promise(0.1, draws).at(distance)
    assert moved.exact_pure >= draws * Fraction(0.1) * Fraction(distance)
    assert moved.pure_epsilon == pytest.approx(draws * 0.1 * distance, rel=1e-12)
    assert moved.at(1.0).exact_pure >= promise(0.1, draws).exact_pure
    assert parse_distance_relation(moved.neighbors)[0] == Fraction(distance)


@pytest.mark.parametrize("other", ["substitute", "add_remove"])
def test_a_promise_by_distance_never_adds_to_another_kind(other):
    with pytest.raises(Incompatible, match="do not add"):
        promise(0.1) + promise(0.1, relation=other)
    with pytest.raises(Incompatible, match="do not add"):
        promise(0.1) + promise(0.1).at(2.0)
    with pytest.raises(Incompatible, match="do not add"):
        promise(0.1) + promise(0.1, relation=distance_relation(1, "|z - z'|"))
    assert (promise(0.1) + promise(0.2)).pure_epsilon == pytest.approx(0.3)


def test_a_ledger_of_replaced_records_refuses_it_and_one_of_its_own_takes_it():
    records = Ledger(epsilon=1)
    with pytest.raises(Incompatible, match="different neighbors"):
        records.charge(promise(0.1), "draws")
    assert not records.entries
    distances = Ledger(epsilon=1, neighbors=ONE)
    distances.charge(promise(0.1), "draws")
    assert float(distances.spent[0]) == pytest.approx(0.1)
    with pytest.raises(Incompatible):
        distances.charge(promise(0.1).at(3.0), "draws")


def test_it_survives_storage_and_says_what_it_protects():
    moved = promise(0.25, 3).at(Fraction(1, 3))
    assert Guarantee.from_dict(moved.to_dict()) == moved
    assert "at most 0.333333 apart" in describe_neighbors(moved.neighbors)
    assert "|y - y'|" in repr(moved)


def test_only_ranges_of_exact_draws_can_be_read_at_another_distance():
    with pytest.raises(Incompatible, match="by distance"):
        promise(0.1, relation="substitute").at(2.0)
    with pytest.raises(Unsupported, match="bounded_range"):
        promise(0.1).within(1e-6).at(2.0)
    for distance in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(DomainError):
            promise(0.1).at(distance)


@pytest.mark.parametrize(
    "relation", ["distance", "distance <= 0 in y", "distance <= 1/0 in y", "distance <= x in y"]
)
def test_what_is_no_distance_is_no_relation(relation):
    with pytest.raises(DomainError, match="no neighbor relation"):
        promise(0.1, relation=relation)


def test_a_mu_besides_does_not_move_with_the_distance():
    """It is proved for whole records only: kept as it is, it would promise too much far away."""
    both = Guarantee.posterior_of(0.1, 0.05, 3, neighbors=ONE)
    assert both.at(10.0).events[0].mu == math.inf
    assert both.at(10.0).epsilon(1e-6) >= promise(1.0, 3).epsilon(1e-6)
