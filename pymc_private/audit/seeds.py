"""A published, guessable or reused seed: whoever knows it recomputes the draws for any data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.printing import number


@dataclass(frozen=True)
class SeedReuse:
    """Which guesses of the data and of the seed reproduce what was released.

    Parameters
    ----------
    matches : tuple of (int, int)
        Place of the data set among the candidates, and the seed.
    tried : int
        Pairs tried.
    false_alarm : float
        Probability with which draws of fresh randomness would have matched, at most.
    """

    matches: tuple[tuple[int, int], ...]
    tried: int
    false_alarm: float

    @property
    def leaks(self) -> bool:
        """Whether the seed was found: then the draws are no draws."""
        return bool(self.matches)

    @property
    def data(self) -> int | None:
        """The candidate that the draws were made from, if only one matches."""
        found = {place for place, _ in self.matches}
        return found.pop() if len(found) == 1 else None

    def __repr__(self) -> str:
        if not self.leaks:
            return f"SeedReuse(no match among {self.tried:,} tried)"
        places = sorted({place for place, _ in self.matches})
        return (
            f"SeedReuse(candidate {' or '.join(map(str, places))}, seed {self.matches[0][1]}, "
            f"but for a probability of {number(self.false_alarm)})"
        )


def seed_reuse(
    released: Any,
    replay: Callable[[Any, int], Any],
    candidates: Sequence[Any],
    seeds: Iterable[int],
    *,
    coincidence: float = 0.0,
) -> SeedReuse:
    """Recompute a release for each candidate data set and seed, and compare.

    Parameters
    ----------
    released : array
        The numbers that were published.
    replay : callable
        ``replay(data, seed)``: what the mechanism would publish; public code run by the adversary.
    candidates : sequence
        Data sets that the adversary thinks possible.
    seeds : iterable of int
        The one that was printed, or all that are likely: 0, 42, 1234, dates.
    coincidence : float
        Largest probability of any one output under fresh randomness: 0 of real numbers, 1/2 of a
        fair coin.

    Returns
    -------
    SeedReuse

    Raises
    ------
    DomainError
        Nothing to try, or `coincidence` is no probability.

    Examples
    --------
    >>> def draw(data, seed):
    ...     return np.random.default_rng(seed).normal(np.mean(data), size=3)
    >>> seed_reuse(draw([0, 1], seed=42), draw, [[0, 0], [0, 1]], seeds=range(100)).data
    1
    """
    guesses = list(seeds)
    if not guesses or not len(candidates):
        raise DomainError("there is nothing to try", allowed="one data set and one seed, or more")
    if not 0.0 <= coincidence <= 1.0:
        raise DomainError("coincidence is a probability", got=coincidence)
    truth = np.asarray(released)
    matches = tuple(
        (place, int(seed))
        for place, data in enumerate(candidates)
        for seed in guesses
        if np.array_equal(np.asarray(replay(data, seed)), truth)
    )
    tried = len(candidates) * len(guesses)
    return SeedReuse(matches, tried, min(1.0, tried * coincidence))
