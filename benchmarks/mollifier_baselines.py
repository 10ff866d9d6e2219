"""Other ways to a private density, each with the promise it makes; none of them is in the package.

Two promises, never ranked together: one record of n (``*_record``, the density itself may be
published), or the whole sample (one draw costs epsilon), which mollifiers give as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from benchmarks.mollifier_targets import Grid, Target

FACTORS = 2.0 ** (-np.arange(-1, 10) / 2.0)


def fresh(*words: object) -> np.random.Generator:
    """Random numbers of their own for each experiment: none shares its noise with another."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def kernel_estimate(rows: np.ndarray, at: np.ndarray, width: float) -> np.ndarray:
    """A product Gaussian kernel estimate, in blocks."""
    n, d = rows.shape
    out = np.zeros(len(at))
    for start in range(0, len(at), 256):
        block = at[start : start + 256]
        exponent = -((block[:, None] - rows[None]) ** 2).sum(axis=2) / (2 * width**2)
        out[start : start + 256] = np.exp(exponent).sum(axis=1)
    return out / (n * (2 * np.pi * width**2) ** (d / 2))


def held_out_width(rows: np.ndarray) -> float:
    """Bandwidth by one held-out tenth, at no charge: an experiment, not a release."""
    judge = np.arange(len(rows)) % 10 == 9
    train, test = rows[~judge][:3000], rows[judge][:300]
    scott = rows.std() * len(train) ** (-1.0 / (rows.shape[1] + 4))
    fits = [np.log(kernel_estimate(train, test, f * scott) + 1e-300).mean() for f in FACTORS]
    return float(FACTORS[int(np.argmax(fits))] * scott)


def bernstein(
    target: Target,
    rows: np.ndarray,
    grid: Grid,
    degree: int,
    epsilons: tuple[float, ...],
    width: float,
    seed: int,
    whole: bool = False,
) -> Iterator[tuple[float, np.ndarray]]:
    """The Bernstein mechanism on a kernel estimate (Alda and Rubinstein 2017), at each epsilon.

    The estimate on a lattice of (degree + 1)^d points of the box gets Laplace noise of scale
    S / epsilon, S its sensitivity in l1: D (degree + 1)^d as in the paper, D = K(0) / n for one
    record; n times that for the whole sample. The noisy polynomial is shifted to be positive and
    normalized. The bandwidth is the caller's.
    """
    (low, high), d, n = target.box, target.dimension, len(rows)
    axis = np.linspace(low, high, degree + 1)
    lattice = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    estimate = kernel_estimate(rows, lattice, width).reshape((degree + 1,) * d)
    peak = (2 * np.pi * width**2) ** (-d / 2)
    sensitivity = peak * (degree + 1.0) ** d * (1.0 if whole else 1.0 / n)
    bases = [_bernstein_basis(np.unique(grid.points[:, j]), low, high, degree) for j in range(d)]
    inside = ((grid.points >= low) & (grid.points <= high)).all(axis=1)
    for epsilon in epsilons:
        rng = fresh("bernstein", target.name, degree, epsilon, seed, whole)
        values = estimate + rng.laplace(scale=sensitivity / epsilon, size=estimate.shape)
        for j, basis in enumerate(bases):
            values = np.moveaxis(np.tensordot(basis, values, axes=(1, j)), 0, j)
        density = np.where(inside, values.ravel(), 0.0)
        density = np.where(inside, density - min(density[inside].min(), 0.0), 0.0)
        total = density.sum()
        density = density / total if total > 0 else inside / inside.sum()
        yield epsilon, np.log(np.maximum(density, 1e-300))


def _bernstein_basis(line: np.ndarray, low: float, high: float, degree: int) -> np.ndarray:
    t = np.clip((line - low) / (high - low), 0.0, 1.0)[:, None]
    k = np.arange(degree + 1)
    return np.exp(gammaln(degree + 1) - gammaln(k + 1) - gammaln(degree - k + 1)) * (
        t**k * (1 - t) ** (degree - k)
    )


def laplace_histogram(
    target: Target, rows: np.ndarray, grid: Grid, epsilon: float, seed: int, whole: bool
) -> np.ndarray:
    """Counts in 64 cells of the box with Laplace noise; one record moves two counts by one.

    Noisy counts below one are set to one, which is post-processing.
    """
    (low, high), d = target.box, target.dimension
    along = 64 if d == 1 else 8

    def cell(x: np.ndarray) -> np.ndarray:
        place = ((x - low) / (high - low) * along).astype(int)
        return np.ravel_multi_index(tuple(np.clip(place, 0, along - 1).T), (along,) * d)

    size = along**d
    counts = np.bincount(cell(rows), minlength=size).astype(float)
    scale = 2.0 * (len(rows) if whole else 1.0) / epsilon
    counts += fresh("laplace", target.name, epsilon, seed, whole).laplace(scale=scale, size=size)
    shares = np.maximum(counts, 1.0)
    shares = shares / shares.sum()
    inside = ((grid.points >= low) & (grid.points <= high)).all(axis=1)
    cells = cell(grid.points[inside])
    law = np.zeros(len(grid.points))
    law[inside] = shares[cells] / np.bincount(cells, minlength=size)[cells]
    return np.log(np.maximum(law / law.sum(), 1e-300))


def scale_and_shift(log_ratio: np.ndarray, grid: Grid, epsilon: float, most: float) -> np.ndarray:
    """(1 - l) Q0 + l P, l the largest that keeps any P with P/Q0 <= most inside the window.

    The estimate's ratio is cut at `most`, a public number, and what is cut off is put on Q0.
    """
    half = epsilon / 2
    share = min(1 - np.exp(-half), np.expm1(half) / (most - 1))
    ratio = np.minimum(np.exp(np.minimum(log_ratio, 50)), most)
    ratio = ratio / max(1.0, float(grid.reference @ ratio))
    left = 1.0 - float(grid.reference @ ratio)
    mixed = 1.0 - share + share * (ratio + left)
    return np.log(grid.reference) + np.log(mixed)


def from_draws(draws: np.ndarray, grid: Grid) -> np.ndarray:
    """Log probabilities on the grid of a law known by draws only.

    A kernel estimate of them, mixed with 1% of the reference lest a gap between modes cost all.
    """
    from pymc_private.mollifiers.density_estimates import kernel_density

    density = np.exp(kernel_density(draws)(grid.points)) * grid.volume
    return np.log(np.maximum(0.99 * density + 0.01 * grid.reference, 1e-300))


__all__ = [
    "bernstein",
    "fresh",
    "from_draws",
    "held_out_width",
    "kernel_estimate",
    "laplace_histogram",
    "scale_and_shift",
]
