"""The choice of cells from public facts: model, domain, number of records and noise (T33).

Outcome cells have equal mass under the prior predictive. Their number is the smallest whose
expected information is within a twentieth of the best. No data are read; the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import say_stage
from pymc_private.models.prior import PRIOR_SEED, Simulator
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.cells.cell_partition import (
    MOST_LEVELS,
    CellPartition,
    CovariateAxis,
    cell_nodes,
    covariate_axes,
    outcome_edges,
)
from pymc_private.summaries.cells.cell_probabilities import CellProbabilities, RecordDensities
from pymc_private.summaries.cells.cell_records import CellRecord
from pymc_private.summaries.parameters import variances_left
from pymc_private.summaries.protocol import Parameters

CELL_NUMBERS = (6, 8, 10, 12, 16, 20, 24)
"""Numbers of outcome cells that are compared."""
PIECES = (2, 3, 4, 6)
"""Numbers of parts into which intervals of covariates are cut that are compared."""
MOST_CELLS = 512
"""Most cells in all."""
NEARLY_BEST = 0.95
"""The smallest number of cells with this share of the largest information is taken."""
SIMULATED_POINTS, SIMULATED_RECORDS = 128, 128
"""Prior draws at which records are simulated, and records at each."""
POINTS, FEWEST_POINTS = 48, 8
"""Prior draws over which information is averaged, and how few where that is costly."""
EVALUATIONS = 4000
"""Most parameter points at which one choice of cells is evaluated."""
DENSITIES = 2**25
"""Most densities that one choice of cells evaluates, if the fewest points allow it: a second."""
STEP = 1e-3
"""Step of differences, in prior standard deviations."""
DESIGN_PANELS = 4
"""Panels of a cell while cells are chosen."""
PANELS = (1, 2, 4, 8, 16)
"""Panels of a cell that are tried; the first that agrees with twice as many is taken."""
QUADRATURE_ERROR = 0.02
"""Most error of quadrature, in standard deviations of the noisy counts."""
JUDGED_DRAWS, JUDGED_SHARE = 400, 0.98
"""Prior draws at which quadrature is judged, and the share of them that must agree."""
MOST_LOST = 0.05
"""Most prior draws whose density may be narrower than quadrature sees."""


@dataclass(frozen=True, eq=False)
class CellDesign:
    """Cells, and the functions that give their probabilities.

    Attributes
    ----------
    partition : CellPartition
    probabilities : CellProbabilities
    information : float
        Expected information in nats.
    compared : dict of str to float
        Expected information of the designs that were compared, by "covariate cells x outcome
        cells".
    lost : float
        Share of prior draws whose density quadrature cannot integrate.
    """

    partition: CellPartition
    probabilities: CellProbabilities
    information: float
    compared: dict[str, float]
    lost: float


class CellDesigner:
    """Compares partitions by the information that their noisy counts are expected to give.

    Parameters
    ----------
    private : PrivateModel
    record : CellRecord
    parameters : Parameters
    variance : float
        Of the noise of each count.
    n : float
        Number of records, or a public guess where it is protected.
    """

    def __init__(
        self,
        private: PrivateModel,
        record: CellRecord,
        parameters: Parameters,
        variance: float,
        n: float,
    ) -> None:
        self.record, self.parameters = record, parameters
        self.variance, self.n = variance, n
        self.densities = RecordDensities(record.single, record.outcome, record.covariates)
        self.simulated = _simulated_outcomes(private, record, parameters)
        self.points = parameters.draws(POINTS, PRIOR_SEED + 1)
        variances, vectors = np.linalg.eigh(parameters.covariance)
        self.root = vectors * np.sqrt(np.maximum(variances, 0.0))

    def best(self, edges: np.ndarray | None) -> CellDesign:
        """The design to be used; `edges` are those of the outcome if a user gives them."""
        candidates = self._candidates(edges)
        nodes = [cell_nodes(self.record.support, p, DESIGN_PANELS) for p in candidates]
        weighed = [
            CellProbabilities(self.densities, *c) for c in zip(candidates, nodes, strict=True)
        ]
        points = self._affordable_points(weighed)
        found: list[tuple[CellPartition, float]] = []
        for partition, cells in zip(candidates, weighed, strict=True):
            say_stage(f"cells, {len(found) + 1} of {len(candidates)} ways to cut")
            found.append((partition, self.information(cells, points)))
        if not found:
            raise Unsupported(
                "the covariates have too many cells",
                got=f"{self._smallest()} cells at least",
                allowed=f"{MOST_CELLS} cells in all",
                do='method="scores"',
            )
        most = max(value for _, value in found)
        enough = [f for f in found if f[1] >= NEARLY_BEST * most]
        partition, value = min(enough, key=lambda f: int(np.prod(f[0].shape)))
        compared = {f"{p.shape[0]} x {p.shape[1]}": v for p, v in found}
        probabilities, lost = self._refined(partition)
        return CellDesign(partition, probabilities, value, compared, lost)

    def _candidates(self, edges: np.ndarray | None) -> list[CellPartition]:
        support, outcome = self.record.support, self.record.outcome
        cut = any(axis.is_cut for axis in covariate_axes(self.record.covariates, 2))
        known, found = set(), []
        for pieces in PIECES if cut else PIECES[:1]:
            axes = covariate_axes(self.record.covariates, pieces)
            for number in CELL_NUMBERS:
                inner = edges
                if inner is None:
                    inner = outcome_edges(support, self.simulated, outcome.domain, number)
                partition = CellPartition(outcome.name, inner, self._own_atoms(), axes)
                key = (pieces, inner.tobytes())
                if key not in known and np.prod(partition.shape) <= MOST_CELLS:
                    known.add(key)
                    found.append(partition)
        return found

    def _smallest(self) -> int:
        axes: Sequence[CovariateAxis] = covariate_axes(self.record.covariates, PIECES[0])
        return 2 * int(np.prod([axis.cells for axis in axes], dtype=int))

    def _own_atoms(self) -> tuple[float, ...]:
        """Atoms inside the domain; others are clipped into the outermost cells."""
        bounds = self.record.outcome.domain.bounds(())
        low, high = float(np.min(bounds.lower)), float(np.max(bounds.upper))
        return tuple(a for a in self.record.support.atoms if low <= a <= high)

    def slopes(
        self, cells: CellProbabilities, theta: np.ndarray, steps: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (S, G, J) at points (S, p), and their derivatives (S, d, G, J).

        Derivatives are along the d rows of `steps`, by central differences.
        """
        count, size = len(theta), len(steps)
        moved = theta[:, None] + STEP * np.concatenate([steps, -steps])
        every = np.concatenate([theta, moved.reshape(-1, theta.shape[1])])
        found = cells(self.parameters.natural(every))[0]
        both = found[count:].reshape(count, 2, size, *found.shape[1:])
        return found[:count], (both[:, 0] - both[:, 1]) / (2.0 * STEP)

    def fisher(
        self, cells: CellProbabilities, theta: np.ndarray, steps: np.ndarray, totals: np.ndarray
    ) -> np.ndarray:
        """Information of the noisy counts along `steps`, shape (S, d, d).

        The sum over cells of (m dq)^2 / (m q + s^2), m the number of records of a covariate cell.
        """
        q, slopes = self.slopes(cells, theta, steps)
        m = totals[:, None]
        weights = m**2 / (m * q + self.variance)
        scaled = slopes * np.sqrt(weights)[:, None]
        flat = np.nan_to_num(scaled, posinf=0.0, neginf=0.0).reshape(len(theta), len(steps), -1)
        return np.asarray(flat @ flat.transpose(0, 2, 1))

    def _affordable_points(self, weighed: Sequence[CellProbabilities]) -> np.ndarray:
        """Prior draws at which all of some cells are evaluated: fewer, if that is costly."""
        moves = 2 * self.parameters.size + 1
        rows = max((int(np.prod(cells.quadrature.split)) for cells in weighed), default=1)
        count = min(POINTS, EVALUATIONS // moves, DENSITIES // (moves * rows))
        return self.points[: max(FEWEST_POINTS, count)]

    def expected_information(self, cells: CellProbabilities) -> float:
        """`information` at as many prior draws as can be afforded."""
        return self.information(cells, self._affordable_points([cells]))

    def information(self, cells: CellProbabilities, points: np.ndarray) -> float:
        """1/2 log det(I + information in prior units), averaged over prior draws (nats)."""
        totals = np.full(cells.shape[0], self.n / cells.shape[0])
        fisher = self.fisher(cells, points, self.root.T, totals)
        spectrum = np.clip(np.linalg.eigvalsh(fisher), 0.0, None)
        return float(0.5 * np.log1p(spectrum).sum(axis=1).mean())

    def variance_left(self, cells: CellProbabilities) -> np.ndarray:
        """Expected posterior variance of each coordinate in prior ones, shape (p,)."""
        points = self._affordable_points([cells])
        totals = np.full(cells.shape[0], self.n / cells.shape[0])
        return variances_left(self.fisher(cells, points, self.root.T, totals), self.root)

    def _refined(self, partition: CellPartition) -> tuple[CellProbabilities, float]:
        """Enough panels for the prior, and the share of prior draws for which none suffice."""
        theta = self.parameters.draws(JUDGED_DRAWS, PRIOR_SEED + 2)
        natural = self.parameters.natural(theta)
        totals = np.full((partition.shape[0], 1), self.n / partition.shape[0])
        cells, (q, mass) = self._judged(partition, PANELS[0], natural)
        for panels in PANELS:
            finer, (exact, finer_mass) = self._judged(partition, 2 * panels, natural)
            error = (totals * (q - exact)) ** 2 / (totals * exact + self.variance)
            far = np.sqrt(error.sum(axis=(1, 2))) > QUADRATURE_ERROR
            wrong = far | (np.abs(mass).max(axis=1) > 0.5 * QUADRATURE_ERROR)
            if cells.quadrature.nodes.is_exact or wrong.mean() <= 1.0 - JUDGED_SHARE:
                return cells, float(0.0 if cells.quadrature.nodes.is_exact else wrong.mean())
            cells, q, mass = finer, exact, finer_mass
        if wrong.mean() > MOST_LOST:
            raise Unsupported(
                "densities narrower than the cells, which quadrature cannot integrate",
                got=f"{wrong.mean():.0%} of the prior draws",
                allowed=f"{MOST_LOST:.0%}",
                do="give scales a prior away from zero, or trim the model by box={...}",
            )
        return cells, float(wrong.mean())

    def _judged(self, partition: CellPartition, panels: int, natural: Any) -> tuple[Any, Any]:
        nodes = cell_nodes(self.record.support, partition, panels)
        cells = CellProbabilities(self.densities, partition, nodes)
        return cells, cells(natural)


def _simulated_outcomes(
    private: PrivateModel, record: CellRecord, parameters: Parameters
) -> np.ndarray:
    """Outcomes of records from the prior predictive, clipped to the domain."""
    if record.support.kind == "finite" and len(record.support.levels) <= MOST_LEVELS:
        return np.empty(0)
    points = parameters.natural(parameters.draws(SIMULATED_POINTS, PRIOR_SEED))
    simulator = Simulator(private, SIMULATED_RECORDS, None, PRIOR_SEED)
    found = [
        np.ravel(simulator.outcomes({k: v[i] for k, v in points.items()})[record.outcome.name])
        for i in range(SIMULATED_POINTS)
    ]
    values = np.concatenate(found).astype(float)
    values = values[np.isfinite(values)]
    if not len(values):
        raise DomainError("the prior predictive gives no finite outcome", do="check the priors")
    return values
