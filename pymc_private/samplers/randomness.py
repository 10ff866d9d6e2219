"""Operating-system randomness, exact coins, inverse-CDF draws and public rounding grids.

A draw is released on a public grid, because the low bits of a double depend on how it was
computed. Dirichlet draws are made in log space and rounded there: small parameters make
doubles that are exactly 0 or 1, whose logarithms are infinite (NumPy's Beta(0.01, 0.01) is
exactly 1 in a third of all draws). Here log G(a) = log G(a + 1) + log(U) / a, and the
logarithm of a probability is what is rounded.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy import special
from scipy.special import log_ndtr, ndtri, ndtri_exp

Draws = dict[str, np.ndarray]
"""Draws by parameter name, each of shape (draws, *shape)."""
Progress = Callable[[int], None]
"""Called with the number of finished draws."""
GRID_BITS, MAGNITUDE_BITS = 40, 44
"""Bits that a released coordinate keeps: of its box, and of its largest bound."""
BOX_GRID = (
    f"each coordinate rounded to a multiple of a power of two: about 2**-{GRID_BITS} of its box, "
    f"or 2**-{MAGNITUDE_BITS} of its largest end if that is more"
)
"""The public grid of a coordinate in a box, in words, for the release."""
OPEN_GRID = (
    "coordinates without ends rounded to a multiple of a power of two: about "
    f"2**-{GRID_BITS - 8} of the prior's scale, or 2**-{MAGNITUDE_BITS - 4} of the value itself if "
    "that is more"
)
LOG_STEP, LOG_FLOOR = 2.0**-30, -690.0
"""Width of the grid of log-probabilities, and the least of them."""
SIMPLEX_GRID = (
    "each logarithm of a probability rounded to a multiple of 2**-30 and cut at -690; then each "
    "table is normalized"
)
"""The public grid of probabilities, in words, for the release."""
CHUNK_NUMBERS = 2**20
"""Gamma draws made at a time."""
FAR_BOUND = 8.0
"""A truncation bound beyond this many standard deviations moves the mean by less than 1e-14."""
HALF_LOG_TAU = 0.5 * np.log(2.0 * np.pi)


class Randomness(Protocol):
    """Source of independent uniform numbers: doubles in (0, 1), words of bits, exact integers."""

    def uniform(self, size: int) -> np.ndarray:
        """`size` numbers, strictly inside (0, 1)."""

    def words(self, size: int) -> np.ndarray:
        """`size` independent words of 64 fair bits, as uint64."""

    def below(self, end: int) -> int:
        """One of 0, ..., end - 1, each with probability exactly 1 / end, however large end is."""


class SystemRandomness:
    """Uniform numbers from the operating system's generator, fresh at each call.

    There is no state to fork, to save or to recover; `os.urandom` reads the kernel's ChaCha20.
    """

    def uniform(self, size: int) -> np.ndarray:
        """Numbers (k + 1/2) / 2**52 with k uniform: strictly inside (0, 1)."""
        return ((self.words(size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def words(self, size: int) -> np.ndarray:
        """Words of 64 bits from the kernel."""
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)

    def below(self, end: int) -> int:
        """Rejection from the least number of bits."""
        return secrets.randbelow(end)


@dataclass(frozen=True)
class SeededRandomness:
    """Reproducible uniform numbers for tests and demonstrations: their draws are not private."""

    generator: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int) -> SeededRandomness:
        """Start from a seed."""
        return cls(np.random.default_rng(seed))

    def uniform(self, size: int) -> np.ndarray:
        """As `SystemRandomness`."""
        words = self.generator.integers(0, 2**52, size=size)
        return (words.astype(np.float64) + 0.5) * 2.0**-52

    def words(self, size: int) -> np.ndarray:
        """As `SystemRandomness`."""
        return self.generator.integers(0, 2**64, size=size, dtype=np.uint64)

    def below(self, end: int) -> int:
        """As `SystemRandomness`."""
        bits = (end - 1).bit_length()
        while True:
            word = int.from_bytes(self.generator.bytes(bits // 8 + 1), "little")
            found = word & ((1 << bits) - 1)
            if found < end:
                return found


def rational_coin(randomness: Randomness, p: Fraction) -> bool:
    """True with probability exactly p, a rational in [0, 1]."""
    return randomness.below(p.denominator) < p.numerator


def exp_coin(randomness: Randomness, gamma: Fraction) -> bool:
    """True with probability exactly e^-gamma, for a rational gamma >= 0.

    No floating-point number is computed: the series of e^-x is sampled by rational coins.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Algorithm 1.
    """
    whole, rest = divmod(gamma.numerator, gamma.denominator)
    for _ in range(whole):
        if not _short_exp_coin(randomness, 1, 1):
            return False
    return _short_exp_coin(randomness, rest, gamma.denominator)


def _short_exp_coin(randomness: Randomness, p: int, q: int) -> bool:
    """True with probability e^-(p/q), p / q = x <= 1: the first k whose coin x / k fails is odd."""
    k = 1
    while randomness.below(q * k) < p:
        k += 1
    return k % 2 == 1


def standard_normal(randomness: Randomness, *shape: int) -> np.ndarray:
    """Standard normal draws by the inverse CDF, 52 bits each: none beyond 8.2."""
    return ndtri(randomness.uniform(int(np.prod(shape)))).reshape(shape)


def truncated_normal_quantile(u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Quantile at u of the standard normal distribution truncated to [low, high].

    `low` and `high` broadcast against u in (0, 1) and may be infinite. An interval right of zero is
    reflected, so that masses are those of lower tails, whose logarithms are accurate to the last
    digits however far out they are.
    """
    low, high = np.broadcast_to(low, u.shape), np.broadcast_to(high, u.shape)
    flip = low > -high  # not by their sum, which is NaN for two infinite bounds
    a, b, v = np.where(flip, -high, low), np.where(flip, -low, high), np.where(flip, 1.0 - u, u)
    with np.errstate(all="ignore"):
        first, last = log_ndtr(a), log_ndtr(b)
        # log(Phi(a) + v (Phi(b) - Phi(a))), computed in logarithms
        log_mass = last + np.log1p(np.expm1(first - last) * (1.0 - v))
        found = np.where(log_mass > -1.0, ndtri(np.exp(log_mass)), ndtri_exp(log_mass))
        # A narrow interval far out: the density is an exponential there to first order.
        found = np.where(np.isfinite(found), found, b)
    found = np.clip(found, a, b)
    return np.where(flip, -found, found)


