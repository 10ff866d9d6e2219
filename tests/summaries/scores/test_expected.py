"""The quick estimate of what noisy scores tell."""

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.scores.expected import _gain, expected_score_information


def test_scores_that_are_mostly_zero_have_a_gain():
    """A clipped likelihood is flat for most records where its clip holds them."""
    scores = np.zeros((256, 2))
    scores[:3] = [[5.0, 1.0], [-3.0, 2.0], [1.0, -4.0]]
    assert 0.0 < _gain(scores, 2000, 10.0) < _gain(scores, 2000, 1.0)
    assert _gain(np.zeros((256, 2)), 2000, 10.0) == 0.0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_scores_of_one_size_tell_what_the_formula_says(unit):
    """Signs are not clipped: they add a precision of n u^2 / (1 + noise^2 / n)."""
    scores = unit * np.repeat([[1.0], [-1.0]], 50, axis=0)
    told = 500 * unit**2 / (1 + 4.0 / 500)
    assert _gain(scores, 500, 2.0) == pytest.approx(0.5 * np.log1p(told))


def test_no_summary_is_expected_of_a_likelihood_that_none_can_keep():
    with pm.Model(coords={"toss": range(50)}) as model:
        rate = pm.Beta("rate", 2, 2)
        pm.Bernoulli("heads", rate, observed=np.arange(50) % 2, dims="toss")
    private = pmp.privatize(model, records="toss")
    assert expected_score_information(private, 1.0, 1e-6, 50) > 0.0
    for changed in (pmp.clip(private, lower=-2), pmp.temper(private, 0.5)):
        assert expected_score_information(changed, 1.0, 1e-6, 50) is None
