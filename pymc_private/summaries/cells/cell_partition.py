"""Public partitions of what a record can be, and nodes that integrate a density over cells (T33).

A record lies in one covariate cell and one outcome cell. Covariates of few values have a cell for
each combination; intervals are cut into equal parts. The outcome is cut at public edges, its
outermost cells reach to the ends of the density's support, and points with mass of their own
(censoring bounds, zeros of hurdles) are cells by themselves. Data were clipped to the domain, so
that what lies outside it is counted in the outermost cells, where the density has it too: clipping
costs no bias here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories, Interval, even_edges

MOST_LEVELS = 24
"""Most values of an outcome that are cells by themselves."""
MOST_COVARIATE_LEVELS = 128
"""Most values of one covariate that are cells by themselves."""
WHOLE_NODES = 60
"""Whole numbers of a cell of counts at which the density is summed; more are strided."""
TAIL_PANELS = 12
"""Panels of a cell without an end, each twice as wide as the one before."""
END_POWER = 4
"""At an end of the support y is end + width t^4, since densities may be infinite there."""
GAUSS = np.polynomial.legendre.leggauss(5)


@dataclass(frozen=True)
class CellSupport:
    """Where the outcome of a record lies.

    Attributes
    ----------
    kind : {"finite", "integer", "continuous"}
    lower, upper : float
        Ends of the density's support, perhaps infinite.
    atoms : tuple of float
        Values of a continuous outcome that have mass of their own.
    levels : tuple of float
        All values, if they are listed ("finite").
    """

    kind: str
    lower: float = -np.inf
    upper: float = np.inf
    atoms: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()


# ---- covariates --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class CovariateAxis:
    """One number of a private covariate, cut into cells.

    Attributes
    ----------
    source : str
    position : int
        In the flat entry of one record.
    edges : array
        Inner edges, increasing; cell k holds values from edge k - 1 up to below edge k.
    points : tuple of array
        In each cell, the values at which the density is averaged, with equal weights.
    is_cut : bool
        Whether a cell holds several values, over which a distribution is assumed.
    """

    source: str
    position: int
    edges: np.ndarray
    points: tuple[np.ndarray, ...]
    is_cut: bool

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.points)


def covariate_axes(sources: Sequence[Source], pieces: int) -> tuple[CovariateAxis, ...]:
    """Axes of all numbers of the covariates, intervals cut into `pieces` equal parts."""
    axes = []
    for source in sources:
        size = int(np.prod(source.row_shape))
        for position in range(size):
            axes.append(_axis(source, position, pieces))
    return tuple(axes)


def _axis(source: Source, position: int, pieces: int) -> CovariateAxis:
    if not isinstance(source.domain, Categories | Interval):
        raise Unsupported(
            f"the covariate '{source.name}' is not cut into cells",
            got=type(source.domain).__name__,
            allowed="Categories, Interval",
            do='method="scores"',
        )
    bounds = source.domain.bounds(source.row_shape)
    low, high = (float(np.ravel(b)[position]) for b in (bounds.lower, bounds.upper))
    values = _levels(source, low, high)
    if values is not None:
        middles = (values[1:] + values[:-1]) / 2.0
        return CovariateAxis(
            source.name, position, middles, tuple(np.array([v]) for v in values), False
        )
    if source.is_whole:
        return _whole_axis(source.name, position, np.ceil(low), np.floor(high), pieces)
    edges = even_edges(low, high, pieces)
    share = (np.array([-1.0, 1.0]) / np.sqrt(3.0) + 1.0) / 2.0
    points = tuple(a + (b - a) * share for a, b in itertools.pairwise(edges))
    return CovariateAxis(source.name, position, edges[1:-1], points, True)


def _whole_axis(name: str, position: int, low: float, high: float, pieces: int) -> CovariateAxis:
    edges = np.unique(np.round(even_edges(low - 0.5, high + 0.5, pieces) - 0.5) + 0.5)
    points = tuple(
        np.unique(np.round(np.linspace(a + 0.5, b - 0.5, 4)[1:3]))
        for a, b in itertools.pairwise(edges)
    )
    return CovariateAxis(name, position, edges[1:-1], points, True)


def _levels(source: Source, low: float, high: float) -> np.ndarray | None:
    """All values of a covariate, where they are few."""
    if isinstance(source.domain, Categories):
        values = np.asarray(source.domain.values, float)
    elif low == high:
        values = np.array([low])
    elif source.is_whole and high - low < MOST_LEVELS:
        values = np.arange(np.ceil(low), np.floor(high) + 1.0)
    else:
        return None
    if len(values) > MOST_COVARIATE_LEVELS:
        raise Unsupported(
            f"the covariate '{source.name}' has a cell for each value",
            got=f"{len(values)} values",
            allowed=f"{MOST_COVARIATE_LEVELS} at most",
            do='method="scores"',
        )
    return values


# ---- partitions --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class CellPartition:
    """Cells of records: covariate cells, in the order of the axes, by outcome cells.

    Attributes
    ----------
    outcome : str
        Name of its source.
    edges : array
        Inner edges of the outcome; cell j holds values from edge j - 1 up to below edge j.
    atoms : tuple of float
        Values that are cells by themselves, after the others.
    axes : tuple of CovariateAxis
    """

    outcome: str
    edges: np.ndarray
    atoms: tuple[float, ...]
    axes: tuple[CovariateAxis, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of covariate cells and of outcome cells."""
        groups = int(np.prod([axis.cells for axis in self.axes], dtype=int))
        return groups, len(self.edges) + 1 + len(self.atoms)

    def cells(self, records: Mapping[str, np.ndarray]) -> np.ndarray:
        """The cell of each record, by comparisons alone, which no rounding can alter: (n,)."""
        y = np.asarray(records[self.outcome], float).reshape(len(records[self.outcome]))
        found = np.searchsorted(self.edges, y, side="right")
        for k, atom in enumerate(self.atoms):
            found[y == atom] = len(self.edges) + 1 + k
        group = np.zeros(len(y), dtype=np.int64)
        for axis in self.axes:
            entries = np.asarray(records[axis.source], float).reshape(len(y), -1)
            place = np.searchsorted(axis.edges, entries[:, axis.position], side="right")
            group = group * axis.cells + place
        return group * self.shape[1] + found

    def reference(self, sources: Sequence[Source]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Rows at which the density is averaged, and the weights of rows in each covariate cell.

        Returns
        -------
        dict of str to array, shape (R, *row_shape); array, shape (G, R)
        """
        corners = [range(axis.cells) for axis in self.axes]
        rows, owners = [], []
        for g, place in enumerate(itertools.product(*corners)):
            points = [axis.points[k] for axis, k in zip(self.axes, place, strict=True)]
            found = list(itertools.product(*points))
            rows += found
            owners += [g] * len(found)
        table = np.array(rows, float).reshape(len(owners), len(self.axes))
        weights = np.eye(self.shape[0])[:, owners]
        return self._by_source(table, sources), weights / weights.sum(axis=1, keepdims=True)

    def _by_source(self, table: np.ndarray, sources: Sequence[Source]) -> dict[str, np.ndarray]:
        found, start = {}, 0
        for source in sources:
            size = int(np.prod(source.row_shape))
            entries = table[:, start : start + size].reshape(len(table), *source.row_shape)
            found[source.name] = entries.astype(source.dtype)
            start += size
        return found


def outcome_edges(
    support: CellSupport, simulated: np.ndarray, domain: Any, cells: int
) -> np.ndarray:
    """Inner edges of about `cells` outcome cells of equal prior-predictive mass.

    Where the outcome has few values, each is a cell. `simulated` are prior-predictive values,
    clipped to the domain; atoms are left out.
    """
    if support.kind == "finite":
        levels = np.asarray(support.levels, float)
        middles = (levels[1:] + levels[:-1]) / 2.0
        if len(levels) <= MOST_LEVELS:
            return middles
        chosen = np.quantile(simulated, np.arange(1, cells) / cells)
        return np.unique(middles[np.clip(np.searchsorted(middles, chosen), 0, len(middles) - 1)])
    bounds = domain.bounds(())
    low, high = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    values = simulated[~np.isin(simulated, support.atoms)]
    if not len(values):
        values = np.linspace(low, high, 2 * cells + 1)
    edges = np.quantile(values, np.arange(1, cells) / cells)
    if support.kind == "integer":
        edges = np.floor(edges) + 0.5
    edges = np.unique(edges)
    return edges[(edges > max(low, support.lower)) & (edges < min(high, support.upper))]


# ---- nodes -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class CellNodes:
    """Outcomes at which the density is evaluated, and the weights that make cell probabilities.

    Attributes
    ----------
    values : array, shape (Q,)
    weights : array, shape (Q, J)
    rest : int or None
        A cell whose probability is what the others leave.
    is_exact : bool
        Whether the sum over all cells is the probability of the declared values, no quadrature.
    """

    values: np.ndarray
    weights: np.ndarray
    rest: int | None
    is_exact: bool


def cell_nodes(support: CellSupport, partition: CellPartition, panels: int) -> CellNodes:
    """Nodes for all outcome cells, with `panels` panels of five Gauss-Legendre points each."""
    width = partition.shape[1]
    parts: list[tuple[np.ndarray, np.ndarray, int]] = []
    rest = None
    if support.kind == "finite":
        levels = np.asarray(support.levels, float)
        owners = np.searchsorted(partition.edges, levels, side="right")
        parts = [(np.array([v]), np.ones(1), int(j)) for v, j in zip(levels, owners, strict=True)]
    elif support.kind == "integer":
        parts, rest = _whole_parts(support, partition.edges)
    else:
        parts = _continuous_parts(support, partition.edges, panels)
    for atom in support.atoms:
        own = partition.atoms.index(atom) if atom in partition.atoms else None
        cell = int(np.searchsorted(partition.edges, atom, side="right"))
        parts.append(
            (np.array([atom]), np.ones(1), cell if own is None else len(partition.edges) + 1 + own)
        )
    values = np.concatenate([p[0] for p in parts])
    weights = np.zeros((len(values), width))
    owners = np.concatenate([np.full(len(v), j) for v, _, j in parts])
    weights[np.arange(len(values)), owners] = np.concatenate([p[1] for p in parts])
    return CellNodes(values, weights, rest, support.kind == "finite")


Part = tuple[np.ndarray, np.ndarray, int]
"""Values, weights, and the cell they belong to."""


def _whole_parts(support: CellSupport, edges: np.ndarray) -> tuple[list[Part], int | None]:
    """Sums over whole numbers; a cell without an upper end is what the others leave."""
    low, high = support.lower, support.upper
    if np.isinf(low):
        reach = float(np.ptp(edges)) if len(edges) > 1 else 100.0
        low = float(np.floor(edges[0] - 8.0 * (reach + 1.0)))
    ends = np.concatenate([[low - 0.5], edges, [high + 0.5]])
    parts, rest = [], None
    for j, (a, b) in enumerate(itertools.pairwise(ends)):
        if np.isinf(b):
            rest = j
            continue
        first, last = np.ceil(a), np.floor(b)
        count = int(last - first) + 1
        if count <= WHOLE_NODES:
            parts.append((first + np.arange(count), np.ones(count), j))
        else:
            borders = np.round(np.linspace(first, last + 1.0, WHOLE_NODES + 1))
            middles = np.floor((borders[1:] + borders[:-1] - 1.0) / 2.0)
            parts.append((middles, np.diff(borders), j))
    return parts, rest


def _continuous_parts(support: CellSupport, edges: np.ndarray, panels: int) -> list[Part]:
    """Gauss-Legendre in each cell; towards an infinite end in panels that double."""
    ends = np.concatenate([[support.lower], edges, [support.upper]])
    finite = ends[np.isfinite(ends)]
    scale = float(np.median(np.diff(finite))) if len(finite) > 1 else 1.0
    parts = []
    for j, (a, b) in enumerate(itertools.pairwise(ends)):
        if np.isinf(a) and np.isinf(b):
            raise DomainError(
                "an outcome without an end needs two cells at least",
                got="one cell",
                do="declare a wider domain of the outcome, or give edges=",
            )
        if np.isinf(a) or np.isinf(b):
            sign, end = (1.0, a) if np.isinf(b) else (-1.0, b)
            borders = scale / panels * (2.0 ** np.arange(TAIL_PANELS + panels.bit_length()) - 1.0)
            values, weights = _gauss(borders)
            parts.append((end + sign * values, weights, j))
            continue
        values, weights = _gauss(np.arange(panels + 1.0) / panels)
        at_low, at_high = j == 0, j == len(ends) - 2
        if at_low or at_high:
            weights = weights * END_POWER * values ** (END_POWER - 1)
            values = values**END_POWER
        values = (b - a) * values
        parts.append((b - values if at_high and not at_low else a + values, weights * (b - a), j))
    return parts


def _gauss(borders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Five Gauss-Legendre points between each pair of borders."""
    half = np.diff(borders)[:, None] / 2.0
    middle = (borders[1:] + borders[:-1])[:, None] / 2.0
    return (middle + half * GAUSS[0]).ravel(), (half * GAUSS[1]).ravel()
