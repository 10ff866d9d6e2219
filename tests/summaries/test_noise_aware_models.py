"""Scenarios of the studies: records of the generator follow the model."""

import numpy as np
import pytest

from benchmarks.noise_aware_models import SCENARIOS
from pymc_private.summaries.density.outcome_support import outcome_support
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.density.record_density import RecordDensity

QUICK = {"Weibull, own follow-up", "logistic, groups"}
CASES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.audit) for name in SCENARIOS]


def score_sum(model, theta, rows, y):
    """The sum of scores of all parameters less its expectation, and the sum of its covariances."""
    predictors, jacobian = model.predictors(theta, rows), model.jacobian(theta, rows)
    nodes = model.nodes(predictors, rows)
    at_nodes = model.scores(predictors, rows, nodes.clipped)
    at_nodes = np.where(nodes.mass[:, :, None] > 0.0, at_nodes, 0.0)
    mean = np.einsum("nq,nqk->nk", nodes.mass, at_nodes)
    second = np.einsum("nq,nqk,nql->nkl", nodes.mass, at_nodes, at_nodes)
    second = second - mean[:, :, None] * mean[:, None, :]
    away = model.scores(predictors, rows, y[:, None])[:, 0] - mean
    covariance = np.einsum("nkp,nkl,nlq->pq", jacobian, second, jacobian, optimize=True)
    return np.einsum("nk,nkp->p", away, jacobian), covariance


def distance_of_records(scenario, theta_of, repeats=2):
    """Squared length of the summed scores at some parameters, in units of their covariance."""
    private = scenario.private
    density = RecordDensity(private)
    model = QuadratureModel(density, outcome_support(private, density.outcome))
    truth = {key: np.asarray(value, float)[None] for key, value in scenario.truth.items()}
    theta = theta_of(density.parameters.unconstrained(truth)[0])
    rng = np.random.default_rng(1)
    total, covariance = 0.0, 0.0
    for _ in range(repeats):
        records = scenario.simulate(scenario.truth, rng)
        assert set(records) == {source.name for source in private.sources}
        for source in private.sources:
            entries = np.asarray(records[source.name])
            assert np.array_equal(source.domain.clip(entries, source.axis), entries)
        y = np.asarray(records[density.outcome.name], float)
        found = score_sum(model, theta, records | density.public_rows, y)
        total, covariance = total + found[0], covariance + found[1]
    return total @ np.linalg.solve(covariance, total), len(theta)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", CASES)
def test_records_follow_the_model(name):
    """At the true parameters scores have mean 0, and their covariance is the information."""
    distance, size = distance_of_records(SCENARIOS[name](), lambda theta: theta)
    assert distance < 35.0 + 2.0 * size  # chi square, exceeded once in a million at most


def test_records_of_other_parameters_are_noticed():
    distance, _ = distance_of_records(SCENARIOS["logistic, groups"](), lambda theta: theta + 0.3)
    assert distance > 60.0
