"""A pure promise from the proximal sampler: its grid, its price, and where it is taken."""

from __future__ import annotations

import math
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import special

import pymc_private as pmp
from pymc_private.certificates.certificate import NO_GDP_ON_GRID
from pymc_private.certificates.terms import EXACT_TERMS
from pymc_private.errors import PymcPrivateError
from pymc_private.posterior.calibrate import plan_at_cost
from pymc_private.posterior.candidates import CandidateModels, DrawBudget, remaining_delta
from pymc_private.privacy import purified_log_kl
from pymc_private.privacy.rounding import format_number
from pymc_private.samplers import proximal_target, purification
from pymc_private.samplers.choose import choose_sampler, sampler_candidates
from pymc_private.samplers.proximal_target import whiten
from pymc_private.samplers.purification import RANGE_SLACK, PublicGrid, public_grid
from pymc_private.samplers.randomness import SeededRandomness

D, N = 7, 12
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D))
X /= np.linalg.norm(X, axis=1)[:, None]
Y = (RNG.random(N) < 0.5).astype(int)


@pytest.fixture(scope="module")
def logistic():
    with pm.Model(coords={"i": range(N), "f": range(D)}) as model:
        x = pm.Data("x", X, dims=("i", "f"))
        beta = pm.Normal("beta", 0.0, 1.0, dims="f")
        pm.Bernoulli("y", logit_p=x @ beta, observed=Y, dims="i")
    return pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})


@pytest.fixture(scope="module")
def boxed(logistic):
    return pmp.trim(logistic, box={"beta": (-1.5, 1.5)})


@pytest.fixture(scope="module")
def plan(boxed):
    return pmp.calibrate(boxed, epsilon=1, draws=2)


# ---- the grid -------------------------------------------------------------------------------


GRID = PublicGrid.between(np.array([-1.0, 0.1]), np.array([1.0, 7.0]), 4)


class Scripted(SeededRandomness):
    """A source whose coins always fall on the uniform point."""

    def below(self, end):
        return 0 if end == purification.UNIFORM_PROBABILITY.denominator else super().below(end)


def scripted(seed=1):
    return Scripted(np.random.default_rng(seed))


def points_of(grid):
    axes = [(f + np.arange(m)) * w for f, m, w in zip(grid.first, grid.count, grid.width)]  # noqa: B905
    return {tuple(point) for point in np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)}


def test_the_grid_is_finite_and_inside_the_box():
    points = points_of(GRID)
    assert len(points) == np.prod(GRID.count)
    assert math.log(len(points)) <= GRID.log_points <= math.log(len(points)) + 1e-12
    assert np.all((GRID.count >= 2**4 - 1) & (GRID.count <= 2 * 2**4 + 1))
    first, second = np.array(sorted(points)).T
    assert first.min() >= -1.0
    assert first.max() <= 1.0
    assert second.min() >= 0.1
    assert second.max() <= 7


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1e9, 1e9 + 1e-6), (0.0, 1e-320)])
def test_a_box_without_room_for_a_grid_is_refused(low, high):
    with pytest.raises(pmp.errors.Unsupported, match="too narrow"):
        PublicGrid.between(np.array([low]), np.array([high]), 12)


def test_every_value_goes_to_the_nearest_point_and_zero_has_one_sign():
    wild = np.array([[-1e300, 1e300], [-1e-9, 0.1], [0.26, 3.3], [np.inf, -np.inf]])
    found = GRID.nearest(np.vstack([wild, RNG.normal(size=(500, 2)) * 3]))
    points = points_of(GRID)
    assert all(tuple(row) in points for row in found)
    assert not np.signbit(found[found == 0.0]).any()
    inside = np.array([[0.26, 3.3]])
    assert np.all(abs(GRID.nearest(inside) - inside) <= GRID.width / 2)


def test_the_uniform_point_is_uniform_and_as_rare_as_priced():
    counts = Counter(map(tuple, GRID.mixed(np.zeros((4000, 2)), scripted())))
    cells = np.prod(GRID.count)
    seen = np.array([*counts.values(), *[0] * int(cells - len(counts))])
    chi2 = float(((seen - 4000 / cells) ** 2).sum() / (4000 / cells))
    # P(chi2 of cells - 1 beyond mean + 6 sd) < 1e-6; a corner point alone would be at 4000 cells.
    assert set(counts) <= points_of(GRID)
    assert chi2 < (cells - 1) + 6 * math.sqrt(2 * cells)
    # Otherwise values stay: 4000 coins of 2**-30 come up once in 268,000 tests.
    still = GRID.mixed(np.full((4000, 2), 0.5), SeededRandomness.from_seed(2))
    assert np.all(still == 0.5)


