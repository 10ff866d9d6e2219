"""Interval interpretation of a graph, and the explanation of an infinite answer."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals import bound, has_rule
from pymc_private.analysis.intervals.logic__confine import is_confined
from pymc_private.analysis.intervals.logic import truth
from pymc_private.analysis.intervals.propagation__settle import has_lost_shape, settle
from pymc_private.analysis.traversal__walk import leaves, name_of, walk

@dataclass(frozen=True)
class Culprit:
    """A node where finite inputs stopped having a finite answer.

    Parameters
    ----------
    op : str
        The Op, or the condition PyMC states for it.
    reads : tuple of str
        The declared variables it is computed from.
    reason : str
        ``"no rule"``, ``"unproved condition"`` or ``"unbounded"``.
    """

    op: str
    reads: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        reads = f" reading {', '.join(self.reads)}" if self.reads else ""
        return f"{self.op}{reads} ({self.reason})"


@dataclass(frozen=True, eq=False)
class Trail:
    """Every interval of one walk.

    Parameters
    ----------
    facts : dict of Variable to Interval
        All of them, in the order of the walk.
    given : mapping
        The intervals the walk started from.
    """

    facts: dict[Variable, Interval]
    given: Mapping[Variable, Interval]

    def __getitem__(self, variable: Variable) -> Interval:
        return self.facts[variable]

    def culprits(self, output: Variable) -> tuple[Culprit, ...]:
        """The nodes that made `output` infinite: infinite themselves, with finite inputs."""
        found: dict[Variable, Culprit] = {}
        queue, seen = [output], set()
        while queue:
            variable = queue.pop()
            if variable in seen or _settled(self.facts[variable]):
                continue
            seen.add(variable)
            if variable in self.given or variable.owner is None:
                found[variable] = Culprit(name_of(variable), (name_of(variable),), "unbounded")
                continue
            inputs = [v for v in variable.owner.inputs if not isinstance(v, Constant)]
            open_inputs = [v for v in inputs if not _settled(self.facts[v])]
            failed_check = isinstance(variable.owner.op, CheckAndRaise) and _settled(
                self.facts[variable.owner.inputs[0]]
            )
            queue += open_inputs
            if not open_inputs or failed_check:
                found[variable] = self._blame(variable)
        return tuple(dict.fromkeys(found.values()))

    def _blame(self, variable: Variable) -> Culprit:
        node = variable.owner
        reads = tuple(sorted({name_of(leaf) for leaf in leaves(variable, self.given)}))
        if isinstance(node.op, CheckAndRaise):
            checked = [leaf for v in node.inputs[1:] for leaf in leaves(v, self.given)]
            reads = tuple(sorted({name_of(leaf) for leaf in checked})) or reads
            return Culprit(f"condition '{node.op.msg}'", reads, "unproved condition")
        return Culprit(str(node.op), reads, "unbounded" if has_rule(node) else "no rule")

    def describe(self) -> list[str]:
        """One line per variable: its name and the hull of its interval."""
        lines = []
        for variable, fact in self.facts.items():
            if isinstance(variable, Constant) or not isinstance(
                fact.lower, np.ndarray | np.generic
            ):
                continue
            if fact.is_symbolic or np.size(fact.lower) == 0:
                continue
            low, high = np.min(fact.lower), np.max(fact.upper)
            lines.append(f"{name_of(variable)}: [{low:.6g}, {high:.6g}]")
        return lines


def _settled(fact: Interval) -> bool:
    """Whether nothing infinite is left to explain (Boolean "unknown" is an answer)."""
    if fact.is_symbolic or getattr(fact.lower, "dtype", np.dtype(bool)) == np.dtype(bool):
        return True
    return fact.is_finite


def bounds(
    outputs: Sequence[Variable],
    given: Mapping[Variable, Interval],
    order: Sequence[Apply] | None = None,
) -> Trail:
    """Bounds of every node of the graph, by the rule of its Op.

    Parameters
    ----------
    outputs : sequence of Variable
        The graph.
    given : mapping of Variable to Interval
        Its inputs. Ends may be arrays (numbers come out, rounded outward) or PyTensor variables (a
        graph of the bounds comes out: mode B, real arithmetic).
    order : sequence of Apply, optional
        `walk.steps(outputs, given)`, where the same walk is made many times.

    Returns
    -------
    Trail
        Real arithmetic: for every choice of inputs within `given`, each node's value is within its
        interval; where it is no number (0/0, inf - inf), the interval is the top element. By
        induction over the graph, since every rule holds for its node (Moore 1966, Theorem 3.1:
        inclusion isotonicity).
    """
    known = {v: _as_truth(v, fact) for v, fact in given.items()}
    with np.errstate(all="ignore"):
        return Trail(walk(outputs, known, _rule, _constant, order), given)


def facts_of_constants(outputs: Sequence[Variable]) -> dict[Variable, Interval]:
    """Points for `given`, where the same graphs are walked many times."""
    return {v: _constant(v) for v in ancestors(list(outputs)) if isinstance(v, Constant)}


def _as_truth(variable: Variable, fact: Interval) -> Interval:
    """Boolean ends for a Boolean variable that was given as numbers."""
    return truth(fact) if getattr(variable.type, "dtype", "") == "bool" else fact


def _rule(node: Apply, facts: Sequence[Interval]) -> Sequence[Interval]:
    for v, fact in zip(node.inputs, facts, strict=True):
        if has_lost_shape(v, fact) and not is_confined(node):  # its ends bring the shape
            return [Interval.everything() for _ in node.outputs]
    answer = bound(node.op, node, *facts)
    answers = answer if isinstance(answer, list) else [answer]
    pairs = zip(node.outputs, answers, strict=True)
    return [settle(node, facts, out, each) for out, each in pairs]


def _constant(constant: Constant) -> Interval:
    point = Interval.point(constant.data)
    number = getattr(point.lower, "dtype", np.dtype(bool)).kind == "f"
    return replace(point, poles=number and bool(np.isinf(point.lower).any()))
