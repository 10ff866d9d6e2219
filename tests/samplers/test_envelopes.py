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
from pymc_private.samplers import target
from pymc_private.samplers.piecewise import Envelope, height
from pymc_private.samplers.target import Target
from tests.samplers.densities import BENDS, JUMPS, SMOOTH, TRICKS, Case
from tests.samplers.targets import (
    evaluator,
    random_cells,
    slopes_used,
    target_of,
    worst_escape,
)

TOLERANCE = 1e-9


@pytest.mark.parametrize("case", JUMPS + BENDS + TRICKS + SMOOTH, ids=str)
def test_no_point_lies_above_its_envelope(case):
    escape = worst_escape(
        target_of(case.expression, case.lower, case.upper), evaluator(case.expression), case.near
    )
    assert escape <= TOLERANCE


@pytest.mark.parametrize("case", [*SMOOTH, *BENDS[:8]], ids=str)
def test_continuous_densities_get_slopes(case):
    # Else the tests here would pass for a sampler without mean-value forms.
    assert slopes_used(target_of(case.expression, case.lower, case.upper), case.near) > 10


@pytest.mark.parametrize("case", JUMPS, ids=str)
def test_without_the_guard_a_jump_escapes(case, monkeypatch):
    monkeypatch.setattr(target, "is_continuous", lambda value, moving, trail: True)
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
    # What the center's gradient alone would say.
    true = Target._walk

    def one_sided(self, outputs, lower, upper):
        trail = true(self, outputs, lower, upper)
        if len(outputs) > 1:
            center = (3 * lower + upper) / 4
            trail.facts.update({g: true(self, [g], center, center)[g] for g in outputs[1:]})
        return trail

    monkeypatch.setattr(Target, "_walk", one_sided)
    made = target_of(case.expression, case.lower, case.upper)
    assert worst_escape(made, evaluator(case.expression), case.near) > 0.01


def test_an_envelope_that_is_a_little_too_low_escapes(monkeypatch):
    true = Target.envelope

    def lowered(self, lower, upper):
        found = true(self, lower, upper)
        return Envelope(found.constant - 1e-6, found.low, found.high)

    monkeypatch.setattr(Target, "envelope", lowered)
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


@settings(max_examples=60)
@given(tree=TREES)
def test_no_random_expression_escapes(tree):
    holds(tree)


@pytest.mark.audit
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


@pytest.mark.parametrize("index", [0, 1], ids=["step", "edge of a prior"])
def test_models_with_edges_stay_below_their_envelopes(index):
    model, box, density, near = through_pymc()[index]
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    made = Target(pmp.trim(private, box=box))
    center = (made.lower + made.upper) / 2
    offset = made.value(center) - density(*center)  # PyMC keeps its constants in single precision
    assert worst_escape(made, lambda point: density(*point) + offset, near) <= TOLERANCE


def test_the_value_at_a_point_is_the_density():
    case = SMOOTH[1]
    made, value = target_of(case.expression, case.lower, case.upper), evaluator(case.expression)
    for low, high in random_cells(made.lower, made.upper, (), 30, seed=4):
        lower, upper = made.at((low + high) / 2)
        assert lower <= value((low + high) / 2) <= upper
        assert upper - lower < 1e-10
        assert made.value((low + high) / 2) == pytest.approx(value((low + high) / 2), abs=1e-10)


LOOSE = [
    Case("crossed clip", lambda t: pt.clip(t[0], 0.3, -2.0)),
    Case("a cosine far out", lambda t: pt.cos(1e8 * t[0])),
    Case("one minus almost one", lambda t: pt.log(1.0 - pt.tanh(16.5 - 0.5 * t[0]))),
]


@pytest.mark.parametrize("case", LOOSE, ids=str)
def test_where_a_rule_is_loose_at_a_point_the_value_is_the_density_all_the_same(case):
    made, value = target_of(case.expression, case.lower, case.upper), evaluator(case.expression)
    points = np.linspace(-0.9, 0.9, 37)[:, None]
    middles = [sum(made.at(point)) / 2 for point in points]
    exact = [value(point) for point in points]
    assert np.max(np.abs(np.subtract(middles, exact))) > 0.01
    assert [made.value(point) for point in points] == pytest.approx(exact, rel=2e-6, abs=2e-6)


def test_halving_a_cell_closes_in_on_the_density():
    made = target_of(SMOOTH[0].expression, (-1.0,), (1.0,))
    gaps = []
    for half in (0.1, 0.01, 0.001):
        low, high = np.array([0.5 - half]), np.array([0.5 + half])
        gaps.append(height(made.envelope(low, high), np.array([half])) - made.at(high)[0])
    # A mean-value form is off by the square of the width: a hundredth for each tenth.
    assert gaps[1] < gaps[0] / 50
    assert gaps[2] < gaps[1] / 50
