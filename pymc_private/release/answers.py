"""Answers by posterior sampling (PSAQR): the response of highest expected utility, for free."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError
from pymc_private.release import display
from pymc_private.release.answers__choosing import Chosen, best_in_box, best_of
from pymc_private.release.expressions__reading import a_release, draws_dict
from pymc_private.release.utilities import Box, space_of
from pymc_private.release.utilities__utilities import Function, Utility
from pymc_private.privacy import psaqr_loss, psaqr_net_loss
from pymc_private.privacy.validation import is_number, not_negative, whole

if TYPE_CHECKING:
    import pandas as pd
    from pymc_private.release.release import Release

SHOWN = 12  # responses listed in a repr
FREE = "this answer cost no privacy: it was computed from draws already released"
UNBOUNDED = "the utility has no public bounds, so one unseen part of the posterior may outweigh all"
BETWEEN = "no Lipschitz constant is stated, so nothing bounds the utility between responses tried"


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
        bounds, and no news when equal to it). Infinite where nothing bounds it: see ``reason``.
    scores : tuple of (response, float)
        Expected utility of every response tried, in the order given.
    query : object
        The query answered, None if there was none.
    bounds : tuple of float
        Public bounds of the utility.
    draws, confidence, private
        Their number, the probability that the loss bounds hold, whether the release was private.
    mcse : float
        Monte Carlo standard error of the expected utility, the usual estimate; no bound.
    cases : str
        What the bound holds for, all together.
    reason : str
        Why there is no bound, or why it says nothing.
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
    mcse: float = math.inf
    cases: str = ""
    reason: str = ""

    @property
    def utilities(self) -> dict[Any, float]:
        """Expected utility of every response tried."""
        return dict(self.scores)

    def plot(self, ax: Any = None) -> Any:
        """Draw the expected utilities with the band in which they lie together."""
        from pymc_private.release.plots import utilities

        return utilities(self, ax)

    def _rows(self) -> list[display.Row]:
        write, draws = display.estimate_number, display.counted(self.draws, "draw")
        best = sorted(self.scores, key=lambda pair: -pair[1])
        first = SHOWN if "box" not in self.cases else 0  # the points of a net say little
        shown = ", ".join(f"{response!r}: {write(score)}" for response, score in best[:first])
        more = f", and {len(best) - SHOWN} more" if len(best) > SHOWN and first else ""
        utility = f"{write(self.expected_utility)}, mcse {write(self.mcse)}, {draws}"
        hidden = math.isnan(self.expected_utility)
        rows = [
            ("query", "" if self.query is None else repr(self.query)),
            ("expected utility", "withheld, see Dialogue" if hidden else utility),
            ("loss", self._loss()),
            ("utilities", shown + more),
            ("privacy", FREE if self.private else display.NOT_PRIVATE),
        ]
        return [(title, text) for title, text in rows if text]

    def _loss(self) -> str:
        write = display.estimate_number
        if math.isinf(self.loss_bound):
            return f"not bounded: {self.reason}"
        said = (
            f"at most {write(self.loss_bound)} against the best response under the private "
            f"posterior, confidence {write(self.confidence)} (T16) {self.cases}"
        )
        width = self.bounds[1] - self.bounds[0]
        vacuous = " (no news: utilities differ by no more)" if self.loss_bound >= width else ""
        return said.rstrip() + vacuous + (f"; {self.reason}" if self.reason else "")

    def __repr__(self) -> str:
        return display.text_card(f"Answer: {self.response!r}", self._rows())

    def _repr_html_(self) -> str:
        return display.html_card(f"Answer: {self.response!r}", self._rows(), alarm=not self.private)


class Answers(list[Answer]):
    """Answers to several queries: a list that prints as a table."""

    def to_frame(self) -> pd.DataFrame:
        """One row per query: response, expected utility, mcse, bound of the loss."""
        import pandas as pd

        columns = ["query", "response", "expected_utility", "mcse", "loss_bound"]
        return pd.DataFrame([[getattr(one, c) for c in columns] for one in self], columns=columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the expected utility of each answer with the band of its loss."""
        from pymc_private.release.plots import batch

        return batch(self, ax)

    def _rows(self) -> list[list[str]]:
        write = display.estimate_number
        numbers = [(a.expected_utility, a.mcse, a.loss_bound) for a in self[:SHOWN]]
        return [
            [repr(a.query), repr(a.response), *map(write, parts)]
            for a, parts in zip(self[:SHOWN], numbers, strict=True)
        ]

    def __repr__(self) -> str:
        columns = ("query", "response", "utility", "mcse", "loss at most")
        more = f"\n... and {len(self) - SHOWN} more" if len(self) > SHOWN else ""
        words = [] if not self else [f"{self[0].cases}; {self[0].reason}".strip("; ")]
        words += [] if not self else [FREE if self[0].private else display.NOT_PRIVATE]
        return "\n".join([display.table(columns, self._rows()) + more, *words])

    def _repr_html_(self) -> str:
        alarm = any(not one.private for one in self)
        return display.html_card(f"{len(self)} answers", [("", repr(self))], alarm=alarm)


