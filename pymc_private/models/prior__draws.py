"""Records that could be: uniform draws from a declared domain."""

from __future__ import annotations

import numpy as np
from functools import singledispatch
from pymc_private.errors import Unsupported
from pymc_private.models.domains__ball import Ball
from pymc_private.models.domains__counts import Counts
from pymc_private.models.domains import Categories, Domain, Interval, Simplex

@singledispatch
def uniform(
    domain: Domain, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    """Independent entries of records, uniform on a domain.

    Parameters
    ----------
    domain : Domain
    shape : tuple of int
        Of one record's entry.
    count : int
        Number of records.
    whole : bool
        Whether entries are integers by type.
    rng : numpy.random.Generator

    Returns
    -------
    array, shape (count, *shape)

    Raises
    ------
    Unsupported
        A domain of another kind.
    """
    raise Unsupported(
        "no records can be drawn from a domain of this kind",
        got=type(domain).__name__,
        allowed="Interval, Categories, Ball, Simplex, Counts",
        do="give covariates by reference=",
    )


@uniform.register
def _interval(
    domain: Interval, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    ends = domain.bounds(shape)
    if whole:
        low, high = np.ceil(ends.lower), np.floor(ends.upper)
        return np.floor(low + rng.random((count, *shape)) * (high - low + 1.0)).clip(low, high)
    share = rng.random((count, *shape))
    return ends.lower * (1.0 - share) + ends.upper * share


@uniform.register
def _categories(
    domain: Categories, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    return rng.choice(np.asarray(domain.values), (count, *shape))


@uniform.register
def _ball(
    domain: Ball, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    rows = rng.normal(size=(count, *shape))
    reach = domain.radius * rng.random((count, 1)) ** (1.0 / shape[0])
    rows *= reach / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(domain.center, float) + np.asarray(domain.scale, float) * rows


@uniform.register
def _simplex(
    domain: Simplex, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), (count, *shape[:-1]))


@uniform.register
def _counts(
    domain: Counts, shape: tuple[int, ...], count: int, whole: bool, rng: np.random.Generator
) -> np.ndarray:
    """All rows of one total alike: gaps between bars among stars."""
    width, total = shape[-1], domain.total
    rows = np.empty((count * int(np.prod(shape[:-1], dtype=int)), width))
    for row in rows:
        bars = np.sort(rng.choice(total + width - 1, width - 1, replace=False))
        row[:] = np.diff(np.r_[-1, bars, total + width - 1]) - 1
    return rows.reshape(count, *shape)
