"""Support of an outcome: where its density lives, and which points have mass of their own.

It is read from the observed variable (its distribution, censoring, truncation, the components of a
mixture) and from the declared domain. Bounds may be numbers, or functions of the record's own
entries and of public arrays, such as the end of each record's own follow-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pymc.distributions.transforms import _default_transform
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis.traversal import library_class_name, rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.distributions import (
    INTERVAL_TRANSFORMS,
    casts_between,
    constant_value,
    distribution_class,
    implied_support,
)
from pymc_private.models.domains import Categories
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import single_record
from pymc_private.models.sequences.row_identity import is_row_wise
from pymc_private.summaries.density.batched import NumpyProgram

INF = np.inf
MOST_LEVELS = 64
"""Most whole numbers that are listed; above, an outcome between two bounds is summed in panels."""
MOST_MODES = 4
"""Most peaks of a mixture that are searched for."""
UNKNOWN_MODES = 2
"""Peaks that are searched for in a density that the user wrote."""
TRIALS = ("BinomialRV", "BetaBinomialRV")


@dataclass(frozen=True, eq=False)
class RowBound:
    """A bound of the outcome that differs from record to record.

    Attributes
    ----------
    graph : Variable, vector
        The bound of every record, in terms of `inputs`.
    inputs : dict of str to Variable
        Private covariates and public entries by name, of any number of records.
    axes : dict of str to int
        Their records axes.
    """

    graph: Variable
    inputs: Mapping[str, Variable]
    axes: Mapping[str, int]

    @cached_property
    def _program(self) -> NumpyProgram:
        # Compiled loops may round a row by its place; NumPy's operations do not.
        return NumpyProgram(list(self.inputs.values()), [self.graph])

    def at(self, entries: Mapping[str, np.ndarray]) -> np.ndarray:
        """Bounds of the rows whose entries (records axis first) are given, shape (N, 1)."""
        given = [
            np.moveaxis(np.asarray(entries[name]), 0, self.axes[name]).astype(v.type.dtype)
            for name, v in self.inputs.items()
        ]
        return np.asarray(self._program(*given)[0], float).reshape(-1, 1)


Bound = float | RowBound


@dataclass(frozen=True, eq=False)
class OutcomeRange:
    """The support in each of N rows: lower and upper (N, 1), and atoms (N, a)."""

    lower: np.ndarray
    upper: np.ndarray
    atoms: np.ndarray


@dataclass(frozen=True, eq=False)
class OutcomeSupport:
    """Where the outcome of a record lies.

    Attributes
    ----------
    kind : {"finite", "integer", "continuous"}
    levels : tuple of float
        All values, if they are listed ("finite").
    lower, upper : float
        Bounds, perhaps infinite: those of all records where they differ.
    ends : tuple of float
        Ends of the family's own support, near which the density may be singular (0 and inf for a
        censored Weibull outcome).
    atoms : tuple of float
        Values of a continuous outcome that have mass of their own, and bounds of counts.
    domain : tuple of float
        The declared interval, to which data are clipped.
    modes : int
        Most peaks a density may have.
    row_lower, row_upper : RowBound or None
        Bounds that differ from record to record.
    row_atoms : tuple of str
        Which of "lower" and "upper" are atoms of each record.
    """

    kind: str
    levels: tuple[float, ...] = ()
    lower: float = -INF
    upper: float = INF
    ends: tuple[float, float] = (-INF, INF)
    atoms: tuple[float, ...] = ()
    domain: tuple[float, float] = (-INF, INF)
    modes: int = 1
    row_lower: RowBound | None = None
    row_upper: RowBound | None = None
    row_atoms: tuple[str, ...] = ()

    @property
    def differs_by_row(self) -> bool:
        """Whether bounds differ from record to record."""
        return self.row_lower is not None or self.row_upper is not None

    def at(self, rows: int, entries: Mapping[str, np.ndarray] | None = None) -> OutcomeRange:
        """The support in each of `rows` records with the given entries."""
        if self.differs_by_row and entries is None:
            raise ValueError("bounds differ from row to row: the rows' entries are needed")
        shape = (rows, 1)
        lower, upper = np.full(shape, self.lower), np.full(shape, self.upper)
        if self.row_lower is not None:
            lower = np.maximum(lower, np.broadcast_to(self.row_lower.at(entries or {}), shape))
        if self.row_upper is not None:
            upper = np.minimum(upper, np.broadcast_to(self.row_upper.at(entries or {}), shape))
        columns = [np.full(shape, atom) for atom in self.atoms]
        columns += [{"lower": lower, "upper": upper}[side] for side in self.row_atoms]
        atoms = np.concatenate(columns, axis=1) if columns else np.empty((rows, 0))
        return OutcomeRange(lower, upper, atoms)


def outcome_support(private: PrivateModel, outcome: Source) -> OutcomeSupport:
    """The support of a private variable that a likelihood generates.

    Raises
    ------
    Unsupported
        A bound of the outcome depends on parameters.
    """
    bounds = outcome.domain.bounds(outcome.row_shape)
    domain = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    rv = observed_variable(private, outcome)
    if rv is None:
        sketch = _OutcomeSketch(
            "integer" if outcome.is_whole else "continuous", modes=UNKNOWN_MODES
        )
        if outcome.is_whole and isinstance(outcome.domain, Categories):
            sketch = replace(sketch, kind="finite", levels=outcome.domain.values)
    else:
        sketch = _describe(rv, _Bounds(private, outcome))
    return _finished(sketch, domain)


def observed_variable(private: PrivateModel, outcome: Source) -> Variable | None:
    """The one random variable that is observed as the outcome, unchanged but for casts."""
    values = private.base.rvs_to_values
    found = [rv for rv in private.base.observed_RVs
             if underlying_array(values[rv]) is outcome.variable]  # fmt: skip
    if len(found) != 1 or casts_between(values[found[0]], outcome.variable) is None:
        return None
    return found[0]


@dataclass(frozen=True, eq=False)
class _OutcomeSketch:
    """What one distribution says of its support."""

    kind: str
    levels: tuple[float, ...] = ()
    lower: Bound = -INF
    upper: Bound = INF
    ends: tuple[float, float] = (-INF, INF)
    atoms: tuple[float, ...] = ()
    row_atoms: tuple[str, ...] = ()
    modes: int = 1


def _finished(sketch: _OutcomeSketch, domain: tuple[float, float]) -> OutcomeSupport:
    """The support of a sketch in a domain; bounds of counts become atoms."""
    by_row = {
        side: bound
        for side, bound in (("lower", sketch.lower), ("upper", sketch.upper))
        if isinstance(bound, RowBound)
    }
    lower = sketch.lower if not isinstance(sketch.lower, RowBound) else -INF
    upper = sketch.upper if not isinstance(sketch.upper, RowBound) else INF
    levels, atoms, row_atoms = sketch.levels, sketch.atoms, sketch.row_atoms
    if sketch.kind == "integer":
        if lower == -INF and domain[0] >= 0.0:
            lower = 0.0
        finite = [bound for bound in (lower, upper) if np.isfinite(bound)]
        atoms, row_atoms = tuple(finite), tuple(by_row)
        if len(finite) == 2 and not by_row and upper - lower < MOST_LEVELS:
            levels = tuple(np.arange(lower, upper + 1.0).tolist())
    if levels:
        return OutcomeSupport("finite", tuple(levels), min(levels), max(levels), domain=domain)
    return OutcomeSupport(
        sketch.kind,
        lower=max(lower, sketch.ends[0]),
        upper=min(upper, sketch.ends[1]),
        ends=sketch.ends,
        atoms=tuple(dict.fromkeys(atoms)),
        domain=domain,
        modes=min(sketch.modes, MOST_MODES),
        row_lower=by_row.get("lower"),
        row_upper=by_row.get("upper"),
        row_atoms=tuple(side for side in row_atoms if side in by_row),
    )


# ---- distributions -----------------------------------------------------------------------------
def _describe(rv: Variable, bounds: _Bounds) -> _OutcomeSketch:
    name = library_class_name(rv.owner.op)
    if distribution_class(rv) != name or name.startswith("Custom"):
        whole = str(rv.type.dtype).startswith(("int", "uint", "bool"))
        return _OutcomeSketch("integer" if whole else "continuous", modes=UNKNOWN_MODES)
    if name == "CensoredRV":
        return _censored(rv, bounds)
    if name == "TruncatedRV":
        return _truncated(rv, bounds)
    if name in ("MixtureRV", "_HurdleRV"):
        return _mixture(rv, bounds)
    if str(rv.type.dtype).startswith(("int", "uint", "bool")):
        return _counts(rv, name, bounds)
    return _continuous(rv, name, bounds)


def _counts(rv: Variable, name: str, bounds: _Bounds) -> _OutcomeSketch:
    implied = implied_support(rv)
    if isinstance(implied, Categories):
        values = implied.values
        if name == "CategoricalRV" or len(values) <= MOST_LEVELS:
            return _OutcomeSketch("finite", levels=values, lower=values[0], upper=values[-1])
        return _OutcomeSketch("integer", lower=values[0], upper=values[-1])
    if name == "CategoricalRV" and isinstance(bounds.outcome.domain, Categories):
        return _OutcomeSketch("finite", levels=bounds.outcome.domain.values)
    if name in TRIALS:
        return _OutcomeSketch(
            "integer", lower=0.0, upper=bounds.read(rv.owner.op.dist_params(rv.owner)[0])
        )
    return _OutcomeSketch("integer")


def _continuous(rv: Variable, name: str, bounds: _Bounds) -> _OutcomeSketch:
    """The ends that the default transform of the distribution maps to infinity."""
    transform = _default_transform(rv.owner.op, rv)
    kind = library_class_name(transform)
    if kind == "LogTransform":
        return _OutcomeSketch("continuous", ends=(0.0, INF))
    if kind == "LogOddsTransform" or name == "LogitNormal":
        return _OutcomeSketch("continuous", ends=(0.0, 1.0))
    if kind == "CircularTransform":
        return _OutcomeSketch("continuous", lower=-np.pi, upper=np.pi)
    if kind not in INTERVAL_TRANSFORMS:
        return _OutcomeSketch("continuous")
    found = [bounds.read(bound) for bound in transform.args_fn(*rv.owner.inputs)]
    low, high = (-INF if found[0] is None else found[0]), (INF if found[1] is None else found[1])
    if isinstance(low, RowBound) or isinstance(high, RowBound):
        return _OutcomeSketch("continuous", lower=low, upper=high)
    return _OutcomeSketch("continuous", ends=(low, high))


def _censored(rv: Variable, bounds: _Bounds) -> _OutcomeSketch:
    """The distribution of the uncensored outcome between the bounds, which are atoms."""
    inner, low, high = rv.owner.inputs[:3]
    sketch = _describe(inner, bounds)
    lower, upper = bounds.tighter(sketch, bounds.read(low), bounds.read(high))
    by_row = [side for side, b in (("lower", lower), ("upper", upper)) if isinstance(b, RowBound)]
    atoms = [b for b in (lower, upper) if not isinstance(b, RowBound) and np.isfinite(b)]
    if sketch.kind == "finite":
        sketch = replace(sketch, kind="integer", levels=())
    return replace(
        sketch, lower=lower, upper=upper, atoms=(*sketch.atoms, *atoms), row_atoms=tuple(by_row)
    )


def _truncated(rv: Variable, bounds: _Bounds) -> _OutcomeSketch:
    """The distribution of the whole outcome between the bounds."""
    *inputs, low, high = rv.owner.inputs
    base = rv.owner.op.base_rv_op
    made = base.make_node(*inputs)
    sketch = _describe(made.outputs[-1], bounds)
    lower, upper = bounds.tighter(sketch, bounds.read(low), bounds.read(high))
    if sketch.kind == "finite":
        sketch = replace(sketch, kind="integer", levels=())
    return replace(sketch, lower=lower, upper=upper)


def _mixture(rv: Variable, bounds: _Bounds) -> _OutcomeSketch:
    """The union of the components; a component at one point is an atom."""
    parts = [v for v in rv.owner.inputs if v.owner is not None and _is_random(v)]
    points = [v for v in parts if library_class_name(v.owner.op) == "DiracDeltaRV"]
    atoms = [constant_value(v.owner.inputs[-1]) for v in points]
    if any(atom is None for atom in atoms):
        raise _parameter_error(bounds.outcome.name)
    sketches = [_describe(v, bounds) for v in parts if v not in points]
    fixed = [float(atom) for atom in atoms if atom is not None]
    if not sketches:
        return _OutcomeSketch("finite", levels=tuple(sorted(set(fixed))))
    stacked = len(sketches) == 1 and not points
    shape = parts[0].type.shape
    modes = (shape[-1] or MOST_MODES) if stacked and shape else len(sketches)
    whole = all(sketch.kind != "continuous" for sketch in sketches)
    points_too: list[Bound] = [*fixed] if whole else []
    return _OutcomeSketch(
        "integer" if whole else "continuous",
        lower=_widest([*(_outer_bound(sketch, 0) for sketch in sketches), *points_too], -INF, min),
        upper=_widest([*(_outer_bound(sketch, 1) for sketch in sketches), *points_too], INF, max),
        ends=(
            min(sketch.ends[0] for sketch in sketches),
            max(sketch.ends[1] for sketch in sketches),
        ),
        atoms=tuple(dict.fromkeys([*fixed, *(a for sketch in sketches for a in sketch.atoms)])),
        modes=int(modes),
    )


def _outer_bound(sketch: _OutcomeSketch, side: int) -> Bound:
    """A bound of a sketch, or the end of its family where it has none."""
    bound = (sketch.lower, sketch.upper)[side]
    return sketch.ends[side] if not isinstance(bound, RowBound) and np.isinf(bound) else bound


def _widest(found: list[Bound], default: float, pick: Any) -> Bound:
    """The outermost of several bounds; no bound where one of them differs by row."""
    numbers = [bound for bound in found if not isinstance(bound, RowBound)]
    return float(pick(numbers)) if len(numbers) == len(found) else default


def _is_random(variable: Variable) -> bool:
    return library_class_name(variable.owner.op).endswith("RV") or hasattr(
        variable.owner.op, "ndim_supp"
    )


# ---- bounds ------------------------------------------------------------------------------------
class _Bounds:
    """Bounds written in a model: numbers, or functions of a record."""

    def __init__(self, private: PrivateModel, outcome: Source) -> None:
        self._private, self.outcome = private, outcome

    def read(self, bound: Any) -> Any:
        """A number, a `RowBound`, or None for None."""
        if bound is None or isinstance(bound, int | float):
            return bound
        variable = bound if isinstance(bound, Variable) else None
        if variable is None:
            return float(np.asarray(bound))
        if any(v in self._private.base.free_RVs for v in ancestors([variable])):
            raise _parameter_error(self.outcome.name)
        number = constant_value(variable)
        return self._by_row(variable) if number is None else number

    def tighter(self, sketch: _OutcomeSketch, low: Bound, high: Bound) -> tuple[Bound, Bound]:
        """Bounds within those of a sketch."""
        lower = low if isinstance(low, RowBound) or np.isfinite(low) else sketch.lower
        upper = high if isinstance(high, RowBound) or np.isfinite(high) else sketch.upper
        return lower, upper

    def _by_row(self, variable: Variable) -> RowBound:
        """The bound as a function of the entries of each record."""
        private = self._private
        known = set(ancestors([variable]))
        inputs: dict[str, Variable] = {}
        axes: dict[str, int] = {}
        swaps: dict[Variable, Variable] = {}
        for source in private.sources:
            if source.variable in known:
                inputs[source.name] = swaps[source.variable] = source.input_of_any_length()
                axes[source.name] = source.axis
        for v in known - set(swaps):
            name = self._public_name(v)
            if name is not None:
                shape = tuple(None if k == private.n else k for k in v.type.shape)
                inputs[name] = swaps[v] = v.type.clone(shape=shape)(name=name)
                axes[name] = np.shape(_array(v)).index(private.n)
        graph = rebuild([variable], swaps)[0]
        made_up = {source.variable: source.stand_in() for source in private.sources}
        values = {
            new: made_up[v] if v in made_up else np.asarray(_array(v)) for v, new in swaps.items()
        }
        lengths = {swaps[v]: axes[name] for v, name in zip(swaps, inputs, strict=True)}
        if not inputs or graph.ndim != 1 or not is_row_wise(graph, values, lengths, private.n):
            raise Unsupported(
                f"a bound of '{self.outcome.name}' is no entry of the record itself",
                allowed="a number, an entry of the record, or a public array with one entry per "
                "record",
            )
        return RowBound(graph, inputs, axes)

    def _public_name(self, variable: Variable) -> str | None:
        """The name of a public array with one entry per record, as the record's density has it."""
        array = _array(variable)
        if array is None or np.shape(array).count(self._private.n) != 1:
            return None
        p = self._private
        record = single_record(p.graph, p.sources, p.n, p.shapes)
        rows = np.moveaxis(array, np.shape(array).index(p.n), 0)
        public = {} if record is None else record.public
        return next((v.name for v, known in public.items() if np.array_equal(known, rows)), None)


def _array(variable: Any) -> Any:
    """The values of a shared variable or constant, else None."""
    if hasattr(variable, "get_value"):
        return variable.get_value(borrow=True)
    return getattr(variable, "data", None)


def _parameter_error(outcome: str) -> Unsupported:
    return Unsupported(
        f"a bound of '{outcome}' depends on parameters",
        allowed="bounds that are numbers, entries of the record or public",
        do="a density whose support is the same for all parameters",
    )
