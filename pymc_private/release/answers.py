"""Decisions from released draws: responses of highest expected utility, with loss bounds (T16).

`answer` picks the response of highest mean utility over the draws (PSAQR of Dimitrakakis et
al.), among finitely many responses or in a box, where a grid is searched and its best point
polished. `choose` is the special case of hypotheses, or of actions whose losses depend on
them. `Dialogue` covers questions that depend on earlier answers. All of it is post-processing
of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.privacy import cards, psaqr_dialogue_loss, psaqr_loss, psaqr_net_loss
from pymc_private.privacy.argument_kinds import DOUBLE, MAPPING
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_count, check_nonnegative
from pymc_private.release import display, plots
from pymc_private.release.allowed import ReleaseContents
from pymc_private.release.chain_draws import as_draws
from pymc_private.release.estimates import check_failure
from pymc_private.release.expression_arithmetic import OutOfBounds
from pymc_private.release.expressions import draws_dict
from pymc_private.release.release import Release, check_release
from pymc_private.release.utilities import (
    FunctionOfDraws,
    Moments,
    ResponseBox,
    Utility,
    evaluate_event,
    monte_carlo_errors_of,
    response_space,
)

if TYPE_CHECKING:
    import pandas as pd


MOST_SHOWN = 12
"""Responses or answers listed in a repr."""
POST_PROCESSING_NOTE = "this answer cost no privacy: it was computed from draws already released"

NO_BOUNDS_REASON = (
    "the utility has no public bounds, so one unseen part of the posterior may outweigh all"
)

DEPENDENT_REASON = (
    "draws of a Markov chain are dependent: the error is estimated (mcse, by their effective "
    "number), not bounded"
)

NO_LIPSCHITZ_REASON = (
    "no Lipschitz constant is stated, so nothing bounds the utility between responses tried"
)


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
        bounds, and vacuous when equal to it). Infinite where nothing bounds it: see ``reason``.
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
    note : str
        What the answer cost.
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
    note: str = POST_PROCESSING_NOTE

    @property
    def utilities(self) -> dict[Any, float]:
        """Expected utility of every response tried."""
        return dict(self.scores)

    def plot(self, ax: Any = None) -> Any:
        """Plot the expected utilities with the band that holds all of them."""
        return plots.plot_utilities(self, ax)

    def _rows(self) -> list[cards.Row]:
        write, draws = display.format_estimate, format_count(self.draws, "draw")
        best = sorted(self.scores, key=lambda pair: -pair[1])
        first = MOST_SHOWN if "box" not in self.cases else 0  # grid points of a box say little
        shown = ", ".join(f"{response!r}: {write(score)}" for response, score in best[:first])
        more = f", and {len(best) - MOST_SHOWN} more" if len(best) > MOST_SHOWN and first else ""
        utility = f"{write(self.expected_utility)}, mcse {write(self.mcse)}, {draws}"
        hidden = math.isnan(self.expected_utility)
        rows = [
            ("query", "" if self.query is None else repr(self.query)),
            ("expected utility", "withheld, see Dialogue" if hidden else utility),
            ("loss", self._loss()),
            ("utilities", shown + more),
            ("privacy", self.note if self.private else display.NOT_PRIVATE),
        ]
        return [(title, text) for title, text in rows if text]

    def _loss(self) -> str:
        write = display.format_estimate
        if math.isinf(self.loss_bound):
            return f"not bounded: {self.reason}"
        found = (
            f"at most {write(self.loss_bound)} against the best response under the private "
            f"posterior, confidence {write(self.confidence)} (T16) {self.cases}"
        )
        width = self.bounds[1] - self.bounds[0]
        vacuous = " (no news: utilities differ by no more)" if self.loss_bound >= width else ""
        return found.rstrip() + vacuous + (f"; {self.reason}" if self.reason else "")

    def __repr__(self) -> str:
        return cards.text_card(f"Answer: {self.response!r}", self._rows())

    def _repr_html_(self) -> str:
        return cards.html_card(f"Answer: {self.response!r}", self._rows(), alarm=not self.private)


class Answers(list[Answer]):
    """Answers to several queries: a list that prints as a table."""

    def to_frame(self) -> pd.DataFrame:
        """One row per query: response, expected utility, mcse, bound of the loss."""
        import pandas as pd

        columns = ["query", "response", "expected_utility", "mcse", "loss_bound"]
        return pd.DataFrame([[getattr(one, c) for c in columns] for one in self], columns=columns)

    def plot(self, ax: Any = None) -> Any:
        """Plot the expected utility of each answer with the band of its loss."""
        return plots.plot_answers(self, ax)

    def _rows(self) -> list[list[str]]:
        write = display.format_estimate
        numbers = [(a.expected_utility, a.mcse, a.loss_bound) for a in self[:MOST_SHOWN]]
        return [
            [repr(a.query), repr(a.response), *map(write, parts)]
            for a, parts in zip(self[:MOST_SHOWN], numbers, strict=True)
        ]

    def __repr__(self) -> str:
        columns = ("query", "response", "utility", "mcse", "loss at most")
        more = f"\n... and {len(self) - MOST_SHOWN} more" if len(self) > MOST_SHOWN else ""
        notes = [] if not self else [f"{self[0].cases}; {self[0].reason}".strip("; ")]
        notes += [] if not self else [self[0].note if self[0].private else display.NOT_PRIVATE]
        return "\n".join([cards.text_table(columns, self._rows()) + more, *notes])

    def _repr_html_(self) -> str:
        alarm = any(not one.private for one in self)
        return cards.html_card(f"{len(self)} answers", [("", repr(self))], alarm=alarm)


@suggest_arguments
def answer(
    release: Any,
    utility: FunctionOfDraws,
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
    release : Release, or InferenceData, DataTree or Dataset of ``summary.model()``
        Private draws, or draws of MCMC given a summary. Nothing is drawn or charged here.
    utility : callable or str
        ``utility(theta, response, query)``, or ``utility(theta, response)`` without queries;
        ``theta`` maps names to arrays of shape (draws, ...). Returns an array of shape (draws,)
        within ``bounds``. Or an expression over the names of the variables, ``response`` and
        ``query``: ``"1 - abs(x - response)"``; there ``beta[0]`` is the first element at each
        draw, and ``beta['age']`` the element of that label.
    responses : iterable of hashable, Subsets or Interval
        Finitely many; all subsets of some options; or every number (every vector) between the
        bounds of an ``Interval``, of which a grid is tried and the best point polished. Fixed
        without looking at the draws.
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
    source = as_draws(release)
    prepared = Utility.of(source, utility, bounds, queries)
    space = response_space(responses)
    asked = [None] if queries is None else _query_list(queries)
    if not asked:
        raise DomainError("There is no query to answer.", do="pass queries=None, or one or more")
    check_failure(delta)
    number = _number_of_queries(possible_queries, len(asked))
    theta = draws_dict(source)
    if lipschitz is not None:
        check_nonnegative(lipschitz=lipschitz)
    answers = Answers()
    for query in asked:
        if isinstance(space, ResponseBox):
            chosen = best_response_in_box(prepared, theta, space, query, lipschitz)
            loss, reason = _box_loss_bound(prepared, space, chosen, delta, number, lipschitz)
            cases = (
                f"for all responses of the box and {_counted(number, 'query', 'queries')} together"
            )
        else:
            chosen = best_response(prepared, theta, space, query)
            loss, reason = _finite_loss_bound(prepared, len(space), delta, number)
            count = _counted(len(space), "response", "responses")
            cases = f"for {count} and {_counted(number, 'query', 'queries')} together"
        answers.append(_make_answer(source, prepared, chosen, query, loss, delta, cases, reason))
    return answers[0] if queries is None else answers


def _make_answer(
    release: ReleaseContents,
    utility: Utility,
    chosen: BestResponse,
    query: Any,
    loss: float,
    delta: float,
    cases: str,
    reason: str,
) -> Answer:
    """The answer to one query."""
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
        getattr(release, "privacy_note", POST_PROCESSING_NOTE),
    )


def _counted(number: int, one: str, many: str) -> str:
    """A number with its noun: "1 query", "2 queries"."""
    return f"{number} {one if number == 1 else many}"


def _query_list(queries: Any) -> list[Any]:
    """The queries as a list; refuses a single one."""
    if (
        isinstance(queries, Iterable)
        and np.iterable(queries)
        and not isinstance(queries, str | bytes)
    ):
        return list(queries)
    raise DomainError(
        "queries= lists the queries to be answered",
        got=type(queries).__name__,
        allowed="a list; None for a utility without queries",
    )


def _number_of_queries(possible: int | None, asked: int) -> int:
    """The number of queries that the bound covers: those asked, or those that might be."""
    if possible is None:
        return asked
    if check_count(possible, "the number of possible queries") < asked:
        raise DomainError(
            "More queries are asked than are possible.", got=asked, allowed=f"at most {possible}"
        )
    return possible


def _finite_loss_bound(
    utility: Utility, count: int, delta: float, queries: int
) -> tuple[float, str]:
    """The loss bound among finitely many responses (T16), and why there is none."""
    if monte_carlo_errors_of(utility.release) is not None:
        return math.inf, DEPENDENT_REASON
    if math.isinf(utility.width):
        return math.inf, NO_BOUNDS_REASON
    draws = utility.posterior.sizes["draw"]
    share = psaqr_loss(draws, delta, count, queries)
    return min(utility.width, utility.width * share + utility.drift), ""


def _box_loss_bound(
    utility: Utility,
    box: ResponseBox,
    chosen: BestResponse,
    delta: float,
    queries: int,
    lipschitz: float | None,
) -> tuple[float, str]:
    """The loss bound in a box of responses (T16), and why there is none."""
    if monte_carlo_errors_of(utility.release) is not None:
        return math.inf, DEPENDENT_REASON
    if math.isinf(utility.width):
        return math.inf, NO_BOUNDS_REASON
    if lipschitz is None:
        return utility.width, NO_LIPSCHITZ_REASON
    slope = lipschitz / utility.width
    gap = max(0.0, chosen.shortfall + lipschitz * box.radius) / utility.width
    draws = utility.posterior.sizes["draw"]
    share = psaqr_net_loss(draws, delta, slope, tuple(box.widths), queries, gap)
    return min(utility.width, utility.width * share + utility.drift), ""


POLISH_EVALUATIONS = 200
"""Evaluations beyond the grid, per coordinate."""


@dataclass(frozen=True)
class BestResponse:
    """The best response found.

    Parameters
    ----------
    response : hashable
    moments : Moments
    scores : tuple of (response, float)
        Of all that were tried, in order.
    shortfall : float
        Utility of the best response of the grid less that of this one: never above 0.
    """

    response: Any
    moments: Moments
    scores: tuple[tuple[Any, float], ...]
    shortfall: float = 0.0


def best_response(
    utility: Utility, theta: dict[str, np.ndarray], responses: Sequence[Any], query: Any
) -> BestResponse:
    """Choose the first of the best among finitely many responses."""
    found = [utility.at(theta, response, query) for response in responses]
    k = max(range(len(found)), key=lambda i: found[i].mean)
    scores = tuple((r, m.mean) for r, m in zip(responses, found, strict=True))
    return BestResponse(responses[k], found[k], scores)


def best_response_in_box(
    utility: Utility,
    theta: dict[str, np.ndarray],
    box: ResponseBox,
    query: Any,
    lipschitz: float | None = None,
) -> BestResponse:
    """Choose the best of a grid of responses, then improve it in the cells around it.

    Neither a wrong gradient nor a local optimum does harm: the polished response counts only if
    it is better than every point of the grid, and by how much enters the bound.

    Raises
    ------
    DomainError
        As `Utility.at`; the mean utilities found contradict the Lipschitz constant.
    """
    if lipschitz is not None:
        check_nonnegative(lipschitz=lipschitz)
    coarse = best_response(utility, theta, list(box.points()), query)
    best = [coarse.moments.mean, coarse.response]

    def cost(point: np.ndarray) -> float:
        response = box.response(point)
        value = utility.at(theta, response, query).mean
        if value > best[0]:
            best[:] = [value, response]
        return -value

    start = np.atleast_1d(np.asarray(coarse.response, float))
    cell = 2 * box.widths / (2 * box.sides)
    low, high = np.maximum(start - cell, box.lower), np.minimum(start + cell, box.upper)
    if len(start) == 1:
        scipy.optimize.minimize_scalar(
            lambda x: cost(np.array([x])), bounds=(low[0], high[0]), method="bounded"
        )
    else:
        scipy.optimize.minimize(
            cost,
            start,
            method="Nelder-Mead",
            bounds=list(zip(low, high, strict=True)),
            options={"maxfev": POLISH_EVALUATIONS * len(start)},
        )
    moments = utility.at(theta, best[1], query)
    if lipschitz is not None and np.isfinite(lipschitz):
        _check_lipschitz(lipschitz, coarse.scores, (best[1], moments.mean))
    return BestResponse(best[1], moments, coarse.scores, coarse.moments.mean - moments.mean)


def _check_lipschitz(
    lipschitz: float, scores: Sequence[tuple[Any, float]], best: tuple[Any, float]
) -> None:
    """Refuse a constant that successive points of the grid, or the best and the grid, refute."""
    points = np.array([np.atleast_1d(response) for response, _ in scores], float)
    means = np.array([mean for _, mean in scores])
    apart = np.abs(np.r_[np.diff(points, axis=0), points - best[0]]).max(axis=1)
    moved = np.abs(np.r_[np.diff(means), means - best[1]])
    rounding = 1e-9 * (1e-300 + np.abs(means).max())
    if np.any(moved > lipschitz * apart * (1 + 1e-9) + rounding):
        far = apart > 0
        raise DomainError(
            "The utility is steeper than its Lipschitz constant.",
            got=f"lipschitz={lipschitz:g}; means move by {np.max(moved[far] / apart[far]):g}",
            do="state how far the utility moves at most, at any theta, per unit of the response",
        )


@suggest_arguments
def choose(
    release: Any,
    hypotheses: Mapping[Hashable, FunctionOfDraws],
    losses: Mapping[Hashable, Mapping[Hashable, float]] | None = None,
    *,
    delta: float = 0.05,
) -> Answer:
    """Choose the likeliest hypothesis, or the action of least expected loss; free.

    Parameters
    ----------
    release : Release
    hypotheses : mapping
        Names to events: functions of the draws, or expressions such as ``"beta['age'] > 0"``.
    losses : mapping, optional
        ``losses[action][hypothesis]``, for hypotheses of which exactly one is true at each draw.
        Default: the action is to name a hypothesis, and a wrong one costs 1.
    delta : float
        The loss bound fails with at most this probability.

    Returns
    -------
    Answer
        Its utility is minus the loss; by default the probability of the hypothesis.

    Raises
    ------
    DomainError
        No hypotheses; an event without one boolean per draw; with losses, hypotheses that
        overlap or leave draws without a true one, or losses that are missing or not finite.

    Notes
    -----
    *Promise* (T16): as of `answer`, with as many responses as there are actions.
    """
    _refuse_no_hypotheses(hypotheses)
    source = as_draws(release)
    truths = {name: _event_values(source, name, event) for name, event in hypotheses.items()}
    if losses is None:
        found = answer(source, lambda _, name: truths[name], list(truths), delta=delta)
    else:
        table = _loss_table(truths, losses)
        count = np.sum([*truths.values()], axis=0)
        if not np.all(count == 1):
            raise DomainError(
                "Losses need hypotheses of which exactly one is true at each draw.",
                got=f"{int(np.sum(count != 1))} of {len(count)} draws have none or several",
                do='add a hypothesis for the rest, or make them exclusive with "and not (...)"',
            )
        low, high = -max(map(max, table.values())), -min(map(min, table.values()))
        found = answer(
            source,
            lambda _, action: (
                -sum(
                    loss * truth for loss, truth in zip(table[action], truths.values(), strict=True)
                )
            ),
            list(table),
            delta=delta,
            bounds=(low, high) if low < high else (low, low + 1.0),
        )
    if not isinstance(found, Answer):
        raise TypeError("one query has one answer")
    return found


def _refuse_no_hypotheses(hypotheses: Any) -> None:
    if not isinstance(hypotheses, Mapping) or not hypotheses:
        raise DomainError(
            "There is no hypothesis to choose from.",
            got=type(hypotheses).__name__,
            allowed="one or more, each an event by its name",
            do='{"rises": "slope > 0", "falls": "slope <= 0"}',
        )


def _event_values(release: ReleaseContents, name: Hashable, event: FunctionOfDraws) -> np.ndarray:
    """A boolean for each draw: whether the hypothesis is true there."""
    truth = np.asarray(evaluate_event(release, event))
    count = release.posterior.sizes["draw"]
    if truth.shape != (count,) or truth.dtype != bool:
        raise DomainError(
            f"Hypothesis {name!r} is not true or false at every draw.",
            got=f"{truth.dtype} of shape {truth.shape}",
            allowed=f"bool of shape ({count},)",
            do='for example "beta[0] > 0", or "all(beta > 0)"',
        )
    return truth


def _loss_table(
    truths: Mapping[Hashable, Any], losses: Mapping[Hashable, Mapping[Hashable, float]]
) -> dict[Hashable, list[float]]:
    """Losses by action, in the order of the hypotheses; refuses missing and infinite ones."""
    losses = MAPPING.of(losses, "losses", "choose")
    if not losses:
        raise DomainError("There is no action to choose from.", allowed="one or more")
    table = {}
    for action, row in losses.items():
        row = MAPPING.of(row, f"row of losses ({action!r})", "choose")
        missing = [name for name in truths if name not in row]
        unknown = [name for name in row if name not in truths]
        if missing or unknown:
            raise DomainError(
                f"The losses of action {action!r} do not name each hypothesis once.",
                got=", ".join(map(str, row)),
                allowed=", ".join(map(str, truths)),
            )
        table[action] = [
            float(DOUBLE.of(row[name], f"loss ({action!r}, {name!r})", "choose")) for name in truths
        ]
        if not np.isfinite(table[action]).all():
            raise DomainError(
                f"The losses of action {action!r} are finite numbers.", allowed="-inf < loss < inf"
            )
    return table


class Dialogue:
    """Questions to one release, each invented after the answers before it.

    The bounds hold for all questions together, however many are asked, if what is asked depends
    on the draws through the *responses* and refusals of this dialogue alone. So expected utilities
    are withheld here: a question that follows from them, or from a look at the draws, has no bound.

    Parameters
    ----------
    release : Release
    delta : float
        Probability that any of the bounds fails.

    Raises
    ------
    DomainError
        `delta` outside (0, 1).

    Notes
    -----
    *Promise* (T16): question k loses at most ``(upper - lower) 2 sqrt(ln(2 m_1 ... m_k
    k (k + 1) / delta) / (2 N))`` against its best response, where ``m_j = |R_j| + 1`` counts the
    responses and a refusal: before it there were at most ``m_1 ... m_(k-1)`` histories.

    Examples
    --------
    >>> dialogue = Dialogue(release)                                            # doctest: +SKIP
    >>> side = dialogue.ask("beta[0] * response > 0", [-1, 1]).response         # doctest: +SKIP
    >>> dialogue.ask(f"beta[1] * {side} > 0", [False, True])                    # doctest: +SKIP
    """

    def __init__(self, release: Release, *, delta: float = 0.05) -> None:
        check_failure(delta)
        self.release, self.delta = check_release(release), delta
        self._counts: list[int] = []
        self._answers = Answers()

    @property
    def answers(self) -> Answers:
        """All answers so far."""
        return Answers(self._answers)

    def ask(
        self,
        utility: FunctionOfDraws,
        responses: Iterable[Hashable],
        query: Any = None,
        *,
        bounds: tuple[float, float] | None = (0, 1),
    ) -> Answer:
        """Answer one question.

        Parameters
        ----------
        utility, responses, query, bounds
            As of `answer`, with finitely many responses.

        Returns
        -------
        Answer
            Its expected utility is NaN: withheld.

        Raises
        ------
        DomainError
            As `answer`; responses from a box. A question that is refused once its utility was
            computed has revealed something of the draws, and counts as an answered one.
        """
        prepared = Utility.of(self.release, utility, bounds, None if query is None else [query])
        space = response_space(responses)
        if isinstance(space, ResponseBox):
            raise DomainError(
                "A dialogue counts its histories, so responses are finitely many.",
                got="a box",
                do="list responses, for example np.linspace(lower, upper, 100)",
            )
        counts = self._counts = [*self._counts, len(space) + 1]
        try:
            chosen = best_response(prepared, draws_dict(self.release), space, query)
        except OutOfBounds:
            raise OutOfBounds(
                "The utility leaves its bounds at some draws, or is not a number there.",
                got="values that a dialogue withholds; the question counts as an answered one",
                allowed=f"[{prepared.bounds[0]:g}, {prepared.bounds[1]:g}]",
                do="pass bounds that hold for all values of the parameters, or np.clip inside the "
                "utility",
            ) from None
        loss, reason = math.inf, NO_BOUNDS_REASON
        draws = prepared.posterior.sizes["draw"]
        if math.isfinite(prepared.width):
            share = psaqr_dialogue_loss(draws, self.delta, counts)[-1]
            loss, reason = min(prepared.width, prepared.width * share + prepared.drift), ""
        found = Answer(
            chosen.response, math.nan, loss, (), query, prepared.bounds, draws, 1 - self.delta,
            self.release.private, math.nan, "for all questions together", reason,
        )  # fmt: skip
        self._answers.append(found)
        return found

    def __repr__(self) -> str:
        title = f"Dialogue: {len(self._answers)} questions"
        return cards.text_card(title, [("answers", repr(self._answers))])

    def _repr_html_(self) -> str:
        return cards.html_card(repr(self).splitlines()[0], [("", repr(self._answers))])
