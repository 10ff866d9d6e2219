"""What real numbers decide: no share of a softmax is zero, unless a score is masked."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.tensor.special import softmax

from pymc_private.analysis import Bounds
from pymc_private.analysis.rewrites.unbounded import specialize_on_reals

LINE = Bounds(np.full(3, -np.inf), np.full(3, np.inf))
FAR = np.array([2000.0, 0.0, 1.0])
"""In doubles two shares underflow; in real numbers none is zero."""


def zeros_seen(scores):
    """How many shares are zero, for what is left of the question on the line."""
    v = pt.tensor("v", shape=(3,), dtype="float64")
    value = pt.switch(pt.eq(softmax(scores(v), axis=-1), 0.0), 1.0, 0.0 * v).sum()
    return float(specialize_on_reals(value, {v: LINE}).eval({v: FAR}, on_unused_input="ignore"))


def test_no_share_of_real_scores_is_zero():
    assert zeros_seen(lambda v: v) == 0.0
    assert zeros_seen(lambda v: 2.0 * v + 1.0) == 0.0


@pytest.mark.parametrize(
    "scores",
    [
        lambda v: pt.log(pt.maximum(v, 0.0)),
        lambda v: pt.log(pt.cast(v > 0.0, "float64")),
        lambda v: pt.log(abs(v - FAR[1])),
        lambda v: -1.0 / (v - FAR[1]) ** 2,
    ],
)
def test_a_score_that_may_be_infinite_keeps_the_question(scores):
    assert zeros_seen(scores) > 0.0


@pytest.mark.parametrize("mask", [[0.0, -np.inf, 0.0], [-np.inf, 1.0, 1.0]])
def test_a_masked_score_keeps_the_question(mask):
    assert zeros_seen(lambda v: v + np.array(mask)) > 0.0
