"""NUTS: a conditional claim, fresh runs, and nothing but last states."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.samplers import nuts
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
from tests.statistics import cdf_envelope

Y = np.array([0.3, -0.2, 1.1, 0.6])


@pytest.fixture(scope="module")
def private():
    with pm.Model(coords={"i": range(4)}) as model:
        mu = pm.Normal("mu", 0, 1)
        s = pm.HalfNormal("s", 1)
        pm.Normal("y", mu, s, observed=Y, dims="i")
    declared = pmp.privatize(model, records="i", domain={"y": (-1, 2)})
    return pmp.trim(declared, box={"mu": (-1, 1.5), "s": (0.2, 2)})


def test_the_distance_is_stated_or_nothing_is_drawn(private):
    for tv in (None, 0.0, 1.0):
        with pytest.raises(pmp.errors.DomainError, match="nobody can prove"):
            pmp.calibrate(private, epsilon=1, delta=1e-3, sampler=pmp.samplers.Nuts(tv=tv))
    with pytest.raises(pmp.errors.DomainError, match="nobody can prove"):
        pmp.calibrate(private, epsilon=1, delta=1e-3, sampler="nuts")


def test_states_of_one_chain_are_refused_with_the_reason(private):
    with pytest.raises(pmp.errors.DomainError, match="T19"):
        pmp.calibrate(
            private, epsilon=1, delta=1e-3, sampler=pmp.samplers.Nuts(tv=1e-6, states_per_run=5)
        )


@pytest.mark.thin(8)
@pytest.mark.parametrize("tune", [-1, 0, 2.5, "a", None, True])
def test_steps_that_are_no_number_are_refused_before_the_charge(private, tune):
    with pytest.raises(pmp.errors.DomainError, match="tune= counts steps"):
        pmp.calibrate(private, epsilon=1, delta=1e-3, sampler=pmp.samplers.Nuts(tv=1e-6, tune=tune))


def test_it_is_never_chosen_by_itself(private):
    assert pmp.calibrate(private, epsilon=1, delta=1e-3, clip=False).sampler != "nuts"


def test_it_is_never_pure_and_never_a_bare_epsilon(private):
    sampler = pmp.samplers.Nuts(tv=1e-6)
    plan = pmp.calibrate(private, epsilon=1, delta=1e-4, draws=2, sampler=sampler, clip=False)
    assert plan.guarantee.pure_epsilon == np.inf
    assert plan.guarantee.epsilon(1e-4) <= 1
    assert "conditional draws (nuts)" in plan.summary()
    assert "total variation" in plan.summary()
    assert any("not proved" in a for a in plan.guarantee.assumptions)
    with pytest.raises(pmp.errors.Unsupported, match="more delta"):
        pmp.calibrate(private, epsilon=1, delta=1e-4, draws=100, sampler=sampler)


def test_a_release_holds_last_states_on_the_public_grid(private, monkeypatch):
    seen = {}

    def runner(model, runs, tune, seed):
        seen.update(runs=runs, tune=tune, seed=seed)
        states = np.linspace(-0.9, 1.4, runs)[:, None] + np.pi * 1e-13
        return {"mu": np.hstack([states * 0, states]), "s": np.full((runs, 2), 0.7)}

    monkeypatch.setitem(nuts._RUNNERS, "pymc", runner)
    monkeypatch.setattr(nuts, "to_dataset", lambda d: {k: _Values(v) for k, v in d.items()})
    plan = pmp.calibrate(
        private, epsilon=1, delta=1e-3, draws=3, sampler=pmp.samplers.Nuts(tv=1e-6, tune=7)
    )
    release = pmp.sample(plan, ledger=pmp.Ledger(epsilon=2, delta=1e-2), progressbar=False)
    assert seen == {"runs": 3, "tune": 7, "seed": None}
    mu = release.posterior["mu"].values[0]
    assert np.allclose(mu, [-0.9, 0.25, 1.4])
    assert np.array_equal(mu * 2**39, np.round(mu * 2**39))
    assert release.facts["claim"].startswith("conditional on t")
    stated = "within 1e-6 of the {} in total variation (stated, not proved)"
    assert stated.format("posterior") in plan.summary()
    assert stated.format("private posterior") in " ".join(pmp.report(release).text.split())
    assert stated.format("private posterior") in repr(release.mean("mu"))


def test_nothing_is_drawn_from_the_model_that_a_plan_shows(monkeypatch):
    """It may have been changed since; what was checked is the base."""
    with pm.Model(coords={"i": range(4)}) as model:
        w = pm.Data("w", np.array([1.0, 2.0, 3.0]))
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu * w.sum(), 1, observed=Y, dims="i")
    declared = pmp.privatize(model, records="i", domain={"y": (-1, 2)})
    private = pmp.trim(declared, box={"mu": (-1, 1)})
    pm.set_data({"w": np.array([100.0, 200.0, 300.0])}, model=private.model)
    seen = []

    def runner(model, runs, tune, seed):
        seen.append(model["w"].get_value())
        return {"mu": np.zeros((runs, 1))}

    monkeypatch.setitem(nuts._RUNNERS, "pymc", runner)
    monkeypatch.setattr(nuts, "to_dataset", lambda d: {k: _Values(v) for k, v in d.items()})
    nuts.sample_nuts(private, 2, SystemRandomness(), backend="pymc", tune=1)
    assert seen[0].tolist() == [1.0, 2.0, 3.0]


class _Values:
    def __init__(self, values):
        self.values = values


@pytest.mark.audit
def test_unknown_and_absent_back_ends_are_refused(private):
    with pytest.raises(pmp.errors.DomainError, match="no such back end"):
        pmp.calibrate(
            private, epsilon=1, delta=1e-3, sampler=pmp.samplers.Nuts(tv=1e-6, backend="stan")
        )
    absent = [b for b, p in nuts.BACKENDS.items() if importlib.util.find_spec(p) is None]
    for backend in absent:
        with pytest.raises(pmp.errors.Unsupported, match="not installed"):
            pmp.calibrate(
                private, epsilon=1, delta=1e-3, sampler=pmp.samplers.Nuts(tv=1e-6, backend=backend)
            )


def test_a_seed_repeats_and_a_private_run_has_none(private):
    found = [
        nuts.sample_nuts(private, 2, source, backend="pymc", tune=5)["mu"]
        for source in (SeededRandomness.from_seed(1), SeededRandomness.from_seed(1),
                       SystemRandomness())
    ]  # fmt: skip
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize("backend", ["numpyro", "blackjax"])
def test_keys_of_jax_are_long_and_never_the_same(backend, monkeypatch):
    """PyMC's own keys have 30 bits: whoever has the draws could try them all."""
    seen = []

    class Module:
        @staticmethod
        def sample_jax_nuts(*, random_seed, **words):
            seen.extend(random_seed)
            assert words["chain_method"] == "vectorized"

    with monkeypatch.context() as patch:
        patch.setattr(nuts.importlib, "import_module", lambda name: Module)
        for seed in (None, None, 7):
            nuts._RUNNERS[backend](None, 2, 5, seed)
    assert len(set(seen)) == 3
    assert seen[2] == 7
    assert max(seen[:2]).bit_length() > 40  # one chance in 2^44 that both are small


