"""T13: the pair of a conjugate model dominates all neighboring posteriors, and is attained."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_private as pmp
from pymc_private.certificates.conjugate import conjugate_pair, recognize_conjugate
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope, epsilon_lower_bound

TOP, N = 3, 3
POWER = Fraction(2, 5)
EPSILONS = (0.2, 1.0)


def counts(y=(0,) * N, prior=(1.5, 2.0), top=TOP, **declared):
    with pm.Model(coords={"i": range(len(y))}) as model:
        pm.Poisson("y", pm.Gamma("rate", *prior), observed=np.array(y), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (0, top)}, **declared)


def trials(y=(0,) * N, prior=(1.5, 2.5), top=TOP, **declared):
    with pm.Model(coords={"i": range(len(y))}) as model:
        pm.Binomial("y", top, pm.Beta("p", *prior), observed=np.array(y), dims="i")
    return pmp.privatize(model, records="i", **declared)


@cache
def recognized(build):
    return recognize_conjugate(build())


def posterior(build, y):
    """The distribution of one draw, from the update of the model itself."""
    model = recognized(build)
    updated = model.update(model.prior, model.constants, np.array(y), POWER)
    found = {k: float(np.asarray(v)[()]) for k, v in updated.items()}
    if build is trials:
        return stats.beta(found["a"], found["b"])
    return stats.gamma(found["a"], scale=1 / found["rate"])


def hockey_stick(p, q, epsilon, points=10_001):
    """Integral of (p - e^epsilon q)+ over quantiles of both distributions."""
    low, high = min(p.ppf(1e-12), q.ppf(1e-12)), max(p.isf(1e-12), q.isf(1e-12))
    x = np.linspace(low**0.25, high**0.25, points) ** 4
    return integrate.simpson(np.maximum(p.pdf(x) - np.exp(epsilon) * q.pdf(x), 0.0), x=x)


def greatest(build, epsilon):
    """Over data sets of N records and replacements of one."""
    known, found = {}, 0.0

    def drawn(y):
        return known.setdefault(tuple(sorted(y)), posterior(build, sorted(y)))

    for rest in ((0,) * (N - 1), (0, TOP), (TOP,) * (N - 1)):
        for one, other in product((0, 1, TOP), repeat=2):
            found = max(
                found,
                hockey_stick(drawn((*rest, one)), drawn((*rest, other)), epsilon, 2001),
            )
    return found


def claimed(build, draws=1, shrink=1, power=POWER):
    pair = conjugate_pair(build())
    return replace(pair, shift=pair.shift / shrink).guarantee(power, draws)


@pytest.mark.thin(2)
@pytest.mark.parametrize("build", [counts, trials])
def test_no_neighboring_posteriors_differ_more_than_the_pair(build):
    promise, faulty = claimed(build), claimed(build, shrink=2)
    for epsilon in (0.2, 1.0):
        found = greatest(build, epsilon)
        assert found <= promise.delta(epsilon) + 1e-6
        assert found > faulty.delta(epsilon) + 1e-3  # a planted fault: half the shift


def test_the_dominating_pair_of_counts_has_the_exact_curve():
    p, q = (posterior(counts, (0, 0, last)) for last in (0, TOP))
    for epsilon in EPSILONS:
        exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        assert claimed(counts).delta(epsilon) == pytest.approx(exact, abs=1e-7)


def test_the_worst_pair_of_trials_has_the_exact_curve():
    r = float(POWER) * TOP
    p, q = stats.beta(1.5 + r, 2.5), stats.beta(1.5, 2.5 + r)
    for epsilon in EPSILONS:
        exact = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        assert claimed(trials).delta(epsilon) == pytest.approx(exact, abs=1e-7)


def test_two_draws_are_within_their_curve():
    p, q = (posterior(counts, (0, 0, last)) for last in (TOP, 0))
    edges = np.linspace(1e-3, max(p.ppf(1 - 1e-9), q.ppf(1 - 1e-9)) ** 0.25, 601) ** 4
    one, two = np.diff(p.cdf(edges)), np.diff(q.cdf(edges))
    for epsilon in (0.3, 1.0):
        found = max(
            np.maximum(np.outer(a, a) - np.exp(epsilon) * np.outer(b, b), 0).sum()
            for a, b in ((one, two), (two, one))
        )
        assert found <= claimed(counts, draws=2).delta(epsilon)
        assert found > claimed(counts, draws=1).delta(epsilon)


def levels(y=(0,) * 4, prior=(1.2, 4.0, 2.0), **declared):
    with pm.Model(coords={"i": range(len(y))}) as model:
        pm.Categorical("y", pm.Dirichlet("p", prior), observed=np.array(y), dims="i")
    return pmp.privatize(model, records="i", **declared)


def test_no_replaced_level_costs_more_than_the_two_least_cells():
    """The loss is r log(p_i / p_j) + c, and p_i / (p_i + p_j) has a Beta distribution."""
    model, pair = recognize_conjugate(levels()), conjugate_pair(levels())
    promise, faulty = pair.guarantee(POWER, 1), replace(pair, shape=(2, 4)).guarantee(POWER, 1)
    exact = []
    for one, other in ((0, 1), (0, 2), (1, 2)):
        both = [
            model.update(model.prior, {}, np.array([1, 1, y]), POWER)["a"].astype(float)
            for y in (one, other)
        ]
        pair = [stats.beta(a[one], a[other]) for a in both]
        exact += [hockey_stick(*pair, 0.2), hockey_stick(*pair[::-1], 0.2)]
    assert faulty.delta(0.2) < max(exact) - 1e-3
    assert promise.delta(0.2) == pytest.approx(max(exact), rel=1e-3)
    assert conjugate_pair(levels(records_per_unit=2)) is None
    assert pmp.certify(levels()).guarantee().theorem == "T9"


def test_what_the_theorem_does_not_cover_has_no_pair():
    assert conjugate_pair(counts()) is not None
    assert conjugate_pair(pmp.trim(counts(), box={"rate": (0.1, 9)})) is None
    assert conjugate_pair(counts(neighbors="add_remove")) is None
    with pm.Model(coords={"i": range(N)}) as waiting:
        pm.Exponential("y", pm.Gamma("rate", 2, 1), observed=np.ones(N), dims="i")
    private = pmp.privatize(waiting, records="i", domain={"y": (0, 5)})
    assert conjugate_pair(private) is None
    with pytest.raises(pmp.errors.NotCertified):
        pmp.certify(private)


def test_a_unit_of_two_records_moves_twice_as_much():
    assert conjugate_pair(counts(records_per_unit=2)).shift == 2 * TOP


def test_a_certificate_prices_what_has_no_range():
    certificate = pmp.certify(pmp.temper(counts(), POWER))
    assert np.isinf(certificate.range)
    assert certificate.guarantee(2).delta(1.0) == claimed(counts, 2).delta(1.0)
    assert certificate.guarantee().theorem == "T10, T13"
    assert "Gamma(1.5 + r) and Gamma(1.5), r = 1.2" in repr(certificate)
    assert certificate.guarantee().group(2).delta(1.0) == claimed(
        partial(counts, records_per_unit=2)
    ).delta(1.0)


@pytest.mark.audit
def test_draws_at_that_price_are_untrimmed():
    y = np.arange(40) % (TOP + 1)
    private, w = pmp.temper(counts(y, prior=(2.0, 1.0)), POWER), float(POWER)
    ledger = pmp.Ledger(epsilon=30, delta=1e-3)
    release = pmp.sample(private, draws=200, random_seed=1, progressbar=False)
    exact = stats.gamma(2 + w * y.sum(), scale=1 / (1 + w * len(y)))
    assert cdf_envelope(release.posterior["rate"].values[0], exact.cdf).passes
    paid = pmp.sample(private, draws=1, delta=1e-5, ledger=ledger, progressbar=False)
    assert paid.guarantee.epsilon(1e-5) <= 30
    assert paid.guarantee.theorem == "T10, T13"


@pytest.mark.audit
@pytest.mark.parametrize("build", [counts, trials])
def test_draws_of_the_worst_neighbors_nearly_spend_the_price(build):
    """A false alarm in 10^9; a price of half the shift, planted, is refuted."""
    draws, delta = 40_000, 0.3
    far = (TOP, 0, 0), (0, 0, 0)
    method = pmp.samplers.Conjugate()
    name = "rate" if build is counts else "p"
    found = [
        method.sample(build(y), draws, SeededRandomness.from_seed(k), lambda done: None)[name]
        for k, y in enumerate(far)
    ]
    lower = epsilon_lower_bound(*found, delta=delta, score=lambda theta: -theta[:, 0])
    claim, faulty = (claimed(build, shrink=k, power=Fraction(1)).epsilon(delta) for k in (1, 2))
    assert not lower.refutes(claim)
    assert lower.refutes(faulty)
    if build is counts:  # for trials the other records have to be far away too
        assert lower.epsilon > 0.75 * claim


@pytest.mark.audit
def test_several_draws_are_cheaper_than_in_any_box():
    private = counts(np.arange(40) % (TOP + 1), prior=(2.0, 1.0))
    plan = pmp.calibrate(private, epsilon=1, delta=1e-5, draws=20)
    assert (plan.sampler, plan.private.region) == ("conjugate", {})
    assert plan.guarantee.epsilon(1e-5) <= 1
    assert "Gamma(2 + r) and Gamma(2)" in plan.summary()
    boxed = [row for row in plan.frontier if row.mass is not None]
    assert all(row.information < plan.chosen.information for row in boxed)


@pytest.mark.audit
def test_pure_budgets_take_a_box():
    plan = pmp.calibrate(counts((1,) * 40, prior=(2.0, 1.0)), epsilon=1, draws=1)
    assert plan.private.region
