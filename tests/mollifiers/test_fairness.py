"""Post-processing: whoever decides from mollified draws treats any two groups nearly alike.

Each group's features have a law of their own. A draw of each, mollified around one reference,
differs by at most epsilon between groups, and so does every decision made from it (IP, Lemma 9):
Pr[yes | A] <= e^epsilon Pr[yes | B]. With k draws it is k epsilon.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pymc_private import mollify

GROUPS = {
    "A": np.array([0.60, 0.25, 0.10, 0.05]),
    "B": np.array([0.05, 0.10, 0.25, 0.60]),
    "C": np.array([0.97, 0.01, 0.01, 0.01]),
}
REFERENCE = np.full(4, 0.25)
DECISIONS = [np.array(rule) for rule in itertools.product([0, 1], repeat=4) if any(rule)]


def least_ratio(laws: list[np.ndarray], draws: int = 1) -> float:
    """The least of Pr[yes | one group] / Pr[yes | another] over groups and all decisions."""
    joint = laws
    for _ in range(draws - 1):
        joint = [np.outer(a, b).ravel() for a, b in zip(joint, laws, strict=True)]
    rules = DECISIONS if draws == 1 else np.eye(len(joint[0]))
    rates = np.array([[law @ rule for law in joint] for rule in rules])
    return float((rates.min(axis=1) / rates.max(axis=1)).min())


@pytest.mark.parametrize("epsilon", [0.1, 0.22314355131420976, 1.0])
def test_every_decision_from_one_draw_treats_groups_within_epsilon(epsilon):
    laws = [mollify(law, REFERENCE, epsilon).probabilities for law in GROUPS.values()]
    assert least_ratio(laws) >= math.exp(-epsilon) * (1 - 1e-12)


def test_without_mollification_the_four_fifths_rule_fails_and_with_it_it_holds():
    assert least_ratio(list(GROUPS.values())) < 0.1
    epsilon = math.log(5 / 4)
    laws = [mollify(law, REFERENCE, epsilon).probabilities for law in GROUPS.values()]
    assert least_ratio(laws) >= 0.8 * (1 - 1e-12)


def test_two_draws_need_twice_the_epsilon():
    laws = [mollify(law, REFERENCE, 0.5).probabilities for law in GROUPS.values()]
    assert math.exp(-1.0) * (1 - 1e-12) <= least_ratio(laws, draws=2) < math.exp(-0.5)
