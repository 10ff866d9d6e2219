"""Finding a variable of a release by name: its draws, and its public box."""

from __future__ import annotations

import math
import numpy as np
import xarray as xr
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError

if TYPE_CHECKING:
    from pymc_private.release.release import Release

def a_release(thing: Any) -> Release:
    """Refuse what is no release.

    Raises
    ------
    DomainError
    """
    from pymc_private.release.release import Release

    if isinstance(thing, Release):
        return thing
    raise DomainError(
        "answers are computed from a release",
        got=type(thing).__name__,
        allowed="a Release, as sample, dirichlet or load return it",
    )


class Draws(dict[str, np.ndarray]):
    """Draws by variable name; a name that is not there is answered with those that are."""

    def __init__(self, release: Release) -> None:
        arrays = release.posterior.data_vars.items()
        super().__init__({str(name): array.values[0] for name, array in arrays})
        self._release = release

    def __missing__(self, name: str) -> np.ndarray:
        raise DomainError(
            f"{name!r} was not released{not_released(self._release, name)}",
            got=repr(name),
            allowed=", ".join(self),
        )


def draws_dict(release: Release) -> dict[str, np.ndarray]:
    """Give the draws as plain read-only arrays, shape (draws, ...), by variable name."""
    return Draws(release)


def not_released(release: Release, name: str) -> str:
    """Say why a variable is not there, where that is known: ", since ..."."""
    if name in release.facts.get("uncomputed", []):
        return ": it could not be computed at every draw"
    if name in release.facts.get("withheld", []):
        return ": it is computed from private data, or from random numbers of its own"
    return ""


def draws_of(release: Release, name: str) -> tuple[xr.DataArray, np.ndarray]:
    """Give a released variable and its draws as floats, shape (draws, elements).

    Raises
    ------
    DomainError
        No such variable, or one that is withheld; lists those there are.
    """
    posterior = release.posterior
    if not isinstance(name, str) or name not in posterior.data_vars:
        withheld = release.facts.get("withheld", [])
        problem = "No such variable in this release."
        if isinstance(name, str) and name in release.facts.get("uncomputed", []):
            problem = "This variable is withheld: it could not be computed at every draw."
        elif isinstance(name, str) and name in withheld:
            problem = (
                "This variable is withheld: it is computed from private data, or from random "
                "numbers of its own."
            )
        raise DomainError(
            problem,
            got=name if isinstance(name, str) else type(name).__name__,
            allowed=", ".join(map(str, posterior.data_vars))
            + (f" (withheld: {', '.join(withheld)})" if withheld else ""),
        )
    array = posterior[name]
    return array, array.values[0].reshape(array.sizes["draw"], -1).astype(float)


def box_of(
    release: Release, array: xr.DataArray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Public ends of each element, shape (elements,), and why they are infinite if they are."""
    shape = array.shape[2:]
    ends = (release.facts.get("ranges") or {}).get(str(array.name))
    if ends is None and array.dtype.kind == "b":
        ends = [0, 1]
    low, high = (-math.inf, math.inf) if ends is None else ends
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(sign * math.inf if end is None else end, float), shape)
            for sign, end in ((-1, low), (1, high))
        )
    except ValueError as cause:
        raise DomainError(
            f"The public range of {array.name!r} does not fit its shape.", allowed=str(shape)
        ) from cause
    lower, upper = lower.ravel(), upper.ravel()
    if np.any(values < lower) or np.any(values > upper):
        # A bound built on a false box would be false: say nothing rather than that.
        return (
            np.full_like(lower, -math.inf),
            np.full_like(upper, math.inf),
            "no bound: some draws lie outside the public range stated for this variable",
        )
    if np.all(np.isfinite(lower) & np.isfinite(upper)):
        return lower, upper, ""
    return (
        lower,
        upper,
        (
            "no public range bounds this variable, so a few draws cannot bound it either; "
            "trim(box=...) gives it one"
        ),
    )
