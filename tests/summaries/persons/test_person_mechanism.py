"""Scores of persons: bounds under attack, privacy of what lies between, and how right they are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from pytensor.gradient import disconnected_grad

import pymc_private as pmp
from pymc_private.errors import Incompatible, Unsupported
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.persons.person_density import PersonDensity
from pymc_private.summaries.persons.person_mechanism import node_cautions, person_score_mechanism
from pymc_private.summaries.persons.person_moments import PersonMoments
from pymc_private.summaries.scores.clipped_scores import ClippedRows, ClippedScore, score_rows
from pymc_private.summaries.scores.score_model import (
    AGREEMENT_OF_RULES,
    GRADIENT_AGREEMENT,
    checked_potential,
)
from tests.summaries.person_models import FAMILIES, MOST, persons, records_of

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link")
MU = largest_mu(1.0, 1e-6)
SLOPES = " with slopes"
FURTHER = ("negative_binomial", "poisson" + SLOPES, "normal" + SLOPES, "bernoulli" + SLOPES)
each_family = pytest.mark.parametrize(
    "family", [*FAMILIES, *(pytest.param(f, marks=pytest.mark.audit) for f in FURTHER)]
)


@cache
def of_family(family):
    """Give a private model, its records and its mechanism, built once."""
    name = family.removesuffix(SLOPES)
    change = {"slopes": True, "points": 7} if name != family else {}
    private = persons(name, **change)
    return private, records_of(private), person_score_mechanism(private, MU)


def clipped_score(mechanism, bound=0.7, weight_bound=1.1):
    """Give a clipped score of a mechanism whose bounds clip many persons."""
    theta = mechanism.design.prior.mean + 0.3
    large = mechanism.design.large
    scored = score_rows(mechanism.model, theta, large.rows)
    metric, _ = scored.metric(large.weights, mechanism.design.structure)
    return ClippedScore(mechanism.model, theta, metric, bound, weight_bound)


def extreme(family: str) -> dict[str, np.ndarray]:
    """Give persons at the ends of all domains, and some that no domain holds."""
    counts = (0.0, 40.0)
    ends = {"bernoulli": (0.0, 1.0), "poisson": counts, "normal": (-8.0, 8.0)}.get(
        family.removesuffix(SLOPES), counts
    )
    x = np.array([[[s, t]] * MOST for s in (-1.0, 1.0) for t in (-1.0, 1.0)])
    x = np.concatenate([x, x * np.array([1.0, -1.0, 1.0])[:, None]]).repeat(2, axis=0)
    y = np.tile(np.array([[ends[0]] * MOST, [ends[1]] * MOST]), (8, 1))
    counts = np.tile([1.0, float(MOST)], 8)
    values = [
        [1e300, 1e300],
        [np.nan, np.nan],
        [np.inf, 0.0],
        [-1e300, 1.0],
        [0.0, 0.0],
        [1.0, 1.0],
    ]
    wild = np.array(values)[:, None] * np.ones((MOST, 1))
    outcomes = np.array([1e300, 0.0, np.nan, -1e300, np.inf, -np.inf])[:, None] * np.ones(MOST)
    return {
        "x": np.concatenate([x, wild]),
        "y": np.concatenate([y, outcomes]),
        "person_rows": np.concatenate([counts, [MOST, 1, MOST, 1, MOST, 1]]),
    }


WILD = 6
"""Persons that no domain holds, the last of `extreme`."""


def moved(mechanism, attack) -> np.ndarray:
    """Give how far replaced persons move scores, curvature and moments, in their sensitivities.

    Last the largest score, in units of its bound.
    """
    score, moments = clipped_score(mechanism), mechanism.design.moments
    rows = {name: v for name, v in attack.items() if name != "y"}
    with np.errstate(all="ignore"):
        terms = score.terms(rows, attack["y"])
        factors = score.curvature_factors(rows)
        curvature = np.swapaxes(factors, 1, 2) @ factors
        # what is wild is clipped into the domain before moments read it
        shared = moments.terms({name: v[:-WILD] for name, v in rows.items()})
    each = (terms, 2 * score.bound), (curvature, 2**0.5 * score.weight_bound)
    both = [*each, (shared, 2**0.5 * moments.bound)]
    found = []
    for values, sensitivity in both:
        flat = values.reshape(len(values), -1)
        found.append(np.linalg.norm(flat[:, None] - flat, axis=2).max() / sensitivity)
    assert np.isfinite(terms).all()
    assert np.linalg.eigvalsh(curvature).min() >= -1e-9
    return np.array([*found, np.linalg.norm(terms, axis=1).max() / score.bound])


@pytest.mark.thin(3)
@each_family
def test_a_replaced_person_moves_sums_by_no_more_than_their_sensitivity(family):
    """All rows of a person at once: 2 C for scores, the root of 2 times K or K0 for the others."""
    found = moved(of_family(family)[2], extreme(family))
    assert found.max() <= 1 + 1e-9
    assert found[3] > 0.99  # the attack reaches the bound


@pytest.mark.audit
def test_rows_that_are_clipped_one_by_one_are_caught(monkeypatch):
    """Planted: each predictor is clipped by itself, so that a person adds up to several C."""

    def one_by_one(self, y):
        away = self.frame.scores_at(y) - self.center[:, :, None]
        return np.nan_to_num(np.clip(away, -self.bound, self.bound)) * self.weight[:, None]

    monkeypatch.setattr(ClippedRows, "psi", one_by_one)
    assert moved(of_family("poisson")[2], extreme("poisson"))[0] > 1.05


@pytest.mark.audit
def test_numbers_of_rows_that_weigh_moments_are_caught(monkeypatch):
    """Planted: the sum over a person's rows in the place of their mean."""
    mechanism, inner = of_family("poisson")[2], PersonMoments.terms

    def summed(self, rows):
        return inner(self, rows) * np.asarray(rows["person_rows"])[:, None]

    monkeypatch.setattr(PersonMoments, "terms", summed)
    assert moved(mechanism, extreme("poisson"))[2] > 1.05


