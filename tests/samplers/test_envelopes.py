"""No log density ever rises above its envelope, whatever the graph does inside the box."""

from __future__ import annotations

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private.analysis import continuity
from pymc_private.samplers import log_density, rejection
from pymc_private.samplers.envelope_pieces import envelope_height
from pymc_private.samplers.log_density import DensitySlopes, LogDensity, Target
from tests.samplers.densities import BENDS, JUMPS, SMOOTH, TRICKS, Case
from tests.samplers.targets import (
    all_forms,
    ends_at,
    evaluator,
    finite_forms,
    random_cells,
    target_of,
    value_at,
    worst_escape,
)

TOLERANCE = 1e-9


CASES = JUMPS + BENDS + TRICKS + SMOOTH
# Every fourth of them at every run, all of them as an audit.
MOST = [
    case if k % 4 == 0 else pytest.param(case, marks=pytest.mark.audit)
    for k, case in enumerate(CASES)
]


def some(cases):
    """The first of the cases at every run, the others as an audit."""
    return [cases[0], *(pytest.param(case, marks=pytest.mark.audit) for case in cases[1:])]


@pytest.mark.thin(24)
@pytest.mark.parametrize("case", MOST, ids=str)
def test_no_point_lies_above_its_envelope(case):
    escape = worst_escape(
        target_of(case.expression, case.lower, case.upper), evaluator(case.expression), case.near
    )
    assert escape <= TOLERANCE


@pytest.mark.parametrize("case", some([*SMOOTH, *BENDS[:8]]), ids=str)
def test_continuous_densities_get_slopes(case):
    # Else the tests here would pass for a sampler without mean-value forms.
    assert finite_forms(target_of(case.expression, case.lower, case.upper), case.near)[1] > 10


@pytest.mark.parametrize("case", some(SMOOTH), ids=str)
def test_smooth_densities_get_bends(case):
    assert finite_forms(target_of(case.expression, case.lower, case.upper), case.near)[2] > 10


@pytest.mark.parametrize("case", some(JUMPS), ids=str)
def test_without_the_guard_a_jump_escapes(case, monkeypatch):
    monkeypatch.setattr(log_density, "continuous_on_boxes", lambda *arguments: np.asarray(True))
    escape = worst_escape(
        target_of(case.expression, case.lower, case.upper), evaluator(case.expression), case.near
    )
    assert escape > 0.1


def test_a_guard_that_looks_at_booleans_only_lets_a_numeric_condition_escape(monkeypatch):
    def booleans_only(node, trail, moving, batch_axes):
        return np.asarray(False), [(v, np.asarray(True)) for v in node.inputs[1:]]

    monkeypatch.setattr(continuity, "_live_branches", booleans_only)
    case = next(case for case in JUMPS if case.name == "numeric condition")
    made = target_of(case.expression, case.lower, case.upper)
    assert worst_escape(made, evaluator(case.expression), case.near) > 0.1


@pytest.mark.parametrize("case", BENDS[:2], ids=str)
def test_a_gradient_of_one_side_escapes(case, monkeypatch):
    # What the gradient at one point alone would say.
    true = LogDensity.on_boxes

    def one_sided(self, lower, upper):
        found, center = true(self, lower, upper), (3 * lower + upper) / 4
        return DensitySlopes(
            found.value, true(self, center, center).slopes, *(found.continuous,) * 2
        )

    monkeypatch.setattr(LogDensity, "on_boxes", one_sided)
    made = target_of(case.expression, case.lower, case.upper)
    assert worst_escape(made, evaluator(case.expression), case.near) > 0.01


def test_the_curvature_of_one_point_escapes(monkeypatch):
    true = Target.hessian_upper_bound
    monkeypatch.setattr(
        Target,
        "hessian_upper_bound",
        lambda self, lower, upper, *turns: true(self, lower, lower, *turns),
    )
    escapes = [
        worst_escape(target_of(c.expression, c.lower, c.upper), evaluator(c.expression), c.near)
        for c in SMOOTH[:2]
    ]
    assert max(escapes) > 0.01


