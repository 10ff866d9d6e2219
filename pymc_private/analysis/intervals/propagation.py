"""Interval propagation through a graph, and the explanation of an infinite answer.

`propagate_bounds` bounds every node by the rule of its Op, and then enforces what holds of
every node whatever its rule: Boolean bounds for Boolean nodes, integer bounds for integer nodes,
NaN in both bounds or in none, and no claim where inf - inf or 0 inf may occur. By induction
over the graph each node's value lies within its bounds (Moore 1966, Theorem 3.1). The
resulting `Trail` names the nodes where finite inputs stopped having a finite answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Prod, Sum

from pymc_private.analysis.intervals import bound_op, has_rule
from pymc_private.analysis.intervals.arrays import INDEX_UPDATE_OPS
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.logic import is_clamp, truth_value
from pymc_private.analysis.traversal import display_name, given_ancestors, walk


def propagate_bounds(
    outputs: Sequence[Variable],
    given: Mapping[Variable, Bounds],
    order: Sequence[Apply] | None = None,
) -> Trail:
    """Bounds of every node of a graph, given bounds of its inputs, by the rule of its Op.

    Given bounds may be arrays (numbers come out, rounded outward) or PyTensor variables (a graph of
    the bounds comes out, in real arithmetic). `order` is `node_order(outputs, given)`, where the
    same walk is made many times.

    In real arithmetic, for every choice of inputs within `given`, each node's value is within its
    bounds; where it is no number (0/0, inf - inf), they are the top element. By induction over the
    graph, since every rule holds for its node (Moore 1966, Theorem 3.1: inclusion isotonicity).
    """
    known = {v: _as_boolean(v, fact) for v, fact in given.items()}
    with np.errstate(all="ignore"):
        return Trail(walk(outputs, known, _bound_node, _constant_point, order), given)


def constant_bounds(outputs: Sequence[Variable]) -> dict[Variable, Bounds]:
    """Points for `given`, where the same graphs are walked many times."""
    return {v: _constant_point(v) for v in ancestors(list(outputs)) if isinstance(v, Constant)}


def _as_boolean(variable: Variable, fact: Bounds) -> Bounds:
    """Boolean bounds for a Boolean variable that was given as numbers."""
    return truth_value(fact) if getattr(variable.type, "dtype", "") == "bool" else fact


def _bound_node(node: Apply, facts: Sequence[Bounds]) -> Sequence[Bounds]:
    """Bounds of a node's outputs, with what holds of every node."""
    for v, fact in zip(node.inputs, facts, strict=True):
        if has_lost_shape(v, fact) and not is_clamp(node):  # its limits bring the shape
            return [Bounds.everything() for _ in node.outputs]
    answer = bound_op(node.op, node, *facts)
    answers = answer if isinstance(answer, list) else [answer]
    pairs = zip(node.outputs, answers, strict=True)
    return [enforce_postconditions(node, facts, out, each) for out, each in pairs]


def _constant_point(constant: Constant) -> Bounds:
    """The value of a constant, which may be infinite."""
    point = Bounds.point(constant.data)
    number = getattr(point.lower, "dtype", np.dtype(bool)).kind == "f"
    return replace(point, poles=number and bool(np.isinf(point.lower).any()))


def has_lost_shape(variable: Variable, fact: Bounds) -> bool:
    """Whether nothing is known of a node, not even its shape: one NaN for an array."""
    ndim = getattr(variable.type, "ndim", None)
    return ndim is not None and getattr(fact.lower, "ndim", ndim) != ndim


# ---- what holds of every node ----------------------------------------------------------------


OPS_WITH_POLES = (
    ps.ArcTanh,
    ps.Log,
    ps.Log1p,
    ps.Log2,
    ps.Log10,
    psm.Erfinv,
    psm.Log1mexp,
)
"""Functions that are infinite at some finite argument."""


INDETERMINATE_OPS = (
    ps.Add,
    ps.Mul,
    ps.Sub,
    ps.TrueDiv,
    Blockwise,
    CumOp,
    Dot,
    Prod,
    Sum,
    *INDEX_UPDATE_OPS,
)
"""Ops in which two infinite values may meet, or one and a zero."""


def enforce_postconditions(
    node: Apply, facts: Sequence[Bounds], out: Variable, answer: Bounds
) -> Bounds:
    """The answer of a rule for one output, made to fit its data type and to admit NaN.

    Boolean bounds for a Boolean node, integer bounds for an integer node; NaN in both bounds or in
    none. `facts` are the bounds of the inputs.
    """
    if answer.is_symbolic or not isinstance(answer.lower, np.ndarray | np.generic):
        return answer
    kind = np.dtype(out.type.dtype).kind
    if kind == "b":
        return truth_value(answer)
    if kind in "iu" and not answer.is_point:
        answer = _round_to_integers(
            answer, out.type.dtype, all(f.is_finite for f in facts if _is_numeric(f))
        )
    return answer if answer.is_finite else _unknown_if_indeterminate(node, facts, answer)


