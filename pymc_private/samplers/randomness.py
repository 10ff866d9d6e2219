"""Randomness from the operating system, and the public grid that draws are rounded to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np

GRID_BITS, MAGNITUDE_BITS = 40, 44
GRID = (
    f"each coordinate rounded to a multiple of a power of two: about 2**-{GRID_BITS} of its box, "
    f"or 2**-{MAGNITUDE_BITS} of its largest end if that is more"
)
"""The low bits of a double depend on how it was made, so a draw does not keep them."""


class Uniform(Protocol):
    """A source of independent uniform numbers in (0, 1)."""

    def uniform(self, size: int) -> np.ndarray:
        """`size` numbers, strictly inside (0, 1)."""


class SystemRandomness:
    """Uniform numbers from the operating system's generator, fresh at each call.

    There is no state to fork, to save or to recover; `os.urandom` reads the kernel's ChaCha20.
    """

    def uniform(self, size: int) -> np.ndarray:
        """Numbers (k + 1/2) / 2**52 with k uniform: strictly inside (0, 1)."""
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


@dataclass(frozen=True)
class SeededRandomness:
    """Reproducible numbers, for tests and demonstrations: nothing drawn with it is private."""

    generator: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int) -> SeededRandomness:
        """Start from a seed."""
        return cls(np.random.default_rng(seed))

    def uniform(self, size: int) -> np.ndarray:
        """As `SystemRandomness`."""
        words = self.generator.integers(0, 2**52, size=size)
        return (words.astype(np.float64) + 0.5) * 2.0**-52


def grid_width(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Public grid of each coordinate: a power of two, coarser than any double in the box.

    Parameters
    ----------
    lower, upper : array
        The box of the coordinates; never the posterior.
    """
    largest = np.maximum(np.abs(lower), np.abs(upper))
    # Far from zero a small box is made of few doubles: there the largest end sets the grid.
    reach = np.maximum(upper - lower, np.ldexp(largest, GRID_BITS - MAGNITUDE_BITS))
    return 2.0 ** np.floor(np.log2(reach) - GRID_BITS)


def has_grid(lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether every coordinate's box holds a multiple of its grid."""
    with np.errstate(all="ignore"):
        span, width = upper - lower, grid_width(lower, upper)
        return bool(np.all((width > 0.0) & (2.0 * width <= span) & np.isfinite(span)))


def round_to_grid(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Round to the multiples of the grid's width inside the box, ends included if they are some.

    Post-processing of an ideal draw.
    """
    width = grid_width(lower, upper)
    steps = np.clip(np.round(values / width), np.ceil(lower / width), np.floor(upper / width))
    return steps * width
