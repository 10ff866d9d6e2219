"""Answers by posterior sampling (PSAQR): the response of highest expected utility, for free."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.mechanisms import display
from pymc_private.mechanisms.reading import draws_dict
from pymc_private.privacy import psaqr_loss

if TYPE_CHECKING:
    from pymc_private.mechanisms.release import Release

SHOWN = 12  # responses listed in a repr
FREE = "this answer cost no privacy: it was computed from draws already released"


@dataclass(frozen=True, repr=False)
class Answer:
    """The response that released draws prefer, and how much it may lose.

    Attributes
    ----------
    response : hashable
        The response of highest expected utility (the first of several equal ones).
    expected_utility : float
        Its mean utility over the draws.
    loss_bound : float
        With probability ``confidence``, for all queries at once, the best response under the
        private posterior is better than this one by no more (T16; at most the width of the
        bounds, and no news when equal to it).
    scores : tuple of (response, float)
        Expected utility of every response, in the order given.
    query : object
        The query answered, None if there was none.
    bounds : tuple of float
        Public bounds of the utility.
    draws, confidence, private
        Number of draws, probability that the loss bounds hold, whether the release was private.
    """

    response: Any
    expected_utility: float
    loss_bound: float
    scores: tuple[tuple[Any, float], ...]
    query: Any
    bounds: tuple[float, float]
    draws: int
    confidence: float
    private: bool

    @property
    def utilities(self) -> dict[Any, float]:
        """Expected utility of every response."""
        return dict(self.scores)

    def _rows(self) -> list[display.Row]:
        write = display.estimate_number
        width = self.bounds[1] - self.bounds[0]
        vacuous = " (no news: utilities differ by no more)" if self.loss_bound >= width else ""
        best = sorted(self.scores, key=lambda pair: -pair[1])
        shown = ", ".join(f"{response!r}: {write(score)}" for response, score in best[:SHOWN])
        more = f", and {len(best) - SHOWN} more" if len(best) > SHOWN else ""
        rows = [
            ("query", "" if self.query is None else repr(self.query)),
            ("expected utility", f"{write(self.expected_utility)} over {self.draws} draws"),
            (
                "loss",
                f"at most {write(self.loss_bound)} against the best response under the "
                f"private posterior, confidence {write(self.confidence)} (T16){vacuous}",
            ),
            ("utilities", shown + more),
            ("privacy", FREE if self.private else display.NOT_PRIVATE),
        ]
        return [(title, text) for title, text in rows if text]

    def __repr__(self) -> str:
        return display.text_card(f"Answer: {self.response!r}", self._rows())

    def _repr_html_(self) -> str:
        return display.html_card(f"Answer: {self.response!r}", self._rows(), alarm=not self.private)


def answer(
    release: Release,
    utility: Callable[..., Any],
    responses: Iterable[Hashable],
    queries: Sequence[Any] | None = None,
    *,
    delta: float = 0.05,
    bounds: tuple[float, float] = (0, 1),
) -> Answer | list[Answer]:
    """Answer queries from draws already released; post-processing, so free.

    Parameters
    ----------
    release : Release
        Private draws. Nothing is drawn or charged here.
    utility : callable
        ``utility(theta, response, query)``, or ``utility(theta, response)`` without queries;
        ``theta`` maps names to arrays of shape (draws, ...). Returns an array of shape (draws,)
        within ``bounds``.
    responses : iterable of hashable
        Finitely many; fixed without looking at the draws.
    queries : sequence, optional
        All queries that may be asked of this release: the bound covers them together, even if
        later ones are chosen after earlier answers.
    delta : float
        The loss bounds fail with at most this probability, all together.
    bounds : tuple of float
        Public lower and upper bound of the utility.

    Returns
    -------
    Answer or list of Answer
        A list if ``queries`` is given, in its order.

    Raises
    ------
    DomainError
        No responses or queries; a utility of the wrong shape, not a number or out of bounds.

    Notes
    -----
    *Promise* (T16; Dimitrakakis et al., corrected): with probability at least 1 - delta over N
    independent exact draws, for every query the loss against the optimal response under the
    private posterior is at most ``2 (upper - lower) sqrt(log(2 |R| |Q| / delta) / (2 N))``.
    """
    low, high = _bounds(bounds)
    options = _options(responses)
    asked = [None] if queries is None else list(queries)
    if not asked:
        raise DomainError("There is no query to answer.", do="pass queries=None, or one or more")
    if not 0 < delta < 1:
        raise DomainError("A bound fails with a probability inside (0, 1).", got=delta)
    count = release.posterior.sizes["draw"]
    loss = min(high - low, (high - low) * psaqr_loss(count, delta, len(options), len(asked)))
    with_query = queries is not None or _needs_query(utility)
    theta = draws_dict(release)
    answers = []
    for query in asked:
        extra = (query,) if with_query else ()
        scores = tuple(
            (option, _expected(utility(theta, option, *extra), count, (low, high), option))
            for option in options
        )
        best, value = max(scores, key=lambda pair: pair[1])
        answers.append(
            Answer(best, value, loss, scores, query, (low, high), count, 1 - delta, release.private)
        )
    return answers[0] if queries is None else answers


def _bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError) as cause:
        raise DomainError("Bounds are two numbers.", allowed="(lower, upper)") from cause
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DomainError(
            "Utilities need finite public bounds, lower < upper.",
            got=(low, high),
            do="clip the utility, for example bounds=(0, 1)",
        )
    return low, high


def _options(responses: Iterable[Hashable]) -> list[Any]:
    try:
        options = list(dict.fromkeys(responses))
    except TypeError as cause:
        raise DomainError(
            "Responses are finitely many hashable values.",
            got=type(responses).__name__,
            do="use names or tuples, and look them up inside the utility",
        ) from cause
    if not options:
        raise DomainError("There is no response to choose from.", allowed="one or more")
    return options


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


def _expected(values: Any, count: int, bounds: tuple[float, float], option: object) -> float:
    utilities = np.asarray(values)
    if utilities.shape != (count,) or utilities.dtype.kind not in "iufb":
        raise DomainError(
            f"The utility of response {option!r} is not one number per draw.",
            got=f"{utilities.dtype} of shape {utilities.shape}",
            allowed=f"numbers of shape ({count},)",
            do="a constant utility is np.full(draws, value)",
        )
    if not np.all((utilities >= bounds[0]) & (utilities <= bounds[1])):  # catches NaN too
        raise DomainError(
            f"The utility of response {option!r} leaves its bounds, or is not a number.",
            got=f"values from {np.min(utilities):g} to {np.max(utilities):g}",
            allowed=f"[{bounds[0]:g}, {bounds[1]:g}]",
            do="pass the true bounds=(lower, upper), or np.clip inside the utility",
        )
    return float(utilities.mean())
