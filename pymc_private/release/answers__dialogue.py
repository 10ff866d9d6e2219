"""Questions that depend on earlier answers: a dialogue with one release."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError
from pymc_private.release import display
from pymc_private.release.answers import Answer, Answers, UNBOUNDED
from pymc_private.release.answers__choosing import best_of
from pymc_private.release.expression_arithmetic import OutOfBounds
from pymc_private.release.expressions__reading import a_release, draws_dict
from pymc_private.release.utilities import Box, space_of
from pymc_private.release.utilities__utilities import Function, Utility
from pymc_private.privacy import psaqr_dialogue_loss
from pymc_private.privacy.validation import is_number

if TYPE_CHECKING:
    from pymc_private.release.release import Release

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
        if not (is_number(delta) and 0 < delta < 1):
            raise DomainError("A bound fails with a probability inside (0, 1).", got=delta)
        self.release, self.delta = a_release(release), delta
        self._counts: list[int] = []
        self._answers = Answers()

    @property
    def answers(self) -> Answers:
        """All answers so far."""
        return Answers(self._answers)

    def ask(
        self,
        utility: Function,
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
            computed has told something of the draws, and counts as an answered one.
        """
        made = Utility.of(self.release, utility, bounds, None if query is None else [query])
        space = space_of(responses)
        if isinstance(space, Box):
            raise DomainError(
                "A dialogue counts its histories, so responses are finitely many.",
                got="a box",
                do="list responses, for example np.linspace(lower, upper, 100)",
            )
        counts = self._counts = [*self._counts, len(space) + 1]
        try:
            chosen = best_of(made, draws_dict(self.release), space, query)
        except OutOfBounds:
            raise OutOfBounds(
                "The utility leaves its bounds at some draws, or is not a number there.",
                got="values that a dialogue withholds; the question counts as an answered one",
                allowed=f"[{made.bounds[0]:g}, {made.bounds[1]:g}]",
                do="pass bounds that hold for all values of the parameters, or np.clip inside the "
                "utility",
            ) from None
        loss, reason = math.inf, UNBOUNDED
        draws = made.posterior.sizes["draw"]
        if math.isfinite(made.width):
            share = psaqr_dialogue_loss(draws, self.delta, counts)[-1]
            loss, reason = min(made.width, made.width * share + made.drift), ""
        said = Answer(
            chosen.response, math.nan, loss, (), query, made.bounds, draws, 1 - self.delta,
            self.release.private, math.nan, "for all questions together", reason,
        )  # fmt: skip
        self._answers.append(said)
        return said

    def __repr__(self) -> str:
        title = f"Dialogue: {len(self._answers)} questions"
        return display.text_card(title, [("answers", repr(self._answers))])

    def _repr_html_(self) -> str:
        return display.html_card(repr(self).splitlines()[0], [("", repr(self._answers))])
