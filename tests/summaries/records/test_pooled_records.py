"""Pooled scores of whole records: bounds, means, likelihood, warnings (T34)."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import product

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import Incompatible, NotInformative
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu
from pymc_private.summaries.records.pooled_likelihood import pooled_potential
from pymc_private.summaries.records.pooled_mode import simulated_moments
from pymc_private.summaries.records.pooled_records import record_mechanism
from pymc_private.summaries.records.pooled_terms import ClippedMoments, ClippedScores
from pymc_private.summaries.records.record_simulator import MadeUpRecords
from tests.summaries.record_answers import EXTREME, N, correlated, counts, items, kinds, pair

MU = largest_mu(2, 1e-6)


@cache
def mechanism(make=pair, mu=MU):
    return record_mechanism(make(), mu)


def made(found, theta, seed=1):
    """Records of a mechanism's model."""
    n = int(found.count)
    return {k: v[:n] for k, v in found.model.simulator.draw(theta, n, seed).outcomes.items()}


class KnownSums:
    """Keeps the integer terms of every stage, and tells every run the sums of the first."""

    def __init__(self, relation=SUBSTITUTE):
        self.scale, self.sums, self.bounds, self.runs = NoiseScale(relation), [], [], []

    def start(self):
        self.runs.append([])
        return self

    def total(self, chunks, bound, positive, mu):
        lattice = TermLattice(bound)
        terms = np.concatenate([lattice.terms(np.asarray(c, float), positive) for c in chunks])
        stage = len(self.runs[-1])
        self.runs[-1].append(terms)
        if stage == len(self.sums):
            self.bounds.append((lattice, positive))
            self.sums.append(np.ldexp(terms.sum(axis=0).astype(float), lattice.exponent))
        return self.sums[stage].copy()

    def sd(self, bound, positive, mu, k):
        return self.scale.sd(bound, positive, mu, k)


