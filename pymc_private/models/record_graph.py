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
from pymc_private.analysis.rewrites.normal_cdf import continuous_normal_lcdf, expand_log_phi
from pymc_private.analysis.rewrites.unrolled_scans import unrolled_scans
from pymc_private.analysis.traversal import EVALUATION_ERRORS, ReplacementRule, rebuild
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
from pymc_private.models.sequences.windows import RecordWindow, WindowSplitter, row_numbers

Result = TypeVar("Result")
ClipBounds = tuple[float, float]


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
    rows_differ : bool
        Whether rows differ in what they compute, so that the graph needs the model's own n rows.
    clip : (float, float) or None
        Public bounds to which `record` is clipped (T25).
    windows : tuple of RecordWindow
        Where some factor rows read several records: all factor rows, by window. Then `record` has
        one entry for each factor row, in this order, instead of one for each record.
    public_part : Variable or None, scalar
        The parts of the record's factors that read no record. They are part of `prior`, so no power
        tempers them.
    terms : tuple of str
        Names of all factors of the model, private and public, in order.
    """

    record: Variable
    prior: Variable
    parameters: dict[str, Variable]
    data: dict[str, Variable]
    factors: tuple[str, ...]
    rows_differ: bool
    clip: tuple[float, float] | None = None
    windows: tuple[RecordWindow, ...] = ()
    public_part: Variable | None = None
    terms: tuple[str, ...] = ()


def build_record_graph(
    model: pm.Model,
    sources: Sequence[Source],
    n: int,
    constants: str,
    is_count_public: bool = True,
) -> RecordGraph:
    """Collect the factors of the records and prove that each is row-wise or a sum of windows.

    Refused are factors that read several records otherwise, priors that read the data, parameters
    with one entry per record and, where `constants` are private, undeclared arrays that are read
    row by row. Where the number of records is protected (`is_count_public` false), each factor has
    to be row-wise or a sum of one term per record, whatever their number.
    """
    data = {s.name: s.input() for s in sources}
    names, raw, parameters = _terms_on_inputs(model, sources, data, is_count_public)
    outs = [continuous_normal_lcdf(out) for out in simplify(raw)]
    values = stand_in_values([*raw, *outs], parameters, data, sources)
    labels = input_record_labels(values, data, sources)
    trail = element_labels(outs, labels, values)
    windows = WindowSplitter(data, sources, values, labels, n)
    splitter: WindowSplitter | RecordTerms = windows
    if not is_count_public:
        splitter = _record_splitter(values, data, sources, constants, windows)
    parts = FactorParts()
    for name, out, before in zip(names, outs, raw, strict=True):
        parts.add(name, out, before, trail[out], splitter, n, is_prior=name in parameters)
    parts.refuse_nothing_private()
    whole = [out for out, name in zip(outs, names, strict=True) if not parts.has_windows(name)]
    refuse_joint_conditions(whole, trail)
    _refuse_row_parameters(parts, parameters, values, n)
    if constants == "private":
        _refuse_row_arrays(per_record_constants(parts.factors, values, n), parts.names)
    prior, factors = parts.log_prior, tuple(parts.names)
    graph = RecordGraph(prior, prior, parameters, data, factors, rows_differ=True)
    graph = replace(graph, public_part=parts.public_part, terms=tuple(names))
    if parts.windows:
        return _with_windows(graph, parts, sources, values, n, constants)
    return _with_record(graph, parts, sources, values, n, constants)


def _with_windows(
    graph: RecordGraph,
    parts: FactorParts,
    sources: Sequence[Source],
    values: dict[Variable, np.ndarray],
    n: int,
    constants: str,
) -> RecordGraph:
    """The graph with all factor rows as windows, row-wise ones first, checked for equivalence."""
    windows = list(parts.windows)
    if parts.record:
        own = {(s.name, 0): graph.data[s.name] for s in sources}
        names, rows = ", ".join(parts.row_wise), _sum_terms(parts.record)
        windows = [RecordWindow(names, rows, rows, own, n, values), *windows]
    windows = [check_row_equivalence(w, sources, constants) for w in windows]
    if constants == "private":
        refuse_many_boundary_rows(windows, n)
    record = simplify([pt.concatenate([w.rows for w in windows])])[0]
    return replace(graph, record=record, windows=tuple(windows))


def _with_record(
    graph: RecordGraph,
    parts: FactorParts,
    sources: Sequence[Source],
    values: dict[Variable, np.ndarray],
    n: int,
    constants: str,
) -> RecordGraph:
    """The graph with the sum of all row-wise terms, checked for equivalence of rows."""
    inputs = {graph.data[s.name]: s for s in sources}
    record, rows_differ = _resizable_record(_sum_terms(parts.record), inputs, values, n)
    strict = constants == "private" and rows_differ
    if strict and not is_identified_by_data(record, inputs, values, n):
        raise structural_rows_error(parts.names)
    return replace(graph, record=record, rows_differ=rows_differ)


def _terms_on_inputs(
    model: pm.Model, sources: Sequence[Source], data: dict[str, Variable], is_count_public: bool
) -> tuple[list[str], list[Variable], dict[str, Variable]]:
    """Names and graphs of all factors on inputs for data and parameters; and the latter inputs."""
    unsized = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    parameters = _with_known_sizes(model, unsized)
    resizable = {s.variable: s.input_of_any_length() for s in sources}
    terms = factor_terms(model, unsized, resizable, is_count_public)
    swaps = {resizable[s.variable]: data[s.name] for s in sources}
    swaps |= {v: parameters[name] for name, v in unsized.items()}
    raw = _without_static_sizes([term for _, term in terms], swaps, is_count_public)
    return [name for name, _ in terms], raw, parameters


def _with_known_sizes(model: pm.Model, inputs: dict[str, Variable]) -> dict[str, Variable]:
    """Inputs whose types have the sizes that only dims hold; rules of composites need them."""
    shapes = {name: v.type.shape for name, v in inputs.items()}
    if any(None in shape for shape in shapes.values()):  # to evaluate them takes a compilation
        shapes = model.eval_rv_shapes()
    return {
        name: v.type.clone(shape=tuple(map(int, shapes[name])))(name=name)
        for name, v in inputs.items()
    }


def factor_terms(
    model: pm.Model,
    parameters: dict[str, Variable],
    inputs: Mapping[Variable, Variable] | None = None,
    is_count_public: bool = True,
) -> list[tuple[str, Variable]]:
    """Every factor of the joint density, by name, in the natural space of `parameters`.

    `inputs` replace some of the model's data before PyMC rewrites anything, because a length that
    is known from a type would become a plain number. Loops of a public number of steps are written
    out where the number of records is public. A factor that holds a random draw which is no
    variable of the model is refused.
    """
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    roots = [*model.free_RVs, *observed, *model.potentials, *observed.values()]
    copies = dict(zip(roots, _substitute(roots, inputs or {}, is_count_public), strict=True))
    values = {copies[rv]: parameters[rv.name] for rv in model.free_RVs}
    values |= {copies[rv]: copies[value] for rv, value in observed.items()}
    logps = derive_logps(lambda: conditional_logp(values))
    rvs = [*model.free_RVs, *observed]
    terms = [(rv.name, logps[values[copies[rv]]]) for rv in rvs]
    terms += [(p.name, rebuild([copies[p]], values)[0]) for p in model.potentials]
    if is_count_public:  # written out, a loop would no longer show the number of its steps
        names, found = [name for name, _ in terms], unrolled_scans([term for _, term in terms])
        terms = list(zip(names, found, strict=True))
    for name, term in terms:
        drawn = [v for v in ancestors([term]) if isinstance(v.type, RandomType)]
        if drawn:
            raise NotCertified(
                f"the factor '{name}' holds a random draw that is no variable of the model",
                blame=(name,),
                cure="give every distribution a name inside the model, or a density of its own",
            )
    return terms


def derive_logps(logps: Callable[[], Result]) -> Result:
    """Derive log-densities; a distribution that has none for PyMC is refused as `Unsupported`."""
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


def _without_static_sizes(
    terms: Sequence[Variable], swaps: dict[Variable, Variable], is_count_public: bool
) -> list[Variable]:
    """The terms on new inputs, without the model's own number of records in their types.

    A size in a type would come back as a constant when the graph is simplified.
    """

    def unsized(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, SpecifyShape) else None

    return _substitute(terms, swaps, is_count_public, unsized)


def _substitute(
    outs: Sequence[Variable],
    swaps: Mapping[Variable, Variable],
    is_count_public: bool,
    rule: ReplacementRule | None = None,
) -> list[Variable]:
    """Graphs on new inputs, each node rebuilt for them where its Op allows it.

    An Op that keeps the sizes it was built for is refused where the number of records is protected.
    """
    try:
        return rebuild(outs, swaps) if rule is None else rebuild(outs, swaps, rule)
    except (*EVALUATION_ERRORS, MethodNotDefined) as error:
        if is_count_public:
            return graph_replace(list(outs), dict(swaps), strict=False)
        raise Unsupported(
            "an operation of the model is fixed to the sizes it was built with, the number of "
            "records among them",
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
    """Values of the model's own shapes for all inputs, from shapes and domains, never from data."""
    values = {v: np.full(v.type.shape, 0.5, dtype=v.type.dtype) for v in parameters.values()}
    values |= {data[s.name]: s.stand_in() for s in sources}
    return values | {v: v.get_value() for v in public_data(outs)}


