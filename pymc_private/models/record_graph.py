"""The record's graph, log p(record | parameters), and the proof that it is one.

Every factor of the model (likelihood, potential, prior) that reads a private variable is labeled
element by element (`analysis.record_dependence`). It belongs to the record graph iff element i reads record i
only, or if it is a sum of windows: rows that read a few neighboring records each.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pymc.logprob.basic import conditional_logp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import SpecifyShape
from pymc_private.analysis import NONE, refuse_joint_conditions, row_labels, simplify
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.rewrites.normal_cdf import one_normal_tail
from pymc_private.analysis.traversal__rebuild import Rule, rebuild
from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models.sequences.row_identity__alike import proved_alike, refuse_many_ends, untold_rows
from pymc_private.models.sequences.row_identity__counts import of_any_count
from pymc_private.models.sequences.row_identity import is_pinned, is_told, public_data, row_arrays, tells_rows_apart
from pymc_private.models.sequences.windows import Cutter, Window
from pymc_private.models.record_graph__factor_parts import FactorParts
from pymc_private.models.declare__intake import derived, record_latent
from pymc_private.models.record_terms import RecordTerms
from pymc_private.models.data_variables import Source

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
        Whether rows differ in what they compute, so that the graph needs the model's own n rows.
    clip : (float, float) or None
        Public ends between which `record` is clipped (T25).
    windows : tuple of Window
        Where some factor rows read several records: all factor rows, by kind. Then `record` has one
        entry for each factor row, in this order, instead of one for each record.
    apart : Variable or None, scalar
        What of the record's factors reads no record. It is part of `prior`: no power tempers it.
    terms : tuple of str
        Names of all factors of the model, private and public, in order.
    """

    record: Variable
    prior: Variable
    parameters: dict[str, Variable]
    data: dict[str, Variable]
    factors: tuple[str, ...]
    pinned: bool
    clip: tuple[float, float] | None = None
    windows: tuple[Window, ...] = ()
    apart: Variable | None = None
    terms: tuple[str, ...] = ()


def build_record_graph(
    model: pm.Model,
    sources: Sequence[Source],
    n: int,
    constants: str,
    counts_records: bool = True,
) -> RecordGraph:
    """Collect the record's factors and prove that each is row-wise.

    Parameters
    ----------
    model : pymc.Model
        Left untouched.
    sources : sequence of Source
        The private variables.
    n : int
        Number of records.
    constants : {"private", "public"}
        Whether arrays that are read row by row, and are no source, are refused.
    counts_records : bool
        Whether the number of records is public and may be computed with. If not, each factor is
        row-wise or a sum of one term per record, whatever their number.

    Raises
    ------
    NotCertified
        Naming a factor that reads several records (AR, random walks, a mean inside the graph), or a
        prior that reads the data.
    Unsupported
        A parameter with one entry per record.
    DomainError
        An array per record that has no declared domain.
    """
    unsized = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    parameters = _of_known_size(model, unsized)
    data = {s.name: s.input() for s in sources}
    unlimited = {s.variable: s.of_any_length() for s in sources}
    terms = factor_terms(model, unsized, unlimited, counts_records)
    swaps = {unlimited[s.variable]: data[s.name] for s in sources}
    swaps |= {v: parameters[name] for name, v in unsized.items()}
    raw = _of_any_length([term for _, term in terms], swaps, counts_records)
    outs = [one_normal_tail(out) for out in simplify(raw)]
    values = stand_ins([*raw, *outs], parameters, data, sources)
    trail = row_labels(outs, labels_of_records(values, data, sources, n), values)
    cutter = Cutter(data, sources, values, labels_of_records(values, data, sources, n), n)
    terms_of = cutter if counts_records else _record_terms(values, data, sources, constants, cutter)
    parts = FactorParts()
    for (name, _), out, before in zip(terms, outs, raw, strict=True):
        parts.add(name, out, before, trail[out], terms_of, n, is_prior=name in parameters)
    parts.refuse_nothing_private()
    named = zip(outs, terms, strict=True)
    refuse_joint_conditions([v for v, (name, _) in named if not parts.is_cut(name)], trail)
    _refuse_row_parameters(parts, parameters, values, n)
    if constants == "private":
        _refuse_row_arrays(row_arrays(parts.factors, values, n), parts.names)
    graph = RecordGraph(parts.base, parts.base, parameters, data, tuple(parts.names), True)
    graph = replace(graph, apart=parts.rest, terms=tuple(name for name, _ in terms))
    if parts.windows:
        rows, made = _factor_rows(parts, graph, sources, values, n, constants)
        return replace(graph, record=rows, windows=made)
    inputs = {data[s.name]: s for s in sources}
    total, pinned = _unpinned(_sum(parts.record), inputs, values, n)
    if constants == "private" and pinned and not is_told(total, inputs, values, n):
        raise untold_rows(parts.names)
    return replace(graph, record=total, pinned=pinned)


