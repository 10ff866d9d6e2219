"""Record graphs: log p(record | parameters) for all records, with proof.

Every factor of a model (likelihood, potential, prior) that reads a private variable is labeled
element by element (`analysis.record_dependence`). It belongs to the record graph iff element i
reads record i only, or if it is a sum of windows: rows that read a few neighboring records each
(`sequences.windows`). The log-likelihood of each record can be clipped to public bounds (T25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import (
    NONE,
    checks_to_switches,
    clamp,
    element_labels,
    is_clamp,
    refuse_joint_conditions,
    simplify,
)
from pymc_private.analysis.intervals.dispatch import EVALUATION_ERRORS
from pymc_private.analysis.intervals.ops import expand_log_phi
from pymc_private.analysis.rewrites.normal_cdf import continuous_normal_lcdf
from pymc_private.analysis.traversal import ReplacementRule, rebuild
from pymc_private.errors import DomainError, NotCertified, PymcPrivateError, Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.record_terms import RecordTerms
from pymc_private.models.sequences.row_identity import (
    check_row_equivalence,
    depends_on_row_identity,
    distinguishes_rows,
    is_identified_by_data,
    per_record_constants,
    public_data,
    refuse_many_boundary_rows,
    structural_rows_error,
    with_symbolic_count,
)
from pymc_private.models.sequences.windows import RecordWindow, WindowSplitter


@dataclass
class FactorParts:
    """Factors by what they read: the terms of single records, windows, and the prior.

    What of a factor reads no record, though the rest does, is in `prior` and in `apart`.
    """

    record: list[Variable] = field(default_factory=list)
    prior: list[Variable] = field(default_factory=list)
    apart: list[Variable] = field(default_factory=list)
    windows: list[RecordWindow] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    factors: list[Variable] = field(default_factory=list)

    @property
    def base(self) -> Variable:
        """The log prior density, public parts of all factors with it."""
        return pt.add(*self.prior) if len(self.prior) > 1 else [*self.prior, pt.constant(0.0)][0]

    @property
    def rest(self) -> Variable | None:
        """What of the record's factors reads no record; None where there is nothing of the kind."""
        return pt.add(*self.apart) if len(self.apart) > 1 else [*self.apart, None][0]

    def is_cut(self, name: str) -> bool:
        """Whether windows were cut from a factor."""
        return any(window.name == name for window in self.windows)

    def refuse_nothing_private(self) -> None:
        """Refuse a model whose factors read no private variable."""
        if not (self.record or self.windows):
            raise NotCertified(
                "no factor of the model reads a private variable",
                cure="name the records dim (or {data variable: axis}) of the likelihood's data",
            )

    def add(
        self,
        name: str,
        out: Variable,
        before: Variable,
        label: np.ndarray,
        cutter: WindowSplitter | RecordTerms,
        n: int,
        *,
        is_prior: bool,
    ) -> None:
        """Take one factor in, simplified and as it was before."""
        counts = isinstance(cutter, RecordTerms) and not is_prior and cutter.reads(out)
        if not counts and not np.any(label != NONE):
            self.prior.append(out.sum())
            return
        rows = _sum_to_rows(name, out, label, n, is_prior=is_prior)
        self.names.append(name)
        if rows is not None:
            self.record.append(rows)
            self.plain.append(name)
            self.factors.append(before)
            return
        if isinstance(cutter, RecordTerms):
            self._add_terms(name, before, out, cutter)
            return
        found, public = cutter.windows(name, before)
        self._set_apart(public)
        self.factors += [window.rows for window in found]
        # A sum over all records was written out, or some factor row reads several records.
        alone = [w for w in found if w.is_row_wise(n)]
        self.record += [simplify([w.rows])[0] for w in alone]
        self.plain += [name] if alone else []
        self.windows += [window for window in found if not window.is_row_wise(n)]

    def _add_terms(self, name: str, before: Variable, out: Variable, cutter: RecordTerms) -> None:
        """Take a factor in as a sum of one term per record, whatever their number."""
        found = cutter.terms(name, before, out)
        self._set_apart(found.rest)
        self.factors += found.rows
        self.plain.append(name)
        self.record += [continuous_normal_lcdf(rows) for rows in simplify(found.rows)]

    def _set_apart(self, parts: list[Variable]) -> None:
        """Parts of a factor that read no record belong to the prior."""
        parts = simplify(parts) if parts else parts
        self.prior += parts
        self.apart += parts


