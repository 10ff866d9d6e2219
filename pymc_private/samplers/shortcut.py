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
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

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

    @property
    def is_plain(self) -> bool:
        """Whether L is e^u; else it is log(1 + e^u)."""
        return isinstance(self.curve, Exponential)

    def total(self, u: np.ndarray) -> np.ndarray:
        """w sum L(u) of every chain; infinite or NaN where doubles cannot tell."""
        add = _exponentials if self.is_plain else _softplus
        found = np.zeros(u.shape[1])
        with np.errstate(all="ignore"):
            for part in _parts(*u.shape):
                found += add(u[part])
        return self.curve.weight * found

    def total_at(self, x: np.ndarray) -> np.ndarray:
        """The same at points x, (chains, d), without keeping their predictors."""
        add = _exponentials if self.is_plain else _softplus
        found = np.zeros(len(x))
        with np.errstate(all="ignore"):
            for part in _parts(len(self.rows), len(x)):
                found += add(self.rows[part] @ x.T + self.offset[part, None])
        return self.curve.weight * found

    def push(self, u: np.ndarray) -> np.ndarray:
        """Gradient of sum h(u), (chains, d): w sum (y_i - L'(u_i)) x_i."""
        slope = np.exp if self.is_plain else expit
        found = np.zeros((u.shape[1], self.rows.shape[1]))
        for part in _parts(*u.shape):
            each = slope(u[part])
            found += np.subtract(self.curve.y[part, None], each, out=each).T @ self.rows[part]
        return self.curve.weight * found


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
            total = s.total_at(x)
            bends = total - self.total[k] - np.sum(self.p[k] * delta, axis=1)
            widest = np.abs(self.x[k]).max(axis=1) + np.abs(delta).max(axis=1)
            size = (s.curve.weight * n + total + self.total[k]) * (1.0 + s.far + s.reach * widest)
            size += np.sum(self.parts[k] * np.abs(delta), axis=1)
            sure = np.abs(bends - limit) > 16.0 * EPS * (d + LONGEST_SUM) * size
            return bends < limit, sure


def _parts(rows: int, chains: int) -> Iterator[slice]:
    """Pieces of the rows that stay in the processor's cache with all chains."""
    step = max(AT_ONCE // max(chains, 1) // BLOCK, 1) * BLOCK
    return (slice(a, a + step) for a in range(0, rows, step))


def _exponentials(u: np.ndarray) -> np.ndarray:
    """Sum of e^u over the rows of a piece."""
    part = np.exp(u)
    whole = len(part) // BLOCK * BLOCK
    blocks = part[:whole].reshape(-1, BLOCK, u.shape[1]).sum(axis=1)
    return np.asarray(blocks.sum(axis=0) + part[whole:].sum(axis=0))


def _softplus(u: np.ndarray) -> np.ndarray:
    """Sum of log(1 + e^u) over the rows of a piece: of products of many factors."""
    top = float(np.max(u, initial=0.0))
    factors = int(MOST_NATS / (1.0 + top)) if math.isfinite(top) else 0
    if factors < 2:
        return np.asarray(np.logaddexp(0.0, u.T).sum(axis=1))
    part = np.exp(u)
    part += 1.0
    whole = len(part) // factors * factors
    products = part[:whole].reshape(-1, factors, u.shape[1]).prod(axis=1)
    return np.asarray(np.log(products).sum(axis=0) + np.log(part[whole:].prod(axis=0)))
