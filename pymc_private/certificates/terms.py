"""On what terms a sampler draws: what it adds to the price of an exact draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pymc_private.privacy.rounding__printing import STATED, number

FINE = 8
"""Points along each continuous coordinate: rounding to them adds 1/64 of the variance of a law that
is uniform on the box."""


@dataclass(frozen=True)
class Terms:
    """What the law of a sampler's draws has to do with the posterior.

    Parameters
    ----------
    tv : float
        Total variation of each draw from the posterior, fixed in advance; it costs (T18).
    slack : Fraction
        Nats by which the range of one unit is larger than certified, at power one.
    discrete : bool
        Whether the posterior is on a grid: then Gaussian privacy (T7) says nothing.
    strict : bool
        Whether the promise holds for the floating-point draws themselves.
    theorem : str
        By number; empty where nothing is added.
    assumption : str
        What is to be known of the sampler.
    claimed : bool
        Whether `tv` is stated by the user and proved by nobody.
    points : int
        Where draws are from a grid: its points along each continuous coordinate, the fewest. Else
        0.
    """

    tv: float = 0.0
    slack: Fraction = Fraction(0)
    discrete: bool = False
    strict: bool = False
    theorem: str = ""
    assumption: str = ""
    claimed: bool = False
    points: int = 0

    @property
    def is_coarse(self) -> bool:
        """Whether draws are from a grid whose steps exceed an eighth of a box."""
        return 0 < self.points < FINE

    @property
    def words(self) -> tuple[str, ...]:
        """The assumption about arithmetic, and that about the sampler."""
        arithmetic = STRICT if self.strict else REAL
        return (arithmetic, *((self.assumption,) if self.assumption else ()))

    def __str__(self) -> str:
        parts = []
        if self.tv:
            mark = STATED if self.claimed else ""
            near = f"each draw within {number(self.tv)} of the posterior in total variation"
            parts.append(near + mark)
        if self.slack:
            parts.append(f"one record's range larger by up to {number(self.slack)} nats")
        return "; ".join(parts) or "exact"


REAL = (
    "real arithmetic and ideal randomness: draws are as the sampler makes them of real numbers, "
    "then rounded to a public grid"
)
STRICT = (
    "ideal randomness of the operating system; the draws are proved in floating point, as they are"
)
EXACT = Terms()
"""Draws from the posterior itself, in real arithmetic."""
