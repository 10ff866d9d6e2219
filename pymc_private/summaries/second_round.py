r"""What a second round of a summary is, whatever its method: its price, its gain, its release.

Two kinds. Scores and pooled records take one more score at the posterior mode, a function of what
was released (`scores/refinement.py`, `records/record_refinement.py`). Sums and cells have nothing
to move: their round is the same statistic once more, with noise of its own (`RepeatedRound`).
Copies z_k = S + N(0, s_k^2) of one statistic say of S what their mean z, weighted by 1 / s_k^2,
says: z = S + N(0, s^2), 1/s^2 = sum 1/s_k^2. With s_k = Delta / mu_k that is one copy with
s = Delta / sqrt(mu_1^2 + mu_2^2): nothing is lost by two rounds. Of discrete Laplace noise the mean
is the best linear estimate; there two rounds add epsilons, and one summary at their sum has less
noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import chdtri

from pymc_private.privacy import Guarantee
from pymc_private.summaries.protocol import (
    Caution,
    Mechanism,
    Progress,
    Records,
    Released,
    SummaryNoise,
)

DISAGREEMENT = "disagreement"
"""Squared differences of copies in units of their noise, and how many there are."""
RARE = 1e-6
"""Probability of a difference between copies that noise does not explain."""


@dataclass(frozen=True, eq=False)
class SecondRound:
    """A round that is planned and not yet released.

    Attributes
    ----------
    mechanism : Mechanism
        Of the summary that is refined.
    before, after : array, shape (q, q)
        Posterior covariance now and, as expected, after the round: normal approximations.
    """

    mechanism: Any
    before: np.ndarray
    after: np.ndarray

    @property
    def shrinkage(self) -> np.ndarray:
        """Expected ratios of posterior standard deviations, after to before, shape (q,)."""
        return np.sqrt(np.diag(self.after) / np.diag(self.before))

    @property
    def nats(self) -> float:
        """Expected information gain of the round."""
        return _nats(self.before, self.after)

    @property
    def nats_in_all(self) -> float:
        """Expected information from the prior to the posterior after the round."""
        return max(0.0, _nats(np.asarray(self.coordinates.covariance), self.after))

    @property
    def coordinates(self) -> Any:
        """The parameters that `before` and `after` are of."""
        return self.mechanism.parameters

    @property
    def how(self) -> str:
        """What the round is, for a plan."""
        return "the round is a function of what the first released"

    @property
    def guarantee(self) -> Guarantee:
        """What the round alone reveals at most."""
        raise NotImplementedError

    @property
    def work(self) -> Any:
        """What workers of a cluster would compute of each chunk of records, if they do."""
        return None

    @property
    def refined(self) -> Mechanism:
        """That of the refined summary."""
        raise NotImplementedError

    @property
    def stages(self) -> tuple[str, ...]:
        """What the round releases, in order."""
        raise NotImplementedError

    def release(
        self,
        first: Mapping[str, np.ndarray],
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None = None,
    ) -> Released:
        """What the refined summary holds."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RoundAtMode(SecondRound):
    """One more score at the posterior mode.

    Attributes
    ----------
    mu : float
        Gaussian privacy of the round.
    """

    mu: float

    @cached_property
    def refined(self) -> Any:
        """The mechanism of the refined summary."""
        return self.mechanism.refined(self.mu)


class RepeatableMechanism(Mechanism, Protocol):
    """A mechanism whose statistic can be released once more."""

    copied: Sequence[tuple[str, str]]
    """Names of released arrays of noisy sums, each with that of the standard deviation."""

    def repeated(self, budget: float) -> RepeatableMechanism:
        """The same statistic at another budget."""

    def refined(self, budget: float) -> RepeatableMechanism:
        """The mechanism of this summary with a copy at this budget."""

    def covariance_at(self, theta: np.ndarray, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of prior precision and information, shape (p, p)."""


@dataclass(frozen=True, eq=False)
class RepeatedRound(SecondRound):
    """The same sums once more, with noise of their own.

    Attributes
    ----------
    again, joint : RepeatableMechanism
        The statistic at the budget of the round, and that of the refined summary.
    """

    again: Any
    joint: Any

    @property
    def how(self) -> str:
        """What the round is, for a plan."""
        return "the same sums once more, each pooled with its first copy"

    @property
    def guarantee(self) -> Guarantee:
        """What the round alone reveals at most."""
        return self.again.guarantee

    @property
    def refined(self) -> Mechanism:
        """That of the refined summary."""
        return self.joint

    @property
    def stages(self) -> tuple[str, ...]:
        """What the round releases, in order."""
        return tuple(self.again.stages)

    def release(
        self,
        first: Mapping[str, np.ndarray],
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None = None,
    ) -> Released:
        """Both copies pooled."""
        found = self.again.release(records, noise, progress)
        return pooled_copies(first, found, self.again.copied)


def repeated_round(
    mechanism: RepeatableMechanism, released: Mapping[str, np.ndarray], budget: float
) -> RepeatedRound:
    """A copy of the statistic at a budget: mu, or epsilon of discrete Laplace noise."""
    joint = mechanism.refined(budget)
    theta, before = mechanism.start(released)
    after = joint.covariance_at(theta, released)
    return RepeatedRound(mechanism, before, after, mechanism.repeated(budget), joint)


def pooled_copies(
    first: Mapping[str, np.ndarray],
    second: Mapping[str, np.ndarray],
    copied: Sequence[tuple[str, str]],
) -> Released:
    """Two noisy copies of the same sums as one, weighted by the inverse of their variances.

    How far they differ, in units of their noise, is kept: the same records differ by noise alone.
    """
    found = dict(first)
    square, count = np.asarray(first.get(DISAGREEMENT, np.zeros(2)), float)
    for value, sd in copied:
        if value not in first:
            continue
        one, other = (np.asarray(each[value], float) for each in (first, second))
        variances = [np.asarray(each[sd], float) ** 2 for each in (first, second)]
        both = sum(variances)
        noisy = np.broadcast_to(both > 0.0, one.shape)
        whole = np.where(both > 0.0, both, 1.0)
        share = np.where(both > 0.0, variances[1] / whole, 0.5)
        found[value] = share * one + (1.0 - share) * other
        found[sd] = np.sqrt(variances[0] * variances[1] / whole)
        away = (one - other) ** 2 / whole
        square, count = square + away[noisy].sum(), count + noisy.sum()
    return found | {DISAGREEMENT: np.array([square, count], dtype=float)}


def disagreement_cautions(
    released: Mapping[str, np.ndarray], laplace: bool = False
) -> list[Caution]:
    """A doubt where copies of the same sums differ by more than their noise.

    Laplace noise has longer tails: copies of scales b, c differ by more than (b + c) log(2/p) with
    probability p at most, and (b + c)^2 is at most the variance of the difference.
    """
    if DISAGREEMENT not in released:
        return []
    square, count = released[DISAGREEMENT]
    most = count * np.log(2.0 * count / RARE) ** 2 if laplace else chdtri(count, RARE)
    if not square > most:
        return []
    text = (
        f"two rounds of the same sums differ by {np.sqrt(square / count):.1f} standard deviations "
        "of their noise: were the records the same?"
    )
    return [Caution(text)]


def _nats(before: np.ndarray, after: np.ndarray) -> float:
    logs = [np.linalg.slogdet(each)[1] for each in (before, after)]
    return 0.5 * float(logs[0] - logs[1])