def _sum_to_rows(
    name: str, out: Variable, label: np.ndarray, n: int, is_prior: bool
) -> Variable | None:
    """The factor summed over every axis but that of the records; None if it is not row-wise."""
    if is_prior:
        raise NotCertified(
            f"the prior of '{name}' reads the private data",
            blame=(name,),
            cure="priors must be public: write its parameters as numbers fixed without the data",
        )
    # Rows of no record at all, whose axis is not known to be that of the records, are no rows.
    if not np.any(label != NONE):
        return None
    # A square factor comes of broadcasting (n, 1) with (n,): its axes cannot be told apart.
    square = label.shape.count(n) > 1
    for axis in range(label.ndim if not square else 1):
        rows = np.moveaxis(label, axis, 0).reshape(label.shape[axis], -1)
        own = np.arange(len(rows))[:, None]
        if len(rows) == n and np.all((rows == own) | (rows == NONE)):
            return out.sum(axis=tuple(a for a in range(label.ndim) if a != axis))
    return None


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
    windows: tuple[RecordWindow, ...] = ()
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
    parameters = _with_known_sizes(model, unsized)
    data = {s.name: s.input() for s in sources}
    unlimited = {s.variable: s.of_any_length() for s in sources}
    terms = factor_terms(model, unsized, unlimited, counts_records)
    swaps = {unlimited[s.variable]: data[s.name] for s in sources}
    swaps |= {v: parameters[name] for name, v in unsized.items()}
    raw = _without_static_sizes([term for _, term in terms], swaps, counts_records)
    outs = [continuous_normal_lcdf(out) for out in simplify(raw)]
    values = stand_in_values([*raw, *outs], parameters, data, sources)
    trail = element_labels(outs, input_record_labels(values, data, sources, n), values)
    cutter = WindowSplitter(data, sources, values, input_record_labels(values, data, sources, n), n)
    terms_of = (
        cutter if counts_records else _record_splitter(values, data, sources, constants, cutter)
    )
    parts = FactorParts()
    for (name, _), out, before in zip(terms, outs, raw, strict=True):
        parts.add(name, out, before, trail[out], terms_of, n, is_prior=name in parameters)
    parts.refuse_nothing_private()
    named = zip(outs, terms, strict=True)
    refuse_joint_conditions([v for v, (name, _) in named if not parts.is_cut(name)], trail)
    _refuse_row_parameters(parts, parameters, values, n)
    if constants == "private":
        _refuse_row_arrays(per_record_constants(parts.factors, values, n), parts.names)
    graph = RecordGraph(parts.base, parts.base, parameters, data, tuple(parts.names), True)
    graph = replace(graph, apart=parts.rest, terms=tuple(name for name, _ in terms))
    if parts.windows:
        rows, made = _factor_rows(parts, graph, sources, values, n, constants)
        return replace(graph, record=rows, windows=made)
    inputs = {data[s.name]: s for s in sources}
    total, pinned = _without_pinned_count(_sum_terms(parts.record), inputs, values, n)
    if constants == "private" and pinned and not is_identified_by_data(total, inputs, values, n):
        raise structural_rows_error(parts.names)
    return replace(graph, record=total, pinned=pinned)


def _factor_rows(
    parts: FactorParts,
    graph: RecordGraph,
    sources: Sequence[Source],
    values: dict[Variable, np.ndarray],
    n: int,
    constants: str,
) -> tuple[Variable, tuple[RecordWindow, ...]]:
    """All factor rows, where some of them read several records, and the windows they come from."""
    windows = list(parts.windows)
    if parts.record:
        own = {(s.name, 0): graph.data[s.name] for s in sources}
        plain, rows = ", ".join(parts.plain), _sum_terms(parts.record)
        windows = [RecordWindow(plain, rows, rows, own, n, values), *windows]
    windows = _checked_windows(windows, sources, n, constants)
    return simplify([pt.concatenate([w.rows for w in windows])])[0], tuple(windows)


def _record_splitter(
    values: dict[Variable, np.ndarray],
    data: dict[str, Variable],
    sources: Sequence[Source],
    constants: str,
    cutter: WindowSplitter,
) -> RecordTerms:
    """What takes factors apart where the number of records is protected."""

    def sized(count: int) -> dict[Variable, np.ndarray]:
        return values | {data[s.name]: s.stand_in(count) for s in sources}

    return RecordTerms(data, sources, sized, cutter.given.n, constants, cutter)


def _without_pinned_count(
    record: Variable, inputs: Mapping[Variable, Source], values: dict[Variable, np.ndarray], n: int
) -> tuple[Variable, bool]:
    """The graph, of any number of records if its rows are alike then, and whether it is pinned."""
    if not depends_on_row_identity(record, inputs, values, n):
        return record, False
    loose = with_symbolic_count(record, {v: s.axis for v, s in inputs.items()}, n)
    if loose is record or depends_on_row_identity(loose, inputs, values, n):
        return record, True
    return loose, False


