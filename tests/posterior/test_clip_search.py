"""The ends of a clip: as good as a hand would find, and what a clip loses by its bias."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.information import simulated_information
from pymc_private.posterior.candidates import DrawBudget, best_clip_bounds

N = 400
BUDGET = DrawBudget(1.0, 1e-6, 10)


def private_of(build, **domain):
    with pm.Model() as model:
        build(model)
    return pmp.privatize(model, records={next(iter(domain)): 0}, domain=domain)


def exponential(model):
    pm.Exponential("y", pm.Gamma("rate", 2, 1), observed=np.ones(N))


def weibull(model):
    pm.Weibull("y", pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1), observed=np.ones(N))


def student(model):
    mu, s = pm.Normal("mu", 0, 2), pm.HalfNormal("s", 1)
    pm.StudentT("y", nu=4, mu=mu, sigma=s, observed=np.zeros(N))


def loss(model):
    y = pm.Data("y", np.zeros(N))
    pm.Potential("loss", -abs(y - pm.Normal("mu", 0, 2)))


MODELS = {
    "exponential": (exponential, {"y": (0, 20)}), "weibull": (weibull, {"y": (0.01, 10)}),
    "student": (student, {"y": (-8, 8)}), "loss": (loss, {"y": (-6, 6)}),
}  # fmt: skip


def value(private, information, bounds):
    power = min(1.0, BUDGET.range / (2 * (bounds[1] - bounds[0])))
    return information.gain(private, power, bounds)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", MODELS)
def test_no_clip_of_a_coarse_grid_promises_a_tenth_more(name):
    private = private_of(MODELS[name][0], **MODELS[name][1])
    information = simulated_information(private, N, weighted=True)
    found = best_clip_bounds(private, information, BUDGET)
    low, high = (information.quantile(share) for share in (0.001, 0.999))
    grid = np.linspace(low - 1.0, high + 1.0, 13)
    by_hand = max(value(private, information, (a, b)) for a in grid for b in grid if b - a > 0.05)
    assert value(private, information, found) >= by_hand / 1.1
    worse = (found[0], found[0] + 0.3 * (found[1] - found[0]))  # the test can fail
    assert value(private, information, worse) < value(private, information, found)


def test_a_clip_that_shifts_the_posterior_is_charged_its_bias():
    """A narrow clip of exponential times keeps scores that do not cancel."""
    private = private_of(exponential, y=(0, 20))
    information = simulated_information(private, N)
    narrow, wide = (-4.24, -2.56), (-40.0, 40.0)
    unbiased = replace(information, scores=information.scores * _inside(information, narrow))
    kept = unbiased.gain(private, 0.1)  # as if the scores left still cancelled
    assert information.gain(private, 0.1, narrow) < 0.8 * kept
    whole = information.gain(private, 0.1)
    assert information.gain(private, 0.1, wide) == pytest.approx(whole, rel=1e-12)


def _inside(information, clip):
    return ((information.values > clip[0]) & (information.values < clip[1]))[..., None]


def test_a_potential_is_judged_by_records_of_its_domain():
    private = private_of(loss, y=(-6, 6))
    information = simulated_information(private, N, weighted=True)
    assert not information.simulated
    # Residuals of exp(-|y - mu|) have mean size 1 and scores of size 2, the prior sd.
    assert np.mean(-information.values) == pytest.approx(1.0, abs=0.15)
    with pytest.warns(pmp.errors.PrivacyWarning, match="another model"):
        plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10, clip=True)
    assert plan.verdict in ("weak", "informative")
    assert "in proportion to its likelihood" in plan.summary()
    with pytest.raises(pmp.errors.Unsupported):
        simulated_information(private, N)


@pytest.mark.audit
def test_a_clip_that_is_not_taken_is_no_warning():
    private = private_of(MODELS["exponential"][0], y=(0, 20))
    words = {"epsilon": 1, "delta": 1e-6, "draws": 10, "clip": True}
    with pytest.warns(pmp.errors.PrivacyWarning, match="another model"):
        assert pmp.calibrate(private, **words).chosen.clipped
    with warnings.catch_warnings():
        warnings.simplefilter("error", pmp.errors.PrivacyWarning)
        plan = pmp.calibrate(private, **words, release="auto")
    assert isinstance(plan, pmp.SummaryPlan)


@pytest.mark.audit
def test_a_clip_of_ordered_cutpoints_gets_boxes_with_a_gap():
    """No central box holds cutpoints, and the box sampler needs one."""
    ordered = pm.distributions.transforms.ordered

    def ordinal(model):
        c = pm.Normal("c", [-1.0, 1.0], 1, transform=ordered, shape=2, initval=[-1.0, 1.0])
        pm.OrderedLogistic("y", eta=0.0, cutpoints=c, observed=np.arange(N) % 3)

    private = private_of(ordinal, y={0, 1, 2})
    with pytest.raises((pmp.errors.NotCertified, pmp.errors.Unsupported), match="bound c"):
        pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10, clip=False)
    with pytest.warns(pmp.errors.PrivacyWarning, match="another model"):
        plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10, clip=True)
    box = plan.private.region["c"]
    assert box.upper[0] < box.lower[1]
    assert plan.chosen.information > 0.1
    assert plan.chosen.mass < 0.95  # what the gap cuts off is said
