"""Moments of clipped records, against sums and quantiles of SciPy."""

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_private.errors import Unsupported
from pymc_private.summaries.sums.sum_moments import NUMPY, clipped_moments, mean_slope

LAWS = {
    "bernoulli": lambda p, c: stats.bernoulli(p),
    "binomial": lambda p, c: stats.binom(c["trials"], p),
    "geometric": lambda p, c: stats.geom(p),
    "poisson": lambda p, c: stats.poisson(p),
    "exponential": lambda p, c: stats.expon(scale=1.0 / p),
    "normal": lambda p, c: stats.norm(p, c["sigma"]),
}
CASES = [
    ("bernoulli", {}, [0.01, 0.3, 0.99], 0, 1),
    ("binomial", {"trials": 12}, [0.05, 0.4], 0, 12),
    ("binomial", {"trials": 12}, [0.05, 0.4], 2, 5),
    ("geometric", {}, [0.02, 0.3, 0.9], 1, 30),
    ("geometric", {}, [0.3], 2, 9),
    ("poisson", {}, [1e-3, 3.0, 40.0, 60.0], 0, 40),
    ("poisson", {}, [3.0, 200.0], 2, 190),
    ("exponential", {}, [0.01, 1.0, 50.0], 0, 5),
    ("exponential", {}, [3.0], 0.5, 1),
    ("normal", {"sigma": 2.0}, [-30.0, 0.5, 9.0], -1, 5),
    ("normal", {"sigma": 2.0}, [0.1], -1e4, 1e4),
]


def moments_of(likelihood, constants, values, low, high):
    """Mean, variance and slope of the mean, in NumPy, with the graphs of PyTensor compared."""
    values, bounds = np.array(values), (np.array(float(low)), np.array(float(high)))
    found = clipped_moments(NUMPY, likelihood, constants, values, *bounds)
    parameter = pt.dvector("parameter")
    graphs = clipped_moments(pt, likelihood, constants, parameter, *bounds)
    for graph, value in zip(graphs, found, strict=True):
        evaluated = graph.eval({parameter: values}, mode="FAST_COMPILE")
        np.testing.assert_allclose(evaluated, value, rtol=1e-12, atol=1e-12 * (high - low) ** 2)
    return (*found, mean_slope(likelihood, constants, values, *bounds))


def expected(law, low, high):
    """Mean and variance of the clipped variable, by its distribution function alone."""
    if isinstance(law.dist, stats.rv_discrete):
        y = np.arange(low, high + 1.0)
        mass = np.diff(np.concatenate([[0.0], law.cdf(y[:-1]), [1.0]]))
    else:
        edges = np.linspace(low, high, 400_001)
        y = np.concatenate([[low], (edges[1:] + edges[:-1]) / 2.0, [high]])
        mass = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    mean = (mass * y).sum()
    return mean, (mass * (y - mean) ** 2).sum()


@pytest.mark.thin(3)
@pytest.mark.parametrize(("likelihood", "constants", "values", "low", "high"), CASES)
def test_moments_are_those_of_clipped_records(likelihood, constants, values, low, high):
    mean, variance, slope = moments_of(likelihood, constants, values, low, high)
    values = np.array(values)
    law = LAWS[likelihood]
    true = np.array([expected(law(v, constants), low, high) for v in values])
    wide = (high - low) ** 2
    np.testing.assert_allclose(mean, true[:, 0], rtol=1e-8, atol=1e-8 * wide**0.5)
    np.testing.assert_allclose(variance, true[:, 1], rtol=1e-6, atol=1e-9 * wide)
    step = 1e-4 * np.abs(values)
    moved = [
        [expected(law(v, constants), low, high)[0] for v in side]
        for side in (values + step, values - step)
    ]
    differences = (np.array(moved[0]) - moved[1]) / (2 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-5 * (high - low))


def test_a_clip_that_is_left_out_would_show():
    mean = moments_of("poisson", {}, [6.0], 0, 5)[0]
    assert mean < 5.0


def test_domains_of_too_many_whole_numbers_are_refused():
    with pytest.raises(Unsupported, match="too many whole numbers"):
        moments_of("geometric", {}, [0.5], 1, 10**6)
