"""Draws from a mollifier whose window is not symmetric: the trinomial curve of T15b, widened."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private import Guarantee
from pymc_private.errors import DomainError
from pymc_private.privacy import moll_delta, moll_delta_k, mollifier_affordable
from pymc_private.privacy.event import PrivacyEvent, event_from_json, event_to_json
from pymc_private.privacy.renyi import pure_to_delta

widths = st.floats(0.1, 4.0)


def ends(share: float, width: float) -> tuple[float, float]:
    """log a and log(a e^width), a = 1 / (1 + s (e^width - 1))."""
    low = -math.log1p(share * math.expm1(width))
    return low, low + width


def worst_pair(share: float, width: float) -> np.ndarray:
    """Two laws, high on disjoint sets of reference mass s and low elsewhere; s <= 1/2."""
    low, high = np.exp(ends(share, width))
    rest = (1 - 2 * share) * low
    return np.array([[share * high, share * low, rest], [share * low, share * high, rest]])


def stick(p: np.ndarray, q: np.ndarray, eps: float) -> float:
    return float(np.maximum(p - math.exp(eps) * q, 0.0).sum())


def product(law: np.ndarray, k: int) -> np.ndarray:
    return np.array([math.prod(path) for path in itertools.product(law, repeat=k)])


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
def test_k_draws_of_the_worst_pair_reach_the_curve_in_both_directions(share, k):
    p, q = (product(law, k) for law in worst_pair(share, 1.3))
    top = ends(share, 1.3)[1]
    for eps in (0.0, 0.4, 1.1, 2.9):
        claim = moll_delta_k(eps, 1.3, k, top)
        assert stick(p, q, eps) == pytest.approx(claim, rel=1e-9, abs=1e-14)
        assert stick(q, p, eps) == pytest.approx(claim, rel=1e-9, abs=1e-14)


@given(
    width=widths, share=st.floats(0.01, 0.99), eps=st.floats(0.0, 2.0),
    atoms=st.lists(st.tuples(st.floats(0.01, 1), st.booleans(), st.booleans()), min_size=3,
                   max_size=7),
)  # fmt: skip
def test_no_two_laws_in_a_window_are_further_apart(width, share, eps, atoms):
    """Extreme laws: each atom at one end of the window, but for one that takes what is left."""
    low, high = ends(share, width)
    mass, *where = (np.array(x) for x in zip(*atoms, strict=True))
    mass = mass / mass.sum()
    laws = []
    for up in where:
        law = mass * np.exp(np.where(up, high, low))
        for i in range(len(mass)):  # move one atom after the other until the sum is one
            left = 1.0 - law.sum()
            law[i] = np.clip(law[i] + left, mass[i] * math.exp(low), mass[i] * math.exp(high))
        laws.append(law)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
    claim = moll_delta(eps, width, high)
    assert max(stick(*laws, eps), stick(*laws[::-1], eps)) <= claim + 1e-12
    twice = [np.outer(law, law).ravel() for law in laws]
    assert stick(*twice, eps) <= moll_delta_k(eps, width, 2, high) + 1e-12


@given(width=widths, eps=st.floats(0.0, 3.0))
def test_it_lies_between_none_and_randomized_response_and_meets_the_symmetric_window(width, eps):
    curve = [moll_delta(eps, width, ends(share, width)[1]) for share in (0.01, 0.1, 0.5, 0.9)]
    response = pure_to_delta(width, eps)
    assert curve == sorted(curve)
    assert curve[2] == pytest.approx(response, rel=1e-9, abs=1e-15)
    assert curve[3] <= response * (1 + 1e-9) + 1e-300
    middle = moll_delta(eps, width, width / 2)
    assert middle == pytest.approx(moll_delta(eps, width), rel=1e-12, abs=1e-300)


def test_the_planted_fault_the_symmetric_curve_is_too_small_for_a_half():
    p, q = worst_pair(0.5, 1.0)
    assert stick(p, q, 0.3) > moll_delta(0.3, 1.0) + 0.05
    assert stick(p, q, 0.3) <= moll_delta(0.3, 1.0, ends(0.5, 1.0)[1])


def test_a_hundred_draws_from_a_window_for_a_twentieth_cost_a_third():
    found = [
        Guarantee.mollifier_of(1.0, 100, top=ends(share, 1.0)[1]).epsilon(1e-6)
        for share in (0.05, 0.25, 0.5)
    ]
    assert found == pytest.approx([27.671, 62.899, 83.531], abs=1e-3)
    assert Guarantee.mollifier_of(1.0, 100, top=0.9).pure_epsilon == 100


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_what_is_affordable_fits_and_hardly_more(share):
    width = mollifier_affordable(1.0, 1e-6, 40, share)
    for factor, fits in ((1.0, True), (1.001, False)):
        top = ends(share, factor * width)[1]
        spent = Guarantee.mollifier_of(factor * width, 40, top=top).epsilon(1e-6)
        assert (spent <= 1.0) == fits


def test_such_a_promise_adds_restates_and_is_stored_like_any():
    law = Guarantee.mollifier_of(1.0, 3, top=0.9, neighbors="any")
    assert (2 * law).epsilon(1e-6) <= 2 * law.epsilon(1e-6)
    assert law.restated("substitute").group(5).epsilon(1e-6) == law.epsilon(1e-6)
    both = Guarantee.jointly(law, Guarantee.pure(0.5, neighbors="any"))
    assert law.epsilon(1e-3) < both.epsilon(1e-3) <= law.epsilon(1e-3) + 0.5 + 1e-6
    atom = PrivacyEvent("window", 1.0, 0.0, 3, 0.9)
    assert event_from_json(event_to_json(atom)) == atom
    assert "log ratio at most 0.9" in str(atom)
    assert Guarantee.from_dict(law.to_dict()) == law


@pytest.mark.parametrize("top", [0.0, -0.1, 1.0, 2.0, math.nan])
def test_a_window_without_the_reference_inside_is_refused(top):
    with pytest.raises(DomainError):
        moll_delta_k(0.1, 1.0, 2, top)
    with pytest.raises(DomainError):
        Guarantee.mollifier_of(1.0, 2, top=top)
