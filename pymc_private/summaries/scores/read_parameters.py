r"""What records read of a model's parameters: the coordinates that scores are about.

The density of a record given all parameters theta may read less than all of them. With
alpha_g ~ N(mu, tau) it reads alpha, and mu and tau act through the prior of alpha alone. With
alpha = mu + tau z it reads mu + tau z, not mu, tau and z. Such coefficients a = a(theta) are
variables of the graph that read no row: the fewest numbers that separate parameters from the
density (`predictor_cut`). Scores and their likelihood L are about a, with the prior mean and
covariance of a for pilots and bounds. The likelihood of all parameters is L(a(theta)),

    p(theta | z) ~ p(theta) L(a(theta)),

and the exact prior p(theta), the hierarchy itself, is PyMC's, however it is parametrized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.traversal import (
    library_class_name,
    rebuild,
    scalar_op,
)
from pymc_private.errors import Unsupported
from pymc_private.models.record_likelihood import SingleRecord
from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.density.plain_record import LOOKUPS, plain_record
from pymc_private.summaries.density.predictor_cut import separating_variables
from pymc_private.summaries.parameters import ParameterVector, pulled_in
from pymc_private.summaries.scores.gathered_terms import gathered

COMPUTED = "coefficients_"
"""How coefficients begin that are no free variable."""
REST = 1e-9
"""Share of a prior variance that is left where coefficients determine a parameter."""
STEPS, STEP, CLOSE = 50, 1e-5, 1e-11
"""Of Newton's method for parameters with given coefficients: most steps, half the width of a
difference, and the relative error that is rounding."""


@dataclass(frozen=True, eq=False)
class ReadCoefficients:
    """The coordinates that records read, as functions of all parameters.

    Parameters
    ----------
    whole : ParameterVector
        All p coordinates.
    inputs_of_record : dict of str to Variable
        Parameters in natural units, which graphs are of.
    graphs : dict of str to Variable
        The coefficients. One with the name of a free variable is that variable, its coordinates
        those of its value; any other is a real array.
    """

    whole: ParameterVector
    inputs_of_record: Mapping[str, Variable]
    graphs: Mapping[str, Variable]

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients."""
        return tuple(self.graphs)

    @cached_property
    def value_shapes(self) -> dict[str, tuple[int, ...]]:
        """Their shapes as coordinates."""
        known = self.whole.value_shapes
        return {n: known[n] if n in known else _shape(v) for n, v in self.graphs.items()}

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each one is in the vector."""
        ends = np.cumsum([0, *(int(np.prod(s)) for s in self.value_shapes.values())]).tolist()
        return dict(zip(self.names, map(slice, ends[:-1], ends[1:]), strict=True))

    @cached_property
    def size(self) -> int:
        """q."""
        return sum(int(np.prod(shape)) for shape in self.value_shapes.values())

    @cached_property
    def is_hierarchy(self) -> bool:
        """Whether parameters that records do not read have a say in those that they do."""
        if any(name not in self.whole.names for name in self.names):
            return True
        model = self.whole.model
        above = set(ancestors([model[name] for name in self.names]))
        return any(model[name] in above for name in self.whole.names if name not in self.names)

    @cached_property
    def _draws(self) -> np.ndarray:
        return pulled_in(self.of(self.whole.pool))

    @cached_property
    def mean(self) -> np.ndarray:
        """Prior mean, shape (q,)."""
        return self._draws.mean(axis=0)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Prior covariance, shape (q, q)."""
        return np.atleast_2d(np.cov(self._draws, rowvar=False))

    @cached_property
    def _function(self) -> VectorizedFunction:
        values = self.whole.inputs()
        natural = self.whole.symbolic_natural(values)
        return VectorizedFunction(list(values.values()), self._coordinates(values, natural))

    def _coordinates(
        self, values: Mapping[str, Variable], natural: Mapping[str, Variable]
    ) -> list[Variable]:
        """Graphs of the coordinates of each coefficient."""
        swaps = {v: natural[name] for name, v in self.inputs_of_record.items()}
        moving = set(self.inputs_of_record.values())
        return [
            values[name]
            if name in values
            else rebuild([plain_record(graph, moving, set())], swaps)[0]
            for name, graph in self.graphs.items()
        ]

    def of(self, theta: np.ndarray) -> np.ndarray:
        """The coordinates at whole vectors (S, p), shape (S, q)."""
        found = self._function(*self.whole.split(np.asarray(theta, float)).values())
        shapes = self.value_shapes.values()
        parts = [np.broadcast_to(f, (len(theta), *s)) for f, s in zip(found, shapes, strict=True)]
        return np.concatenate([part.reshape(len(theta), -1) for part in parts], axis=1)

    def split(self, coordinates: np.ndarray) -> dict[str, np.ndarray]:
        """Parts of vectors, shape (..., q), by coefficient."""
        return {
            name: coordinates[..., self.slices[name]].reshape((*coordinates.shape[:-1], *shape))
            for name, shape in self.value_shapes.items()
        }

    def inputs(self) -> dict[str, Variable]:
        """Fresh symbolic inputs for the coordinates of each coefficient."""
        return {
            name: pt.TensorType("float64", shape=shape)(name=name)
            for name, shape in self.value_shapes.items()
        }

    def symbolic_natural(self, values: Mapping[str, Variable]) -> dict[str, Variable]:
        """The coefficients as graphs of their coordinates."""
        known = self.whole.inputs()
        natural = self.whole.symbolic_natural(known)
        swaps = {known[name]: v for name, v in values.items() if name in known}
        kept = [name for name in values if name in known]
        found = dict(zip(kept, rebuild([natural[name] for name in kept], swaps), strict=True))
        return {name: found.get(name, v) for name, v in values.items()}

    def symbolic_parts(self, natural: Mapping[str, Variable]) -> dict[str, Variable]:
        """The coefficients as graphs of all parameters in natural units."""
        swaps = {v: natural[name] for name, v in self.inputs_of_record.items()}
        return dict(zip(self.names, rebuild(list(self.graphs.values()), swaps), strict=True))

    def symbolic_vector(self, natural: Mapping[str, Variable]) -> Variable:
        """The coordinates as a graph of all parameters in natural units, shape (q,)."""
        whole = self.whole.symbolic_vector(natural)
        values = {name: whole[part] for name, part in self.whole.slices.items()}
        return pt.concatenate([v.flatten() for v in self._coordinates(values, natural)])

    def extended(self, center: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Center and covariance of all coordinates, given those of the coefficients.

        The prior of all is taken as normal, with the moments of its draws, and coefficients as
        linear in them: theta = E theta + B (a - E a) + rest.
        """
        mean, prior = self.whole.mean, self.whole.covariance
        draws = pulled_in(self.whole.pool) - mean
        cross = draws.T @ (self._draws - self.mean) / (len(draws) - 1)
        slope = np.linalg.solve(self.covariance, cross.T).T
        rest = prior - slope @ cross.T + REST * np.diag(np.diag(prior))
        return mean + slope @ (center - self.mean), rest + slope @ covariance @ slope.T

    def whole_at(self, coordinates: np.ndarray) -> np.ndarray:
        """All coordinates of one point that has these coefficients (q,), shape (p,).

        Of the many such points one near to the prior, by Newton's method with the smallest steps
        in its metric.

        Raises
        ------
        Unsupported
            None was found.
        """
        wanted, metric = np.asarray(coordinates, float), self.whole.covariance
        theta = self.extended(wanted, np.zeros((self.size, self.size)))[0]
        for _ in range(STEPS):
            gap = wanted - self.of(theta[None])[0]
            if np.abs(gap).max() <= CLOSE * (1.0 + np.abs(wanted).max()):
                return theta
            if not np.isfinite(gap).all():
                break
            slopes = self._slopes(theta)
            inner = np.linalg.pinv(slopes @ metric @ slopes.T, hermitian=True)
            theta = theta + metric @ slopes.T @ (inner @ gap)
        raise Unsupported(
            "no parameters of the model were found that give records these coefficients",
            got=f"{', '.join(self.names)}, by Newton's method",
            allowed="coefficients such as effect, or mean + sd * offset",
            do="write the effects of groups as pm.Normal(mean, sd)",
        )

    def _slopes(self, theta: np.ndarray) -> np.ndarray:
        """Derivatives of the coordinates in all parameters, by differences, shape (q, p)."""
        shifts = STEP * np.eye(len(theta))
        return (self.of(theta + shifts) - self.of(theta - shifts)).T / (2.0 * STEP)


def read_coefficients(
    record: SingleRecord, whole: ParameterVector
) -> tuple[SingleRecord, ParameterVector | ReadCoefficients]:
    """What records read of the parameters, and the density of a record as a function of it.

    Parameters
    ----------
    record : SingleRecord
        As a function of all parameters.
    whole : ParameterVector

    Returns
    -------
    tuple
        The record itself and all parameters, where it reads every coordinate.
    """
    parameters = dict(record.parameters)
    data = [*record.data.values(), *record.public]
    value = gathered(record.value, list(parameters.values()), data)
    found = _fewest(value, parameters, data, whole)
    computed = [v for v in found if v not in parameters.values()]
    names = _with_scales({n for n, v in parameters.items() if v in found}, whole)
    if not computed:
        if len(names) == len(whole.names):
            return record, whole
        value = record.value
    fresh = {f"{COMPUTED}{k}": v for k, v in enumerate(computed)}
    graphs = {n: parameters[n] for n in whole.names if n in names} | fresh
    inputs = {name: v.type(name=name) for name, v in fresh.items()}
    value = rebuild([value], {v: inputs[name] for name, v in fresh.items()})[0]
    read = {name: parameters.get(name, inputs.get(name)) for name in graphs}
    return replace(record, value=value, parameters=read), ReadCoefficients(
        whole, parameters, graphs
    )


def _fewest(
    value: Variable,
    parameters: Mapping[str, Variable],
    data: Sequence[Variable],
    whole: ParameterVector,
) -> list[Variable]:
    """The fewest numbers that read no row and separate parameters from a density."""
    reads_rows = dependent_variables([value], list(data))
    moving = dependent_variables([value], list(parameters.values()))
    real = {v for name, v in parameters.items() if whole.is_real(name)}
    sizes = {v: int(np.prod(whole.shapes[name])) for name, v in parameters.items()}

    def capacity(v: Variable) -> float:
        if v in sizes:
            return sizes[v]
        known = v.type.dtype.startswith("float") and None not in v.type.shape
        usable = known and v not in reads_rows and _takes_all_reals(v, real, moving)
        return int(np.prod(v.type.shape)) if usable else np.inf

    read = [v for v in parameters.values() if v in set(ancestors([value]))]
    return separating_variables(value, read, capacity)


def _with_scales(names: set[str], whole: ParameterVector) -> set[str]:
    """Free variables with those that their transforms read."""
    values = whole.inputs()
    natural = whole.symbolic_natural(values)
    while True:
        above = set(ancestors([natural[name] for name in names]))
        found = names | {name for name, v in values.items() if v in above}
        if found == names:
            return names
        names = found


def _takes_all_reals(variable: Variable, real: Set[Variable], moving: Set[Variable]) -> bool:
    """Whether a variable is a sum or product that takes any value, since a real variable does.

    Scores are about coordinates without bounds; of other functions nothing is claimed.
    """
    if variable in real or variable.owner is None:
        return variable in real
    node, kind = variable.owner, scalar_op(variable)
    inputs = [v for v in node.inputs if v in moving]
    each = [_takes_all_reals(v, real, moving) for v in inputs]
    if isinstance(node.op, Dot) or isinstance(kind, ps.Add | ps.Sub | ps.Mul | ps.Neg):
        return any(each)
    if isinstance(kind, ps.TrueDiv):
        return node.inputs[0] in moving and each[0]
    moves_entries = isinstance(node.op, DimShuffle | Reshape | Join | MakeVector | SpecifyShape)
    return (moves_entries or library_class_name(node.op) in LOOKUPS) and all(each)


def all_parameters(parameters: Any) -> Any:
    """The vector of all parameters, of which coefficients are functions."""
    return parameters.whole if isinstance(parameters, ReadCoefficients) else parameters


def of_read(parameters: Any, theta: np.ndarray) -> np.ndarray:
    """The coordinates that records read, of whole vectors (S, p)."""
    return parameters.of(theta) if isinstance(parameters, ReadCoefficients) else theta


def coefficient_names(parameters: Any) -> list[str]:
    """A name for each coordinate that records read; of what the model does not name, a position."""
    found: list[str] = []
    for name, shape in parameters.value_shapes.items():
        known = "coefficient" if name.startswith(COMPUTED) else name
        cells = [", ".join(map(str, cell)) for cell in np.ndindex(*shape)]
        found += [f"{known}[{cell}]" if cell else known for cell in cells]
    return found


def natural_at(parameters: Any, coordinates: np.ndarray) -> dict[str, np.ndarray]:
    """All parameters in natural units at one vector of the coordinates that records read."""
    whole = all_parameters(parameters)
    theta = coordinates if whole is parameters else parameters.whole_at(coordinates)
    return {name: values[0] for name, values in whole.natural(theta[None]).items()}


def _shape(variable: Variable) -> tuple[int, ...]:
    return tuple(int(length) for length in variable.type.shape)
