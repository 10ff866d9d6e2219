"""Covariates whose distribution is known: nothing of them is released, scores have the budget.

Also: the public sample that a summary was planned by is stored with it, so that it can be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, NotInformative, Unsupported
from pymc_private.summaries import KnownCovariates, refinement_plan
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.scores import pilot_part
from pymc_private.summaries.scores import reference as reference_module
from pymc_private.summaries.scores.score_mechanism import KNOWN_CAUTION

pytestmark = pytest.mark.filterwarnings("ignore:the distribution of the covariates is taken")
N = 2000
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SCORES: dict[str, Any] = {**BUDGET, "release": "summary", "method": "scores"}


def columns(seed: int, n: int) -> np.ndarray:
    """Give a treatment by lot, and a number that is rarely large."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.choice([-1.0, 1.0], n), np.clip(rng.normal(0, 0.25, n), -1, 1)])


def declared_table(n: int) -> Any:
    """Give a table of records, and the private model of placeholder rows."""
    x, rng = columns(7, n), np.random.default_rng(8)
    y = np.clip(0.5 * x[:, 0] + rng.normal(size=n), -5, 5)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y, "id": np.arange(n)})
    return frame, linear(200, n=n)


def linear(rows: int = N, x: np.ndarray | None = None, **words: Any) -> pmp.PrivateModel:
    """Give a linear regression with a free scale."""
    x, rng = columns(1, rows) if x is None else x, np.random.default_rng(2)
    with pm.Model(coords={"row": np.arange(rows)}) as model:
        slopes, sigma = pm.Normal("slopes", 0, 1, shape=2), pm.HalfNormal("sigma", 1)
        mean = pm.Normal("intercept") + pm.Data("X", x, dims=("row", None)) @ slopes
        pm.Normal("y", mean, sigma, observed=np.clip(x[:, 0] + rng.normal(size=rows), -5, 5),
                  dims="row")  # fmt: skip
    return pmp.privatize(model, records="row", domain={"X": (-1, 1), "y": (-5, 5)}, **words)


KNOWN = KnownCovariates({"X": columns(3, 3000)})


@pytest.fixture(scope="module")
def plan() -> Any:
    return pmp.calibrate(linear(), reference=KNOWN, **SCORES)


# ---- what is released, and what is said ----------------------------------------------------------
def test_nothing_of_the_covariates_is_released_and_scores_have_the_whole_budget(plan):
    usual = pmp.calibrate(linear(), reference=KNOWN.rows, **SCORES)
    assert {"moments of the covariates", "curvature"} <= set(usual.mechanism.stages)
    budget = plan.mechanism.design.budget
    assert plan.mechanism.stages == (*(f"pilot round {k} of 10" for k in range(1, 11)), "score")
    whole = np.sqrt(sum(mu**2 for mu in (*budget.pilots, budget.score)))
    assert whole == pytest.approx(plan.mechanism.mu, rel=1e-12)
    assert plan.guarantee.epsilon(1e-6) <= 1.0
    assert plan.nats > usual.nats
    assert sum(plan.mechanism.facts["shares"].values()) == pytest.approx(1.0)


def test_the_curvature_is_that_of_the_public_sample_and_of_no_record(plan):
    mechanism, x = plan.mechanism, columns(9, N)
    records = {"X": x, "y": x[:, 0]}
    released = mechanism.release(records, SimulatedNoise(np.random.default_rng(4)))
    assert float(released["curvature_sd"]) == 0.0
    *_, final = mechanism.noisy_scores(released, KNOWN.rows)
    each = np.full(3000, N / 3000)
    assert released["curvature"] == pytest.approx(final.clipped.moments(each)[0], rel=1e-9)


