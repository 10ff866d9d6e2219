"""Windows: what they cost, and the minimax one by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pymc_private import mollify
from pymc_private.errors import DomainError
from pymc_private.mollifiers import Hull
from pymc_private.mollifiers.mollified_distributions import clip_to_window
from pymc_private.mollifiers.window import Window, as_window

ROWS = np.random.default_rng(0).normal(0.4, 0.5, size=(300, 1))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.99])
def test_an_asymmetric_window_is_as_wide_as_its_epsilon(share):
    window = Window.asymmetric(1.5, share)
    assert window.upper - window.lower == pytest.approx(1.5)
    assert math.exp(window.lower) == pytest.approx(1 / (1 + share * math.expm1(1.5)))
    assert not window.is_symmetric


def test_the_minimax_window_of_k_categories_is_that_of_randomized_response():
    k, epsilon = 6, 1.2
    window = Window.minimax(epsilon, 0.0, k)
    assert math.exp(window.upper) / k == pytest.approx(
        math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    )


def test_no_window_of_equal_width_does_better_for_the_worst_target():
    """Brute force over windows: the worst KL over point masses and pairs is least at minimax."""
    k, epsilon = 5, 1.0
    mass = np.full(k, 1 / k)
    targets = [np.eye(k)[0], (np.eye(k)[0] + np.eye(k)[1]) / 2, np.array([0.6, 0.1, 0.1, 0.1, 0.1])]

    def worst(window: Window) -> float:
        losses = []
        for target in targets:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(target / mass)
                weights, _ = clip_to_window(ratio, mass, window)
                terms = np.where(target > 0, target * (ratio - weights), 0.0)
            losses.append(terms.sum())
        return max(losses)

    best = worst(Window.minimax(epsilon, 0.0, k))
    others = [worst(Window.asymmetric(epsilon, s)) for s in np.linspace(0.02, 0.98, 49)]
    assert best <= min(others) + 1e-9
    assert worst(Window.symmetric(epsilon)) > best + 0.01


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 51.0, "1", True])
def test_an_epsilon_that_makes_no_window_is_refused(epsilon):
    with pytest.raises(DomainError, match="epsilon"):
        Window.symmetric(epsilon)


def test_windows_that_promise_too_much_are_refused():
    with pytest.raises(DomainError, match="wider than its epsilon"):
        Window(-1.0, 1.0, 1.5)
    with pytest.raises(DomainError, match="log ratios contains 0"):
        Window(0.0, 1.0, 1.0)
    with pytest.raises(DomainError, match="costs more"):
        as_window(1.0, Window.symmetric(2.0))
    with pytest.raises(DomainError, match="window="):
        as_window(1.0, "narrow")
    with pytest.raises(DomainError, match="share"):
        as_window(1.0, 1.0)
    with pytest.raises(DomainError, match="density ratios"):
        Window.minimax(1.0, 0.0, 0.5)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_other_windows_and_hulls_meet_a_total_as_well(delta):
    """Each by a calibration of its own: that of symmetric clips is neither's."""
    hull, total = Hull.randomized_response(4, 0.01), (1.0, delta, 20)
    narrow = mollify(ROWS, stats.norm(), total=total, window=0.05)
    assert 0.999 <= narrow.guarantee(20).epsilon(delta) <= 1.0
    assert narrow.epsilon >= mollify(ROWS, stats.norm(), total=total, kind="clip").epsilon
    chosen = mollify(ROWS, stats.norm(), total=total, window=Window.asymmetric(0.04, 0.05))
    assert chosen.epsilon == 0.04
    for law in (chosen, mollify(np.full(4, 0.25), hull, total=total)):
        assert law.guarantee(20).epsilon(delta) <= 1.0
    with pytest.raises(DomainError, match="costs more than its total"):
        mollify(ROWS, stats.norm(), total=total, window=Window.asymmetric(0.5, 0.05))
    with pytest.raises(DomainError, match="neither window= nor"):
        mollify(ROWS, stats.norm(), 1.0, kind="tilt", window=0.05)
