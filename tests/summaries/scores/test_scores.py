"""Noisy scores: what the release reads, what the likelihood reads, and how right it is."""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.lattice import pack_symmetric
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.reference import CovariateReference
from pymc_private.summaries.scores.score_budget import are_many, score_budget
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism
from tests.summaries.packed_matrices import PackedMatrices
from tests.summaries.score_models import Logistic, Normal, Poisson

MU = largest_mu(1.0, 1e-6)
SIMULATIONS = 12


@dataclass
class ReplayedNoise(PackedMatrices):
    """Totals as they were told, whatever the data."""

    told: list
    scale: NoiseScale = field(default_factory=NoiseScale)

    def total(self, chunks, bound, positive, mu):
        for chunk in chunks:
            norms = np.linalg.norm(chunk, axis=1)
            assert np.isfinite(chunk).all()
            assert norms.max(initial=0.0) <= bound * (1 + 1e-12)
        return self.told.pop(0)

    def sd(self, bound, positive, mu, k):
        return self.scale.sd(bound, positive, mu, k)


class RecordedNoise(PackedMatrices, SimulatedNoise):
    """Simulated noise that remembers its totals."""

    def __init__(self, rng):
        super().__init__(rng)
        self.told = []

    def total(self, *arguments):
        self.told.append(super().total(*arguments))
        return self.told[-1]


class SecondMoments:
    """The moments stage of one array of covariates in [-1, 1], without a transport."""

    bound = 4.0

    def terms(self, rows):
        a = np.column_stack([np.ones(len(rows["x"])), rows["x"]])
        with np.errstate(all="ignore"):
            weights = np.minimum(1.0, self.bound / (a**2).sum(axis=1))
            found = pack_symmetric(weights[:, None, None] * a[:, :, None] * a[:, None, :])
        return np.where(np.isfinite(found).all(axis=1)[:, None], found, 0.0)

    def moved(self, reference, noisy, sd, n):
        return reference

    def refined(self, moved):
        return self


def mechanism(model=None, n=1500, mu=MU, **words):
    model = model or Logistic(np.zeros(4), np.ones(4))
    rng = np.random.default_rng(0)
    large = CovariateReference({"x": rng.uniform(-1, 1, (128, 3))}, np.full(128, 1 / 128))
    small = CovariateReference({"x": large.rows["x"][:60]}, np.full(60, 1 / 60))
    words = {"moments": SecondMoments()} | words
    return ScoreMechanism(model, large, small, mu, n, **words)


def records(model, theta, n, seed):
    rng = np.random.default_rng(seed)
    rows = {"x": rng.uniform(-1, 1, (n, 3))}
    return rows | {"y": model.draw(np.asarray(theta), rows, rng)}


THETA = np.array([0.3, 0.8, -0.5, 0.2])


def test_what_lies_between_two_sums_is_a_function_of_noisy_sums():
    """Any data with the same noisy sums give the same release, wild records included."""
    plan = mechanism()
    recorded = RecordedNoise(np.random.default_rng(1))
    released = plan.release(records(plan.model, THETA, 1500, 2), recorded)
    other = records(plan.model, -THETA, 1500, 3)
    other["x"][:6] = [[np.nan] * 3, [np.inf] * 3, [1e300] * 3, [0, -np.inf, 0], [1e20] * 3, [0] * 3]
    other["y"][:9] = [1, 1, 1, 1, 1, 1, np.nan, np.inf, 1e300]
    with np.errstate(all="ignore"):
        again = plan.release(other, ReplayedNoise(list(recorded.told)))
    assert again.keys() == released.keys()
    for name, array in released.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    # A plan that looked at the data would differ: the fault is planted in the sums themselves.
    changed = [total + 1e-3 for total in recorded.told]
    other = plan.release(records(plan.model, THETA, 1500, 2), ReplayedNoise(changed))
    assert not np.array_equal(other["thetas"][-1], released["thetas"][-1])


def test_the_likelihood_reads_the_release_and_the_model_alone():
    plan = mechanism()
    released = plan.release(
        records(plan.model, THETA, 1500, 2), RecordedNoise(np.random.default_rng(1))
    )
    copied = {name: np.array(array) for name, array in released.items()}
    points = THETA + 0.2 * np.random.default_rng(3).normal(size=(6, 4))
    first = plan.log_likelihood(released)(points)
    np.testing.assert_array_equal(mechanism().log_likelihood(copied)(points), first)
    assert all(array.dtype.kind == "f" and np.isfinite(array).all() for array in released.values())
    assert sum(len(np.atleast_1d(a)) == 1500 for a in released.values()) == 0
    far = plan.log_likelihood(released)(np.array([[1e3] * 4, [np.nan] * 4, THETA]))
    assert far[2] > far[0]
    assert far[1] == -np.inf


def posterior(plan, released, seed=5, draws=1500):
    log_likelihood, prior = plan.log_likelihood(released), plan.parameters.log_prior
    center, covariance = plan.start(released)
    rng = np.random.default_rng(seed)
    return importance_draws(
        lambda t: log_likelihood(t) + prior(t), center, covariance, rng, draws=draws
    )


