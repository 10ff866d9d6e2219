"""Families solved together: each is what it is alone."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.counts.denoise import saddlepoint
from pymc_private.counts.denoise.cell_distributions import CellDistributions
from pymc_private.counts.denoise.cell_grid import (
    CountNoise,
    ObservedCounts,
    cell_distributions,
    noise_distributions,
)
from pymc_private.counts.denoise.posterior import (
    NoisyRows,
    family_posteriors,
    posteriors_given_priors,
)
from pymc_private.counts.denoise.saddlepoint import MAX_PADDING, MAX_STACK_NUMBERS, make_stacks

TOTAL = 900.0
LAWS = ("discrete_gaussian", "laplace")


def families(
    seed: int = 0, sizes=((2, 3), (2, 4), (3, 5), (1, 2), (2, 40), (2, 3), (2, 6))
) -> tuple[list[ObservedCounts], list[np.ndarray]]:
    """Noisy counts of several shapes, laws and scales; and priors."""
    rng = np.random.default_rng(seed)
    found, priors = [], []
    for i, (rows, d) in enumerate(sizes):
        noisy = rng.integers(-20, 2 * int(TOTAL) // (rows * d), (rows, d))
        noise = CountNoise(LAWS[i % 2], (9.0, 30.0, 0.7)[i // 2 % 3], 0.0)
        found.append(ObservedCounts(noisy, noise, TOTAL))
        priors.append(rng.uniform(0.05, 2.0, (rows, d)))
    return found, priors


def known(asked: list[ObservedCounts]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rows = [len(each.noisy) for each in asked]
    return [np.full(n, TOTAL / n) for n in rows], [np.linspace(40.0, 90.0, n) for n in rows]


def laws(asked: list[ObservedCounts], priors: list[np.ndarray]) -> list[CellDistributions]:
    """Each by itself."""
    return [noise_distributions(one).with_prior(a) for one, a in zip(asked, priors, strict=True)]


def together(asked: list[ObservedCounts], priors: list[np.ndarray], total: float | None) -> dict:
    """Tilts and means of each, solved in stacks."""
    found = {}
    for stack in make_stacks(asked):
        stack = stack.with_priors(priors)
        sizes = stack.concatenate([a.sum(axis=1) for a in priors])
        told = *map(stack.concatenate, known(asked)), total, sizes
        tilt, means = saddlepoint.match_stack_total(stack, *told)
        pairs = zip(stack.split(tilt), stack.split(means), strict=True)
        found |= {i: (own, each) for (i, own), (_, each) in pairs}
    return found


@pytest.mark.parametrize("total", [TOTAL, None])
def test_families_matched_together_are_those_matched_alone(total):
    asked, priors = families()
    found = together(asked, priors, total)
    for i, each in enumerate(laws(asked, priors)):
        center, variance = (values[i] for values in known(asked))
        tilt = saddlepoint.match_total(each, center, variance, total, priors[i].sum(axis=1))
        near = 1e-4 * each.max_tilt.max()
        assert found[i][0] == pytest.approx(tilt, rel=1e-3, abs=near)
        assert found[i][1] == pytest.approx(each.moments(tilt)[0], rel=1e-4, abs=1e-2)
        assert found[i][1].shape == each.low.shape


def test_rows_that_are_there_stay_while_others_are_on_their_way():
    """One pass for all rows; a row's own function is nothing but rounding when it is there."""
    rng = np.random.default_rng(0)
    noisy = rng.integers(-60, 500, (300, 4))
    every = cell_distributions(noisy, "discrete_gaussian", 60.0, 0.1, 0.0, 1000.0)
    tilt = saddlepoint.match_row_sums(every, 1000.0, 1e-2)
    exact = saddlepoint.match_row_sums(every, 1000.0, 1e-9)
    # A step of Newton's beyond the last one of 1e-2: what is left is of its square.
    assert np.abs(tilt - exact).max() < 2e-3 * every.max_tilt[0]


def test_a_stack_is_no_larger_than_it_may_be():
    found = list(make_stacks(families(sizes=[(2, 30)] * 60)[0]))
    assert 1 < len(found) < 60
    assert max(stack.cells.log_weights.size for stack in found) <= MAX_STACK_NUMBERS
    large = make_stacks(families(sizes=[(2, 1200)] * 3)[0])
    assert sorted(stack.members for stack in large) == [(0,), (1,), (2,)]
    one = ObservedCounts(np.arange(0, 400, 40)[None], CountNoise("laplace", 30.0, 0.0), TOTAL)
    size = 3 * noise_distributions(one).log_weights.size
    many = max(len(stack.members) for stack in make_stacks([one] * 90, 3))
    assert many * size <= MAX_STACK_NUMBERS < (many + 1) * size