@pytest.mark.thin(3)
@each_family
def test_a_term_is_a_function_of_its_person_to_the_last_bit(family):
    _, records, mechanism = of_family(family)
    score, y = clipped_score(mechanism), records["y"]
    rows = {name: v for name, v in records.items() if name != "y"}
    order = np.random.default_rng(2).permutation(len(y))
    moved = {name: v[order] for name, v in rows.items()}
    moments = mechanism.design.moments
    for now, before in (
        (score.terms(moved, y[order]), score.terms(rows, y)),
        (score.curvature_factors(moved), score.curvature_factors(rows)),
        (moments.terms(moved), moments.terms(rows)),
    ):
        np.testing.assert_array_equal(now, before[order])
    changed = {name: v.copy() for name, v in rows.items()}
    changed["x"][1:] *= 0.5
    other = score.terms(changed, y)
    np.testing.assert_array_equal(other[0], score.terms(rows, y)[0])
    assert (other[1:] != score.terms(rows, y)[1:]).any()


@each_family
def test_rows_beyond_those_of_a_person_add_nothing(family):
    _, records, mechanism = of_family(family)
    beyond = np.arange(MOST) >= records["person_rows"][:, None]
    assert beyond.any()
    score = clipped_score(mechanism)
    rows = {name: v for name, v in records.items() if name != "y"}
    other = np.where(beyond, 1.0 - records["y"], records["y"])
    np.testing.assert_array_equal(score.terms(rows, other), score.terms(rows, records["y"]))
    moved = dict(rows, x=np.where(beyond[..., None], -rows["x"], rows["x"]))
    moments = mechanism.design.moments
    np.testing.assert_array_equal(moments.terms(moved), moments.terms(rows))


@pytest.mark.thin(3)
@each_family
def test_the_density_is_that_of_the_model_with_effects_integrated_out(family):
    # With fewer nodes large counts differ in the third digit.
    name, few = family.removesuffix(SLOPES), family in ("bernoulli", "normal")
    change = {"slopes": True, "points": 31} if name != family else {"points": 61}
    private = of_family(family)[0] if few else persons(name, **change)
    density, records = PersonDensity(private), records_of(private)
    theta = density.parameters.draws(2, 3) * 0.5
    found = density.log_density(theta, records, records["y"][:, None])[..., 0]
    natural = density.parameters.natural(theta)
    for k in range(2):
        point = {v: natural[name][k] for name, v in private.graph.parameters.items()}
        point |= {v: records[name].astype(v.type.dtype) for name, v in private.graph.data.items()}
        truth = private.graph.record.eval(point, on_unused_input="ignore")
        atol = 0.05 if family == "poisson" + SLOPES else 2e-3  # the fixed rule of two effects
        np.testing.assert_allclose(found[k], truth, atol=atol)