def test_the_plan_and_the_summary_say_what_is_taken_as_known(plan):
    assert KNOWN_CAUTION in plan.summary()
    assert "reference" in " ".join(plan.guarantee.assumptions)
    ledger = pmp.Ledger(epsilon=2, delta=1e-4)
    summary = pmp.summarize(plan, ledger=ledger, progressbar=False)
    assert KNOWN_CAUTION in [caution.text for caution in summary.warnings]
    assert "is taken to be that of reference=" in summary._repr_html_()
    usual = pmp.calibrate(linear(), reference=KNOWN.rows, **SCORES)
    assert KNOWN_CAUTION not in usual.summary()
    assert usual.fingerprint != plan.fingerprint
    other = pmp.calibrate(linear(), reference=KnownCovariates({"X": columns(4, 3000)}), **SCORES)
    assert other.fingerprint != plan.fingerprint


@pytest.mark.parametrize("rows", [{}, {"X": columns(3, 500)}, pd.DataFrame({"z": [0.1, 0.2]})])
def test_covariates_that_are_known_in_part_are_refused(rows):
    x = columns(1, N)
    with pm.Model(coords={"row": np.arange(N)}) as model:
        eta = pm.Data("X", x, dims=("row", None)) @ pm.Normal("b", shape=2)
        eta = eta + pm.Data("z", x[:, 1], dims="row") * pm.Normal("c")
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(N, int), dims="row")
    private = pmp.privatize(model, records="row", domain={"X": (-1, 1), "z": (-1, 1)})
    with pytest.raises(DomainError, match=r"(?s)hold all private covariates.*plain reference="):
        pmp.calibrate(private, reference=KnownCovariates(rows), **SCORES)


def with_public_column() -> pmp.PrivateModel:
    """Give a model with a private and a public covariate."""
    x = columns(1, N)
    with pm.Model(coords={"row": np.arange(N)}) as model:
        eta = pm.Data("z", x[:, 0], dims="row") * pm.Normal("b")
        eta = eta + pm.Data("x", x[:, 1], dims="row") * pm.Normal("c")
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(N, int), dims="row")
    return pmp.privatize(model, records="row", domain={"x": (-1, 1)}, public=["z"])


def test_what_goes_together_with_public_columns_is_not_known():
    """Of a private covariate that goes with a public one (.8) .33 of 90% intervals held."""
    with pytest.raises(Unsupported, match="without public columns"):
        pmp.calibrate(
            with_public_column(), reference=KnownCovariates({"x": columns(3, 500)[:, 1]}), **SCORES
        )


def test_a_public_sample_of_all_private_covariates_may_stand_beside_public_columns():
    """It ended in an error of the code."""
    sample = {"x": columns(3, 500)[:, 1]}
    plan = pmp.calibrate(with_public_column(), reference=sample, **SCORES)
    assert len(plan.mechanism.design.large.rows) == 2


def dummies(rows: np.ndarray, public: bool = False) -> pmp.PrivateModel:
    """Give a logistic regression on dummies and an intercept."""
    with pm.Model() as model:
        eta = pm.Normal("a") + pm.Data("F", rows) @ pm.Normal("b", shape=rows.shape[1])
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(len(rows), int))
    words = {"domain": {}, "public": ["F"]} if public else {"domain": {"F": {0, 1}}}
    return pmp.privatize(model, records={"F": 0, "y": 0}, **words)


@pytest.mark.parametrize(
    ("rows", "words"),
    [(np.eye(3)[np.arange(150) % 3], "a large sample"), (1.0 * (np.arange(900) < 5), "is rare in")],
)
def test_a_small_sample_is_no_known_distribution(rows, words):
    private = dummies(np.zeros((N, rows.shape[1] if rows.ndim > 1 else 1)))
    known = KnownCovariates({"F": rows.reshape(len(rows), -1)})
    with pytest.raises(DomainError, match=words):
        pmp.calibrate(private, reference=known, **SCORES)


def test_a_public_sample_without_a_category_is_refused_in_words():
    """It ended in an error of linear algebra."""
    rows = (np.random.default_rng(5).random((600, 3)) < 0.4) * np.array([1.0, 1.0, 0.0])
    with pytest.raises(DomainError, match=r"(?s)tells of some parameter.*b\[2\]"):
        pmp.calibrate(dummies(np.zeros((N, 3))), reference={"F": rows}, **SCORES)


