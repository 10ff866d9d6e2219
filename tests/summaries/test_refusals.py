"""Messages of what no summary fits: they name what helps, and no method that was refused too."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError

N = 40


def _private(**likelihoods):
    y = np.arange(N) % 2
    with pm.Model(coords={"record": range(N)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, N), dims="record")
        a = pm.Normal("a", 0, 1) if likelihoods.get("parameter", True) else 0.0
        pm.Bernoulli("y", logit_p=a + x, observed=y, dims="record")
        if likelihoods.get("second"):
            pm.Bernoulli("z", logit_p=a, observed=y, dims="record")
    return pmp.privatize(model, records="record", domain={"x": (-1, 1)})


def _calibrate(private, **options):
    return pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", **options)


def test_two_outcomes_are_not_sent_around_in_a_circle():
    with pytest.raises(pmp.errors.Unsupported) as found:
        _calibrate(_private(second=True))
    assert "method=" not in str(found.value.do)
    assert "release='draws'" in str(found.value.do)


def test_a_model_without_parameters_is_refused_by_name():
    with pytest.raises(pmp.errors.Unsupported, match="no free variable"):
        _calibrate(_private(parameter=False), method="scores")


@pytest.mark.parametrize("reference", [3, [1.0, 2.0], np.zeros(3)])
def test_a_reference_is_a_table(reference):
    with pytest.raises(pmp.errors.DomainError, match="a data frame"):
        _calibrate(_private(), method="scores", reference=reference)


def test_compare_says_where_the_draws_of_a_summary_are():
    plan = _calibrate(_private(), method="scores")
    summary = pmp.summarize(plan, random_seed=1, accept_prior=True, progressbar=False)
    with pytest.raises(pmp.errors.DomainError, match=r"with summary\.model\(\)"):
        pmp.compare(summary, None)


def test_a_ledger_of_other_neighbors_names_the_one_to_open():
    plan = _calibrate(_private(), method="scores")
    ledger = pmp.Ledger(epsilon=2, delta=1e-5, neighbors="add_remove")
    with pytest.raises(pmp.errors.Incompatible, match="neighbors='substitute'"):
        pmp.summarize(plan, ledger=ledger, name="a", accept_prior=True, progressbar=False)


def test_an_index_beyond_its_array_is_named():
    """NumPy's IndexError says nothing of a domain."""
    rng = np.random.default_rng(0)
    with pm.Model(coords={"group": range(5)}) as model:
        index = pm.Data("index", rng.integers(0, 5, 300))
        effects = pm.Normal("effects", 0, 1, dims="group")
        pm.Bernoulli("y", logit_p=effects[index], observed=rng.integers(0, 2, 300))
    private = pmp.privatize(model, records={"index": 0, "y": 0}, domain={"index": (0, 9)})
    with pytest.raises(PymcPrivateError, match=r"no entry for some value[\s\S]*'index' in"):
        pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")


def test_a_weak_summary_of_scores_names_the_cells_that_were_not_weighed():
    """They cut a covariate, so that `auto` leaves them; the user may take them."""
    x = np.random.default_rng(0).uniform(-2, 2, 200)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * pm.Data("x", x), 1, observed=np.zeros(200))
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain={"x": (-2, 2), "y": (0, 1)})
    plan = pmp.calibrate(private, epsilon=0.2, delta=1e-6, release="summary")
    assert plan.method == "scores"
    said = "method='cells', where covariates may be taken as uniform" in plan.summary()
    assert said == (plan.verdict != "informative")
    assert said
