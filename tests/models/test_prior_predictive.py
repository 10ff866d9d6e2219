"""Simulated records come from the restricted prior, the model and public covariates alone."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit

import pymc_private as pmp
from pymc_private.audit import cdf_envelope
from pymc_private.models import prior
from pymc_private.models.information import simulated_information
from pymc_private.models.prior import Simulator, prior_draws
from pymc_private.models.uniform_records import uniform_entries
from tests.models.test_nothing_reads_data import overwrite

ALARM = 1e-9
"""Probability that a correct simulation fails one comparison with its law."""
N = 30


def logistic(n=N):
    rng = np.random.default_rng(0)
    with pm.Model(coords={"person": range(n), "column": ["a", "b"]}) as model:
        x = pm.Data("X", rng.uniform(-0.1, 0.1, (n, 2)), dims=("person", "column"))
        slope = pm.Normal("slope", 0, 2, dims="column")
        pm.Bernoulli("y", logit_p=x @ slope, observed=np.zeros(n, int), dims="person")
    return pmp.privatize(model, records="person", domain={"X": pmp.Ball(1.0)})


def normal(scale=2.0, n=N):
    with pm.Model(coords={"i": range(n)}) as model:
        pm.Normal("y", pm.Normal("mu", 0, scale), 1.0, observed=np.zeros(n), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-50, 50)})


@pytest.fixture(scope="module")
def patients():
    """Give the logistic regression."""
    return logistic()


def groups(container):
    names = ("prior", "prior_predictive", "constant_data")
    return {name: container[name] for name in names if name in container}


def test_forms_of_a_model_share_seeded_prior_draws_until_public_data_change(monkeypatch):
    seeds, draw = [], prior.draw_together
    monkeypatch.setattr(prior, "draw_together", lambda *a: seeds.append(a[-1]) or draw(*a))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, pm.Data("scale", 1.0))
        pm.Normal("y", mu, 1.0, observed=np.zeros(N))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})
    prior_draws(private)["mu"][:] = 0.0  # a copy
    shared = prior_draws(pmp.temper(pmp.trim(private, box={"mu": (-1, 1)}), 0.5))["mu"]
    assert len(seeds) == 1
    assert np.std(shared) == pytest.approx(1.0, abs=0.1)
    private.base["scale"].set_value(3.0)
    np.testing.assert_allclose(prior_draws(private)["mu"], 3.0 * shared)
    for _ in range(2):
        prior_draws(private, seed=7)
    assert len(seeds) == 4  # draws by another seed are not kept


def test_draws_stay_in_the_region_and_carry_the_models_names():
    trimmed = pmp.trim(logistic(), box={"slope": (0, 1)})
    found = groups(trimmed.prior_predictive(40, records=7, random_seed=3))
    slope = found["prior"]["slope"]
    assert slope.dims == ("chain", "draw", "column")
    assert list(slope["column"].values) == ["a", "b"]
    assert np.all((slope.values >= 0) & (slope.values <= 1))
    assert found["prior_predictive"]["y"].dims == ("chain", "draw", "record")
    assert found["prior_predictive"]["y"].shape == (1, 40, 7)
    rows = found["constant_data"]["X"]
    assert rows.dims == ("record", "column")
    assert "person" not in rows.coords
    assert np.all(np.linalg.norm(rows.values, axis=1) <= 1 + 1e-9)


def test_simulation_reads_no_data():
    kept, swapped = logistic(), logistic()
    overwrite(swapped)
    first, second = (p.prior_predictive(5, random_seed=1) for p in (kept, swapped))
    for name, values in groups(first).items():
        assert values.equals(groups(second)[name])


def test_outcomes_follow_the_model():
    """Exact binomial counts of ones; a shift of a log odds by 0.2 is missed with 1e-3 at most."""
    simulator = Simulator(logistic(), 20_000, seed=5)
    point = {"slope": np.array([1.0, -3.0])}
    ones = simulator.outcomes(point)["y"].sum()
    chances = expit(simulator.covariates["X"] @ point["slope"])
    sd = np.sqrt((chances * (1 - chances)).sum())
    assert abs(ones - chances.sum()) <= stats.norm.isf(ALARM / 2) * sd


def test_the_restricted_prior_keeps_its_shape():
    """The law of a cut normal; a missing cut would be seen at a distance of CDFs of 0.3."""
    trimmed = pmp.trim(normal(), box={"mu": (0.5, 3)})
    drawn = groups(trimmed.prior_predictive(3000, records=1, random_seed=2))["prior"]["mu"].values
    law = stats.truncnorm(0.25, 1.5, scale=2.0)
    assert cdf_envelope(np.ravel(drawn), law.cdf, false_alarm=ALARM).passes


@pytest.mark.parametrize(
    ("domain", "shape", "whole"),
    [
        (pmp.Interval(-1, 3), (), False),
        (pmp.Interval(0, 4), (2,), True),
        (pmp.Interval([0, 10], [1, 20]), (2,), False),
        (pmp.Categories([1, 5]), (3,), True),
        (pmp.Ball(2.0, center=[1, 2], scale=[1, 3]), (2,), False),
        (pmp.Simplex(), (3,), False),
        (pmp.Counts(4), (3,), True),
    ],
)
def test_records_are_drawn_from_the_whole_of_their_domain(domain, shape, whole):
    rows = uniform_entries(domain, shape, 2000, whole, np.random.default_rng(1))
    assert rows.shape == (2000, *shape)
    clipped = domain.clip(rows if rows.ndim > 1 else rows.astype(float), 0)
    assert np.allclose(clipped, rows, atol=1e-9)
    bounds = domain.bounds(shape)
    share = (rows.max(axis=0) - rows.min(axis=0)) / (bounds.upper - bounds.lower)
    assert np.all(share > 0.9)
    if whole:
        assert np.array_equal(rows, np.round(rows))


def test_a_ball_is_filled_evenly():
    """|x|^d is uniform for x uniform in the unit ball."""
    rows = uniform_entries(pmp.Ball(1.0), (3,), 4000, False, np.random.default_rng(2))
    assert cdf_envelope(
        np.linalg.norm(rows, axis=1) ** 3, stats.uniform.cdf, false_alarm=ALARM
    ).passes


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"Z": np.zeros((4, 2))}, "no private variable"),
        ({"X": np.zeros((4, 3))}, "does not fit"),
        ({"X": np.zeros(4)}, "does not fit"),
        ({"X": np.full((4, 2), np.nan)}, "no finite number"),
        ({"X": np.zeros((4, 2)), "y": np.zeros(5)}, "differ in length"),
    ],
)
def test_a_reference_that_does_not_fit_is_refused(patients, reference, message):
    with pytest.raises(pmp.errors.DomainError, match=message):
        patients.prior_predictive(2, reference=reference)
    with pytest.raises(pmp.errors.DomainError, match=message):
        pmp.calibrate(patients, epsilon=1.0, delta=1e-6, reference=reference)


def test_covariates_come_from_the_reference_in_whole_rows():
    reference = {"X": np.array([[0.6, 0.0], [0.0, -0.6], [3.0, 4.0]])}
    rows = Simulator(logistic(), 50, reference, 1).covariates["X"]
    allowed = [[0.6, 0.0], [0.0, -0.6], [0.6, 0.8]]  # clipped as data are
    assert {tuple(row) for row in rows.round(9).tolist()} == {tuple(row) for row in allowed}


@pytest.mark.parametrize("numbers", [{"draws": 0}, {"draws": 1.5}, {"records": 0}])
def test_numbers_that_are_no_counts_are_refused(numbers):
    with pytest.raises(pmp.errors.DomainError, match="whole number"):
        normal().prior_predictive(**numbers)


def test_what_cannot_be_simulated_says_why():
    with pm.Model(coords={"i": range(4)}) as model:
        y = pm.Data("y", np.zeros(4), dims="i")
        pm.Potential("loss", -0.5 * (y - pm.Normal("mu", 0, 1)) ** 2)
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    with pytest.raises(pmp.errors.Unsupported, match="loss: no distribution"):
        private.prior_predictive(3)
    tiny = pmp.trim(normal(), box={"mu": (30, 31)})
    with pytest.raises(pmp.errors.Unsupported, match="too little of the prior"):
        tiny.prior_predictive(3)


@pytest.mark.filterwarnings("ignore")
def test_plain_pymc_behaves_on_a_trimmed_model_or_warns():
    """`pm.sample` stays in the region; `pm.sample_prior_predictive` says that it does not."""
    trimmed = pmp.trim(logistic(), box={"slope": (0.5, 1)})
    assert np.all(trimmed.initvals["slope"] == 0.75)
    short = {"draws": 8, "tune": 8, "chains": 1, "cores": 1, "progressbar": False}
    fast = {"compile_kwargs": {"mode": "FAST_COMPILE"}, "random_seed": 1}
    with trimmed.model:
        drawn = pm.sample(
            **short, **fast, initvals=trimmed.initvals, compute_convergence_checks=False
        )
        with pytest.warns(UserWarning, match="Potentials"):
            pm.sample_prior_predictive(draws=2, **fast)
    slope = drawn.posterior["slope"].values
    assert np.all((slope >= 0.5) & (slope <= 1))


@pytest.mark.parametrize("change", [lambda p: p, lambda p: pmp.clip(p, -2.0)], ids=["", "clipped"])
def test_dims_without_a_name_get_one_in_the_plain_model(change):
    """PyMC's transforms, and nutpie, assert that every dim has a name."""
    with pm.Model(coords={"i": range(3)}) as model:
        x = pm.Data("x", np.zeros((3, 2)), dims=("i", None))
        b = pm.Normal("b", 0, 1, shape=2)
        pm.Normal("y", x @ b, 1, observed=np.zeros(3), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0), "y": (-1, 1)})
    plain = change(pmp.trim(private, box={"b": (-1, 1)})).model
    assert tuple(plain.named_vars_to_dims["x"]) == ("i", "x_dim_1")
    assert plain.dim_lengths["x_dim_1"].eval() == 2
    assert model.named_vars_to_dims["x"] == ("i", None)