def exact_posterior(model, data, start, covariance):
    rows = {"x": data["x"]}
    return importance_draws(
        lambda t: model.log_likelihood(t, rows, data["y"]) + model.parameters.log_prior(t),
        start,
        covariance,
        np.random.default_rng(6),
        draws=500,
        rounds=3,
        climb=False,
    )


LIMITS = [(Logistic, 1e4), (Normal, 1e4), (Normal, 3.0)]
AUDITED = [(Logistic, 3.0), (Poisson, 3.0), (Poisson, 1e4)]


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("kind", "mu"), LIMITS + [pytest.param(*a, marks=pytest.mark.audit) for a in AUDITED]
)
def test_without_noise_the_posterior_is_that_of_the_data(kind, mu):
    theta = np.append(THETA, -0.5) if kind is Normal else THETA
    model = kind(np.zeros(len(theta)), np.ones(len(theta)))
    data = records(model, theta, 800, 8)
    plan = mechanism(model, n=800, mu=mu)
    released = plan.release(data, SimulatedNoise(np.random.default_rng(9)))
    found = posterior(plan, released, draws=600)
    exact = exact_posterior(model, data, found.mean, found.covariance)
    assert exact.effective > 100
    error = (found.mean - exact.mean) / exact.sd
    assert np.sqrt((error**2).mean()) < 0.4
    assert 0.8 < np.median(found.sd / exact.sd) < 1.4
    assert not any(caution.refuse for caution in plan.warnings(released))


@pytest.mark.audit
@pytest.mark.parametrize("model", [Logistic, Normal, Poisson], ids=lambda v: v.__name__)
def test_intervals_hold_what_they_say(model):
    """90% intervals over 12 simulations: far below is a fault, and a tenth of the noise shows."""
    size = 5 if model is Normal else 4
    made = model(np.zeros(size), np.full(size, 0.8))
    plan, held, faulty = mechanism(made), [], []
    for k in range(SIMULATIONS):
        theta = made.parameters.draws(1, 100 + k)[0]
        data = records(made, theta, 1500, 200 + k)
        released = plan.release(data, SimulatedNoise(np.random.default_rng(300 + k)))
        low, high = posterior(plan, released).quantiles([0.05, 0.95])
        held.append(((low <= theta) & (theta <= high)).mean())
        lying = released | {
            "sds": released["sds"] / 10,
            "curvature_sd": released["curvature_sd"] / 10,
        }
        low, high = posterior(plan, lying).quantiles([0.05, 0.95])
        faulty.append(((low <= theta) & (theta <= high)).mean())
    assert np.mean(held) > 0.8
    assert np.mean(faulty) < np.mean(held) - 0.05


def test_the_budget_is_kept_by_every_set_of_stages():
    for counts, many in product((True, False), repeat=2):
        for covariates in (True, False):
            budget = score_budget(0.3, counts, covariates, many=many)
            parts = [*budget.pilots, budget.score, budget.count, budget.moments, budget.curvature]
            known = [part for part in parts if part is not None]
            assert len(known) == 11 + counts + 2 * covariates
            bare = score_budget(0.3, counts, covariates, has_moments=False, many=many)
            assert bare.moments is None
            assert (bare.curvature is None) == (not covariates)
            total = np.sqrt(np.sum(np.square(known)))
            assert 0.3 * (1 - 1e-9) < total <= 0.3 * (1 + 1e-15)
    share = score_budget(1.0, True, True)
    np.testing.assert_allclose(share.count**2, 0.02)
    np.testing.assert_allclose(share.score**2 / share.curvature**2, 0.42 / 0.16)
    many = score_budget(1.0, True, True, many=True)
    np.testing.assert_allclose(many.score**2 + many.curvature**2, 0.8)
    np.testing.assert_allclose(many.score**2 / many.curvature**2, 0.42 / 0.16)
    np.testing.assert_allclose(many.moments**2 / many.pilots[0] ** 2, 0.08 / 0.034)


def test_many_records_are_so_many_that_pilots_are_near():
    assert are_many(10_000, 4, 0.24)
    assert not are_many(9_999, 1, 0.24)
    assert not are_many(10_000, 4, 0.12)  # a smaller budget
    assert not are_many(10_000, 9, 0.24)  # more parameters
    assert are_many(40_000, 4, 0.12)


def test_release_under_add_remove_estimates_the_number_of_records():
    plan = mechanism(relation="add_remove", n=1000)
    noise = SimulatedNoise(np.random.default_rng(4), "add_remove")
    told = []
    released = plan.release(records(plan.model, THETA, 1500, 2), noise, told.append)
    assert told == list(range(1, len(plan.stages) + 1))
    assert abs(float(released["count"]) - 1500) < 200
    assert float(released["count"]) != 1500
    error = (posterior(plan, released).mean - THETA) / posterior(plan, released).sd
    assert np.abs(error).max() < 5