class PaidNoise(SimulatedNoise):
    """Keeps what every sum was paid."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.paid = []

    def total(self, chunks, bound, positive, mu):
        self.paid.append(mu)
        return super().total(chunks, bound, positive, mu)


@pytest.mark.parametrize(
    "make", [pair, items, *(pytest.param(m, marks=pytest.mark.audit) for m in (kinds, counts))]
)
def test_a_replaced_record_moves_no_sum_beyond_its_sensitivity(make):
    found, noise = mechanism(make), KnownSums()
    records = made(found, found.model.start)
    found.release(records, noise.start())
    dtype = records["y"].dtype
    others = EXTREME if dtype.kind == "f" else (np.iinfo(dtype).max, np.iinfo(dtype).min, 7)
    places = 5 + np.arange(len(others))
    changed = records["y"].copy()
    changed[places] = np.array(others, dtype).reshape(-1, *[1] * (changed.ndim - 1))
    found.release({"y": changed}, noise.start())
    for (lattice, positive), one, two in zip(noise.bounds, *noise.runs, strict=True):
        assert np.array_equal(np.delete(one, places, 0), np.delete(two, places, 0))
        limit = lattice.squared_sensitivity(one.shape[1], positive, True)
        for gap in (one[places] - two[places]).astype(object):
            assert sum(g * g for g in gap) <= limit


def test_the_budget_is_kept_and_every_stage_is_paid_for():
    for relation, n in ((SUBSTITUTE, None), (ADD_REMOVE, N)):
        found = record_mechanism(pair(neighbors=relation), MU, n=n)
        noise = PaidNoise(np.random.default_rng(0), relation)
        found.release(made(found, found.model.start), noise)
        paid = noise.paid
        assert sum(mu**2 for mu in paid) <= MU**2 * (1 + 1e-15)
        assert sum(mu**2 for mu in paid) == pytest.approx(MU**2, rel=1e-12)
        assert len(paid) == 9 + (relation == ADD_REMOVE) == len(found.stages) - 1
        assert found.guarantee.neighbors == relation


@pytest.mark.audit
def test_terms_are_bounded_whatever_a_record_holds():
    model = mechanism(correlated).model
    theta = model.start
    at = model.density.at(theta)
    y = np.random.default_rng(0).normal(size=(len(EXTREME) + 1, 2))
    y[1:] = np.array(EXTREME)[:, None]
    zeros = np.zeros(len(y), int)
    for terms in (ClippedScores(at, np.eye(3), 1.5), ClippedMoments(np.zeros(2), np.eye(2), 2.5)):
        raw = terms.terms({"y": y}, zeros)
        lattice = TermLattice(terms.bound)
        units = lattice.terms(raw, terms.positive)
        norms = [sum(int(v) ** 2 for v in row) for row in units]
        assert max(norms) <= lattice.most**2
        assert norms[0] > 0
        sample = MadeUpRecords({"y": y[:1]}, zeros[:1])
        np.testing.assert_allclose(raw[:1], terms.made_up(sample), rtol=1e-12)


def test_means_by_simulation_are_sums_over_all_answers():
    model = mechanism(items).model
    theta = np.array([0.5, -0.2, 0.1])
    terms = ClippedScores(model.density.at(np.zeros(3)), np.eye(3) * 1.7, 0.9)
    every = np.array(list(product((0, 1), repeat=3)))
    kind = np.zeros(8, int)
    shares = np.exp(model.density.log_density(theta[None], {"y": every}, kind)[0])
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    psi = terms.made_up(MadeUpRecords({"y": every}, kind))
    scores = model.density.at(theta).scores({"y": every}, kind)
    sample = model.simulator.draw(theta, 20_000, 4)
    found = simulated_moments(model.density, theta, [terms], sample)
    np.testing.assert_allclose(found.mean, shares @ psi, atol=0.01)
    np.testing.assert_allclose(found.slope, (psi * shares[:, None]).T @ scores, atol=0.015)
    error = np.sqrt(np.diag(found.left) / 20_000)
    assert (error < np.sqrt(np.diag(found.covariance) / 20_000) / 2).all()


@cache
def released(make=pair, mu=MU, seed=3):
    found = mechanism(make, mu)
    theta = found.parameters.draws(4, 11)[2]
    records = made(found, theta)
    return theta, records, found.release(records, SimulatedNoise(np.random.default_rng(seed)))


def test_the_mean_of_the_likelihood_is_that_of_the_model():
    found = mechanism(items)
    _, _, public = released(items)
    stored = found.stored(public)
    model = found.model
    every = np.array(list(product((0, 1), repeat=3)))
    kind = np.zeros(8, int)
    root = np.linalg.cholesky(stored.covariance)
    # e = G z - n G m(theta): differences of e between two parameters are those of exact means.
    points = stored.center + np.array([[0.0] * 3, [1.0, 0.5, -0.5], [-1.0, 1.0, 0.5]]) @ root.T
    reference = stored.reference.outcomes["y"]
    places = [int(np.flatnonzero((reference == row).all(axis=1))[0]) for row in every]
    shares = np.exp(model.density.log_density(points, {"y": every}, kind))
    exact = -shares @ stored.terms[places]
    mass = stored.mass(model.density, points)
    rest = -mass @ stored.terms - (points - stored.center) @ stored.slope.T
    np.testing.assert_allclose(np.diff(rest, axis=0), np.diff(exact, axis=0), atol=0.15)
    spread = np.abs(np.diff(exact, axis=0)).max()
    assert spread > 0.5


def test_without_noise_the_posterior_is_that_of_the_data():
    found = mechanism(pair, 60.0)
    _, records, public = released(pair, 60.0)
    rng, parameters = np.random.default_rng(0), found.parameters
    draws = {}
    for name, likelihood in (
        ("noisy", found.log_likelihood(public)),
        ("exact", lambda t: found.model.density.log_density(
            t, records, found.model.density.kinds).sum(axis=1)),
    ):  # fmt: skip
        draws[name] = importance_draws(
            lambda t, f=likelihood: f(t) + parameters.log_prior(t), *found.start(public), rng
        )
    gap = (draws["noisy"].mean - draws["exact"].mean) / draws["exact"].sd
    assert np.abs(gap).max() < 0.6
    ratio = draws["noisy"].sd / draws["exact"].sd
    assert (ratio > 0.9).all()
    assert (ratio < 1.4).all()


def test_a_density_that_lacks_a_factor_is_refused():
    found = mechanism()
    _, _, public = released()
    with pm.Model():
        mu, s = pm.Normal("mu", 0, 1, shape=2), pm.LogNormal("s", 0, 0.5)
        stored = found.stored(public)
        pooled_potential(stored, found.model.density, {"mu": mu, "s": s})
        y = stored.reference.outcomes["y"]
        wrong = dataclasses.replace(stored, base=stored.base + 0.3 * y[:, 0])
        with pytest.raises(Incompatible, match="density"):
            pooled_potential(wrong, found.model.density, {"mu": mu, "s": s})


def test_few_records_and_many_parameters_are_refused_and_warned_of():
    assert mechanism().predicted_error < 2
    with pytest.raises(NotInformative, match="mostly noise"):
        record_mechanism(pair(), 0.05)
    weak = record_mechanism(pair(), 2 * np.sqrt(3 / N) / 2.5)
    assert any("noise is expected" in caution.text for caution in weak.cautions())


def test_scales_near_zero_are_named():
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 1), pm.Gamma("s", 0.2, 1)
        pm.Normal("y", mu, s, observed=np.zeros((N, 2)))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-8, 8)})
    texts = [caution.text for caution in record_mechanism(private, MU).cautions()]
    assert any("near zero" in text and " s " in text for text in texts)
    assert not any("near zero" in caution.text for caution in mechanism().cautions())


def test_a_misfit_is_seen_and_far_modes_are_refused():
    found = mechanism()
    _, _, public = released()
    assert not any(caution.refuse for caution in found.warnings(public))
    far = dict(public) | {"quality": np.array([1.6, 0.9, 20.0, 20.0])}
    assert any(c.refuse and "last release" in c.text for c in found.warnings(far))
    few = dict(public) | {"quality": np.array([0.1, 0.3, 20.0, 20.0])}
    assert any(c.refuse and "reference" in c.text for c in found.warnings(few))
    off = dict(public) | {"quality": np.array([0.1, 0.9, 60.0, 20.0])}
    assert any(not c.refuse and "disagree" in c.text for c in found.warnings(off))


@pytest.mark.audit
@pytest.mark.parametrize("make", [pair, correlated, items, kinds, counts])
def test_intervals_hold_what_they_say(make):
    """Few data sets see gross faults alone; `benchmarks.noise_aware_records` has more of them."""
    plan = pmp.calibrate(make(400), epsilon=1, delta=1e-6, release="summary", method="records")
    found = plan.coverage(20, levels=(0.9,), draws=500, random_seed=2, progressbar=False)
    assert found.found[0] + 2 * found.errors[0] >= 0.87
    assert found.refused + found.failed <= 2