def test_starts_of_the_model_are_kept_and_those_outside_the_region_are_not():
    with pm.Model(coords={"i": range(3)}) as model:
        a, b = pm.Normal("a", 0, 1, initval=0.3), pm.Normal("b", 0, 1, initval=5.0)
        pm.Normal("y", a + b, 1, observed=np.zeros(3), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    assert private.initvals == {"a": 0.3, "b": 5.0}
    assert pmp.trim(private, box={"b": (0, 1)}).initvals == {"a": 0.3, "b": 0.5}


def test_the_information_of_a_normal_mean_is_that_of_the_formula():
    """1/2 log(1 + w n s^2); 48 points of 256 records leave the mean of log J within 2%."""
    private = normal(scale=2.0)
    found = simulated_information(private, 100)
    for power in (1.0, 0.1):
        exact = 0.5 * np.log1p(power * 100 * 4.0)
        assert found.gain(private, power) == pytest.approx(exact, rel=0.02)


def test_what_a_trim_cuts_off_learns_nothing():
    private = normal()
    found = simulated_information(private, 100)
    half = pmp.trim(private, box={"mu": (0, 50)})
    assert found.gain(half, 1.0) == pytest.approx(0.5 * found.gain(private, 1.0), rel=0.1)
    nowhere = pmp.trim(private, box={"mu": (40, 41)})
    assert found.gain(nowhere, 1.0) == 0.0


def test_a_clip_takes_the_information_of_the_records_beyond_it():
    private = normal()
    found = simulated_information(private, 100)
    whole = found.gain(private, 1.0)
    gains = [found.gain(private, 1.0, (low, 0.0)) for low in (-1e9, -2.0, -1.0)]
    assert gains[0] == whole
    assert gains[0] > gains[1] > gains[2] > 0
    assert found.gain(private, 1.0, (5.0, 6.0)) == 0.0


def test_the_simulation_does_not_grow_with_the_records():
    small, large = (simulated_information(logistic(n), 1000) for n in (10, 3000))
    assert small.scores.shape == large.scores.shape
    assert np.array_equal(small.scores, large.scores)


def test_a_single_prior_draw_has_the_axis_of_draws():
    with pm.Model(coords={"i": range(4)}) as model:
        ordered = pm.distributions.transforms.ordered
        cut = pm.Normal("cut", [-1.0, 0.0, 1.0], 0.1, transform=ordered, initval=[-1, 0, 1])
        pm.Normal("y", cut[0], 1.0, observed=np.zeros(4), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    assert prior_draws(private, 1)["cut"].shape == (1, 3)
    assert private.prior_predictive(1, random_seed=1)["prior"]["cut"].shape == (1, 1, 3)
