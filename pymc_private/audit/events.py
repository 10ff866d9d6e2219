"""Events that tell two laws apart: a threshold on a score, chosen on training draws."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from pymc_private.audit.statistical_tests__binomial import lower_limit, upper_limit
from pymc_private.audit.events__classifiers import Score
from pymc_private.errors import DomainError

THRESHOLDS = 200
Value = Callable[[Any, Any, Any, Any, float], Any]
"""A bound from two counts, each in the event and in all, that fails so often; vectorized."""


@dataclass(frozen=True)
class Event:
    """A set of outputs that one of two laws gives more often.

    Parameters
    ----------
    name : str
        Of the score.
    score : callable
        From draws, shape (n, d), to numbers, shape (n,).
    threshold : float
    above : bool
        Whether the event is a score of `threshold` or more, or one below it.
    likelier : str
        The law that gives it more often: "P" or "Q".
    """

    name: str
    score: Score = field(repr=False)
    threshold: float
    above: bool
    likelier: str

    def contains(self, draws: np.ndarray) -> np.ndarray:
        """Whether each draw lies in the event.

        Parameters
        ----------
        draws : array, shape (n, d)

        Returns
        -------
        array of bool, shape (n,)

        Raises
        ------
        DomainError
            The score gives no number, or not one for each draw.
        """
        return self.holds(scores(self.score, draws))

    def holds(self, found: np.ndarray) -> np.ndarray:
        """Whether each score lies in the event."""
        return (found >= self.threshold) == self.above

    def counted(self, inside: tuple[int, int], tested: tuple[int, int]) -> str:
        """Say how many draws of either law it holds."""
        shares = " and ".join(
            f"{k:,} of {n:,} draws of {law}" for k, n, law in zip(inside, tested, "PQ", strict=True)
        )
        return f"{self} holds {shares}"

    def __str__(self) -> str:
        return f"{{{self.name} {'>=' if self.above else '<'} {self.threshold:.6g}}}"


def scores(score: Score, draws: np.ndarray) -> np.ndarray:
    """Evaluate a score.

    Raises
    ------
    DomainError
        It gives no number, or not one for each draw.
    """
    found = np.asarray(score(draws), float)
    if found.shape != (len(draws),) or np.isnan(found).any():
        raise DomainError(
            "a score gives one number per draw",
            got="NaN" if found.shape == (len(draws),) else f"shape {found.shape}",
            allowed=f"shape ({len(draws)},); infinite values may stand in it",
        )
    return found


def joint_scores(
    score: Score, p: np.ndarray, q: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a score on draws of two laws together, in a random order.

    Raises
    ------
    DomainError
        It gives no numbers, or other numbers for the halves of the same draws: then it is no
        function of one draw, and its events prove nothing.
    """
    pooled = np.concatenate([p, q])
    order = rng.permutation(len(pooled))
    found = np.empty(len(pooled))
    found[order] = scores(score, pooled[order])
    order = rng.permutation(len(pooled))
    again = np.empty(len(pooled))
    for half in np.array_split(order, 2):
        again[half] = scores(score, pooled[half])
    finite = found[np.isfinite(found)]
    largest = float(np.max(np.abs(finite), initial=0.0))
    # The last bits of a matrix product depend on its shape.
    with np.errstate(over="ignore", invalid="ignore"):
        differ = (found != again) & ~(np.abs(found - again) <= 1e-9 * largest)
    if differ.any():
        raise DomainError(
            "a score is a function of one draw at a time",
            got=f"{int(differ.sum()):,} of {len(found):,} draws had another score among others",
            do="take out what depends on the batch (its mean or order, a batch normalization, a "
            "counter, a random number)",
        )
    return found[: len(p)], found[len(p) :]


