"""An allowance of false alarms is a budget: refused whole, exact, and the innermost one pays."""

from __future__ import annotations

import math
import threading

import pytest

from pymc_private.audit import Allowance, proportion
from pymc_private.errors import DomainError


def test_a_thousand_alarms_of_one_in_a_billion_are_one_in_a_million():
    allowance = Allowance(1e-6)
    for _ in range(1000):
        allowance.spend(1e-9)
    with pytest.raises(DomainError, match=r"(?s)1001 tests.*allowed: 1e-06.*smaller false_alarm"):
        allowance.spend(1e-30)


def test_an_overdraft_is_refused_whole_and_leaves_the_rest():
    allowance = Allowance(1e-6)
    allowance.spend(9e-7)
    with pytest.raises(DomainError):
        allowance.spend(2e-7)
    allowance.spend(1e-7)
    assert allowance.spent == [9e-7, 1e-7]


def test_the_innermost_open_allowance_pays():
    with Allowance(0.5) as outer, Allowance(math.inf) as inner:
        proportion(1, 3, 0.5, false_alarm=0.4)
        proportion(1, 3, 0.5, false_alarm=0.4)
    with Allowance(1.0) as later:
        proportion(1, 3, 0.5, false_alarm=0.1)
    assert (outer.spent, inner.spent, later.spent) == ([], [0.4, 0.4], [0.1])


def test_a_test_that_is_not_paid_for_does_not_look_at_the_data():
    with Allowance(1e-6), pytest.raises(DomainError, match="allowance"):
        proportion(1, 3, 0.5, false_alarm=0.1)


def test_an_allowance_is_closed_when_its_block_fails():
    with Allowance(math.inf) as outer:
        with pytest.raises(RuntimeError), Allowance(1.0):
            raise RuntimeError
        proportion(1, 3, 0.5)
    assert len(outer.spent) == 1


def test_threads_do_not_overdraw_together():
    allowance, refused = Allowance(1e-7), []

    def work():
        for _ in range(50):
            try:
                allowance.spend(1e-9)
            except DomainError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(allowance.spent), len(refused)) == (100, 100)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_an_allowance_is_positive(limit):
    with pytest.raises(DomainError, match="positive"):
        Allowance(limit)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_a_rate_is_a_probability(probability):
    with pytest.raises(DomainError, match=r"\(0, 1\)"):
        Allowance().spend(probability)
    with pytest.raises(DomainError, match=r"\(0, 1\)"):
        proportion(1, 3, 0.5, false_alarm=probability)