@pytest.mark.parametrize("backend", ["numpyro", "blackjax"])
def test_a_back_end_that_would_fail_is_refused_before_the_charge(backend, monkeypatch, private):
    monkeypatch.setattr(nuts.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(nuts.importlib.metadata, "version", lambda name: "9.9")
    monkeypatch.setattr(nuts, "_trial_problem", lambda name: "TypeError: progress_bar")
    with pytest.raises(pmp.errors.Unsupported, match=r"9\.9.*TypeError: progress_bar"):
        pmp.samplers.Nuts(tv=1e-6, backend=backend).check(private)


@pytest.mark.audit
@pytest.mark.parametrize("backend", nuts.INSTALL_HINTS)
def test_back_ends_of_jax_make_releases(backend, private):
    """Also the trial itself, which says that a key keeps all of its bits."""
    if importlib.util.find_spec(nuts.BACKENDS[backend]) is None:
        pytest.skip(f"{backend} is not installed")
    if nuts._trial_problem(backend):
        pytest.skip(f"{backend} does not work here: {nuts._trial_problem(backend)}")
    sampler = pmp.samplers.Nuts(tv=1e-6, backend=backend, tune=100)
    plan = pmp.calibrate(private, epsilon=1, delta=1e-3, draws=3, sampler=sampler)
    release = pmp.sample(plan, ledger=pmp.Ledger(epsilon=2, delta=1e-2), progressbar=False)
    assert release.posterior["mu"].values.shape == (1, 3)
    assert len(np.unique(release.posterior["mu"])) == 3
    assert "63 bits" in str(release.guarantee.assumptions)


@pytest.mark.audit
@pytest.mark.parametrize("backend", nuts.BACKENDS)
def test_fresh_runs_end_in_the_posterior(backend):
    if importlib.util.find_spec(nuts.BACKENDS[backend]) is None:
        pytest.skip(f"{backend} is not installed")
    if backend in nuts.INSTALL_HINTS and nuts._trial_problem(backend):
        pytest.skip(f"{backend} does not work here: {nuts._trial_problem(backend)}")
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 0.5, observed=Y, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 2)})
    found = nuts.sample_nuts(
        private, 150, SeededRandomness.from_seed(5), backend=backend, tune=200
    )["mu"]
    variance = 1 / (1 + 4 * 4)
    law = stats.norm(variance * 4 * Y.sum(), np.sqrt(variance))
    assert cdf_envelope(found, law.cdf).passes


