"""One walk over a graph for every question asked of it.

A question is a *rule* (what a node's outputs are, given facts of its inputs) and a *constant* (the
fact of a constant). The walk knows neither intervals nor labels; it visits nodes in order and keeps
every fact, which is the trail that explains an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, io_toposort
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

    for node in steps(outputs, given) if order is None else order:
        if all(out in facts for out in node.outputs):
            continue
        answers = rule(node, [fact(variable) for variable in node.inputs])
        facts.update(zip(node.outputs, answers, strict=True))
    for output in outputs:
        fact(output)
    return facts


def steps(outputs: Sequence[Variable], given: Collection[Variable]) -> list[Apply]:
    """The nodes that a walk visits, inputs first."""
    return io_toposort(list(given), list(outputs))


def leaves(variable: Variable, stop: Mapping[Variable, Any]) -> Iterator[Variable]:
    """The given variables that `variable` is computed from."""
    return (found for found in ancestors([variable], blockers=list(stop)) if found in stop)


def name_of(variable: Variable) -> str:
    """A name a modeler would recognize: the variable's own, or its Op's."""
    if variable.name:
        return str(variable.name)
    return str(variable.owner.op) if variable.owner is not None else str(variable)
