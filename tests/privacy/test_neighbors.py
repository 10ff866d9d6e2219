"""Which change of the data a promise hides."""

from __future__ import annotations

import pytest

from pymc_private import Guarantee
from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.neighbors import (
    ADD_REMOVE,
    ANY,
    SUBSTITUTE,
    check_neighbors,
    describe_neighbors,
)


def test_the_number_of_records_is_public_under_substitution_only():
    assert "number of records is public" in describe_neighbors(SUBSTITUTE)
    assert "number of records is protected" in describe_neighbors(ADD_REMOVE)


@pytest.mark.parametrize("neighbors", ["replace", "", None, ["substitute"]])
def test_an_unknown_relation_is_refused_with_the_known_ones(neighbors):
    for ask in (check_neighbors, describe_neighbors):
        with pytest.raises(DomainError, match="substitute, add_remove"):
            ask(neighbors)


def test_bounds_per_record_promise_nothing_about_whole_data_sets():
    for make in (
        lambda: Guarantee.dirichlet_of(1.0, 1.0, neighbors=ANY),
        lambda: Guarantee.noisy_counts_of(3, 1.0, neighbors=ANY),
    ):
        with pytest.raises(DomainError, match="guarantees nothing about whole data sets"):
            make()


def test_a_promise_about_any_two_data_sets_is_restated_for_records_and_never_back():
    whole = Guarantee.mollifier_of(0.5, neighbors=ANY)
    for neighbors in (SUBSTITUTE, ADD_REMOVE):
        record = whole.restated(neighbors)
        assert (record.neighbors, record.events) == (neighbors, whole.events)
        with pytest.raises(Incompatible, match="says nothing of another relation"):
            record.restated(ANY)
    tilt = Guarantee.bounded_range_of(0.5, neighbors=ANY)
    assert tilt.group(100) == tilt
