"""The privacy loss of a list of releases declared in advance, by convolution of their losses.

Each release has a pair of laws that dominates it; the loss of all is the sum of independent losses
(Dwork and Rothblum 2016; Meiser and Mohammadi 2018; Koskela, Jalko and Honkela 2020). Grids are
those of `loss_grid`, so nothing here is below the truth; the error of the Fourier transform has a
proved bound and is added.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass
from scipy import fft
from pymc_private.errors import Unsupported
from pymc_private.privacy.loss_distributions import Losses
from pymc_private.privacy.rounding import LEAST, least_epsilon, sum_up, times_up

UNIT = 2.0**-53
LONGEST = 2**22
"""Points of the longest convolution, within a factor of two; beyond it the grid is coarser."""


@dataclass(frozen=True)
class Composed:
    """The law of a sum of losses, ready for questions.

    Parameters
    ----------
    step : float
        Nats between two points.
    first : int
        The first point is ``first * step``.
    mass : ndarray, shape (n,)
    infinite : float
        Probability of an infinite loss.
    error : float
        Bound on the sum of the errors of all masses.
    """

    step: float
    first: int
    mass: np.ndarray
    infinite: float
    error: float

    def delta(self, eps: float) -> float:
        """Delta at `eps` (nats, >= 0), rounded up."""
        losses = (self.first + np.arange(len(self.mass))) * self.step
        # A loss is moved up by its rounding, so that no mass falls on the wrong side.
        gain = -np.expm1(np.minimum(eps - losses - 1e-14 * np.abs(losses), 0.0))
        total = math.fsum(np.maximum(self.mass, 0.0) * gain)
        return min(1.0, total * (1.0 + 1e-14) + self.infinite + self.error + LEAST)

    def epsilon(self, delta: float) -> float:
        """Least epsilon at `delta` in (0, 1), rounded up; inf if more mass is at infinity."""
        end = (self.first + len(self.mass)) * self.step
        if self.delta(end) > delta:
            return math.inf
        return least_epsilon(self.delta, delta, max(end, 0.0))


def compose(parts: Sequence[tuple[Losses, int]]) -> Composed:
    """Convolve losses on one grid, each so many times.

    Parameters
    ----------
    parts : sequence of (Losses, int)
        All of one step.

    Returns
    -------
    Composed
    """
    step = parts[0][0].step
    length = 1 + sum(count * (len(losses.mass) - 1) for losses, count in parts)
    if length > 2 * LONGEST:
        raise Unsupported("this plan is too long to convolve", got=f"{length} points")
    size = fft.next_fast_len(length, real=True)
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for losses, count in parts:
        spectrum *= _power(fft.rfft(losses.mass, size), count)
    mass = fft.irfft(spectrum, size)[:length]
    first = sum(losses.first * count for losses, count in parts)
    infinite = sum_up(times_up(count, losses.infinite) for losses, count in parts)
    return Composed(step, first, mass, min(1.0, infinite), _error(parts, size))


def _power(values: np.ndarray, count: int) -> np.ndarray:
    """Square and multiply: each product errs by a few units of itself."""
    result = np.ones_like(values)
    while count:
        if count & 1:
            result = result * values
        values, count = values * values, count >> 1
    return result


def _error(parts: Sequence[tuple[Losses, int]], size: int) -> float:
    """Bound the sum of the errors of all masses.

    A transform errs by at most eta of its 2-norm, eta = 7 log2(size) units (Higham 2002, Theorem
    24.2). The transform of a law is at most its total mass everywhere, so each of the n factors of
    a product passes its error on, times the masses of the others; a product of n factors adds 8 n
    units. The inverse transform adds eta once more. With Parseval the masses err by that in the
    2-norm, and their sum by sqrt(size) times as much; twice that covers second order terms.
    """
    eta = 7.0 * UNIT * math.log2(size + 1.0)
    norms = [(float(np.linalg.norm(losses.mass)), count) for losses, count in parts]
    total = math.prod(max(1.0, math.fsum(losses.mass)) ** count for losses, count in parts)
    factors = sum(count for _, count in parts)
    passed = sum(count * eta * norm for norm, count in norms)
    own = (8.0 * UNIT * factors + eta) * min(norm for norm, _ in norms)
    return 2.0 * total * math.sqrt(size) * (passed + own)
