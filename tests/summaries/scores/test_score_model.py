"""The PyTensor form of the scores' likelihood is the NumPy one, or it is refused."""

import numpy as np
import pytest

from pymc_private.errors import Incompatible
from pymc_private.summaries.density.batched import NumpyProgram
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.score_model import checked_potential, symbolic_pooled_likelihood
from tests.scaled_coordinates import scaled_point
from tests.summaries.record_models import MODELS

SLOW = ("ordinal", "zero inflated", "negative binomial", "groups", "no covariates")
EVERY = [*(pytest.param(name, marks=pytest.mark.audit) for name in SLOW), "linear regression"]


def released(name):
    """A private model, its mechanism, and a simulated release."""
    private = MODELS[name].private()
    mechanism = score_mechanism(private, 0.8)
    records = {s.name: np.moveaxis(s.values(), s.axis, 0) for s in private.sources}
    noise = SimulatedNoise(np.random.default_rng(1), "substitute", 1)
    return private, mechanism, mechanism.release(records, noise)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", EVERY)
def test_both_forms_agree_also_in_the_model(name):
    private, mechanism, found = released(name)
    center, _ = mechanism.start(found)
    theta = 0.5 * center + 0.5 * mechanism.parameters.draws(4, 3)
    likelihood = mechanism.log_likelihood(found)(theta)
    values = mechanism.parameters.inputs()
    natural = mechanism.parameters.symbolic_natural(values)
    graph = symbolic_pooled_likelihood(mechanism.pooled(found), mechanism.model, natural)
    program = NumpyProgram(list(values.values()), [graph])
    symbolic = [float(program(*mechanism.parameters.split(one).values())[0]) for one in theta]
    np.testing.assert_allclose(symbolic, likelihood, rtol=1e-7, atol=1e-8)

    model = noise_aware_model(private, mechanism, found)
    points = [scaled_point(model, mechanism.parameters.split(one)) for one in theta]
    logp = model.compile_logp(mode="FAST_COMPILE")
    whole = [float(logp(point)) - scales for point, scales in points]
    expected = likelihood + mechanism.parameters.log_prior(theta)
    np.testing.assert_allclose(whole, expected, rtol=1e-7, atol=1e-8)


def test_another_function_is_refused():
    """A density without a factor of the outcome would sample well and be wrong."""
    _, mechanism, found = released("logistic")
    pooled = mechanism.pooled(found)

    def write(natural, tilt=0.0):
        return symbolic_pooled_likelihood(pooled, mechanism.model, natural) + tilt * natural["a"]

    inputs = mechanism.parameters.symbolic_natural(mechanism.parameters.inputs())
    rest = mechanism.parameters, mechanism.log_likelihood(found), mechanism.start(found)
    assert checked_potential(write, inputs, *rest) is not None
    with pytest.raises(Incompatible, match="differs"):
        checked_potential(lambda natural: write(natural, 0.05), inputs, *rest)