def test_collinear_columns_without_noise_in_their_curvature_are_refused_in_words():
    rows = np.eye(3)[np.random.default_rng(6).integers(0, 3, N)]
    with pytest.raises(NotInformative, match="are collinear"):
        pmp.calibrate(dummies(rows, public=True), **SCORES)
    sample = np.eye(3)[np.random.default_rng(7).integers(0, 3, N)]
    with pytest.raises(NotInformative, match="are collinear"):
        pmp.calibrate(dummies(rows), reference=KnownCovariates({"F": sample}), **SCORES)
    assert pmp.calibrate(dummies(rows[:, 1:], public=True), **SCORES).nats > 1.0


def test_a_model_without_covariates_has_none_to_know():
    with pm.Model(coords={"row": np.arange(N)}) as model:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=np.zeros(N), dims="row")
    private = pmp.privatize(model, records="row", domain={"y": (-5, 5)})
    with pytest.raises(DomainError, match="the model has none"):
        pmp.calibrate(private, reference=KnownCovariates({}), **SCORES)


def test_known_labels_of_groups_are_refused():
    label = np.arange(N) % 5
    with pm.Model(coords={"row": np.arange(N)}) as model:
        effect = pm.Normal("effect", pm.Normal("mean"), pm.HalfNormal("sd"), shape=5)
        at = effect[pm.Data("g", label, dims="row")]
        pm.Bernoulli("y", logit_p=at, observed=np.zeros(N, int), dims="row")
    domain = {"g": pmp.Categories(range(5))}
    private = pmp.privatize(model, records="row", domain=domain)
    with pytest.raises(Unsupported, match="all read the same parameters"):
        pmp.calibrate(private, reference=KnownCovariates({"g": label[:100]}), **SCORES)


def test_rows_of_the_data_are_not_a_known_distribution():
    private = linear()
    with pytest.raises(DomainError, match="holds rows of the private data"):
        pmp.calibrate(private, reference=KnownCovariates({"X": columns(1, N)}), **SCORES)


# ---- the roads of a summary ----------------------------------------------------------------------
def test_numbers_of_records_may_be_protected():
    private = linear(neighbors="add_remove")
    plan = pmp.calibrate(private, reference=KNOWN, n=N, **SCORES)
    assert plan.mechanism.stages[0] == "number of records"
    x = columns(9, N)
    words = np.random.default_rng(4), "add_remove"
    released = plan.mechanism.release({"X": x, "y": x[:, 0]}, SimulatedNoise(*words))
    share = float(released["count"]) / 3000
    *_, final = plan.mechanism.noisy_scores(released, KNOWN.rows)
    expected = final.clipped.moments(np.full(3000, share))[0]
    assert released["curvature"] == pytest.approx(expected, rel=1e-9)


def test_a_table_whose_pilots_read_a_part_of_it(monkeypatch):
    """T37: the final score has weights, and so has its public curvature."""
    monkeypatch.setattr(pilot_part, "LEAST_RECORDS", 10_000)
    frame, private = declared_table(20_000)
    plan = pmp.calibrate(private, reference=KNOWN, **SCORES)
    assert plan.mechanism.part is not None
    found = pmp.summarize(
        plan, data=frame, columns={"X": ["a", "b"]}, id="id", progressbar=False,
        ledger=pmp.Ledger(epsilon=2, delta=1e-4),
    )  # fmt: skip
    with found.model(private) as made:
        assert made.observed_RVs == []
    _, mechanism = found.of_model(private)
    center, _ = mechanism.start(found.released)
    at = {name: v[0] for name, v in mechanism.parameters.natural(center[None]).items()}
    assert at["slopes"][0] == pytest.approx(0.5, abs=0.2)
    assert at["sigma"] == pytest.approx(1.0, abs=0.15)
    *_, final = mechanism.noisy_scores(found.released, KNOWN.rows)
    assert final.mean_weight < 0.95
    each = np.full(3000, 20_000 / 3000 * final.mean_weight)
    assert found.released["curvature"] == pytest.approx(final.clipped.moments(each)[0], rel=1e-9)


