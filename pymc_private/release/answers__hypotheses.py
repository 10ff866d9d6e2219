"""Choosing among hypotheses, or among actions whose losses depend on them."""

from __future__ import annotations

import numpy as np
from collections.abc import Hashable, Mapping
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError
from pymc_private.release.answers import Answer, answer
from pymc_private.release.expressions__reading import a_release
from pymc_private.release.utilities__utilities import Function, event_of

if TYPE_CHECKING:
    from pymc_private.release.release import Release

def choose(
    release: Release,
    hypotheses: Mapping[Hashable, Function],
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
    if not hypotheses:
        raise DomainError("There is no hypothesis to choose from.", allowed="one or more")
    a_release(release)
    truths = {name: _truth(release, name, event) for name, event in hypotheses.items()}
    if losses is None:
        found = answer(release, lambda _, name: truths[name], list(truths), delta=delta)
    else:
        table = _table(truths, losses)
        count = np.sum([*truths.values()], axis=0)
        if not np.all(count == 1):
            raise DomainError(
                "Losses need hypotheses of which exactly one is true at each draw.",
                got=f"{int(np.sum(count != 1))} of {len(count)} draws have none or several",
                do='add a hypothesis for the rest, or make them exclusive with "and not (...)"',
            )
        low, high = -max(map(max, table.values())), -min(map(min, table.values()))
        found = answer(
            release,
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


def _truth(release: Release, name: Hashable, event: Function) -> np.ndarray:
    truth = np.asarray(event_of(release, event))
    count = release.posterior.sizes["draw"]
    if truth.shape != (count,) or truth.dtype != bool:
        raise DomainError(
            f"Hypothesis {name!r} is not true or false at every draw.",
            got=f"{truth.dtype} of shape {truth.shape}",
            allowed=f"bool of shape ({count},)",
            do='for example "beta[0] > 0", or "all(beta > 0)"',
        )
    return truth


def _table(
    truths: Mapping[Hashable, Any], losses: Mapping[Hashable, Mapping[Hashable, float]]
) -> dict[Hashable, list[float]]:
    if not losses:
        raise DomainError("There is no action to choose from.", allowed="one or more")
    table = {}
    for action, row in losses.items():
        missing = [name for name in truths if name not in row]
        unknown = [name for name in row if name not in truths]
        if missing or unknown:
            raise DomainError(
                f"The losses of action {action!r} do not name each hypothesis once.",
                got=", ".join(map(str, row)),
                allowed=", ".join(map(str, truths)),
            )
        table[action] = [float(row[name]) for name in truths]
        if not np.isfinite(table[action]).all():
            raise DomainError(f"The losses of action {action!r} are finite numbers.")
    return table
