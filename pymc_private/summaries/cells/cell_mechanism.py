"""Noisy cells: counts of records in public cells, with noise, as a summary of a model (T33).

What a record can be is cut into a few public cells, and the number of records in each is released
with noise. The probability of a cell is an integral of the model's own density, so that the
likelihood of the noisy counts holds for any row-wise density: mixtures, censoring, hurdles.
Shares of covariate cells are unknown, with a flat Dirichlet prior, and are integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_private.analysis.traversal import rebuild
from pymc_private.counts.tables import add_noise, add_seeded_noise
from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.prior import PRIOR_SEED
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.noisy_counts import DISCRETE_LAPLACE, discrete_laplace_sd
from pymc_private.privacy.validation import check_positive
from pymc_private.summaries.cells.cell_design import CellDesigner
from pymc_private.summaries.cells.cell_likelihood import (
    CONVOLVED_BELOW,
    NoisyCells,
    cell_log_likelihood,
)
from pymc_private.summaries.cells.cell_partition import CellPartition
from pymc_private.summaries.cells.cell_records import cell_record, checked_edges
from pymc_private.summaries.cells.cell_slopes import CellSlopes
from pymc_private.summaries.density.batched import NumpyProgram, rewritten, without_checks
from pymc_private.summaries.density.numpy_likelihood import NumpyLikelihood
from pymc_private.summaries.exact_totals import Totals
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, cell_counts, largest_mu
from pymc_private.summaries.parameters import ParameterVector, slopes_along
from pymc_private.summaries.protocol import Caution, LogLikelihood, Progress, Records, Released
from pymc_private.summaries.record_table import as_record_table
from pymc_private.summaries.second_round import disagreement_cautions

GAUSSIAN_THEOREM = "Gaussian mechanism on counts of disjoint cells (T30, T33)"
LAPLACE_THEOREM = "discrete Laplace noise on counts of disjoint cells (T26, T33)"
STARTS, STARTS_TRIED = 1000, 4
"""Prior draws among which a start is sought, and how many of the best are improved."""
MOST_STEPS = 40
ENOUGH_CLIMBED = 1e-4
"""A step that gains less (nats) is the last one."""
AGREEMENT = 1e-6
"""Relative difference of the two forms of the likelihood that is taken for rounding."""
GRADIENT_AGREEMENT = 2e-3
STEP = 1e-4
"""Of a central difference along a prior standard deviation."""
CHI2_WARNED, CHI2_REFUSED = 10.0, 25.0
"""Mean square of the standardized counts at the center beyond which the model does not fit."""
EMPTY_CELL = 2.0
"""A covariate cell of fewer records than this many standard deviations of its noisy total."""
MANY_EMPTY = 0.25
COUNTED_ROWS = 2**16
"""Rows whose cells are found at once: by comparisons alone, so that the number does not matter."""


class CellNoise(Protocol):
    """Noise on counts of disjoint cells, as of `noise.LatticeNoise` and `SimulatedNoise`."""

    def noisy_counts(self, counts: Sequence[int] | np.ndarray, mu: float) -> np.ndarray:
        """Numbers of records in the cells, with noise."""


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Numbers of records of a chunk in all cells of a partition."""

    partition: CellPartition

    def __call__(self, rows: Mapping[str, np.ndarray], count: int) -> Totals:
        """Those of the true rows."""
        cells = int(np.prod(self.partition.shape))
        return [cell_counts([self.partition.cells(rows)[:count]], cells).tolist()]