def input_record_labels(
    values: dict[Variable, np.ndarray], data: dict[str, Variable], sources: Sequence[Source]
) -> dict[Variable, np.ndarray]:
    """Label i for entry i of each private variable along its records axis; NONE elsewhere."""
    labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
    return labels | {data[s.name]: row_numbers(s.shape, s.axis) for s in sources}


@dataclass
class FactorParts:
    """Factors by what they read: terms of single records, windows of records, and the prior.

    Attributes
    ----------
    record : list of Variable, shape (n,)
        Row-wise terms, from the factors `row_wise`.
    prior : list of Variable, scalar
        Terms that read no record, `public` ones included.
    public : list of Variable, scalar
        Those parts of factors of records that read no record themselves.
    windows : list of RecordWindow
    names : list of str
        The factors that read records.
    factors : list of Variable
        Their parts that do, as written.
    """

    record: list[Variable] = field(default_factory=list)
    prior: list[Variable] = field(default_factory=list)
    public: list[Variable] = field(default_factory=list)
    windows: list[RecordWindow] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    row_wise: list[str] = field(default_factory=list)
    factors: list[Variable] = field(default_factory=list)

    @property
    def log_prior(self) -> Variable:
        """The log prior density, with the public parts of all factors."""
        return pt.add(*self.prior) if len(self.prior) > 1 else [*self.prior, pt.constant(0.0)][0]

    @property
    def public_part(self) -> Variable | None:
        """The sum of the public parts of factors of records, if there are any."""
        return pt.add(*self.public) if len(self.public) > 1 else [*self.public, None][0]

    def has_windows(self, name: str) -> bool:
        """Whether a factor was split into windows."""
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
        splitter: WindowSplitter | RecordTerms,
        n: int,
        *,
        is_prior: bool,
    ) -> None:
        """Add one factor, simplified (`out`, with its record labels) and as it was `before`."""
        counts = isinstance(splitter, RecordTerms) and not is_prior and splitter.reads(out)
        if not counts and not np.any(label != NONE):
            self.prior.append(out.sum())
            return
        rows = _sum_to_rows(name, out, label, n, is_prior=is_prior)
        self.names.append(name)
        if rows is not None:
            self.record.append(rows)
            self.row_wise.append(name)
            self.factors.append(before)
            return
        if isinstance(splitter, RecordTerms):
            self._add_terms(name, before, out, splitter)
            return
        windows, public = splitter.windows(name, before)
        self._add_public(public)
        self.factors += [window.rows for window in windows]
        # Windows are row-wise where a sum over all records was written as one factor.
        row_wise = [w for w in windows if w.is_row_wise(n)]
        self.record += [simplify([w.rows])[0] for w in row_wise]
        self.row_wise += [name] if row_wise else []
        self.windows += [window for window in windows if not window.is_row_wise(n)]

    def _add_terms(self, name: str, before: Variable, out: Variable, splitter: RecordTerms) -> None:
        """Add a factor as a sum of one term per record, whatever their number."""
        found = splitter.terms(name, before, out)
        self._add_public(found.rest)
        self.factors += found.rows
        self.row_wise.append(name)
        self.record += [continuous_normal_lcdf(rows) for rows in simplify(found.rows)]

    def _add_public(self, parts: list[Variable]) -> None:
        """Add parts of a factor that read no record; they belong to the prior."""
        parts = simplify(parts) if parts else parts
        self.prior += parts
        self.public += parts


