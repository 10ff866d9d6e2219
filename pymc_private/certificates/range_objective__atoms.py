"""Numbers at which a density has mass: an entry that may equal one of them becomes two kinds.

A censored outcome equals an end with a probability, and has a density elsewhere. Every box that
holds the end and more would hold both forms. So a whole number says which it is.
"""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, simplify
from pymc_private.analysis.intervals import has_rule
from pymc_private.analysis.traversal import bare, scalar_op
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.models.record_likelihood import Column, Role

MOST_ATOMS = 4

Atoms = dict[Variable, tuple[Variable, np.ndarray]]
"""Entries of a record with the variable that says which atom it is (0: none), and the atoms."""


def split_at_atoms(value: Variable, columns: list[Column]) -> tuple[Variable, list[Column], Atoms]:
    """The same function of an entry x and a number k: of atom k, or of x if k is zero.

    Parameters
    ----------
    value : Variable, scalar
    columns : list of Column
        Its inputs.

    Returns
    -------
    tuple
        Every x that is no atom is found at k = 0, every atom at its own k: no record is lost. At
        k = 0 an x that is an atom is no record; `beside` moves it.
    """
    entries = {c.variable: c for c in columns if _may_have_atoms(c)}
    met: dict[Variable, list[float]] = {}
    for variable in ancestors([value]):
        x, number = _comparison(variable)
        if x in entries and _is_inside(number, entries[x]):
            met.setdefault(x, []).append(number)
    atoms: Atoms = {}
    for x, numbers in met.items():
        levels = np.unique(numbers)
        if len(levels) <= MOST_ATOMS:
            atoms[x] = pt.TensorType("int8", shape=())(name=f"which {x.name}"), levels
    if not atoms or not _has_slopes(value, columns):
        return value, columns, {}
    added = [
        Column(which, Role.RECORD, Bounds(np.array(0.0), np.array(float(len(levels)))))
        for which, levels in atoms.values()
    ]
    return _by_kind(value, atoms), columns + added, atoms


def beside(atoms: np.ndarray, which: np.ndarray, x: np.ndarray, middle: float) -> np.ndarray:
    """x, moved by the least amount toward the middle where it is an atom but said to be none."""
    hit = (which == 0) & np.isin(x, atoms)
    return np.where(hit, np.nextafter(x, np.where(x < middle, np.inf, -np.inf)), x)


def _may_have_atoms(column: Column) -> bool:
    """Whether this is one number of a record, in an interval."""
    return (
        column.role is Role.RECORD
        and not column.is_whole
        and np.shape(column.bounds.lower) == ()
        and float(column.bounds.lower) < float(column.bounds.upper)
    )


def _has_slopes(value: Variable, columns: list[Column]) -> bool:
    """Whether every gradient is made of Ops with a rule: else one box does as well as two."""
    smooth = [c.variable for c in columns if not c.is_whole]
    try:
        slopes = pytensor.grad(value, smooth, disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours
        return False
    return all(has_rule(v.owner) for v in ancestors(slopes) if v.owner is not None)


def _comparison(variable: Variable) -> tuple[Variable | None, float]:
    """x and c, if this is x == c."""
    if isinstance(scalar_op(variable), ps.EQ):
        first, second = map(bare, variable.owner.inputs)
        for x, number in ((first, second), (second, first)):
            if isinstance(number, Constant) and number.data.size == 1:
                return x, float(number.data.item())
    return None, np.nan


def _is_inside(number: float, column: Column) -> bool:
    return bool(column.bounds.lower <= number <= column.bounds.upper)


def _by_kind(value: Variable, atoms: Atoms) -> Variable:
    """The graph with atoms in place of entries where the whole number says so."""
    swaps: dict[Variable, Variable] = {}
    for x, (which, levels) in atoms.items():
        swaps[x] = x
        for k, level in enumerate(levels):
            swaps[x] = pt.switch(pt.eq(which, k + 1), np.float64(level), swaps[x])

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        x, number = _comparison(node.outputs[0])
        if x not in atoms:
            return None
        which, levels = atoms[x]
        if number not in levels:
            return None
        found = pt.eq(which, int(np.flatnonzero(levels == number)[0]) + 1)
        return pt.shape_padleft(found, node.outputs[0].type.ndim)

    return simplify(rebuild([value], swaps, rule))[0]