@pytest.mark.parametrize(("rows", "known"), [(70, False), (20_000, True)])
def test_a_stored_summary_is_read_by_the_sample_it_was_planned_by(tmp_path, rows, known):
    """A sample of few rows made it another mechanism: it could not be read again."""
    private, file = linear(), tmp_path / "main.nc"
    sample = {"X": columns(3, rows)}
    reference = KnownCovariates(sample) if known else sample
    ledger = pmp.Ledger(epsilon=2, delta=1e-4)
    words = {"ledger": ledger, "save": file, "progressbar": False, "accept": True}
    summary = pmp.summarize(private, reference=reference, method="scores", **BUDGET, **words)
    again = pmp.load(file)
    theta = np.random.default_rng(5).normal(0, 0.1, (4, 4))
    values = []
    for each in (summary, again):
        _, mechanism = each.of_model(linear() if each is again else None)
        values.append(mechanism.log_likelihood(each.released)(theta))
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    stored = again.released["given:X"]
    assert len(stored) == min(rows, reference_module.MOST_GIVEN)
    placeholders = np.resize(stored, (N, 2))  # rows of the sample itself, for an analyst
    with again.model(linear(x=placeholders)) as made:
        assert made.observed_RVs == []


def test_a_second_round_of_a_loaded_summary_releases_no_curvature_either(tmp_path):
    private, file = linear(), tmp_path / "main.nc"
    words = {"ledger": pmp.Ledger(epsilon=3, delta=1e-4), "progressbar": False}
    pmp.summarize(private, reference=KNOWN, method="scores", save=file, **BUDGET, **words)
    again = pmp.load(file)
    assert refinement_plan(again, epsilon=1, private=private).mechanism.design.known
    refined = pmp.refine(again, epsilon=1, private=private, **words)
    assert not np.ravel(refined.released["curvature_sd"]).any()
    assert KNOWN_CAUTION in [caution.text for caution in refined.warnings]


# ---- what posteriors are worth -------------------------------------------------------------------
def held(plan: Any, spread: float, simulations: int = 40) -> float:
    """Give the share of 90% intervals that hold, the number being spread more by some factor."""
    mechanism, shares = plan.mechanism, list[float]()
    for k, theta in enumerate(mechanism.parameters.draws(simulations, 11)):
        rng = np.random.default_rng([12, k])
        at = {name: v[0] for name, v in mechanism.parameters.natural(theta[None]).items()}
        x = columns(100 + k, N)
        x[:, 1] = np.clip(spread * x[:, 1], -1, 1)
        mean = at["intercept"] + x @ at["slopes"]
        y = np.clip(mean + at["sigma"] * rng.normal(size=N), -5, 5)
        released = mechanism.release({"X": x, "y": y}, SimulatedNoise(rng))
        likelihood, prior = mechanism.log_likelihood(released), mechanism.parameters.log_prior
        start = mechanism.start(released)
        found = importance_draws(lambda t, ll=likelihood, p=prior: ll(t) + p(t), *start, rng)
        low, high = found.quantiles([0.05, 0.95])
        shares.append(float(np.mean((low <= theta) & (theta <= high))))
    return float(np.mean(shares))


@pytest.mark.audit
def test_intervals_hold_where_the_distribution_is_known(plan):
    assert held(plan, 1.0) > 0.82  # .90 expected, .025 its standard error


@pytest.mark.audit
def test_a_wrong_distribution_that_is_taken_as_known_is_caught(plan):
    """The planted fault: a number that is spread thrice as much as it is taken to be."""
    assert held(plan, 3.0) < 0.8
