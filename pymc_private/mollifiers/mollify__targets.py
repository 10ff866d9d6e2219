"""What users may give as a target on finitely many categories, read as probabilities."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.mollifiers.references import Finite, probabilities
from pymc_private.privacy.validation import refuse_mask

def finite_ratio(target: Any, base: Finite) -> np.ndarray:
    """Give log P/Q0 on the categories of a reference.

    Parameters
    ----------
    target : object
        Probabilities; counts or probabilities by label; a law with ``pmf``; or rows, each a label:
        text, or whole numbers that are no vector of probabilities.
    base : Finite

    Returns
    -------
    array, shape (k,)
        -inf where the target has no mass.

    Raises
    ------
    DomainError
        It is none of these, or has mass where the reference has none.
    """
    mass = probabilities(_mass(target, base), "the target")
    if mass.shape != base.mass.shape:
        raise DomainError(
            "target and reference have as many categories",
            got=f"{len(mass)} and {len(base.mass)}",
        )
    if ((mass > 0.0) & (base.mass == 0.0)).any():
        raise DomainError(
            "the reference has no support where the target has mass",
            do="give every category that may occur a positive reference probability",
        )
    with np.errstate(divide="ignore"):
        return np.log(mass) - np.log(np.where(base.mass > 0.0, base.mass, 1.0))


def _mass(target: Any, base: Finite) -> Any:
    if isinstance(target, Mapping):
        return by_label(target, base)
    if hasattr(target, "pmf") and base.numbers is not None:
        return np.asarray(target.pmf(base.numbers), float)
    refuse_mask(target, "data")
    values = np.asarray(target)
    if values.size and all(isinstance(value, str) for value in values.flat):
        return _shares(values, base)
    if base.numbers is not None and _are_whole(values):
        if values.ndim == 2 and values.shape[1] == 1:
            return _shares(values, base)
        if values.shape != base.mass.shape:
            return _shares(values, base)
        if values.sum() != 1:
            raise DomainError(
                "as many whole numbers as categories may be counts or rows",
                got=f"{len(values)} numbers for {len(base.mass)} categories",
                allowed="probabilities, counts by label, or rows",
                do="give counts as a dict, {label: count}, or rows as one column, shape (n, 1)",
            )
    return target


def by_label(target: Mapping, base: Finite) -> np.ndarray:
    """Probabilities or counts by label, as probabilities of all categories.

    Raises
    ------
    DomainError
        Negative or infinite numbers, NaN, or zeros alone.
    """
    values = np.asarray(list(target.values()), float)
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.sum() > 0.0):
        raise DomainError(
            "a target by label holds probabilities or counts",
            got="numbers that are negative, not finite, or all zero",
            allowed=">= 0, and one of them above 0",
        )
    mass = np.zeros(len(base.mass))
    mass[base.positions(list(target.keys()))] = values / values.sum()
    return mass


def _shares(rows: np.ndarray, base: Finite) -> np.ndarray:
    places = base.positions(rows.ravel())
    return np.bincount(places, minlength=len(base.mass)) / len(places)


def _are_whole(values: np.ndarray) -> bool:
    """Whether these are numbers without fractions, and so may be labels."""
    if values.dtype.kind in "iu":
        return bool(values.size)
    return values.dtype.kind == "f" and bool(values.size) and bool((values % 1 == 0.0).all())
