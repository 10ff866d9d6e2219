"""Densities and scores of whole records."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError, Unsupported
from pymc_private.models.prior import Simulator
from pymc_private.summaries.records.record_scores import WholeRecordDensity
from pymc_private.summaries.records.record_simulator import RecordSimulator
from tests.summaries.record_answers import EXTREME, MODELS, N, correlated, items, kinds, pair

FAST = ("pair", "items", "kinds")


def cases():
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.audit) for name in MODELS]


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", cases())
def test_scores_are_the_slopes_of_the_models_own_density(name):
    private = MODELS[name]()
    density = WholeRecordDensity(private)
    simulator = RecordSimulator(private, density)
    theta = density.parameters.draws(2)[1]
    sample = simulator.draw(theta, N, 5)
    records = {k: v[:N] for k, v in sample.outcomes.items()}
    step = 1e-5 * np.eye(len(theta))
    logs = density.log_density(np.concatenate([theta + step, theta - step]), records, density.kinds)
    slopes = ((logs[: len(theta)] - logs[len(theta) :]) / 2e-5).T
    at = density.at(theta)
    scores = at.scores(records, density.kinds)
    np.testing.assert_allclose(scores, slopes, atol=2e-6 * (1 + np.abs(slopes).max()))
    exact = at.exact_scores(records, density.kinds, np.eye(len(theta)))
    np.testing.assert_allclose(exact, scores, atol=1e-10 * (1 + np.abs(slopes).max()))
    # Records come from the density: scores average to zero.
    many = simulator.draw(theta, 4000, 6)
    found = at.scores(many.outcomes, many.kinds)
    assert np.abs(found.mean(axis=0) / found.std(axis=0) * np.sqrt(len(found))).max() < 4.5


def test_densities_are_those_of_pymc():
    private = correlated()
    density = WholeRecordDensity(private)
    theta = density.parameters.draws(1)
    point = {k: v[0] for k, v in density.parameters.natural(theta).items()}
    y = np.random.default_rng(1).normal(size=(N, 2))
    cov = np.array([[1.0, point["rho"]], [point["rho"], 1.0]])
    expected = pm.logp(pm.MvNormal.dist(point["mu"], cov), y).eval()
    np.testing.assert_allclose(
        density.log_density(theta, {"y": y}, density.kinds)[0], expected, rtol=1e-12
    )


@pytest.mark.audit
def test_a_record_is_scored_alone_to_the_last_bit():
    for private in (items(), kinds()):
        density = WholeRecordDensity(private)
        at = density.at(density.parameters.draws(1)[0])
        metric = np.random.default_rng(0).normal(size=(density.parameters.size,) * 2)
        source = private.sources[0]
        rng = np.random.default_rng(1)
        one, two = rng.integers(0, 2, (2, N, 3)).astype(source.dtype)
        two[17] = one[17]
        first, second = (at.exact_scores({"y": y}, density.kinds, metric) for y in (one, two))
        assert np.array_equal(first[17], second[17])
        assert not np.array_equal(first, second)
        # A record that is no record spoils no other.
        if source.dtype.startswith("float"):
            for entry in EXTREME:
                spoiled = one.copy()
                spoiled[3] = entry
                found = at.exact_scores({"y": spoiled}, density.kinds, metric)
                assert np.array_equal(np.delete(found, 3, 0), np.delete(first, 3, 0))


def test_equal_seeds_give_equal_records_of_every_kind():
    private = kinds()
    simulator = RecordSimulator(private, WholeRecordDensity(private))
    theta = np.zeros(2)
    one, two, other = (simulator.draw(theta, 300, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.outcomes["y"], two.outcomes["y"])
    assert not np.array_equal(one.outcomes["y"], other.outcomes["y"])
    assert np.bincount(one.kinds).tolist() == [90] * 4


def test_simulators_of_one_model_do_not_share_a_stream():
    private = pair()
    density = WholeRecordDensity(private)
    simulator, other = RecordSimulator(private, density), Simulator(private, 50, None, 1)
    point = {"mu": np.zeros(2), "s": np.ones(())}
    seen = []
    for _ in range(3):
        simulator.draw(np.zeros(3), 50, 7)
        seen.append(other.outcomes(point)["y"])
    assert not np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[1], seen[2])


def test_marginal_models_are_simulated_with_what_they_sum_over():
    private = items()
    density = WholeRecordDensity(private)
    y = RecordSimulator(private, density).draw(np.zeros(3), 20_000, 3).outcomes["y"]
    # A person's ability makes answers correlated: Cov = Var of 1 / (1 + exp(-z)), z standard normal
    assert np.cov(y[:, 0], y[:, 1])[0, 1] == pytest.approx(0.0433, abs=0.008)
    assert not np.array_equal(y[:500], y[500:1000])


def covariate():
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(N))
        pm.Normal("y", pm.Normal("b", 0, 1) * x[:, None], 1, observed=np.zeros((N, 2)))
    return pmp.privatize(model, records={"x": 0, "y": 0}, domain={"x": (-1, 1), "y": (-5, 5)})


def no_generator(random=None):
    def logp(value, mu):
        return -((value - mu) ** 2)

    with pm.Model() as model:
        mu, observed = pm.Normal("mu", 0, 1), np.zeros((N, 2))
        pm.CustomDist("y", mu, logp=logp, random=random, observed=observed)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-5, 5)})


def of_one_size():
    return no_generator(lambda mu, rng=None, size=None: rng.normal(size=size)[N * N * N])


def potential():
    with pm.Model() as model:
        y = pm.Data("y", np.zeros((N, 2)))
        pm.Potential("p", -((y - pm.Normal("mu", 0, 1)) ** 2).sum(axis=1))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-5, 5)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (covariate, "x"),
        (no_generator, r"random=\.\.\."),
        (potential, r"random=\.\.\."),
        (of_one_size, r"a generator failed.*pm\.draw"),
    ],
)
def test_what_cannot_be_summarized_is_refused_by_name(make, message):
    private = make()
    ledger = pmp.Ledger(epsilon=1, delta=1e-5)
    with pytest.raises(Unsupported, match=f"(?s){message}"):
        pmp.summarize(
            private, epsilon=1, delta=1e-6, method="records", ledger=ledger, progressbar=False
        )
    assert not ledger.entries


def test_public_entries_tell_a_protected_number():
    assert pair(neighbors="add_remove").neighbors == "add_remove"
    with pytest.raises(PymcPrivateError):
        RecordSimulator(*_protected())


def _protected():
    import dataclasses

    private = kinds()
    return dataclasses.replace(private, neighbors="add_remove"), WholeRecordDensity(private)


def test_a_table_that_an_entry_could_miss_is_refused():
    """An index outside of it would raise after the charge, for the data of one record."""
    table = np.linspace(0.0, 1.0, 3000)

    def logp(value, a):
        return pt.constant(table)[pt.cast(value, "int64")] * a - 1e-4 * value

    def random(a, rng=None, size=None):
        return rng.integers(0, 2900, size=size).astype(float)

    answers = np.random.default_rng(0).integers(0, 2900, size=(40, 2)).astype(float)
    with pm.Model(coords={"person": range(40)}) as model:
        data = pm.Data("answers", answers)
        pm.CustomDist("o", pm.Normal("a"), logp=logp, random=random, observed=data)
    private = pmp.privatize(model, records={"answers": 0}, domain={"answers": (0, 3100)})
    with pytest.raises(PymcPrivateError, match="a table is looked up by an entry"):
        pmp.calibrate(private, epsilon=2, delta=1e-6, release="summary", method="records")
