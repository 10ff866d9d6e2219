"""mollify: what is planned fits, a name is one law's, and what is no estimate is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pymc_private import DomainError, Incompatible, Ledger, mollify
from pymc_private.mechanisms.mollifiers.references import Box

ROWS = np.random.default_rng(0).normal(0.4, 0.5, size=(300, 1))


def ledger(epsilon: float = 10, **words: object) -> Ledger:
    return Ledger(epsilon=epsilon, **{"neighbors": "any"} | words)


@pytest.mark.parametrize("total", [(0.3, 0.01, 2), (1.0, 0.01, 17), (20.0, 0.01, 1)])
def test_a_planned_tilt_fits_the_ledger_it_was_planned_for(total):
    epsilon, delta, draws = total
    law = mollify([0.9, 0.1], [0.5, 0.5], total=total, kind="tilt")
    assert law.guarantee(draws).epsilon(delta) <= epsilon
    budget = ledger(epsilon, delta=delta, shares={"approximate": delta})
    assert len(law.sample(ledger=budget, progressbar=False).posterior.draw) == draws


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            stats.multivariate_normal([0, 0], np.eye(2)),
            stats.multivariate_normal([9, 0], np.eye(2)),
        ),
        ([stats.norm(), stats.norm()], [stats.norm(), stats.norm(1e-9)]),
        (Box([0, 0], [1, 1]), Box([0, 0], [1, 1 + 1e-9])),
    ],
)
def test_a_name_belongs_to_one_reference_to_the_last_digit(one, other):
    rows = np.random.default_rng(4).random((100, 2))
    budget = ledger()
    law = mollify(rows, one, 1.0)
    words = {"ledger": budget, "name": "pair", "progressbar": False}
    law.sample(2, **words)
    law.sample(2, **words)
    assert len(budget.entries) == 1
    with pytest.raises(Incompatible, match="belongs to another charge"):
        mollify(rows, other, 1.0).sample(2, **words)


def test_a_target_function_gives_one_number_for_each_row():
    with pytest.raises(DomainError, match="one number for each row"):
        mollify(lambda x: x**2, stats.norm(), 1.0)


def test_trees_too_need_a_reference_with_support_at_the_data():
    with pytest.raises(DomainError, match="no support"):
        mollify(ROWS - 10.0, stats.gamma(2), 1.0, estimate="trees")


@pytest.mark.parametrize("delta", [-1.0, float("nan")])
def test_a_total_for_any_window_has_a_delta_that_is_a_probability(delta):
    with pytest.raises(DomainError, match="delta"):
        mollify([0.5, 0.5], [0.5, 0.5], total=(1.0, delta, 3), window=0.3)


def test_a_column_of_text_counts_as_rows_whatever_holds_it():
    held = np.array(["a", "b", "a"], dtype=object)
    laws = [mollify(rows, {"a": 0.5, "b": 0.5}, 1.0) for rows in (held, held.tolist())]
    np.testing.assert_array_equal(laws[0].probabilities, laws[1].probabilities)
