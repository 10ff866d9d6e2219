"""A log posterior as log prior(theta) + w sum_i h(A_i theta + b_i; x_i), ready for numbers.

What a proximal sampler evaluates at every step (T21). Building one reads no data; `design` takes
them, and only a charged draw may call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from pymc_private.models.coordinates import Column, Role
from pymc_private.models.curvature import Factor
from pymc_private.models.kinks import NotConcave
from pymc_private.models.prior_curvature import prior_value
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.quadruples import columns_of
from pymc_private.models.single_record import single_record

Rows = Mapping[str, np.ndarray]
"""Values of all records by the names of their sources, shape (n, *one record's shape)."""


class LinearForm:
    """The two parts of a log-concave posterior as functions of numbers.

    Parameters
    ----------
    private : PrivateModel
        One for which `concavity` has an answer.

    Attributes
    ----------
    size : int
        d, the number of scalar parameters; theta holds them in the order of ``private.shapes``.
    predictors : int
        k, the number of linear predictors of a record.

    Raises
    ------
    NotConcave
    """

    def __init__(self, private: PrivateModel) -> None:
        record = single_record(private.graph, private.sources, private.n, private.shapes)
        if record is None:
            raise NotConcave("records are computed differently, by more than public rows of data")
        columns = columns_of(record, private.sources, private.box)
        self._columns = [c for c in columns if c.role is not Role.POINT]
        factor = Factor(record.value, record.parameters, private.box, self._columns)
        self.shapes = dict(private.shapes)
        self.size = sum(int(np.prod(shape)) for shape in self.shapes.values())
        self.predictors = factor.size
        self._public = {str(v.name): rows for v, rows in record.public.items()}
        parameters = list(record.parameters.values())
        flat = pt.concatenate([core.flatten() for core in factor.cores])
        self._affine = _compiled(flat, self._columns, parameters, per_row=False)
        slope = pt.concatenate([g.flatten() for g in factor.slopes])
        self._h = _compiled(factor.h, self._columns, factor.inputs, per_row=True)
        self._slope = _compiled(slope, self._columns, factor.inputs, per_row=True)
        self._inputs = factor.inputs
        prior = prior_value(private, record)
        gradient = pytensor.grad(prior, parameters, disconnected_inputs="ignore")
        joined = pt.concatenate([g.flatten() for g in gradient])
        self._prior = _function(parameters, [prior, joined])

    def rows(self, private: PrivateModel) -> dict[str, np.ndarray]:
        """The records of a model. Reads the data: only a charged draw may ask."""
        own = {s.name: np.moveaxis(s.values(), s.axis, 0) for s in private.sources}
        return own | self._public

    def design(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """A and b of the predictors A theta + b, shapes (n, k, d) and (n, k)."""
        n = len(next(iter(rows.values())))
        offset = self._affine(rows, self._split(np.zeros(self.size)), n)
        columns = [self._affine(rows, self._split(e), n) - offset for e in np.eye(self.size)]
        return np.stack(columns, axis=-1), offset

    def log_likelihood(self, predictors: np.ndarray, rows: Rows) -> np.ndarray:
        """h of each record, shape (n,), at predictors of shape (n, k)."""
        return self._h(rows, self._shaped(predictors), len(predictors))

    def slope(self, predictors: np.ndarray, rows: Rows) -> np.ndarray:
        """dh/du of each record, shape (n, k): A' slope, summed, is the likelihood's gradient."""
        return self._slope(rows, self._shaped(predictors), len(predictors))

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior and its gradient, shape (d,), up to a constant; inside the region."""
        value, gradient = self._prior(*self._split(theta))
        return float(value), np.asarray(gradient)

    def _split(self, theta: np.ndarray) -> list[np.ndarray]:
        """theta as the parameters' arrays."""
        cuts = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        parts = zip(np.split(theta, cuts), self.shapes.values(), strict=True)
        return [np.reshape(part, shape) for part, shape in parts]

    def _shaped(self, predictors: np.ndarray) -> list[np.ndarray]:
        """Predictors of all records as arrays of the shapes that h takes."""
        shapes = [u.type.shape for u in self._inputs]
        cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = zip(np.split(predictors, cuts, axis=1), shapes, strict=True)
        return [part.reshape((len(predictors), *shape)) for part, shape in parts]


Evaluated = Callable[[Rows, Sequence[np.ndarray], int], np.ndarray]


def _compiled(
    output: Variable,
    columns: Sequence[Column],
    others: Sequence[Variable],
    *,
    per_row: bool,
) -> Evaluated:
    """A graph of one record as a function of all rows, and of `others`, with a row axis or not."""
    read = set(ancestors([output]))
    used = [c.variable for c in columns if c.variable in read]
    batch = {
        v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name)
        for v in (*used, *(others if per_row else ()))
    }
    result = vectorize_graph([output], replace=batch) if batch else [output]
    compiled = _function([batch.get(v, v) for v in (*used, *others)], result)

    def evaluated(rows: Rows, values: Sequence[np.ndarray], n: int) -> np.ndarray:
        given = [np.asarray(rows[str(v.name)]).astype(v.type.dtype) for v in used]
        found = compiled(*given, *values)[0]
        return np.broadcast_to(found, (n, *output.type.shape))

    return evaluated


def _function(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Callable[..., Any]:
    """Compiled without a C or Numba compiler: arrays of all rows are long enough."""
    return pytensor.function(
        list(inputs), list(outputs), mode="FAST_COMPILE", on_unused_input="ignore"
    )