def test_coordinates_without_an_end_are_clamped_by_the_prior(logistic, boxed):
    wide, narrow = (public_grid(p, whiten(p), 12) for p in (logistic, boxed))
    ends = [(g.first * g.width, (g.first + g.count - 1) * g.width) for g in (wide, narrow)]
    assert np.allclose(ends[0][0], -8.0)
    assert np.allclose(ends[0][1], 8.0)
    assert np.allclose(ends[1][0], -1.5, atol=1e-3)
    assert np.all(ends[1][0] >= -1.5)


# ---- the price ------------------------------------------------------------------------------


@pytest.mark.audit
def test_calibrate_without_delta_takes_it_and_the_price_is_pure(plan, boxed):
    assert plan.method == pmp.samplers.Proximal(pure=True)
    assert plan.delta == 0
    guarantee = plan.guarantee
    exact = pmp.certify(boxed).tempered(plan.private.power)
    wanted = 2 * (Fraction(exact.range) + RANGE_SLACK * plan.private.power)
    assert wanted <= Fraction(guarantee.pure_epsilon) <= wanted * Fraction(1001, 1000)
    assert guarantee.pure_epsilon <= 1.0
    assert guarantee.delta(1.0) == 0.0
    # Near a Gaussian-private law is not Gaussian-private, and no distance is left to be paid for.
    assert guarantee.gdp == math.inf
    assert {atom.kind for atom in guarantee.events}.isdisjoint({"distance", "gaussian", "gdp"})
    assert exact.mu < math.inf


def test_at_cost_without_delta_takes_it_at_its_price(boxed):
    plan = plan_at_cost(boxed, 3, 0.0)
    assert plan.method == pmp.samplers.Proximal(pure=True)
    wanted = 3 * (Fraction(plan.certificate.range) + RANGE_SLACK * boxed.power)
    assert wanted <= Fraction(plan.guarantee.pure_epsilon) <= wanted * Fraction(1001, 1000)
    assert plan.epsilon == plan.guarantee.pure_epsilon
    assert "pure" in {c.name: c for c in plan.alternatives()}["proximal"].claim


@pytest.fixture(scope="module")
def paid(plan):
    ledger = pmp.Ledger(epsilon=1)
    return pmp.sample(plan, ledger=ledger, progressbar=False), ledger


@pytest.fixture(scope="module")
def text(plan, paid):
    """What a user sees of a plan and its release, as text and as HTML."""
    release, _ = paid
    texts = words_of(plan.certificate, plan.guarantee, plan, release)
    return f"{texts} {release.facts} {release.mean('beta')}"


def words_of(*told):
    texts = [text for one in told for text in (str(one), one._repr_html_())]
    return re.sub(r"data:image\S*", "", " ".join(" ".join(texts).split()))


def test_a_ledger_without_delta_is_charged_and_the_release_says_how(plan, paid):
    release, ledger = paid
    assert 0.99 < float(ledger.spent[0]) <= 1.0
    assert float(ledger.spent[1]) == 0.0
    said = " ".join(release.guarantee.assumptions)
    assert "public grid" in said
    assert "2**-30" in said
    assert "steps of the proximal sampler" in said
    assert "pure" in release.facts["claim"]
    assert "own public grid" in release.facts["grid"]
    assert "T29" in release.guarantee.theorem
    assert "lin2025purifying" in release.cite()
    values = release.posterior["beta"].values.reshape(-1, D)
    grid = public_grid(plan.private, whiten(plan.private), 12)
    assert np.array_equal(grid.nearest(values), values)


def test_nobody_is_told_that_purified_draws_are_gaussian_private(text, plan):
    assert "GDP" not in text
    assert "Gaussian" not in text.replace(NO_GDP_ON_GRID, "")
    assert NO_GDP_ON_GRID in text
    assert np.isinf(plan.to_frame()["mu"]).all()
    # The proof itself keeps its constants, for draws that are not purified.
    assert "-GDP" in str(replace(plan.certificate, terms=EXACT_TERMS))