def _sum_to_rows(
    name: str, out: Variable, label: np.ndarray, n: int, is_prior: bool
) -> Variable | None:
    """A factor summed over every axis but that of the records; None if it is not row-wise."""
    if is_prior:
        raise NotCertified(
            f"the prior of '{name}' reads the private data",
            blame=(name,),
            cure="priors must be public: write its parameters as numbers fixed without the data",
        )
    # Without a label no axis is known to be that of the records.
    if not np.any(label != NONE):
        return None
    # Broadcasting (n, 1) with (n,) gives a square factor, whose axes cannot be told apart.
    square = label.shape.count(n) > 1
    for axis in range(label.ndim if not square else 1):
        rows = np.moveaxis(label, axis, 0).reshape(label.shape[axis], -1)
        expected = np.arange(len(rows))[:, None]
        if len(rows) == n and np.all((rows == expected) | (rows == NONE)):
            return out.sum(axis=tuple(a for a in range(label.ndim) if a != axis))
    return None


def _record_splitter(
    values: dict[Variable, np.ndarray],
    data: dict[str, Variable],
    sources: Sequence[Source],
    constants: str,
    windows: WindowSplitter,
) -> RecordTerms:
    """The splitter of factors where the number of records is protected."""

    def sized(count: int) -> dict[Variable, np.ndarray]:
        return values | {data[s.name]: s.stand_in(count) for s in sources}

    return RecordTerms(data, sources, sized, windows.originals.n, constants, windows)


