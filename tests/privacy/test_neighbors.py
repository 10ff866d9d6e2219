"""Which change of the data a promise hides."""

from __future__ import annotations

import pytest

from pymc_private.errors import DomainError
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE, check_neighbors, in_words


def test_the_number_of_records_is_public_under_substitution_only():
    assert "number of records is public" in in_words(SUBSTITUTE)
    assert "number of records is protected" in in_words(ADD_REMOVE)


@pytest.mark.parametrize("neighbors", ["replace", "", None, ["substitute"]])
def test_an_unknown_relation_is_refused_with_the_known_ones(neighbors):
    for ask in (check_neighbors, in_words):
        with pytest.raises(DomainError, match="substitute, add_remove"):
            ask(neighbors)
