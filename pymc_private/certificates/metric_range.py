"""The range per unit of distance: the Lipschitz constant of the log-likelihood in a record.

This is Assumption 1 of Dimitrakakis et al. (2017). For two parameter points t, t' the function
h(x) = log p(x | t) - log p(x | t') of the record decides R (T1). Over a convex domain |h(x) -
h(y)| is at most the largest dual norm of its gradient times the norm of x - y (Clarke 1983,
Theorem 2.3.7 at kinks). One variable is changed after the other, so the distances of several
variables add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.branch_and_bound import Bracket, Effort, maximize
from pymc_private.analysis.continuity import dependent_variables, is_continuous
from pymc_private.analysis.intervals.functions import round_up
from pymc_private.analysis.rewrites.specialize import interaction_terms, specialize
from pymc_private.analysis.traversal import rebuild
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.errors import NotCertified, Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.metric import (
    HAMMING,
    Metric,
    discrete_levels,
    is_discrete,
    level_distances,
    statistic_graph,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import ADDITION, SUBSTITUTION, Contrast, single_record

EFFORT_PER_VALUE, FINE_GAP = 3000.0, 0.01
"""Walks for one number, and the relative gap to the truth at which it is close enough."""

Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class RangePerDistance:
    """The range per unit of distance, at power 1.

    Parameters
    ----------
    upper : float, nats per unit
        Proved.
    found : float
        Found by a search: it cannot be less.
    """

    upper: float
    found: float


def metric_range(
    private: PrivateModel, metric: Metric, tolerance: float, deadline: float, progress: Progress
) -> RangePerDistance:
    """Bound R(x, y) / distance(x, y) over all pairs of records.

    `tolerance` is a relative gap that is small enough, `deadline` a time by `time.perf_counter`.

    Raises
    ------
    NotCertified
        No finite bound, or the likelihood jumps.
    Unsupported
        Rows differ by how the model is written.
    """
    per_variable = _RangePerVariable(private, tolerance, deadline, progress)
    found = []
    for source, name, distance in _measured_variables(private, metric):
        own, weight = per_variable.of(source, distance), metric.weight(name)
        found.append(RangePerDistance(float(round_up(own.upper / weight)), own.found / weight))
    return RangePerDistance(max(s.upper for s in found), max(s.found for s in found))


def _measured_variables(
    private: PrivateModel, metric: Metric
) -> Iterator[tuple[Source, str, object]]:
    for source in private.sources:
        for name in (source.name, *source.aliases):
            if name in metric.distances:
                yield source, name, metric.distances[name]
                break


class _RangePerVariable:
    """The range per unit of distance of one model, variable by variable."""

    def __init__(
        self, private: PrivateModel, tolerance: float, deadline: float, progress: Progress
    ) -> None:
        record = single_record(private.graph, private.sources, private.n, private.shapes)
        if record is None:
            raise Unsupported(
                "a metric needs rows that are equivalent",
                got="rows that differ by how the model is written",
                allowed="rows that differ by data variables only",
                do="use neighbors='substitute'",
            )
        self.private, self.goal = private, min(FINE_GAP, tolerance)
        self.deadline, self.progress = deadline, progress
        whole = {record.data[s.name]: s.domain.bounds(s.row_shape) for s in private.sources}
        whole |= {record.parameters[name]: b for name, b in private.box.items()}
        whole |= {v: Bounds(r.min(axis=0), r.max(axis=0)) for v, r in record.public.items()}
        self.whole = whole
        value = specialize(record.value, whole)
        read = [list(part.values()) for part in (record.data, record.parameters)]
        self.record = replace(record, value=interaction_terms(value, *read))

    def of(self, source: Source, distance: object) -> RangePerDistance:
        """Of one variable, the others fixed."""
        if self.record.data[source.name] not in set(ancestors([self.record.value])):
            return RangePerDistance(0.0, 0.0)
        if distance == HAMMING:
            others = [s.name for s in self.private.sources if s.name != source.name]
            return self._largest(self.record.value, SUBSTITUTION, others)
        if is_discrete(source):
            return self._along_levels(source, distance)
        self._refuse_jumps(source, self.record.value, "the likelihood")
        if callable(distance):
            return self._along_statistic(source, distance)
        return self._along_norm(source, str(distance))

    def _largest(
        self,
        value: Variable,
        contrast: Contrast,
        held: Sequence[str] = (),
        known: float = math.inf,
    ) -> RangePerDistance:
        """The maximum of a contrast, by branch and bound."""
        record = replace(self.record, value=value)
        best, found = known, 0.0
        for together in (False, True):
            objective = RangeObjective(
                record, self.private.sources, self.private.box, contrast,
                together=together, held=held,
            )  # fmt: skip
            if objective.is_constant:
                return RangePerDistance(0.0, 0.0)
            if not objective.is_feasible:
                continue
            bracket = self._bracket(objective, best)
            best = min(best, bracket.upper)
            found = max(found, 0.0 if objective.is_relaxed else bracket.lower)
            if best <= max(found, bracket.lower) * (1.0 + self.goal):
                break
        if not math.isfinite(best):  # no branch and bound: the bounds over the whole box
            best = _interval_width(value, self.whole, 2.0 if contrast is SUBSTITUTION else 1.0)
        return RangePerDistance(best, found)

    def _bracket(self, objective: RangeObjective, known: float) -> Bracket:
        return maximize(
            objective,
            *objective.roots(),
            goal=lambda _: self.goal,
            effort=Effort(EFFORT_PER_VALUE / objective.cost, self.deadline),
            known=known,
            progress=self.progress,
        )

    def _along_norm(self, source: Source, norm: str) -> RangePerDistance:
        """The dual norm of how much the gradient varies with the parameters."""
        data = self.record.data[source.name]
        gradient = _gradient(self.record.value, data)
        entries = [gradient[index] for index in np.ndindex(source.row_shape)]
        known = math.inf if source.row_shape else self._one_factor(data, gradient)
        each = [self._largest(simplify([e])[0], ADDITION, known=known) for e in entries]
        uppers, found = [s.upper for s in each], max(s.found for s in each)
        if norm == "linf":
            total = float(round_up(math.fsum(uppers)))
        elif norm == "l2":
            total = float(round_up(math.sqrt(math.fsum(u * u for u in uppers)), 8.0))
        else:
            total = max(uppers)
        return RangePerDistance(total, found)

    def _one_factor(self, data: Variable, gradient: Variable) -> float:
        """Bound where dh / dx is a factor of the parameters times one of the record (a kink, say).

        The factor is the quotient of the gradient and of that at the middle of the box. Infinite
        where there is no such factor.
        """
        middle = {}
        for name, box in self.private.box.items():
            if not box.is_finite or box.within is not None:
                return math.inf
            value = box.lower / 2.0 + box.upper / 2.0
            variable = self.record.parameters[name]
            middle[variable] = pt.constant(np.asarray(value, variable.type.dtype))
        fixed = simplify(rebuild([gradient], middle))[0]
        factor = simplify([gradient / fixed])[0]
        if data in set(ancestors([factor])):
            return math.inf
        fact = propagate_bounds([fixed], self.whole)[fixed]
        steepest = float(np.max(np.abs([fact.lower, fact.upper])))
        return float(round_up(self._largest(factor, ADDITION).upper * steepest, 2.0))

    def _along_statistic(
        self, source: Source, statistic: Callable[[Variable], Variable]
    ) -> RangePerDistance:
        """How much dh / df varies with the parameters.

        If the quotient does not read the variable, h is a multiple of f plus a constant. Otherwise
        f must be strictly monotone: then Cauchy's mean-value theorem gives the bound.
        """
        data = self.record.data[source.name]
        graph = statistic_graph(statistic, data)
        self._refuse_jumps(source, graph, "the statistic")  # its slope shows no jump
        slope = _gradient(graph, data)
        quotient = simplify([_gradient(self.record.value, data) / slope])[0]
        if data in set(ancestors([quotient])):
            fact = propagate_bounds([slope], self.whole)[slope]
            if not (np.all(fact.lower > 0.0) or np.all(fact.upper < 0.0)):
                raise NotCertified(
                    f"the likelihood is not proved to read '{source.name}' through the statistic",
                    blame=(source.name,),
                    cure="a sufficient statistic of the family, or one that is strictly monotone "
                    "on the domain; or a distance of the variable itself",
                )
        return self._largest(quotient, ADDITION)

    def _along_levels(self, source: Source, distance: object) -> RangePerDistance:
        """The greatest range from one level to the next, over their distance."""
        values = discrete_levels(source)
        data = self.record.data[source.name]
        gaps = level_distances(values, distance, data)
        best, found = 0.0, 0.0
        for low, high, gap in zip(values[:-1], values[1:], gaps, strict=True):
            first, second = (
                rebuild([self.record.value], {data: pt.constant(np.asarray(x, data.type.dtype))})[0]
                for x in (high, low)
            )
            step = self._largest(simplify([first - second])[0], ADDITION)
            if step.upper > 0.0:
                best = max(best, math.inf if gap == 0 else float(round_up(step.upper / gap)))
            found = max(found, step.found / gap if gap else 0.0)
        return RangePerDistance(best, found)

    def _refuse_jumps(self, source: Source, value: Variable, words: str) -> None:
        """Refuse jumps: the mean-value theorem needs continuous functions of the variable."""
        moving = dependent_variables([value], [self.record.data[source.name]])
        if not is_continuous(value, moving, propagate_bounds([value], self.whole)):
            raise NotCertified(
                f"{words} is not proved continuous in '{source.name}' on its domain",
                blame=(source.name,),
                cure="trim the parameters, declare a smaller domain, or measure by 'hamming'",
            )


def _gradient(value: Variable, data: Variable) -> Variable:
    """The gradient with respect to a variable of the record."""
    try:
        return pytensor.grad(value, data, disconnected_inputs="ignore")
    except Exception as error:  # of an Op that is not ours
        raise NotCertified(
            f"the likelihood has no gradient in '{data.name}'",
            blame=(str(data.name),),
            cure="measure it by 'hamming'",
        ) from error


def _interval_width(value: Variable, whole: dict[Variable, Bounds], times: float) -> float:
    """The width of a value's bounds, times a number; infinite where nothing is known."""
    fact = propagate_bounds([value], whole)[value]
    width = float(np.max(np.asarray(fact.upper) - np.asarray(fact.lower)))
    return math.inf if math.isnan(width) else float(round_up(times * width, 4.0))