def _factor_rows(
    parts: FactorParts,
    graph: RecordGraph,
    sources: Sequence[Source],
    values: dict[Variable, np.ndarray],
    n: int,
    constants: str,
) -> tuple[Variable, tuple[Window, ...]]:
    """All factor rows, where some of them read several records, and the windows they come from."""
    windows = list(parts.windows)
    if parts.record:
        own = {(s.name, 0): graph.data[s.name] for s in sources}
        plain, rows = ", ".join(parts.plain), _sum(parts.record)
        windows = [Window(plain, rows, rows, own, n, values), *windows]
    windows = _alike_windows(windows, sources, n, constants)
    return simplify([pt.concatenate([w.rows for w in windows])])[0], tuple(windows)


def _record_terms(
    values: dict[Variable, np.ndarray],
    data: dict[str, Variable],
    sources: Sequence[Source],
    constants: str,
    cutter: Cutter,
) -> RecordTerms:
    """What takes factors apart where the number of records is protected."""

    def sized(count: int) -> dict[Variable, np.ndarray]:
        return values | {data[s.name]: s.stand_in(count) for s in sources}

    return RecordTerms(data, sources, sized, cutter.given.n, constants, cutter)


def _unpinned(
    record: Variable, inputs: Mapping[Variable, Source], values: dict[Variable, np.ndarray], n: int
) -> tuple[Variable, bool]:
    """The graph, of any number of records if its rows are alike then, and whether it is pinned."""
    if not is_pinned(record, inputs, values, n):
        return record, False
    loose = of_any_count(record, {v: s.axis for v, s in inputs.items()}, n)
    if loose is record or is_pinned(loose, inputs, values, n):
        return record, True
    return loose, False


def _of_known_size(model: pm.Model, inputs: dict[str, Variable]) -> dict[str, Variable]:
    """Inputs with the sizes that only dims know in their types: composites ask for them."""
    shapes = model.eval_rv_shapes()
    return {
        name: v.type.clone(shape=tuple(map(int, shapes[name])))(name=name)
        for name, v in inputs.items()
    }


def _sum(terms: Sequence[Variable]) -> Variable:
    """Their sum."""
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _alike_windows(
    windows: Sequence[Window], sources: Sequence[Source], n: int, constants: str
) -> list[Window]:
    """Windows whose rows are proved to be one function."""
    alike = [proved_alike(w, sources, constants) for w in windows]
    if constants == "private":
        refuse_many_ends(alike, n)
    return alike


def factor_terms(
    model: pm.Model,
    parameters: dict[str, Variable],
    inputs: Mapping[Variable, Variable] | None = None,
    counts_records: bool = True,
) -> list[tuple[str, Variable]]:
    """Every factor of the joint density, by name, in the parameters' natural space.

    Parameters
    ----------
    model : pymc.Model
    parameters : dict of str to Variable
        Inputs for the free variables.
    inputs : mapping of Variable to Variable, optional
        What to read in place of some of the model's data. It is put in before PyMC rewrites
        anything: a length that is known from a type would become a plain number.
    counts_records : bool
        As for `build_record_graph`.

    Raises
    ------
    NotCertified
        A factor holds a random draw that is no variable of the model.
    """
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    roots = [*model.free_RVs, *observed, *model.potentials, *observed.values()]
    made = dict(zip(roots, _put_in(roots, inputs or {}, counts_records), strict=True))
    values = {made[rv]: parameters[rv.name] for rv in model.free_RVs}
    values |= {made[rv]: made[value] for rv, value in observed.items()}
    logps = derived(lambda: conditional_logp(values))
    rvs = [*model.free_RVs, *observed]
    terms = [(rv.name, logps[values[made[rv]]]) for rv in rvs]
    terms += [(p.name, rebuild([made[p]], values)[0]) for p in model.potentials]
    for name, term in terms:
        drawn = [v for v in ancestors([term]) if isinstance(v.type, RandomType)]
        if drawn:
            raise NotCertified(
                f"the factor '{name}' holds a random draw that is no variable of the model",
                blame=(name,),
                cure="give every distribution a name inside the model, or a density of its own",
            )
    return terms


