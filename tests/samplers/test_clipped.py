"""Box draws of clipped models: envelopes that hold, draws that follow the clipped posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.samplers import rejection
from pymc_private.samplers.envelope_pieces import envelope_height
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.randomness import SeededRandomness
from tests.certificates.scores import BY_NAME, N
from tests.samplers.targets import all_forms, random_cells, value_at
from tests.samplers.test_against_quadrature import (
    FALSE_ALARM,
    QUADRATURE,
    distance,
    halfwidth,
    marginals,
)

BOXES = {
    "student": {"mu": (-2, 3), "s": (0.3, 3)},
    "poisson": {"rate": (0.05, 20)},
    "two outcomes": {"mu": (-2, 3), "p": (0.01, 0.95)},
    "identity link": {"a": (-1, 3), "b": (-2, 2)},
    "elementwise dark": {"mu": (-3, 4)},
    "blockwise dark": {"mu": (-3, 4)},
}
PRIORS = {
    "student": lambda mu, s: -(mu**2) / 50 - s**2 / 18,
    "poisson": lambda rate: np.log(rate) - rate,
    "two outcomes": lambda mu, p: -(mu**2) / 50,
    "identity link": lambda a, b: -(a**2 + b**2) / 8,
    "elementwise dark": lambda mu: -(mu**2) / 50,
    "blockwise dark": lambda mu: -(mu**2) / 50,
}


def power_of(name):
    """A score without a rule is proposed from the prior, so its power is kept small."""
    return 0.1 if "dark" in name else 0.5


def trimmed(name):
    score = BY_NAME[name]
    private = pmp.trim(pmp.clip(score.privatize(), *score.ends), box=BOXES[name])
    return score, pmp.temper(private, power_of(name))


def log_density(name, private, ends):
    """Prior and clipped terms by hand, for arrays of parameters."""
    score, names = BY_NAME[name], list(BOXES[name])
    data = {s.name: s.values() for s in private.sources}

    def value(*axes):
        point = {k: axis[..., None] for k, axis in zip(names, axes, strict=True)}
        return power_of(name) * score.clipped(point, data, ends).sum(axis=-1) + PRIORS[name](*axes)

    return value


ONCE = ("student", "two outcomes", "blockwise dark")
FAST = [name if name in ONCE else pytest.param(name, marks=pytest.mark.audit) for name in BOXES]


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", FAST)
def test_the_density_never_escapes_its_envelope(name):
    score, private = trimmed(name)
    target, value = Target(private), log_density(name, private, score.ends)
    shift = value_at(target, (target.lower + target.upper) / 2)
    shift -= value(*((target.lower + target.upper) / 2)[:, None])[0]
    rng = np.random.default_rng(2)
    cells = random_cells(target.lower, target.upper, (), 15, seed=1)
    lower, upper = (np.array(ends) for ends in zip(*cells, strict=True))
    anchor, found = all_forms(target, lower, upper)
    assert np.isfinite(found[0].constant).all()  # a clipped term is never above its upper end
    for k, (low, high) in enumerate(cells):
        points = rng.uniform(low, high, (12, len(low)))
        density = value(*points.T) + shift
        for pieces in found:
            tops = envelope_height(pieces.take(np.full(12, k)), points - anchor[k])
            assert np.all(target.value_bounds(points)[0] <= tops + 1e-12)
            assert np.all(density <= tops + 1e-7)  # the two are written differently
        assert target.values(points) == pytest.approx(density, rel=1e-7, abs=1e-7)


def distances(name, ends=None, seed=3):
    """Distances of each marginal of box draws from the clipped posterior by hand."""
    n = 60 if "dark" in name else 200
    score, private = trimmed(name)
    draws = rejection.sample_by_rejection(Target(private), n, SeededRandomness.from_seed(seed))
    sides = list(BOXES[name].values())
    exact = marginals(
        log_density(name, private, ends or score.ends), sides, 300 if len(sides) > 1 else 3000
    )
    return [distance(draws[:, k], *exact[k]) for k in range(len(sides))], n


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", FAST)
def test_box_draws_follow_the_clipped_posterior(name):
    found, n = distances(name)
    assert max(found) < halfwidth(n, FALSE_ALARM) + QUADRATURE


@pytest.mark.parametrize("name", ["student"])
def test_draws_of_the_unclipped_posterior_are_told_apart(name):
    found, n = distances(name, ends=(-1e3, 1e3))
    assert max(found) > halfwidth(n, FALSE_ALARM) + QUADRATURE


@pytest.mark.audit
def test_calibrate_prices_a_clipped_model_and_sample_draws_it():
    score = BY_NAME["student"]
    private = pmp.trim(pmp.clip(score.privatize(), -4, -0.5), box=BOXES["student"])
    plan = pmp.calibrate(private, epsilon=30, draws=20)
    assert plan.certificate.range <= 7
    assert plan.guarantee.epsilon(0.0) <= 30
    assert "clipped: each record's log-likelihood in [-4, -0.5]" in plan.summary()
    ledger = pmp.Ledger(epsilon=30)
    release = pmp.sample(plan, ledger=ledger, progressbar=False)
    assert release.facts["clip"] == [-4.0, -0.5]
    assert release.guarantee.theorem == "T1-T3, T25"
    assert "bissiri2016general" in release.cite()
    assert "log-likelihood in [-4, -0.5]" in release.facts["certificate"]
    assert pmp.Release.from_bytes(release.to_bytes()).facts["clip"] == [-4.0, -0.5]
    assert "[-4, -0.5]" in str(pmp.report(release))
    mu = release.posterior["mu"].values
    assert np.all((mu >= -2) & (mu <= 3))


@pytest.mark.audit
def test_an_unbounded_parameter_is_refused_as_ever_and_a_plan_gives_it_ends():
    clipped = pmp.clip(BY_NAME["poisson"].privatize(), -4, 0)
    with pytest.raises(pmp.errors.Unsupported, match=r"needs finite bounds for 'rate'"):
        pmp.samplers.Boxes().check(clipped)
    assert pmp.calibrate(clipped, epsilon=1).private.box["rate"].is_finite


DARK = ["elementwise dark", "blockwise dark"]


def many_of(name):
    score = BY_NAME[name]
    return pmp.trim(pmp.clip(score.privatize(n=300), -4, 0), box=BOXES[name])


@pytest.mark.parametrize("name", DARK)
def test_a_draw_that_might_never_end_is_refused_before_the_charge(name):
    with pytest.raises(pmp.errors.Unsupported, match="hardly ever accept"):
        pmp.samplers.Boxes().check(many_of(name))
    pmp.samplers.Boxes().check(pmp.temper(many_of(name), 0.005))  # a low power leaves few nats


@pytest.mark.audit
@pytest.mark.parametrize("name", DARK)
def test_a_plan_asks_whether_a_draw_would_end_at_the_power_it_affords(name):
    with pytest.raises(pmp.errors.Unsupported, match="hardly ever accept"):
        pmp.calibrate(many_of(name), epsilon=1)
    assert pmp.calibrate(many_of(name), epsilon=0.04).sampler == "boxes"


@pytest.mark.audit
def test_a_scale_of_zero_is_refused_and_a_small_one_is_not():
    """Below any scale there is a smaller one at which nothing but the clip is known."""
    with pm.Model(coords={"i": range(300)}) as model:
        s = pm.HalfNormal("s", 1)
        pm.Normal("y", 0.0, s, observed=stats.norm.ppf(np.linspace(0.01, 0.99, 300)), dims="i")
    clipped = pmp.clip(pmp.privatize(model, records="i", domain={"y": (-4, 4)}), -4, 0)
    with pytest.raises(pmp.errors.Unsupported, match="a scale of zero"):
        pmp.samplers.Boxes().check(pmp.trim(clipped, box={"s": (0, 3)}))
    fit = pmp.temper(pmp.trim(clipped, box={"s": (0.2, 3)}), 0.2)
    pmp.samplers.Boxes().check(fit)
    drawn = rejection.sample_by_rejection(Target(fit), 2, SeededRandomness.from_seed(1))
    assert np.all((drawn > 0.5) & (drawn < 3))


def test_the_number_of_records_is_small_here():
    assert N < 10  # else draws of scores without a rule would take long


@pytest.mark.parametrize("n", [4, 300])
def test_under_add_remove_the_verdict_does_not_tell_the_number_of_records(n):
    score = BY_NAME["elementwise dark"]
    plain = replace(score.privatize(n=n), neighbors="add_remove")
    private = pmp.trim(pmp.clip(plain, -4, 0), box=BOXES["elementwise dark"])
    with pytest.raises(pmp.errors.Unsupported, match="hardly ever accept") as caught:
        pmp.samplers.Boxes().check(pmp.temper(private, 0.005))
    assert "nats for" not in str(caught.value)