def test_an_envelope_that_is_a_little_too_low_escapes(monkeypatch):
    true = rejection._round_up
    monkeypatch.setattr(rejection, "_round_up", lambda value: true(value) - 1e-6)
    case = SMOOTH[0]
    made = target_of(case.expression, case.lower, case.upper)
    assert worst_escape(made, evaluator(case.expression), case.near) > TOLERANCE


LEAVES = st.sampled_from(["x", "y", "0.3", "-1.2", "2.0"])
UNARY = st.sampled_from(
    ["abs", "neg", "sqr", "tanh", "softplus", "floor", "sign", "sin", "sigmoid", "log2p", "step",
     "exp", "root"]
)  # fmt: skip
BINARY = st.sampled_from(["add", "mul", "max", "min", "choose", "over"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.tuples(UNARY, inner), st.tuples(BINARY, inner, inner)),
    max_leaves=8,
)
DOUBLE = partial(pt.constant, dtype="float64")  # else 1.0 would be kept in single precision
MEANING = {
    "abs": abs, "neg": lambda a: -a, "sqr": lambda a: a**2, "tanh": pt.tanh,
    "softplus": pt.softplus, "floor": pt.floor, "sign": pt.sign, "sin": pt.sin,
    "sigmoid": pt.sigmoid, "log2p": lambda a: pt.log(2.0 + a**2),
    "step": lambda a: pt.switch(a > 0.3, DOUBLE(1.0), DOUBLE(-1.0)),
    "exp": lambda a: pt.exp(pt.tanh(a)),
    "root": lambda a: pt.sqrt(abs(a)), "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
    "max": pt.maximum, "min": pt.minimum, "choose": lambda a, b: pt.switch(a > b, a, -b),
    "over": lambda a, b: a / (1.0 + b**2),
}  # fmt: skip


def grown(tree, t):
    """The expression a tree stands for."""
    if isinstance(tree, str):
        return {"x": t[0], "y": t[1]}.get(tree) if tree in "xy" else DOUBLE(float(tree))
    return MEANING[tree[0]](*(grown(branch, t) for branch in tree[1:]))


def holds(tree) -> None:
    def expression(t):
        return pt.as_tensor(grown(tree, t)).astype("float64")

    made = target_of(expression, (-1.0, -1.0), (1.0, 1.5))
    assert worst_escape(made, evaluator(expression), (0.0, 0.3), count=12) <= TOLERANCE


@settings(max_examples=8)
@given(tree=TREES)
def test_no_random_expression_escapes(tree):
    holds(tree)


@pytest.mark.audit
@settings(max_examples=120)
@given(tree=TREES)
def test_no_random_expression_escapes_at_length(tree):
    holds(tree)


def through_pymc() -> list:
    """PyMC models with an edge or a step, their box, and the log density by hand."""
    y = np.array([0.1, -0.4, 0.9, 0.3])
    coords = {"i": range(4)}
    with pm.Model(coords=coords) as step:
        t = pm.Uniform("t", 0, 1)
        mean = pm.Deterministic("mean", pm.math.switch(t > 0.3, 1.0, -1.0))
        pm.Normal("y", mean, 1.0, observed=y, dims="i")
    with pm.Model(coords=coords) as edge:
        a = pm.Uniform("a", 1, 3)
        b = pm.Uniform("b", 0, a)
        pm.Normal("y", b, a, observed=y, dims="i")

    def normal(mean, sd):
        return float(np.sum(-0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - np.log(2 * np.pi) / 2))

    def step_density(t):
        return normal(1.0 if t > 0.3 else -1.0, 1.0)

    def edge_density(a, b):
        return normal(b, a) - np.log(2.0) - np.log(a) if b <= a else -np.inf

    return [
        (step, {"t": (0.05, 0.9)}, step_density, (0.3,)),
        (edge, {"a": (1.0, 3.0), "b": (0.0, 3.0)}, edge_density, (1.0, 2.0)),
    ]


