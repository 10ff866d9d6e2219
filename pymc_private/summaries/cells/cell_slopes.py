"""The likelihood of noisy cells and its derivatives at one point, by NumPy (T33).

Of the log densities at the nodes of the cells, which are what the model's own density gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis.traversal import without_tracebacks
from pymc_private.summaries.cells.cell_likelihood import NoisyCells, symbolic_cell_log_likelihood
from pymc_private.summaries.cells.cell_probabilities import CellQuadrature
from pymc_private.summaries.density.batched import NumpyProgram, merged, rewritten, without_checks


class CellSlopes:
    """The likelihood of noisy cells as a function of log densities at the nodes (R Q,).

    Parameters
    ----------
    quadrature : CellQuadrature
    cells : NoisyCells
    """

    def __init__(self, quadrature: CellQuadrature, cells: NoisyCells) -> None:
        self.quadrature, self.cells = quadrature, cells
        self._program: NumpyProgram | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the program, which is made anew where it is needed."""
        return self.__dict__ | {"_program": None}

    def __call__(self, logs: np.ndarray) -> tuple[float, Sequence[np.ndarray]]:
        """Value and derivatives."""
        if self._program is None:
            self._program = self._made()
        value, slopes = self._program(logs)
        return float(value), [slopes]

    def _made(self) -> NumpyProgram:
        logs = pt.dvector("logs")
        with without_tracebacks():
            value = self.symbolic(logs)
            graphs = [value, pytensor.grad(value, logs)]
            return NumpyProgram([logs], merged(rewritten(without_checks(graphs))))

    def symbolic(self, logs: Variable) -> Variable:
        """The value as a graph."""
        dense = pt.exp(logs).reshape(self.quadrature.split)
        q, mass = self.quadrature.tables(pt, dense)
        value = symbolic_cell_log_likelihood(self.cells, q)
        return value + self.quadrature.correction(pt, mass, self.cells.totals)