def _with_known_sizes(model: pm.Model, inputs: dict[str, Variable]) -> dict[str, Variable]:
    """Inputs with the sizes that only dims know in their types: composites ask for them."""
    shapes = model.eval_rv_shapes()
    return {
        name: v.type.clone(shape=tuple(map(int, shapes[name])))(name=name)
        for name, v in inputs.items()
    }


def _sum_terms(terms: Sequence[Variable]) -> Variable:
    """Their sum."""
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _checked_windows(
    windows: Sequence[RecordWindow], sources: Sequence[Source], n: int, constants: str
) -> list[RecordWindow]:
    """Windows whose rows are proved to be one function."""
    alike = [check_row_equivalence(w, sources, constants) for w in windows]
    if constants == "private":
        refuse_many_boundary_rows(alike, n)
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
    made = dict(zip(roots, _substitute(roots, inputs or {}, counts_records), strict=True))
    values = {made[rv]: parameters[rv.name] for rv in model.free_RVs}
    values |= {made[rv]: made[value] for rv, value in observed.items()}
    logps = derive_logps(lambda: conditional_logp(values))
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


def _without_static_sizes(
    terms: Sequence[Variable], swaps: dict[Variable, Variable], counts_records: bool
) -> list[Variable]:
    """The terms on new inputs, without the model's own number of records in their types.

    A number in a type comes back as a constant when the graph is simplified.
    """

    def unsized(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, SpecifyShape) else None

    return _substitute(terms, swaps, counts_records, unsized)


def _substitute(
    outs: Sequence[Variable],
    swaps: Mapping[Variable, Variable],
    counts_records: bool,
    rule: ReplacementRule | None = None,
) -> list[Variable]:
    """Graphs on new inputs, each node made anew for them where its Op can be.

    Raises
    ------
    Unsupported
        An Op holds on to the sizes it was made for, and the number of records is protected.
    """
    try:
        return rebuild(outs, swaps) if rule is None else rebuild(outs, swaps, rule)
    except (*EVALUATION_ERRORS, MethodNotDefined) as error:
        if counts_records:
            return graph_replace(list(outs), dict(swaps), strict=False)
        raise Unsupported(
            "a part of the model holds on to the sizes it was made for, the number of records "
            "among them",
            got=type(error).__name__,
            allowed="under add/remove, operations that take any number of records",
            do="use neighbors='substitute', where the number of records is public",
        ) from None


def stand_in_values(
    outs: Sequence[Variable],
    parameters: dict[str, Variable],
    data: dict[str, Variable],
    sources: Sequence[Source],
) -> dict[Variable, np.ndarray]:
    """Public values of the model's own shapes, from shapes and domains, never from data."""
    values = {v: np.full(v.type.shape, 0.5, dtype=v.type.dtype) for v in parameters.values()}
    values |= {data[s.name]: s.stand_in() for s in sources}
    return values | {v: v.get_value() for v in public_data(outs)}


