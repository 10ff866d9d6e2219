"""The density of whole records and its scores in all parameters, for many records at once.

A record may have several answers: all private variables are outcomes. Of the graph of one record's
log density, the part that reads no outcome (means, Cholesky factors, log probabilities at the nodes
of a rule) is cut off: its values, and their derivatives in the unconstrained parameters, are
computed once for each parameter vector and each *kind* of public entries. What is left for a record
are a few elementwise operations, and its score is

    d log p / d theta = sum_f (d log p / d f) (d f / d theta),

f the numbers that were cut off. A triangular solve of an outcome becomes a product with the
inverse, which is cut off too. Nothing here reads the data; arrays of records are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.blockwise import Blockwise

from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.traversal import library_class_name, rebuild, without_tracebacks
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.prior import outcome_sources
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.summaries.density.batched import (
    NumpyProgram,
    VectorizedFunction,
    graph_variables,
    merged,
    refuse_open_lookups,
    rewritten,
)
from pymc_private.summaries.density.plain_record import (
    in_compiled_operations,
    plain_record,
    rebuild_by_leaves,
)
from pymc_private.summaries.density.record_density import gradients, refuse_other_models
from pymc_private.summaries.density.selected_sums import with_selected_sums
from pymc_private.summaries.parameters import ParameterVector

Entries = Mapping[str, np.ndarray]
"""Outcomes of records by name, records along the first axis."""
MOST_ELEMENTS = 1 << 20
"""Most numbers of one array in `log_density`; more parameter points are taken in parts."""
DIFFERENCE = 1e-5
"""Step of a central difference, relative to 1 + |theta|."""
WHOLE_SEQUENCES = "write a person's sequence as one record: an array (persons, times)"
"""What to do where factors read several records."""
POINT, RECORD = (True, False), (False, True)
"""Along which of the axes of a batch (points, records) an input varies."""
_solve_triangular = (
    pt.linalg.solve_triangular if hasattr(pt, "linalg") else pt.slinalg.solve_triangular
)


class WholeRecordDensity:
    """log p(record | public entries, parameters), all private variables being outcomes.

    Parameters
    ----------
    private : PrivateModel
        Row-wise, with parameters shared by all records and no private covariate.

    Attributes
    ----------
    parameters : ParameterVector
    outcomes : tuple of Source
        The private variables.
    kinds : int array, shape (n,)
        The kind of each record of the model: equal public entries are one kind.
    kind_rows : dict of str to array, shape (K, *shape)
        Public entries of each kind; none where all records are of kind 0.

    Raises
    ------
    Unsupported
        A model of another kind, with what to do instead.

    Notes
    -----
    A score that is undefined is NaN or infinite. Tables that an entry of a record could miss are
    refused. A matrix of a record's own entries that is singular, inverted by an operation that
    raises, would make a release fail after its charge, as its error says.
    """

    def __init__(self, private: PrivateModel) -> None:
        refuse_other_models(private, WHOLE_SEQUENCES)
        record = _record_of(private)
        self.outcomes = _only_outcomes(private)
        self.parameters = ParameterVector(private)
        self.kinds, self.kind_rows = _kinds_of(record, private)
        self._parts, self._is_differenced = dict(record.parameters), False
        self._data = [record.data[s.name] for s in self.outcomes]
        self._rows = list(record.public)
        self._values = list(self.parameters.inputs().values())
        with without_tracebacks():
            self._natural_value = self._plain(record.value, set(self._parts.values()))
            symbolic = self.parameters.symbolic_natural(
                dict(zip(self.parameters.names, self._values, strict=True))
            )
            swaps = {self._parts[name]: v for name, v in symbolic.items()}
            value = rewritten(rebuild([self._natural_value], swaps))[0]
            self._value = merged([self._plain(value, set(self._values))])[0]
            refuse_open_lookups(self._value, self._data)
            self._upper, self._fresh, self._lower = self._cut(self._value, self._values)
        shapes = self._shapes_at_a_point()
        self._shapes = [shapes[v] for v in self._upper]
        self._moving = [k for k, v in enumerate(self._fresh) if v.type.dtype.startswith("float")]

    def _plain(self, value: Variable, parameters: set[Variable]) -> Variable:
        """A log density in operations that vectorize, no outcome in a solve."""
        value = without_solves(value, self._data)
        value = rebuild_by_leaves([value], _diagonal)[0]
        return plain_record(value, parameters, {*self._data, *self._rows})

    def _cut(
        self, value: Variable, parameters: Sequence[Variable]
    ) -> tuple[list[Variable], list[Variable], Variable]:
        """The upper part of a log density, stand-ins for it, and what is left on these."""
        upper = upper_part(value, [*parameters, *self._rows], self._data)
        fresh = [v.type(name=f"upper_{k}") for k, v in enumerate(upper)]
        return upper, fresh, rebuild([value], dict(zip(upper, fresh, strict=True)))[0]

    def _shapes_at_a_point(self) -> dict[Variable, tuple[int, ...]]:
        """Shapes of all variables of the log density, found at one point of the domain."""
        inputs = [*self._values, *self._rows, *self._data]
        point = [np.zeros(shape) for shape in self.parameters.value_shapes.values()]
        point += [rows[0] for rows in self.kind_rows.values()]
        point += [np.take(s.stand_in(1), 0, axis=s.axis) for s in self.outcomes]
        every = graph_variables(self._value, inputs)
        found = NumpyProgram(inputs, every)(*point)
        return {v: np.shape(array) for v, array in zip(every, found, strict=True)}

    @cached_property
    def _upper_function(self) -> VectorizedFunction:
        leading = [POINT] * len(self._values) + [RECORD] * len(self._rows)
        return VectorizedFunction([*self._values, *self._rows], self._upper, leading)

    @cached_property
    def _jacobian_function(self) -> VectorizedFunction:
        """Derivatives of the upper part, contracted with a cotangent for each of its numbers."""
        cotangents = [
            pt.TensorType("float64", shape=self._shapes[k])(name=f"cotangent_{k}")
            for k in self._moving
        ]
        moving = [self._upper[k] for k in self._moving]
        total = sum(pt.sum(c * v) for c, v in zip(cotangents, moving, strict=True))
        leading = [(False, False)] * len(self._values) + [POINT] * len(self._rows)
        leading += [RECORD] * len(cotangents)
        inputs = [*self._values, *self._rows, *cotangents]
        slopes = gradients(pt.as_tensor(total), self._values)
        return VectorizedFunction(inputs, slopes, leading, derivatives=True)

    @cached_property
    def slope_function(self) -> VectorizedFunction:
        """Derivatives of the log density in the upper part, records along one axis."""
        slopes = gradients(self._lower, [self._fresh[k] for k in self._moving])
        leading = [(bool(self._rows),)] * len(self._fresh) + [(True,)] * len(self._data)
        return VectorizedFunction([*self._fresh, *self._data], slopes, leading, derivatives=True)

    @cached_property
    def _lower_function(self) -> VectorizedFunction:
        """The log density on the upper part, for parameter vectors times made-up records."""
        leading = [(True, bool(self._rows))] * len(self._fresh) + [RECORD] * len(self._data)
        lower = with_selected_sums(self._lower, self._data, self._lower_shapes().__getitem__)
        return VectorizedFunction([*self._fresh, *self._data], [lower], leading)

    def _lower_shapes(self) -> dict[Variable, tuple[int, ...]]:
        """Shapes of the variables of the lower part."""
        inputs = [*self._fresh, *self._data]
        point = [
            np.ones(shape, dtype=v.type.dtype)
            for v, shape in zip(self._fresh, self._shapes, strict=True)
        ]
        point += [np.take(s.stand_in(1), 0, axis=s.axis) for s in self.outcomes]
        every = graph_variables(self._lower, inputs)
        found = NumpyProgram(inputs, every)(*point)
        known = {v: np.shape(array) for v, array in zip(every, found, strict=True)}
        constants = [v for v in ancestors([self._lower]) if isinstance(v, Constant)]
        return known | {v: np.shape(v.data) for v in constants}

    @cached_property
    def reads_all(self) -> bool:
        """Whether a record reads every parameter, none only through the prior of others."""
        return set(self._values) <= set(ancestors([self._value]))

    def entries(self, records: Entries) -> list[np.ndarray]:
        """The outcomes of some records in the order of the density's inputs."""
        return [np.asarray(records[s.name]) for s in self.outcomes]

    def at(self, theta: np.ndarray) -> DensityAt:
        """The density at one parameter vector (p,), prepared for scores of many records."""
        theta = np.asarray(theta, dtype=float)
        parts = [v[None, None] for v in self.parameters.split(theta).values()]
        upper = self._upper_on_kinds(parts)
        return DensityAt(self, [u[0] for u in upper], self._jacobian(theta, parts))

    def _upper_on_kinds(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The upper part at parameters (S, 1, ...), of each kind: (S, K, *shape)."""
        rows = [rows[None] for rows in self.kind_rows.values()]
        count = len(parts[0]), rows[0].shape[1] if rows else 1
        found = self._upper_function(*parts, *rows)
        shapes = zip(found, self._shapes, strict=True)
        return [np.broadcast_to(u, (*count, *shape)) for u, shape in shapes]

    def _jacobian(self, theta: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Derivatives of the numbers of the upper part, shape (K, F, p); 0 where not finite.

        PyTensor 2 does not vectorize the derivatives of some Ops (Cholesky's among them); there,
        central differences stand in.
        """
        if not self._is_differenced:
            try:
                return self._derived_jacobian(parts)
            except Exception:  # of whatever Op has no vectorized derivative
                self._is_differenced = True
        step = DIFFERENCE * (1.0 + np.abs(theta))
        points = np.concatenate([theta + np.diag(step), theta - np.diag(step)])
        found = self._upper_on_kinds([v[:, None] for v in self.parameters.split(points).values()])
        moving = [found[k].reshape(*found[k].shape[:2], -1) for k in self._moving]
        above, below = np.split(np.concatenate(moving, axis=2), 2)
        jacobian = np.moveaxis((above - below) / (2.0 * step[:, None, None]), 0, 2)
        return np.where(np.isfinite(jacobian), jacobian, 0.0)

    def _derived_jacobian(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The same by automatic differentiation."""
        rows = [rows[:, None] for rows in self.kind_rows.values()]
        sizes = [int(np.prod(self._shapes[k])) for k in self._moving]
        total = sum(sizes)
        unit = np.split(np.eye(total), np.cumsum(sizes)[:-1], axis=1)
        cotangents = [
            block.reshape(1, total, *self._shapes[k])
            for k, block in zip(self._moving, unit, strict=True)
        ]
        found = self._jacobian_function(*parts, *rows, *cotangents)
        jacobian = np.zeros((len(rows[0]) if rows else 1, total, self.parameters.size))
        for place, part, slope in zip(self.parameters.slices.values(), parts, found, strict=True):
            whole = np.broadcast_to(slope, (*jacobian.shape[:2], *part.shape[2:]))
            jacobian[:, :, place] = whole.reshape(*jacobian.shape[:2], -1)
        return np.where(np.isfinite(jacobian), jacobian, 0.0)

    def log_density(self, theta: np.ndarray, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """log p of records (N) at vectors (S, p), shape (S, N)."""
        theta, entries = np.asarray(theta, dtype=float), self.entries(records)
        size = max([int(np.prod(shape)) for shape in self._shapes], default=1)
        step = max(1, MOST_ELEMENTS // max(1, len(kinds) * size))
        found = np.empty((len(theta), len(kinds)))
        for start in range(0, len(theta), step):
            some = theta[start : start + step]
            parts = [part[:, None] for part in self.parameters.split(some).values()]
            upper = self._upper_on_kinds(parts)
            taken = [u[:, kinds] for u in upper] if self._rows else upper
            found[start : start + step] = self._lower_function(*taken, *(e[None] for e in entries))[
                0
            ]
        return found

    def symbolic_log_density(
        self, parameters: Mapping[str, Variable], records: Entries, kinds: np.ndarray
    ) -> Variable:
        """log p of records (N) as a graph of parameters in natural units, shape (N,)."""
        with without_tracebacks():
            value = in_compiled_operations(self._natural_value)
            upper, fresh, lower = self._cut(value, list(self._parts.values()))
            swaps = {self._parts[name]: v for name, v in parameters.items()}
            moved = {
                v: dependent_variables([u], self._rows) for u, v in zip(upper, fresh, strict=True)
            }
            rows = dict(zip(self._rows, self.kind_rows.values(), strict=True))
            swaps |= {v: pt.constant(r.astype(v.type.dtype)) for v, r in rows.items()}
            found = vectorize_graph(upper, replace=swaps) if upper else []
            taken = {
                v: w[kinds] if u in moved[v] else w
                for u, v, w in zip(upper, fresh, found, strict=True)
            }
            for v, array in zip(self._data, self.entries(records), strict=True):
                taken[v] = pt.constant(array.astype(v.type.dtype))
            return vectorize_graph(lower, replace=taken)


class DensityAt:
    """The density at one parameter vector.

    Parameters
    ----------
    density : WholeRecordDensity
    upper : list of array, shape (K, *shape)
        The upper part for each kind.
    jacobian : array, shape (K, F, p)
        Derivatives of its numbers in the parameters.
    """

    def __init__(
        self, density: WholeRecordDensity, upper: list[np.ndarray], jacobian: np.ndarray
    ) -> None:
        self.density, self.upper, self.jacobian = density, upper, jacobian

    def scores(self, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """Scores of made-up records, shape (N, p); 0 where one is not finite."""
        slopes, jacobian = self._slopes(records, kinds), self.jacobian
        with np.errstate(all="ignore"):
            if len(jacobian) == 1:
                found = slopes @ jacobian[0]
            else:
                found = np.einsum("nf,nfp->np", slopes, jacobian[kinds], optimize=True)
        return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, 0.0)

    def exact_scores(self, records: Entries, kinds: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """W times the scores of records, shape (N, p), each a function of that record alone.

        To the last bit: sums run over single elements in one order, never through a product of
        matrices that mixes rows.
        """
        slopes, turned = self._slopes(records, kinds), self.jacobian @ metric
        found = np.zeros((len(slopes), len(metric)))
        with np.errstate(all="ignore"):
            for f in range(slopes.shape[1]):
                across = turned[0, f] if len(turned) == 1 else turned[kinds, f]
                found += slopes[:, f, None] * across
        return found

    def _slopes(self, records: Entries, kinds: np.ndarray) -> np.ndarray:
        """Derivatives of the log density in the numbers of the upper part, shape (N, F)."""
        whole = len(self.jacobian) == 1
        upper = [u if whole else u[kinds] for u in self.upper]
        found = self.density.slope_function(*upper, *self.density.entries(records))
        shapes = [self.upper[k].shape[1:] for k in self.density._moving]
        return np.concatenate(
            [
                np.broadcast_to(v, (len(kinds), *shape)).reshape(len(kinds), -1)
                for v, shape in zip(found, shapes, strict=True)
            ],
            axis=1,
        )


# ---- graphs -------------------------------------------------------------------------------------
def upper_part(
    value: Variable, given: Sequence[Variable], data: Sequence[Variable]
) -> list[Variable]:
    """Variables of a graph that read what is given but no data, and that what reads data reads."""
    below = dependent_variables([value], list(data))
    moving = dependent_variables([value], list(given))
    found: dict[Variable, None] = {}
    for node in io_toposort([*given, *data], [value]):
        if below.isdisjoint(node.outputs):
            continue
        found |= {v: None for v in node.inputs if v in moving and v not in below}
    if value not in below:
        found[value] = None
    return list(found)


def without_solves(value: Variable, data: Sequence[Variable]) -> Variable:
    """Triangular solves of a vector that reads data, by a matrix that does not, as products."""
    below = dependent_variables([value], list(data))

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        core = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        is_solve = library_class_name(core) == "SolveTriangular" and core.b_ndim == 1
        if not is_solve or node.inputs[0] in below or node.inputs[1] not in below:
            return None
        matrix, vector = inputs
        size = matrix.type.shape[-1]
        if size is None:
            return None
        inverse = _solve_triangular(matrix, np.eye(size), lower=core.lower, b_ndim=2)
        return (inverse * vector[..., None, :]).sum(axis=-1)

    return rebuild_by_leaves([value], rule)[0]


def _diagonal(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A diagonal as a sum: the derivative of taking it does not vectorize in PyTensor 2."""
    if library_class_name(node.op) != "ExtractDiag" or node.op.offset != 0:
        return None
    (x,) = inputs
    last = {node.op.axis1 % x.type.ndim, node.op.axis2 % x.type.ndim}
    rows, columns = x.type.shape[-2:]
    if last != {x.type.ndim - 2, x.type.ndim - 1} or rows is None or rows != columns:
        return None
    return pt.switch(np.eye(rows, dtype=bool), x, 0.0).sum(axis=-1)


# ---- what is refused ----------------------------------------------------------------------------
def _record_of(private: PrivateModel) -> SingleRecord:
    found = single_record(private.graph, private.sources, private.n, private.shapes)
    if found is None or found.neighbors:
        raise Unsupported(
            "the records of this model do not enter by one and the same function",
            got=", ".join(private.graph.factors),
            allowed="a likelihood that is the same function of every record and its public entries",
            do="one row per record, of one length: pad shorter ones and give their lengths or "
            "times as public data; or release draws: pmp.sample",
        )
    return found


def _only_outcomes(private: PrivateModel) -> tuple[Source, ...]:
    """All private variables, each of which the likelihood generates."""
    found = outcome_sources(private)
    covariates = [s.name for s in private.sources if s not in found]
    if covariates:
        raise Unsupported(
            "a summary of whole records knows no distribution of private covariates",
            got=", ".join(covariates),
            allowed="private variables that the likelihood generates",
            do="method='scores' for one outcome with private covariates; or public=[...] for "
            "covariates that are no secret",
        )
    return tuple(s for s in private.sources if s in found)


def _kinds_of(
    record: SingleRecord, private: PrivateModel
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The kind of each record by its public entries, and these entries by kind."""
    rows = {str(v.name): np.asarray(values) for v, values in record.public.items()}
    if not rows:
        return np.zeros(private.n, dtype=int), {}
    flat = [np.asarray(v, float).reshape(len(v), -1) for v in rows.values()]
    _, first, kinds = np.unique(
        np.concatenate(flat, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return kinds.reshape(-1), {name: values[first] for name, values in rows.items()}
