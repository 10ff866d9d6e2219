"""Canonical forms that were found before, kept by the structure of their graph.

To plan, to draw and to fit a summary ask for the same forms again, and models of one kind differ in
data alone: a graph that has the structure of an earlier one has its form, with its own leaves in
place. Kept forms hold no variable of a model, and of its constants those that are small: they stay
in the memory of the process, and are neither stored nor printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant, Variable, clone_get_equiv
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort

MOST_FORMS = 1024
"""Forms that are kept; the one that was not asked for the longest goes first."""
MOST_BYTES = 4096
"""Size of a constant by whose value a graph is known again."""
LIBRARIES = ("pymc", "pymc_private", "pytensor")
"""Whose Ops are the same function if they compare equal."""

Form = tuple[tuple[Variable, ...], tuple[Variable, ...]]
"""Placeholders of leaves, and the canonical graphs of them."""


class _Unknown(Exception):
    """The graph has no structure that could be compared."""


class GraphStructure:
    """What graphs have in common if they are the same functions of different leaves.

    Attributes
    ----------
    outputs, leaves : list of Variable
        Of the graph that is asked about; leaves in the order in which it reads them.
    found : list of Variable
        Its form, if it is the first one of its structure.
    """

    def __init__(self, outputs: Sequence[Variable]) -> None:
        self.outputs, self.found = list(outputs), list[Variable]()
        self.leaves: list[Variable] = []
        numbers: dict[Variable, int] = {}
        key: list[Any] = []

        def number_of(variable: Variable) -> int:
            if variable not in numbers:  # read by a node, made by none
                numbers[variable] = len(numbers)
                key.append(_leaf(variable))
                self.leaves.append(variable)
            return numbers[variable]

        for node in toposort(outputs):
            key.append((_comparable(node.op), *map(number_of, node.inputs)))
            for out in node.outputs:
                numbers[out] = len(numbers)
                key.append((out.type, out.name))
        key.append(tuple(map(number_of, outputs)))
        self.key = tuple(key)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphStructure) and self.key == other.key

    def forget(self) -> None:
        """Keep what is compared, and no graph of a model."""
        self.outputs, self.leaves, self.found = [], [], []


def _leaf(variable: Variable) -> tuple[Any, ...]:
    """What is to be the same of a leaf: of a constant its bits, since -0 == 0."""
    if not isinstance(variable, Constant):
        return type(variable), variable.type, variable.name
    if not isinstance(variable.data, np.ndarray | np.generic):
        return variable.type, variable.name, variable.signature()
    if variable.data.nbytes > MOST_BYTES or variable.data.dtype == object:
        raise _Unknown
    return variable.type, variable.name, variable.data.shape, variable.data.tobytes()


def _comparable(op: Op) -> Op:
    """The Op, if it and the functions in it are of a library, without a graph of their own."""
    for part in (op, getattr(op, "scalar_op", None), getattr(op, "core_op", None)):
        own = part is None or type(part).__module__.split(".")[0] in LIBRARIES
        if not own or hasattr(part, "fgraph") or hasattr(part, "inner_inputs"):
            raise _Unknown
    return op


def by_structure(
    simplify: Callable[[Sequence[Variable]], list[Variable]], outputs: Sequence[Variable]
) -> list[Variable]:
    """The canonical form of graphs, by `simplify` unless graphs of their structure had theirs."""
    try:
        structure = GraphStructure(outputs)
    except (_Unknown, TypeError):  # or what cannot be hashed
        return simplify(outputs)
    leaves, kept = _form(simplify, structure)
    found = structure.found or _copied(kept, leaves, structure.leaves)
    structure.forget()
    return found


@lru_cache(maxsize=MOST_FORMS)
def _form(
    simplify: Callable[[Sequence[Variable]], list[Variable]], structure: GraphStructure
) -> Form:
    """The form of a structure; the graph in which it was found is forgotten."""
    structure.found = simplify(structure.outputs)
    leaves = [v if isinstance(v, Constant) else v.type(name=v.name) for v in structure.leaves]
    kept = _copied(structure.found, structure.leaves, leaves)
    return tuple(leaves), tuple(kept)


Values = tuple[np.ndarray, ...]
"""Of graphs without inputs."""


def value_by_structure(
    evaluate: Callable[[Sequence[Variable]], Sequence[np.ndarray]], outputs: Sequence[Variable]
) -> list[np.ndarray]:
    """The values of graphs, by `evaluate` unless constants alone made them before."""
    try:
        structure = GraphStructure(outputs)
    except (_Unknown, TypeError):
        return list(evaluate(outputs))
    if not all(isinstance(leaf, Constant) for leaf in structure.leaves):
        return list(evaluate(outputs))
    found = _values(evaluate, structure)
    structure.forget()
    return [value.copy() for value in found]


@lru_cache(maxsize=MOST_FORMS)
def _values(
    evaluate: Callable[[Sequence[Variable]], Sequence[np.ndarray]], structure: GraphStructure
) -> Values:
    return tuple(np.asarray(value) for value in evaluate(structure.outputs))


def _copied(
    outputs: Sequence[Variable], leaves: Sequence[Variable], instead: Sequence[Variable]
) -> list[Variable]:
    """The same graphs of other leaves."""
    memo: dict[Any, Any] = dict(zip(leaves, instead, strict=True))
    clone_get_equiv(list(leaves), list(outputs), False, False, memo)
    return [memo[out] for out in outputs]
