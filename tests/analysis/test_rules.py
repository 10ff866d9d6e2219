"""The contract of every scalar rule in the registry; a rule that is not listed fails here."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
import pytest

from pymc_private.analysis import Bounds
from pymc_private.analysis.intervals import bound_scalar_op, ops, ops_with_rules
from pymc_private.analysis.intervals import functions as f
from pymc_private.analysis.intervals import special as rules
from pymc_private.analysis.intervals.functions import UNIT, ElementaryFunction
from tests.analysis.contract import (
    EXACT,
    REAL,
    Case,
    attempt,
    boxes_of,
    enclose,
    planted,
    scalar_cases,
)

CASES = scalar_cases()
BOXES, POINTS = 300, 3
FEW_BOXES = 100
"""Of the incomplete beta function, whose truth takes ten times as long as that of others."""
IDS = [str(case) for case in CASES]


def test_each_registered_rule_has_a_case_and_a_reference():
    kinds = set(ops_with_rules()[1][1:])
    assert {case.kind for case in CASES} == kinds
    assert set(REAL) | set(EXACT) >= kinds
    assert not set(REAL) & set(EXACT)


def test_there_are_enough_trials():
    assert sum(map(boxes_for, CASES)) * POINTS >= 100_000


def boxes_for(case: Case) -> int:
    return FEW_BOXES if case.kind is psm.BetaInc else BOXES


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_no_value_leaves_its_interval(case: Case, record_property):
    tally = attempt(case, seed=11, n=boxes_for(case), k=POINTS)
    record_property("trials", tally.trials)
    assert tally.trials == boxes_for(case) * POINTS
    assert tally.escapes == []
    assert (
        tally.informed > 0.4 or case.dtype != "float64"
    )  # top everywhere would pass, and say nothing


@pytest.mark.audit
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_no_value_leaves_its_interval_in_more_trials(case: Case, record_property):
    tally = attempt(case, seed=2, n=400, k=10)
    record_property("trials", tally.trials)
    assert tally.escapes == []


FLOAT = [case for case in CASES if case.dtype == "float64" or case.kind in (ps.AND, ps.OR)]


@pytest.mark.parametrize("case", FLOAT, ids=str)
def test_a_smaller_box_has_a_smaller_interval(case: Case):
    """Inclusion isotonicity, up to the few ulps of rounding."""
    rng = np.random.default_rng(3)
    boxes = boxes_of(case, rng, 200)
    smaller = [shrink(rng, *box) for box in boxes]
    node = case.node()
    outer, inner = enclose(node, boxes), enclose(node, smaller)
    if outer.lower.dtype == bool:
        assert np.all(outer.lower <= inner.lower)
        assert np.all(outer.upper >= inner.upper)
        return
    with np.errstate(all="ignore"):
        slack = 1e-9 * np.maximum(abs(inner.lower), abs(inner.upper))
    top = np.isnan(outer.lower)
    slack = np.where(np.isfinite(slack), slack, 0.0) + 1e-300
    assert np.all(top | (outer.lower <= inner.lower + slack))
    assert np.all(top | (outer.upper >= inner.upper - slack))


def shrink(rng: np.random.Generator, low: np.ndarray, high: np.ndarray) -> tuple:
    """A box inside: each end stays, or moves to a value between."""
    if low.dtype != float or np.isin(np.concatenate([low, high]), (0.0, 1.0)).all():
        return low, np.where(rng.random(low.shape) < 0.5, low, high)
    first, last = np.maximum(low, -1e300), np.minimum(high, 1e300)
    cut = np.sort(first + rng.random((2, *low.shape)) * (last - first), axis=0)
    cut = np.clip(cut, first, last)
    keep = rng.random(low.shape) < 0.5
    return np.where(keep, low, cut[0]), np.where(keep, cut[1], high)


@pytest.mark.parametrize("case", [c for c in FLOAT if c.kind in REAL], ids=str)
def test_at_a_point_an_interval_is_a_few_ulps_wide(case: Case):
    rng = np.random.default_rng(4)
    points = [rng.uniform(0.05, 0.9, (200, 1)) for _ in range(case.count)]
    if case.kind is psm.Log1mexp:
        points = [-p for p in points]
    if case.kind is ops.LogPhiBetween:
        points[0] += 1.0
    fact = enclose(case.node(), [(p, p.copy()) for p in points])
    rough = (ops.PowerStep, psm.BetaInc, psm.GammaInc, psm.GammaIncC)
    wide = 2e-10 if case.kind in rough else 1000 * UNIT
    assert np.all(fact.upper - fact.lower <= wide * np.maximum(abs(fact.upper), 0.05))


@pytest.mark.parametrize("case", [c for c in FLOAT if c.kind in EXACT], ids=str)
def test_an_exact_function_of_a_point_is_a_point(case: Case):
    rng = np.random.default_rng(5)
    points = [rng.integers(-2, 3, (50, 1)).astype(case.dtype) for _ in range(case.count)]
    if case.kind is ps.Cast and case.scalar.o_type.dtype.startswith("uint"):
        points = [abs(p) for p in points]
    if case.kind is ps.Clip:
        points[1:] = [np.minimum(*points[1:]), np.maximum(*points[1:])]
    if case.kind is ops.EqualForms:
        points[1] = points[0]
    fact = enclose(case.node(), [(p, p.copy()) for p in points])
    np.testing.assert_array_equal(fact.lower, fact.upper)


# ---- faults that the contract must catch -------------------------------------------------


def ends(x: Bounds, function: ElementaryFunction) -> Bounds:
    low, high = function(x.lower), function(x.upper)
    return Bounds(np.minimum(low, high), np.maximum(low, high))


def two_corners(op, *x):
    return Bounds(np.prod([i.lower for i in x], 0), np.prod([i.upper for i in x], 0))


def without_hull(op, c, x, y):
    taken = c.upper.astype(bool)
    return Bounds(np.where(taken, x.lower, y.lower), np.where(taken, x.upper, y.upper))


def truth_of_ends(op, c, x, y):
    sure, maybe, either = c.lower != 0, c.upper != 0, x.hull(y)
    low = np.where(sure, x.lower, np.where(maybe, either.lower, y.lower))
    return Bounds(low, np.where(sure, x.upper, np.where(maybe, either.upper, y.upper)))


FAULTS = {
    "Mul of two corners": (ps.Mul, two_corners),
    "Mul without rounding": (
        ps.Mul,
        lambda op, *x: ends(Bounds(np.prod([i.lower for i in x], 0), x[0].upper), f.EXP),
    ),
    "Add without rounding": (
        ps.Add,
        lambda op, *x: Bounds(sum(i.lower for i in x), sum(i.upper for i in x)),
    ),
    "Sub of like ends": (ps.Sub, lambda op, x, y: Bounds(x.lower - y.lower, x.upper - y.upper)),
    "Sqr without its valley": (
        ps.Sqr,
        lambda op, x: ends(x, ElementaryFunction("", np.square, pt.sqr)),
    ),
    "Abs without its valley": (ps.Abs, lambda op, x: ends(x, ElementaryFunction("", np.abs, abs))),
    "Cosh without its valley": (ps.Cosh, lambda op, x: ends(x, f.COSH)),
    "Cos without its peaks": (ps.Cos, lambda op, x: ends(x, f.COS)),
    "Sin as if it rose": (ps.Sin, lambda op, x: ends(x, ElementaryFunction("", np.sin, pt.sin))),
    "Exp without rounding": (ps.Exp, lambda op, x: ends(x, f.EXP)),
    "Sigmoid without rounding": (psm.Sigmoid, lambda op, x: ends(x, f.SIGMOID)),
    "Log of what is positive": (
        ps.Log,
        lambda op, x: Bounds(np.maximum(x.lower, 0), x.upper).increasing(f.LOG),
    ),
    "GammaLn as if it rose": (psm.GammaLn, lambda op, x: x.increasing(f.GAMMALN)),
    "Psi over its poles": (psm.Psi, lambda op, x: x.increasing(f.PSI)),
    "GammaIncC as if it fell in k": (
        psm.GammaIncC,
        lambda op, k, x: Bounds(
            f.GAMMAINCC.down(k.upper, x.upper), f.GAMMAINCC.up(k.lower, x.lower)
        ),
    ),
    "LogSigmoidGap as if it rose in z": (
        ops.LogSigmoidGap,
        lambda op, z, g: Bounds(
            rules._sigmoid_gap_at(z.lower, g.lower).lower,
            rules._sigmoid_gap_at(z.upper, g.upper).upper,
        ),
    ),
    "LogAddExp as if the second fell": (
        ops.LogAddExp,
        lambda op, x, y: Bounds(
            rules._log_add_exp_at(x.lower, y.upper).lower,
            rules._log_add_exp_at(x.upper, y.lower).upper,
        ),
    ),
    "LogAddExp without rounding": (
        ops.LogAddExp,
        lambda op, x, y: Bounds(np.logaddexp(x.lower, y.lower), np.logaddexp(x.upper, y.upper)),
    ),
    "log Phi as if it fell": (
        ops.LogPhi,
        lambda op, z: rules._inverse_mills(op, z),
    ),
    "m' as if it fell": (
        ops.InverseMillsSlope,
        lambda op, z: rules._inverse_mills_slope(op, Bounds(-z.upper, -z.lower)),
    ),
    "m as if it rose": (
        ops.InverseMills,
        lambda op, z: Bounds(
            *rules._monotone_bounds(
                ops.inverse_mills_ratio,
                rules._inverse_mills_slope_error,
                z.lower,
                z.upper,
            )
        ),
    ),
    "LogPhiGap without its peak": (
        ops.LogPhiGap,
        lambda op, z, g: Bounds(
            rules._log_mass_bounds(rules._phi_gap_at, z, g).lower,
            np.maximum(*(rules._phi_gap_at(end, g.upper).upper for end in (z.lower, z.upper))),
        ),
    ),
    "LogPhiBetween of like ends": (
        ops.LogPhiBetween,
        lambda op, a, b: ends(
            Bounds(a.lower - b.lower, a.upper - b.upper), ElementaryFunction("", np.log, pt.log)
        ),
    ),
    "PowerStep of like ends": (
        ops.PowerStep,
        lambda op, x, b: Bounds(
            rules._power_step_at(x.lower, b.lower).lower,
            rules._power_step_at(x.upper, b.upper).upper,
        ),
    ),
    "AlsoEqual of the second's ends moved inward": (
        ops.EqualForms,
        lambda op, x, y: Bounds(x.lower, y.upper - 1e-6 * (1 + abs(y.upper))),
    ),
    "BetaInc as if it rose in a": (
        psm.BetaInc,
        lambda op, a, b, x: Bounds(
            f.BETAINC.down(a.lower, b.lower, x.lower), f.BETAINC.up(a.upper, b.upper, x.upper)
        ),
    ),
    "Reciprocal across zero": (ps.Reciprocal, lambda op, x: Bounds(1 / x.upper, 1 / x.lower)),
    "TrueDiv across zero": (
        ps.TrueDiv,
        lambda op, x, y: x.times(Bounds(1 / y.upper, 1 / y.lower)),
    ),
    "Pow of ends": (
        ps.Pow,
        lambda op, x, y: Bounds(np.power(x.lower, y.lower), np.power(x.upper, y.upper)),
    ),
    "Switch without its hull": (ps.Switch, without_hull),
    "Switch on the truth of ends": (ps.Switch, truth_of_ends),
    "LT that takes NaN for false": (
        ps.LT,
        lambda op, x, y: Bounds(x.upper < y.lower, x.lower < y.upper),
    ),
    "LT of lower ends": (ps.LT, lambda op, x, y: Bounds(x.lower < y.lower, x.upper < y.upper)),
    "LE that is LT": (ps.LE, lambda op, x, y: Bounds(x.upper < y.lower, ~(x.lower >= y.upper))),
    "EQ of overlapping boxes": (
        ps.EQ,
        lambda op, x, y: Bounds(*[(x.lower <= y.upper) & (y.lower <= x.upper)] * 2),
    ),
    "NEQ of ends": (
        ps.NEQ,
        lambda op, x, y: Bounds(*[(x.lower != y.lower) & (x.upper != y.upper)] * 2),
    ),
    "AND that is OR": (ps.AND, lambda op, *x: Bounds(x[0].lower | x[1].lower, x[0].upper)),
    "OR that is AND": (ps.OR, lambda op, *x: Bounds(x[0].lower, x[0].upper & x[1].upper)),
    "Invert that keeps its ends": (ps.Invert, lambda op, x: Bounds(~x.lower, ~x.upper)),
    "IsNan that is never true": (
        ps.IsNan,
        lambda op, x: Bounds(*[np.zeros(np.shape(x.lower), bool)] * 2),
    ),
    "Cast that truncates nothing": (ps.Cast, lambda op, x: x),
    "Cast that rounds": (ps.Cast, lambda op, x: Bounds(np.round(x.lower), np.round(x.upper))),
    "Clip that forgets crossed ends": (
        ps.Clip,
        lambda op, x, a, b: Bounds(
            np.minimum(np.maximum(x.lower, a.lower), b.lower),
            np.minimum(np.maximum(x.upper, a.upper), b.upper),
        ),
    ),
    "Maximum of the first ends": (ps.ScalarMaximum, lambda op, *x: x[0]),
    "Neg that keeps its ends": (ps.Neg, lambda op, x: Bounds(-x.lower, -x.upper)),
    "Floor that keeps fractions": (ps.Floor, lambda op, x: x),
    "Softplus as if it fell": (psm.Softplus, lambda op, x: x.decreasing(f.SOFTPLUS)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_contract_catches(name):
    kind, rule = FAULTS[name]
    cases = [case for case in CASES if case.kind is kind]
    with planted(kind, rule):
        assert any(attempt(case, seed=11, n=boxes_for(case), k=POINTS).escapes for case in cases)
    assert bound_scalar_op.registry[kind] is not rule
