"""Purification: near-posterior draws turned into pure differential privacy (T29).

Each draw is moved to the nearest point of a public finite grid Y, and with a small public
probability a uniform point of Y takes its place. If the sampler is near enough to the
posterior, measured against 1 / |Y|, the result is bounded-range, and there is no delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from pymc_private.certificates.terms import SamplingTerms
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import purified_log_kl
from pymc_private.privacy.rounding import arb_upper, format_count, real
from pymc_private.samplers.proximal import ProximalSchedule
from pymc_private.samplers.proximal_target import Whitening, box_bounds, plan_schedule, whiten
from pymc_private.samplers.randomness import GRID_BITS, Randomness, grid_width, rational_coin

UNIFORM_PROBABILITY = Fraction(1, 2**30)
"""Probability of a uniform point: about one draw in a billion carries no information."""
RANGE_SLACK = Fraction(1, 2**14)
"""Nats added to the range, at power one: small beside a range; steps grow with its logarithm."""
CLAMP_DEVIATIONS = 8.0
"""Prior standard deviations at which an unbounded coordinate is clamped."""
FEWEST_BITS = 4


@dataclass(frozen=True, eq=False)
class PublicGrid:
    """Multiples of a power of two in a box, one width per coordinate: the finite set Y.

    Parameters
    ----------
    first : array, shape (d,)
        Index of the smallest multiple.
    count : array, shape (d,)
        Number of multiples.
    width : array, shape (d,)
    """

    first: np.ndarray
    count: np.ndarray
    width: np.ndarray

    @classmethod
    def between(cls, lower: np.ndarray, upper: np.ndarray, bits: int) -> PublicGrid:
        """Some 2**bits to 2 * 2**bits points along each coordinate of a finite box.

        Raises
        ------
        Unsupported
            A box too narrow, relative to its distance from zero, for two grid points.
        """
        with np.errstate(all="ignore"):
            width = grid_width(lower, upper, bits)
            first = np.ceil(lower / width)
            count = np.floor(upper / width) - first + 1.0
        if not np.all(np.isfinite(count) & (count >= 2.0)):
            raise Unsupported(
                "the box of a parameter is too narrow for the public grid of a pure guarantee",
                got="fewer than two points along a side",
                allowed="sides longer than 2**-40 of their distance from zero",
                do="a wider box, or shift the parameter towards zero",
            )
        return cls(first, count, width)

    @property
    def log_points(self) -> float:
        """ln |Y|, rounded up."""
        return arb_upper(lambda: sum((real(int(m)).log() for m in self.count), arb(0)))

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """Nearest grid point of each row: a public map, hence post-processing."""
        steps = np.clip(np.round(values / self.width), self.first, self.first + self.count - 1.0)
        return steps * self.width + 0.0  # -0.0 would be a second point besides 0.0

    def uniform(self, randomness: Randomness) -> np.ndarray:
        """A point drawn exactly uniformly."""
        steps = np.array([randomness.below(int(m)) for m in self.count], float)
        return (self.first + steps) * self.width + 0.0

    def mixed(self, values: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Nearest points, each replaced by a uniform one with probability `UNIFORM_PROBABILITY`."""
        found = self.nearest(values)
        for row in range(len(found)):
            if rational_coin(randomness, UNIFORM_PROBABILITY):
                found[row] = self.uniform(randomness)
        return found


def public_grid(private: PrivateModel, white: Whitening, bits: int) -> PublicGrid:
    """Finite grid Y of a model, clamped at `CLAMP_DEVIATIONS` where unbounded. Reads no data."""
    lower, upper = box_bounds(private)
    reach = CLAMP_DEVIATIONS * np.sqrt((white.matrix**2).sum(axis=0))
    low = np.where(np.isfinite(lower), lower, np.minimum(white.center, upper) - reach)
    high = np.where(np.isfinite(upper), upper, np.maximum(white.center, lower) + reach)
    return PublicGrid.between(low, high, bits)


def check_purified(private: PrivateModel, bits: int) -> None:
    """Refuse a grid or a neighboring relation that T29 does not cover. Reads no data.

    Raises
    ------
    DomainError
        A number of bits outside the allowed range.
    Unsupported
        A metric on records: the price of near neighbors would shrink, but not what mixing adds.
    """
    if not (type(bits) is int and FEWEST_BITS <= bits <= GRID_BITS):
        raise DomainError(
            "bits= says how fine the public grid of a pure guarantee is",
            got=repr(bits),
            allowed=f"a whole number from {FEWEST_BITS} to {GRID_BITS}",
        )
    if private.metric is not None:
        raise Unsupported(
            "purified draws are priced per replaced record",
            got=private.neighbors,
            allowed="neighbors='substitute'",
            do="sampler='boxes', or pmp.samplers.Proximal() and a delta",
        )


def purified_schedule(private: PrivateModel, bits: int) -> ProximalSchedule:
    """Schedule that reaches the divergence T29 needs at the model's power, from public facts alone.

    Raises
    ------
    Unsupported
        As `plan_schedule`.
    """
    grid = public_grid(private, whiten(private), bits)
    near = purified_log_kl(
        RANGE_SLACK * Fraction(private.power), UNIFORM_PROBABILITY, grid.log_points
    )
    return plan_schedule(private, log_kl=near)


def purified_terms(private: PrivateModel, bits: int) -> SamplingTerms:
    """Terms of purified draws: `RANGE_SLACK` more in the range, and no Gaussian guarantee.

    Closeness to a Gaussian-private distribution does not make draws Gaussian-private: on the grid
    the range alone is guaranteed.
    """
    schedule, grid = purified_schedule(private, bits), public_grid(private, whiten(private), bits)
    low, high = int(grid.count.min()), int(grid.count.max())
    points = f"{low}" if low == high else f"{low} to {high}"
    return SamplingTerms(
        slack=RANGE_SLACK,
        discrete=True,
        points=low,
        theorem="T21, T29",
        assumption=f"{format_count(schedule.steps, 'step')} of the proximal sampler, each drawn "
        f"exactly; then the nearest point of a public grid ({points} points per coordinate), and "
        f"with probability 2**-{UNIFORM_PROBABILITY.denominator.bit_length() - 1} a uniform point "
        "of it; floating-point errors are not in the price",
    )
