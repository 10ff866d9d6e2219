"""Decisions of the proximal sampler from sums, wherever rounding cannot alter them.

A trial is accepted if its bends add up to at most a limit. Added up record by record (`curves`) the
sum is good to its own size, at three special functions a record. With L the convex part of -h it is
also

    w (sum L(u') - sum L(u)) - <p, delta>,    p = w sum L'(u_i) x_i,

at one exponential a record; but its rounding is that of the sums. Where the limit lies within many
such roundings, the bends are added up after all: both ways decide alike.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from scipy.sparse import csr_array
from pymc_private.samplers.proximal__blocks import Blocks
from pymc_private.samplers.proximal_likelihoods import Curve, Exponential, Logistic
from pymc_private.samplers.proximal__threads import Map

EPS = 2.0**-52
MOST_NATS = 600.0
"""Of a product of numbers 1 + e^u: doubles hold 709."""
BLOCK, LONGEST_SUM = 128, 1024
"""Numbers that are added one by one, and roundings of the longest chain of sums of sums but for
those of one group after another."""
AT_ONCE = 2**15
"""Numbers in one piece of a sum, which stay in the processor's cache."""
PIECES = 8
"""Pieces that one thread adds up at a time: as many whatever threads there are, so that all add
the same numbers in the same order."""


