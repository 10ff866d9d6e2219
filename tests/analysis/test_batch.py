"""Many boxes in one walk: the answer for one box is never another's."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, batched_bounds
from pymc_private.analysis.batched_bounds import BatchedFunction

K = 3


def stairs(x):
    """Jumps where an element is zero."""
    return pt.switch(x > 0, x + 1.0, x)


def known_slopes(count):
    """Whether slopes are known on each box; the first box alone has a jump."""
    x = pt.vector("x", shape=(K,))
    lower = np.full((count, K), 1.0)
    lower[0] = -1.0
    found = BatchedFunction(stairs(x).sum(), [x], [x]).slopes(
        {x: Bounds(lower, np.full((count, K), 2.0))}
    )
    low, high = found.slopes[x]
    assert low.shape == (count, K)
    return (np.isfinite(low) & np.isfinite(high)).all(axis=1)


def turned(outputs):
    """The same graph with elements first and boxes second, as a rewrite may leave it."""
    leaf = next(v for v in ancestors(outputs) if v.name == "x")
    return outputs if leaf.ndim == 1 else [stairs(leaf.T).sum(axis=0), *outputs[1:]]


@pytest.mark.parametrize("count", [1, 2, K, 7])
def test_a_jump_is_of_its_own_box(count):
    assert known_slopes(count).tolist() == [False, *[True] * (count - 1)]


@pytest.mark.parametrize("count", [1, 2, K, 7])
def test_where_rewrites_move_the_axis_of_the_boxes_one_answer_is_for_all(count, monkeypatch):
    """With as many boxes as elements, the shapes alone do not tell."""
    monkeypatch.setattr(batched_bounds, "simplify", turned)
    assert not known_slopes(count).any()
