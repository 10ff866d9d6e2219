"""Columns for few numbers in place of many: see `analysis.batched_bounds__cut`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Ellipsoid, bounds
from pymc_private.analysis.batched_bounds__cut import MOST, frontier, is_few, one_sided, picked_from
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.models.record_likelihood import Column, Role

Cut = tuple[Variable, list[Column], bool]
"""The rest of a graph, its columns, and whether anything was cut."""


def cut_where_many(value: Variable, columns: list[Column]) -> Cut:
    """Replace what many numbers amount to by few.

    Parameters
    ----------
    value : Variable, scalar
    columns : list of Column
        Its inputs.

    Returns
    -------
    Cut
        Unchanged where inputs are few, or nothing can be cut.
    """
    many = {c.variable for c in columns if c.size > MOST or isinstance(c.bounds.within, Ellipsoid)}
    many |= {c.variable for c in columns if c.role is Role.POINT} & picked_from(value)
    if many.isdisjoint(ancestors([value])):
        return value, columns, False
    return _replaced(value, columns, frontier(value, many))


def cut_where_one_sided(value: Variable, columns: list[Column]) -> Cut:
    """Replace what reads records alone, or parameters alone, by its range.

    Parameters
    ----------
    value : Variable, scalar
    columns : list of Column
        Its inputs.

    Returns
    -------
    Cut
        Unchanged where this would save no coordinate.
    """
    sides = [{c.variable for c in columns if c.role is role} for role in (Role.RECORD, Role.POINT)]
    cuts = [cut for cut in one_sided(value, *sides) if is_few(cut)]
    return _replaced(value, columns, cuts)


def _replaced(value: Variable, columns: list[Column], cuts: Sequence[Variable]) -> Cut:
    """Fresh columns in place of the cut variables."""
    if not cuts or value in cuts:
        return value, columns, False
    trail = bounds(cuts, {c.variable: c.bounds for c in columns})
    named = {c.variable for c in columns}
    fresh = {v: v.type(name=_name(v, named)) for v in cuts}
    roles = {c.variable: c.role for c in columns}
    added = [Column(new, _role(v, roles), trail[v].forget()) for v, new in fresh.items()]
    return rebuild([value], fresh)[0], columns + added, True


def _name(variable: Variable, inputs: Collection[Variable]) -> str:
    """What a cut variable is computed from."""
    read = sorted(str(v.name) for v in ancestors([variable]) if v in inputs)
    return f"from {', '.join(read)}"


def _role(variable: Variable, roles: Mapping[Variable, Role]) -> Role:
    """The role of what is computed from several variables."""
    read = {roles[v] for v in ancestors([variable]) if v in roles} - {Role.SHARED}
    if {Role.RECORD, Role.POINT} <= read or Role.PAIR in read:
        return Role.PAIR
    return read.pop() if read else Role.SHARED
