"""Families solved together: each is what it is alone."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.mechanisms.tables import matching
from pymc_private.mechanisms.tables.cells import Cells
from pymc_private.mechanisms.tables.family_posterior import Rows, family_posteriors, settled
from pymc_private.mechanisms.tables.layout import noise_cells
from pymc_private.mechanisms.tables.stacks import LARGEST, ROOM, stacks

TOTAL = 900.0
LAWS = ("discrete_gaussian", "laplace")


def laws(seed: int = 0, sizes=((2, 3), (2, 4), (3, 5), (1, 2), (2, 40))) -> list[Cells]:
    """Families of several shapes, noises and priors."""
    rng = np.random.default_rng(seed)
    found = []
    for i, (rows, d) in enumerate(sizes):
        noisy = rng.integers(-20, 2 * int(TOTAL) // (rows * d), (rows, d))
        noise = noise_cells(noisy, LAWS[i % 2], (0.7, 9.0, 30.0)[i % 3], 0.0, TOTAL)
        found.append(noise.with_prior(rng.uniform(0.05, 2.0, (rows, d))))
    return found


def known(families: list[Cells]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rows = [len(each.low) for each in families]
    return [np.full(n, TOTAL / n) for n in rows], [np.linspace(40.0, 90.0, n) for n in rows]


@pytest.mark.parametrize("total", [TOTAL, None])
def test_families_matched_together_are_those_matched_alone(total):
    families = laws()
    together = matching.match_all_totals(families, *known(families), total)
    for i, each in enumerate(families):
        center, variance = (values[i] for values in known(families))
        tilt = matching.match_totals(each, center, variance, total)
        assert together[i][0] == pytest.approx(tilt, rel=1e-3, abs=1e-4 * each.most_tilt)
        assert together[i][1] == pytest.approx(each.moments(tilt)[0], rel=1e-4, abs=1e-2)
        assert together[i][1].shape == each.low.shape


def test_rows_that_are_there_stay_while_others_are_on_their_way():
    """One pass for all rows; a row's own function is nothing but rounding when it is there."""
    rng = np.random.default_rng(0)
    noisy = rng.integers(-60, 500, (300, 4))
    every = noise_cells(noisy, "discrete_gaussian", 60.0, 0.0, 1000.0).with_prior(0.1)
    tilt = matching.match_sum(every, 1000.0, 1e-2)
    exact = matching.match_sum(every, 1000.0, 1e-9)
    # A step of Newton's beyond the last one of 1e-2: what is left is of its square.
    assert np.abs(tilt - exact).max() < 2e-3 * every.most_tilt


def test_a_stack_is_no_larger_than_it_may_be():
    families = laws(sizes=[(2, 30)] * 60)
    found = list(stacks(families))
    assert 1 < len(found) < 60
    assert max(stack.laws.logs.size for stack in found) <= LARGEST
    large = stacks(laws(sizes=[(2, 1200)] * 3))
    assert [stack.members for stack in large] == [(0,), (1,), (2,)]
    one = noise_cells(np.arange(0, 400, 40)[None], "laplace", 30.0, 0.0, TOTAL)
    sizes = [len(stack.members) for stack in stacks([one] * 40, (0.1, 0.3, 1.0))]
    assert max(sizes) * 3 * one.logs.size <= LARGEST < (max(sizes) + 1) * 3 * one.logs.size


def test_a_family_that_does_not_meet_its_total_is_solved_alone(monkeypatch):
    families = laws(sizes=((2, 3), (2, 4)))
    expected = matching.match_all_totals(families, *known(families), TOTAL)
    together = matching._together

    def none_met(*asked):
        tilt, met = together(*asked)
        return 0.0 * tilt, met & False

    monkeypatch.setattr(matching, "_together", none_met)
    found = matching.match_all_totals(families, *known(families), TOTAL)
    for (_, means), (_, others) in zip(found, expected, strict=True):
        assert means == pytest.approx(others, rel=1e-2, abs=0.5)


def test_rows_of_a_stack_have_the_moments_of_their_family():
    families = laws()
    found = list(stacks(families))
    assert len(found) < len(families)
    assert sorted(i for stack in found for i in stack.members) == list(range(len(families)))
    for stack in found:
        room = np.prod(stack.laws.logs.shape[1:])
        assert room <= ROOM * min(np.prod(families[i].logs.shape[1:]) for i in stack.members)
        tilts = [np.linspace(-0.3, 0.3, len(each.low)) * each.most_tilt for each in families]
        of_stack = stack.laws.moments(stack.of(tilts))
        if len(stack.members) > 1:
            for i, times in stack.apart(stack.laws.times):
                assert times.sum() == families[i].low.size
        for which in range(3):
            for i, own in stack.apart(of_stack[which]):
                d = families[i].low.shape[1]
                alone = families[i].moments(tilts[i])[which]
                assert own[:, :d] == pytest.approx(alone, rel=1e-9, abs=1e-9)


def test_posteriors_do_not_depend_on_the_company():
    rng = np.random.default_rng(3)
    none = (np.zeros(1), np.full(1, np.inf))
    told = (np.array([400.0, 500.0]), np.full(2, 60.0))
    asked = [
        Rows((4,), rng.integers(0, 400, (1, 4)), ("laplace", 9.0, 0.0), none),
        Rows((2, 6), rng.integers(0, 200, (2, 6)), ("discrete_gaussian", 14.0, 0.0), told),
        Rows((30,), rng.integers(0, 3, (1, 30)), ("laplace", 0.5, 0.0), none),
        Rows((2, 3), rng.integers(0, 300, (2, 3)), ("discrete_gaussian", 14.0, 0.0), told),
    ]
    for total in (TOTAL, None):
        for rows, found in zip(asked, family_posteriors(asked, total, (0.1, 1.0)), strict=True):
            (alone,) = family_posteriors([rows], total, (0.1, 1.0))
            assert found.prior == alone.prior
            assert found.shape == rows.shape
            assert found.mean() == pytest.approx(alone.mean(), rel=1e-4)
            # Means that are known already are those of the laws at their tilt.
            assert found.counts().reshape(found.laws.low.shape) == pytest.approx(
                found.laws.moments(found.tilt)[0], rel=1e-6, abs=1e-6
            )


def test_nothing_to_solve_is_nothing():
    assert settled([], [], [], TOTAL) == []
    assert family_posteriors([], TOTAL, (1.0,)) == []
