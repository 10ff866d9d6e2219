"""Copy a graph with some of its variables replaced, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pytensor.compile import builders
from pytensor.configdefaults import config
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort

TYPED = getattr(builders, "SymbolicOp", ())
"""Ops of PyTensor 3 that hold on to the types they were made for, unless they are called anew."""
Rule = Callable[[Apply, list[Variable]], Variable | None]


def untraced() -> AbstractContextManager[None]:
    """Make nodes without the lines of code that made them: noting these takes longer."""
    return config.change_flags(traceback__limit=0)  # a fresh one each time: they nest


def _keep(node: Apply, inputs: list[Variable]) -> None:
    return None


def rebuild(
    outputs: Sequence[Variable], swaps: Mapping[Variable, Variable], rule: Rule = _keep
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
            outs = _outputs(node.op, inputs)
        else:
            continue
        new.update(
            (old, out) for old, out in zip(node.outputs, outs, strict=True) if old not in swaps
        )
    return [new.get(out, out) for out in outputs]


def _outputs(op: Op, inputs: Sequence[Variable]) -> list[Variable]:
    """Those of an Op on new inputs, of types that fit them."""
    if isinstance(op, TYPED):
        return list(op(*inputs, return_list=True))
    return list(op.make_node(*inputs).outputs)