def epsilon_of(
    inside: Any, tested: Any, other: Any, others: Any, delta: float, error: float
) -> Any:
    """Lower bound of ln((p - delta) / q) from two counts; below 0 it shows nothing.

    Each of the two limits fails with probability `error` / 2 at most, so the bound fails with
    probability `error` at most.

    Parameters
    ----------
    inside, tested : float or array
        Draws in the event, and all, of the law that is likelier to give it.
    other, others : float or array
        As much of the other law.
    delta, error : float

    Returns
    -------
    float or array, nats
    """
    excess = np.maximum(lower_limit(inside, tested, error / 2.0) - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(excess) - np.log(upper_limit(other, others, error / 2.0))


def delta_of(
    inside: Any, tested: Any, other: Any, others: Any, epsilon: float, error: float
) -> Any:
    """Lower bound of p - e^epsilon q from two counts; below 0 it shows nothing.

    Fails with probability `error` at most, as `epsilon_of`.
    """
    scale = float(np.exp(epsilon))
    return lower_limit(inside, tested, error / 2.0) - scale * upper_limit(
        other, others, error / 2.0
    )


def choose_event(
    candidates: Sequence[tuple[str, Score]],
    p: np.ndarray,
    q: np.ndarray,
    tested: tuple[int, int],
    value: Value,
    false_alarm: float,
) -> Event:
    """Find the event that promises the largest bound, in both directions.

    Of hundreds of rare events some look good by chance, and then prove nothing. So each is judged
    by limits that hold for all of them together (Bonferroni's, which cost rare events the most);
    only if none shows anything by these is it judged by the limits to come.

    Parameters
    ----------
    candidates : sequence of tuple of str and callable
        Scores by name.
    p, q : array, shape (n, d)
        Training draws.
    tested : tuple of int
        How many draws of P and of Q will test the event: few of them make rare events useless.
    value : callable
        The bound to come, from the counts in the event and in all, of the likelier law and the
        other, and its probability to fail: `epsilon_of`, or `delta_of`.
    false_alarm : float
        Of the bound to come.

    Raises
    ------
    DomainError
        No candidates.
    """
    families = [
        family
        for (name, score), above in product(candidates, (True, False))
        for family in _families(name, score, above, p, q, tested)
    ]
    if not families:
        raise DomainError("an event needs a score", got="none")
    many = sum(len(family.places) for family in families)
    for error in (false_alarm / many, false_alarm):
        found = [value(*family.counts, error) for family in families]
        best = int(np.argmax([np.max(values) for values in found]))
        if np.max(found[best]) > 0.0:
            break
    return families[best].event(int(np.argmax(found[best])))


@dataclass(frozen=True)
class _Family:
    """Events of one score and one direction, and what `value` takes of each."""

    name: str
    score: Score
    above: bool
    likelier: str
    places: np.ndarray
    counts: tuple[np.ndarray, int, np.ndarray, int]

    def event(self, k: int) -> Event:
        return Event(self.name, self.score, float(self.places[k]), self.above, self.likelier)


def _families(
    name: str,
    score: Score,
    above: bool,
    p: np.ndarray,
    q: np.ndarray,
    tested: tuple[int, int],
) -> list[_Family]:
    """Count the training draws in each event, in the currency of the test."""
    of_p, of_q = np.sort(scores(score, p)), np.sort(scores(score, q))
    places = _thresholds(np.concatenate([of_p, of_q]))
    shares = [np.searchsorted(s, places, side="left") / len(s) for s in (of_p, of_q)]
    if above:
        shares = [1.0 - share for share in shares]
    x, y = (share * n for share, n in zip(shares, tested, strict=True))
    m, n = tested
    return [
        _Family(name, score, above, "P", places, (x, m, y, n)),
        _Family(name, score, above, "Q", places, (y, n, x, m)),
    ]


def _thresholds(pooled: np.ndarray) -> np.ndarray:
    """Distinct values to cut at, denser towards both ends, where rare events lie."""
    values = np.unique(pooled)
    if len(values) <= THRESHOLDS:
        return values
    last, many = len(values) - 1, THRESHOLDS // 4
    tail = np.geomspace(1, last, many)
    ranks = np.concatenate([np.linspace(0, last, 2 * many), tail, last - tail])
    return values[np.unique(ranks.astype(int))]