@pytest.mark.audit
def test_with_little_noise_the_posterior_is_that_of_the_persons():
    private = persons("normal", n=300, seed=5, points=5)
    mechanism, records = person_score_mechanism(private, 40.0), records_of(private)
    released = mechanism.release(records, SimulatedNoise(np.random.default_rng(1)))
    density, prior = mechanism.model.density, mechanism.parameters.log_prior
    start, rng = mechanism.start(released), np.random.default_rng(2)
    likelihood = mechanism.log_likelihood(released)
    found = importance_draws(lambda t: likelihood(t) + prior(t), *start, rng, 800)
    y = records["y"][:, None]

    def exact(theta):
        return density.log_density(theta, records, y).sum(axis=(1, 2)) + prior(theta)

    truth = importance_draws(exact, *start, rng, 800)
    assert np.abs((found.mean - truth.mean) / truth.sd).max() < 0.6
    assert np.abs(np.log(found.sd / truth.sd)).max() < 0.3


@pytest.mark.audit
def test_the_model_of_a_summary_is_checked_against_its_likelihood():
    private = persons("bernoulli", n=200, points=11)
    mechanism = person_score_mechanism(private, MU)
    released = mechanism.release(records_of(private), SimulatedNoise(np.random.default_rng(1)))
    model = noise_aware_model(private, mechanism, released)  # raises where the two differ
    assert [rv.name for rv in model.free_RVs] == ["c", "b", "s"]
    assert np.isfinite(model.compile_logp()(model.initial_point()))


@pytest.mark.parametrize("family", ["bernoulli", "normal"])
def test_gradients_may_be_off_as_far_as_nodes_move(family):
    """Values never; and where the integral is exact, gradients neither."""
    _, _, mechanism = of_family(family)
    rule = family != "normal"
    assert mechanism.most_gap == (AGREEMENT_OF_RULES if rule else GRADIENT_AGREEMENT)
    vector = mechanism.parameters
    center, scale = vector.draws(1, 3)[0], 0.1 * np.eye(vector.size)
    names = list(vector.shapes)

    def built(wrong_slope, wrong_value=0.0):
        """The potential of a normal likelihood whose gradient, or value, is wrong."""

        def write(natural):
            first = natural[names[0]].sum()
            bent = wrong_slope * (first - disconnected_grad(first))
            return 3.0 * first + bent + wrong_value

        def likelihood(theta):
            return 3.0 * vector.natural(theta)[names[0]].reshape(len(theta), -1).sum(axis=1)

        given = vector.symbolic_natural(vector.inputs())
        return checked_potential(
            write, given, vector, likelihood, (center, scale), mechanism.most_gap
        )

    assert built(0.0) is not None
    if rule:
        assert built(0.1) is not None  # a thirtieth of the slope
    else:
        with pytest.raises(Incompatible, match="slopes up to"):
            built(0.1)
    with pytest.raises(Incompatible, match="slopes up to"):
        built(10.0)
    with pytest.raises(Incompatible, match="values"):
        built(0.0, 0.1)


@pytest.fixture(scope="module")
def summary():
    plan = pmp.calibrate(
        persons("normal", n=100, points=5), epsilon=8, delta=1e-6, release="summary"
    )
    assert plan.method == "scores"
    ledger = pmp.Ledger(epsilon=8, delta=1e-5)
    # Of so few persons the noise hides a parameter of one summary in ten, which is then refused.
    return pmp.summarize(plan, ledger=ledger, name="visits", accept=True, progressbar=False)


@pytest.mark.audit
def test_what_a_summary_of_persons_does_not_tell_is_refused(summary):
    with pytest.raises(Unsupported, match="no check is known of persons"):
        pmp.check_plan(summary, "link", epsilon=1, delta=1e-6)
    with pytest.raises(Unsupported, match="predicts no outcome"):
        summary.predictive_model()


