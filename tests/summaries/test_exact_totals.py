"""Sums that were added up before get the noise, to the bit, of sums that are added up now."""

import numpy as np
import pytest

from pymc_private.errors import DomainError
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries.exact_totals import ExactTotals, GivenTotals, added_totals
from pymc_private.summaries.lattice import pack_symmetric
from pymc_private.summaries.noise import LatticeNoise


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_totals_of_parts_get_the_noise_of_one_sum(relation):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(90, 3))
    matrices = pack_symmetric(vectors[:, :, None] * vectors[:, None, :])
    sums = (vectors, 0.7, False, 0.3), (matrices, 0.4, True, 0.9), (vectors, 2.0, False, 0.1)

    def noise():
        return LatticeNoise(SeededRandomness.from_seed(1), relation, records_per_unit=3)

    direct, parts = noise(), []
    expected = [direct.total([rows], *words) for rows, *words in sums]
    for part in np.split(np.arange(90), [20, 20, 75]):
        exact = ExactTotals()
        assert all(not exact.total([rows[part]], *words).any() for rows, *words in sums)
        parts.append(exact.found)
    given = GivenTotals(noise(), added_totals(parts))
    for (_, *words), values in zip(sums, expected, strict=True):
        np.testing.assert_array_equal(given.total((), *words), values)
        assert given.sd(*words, len(values)) == direct.sd(*words, len(values))


def test_totals_of_no_part_are_refused():
    with pytest.raises(DomainError, match="one chunk"):
        added_totals([])
