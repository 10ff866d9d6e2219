"""Log densities on boxes: smooth ones, and those that jump, bend or hide their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_grad, grad_clip, zero_grad
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from tests.samplers.targets import Expression


@dataclass(frozen=True)
class Case:
    """A log density on a box, with the places where it may jump or bend."""

    name: str
    expression: Expression
    lower: Sequence[float] = (-1.0,)
    upper: Sequence[float] = (1.0,)
    near: Sequence[float] = (0.0, 0.3)

    def __str__(self) -> str:
        return self.name


class NoGradient(Op):
    """An Op that PyTensor cannot differentiate and no interval rule knows."""

    itypes = otypes = [pt.dscalar]  # noqa: RUF012

    def perform(self, node: Apply, inputs: list, outputs: list) -> None:
        outputs[0][0] = np.asarray(np.floor(10.0 * inputs[0]))


def lying() -> OpFromGraph:
    """A step that claims to be flat everywhere."""
    x = pt.dscalar()
    try:
        return OpFromGraph(
            [x], [pt.floor(10.0 * x)], pullback=lambda i, o, g: [pt.zeros_like(i[0])]
        )
    except TypeError:  # PyTensor 2
        return OpFromGraph(
            [x], [pt.floor(10.0 * x)], lop_overrides=lambda i, o, g: [pt.zeros_like(i[0])]
        )


def lazy_choice():
    """PyTensor's lazy if, which moved between its generations."""
    try:
        return import_module("pytensor.conditional.op").ifelse
    except ModuleNotFoundError:
        return import_module("pytensor.ifelse").ifelse


IF_ELSE = lazy_choice()
TABLE = np.array([-1.0, 3.0])

# Jumps whose gradient PyTensor calls finite: only the guard stands between them and a false bound.
JUMPS = [
    Case("switch", lambda t: pt.switch(t[0] > 0.3, 2.0, -1.0) + t[0]),
    Case("where", lambda t: pt.where(pt.le(t[0], 0.3), -(t[0] ** 2), 3.0)),
    Case("numeric condition", lambda t: pt.switch(pt.maximum(t[0], 0.3) - 0.3, 2.0, -1.0)),
    Case("zero inside", lambda t: pt.switch(t[0] - pt.clip(t[0], -0.3, 0.3), 0, 4)),
    Case("floor", lambda t: pt.floor(3.0 * t[0]), near=(-1 / 3, 0.0, 1 / 3)),
    Case("ceil", lambda t: -pt.ceil(t[0]) * 2.0),
    Case("round", lambda t: pt.round(t[0] + 0.2, mode="half_to_even")),
    Case("sign", lambda t: pt.sign(t[0] - 0.3)),
    Case("hidden sign", lambda t: pt.tanh(t[0] / abs(t[0]))),
    Case("cast", lambda t: pt.cast(3.0 * t[0] + 3.0, "int64") * 1.5, near=(-1 / 3, 0.0, 1 / 3)),
    Case("cast of a comparison", lambda t: pt.cast(t[0] > 0.3, "float64")),
    Case("index", lambda t: pt.as_tensor(TABLE)[pt.cast(t[0] > 0.3, "int64")]),
    Case("index vector", lambda t: pt.as_tensor(TABLE)[pt.cast(t > 0.3, "int64")].sum()),
    Case("equality", lambda t: pt.eq(pt.maximum(t[0], 0.3), 0.3) * 2.0),
    Case("two parameters", lambda t: pt.switch(t[0] > t[1], 1.0, 0.0), (-1, -1), (1, 1)),
    Case("diagonal edge", lambda t: pt.switch(t[0] + t[1] > 0.6, 3.0, t[0]), (-1, -1), (1, 1)),
]  # fmt: skip

