"""The graphs of a log density, its slopes and its curvature, along a leading axis of boxes."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from functools import reduce
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pymc_private.analysis import simplify
from pymc_private.analysis.continuity import moving_variables
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.samplers.hessian_bounds import Term, separate

# PyTensor 3 renamed it.
_forward = getattr(pytensor.gradient, "pushforward", None) or pytensor.gradient.Rop


class Graphs:
    """The graphs of a log density of parameters, along a leading axis of boxes or points.

    Parameters
    ----------
    value : Variable, scalar
    inputs : sequence of Variable
        The parameters.
    shapes : sequence of tuple of int
        Theirs.

    Notes
    -----
    Second derivatives are taken forward, along pairs of directions: of a sum over records the
    graph is one of sum_i h''(eta_i) <a_i, u> <a_i, v>, in which each record stands once. A
    gradient of the gradient would bound each entry of the Hessian apart.
    """

    def __init__(
        self, value: Variable, inputs: Sequence[Variable], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.source, self.inputs, self.shapes = value, list(inputs), list(shapes)
        self.sizes = [int(np.prod(shape)) for shape in shapes]
        value = simplify([value])[0]
        self.boxes = self._stand_ins((None,))
        first = [value, *_gradient(value, self.inputs)]
        graphs = vectorize_graph(_guarded(first), replace=self.boxes)
        self.value, *self.gradient = simplify(graphs)
        self.moving = moving_variables([self.value, *self.gradient], list(self.boxes.values()))
        self.wide, self.left, self.right = (
            self._stand_ins((None, 1)), self._stand_ins((None, None)), self._stand_ins((None, None))
        )  # fmt: skip
        self.along = tuple([x.type() for x in self.inputs] for _ in range(2))
        self.terms: list[Term] | None = None
        self.curvature: Variable | None = None
        if self.gradient:
            self._differentiate(value)

    def _stand_ins(self, axes: tuple[int | None, ...]) -> dict[Variable, Variable]:
        return {
            v: pt.TensorType(v.type.dtype, shape=(*axes, *shape))(name=v.name)
            for v, shape in zip(self.inputs, self.shapes, strict=True)
        }

    def _differentiate(self, value: Variable) -> None:
        """Second derivatives: by terms, else by pairs of directions, else none."""
        u, v = self.along
        try:
            twice = simplify([_forward(_forward(value, self.inputs, u), self.inputs, v)])[0]
            terms = separate(twice, self.inputs, u, v)
            if terms is not None:
                self.terms = [self._along_boxes(term) for term in terms]
                return
            swaps = {
                **self.wide,
                **dict(zip(u, self.left.values(), strict=True)),
                **dict(zip(v, self.right.values(), strict=True)),
            }
            self.curvature = simplify(vectorize_graph(_guarded([twice]), replace=swaps))[0]
        except Exception:  # of an Op that is not ours; bounds need no second derivative
            self.terms = self.curvature = None

    def _along_boxes(self, term: Term) -> Term:
        flat = [c for row in term.coefficients for c in row]
        # A coefficient keeps all axes of what is summed, so that the first counts boxes.
        flat = [c if c.ndim == term.element.ndim else pt.shape_padleft(
            c, term.element.ndim - c.ndim) for c in flat]  # fmt: skip
        # Already simple: the second derivative was, and zeros and ones are folded.
        found = vectorize_graph(_guarded(flat), replace=self.boxes)
        k = len(term.predictors)
        return Term(term.element, term.predictors, [found[i : i + k] for i in range(0, k * k, k)])

    @property
    def has_curvature(self) -> bool:
        """Whether there are second derivatives."""
        return self.terms is not None or self.curvature is not None

    @property
    def outputs(self) -> list[Variable]:
        """All of them."""
        more = [] if self.curvature is None else [self.curvature]
        for term in self.terms or []:
            more += [c for row in term.coefficients for c in row]
        return [self.value, *self.gradient, *more]

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Rows of coordinates as arrays of the parameters' shapes."""
        parts = np.split(flat, np.cumsum(self.sizes)[:-1], axis=-1)
        return [
            part.reshape((*flat.shape[:-1], *shape))
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def on(self, stand_ins: Mapping[Variable, Variable], flat: np.ndarray) -> dict:
        """The same as inputs of a graph."""
        return dict(zip(stand_ins.values(), self.split(flat), strict=True))


def _gradient(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs, or none where an Op has no gradient."""
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours; a bound needs no gradient
        return []
    return simplify(gradient)


def _guarded(outputs: Sequence[Variable]) -> list[Variable]:
    """Conditions become choices, so that one of many boxes can fail them by itself."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise):
            return pt.switch(reduce(pt.and_, inputs[1:]), inputs[0], np.nan)
        return None

    leaves = {v: v for v in ancestors(list(outputs)) if v.owner is None}
    return rebuild(list(outputs), leaves, rule)