@pytest.mark.parametrize(
    "index", [0, pytest.param(1, marks=pytest.mark.audit)], ids=["step", "edge of a prior"]
)
def test_models_with_edges_stay_below_their_envelopes(index):
    model, box, density, near = through_pymc()[index]
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    made = Target(pmp.trim(private, box=box))
    center = (made.lower + made.upper) / 2
    offset = value_at(made, center) - density(
        *center
    )  # PyMC keeps its constants in single precision
    assert worst_escape(made, lambda point: density(*point) + offset, near) <= TOLERANCE


def test_the_value_at_a_point_is_the_density():
    case = SMOOTH[1]
    made, value = target_of(case.expression, case.lower, case.upper), evaluator(case.expression)
    for low, high in random_cells(made.lower, made.upper, (), 30, seed=4):
        point = (low + high) / 2
        lower, upper = ends_at(made, point)
        assert lower <= value(point) <= upper
        assert upper - lower < 1e-10
        assert value_at(made, point) == pytest.approx(value(point), abs=1e-10)


LOOSE = [
    Case("crossed clip", lambda t: pt.clip(t[0], 0.3, -2.0)),
    Case("a cosine far out", lambda t: pt.cos(1e8 * t[0])),
    Case("one minus almost one", lambda t: pt.log(1.0 - pt.tanh(16.5 - 0.5 * t[0]))),
]


@pytest.mark.parametrize("case", LOOSE, ids=str)
def test_where_a_rule_is_loose_at_a_point_the_value_is_the_density_all_the_same(case):
    made, value = target_of(case.expression, case.lower, case.upper), evaluator(case.expression)
    points = np.linspace(-0.9, 0.9, 37)[:, None]
    middles = np.add(*made.value_bounds(points)) / 2
    exact = [value(point) for point in points]
    assert np.max(np.abs(np.subtract(middles, exact))) > 0.01
    assert made.values(points) == pytest.approx(exact, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize(("form", "shrink"), [(1, 50), (2, 500)])
def test_halving_a_cell_closes_in_on_the_density(form, shrink):
    made = target_of(lambda t: -pt.exp(t[0]) - pt.exp(-2.0 * t[0]), (-1.0,), (1.0,))
    gaps = []
    for half in (0.1, 0.01):
        low, high = np.array([[0.5 - half]]), np.array([[0.5 + half]])
        anchor, found = all_forms(made, low, high, rounds=0)
        gaps.append(envelope_height(found[form], high - anchor)[0] - ends_at(made, high[0])[0])
    # A mean-value form is off by the square of the width, a second-order one by its cube.
    assert 0 < gaps[1] < gaps[0] / shrink


@pytest.mark.parametrize("case", some(SMOOTH[1:] + SMOOTH[:1] + JUMPS + BENDS + TRICKS), ids=str)
def test_many_boxes_at_once_are_bounded_as_one_by_one(case):
    made = target_of(case.expression, case.lower, case.upper)
    cells = random_cells(made.lower, made.upper, case.near, 25, seed=7)
    lower, upper = (np.array(ends) for ends in zip(*cells, strict=True))
    whole = made.on_boxes(lower, upper)
    alone = [made.on_boxes(lower[k : k + 1], upper[k : k + 1]) for k in range(25)]
    for name in ("value", "slopes"):
        for side in (0, 1):
            one = np.concatenate([getattr(found, name)[side] for found in alone])
            np.testing.assert_allclose(getattr(whole, name)[side], one, rtol=1e-13, atol=1e-290)
    np.testing.assert_array_equal(whole.smooth, np.concatenate([a.smooth for a in alone]))
    if made.has_curvature:
        units = np.broadcast_to(np.eye(len(case.lower)), (25, len(case.lower), len(case.lower)))
        many = made.hessian_upper_bound(lower, upper, units, units)
        for k in range(25):
            one = made.hessian_upper_bound(lower[k : k + 1], upper[k : k + 1], units[:1], units[:1])
            assert many.finite[k] == one.finite[0]
            if one.finite[0]:
                np.testing.assert_allclose(many.matrix[k], one.matrix[0], rtol=1e-9, atol=1e-9)
