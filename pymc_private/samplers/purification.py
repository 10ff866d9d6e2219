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
from pymc_private.samplers.proximal_target import Whitening, plan_schedule, whiten
from pymc_private.samplers.randomness import GRID_BITS, Randomness, grid_width, rational_coin

UNIFORM_PROBABILITY = Fraction(1, 2**30)
"""Probability of a uniform point: one draw in a billion tells nothing."""
RANGE_SLACK = Fraction(1, 2**14)
"""Nats by which a range grows, at power one. Small beside a range; steps go by its logarithm."""
CLAMP_DEVIATIONS = 8.0
"""Standard deviations of the prior to which a coordinate without an end is clamped."""
FEWEST_BITS = 4


@dataclass(frozen=True, eq=False)
class PublicGrid:
    """Multiples of a power of two in a box, one width per coordinate: the finite set Y.

    Parameters
    ----------
    first : array, shape (d,)
        The least multiple.
    count : array, shape (d,)
        How many there are.
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
            A box so narrow, for where it lies, that doubles have hardly a point in it.
        """
        with np.errstate(all="ignore"):
            width = grid_width(lower, upper, bits)
            first = np.ceil(lower / width)
            count = np.floor(upper / width) - first + 1.0
        if not np.all(np.isfinite(count) & (count >= 2.0)):
            raise Unsupported(
                "the box of a parameter is too narrow for the public grid of a pure promise",
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
        """Points for rows of values: a public map, post-processing."""
        steps = np.clip(np.round(values / self.width), self.first, self.first + self.count - 1.0)
        return steps * self.width + 0.0  # -0.0 would be a point beside 0.0

    def uniform(self, randomness: Randomness) -> np.ndarray:
        """One of the points, each exactly as likely."""
        steps = np.array([randomness.below(int(m)) for m in self.count], float)
        return (self.first + steps) * self.width + 0.0

    def mixed(self, values: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Points for rows of values, with probability `UNIFORM_PROBABILITY` a uniform one instead."""
        found = self.nearest(values)
        for row in range(len(found)):
            if rational_coin(randomness, UNIFORM_PROBABILITY):
                found[row] = self.uniform(randomness)
        return found


def public_grid(private: PrivateModel, white: Whitening, bits: int) -> PublicGrid:
    """Y of a model: its box, and `CLAMP_DEVIATIONS` of its prior where it has no end. Reads no data."""
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    reach = CLAMP_DEVIATIONS * np.sqrt((white.matrix**2).sum(axis=0))
    low = np.where(np.isfinite(lower), lower, np.minimum(white.center, upper) - reach)
    high = np.where(np.isfinite(upper), upper, np.maximum(white.center, lower) + reach)
    return PublicGrid.between(low, high, bits)


def check_purified(private: PrivateModel, bits: int) -> None:
    """Refuse what T29 does not speak of. Reads no data.

    Raises
    ------
    DomainError
        A number of bits that makes no grid.
    Unsupported
        Neighbors at a distance: the price of near ones would shrink, what mixing adds would not.
    """
    if not (type(bits) is int and FEWEST_BITS <= bits <= GRID_BITS):
        raise DomainError(
            "bits= says how fine the public grid of a pure promise is",
            got=repr(bits),
            allowed=f"a whole number from {FEWEST_BITS} to {GRID_BITS}",
        )
    if private.metric is not None:
        raise Unsupported(
            "purified draws are priced per replaced record",
            got=private.neighbors,
            allowed="neighbors='substitute'",
            do="sampler='boxes', or pmp.Proximal() and a delta",
        )


def purified_schedule(private: PrivateModel, bits: int) -> ProximalSchedule:
    """As many steps as T29 wants at the model's power, from what is public alone.

    Raises
    ------
    Unsupported
        As `linear.plan_schedule`.
    """
    grid = public_grid(private, whiten(private), bits)
    near = purified_log_kl(
        RANGE_SLACK * Fraction(private.power), UNIFORM_PROBABILITY, grid.log_points
    )
    return plan_schedule(private, log_kl=near)


def purified_terms(private: PrivateModel, bits: int) -> SamplingTerms:
    """What purified draws cost beyond exact ones: `RANGE_SLACK` in the range, and any Gaussian price.

    Near a Gaussian-private law is not Gaussian-private: on the grid the range alone is promised.
    """
    schedule, grid = purified_schedule(private, bits), public_grid(private, whiten(private), bits)
    low, high = (int(end) for end in (grid.count.min(), grid.count.max()))
    points = f"{low}" if low == high else f"{low} to {high}"
    return SamplingTerms(
        slack=RANGE_SLACK,
        discrete=True,
        points=low,
        theorem="T21, T29",
        assumption=f"{format_count(schedule.steps, 'step')} of the proximal sampler, each drawn "
        f"exactly; then the nearest point of a public grid ({points} points per coordinate), and "
        f"with probability 2**-{UNIFORM_PROBABILITY.denominator.bit_length() - 1} a uniform point of it; "
        "floating-point errors are not in the price",
    )
