"""Expressions, boxes and subsets of responses, dialogues, hypotheses and predictions."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee, psaqr_dialogue_loss, psaqr_loss, psaqr_net_loss
from pymc_private.release.release import Release

RNG = np.random.default_rng(5)
N = 400
B, X = RNG.normal(size=(N, 2, 3)), RNG.random(N)


def released(**variables) -> Release:
    arrays = variables or {"b": (("chain", "draw", "f", "k"), B[None]),
                           "x": (("chain", "draw"), X[None])}  # fmt: skip
    labeled = any("f" in dims for dims, _ in arrays.values())
    data = xr.Dataset(arrays, coords={"f": ["age", "sex"]} if labeled else {})
    facts = {"withheld": ["p", "q"], "uncomputed": ["q"], "ranges": {"x": [0, 1]}}
    return Release(data, Guarantee.pure(1.0), facts, True)


RELEASE = released()


# ---- expressions -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b['age', 0] > 0 and x < 0.5", (B[:, 0, 0] > 0) & (X < 0.5)),
        ("b['sex'][2] > b[0, -1]", B[:, 1, 2] > B[:, 0, 2]),
        ("0.2 < x <= 0.8", (X > 0.2) & (X <= 0.8)),
        ("not (x > 0.5 or sum(b) < 0)", ~((X > 0.5) | (B.sum(axis=(1, 2)) < 0))),
        ("norm(b['age'] * x) > 0.7", np.linalg.norm(B[:, 0] * X[:, None], axis=1) > 0.7),
        ("all(b[:, 1] > 0)", np.all(B[:, :, 1] > 0, axis=1)),
        ("b[:, 1:]['sex'][0] > 0", B[:, 1, 1] > 0),
        ("sum(b * [1, 0, 2]) > 0", (B * [1, 0, 2]).sum(axis=(1, 2)) > 0),
        ("(x if b[0, 0] > 0 else -x) > 0", np.where(B[:, 0, 0] > 0, X, -X) > 0),
        ("abs(x - 0.5) ** 2 / 2 < exp(-3) % 1", math.exp(-3) > (X - 0.5) ** 2 / 2),
        ("argmax(b['age']) == 2", B[:, 0].argmax(axis=1) == 2),
    ],
)
def test_an_expression_is_the_function_it_looks_like(text, expected) -> None:
    got = RELEASE.prob(text)
    assert got.value == pytest.approx(expected.mean(), abs=1e-12)
    assert got.lower <= expected.mean() <= got.upper


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p > 0", "not released: it is computed from private data"),
        ("q > 0", "could not be computed at every draw"),
        ("zeta > 0", r"(?s)'zeta', which was not released.*b, x"),
        ("b['height'] > 0", r"(?s)no such element.*age"),
        ("b[2] > 0", "no such element"),
        ("b['age', 0, 0] > 0", "no such element"),
        ("b[0.5] > 0", "whole number"),
        ("x >", "cannot be read"),
        ("import os", "cannot be read"),
        ("x.mean() > 0", "no Call"),
        ("__import__('os').system('true') > 0", "expressions"),
        ("eval('1') > 0", "no function 'eval'"),
        ("[y for y in x] > 0", "no ListComp"),
        ("(lambda: 1)() > 0", "no Call"),
        ("x in [1, 2]", "no In"),
        ("b + [1, 2] > 0", "do not fit"),
        ("x", "true or false"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused(text, message) -> None:
    with pytest.raises(DomainError, match=message):
        RELEASE.prob(text)


WHOLE = np.array([3, 4, 0, 1])
REAL = np.array([0.5, -1.0, 2.0, 0.0])
MIXED = released(
    k=(("chain", "draw"), WHOLE[None]),
    u=(("chain", "draw"), WHOLE[None].astype(np.uint8)),
    short=(("chain", "draw"), (WHOLE[None] - 2).astype(np.int8)),
    yes=(("chain", "draw"), WHOLE[None] > 2),
    x=(("chain", "draw"), REAL[None]),
    far=(("chain", "draw"), np.full((1, 4), 2**60)),
)


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("x < 10**19", 4),
        ("x < 1e23", 4),
        ("k**13 == 3**13", 1),
        ("k**25 > 10**14 or k < 4", 4),
        ("2**-1 > x", 2),
        ("(k + 1)**-1 == 0.25", 1),
        ("u - 4 < 0", 3),
        ("-u < 0", 3),
        ("short < 0", 2),
        ("(x > 0) + (k > 1) == 2", 1),
        ("-(x > 0) == -1", 2),
        ("yes + yes == 2", 2),
        ("~yes", 2),
        ("abs(-9223372036854775808) > k", 4),
        ("9007199254740992 == 9007199254740993", 0),
        ("k // -2 == -2", 2),
        ("k % -3 == -2", 2),
        ("k > 0 and x / k > 0.1", 1),
        ("not (k == 0 or x / k <= 0.1)", 1),
        ("where(x > 0, log(x), 3) > 2", 2),
        ("(log(x) if x > 0 else 3) > 2", 2),
        ("clip(k, 0, 2) * 2 == 4", 2),
        ("sum(k) == k", 4),
        ("'a' < 'b'", 4),
    ],
)
def test_expressions_compute_with_numbers_not_with_registers(text, hits) -> None:
    assert MIXED.prob(text).value == hits / 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9**9**9 > x", "no answer at some draws"),
        ("k // 0 == 0", "no answer at some draws"),
        ("k % 0 == 0", "no answer at some draws"),
        ("not x / k > 0", "no answer at some draws"),
        ("0**-k > 1", "no answer at some draws"),
        ("log(x) > -5", "no answer at some draws"),
        ("not log(x) > -5", "no answer at some draws"),
        ("exp(1000 * x) > 3", "no answer at some draws"),
        ("k**40 % 2 == 1", "no answer at some draws"),
        ("k + 10**16 == 10**16", "no answer at some draws"),
        ("x < 10**23", "no float holds"),
        ("far > 3", r"at most 2\*\*53"),
        ("k & 1 == 1", "join events"),
        ("k and x > 0", "join events"),
        ("x == 'a'", "text is compared with text"),
        ("'a' * 10**9 == 'b'", "text is compared with text"),
        ("x[0.5:] > 1", "no such element"),
        ("x[k] > 1", "the same at every draw"),
        ("[1, 2][5] > 0", "no such element"),
        ("[x, 1] > 0", "lists of numbers"),
        ("abs(x, x) > 0", "takes 1 argument"),
        ("exp() > 0", "takes 1 argument"),
        ("max(x, 3) > 0", "maximum"),
        ("x" + "+ 1" * 20_000 + " > 3", "cannot be read"),
    ],
)
def test_an_expression_without_a_value_is_refused(text, message) -> None:
    with pytest.raises(DomainError, match=message):
        MIXED.prob(text)


def test_a_dialogue_withholds_where_an_expression_has_no_value() -> None:
    dialogue = pmp.queries.Dialogue(MIXED)
    with pytest.raises(DomainError, match="a dialogue withholds"):
        dialogue.ask("(log(x) > 0) == response", [True, False])


def test_a_function_that_reads_what_was_not_released_is_told_so() -> None:
    with pytest.raises(DomainError, match=r"(?s)'p' was not released.*private data.*b, x"):
        pmp.answer(RELEASE, lambda theta, response: theta["p"], [1])


def test_expressions_and_functions_answer_alike() -> None:
    written = pmp.answer(RELEASE, "(x > query) == response", [True, False], [0.2, 0.9])
    coded = pmp.answer(RELEASE, lambda t, r, q: (t["x"] > q) == r, [True, False], [0.2, 0.9])
    assert written == coded
    assert list(written.to_frame()["response"]) == [True, False]


# ---- boxes and subsets -------------------------------------------------------------------------
def test_a_box_of_responses_is_optimized_and_bounded_by_a_net() -> None:
    got = pmp.answer(RELEASE, "1 - abs(x - response)", pmp.Interval(0, 1), lipschitz=1)
    best = np.median(X)
    assert got.expected_utility == pytest.approx(1 - np.abs(X - best).mean(), abs=1e-6)
    assert psaqr_net_loss(N, 0.05, 1, [1.0]) <= got.loss_bound < 0.25
    assert isinstance(got.response, float)


def test_vectors_are_optimized_too() -> None:
    got = pmp.answer(
        RELEASE,
        "1 - ((b['age', 0] / 5 - response[0]) ** 2 + (x - response[1]) ** 2) / 4",
        pmp.Interval([-1, 0], [1, 1]),
        bounds=(-4, 1),
        lipschitz=2.5,
    )
    assert got.response == pytest.approx((B[:, 0, 0].mean() / 5, X.mean()), abs=1e-3)
    assert got.loss_bound < 5


@pytest.mark.parametrize(("more", "loss", "reason"), [
    ({"bounds": None}, math.inf, "no public bounds"),
    ({}, 1.0, "no Lipschitz constant"),
])  # fmt: skip
def test_where_no_bound_holds_the_reason_is_said(more, loss, reason) -> None:
    got = pmp.answer(
        RELEASE, "-(x - response) ** 2", pmp.Interval(0, 1), **({"bounds": (-1, 0)} | more)
    )
    assert got.loss_bound == loss
    assert reason in repr(got)
    assert reason in got._repr_html_()
    assert got.response == pytest.approx(X.mean(), abs=1e-4)


@given(
    st.integers(1, 1000),
    st.floats(0.001, 100),
    st.lists(st.floats(0.01, 50), min_size=1, max_size=3),
)
def test_a_net_costs_more_than_one_point_and_hardly_more_than_any_net(n, lipschitz, widths) -> None:
    found = psaqr_net_loss(n, 0.05, lipschitz, widths)
    assert found >= psaqr_loss(n, 0.05, 1, 1)
    for eta in (0.3, 0.01, 1e-4):
        balls = math.prod(math.ceil(width / (2 * eta)) for width in widths)
        if eta <= max(widths):
            assert found <= 1.3 * (psaqr_loss(n, 0.05, balls, 1) + 4 * lipschitz * eta)


@pytest.mark.audit
def test_the_loss_of_a_box_exceeds_its_bound_no_more_often_than_delta() -> None:
    """x uniform, utility 1 - |x - r|: the loss of response r is (r - 1/2)^2."""
    delta, bad = 0.5, 0
    for seed in range(60):
        draws = np.random.default_rng(seed).random((1, 12))
        got = pmp.answer(
            released(x=(("chain", "draw"), draws)),
            "1 - abs(x - response)", pmp.Interval(0, 1), lipschitz=1, delta=delta,
        )  # fmt: skip
        bad += (got.response - 0.5) ** 2 > got.loss_bound
    assert bad <= 60 * delta


def test_subsets_are_responses() -> None:
    cell = np.minimum((X * 4).astype(int), 3)
    got = pmp.answer(
        RELEASE, lambda t, s: np.isin(cell, list(s)) - 0.26 * len(s), pmp.queries.Subsets(range(4)),
        bounds=(-1.04, 1),
    )  # fmt: skip
    shares = np.bincount(cell, minlength=4) / N
    assert got.response == frozenset(np.flatnonzero(shares > 0.26).tolist())
    assert got.loss_bound == pytest.approx(2.04 * psaqr_loss(N, 0.05, 16, 1))


def test_few_finite_draws_do_not_choose_among_all_finite_sets() -> None:
    """The counterexample to the printed lemma: the sampled set itself is no response."""
    with pytest.raises(DomainError, match="too many subsets"):
        pmp.queries.Subsets(range(40))
    with pytest.raises(DomainError, match="members"):
        pmp.queries.Subsets(range(4), sizes=5)


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        (pmp.Interval(1, 1), "lower < upper"),
        (pmp.Interval(np.zeros((2, 2)), np.ones((2, 2))), "one row"),
        (pmp.Interval(np.zeros(40), np.ones(40)), "too many coordinates"),
        (range(200_000), "Too many responses"),
    ],
)
def test_impossible_responses_are_refused(responses, message) -> None:
    with pytest.raises(DomainError, match=message):
        pmp.answer(RELEASE, "x", responses)


@pytest.mark.parametrize("utility", [3, None])
def test_a_utility_is_a_function_or_an_expression(utility) -> None:
    with pytest.raises(DomainError, match="function"):
        pmp.answer(RELEASE, utility, [1])


def test_one_draw_gives_an_answer_and_an_honest_bound() -> None:
    one = released(x=(("chain", "draw"), np.array([[0.3]])))
    for responses in ([0.0, 1.0], pmp.Interval(0, 1)):
        got = pmp.answer(one, "1 - abs(x - response)", responses, lipschitz=1)
        assert got.loss_bound == 1
        assert got.mcse == 0.5
        assert "no news" in repr(got)


def test_more_possible_queries_than_those_asked_cost_more() -> None:
    got = pmp.answer(RELEASE, "x > response", [0.5, 0.7], possible_queries=50)
    assert got.loss_bound == psaqr_loss(N, 0.05, 2, 50)
    assert "2 responses and 50 queries" in repr(got)
    with pytest.raises(DomainError, match="More queries"):
        pmp.answer(RELEASE, "x > response", [0.5], [1, 2], possible_queries=1)


def test_pictures_say_what_is_bounded() -> None:
    box = pmp.answer(RELEASE, "1 - abs(x - response)", pmp.Interval(0, 1), lipschitz=1)
    several = pmp.answer(RELEASE, "(x > query) == response", [True, False], [0.2, 0.9])
    for picture in (box.plot(), several.plot(), several[0].plot(), RELEASE.mean("b").plot()):
        assert picture.get_xlabel()
        assert picture.get_title(loc="left")
    unbounded = pmp.answer(RELEASE, "x", [1], bounds=None).plot()
    assert "not bounded" in unbounded.get_title(loc="left")
    assert unbounded.get_xlabel() == "expected utility"
    assert "shaded" in several.plot().get_xlabel()
    assert RELEASE.mean("b").plot().get_xlabel() == "line: one mcse"


# ---- dialogues ---------------------------------------------------------------------------------
def test_a_dialogue_pays_for_its_histories_and_withholds_utilities() -> None:
    dialogue = pmp.queries.Dialogue(RELEASE, delta=0.1)
    first = dialogue.ask("(x > 0.5) == response", [True, False])
    assert math.isnan(first.expected_utility)
    assert first.scores == ()
    with pytest.raises(DomainError, match="withholds") as refused:
        dialogue.ask("x * 7", [1])  # that it leaves its bounds tells something of the draws
    assert "values from" not in str(refused.value)
    second = dialogue.ask("x > response", [0.1, 0.2, 0.3], query="where", bounds=(0, 1))
    expected = psaqr_dialogue_loss(N, 0.1, [3, 2, 4])  # responses, and a refusal
    assert [first.loss_bound, second.loss_bound] == [expected[0], expected[2]]
    assert expected[0] == pytest.approx(2 * math.sqrt(math.log(2 * 3 * 2 / 0.1) / (2 * N)))
    assert expected[2] == pytest.approx(2 * math.sqrt(math.log(2 * 24 * 12 / 0.1) / (2 * N)))
    assert "2 questions" in repr(dialogue)
    assert "withheld" in repr(first)
    assert [one.response for one in dialogue.answers] == [first.response, 0.1]


def test_a_dialogue_wants_responses_that_can_be_counted() -> None:
    with pytest.raises(DomainError, match="finitely many"):
        pmp.queries.Dialogue(RELEASE).ask("x > response", pmp.Interval(0, 1))
    with pytest.raises(DomainError, match="probability"):
        pmp.queries.Dialogue(RELEASE, delta=0)
    assert math.isinf(pmp.queries.Dialogue(RELEASE).ask("x * 9", [1], bounds=None).loss_bound)


@pytest.mark.audit
def test_an_adaptive_analyst_breaks_the_bound_of_one_question_but_not_that_of_a_dialogue() -> None:
    """Fair coins; the votes that agree with the draws are then preferred to a better sure thing.

    Each answer names the side that a coin fell on more often. Whether a draw agrees with most of
    these names is true for half of the posterior, and for nearly every draw seen.
    """
    coins = RNG.random((200, 1200)) < 0.5
    dialogue = pmp.queries.Dialogue(released(c=(("chain", "draw", "k"), coins[None].astype(int))))
    sides = [
        dialogue.ask(lambda t, side, k=k: t["c"][:, k] == side, [0, 1]).response
        for k in range(coins.shape[1])
    ]

    def utility(theta, response):
        agree = (theta["c"] == sides).mean(axis=1) > 0.5
        return np.full(len(agree), 0.8) if response == "sure" else agree.astype(float)

    got = dialogue.ask(utility, ["sure", "vote"])
    loss = 0.8 - 0.5
    assert got.response == "vote"
    assert psaqr_loss(200, 0.05, 2, 1) < loss <= got.loss_bound


# ---- hypotheses --------------------------------------------------------------------------------
def test_the_likeliest_hypothesis_is_chosen_and_its_utility_is_its_probability() -> None:
    got = pmp.queries.choose(RELEASE, {"low": "x < 0.6", "high": lambda d: d["x"] >= 0.6})
    assert got.response == "low"
    assert got.expected_utility == pytest.approx(np.mean(X < 0.6))
    assert got.loss_bound == psaqr_loss(N, 0.05, 2, 1)


def test_losses_weigh_hypotheses() -> None:
    events = {"low": "x < 0.6", "high": "x >= 0.6"}
    got = pmp.queries.choose(
        RELEASE, events, {"act": {"low": 0, "high": 10}, "wait": {"low": 1, "high": 0}}
    )
    assert got.response == "wait"
    assert got.expected_utility == pytest.approx(-np.mean(X < 0.6))
    assert got.bounds == (-10, 0)
    same = pmp.queries.choose(RELEASE, events, {"only": {"low": 2, "high": 2}})
    assert same.expected_utility == -2


@pytest.mark.parametrize(
    ("hypotheses", "losses", "message"),
    [
        ({}, None, "no hypothesis"),
        ({"a": "b > 0"}, None, "not true or false"),
        ({"a": "x"}, None, "not true or false"),
        ({"a": 3}, None, "function of the draws, or an expression"),
        ({"a": "x > 0.5", "b": "x > 0.2"}, {"act": {"a": 0, "b": 1}}, "exactly one"),
        ({"a": "x > 0.5"}, {}, "no action"),
        ({"a": "x > -1"}, {"act": {}}, "each hypothesis once"),
        ({"a": "x > -1"}, {"act": {"a": 0, "z": 0}}, "each hypothesis once"),
        ({"a": "x > -1"}, {"act": {"a": math.inf}}, "finite"),
    ],
)
def test_hypotheses_that_cannot_be_judged_are_refused(hypotheses, losses, message) -> None:
    with pytest.raises(DomainError, match=message):
        pmp.queries.choose(RELEASE, hypotheses, losses)


@pytest.mark.parametrize("lipschitz", [0, 0.4])
@pytest.mark.parametrize("box", [pmp.Interval(0, 1), pmp.Interval([0, 0], [1, 1])])
def test_a_lipschitz_constant_that_the_draws_refute_is_refused(lipschitz, box) -> None:
    def utility(theta, response):
        return 1 - np.abs(np.mean(response) * 0.5 + 0.001 * theta["x"])

    with pytest.raises(DomainError, match="steeper than its Lipschitz"):
        pmp.answer(RELEASE, utility, box, lipschitz=lipschitz)
    assert pmp.answer(RELEASE, utility, box, lipschitz=0.5).loss_bound < 1


def test_utilities_of_half_precision_are_averaged_as_doubles() -> None:
    got = pmp.answer(RELEASE, lambda theta, r: np.full(N, 0.1, np.float16), [0])
    assert got.expected_utility == pytest.approx(float(np.float16(0.1)), abs=1e-15)
    assert math.isfinite(got.mcse)


def test_draws_that_are_nearly_exact_lose_twice_their_distance_more() -> None:
    guarantee = Guarantee.pure(1.0).within(0.01)
    near = Release(RELEASE.posterior, guarantee, {"ranges": {"x": [0, 1]}, "delta": 0.1}, True)
    event, lipschitz = "x > response", {"lipschitz": 1.0}
    smooth = "1 - abs(x - response)"
    for ask in (
        lambda release: pmp.answer(release, event, [0, 0.5]),
        lambda release: pmp.answer(release, smooth, pmp.Interval(0, 1), **lipschitz),
        lambda release: pmp.queries.Dialogue(release).ask(event, [0, 0.5]),
    ):
        assert ask(near).loss_bound == pytest.approx(ask(RELEASE).loss_bound + 0.02, rel=1e-12)


# ---- predictions -------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def skeleton() -> pm.Model:
    with pm.Model(coords={"woman": range(5), "f": ["age", "sex"]}) as model:
        data = pm.Data("X", np.zeros((5, 2)), dims=("woman", "f"))
        beta = pm.Normal("beta", 0, 1, dims="f")
        eta = data @ beta
        pm.Deterministic("p", pm.math.sigmoid(eta), dims="woman")
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(5, int), dims="woman")
        pm.Normal("z", eta, 1, observed=np.zeros(5))
        pm.Normal("w", eta + np.arange(5), 1, observed=np.zeros(5))
        pm.Normal("v", pm.Normal("gamma", 0, 1) + eta, 1, observed=np.zeros(5))
    return model


BETA = RNG.normal(size=(N, 2))
NEW = np.array([[0.0, 0.0], [3.0, 0.0], [1.0, -1.0]])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Release:
    """A release that came from another machine: a file, and no model."""
    path = tmp_path_factory.mktemp("elsewhere") / "main.nc"
    released(beta=(("chain", "draw", "f"), BETA[None])).save(path)
    return pmp.load(path)


def test_a_withheld_deterministic_is_computed_at_public_covariates(loaded, skeleton) -> None:
    got = loaded.predict("p", model=skeleton, X=NEW, bounds=(0, 1))
    expected = 1 / (1 + np.exp(-BETA @ NEW.T))
    np.testing.assert_allclose(got.draws.values[0], expected)
    np.testing.assert_allclose(got.mean.value, expected.mean(axis=0))
    assert np.all(got.mean.error <= math.sqrt(math.log(6 / 0.05) / (2 * N)) * (1 + 1e-9))


def test_an_observed_variable_is_predicted_with_the_bounds_its_law_implies(
    loaded, skeleton
) -> None:
    got = loaded.predict("y", model=skeleton, X=NEW)
    truth = (1 / (1 + np.exp(-BETA @ NEW.T))).mean(axis=0)
    assert got.draws.shape == (1, N, 3)
    assert set(np.unique(got.draws)) == {0, 1}
    assert np.all(np.abs(got.mean.value - truth) < got.mean.error)
    assert "prediction of y" in repr(got)
    assert got.plot().get_xlabel()


def test_a_fixed_number_of_rows_follows_the_covariates(loaded, skeleton) -> None:
    got = loaded.predict("z", model=skeleton, X=NEW)
    assert got.draws.shape == (1, N, 3)
    assert np.isinf(got.mean.error).all()
    assert "bounds=" in repr(got)
    spread = (got.draws.values[0] - BETA @ NEW.T).std(axis=0)
    assert np.all(np.abs(spread - 1) < 0.25)


@pytest.mark.parametrize(
    ("what", "more", "message"),
    [
        (None, {"X": NEW}, "Which variable"),
        ("beta", {"X": NEW}, "observed variable or a Deterministic"),
        ("y", {}, "pass X="),
        ("y", {"Z": NEW}, "no data variable 'Z'"),
        ("y", {"X": NEW[0]}, "2 axes"),
        ("y", {"X": NEW[:, :1]}, "do not fit"),
        ("y", {"X": [["a", "b"]]}, "no array of numbers"),
        ("w", {"X": NEW}, "written into it"),
        ("v", {"X": NEW}, "'gamma', which was not released"),
        ("p", {"X": NEW, "bounds": (0, 0.1)}, "leaves its bounds"),
    ],
)
def test_a_prediction_without_what_it_needs_is_refused(
    loaded, skeleton, what, more, message
) -> None:
    with pytest.raises(DomainError, match=message):
        loaded.predict(what, model=skeleton, **more)


@pytest.mark.parametrize(("model", "message"), [(None, "no model given"), (3, "not a model")])
def test_a_prediction_without_a_model_is_refused(loaded, model, message) -> None:
    with pytest.raises(DomainError, match=message):
        loaded.predict("y", model=model, X=NEW)


@pytest.mark.parametrize("what", ["y", "p"])
def test_covariates_of_the_records_written_into_the_model_are_never_predicted_at(
    loaded, what
) -> None:
    rows = RNG.normal(size=(7, 2))
    with pm.Model(coords={"f": ["age", "sex"]}) as model:
        eta = rows @ pm.Normal("beta", 0, 1, dims="f")
        pm.Deterministic("p", pm.math.sigmoid(eta))
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(7, int))
    with pytest.raises(DomainError, match="written into it"):
        loaded.predict(what, model=model)


def centered(center: object) -> pm.Model:
    with pm.Model(coords={"f": ["age", "sex"]}) as model:
        data = pm.Data("X", np.zeros((5, 2)))
        middle = pm.Data("middle", center) if isinstance(center, np.ndarray) else center
        eta = (data - middle) @ pm.Normal("beta", 0, 1, dims="f")
        pm.Deterministic("p", pm.math.sigmoid(eta))
        pm.Normal("y", eta, 1, observed=np.zeros(5))
    return model


@pytest.mark.parametrize("what", ["y", "p"])
def test_a_scalar_in_data_is_passed_like_any_other(loaded, what) -> None:
    model = centered(np.array(0.2713))
    with pytest.raises(DomainError, match="pass middle="):
        loaded.predict(what, model=model, X=NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = loaded.predict(what, model=model, X=NEW, middle=0.3)
    assert got.draws.shape == (1, N, 3)


@pytest.mark.parametrize("what", ["y", "p"])
@pytest.mark.parametrize(("center", "told"), [(0.2713, True), (0.27, False), (0.0, False)])
def test_a_statistic_written_into_the_model_is_warned_of_and_not_shown(
    loaded, what, center, told
) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loaded.predict(what, model=centered(center), X=NEW)
    found = [str(w.message) for w in seen if issubclass(w.category, pmp.errors.PrivacyWarning)]
    assert bool(found) is told
    assert not any("2713" in text for text in found)


# ---- what is no release, no level, no path --------------------------------------------------
NO_CHANCE = ["a", None, [0.1], True, 1j, math.nan, 0, 1]


@pytest.mark.parametrize("odd", NO_CHANCE)
@pytest.mark.parametrize(
    "call",
    [
        lambda odd: RELEASE.mean("x", delta=odd),
        lambda odd: RELEASE.prob("x > 0", delta=odd),
        lambda odd: RELEASE.interval("x", odd),
        lambda odd: RELEASE.mean(odd),
        lambda odd: pmp.answer(RELEASE, "x * response", [0, 1], delta=odd),
        lambda odd: pmp.queries.Dialogue(RELEASE, delta=odd),
        lambda odd: pmp.queries.Dialogue(odd),
        lambda odd: pmp.answer(odd, "x", [0, 1]),
        lambda odd: pmp.queries.choose(odd, {"up": "x > 0"}),
    ],
)
def test_what_is_no_chance_no_name_and_no_release_is_refused(call, odd) -> None:
    with pytest.raises(DomainError):
        call(odd)


@pytest.mark.parametrize("odd", ["a", None, 1j, [[0.1], [0.2, 0.3]], [], 0])
def test_what_is_no_level_is_refused(odd) -> None:
    with pytest.raises(DomainError, match="quantile level"):
        RELEASE.quantile("x", odd)


@pytest.mark.parametrize("odd", [3, "x"])
def test_queries_are_listed(odd) -> None:
    with pytest.raises(DomainError, match="lists the queries"):
        pmp.answer(RELEASE, "x * response", [0, 1], odd)


@pytest.mark.parametrize("odd", [None, 3, [], "\ud800", "a\0b", ""])
def test_what_is_no_path_is_refused(odd) -> None:
    for call in (RELEASE.save, pmp.load):
        with pytest.raises(DomainError, match="path of a file") as caught:
            call(odd)
        assert str(caught.value).encode()


def test_a_folder_is_no_release(tmp_path) -> None:
    for call in (lambda path: RELEASE.save(path, overwrite=True), pmp.load):
        with pytest.raises(DomainError, match="folder"):
            call(tmp_path)