def truncated_normal_mean(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Mean of the standard normal distribution truncated to [low, high], to about eight digits.

    (phi(low) - phi(high)) / (Phi(high) - Phi(low)), by logarithms of lower tails as in
    `truncated_normal_quantile`. It sets costs alone: no privacy claim rests on it.
    """
    found = np.zeros(low.shape)
    near = (low > -FAR_BOUND) | (high < FAR_BOUND)
    if not near.any():
        return found
    low, high = low[near], high[near]
    flip = low > -high
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(all="ignore"):
        first, last = log_ndtr(a), log_ndtr(b)
        log_mass = last + np.log(-np.expm1(first - last))
        phi = [np.exp(-0.5 * bound**2 - HALF_LOG_TAU - log_mass) for bound in (a, b)]
        mean = np.clip(phi[0] - phi[1], a, b)
        mean = np.where(np.isfinite(mean), mean, b)
    found[near] = np.where(flip, -mean, mean)
    return found


def grid_width(lower: np.ndarray, upper: np.ndarray, bits: int = GRID_BITS) -> np.ndarray:
    """Grid width of each coordinate of a public box: a power of two, coarser than its doubles.

    Widths are about 2**-bits of the box, which does not depend on the posterior.
    """
    largest = np.maximum(np.abs(lower), np.abs(upper))
    # A small box far from zero holds few doubles: there the largest bound sets the width.
    reach = np.maximum(upper - lower, np.ldexp(largest, bits - MAGNITUDE_BITS))
    return 2.0 ** np.floor(np.log2(reach) - bits)


def has_grid(lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether every coordinate's box holds a multiple of its grid."""
    with np.errstate(all="ignore"):
        span, width = upper - lower, grid_width(lower, upper)
        return bool(np.all((width > 0.0) & (2.0 * width <= span) & np.isfinite(span)))


def round_to_grid(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Round to the multiples of the grid width inside the closed box.

    Post-processing of an ideal draw. Unbounded coordinates: see `round_unbounded`.
    """
    width = grid_width(lower, upper)
    steps = np.clip(np.round(values / width), np.ceil(lower / width), np.floor(upper / width))
    return steps * width + 0.0  # -0.0 would be a second point besides 0.0


def round_unbounded(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Round unbounded coordinates: a public map of the value and of the prior's scale alone.

    `values` have shape (draws, d), `scale` (d,). The grid is uniform near zero and keeps a fixed
    number of significant bits far out; a scale of zero keeps a fixed number of significant bits
    everywhere.
    """
    reach = np.maximum(np.ldexp(scale, 8 - GRID_BITS), np.ldexp(abs(values), 4 - MAGNITUDE_BITS))
    width = 2.0 ** np.floor(np.log2(np.maximum(reach, np.finfo(float).tiny)))
    return np.round(values / width) * width + 0.0


def dirichlet_draws(parameters: np.ndarray, draws: int, randomness: Randomness) -> np.ndarray:
    """Draw from Dirichlet distributions by inverse CDFs of Gamma distributions.

    Parameters of shape (..., d), positive, with the simplex along the last axis, give logarithms of
    probabilities of shape (draws, ..., d), rounded as `SIMPLEX_GRID` says: none is -inf, and none
    is 0.
    """
    cells = parameters.size
    flat = np.empty((draws, cells))
    each = max(1, CHUNK_NUMBERS // cells)
    for start in range(0, draws, each):
        rows = min(each, draws - start)
        block = np.broadcast_to(parameters.ravel(), (rows, cells))
        flat[start : start + rows] = log_gamma_draws(block, randomness)
    logs = flat.reshape(draws, *parameters.shape)
    return round_simplex(logs - special.logsumexp(logs, axis=-1, keepdims=True))


def log_gamma_draws(shapes: np.ndarray, randomness: Randomness) -> np.ndarray:
    """Logarithms of Gamma draws, one for each shape parameter; finite however small it is."""
    u, v = randomness.uniform(2 * shapes.size).reshape(2, *shapes.shape)
    low = u < 0.5  # each tail by the function accurate there
    above = np.where(
        low,
        special.gammaincinv(shapes + 1.0, np.where(low, u, 0.25)),
        special.gammainccinv(shapes + 1.0, np.where(low, 0.25, 1.0 - u)),
    )
    return np.asarray(np.log(above) + np.log(v) / shapes)


def round_simplex(logs: np.ndarray) -> np.ndarray:
    """Round logarithms to the grid and normalize again: post-processing of an ideal draw."""
    steps = np.round(np.maximum(logs, LOG_FLOOR) / LOG_STEP) * LOG_STEP
    normal = steps - special.logsumexp(steps, axis=-1, keepdims=True)
    return np.asarray(np.clip(normal, LOG_FLOOR - 1.0, -(2.0**-53)))


def simplex_probabilities(logs: np.ndarray) -> np.ndarray:
    """Probabilities from the logarithms of `round_simplex`, strictly inside (0, 1)."""
    return np.asarray(np.minimum(np.exp(logs), 1.0 - 2.0**-53))
