"""Probabilities of cells from the model's own density of one record (T33).

The density is evaluated at the nodes of each outcome cell, for reference rows of each covariate
cell, and summed. Nothing is known of the family: any density of one record that PyMC derives will
do, mixtures and hurdles among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph

from pymc_private.analysis.intervals.ops import EqualForms, OnSimplex
from pymc_private.analysis.traversal import rebuild, scalar_op
from pymc_private.models.data_variables import Source
from pymc_private.models.record_likelihood import SingleRecord
from pymc_private.summaries.cells.cell_partition import CellNodes, CellPartition
from pymc_private.summaries.density.batched import VectorizedFunction, without_checks
from pymc_private.summaries.density.plain_record import in_compiled_operations, rebuild_by_leaves

MASS_TOLERANCE = 0.1
"""Log mass that quadrature may miss at a point before the point is ruled out."""
MOST_NUMBERS = 2**21
"""Densities that are computed at a time."""
TINY = 1e-300


class RecordDensities:
    """log p(outcome | covariates, parameters) of one record, compiled once.

    Parameters
    ----------
    record : SingleRecord
    outcome : Source
    covariates : sequence of Source
    """

    def __init__(self, record: SingleRecord, outcome: Source, covariates: Sequence[Source]) -> None:
        self.record, self.outcome, self.covariates = record, outcome, tuple(covariates)
        self._given = [s for s in (outcome, *covariates) if s.name in record.data]
        inputs = [*record.parameters.values(), *(record.data[s.name] for s in self._given)]
        leading = [(True, False)] * len(record.parameters) + [(False, True)] * len(self._given)
        self._function = VectorizedFunction(inputs, [record.value], leading)

    def table(self, values: np.ndarray, rows: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Data of pseudo-records, every value in every row: arrays of R Q entries."""
        count = len(next(iter(rows.values()))) if rows else 1
        found = []
        for source in self._given:
            if source is self.outcome:
                entries = np.tile(values.reshape(-1, *[1] * len(source.row_shape)),
                                  (count, *[1] * len(source.row_shape)))  # fmt: skip
            else:
                entries = np.repeat(rows[source.name], len(values), axis=0)
            found.append(entries.astype(source.dtype))
        return found

    def logs(self, natural: Mapping[str, np.ndarray], data: Sequence[np.ndarray]) -> np.ndarray:
        """Log densities of pseudo-records at parameters (S, ...): shape (S, R Q)."""
        given = [np.asarray(natural[name], float)[:, None] for name in self.record.parameters]
        count, rows = len(given[0]), len(data[0])
        step = max(1, MOST_NUMBERS // rows)
        found = np.empty((count, rows))
        for start in range(0, count, step):
            part = [v[start : start + step] for v in given]
            found[start : start + step] = self._function(*part, *(d[None] for d in data))[0]
        return found

    def symbolic(self, parameters: Mapping[str, Variable], data: Sequence[np.ndarray]) -> Variable:
        """The same as a graph of given parameters: shape (R Q,)."""
        (plain,) = without_checks(rebuild_by_leaves([self.record.value], _without_marks))
        plain = in_compiled_operations(plain)
        swaps = {
            self.record.data[s.name]: pt.constant(d) for s, d in zip(self._given, data, strict=True)
        }
        stacked = vectorize_graph(plain, replace=swaps)
        named = {v: parameters[name] for name, v in self.record.parameters.items()}
        constants = {v: v for v in swaps.values()}
        return rebuild([stacked], named | constants)[0]


def _without_marks(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Operations that mark what bounds need and compute nothing."""
    is_mark = isinstance(node.op, OnSimplex) or isinstance(scalar_op(node.outputs[0]), EqualForms)
    return inputs[0] if is_mark else None


class CellProbabilities:
    """Probabilities of outcome cells given covariate cells, as functions of the parameters.

    Parameters
    ----------
    densities : RecordDensities
    partition : Partition
    nodes : CellNodes

    Attributes
    ----------
    quadrature : CellQuadrature
        From densities at the nodes to probabilities.
    shape : tuple of int
        Numbers of covariate and outcome cells, (G, J).
    """

    def __init__(
        self, densities: RecordDensities, partition: CellPartition, nodes: CellNodes
    ) -> None:
        self.densities, self.shape = densities, partition.shape
        rows, row_weights = partition.reference(densities.covariates)
        self.data = densities.table(nodes.values, rows)
        self.quadrature = CellQuadrature(nodes, row_weights)

    def __call__(self, natural: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (S, G, J), whose rows sum to 1, and the log mass found (S, G)."""
        logs = self.densities.logs(natural, self.data)
        with np.errstate(all="ignore"):
            dense = np.exp(np.nan_to_num(logs, nan=-np.inf, posinf=700.0))
            return self.quadrature.tables(np, dense.reshape(-1, *self.quadrature.split))

    def symbolic(self, parameters: Mapping[str, Variable]) -> Variable:
        """Log densities at the nodes as a graph, shape (R Q,)."""
        logs = self.densities.symbolic(parameters, self.data)
        size = int(np.prod(self.quadrature.split))
        return pt.second(pt.constant(np.zeros(size)), logs)


@dataclass(frozen=True, eq=False)
class CellQuadrature:
    """Sums over nodes and reference rows. `xp` is NumPy or `pytensor.tensor`.

    Attributes
    ----------
    nodes : CellNodes
    row_weights : array, shape (G, R)
        Of the reference rows in each covariate cell.
    """

    nodes: CellNodes
    row_weights: np.ndarray

    @property
    def split(self) -> tuple[int, int]:
        """Numbers of reference rows and of nodes, (R, Q)."""
        return self.row_weights.shape[1], len(self.nodes.values)

    def tables(self, xp: Any, dense: Any) -> tuple[Any, Any]:
        """Probabilities (..., G, J) and log mass (..., G) from densities (..., R, Q)."""
        found = xp.dot(dense, self.nodes.weights)
        if self.nodes.rest is not None:
            rest = xp.maximum(1.0 - xp.sum(found, axis=-1), 0.0)
            found = found + rest[..., None] * np.eye(self.nodes.weights.shape[1])[self.nodes.rest]
        total = xp.maximum(xp.sum(found, axis=-1), TINY)
        found, mass = found / total[..., None], xp.log(total)
        if xp is np:
            return np.matmul(self.row_weights, found), mass @ self.row_weights.T
        return pt.dot(self.row_weights, found), pt.dot(self.row_weights, mass)

    def correction(self, xp: Any, mass: Any, totals: np.ndarray) -> Any:
        """What mass outside the cells adds to a log-likelihood of `totals` records.

        Where declared values are all that a record can be, mass on others is evidence against the
        parameters: no record is there. Quadrature that finds another mass than 1 has missed a
        density narrower than its panels; such parameters are ruled out.
        """
        if self.nodes.is_exact:
            return xp.sum(totals * mass, axis=-1)
        return -0.5 * xp.sum((mass / MASS_TOLERANCE) ** 2, axis=-1)
