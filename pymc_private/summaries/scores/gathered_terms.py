r"""Sums of a record gathered into one entry of one array for each factor that the row contributes.

A record of group g may read its predictor as mu + sigma z_g + b x (the non-centered form), or as
intercept + effect_g + b x: it tells these parameters in sums and products alone. Here such sums
are written

    (mu + sigma z)_g + b x,

so that the vector mu + sigma z, which reads no row, is a variable of the graph: scores can be about
it (`read_parameters.ReadCoefficients`). Of crossed groups, alpha_g + beta_h, all but one array are
written as differences from their first entries. Values change by rounding only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable

from pymc_private.analysis.traversal import library_class_name, scalar_op, without_dimshuffles
from pymc_private.summaries.density.batched import merged
from pymc_private.summaries.density.plain_record import LOOKUPS, index_entries, rebuild_by_leaves

Place = tuple[tuple[Variable, ...], Variable | None]
"""Factors that the row contributes to a term, and the position at which an array is read, if any.
"""
Terms = Mapping[Place, Variable]
"""A sum: the coefficient of each place, a scalar, or an array that is read at a position."""
ONE = pt.constant(np.float64(1.0))


def gathered(value: Variable, parameters: Sequence[Variable], data: Sequence[Variable]) -> Variable:
    """The density of one record with the terms of its sums gathered.

    Parameters
    ----------
    value : Variable, scalar
    parameters, data : sequence of Variable
        What the graph reads of the model, and of the record.
    """
    gathering = _Gathering(parameters, data)
    return merged(rebuild_by_leaves(merged([value]), gathering.rule))[0]


class Dependence:
    """Whether variables of a growing graph depend on some of its leaves."""

    def __init__(self, leaves: Sequence[Variable]) -> None:
        self.known = dict.fromkeys(leaves, True)

    def __contains__(self, variable: Variable) -> bool:
        stack = [variable]
        while stack:
            v = stack[-1]
            parents = [] if v.owner is None else v.owner.inputs
            missing = [] if v in self.known else [w for w in parents if w not in self.known]
            if not missing:
                self.known.setdefault(v, any(self.known[w] for w in parents))
                stack.pop()
            stack += missing
        return self.known[variable]


class _Gathering:
    """The rule that gathers sums and products, and the terms of what it has met."""

    def __init__(self, parameters: Sequence[Variable], data: Sequence[Variable]) -> None:
        self.moving, self.rows = Dependence(parameters), Dependence(data)
        self.terms: dict[Variable, Terms] = {}
        self.order: dict[Variable, int] = {}
        self.anchored: set[Variable] = set()

    def rule(self, node: Apply, inputs: list[Variable]) -> Variable | None:
        """A gathered sum or product in place of a node; None where nothing is gathered.

        A sum is left alone unless some of its terms are gathered, so that what is computed once,
        such as a linear predictor, stays one variable.
        """
        out = node.outputs[0]
        if not (out in self.moving and out in self.rows):
            return None
        if not all(map(_is_one_number, [out, *inputs])):
            return None
        terms = self._gathered(scalar_op(out), inputs)
        if terms is None:
            return None
        parts = [reduce(pt.mul, [_read(c, place), *place[0]]) for place, c in terms.items()]
        total = reduce(pt.add, parts)
        self.terms[without_dimshuffles(total)] = terms
        return total.dimshuffle(*("x" for _ in out.type.shape))

    def _gathered(self, kind: Any, inputs: list[Variable]) -> Terms | None:
        """The terms of a sum, or of a product with what reads no row, if they are gathered."""
        if isinstance(kind, ps.Add | ps.Sub):
            found, changed = self._uncrossed(self._sum(kind, inputs))
            fewer = len(found) < sum(len(self._terms(v)) for v in inputs)
            return found if fewer or changed else None
        if isinstance(kind, ps.Mul | ps.TrueDiv):
            found = self._product(kind, inputs)
            scaled = any(v in self.moving and v not in self.rows for v in inputs)
            return found if scaled and any(index is not None for _, index in found) else None
        return None

    def _terms(self, variable: Variable) -> Terms:
        """The terms of a variable of one number; itself alone where nothing is known of it."""
        base = without_dimshuffles(variable)
        if base not in self.terms:
            self.terms[base] = self._parsed(base, _scalar(variable))
        return self.terms[base]

    def _parsed(self, base: Variable, scalar: Variable) -> Terms:
        if base not in self.rows:
            return {((), None): scalar}
        found = None
        if base in self.moving:
            inputs, kind = base.owner.inputs, scalar_op(base)
            if kind is None:
                found = self._lookup(base.owner)
            elif not all(map(_is_one_number, inputs)):
                found = None
            elif isinstance(kind, ps.Add | ps.Sub):
                found = self._sum(kind, inputs)
            elif isinstance(kind, ps.Mul | ps.TrueDiv | ps.Neg):
                found = self._product(kind, inputs)
        return {((scalar,), None): ONE} if found is None else found

    def _sum(self, kind: Any, inputs: list[Variable]) -> Terms:
        """A sum or difference, what reads no row added to an array that is read in the row."""
        found: dict[Place, Variable] = {}
        for k, v in enumerate(inputs):
            negative = isinstance(kind, ps.Sub) and k == 1
            for place, factor in self._terms(v).items():
                term = -factor if negative else factor
                found[place] = found[place] + term if place in found else term
        for row, index in list(found):
            if index is not None and (row, None) in found:
                found[row, index] = found[row, index] + found.pop((row, None))
        for row, index in list(found):
            for place, array in self._public_arrays(row) if index is None else []:
                if place in found and _are_as_long(array, found[place]):
                    found[place] = found[place] + found.pop((row, None)) * array
                    break
        return found

    def _public_arrays(self, row: tuple[Variable, ...]) -> list[tuple[Place, Variable]]:
        """Factors that are entries of public arrays, such as what is known of a record's group.

        Each with the place of a term that reads an array at the same position, beside the other
        factors.
        """
        found = []
        for k, factor in enumerate(row):
            base = without_dimshuffles(factor)
            terms = None if base.owner is None or base in self.moving else self._lookup(base.owner)
            for (_, index), array in (terms or {}).items():
                found.append(((row[:k] + row[k + 1 :], index), array))
        return found

    def _uncrossed(self, terms: Terms) -> tuple[Terms, bool]:
        """Arrays that are read beside another one, as differences from their first entries.

        Of a_g + b_h records tell no constant that moves from a to b; b's first entry goes to a.
        """
        found, first, changed = dict(terms), dict[Any, Place](), False
        for place, array in terms.items():
            row, index = place
            if index is None or first.setdefault(row, place) == place or array in self.anchored:
                continue
            anchored = pt.concatenate([[0.0], array[1:] - array[0]])
            self.anchored.add(anchored)
            found[place] = anchored
            found[first[row]] = found[first[row]] + array[0]
            changed = True
        return found, changed

    def _product(self, kind: Any, inputs: list[Variable]) -> Terms:
        """A product of one term with what reads no row, and with what the row contributes."""
        row, index, factors = list[Variable](), None, list[Variable]()
        for k, v in enumerate(inputs):
            inverted = isinstance(kind, ps.TrueDiv) and k == 1
            terms = self._terms(v)
            (mine, place), factor = next(iter(terms.items()))
            is_known = len(terms) == 1 and (place is None or index is None)
            if not is_known or (inverted and v in self.rows):
                mine, place = (1.0 / _scalar(v) if inverted else _scalar(v),), None
                factor = ONE
            elif inverted:
                factor = 1.0 / factor
            row += mine
            index = index if place is None else place
            factors = [factor, *factors] if place is not None else [*factors, factor]
        factors += [pt.constant(-1.0)] if isinstance(kind, ps.Neg) else []
        factors = [v for v in factors if v is not ONE] or [ONE]
        return {(self._ordered(row), index): reduce(pt.mul, factors)}

    def _ordered(self, factors: Sequence[Variable]) -> tuple[Variable, ...]:
        """Factors in the order in which they were first met."""
        for v in factors:
            self.order.setdefault(v, len(self.order))
        return tuple(sorted(factors, key=self.order.__getitem__))

    def _lookup(self, node: Apply) -> Terms | None:
        """An array at one position that the row has, all others fixed."""
        array = node.inputs[0]
        if library_class_name(node.op) not in LOOKUPS or array in self.rows:
            return None
        entries = index_entries(node.op, node.inputs)
        if len(entries) != array.type.ndim:
            return None
        mine = [isinstance(e, Variable) and e in self.rows for e in entries]
        fixed = [_whole_number(e) for e, m in zip(entries, mine, strict=True) if not m]
        if sum(mine) != 1 or None in fixed or not _is_one_number(entries[mine.index(True)]):
            return None
        others = iter(fixed)
        picked = array[tuple(slice(None) if m else next(others) for m in mine)]
        return {((), _scalar(entries[mine.index(True)])): picked}


def _are_as_long(first: Variable, second: Variable) -> bool:
    """Whether two arrays are known to have one length."""
    lengths = first.type.shape, second.type.shape
    return lengths[0] == lengths[1] and None not in lengths[0]


def _is_one_number(variable: Variable) -> bool:
    return all(length == 1 for length in variable.type.shape)


def _scalar(variable: Variable) -> Variable:
    """One number without axes."""
    base = without_dimshuffles(variable)
    if base.type.ndim == 0:
        return base
    return base.dimshuffle() if _is_one_number(base) else variable.dimshuffle()


def _whole_number(entry: Any) -> int | None:
    data = getattr(entry, "data", entry)
    return (
        int(data) if isinstance(entry, Constant | int | np.integer) and np.ndim(data) == 0 else None
    )


def _read(coefficient: Variable, place: Place) -> Variable:
    return coefficient if place[1] is None else coefficient[place[1]]
