"""Power of a plan: predicted, simulated, and by records and epsilon."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.planning import detection_power, summary_trade_off
from pymc_private.summaries.power import entry_of

N, SD, PRIOR_SD = 400, 2.0, 3.0


def normal_mean(n=N, epsilon=1.0):
    """A plan of one noisy sum: its posterior is known."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, PRIOR_SD), SD, observed=np.zeros(n))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-8, 8)})
    return pmp.calibrate(private, epsilon=epsilon, delta=1e-6, release="summary", method="sums")


@pytest.fixture(scope="module")
def plan():
    return normal_mean()


@pytest.mark.audit
def test_power_is_that_of_the_simulated_intervals(plan):
    effect = 0.4
    found = plan.power(effect, "mean", simulations=70, progressbar=False)
    assert abs(found.found - found.power) < 3 * found.error + 0.01
    # Without the noise in the posterior another power would be told.
    exact = detection_power(effect, SD / math.sqrt(N), prior_sd=PRIOR_SD)
    assert abs(found.found - exact) > 3 * found.error
    assert found.at(found.smallest) == pytest.approx(0.8, abs=0.02)
    assert found.at(0.0) == pytest.approx(0.05, abs=0.01)
    assert "of 70" in repr(found)
    assert found.plot().get_ylabel() == "power"


@pytest.mark.audit
def test_the_trade_off_is_what_other_plans_have(plan):
    table = plan.trade_off(
        0.5, "mean", records=[N, 4 * N], epsilons=[0.5, 4.0], progressbar=False, simulations=4
    )
    words = {"simulations": 4, "progressbar": False}
    for n, epsilon, sd, exact, power in table.rows:
        other = normal_mean(n, epsilon).power(0.5, "mean", **words)
        assert sd == pytest.approx(float(np.median(other.sd)), rel=0.08)
        assert power == pytest.approx(other.power, abs=0.08)
        assert exact == pytest.approx(SD / math.sqrt(n), rel=0.08)
    assert len(table.plot().lines) == 2
    assert list(table.to_frame().columns)[-1] == "power"


def test_detection_power_against_a_normal_simulation():
    rng = np.random.default_rng(0)
    estimate_sd, prior_mean, prior_sd, effect, null = 0.5, -1.0, 0.8, 0.9, 0.2
    precision = 1 / estimate_sd**2 + 1 / prior_sd**2
    sd = precision**-0.5
    estimates = rng.normal(effect, estimate_sd, 200_000)
    means = (estimates / estimate_sd**2 + prior_mean / prior_sd**2) / precision
    seen = np.mean(np.abs(means - null) > 1.6449 * sd)
    words = {"level": 0.9, "null": null, "prior_mean": prior_mean, "prior_sd": prior_sd}
    assert detection_power(effect, sd, **words) == pytest.approx(seen, abs=0.005)
    # A formula that forgets the pull of the prior is far away.
    assert abs(detection_power(effect, sd, level=0.9, null=null) - seen) > 0.1


def test_noise_falls_with_records_and_with_mu():
    words = {"n": 1000, "epsilon": 1.0, "delta": 0.0}
    table = summary_trade_off(0.3, 0.4, records=[1000, 2000], epsilons=[1, 2], **words)
    expected = [math.hypot(0.3 / math.sqrt(k), 0.4 / (k * e)) for k in (1, 2) for e in (1, 2)]
    np.testing.assert_allclose([row[2] for row in table.rows], expected, rtol=1e-12)
    assert table.columns[-1] == "without noise"


def test_entries_by_place_and_by_label():
    with pm.Model(coords={"feature": ["age", "dose"]}) as model:
        x = pm.Data("x", np.zeros((60, 2)), dims=(None, "feature"))
        beta = pm.Normal("beta", 0, 1, dims="feature")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", (x * beta).sum(axis=1), sigma, observed=np.zeros(60))
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain={"x": (0, 1), "y": (-9, 9)})
    for text in ("beta[1]", "beta['dose']", "beta[dose]"):
        assert entry_of(private, text).index == (1,)
    assert entry_of(private, "sigma").index == ()
    with pytest.raises(DomainError, match=r"beta\[age\], beta\[dose\], sigma"):
        entry_of(private, "beta")


def test_impossible_values_are_refused(plan):
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=np.zeros(N, int))
    private = pmp.privatize(model, records={"y": 0})
    shares = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method="sums")
    with pytest.raises(DomainError, match="impossible under the prior"):
        shares.power(1.5, "p", progressbar=False)
    with pytest.raises(DomainError, match="values are given of free variables"):
        plan.power(1.0, "mean", given={"sd": 0.0}, progressbar=False)
    with pytest.raises(DomainError, match="level"):
        plan.power(1.0, "mean", level=95, progressbar=False)