def test_no_private_covariates_need_neither_moments_nor_curvature():
    model = Poisson(np.zeros(1), np.ones(1))
    one = CovariateReference({"x": np.zeros((1, 0))}, np.ones(1))
    plan = ScoreMechanism(model, one, one, MU, 800)
    assert "curvature" not in plan.stages
    assert len(plan.stages) == 11
    rng = np.random.default_rng(1)
    data = {"x": np.zeros((800, 0)), "y": rng.poisson(2.0, 800) * 1.0}
    released = plan.release(data, SimulatedNoise(rng))
    found = posterior(plan, released)
    assert abs(found.mean[0] - np.log(data["y"].mean())) < 4 * found.sd[0] < 0.4


def test_the_curvature_of_public_covariates_is_that_of_all_their_rows():
    plan = mechanism(moments=None)
    data = records(plan.model, THETA, 1500, 2)
    x, outcomes = {"x": data["x"]}, {"y": data["y"]}
    public = mechanism(moments=None, public_rows=x)
    released = public.release(outcomes, SimulatedNoise(np.random.default_rng(1)))
    assert float(released["curvature_sd"]) == 0.0
    score = public.noisy_scores(released, x)[-1]
    expected, _ = score.clipped.moments(np.ones(1500))
    np.testing.assert_allclose(released["curvature"], expected, rtol=1e-9)
    found = posterior(public, released)
    assert np.abs((found.mean - THETA) / found.sd).max() < 4.5


def test_a_summary_that_says_little_says_so():
    plan = mechanism(n=1500, mu=MU)
    noise = SimulatedNoise(np.random.default_rng(4))
    released = plan.release(records(plan.model, THETA, 1500, 2), noise)
    texts = {c.refuse: c.text for c in plan.warnings(released)}
    assert True not in texts
    weak = released | {"curvature": released["curvature"] - 1e6 * np.eye(4)}
    assert any(c.refuse and "curvature" in c.text for c in plan.warnings(weak))
    far = np.array(released["scores"])
    far[-1] += 1e5
    assert any(
        c.refuse and "score lies" in c.text for c in plan.warnings(released | {"scores": far})
    )
    least = np.linalg.eigvalsh(released["curvature"])[0]
    barely = released["curvature"] - (least - 2 * released["curvature_sd"]) * np.eye(4)
    moved = np.array(released["thetas"])
    moved[-1] += 8 * posterior(plan, released).sd
    clear = released["curvature"] + 4 * released["curvature_sd"] * np.eye(4)
    cautions = plan.warnings(released | {"thetas": moved, "curvature": clear})
    assert not any("last pilot" in c.text for c in cautions)
    cautions = plan.warnings(released | {"thetas": moved, "curvature": barely})
    assert [c.refuse for c in cautions if "last pilot" in c.text] == [True]
    assert plan.information > mechanism(n=300).information > 0.0
    assert plan.information < mechanism(mu=2 * MU).information


def test_a_model_and_the_same_law_by_hand_give_one_likelihood():
    rng = np.random.default_rng(7)
    x, y = rng.uniform(-1, 1, (300, 3)), (rng.random(300) < 0.4) * 1
    with pm.Model(coords={"row": range(300)}) as model:
        data = pm.Data("x", x, dims=("row", None))
        intercept = pm.Normal("intercept")
        slopes = pm.Normal("slopes", shape=3)
        pm.Bernoulli("y", logit_p=intercept + data @ slopes, observed=y, dims="row")
    private = pmp.privatize(model, records="row", domain={"x": (-1, 1)})
    plan = score_mechanism(private, 1.0)
    released = plan.release({"x": x, "y": y}, SimulatedNoise(rng))
    by_hand = mechanism(n=300, mu=1.0)
    by_hand.design = replace(by_hand.design, prior=plan.design.prior)
    points = plan.start(released)[0] + 0.1 * rng.normal(size=(5, 4))
    found = plan.log_likelihood(released)(points)
    np.testing.assert_allclose(found, by_hand.log_likelihood(released)(points), atol=1e-6)
    assert plan.guarantee.gdp == 1.0
    assert plan.information > 1.0
    assert not any(caution.refuse for caution in plan.warnings(released))
    assert plan.usable > 0.8  # with the bounds that a release chooses; all of 25 simulated ones are


def test_private_covariates_without_moments_make_the_curvature_private():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        level = pm.Data("level", rng.integers(0, 400, 300))  # levels without a row
        pm.Bernoulli("y", p=pm.math.sigmoid(pm.Normal("b") * (level / 200 - 1)),
                     observed=rng.integers(0, 2, 300))  # fmt: skip
    private = pmp.privatize(
        model, records={"level": 0, "y": 0}, domain={"level": pmp.Categories(range(400))}
    )
    plan = score_mechanism(private, 1.0)
    assert plan.design.moments is None
    assert plan.stages[-1] == "curvature"
    assert plan.facts["shares"]["curvature"] > 0 == plan.facts["shares"]["moments"]
