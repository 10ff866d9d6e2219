"""The sum of T3: what is left out of it is bounded from above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.privacy import bounded_range as sums

sizes = st.integers(1, 400)
ranges = st.floats(1e-6, 20.0)
shares = st.floats(0.0, 0.999)


def every_threshold(share: float, n: int, R: float) -> tuple[sums._Thresholds, np.ndarray]:
    rows = sums._thresholds(share * n * R, n, R)
    return rows, np.arange(len(rows.level))


@given(n=sizes, R=ranges, share=shares)
def test_the_bound_that_skips_a_threshold_is_above_its_sum(n, R, share):
    rows, chosen = every_threshold(share, n, R)
    exact, bound = np.minimum(sums._threshold_sums(rows, chosen), 1.0), sums._geometric_bounds(rows)
    assert np.all(bound + sums.UNDERFLOW_MARGIN >= exact * (1 - 1e-9))


@pytest.mark.parametrize("width", [1, 5, 30])
@given(n=sizes, R=ranges, share=shares)
def test_a_short_window_only_raises_a_sum(width, n, R, share):
    rows, chosen = every_threshold(share, n, R)
    whole = sums._threshold_sums(rows, chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_window_width", lambda n: min(n, width))
        short = sums._threshold_sums(rows, chosen)
    # Both carry the rounding that `worst_delta` covers by its margin; no delta exceeds one.
    assert np.all(np.minimum(short, 1.0) >= np.minimum(whole, 1.0) * (1 - 1e-9))


@given(n=sizes, R=ranges, share=shares)
def test_the_probabilities_of_each_threshold_sum_to_one(n, R, share):
    rows, _ = every_threshold(share, n, R)
    i = np.arange(n + 1)
    exponents = rows.choose + rows.start[:, None] + (rows.level[:, None] - i) * rows.odds[:, None]
    assert np.exp(exponents).sum(axis=1) == pytest.approx(1.0, rel=1e-9)


@given(n=sizes, R=ranges, share=shares)
def test_the_maximum_is_the_largest_of_all_sums(n, R, share):
    rows, chosen = every_threshold(share, n, R)
    largest = min(1.0, sums._threshold_sums(rows, chosen).max())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "THRESHOLDS_FIRST", 1)  # however poor the first guess
        assert sums.worst_threshold_delta(share * n * R, n, R) >= largest
    assert (
        sums.worst_threshold_delta(share * n * R, n, R)
        <= largest * (1 + 1e-7) + 2 * sums.UNDERFLOW_MARGIN
    )
