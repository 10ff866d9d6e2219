"""The record's graph, log p(record | parameters), and the proof that it is one.

Every factor of the model (likelihood, potential, prior) that reads a private variable is labeled
element by element (`analysis.rows`). It belongs to the record graph iff element i reads record i
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_private.analysis import MIXED, NONE, row_labels, simplify
from pymc_private.analysis.rows import Concrete
from pymc_private.errors import NotCertified
from pymc_private.models.pinning import counted, is_pinned, public_data
from pymc_private.models.sources import Source


@dataclass(frozen=True, eq=False)
class RecordGraph:
    """Graphs of a model with every private variable and parameter as an input.

    Parameters
    ----------
    record : Variable, shape (n,)
        Log-likelihood of each record, all its factors added, in nats.
    prior : Variable, scalar
        Log prior density of the parameters (constrained space) and public potentials.
    parameters : dict of str to Variable
        Inputs for the free variables, in their natural (untransformed) space.
    data : dict of str to Variable
        Inputs for the private variables.
    factors : tuple of str
        Names of the factors that make up the record.
    pinned : bool
        Whether public constants tie the graph to the model's own n rows.
    counted : dict of Variable to array
        Lengths and positions used as numbers, with their values at n rows.
    """

    record: Variable
    prior: Variable
    parameters: dict[str, Variable]
    data: dict[str, Variable]
    factors: tuple[str, ...]
    pinned: bool
    counted: dict[Variable, np.ndarray]


def build_record_graph(model: pm.Model, sources: Sequence[Source], n: int) -> RecordGraph:
    """Collect the record's factors and prove that each is row-wise.

    Parameters
    ----------
    model : pymc.Model
        Left untouched.
    sources : sequence of Source
        The private variables.
    n : int
        Number of records.

    Raises
    ------
    NotCertified
        Naming a factor that reads several records (AR, random walks, a mean inside the graph), or a
        prior that reads the data.
    """
    parameters = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    data = {s.name: s.input() for s in sources}
    terms = _terms(model, parameters)
    # Parameters stand in for themselves: PyTensor 2 copies every input that is not replaced.
    swaps = {s.variable: data[s.name] for s in sources} | {v: v for v in parameters.values()}
    outs = simplify(graph_replace([term for _, term in terms], swaps, strict=False))
    values = _stand_ins(model, outs, parameters, data, sources)
    labels = row_labels(outs, _labels(values, data, sources, n), values)
    record, prior, names = [], [], []
    for (name, _), out, label in zip(terms, outs, labels, strict=True):
        if not np.any(label != NONE):
            prior.append(out.sum())
            continue
        _refuse_unless_rowwise(name, label, n, is_prior=name in parameters)
        record.append(out.sum(axis=tuple(range(1, out.type.ndim))))
        names.append(name)
    if not record:
        raise NotCertified(
            "no factor of the model reads a private variable",
            cure="name the records dim (or {data variable: axis}) of the likelihood's data",
        )
    total = pt.add(*record) if len(record) > 1 else record[0]
    base = pt.add(*prior) if len(prior) > 1 else (prior[0] if prior else pt.constant(0.0))
    lengths = {v: Concrete(values)(v) for v in counted(total, data.values())}
    pinned = is_pinned(total, n)
    return RecordGraph(total, base, parameters, data, tuple(names), pinned, lengths)


def _terms(model: pm.Model, parameters: dict[str, Variable]) -> list[tuple[str, Variable]]:
    """Every factor of the joint density, by name, in the parameters' natural space."""
    values = {rv: parameters[rv.name] for rv in model.free_RVs}
    values |= {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    logps = conditional_logp(values)
    named = [(rv.name, logps[value]) for rv, value in values.items()]
    potentials = graph_replace(
        list(model.potentials), {rv: parameters[rv.name] for rv in model.free_RVs}, strict=False
    )
    return named + [(p.name, out) for p, out in zip(model.potentials, potentials, strict=True)]


def _stand_ins(
    model: pm.Model,
    outs: Sequence[Variable],
    parameters: dict[str, Variable],
    data: dict[str, Variable],
    sources: Sequence[Source],
) -> dict[Variable, np.ndarray]:
    """Public values of the model's own shapes, from shapes and domains, never from data."""
    shapes = model.eval_rv_shapes()
    values = {v: np.full(shapes[name], 0.5, dtype=v.type.dtype) for name, v in parameters.items()}
    values |= {data[s.name]: s.stand_in() for s in sources}
    return values | {v: v.get_value() for v in public_data(outs)}


def _labels(
    values: dict[Variable, np.ndarray], data: dict[str, Variable], sources: Sequence[Source], n: int
) -> dict[Variable, np.ndarray]:
    """Label i for element i of each private variable along its records axis; NONE elsewhere."""
    labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
    for s in sources:
        row = np.expand_dims(np.arange(n), tuple(a for a in range(len(s.shape)) if a != s.axis))
        labels[data[s.name]] = np.broadcast_to(row, s.shape)
    return labels


def _refuse_unless_rowwise(name: str, label: np.ndarray, n: int, is_prior: bool) -> None:
    if is_prior:
        raise NotCertified(
            f"the prior of '{name}' reads the private data",
            blame=(name,),
            cure="priors must be public: write its parameters as numbers fixed without the data",
        )
    rows = label.reshape(label.shape[0], -1) if label.ndim else label.reshape(1, 1)
    own = np.arange(rows.shape[0])[:, None]
    if rows.shape[0] == n and np.all((rows == own) | (rows == NONE)):
        return
    several = (
        "reads several records at once" if np.any(rows == MIXED) else "is not aligned with them"
    )
    raise NotCertified(
        f"the factor '{name}' {several}, so one record has no log-likelihood of its own",
        blame=(name,),
        cure="factors must be row-wise along the records axis: no AR, random walk or Gaussian "
        "process over records, no mean or z-score of the data inside the graph; scale by public "
        "constants",
    )
