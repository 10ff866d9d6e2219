"""Records that are uniform on their declared domains: covariates of simulations and rehearsals."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.models.domains import Ball, Categories, Counts, Domain, Interval, Simplex


@singledispatch
def uniform_entries(
    domain: Domain, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    """Independent entries of records, uniform on a domain, shape (count, *shape).

    `shape` is that of one record's entry; `whole` tells whether entries are integers by type.
    """
    raise Unsupported(
        "no records can be drawn from a domain of this kind",
        got=type(domain).__name__,
        allowed="Interval, Categories, Ball, Simplex, Counts",
        do="give covariates by reference=",
    )


@uniform_entries.register
def _uniform_interval(
    domain: Interval, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    bounds = domain.bounds(shape)
    if whole:
        low, high = np.ceil(bounds.lower), np.floor(bounds.upper)
        return np.floor(low + rng.random((count, *shape)) * (high - low + 1.0)).clip(low, high)
    share = rng.random((count, *shape))
    return bounds.lower * (1.0 - share) + bounds.upper * share


@uniform_entries.register
def _uniform_categories(
    domain: Categories, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    return rng.choice(np.asarray(domain.values), (count, *shape))


@uniform_entries.register
def _uniform_ball(
    domain: Ball, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    rows = rng.normal(size=(count, *shape))
    radii = domain.radius * rng.random((count, 1)) ** (1.0 / shape[0])
    rows *= radii / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(domain.center, float) + np.asarray(domain.scale, float) * rows


@uniform_entries.register
def _uniform_simplex(
    domain: Simplex, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), (count, *shape[:-1]))


@uniform_entries.register
def _uniform_counts(
    domain: Counts, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    """Uniform on all rows of one total: gaps between random bars among stars."""
    width, total = shape[-1], domain.total
    rows = np.empty((count * int(np.prod(shape[:-1], dtype=int)), width))
    for row in rows:
        bars = np.sort(rng.choice(total + width - 1, width - 1, replace=False))
        row[:] = np.diff(np.r_[-1, bars, total + width - 1]) - 1
    return rows.reshape(count, *shape)