# Bends: the gradient picks one side, and the interval must hold both.
BENDS = [
    Case("abs", lambda t: abs(t[0] - 0.3)),
    Case("minus abs", lambda t: -3.0 * abs(t[0])),
    Case("maximum", lambda t: pt.maximum(t[0], 0.3) * 2.0),
    Case("minimum", lambda t: pt.minimum(-t[0], 2.0 * t[0])),
    Case("maximum of multiples", lambda t: pt.maximum(t[0], t[0] + t[0])),
    Case("relu", lambda t: -(pt.maximum(t[0], 0.0) ** 2) + pt.maximum(t[0], 0.0)),
    Case("clip", lambda t: pt.clip(5.0 * t[0], 0.0, 1.5)),
    Case("maximum of equals", lambda t: pt.maximum(t[0], t[0] * 1.0) + pt.maximum(t[0], abs(t[0]))),
    Case("largest of equals", lambda t: pt.max(pt.stack([t[0], t[0], 2.0 * t[0]]))),
    Case("smallest", lambda t: pt.min(pt.stack([t[0], -t[0], 0.3 * t[0] + 0.1]))),
    Case("along the diagonal", lambda t: abs(t[0] - t[1]), (-1, -1), (1, 1)),
    Case("largest of two", lambda t: pt.max(t) - pt.min(2.0 * t), (-1, -1), (1, 1)),
    Case("softplus", lambda t: pt.softplus(8.0 * t[0]) - pt.softplus(-20.0 * t[0])),
    Case("joined branches", lambda t: pt.switch(t[0] > 0, t[0], -2.0 * t[0])),
    Case("root", lambda t: pt.sqrt(abs(t[0]))),
    Case("power", lambda t: abs(t[0]) ** 1.5 - (t[0] + 2.0) ** -3),
]

# Gradients that are hidden, cut or invented; Ops that no rule knows, or no rule knows well.
TRICKS = [
    Case("crossed clip", lambda t: pt.clip(t[0], 0.3, -2.0)),
    Case("clip with moving ends", lambda t: pt.clip(0.3, t[0], -1.0)),
    Case("no density", lambda t: pt.switch(t[0] + t[1] > 0.6, -np.inf, t[0]), (-1, -1), (1, 1)),
    Case("gradient set to zero", lambda t: zero_grad(t[0]) * 3.0),
    Case("gradient clipped", lambda t: grad_clip(5.0 * t[0], -1.0, 1.0)),
    Case("gradient cut", lambda t: disconnected_grad(t[0]) * 2.0),
    Case("no gradient", lambda t: NoGradient()(t[0]) + t[0], near=(0.0, 0.1, 0.3)),
    Case("lying gradient", lambda t: lying()(t[0]), near=(0.0, 0.1, 0.3)),
    Case("modulus", lambda t: pt.mod(t[0], 0.3)),
    Case("whole division", lambda t: t[0] // 0.3),
    Case("truncated", lambda t: pt.trunc(3.0 * t[0]), near=(-1 / 3, 1 / 3)),
    Case("rounded away", lambda t: pt.round(3.0 * t[0], mode="half_away_from_zero"), near=(1 / 6,)),
    Case("lazy choice", lambda t: IF_ELSE(t[0] > 0.3, pt.constant(1.0), pt.constant(-1.0))),
    Case("argmax", lambda t: pt.argmax(pt.stack([t[0], pt.constant(0.3)])) * 2.0),
    Case("sorted", lambda t: pt.sort(pt.stack([t[0], -t[0]]))[0]),
    Case("pole", lambda t: pt.arctan(1.0 / t[0])),
    Case("one-sided pole", lambda t: pt.tanh(t[0] / pt.sqrt(t[0] ** 2 + t[0] ** 4))),
    Case("guarded logarithm", lambda t: pt.switch(t[0] > 0.3, pt.log(t[0] - 0.3), 0.0)),
]

SMOOTH = [
    Case("normal", lambda t: -((t[0] - 0.2) ** 2) / 0.02),
    Case("logistic", lambda t: 7 * t[0] - 12 * pt.softplus(t[0] - 2 * t[1]), (-3, -3), (3, 3)),
    Case("scale", lambda t: -9 * pt.log(t[1]) - 4 * t[0] ** 2 / t[1] ** 2, (-2, 0.2), (2, 3)),
    Case("banana", lambda t: -((1 - t[0]) ** 2) - 9 * (t[1] - t[0] ** 2) ** 2, (-2, -1), (2, 3)),
    Case("waves", lambda t: pt.cos(9 * t[0]) * pt.exp(-t[1]) + pt.sin(t[0]), (-2, -1), (2, 1)),
    Case("counts", lambda t: 5 * pt.log(t[0]) - pt.gammaln(t[0]) - 3 * t[0], (0.1,), (9,)),
]  # fmt: skip