def _of_any_length(
    terms: Sequence[Variable], swaps: dict[Variable, Variable], counts_records: bool
) -> list[Variable]:
    """The terms on new inputs, without the model's own number of records in their types.

    A number in a type comes back as a constant when the graph is simplified.
    """

    def unsized(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, SpecifyShape) else None

    return _put_in(terms, swaps, counts_records, unsized)


def _put_in(
    outs: Sequence[Variable],
    swaps: Mapping[Variable, Variable],
    counts_records: bool,
    rule: Rule | None = None,
) -> list[Variable]:
    """Graphs on new inputs, each node made anew for them where its Op can be.

    Raises
    ------
    Unsupported
        An Op holds on to the sizes it was made for, and the number of records is protected.
    """
    try:
        return rebuild(outs, swaps) if rule is None else rebuild(outs, swaps, rule)
    except (*UNCOMPUTABLE, MethodNotDefined) as error:
        if counts_records:
            return graph_replace(list(outs), dict(swaps), strict=False)
        raise Unsupported(
            "a part of the model holds on to the sizes it was made for, the number of records "
            "among them",
            got=type(error).__name__,
            allowed="under add/remove, operations that take any number of records",
            do="use neighbors='substitute', where the number of records is public",
        ) from None


def stand_ins(
    outs: Sequence[Variable],
    parameters: dict[str, Variable],
    data: dict[str, Variable],
    sources: Sequence[Source],
) -> dict[Variable, np.ndarray]:
    """Public values of the model's own shapes, from shapes and domains, never from data."""
    values = {v: np.full(v.type.shape, 0.5, dtype=v.type.dtype) for v in parameters.values()}
    values |= {data[s.name]: s.stand_in() for s in sources}
    return values | {v: v.get_value() for v in public_data(outs)}


def labels_of_records(
    values: dict[Variable, np.ndarray], data: dict[str, Variable], sources: Sequence[Source], n: int
) -> dict[Variable, np.ndarray]:
    """Label i for element i of each private variable along its records axis; NONE elsewhere."""
    labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
    for s in sources:
        row = np.expand_dims(np.arange(n), tuple(a for a in range(len(s.shape)) if a != s.axis))
        labels[data[s.name]] = np.broadcast_to(row, s.shape)
    return labels


def _refuse_row_parameters(
    parts: FactorParts,
    parameters: dict[str, Variable],
    values: dict[Variable, np.ndarray],
    n: int,
) -> None:
    """Refuse a parameter of which each row reads its own entry."""
    factors, counts = parts.factors, {n, *(w.count for w in parts.windows)}
    for name, variable in parameters.items():
        if not counts.isdisjoint(np.shape(values[variable])) and tells_rows_apart(
            factors, variable, values
        ):
            raise record_latent(name, f"shape {np.shape(values[variable])}")


def _refuse_row_arrays(arrays: Sequence[Variable], factors: Sequence[str]) -> None:
    """Refuse arrays that may hold records, where constants are private."""
    if arrays:
        raise DomainError(
            "a constant of the likelihood is read row by row, and is not declared",
            got=", ".join(f"an array of shape {np.shape(v.data)}" for v in arrays)
            + f", in {', '.join(factors)}",
            allowed="arrays with the records axis and a domain (see pmp.constants)",
            do="hold it in pm.Data with the records dim and declare its domain, or claim "
            "constants='public' if it is no secret",
        )