def test_what_one_purified_draw_costs_is_what_is_charged(text, plan):
    one = format_number(plan.certificate.charged_range, 6)
    assert f"one draw is {one}-differentially private" in text
    assert "one exact draw" not in text
    added = format_number(RANGE_SLACK * plan.private.power)
    assert f"larger by up to {added} nats" in plan.summary()


def test_bounds_speak_of_the_law_that_purified_draws_have(text):
    near = "a distribution near the private posterior, on the sampler's grid"
    assert f"independent draws of {near}" in text
    assert "exact draws" not in text


@pytest.mark.audit
def test_a_report_on_purified_draws_says_no_more(paid):
    text = words_of(pmp.report(paid[0]))
    assert "GDP" not in text
    assert "one exact draw" not in text
    assert "Of a distribution near the private posterior, on the sampler's grid." in text


@pytest.mark.audit
def test_with_delta_the_gaussian_road_stays(boxed):
    assert choose_sampler(boxed) == pmp.samplers.Proximal()
    assert choose_sampler(boxed, pure=True) == choose_sampler(boxed, "proximal", pure=True)
    assert (
        choose_sampler(boxed, pmp.samplers.Proximal(), pure=True) == pmp.samplers.Proximal()
    )  # as named
    with pytest.raises(pmp.errors.Unsupported, match="more delta than there is"):
        pmp.calibrate(boxed, epsilon=1, sampler=pmp.samplers.Proximal())


def test_without_ends_there_is_no_range_to_price_it_by_whatever_the_delta():
    open_ended, budget = one_coefficient(1, box=None), DrawBudget(1.0, 1e-3, 1)
    for method, priced in (
        (pmp.samplers.Proximal(), True),
        (pmp.samplers.Proximal(pure=True), False),
    ):
        regions = CandidateModels(open_ended, lambda private, method=method: method, None, 3)
        assert (regions.as_given(budget) is not None) == priced


def test_alternatives_tell_the_pure_form_where_there_is_no_delta(plan, boxed):
    told = {c.name: c for c in plan.alternatives()}
    assert "pure" in told["proximal"].claim
    assert told["proximal"].seconds > 0
    assert "t = 1e-10" in {c.name: c for c in sampler_candidates(boxed, 1)}["proximal"].claim


def test_steps_follow_the_grid_and_too_many_are_refused_with_the_cure(boxed, monkeypatch):
    steps = {
        bits: pmp.samplers.Proximal(pure=True, bits=bits)._schedule(boxed).steps
        for bits in (4, 12, 40)
    }
    assert steps[4] < steps[12] < steps[40]
    # ln |Y| is d bits ln 2 and some: so much more of the logarithm of the divergence.
    more = [
        purified_log_kl(
            RANGE_SLACK,
            purification.UNIFORM_PROBABILITY,
            public_grid(boxed, whiten(boxed), b).log_points,
        )
        for b in (12, 40)
    ]
    assert (more[0] - more[1]) == pytest.approx(28 * D * math.log(2), rel=0.05)
    monkeypatch.setattr(proximal_target, "MOST_STEPS", steps[12] - 1)
    with pytest.raises(
        pmp.errors.Unsupported, match=f"(?s){steps[12]} for 12 records.*fewer bits="
    ):
        pmp.samplers.Proximal(pure=True).terms(boxed)


@pytest.mark.parametrize("bits", [np.int64(12), np.uint8(12)])
def test_any_integer_is_a_number_of_bits_and_the_same_plan(boxed, bits):
    method = pmp.samplers.Proximal(pure=True, bits=bits)
    method.check(boxed)
    assert method == pmp.samplers.Proximal(pure=True)
    assert repr(method) == repr(pmp.samplers.Proximal(pure=True))  # it is in a plan's fingerprint


@pytest.mark.parametrize("bits", [3, 41, 8.0, None, True, np.True_, np.float64(8), np.array([8])])
def test_grids_that_are_none_are_refused(boxed, bits):
    with pytest.raises(pmp.errors.DomainError, match="bits"):
        pmp.samplers.Proximal(pure=True, bits=bits).check(boxed)


def test_the_claim_is_not_one_of_floating_point(boxed):
    with pytest.raises(pmp.errors.Unsupported, match="floating point"):
        pmp.calibrate(boxed, epsilon=1, sampler=pmp.samplers.Proximal(pure=True), strict=True)


# ---- no finite price: the cure that is one --------------------------------------------------