@pytest.mark.audit
def test_a_summary_of_persons_is_stored_and_read(summary, tmp_path):
    summary.save(tmp_path / "visits.nc")
    again = pmp.load(tmp_path / "visits.nc")
    model = again.model(persons("normal", n=100, points=5), accept=True)
    assert "s" in model.named_vars
    assert "x" not in model.named_vars


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("family", "link", "message"),
    [
        ("normal", lambda eta, a, rows: eta + a**2, "enter the predictors of rows linearly"),
        (
            "poisson",
            lambda eta, a, rows: pm.math.log(1.0 + pm.math.exp(eta + a)),
            "enter the predictors of rows linearly",
        ),
    ],
)
def test_effects_that_are_not_linear_are_refused(family, link, message):
    with pytest.raises(Unsupported, match=message):
        person_score_mechanism(persons(family, link=link), MU)


@pytest.mark.audit
def test_effects_may_be_scaled_outside():
    """Not centered: s times a standard normal effect is an effect of standard deviation s."""

    def scaled(eta, a, rows):
        return eta + 0.5 * a

    assert PersonDensity(persons("normal", link=scaled)).size == MOST + 2


def test_other_links_and_families_are_refused():
    who = np.repeat(np.arange(20), 2)
    with pm.Model(coords={"person": range(20), "row": range(40)}) as model:
        a = pm.Normal("a", 0, pm.LogNormal("s"), dims="person")
        p = pm.math.invprobit(pm.Normal("c") + a[who])
        pm.Bernoulli("y", p, observed=np.tile([0, 1], 20), dims="row")
    shared = pmp.marginalize(model, "a", rows_per_record=2)
    private = pmp.privatize(shared, records="person", domain={"y": {0, 1}})
    with pytest.raises(Unsupported, match="canonical link"):
        person_score_mechanism(private, MU)


def test_few_nodes_for_many_persons_are_told_of():
    counts, binary = (of_family(f)[2].model for f in ("poisson", "bernoulli"))
    (caution,) = node_cautions(counts, 1000.0)
    assert "128 nodes" in caution.text
    assert "0.4 of their standard deviations" in caution.text
    assert node_cautions(counts, 300.0) == []
    assert node_cautions(binary, 1e6) == []


@pytest.mark.audit
def test_scales_of_effects_near_zero_are_named():
    assert not any("near zero" in c.text for c in of_family("bernoulli")[2].cautions())
    with pm.Model(coords={"person": range(20), "row": range(40)}) as model:
        a = pm.Normal("a", 0, pm.Gamma("s", 0.2, 1), dims="person")[np.repeat(np.arange(20), 2)]
        pm.Bernoulli("y", logit_p=pm.Normal("c") + a, observed=np.tile([0, 1], 20), dims="row")
    shared = pmp.marginalize(model, "a", rows_per_record=2)
    found = person_score_mechanism(
        pmp.privatize(shared, records="person", domain={"y": {0, 1}}), MU
    ).cautions()
    assert any("near zero" in c.text and "of s " in c.text for c in found)


def test_tables_of_rows_are_refused():
    with pm.Model(coords={"person": range(20), "row": range(40)}) as model:
        a = pm.Normal("a", 0, pm.LogNormal("s"), dims="person")[np.repeat(np.arange(20), 2)]
        pm.Bernoulli("y", logit_p=pm.Normal("c") + a, observed=np.tile([0, 1], 20), dims="row")
    shared = pmp.marginalize(model, "a", rows_per_record=2)
    private = pmp.privatize(shared, records="person", domain={"y": {0, 1}}, n=5000)
    with pytest.raises(Unsupported, match="not from a table"):
        person_score_mechanism(private, MU)


@pytest.mark.audit
def test_public_covariates_leave_the_curvature_public():
    private = persons("bernoulli", n=60, public=("x", "person_rows"))
    mechanism = person_score_mechanism(private, MU)
    assert set(mechanism.design.public_rows) == {"x", "person_rows"}
    assert mechanism.design.budget.curvature is None
    records = {"y": records_of(private)["y"]}
    released = mechanism.release(records, SimulatedNoise(np.random.default_rng(1)))
    assert float(released["curvature_sd"]) == 0.0


@pytest.mark.audit
@pytest.mark.parametrize(
    ("family", "simulations"), [("bernoulli", 8), ("normal", 4), ("poisson", 2)]
)
def test_intervals_hold_what_they_say(family, simulations):
    """Few data sets see gross faults alone; `benchmarks.noise_aware_persons` has more of them."""
    plan = pmp.calibrate(persons(family, n=300), epsilon=1, delta=1e-6, release="summary")
    found = plan.coverage(simulations, draws=500, random_seed=1)
    assert found.simulations >= simulations // 2
    assert not found.falls_short
