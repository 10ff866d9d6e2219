"""Graph traversal, copying and pattern matching: the tools every analysis of a graph shares.

`walk` propagates facts from the inputs of a graph to its outputs. A question is a *rule* (what
a node's outputs are, given facts of its inputs) and a *constant* (the fact of a constant); the
walk knows neither intervals nor labels, and keeps every fact, which is the trail that explains
an answer. `rebuild` copies a graph with some variables replaced, node by node.
`apply_rewriters` applies node rewriters where they have work. `match_pattern` recognizes a
graph by a pattern with free variables; `library_class_name` tells which classes are PyMC's and
PyTensor's own, since a name alone proves nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.compile import builders
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import NodeRewriter, WalkingGraphRewriter
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.intervals.dispatch import EVALUATION_ERRORS, evaluate_node
from pymc_private.analysis.intervals.functions import UNIT
from pymc_private.errors import NotCertified

Fact = TypeVar("Fact")


def walk(
    outputs: Sequence[Variable],
    given: Mapping[Variable, Fact],
    rule: Callable[[Apply, Sequence[Fact]], Sequence[Fact]],
    constant: Callable[[Constant], Fact],
    order: Sequence[Apply] | None = None,
) -> dict[Variable, Fact]:
    """Facts of every variable between `given` and `outputs`.

    Parameters
    ----------
    outputs : sequence of Variable
        What the question is about.
    given : mapping of Variable to fact
        What is known at the start; the walk does not look above these.
    rule : callable
        ``rule(node, facts of inputs) -> facts of outputs``.
    constant : callable
        The fact of a constant leaf.
    order : sequence of Apply, optional
        `steps(outputs, given)`, where the same walk is made many times.

    Returns
    -------
    dict
        The trail: a fact for each variable visited.

    Raises
    ------
    NotCertified
        If a leaf is neither given nor constant.
    """
    facts: dict[Variable, Fact] = dict(given)

    def fact(variable: Variable) -> Fact:
        if variable not in facts:
            if not isinstance(variable, Constant):
                raise NotCertified(
                    "the graph reads a variable nobody declared",
                    blame=(str(variable),),
                    cure="declare its domain, or name it in public=",
                )
            facts[variable] = constant(variable)
        return facts[variable]

    for node in node_order(outputs, given) if order is None else order:
        if all(out in facts for out in node.outputs):
            continue
        answers = rule(node, [fact(variable) for variable in node.inputs])
        facts.update(zip(node.outputs, answers, strict=True))
    for output in outputs:
        fact(output)
    return facts


def node_order(outputs: Sequence[Variable], given: Collection[Variable]) -> list[Apply]:
    """The nodes that a walk visits, inputs first."""
    return io_toposort(list(given), list(outputs))


def given_ancestors(variable: Variable, stop: Mapping[Variable, Any]) -> Iterator[Variable]:
    """The given variables that `variable` is computed from."""
    return (found for found in ancestors([variable], blockers=list(stop)) if found in stop)


def display_name(variable: Variable) -> str:
    """A name a modeler would recognize: the variable's own, or its Op's."""
    if variable.name:
        return str(variable.name)
    return str(variable.owner.op) if variable.owner is not None else str(variable)


SYMBOLIC_OPS = getattr(builders, "SymbolicOp", ())
"""Ops of PyTensor 3 that hold on to the types they were made for, unless they are called anew."""
ReplacementRule = Callable[[Apply, list[Variable]], Variable | None]


def without_tracebacks() -> AbstractContextManager[None]:
    """Make nodes without the lines of code that made them: noting these takes longer."""
    return config.change_flags(traceback__limit=0)  # a fresh one each time: they nest


def _no_replacement(node: Apply, inputs: list[Variable]) -> None:
    return None


def rebuild(
    outputs: Sequence[Variable],
    swaps: Mapping[Variable, Variable],
    rule: ReplacementRule = _no_replacement,
) -> list[Variable]:
    """The same graph with other variables in place of some.

    Each node is made anew, so that the types of what follows fit what is put in;
    `graph_replace` keeps the old types, and PyTensor 2's fails where one replaced variable reads
    another.

    Parameters
    ----------
    outputs : sequence of Variable
        Left untouched.
    swaps : mapping of Variable to Variable
    rule : callable, optional
        ``rule(node, new inputs)`` may give a variable to take the place of a node's only output;
        if it has several, those of the variable's own node take their places.

    Returns
    -------
    list of Variable
    """
    new = dict(swaps)
    for node in io_toposort(list(swaps), list(outputs)):
        if all(out in swaps for out in node.outputs):
            continue
        inputs = [new.get(v, v) for v in node.inputs]
        instead = rule(node, inputs)
        if instead is not None:
            outs = [instead] if len(node.outputs) == 1 else list(instead.owner.outputs)
        elif inputs != node.inputs:
            outs = _make_outputs(node.op, inputs)
        else:
            continue
        new.update(
            (old, out) for old, out in zip(node.outputs, outs, strict=True) if old not in swaps
        )
    return [new.get(out, out) for out in outputs]


def _make_outputs(op: Op, inputs: Sequence[Variable]) -> list[Variable]:
    """Those of an Op on new inputs, of types that fit them."""
    if isinstance(op, SYMBOLIC_OPS):
        return list(op(*inputs, return_list=True))
    return list(op.make_node(*inputs).outputs)


MOST_ELEMENTS = 4096


def without_leading_axes(variable: Variable) -> Variable:
    """The variable without axes of length one that were put in front of it."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        order, ndim = tuple(variable.owner.op.new_order), variable.owner.inputs[0].type.ndim
        if order != ("x",) * (len(order) - ndim) + tuple(range(ndim)):
            break
        variable = variable.owner.inputs[0]
    return variable