def refusal_of(private, **words):
    with pytest.raises(PymcPrivateError) as caught:
        pmp.sample(private, draws=2, progressbar=False, **words)
    return str(caught.value)


@pytest.mark.parametrize("sampler", ["auto", pmp.samplers.Proximal(pure=True)])
@pytest.mark.parametrize("ledger", [None, 1.0])
def test_without_a_box_and_without_delta_the_cure_is_a_box(logistic, sampler, ledger):
    book = None if ledger is None else pmp.Ledger(epsilon=ledger)
    said = refusal_of(logistic, sampler=sampler, ledger=book)
    assert "pmp.trim" in said
    assert "larger delta" not in said
    assert book is None or not book.entries


def test_in_a_box_a_named_distance_has_two_cures_without_fewer_draws(boxed):
    said = refusal_of(boxed, sampler=pmp.samplers.Proximal())
    assert "pmp.samplers.Proximal(pure=True)" in said
    assert "pmp.trim" not in said
    with pytest.raises(pmp.errors.Unsupported, match="more delta than there is") as caught:
        remaining_delta(pmp.samplers.Proximal().terms(boxed), 1.0, 0.0, draws=2)
    assert "fewer draws" not in str(caught.value)
    assert "pmp.samplers.Proximal(pure=True)" in str(caught.value)


def correlated(whitened):
    root = np.linalg.cholesky(np.eye(D) + 0.3)
    with pm.Model(coords={"i": range(N), "f": range(D)}) as model:
        x = pm.Data("x", X, dims=("i", "f"))
        if whitened:
            beta = root @ pm.Normal("z", 0.0, 1.0, dims="f")
        else:
            beta = pm.MvNormal("beta", np.zeros(D), chol=root, dims="f")
        pm.Bernoulli("y", logit_p=x @ beta, observed=Y, dims="i")
    return pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})


def test_a_correlated_prior_and_no_delta_is_told_to_be_whitened_which_works():
    with pytest.raises(pmp.errors.Unsupported, match="correlated prior") as caught:
        choose_sampler(pmp.trim(correlated(whitened=False), box={"beta": (-1, 1)}), pure=True)
    said = str(caught.value)
    assert "L @ z" in said
    assert "trim z" in said
    assert "a delta above zero" in said
    private = pmp.trim(correlated(whitened=True), box={"z": (-1, 1)})
    assert choose_sampler(private, pure=True) == pmp.samplers.Proximal(pure=True)


# ---- the draws ------------------------------------------------------------------------------


def one_coefficient(answer, box=(-2, 2)):
    at = np.array([1.0, -0.4, 0.7])
    with pm.Model(coords={"i": range(3)}) as model:
        x = pm.Data("x", at, dims="i")
        logit = pm.Normal("b", 0.0, 1.0) * x
        pm.Bernoulli("y", logit_p=logit, observed=np.array([answer, 0, 1]), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    return private if box is None else pmp.trim(private, box={"b": box})


def test_parts_of_a_draw_are_purified_where_they_run():
    private, method = one_coefficient(0), pmp.samplers.Proximal(pure=True, bits=4)
    with ThreadPoolExecutor(1) as pool:
        found = method.sample(private, 5, SeededRandomness.from_seed(3), lambda done: None, pool)
    grid = public_grid(private, whiten(private), 4)
    assert np.array_equal(grid.nearest(found["b"][:, None])[:, 0], found["b"])


def test_draws_have_the_law_of_the_posterior_on_the_grid():
    private, draws = one_coefficient(1), 6000
    method = pmp.samplers.Proximal(pure=True, bits=4)
    found = method.sample(private, draws, SeededRandomness.from_seed(3), lambda done: None)["b"]
    fine = np.linspace(-2, 2, 200_001)
    u = fine[:, None] * np.array([1.0, -0.4, 0.7])
    weight = np.exp((np.array([1, 0, 1]) * u - np.logaddexp(0, u)).sum(axis=1) - fine**2 / 2)
    grid = public_grid(private, whiten(private), 4)
    points, where = np.unique(grid.nearest(fine[:, None])[:, 0], return_inverse=True)
    expected = np.bincount(where, weight) / weight.sum() * draws
    assert set(found) <= set(points)
    seen = np.array([np.count_nonzero(found == point) for point in points])
    chi2 = float(((seen - expected) ** 2 / expected).sum())
    assert special.chdtrc(len(points) - 1, chi2) > 1e-6
