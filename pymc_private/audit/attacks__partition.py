"""The partition adversary: shares of the draws in a few cells against two posteriors."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, pay
from pymc_private.errors import DomainError
from pymc_private.planning import partition_radius
from pymc_private.privacy.validation import inside_unit, refuse_mask

MANY = 10**12


@dataclass(frozen=True, repr=False)
class PartitionGuess:
    """What the partition adversary says.

    Parameters
    ----------
    says : str
        "x" or "y": whose probabilities are nearer to the shares seen.
    distances : tuple of (float, float)
        Of the shares to those of x and of y, in L1.
    apart : float
        Of the two posteriors' probabilities, in L1: at most twice their total variation.
    radius : float
        Shares lie within it of their probabilities, but for `false_alarm`.
    false_alarm : float
    draws, cells : int
        How many he saw.
    """

    says: str
    distances: tuple[float, float]
    apart: float
    radius: float
    false_alarm: float
    draws: int
    cells: int

    @property
    def is_sure(self) -> bool:
        """Whether what he says is right but for `false_alarm`."""
        return self.apart > 2.0 * self.radius

    @property
    def refutes_both(self) -> bool:
        """Whether the shares are too far from both: then neither data set is the true one."""
        return min(self.distances) > self.radius

    @property
    def draws_needed(self) -> float:
        """How many draws would make him sure; infinite where the posteriors agree on the cells."""
        if not self.apart > 0.0:
            return math.inf
        radius = partition_radius(MANY, self.cells, self.false_alarm)  # falls as 1 / sqrt(draws)
        return math.floor(MANY * (2.0 * radius / self.apart) ** 2) + 1

    def __repr__(self) -> str:
        sure = "sure" if self.is_sure else f"not sure: that takes {self.draws_needed:,} draws"
        return (
            f"PartitionGuess({self.says!r}, {sure}; shares of {self.draws:,} draws are "
            f"{self.distances[0]:.4g} from x and {self.distances[1]:.4g} from y, which are "
            f"{self.apart:.4g} apart; right but for a probability of {self.false_alarm:g} where "
            f"they are more than {2.0 * self.radius:.4g} apart)"
        )


def partition_adversary(
    cells: Any,
    x: Sequence[float],
    y: Sequence[float],
    *,
    false_alarm: float = FALSE_ALARM,
) -> PartitionGuess:
    """Decide between two data sets by the shares of N draws in m cells of the parameter space.

    Parameters
    ----------
    cells : array of int, shape (N,)
        In which cell each independent draw lies: 0 .. m - 1.
    x, y : sequence of float, length m
        Probabilities of the cells under the posteriors of the two data sets, which the adversary
        can compute.
    false_alarm : float
        Probability with which a sure answer is wrong, at most; paid for by an open `Allowance`.

    Returns
    -------
    PartitionGuess

    Raises
    ------
    DomainError
        No draws, cells out of range, probabilities that are none, or a spent allowance.

    References
    ----------
    Weissman et al. (2003), Theorem 2.1; Dimitrakakis et al. (2017), Lemma 12, whose radius
    sqrt(3 ln(1 / failure) / N) is larger for the numbers of cells it allows.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(4000) < 0.7
    >>> guess = partition_adversary(draws.astype(int), [0.5, 0.5], [0.3, 0.7])
    >>> guess.says, guess.is_sure
    ('y', True)
    """
    inside_unit(false_alarm=false_alarm)
    refuse_mask(cells, "cells")
    for law in (x, y):
        refuse_mask(law, "probabilities")
    laws = [np.asarray(law, float) for law in (x, y)]
    m = len(laws[0])
    good = all(
        law.shape == (m,) and np.all(law >= 0.0) and abs(law.sum() - 1.0) < 1e-6 for law in laws
    )
    if m < 2 or not good:
        raise DomainError("two or more cells, with probabilities that sum to 1 under both laws")
    places = np.ravel(np.asarray(cells))
    if not places.size or places.dtype.kind not in "iub" or places.min() < 0 or places.max() >= m:
        raise DomainError("each draw lies in one cell", allowed=f"whole numbers 0 ... {m - 1}")
    shares = np.bincount(places.astype(int), minlength=m) / places.size
    distances = tuple(float(np.abs(shares - law).sum()) for law in laws)
    pay(false_alarm)
    radius = partition_radius(places.size, m, false_alarm)
    apart = float(np.abs(laws[0] - laws[1]).sum())
    says = "x" if distances[0] <= distances[1] else "y"
    return PartitionGuess(
        says, (distances[0], distances[1]), apart, radius, false_alarm, places.size, m
    )