def same_variable(first: Variable, second: Variable) -> bool:
    """Whether two variables are one, or equal constants (up to axes put in front)."""
    first, second = without_leading_axes(first), without_leading_axes(second)
    if isinstance(first, Constant) and isinstance(second, Constant):
        one, other = np.asarray(first.data), np.asarray(second.data)
        return bool(one.size == other.size == 1 and one.item() == other.item()) or bool(
            np.array_equal(one, other)
        )
    return first is second


@dataclass(frozen=True, eq=False)
class Monomial:
    """A number times a product of variables, divided by others."""

    number: float
    above: tuple[Variable, ...]
    below: tuple[Variable, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Monomial)
            and abs(self.number - other.number) <= 4 * UNIT * abs(self.number)
            and len(self.above) == len(other.above)
            and len(self.below) == len(other.below)
            and all(map(same_variable, self.above + self.below, other.above + other.below))
        )

    def times(self, number: float) -> Monomial:
        """Scaled; a factor of one but for rounding is one."""
        value = self.number * number
        return replace(self, number=1.0 if abs(value - 1.0) <= 4 * UNIT else value)

    def variable(self) -> Variable:
        """Its graph."""
        total = self.above[0] if len(self.above) == 1 else pt.mul(*self.above)
        for factor in self.below:
            total = total / factor
        return total if self.number == 1.0 else self.number * total


def as_monomial(variable: Variable) -> Monomial:
    """A variable with its numeric factors taken out."""
    variable, op = without_leading_axes(variable), scalar_op(without_leading_axes(variable))
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return Monomial(float(np.asarray(variable.data).item()), (), ())
    if not isinstance(op, ps.Mul | ps.Neg | ps.TrueDiv):
        return Monomial(1.0, (variable,), ())
    number = -1.0 if isinstance(op, ps.Neg) else 1.0
    above: tuple[Variable, ...] = ()
    below: tuple[Variable, ...] = ()
    for place, factor in enumerate(variable.owner.inputs):
        part = as_monomial(factor)
        if isinstance(op, ps.TrueDiv) and place == 1:
            if part.number == 0.0:
                return Monomial(1.0, (variable,), ())
            part = Monomial(1.0 / part.number, part.below, part.above)
        number *= part.number
        above += part.above
        below += part.below
    return Monomial(number, above, below)


def match_pattern(
    pattern: Variable, graph: Variable, free: Sequence[Variable]
) -> dict[Variable, Monomial] | None:
    """What the free variables of a pattern stand for, if the graph has its form.

    Axes put in front are looked through: elementwise functions put them back. Numeric factors next
    to a free variable belong to it, for canonical forms merge them.
    """
    found: dict[Variable, Monomial] = {}
    return found if _unify(pattern, graph, free, found) else None


