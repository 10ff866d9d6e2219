"""Loops of a public number of steps (`pytensor.scan`) written out, one step after another.

A loop hides what each of its steps reads: in the forward recursion of a hidden Markov chain every
person seems to read all others. Written out it is an ordinary graph, whose records, bounds and
derivatives are found as those of any other. Loops that stop by a condition or draw at random,
of steps that are not known before the data are, and of very many steps stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.graph.traversal import apply_ancestors
from pytensor.scan.op import Scan
from pytensor.scan.utils import ScanArgs
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import IncSubtensor, indices_from_subtensor

from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal import rebuild

MOST_NODES = 600
"""Operations of all steps of the loops that are written out: simplifying more takes long."""


def unrolled_scans(outputs: Sequence[Variable]) -> list[Variable]:
    """Equal graphs without loops of a public number of steps; the same ones where there are none.

    Loops inside of loops are written out, too.
    """
    found, left, room = list(outputs), set[Apply](), MOST_NODES
    while True:
        nodes = [n for n in apply_ancestors(found) if isinstance(n.op, Scan) and n not in left]
        if not nodes:
            return found
        cost = _cost(nodes[0], _constant(nodes[0].inputs[0]))
        steps = _written_out(nodes[0]) if cost <= room else None
        if steps is None:
            left.add(nodes[0])
        else:
            room -= cost
            found = rebuild(found, dict(zip(nodes[0].outputs, steps, strict=True)))


def _cost(node: Apply, steps: int | None) -> int:
    """The operations of all steps of a loop, those of loops inside of it included."""
    inside = apply_ancestors(node.op.inner_outputs)
    each = (_cost(n, _number(n.inputs[0])) if isinstance(n.op, Scan) else 1 for n in inside)
    return (steps or 1) * sum(each)


def _written_out(node: Apply) -> list[Variable] | None:
    """The outputs of a loop without it; None where it has to stay."""
    info, count = node.op.info, _constant(node.inputs[0])
    if info.as_while or info.n_mit_mot or info.n_untraced_sit_sot or count is None or count < 1:
        return None
    parts = ScanArgs.from_node(node, clone=True)
    taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    buffers = [*parts.outer_in_mit_sot, *parts.outer_in_sit_sot]
    lags = [-min(tap) for tap in taps]
    whole = [(_length(b), lag + count) for b, lag in zip(buffers, lags, strict=True)]
    whole += [(length, count) for length in parts.outer_in_nit_sot]
    if any(_constant(length) != rows for length, rows in whole):  # only the last steps are kept
        return None
    if _stretches_states(parts):
        return None
    states = [_first_states(b, lag) for b, lag in zip(buffers, lags, strict=True)]
    collected: list[list[Variable]] = [[] for _ in parts.outer_in_nit_sot]
    for step in range(count):
        new = _one_step(parts, step, taps, states)
        for rows, value in zip((*states, *collected), new, strict=True):
            rows.append(value)
    return [pt.stack(rows) for rows in (*states, *collected)]  # in the order of a loop's outputs


def _stretches_states(parts: Any) -> bool:
    """Whether a step gives one number where its state has several: a loop then repeats it."""
    before = [*(inputs[0] for inputs in parts.inner_in_mit_sot), *parts.inner_in_sit_sot]
    after = [*parts.inner_out_mit_sot, *parts.inner_out_sit_sot]
    pairs = zip(before, after, strict=True)
    return any(old.type.broadcastable != new.type.broadcastable for old, new in pairs)


def _one_step(
    parts: Any,
    step: int,
    taps: Sequence[Sequence[int]],
    states: Sequence[Sequence[Variable]],
) -> list[Variable]:
    """Outputs of a step: new states, and what is collected."""
    given = dict(zip(parts.inner_in_non_seqs, parts.outer_in_non_seqs, strict=True))
    given |= {
        inner: outer[step]
        for inner, outer in zip(parts.inner_in_seqs, parts.outer_in_seqs, strict=True)
    }
    inner_states = [*parts.inner_in_mit_sot, *([inner] for inner in parts.inner_in_sit_sot)]
    for inputs, tap, rows in zip(inner_states, taps, states, strict=True):
        given |= {inner: rows[len(rows) + lag] for inner, lag in zip(inputs, tap, strict=True)}
    outs = [*parts.inner_out_mit_sot, *parts.inner_out_sit_sot, *parts.inner_out_nit_sot]
    return rebuild(outs, given)


def _constant(value: Variable) -> int | None:
    """A whole number that is known without data."""
    number = _number(value)
    return _number(*simplify([value])) if number is None else number


def _number(value: Variable) -> int | None:
    """A whole number that is known as it is written: graphs inside of loops are not rewritten."""
    with suppress(NotScalarConstantError):
        return int(pt.get_underlying_scalar_constant_value(value, max_recur=20))
    return None


def _length(buffer: Variable) -> Variable:
    """The number of rows of an array into which a loop writes its states."""
    node = buffer.owner
    if node is not None and isinstance(node.op, IncSubtensor):
        return _length(node.inputs[0])
    if node is not None and isinstance(node.op, AllocEmpty):
        return node.inputs[0]
    return buffer.shape[0]


def _first_states(buffer: Variable, count: int) -> list[Variable]:
    """The states before the first step.

    Those that were put into an empty array of their own size are taken themselves: the array holds
    the number of records, which they need not.
    """
    given = _put_into_empty(buffer, count)
    return [(buffer if given is None else given)[k] for k in range(count)]


def _put_into_empty(buffer: Variable, count: int) -> Variable | None:
    """The array whose `count` rows were put at the beginning of an empty one, if that is known."""
    node = buffer.owner
    if node is None or not isinstance(node.op, IncSubtensor) or not node.op.set_instead_of_inc:
        return None
    empty, given, *indices = node.inputs
    if empty.owner is None or not isinstance(empty.owner.op, AllocEmpty):
        return None
    places = indices_from_subtensor(indices, node.op.idx_list)
    first = places[0] if len(places) == 1 else None
    if not isinstance(first, slice) or first.step is not None or first.start is not None:
        return None
    if first.stop is None or _constant(pt.as_tensor(first.stop)) != count:
        return None
    if given.type.dtype != buffer.type.dtype or given.type.ndim != buffer.type.ndim:
        return None
    pairs = zip([pt.constant(count), *empty.owner.inputs[1:]], given.shape, strict=True)
    return given if all(_is_same(one, other) for one, other in pairs) else None


def _is_same(one: Variable, other: Variable) -> bool:
    """Whether two sizes are known to be equal: as numbers, or by how they are computed."""
    number = _constant(one)
    if number is not None:
        return number == _constant(other)
    first, second = simplify([pt.cast(one, "int64"), pt.cast(other, "int64")])
    return bool(equal_computations([first], [second]))
