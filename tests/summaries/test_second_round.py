"""A second round of sums, cells and pooled records: its price, and what both rounds say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, Incompatible, NotInformative
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.summaries import refinement_plan
from pymc_private.summaries.cells.cell_mechanism import CellMechanism
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu
from pymc_private.summaries.records import record_refinement
from pymc_private.summaries.records.pooled_records import record_mechanism
from pymc_private.summaries.records.record_refinement import planned_record_round
from pymc_private.summaries.second_round import (
    DISAGREEMENT,
    disagreement_cautions,
    pooled_copies,
    repeated_round,
)
from pymc_private.summaries.sums.sum_mechanism import SumMechanism
from tests.summaries.record_answers import correlated, items

N, DELTA = 600, 1e-6
MUS = largest_mu(0.5, DELTA), largest_mu(1, DELTA)


def model_of(kind):
    """A conjugate model of some records, and its domain."""
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        if kind == "poisson":
            pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=rng.poisson(1.5, N))
            return model, (0, 9)
        if kind == "levels":
            p = pm.Dirichlet("p", np.ones(3))
            pm.Categorical("y", p, observed=rng.choice(3, N, p=[0.2, 0.5, 0.3]))
            return model, pmp.Categories(range(3))
        scale = pm.HalfNormal("scale", 2)
        pm.Weibull("y", alpha=1.5, beta=scale, observed=rng.weibull(1.5, N))
        return model, (0, 8)


@cache
def private_of(kind, neighbors=SUBSTITUTE):
    model, domain = model_of(kind)
    return pmp.privatize(model, records={"y": 0}, domain={"y": domain}, neighbors=neighbors)


def ledger(neighbors=SUBSTITUTE, epsilon=9):
    return pmp.Ledger(epsilon=epsilon, delta=1e-4, neighbors=neighbors)


METHODS = {
    "sums": ("poisson", SUBSTITUTE, DELTA),
    "sums, protected n": ("poisson", ADD_REMOVE, DELTA),
    "levels": ("levels", SUBSTITUTE, DELTA),
    "cells": ("weibull", SUBSTITUTE, DELTA),
    "pure cells": ("weibull", SUBSTITUTE, 0.0),
}
# Counts of levels are sums like others; how their copies are pooled has a test below.
CASES = [
    pytest.param(case, marks=pytest.mark.audit if case == "levels" else ()) for case in METHODS
]


@cache
def refined(case):
    """The ledger, the first summary and the refined one."""
    kind, neighbors, delta = METHODS[case]
    book = ledger(neighbors)
    method = "cells" if kind == "weibull" else "sums"
    words = {"ledger": book, "progressbar": False}
    n = N if neighbors == ADD_REMOVE else None
    first = pmp.summarize(
        private_of(kind, neighbors), epsilon=0.5, delta=delta, n=n, method=method, **words
    )
    return book, first, pmp.refine(first, epsilon=1, name="two", **words)


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", CASES)
def test_the_round_is_charged_by_itself_and_both_are_promised(case):
    book, first, second = refined(case)
    one, two = book.entries
    pure = first.guarantee.pure_epsilon < np.inf
    assert one.guarantee.events == first.guarantee.events
    if pure:
        assert 0.99 < two.guarantee.pure_epsilon <= 1
        assert second.guarantee.pure_epsilon <= 1.5
        assert "epsilons add up" in repr(second)
    else:
        assert (one.guarantee.gdp, two.guarantee.gdp) == MUS
        assert np.hypot(*MUS) <= second.guarantee.gdp < np.hypot(*MUS) * (1 + 1e-9)
        assert "squared mu add up" in repr(second)
    assert any("did not depend on what the first" in a for a in second.guarantee.assumptions)
    assert second.facts["information"] > first.facts["information"]


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", CASES)
def test_a_refined_summary_is_stored_named_and_read_as_any_other(case, tmp_path):
    book, first, second = refined(case)
    kind, neighbors, _ = METHODS[case]
    again = pmp.refine(first, epsilon=1, ledger=book, name="two", progressbar=False)
    assert again == second
    assert len(book.entries) == 2
    loaded = pmp.load(second.save(tmp_path / "two.nc"))
    _, found = loaded.of_model(private_of(kind, neighbors))
    _, known = second.of_model(None)
    theta, covariance = known.start(second.released)
    points = theta + 0.5 * np.linalg.cholesky(covariance).T
    np.testing.assert_allclose(
        found.log_likelihood(loaded.released)(points), known.log_likelihood(second.released)(points)
    )
    before = first.of_model(None)[1].start(first.released)[1]
    assert np.linalg.det(covariance) < np.linalg.det(before)
    second.model().compile_logp()
    third = refinement_plan(second, epsilon=1)
    assert third.total.epsilon(DELTA) > second.guarantee.epsilon(DELTA)
    assert "same sums once more" in repr(third)


def noisy(mechanism, sums, rng):
    """Released sums of known values with the noise of a mechanism."""
    found = {}
    for value, sd in mechanism.copied:
        if value in sums:
            shape = np.shape(sums[value])
            found[value] = sums[value] + np.asarray(sums[sd]) * rng.standard_normal(shape)
            found[sd] = sums[sd]
    return found


@pytest.mark.thin(2)
@pytest.mark.parametrize("neighbors", [SUBSTITUTE, ADD_REMOVE])
@pytest.mark.parametrize("kind", ["poisson", "levels"])
def test_two_copies_of_sums_are_one_summary_at_the_joint_mu(kind, neighbors):
    """The same numbers, the same noise, the same likelihood."""
    private = private_of(kind, neighbors)
    n = N if neighbors == ADD_REMOVE else None
    one, joint = (SumMechanism(private, mu, n=n) for mu in (MUS[0], np.hypot(*MUS)))
    joint.statistic = one._at(0.0, np.hypot(*MUS), ()).statistic  # within the bounds of the first
    y = {"y": np.asarray(private.sources[0].values())}
    first = one.release(y, SimulatedNoise(np.random.default_rng(1), neighbors))
    made = repeated_round(one, first, MUS[1])
    second = made.release(first, y, SimulatedNoise(np.random.default_rng(2), neighbors))
    whole = joint.release(y, SimulatedNoise(np.random.default_rng(3), neighbors))
    for value, sd in one.copied:
        if value in whole:
            np.testing.assert_allclose(second[sd], whole[sd], rtol=1e-9)
            whole[value] = second[value]
    center, covariance = joint.start(whole)
    points = center + np.linalg.cholesky(covariance).T
    np.testing.assert_allclose(
        made.refined.log_likelihood(second)(points), joint.log_likelihood(whole)(points), rtol=1e-9
    )
    np.testing.assert_allclose(made.refined.start(second)[1], covariance, rtol=1e-6)
    np.testing.assert_allclose(made.after, covariance, rtol=0.2)
    # A planted fault: a mean that forgets which copy has more noise.
    equal = (first["sums" if "sums" in first else "counts"] + 0.0) / 2
    assert not np.allclose(equal, second["sums" if "sums" in second else "counts"])


def test_two_copies_of_cells_are_one_summary_at_the_joint_mu():
    private = private_of("weibull")
    one, joint = (CellMechanism(private, mu, edges=[0.5, 1, 2]) for mu in (MUS[0], np.hypot(*MUS)))
    y = {"y": np.asarray(private.sources[0].values())}
    first = one.release(y, SimulatedNoise(np.random.default_rng(1)))
    made = repeated_round(one, first, MUS[1])
    second = made.release(first, y, SimulatedNoise(np.random.default_rng(2)))
    np.testing.assert_allclose(second["noise_sd"], joint.sd, rtol=1e-9)
    points = joint.start(second)[0] + np.array([[0.0], [0.1], [-0.2]])
    np.testing.assert_allclose(
        made.refined.log_likelihood(second)(points), joint.log_likelihood(second)(points)
    )
    np.testing.assert_allclose(made.refined.information, joint.information, rtol=1e-6)


def test_the_noise_of_pooled_copies_is_what_they_say():
    """Over many pairs: variance of the mean, and squared differences in units of their noise."""
    rng, truth = np.random.default_rng(5), np.array([40.0, 7.0, -3.0])
    names = [("sums", "sums_sd")]
    sds = np.array([2.0, 1.0, 0.0]), np.array([1.0, 3.0, 0.0])
    found = []
    for _ in range(4000):
        one, two = ({"sums": truth + sd * rng.standard_normal(3), "sums_sd": sd} for sd in sds)
        found.append(pooled_copies(one, two, names))
    every = np.array([one["sums"] for one in found])
    expected = sds[0] * sds[1] / np.maximum(np.hypot(*sds), 1e-9)
    np.testing.assert_allclose(found[0]["sums_sd"], expected)
    np.testing.assert_allclose(every.std(axis=0), expected, rtol=0.05)
    np.testing.assert_allclose(every[:, 2], truth[2])
    squares = np.array([one[DISAGREEMENT] for one in found])
    assert (squares[:, 1] == 2).all()
    assert abs(squares[:, 0].mean() - 2) < 0.15
    third = pooled_copies(found[0], one, names)
    assert third[DISAGREEMENT][1] == 4


def test_rounds_of_other_records_are_told():
    private = private_of("poisson")
    one = SumMechanism(private, MUS[0])
    y = np.asarray(private.sources[0].values())
    noise = SimulatedNoise(np.random.default_rng(1))
    first = one.release({"y": y}, noise)
    made = repeated_round(one, first, MUS[1])
    assert not disagreement_cautions(made.release(first, {"y": y}, noise))
    wrong = made.release(first, {"y": y + 3}, noise)
    (caution,) = disagreement_cautions(wrong)
    assert "were the records the same" in caution.text
    assert caution in made.refined.warnings(wrong)


# ---- pooled records ------------------------------------------------------------------------------
RECORD_MUS = largest_mu(0.7, DELTA), largest_mu(1.5, DELTA)


@cache
def records_round(make=items, n=600, moments=False):
    """Mechanism, records, first release, round and refined release of pooled records."""
    found = record_mechanism(make(n), RECORD_MUS[0])
    found.uses_moments = moments
    theta = found.model.start + 0.4
    data = {k: v[:n] for k, v in found.model.simulator.draw(theta, n, 7).outcomes.items()}
    first = found.release(data, SimulatedNoise(np.random.default_rng(1)))
    made = planned_record_round(found, first, RECORD_MUS[1])
    second = made.release(first, data, SimulatedNoise(np.random.default_rng(2)))
    return found, theta, data, first, made, second


@pytest.mark.audit
@pytest.mark.parametrize(("make", "moments"), [(items, False), (correlated, True)])
def test_a_round_of_records_narrows_their_posterior_as_predicted(make, moments):
    found, theta, _, first, made, second = records_round(make, moments=moments)
    before = np.sqrt(np.diag(found.start(first)[1]))
    after = np.sqrt(np.diag(made.refined.start(second)[1]))
    assert np.median(after / before) < 0.95
    np.testing.assert_allclose(after / before, made.shrinkage, atol=0.12)
    np.testing.assert_allclose(np.sqrt(np.diag(made.before)), before, rtol=0.15)
    assert (np.abs(made.refined.start(second)[0] - theta) < 5 * after).all()
    assert 0 < made.nats < made.nats_in_all
    for name in ("thetas", "metrics", "bounds", "sds"):
        np.testing.assert_array_equal(second[name][:-1], first[name])
    np.testing.assert_array_equal(second["thetas"][-1], found.start(first)[0])
    # A planted fault: a sum that is not pooled leaves the posterior as wide as it was.
    wide = np.sqrt(np.diag(found.start(first | {"sum:9": second["sum:9"]})[1]))
    assert not np.allclose(wide / before, made.shrinkage, atol=0.04)


def test_a_round_of_records_reads_them_through_one_noisy_sum_alone():
    class Known(SimulatedNoise):
        """Tells the same sum of any records, and keeps what it was paid."""

        def __init__(self):
            self.scale, self.paid = NoiseScale(), []

        def total(self, chunks, bound, positive, mu):
            rows = np.concatenate(list(chunks))
            assert (np.linalg.norm(rows, axis=1) <= bound * (1 + 1e-9)).all()
            self.paid.append(mu)
            return np.ones(rows.shape[1])

    _, _, data, first, made, _ = records_round()
    noises = Known(), Known()
    other = {name: 1 - values for name, values in data.items()}
    one, two = (
        made.release(first, d, noise) for d, noise in zip((data, other), noises, strict=True)
    )
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name], err_msg=name)
    assert noises[0].paid == [RECORD_MUS[1]]
    assert made.guarantee.gdp == RECORD_MUS[1]
    assert abs(made.refined.guarantee.gdp - np.hypot(*RECORD_MUS)) < 1e-9


@pytest.mark.audit
def test_a_summary_of_records_is_refined_charged_and_read_again(tmp_path):
    private, book = items(400), ledger(epsilon=20)
    words = {"ledger": book, "progressbar": False}
    first = pmp.summarize(private, epsilon=3, delta=DELTA, method="records", **words)
    second = pmp.refine(first, epsilon=2, **words)
    mus = [e.guarantee.gdp for e in book.entries]
    assert mus == [largest_mu(3, DELTA), largest_mu(2, DELTA)]
    assert second.guarantee.gdp < np.hypot(*mus) * (1 + 1e-9)
    loaded = pmp.load(second.save(tmp_path / "two.nc"))
    assert {"hard"} <= set(loaded.model(private, accept=True).named_vars)
    assert refinement_plan(loaded, epsilon=2, private=private).round.nats > 0


@pytest.mark.audit
def test_moments_of_another_generator_are_refused(monkeypatch):
    found, _, _, first, _, _ = records_round(correlated, moments=True)
    monkeypatch.setattr(record_refinement, "_seed_of", lambda k: 12345 + k)
    with pytest.raises(Incompatible, match="simulates other records"):
        planned_record_round(found, first, MUS[1])


# ---- nothing charged -----------------------------------------------------------------------------
@pytest.mark.parametrize("case", ["sums", "pure cells"])
@pytest.mark.parametrize(
    ("epsilon", "error", "text"),
    [
        (1e-3, NotInformative, "hardly tell"),
        (-1, DomainError, "epsilon"),
        (None, DomainError, "budget of its own"),
    ],
)
def test_what_is_no_round_is_refused_and_nothing_is_charged(case, epsilon, error, text):
    book, first, _ = refined(case)
    before = len(book.entries)
    with pytest.raises(error, match=text):
        pmp.refine(first, epsilon=epsilon, ledger=book, progressbar=False)
    assert len(book.entries) == before


def test_copies_with_laplace_noise_are_not_judged_by_normal_tails():
    """The largest of many differences, which normal noise would hardly show."""
    rng = np.random.default_rng(4)
    away = rng.laplace(size=(200_000, 2)) - rng.laplace(size=(200_000, 2))
    square = float((away**2).sum(axis=1).max() / 4.0)  # the variance of a difference is 4
    released = {DISAGREEMENT: np.array([square, 2.0])}
    assert disagreement_cautions(released)  # a false alarm, were the noise normal
    assert not disagreement_cautions(released, laplace=True)
    assert disagreement_cautions({DISAGREEMENT: np.array([1e4, 2.0])}, laplace=True)
