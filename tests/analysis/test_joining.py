"""Named composites are put where they belong, keep the function, and go nowhere else."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import log_diff_normal_cdf
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.intervals import ops
from tests.analysis.graphs import evaluate

M, S, P = pt.dscalar("m"), pt.dscalar("s"), pt.dvector("p")
C = pt.tensor("c", dtype="float64", shape=(3,))
VALUES = {
    M: np.array(0.3),
    S: np.array(1.7),
    P: np.array([0.2, 0.6]),
    C: np.array([-1.0, 0.2, 1.5]),
}
CUTS = np.array([-1.0, 0.0, 1.0])


def ordered(kind, **rest):
    return kind.compute_p(**rest)


def steps(p, first=0.0, last=1.0):
    ends = p[..., :1]
    whole = pt.concatenate([first * pt.ones_like(ends), p, last * pt.ones_like(ends)], axis=-1)
    return whole[..., 1:] - whole[..., :-1]


def piecewise(p, last=1.0):
    parts = [p[..., 0][..., None], p[..., 1:] - p[..., :-1], (last - p[..., -1])[..., None]]
    return pt.concatenate(parts, axis=-1)


def stick(p, first=1.0):
    left = [p[..., j] * pt.prod(1 - p[..., :j], axis=-1) for j in (1, 2)]
    parts = [p[..., 0] if first == 1.0 else first * p[..., 0], *left, pt.prod(1 - p, axis=-1)]
    return pt.concatenate([part[..., None] for part in parts], axis=-1)


def guarded(p):
    p = pt.switch(pt.eq(p, 0), 2.0**-52, p)
    return pt.switch(pt.eq(p, 1), 1.0 - 2.0**-52, p)


ON, GAP = ops.OnSimplex, ops.LogPhiGap
LOGIT, BETWEEN, STEP = ops.LogSigmoidGap, ops.LogPhiBetween, ops.PowerStep

SUM = ops.LogAddExp
JOINED = {
    "exponentials": (lambda: pt.log(pt.exp(M) + pt.exp(P)) * 2.0, {SUM}),
    "exponentials and a number": (lambda: pt.log(pt.exp(M) + 2.0 + pt.exp(P)), {SUM}),
    "exponentials and one": (lambda: pt.log1p(pt.exp(-M) + pt.exp(P - S)), {SUM}),
    "logaddexp": (lambda: pt.logaddexp(pt.logaddexp(M, P), S), {SUM}),
    "logaddexp of three": (lambda: pt.logaddexp(M, P, S), {SUM}),
    "normal difference": (lambda: log_diff_normal_cdf(M, 2.0, S + 3.0, S), {GAP}),
    "normal difference of a free scale": (
        lambda: log_diff_normal_cdf(M, S, 1.0, -0.5),
        {GAP, BETWEEN},
    ),
    "normal difference of free ends": (lambda: log_diff_normal_cdf(0.0, 1.0, C[1:], C[:-1]), {GAP}),
    "ordered probit": (
        lambda: ordered(pm.OrderedProbit, eta=M, cutpoints=CUTS, sigma=1),
        {ON, GAP},
    ),
    "ordered probit of free cutpoints and scale": (
        lambda: ordered(pm.OrderedProbit, eta=P, cutpoints=C, sigma=S),
        {ON, GAP},
    ),
    "ordered logistic": (lambda: steps(pt.sigmoid(CUTS - M)), {ON, LOGIT}),
    "ordered logistic of many": (lambda: steps(pt.sigmoid(C - 2.0 * P[:, None])), {ON, LOGIT}),
    "ordinal of Bambi": (lambda: piecewise(pt.sigmoid(C - 2.0 * P[:, None])), {ON, LOGIT}),
    "ordinal of Bambi with guards": (
        lambda: piecewise(guarded(pt.sigmoid(C - 2.0 * P[:, None]))),
        {ON, LOGIT},
    ),
    "stick": (lambda: stick(guarded(pt.sigmoid(C - 2.0 * P[:, None]))), {ON}),
    "discrete Weibull": (
        lambda: pt.log(pt.power(P, pt.power(M, S)) - pt.power(P, pt.power(M + 1, S))),
        {STEP},
    ),
    "complement": (lambda: pt.stack([P[0], 1 - P[0]]) * 2.0, {ON}),
    "complements": (lambda: pt.stack([P / 2, P / 4, 1 - P / 2 - P / 4], axis=-1) + 1.0, {ON}),
}
ALONE = {
    "softplus": lambda: pt.log(1.0 + pt.exp(M)),
    "differences of exponentials": lambda: pt.log(pt.exp(S) - pt.exp(M)),
    "exponentials less a number": lambda: pt.log(pt.exp(S) + pt.exp(M) - 0.5),
}
APART = {
    "steps that do not start at zero": lambda: steps(pt.sigmoid(CUTS - M), first=0.1),
    "steps that do not end at one": lambda: steps(pt.sigmoid(CUTS - M), last=0.9),
    "pieces that do not end at one": lambda: piecewise(pt.sigmoid(C - 2 * P[:, None]), last=0.9),
    "pieces of another function": lambda: piecewise(pt.tanh(C - 2 * P[:, None])),
    "pieces out of order": lambda: piecewise(pt.sigmoid(C - 2 * P[:, None])[:, ::-1]),
    "stick of another start": lambda: stick(pt.sigmoid(C - 2 * P[:, None]), first=0.5),
    "stick of another function": lambda: stick(pt.tanh(C - 2 * P[:, None])),
    "steps of another function": lambda: steps(pt.tanh(CUTS - M)),
    "pieces with a broadcast end": lambda: pt.concatenate(
        [pt.sigmoid(C)[:1], pt.sigmoid(C)[1:] - pt.sigmoid(C)[:-1], np.ones(4) - pt.sigmoid(C)[-1:]]
    ),
    "complement of another": lambda: pt.stack([P[0], 1 - P[1]]) * 2.0,
    "complement of two": lambda: pt.stack([P[0], 2 - P[0]]) * 2.0,
    "complement along the records": lambda: pt.concatenate([P, 1 - P]) * 2.0,
    "normal difference of another scale": lambda: (
        log_diff_normal_cdf(0.0, 1.0, 1.0 + M, M) + pt.erf(M / 3.0)
    ),
}


def kinds(graph) -> set:
    nodes = [v.owner for v in ancestors([graph]) if v.owner is not None]
    return {type(getattr(n.op, "scalar_op", n.op)) for n in nodes}


@pytest.mark.thin(5)
@pytest.mark.parametrize("name", JOINED)
def test_a_composite_replaces_its_expression(name):
    build, wanted = JOINED[name]
    out = build()
    (simple,) = simplify([out])
    assert wanted <= kinds(simple)
    before, after = evaluate([out, simple], {v: VALUES[v] for v in given([out])})
    np.testing.assert_allclose(after, before, rtol=1e-11)


@pytest.mark.parametrize("name", APART)
def test_what_is_no_simplex_is_left_alone(name):
    out = APART[name]()
    (simple,) = simplify([out])
    assert ops.OnSimplex not in kinds(simple)
    before, after = evaluate([out, simple], {v: VALUES[v] for v in given([out])})
    np.testing.assert_allclose(after, before, rtol=1e-11)


@pytest.mark.parametrize("name", ALONE)
def test_what_is_no_sum_of_exponentials_is_left_alone(name):
    out = ALONE[name]()
    (simple,) = simplify([out])
    assert ops.LogAddExp not in kinds(simple)
    before, after = evaluate([out, simple], {v: VALUES[v] for v in given([out])})
    np.testing.assert_allclose(after, before, rtol=1e-11)


INFINITE = {
    "log": lambda x: pt.log(x),
    "negative power": lambda x: -pt.pow(x, -1.0),
    "quotient": lambda x: -1.0 / x,
    "case": lambda x: pt.switch(pt.eq(x, 0.0), -np.inf, x),
}


@pytest.mark.parametrize("name", INFINITE)
def test_a_guard_that_a_point_reaches_stays(name):
    """sigmoid(-inf) is 0 without any rounding."""
    x = pt.dscalar("x")
    s = pt.sigmoid(INFINITE[name](x))
    out = pt.switch(pt.eq(s, 0.0), 10.0, s)
    (simple,) = simplify([out])
    assert evaluate([simple], {x: np.float64(0.0)}) == [10.0]


def given(outputs) -> list:
    return [v for v in ancestors(outputs) if v in VALUES]


SLOPES = {
    "log_add_exp": (ops.log_add_exp, 0.4, 1.7),
    "log_sigmoid_gap": (ops.log_sigmoid_gap, 0.4, 0.7),
    "log_phi_gap": (ops.log_phi_gap, 0.4, 0.7),
    "log_phi_between": (ops.log_phi_between, 0.9, -0.3),
    "power_step": (ops.power_step, 1.4, 0.7),
    "power_step at 0": (ops.power_step, 1e-9, 0.7),
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_are_the_slopes(name):
    op, x, y = SLOPES[name]
    a, b = pt.dscalars("ab")
    slopes = pytensor.grad(op(a, b), [a, b])
    found = [float(v) for v in evaluate(slopes, {a: np.float64(x), b: np.float64(y)})]
    h = 1e-5 if x > 1e-5 else 1e-12

    def value(x, y):
        return float(evaluate([op(a, b)], {a: np.float64(x), b: np.float64(y)})[0])

    assert found[1] == pytest.approx((value(x, y + 1e-5) - value(x, y - 1e-5)) / 2e-5, rel=1e-5)
    assert found[0] == pytest.approx((value(x + h, y) - value(x - h, y)) / (2 * h), rel=1e-3)


def gaps(*entries):
    """Differences of neighboring entries, simplified, and as they are written."""
    cuts = pt.stack(entries)
    written = cuts[1:] - cuts[:-1]
    return simplify([written])[0], written


def test_differences_of_sums_are_what_differs():
    """Cutpoints m, m + s, m + s + s^2 have the gaps s and s^2, whatever is known of m."""
    found, written = gaps(M, M + S, M + S + S**2)
    box = {M: Bounds(np.array(-9.0), np.array(9.0)), S: Bounds(np.array(0.5), np.array(2.0))}
    fact = propagate_bounds([found], box)[found]
    assert fact.lower == pytest.approx([0.5, 0.25])
    assert fact.upper == pytest.approx([2.0, 4.0])
    assert np.allclose(*evaluate([found, written], {v: VALUES[v] for v in (M, S)}))


@pytest.mark.parametrize(
    "entries", [(M, M + M, M + M + M), (M, S, M * S), (M + S, S + S, M)], ids=str
)
def test_terms_in_common_are_counted_as_often_as_both_have_them(entries):
    found, written = gaps(*entries)
    assert np.allclose(*evaluate([found, written], {v: VALUES[v] for v in (M, S)}))
