"""R from its halves (T24): never below a search, and R itself where a half is attained twice."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import distributions, held_out
from benchmarks.zoo import BY_NAME, N
from pymc_private.certificates import half_ranges
from pymc_private.certificates.half_ranges import range_by_halves
from pymc_private.certificates.range_bound import searched_range
from pymc_private.certificates.record_bounds import RecordBounds
from pymc_private.models.record_likelihood import HALVES, Contrast, single_record

MODELS = BY_NAME | held_out.BY_NAME | distributions.BY_NAME


def halves_and_search(name: str) -> tuple[float, float]:
    """The bound of R by its halves, and what the search finds."""
    private = MODELS[name].privatize(MODELS[name].data(np.random.default_rng(1), N))
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    found = searched_range(RecordBounds(private.graph, private.sources, N), private.box)
    return range_by_halves(private, record, known=np.inf, enough=0.0), found


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["normal", "poisson", "mv student t", "student t"])
def test_no_half_is_below_a_search(name):
    bound, found = halves_and_search(name)
    assert found <= bound * (1 + 1e-12)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["beta regression", "beta"])
def test_the_halves_prove_a_range_that_both_attain(name):
    bound, found = halves_and_search(name)
    assert bound <= 1.03 * found


def test_a_half_of_one_pair_alone_is_caught(monkeypatch):
    """Planted: l(x, t) without the term that is taken from it."""
    short = (Contrast(((0, 0),), (1.0,)),)
    monkeypatch.setattr(half_ranges, "HALVES", short)
    bound, found = halves_and_search("normal")
    assert bound < found


def test_halves_add_up_to_the_contrast_of_one_record_replaced():
    """For any l the four signed terms of T1 are two of either half."""
    values = np.random.default_rng(4).normal(size=(2, 2))
    whole = values[0, 0] - values[1, 0] - values[0, 1] + values[1, 1]
    (by_record, by_point) = HALVES

    def term(contrast, swap_records, swap_points):
        pairs = zip(contrast.pairs, contrast.signs, strict=True)
        return sum(s * values[r ^ swap_records, p ^ swap_points] for (r, p), s in pairs)

    for half in (by_record, by_point):
        assert term(half, 0, 0) + term(half, 1, 1) == pytest.approx(whole)
