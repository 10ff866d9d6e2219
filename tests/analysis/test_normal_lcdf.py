"""log Phi by its name is PyMC's function, but for a rest between the stated ends."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import normal_lccdf, normal_lcdf
from scipy.special import log_ndtr

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.batched_bounds import BatchedFunction
from pymc_private.analysis.rewrites import normal_cdf as forms
from tests.analysis.graphs import evaluate

BOX = (-12.0, 12.0)


def ends(low, high):
    return Bounds(np.asarray(low, float), np.asarray(high, float))


def graph(tail, scale):
    """log Phi or log(1 - Phi) of scale (x - m), in canonical form, plus another term."""
    x, m = pt.dscalars("xm")
    return simplify([tail(m, scale, x) + x * m])[0], x, m


def misses(tail, scale):
    """By how much PyMC's values leave the named form's ends, over many points of the box."""
    value, x, m = graph(tail, scale)
    named, unknown = forms.recognize_normal_lcdf(value, {x: ends(*BOX), m: ends(-1, 1)})
    assert len(unknown) == 1
    rng = np.random.default_rng(5)
    worst = 0.0
    for at, center in zip(rng.uniform(*BOX, 80), rng.uniform(-1, 1, 80), strict=True):
        own = evaluate([value], {x: at, m: center})[0]
        fact = propagate_bounds([named], {x: ends(at, at), m: ends(center, center), **unknown})[
            named
        ]
        rounding = 1e-13 * (1.0 + abs(own))  # of PyTensor's own doubles
        worst = max(worst, fact.lower - own - rounding, own - fact.upper - rounding)
    return worst


@pytest.mark.parametrize("tail", [normal_lcdf, normal_lccdf])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_pymcs_function_lies_between_the_ends(tail, scale):
    assert misses(tail, scale) <= 0.0


def test_a_rest_that_is_forgotten_is_seen(monkeypatch):
    own = forms._match_tail  # the planted fault: no excess
    monkeypatch.setattr(forms, "_match_tail", lambda v: (lambda t: t and (*t[:2], 1e-300))(own(v)))
    assert misses(normal_lcdf, 1.0) > 1e-8


def test_bounds_and_slopes_hold_on_boxes_across_the_jump():
    """The mean-value form, for boxes on which PyMC changes from one form to the other."""
    value, x, m = graph(normal_lcdf, 1.0)
    box = {x: ends(*BOX), m: ends(-1, 1)}
    named, unknown = forms.recognize_normal_lcdf(value, box)
    batch = BatchedFunction(named, [x, m], {x, m}, unknown)
    low, high = np.array([-3.0, -2.0, -1.1]), np.array([1.0, -0.5, -0.9])
    still = Bounds(np.full(3, 0.1), np.full(3, 0.1))
    found = batch.slopes({x: Bounds(low, high), m: still})
    slopes = found.slopes[x]
    assert all(np.isfinite(end).all() for end in slopes)  # no jump is left
    middle = (low + high) / 2
    center = batch.values({x: Bounds(middle, middle), m: still})[1]
    reach = np.maximum(abs(slopes[0]), abs(slopes[1]))
    for k, share in np.ndindex(3, 21):
        at = low[k] + (high[k] - low[k]) * share / 20
        own = evaluate([value], {x: at, m: np.array(0.1)})[0]
        assert found.value[0][k] - 1e-12 <= own <= found.value[1][k] + 1e-12
        assert own <= center[k] + reach[k] * abs(at - middle[k]) + 1e-12


@pytest.mark.parametrize("tail", [normal_lcdf, normal_lccdf])
def test_the_function_that_pymc_means_is_as_near_as_single_precision(tail):
    """In a branch too; it is continuous where PyMC's jumps."""
    value, x, m = graph(tail, 1.0)
    branch = simplify([pt.switch(m < 0, value, x)])[0]
    for written in (value, branch):
        named = forms.continuous_normal_lcdf(written)
        at = [(s * z, -0.1) for s in (-1, 1) for z in (0.5, 0.9, 1.1, 3.0, 12.0)]
        both = [evaluate([written, named], {x: np.array(a), m: np.array(b)}) for a, b in at]
        gaps = [abs(float(own - other)) for own, other in both]
        truth = [log_ndtr(a - b if tail is normal_lcdf else b - a) + a * b for a, b in at]
        assert np.allclose([other for _, other in both], truth, rtol=1e-13, atol=0)
        for (a, b), gap in zip(at, gaps, strict=True):
            assert gap <= forms.SINGLE_PRECISION_ERROR, (a, b)
        assert max(gaps) > 1e-8  # else there was nothing to mend
    assert forms.continuous_normal_lcdf(named) is named


def test_a_difference_that_is_meant_is_kept(monkeypatch):
    value, _, _ = graph(normal_lcdf, 1.0)
    monkeypatch.setattr(forms, "SINGLE_PRECISION_ERROR", 1e-9)
    assert forms.continuous_normal_lcdf(value) is value


def test_what_is_not_that_function_is_left_alone():
    x = pt.dscalar("x")
    value = simplify([pt.switch(x < -1, pt.log(pt.erfcx(-x)), pt.log1p(-pt.erfc(x) / 2))])[0]
    assert forms.recognize_normal_lcdf(value, {x: ends(*BOX)}) == (value, {})
    value, x, m = graph(normal_lcdf, 1.0)
    wide = {x: ends(-1e6, 1e6), m: ends(-1, 1)}
    assert forms.recognize_normal_lcdf(value, wide) == (value, {})  # the rest would be large
