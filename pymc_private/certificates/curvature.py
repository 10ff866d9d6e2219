"""Slopes and curvatures of a log density in its linear predictors (T22).

A factor is h(u; x) with u = a(x)'theta + b(x). Bounds of h' and h'' over every u and x give what
T7 and T21 need. h'' is the derivative graph of h', and bounds its rise wherever h' is continuous.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, NONE, bounds, row_labels, simplify
from pymc_private.analysis.affine import kinds, linear_predictors
from pymc_private.analysis.rewrites.algebra__apart import predictors_apart
from pymc_private.analysis.continuity import is_continuous_on_line, moving_variables
from pymc_private.analysis.intervals.ops__normal_tail import name_normal_tails
from pymc_private.analysis.rewrites.unbounded import specialize_on_line
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.rewrites.algebra__signs import without_signs
from pymc_private.certificates.curvature__extremes import Extremes, Line, extremes_of_numbers, real_ends
from pymc_private.certificates.linear_predictors__kinks import NotConcave, gradient_of, refuse_conditions, refuse_predictors, without_kinks
from pymc_private.certificates.linear_predictors__meeting import inside, meeting
from pymc_private.certificates.curvature__softmax import Softmax, softmax_of
from pymc_private.models.record_likelihood import Column, Role

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
    quadratic : array of bool, shape (k,)
        Whether a second derivative reads no predictor: `sure` and `smooth` are one number.
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
    quadratic: np.ndarray
    softmax: Softmax | None = None

    @property
    def is_quadratic(self) -> bool:
        """Whether the whole factor is quadratic."""
        return bool(np.all(self.quadratic))


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
    factor.refuse_meeting()
    return factor.curves(rows)


class Factor:
    """h as a function of `inputs`, which stand for the predictors `cores`; `slopes` are dh/du.

    To find the predictors costs little, h in the form that intervals read best a lot.
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
        value = predictors_apart(value, theta := list(parameters.values()))
        self.cores = linear_predictors(value, theta, self.records)
        refuse_predictors(self.cores)
        self.inputs = [core.type(name=f"u{k}") for k, core in enumerate(self.cores)]
        self.sizes = [int(np.prod(u.type.shape)) for u in self.inputs]
        self.size = sum(self.sizes)
        self.zeros = np.zeros(self.size)
        self._refuse_undefined(box)
        trail = bounds(self.cores, given)
        lows, highs = zip(*(real_ends(trail[core], core) for core in self.cores), strict=True)
        self.ends = np.concatenate(lows), np.concatenate(highs)
        self.line = Line(self.inputs, *self.ends)
        self.box = dict(zip(self.inputs, self.line.shaped(*self.ends), strict=True))
        self.box |= {c.variable: c.bounds for c in columns}
        self.cut = rebuild([value], dict(zip(self.cores, self.inputs, strict=True)))[0]
        left = [v.name for v in ancestors([self.cut]) if v in set(parameters.values())]
        if left:
            raise NotConcave(f"{', '.join(map(str, left))}: discrete, or read in another way")

    @cached_property
    def h(self) -> Variable:
        """The density as a function of `inputs`, simplified."""
        found = specialize_on_line(self.cut, self.box)
        for form in (without_signs, name_normal_tails):
            made = form(found)
            found = found if made is found else simplify([made])[0]
        return found

    @cached_property
    def slopes(self) -> list[Variable]:
        """dh/du for each of `inputs`."""
        return gradient_of(self.h, self.inputs)

    def refuse_meeting(self) -> None:
        """Refuse predictors that are seen to meet, before anything dear: no softmax has several."""
        if met := meeting(self.cut, self.inputs, self.box, self.columns):
            raise NotConcave(self.coupling(met))

    def curves(self, rows: np.ndarray | None) -> Curves:
        """What `curves` answers."""
        found = softmax_of(self.h, self.inputs, self.columns) if self.coupled else None
        if self.coupled and found is None:
            raise NotConcave(self.coupling(self.coupled))
        self.refuse_undefined()
        if found is None:
            return self.bounded(rows)
        none = np.full(self.size, np.inf)
        return Curves(
            tuple(self.cores), -none, none, none, none, self.zeros, self.ends,
            self.zeros > 0.0, softmax=found,
        )  # fmt: skip

    def _refuse_undefined(self, box: Mapping[str, Bounds]) -> None:
        """A predictor must be a number for every record; it is, if it is one at some parameters."""
        given = {c.variable: c.bounds for c in self.columns}
        for name, b in box.items():
            at = inside(b.lower, b.upper).astype(self.parameters[name].type.dtype)
            given[self.parameters[name]] = Bounds.point(at)
        trail = bounds(self.cores, given)
        for core in self.cores:
            if not trail[core].is_finite:
                raise NotConcave(
                    f"what multiplies {self.names(core)} is not bounded for every record of the "
                    "domain"
                )

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

    def coupling(self, met: Sequence[Variable]) -> str:
        """Name what meets in a function that is not affine."""
        cores = dict(zip(self.inputs, self.cores, strict=True))
        groups = list(dict.fromkeys(self.names(cores[u]) for u in met))
        if len(groups) > 1:
            return f"{', '.join(groups)} meet in a function that is not affine in them together"
        return f"entries of {groups[0]} meet in a function that is neither affine nor a softmax"

    def refuse_undefined(self) -> None:
        """A density must be a finite number for every record, at some parameters and hence at all.

        What reads no parameter is no part of any slope: a record of density zero would not show.
        """
        refuse_conditions(self.h)
        given = {c.variable: c.bounds for c in self.columns}
        points = self.line.shaped(*[inside(*self.ends)] * 2)
        given |= dict(zip(self.inputs, points, strict=True))
        if not bounds([self.h], given)[self.h].is_finite:
            raise NotConcave("the density is not finite for every record of the domain")

    def bounded(self, rows: np.ndarray | None) -> Curves:
        """All bounds, in one search."""
        moving = moving_variables([self.h, *self.slopes], self.inputs)
        trail = bounds([self.h, *self.slopes], self.box)
        if not is_continuous_on_line([self.h], moving, trail):
            raise NotConcave(f"the density is not shown to be continuous in {self._all_names()}")
        steps = [is_continuous_on_line([g], moving, trail) for g in self.slopes]
        smooth = all(steps)
        steady = self.slopes if smooth else without_kinks(self.h, self.inputs, self.box)
        if steady is None:
            raise NotConcave(f"the slope of the density may jump in {self._all_names()}")
        second = [gradient_of(g.sum(), [u])[0] for g, u in zip(steady, self.inputs, strict=True)]
        read = kinds(second, self.inputs)
        quadratic = [step and not read.get(s) for step, s in zip(steps, second, strict=True)]
        numbers = all(quadratic) and not self.columns
        found = extremes_of_numbers(second, self.box) if numbers else None
        if found is None or np.any(found[-self.size :] >= 0.0):  # a flat predictor has its slope
            search = Extremes(self.line, self.columns, [*self.slopes, *second], rows)
            found = search.extremes()
        high, low, bend, rise = np.split(found, 4)
        if np.any(rise > 1e-290):
            worst = int(np.argmax(rise))
            core = self.cores[int(np.searchsorted(np.cumsum(self.sizes), worst, side="right"))]
            known = f"its second derivative is only known to be at most {rise[worst]:.3g}"
            name = self.names(core)
            raise NotConcave(f"the log density of '{name}' is not shown to be concave: {known}")
        return Curves(
            predictors=tuple(self.cores),
            low=-low,
            high=high,
            gap=self.gaps(second if smooth else None, rows, low + high),
            smooth=np.where(np.repeat(steps, self.sizes), np.maximum(bend, 0.0), np.inf),
            sure=np.maximum(-rise, 0.0),
            ends=self.ends,
            quadratic=np.repeat(quadratic, self.sizes),
        )

    def _all_names(self) -> str:
        return ", ".join(dict.fromkeys(map(self.names, self.cores)))

    def gaps(
        self, second: Sequence[Variable] | None, rows: np.ndarray | None, known: np.ndarray
    ) -> np.ndarray:
        """sup over u, x, y of h'(u; x) - h'(u; y), where the predictors read no record.

        Where h' integrates an h'' that reads no record, the difference is the same at each u.
        """
        if not self.records:
            return self.zeros
        if not set(ancestors(self.cores)).isdisjoint(self.records):
            return known
        others = {v: v.type(name=f"{v.name}'") for v in self.records}
        read = [c for c in self.columns if c.variable in others]
        copies = [Column(others[c.variable], c.role, c.bounds, c.levels) for c in read]
        theirs = rebuild(self.slopes, others)
        difference = [simplify([a - b])[0] for a, b in zip(self.slopes, theirs, strict=True)]
        twice = Extremes(self.line, [*self.columns, *copies], difference, rows)
        if not (second is None or set(ancestors(list(second))) & set(self.records)):
            twice.at_one_point()
        return np.minimum(twice.magnitudes(), known)