@pytest.mark.audit
def test_diagnostics_stay_with_the_curator(private):
    found = pmp.samplers.diagnose(private, tune=200, draws=300, chains=2, fresh=30, random_seed=1)
    assert "Not to be published" in repr(found)
    assert found.table.loc["mu", "r_hat"] < 1.1
    assert found.gap < 3 * found.noise


def test_nutpie_is_seeded_by_the_operating_system_at_every_call(monkeypatch):
    """Its own generator survives a fork: workers of one pool drew the same numbers."""
    seeds = []
    stub = SimpleNamespace(
        compile_pymc_model=lambda model: model, sample=lambda model, **words: seeds.append(words)
    )
    monkeypatch.setattr(nuts.importlib, "import_module", lambda name: stub)
    for seed in (None, None, 7):
        nuts._run_nutpie(pm.Model(), 1, 10, seed)
    first, second, third = (each["seed"] for each in seeds)
    assert isinstance(first, int)
    assert first != second
    assert third == 7


@pytest.mark.thin(2)
@pytest.mark.parametrize("wall", [False, True])
def test_a_prior_without_a_place_to_start_is_refused_before_the_charge(wall):
    with pm.Model() as model:
        mu = pm.Uniform("mu", -1.0, 1.0)
        pm.Potential("wall", pm.math.switch(mu > (2.0 if wall else 0.0), 0.0, -np.inf))
        pm.Normal("y", mu, 1.0, observed=np.array([0.1, 0.2, 0.3]))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})
    words = {"draws": 1, "epsilon": 9, "delta": 0.5, "sampler": pmp.samplers.Nuts(tv=1e-5)}
    if not wall:
        assert pmp.calibrate(private, **words).sampler == "nuts"
        return
    with pytest.raises(pmp.errors.DomainError, match="no density where NUTS would start"):
        pmp.calibrate(private, **words)
