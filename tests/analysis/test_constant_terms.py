"""Terms without parameters are zeros, and everything else is as it was."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pymc_private as pmp
from pymc_private.analysis import simplify
from pymc_private.analysis.rewrites.constant_terms import without_constant_terms
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.randomness import SeededRandomness

Y = np.array([0.0, 0.25, 1.0])


def difference(make):
    """What is left of a function of (b, y) at b = 2, less the same at b = 1: for y, shape (3,)."""
    b, y = pt.dscalar("b"), pt.dvector("y")
    left = without_constant_terms(simplify([make(b, y)])[0], [b])
    function = pytensor.function([b, y], left, mode="FAST_COMPILE", on_unused_input="ignore")
    with np.errstate(all="ignore"):
        return function(2.0, Y) - function(1.0, Y)


def test_an_infinite_term_of_a_record_is_left_out_of_sums_factors_and_branches():
    assert difference(lambda b, y: (b + pt.log(y)).sum()) == 3.0  # as many times as there are rows
    assert difference(lambda b, y: 0.5 * (b * y + pt.log(y) - b).sum()) == 0.5 * (1.25 - 3.0)
    assert difference(lambda b, y: pt.switch(y > 0.5, b * y, b + pt.log(y)).sum()) == 3.0
    assert difference(lambda b, y: -(pt.log(y) - b * y).sum()) == 1.25


def test_what_reads_a_parameter_stays():
    assert np.isnan(difference(lambda b, y: (b * pt.log(y)).sum()))
    assert difference(lambda b, y: pt.switch(b > 1.5, y, y + 7.0).sum()) == -21.0


def test_terms_that_are_read_many_times_are_taken_apart_once():
    """Twice the work for each branch would be a million times the work here."""

    def nested(b, y):
        term = b * y
        for k in range(20):
            term = pt.switch(y > k / 20.0, term + pt.log(y), term - b)
        return term.sum()

    assert np.isfinite(difference(nested))


def test_a_record_at_the_end_of_its_domain_leaves_draws_to_find():
    """The density of a Gamma outcome is 0 at 0, whatever its rate."""
    with pm.Model(coords={"p": range(3)}) as model:
        pm.Gamma("y", 2.0, pm.math.exp(pm.Normal("b", 0, 1)), observed=Y, dims="p")
    private = pmp.trim(pmp.privatize(model, records="p", domain={"y": (0, 1)}), box={"b": (-1, 1)})
    b = np.array([-0.5, 0.0, 0.5])
    expected = 6.0 * b - np.exp(b) * Y.sum() - 0.5 * b**2
    found = Target(private).values(b[:, None])
    np.testing.assert_allclose(found - found[1], expected - expected[1], rtol=1e-12)
    draws = pmp.samplers.Boxes().sample(
        private, 2, SeededRandomness.from_seed(1), lambda done: None
    )
    assert np.isfinite(draws["b"]).all()