def answer(
    release: Release,
    utility: Function,
    responses: Any,
    queries: Sequence[Any] | None = None,
    *,
    delta: float = 0.05,
    bounds: tuple[float, float] | None = (0, 1),
    lipschitz: float | None = None,
    possible_queries: int | None = None,
) -> Answer | Answers:
    """Answer queries from draws already released; post-processing, so free.

    Parameters
    ----------
    release : Release
        Private draws. Nothing is drawn or charged here.
    utility : callable or str
        ``utility(theta, response, query)``, or ``utility(theta, response)`` without queries;
        ``theta`` maps names to arrays of shape (draws, ...). Returns an array of shape (draws,)
        within ``bounds``. Or an expression over the names of the variables, ``response`` and
        ``query``: ``"1 - abs(x - response)"``; there ``beta[0]`` is the first element at each
        draw, and ``beta['age']`` the element of that label.
    responses : iterable of hashable, Subsets or Interval
        Finitely many; all subsets of some options; or every number (every vector) between the
        ends of an ``Interval``, of which a net is tried and the best polished. Fixed without
        looking at the draws.
    queries : sequence, optional
        All queries that may be asked of this release: the bound covers them together, even if
        later ones are chosen among them after earlier answers. For queries that are invented
        after earlier answers, see `Dialogue`.
    delta : float
        The loss bounds fail with at most this probability, all together.
    bounds : tuple of float, or None
        Public lower and upper bound of the utility. None: it has none, and neither has the loss.
    lipschitz : float, optional
        Of responses from an ``Interval``: the utility of two responses differs by at most this
        times the largest difference of a coordinate, at every theta.
    possible_queries : int, optional
        How many queries might be asked of this release, where more than those of this call.

    Returns
    -------
    Answer or Answers
        A list if ``queries`` is given, in its order.

    Raises
    ------
    DomainError
        No responses or queries; a utility of the wrong shape, not a number, out of bounds,
        steeper than ``lipschitz``, or reading a variable that was not released.

    Notes
    -----
    *Promise* (T16; Dimitrakakis et al., corrected): with probability at least 1 - delta over N
    independent exact draws, for every query the loss against the optimal response under the
    private posterior is at most ``2 (upper - lower) sqrt(log(2 |R| |Q| / delta) / (2 N))``; of
    a box as `psaqr_net_loss`. Draws within total variation t: ``2 t (upper - lower)`` more.
    """
    made = Utility.of(a_release(release), utility, bounds, queries)
    space = space_of(responses)
    asked = [None] if queries is None else _queries(queries)
    if not asked:
        raise DomainError("There is no query to answer.", do="pass queries=None, or one or more")
    if not (is_number(delta) and 0 < delta < 1):
        raise DomainError("A bound fails with a probability inside (0, 1).", got=delta)
    number = _number_of_queries(possible_queries, len(asked))
    theta = draws_dict(release)
    if lipschitz is not None:
        not_negative(lipschitz=lipschitz)
    answers = Answers()
    for query in asked:
        if isinstance(space, Box):
            chosen = best_in_box(made, theta, space, query, lipschitz)
            loss, reason = _net_loss(made, space, chosen, delta, number, lipschitz)
            cases = (
                f"for all responses of the box and {_count(number, 'query', 'queries')} together"
            )
        else:
            chosen = best_of(made, theta, space, query)
            loss, reason = _finite_loss(made, len(space), delta, number)
            count = _count(len(space), "response", "responses")
            cases = f"for {count} and {_count(number, 'query', 'queries')} together"
        answers.append(_answer(release, made, chosen, query, loss, delta, cases, reason))
    return answers[0] if queries is None else answers


def _answer(
    release: Release,
    utility: Utility,
    chosen: Chosen,
    query: Any,
    loss: float,
    delta: float,
    cases: str,
    reason: str,
) -> Answer:
    return Answer(
        chosen.response,
        chosen.moments.mean,
        loss,
        chosen.scores,
        query,
        utility.bounds,
        utility.posterior.sizes["draw"],
        1 - delta,
        release.private,
        chosen.moments.error,
        cases,
        reason,
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _queries(queries: Any) -> list[Any]:
    if isinstance(queries, Iterable) and not isinstance(queries, str | bytes):
        return list(queries)
    raise DomainError(
        "queries= lists the queries to be answered",
        got=type(queries).__name__,
        allowed="a list; None for a utility without queries",
    )


def _number_of_queries(possible: int | None, asked: int) -> int:
    if possible is None:
        return asked
    if whole(possible, "the number of possible queries") < asked:
        raise DomainError(
            "More queries are asked than are possible.", got=asked, allowed=f"at most {possible}"
        )
    return possible


def _finite_loss(utility: Utility, count: int, delta: float, queries: int) -> tuple[float, str]:
    if math.isinf(utility.width):
        return math.inf, UNBOUNDED
    draws = utility.posterior.sizes["draw"]
    share = psaqr_loss(draws, delta, count, queries)
    return min(utility.width, utility.width * share + utility.drift), ""


def _net_loss(
    utility: Utility, box: Box, chosen: Chosen, delta: float, queries: int, lipschitz: float | None
) -> tuple[float, str]:
    if math.isinf(utility.width):
        return math.inf, UNBOUNDED
    if lipschitz is None:
        return utility.width, BETWEEN
    steep = lipschitz / utility.width
    gap = max(0.0, chosen.shortfall + lipschitz * box.radius) / utility.width
    draws = utility.posterior.sizes["draw"]
    share = psaqr_net_loss(draws, delta, steep, tuple(box.widths), queries, gap)
    return min(utility.width, utility.width * share + utility.drift), ""
