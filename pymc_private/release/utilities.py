"""Utilities and response spaces of `answer`, evaluated on the draws and checked.

A utility is a function of the draws or an expression. A response space is a finite list, the
subsets of some options, or a box of numbers of which a grid is tried.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.validation import check_count, is_number
from pymc_private.release.allowed import ReleaseContents
from pymc_private.release.expression_arithmetic import OutOfBounds
from pymc_private.release.expressions import draws_dict, evaluate, reason_not_released

if TYPE_CHECKING:
    import xarray as xr

FunctionOfDraws: TypeAlias = Callable[..., Any] | str
"""A function of the draws, or an expression over the names of variables."""


@dataclass(frozen=True)
class Moments:
    """Mean of a utility over the draws, and the standard error of that mean."""

    mean: float
    error: float


@dataclass(frozen=True)
class Utility:
    """A utility of a response (and a query), evaluated at every draw of one release.

    Parameters
    ----------
    release : Release
    posterior : xarray.Dataset
        Its draws.
    definition : callable or str
    bounds : tuple of float
        Infinite where nothing is known.
    with_query : bool
        Whether a function is called with a query.
    """

    release: ReleaseContents
    posterior: xr.Dataset
    definition: FunctionOfDraws
    bounds: tuple[float, float]
    with_query: bool

    @classmethod
    def of(
        cls, release: ReleaseContents, definition: FunctionOfDraws, bounds: Any, queries: Any
    ) -> Utility:
        """Check what the user gives as a utility and its bounds.

        Raises
        ------
        DomainError
            Neither a function nor an expression; impossible bounds.
        """
        if not callable(definition) and not isinstance(definition, str):
            raise DomainError(
                "A utility is a function of the draws and a response, or an expression.",
                got=type(definition).__name__,
                allowed='lambda theta, response: ..., or "1 - abs(x - response)"',
            )
        with_query = callable(definition) and (queries is not None or _needs_query(definition))
        return cls(release, release.posterior, definition, _checked_bounds(bounds), with_query)

    @property
    def width(self) -> float:
        """Length of the bounds; infinite without."""
        return self.bounds[1] - self.bounds[0]

    @property
    def drift(self) -> float:
        """Twice the error of an expected utility if the sampler is within total variation t.

        Such a sampler moves each expected utility by at most t times the width.
        """
        distance = sum(
            float(a.value) for a in self.release.guarantee.events if a.kind == "distance"
        )
        return 2.0 * distance * self.width if distance else 0.0

    def at(self, theta: dict[str, np.ndarray], response: Any, query: Any) -> Moments:
        """Mean utility of a response.

        Raises
        ------
        DomainError
            The utility has the wrong shape, is no number, leaves its bounds, or reads a variable
            that was not released.
        """
        if isinstance(self.definition, str):
            found = evaluate(
                self.definition,
                self.posterior,
                lambda name: reason_not_released(self.release, name),
                response=response,
                query=query,
            )
        else:
            found = self.definition(theta, response, *((query,) if self.with_query else ()))
        values = self._checked(found, response)
        count = len(values)
        errors = monte_carlo_errors_of(self.release)
        if errors is not None:
            return Moments(float(values.mean()), float(errors(values[:, None])[0]))
        if count > 1:
            return Moments(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count))
        return Moments(float(values.mean()), self.width / 2)

    def _checked(self, found: Any, response: object) -> np.ndarray:
        """One finite number within the bounds for each draw, as floats."""
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


def monte_carlo_errors_of(release: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Standard errors of means over dependent draws; None of a release, whose are independent."""
    return getattr(release, "mcse", None)


def evaluate_event(release: ReleaseContents, event: FunctionOfDraws) -> Any:
    """Evaluate an event, definition as a function of the draws or as an expression."""
    if isinstance(event, str):
        return evaluate(event, release.posterior, lambda name: reason_not_released(release, name))
    if not callable(event):
        raise DomainError(
            "An event is a function of the draws, or an expression.",
            got=type(event).__name__,
            allowed='lambda d: d["beta"] > 0, or "beta > 0"',
        )
    return event(draws_dict(release))


def _checked_bounds(bounds: Any) -> tuple[float, float]:
    """Finite bounds, lower < upper; infinite ones for None."""
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
    """Whether a function does not take two arguments, so that both forms may be given."""
    try:
        signature = inspect.signature(utility)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None, None)
    except TypeError:
        return True
    return False


MOST_RESPONSES = 100_000
"""The largest number of responses that are tried one by one."""
POINTS_PER_SIDE = {1: 257, 2: 31, 3: 9, 4: 5}
"""Points tried along each side of a box of responses, by its dimension; two beyond four."""


