"""Convex-hull mollifiers: all mixtures of some public laws, and the one nearest to a target."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from typing import Any
from scipy.optimize import brentq
from pymc_private.errors import DomainError
from pymc_private.mollifiers.mollified_distributions import Table
from pymc_private.mollifiers.references__reading import as_reference
from pymc_private.mollifiers.references import Finite, Marginals, probabilities
from pymc_private.mollifiers.window import check_width
from pymc_private.privacy.validation import refuse_mask, whole
from pymc_private.samplers.randomness import Uniform

MARGIN = 1e-11
ROUNDS = 20_000
CLOSE = 1e-9


def margin(widest: float, categories: int) -> float:
    """What rounding may add to what the doubles of the laws say, nats.

    Sums and exponentials, proposals that are multiples of 2^-52, and acceptance by 52 bits.
    """
    return MARGIN + 2.0**-51 * (categories + 2) * math.exp(widest)


class Hull:
    """All mixtures of finitely many public laws; any two of them differ by at most `epsilon`.

    Parameters
    ----------
    laws : array, shape (m, k)
        Each row the probabilities of k categories; a category is possible under all laws or none.
    labels : sequence, optional
        Of the categories.

    Attributes
    ----------
    epsilon : float, nats
        max over laws i, j and categories of log Q_i / Q_j, rounded up.

    Notes
    -----
    *Promise.* A draw of any mixture is `epsilon`-differentially private, whatever chose the
    mixture: sum l_i Q_i <= max_i Q_i <= e^epsilon min_j Q_j <= e^epsilon sum l'_j Q_j, at each
    category. Which mixture it was, or its weights, never leaves.

    References
    ----------
    Husain, Cranko and Nock (2019), Integral privacy for sampling.
    """

    def __init__(self, laws: Any, labels: Sequence[Any] | None = None) -> None:
        refuse_mask(laws, "laws")
        try:
            rows = np.atleast_2d(np.asarray(laws, float))
        except (TypeError, ValueError):
            raise DomainError(
                "a hull is of laws on the same categories",
                got=type(laws).__name__,
                allowed="rows of probabilities, all as long",
                do="cut the line into public cells and give each law's probabilities of them",
            ) from None
        self.laws = np.array([probabilities(row, "a law of the hull") for row in rows])
        possible = self.laws > 0.0
        if (possible.any(axis=0) != possible.all(axis=0)).any():
            raise DomainError(
                "a category is possible under all laws of a hull, or under none",
                do="mix each law with a public one that is positive everywhere",
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.laws[:, possible.all(axis=0)])
        widest = float((logs.max(axis=0) - logs.min(axis=0)).max())
        self.epsilon = widest + margin(widest, self.laws.shape[1])
        self.labels = labels
        self.cells: EqualCells | None = None

    @classmethod
    def response(cls, categories: int, epsilon: float) -> Hull:
        """Give the hull of k-ary randomized response: each law favors one category by e^epsilon."""
        k = whole(categories, "the number of categories")
        odds = math.exp(check_width(epsilon) - 2.0 * margin(epsilon, k))
        laws = (np.ones((k, k)) + (odds - 1.0) * np.eye(k)) / (k - 1.0 + odds)
        return cls(laws)

    @classmethod
    def response_on_cells(cls, reference: Any, along: int, epsilon: float) -> Hull:
        """Do the same on cells of equal reference mass, `along` each axis; draws are continuous.

        Parameters
        ----------
        reference : object
            A SciPy law, a list of independent ones, or a `Box`: with known quantiles.
        along : int
        epsilon : float, nats
        """
        base = as_reference(reference)
        if not isinstance(base, Marginals):
            raise DomainError(
                "cells of equal mass need a reference with known quantiles",
                got=base.text,
                allowed="a SciPy law, a list of independent ones, or a Box",
            )
        hull = cls.response(whole(along, "cells along each axis") ** base.dimension, epsilon)
        hull.cells = EqualCells(base, along)
        return hull

    def __repr__(self) -> str:
        where = "categories" if self.cells is None else f"cells of {self.cells.reference.text}"
        laws, count = self.laws.shape
        return f"Hull of {laws} laws on {count} {where}: any two differ by {self.epsilon:.6g} nats"

    def shrunk(self, epsilon: float) -> Hull:
        """Mix every law with the mean of all until the hull's epsilon is at most this."""
        if self.epsilon <= check_width(epsilon):
            return self
        mean = self.laws.mean(axis=0)

        def mixed(share: float) -> Hull:
            hull = Hull((1.0 - share) * self.laws + share * mean, self.labels)
            hull.cells = self.cells
            return hull

        share = brentq(lambda t: mixed(t).epsilon - epsilon, 0.0, 1.0, xtol=1e-12)
        while mixed(share).epsilon > epsilon:
            share = min(1.0, share + 1e-11)
        return mixed(share)


class EqualCells:
    """Cells of equal mass of a reference with known quantiles."""

    def __init__(self, reference: Marginals, along: int) -> None:
        self.reference = reference
        self.shape = (along,) * reference.dimension

    def find(self, x: np.ndarray) -> np.ndarray:
        """The cell of each row."""
        along = (self.reference.uniforms(x) * self.shape[0]).astype(np.int64)
        return np.ravel_multi_index(tuple(np.clip(along, 0, self.shape[0] - 1).T), self.shape)

    def inside(self, cells: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Draw the reference inside each cell."""
        along = np.column_stack(np.unravel_index(cells, self.shape)).astype(float)
        share = randomness.uniform(along.size).reshape(along.shape)
        return self.reference.transport((along + share) / self.shape[0])


class Mixture(Table):
    """One mixture of a hull, drawn by rejection from the mean of its laws."""

    def __init__(self, hull: Hull, weights: np.ndarray) -> None:
        mean = hull.laws.mean(axis=0)
        super().__init__(mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(mean > 0.0, np.log(weights @ hull.laws) - np.log(mean), 0.0)
            highest = float(np.nanmax(np.log(hull.laws.max(axis=0)) - np.log(mean)))
        self.weigh(ratio, highest, math.exp(highest))
        self._cells = hull.cells
        self._numbers = Finite(mean, hull.labels).numbers

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Categories, or points inside cells."""
        if self._cells is not None:
            return self._cells.inside(accepted, randomness)
        return (accepted if self._numbers is None else self._numbers[accepted])[:, None]


def project(target: np.ndarray, hull: Hull) -> np.ndarray:
    """Give the weights of the mixture with the least KL(P, Q).

    By expectation maximization, until max_i E_P[Q_i / Q] <= 1 + `CLOSE`: then KL(P, Q) is within
    `CLOSE` of the least, since log is concave.

    Parameters
    ----------
    target : array, shape (k,)
        Probabilities.
    hull : Hull

    Returns
    -------
    array, shape (m,)
    """
    used = target > 0.0
    laws, p = hull.laws[:, used], target[used]
    if not (laws > 0.0).all():
        raise DomainError(
            "the reference has no support where the target has mass",
            do="use a hull of laws that are positive there",
        )
    weights = np.full(len(laws), 1.0 / len(laws))
    for _ in range(ROUNDS):
        rises = laws @ (p / (weights @ laws))
        if rises.max() <= 1.0 + CLOSE:
            break
        weights = weights * rises
        weights /= weights.sum()
    return weights
