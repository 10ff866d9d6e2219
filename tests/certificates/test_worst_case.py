"""The picture of a certificate says no more than what is proved."""

from __future__ import annotations

import pytest

from pymc_private.certificates.worst_case import WorstCaseValue, plot_worst_case


@pytest.mark.parametrize(
    ("proved", "found", "words"),
    [
        (1.0, 1.0, "exact"),
        (1.0 + 1e-9, 1.0, "less than 0.1% above"),
        (1.00911, 1.0, "at most 1.0% above"),  # rounded up
        (1.0, 0.0, "nothing found"),
    ],
)
def test_slack_is_rounded_up(proved, found, words):
    title = plot_worst_case([], proved, found, False).get_title(loc="left")
    assert words in title


def test_numbers_of_both_tell_records_and_points_apart():
    predictor = WorstCaseValue("from X, b", "pair", -1.0, 1.0, (-1.0, 1.0, 1.0, -1.0))
    ax = plot_worst_case([predictor], 2.0, 2.0, True)
    looks = [
        (tuple(dots.get_facecolor()[0]) != (1, 1, 1, 1), len(dots.get_paths()[0].vertices))
        for dots in ax.collections
    ]
    assert [filled for filled, _ in looks] == [True, False, True, False]
    assert looks[0][1] == looks[1][1] != looks[2][1] == looks[3][1]  # circles, then diamonds
    assert "circles t, diamonds t'" in ax.get_xlabel()
    assert "where the bound is attained" in ax.get_xlabel()
