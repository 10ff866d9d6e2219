"""Answers from a release are free and lose no more than T16 says."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from pymc_private.errors import DomainError
from pymc_private.privacy import psaqr_loss
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release.answers import Answer, answer
from pymc_private.release.release import Release


def released(values: np.ndarray, *, private: bool = True) -> Release:
    posterior = xr.Dataset({"x": (("chain", "draw"), values[None])})
    guarantee = Guarantee.pure(1.0) if private else Guarantee.none("seeded")
    return Release(posterior, guarantee, {}, private)


def closeness(theta, response, query=0.0):
    return 1 - np.abs(theta["x"] + query - response)


DRAWS = np.linspace(0.2, 0.6, 200)
OPTIONS = [0.0, 0.4, 0.9]


def test_the_response_of_highest_expected_utility_is_chosen() -> None:
    got = answer(released(DRAWS), closeness, OPTIONS)
    expected = {option: float(np.mean(1 - np.abs(DRAWS - option))) for option in OPTIONS}
    assert isinstance(got, Answer)
    assert got.response == 0.4
    assert got.utilities == pytest.approx(expected)
    assert got.expected_utility == pytest.approx(expected[0.4])
    assert got.query is None


def test_the_loss_bound_unions_over_responses_and_queries_and_scales_with_the_bounds() -> None:
    one = released(DRAWS)
    assert answer(one, closeness, OPTIONS).loss_bound == psaqr_loss(200, 0.05, 3, 1)
    several = answer(one, closeness, OPTIONS, [0.0, 0.1, 0.2])
    assert [got.loss_bound for got in several] == [psaqr_loss(200, 0.05, 3, 3)] * 3
    wide = answer(one, closeness, OPTIONS, delta=0.01, bounds=(-4, 2))
    assert wide.loss_bound == pytest.approx(6 * psaqr_loss(200, 0.01, 3, 1))


def test_golden_loss_of_theorem_16() -> None:
    got = answer(released(DRAWS), closeness, [0.1, 0.2, 0.3, 0.4], np.zeros(10))
    assert got[0].loss_bound == pytest.approx(0.2716203031481238996981541, rel=1e-10)


def test_a_vacuous_bound_is_the_width_and_says_so() -> None:
    got = answer(released(DRAWS[:3]), closeness, OPTIONS)
    assert psaqr_loss(3, 0.05, 3, 1) > 1
    assert got.loss_bound == 1
    assert "no news" in repr(got)


def test_each_query_gets_its_own_answer_in_order() -> None:
    got = answer(released(DRAWS), closeness, OPTIONS, [0.0, 0.3, -0.4], bounds=(-1, 1))
    assert [one.query for one in got] == [0.0, 0.3, -0.4]
    assert [one.response for one in got] == [0.4, 0.9, 0.0]


def _probability_of_losing_more(p: float, answers: list[Answer], share: float) -> float:
    """Exact probability that the loss exceeds ``share`` of its bound if Pr[x = 1] = p."""
    draws = len(answers) - 1
    mass = stats.binom.pmf(np.arange(draws + 1), draws, p)
    utility = {"one": p, "zero": 1 - p}
    loss = np.array([max(utility.values()) - utility[got.response] for got in answers])
    bound = np.array([got.loss_bound for got in answers])
    return float(mass[loss > share * bound].sum())


def test_the_loss_exceeds_its_bound_less_often_than_delta_and_a_quarter_of_it_more_often() -> None:
    draws, delta = 25, 0.2
    answers = [
        answer(
            released(np.where(np.arange(draws) < hits, 1.0, 0.0)),
            lambda t, r: t["x"] if r == "one" else 1 - t["x"],
            ["one", "zero"],
            delta=delta,
        )
        for hits in range(draws + 1)
    ]
    grid = np.linspace(0, 1, 201)
    assert max(_probability_of_losing_more(p, answers, 1.0) for p in grid) <= delta
    assert max(_probability_of_losing_more(p, answers, 0.25) for p in grid) > delta


def test_ties_go_to_the_first_response_and_repeats_count_once() -> None:
    got = answer(released(DRAWS), lambda t, r: np.full(len(t["x"]), 0.5), ["b", "a", "b"])
    assert got.response == "b"
    assert list(got.utilities) == ["b", "a"]
    assert got.loss_bound == psaqr_loss(200, 0.05, 2, 1)


def test_a_utility_that_needs_a_query_gets_none_if_there_is_none() -> None:
    seen = []

    def utility(theta, response, query):
        seen.append(query)
        return np.zeros(len(theta["x"]))

    answer(released(DRAWS), utility, [1])
    assert seen == [None]


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        (lambda t, r: t["x"] * 10, "leaves its bounds"),
        (lambda t, r: t["x"] - 1, "leaves its bounds"),
        (lambda t, r: np.full(200, np.nan), "leaves its bounds"),
        (lambda t, r: np.where(np.arange(200) == 7, np.inf, 0), "leaves its bounds"),
        (lambda t, r: 0.5, "one number per draw"),
        (lambda t, r: t["x"][:-1], "one number per draw"),
        (lambda t, r: t["x"][:, None], "one number per draw"),
        (lambda t, r: np.array(["a"] * 200), "one number per draw"),
        (lambda t, r: None, "one number per draw"),
    ],
)
def test_a_bad_utility_is_refused_by_the_name_of_its_response(utility, message) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        answer(released(DRAWS), utility, ["option one"])
    assert "option one" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"responses": []}, "no response"),
        ({"responses": [[1], [2]]}, "hashable"),
        ({"responses": 3}, "hashable"),
        ({"queries": []}, "no query"),
        ({"delta": 0}, "probability"),
        ({"delta": 1.0}, "probability"),
        ({"bounds": (1, 0)}, "finite public bounds"),
        ({"bounds": (0, math.inf)}, "finite public bounds"),
        ({"bounds": (0, math.nan)}, "finite public bounds"),
        ({"bounds": 1}, "two numbers"),
    ],
)
def test_wrong_arguments_are_refused(more, message) -> None:
    with pytest.raises(DomainError, match=message):
        answer(released(DRAWS), closeness, **({"responses": OPTIONS} | more))


def test_an_answer_is_a_frozen_value_that_explains_itself() -> None:
    got = answer(released(DRAWS), closeness, OPTIONS, [0.1])[0]
    assert pickle.loads(pickle.dumps(got)) == got
    assert copy.deepcopy(got) == got
    with pytest.raises(AttributeError):
        got.response = 1
    got.utilities.clear()
    assert len(got.utilities) == 3
    for text in (repr(got), got._repr_html_()):
        assert "0.4" in text
        assert "T16" in text
        assert "cost no privacy" in text


def test_answers_from_a_seeded_run_are_marked() -> None:
    got = answer(released(DRAWS, private=False), closeness, OPTIONS)
    assert "NOT PRIVATE" in repr(got)
    assert "NOT PRIVATE" in got._repr_html_()
    assert "cost no privacy" not in repr(got)


def test_many_responses_keep_the_repr_short() -> None:
    got = answer(released(DRAWS), lambda t, r: t["x"], range(1000))
    assert len(repr(got)) < 1000
    assert "988 more" in repr(got)
