r"""Pilots of a part of the records, in memory, and one weighted pass over all of them (T37).

A record is in the *pilot part* with probability f, by a coin that is a function of this record and
a key alone, or drawn for this record alone (`tables/coins.py`). Pilot releases read the pilot part,
at mu_p^2 = (1 - s^2) mu^2; the main ones read all records at mu, those of the pilot part with
weight s. Whatever the coins are, the whole is mu-GDP. Rounds of many records cost next to nothing
then, and the final score is nearly that of the whole budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pymc_private.summaries.weighted_sums import WEIGHT_ONE

WEIGHT = 229
"""s in units of 1/256: s^2 is 0.8002, and pilots have a fifth of mu^2."""
LEAST_RECORDS = 100_000
"""Fewer records are read once for each round: shares of the budget are as good there."""
LEAST_IN_MEMORY = 1_000_000
"""Fewer records that a model holds are read in all rounds, which takes no reading of a table."""
SHARE, AT_MU, AT_RECORDS, EXPONENT = 0.25, 0.24, 1e5, 0.4
"""f at epsilon 1 and 100,000 records, and how it falls with their number."""
LEAST_PILOTS, MOST_PILOTS = 5e4, 1e6
"""Expected records of the pilot part."""
COIN_BITS = 16
"""f is a multiple of 2**-16."""


@dataclass(frozen=True)
class PilotPart:
    """The share f of records that pilots read, and their weight s in the main sums.

    Attributes
    ----------
    threshold : int
        f in units of 2**-16.
    weight : int
        s in units of 1/256.
    """

    threshold: int
    weight: int = WEIGHT

    @property
    def share(self) -> float:
        """f."""
        return math.ldexp(self.threshold, -COIN_BITS)

    def pilot_mu(self, mu: float) -> float:
        """mu_p, rounded down: its square is at most (1 - s^2) mu^2."""
        rest = 1 - Fraction(self.weight, WEIGHT_ONE) ** 2
        found = mu * math.sqrt(rest)
        while Fraction(found) ** 2 > rest * Fraction(mu) ** 2:
            found = math.nextafter(found, 0.0)
        return found

    def kinds(self, rounds: int) -> RecordKinds:
        """Weights of both kinds of records in some pilots and a main score."""
        light = np.append(np.ones(rounds), self.weight / WEIGHT_ONE)
        heavy = np.append(np.zeros(rounds), 1.0)
        return RecordKinds(np.array([1.0 - self.share, self.share]), np.stack([heavy, light]))


@dataclass(frozen=True, eq=False)
class RecordKinds:
    """Kinds of records, which enter the rounds with weights of their own.

    Attributes
    ----------
    shares : array, shape (K,)
        Shares of the records.
    weights : array, shape (K, T)
    """

    shares: np.ndarray
    weights: np.ndarray

    @classmethod
    def alike(cls, rounds: int) -> RecordKinds:
        """All records in all rounds."""
        return cls(np.ones(1), np.ones((1, rounds)))

    def with_rounds(self, rounds: int) -> RecordKinds:
        """The same with further rounds that read all records with weight 1."""
        added = np.ones((len(self.shares), rounds))
        return RecordKinds(self.shares, np.hstack([self.weights, added]))

    @property
    def means(self) -> np.ndarray:
        """Mean weight of a record in each round, shape (T,)."""
        return self.shares @ self.weights

    @property
    def products(self) -> np.ndarray:
        """Mean product of a record's weights in two rounds, shape (T, T)."""
        return (self.weights.T * self.shares) @ self.weights


def pilot_part(count: float, mu: float) -> PilotPart | None:
    """The pilot part of so many records, public or guessed; None of few."""
    if count < LEAST_RECORDS:
        return None
    share = SHARE * (AT_MU / mu) * min(1.0, (AT_RECORDS / count) ** EXPONENT)
    share = min(max(share, LEAST_PILOTS / count), MOST_PILOTS / count, 1.0)
    return PilotPart(max(1, round(math.ldexp(share, COIN_BITS))))
