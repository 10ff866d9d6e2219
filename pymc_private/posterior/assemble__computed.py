"""Deterministics of released draws: recomputed from the draws, or withheld."""

from __future__ import annotations

import warnings
import numpy as np
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.models.add_remove import record_dims, record_lengths
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import constants_with_axis
from pymc_private.models.data_variables__written_arrays import written_arrays
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

@dataclass(frozen=True)
class Computed:
    """What became of a model's Deterministics.

    Attributes
    ----------
    values : dict of str to array, shape (draws, ...)
        Recomputed from the rounded draws, so they hold nothing more than the draws do.
    private : list of str
        Withheld: an ancestor is private or an array written into the model, which may hold
        records, or the variable may have one entry per record. Where the number of records is
        protected, what is withheld does not depend on it: any array is, and any axis that no
        parameter has. Withheld as well: what reads random numbers of its own, which no draw of the
        posterior determines.
    failed : list of str
        Withheld: they could not be computed at these draws. That depends on the draws alone.
    """

    values: dict[str, np.ndarray]
    private: list[str]
    failed: list[str]


def deterministics(
    private: PrivateModel,
    values: Mapping[str, np.ndarray],
    check: Callable[[Mapping[str, np.ndarray]], object],
) -> Computed:
    """Compute the Deterministics of released draws; no failure of theirs stops a release.

    Parameters
    ----------
    private : PrivateModel
    values : mapping of str to array, shape (draws, ...)
        The rounded draws.
    check : callable
        Takes draws and Deterministics by name; raises if a release could not hold them.
    """
    model = private.base
    found = Computed({}, [], [])
    lengths = _telling_lengths(private, values)
    inputs = {rv: private.graph.parameters[rv.name] for rv in model.free_RVs}
    for variable in model.deterministics:
        graph = _at(variable, inputs)
        if _reads_data(private, variable) or _is_random(graph):
            found.private.append(variable.name)
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                array = _evaluate(graph, inputs.values(), values)
                if any(lengths(size) for size in array.shape[1:]):
                    found.private.append(variable.name)
                    continue
                check({**values, **found.values, variable.name: array})
        except Exception:  # what an Op raises at an odd value is up to the Op
            found.failed.append(variable.name)
        else:
            found.values[variable.name] = array
    return found


def _telling_lengths(
    private: PrivateModel, values: Mapping[str, np.ndarray]
) -> Callable[[int], bool]:
    """Whether an axis so long may have one entry per record."""
    if private.neighbors != ADD_REMOVE:
        return lambda size: size == private.n
    known = {1} | {size for array in values.values() for size in array.shape[1:]}
    return lambda size: size not in known


def _reads_data(private: PrivateModel, variable: Any) -> bool:
    model = private.base
    secret = {s.variable for s in private.sources} | set(model.observed_RVs)
    dims = model.named_vars_to_dims.get(variable.name) or ()
    if record_dims(private) & set(dims):
        return True
    if private.neighbors == ADD_REMOVE:
        secret |= set(record_lengths(private))
        return bool(secret & set(ancestors([variable])) or written_arrays([variable], 2, ()))
    # An array with the records axis may be one more copy of a private one, or a part of it.
    copies = constants_with_axis([variable], private.n, skip=())
    parts = written_arrays([variable], private.n, model.data_vars)
    return bool(secret & set(ancestors([variable])) or copies or parts)


def _is_random(graph: Variable) -> bool:
    """Whether it reads a generator: recomputed, every draw would get the same noise."""
    return any(isinstance(v.type, RandomType) for v in ancestors([graph]))


def _at(variable: Variable, inputs: Mapping[Variable, Variable]) -> Variable:
    """The variable's graph with the free variables replaced by inputs."""
    swaps = dict(inputs) | {v: v for v in inputs.values()}
    (graph,) = graph_replace([variable], swaps, strict=False)
    return graph


def _evaluate(
    graph: Variable, inputs: Iterable[Variable], values: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The graph at each draw, interpreted (compiling costs more than a few draws are worth)."""
    public: dict[Any, Any] = {
        v: v.get_value() for v in ancestors([graph]) if hasattr(v, "get_value")
    }
    named = list(inputs)
    count = len(next(iter(values.values())))
    rows = [
        Concrete(public | {v: np.asarray(values[v.name][i]) for v in named})(graph)
        for i in range(count)
    ]
    return np.stack([np.asarray(row) for row in rows])