def _unify(
    pattern: Variable, graph: Variable, free: Sequence[Variable], found: dict[Variable, Monomial]
) -> bool:
    pattern, graph = without_leading_axes(pattern), without_leading_axes(graph)
    wanted = as_monomial(pattern)
    if len(wanted.above) == 1 and not wanted.below and wanted.above[0] in free:
        bound = as_monomial(graph).times(1.0 / wanted.number)
        return bool(bound.above) and found.setdefault(wanted.above[0], bound) == bound
    if pattern.owner is None or graph.owner is None:
        return isinstance(pattern, Constant) and same_variable(pattern, graph)
    one, other = pattern.owner, graph.owner
    return (
        one.op == other.op
        and len(one.inputs) == len(other.inputs)
        and all(_unify(p, g, free, found) for p, g in zip(one.inputs, other.inputs, strict=True))
    )


def scalar_op(variable: Variable) -> Op | None:
    """The scalar function of an elementwise node."""
    node = variable.owner
    return node.op.scalar_op if node is not None and isinstance(node.op, Elemwise) else None


def constant_slice(variable: Variable) -> tuple[Variable, np.ndarray, np.ndarray] | None:
    """For x[i] with constant i: x, the numbers of all its elements, and those that are taken.

    The numbers stand for an x whose unknown axes have length two; the last must be known.
    """
    shuffles: list[Apply] = []
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        shuffles.insert(0, variable.owner)
        variable = variable.owner.inputs[0]
    node = variable.owner
    if node is None or not isinstance(node.op, Subtensor):
        return None
    x, indexes = node.inputs[0], node.inputs[1:]
    if x.type.ndim == 0 or x.type.shape[-1] is None:
        return None
    shape = [2 if size is None else size for size in x.type.shape]
    if not all(isinstance(index, Constant) for index in indexes) or np.prod(shape) > MOST_ELEMENTS:
        return None
    numbers = np.arange(np.prod(shape), dtype=x.type.dtype).reshape(shape)
    try:
        taken = evaluate_node(node, [numbers, *(i.data for i in indexes)])[0]
        for shuffle in shuffles:
            taken = evaluate_node(shuffle, [np.asarray(taken)])[0]
    except EVALUATION_ERRORS:
        return None
    return x, numbers, np.asarray(taken)


def arrays_joined_last(variable: Variable) -> list[Variable] | None:
    """The parts of a concatenation along the last axis."""
    return arrays_joined_along(variable, variable.type.ndim - 1)


def arrays_joined_along(variable: Variable, wanted: int) -> list[Variable] | None:
    """The parts of a concatenation along an axis."""
    node = variable.owner
    if node is None or not isinstance(node.op, Join):
        return None
    if hasattr(node.op, "axis"):
        axis, parts = node.op.axis, node.inputs
    elif isinstance(node.inputs[0], Constant):  # PyTensor 2 has the axis among the inputs
        axis, parts = int(node.inputs[0].data), node.inputs[1:]
    else:
        return None
    return list(parts) if axis % variable.type.ndim == wanted else None


LIBRARIES = ("pymc", "pytensor")


def library_class_name(thing: object) -> str:
    """Name of an object's class, if PyMC or PyTensor has it under this name.

    ``pm.CustomDist(..., class_name="NormalRV")`` makes a class of that name, in PyMC's own module,
    with a density of the user's. What is known of PyMC's must not be said of it.

    Returns
    -------
    str
        The plain name, or one that no library's class can have.
    """
    kind = type(thing)
    if thing is None:
        return kind.__name__
    home = sys.modules.get(kind.__module__)
    is_own = kind.__module__.split(".")[0] in LIBRARIES
    if is_own and getattr(home, kind.__name__, None) is kind:
        return kind.__name__
    return f"{kind.__name__} of the user's"


def rewrite_in_place(join: NodeRewriter, graph: FunctionGraph) -> bool:
    """One walk of a rewriter, if it has work: to ask takes a third of the time that a walk takes.

    Parameters
    ----------
    join : NodeRewriter
    graph : FunctionGraph
        Changed in place.

    Returns
    -------
    bool
        Whether there was a walk.
    """
    needed = any(join.transform(graph, node) for node in graph.toposort())
    if needed:
        WalkingGraphRewriter(join).rewrite(graph)
    return needed


def apply_rewriters(value: Variable, *joins: NodeRewriter) -> Variable:
    """The graph after a walk of each rewriter; `value` itself, left untouched, if none has work."""
    graph = FunctionGraph(outputs=[value], clone=True, copy_inputs=False)
    changed = [rewrite_in_place(join, graph) for join in joins]
    return graph.outputs[0] if any(changed) else value
