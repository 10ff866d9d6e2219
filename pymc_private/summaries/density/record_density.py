"""The density of one record's outcome, its predictors and its scores, for many records at once.

From the log-likelihood of a single record come the predictors (the fewest numbers through which the
parameters act, see `predictor_cut`), their derivatives in the unconstrained parameters, and the
derivatives of the log density in the predictors. The chain rule joins them, so that predictors
need not be affine. Nothing here reads the data; arrays of records are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from pymc_private.analysis.affine import AffineKind, affine_kinds
from pymc_private.analysis.traversal import rebuild, without_tracebacks
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.distributions import casts_between
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
    join,
    plain_record,
    regroup,
)
from pymc_private.summaries.density.predictor_cut import predictor_variables
from pymc_private.summaries.parameters import ParameterVector, refuse_tempered
from pymc_private.summaries.scores.group_labels import label_lengths
from pymc_private.summaries.scores.read_parameters import ReadCoefficients, read_coefficients

Rows = Mapping[str, np.ndarray]
"""Covariates and public entries of records by name, records along the first axis."""
NaturalDerivative = Callable[
    [Mapping[str, np.ndarray], Rows, np.ndarray], tuple[np.ndarray, np.ndarray]
]
"""From parameters in natural units, rows and outcomes (N, Q) to log p and a derivative."""
MOST_ELEMENTS = 1 << 20
"""Most numbers of one array in `log_density`; more parameter points are taken in parts."""
POINT, ROW, NODE = (True, False, False), (True, False), (True, True)
"""Along which of the last axes of a batch (points, rows, nodes) an input varies."""


class RecordDensity:
    """log p(outcome | covariates, parameters) of single records.

    Parameters
    ----------
    private : PrivateModel
        Row-wise, with one scalar outcome per record and parameters shared by all records.
    of_coefficients : bool
        Whether it is a function of what records read alone, instead of all parameters.

    Attributes
    ----------
    parameters : ParameterVector or ReadCoefficients
    outcome : Source
        The private variable that the likelihood generates.
    covariates : tuple of Source
        The other private variables.
    public_rows : dict of str to array, shape (n, *shape)
        Public arrays with one entry per row.
    size : int
        m, the number of predictors.
    labels : dict of str to int
        Entries of a record that are positions in arrays of parameters, with the arrays' lengths.

    Raises
    ------
    Unsupported
        A model of another kind, with what to do instead.

    Notes
    -----
    `rows` are covariates and public rows by name, records along the first axis. A score that is
    undefined is NaN or infinite; no value of rows, outcomes or parameters raises.
    """

    def __init__(self, private: PrivateModel, of_coefficients: bool = False) -> None:
        refuse_other_models(private, "release draws: pmp.sample")
        self.outcome = _only_outcome(private)
        self.parameters: ParameterVector | ReadCoefficients = ParameterVector(private)
        self.covariates = tuple(s for s in private.sources if s is not self.outcome)
        record = _row_of(private)
        self.labels = label_lengths(record)
        if of_coefficients:
            with without_tracebacks():
                record, self.parameters = read_coefficients(record, self.parameters)
        self._record = record
        self.public_rows = {str(v.name): rows for v, rows in record.public.items()}
        self._y = record.data[self.outcome.name]
        self._rows = {s.name: record.data[s.name] for s in self.covariates}
        self._rows |= {str(v.name): v for v in record.public}
        with without_tracebacks():
            data = {self._y, *self._rows.values()}
            natural_inputs = set(record.parameters.values())
            self._natural_value = plain_record(record.value, natural_inputs, data)
            self._values = self.parameters.inputs()
            natural = self.parameters.symbolic_natural(self._values)
            swaps = {record.parameters[name]: v for name, v in natural.items()}
            value = rewritten(rebuild([self._natural_value], swaps))[0]
            value = plain_record(value, set(self._values.values()), data)
            self._value = merged([regroup(value, list(self._values.values()), self._y)])[0]
            refuse_open_lookups(self._value, [self._y, *self._rows.values()])
            self._predictors = self._cut()
        self.size = sum(map(self._size_of, self._predictors))

    # ---- predictors ---------------------------------------------------------------------------

    def _cut(self) -> list[Variable]:
        """The predictors; all parameters where nothing smaller separates them from the value."""
        parameters = list(self._values.values())
        self._shapes = self._shapes_of_variables()
        found = predictor_variables(self._value, parameters, self._y, self._size_of)
        if sum(map(self._size_of, found)) >= self.parameters.size:
            return parameters
        return found

    def _size_of(self, variable: Variable) -> int:
        return int(np.prod(self._shapes[variable]))

    def _shapes_of_variables(self) -> dict[Variable, tuple[int, ...]]:
        """Shapes of all variables of the graph, found at one point of the domain."""
        inputs = [*self._values.values(), *self._rows.values(), self._y]
        every = graph_variables(self._value, inputs)
        point = [np.zeros(shape) for shape in self.parameters.value_shapes.values()]
        point += [self._stand_in(name) for name in self._rows]
        point.append(np.take(self.outcome.stand_in(1), 0, axis=self.outcome.axis))
        found = NumpyProgram(inputs, every)(*point)
        return {v: np.shape(array) for v, array in zip(every, found, strict=True)}

    def _stand_in(self, name: str) -> np.ndarray:
        if name in self.public_rows:
            return self.public_rows[name][0]
        source = next(s for s in self.covariates if s.name == name)
        return np.take(source.stand_in(1), 0, axis=source.axis)

    @cached_property
    def _components(self) -> list[Variable]:
        """The predictors as scalars."""
        return [v.flatten()[k] for v in self._predictors for k in range(self._size_of(v))]

    @cached_property
    def _predictor_function(self) -> VectorizedFunction:
        inputs = [*self._values.values(), *self._rows.values()]
        return VectorizedFunction(inputs, self._components, self._per_row())

    @cached_property
    def _derivatives(self) -> list[Variable]:
        """Derivatives of each predictor in each array of parameters."""
        return [d for c in self._components for d in gradients(c, list(self._values.values()))]

    @cached_property
    def _jacobian_function(self) -> VectorizedFunction:
        inputs = [*self._values.values(), *self._rows.values()]
        return VectorizedFunction(inputs, self._derivatives, self._per_row(), derivatives=True)

    def _per_row(self) -> list[tuple[bool, ...]]:
        return [()] * len(self._values) + [(True,)] * len(self._rows)

    def predictors(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Values of the predictors at one vector (p,), shape (N, m)."""
        count = self._count(rows)
        parts = self.parameters.split(np.asarray(theta, float)).values()
        found = self._predictor_function(*parts, *self._entries(rows))
        return np.stack([np.broadcast_to(v, (count,)) for v in found], axis=1)

    def jacobian(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Derivatives of the predictors in the unconstrained parameters, shape (N, m, p)."""
        count, p = self._count(rows), self.parameters.size
        parts = list(self.parameters.split(np.asarray(theta, float)).values())
        found = self._jacobian_function(*parts, *self._entries(rows))
        jacobian = np.empty((p, self.size, count)).T  # fast along rows
        slices = list(self.parameters.slices.values())
        for k, array in enumerate(found):
            row, part = divmod(k, len(slices))
            core = np.shape(parts[part])
            whole = np.broadcast_to(array, (count, *core))
            jacobian[:, row, slices[part]] = whole.reshape(count, -1)
        return jacobian

    def _count(self, rows: Rows) -> int:
        """The number of records; arrays that the density does not read count too."""
        lengths = {len(array) for array in rows.values()}
        if len(lengths) > 1:
            raise ValueError(f"arrays of rows differ in length: {sorted(lengths)}")
        return lengths.pop() if lengths else 1

    def _entries(self, rows: Rows) -> list[np.ndarray]:
        return [np.asarray(rows[name]) for name in self._rows]

    # ---- density and scores -------------------------------------------------------------------

    @cached_property
    def _downstream(self) -> tuple[list[Variable], Variable]:
        """Fresh scalars for the predictors, and the log density as a graph of them."""
        scalars = [pt.dscalar(f"predictor_{k}") for k in range(self.size)]
        swaps, start = {}, 0
        for v in self._predictors:
            part = scalars[start : start + self._size_of(v)]
            start += len(part)
            swaps[v] = _array_of(part, self._shapes[v])
        return scalars, rebuild([self._value], swaps)[0]

    @cached_property
    def _density_function(self) -> VectorizedFunction:
        scalars, value = self._downstream
        return VectorizedFunction(self._node_inputs(scalars), [value], self._per_node(scalars))

    @cached_property
    def _score_function(self) -> VectorizedFunction:
        scalars, value = self._downstream
        outs = gradients(value, scalars)
        leading = self._per_node(scalars)
        return VectorizedFunction(self._node_inputs(scalars), outs, leading, derivatives=True)

    def _node_inputs(self, scalars: list[Variable]) -> list[Variable]:
        return [*scalars, *self._rows.values(), self._y]

    def _per_node(self, scalars: list[Variable]) -> Sequence[tuple[bool, ...]]:
        return [ROW] * (len(scalars) + len(self._rows)) + [NODE]

    def _at_nodes(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> list[np.ndarray]:
        predictors = np.asarray(predictors, dtype=float)
        entries = [predictors[:, k, None] for k in range(self.size)]
        return [*entries, *(array[:, None] for array in self._entries(rows)), y]

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m).

        `predictors` have shape (N, m), outcomes `y` shape (N, Q).
        """
        y = np.asarray(y)
        found = self._score_function(*self._at_nodes(predictors, rows, y))
        scores = np.empty((*y.shape, self.size))
        for k, values in enumerate(found):
            scores[..., k] = values
        return scores

    @cached_property
    def _curvature_function(self) -> VectorizedFunction:
        scalars, value = self._downstream
        slopes = gradients(value, scalars)
        outs = [gradients(slope, [v])[0] for slope, v in zip(slopes, scalars, strict=True)]
        leading = self._per_node(scalars)
        return VectorizedFunction(self._node_inputs(scalars), outs, leading, derivatives=True)

    def curvatures(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Second derivatives of log p(y | .) in each predictor, arguments and shape as `scores`."""
        y = np.asarray(y)
        found = self._curvature_function(*self._at_nodes(predictors, rows, y))
        return np.stack([np.broadcast_to(values, y.shape) for values in found], axis=2)

    @cached_property
    def reads_rows(self) -> tuple[bool, ...]:
        """For each predictor, whether it depends on entries of the row."""
        entries = set(self._rows.values())
        return tuple(
            not entries.isdisjoint(ancestors([v]))
            for v in self._predictors
            for _ in range(self._size_of(v))
        )

    @cached_property
    def is_affine_in_rows(self) -> bool:
        """Whether predictors and their derivatives are affine in the row, by their graphs."""
        outs = [*self._components, *self._derivatives]
        kinds = affine_kinds(outs, list(self._rows.values()), integers=True)
        return all(kinds.get(v, AffineKind.CONSTANT) is not AffineKind.OTHER for v in outs)

    @cached_property
    def reads_row_by_predictors(self) -> bool:
        """Whether the density is a function of predictors and outcome alone."""
        _, value = self._downstream
        return set(self._rows.values()).isdisjoint(ancestors([value]))

    def natural_derivative(self, name: str) -> NaturalDerivative:
        """log p and its derivative in a parameter, all entries at once, in natural units.

        The result takes values of all parameters by name, rows, and outcomes (N, Q), and gives two
        arrays of that shape.
        """
        inputs, parameters = self._record.parameters, self.parameters.names
        slope = gradients(self._natural_value, [inputs[name]])[0].sum()
        variables = [*(inputs[k] for k in parameters), *self._rows.values(), self._y]
        leading = [()] * len(parameters) + [ROW] * len(self._rows) + [NODE]
        outs = [self._natural_value, slope]
        function = VectorizedFunction(variables, outs, leading, derivatives=True)

        def evaluate(
            natural: Mapping[str, np.ndarray], rows: Rows, y: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            entries = [array[:, None] for array in self._entries(rows)]
            found = function(*(natural[k] for k in parameters), *entries, y)
            value, derivative = (np.broadcast_to(v, np.shape(y)) for v in found)
            return value, derivative

        return evaluate

    def log_density_at(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """log p(y | .) at predictors (N, m) and outcomes y (N, Q), shape (N, Q)."""
        y = np.asarray(y)
        found = self._density_function(*self._at_nodes(predictors, rows, y))[0]
        return np.broadcast_to(found, y.shape)

    @cached_property
    def _joint_function(self) -> VectorizedFunction:
        inputs = [*self._values.values(), *self._rows.values(), self._y]
        leading = [POINT] * len(self._values) + [ROW] * len(self._rows) + [NODE]
        return VectorizedFunction(inputs, [self._value], leading)

    def log_density(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """log p(y | rows, theta) at vectors (S, p) and outcomes y (N, Q), shape (S, N, Q)."""
        theta, y = np.asarray(theta, dtype=float), np.asarray(y)
        entries = [array[:, None] for array in self._entries(rows)]
        found = np.empty((len(theta), *y.shape))
        step = max(1, MOST_ELEMENTS // max(1, y.size))
        for start in range(0, len(theta), step):
            some = theta[start : start + step]
            parts = [part[:, None, None] for part in self.parameters.split(some).values()]
            found[start : start + step] = self._joint_function(*parts, *entries, y)[0]
        return found

    def symbolic_log_density(
        self, parameters: Mapping[str, Variable], rows: Rows, y: np.ndarray
    ) -> Variable:
        """log p(y | rows, parameters) as a graph of parameters in natural units, shape (N, Q)."""
        if isinstance(self.parameters, ReadCoefficients):
            parameters = self.parameters.symbolic_parts(parameters)
        swaps = {self._record.parameters[name]: v for name, v in parameters.items()}
        for (name, v), array in zip(self._rows.items(), self._entries(rows), strict=True):
            swaps[v] = pt.constant(array[:, None].astype(v.type.dtype), name=name)
        swaps[self._y] = pt.constant(np.asarray(y).astype(self._y.type.dtype))
        with without_tracebacks():
            return vectorize_graph(in_compiled_operations(self._natural_value), replace=swaps)


def gradients(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Derivatives of a scalar, zero where it does not depend on an input."""
    try:
        return pytensor.grad(
            value, list(inputs), disconnected_inputs="ignore", null_gradients="return"
        )
    except Exception as cause:  # of an Op of another library
        raise Unsupported(
            "the density of a record has no derivative that PyTensor can derive",
            got=type(cause).__name__,
            allowed="densities made of Ops with gradients",
            do="write it with functions of pytensor.tensor, or give the Op a gradient",
        ) from cause


def _array_of(scalars: list[Variable], shape: tuple[int, ...]) -> Variable:
    """An array of some shape with scalar variables as its entries."""
    if len(scalars) == 1:
        return scalars[0].dimshuffle(*("x" for _ in shape))
    parts = [pt.expand_dims(v, 0) for v in scalars]
    whole = join(parts)
    return (pt.join(0, *parts) if whole is None else whole).reshape(shape)


def _row_of(private: PrivateModel) -> SingleRecord:
    found = single_record(private.graph, private.sources, private.n, private.shapes)
    if found is None:
        raise Unsupported(
            "the records of this model do not enter by one and the same function",
            got=", ".join(private.graph.factors),
            allowed="a likelihood that is the same function of every record",
            do="index groups by a declared data variable, or release draws: pmp.sample",
        )
    return found


def _only_outcome(private: PrivateModel) -> Source:
    """The private variable that the likelihood generates, which has to be one number a record."""
    variables = {s.variable: s for s in private.sources}
    base = private.base
    found = {
        rv.name: (variables.get(underlying_array(base.rvs_to_values[rv])), rv)
        for rv in base.observed_RVs
        if rv.name in private.graph.factors
    }
    others = [name for name in private.graph.factors if name not in found]
    if others:
        raise Unsupported(
            "a factor of the records is no distribution of an observed variable",
            got=", ".join(others),
            allowed="one observed variable with a distribution",
            do="pm.CustomDist(..., logp=...) in place of pm.Potential; where pmp.marginalize made "
            "it, a model with one line per answer, and its rows_per_record=",
        )
    if len(found) != 1:
        raise Unsupported(
            "a summary of scores is about one outcome per record",
            got=", ".join(found) or "no observed variable",
            allowed="one observed variable",
            do='method="records" where no covariate is private, or one summary for each outcome',
        )
    ((source, rv),) = found.values()
    if source is None or casts_between(base.rvs_to_values[rv], source.variable) is None:
        raise Unsupported(
            "the outcome is public, or is observed through a function of the data",
            got=rv.name,
            allowed="an observed variable that is itself private data",
            do="observe the data as they are, and put the function into the model",
        )
    if source.row_shape != ():
        raise Unsupported(
            "a summary of scores is about outcomes of one number",
            got=f"{source.name}: entries of shape {source.row_shape}",
            allowed="one number a record",
            do='method="records" where no covariate is private, or draws: pmp.sample',
        )
    return source


def refuse_other_models(private: PrivateModel, coupled: str) -> None:
    """Refuse what changes the likelihood, and records that are coupled, whose cure is given."""
    if private.graph.windows:
        raise Unsupported(
            "a summary is a sum over records, and factors of this model read several of them",
            got=", ".join(private.graph.factors),
            allowed="likelihoods of single records",
            do=coupled,
        )
    refuse_tempered(private)