def input_record_labels(
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
        if not counts.isdisjoint(np.shape(values[variable])) and distinguishes_rows(
            factors, variable, values
        ):
            raise per_record_parameter_error(name, f"shape {np.shape(values[variable])}")


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


ClipBounds = tuple[float, float]


def clipped_graph(
    graph: RecordGraph, ends: ClipBounds, sources: Sequence[Source], n: int
) -> RecordGraph:
    """The same graph with every record's total between two ends.

    NaN counts as the lower end, and so does a record for which a condition of the model fails. A
    graph that is clipped already is clipped to what both clips allow.

    Parameters
    ----------
    graph : RecordGraph
    ends : (float, float)
        Lower and upper, in that order.
    sources : sequence of Source
    n : int
        Number of records.

    Raises
    ------
    NotCertified
        A condition of the model that cannot be told apart by records.
    """
    if graph.windows:
        return _with_clipped_windows(graph, ends, sources)
    private = set(graph.data.values())
    total = checks_to_switches([unclipped_record(graph)], private)[0]
    # The lower end brings the number of records, which an Op without a rule does not tell.
    count = graph.data[sources[0].name].shape[sources[0].axis]
    floor = pt.full((count,), np.float64(ends[0]))
    record = clamp(pt.cast(total, "float64"), floor, np.float64(ends[1]))
    values = stand_in_values([record], graph.parameters, graph.data, sources)
    _refuse_shared_conditions(graph, record, values, sources, n)
    pinned = graph.pinned or depends_on_row_identity(
        record, {graph.data[s.name]: s for s in sources}, values, n
    )
    return replace(graph, record=record, pinned=pinned, clip=ends)


def _with_clipped_windows(
    graph: RecordGraph, ends: ClipBounds, sources: Sequence[Source]
) -> RecordGraph:
    """Every factor row between two ends, where some read several records."""
    windows = tuple(_clipped_window(w, ends, graph, sources) for w in graph.windows)
    bare = pt.concatenate([window.rows.owner.inputs[0] for window in windows])
    count = sum(window.count for window in windows)
    record = clamp(bare, pt.full((count,), np.float64(ends[0])), np.float64(ends[1]))
    return replace(graph, record=record, windows=windows, clip=ends)


def _clipped_window(
    window: RecordWindow, ends: ClipBounds, graph: RecordGraph, sources: Sequence[Source]
) -> RecordWindow:
    """A window with its rows clipped; each row must still stand for itself."""
    inputs = window.sources(sources)
    variable, source = next(iter(inputs.items()))
    own = checks_to_switches([_unclipped_rows(window.shifted, graph)], set(inputs))[0]
    floor = pt.full((variable.shape[source.axis],), np.float64(ends[0]))
    shifted = clamp(pt.cast(own, "float64"), floor, np.float64(ends[1]))
    rows = checks_to_switches([_unclipped_rows(window.rows, graph)], set(graph.data.values()))[0]
    rows = clamp(pt.cast(rows, "float64"), np.float64(ends[0]), np.float64(ends[1]))
    data = {s.name: v for v, s in inputs.items()}
    alone = replace(graph, data=data, factors=(window.name,))
    _refuse_shared_conditions(alone, shifted, window.values, list(inputs.values()), window.count)
    pinned = window.pinned or depends_on_row_identity(shifted, inputs, window.values, window.count)
    return replace(window, rows=rows, shifted=shifted, pinned=pinned and window.count > 1)


def _unclipped_rows(rows: Variable, graph: RecordGraph) -> Variable:
    """Factor rows before any clip."""
    return rows.owner.inputs[0] if graph.clip is not None and is_clamp(rows.owner) else rows


def unclipped_record(graph: RecordGraph) -> Variable:
    """Log-likelihood of each record before any clip."""
    node = graph.record.owner
    return node.inputs[0] if graph.clip is not None and is_clamp(node) else graph.record


def record_in_plain_ops(graph: RecordGraph) -> Variable:
    """The log-likelihood of each record, clipped or not, in Ops that every back end compiles."""
    total = expand_log_phi(unclipped_record(graph))
    if graph.clip is None:
        return total
    low, high = graph.clip
    return pt.switch(pt.isnan(total), low, pt.clip(total, low, high))


def _refuse_shared_conditions(
    graph: RecordGraph,
    record: Variable,
    values: Mapping[Variable, np.ndarray],
    sources: Sequence[Source],
    n: int,
) -> None:
    """Refuse a condition that would make the value of one record hang on another."""
    labels = input_record_labels(dict(values), graph.data, sources, n)
    try:
        rows = element_labels([record], labels, values)[record]
        apart = np.shape(rows) == (n,) and bool(np.all((rows == np.arange(n)) | (rows == NONE)))
    except EVALUATION_ERRORS:
        apart = False
    if not apart:
        raise NotCertified(
            "a condition of the model cannot be told apart by records, so clipping would leave "
            "them coupled",
            blame=graph.factors,
            cure="trim until the condition is certain, and leave the check out of the model",
        )


Result = TypeVar("Result")


def derive_logps(logps: Callable[[], Result]) -> Result:
    """Derive log-densities; PyMC's refusal of a distribution that has none is ours.

    Raises
    ------
    Unsupported
    """
    try:
        return logps()
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, PymcPrivateError):
            raise
        raise Unsupported(
            "PyMC derives no log-density of a distribution of this model",
            got=str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
            allowed="distributions whose log-density is known, or derived from dist=",
            do="pass logp= to the CustomDist, or write it with distributions of PyMC",
        ) from error


def per_record_parameter_error(name: str, got: str) -> Unsupported:
    """The refusal of a parameter that belongs to single records."""
    return Unsupported(
        f"the parameter '{name}' has one entry per record",
        got=got,
        allowed="parameters shared by all records",
        do="integrate it out of the likelihood (for example a mixture or an overdispersed "
        "likelihood) so that only shared parameters are drawn",
    )
