"""Metric: how far apart two records are, for promises per unit of distance (Assumption 1)."""

from __future__ import annotations

import functools
import hashlib
import math
import numpy as np
import pytensor
import pytensor.tensor as pt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.printing import pprint
from pymc_private.errors import DomainError
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.data_variables import Source
from pymc_private.privacy.neighbors import distance_relation
from pymc_private.privacy.neighbors__neighbors import check_records

NORMS = ("absolute", "l1", "l2", "linf")
HAMMING = "hamming"
ROUNDED_UP = 1.0 + 2.0**-46
"""Times this, a norm in doubles is no less than the true one."""


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
    >>> pmp.Metric({"y": "absolute"}).words
    "|y - y'|"
    >>> pmp.Metric({"X": "l2", "y": "hamming"}, weights={"y": 3}).words
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
        stray = [name for name in self.weights if name not in self.distances]
        if stray:
            raise DomainError("weights for what the metric does not measure", got=", ".join(stray))
        for name, weight in self.weights.items():
            real = isinstance(weight, Real | np.number) and not isinstance(weight, bool | np.bool_)
            if not real or not (math.isfinite(weight) and weight > 0):
                raise DomainError(
                    f"the weight of '{name}' is positive and finite", got=repr(weight)[:80]
                )

    def weight(self, name: str) -> float:
        """By which the distance of a variable is multiplied."""
        return float(self.weights.get(name, 1.0))

    def between(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> float:
        """Distance of two records, each an entry for every variable by its name."""
        return sum(
            self.weight(name) * _distance(kind, np.asarray(x[name]), np.asarray(y[name]))
            for name, kind in self.distances.items()
        )

    @property
    def words(self) -> str:
        """The distance of two records."""
        return " + ".join(
            ("" if self.weight(name) == 1.0 else f"{self.weight(name):.12g} ") + _words(name, kind)
            for name, kind in self.distances.items()
        )

    @property
    def relation(self) -> str:
        """The neighbor relation of data sets one unit apart."""
        return distance_relation(1, self.words)


def statistic_of(kind: Callable[[Variable], Variable], variable: Variable) -> Variable:
    """The statistic's graph of one number, of which it is a function: a metric is public and fixed.

    Raises
    ------
    DomainError
        It gives something else, or reads what can change: a data variable, a generator.
    """
    value = pt.as_tensor(kind(variable))
    others = [v for v in graph_inputs([value], [variable]) if v is not variable]
    changing = [v for v in others if not isinstance(v, Constant)]
    if changing:
        raise DomainError(
            "a statistic of a metric is a function of one record's number and of nothing else",
            got=f"one that reads {', '.join(str(v.name or v.type) for v in changing)}",
            do="write the numbers themselves into it, chosen without the data",
        )
    if value.type.ndim != 0 or not value.type.dtype.startswith("float"):
        raise DomainError(
            "a statistic of a metric gives one number",
            got=f"{value.type}",
            allowed="a function of a scalar PyTensor variable, such as lambda y: y**2",
        )
    return value


@functools.lru_cache(maxsize=64)
def compiled(kind: Callable[[Variable], Variable]) -> Callable[[float], float]:
    """The statistic as a function of numbers."""
    at = pt.dscalar()
    function = pytensor.function([at], statistic_of(kind, at), mode="FAST_COMPILE")
    return lambda value: float(function(value))


def relation_of(neighbors: Any) -> str:
    """The relation of a metric; of anything else, the refusal."""
    return neighbors.relation if isinstance(neighbors, Metric) else check_records(neighbors)


def check_metric(metric: Metric, sources: Sequence[Source], graph: RecordGraph) -> str:
    """Refuse a metric that does not fit the private variables; return what it claims.

    Raises
    ------
    DomainError
        It names what is not private, or leaves out what the likelihood reads; a norm of text.
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
    blind = sorted(record_reads - measured)
    if blind:
        raise DomainError(
            "the metric is 0 for records whose likelihoods differ",
            got=f"no distance of {', '.join(blind)}",
            allowed=f"a distance for each of {', '.join(sorted(record_reads))}",
            do="add it, with 'hamming' if any change counts alike, or declare it public",
        )
    for source in sources:
        kinds = [k for name, k in metric.distances.items() if aliases[name] == source.name]
        if len(kinds) > 1:
            raise DomainError(f"two distances of '{source.name}' under two names")
        single = source.row_shape == ()
        if kinds and not single and (callable(kinds[0]) or kinds[0] == "absolute"):
            raise DomainError(
                f"the distance of '{source.name}' is for single numbers",
                got=f"an entry of shape {source.row_shape}",
                allowed="l1, l2, linf or hamming",
            )
    return "distances are between data within the domain, after clipping"


def _distance(kind: str | Callable[[Variable], Variable], x: np.ndarray, y: np.ndarray) -> float:
    if callable(kind):
        value = compiled(kind)
        return abs(value(float(x)) - value(float(y)))
    if kind == HAMMING:
        return float(np.any(x != y))
    order = {"absolute": 1, "l1": 1, "l2": 2, "linf": np.inf}[kind]
    whole = x.dtype.kind in "iub" and y.dtype.kind in "iub"
    number = object if whole else float  # in their own types short integers wrap around
    away = np.abs(np.ravel(x).astype(number) - np.ravel(y).astype(number)).astype(float)
    found = float(np.linalg.norm(away, order))
    return found if whole and order != 2 and found < 2.0**53 else found * ROUNDED_UP


def _words(name: str, kind: str | Callable[[Variable], Variable]) -> str:
    if callable(kind):
        return _statistic_words(name, kind)
    if kind == HAMMING:
        return f"[{name} differs]"
    if kind == "absolute":
        return f"|{name} - {name}'|"
    return f"||{name} - {name}'||_{kind.removeprefix('l')}"


def _statistic_words(name: str, kind: Callable[[Variable], Variable]) -> str:
    """A formula, and a digest of the exact graph: two statistics with one name are not one."""
    variable = pt.dscalar(name)
    graph = statistic_of(kind, variable)
    constants = [v.data for v in ancestors([graph]) if isinstance(v, Constant)]
    text = pytensor.dprint(graph, file="str", print_type=True)
    exact = repr((text, [np.asarray(c).tolist() for c in constants]))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:8]
    formula = "".join(c for c in str(pprint(graph)) if c not in "{}\n")
    return f"|f({name}) - f({name}')| with f = {formula} (#{digest})"