class CellMechanism:
    """A public partition of what a record can be, and the release of noisy counts.

    Parameters
    ----------
    private : PrivateModel
    mu : float, optional
        Gaussian noise that is mu-GDP.
    epsilon : float, optional
        Instead: discrete Laplace noise of pure epsilon-differential privacy.
    edges : sequence of float, optional
        Public inner edges of the outcome's cells; default: cells of equal prior-predictive mass.
    n : int, optional
        A public guess of the number of records where it is protected.

    Attributes
    ----------
    partition : CellPartition
    sd : float
        Standard deviation of the noise of each count; public.

    Raises
    ------
    Unsupported, DomainError
        Records of more than four dimensions, public covariates that differ by row, no private
        outcome, fewer than 30 records, edges that are no public numbers.
    """

    method = "cells"
    stages = ("cells",)
    copied = (("counts", "noise_sd"),)
    refinements: tuple[float, ...] = ()
    """Budgets of further copies of the counts: mu, or epsilon of discrete Laplace noise."""

    def __init__(
        self,
        private: PrivateModel,
        mu: float | None = None,
        *,
        epsilon: float | None = None,
        edges: Any = None,
        n: int | None = None,
    ) -> None:
        if (mu is None) == (epsilon is None):
            raise DomainError(
                "cells take mu, of Gaussian noise, or epsilon, of Laplace noise",
                got="both" if mu is not None else "neither",
                allowed="one of mu= and epsilon=",
            )
        check_positive(**({"epsilon": epsilon} if mu is None else {"mu": mu}))
        self.private, self.mu = private, mu
        record = cell_record(private)
        given = None if edges is None else checked_edges(edges, private, record.outcome)
        self._set_noise(mu, epsilon)
        self.parameters = ParameterVector(private)
        is_public = private.neighbors != ADD_REMOVE
        self.n = private.record_count if is_public else None
        count = self.n if self.n is not None else n or ASSUMED_N
        self._designer = CellDesigner(private, record, self.parameters, self.sd**2, count)
        design = self._designer.best(given)
        self.partition: CellPartition = design.partition
        self.probabilities = design.probabilities
        self.information = design.information
        self.facts = self._described(design.compared, design.lost)
        self._last_start: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def _set_noise(self, mu: float | None, epsilon: float | None) -> None:
        """The distribution of the noise, its standard deviation and the guarantee."""
        private = self.private
        units = private.records_per_unit
        if mu is not None:
            self.scale: float | None = None
            self.sd = NoiseScale(private.neighbors, units).counts_sd(mu)
            self.guarantee = Guarantee.gdp_of(
                mu, neighbors=private.neighbors, theorem=GAUSSIAN_THEOREM,
                assumptions=private.claims,
            )  # fmt: skip
            return
        moved = (1 if private.neighbors == ADD_REMOVE else 2) * units
        scale = moved / float(epsilon or 0.0)
        words: dict[str, Any] = {"neighbors": private.neighbors, "theorem": LAPLACE_THEOREM}
        words["assumptions"] = private.claims
        while Guarantee.laplace_of(moved, scale, **words).pure_epsilon > float(epsilon or 0.0):
            scale = math.nextafter(scale, math.inf)
        self.scale, self.sd = scale, discrete_laplace_sd(scale)
        self.guarantee = Guarantee.laplace_of(moved, scale, **words)

    def repeated(self, budget: float) -> CellMechanism:
        """Counts of the same cells at another budget of the same kind."""
        made = copy(self)
        made.mu = None if self.scale is not None else budget
        made._set_noise(made.mu, budget if made.mu is None else None)
        made._last_start = None
        return made

    def refined(self, budget: float) -> CellMechanism:
        """The mechanism of a summary with one more copy of its counts at this budget."""
        made, other = copy(self), self.repeated(budget)
        made.guarantee = self.guarantee + other.guarantee
        made.sd = self.sd * other.sd / math.hypot(self.sd, other.sd)
        made.refinements = (*self.refinements, budget)
        made._designer = copy(self._designer)
        made._designer.variance = made.sd**2
        made.information = made._designer.expected_information(self.probabilities)
        made.facts = self.facts | {
            "noise_sd": made.sd,
            "information": made.information,
            "refinements": list(made.refinements),
        }
        made._last_start = None
        return made

    @property
    def variance_left(self) -> np.ndarray:
        """Expected posterior variance of each coordinate in prior ones, shape (p,)."""
        return self._designer.variance_left(self.probabilities)

    def _described(self, compared: Mapping[str, float], lost: float) -> dict[str, Any]:
        cut = [axis.source for axis in self.partition.axes if axis.is_cut]
        return {
            "method": self.method,
            "noise": "gaussian" if self.scale is None else "discrete Laplace",
            "noise_sd": self.sd,
            "outcome": self.partition.outcome,
            "outcome_edges": [float(e) for e in self.partition.edges],
            "atoms": list(self.partition.atoms),
            "cells": list(self.partition.shape),
            "covariates": {
                axis.source: [float(e) for e in axis.edges] for axis in self.partition.axes
            },
            "assumed_uniform": sorted(set(cut)),
            "compared": {key: round(value, 4) for key, value in compared.items()},
            "information": self.information,
            "unresolved_prior": lost,
        }

    # ---- the release ---------------------------------------------------------------------------
    def release(
        self, records: Records, noise: CellNoise, progress: Progress | None = None
    ) -> Released:
        """Noisy counts of all cells, and the public numbers that describe the cells."""
        (exact,) = as_record_table(records).sum_up(CellCounts(self.partition), COUNTED_ROWS)
        if self.scale is None:
            counts = noise.noisy_counts(exact, float(self.mu or 0.0))
        else:
            counts = self._with_laplace_noise(np.array(exact), noise)
        if progress is not None:
            progress(1)
        return {
            "counts": np.asarray(counts, float).reshape(self.partition.shape),
            "noise_sd": np.array(self.sd),
            "outcome_edges": np.array(self.partition.edges),
        }

    def _with_laplace_noise(self, counts: np.ndarray, noise: Any) -> np.ndarray:
        """Integer noise: the operating system's, unless the noise given is a simulation."""
        scale = float(self.scale or 0.0)
        if isinstance(noise, SimulatedNoise):
            return add_seeded_noise(counts, DISCRETE_LAPLACE, scale, noise.rng)
        return add_noise({"cells": counts}, DISCRETE_LAPLACE, scale)["cells"]

    # ---- the likelihood ------------------------------------------------------------------------
    def noisy_cells(self, released: Mapping[str, np.ndarray]) -> NoisyCells:
        """Released counts with what is public of their noise."""
        counts = np.asarray(released["counts"], float)
        return NoisyCells(
            counts, float(released["noise_sd"]) ** 2, None if self.n is None else float(self.n)
        )

    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """Log-likelihood of the noisy counts at unconstrained parameters, shares integrated out."""
        cells = self.noisy_cells(released)
        totals = cells.totals

        def at(theta: np.ndarray) -> np.ndarray:
            q, mass = self.probabilities(self.parameters.natural(np.atleast_2d(theta)))
            found = cell_log_likelihood(cells, q)
            found = found + self.probabilities.quadrature.correction(np, mass, totals)
            return np.where(np.isnan(found), -np.inf, found)

        return at

    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The best of several modes, and the inverse of the information there."""
        key = np.asarray(released["counts"], float).tobytes()
        if self._last_start is None or self._last_start[0] != key:
            self._last_start = key, *self._sought_start(released)
        return self._last_start[1].copy(), self._last_start[2].copy()

    def _sought_start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        likelihood = self.log_likelihood(released)

        def objective(theta: np.ndarray) -> np.ndarray:
            found = likelihood(theta) + self.parameters.log_prior(theta)
            return np.where(np.isfinite(found), found, -np.inf)

        draws = self.parameters.draws(STARTS, PRIOR_SEED + 3)
        values = objective(draws)
        chosen = np.argsort(-values)[:STARTS_TRIED]
        totals = self.noisy_cells(released).totals
        ends = [self._climb(objective, draws[k], totals) for k in chosen]
        theta = max(ends, key=lambda end: float(objective(end[None])[0]))
        return theta, self.covariance_at(theta, released)

    def covariance_at(self, theta: np.ndarray, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of prior precision and information, shape (p, p)."""
        root = self._designer.root
        precision = self._precision(theta, self.noisy_cells(released).totals)
        return np.asarray(root @ np.linalg.solve(precision, root.T))

    def _precision(self, theta: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """I + information, along the root of the prior covariance."""
        root = self._designer.root
        fisher = self._designer.fisher(self.probabilities, theta[None], root.T, totals)[0]
        return np.eye(root.shape[1]) + fisher

    def _climb(self, objective: LogLikelihood, theta: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """A mode by steps of Fisher scoring, each halved until it climbs."""
        root, value = self._designer.root, float(objective(theta[None])[0])
        for _ in range(MOST_STEPS):
            slope = slopes_along(objective, theta, root, STEP)
            step = root @ np.linalg.solve(self._precision(theta, totals), slope)
            tried = theta + step * (0.5 ** np.arange(12.0))[:, None]
            values = objective(tried)
            best = int(np.argmax(values))
            gain = float(values[best]) - value
            if not gain > 0.0:
                break
            theta, value = tried[best], float(values[best])
            if gain < ENOUGH_CLIMBED:
                break
        return theta

    def potential(
        self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Variable]
    ) -> Variable:
        """The log-likelihood as a PyTensor scalar of the natural parameters.

        Raises
        ------
        Incompatible
            Value or gradient differ from `log_likelihood` at the center.
        """
        inputs = dict(self._designer.record.single.parameters)
        cells = self.noisy_cells(released)
        slopes = CellSlopes(self.probabilities.quadrature, cells)
        value, *_ = NumpyLikelihood(slopes)(self.probabilities.symbolic(inputs))
        self._check_agreement(released, inputs, value)
        swaps = {v: parameters[name] for name, v in inputs.items()}
        return rebuild([value], swaps)[0]

    def _check_agreement(
        self, released: Mapping[str, np.ndarray], inputs: Mapping[str, Variable], value: Variable
    ) -> None:
        theta = self.start(released)[0]
        likelihood, root = self.log_likelihood(released), self._designer.root
        grads = pytensor.grad(value, list(inputs.values()), disconnected_inputs="ignore")
        graphs = rewritten(without_checks([value, *grads]))
        program = NumpyProgram(list(inputs.values()), graphs)
        natural = self.parameters.natural(theta[None])
        found, *slopes = program(*(natural[name][0] for name in inputs))
        step = STEP * root.T
        both = [self.parameters.natural(theta + sign * step) for sign in (1.0, -1.0)]
        moves = [(both[0][k] - both[1][k]).reshape(len(step), -1) / (2.0 * STEP) for k in inputs]
        chained = sum(
            np.asarray(move @ np.ravel(slope)) for move, slope in zip(moves, slopes, strict=True)
        )
        direct = slopes_along(likelihood, theta, root, STEP)
        expected = float(likelihood(theta[None])[0])
        scale = 1.0 + np.abs(direct).max()
        if not (
            abs(float(found) - expected) <= AGREEMENT * (1.0 + abs(expected))
            and (np.abs(chained - direct) <= GRADIENT_AGREEMENT * scale).all()
        ):
            raise Incompatible(
                "the two forms of the likelihood of noisy cells disagree",
                got=f"values {float(found):.8g} and {expected:.8g}",
                allowed="the same function",
                do="please report this model; draws are another way: pmp.sample",
            )

    # ---- judgment ------------------------------------------------------------------------------
    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust the noisy counts, or what the likelihood assumes."""
        cells = self.noisy_cells(released)
        found = [
            *self._fit_cautions(released, cells),
            *disagreement_cautions(released, self.scale is not None),
        ]
        groups, width = cells.counts.shape
        small = cells.totals < EMPTY_CELL * self.sd * math.sqrt(width)
        if groups > 1 and small.mean() > MANY_EMPTY:
            found.append(
                Caution(
                    f"{int(small.sum())} of {groups} covariate cells hold fewer records than noise "
                    'alone would show, which shrinks effects; method="scores" does not cut '
                    "covariates"
                )
            )
        if self.facts["assumed_uniform"]:
            names = ", ".join(self.facts["assumed_uniform"])
            found.append(
                Caution(
                    f"{names}: uniform within a cell by assumption, an approximation that "
                    'no noise covers; method="scores" does without'
                )
            )
        if self.sd < CONVOLVED_BELOW and not cells.is_convolved:
            found.append(
                Caution(
                    f"noise of standard deviation {self.sd:.2g} is small beside whole numbers: "
                    "cells of few records are treated as normal all the same"
                )
            )
        return found

    def _fit_cautions(self, released: Mapping[str, np.ndarray], cells: NoisyCells) -> list[Caution]:
        """The mean square of standardized counts at the center, against the model's own."""
        theta = self.start(released)[0]
        q = self.probabilities(self.parameters.natural(theta[None]))[0][0]
        expected = cells.totals[:, None] * q
        square = (cells.counts - expected) ** 2 / (expected + cells.variance)
        value = float(square.mean())
        if value <= CHI2_WARNED:
            return []
        text = (
            f"at the most probable parameters the noisy counts are {math.sqrt(value):.1f} standard "
            "deviations from what the model expects: it does not fit"
        )
        return [Caution(text, refuse=value > CHI2_REFUSED)]


def cell_mechanism(
    private: PrivateModel,
    epsilon: float,
    delta: float,
    *,
    edges: Any = None,
    n: int | None = None,
) -> CellMechanism:
    """The mechanism with the least noise within (epsilon, delta).

    Discrete Laplace noise pays for two counts that move by one each however many cells there are,
    so that for a single summary it is often less than Gaussian noise, and pure. In a ledger that
    adds many releases up by zCDP or Gaussian privacy, it costs more.
    """
    if delta == 0:
        return CellMechanism(private, epsilon=epsilon, edges=edges, n=n)
    mu = largest_mu(epsilon, delta)
    moved = (1 if private.neighbors == ADD_REMOVE else 2) * private.records_per_unit
    if discrete_laplace_sd(moved / epsilon) < math.sqrt(moved * private.records_per_unit) / mu:
        return CellMechanism(private, epsilon=epsilon, edges=edges, n=n)
    return CellMechanism(private, mu, edges=edges, n=n)