@dataclass(frozen=True)
class Subsets:
    """Set-valued responses: all subsets of some options, as frozensets, small ones first.

    Parameters
    ----------
    options : iterable of hashable
    sizes : int or (int, int)
        How many members: exactly so many, or from .. to ..; default any number.

    Raises
    ------
    DomainError
        No options, impossible sizes, or more than 100,000 subsets.

    Examples
    --------
    >>> [sorted(subset) for subset in Subsets(["a", "b"])]
    [[], ['a'], ['b'], ['a', 'b']]
    >>> len(Subsets(range(10), sizes=3))
    120
    """

    options: Any
    sizes: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.options, str | bytes) or not np.iterable(self.options):
            raise DomainError(
                "subsets are of a list of options",
                got=type(self.options).__name__,
                allowed="a list, such as Subsets(['a', 'b', 'c'])",
            )
        try:
            options = tuple(dict.fromkeys(self.options))
        except TypeError:
            raise DomainError(
                "an option is a value that can stand in a set",
                got="lists, arrays or the like",
                allowed="text, numbers, tuples of these",
            ) from None
        object.__setattr__(self, "options", options)
        low, high = self._size_bounds()
        if not options or not 0 <= low <= high <= len(options):
            raise DomainError(
                "subsets have between none and all of the options as members",
                got=f"sizes={self.sizes} of {len(options)} options",
                allowed=f"0 ... {len(options)}",
            )
        if len(self) > MOST_RESPONSES:
            raise DomainError(
                "too many subsets to try one by one",
                got=f"{len(self):,}",
                allowed=f"{MOST_RESPONSES:,}",
                do="bound their sizes, or ask about each option by a query of its own",
            )

    def _size_bounds(self) -> tuple[int, int]:
        """The least and the greatest number of members."""
        if self.sizes is None:
            return 0, len(self.options)
        both = self.sizes if isinstance(self.sizes, tuple) else (self.sizes, self.sizes)
        if len(both) != 2 or not all(is_number(v) and 0 <= v < np.inf for v in both):
            raise DomainError(
                "the number of members is a whole number, or from one to another",
                got=repr(self.sizes)[:60],
                allowed="sizes=2, or sizes=(1, 3)",
            )
        low, high = both
        return int(low), int(high)

    def __len__(self) -> int:
        low, high = self._size_bounds()
        return sum(math.comb(len(self.options), size) for size in range(low, high + 1))

    def __iter__(self) -> Iterator[frozenset]:
        low, high = self._size_bounds()
        for size in range(low, high + 1):
            yield from map(frozenset, combinations(self.options, size))


@dataclass(frozen=True, eq=False)
class ResponseBox:
    """A box of numbers to respond with, and the points that are tried in it.

    Parameters
    ----------
    lower, upper : array, shape (k,)
    is_scalar : bool
        Whether a response is a number rather than a tuple of one.
    """

    lower: np.ndarray
    upper: np.ndarray
    is_scalar: bool

    @property
    def widths(self) -> np.ndarray:
        """Lengths of the sides, shape (k,)."""
        return self.upper - self.lower

    @property
    def sides(self) -> int:
        """Points tried along each side."""
        return POINTS_PER_SIDE.get(len(self.lower), 2)

    @property
    def radius(self) -> float:
        """No response is further from a point that is tried than this, in any coordinate."""
        return float(np.max(self.widths)) / (2 * self.sides) * (1 + 1e-12)

    def points(self) -> Iterator[Any]:
        """Centers of equal cells."""
        shares = (np.arange(self.sides) + 0.5) / self.sides
        axes = [low + shares * width for low, width in zip(self.lower, self.widths, strict=True)]
        return map(self.response, product(*axes))

    def response(self, point: Any) -> Any:
        """The response at a point: a number, or a tuple of numbers; clipped to the box."""
        inside = np.clip(np.atleast_1d(np.asarray(point, float)), self.lower, self.upper)
        return float(inside[0]) if self.is_scalar else tuple(float(x) for x in inside)


def response_space(responses: Any) -> list[Any] | ResponseBox:
    """The responses that a user gives: a list, or a box of numbers.

    Refuses none, too many, unhashable ones, and a box that is empty or of too many dimensions.
    """
    text = isinstance(responses, str | bytes)  # has methods of these names
    if not text and hasattr(responses, "lower") and hasattr(responses, "upper"):
        return _response_box(responses.lower, responses.upper)
    return finite_responses(responses)


def finite_responses(responses: Iterable[Hashable]) -> list[Any]:
    """Finitely many responses, each once; refuses none, unhashable ones and too many."""
    try:
        if isinstance(responses, str | bytes):
            raise TypeError  # one text is one response, not its letters
        options = list(dict.fromkeys(responses))
    except TypeError as cause:
        raise DomainError(
            "Responses are finitely many hashable values, or a box of numbers.",
            got=type(responses).__name__,
            allowed="a list, Subsets(...), or Interval(lower, upper)",
            do="use names or tuples, and look them up inside the utility",
        ) from cause
    if not options:
        raise DomainError("There is no response to choose from.", allowed="one or more")
    if len(options) > MOST_RESPONSES:
        raise DomainError(
            "Too many responses to try one by one.",
            got=f"{len(options):,}",
            allowed=f"{MOST_RESPONSES:,}",
            do="respond with numbers of an Interval(lower, upper) and say lipschitz=",
        )
    return options


def _response_box(lower: Any, upper: Any) -> ResponseBox:
    """A box of responses; refuses infinite or empty sides and too many coordinates."""
    low, high = (np.asarray(end, float) for end in (lower, upper))
    low, high = np.broadcast_arrays(low, high)
    box = ResponseBox(low.ravel(), high.ravel(), low.ndim == 0)
    inside = np.isfinite(box.widths).all() and np.all(box.widths > 0)
    if not inside or low.ndim > 1 or not box.lower.size:
        raise DomainError(
            "A box of responses has finite ends, lower < upper, in one row.",
            got=f"widths of shape {low.shape}",
            allowed="numbers, or vectors of one length",
        )
    check_count(box.lower.size, "the number of coordinates of a response")
    if box.sides ** len(box.lower) > MOST_RESPONSES:
        raise DomainError(
            "Responses have too many coordinates to search them.",
            got=len(box.lower),
            allowed="16 or fewer",
            do="ask about some coordinates at a time, or list finitely many responses",
        )
    return box
