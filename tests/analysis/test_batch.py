"""Many boxes in one walk: the answer for one box is never another's."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, batched_bounds
from pymc_private.analysis.batched_bounds import BatchedFunction
from pymc_private.analysis.intervals.ops import on_simplex

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


def switch_of_unknown():
    """k = 1 ? log(x - 5) : 3 x of x in [1, 2]: nothing is known of the first branch."""
    x, k = pt.dscalar("x"), pt.lscalar("k")
    value = pt.switch(pt.eq(k, 1), pt.log(x - 5.0), 3.0 * x)
    low = np.array([1.0, 1.0]), np.array([0.0, 0.0])
    high = np.array([2.0, 2.0]), np.array([0.0, 1.0])
    given = {v: Bounds(*ends) for v, ends in zip((x, k), zip(low, high, strict=True), strict=True)}
    found = BatchedFunction(value, [x, k], [x]).slopes(given).slopes[x]
    return [(float(a), float(b)) for a, b in zip(*found, strict=True)]


def test_the_slope_of_a_branch_that_is_not_taken_does_not_count():
    """Where the branch is open, nothing is known; k is no number that slopes are wanted of."""
    first, second = switch_of_unknown()
    assert first == (3.0, 3.0)
    assert second == (-np.inf, np.inf)


def test_slopes_of_the_wrong_branch_are_caught(monkeypatch):
    true = batched_bounds.pt.switch
    monkeypatch.setattr(batched_bounds.pt, "switch", lambda c, yes, no: true(c, no, yes))
    assert switch_of_unknown()[0] != (3.0, 3.0)


@pytest.mark.parametrize("lowest", [0.2, -0.2])
def test_a_row_that_may_be_negative_is_no_simplex_and_does_not_spoil_others(lowest):
    """Of 1.5 - w and w - 0.5, which sum to one, the first exceeds one where w < 0.5."""
    w = pt.dscalar("w")
    value = on_simplex(pt.stack([1.5 - w, w - 0.5]))[0]
    low, high = np.array([0.5, 0.5 + lowest]), np.array([0.9, 0.9])
    _, upper = BatchedFunction(value, [w], []).values({w: Bounds(low, high)})
    assert upper[0] == 1.0
    assert upper[1] >= 1.0 - lowest - 1e-12
    assert upper[1] <= 1.0 - lowest + 1e-12
