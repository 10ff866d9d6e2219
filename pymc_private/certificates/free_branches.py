"""The branch of a switch as a coordinate of its own, where the density jumps.

At a change point, switch(t < tau, early, late), each box around t = tau holds both branches however
small it is: bounds do not tighten, and slopes there are none. So a comparison x < y becomes a whole
number of 0 or 1 that branch and bound fixes like any other, one for each record and parameter point
that it reads. The maximum over all branches is at least the maximum over those that x and y
select: the bound of R stays a bound. It is R itself where records reach every branch at every
point, as records before and after all change points do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.rewrites.weighted_means import first_of_touched_forms
from pymc_private.analysis.traversal import rebuild, scalar_op, without_dimshuffles
from pymc_private.models.record_likelihood import InputColumn, Role

MOST_BRANCHES = 4
"""Comparisons that become coordinates; a graph of more is left as it is."""

EITHER = 0.0, 1.0
"""The least and the greatest number of a branch."""

SidesOfLess = tuple[Variable, Variable, bool]
"""x and y of x < y, and whether the comparison is its negation."""


def free_branches(
    value: Variable, columns: Sequence[InputColumn]
) -> tuple[Variable, list[InputColumn]]:
    """The function with comparisons of records with parameters as whole numbers of their own.

    The function of any record and point is that of some 0 or 1 in place of each comparison.
    """
    found: dict[tuple[Variable, Variable], Variable] = {}
    swaps: dict[Variable, Variable] = {}
    for variable, (x, y, negated) in comparisons(value, columns).items():
        branch = found.setdefault((x, y), _branch_variable(len(found)))
        chosen = pt.eq(branch, 0 if negated else 1)
        swaps[variable] = pt.shape_padleft(chosen, variable.type.ndim)
    if not found:
        return value, list(columns)
    inputs = {c.variable: c.variable for c in columns}
    freed = simplify(rebuild([value], inputs | swaps, first_of_touched_forms))[0]
    either = Bounds(np.array(EITHER[0]), np.array(EITHER[1]))
    return freed, [*columns, *(InputColumn(v, Role.PAIR, either) for v in found.values())]


def comparisons(value: Variable, columns: Sequence[InputColumn]) -> dict[Variable, SidesOfLess]:
    """The comparisons of a record with a parameter in a graph; none if they are too many.

    Only of what is proved to be a number: of NaN both x < y and its negation x >= y are false.
    """
    roles = {c.variable: c.role for c in columns}
    found = {
        variable: sides
        for variable in ancestors([value])
        if (sides := _sides_of_less(variable)) and _compares_record_with_point(variable, roles)
    }
    compared = {v for x, y, _ in found.values() for v in (x, y)}
    trail = propagate_bounds(list(compared), {c.variable: c.bounds for c in columns})
    numbers = {v for v in compared if not _may_be_nan(trail[v])}
    found = {v: (x, y, less) for v, (x, y, less) in found.items() if {x, y} <= numbers}
    return found if len({(x, y) for x, y, _ in found.values()}) <= MOST_BRANCHES else {}


def _may_be_nan(bounds: Bounds) -> bool:
    """Whether nothing is known of a number."""
    return bool(np.any(np.isnan(bounds.lower) | np.isnan(bounds.upper)))


def _branch_variable(number: int) -> Variable:
    """A whole number of 0 or 1."""
    return pt.TensorType("int8", shape=())(name=f"branch {number}")


def _sides_of_less(variable: Variable) -> SidesOfLess | None:
    """x and y, if this is x < y or its negation, of one number."""
    op = scalar_op(variable)
    if not isinstance(op, ps.LT | ps.GT | ps.LE | ps.GE) or not all(variable.type.broadcastable):
        return None
    first, second = variable.owner.inputs
    if isinstance(op, ps.GT | ps.LE):  # x > y is y < x, and x <= y is not y < x
        first, second = second, first
    x, y = without_dimshuffles(first), without_dimshuffles(second)
    return x, y, isinstance(op, ps.LE | ps.GE)


def _compares_record_with_point(variable: Variable, roles: dict[Variable, Role]) -> bool:
    """Whether a comparison reads both a record and a parameter."""
    read = {roles[v] for v in ancestors([variable]) if v in roles}
    return {Role.RECORD, Role.POINT} <= read or Role.PAIR in read
