"""The suite keeps a ledger of its false alarms."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private import audit
from pymc_private.errors import DomainError
from tests.statistics import ALLOWANCE, SESSION


def test_each_statistical_test_of_the_suite_pays_from_its_allowance():
    uniform = np.linspace(0.01, 0.99, 50)
    tests = [
        lambda: audit.cdf_envelope(uniform, lambda x: np.clip(x, 0.0, 1.0)),
        lambda: audit.mean_envelope(uniform, 0.5, bounds=(0, 1)),
        lambda: audit.proportion(25, 50, 0.5),
        lambda: audit.neighbors_agree(uniform, 0.5),
        lambda: audit.epsilon_lower_bound(uniform, uniform),
        lambda: audit.lattice_leak(uniform, uniform),
        lambda: audit.delta_lower_bound(uniform, uniform),
        lambda: audit.membership(uniform, uniform),
        lambda: audit.attack(bool, [True], [False]),
        lambda: audit.reconstruction(lambda output: 0, {0: [1.0], 1: [1.0]}),
    ]
    for test in tests:
        before = len(SESSION.spent)
        test()
        assert SESSION.spent[before:] == [audit.FALSE_ALARM]


def test_the_workers_of_a_session_share_its_allowance():
    assert SESSION.limit <= ALLOWANCE == 1e-6


def test_a_test_that_would_overdraw_the_suite_does_not_run():
    with pytest.raises(DomainError, match="allowance of false alarms is spent"):
        audit.proportion(25, 50, 0.5, false_alarm=0.01)
