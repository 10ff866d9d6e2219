"""The Gaussian constants are proved when they are asked for, of the model that was certified."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.analysis import Bounds
from pymc_private.certificates.curvature import (
    DerivativeExtremes,
    PredictorFactor,
    extremes_of_constants,
)
from pymc_private.certificates.linear_predictors import (
    interacting_predictors,
    predictor_coefficients,
)
from pymc_private.certificates.log_concave import lazy_concavity
from pymc_private.models.record_likelihood import input_columns
from pymc_private.models.sequences.row_identity import public_data

N = 17


def scaled():
    """A logistic regression whose slope is read through a public number, as its prior is."""
    rng = np.random.default_rng(0)
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", rng.uniform(-1, 1, N), dims="i")
        scale = pm.Data("scale", 1.0)
        slope = pm.Normal("b", 0, scale)
        pm.Bernoulli("y", logit_p=scale * slope * x, observed=rng.integers(0, 2, N), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)}, public=["scale"])
    return pmp.trim(private, box={"b": (-2, 2)})


def asked(certificate):
    return "_answer" in vars(certificate.gaussian)


def change(private):
    for v in public_data([private.graph.record, private.graph.prior]):
        v.set_value(np.asarray(3.0 * v.get_value()))


def test_what_is_set_after_certify_does_not_alter_its_constants():
    private = scaled()
    right = pmp.certify(private).mu
    certificate = pmp.certify(scaled())
    assert not asked(certificate)
    late = scaled()
    waiting = pmp.certify(late)
    change(late)
    assert not asked(waiting)
    assert waiting.mu == right
    assert pmp.certify(late).mu > 5 * right  # what the live graph would have said


def test_a_certificate_that_is_stored_knows_its_constants_and_no_data():
    certificate = pmp.certify(scaled())
    for again in (pickle.loads(pickle.dumps(certificate)), copy.deepcopy(certificate)):
        assert asked(certificate)
        assert again.mu == certificate.mu
        assert again.gdp == certificate.gdp
        assert again == certificate
    fresh = pmp.certify(scaled())
    text = pickle.dumps(fresh)
    assert b"pytensor" not in text  # the answer, not the question


def test_a_proof_is_made_once_for_all_powers_and_terms():
    private = scaled()
    certificate = pmp.certify(private)
    other = pmp.certify(pmp.temper(private, 0.5))
    assert other.gaussian is certificate.gaussian
    assert not asked(other)
    assert other.mu == pytest.approx(certificate.mu / 2)
    assert asked(certificate)


def test_a_guarantee_has_both_bounds_unprompted():
    certificate = pmp.certify(scaled())
    assert math.isfinite(certificate.guarantee(3).gdp)
    assert "GDP" in repr(pmp.certify(scaled()))


def test_without_a_range_the_constants_are_proved_at_once():
    with pm.Model(coords={"i": range(N)}) as model:
        pm.Normal("y", pm.Normal("m", 0, 1), 1, observed=np.zeros(N), dims="i")
    certificate = pmp.certify(pmp.privatize(model, records="i", domain={"y": (-1, 1)}))
    assert certificate.range == math.inf
    assert asked(certificate)


u, v, w = (pt.dscalar(name) for name in "uvw")
LINE = Bounds(np.array(-np.inf), np.array(np.inf))
POSITIVE = Bounds(np.array(0.0), np.array(np.inf))


@pytest.mark.parametrize(
    ("value", "met"),
    [
        (pt.exp(u) + pt.sqr(v), []),
        (u * v, [u, v]),
        (pt.exp(u) * v + pt.sqr(w), [u, v]),
        (-pt.sqr(u - v) / w, [u, v, w]),
        (pt.exp(u + v - v), []),  # seen through: a slope that does not move
        (pt.switch(pt.gt(u, 0.0), v, 0.0), [u, v]),
    ],
)
def test_only_what_meets_is_seen_to_meet(value, met):
    ends = {u: LINE, v: LINE, w: POSITIVE}
    found = interacting_predictors(value, [u, v, w], ends, [])
    assert found == met


def factor_of(build):
    """The prior of a model, as `prior_curvature` sees it."""
    with pm.Model(coords={"i": range(N)}) as model:
        build()
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    posterior = lazy_concavity(private)._known
    return PredictorFactor(
        posterior.prior, posterior.record.parameters, posterior.box, []
    ), posterior


def two_normals():
    a, b = pm.Normal("a", 1, 0.5, shape=2), pm.Normal("b", -1, 3)
    pm.Normal("y", a.sum() + b, 1, observed=np.zeros(N), dims="i")


def test_a_gaussian_prior_needs_no_search():
    factor, _ = factor_of(two_normals)
    bends = [4.0 if x.type.shape else 1 / 9 for x in factor.inputs]
    slopes = [-bend * x for x, bend in zip(factor.inputs, bends, strict=True)]
    second = [0.0 * x - bend for x, bend in zip(factor.inputs, bends, strict=True)]
    searched = DerivativeExtremes(factor.ranges, [], [*slopes, *second], None).extremes()
    curved = factor.bound_derivatives(None)
    assert curved.is_quadratic
    np.testing.assert_allclose(curved.sure, curved.smooth, rtol=1e-12)
    np.testing.assert_allclose(searched[6:9], curved.smooth, rtol=1e-9)
    assert sorted(curved.sure) == pytest.approx([1 / 9, 4, 4])
    assert np.all(np.isinf(curved.high))  # nothing is claimed of slopes
    found = extremes_of_constants([pt.constant(np.array([-2.0, -3.0]))], {})
    np.testing.assert_array_equal(found[4:], [2.0, 3.0, -2.0, -3.0])


def test_parameters_are_their_own_coordinates():
    _, posterior = factor_of(two_normals)
    parameters = posterior.record.parameters
    swapped = [parameters["b"], parameters["a"]]
    direct = predictor_coefficients(swapped, parameters, [])
    general = predictor_coefficients([1.0 * v for v in swapped], parameters, [])
    for one in (direct, general):
        np.testing.assert_array_equal(one.center, [[[0, 0, 1], [1, 0, 0], [0, 1, 0]]])
        assert one.radius.max() < 1e-14
        assert one.is_constant


def test_the_question_holds_no_data():
    private = scaled()
    posterior = lazy_concavity(private)._known
    assert not public_data([posterior.record.value, posterior.prior])
    columns = input_columns(posterior.record, private.sources, private.box, ())
    assert {c.variable for c in posterior.columns} < {c.variable for c in columns}
