"""Integer noise. The only file that knows OpenDP: its samplers are exact, on system entropy."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.privacy.noisy_counts__noisy_counts import GAUSSIAN, LAPLACE

LARGEST = 2**53
"""Integers beyond are no doubles."""


def noisy(counts: Mapping[str, np.ndarray], law: str, scale: float) -> dict[str, np.ndarray]:
    """Add independent integer noise to every count of all tables.

    Parameters
    ----------
    counts : mapping of str to array of float, any shapes
        Whole numbers.
    law : {"discrete_gaussian", "laplace"}
    scale : float

    Returns
    -------
    dict of str to array of int64, the same shapes

    Raises
    ------
    DomainError
        Counts that are not whole numbers.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Algorithms 2 and 3, as OpenDP implements them.
    """
    whole = {name: as_whole(table) for name, table in counts.items()}
    flat = np.concatenate([table.ravel() for table in whole.values()])
    dp = opendp()
    metric: Any = dp.l1_distance(T="i64") if law == LAPLACE else dp.l2_distance(T="i64")
    make = {LAPLACE: dp.m.make_laplace, GAUSSIAN: dp.m.make_gaussian}[law]
    space = (dp.vector_domain(dp.atom_domain(T="i64")), metric)
    answers = np.asarray(make(*space, float(scale))(flat.tolist()), dtype=np.int64)
    ends = np.cumsum([table.size for table in whole.values()])
    parts = np.split(answers, ends[:-1])
    return {n: part.reshape(whole[n].shape) for n, part in zip(whole, parts, strict=True)}


def opendp() -> Any:
    """Import OpenDP; once before the charge, so that a broken one costs nothing."""
    import opendp.prelude as dp

    dp.enable_features("contrib")  # what this says is that OpenDP's proofs were reviewed in part
    return dp


def seeded(
    counts: np.ndarray, law: str, scale: float, generator: np.random.Generator
) -> np.ndarray:
    """Add noise that anybody can repeat: nothing made with it is private."""
    whole = as_whole(counts)
    if law == LAPLACE:
        up, down = generator.geometric(-np.expm1(-1.0 / scale), size=(2, *whole.shape))
        return np.asarray(whole + up - down)
    return np.asarray(whole + np.round(generator.normal(0.0, scale, whole.shape)).astype(np.int64))


def as_whole(counts: np.ndarray) -> np.ndarray:
    """Give counts as integers.

    Raises
    ------
    DomainError
        They are none.
    """
    values = np.asarray(counts, float)
    if not (np.abs(values) < LARGEST).all() or (values != np.round(values)).any():
        raise DomainError(
            "integer noise is for whole numbers",
            got="counts with a fractional part, or beyond 2**53",
            do='count records without weights, or take method="exact"',
        )
    return values.astype(np.int64)