def _is_numeric(fact: Bounds) -> bool:
    """Whether bounds are numbers, not a slice, None or symbolic."""
    return isinstance(fact.lower, np.ndarray | np.generic)


def _round_to_integers(answer: Bounds, dtype: str, from_finite: bool) -> Bounds:
    """The integers within the bounds. Beyond the range of its type an integer would wrap around.

    An unbounded 64-bit count is taken to be unbounded: nobody counts to 2**63.
    """
    info = np.iinfo(dtype)
    lower, upper = np.ceil(answer.lower), np.floor(answer.upper)
    unbounded = info.bits == 64 and not from_finite
    fits_below = (lower >= float(info.min)) | (unbounded & np.isneginf(lower))
    fits_above = (upper < float(info.max) + 1.0) | (unbounded & np.isposinf(upper))
    whole = replace(answer, lower=lower, upper=upper)
    fits = fits_below & fits_above & (lower <= upper)
    return whole if fits.all() else whole.where(fits)


def _unknown_if_indeterminate(node: Apply, facts: Sequence[Bounds], answer: Bounds) -> Bounds:
    """NaN in one bound is NaN in both; so is inf - inf where the infinities may be values."""
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    poles = any(fact.poles for fact in facts)
    known = ~(np.isnan(answer.lower) | np.isnan(answer.upper))
    if poles and isinstance(op, INDETERMINATE_OPS):
        known &= ~(np.isneginf(answer.lower) & np.isposinf(answer.upper))
    poles = poles or isinstance(op, OPS_WITH_POLES) or answer.is_point
    if not known.all() and not answer.is_point:
        answer = replace(answer.where(known), within=answer.within)
    return replace(answer, poles=poles)


# ---- explanation of infinite bounds ----------------------------------------------------------


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
    """The bounds of every node of one walk.

    Parameters
    ----------
    facts : dict of Variable to Bounds
        All of them, in the order of the walk.
    given : mapping of Variable to Bounds
        The bounds the walk started from.
    """

    facts: dict[Variable, Bounds]
    given: Mapping[Variable, Bounds]

    def __getitem__(self, variable: Variable) -> Bounds:
        return self.facts[variable]

    def culprits(self, output: Variable) -> tuple[Culprit, ...]:
        """The nodes that made `output` infinite: infinite themselves, with finite inputs."""
        found: dict[Variable, Culprit] = {}
        queue, seen = [output], set()
        while queue:
            variable = queue.pop()
            if variable in seen or _is_explained(self.facts[variable]):
                continue
            seen.add(variable)
            if variable in self.given or variable.owner is None:
                found[variable] = Culprit(
                    display_name(variable), (display_name(variable),), "unbounded"
                )
                continue
            inputs = [v for v in variable.owner.inputs if not isinstance(v, Constant)]
            open_inputs = [v for v in inputs if not _is_explained(self.facts[v])]
            failed_check = isinstance(variable.owner.op, CheckAndRaise) and _is_explained(
                self.facts[variable.owner.inputs[0]]
            )
            queue += open_inputs
            if not open_inputs or failed_check:
                found[variable] = self._blame(variable)
        return tuple(dict.fromkeys(found.values()))

    def _blame(self, variable: Variable) -> Culprit:
        node = variable.owner
        reads = tuple(
            sorted({display_name(leaf) for leaf in given_ancestors(variable, self.given)})
        )
        if isinstance(node.op, CheckAndRaise):
            checked = [leaf for v in node.inputs[1:] for leaf in given_ancestors(v, self.given)]
            reads = tuple(sorted({display_name(leaf) for leaf in checked})) or reads
            return Culprit(f"condition '{node.op.msg}'", reads, "unproved condition")
        return Culprit(str(node.op), reads, "unbounded" if has_rule(node) else "no rule")

    def describe(self) -> list[str]:
        """One line per variable: its name, its least lower and its greatest upper bound."""
        lines = []
        for variable, fact in self.facts.items():
            if isinstance(variable, Constant) or not isinstance(
                fact.lower, np.ndarray | np.generic
            ):
                continue
            if fact.is_symbolic or np.size(fact.lower) == 0:
                continue
            low, high = np.min(fact.lower), np.max(fact.upper)
            lines.append(f"{display_name(variable)}: [{low:.6g}, {high:.6g}]")
        return lines


def _is_explained(fact: Bounds) -> bool:
    """Whether nothing infinite is left to explain (Boolean "unknown" is an answer)."""
    if fact.is_symbolic or getattr(fact.lower, "dtype", np.dtype(bool)) == np.dtype(bool):
        return True
    return fact.is_finite
