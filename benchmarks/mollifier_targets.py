"""Known targets, and how a law on them is scored: by quadrature in 1-d and 2-d, else by draws.

``ring`` and ``mix1d`` are those of the reference results; ``random1d`` and ``random2d`` are
mixtures drawn once from a fixed seed; ``wide5`` and ``wide10`` are product normals in 5 and 10
dimensions.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import logsumexp


@dataclass(frozen=True)
class Target:
    """A mixture of normals with equal weights, and the grid it is scored on."""

    name: str
    means: tuple[tuple[float, ...], ...]
    variances: tuple[float, ...]
    grid_end: float
    grid_size: int
    box: tuple[float, float]

    @property
    def dimension(self) -> int:
        return len(self.means[0])

    @property
    def reference(self) -> list:
        return [stats.norm()] * self.dimension

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(len(x), -1)
        d = self.dimension
        terms = [
            -((x - np.array(m)) ** 2).sum(axis=1) / (2 * v) - d / 2 * np.log(2 * np.pi * v)
            for m, v in zip(self.means, self.variances, strict=True)
        ]
        return logsumexp(terms, axis=0) - np.log(len(self.means))

    def sample(self, n: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        part = rng.integers(0, len(self.means), n)
        noise = rng.normal(size=(n, self.dimension)) * np.sqrt(np.array(self.variances))[part, None]
        return np.array(self.means)[part] + noise


@dataclass(frozen=True)
class Grid:
    """Midpoints with the target's and the reference's probabilities, both normalized on them."""

    points: np.ndarray
    target: np.ndarray
    reference: np.ndarray
    volume: float

    @property
    def log_ratio(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.target) - np.log(self.reference)


def _ring() -> Target:
    means = [(4 * np.cos(np.pi * k / 4), 4 * np.sin(np.pi * k / 4)) for k in range(8)]
    return Target("ring", tuple(means), (0.5,) * 8, 9.0, 361, (-7.0, 7.0))


def _random(dimension: int) -> Target:
    rng = np.random.default_rng(2020 + dimension)
    means = tuple(tuple(row) for row in rng.uniform(-2.5, 2.5, size=(5, dimension)))
    variances = tuple(rng.uniform(0.02, 0.25, size=5))
    size = 4801 if dimension == 1 else 361
    return Target(f"random{dimension}d", means, variances, 6.0, size, (-4.0, 4.0))


TARGETS = {
    "ring": _ring(),
    "mix1d": Target("mix1d", ((0.3,), (0.5,), (0.7,)), (0.01, 0.1, 0.1), 6.0, 4801, (-1.0, 2.0)),
    "random1d": _random(1),
    "random2d": _random(2),
    "wide5": Target("wide5", ((0.5,) * 5,), (0.5,), 0.0, 0, (-4.0, 4.0)),
    "wide10": Target("wide10", ((0.5,) * 10,), (0.5,), 0.0, 0, (-4.0, 4.0)),
}


@functools.lru_cache(maxsize=8)
def grid_of(name: str, boxed: bool = False) -> Grid:
    """The grid of a target; with `boxed`, the reference is uniform on the target's box."""
    target = TARGETS[name]
    d, end, size = target.dimension, target.grid_end, target.grid_size
    if d == 1:
        axis = np.linspace(-end, end, size)  # as the reference results have it
    else:
        edges = np.linspace(-end, end, size + 1)
        axis = (edges[1:] + edges[:-1]) / 2
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    law = np.exp(target.logpdf(points))
    base = np.exp(stats.norm.logpdf(points).sum(axis=1))
    if boxed:
        low, high = target.box
        base = ((points >= low) & (points <= high)).all(axis=1).astype(float)
    step = float(axis[1] - axis[0])
    return Grid(points, law / law.sum(), base / base.sum(), step**d)


def edges(along: int) -> np.ndarray:
    """Inner edges of cells of equal mass of the standard normal."""
    return stats.norm.ppf(np.arange(1, along) / along)


def cell_masses(target: Target, along: int) -> np.ndarray:
    """Probabilities under the target of cells of equal reference mass: no grid."""
    ends = np.concatenate([[-np.inf], edges(along), [np.inf]])
    total = np.zeros((along,) * target.dimension)
    for mean, variance in zip(target.means, target.variances, strict=True):
        sides = [np.diff(stats.norm.cdf(ends, m, variance**0.5)) for m in mean]
        total += functools.reduce(np.multiply.outer, sides) / len(target.means)
    return total.ravel()


def scores(grid: Grid, log_law: np.ndarray) -> dict[str, float]:
    """nll, KL and mode coverage of a law given by log probabilities on the grid."""
    p = grid.target
    entropy = -float(p @ np.log(np.where(p > 0, p, 1.0)))
    nll = -float(p @ np.maximum(log_law, np.log(1e-300)))
    q = np.exp(log_law)
    order = np.argsort(-q, kind="stable")
    inside = order[: int(np.searchsorted(np.cumsum(q[order]) / q.sum(), 0.95)) + 1]
    log_volume = float(np.log(grid.volume))
    return {"nll": nll + log_volume, "kl": nll - entropy, "coverage": float(p[inside].sum())}
