"""Metrics between records, for promises per unit of distance (Assumption 1).

A `Metric` is a weighted sum of distances of the variables of a record, after Assumption 1 of
Dimitrakakis et al. (2017). Norms are rounded up. Discrete variables move between their levels step
by step, and the distance of a step is rounded down.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.printing import pprint

from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories, Interval
from pymc_private.models.record_graph import RecordGraph
from pymc_private.privacy.argument_kinds import MAPPING
from pymc_private.privacy.neighbors import check_record_neighbors, distance_relation
from pymc_private.privacy.rounding import difference_down

NORMS = ("absolute", "l1", "l2", "linf")
HAMMING = "hamming"
NORM_ROUNDING = 1.0 + 2.0**-46
"""A norm computed in doubles is no less than the true one after multiplication by this."""
MOST_LEVELS = 256


@dataclass(frozen=True)
class Metric:
    """How far apart two records are: a weighted sum of distances of their variables.

    The distance of two data sets is the sum over their records. A promise of epsilon per unit of
    distance protects small changes of a record more than large ones; for any change it is
    `guarantee.at(distance)`.

    Parameters
    ----------
    distances : mapping of str to (str or callable)
        For every private variable that the likelihood reads: ``"absolute"`` (of single numbers),
        ``"l1"``, ``"l2"`` or ``"linf"`` of the difference of two entries, ``"hamming"`` (1 if they
        differ), or a statistic, a function of a scalar PyTensor variable whose values are compared.
    weights : mapping of str to float
        By which a variable's distance is multiplied; 1 unless given.

    Examples
    --------
    >>> import pymc_private as pmp
    >>> pmp.Metric({"y": "absolute"}).description
    "|y - y'|"
    >>> pmp.Metric({"X": "l2", "y": "hamming"}, weights={"y": 3}).description
    "||X - X'||_2 + 3 [y differs]"

    Notes
    -----
    Assumption 1 of Dimitrakakis et al. (2017). Where it is 0, the likelihoods must be equal: a
    metric that leaves out a variable the likelihood reads is refused.
    """

    distances: Mapping[str, str | Callable[[Variable], Variable]]
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.distances, Mapping) or not self.distances:
            raise DomainError(
                "a metric names the variables it measures",
                got=repr(self.distances)[:80],
                allowed="{'y': 'absolute'}, {'X': 'l2', 'y': 'hamming'}, {'y': function}",
            )
        for name, kind in self.distances.items():
            if not callable(kind) and kind not in (*NORMS, HAMMING):
                raise DomainError(
                    f"the distance of '{name}' is unknown",
                    got=repr(kind)[:80],
                    allowed=f"{', '.join(NORMS)}, {HAMMING}, or a function",
                )
        MAPPING.of(self.weights, "weights", "a metric")
        stray = [name for name in self.weights if name not in self.distances]
        if stray:
            raise DomainError(
                "weights for what the metric does not measure",
                got=", ".join(map(str, stray)),
                allowed=", ".join(map(str, self.distances)),
                do="give each of them a distance, too, or leave its weight out",
            )
        for name, weight in self.weights.items():
            real = isinstance(weight, Real | np.number) and not isinstance(weight, bool | np.bool_)
            if not real or not (math.isfinite(weight) and weight > 0):
                raise DomainError(
                    f"the weight of '{name}' is positive and finite",
                    got=repr(weight)[:80],
                    allowed="a number > 0",
                )

    def weight(self, name: str) -> float:
        """Factor of the distance of a variable."""
        return float(self.weights.get(name, 1.0))

    def between(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> float:
        """Distance of two records, each an entry for every variable by its name."""
        return sum(
            self.weight(name) * _entry_distance(kind, np.asarray(x[name]), np.asarray(y[name]))
            for name, kind in self.distances.items()
        )

    @property
    def description(self) -> str:
        """The distance of two records as a formula."""
        return " + ".join(
            ("" if self.weight(name) == 1.0 else f"{self.weight(name):.12g} ")
            + _distance_formula(name, kind)
            for name, kind in self.distances.items()
        )

    @property
    def relation(self) -> str:
        """The neighbor relation of data sets one unit apart."""
        return distance_relation(1, self.description)


def neighbor_relation(neighbors: Any) -> str:
    """The neighbor relation that `neighbors` names or, as a metric, defines."""
    return (
        neighbors.relation if isinstance(neighbors, Metric) else check_record_neighbors(neighbors)
    )


def check_metric(metric: Metric, sources: Sequence[Source], graph: RecordGraph) -> str:
    """The claim of a metric that fits the private variables; others are refused.

    It must name private variables only, cover every one that the likelihood reads, and measure
    entries by distances that are defined for their shape.
    """
    private, read = {s.name for s in sources}, set(ancestors([graph.record]))
    record_reads = {s.name for s in sources if graph.data[s.name] in read}
    aliases = {alias: s.name for s in sources for alias in (s.name, *s.aliases)}
    unknown = [name for name in metric.distances if name not in aliases]
    if unknown:
        raise DomainError(
            "a metric measures private variables",
            got=", ".join(map(str, unknown)),
            allowed=", ".join(sorted(private)),
            do="name data variables with a domain; what is public is the same in both data sets",
        )
    measured = {aliases[name] for name in metric.distances}
    unmeasured = sorted(record_reads - measured)
    if unmeasured:
        raise DomainError(
            "the metric is 0 for records whose likelihoods differ",
            got=f"no distance of {', '.join(unmeasured)}",
            allowed=f"a distance for each of {', '.join(sorted(record_reads))}",
            do="add it, with 'hamming' if any change counts alike, or declare it public",
        )
    for source in sources:
        kinds = [k for name, k in metric.distances.items() if aliases[name] == source.name]
        if len(kinds) > 1:
            raise DomainError(
                f"two distances of '{source.name}' under two names",
                got=", ".join(name for name in metric.distances if aliases[name] == source.name),
                allowed="one distance for each variable",
                do="keep one of the two names",
            )
        single = source.row_shape == ()
        if kinds and not single and (callable(kinds[0]) or kinds[0] == "absolute"):
            raise DomainError(
                f"the distance of '{source.name}' is for single numbers",
                got=f"an entry of shape {source.row_shape}",
                allowed="l1, l2, linf or hamming",
            )
    return "distances are between data within the domain, after clipping"


def statistic_graph(kind: Callable[[Variable], Variable], variable: Variable) -> Variable:
    """The graph of a statistic of one number, a function of that number alone.

    A metric is public and fixed: a statistic that reads what can change (a data variable, a
    generator) is refused, and so is one whose value is no single number.
    """
    value = pt.as_tensor(kind(variable))
    others = [v for v in graph_inputs([value], [variable]) if v is not variable]
    changing = [v for v in others if not isinstance(v, Constant)]
    if changing:
        raise DomainError(
            "a function in a metric reads one number of a record, and nothing that can change",
            got=f"one that reads {', '.join(str(v.name or v.type) for v in changing)}",
            do="write the numbers themselves into it, chosen without the data",
        )
    if value.type.ndim != 0 or not value.type.dtype.startswith("float"):
        raise DomainError(
            "a function in a metric gives one number",
            got=f"{value.type}",
            allowed="a function of a scalar PyTensor variable, such as lambda y: y**2",
        )
    return value


@functools.lru_cache(maxsize=64)
def compiled_statistic(kind: Callable[[Variable], Variable]) -> Callable[[float], float]:
    """A statistic as a compiled function of a number."""
    at = pt.dscalar()
    function = pytensor.function([at], statistic_graph(kind, at), mode="FAST_COMPILE")
    return lambda value: float(function(value))


def is_discrete(source: Source) -> bool:
    """Whether a variable is integer-valued or categorical."""
    return source.is_whole or isinstance(source.domain, Categories)


def discrete_levels(source: Source) -> list[float]:
    """All values of a discrete variable, in order."""
    domain = source.domain
    if isinstance(domain, Categories) and source.row_shape == ():
        return list(domain.values)
    if isinstance(domain, Interval) and source.row_shape == ():
        bounds = domain.bounds(())
        low, high = math.ceil(float(bounds.lower)), math.floor(float(bounds.upper))
        if high - low < MOST_LEVELS:
            return [float(k) for k in range(low, high + 1)]
    raise Unsupported(
        f"no norm of '{source.name}' is bounded: it is discrete",
        got="a row of whole numbers, or too many values",
        allowed=f"single whole numbers, at most {MOST_LEVELS} of them",
        do="measure it by 'hamming'",
    )


def level_distances(ordered: list[float], kind: object, data: Variable) -> list[float]:
    """The distance from each level to the next, rounded down."""
    if not callable(kind):
        return [difference_down(b, a) for a, b in itertools.pairwise(ordered)]
    steps = np.diff([compiled_statistic(kind)(level) for level in ordered])
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise NotCertified(
            "a function in a metric of a discrete variable must increase or decrease with it",
            blame=(str(data.name),),
            cure="a strictly monotone statistic, or 'hamming'",
        )
    return [abs(float(step)) * (1.0 - 2.0**-40) for step in steps]


def _entry_distance(
    kind: str | Callable[[Variable], Variable], x: np.ndarray, y: np.ndarray
) -> float:
    if callable(kind):
        value = compiled_statistic(kind)
        return abs(value(float(x)) - value(float(y)))
    if kind == HAMMING:
        return float(np.any(x != y))
    order = {"absolute": 1, "l1": 1, "l2": 2, "linf": np.inf}[kind]
    whole = x.dtype.kind in "iub" and y.dtype.kind in "iub"
    number = object if whole else float  # in their own types short integers wrap around
    change = np.abs(np.ravel(x).astype(number) - np.ravel(y).astype(number)).astype(float)
    norm = float(np.linalg.norm(change, order))
    return norm if whole and order != 2 and norm < 2.0**53 else norm * NORM_ROUNDING


def _distance_formula(name: str, kind: str | Callable[[Variable], Variable]) -> str:
    if callable(kind):
        return _statistic_formula(name, kind)
    if kind == HAMMING:
        return f"[{name} differs]"
    if kind == "absolute":
        return f"|{name} - {name}'|"
    return f"||{name} - {name}'||_{kind.removeprefix('l')}"


def _statistic_formula(name: str, kind: Callable[[Variable], Variable]) -> str:
    """A formula and a digest of the exact graph, as two statistics may have the same formula."""
    variable = pt.dscalar(name)
    graph = statistic_graph(kind, variable)
    constants = [v.data for v in ancestors([graph]) if isinstance(v, Constant)]
    text = pytensor.dprint(graph, file="str", print_type=True)
    exact = repr((text, [np.asarray(c).tolist() for c in constants]))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:8]
    formula = "".join(c for c in str(pprint(graph)) if c not in "{}\n")
    return f"|f({name}) - f({name}')| with f = {formula} (#{digest})"
