"""Public grids: the points on which a posterior lives when `grid` draws from it."""

from __future__ import annotations

import math
import numpy as np
import pytensor.tensor as pt
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.batched_bounds import Batch
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.validation import whole
from pymc_private.privacy.rounding__printing import counted

TAU_BITS = 20
MOST_POINTS = 2**16
USUAL_POINTS = 2**12
"""Points of a grid when nobody says how many."""
CHUNK = 2**12
"""Points in one walk."""


@dataclass(frozen=True)
class Lattice:
    """The public points on which a posterior lives.

    Parameters
    ----------
    names : tuple of str
    shapes : tuple of tuple of int
    points : array, shape (K, d)
        Every combination of the coordinates' values.
    log_prior : array of int, shape (K,)
        Log prior density in multiples of `unit`.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    points: np.ndarray
    log_prior: np.ndarray
    tau: Fraction = field(default_factory=lambda: Fraction(1, 2**TAU_BITS))

    @property
    def unit(self) -> Fraction:
        """What log-likelihoods are multiples of."""
        return self.tau / 4

    def columns(self, start: int, stop: int) -> Iterator[tuple[str, np.ndarray]]:
        """Values of each parameter at some of the points, shape (count, *shape)."""
        rows, place = self.points[start:stop], 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            yield name, rows[:, place : place + size].reshape(len(rows), *shape)
            place += size


def make_lattice(private: PrivateModel, points: int | None = None) -> Lattice:
    """Lay a grid over the box of a model: its own values where discrete, else middles of cells.

    Reads no data.

    Parameters
    ----------
    private : PrivateModel
        Every parameter in a finite box.
    points : int, optional
        Per continuous coordinate. Default: as many as make about 4,096 in all.

    Raises
    ------
    Unsupported
        A parameter without ends, a simplex, too many points, or a prior of zero on all of them.
    """
    names = tuple(private.shapes)
    each = points_of_each(private, points)
    lengths = [length for name in names for length in _lengths(private, name, each)]
    if math.prod(lengths) > MOST_POINTS:  # before any of them fills the memory
        raise Unsupported(
            "the grid has too many points",
            got=math.prod(lengths),
            allowed=f"at most {MOST_POINTS}, the product over {len(lengths)} coordinates",
            do="fewer points per coordinate, fewer parameters, or another sampler",
        )
    axes = [axis for name in names for axis in _axes(private, name, each)]
    count = math.prod(map(len, axes))
    table = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    shapes = tuple(private.shapes[n] for n in names)
    draft = Lattice(names, shapes, table, np.zeros(count, dtype=np.int64))
    log_prior = _log_prior(private, draft)
    alive = np.isfinite(log_prior)
    if not alive.any():
        raise Unsupported(
            "the prior is zero at every point of the grid",
            got=counted(count, "point"),
            do="trim to where the prior is not zero, or take more points",
        )
    whole = np.round((log_prior[alive] - log_prior[alive].max()) / float(draft.unit))
    return Lattice(names, shapes, table[alive], whole.astype(np.int64))


def points_of_each(private: PrivateModel, points: int | None = None) -> int:
    """Points along each continuous coordinate, 0 if there is none."""
    free = [n for n in private.shapes if not _is_whole(private, n)]
    size = sum(math.prod(private.shapes[name]) for name in free)
    usual = max(3, math.floor(USUAL_POINTS ** (1.0 / max(size, 1)) + 1e-9))
    each = usual if points is None else whole(points, "the number of points of a grid")
    return each if size else 0


def _is_whole(private: PrivateModel, name: str) -> bool:
    return not str(private.graph.parameters[name].type.dtype).startswith("float")


def _lengths(private: PrivateModel, name: str, points: int) -> Iterator[int]:
    """How many values each coordinate of one parameter has, at most."""
    for low, high in _ends(private, name):
        whole = _is_whole(private, name)
        yield max(0, math.floor(high) - math.ceil(low) + 1) if whole else points


def _axes(private: PrivateModel, name: str, points: int) -> Iterator[np.ndarray]:
    """Values of each coordinate of one parameter."""
    for low, high in _ends(private, name):
        if _is_whole(private, name):
            yield np.arange(math.ceil(low), math.floor(high) + 1, dtype=float)
        else:
            middles = low + (high - low) * (np.arange(points) + 0.5) / points
            yield np.unique(np.clip(middles, low, high))


def _ends(private: PrivateModel, name: str) -> Iterator[tuple[float, float]]:
    """Both ends of each coordinate of one parameter."""
    box = private.box[name]
    if not box.is_finite or box.within is not None:
        raise Unsupported(
            f"a grid needs two ends for each coordinate of '{name}'",
            got="a parameter without ends" if box.within is None else "a simplex",
            allowed="finite boxes",
            do="pmp.trim(private, box={...}); write a two-cell Dirichlet as a Beta probability",
        )
    yield from zip(np.ravel(box.lower), np.ravel(box.upper), strict=True)


def _log_prior(private: PrivateModel, lattice: Lattice) -> np.ndarray:
    """Log prior density at each point; what it is exactly is a public choice, so floats will do."""
    graph = private.graph
    sized = {v: v.type.clone(shape=private.shapes[n])(name=n) for n, v in graph.parameters.items()}
    shared = {v: pt.constant(v.get_value()) for v in public_data([graph.prior])}
    prior = rebuild([graph.prior], sized | shared)[0]
    batch = Batch(prior, list(sized.values()), ())
    found = []
    for start in range(0, len(lattice.points), CHUNK):
        given = {
            sized[graph.parameters[n]]: as_points(graph.parameters[n], values)
            for n, values in lattice.columns(start, start + CHUNK)
        }
        low, high = batch.values(given)
        found.append(np.where(low == high, low, low / 2 + high / 2))
    top = np.nan_to_num(np.concatenate(found), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    if np.isposinf(top).any():
        raise Unsupported(
            "the prior density is infinite at a point of the grid",
            got=", ".join(lattice.names),
            do="trim away from the edge where it is infinite",
        )
    return top


def as_points(variable: Variable, value: np.ndarray) -> Bounds:
    """Values as points of a variable's own type."""
    return Bounds.point(np.asarray(value).astype(variable.type.dtype))
