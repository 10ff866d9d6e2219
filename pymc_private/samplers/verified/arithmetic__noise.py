"""Normal and uniform numbers of which ever more bits can be known, with a float beside each."""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from flint import arb, ctx, fmpq
from scipy.special import log_ndtr, ndtri, ndtri_exp
from pymc_private.samplers.randomness import Uniform
from pymc_private.samplers.verified.arithmetic import FUNCTION

WORD = 64
End = arb | None
NORMAL = 2.0**-45
"""Bound of the error of SciPy's `ndtri`, relative to 1 + |z|: some hundred times what is seen."""
HAZARD = 0.79
"""Least hazard rate of the normal law on the positive half-line: density over upper tail."""

DEEP = -1000.0
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Floats:
    """Doubles and a bound of how far each is from the real number it stands for."""

    value: np.ndarray
    error: np.ndarray


def normals(words: np.ndarray) -> Floats:
    """Standard normal numbers of words of 64 bits: a sign, and the first bits of a tail mass.

    Parameters
    ----------
    words : array of uint64

    Returns
    -------
    Floats
        `error` is infinite so far out that the next bits matter.

    Notes
    -----
    The real number is -+ Phi^-1(V), V = (k + f) / 2^64 with k the lower 63 bits and f in [0, 1] the
    bits to come. A change of V by e moves it by at most 2 e / phi as long as phi does not halve on
    the way, and phi(z) >= V max(z, 0.79): the hazard rate of the normal law is above both.
    """
    k = words & np.uint64(2**63 - 1)
    mass = (k.astype(np.float64) + 0.5) * 2.0**-WORD
    size = -ndtri(mass)
    moved = 2.0 * (2.0**-65 / mass + 2.0**-51) / np.maximum(size, HAZARD)
    error = np.where((size + moved) * moved < 0.5, moved, np.inf) + NORMAL * (1.0 + size)
    return Floats(np.where(words >> np.uint64(63) == 1, -size, size), error)


def truncated(words: np.ndarray, low: np.ndarray, high: np.ndarray) -> Floats:
    """Standard normal numbers between two ends, of words of 64 bits: quantiles at U.

    Parameters
    ----------
    words : array of uint64
        U = (word + f) / 2^64.
    low, high : array
        Doubles, some of them infinite.

    Notes
    -----
    Phi(z) = (1 - U) Phi(low) + U Phi(high), and its complement has the same form: sums of positive
    terms, added as logarithms, of which the one of the smaller tail is taken. An error r of its
    logarithm moves z by at most 2 r Phi(z) / phi(z) <= 2 r / max(|z|, 0.79), as in `normals`. Cells
    of U move Phi(z) by at most 2^-65, relative to it by at most 2^-65 / U.
    """
    left = (words.astype(np.float64) + 0.5) * 2.0**-WORD
    right = (np.invert(words).astype(np.float64) + 0.5) * 2.0**-WORD
    below = np.logaddexp(np.log(right) + log_ndtr(low), np.log(left) + log_ndtr(high))
    above = np.logaddexp(np.log(right) + log_ndtr(-low), np.log(left) + log_ndtr(-high))
    lower = below < above
    mass, share = np.where(lower, below, above), np.where(lower, left, right)
    size = -_quantile(mass)
    cell = 2.0**-64 * np.minimum(np.exp(-mass), 1.0 / share)
    cell = np.where(cell < 0.25, cell, np.inf)
    moved = 2.0 * (6.0 * FUNCTION * (1.0 - mass) + cell) / np.maximum(size, HAZARD)
    error = np.where((np.abs(size) + moved) * moved < 0.5, moved, np.inf)
    return Floats(np.where(lower, -size, size), error + NORMAL * (1.0 + np.abs(size)))


def _quantile(log_mass: np.ndarray) -> np.ndarray:
    """Phi^-1 of masses up to 1/2: far out SciPy's has ten digits, and Newton's method the rest."""
    z = ndtri_exp(log_mass)
    far = log_mass < DEEP
    if far.any():
        at, goal = z[far], log_mass[far]
        hazard = np.exp(-0.5 * at**2 - HALF_LOG_TAU - log_ndtr(at))
        hazard = np.where(hazard > 0.5 * np.abs(at), hazard, np.abs(at))  # |z| + 1 / |z| - ...
        z[far] = at - (log_ndtr(at) - goal) / hazard
    return z


def log_uniforms(words: np.ndarray) -> Floats:
    """log U for U = (word + f) / 2^64."""
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-WORD
    value = np.log(uniform)
    cell = 2.0**-64 / uniform
    error = np.where(cell < 0.25, cell, np.inf)  # |log(1 + x)| <= 2 |x| there
    return Floats(value, error + 2.0**-50 + FUNCTION * np.abs(value))


class Lazy:
    """The same numbers one by one, with more of their bits whenever they are asked for.

    Parameters
    ----------
    words : array of uint64
        The bits that are known.
    randomness : Uniform
        Where the others come from.
    """

    def __init__(self, words: np.ndarray, randomness: Uniform) -> None:
        self._randomness, self._bits = randomness, WORD
        self._words = [int(w) for w in np.ravel(words)]

    def _extended(self, bits: int) -> None:
        while self._bits < bits:
            self._words = [(w << WORD) | self._randomness.below(2**WORD) for w in self._words]
            self._bits += WORD

    def normals(self, bits: int) -> list[arb]:
        """As `normals`, balls from at least so many bits."""
        self._extended(bits)
        with ctx.workprec(bits + WORD):
            return [self._normal(word) for word in self._words]

    def _normal(self, word: int) -> arb:
        sign, k = divmod(word, 2 ** (self._bits - 1))
        size = arb(2).sqrt() * (2 * _cell(k, self._bits)).erfcinv()
        return -size if sign else size

    def truncated(self, bits: int, low: list[End], high: list[End]) -> list[arb]:
        """As `truncated`, between ends that are balls, or None."""
        self._extended(bits)
        with ctx.workprec(bits + WORD):
            return [self._between(*of) for of in zip(self._words, low, high, strict=True)]

    def _between(self, word: int, low: End, high: End) -> arb:
        uniform, root = _cell(word, self._bits), arb(2).sqrt()
        below, above = (
            (1 - uniform) * _tail(low, sign, -1) + uniform * _tail(high, sign, 1)
            for sign in (-1, 1)
        )
        if float(below.mid()) < float(above.mid()):
            return -root * below.erfcinv()
        return root * above.erfcinv()

    def log_uniform(self, bits: int) -> arb:
        """As `log_uniforms`, of a single word."""
        self._extended(bits)
        with ctx.workprec(bits + WORD):
            return _cell(self._words[0], self._bits).log()


def _tail(end: End, sign: int, side: int) -> arb:
    """Twice the mass left (-1) or right (1) of an end; None is one at infinity, on its side."""
    if end is None:
        return arb(0) if sign == side else arb(2)
    return (sign * end / arb(2).sqrt()).erfc()


def _cell(k: int, bits: int) -> arb:
    """The ball of [k, k + 1] / 2^bits, which is exact."""
    return arb(fmpq(2 * k + 1, 2 ** (bits + 1)), fmpq(1, 2 ** (bits + 1)))
