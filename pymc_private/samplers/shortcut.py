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
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from pymc_private.samplers.blocks import Blocks
from pymc_private.samplers.curves import Curve, Exponential, Logistic

EPS = 2.0**-52
MOST_NATS = 600.0
"""Of a product of numbers 1 + e^u: doubles hold 709."""
BLOCK, LONGEST_SUM = 128, 1024
"""Numbers that are added one by one, and roundings of the longest chain of sums of sums."""
AT_ONCE = 2**15
"""Numbers in one piece of a sum, which stay in the processor's cache."""


class Shortcut:
    """Sums over all records, for logistic and exponential curves.

    Parameters
    ----------
    rows : array, shape (N, d)
    offset : array, shape (N,)
    curve : Logistic or Exponential
    """

    def __init__(self, rows: np.ndarray, offset: np.ndarray, curve: Logistic | Exponential) -> None:
        self.rows, self.offset, self.curve = rows, offset, curve
        self.outcome = curve.weight * (curve.y @ rows)
        self.largest = curve.weight * (np.abs(curve.y) @ np.abs(rows))
        self.reach = float(np.max(np.abs(rows).sum(axis=1), initial=0.0))
        self.far = float(np.max(np.abs(offset), initial=0.0))

    @classmethod
    def of(
        cls, rows: np.ndarray | csr_array | Blocks, offset: np.ndarray, curve: Curve
    ) -> Shortcut | None:
        """None where bends are always added up."""
        if isinstance(rows, np.ndarray) and isinstance(curve, Logistic | Exponential):
            return cls(rows, offset, curve)
        return None

    def at(self, x: np.ndarray, u: np.ndarray, push: np.ndarray, parts: np.ndarray) -> Center:
        """Stand at x, (chains, d), with predictors u.

        `push` is the gradient of sum h(u), and `parts` the size of what it was computed from.
        """
        return Center(self, x, self.total(u), self.outcome - push, self.largest + parts)

    def total(self, u: np.ndarray) -> np.ndarray:
        """w sum L(u) of every chain; infinite or NaN where doubles cannot tell."""
        plain = isinstance(self.curve, Exponential)
        with np.errstate(all="ignore"):
            return self.curve.weight * (_exponentials(u) if plain else _softplus(u))


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
            total = s.total(s.rows @ x.T + s.offset[:, None])
            bends = total - self.total[k] - np.sum(self.p[k] * delta, axis=1)
            widest = np.abs(self.x[k]).max(axis=1) + np.abs(delta).max(axis=1)
            size = (s.curve.weight * n + total + self.total[k]) * (1.0 + s.far + s.reach * widest)
            size += np.sum(self.parts[k] * np.abs(delta), axis=1)
            sure = np.abs(bends - limit) > 16.0 * EPS * (d + LONGEST_SUM) * size
            return bends < limit, sure


def _exponentials(u: np.ndarray) -> np.ndarray:
    """Sum of e^u over rows."""
    step, total = max(_step(u) // BLOCK, 1) * BLOCK, _zero(u)
    for a in range(0, len(u), step):
        part = np.exp(u[a : a + step])
        whole = len(part) // BLOCK * BLOCK
        total += part[:whole].reshape(-1, BLOCK, u.shape[1]).sum(axis=1).sum(axis=0)
        total += part[whole:].sum(axis=0)
    return total


def _softplus(u: np.ndarray) -> np.ndarray:
    """Sum of log(1 + e^u) over rows: products of many factors are taken before their logarithm."""
    top = float(np.max(u, initial=0.0))
    factors = int(MOST_NATS / (1.0 + top)) if math.isfinite(top) else 0
    if factors < 2:
        return np.logaddexp(0.0, u.T).sum(axis=1)
    step, total = max(_step(u) // factors, 1) * factors, _zero(u)
    for a in range(0, len(u), step):
        part = np.exp(u[a : a + step])
        part += 1.0
        whole = len(part) // factors * factors
        products = part[:whole].reshape(-1, factors, u.shape[1]).prod(axis=1)
        total += np.log(products).sum(axis=0) + np.log(part[whole:].prod(axis=0))
    return total


def _step(u: np.ndarray) -> int:
    return max(AT_ONCE // max(u.shape[1], 1), 1)


def _zero(u: np.ndarray) -> np.ndarray:
    return np.zeros(u.shape[1])
