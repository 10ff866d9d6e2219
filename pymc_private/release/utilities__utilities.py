"""Utilities of users: functions of the draws or expressions, evaluated and checked."""

from __future__ import annotations

import inspect
import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING, TypeAlias
from pymc_private.errors import DomainError
from pymc_private.release.expression_arithmetic import OutOfBounds
from pymc_private.release.expressions import evaluate
from pymc_private.release.expressions__reading import draws_dict, not_released

if TYPE_CHECKING:
    import xarray as xr
    from pymc_private.release.release import Release

Function: TypeAlias = Callable[..., Any] | str
"""A function of the draws, or an expression over the names of variables."""


@dataclass(frozen=True)
class Moments:
    """Mean of a utility over the draws, and the standard error of that mean."""

    mean: float
    error: float


@dataclass(frozen=True)
class Utility:
    """A utility of a response (and a query), read at every draw of one release.

    Parameters
    ----------
    release : Release
    posterior : xarray.Dataset
        Its draws.
    written : callable or str
    bounds : tuple of float
        Infinite where nothing is known.
    with_query : bool
        Whether a function is called with a query.
    """

    release: Release
    posterior: xr.Dataset
    written: Function
    bounds: tuple[float, float]
    with_query: bool

    @classmethod
    def of(cls, release: Release, written: Function, bounds: Any, queries: Any) -> Utility:
        """Understand what the user wrote.

        Raises
        ------
        DomainError
            Neither a function nor an expression; impossible bounds.
        """
        if not callable(written) and not isinstance(written, str):
            raise DomainError(
                "A utility is a function of the draws and a response, or an expression.",
                got=type(written).__name__,
                allowed='lambda theta, response: ..., or "1 - abs(x - response)"',
            )
        with_query = callable(written) and (queries is not None or _needs_query(written))
        return cls(release, release.posterior, written, _bounds(bounds), with_query)

    @property
    def width(self) -> float:
        """Length of the bounds; infinite without."""
        return self.bounds[1] - self.bounds[0]

    @property
    def drift(self) -> float:
        """What all expected utilities may differ by, twice, if the draws are only nearly exact.

        A sampler within total variation t moves each by at most t times the width.
        """
        far = sum(float(a.value) for a in self.release.guarantee.atoms if a.kind == "distance")
        return 2.0 * far * self.width if far else 0.0

    def at(self, theta: dict[str, np.ndarray], response: Any, query: Any) -> Moments:
        """Mean utility of a response.

        Raises
        ------
        DomainError
            The utility has the wrong shape, is no number, leaves its bounds, or reads a variable
            that was not released.
        """
        if isinstance(self.written, str):
            found = evaluate(
                self.written,
                self.posterior,
                lambda name: not_released(self.release, name),
                response=response,
                query=query,
            )
        else:
            found = self.written(theta, response, *((query,) if self.with_query else ()))
        values = self._checked(found, response)
        count = len(values)
        if count > 1:
            return Moments(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count))
        return Moments(float(values.mean()), self.width / 2)

    def _checked(self, found: Any, response: object) -> np.ndarray:
        values, count = np.asarray(found), self.posterior.sizes["draw"]
        if values.shape != (count,) or values.dtype.kind not in "iufb":
            raise DomainError(
                f"The utility of response {response!r} is not one number per draw.",
                got=f"{values.dtype} of shape {values.shape}",
                allowed=f"numbers of shape ({count},)",
                do="a constant utility is np.full(draws, value)",
            )
        low, high = self.bounds
        if not (low <= values.min() and values.max() <= high and np.isfinite(values).all()):
            raise OutOfBounds(
                f"The utility of response {response!r} leaves its bounds, or is not a number.",
                got=f"values from {np.min(values):g} to {np.max(values):g}",
                allowed=f"[{low:g}, {high:g}]",
                do="pass the true bounds=(lower, upper), or np.clip inside the utility",
            )
        return values.astype(float)  # half precision would overflow in the sum of squares


def event_of(release: Release, event: Function) -> Any:
    """Evaluate an event, written as a function of the draws or as an expression."""
    if isinstance(event, str):
        return evaluate(event, release.posterior, lambda name: not_released(release, name))
    if not callable(event):
        raise DomainError(
            "An event is a function of the draws, or an expression.",
            got=type(event).__name__,
            allowed='lambda d: d["beta"] > 0, or "beta > 0"',
        )
    return event(draws_dict(release))


def _bounds(bounds: Any) -> tuple[float, float]:
    if bounds is None:
        return -math.inf, math.inf
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError) as cause:
        raise DomainError("Bounds are two numbers, or None.", allowed="(lower, upper)") from cause
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DomainError(
            "Utilities need finite public bounds, lower < upper, or bounds=None.",
            got=(low, high),
            do="clip the utility, for example bounds=(0, 1); with bounds=None there is an answer "
            "but no bound of its loss",
        )
    return low, high


def _needs_query(utility: Callable[..., Any]) -> bool:
    """Tell whether two arguments are too few, so that both forms may be written."""
    try:
        signature = inspect.signature(utility)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None, None)
    except TypeError:
        return True
    return False