def test_a_family_that_does_not_meet_its_total_is_solved_alone(monkeypatch):
    asked, priors = families(sizes=((3, 6), (2, 6), (3, 4)))
    expected, at_once = together(asked, priors, TOTAL), saddlepoint._joint_newton

    def none_met(*given):
        tilt, means, met = at_once(*given)
        return 0.0 * tilt, 0.0 * means, met & False

    monkeypatch.setattr(saddlepoint, "_joint_newton", none_met)
    found = together(asked, priors, TOTAL)
    for i in (0, 1, 2):
        assert found[i][1] == pytest.approx(expected[i][1], rel=1e-2, abs=0.5)


def test_rows_of_a_stack_have_the_moments_of_their_family():
    asked, priors = families()
    alone, found = laws(asked, priors), [s.with_priors(priors) for s in make_stacks(asked)]
    assert len(found) < len(asked)
    assert sorted(i for stack in found for i in stack.members) == list(range(len(asked)))
    for stack in found:
        room = np.prod(stack.cells.log_weights.shape[1:])
        assert room <= MAX_PADDING * min(
            np.prod(alone[i].log_weights.shape[1:]) for i in stack.members
        )
        tilts = [np.linspace(-0.3, 0.3, len(each.low)) * each.max_tilt for each in alone]
        of_stack = stack.cells.moments(stack.concatenate(tilts))
        for k, i in enumerate(stack.members):
            assert stack.cells.multiplicity[stack.rows(k)].sum() == asked[i].noisy.size
            assert stack.family(k).log_weights == pytest.approx(alone[i].log_weights, rel=1e-12)
        for which in range(3):
            for i, own in stack.split(of_stack[which]):
                expected = alone[i].moments(tilts[i])[which]
                assert own == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_posteriors_do_not_depend_on_the_company():
    rng = np.random.default_rng(3)
    none = (np.zeros(1), np.full(1, np.inf))
    told = (np.array([400.0, 500.0]), np.full(2, 60.0))
    asked = [
        NoisyRows((4,), rng.integers(0, 400, (1, 4)), CountNoise("laplace", 9.0, 0.0), none),
        NoisyRows(
            (2, 6), rng.integers(0, 200, (2, 6)), CountNoise("discrete_gaussian", 14.0, 0.0), told
        ),
        NoisyRows((30,), rng.integers(0, 3, (1, 30)), CountNoise("laplace", 0.5, 0.0), none),
        NoisyRows(
            (2, 3), rng.integers(0, 300, (2, 3)), CountNoise("discrete_gaussian", 14.0, 0.0), told
        ),
    ]
    for total in (TOTAL, None):
        for rows, found in zip(asked, family_posteriors(asked, total, (0.1, 1.0)), strict=True):
            (alone,) = family_posteriors([rows], total, (0.1, 1.0))
            assert found.prior == alone.prior
            assert found.shape == rows.shape
            assert found.mean() == pytest.approx(alone.mean(), rel=1e-4)
            # Means that are known already are those of the laws at their tilt.
            assert found.counts().reshape(found.cells.low.shape) == pytest.approx(
                found.cells.moments(found.tilt)[0], rel=1e-6, abs=1e-6
            )


def test_nothing_to_solve_is_nothing():
    assert posteriors_given_priors([], [], TOTAL) == []
    assert family_posteriors([], TOTAL, (1.0,)) == []


def test_a_wider_window_beside_a_family_is_not_its_own():
    none = (np.zeros(1), np.full(1, np.inf))
    one = NoisyRows(
        (5,), np.array([[319, -46, -108, -285, 52]]), CountNoise("laplace", 100.0, 0.0), none
    )
    two = NoisyRows((5,), np.array([[12, 10, 9, 11, 8]]), CountNoise("laplace", 5.0, 0.0), none)
    alone, both = (family_posteriors(asked, 50.0, (0.03,))[0] for asked in ([one], [one, two]))
    assert both.counts() == pytest.approx(alone.counts(), rel=1e-6)
