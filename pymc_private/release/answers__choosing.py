"""The best response by the draws: among finitely many, or in a box of numbers."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from scipy import optimize
from pymc_private.errors import DomainError
from pymc_private.release.utilities import Box
from pymc_private.release.utilities__utilities import Moments, Utility
from pymc_private.privacy.validation import not_negative

POLISH = 200
"""Evaluations beyond the net, per coordinate."""


@dataclass(frozen=True)
class Chosen:
    """The best response found.

    Parameters
    ----------
    response : hashable
    moments : Moments
    scores : tuple of (response, float)
        Of all that were tried, in order.
    shortfall : float
        Utility of the best response of the net less that of this one: never above 0.
    """

    response: Any
    moments: Moments
    scores: tuple[tuple[Any, float], ...]
    shortfall: float = 0.0


def best_of(
    utility: Utility, theta: dict[str, np.ndarray], responses: Sequence[Any], query: Any
) -> Chosen:
    """Choose the first of the best among finitely many responses."""
    found = [utility.at(theta, response, query) for response in responses]
    k = max(range(len(found)), key=lambda i: found[i].mean)
    scores = tuple((r, m.mean) for r, m in zip(responses, found, strict=True))
    return Chosen(responses[k], found[k], scores)


def best_in_box(
    utility: Utility,
    theta: dict[str, np.ndarray],
    box: Box,
    query: Any,
    lipschitz: float | None = None,
) -> Chosen:
    """Choose the best of a net of responses, then improve it within its cell's neighborhood.

    Neither a wrong gradient nor a local optimum does harm: the polished response counts only if
    it is better than every point of the net, and by how much enters the bound.

    Raises
    ------
    DomainError
        As `Utility.at`; the mean utilities found contradict the Lipschitz constant.
    """
    if lipschitz is not None:
        not_negative(lipschitz=lipschitz)
    net = best_of(utility, theta, list(box.points()), query)
    best = [net.moments.mean, net.response]

    def cost(place: np.ndarray) -> float:
        response = box.response(place)
        value = utility.at(theta, response, query).mean
        if value > best[0]:
            best[:] = [value, response]
        return -value

    start = np.atleast_1d(np.asarray(net.response, float))
    cell = 2 * box.widths / (2 * box.sides)
    low, high = np.maximum(start - cell, box.lower), np.minimum(start + cell, box.upper)
    if len(start) == 1:
        optimize.minimize_scalar(
            lambda x: cost(np.array([x])), bounds=(low[0], high[0]), method="bounded"
        )
    else:
        optimize.minimize(
            cost,
            start,
            method="Nelder-Mead",
            bounds=list(zip(low, high, strict=True)),
            options={"maxfev": POLISH * len(start)},
        )
    moments = utility.at(theta, best[1], query)
    if lipschitz is not None and np.isfinite(lipschitz):
        _check_lipschitz(lipschitz, net.scores, (best[1], moments.mean))
    return Chosen(best[1], moments, net.scores, net.moments.mean - moments.mean)


def _check_lipschitz(
    lipschitz: float, scores: Sequence[tuple[Any, float]], best: tuple[Any, float]
) -> None:
    """Refuse a constant that successive points of the net, or the best and the net, refute."""
    places = np.array([np.atleast_1d(response) for response, _ in scores], float)
    means = np.array([mean for _, mean in scores])
    apart = np.abs(np.r_[np.diff(places, axis=0), places - best[0]]).max(axis=1)
    moved = np.abs(np.r_[np.diff(means), means - best[1]])
    rounding = 1e-9 * (1e-300 + np.abs(means).max())
    if np.any(moved > lipschitz * apart * (1 + 1e-9) + rounding):
        far = apart > 0
        raise DomainError(
            "The utility is steeper than its Lipschitz constant.",
            got=f"lipschitz={lipschitz:g}; means move by {np.max(moved[far] / apart[far]):g}",
            do="state how far the utility moves at most, at any theta, per unit of the response",
        )
