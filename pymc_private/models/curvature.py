"""Slopes and curvatures of a log density in its linear predictors (T22).

A factor is h(u; x) with u = a(x)'theta + b(x). Bounds of h' and h'' over every u and x give what
T7 and T21 need. h'' is the derivative graph of h', and bounds its rise wherever h' is continuous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis import NONE, bounds, row_labels, simplify
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.affine import Kind, kinds, linear_predictors, numbers_apart
from pymc_private.analysis.continuity import is_continuous_on_line, moving_variables
from pymc_private.analysis.exponents import tidy
from pymc_private.analysis.normal_tail import name_normal_tails
from pymc_private.analysis.real_line import specialize_on_line
from pymc_private.analysis.rebuild import rebuild
from pymc_private.models.coordinates import Column, Role
from pymc_private.models.extremes import Extremes, Line
from pymc_private.models.softmax import Softmax, softmax_of


@dataclass(frozen=True, eq=False)
class Curves:
    """What is proved of a factor.

    Parameters
    ----------
    predictors : tuple of Variable
        The nodes u; their k elements follow one another in the arrays.
    low, high : array, shape (k,)
        inf and sup of dh/du_j over all u and x.
    gap : array, shape (k,)
        sup |dh/du_j (u; x) - dh/du_j (u; y)| over all u, x and y: of use where two records share u.
    smooth : array, shape (k,)
        beta_j = sup of -d2h/du_j2; infinite at kinks.
    sure : array, shape (k,)
        inf of -d2h/du_j2, at least 0.
    ends : pair of array, shape (k,)
        Least and greatest value of each predictor.
    softmax : Softmax or None
        Then the k predictors are the scores of one softmax, and no other number is proved.
    """

    predictors: tuple[Variable, ...]
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray
    smooth: np.ndarray
    sure: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]
    softmax: Softmax | None = None


class NotConcave(Exception):
    """Why a factor is not shown to be log-concave in the parameters, in words."""


def curves(
    value: Variable,
    parameters: Mapping[str, Variable],
    box: Mapping[str, Bounds],
    columns: Sequence[Column],
    rows: np.ndarray | None = None,
) -> Curves:
    """Bound the derivatives of a log density in its linear predictors.

    Parameters
    ----------
    value : Variable, scalar
    parameters : dict of str to Variable
    box : dict of str to Bounds
        Of the parameters; ends may be infinite.
    columns : sequence of Column
        All other inputs.
    rows : array, shape (distinct rows, entries), optional
        Values of the columns that are public row by row.

    Returns
    -------
    Curves

    Raises
    ------
    NotConcave
    """
    factor = Factor(value, parameters, box, columns)
    found = softmax_of(factor.h, factor.inputs, columns) if factor.coupled else None
    if found is not None:
        none = np.full(factor.size, np.inf)
        return Curves(
            tuple(factor.cores), -none, none, none, none, factor.zeros, factor.ends, found
        )
    if factor.coupled:
        raise NotConcave(factor.coupling())
    return factor.bounded(rows)


class Factor:
    """h with its predictors as inputs.

    Attributes
    ----------
    cores : list of Variable
        The predictors u, graphs of parameters and record.
    inputs : list of Variable
        They stand for u in `h`.
    h : Variable, scalar
        The log density as a function of u and the record, on the box.
    slopes : list of Variable
        dh/du.
    """

    def __init__(
        self,
        value: Variable,
        parameters: Mapping[str, Variable],
        box: Mapping[str, Bounds],
        columns: Sequence[Column],
    ) -> None:
        self.parameters, self.columns = parameters, list(columns)
        given = {parameters[name]: b for name, b in box.items()}
        given |= {c.variable: c.bounds for c in columns}
        self.records = [c.variable for c in columns if c.role is Role.RECORD]
        value = numbers_apart(value)
        self.cores = linear_predictors(value, list(parameters.values()), self.records)
        self.inputs = [core.type(name=f"u{k}") for k, core in enumerate(self.cores)]
        self.sizes = [int(np.prod(u.type.shape)) for u in self.inputs]
        self.size = sum(self.sizes)
        self.zeros = np.zeros(self.size)
        trail = bounds(self.cores, given)
        lows, highs = zip(*(_real_ends(trail[core], core) for core in self.cores), strict=True)
        self.ends = np.concatenate(lows), np.concatenate(highs)
        self.line = Line(self.inputs, *self.ends)
        self.box = dict(zip(self.inputs, self.line.shaped(*self.ends), strict=True))
        self.box |= {c.variable: c.bounds for c in columns}
        cut = rebuild([value], dict(zip(self.cores, self.inputs, strict=True)))[0]
        left = [v.name for v in ancestors([cut]) if v in set(parameters.values())]
        if left:
            raise NotConcave(f"{', '.join(map(str, left))}: discrete, or read in another way")
        self.h = simplify([name_normal_tails(specialize_on_line(cut, self.box))])[0]
        self.slopes = _gradient(self.h, self.inputs)

    @cached_property
    def coupled(self) -> list[Variable]:
        """Predictors whose slopes read other predictors, or several elements of their own."""
        labels, values, start = {}, {}, 0
        for u, size in zip(self.inputs, self.sizes, strict=True):
            labels[u] = np.arange(start, start + size).reshape(u.type.shape)
            values[u] = np.full(u.type.shape, 0.5)
            start += size
        for c in self.columns:
            low = np.asarray(c.bounds.lower)
            values[c.variable] = (c.levels[0] + 0.0 * low if c.levels is not None else low).astype(
                c.variable.type.dtype
            )
            labels[c.variable] = np.full(low.shape, NONE)
        trail = row_labels(self.slopes, labels, values)
        return [
            u
            for u, g in zip(self.inputs, self.slopes, strict=True)
            if np.any((trail[g] != labels[u]) & (trail[g] != NONE))
        ]

    def names(self, core: Variable) -> str:
        """The parameters that a predictor reads."""
        named = {v: name for name, v in self.parameters.items()}
        return " and ".join(sorted({named[v] for v in ancestors([core]) if v in named}))

    def coupling(self) -> str:
        """Name what meets in a function that is not affine."""
        cores = dict(zip(self.inputs, self.cores, strict=True))
        groups = list(dict.fromkeys(self.names(cores[u]) for u in self.coupled))
        if len(groups) > 1:
            return f"{', '.join(groups)} meet in a function that is not affine in them together"
        return f"entries of {groups[0]} meet in a function that is neither affine nor a softmax"

    def bounded(self, rows: np.ndarray | None) -> Curves:
        """All bounds, in one search."""
        _refuse_conditions(self.h)
        moving = moving_variables([self.h, *self.slopes], self.inputs)
        trail = bounds([self.h, *self.slopes], self.box)
        if not is_continuous_on_line([self.h], moving, trail):
            raise NotConcave(f"the density is not shown to be continuous in {self._all_names()}")
        smooth = is_continuous_on_line(self.slopes, moving, trail)
        steady = self.slopes if smooth else _without_kinks(self.h, self.inputs, self.box)
        if steady is None:
            raise NotConcave(f"the slope of the density may jump in {self._all_names()}")
        second = [_gradient(g.sum(), [u])[0] for g, u in zip(steady, self.inputs, strict=True)]
        search = Extremes(self.line, self.columns, [*self.slopes, *second], rows)
        high, low, bend, rise = np.split(search.extremes(), 4)
        if np.any(rise > 1e-290):
            worst = int(np.argmax(rise))
            core = self.cores[int(np.searchsorted(np.cumsum(self.sizes), worst, side="right"))]
            raise NotConcave(
                f"the log density of '{self.names(core)}' is not shown to be concave: its second "
                f"derivative is only known to be at most {rise[worst]:.3g}"
            )
        return Curves(
            predictors=tuple(self.cores),
            low=-low,
            high=high,
            gap=self.gaps(second if smooth else None, rows, low + high),
            smooth=np.maximum(bend, 0.0) if smooth else np.full(self.size, np.inf),
            sure=np.maximum(-rise, 0.0),
            ends=self.ends,
        )

    def _all_names(self) -> str:
        return ", ".join(dict.fromkeys(self.names(core) for core in self.cores))

    def gaps(
        self, second: Sequence[Variable] | None, rows: np.ndarray | None, known: np.ndarray
    ) -> np.ndarray:
        """sup over u, x, y of h'(u; x) - h'(u; y), where the predictors read no record.

        Where h' is the integral of h'' and h'' reads no record, the difference does not depend on
        u, and one u is enough.
        """
        if not set(ancestors(self.cores)).isdisjoint(self.records):
            return known
        others = {v: v.type(name=f"{v.name}'") for v in self.records}
        copies = [Column(others[c.variable], c.role, c.bounds, c.levels)
                  for c in self.columns if c.variable in others]  # fmt: skip
        difference = [
            simplify([a - b])[0]
            for a, b in zip(self.slopes, rebuild(self.slopes, others), strict=True)
        ]
        twice = Extremes(self.line, [*self.columns, *copies], difference, rows)
        if second is not None and set(ancestors(list(second))).isdisjoint(self.records):
            twice.at_one_point()
        return np.minimum(twice.magnitudes(), known)


def _real_ends(fact: Bounds, core: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a predictor, which is a real number: where nothing is known, the whole line."""
    shape = core.type.shape
    low = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
    high = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
    return np.ravel(low), np.ravel(high)


