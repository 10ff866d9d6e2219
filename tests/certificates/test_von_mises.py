"""VonMises: on PyMC 6 its density holds an Op that PyMC itself defines."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import dist_math
from scipy import special

import pymc_private as pmp
from pymc_private.analysis import Bounds
from pymc_private.analysis.intervals import has_rule, ops_with_rules
from pymc_private.analysis.intervals.dispatch import bound_op

N = 6


@pytest.fixture(scope="module")
def private():
    """Angles with a direction and a concentration, both in a box."""
    with pm.Model(coords={"i": range(N)}) as model:
        mu, kappa = pm.Uniform("mu", -1, 1), pm.Uniform("kappa", 0.5, 2)
        pm.VonMises("y", mu, kappa, observed=np.linspace(-2, 2, N), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-3.14, 3.14)})


def test_the_op_of_pymc_has_a_rule():
    node = dist_math.i0e(1.0).owner
    assert has_rule(node)
    assert dist_math.I0e in ops_with_rules()[1]
    fact = bound_op(node.op, node, Bounds(np.array(0.5), np.array(2.0)))
    assert fact.lower <= special.i0e(2.0) < special.i0e(0.5) <= fact.upper < 1


def test_von_mises_is_certified_and_drawn_from(private):
    certificate = pmp.certify(private, tolerance=0.2)
    # kappa (cos(mu - x) - cos(mu - y)): at kappa 2 and the worst pair it is near 2 * 2
    assert 2.0 <= certificate.searched <= certificate.range <= 12.0
    plan = pmp.calibrate(private, epsilon=1, draws=2)
    release = pmp.sample(plan, random_seed=1, progressbar=False)
    assert np.all((release.posterior["kappa"] > 0.5) & (release.posterior["kappa"] < 2))
