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

from pymc_private.errors import NotCertified

Fact = TypeVar("Fact")


# ---- propagation of facts --------------------------------------------------------------------


def walk(
    outputs: Sequence[Variable],
    given: Mapping[Variable, Fact],
    rule: Callable[[Apply, Sequence[Fact]], Sequence[Fact]],
    constant: Callable[[Constant], Fact],
    order: Sequence[Apply] | None = None,
) -> dict[Variable, Fact]:
    """A fact for each variable between `given` and `outputs`; nothing above `given` is visited.

    ``rule(node, facts of inputs)`` gives the facts of a node's outputs, ``constant`` that of a
    constant. `order` is `node_order(outputs, given)`, where the same walk is made many times.
    Raises `NotCertified` if a leaf is neither given nor constant.
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


def given_ancestors(variable: Variable, given: Mapping[Variable, Any]) -> Iterator[Variable]:
    """The given variables that `variable` is computed from."""
    return (found for found in ancestors([variable], blockers=list(given)) if found in given)


def display_name(variable: Variable) -> str:
    """A name a modeler would recognize: the variable's own, or its Op's."""
    if variable.name:
        return str(variable.name)
    return str(variable.owner.op) if variable.owner is not None else str(variable)


# ---- evaluation of one node ------------------------------------------------------------------

EVALUATION_ERRORS = (
    AssertionError,
    AttributeError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)
"""What Ops raise when values, or the number of rows, do not suit them, or a library is missing."""


def evaluate_node(node: Apply, values: list[Any]) -> list[Any]:
    """Evaluate one node on concrete values.

    Functions of one integer are evaluated in the type of their output, as compiled code does:
    NumPy's reciprocal of 2 is 0, and its square root of a short integer a short float.
    """
    if len(values) == 1 and isinstance(node.op, Elemwise):
        dtype = node.outputs[0].type.dtype
        if dtype.startswith("float") and np.asarray(values[0]).dtype.kind in "iub":
            values = [np.asarray(values[0], dtype=dtype)]
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, values, storage)
    return [cell[0] for cell in storage]


# ---- copies of graphs ------------------------------------------------------------------------

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
    """The same graph with other variables in place of some; `outputs` are left untouched.

    Each node is made anew, so that the types of what follows fit what is put in;
    `graph_replace` keeps the old types, and PyTensor 2's fails where one replaced variable reads
    another. ``rule(node, new inputs)`` may give a variable to take the place of a node's only
    output; if it has several, those of the variable's own node take their places.
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


def rebuild_by_rule(value: Variable, rule: ReplacementRule) -> Variable:
    """One graph with nodes replaced by a rule; its leaves stay."""
    return rebuild([value], {v: v for v in ancestors([value]) if v.owner is None}, rule)[0]


def _make_outputs(op: Op, inputs: Sequence[Variable]) -> list[Variable]:
    """Outputs of an Op on new inputs, of types that fit them."""
    if isinstance(op, SYMBOLIC_OPS):
        return list(op(*inputs, return_list=True))
    return list(op.make_node(*inputs).outputs)


# ---- node rewriters --------------------------------------------------------------------------


def rewrite_in_place(rewriter: NodeRewriter, graph: FunctionGraph) -> bool:
    """Apply a rewriter to a graph if it has work, and say whether it had.

    Most have none, and to ask takes a third of the time that applying it takes.
    """
    needed = any(rewriter.transform(graph, node) for node in graph.apply_nodes)  # in any order
    if needed:
        WalkingGraphRewriter(rewriter).rewrite(graph)
    return needed


def apply_rewriters(value: Variable, *rewriters: NodeRewriter) -> Variable:
    """The graph after each rewriter; `value` itself, left untouched, if none has work."""
    graph = FunctionGraph(outputs=[value], clone=True, copy_inputs=False)
    changed = [rewrite_in_place(rewriter, graph) for rewriter in rewriters]
    return graph.outputs[0] if any(changed) else value


def is_substitute(new: Variable, old: Variable) -> bool:
    """Whether a variable has the data type and the broadcast pattern of another."""
    return new.type.dtype == old.type.dtype and new.type.broadcastable == old.type.broadcastable


def substitute(new: Variable | None, old: Variable) -> list[Variable] | None:
    """The answer of a rewriter: `new` in place of `old`, if it can stand there."""
    return [new] if new is not None and is_substitute(new, old) else None


# ---- recognizing graphs ----------------------------------------------------------------------

MOST_ELEMENTS = 4096
"""Elements of an array whose constant slices are followed."""
COEFFICIENT_TOLERANCE = 4 * float(np.finfo(np.float64).eps)
"""Relative difference of coefficients that differ by rounding alone."""


def scalar_op(variable: Variable) -> Op | None:
    """The scalar function of an elementwise node."""
    node = variable.owner
    return node.op.scalar_op if node is not None and isinstance(node.op, Elemwise) else None


