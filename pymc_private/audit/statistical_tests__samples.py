"""Draws as arrays: from the user's arrays or samplers, checked, shuffled and cut in parts."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from typing import Any, TypeAlias
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import whole

Sample: TypeAlias = np.ndarray | Callable[[int], np.ndarray]
FEWEST = 8
"""Each part of a sample needs a draw or two."""


def numbers(values: Any, name: str) -> np.ndarray:
    """Take an array of any shape as doubles, shape (n,).

    Raises
    ------
    DomainError
        It is empty, or holds what is no number.
    """
    flat = np.ravel(_doubles(values, name))
    if not flat.size or np.isnan(flat).any():
        raise DomainError(f"{name}: one number or more, none of them NaN", got=f"{flat.size} of it")
    return flat


def take(sample: Sample, draws: int | None, name: str) -> np.ndarray:
    """Take a sample, shape (n,) or (n, d), as doubles of shape (n, d); or draw it.

    Parameters
    ----------
    sample : array or callable
        A callable gets the number of draws.
    draws : int or None
        How many a callable shall draw.
    name : str
        For messages.

    Raises
    ------
    DomainError
        Not an array of numbers, fewer draws than `FEWEST`, or not as many as were asked for.
    """
    if callable(sample):
        if draws is None:
            raise DomainError(
                f"{name} draws on demand", got="no number of draws", do="say draws=10_000"
            )
        found = _doubles(sample(whole(draws, "draws")), name)
        if found.ndim and len(found) != draws:
            raise DomainError(f"{name} gave another number of draws", got=len(found), allowed=draws)
    else:
        found = _doubles(sample, name)
    if found.ndim not in (1, 2) or len(found) < FEWEST or not found.size:
        raise DomainError(
            f"{name}: an array of draws",
            got=f"shape {found.shape}",
            allowed=f"(n,) or (n, d) with n >= {FEWEST}",
        )
    return found.reshape(len(found), -1)


def take_both(p: Sample, q: Sample, draws: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Take two samples that may be compared.

    Raises
    ------
    DomainError
        As `take`, or one has more coordinates than the other.
    """
    first, second = take(p, draws, "p"), take(q, draws, "q")
    if first.shape[1] != second.shape[1]:
        raise DomainError(
            "two neighbors give outputs of one shape",
            got=f"{first.shape[1]} and {second.shape[1]} coordinates",
        )
    return first, second


def halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut a shuffled sample in two."""
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


def _doubles(values: Any, name: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise DomainError(
            f"{name}: an array without a mask", got="a masked array", do="fill or compress it"
        )
    array = np.asarray(values)
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise DomainError(
            f"{name}: an array of numbers",
            got=f"type {array.dtype}",
            allowed="booleans, integers, floats of at most 64 bits",
            do="number the labels",
        )
    if array.dtype.kind in "ui" and array.size and _farthest(array) >= 2**53:
        raise DomainError(
            f"{name}: integers that doubles tell apart",
            got=f"{_farthest(array)}",
            allowed="below 2^53 in size",
            do="number the labels",
        )
    return array.astype(np.float64)


def _farthest(array: np.ndarray) -> int:
    return max(-int(array.min()), int(array.max()))
