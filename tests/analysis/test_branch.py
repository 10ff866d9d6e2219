"""The maximum of a function is never above the bound that branch and bound proves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.analysis.branch_and_bound import BoxEnclosure, Effort, maximize


class Waves:
    """sum_j a_j sin(w_j x_j + b_j) - c x_0 x_1, plus a step of a whole coordinate."""

    def __init__(self, rng, slack=0.0):
        self.a, self.w, self.b = (
            rng.uniform(0.2, 2, 3),
            rng.uniform(0.5, 4, 3),
            rng.uniform(0, 6, 3),
        )
        self.steps = rng.uniform(-2, 2, 4)
        self.slack = slack
        self.smooth = np.array([True, True, True, False])
        self.whole = np.array([False, False, False, True])

    def at(self, points):
        smooth = (self.a * np.sin(self.w * points[:, :3] + self.b)).sum(axis=1)
        return smooth - points[:, 0] * points[:, 1] + self.steps[points[:, 3].astype(int)]

    def tighten(self, lower, upper):
        return lower, upper, np.ones(len(lower), dtype=bool)

    def enclose(self, lower, upper):
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        steep = self.a * self.w
        low, high = np.zeros(lower.shape), np.zeros(lower.shape)
        low[:, :3], high[:, :3] = -steep, steep
        for j, other in ((0, 1), (1, 0)):
            low[:, j] -= upper[:, other]
            high[:, j] -= lower[:, other]
        ends = [
            [self.steps[int(a) : int(b) + 1] for a, b in zip(lower[:, 3], upper[:, 3], strict=True)]
        ][0]
        top = np.array([part.max() for part in ends])
        blur = top - np.array([part.min() for part in ends])
        middle[:, 3] = 0
        center = self.at(middle) - self.steps[0] + top
        reach = (np.maximum(abs(low), abs(high)) * half)[:, :3].sum(axis=1)
        return BoxEnclosure(center + reach - self.slack, low, high, blur)

    def attained(self, points):
        return self.at(points)


LOWER, UPPER = np.array([[-1.0, -1, -1, 0]]), np.array([[2.0, 1, 1, 3]])


def solved(objective, goal=0.01, units=400.0, **rest):
    return maximize(objective, LOWER, UPPER, goal=lambda effort: goal, effort=Effort(units), **rest)


def sampled(objective, rng):
    points = rng.uniform(LOWER, UPPER, (4000, 4))
    points[::4, :3] = np.where(rng.random((1000, 3)) < 0.5, LOWER[0, :3], UPPER[0, :3])
    points[:, 3] = rng.integers(0, 4, 4000)
    return float(objective.at(points).max())


@given(seed=st.integers(0, 2**32 - 1))
def test_no_value_lies_above_the_bound(seed):
    rng = np.random.default_rng(seed)
    objective = Waves(rng)
    bracket = solved(objective)
    assert max(sampled(objective, rng), 0.0) <= bracket.upper + 1e-9
    assert bracket.lower <= bracket.upper


@given(seed=st.integers(0, 2**32 - 1))
def test_the_value_found_is_attained_at_its_point(seed):
    objective = Waves(np.random.default_rng(seed))
    bracket = solved(objective)
    if bracket.point is not None:
        assert objective.at(bracket.point[None])[0] == bracket.lower


@given(seed=st.integers(0, 2**32 - 1))
def test_the_gap_is_closed_to_the_goal(seed):
    bracket = solved(Waves(np.random.default_rng(seed)), units=4000.0)
    assert bracket.upper <= max(bracket.lower * 1.01, 1e-9) + 1e-9


def test_a_bound_that_is_a_little_too_low_is_caught():
    escaped = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        objective = Waves(rng, slack=0.5)
        bracket = solved(objective, goal=0.0, units=4000.0)
        # The search inside finds the value that contradicts the bound, and says so by lower.
        escaped += bracket.upper <= bracket.lower
    assert escaped > 10


def test_out_of_effort_the_bound_so_far_still_holds():
    rng = np.random.default_rng(3)
    objective = Waves(rng)
    little, much = solved(objective, units=1.0), solved(objective, units=4000.0)
    assert little.boxes < much.boxes
    assert little.upper >= much.upper >= sampled(objective, rng) - 1e-9


def test_a_bound_that_is_known_already_ends_the_search_early():
    objective = Waves(np.random.default_rng(5))
    full = solved(objective, units=4000.0)
    known = solved(objective, units=4000.0, known=full.lower)
    assert known.upper == full.lower
    assert known.boxes < full.boxes


@pytest.mark.parametrize("boxes", [1, 7])
def test_several_roots_are_one_problem(boxes):
    objective = Waves(np.random.default_rng(8))
    edges = np.linspace(LOWER[0, 0], UPPER[0, 0], boxes + 1)
    lower, upper = LOWER.repeat(boxes, axis=0), UPPER.repeat(boxes, axis=0)
    lower[:, 0], upper[:, 0] = edges[:-1], edges[1:]
    bracket = maximize(objective, lower, upper, goal=lambda e: 0.01, effort=Effort(4000.0))
    assert bracket.upper == pytest.approx(solved(objective, units=4000.0).upper, rel=0.02)


def test_progress_is_told():
    told = []
    solved(
        Waves(np.random.default_rng(1)), progress=lambda bound, found: told.append((bound, found))
    )
    assert told
    assert all(bound >= found for bound, found in told)