def without_leading_axes(variable: Variable) -> Variable:
    """The variable without axes of length one that were put in front of it."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        order, ndim = tuple(variable.owner.op.new_order), variable.owner.inputs[0].type.ndim
        if order != ("x",) * (len(order) - ndim) + tuple(range(ndim)):
            break
        variable = variable.owner.inputs[0]
    return variable


def without_dimshuffles(variable: Variable) -> Variable:
    """The variable before its axes were moved, added or dropped."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
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


def negated(variable: Variable) -> Variable | None:
    """The variable v if `variable` is -v."""
    node, op = variable.owner, scalar_op(variable)  # of elementwise nodes: a Prod has one, too
    if isinstance(op, ps.Neg):
        return node.inputs[0]
    if isinstance(op, ps.Mul) and len(node.inputs) == 2:
        for number, other in (node.inputs, node.inputs[::-1]):
            if isinstance(number, Constant) and number.data.size == 1 and number.data.item() == -1:
                return other
    return None


@dataclass(frozen=True, eq=False)
class Monomial:
    """A number times a product of variables, divided by others."""

    coefficient: float
    numerator: tuple[Variable, ...]
    denominator: tuple[Variable, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Monomial):
            return False
        difference = abs(self.coefficient - other.coefficient)
        return (
            difference <= COEFFICIENT_TOLERANCE * abs(self.coefficient)
            and len(self.numerator) == len(other.numerator)
            and len(self.denominator) == len(other.denominator)
            and all(
                map(
                    same_variable,
                    self.numerator + self.denominator,
                    other.numerator + other.denominator,
                )
            )
        )

    def scaled(self, number: float) -> Monomial:
        """The monomial times a number; a coefficient of one but for rounding is one."""
        value = self.coefficient * number
        is_one = abs(value - 1.0) <= COEFFICIENT_TOLERANCE
        return replace(self, coefficient=1.0 if is_one else value)

    def as_graph(self) -> Variable:
        """The product and quotient written out."""
        total = self.numerator[0] if len(self.numerator) == 1 else pt.mul(*self.numerator)
        for factor in self.denominator:
            total = total / factor
        return total if self.coefficient == 1.0 else self.coefficient * total


def as_monomial(variable: Variable) -> Monomial:
    """A variable with its numeric factors taken out."""
    variable = without_leading_axes(variable)
    op = scalar_op(variable)
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return Monomial(float(np.asarray(variable.data).item()), (), ())
    if not isinstance(op, ps.Mul | ps.Neg | ps.TrueDiv):
        return Monomial(1.0, (variable,), ())
    coefficient = -1.0 if isinstance(op, ps.Neg) else 1.0
    numerator: tuple[Variable, ...] = ()
    denominator: tuple[Variable, ...] = ()
    for position, factor in enumerate(variable.owner.inputs):
        part = as_monomial(factor)
        if isinstance(op, ps.TrueDiv) and position == 1:
            if part.coefficient == 0.0:
                return Monomial(1.0, (variable,), ())
            part = Monomial(1.0 / part.coefficient, part.denominator, part.numerator)
        coefficient *= part.coefficient
        numerator += part.numerator
        denominator += part.denominator
    return Monomial(coefficient, numerator, denominator)


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
    """Match node by node, and note in `found` what each free variable must be."""
    pattern, graph = without_leading_axes(pattern), without_leading_axes(graph)
    wanted = as_monomial(pattern)
    if len(wanted.numerator) == 1 and not wanted.denominator and wanted.numerator[0] in free:
        value = as_monomial(graph).scaled(1.0 / wanted.coefficient)
        return bool(value.numerator) and found.setdefault(wanted.numerator[0], value) == value
    if pattern.owner is None or graph.owner is None:
        return isinstance(pattern, Constant) and same_variable(pattern, graph)
    one, other = pattern.owner, graph.owner
    return (
        one.op == other.op
        and len(one.inputs) == len(other.inputs)
        and all(_unify(p, g, free, found) for p, g in zip(one.inputs, other.inputs, strict=True))
    )


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


# ---- classes of PyMC and PyTensor ------------------------------------------------------------

LIBRARIES = ("pymc", "pytensor")


def library_class_name(thing: object) -> str:
    """Name of an object's class, if PyMC or PyTensor has it under this name.

    ``pm.CustomDist(..., class_name="NormalRV")`` makes a class of that name, in PyMC's own module,
    with a density of the user's. What is known of PyMC's must not be said of it: its answer is a
    name that no library's class can have.
    """
    cls = type(thing)
    if thing is None:
        return cls.__name__
    home = sys.modules.get(cls.__module__)
    is_own = cls.__module__.split(".")[0] in LIBRARIES
    if is_own and getattr(home, cls.__name__, None) is cls:
        return cls.__name__
    return f"{cls.__name__} of the user's"