def _sum_terms(terms: Sequence[Variable]) -> Variable:
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _resizable_record(
    record: Variable, inputs: Mapping[Variable, Source], values: dict[Variable, np.ndarray], n: int
) -> tuple[Variable, bool]:
    """The graph, with a symbolic number of records if that makes its rows equivalent.

    The second item tells whether rows still differ.
    """
    if not depends_on_row_identity(record, inputs, values, n):
        return record, False
    resizable = with_symbolic_count(record, {v: s.axis for v, s in inputs.items()}, n)
    if resizable is record or depends_on_row_identity(resizable, inputs, values, n):
        return record, True
    return resizable, False


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


def per_record_parameter_error(name: str, got: str) -> Unsupported:
    """The error for a parameter with one entry per record."""
    return Unsupported(
        f"the parameter '{name}' has one entry per record",
        got=got,
        allowed="parameters shared by all records",
        do=f'model = pmp.marginalize(model, "{name}"), if it is normal or discrete; else integrate '
        "it out of the likelihood (an overdispersed one) so that only shared parameters are drawn",
    )


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


def clipped_graph(
    graph: RecordGraph, bounds: ClipBounds, sources: Sequence[Source], n: int
) -> RecordGraph:
    """The same graph with the log-likelihood of each record clipped to bounds (T25).

    NaN counts as the lower bound, and so does a record for which a condition of the model fails.
    An earlier clip is replaced: its bounds have to be intersected with these before. A condition
    that does not split into conditions of single records is refused.
    """
    low, high = np.float64(bounds[0]), np.float64(bounds[1])
    if graph.windows:
        return _with_clipped_windows(graph, bounds, sources)
    private = set(graph.data.values())
    total = checks_to_switches([unclipped_record(graph)], private)[0]
    # The lower bound carries the number of records, which an Op without a rule does not tell.
    count = graph.data[sources[0].name].shape[sources[0].axis]
    record = clamp(pt.cast(total, "float64"), pt.full((count,), low), high)
    values = stand_in_values([record], graph.parameters, graph.data, sources)
    _refuse_shared_conditions(graph, record, values, sources, n)
    inputs = {graph.data[s.name]: s for s in sources}
    rows_differ = graph.rows_differ or depends_on_row_identity(record, inputs, values, n)
    return replace(graph, record=record, rows_differ=rows_differ, clip=bounds)


def _with_clipped_windows(
    graph: RecordGraph, bounds: ClipBounds, sources: Sequence[Source]
) -> RecordGraph:
    """The same graph with every factor row clipped, where some read several records."""
    low, high = np.float64(bounds[0]), np.float64(bounds[1])
    windows = tuple(_clipped_window(w, bounds, graph, sources) for w in graph.windows)
    unclipped = pt.concatenate([window.rows.owner.inputs[0] for window in windows])
    count = sum(window.count for window in windows)
    record = clamp(unclipped, pt.full((count,), low), high)
    return replace(graph, record=record, windows=windows, clip=bounds)


def _clipped_window(
    window: RecordWindow, bounds: ClipBounds, graph: RecordGraph, sources: Sequence[Source]
) -> RecordWindow:
    """A window with its rows clipped; no condition may depend on several rows."""
    low, high = np.float64(bounds[0]), np.float64(bounds[1])
    inputs = window.sources(sources)
    variable, source = next(iter(inputs.items()))
    own = checks_to_switches([_unclipped_rows(window.shifted, graph)], set(inputs))[0]
    floor = pt.full((variable.shape[source.axis],), low)
    shifted = clamp(pt.cast(own, "float64"), floor, high)
    rows = checks_to_switches([_unclipped_rows(window.rows, graph)], set(graph.data.values()))[0]
    rows = clamp(pt.cast(rows, "float64"), low, high)
    data = {s.name: v for v, s in inputs.items()}
    alone = replace(graph, data=data, factors=(window.name,))
    _refuse_shared_conditions(alone, shifted, window.values, list(inputs.values()), window.count)
    differ = window.rows_differ or depends_on_row_identity(
        shifted, inputs, window.values, window.count
    )
    return replace(window, rows=rows, shifted=shifted, rows_differ=differ and window.count > 1)


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
    """Refuse a condition through which the value of one record would depend on another."""
    labels = input_record_labels(dict(values), graph.data, sources)
    try:
        rows = element_labels([record], labels, values)[record]
        row_wise = np.shape(rows) == (n,) and bool(np.all((rows == np.arange(n)) | (rows == NONE)))
    except EVALUATION_ERRORS:
        row_wise = False
    if not row_wise:
        raise NotCertified(
            "a condition of the model cannot be told apart by records, so clipping would leave "
            "them coupled",
            blame=graph.factors,
            cure="trim until the condition is certain, and leave the check out of the model",
        )