class Shortcut:
    """Sums over all records, for logistic and exponential curves.

    Parameters
    ----------
    rows : array, shape (N, d)
    offset : array, shape (N,)
    curve : Logistic or Exponential
    over : callable
        `map`, or that of several threads.
    """

    def __init__(
        self, rows: np.ndarray, offset: np.ndarray, curve: Logistic | Exponential, over: Map = map
    ) -> None:
        self.rows, self.offset, self.curve, self.over = rows, offset, curve, over
        self.outcome = curve.weight * (curve.y @ rows)
        self.largest = curve.weight * (np.abs(curve.y) @ np.abs(rows))
        self.reach = float(np.max(np.abs(rows).sum(axis=1), initial=0.0))
        self.far = float(np.max(np.abs(offset), initial=0.0))

    @classmethod
    def of(
        cls,
        rows: np.ndarray | csr_array | Blocks,
        offset: np.ndarray,
        curve: Curve,
        over: Map = map,
    ) -> Shortcut | None:
        """None where bends are always added up."""
        if isinstance(rows, np.ndarray) and isinstance(curve, Logistic | Exponential):
            return cls(rows, offset, curve, over)
        return None

    def at(self, x: np.ndarray, total: np.ndarray, push: np.ndarray, parts: np.ndarray) -> Center:
        """Stand at x, (chains, d), with its total and push.

        `parts` is the size of what the push was computed from.
        """
        return Center(self, x, total, self.outcome - push, self.largest + parts)

    @property
    def is_plain(self) -> bool:
        """Whether L is e^u; else it is log(1 + e^u)."""
        return isinstance(self.curve, Exponential)

    def total(self, x: np.ndarray) -> np.ndarray:
        """w sum L(u) at points x, (chains, d); infinite or NaN where doubles cannot tell."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            return _added(np.exp(u)) if self.is_plain else _softplus(u)

        return self.curve.weight * self._sum(add, len(x))

    def push(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and the gradient of sum h(u), (chains, d): w sum (y_i - L'(u_i)) x_i."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            total, slope = (_with_exponential if self.is_plain else _with_sigmoid)(u)
            off = np.subtract(self.curve.y[part, None], slope, out=slope)
            return np.column_stack([total, off.T @ self.rows[part]])

        found = self.curve.weight * self._sum(add, len(x), self.rows.shape[1] + 1)
        return found[:, 0], found[:, 1:]

    def _predictors(self, x: np.ndarray, part: slice) -> np.ndarray:
        u = self.rows[part] @ x.T
        u += self.offset[part, None]
        return u

    def _sum(self, add: Callable[[slice], np.ndarray], chains: int, *width: int) -> np.ndarray:
        """Add up what `add` gives for the pieces of the rows, of shape (chains, *width)."""

        def some(parts: list[slice]) -> np.ndarray:
            found = np.zeros((chains, *width))
            with np.errstate(all="ignore"):  # each thread has its own
                for part in parts:
                    found += add(part)
            return found

        pieces = _pieces(len(self.rows), chains)
        groups = [pieces[k : k + PIECES] for k in range(0, len(pieces), PIECES)]
        total = np.zeros((chains, *width))
        for found in self.over(some, groups) if len(groups) > 1 else map(some, groups):
            total += found
        return total


@dataclass(frozen=True, eq=False)
class Center:
    """Where trials start, and what has been summed there.

    Parameters
    ----------
    sums : Shortcut
    x : array, shape (chains, d)
    total : array, shape (chains,)
    p, parts : array, shape (chains, d)
        The gradient of w sum L, and the size of what it was computed from.
    """

    sums: Shortcut
    x: np.ndarray
    total: np.ndarray
    p: np.ndarray
    parts: np.ndarray

    def decide(
        self, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether chains k may move by delta, their bends below a limit, and if that is sure."""
        s, x = self.sums, self.x[k] + delta
        n, d = s.rows.shape
        with np.errstate(all="ignore"):
            total = s.total(x)
            bends = total - self.total[k] - np.sum(self.p[k] * delta, axis=1)
            widest = np.abs(self.x[k]).max(axis=1) + np.abs(delta).max(axis=1)
            size = (s.curve.weight * n + total + self.total[k]) * (1.0 + s.far + s.reach * widest)
            size += np.sum(self.parts[k] * np.abs(delta), axis=1)
            sure = (
                np.abs(bends - limit)
                > 16.0 * EPS * (d + LONGEST_SUM + n // (BLOCK * PIECES)) * size
            )
            return bends < limit, sure


def _pieces(rows: int, chains: int) -> list[slice]:
    """Pieces of the rows that stay in the processor's cache with all chains."""
    step = max(AT_ONCE // max(chains, 1) // BLOCK, 1) * BLOCK
    return [slice(a, a + step) for a in range(0, rows, step)]


def _added(part: np.ndarray) -> np.ndarray:
    """Sum over the rows of a piece, by blocks."""
    whole = len(part) // BLOCK * BLOCK
    blocks = part[:whole].reshape(-1, BLOCK, part.shape[1]).sum(axis=1)
    return np.asarray(blocks.sum(axis=0) + part[whole:].sum(axis=0))


def _with_exponential(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of e^u over the rows of a piece, and e^u."""
    part = np.exp(u, out=u)
    return _added(part), part


def _softplus(u: np.ndarray) -> np.ndarray:
    """Sum of log(1 + e^u) over the rows of a piece."""
    factors = _factors(u)
    if factors < 2:
        return _added(np.logaddexp(0.0, u))
    part = np.exp(u, out=u)
    part += 1.0
    return _log_product(part, factors)


def _with_sigmoid(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, and 1 / (1 + e^-u) to a few units of its last digit."""
    factors = _factors(u)
    if factors < 2:
        return _added(np.logaddexp(0.0, u)), 1.0 / (1.0 + np.exp(-u))
    part = np.exp(u, out=u)
    more = part + 1.0
    part /= more
    return _log_product(more, factors), part


def _factors(u: np.ndarray) -> int:
    """How many numbers 1 + e^u have a product that doubles hold."""
    top = float(np.max(u, initial=0.0))
    return int(MOST_NATS / (1.0 + top)) if math.isfinite(top) else 0


def _log_product(part: np.ndarray, factors: int) -> np.ndarray:
    """Sum of the logarithms of the rows, so many at a time."""
    whole = len(part) // factors * factors
    products = part[:whole].reshape(factors, -1, part.shape[1]).prod(axis=0)
    return _added(np.log(products)) + np.log(part[whole:].prod(axis=0))
