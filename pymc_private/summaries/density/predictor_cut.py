"""Predictors of a record: the fewest numbers through which parameters act on its density.

Among the variables of a graph that read parameters and no outcome, a set separates parameters from
the value if every path between them passes through it. The smallest such set is a minimum vertex
cut (Menger 1927; Ford and Fulkerson 1956), weighted by numbers of scalars: eta of a logistic
regression, mean and log scale of a normal one. Of several smallest sets, the one nearest to the
parameters is taken, since probabilities that saturate are then inside of what is differentiated.

The same finds what records read of the parameters (`read_parameters`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import io_toposort

from pymc_private.analysis.continuity import dependent_variables

Vertex = tuple[int, bool]
"""A variable, and which of its two halves: where edges come in (False) or go out."""


def predictor_variables(
    value: Variable,
    parameters: Sequence[Variable],
    outcome: Variable,
    size: Callable[[Variable], int],
) -> list[Variable]:
    """The smallest set of variables between parameters and value, nearest to the parameters.

    `size` gives the number of scalars of a variable. The set may hold parameters themselves.
    """
    reads_outcome = dependent_variables([value], [outcome])

    def capacity(v: Variable) -> float:
        usable = v not in reads_outcome and v.type.dtype.startswith("float")
        return size(v) if usable else np.inf

    return separating_variables(value, parameters, capacity)


def separating_variables(
    value: Variable, parameters: Sequence[Variable], capacity: Callable[[Variable], float]
) -> list[Variable]:
    """The cheapest set of variables between parameters and value, nearest to the parameters.

    `capacity` is the price of a variable; infinite for one that cannot be in the set.
    """
    moving = dependent_variables([value], list(parameters))
    order = list(parameters)
    edges: list[tuple[Variable, Variable]] = []
    for node in io_toposort(list(parameters), [value]):
        read = [v for v in node.inputs if v in moving]
        for out in node.outputs:
            if read and out in moving:
                order.append(out)
                edges += [(v, out) for v in read]
    number = {v: k for k, v in enumerate(order)}
    network = FlowNetwork(
        [capacity(v) for v in order],
        [(number[a], number[b]) for a, b in edges],
        [number[v] for v in parameters],
        number[value],
    )
    return [order[k] for k in network.cut()]


class FlowNetwork:
    """A directed graph with capacities at its vertices.

    Parameters
    ----------
    capacity : sequence of float
        Of each vertex; infinite where it cannot be cut.
    edges : sequence of (int, int)
    sources : sequence of int
    sink : int
    """

    def __init__(
        self,
        capacity: Sequence[float],
        edges: Sequence[tuple[int, int]],
        sources: Sequence[int],
        sink: int,
    ) -> None:
        self.sources, self.sink = list(sources), sink
        self.residual: dict[Vertex, dict[Vertex, float]] = {}
        for k, bound in enumerate(capacity):
            self._add((k, False), (k, True), bound)
        for a, b in edges:
            self._add((a, True), (b, False), np.inf)

    def _add(self, start: Vertex, end: Vertex, capacity: float) -> None:
        self.residual.setdefault(start, {})[end] = capacity
        self.residual.setdefault(end, {}).setdefault(start, 0.0)

    def cut(self) -> list[int]:
        """The vertices of the smallest cut, the one nearest to the sources."""
        while True:
            reached = self._reach()
            if (self.sink, False) not in reached:
                break
            self._augment(reached)
        vertices = {k for k, outgoing in reached if not outgoing}
        return sorted(k for k in vertices if (k, True) not in reached)

    def _reach(self) -> Mapping[Vertex, Vertex | None]:
        """Vertices that flow can still reach, each with the one before it."""
        queue = deque((k, False) for k in self.sources)
        before: dict[Vertex, Vertex | None] = dict.fromkeys(queue)
        while queue:
            here = queue.popleft()
            for there, left in self.residual[here].items():
                if left > 0 and there not in before:
                    before[there] = here
                    queue.append(there)
        return before

    def _augment(self, before: Mapping[Vertex, Vertex | None]) -> None:
        """Send as much as fits along the path that was found."""
        path, here = [], (self.sink, False)
        while before[here] is not None:
            path.append((before[here], here))
            here = before[here]  # type: ignore[assignment]
        amount = min(self.residual[a][b] for a, b in path)  # type: ignore[index]
        for a, b in path:
            self.residual[a][b] -= amount  # type: ignore[index]
            self.residual[b][a] += amount  # type: ignore[index]