def _gradient(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs of a scalar."""
    try:
        found = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception as error:  # of an Op that is not ours
        raise NotConcave(f"{type(error).__name__}: an Op of the density has no gradient") from error
    return tidy(found)


def _refuse_conditions(h: Variable) -> None:
    """A density that PyMC refuses somewhere is no density of every parameter."""
    for variable in ancestors([h]):
        if variable.owner is not None and isinstance(variable.owner.op, CheckAndRaise):
            raise NotConcave(f"the condition '{variable.owner.op.msg}' is not proved; trim")


def _without_kinks(
    h: Variable, inputs: Sequence[Variable], box: Mapping[Variable, Bounds]
) -> list[Variable] | None:
    """Slopes of the rest, if all kinks of h are terms -c |v| with c >= 0 and v affine."""
    found = kinds([h], inputs)
    kinks = {
        v: v.type(name=f"kink{k}")
        for k, v in enumerate(dict.fromkeys(ancestors([h])))
        if v.owner is not None
        and isinstance(v.owner.op, Elemwise)
        and isinstance(v.owner.op.scalar_op, ps.Abs)
        and found.get(v.owner.inputs[0], Kind.CONSTANT) is Kind.AFFINE
    }
    if not kinks:
        return None
    rest = rebuild([h], kinks)[0]
    fresh = list(kinks.values())
    if kinds([rest], fresh).get(rest) is not Kind.AFFINE:
        return None
    weights = _gradient(rest, fresh)
    if not set(ancestors(weights)).isdisjoint([*inputs, *fresh]):
        return None
    trail = bounds(weights, box)
    if not all(np.all(trail[w].upper <= 0.0) for w in weights):
        return None
    slopes = _gradient(rest, inputs)
    if not set(ancestors(slopes)).isdisjoint(fresh):
        return None
    moving = moving_variables(slopes, inputs)
    return slopes if is_continuous_on_line(slopes, moving, bounds(slopes, box)) else None
