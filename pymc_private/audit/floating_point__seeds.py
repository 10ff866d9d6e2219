"""A published, guessable or reused seed: whoever knows it recomputes the draws for any data."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import refuse_mask
from pymc_private.privacy.rounding__printing import number

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
        fair coin. Outputs that are whole numbers, or the same for two seeds, are not taken to
        have none.

    Returns
    -------
    SeedReuse

    Raises
    ------
    DomainError
        Nothing to try; `coincidence` is no probability, or 0 of outputs that do coincide.

    Examples
    --------
    >>> def draw(data, seed):
    ...     return np.random.default_rng(seed).normal(np.mean(data), size=3)
    >>> seed_reuse(draw([0, 1], seed=42), draw, [[0, 0], [0, 1]], seeds=range(100)).data
    1
    """
    guesses = list(dict.fromkeys(map(int, seeds)))
    if not guesses or not len(candidates):
        raise DomainError("there is nothing to try", allowed="one data set and one seed, or more")
    if not 0.0 <= coincidence <= 1.0:
        raise DomainError("coincidence is a probability", got=coincidence)
    refuse_mask(released, "released numbers")
    truth = np.asarray(released)
    whole = truth.dtype.kind in "iub" or (truth.dtype.kind == "f" and np.all(truth == truth // 1))
    matches, again = [], bool(whole)
    for place, data in enumerate(candidates):
        seen: set[bytes] = set()
        for seed in guesses:
            replayed = np.asarray(replay(data, seed))
            again |= replayed.tobytes() in seen
            seen.add(replayed.tobytes())
            if np.array_equal(replayed, truth):
                matches.append((place, seed))
    if again and coincidence == 0.0:
        raise DomainError(
            "these outputs coincide by chance",
            got="coincidence=0 of " + ("whole numbers" if whole else "outputs seen twice"),
            allowed="0 < coincidence <= 1",
            do="state the largest probability of any one output, such as 0.5 of a fair coin",
        )
    tried = len(candidates) * len(guesses)
    return SeedReuse(tuple(matches), tried, min(1.0, tried * coincidence))
