"""The normal effects of a person in a model: how they are drawn, and how rows read them.

One or two numbers of a person, normal and of a covariance that parameters decide: one or two
``Normal`` variables with an entry per person, or an ``MvNormal`` with two. They are m + C z,
z ~ N(0, I), and rows read them linearly, t_j = eta_j + l_j(parameters, person) z.

*Intercepts.* One effect that all rows of a person read alike: its scale is a predictor.

*Slopes.* Else l_j = x_j' M, M a matrix of the parameters alone and x_j known of the person, in
whatever way the model is written (centered or not, sums, products with covariates). M are the l_j
of as many public rows, those that span most at the prior mean; x_j follows from l_j there. Rows
read M M' alone: its Cholesky factor stands for it. That l_j factors is checked at public points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.errors import Unsupported
from pymc_private.models.distributions import distribution_class
from pymc_private.models.marginalize import normal_pair

MOST_EFFECTS = 2
LEAST_SPAN = 1e-6
"""Least determinant of M of public rows, in units of the product of its rows' lengths."""
TOLERANCE = 1e-8


class PersonEffects:
    """The variables of a person, and their values as functions of z.

    Parameters
    ----------
    latents : sequence of Variable
        Random variables with one entry, or two, per person.

    Attributes
    ----------
    count : int
        d, the dimension of z.
    parameters : list of Variable
        Of the distributions of the variables.

    Raises
    ------
    Unsupported
        Variables of another kind, or more than two numbers.
    """

    def __init__(self, latents: Sequence[Variable]) -> None:
        self.latents = tuple(latents)
        self._kinds = [distribution_class(v) for v in latents]
        self._parts = [list(v.owner.op.dist_params(v.owner)) for v in latents]
        self.parameters = [v for part in self._parts for v in part]
        sizes = [
            1 if kind == "NormalRV" else (v.type.shape[-1] or 0)
            for kind, v in zip(self._kinds, latents, strict=True)
        ]
        self.count = sum(sizes)
        known = set(self._kinds) <= {"NormalRV"} or self._kinds == ["MvNormalRV"]
        if not known or not 1 <= self.count <= MOST_EFFECTS:
            kinds = ", ".join(kind.removesuffix("RV") for kind in self._kinds)
            raise Unsupported(
                "scores of persons integrate one or two normal effects out",
                got=f"{kinds}: {self.count} numbers per person",
                allowed="one or two Normal variables per person, or one MvNormal of two numbers",
                do="an intercept and one slope per person; or draws: pmp.sample",
            )

    def values(self, z: Sequence[float]) -> dict[Variable, Variable]:
        """The variables of one person at a point z."""
        if self._kinds == ["MvNormalRV"]:
            mean, covariance = self._parts[0]
            return {self.latents[0]: normal_pair(mean, covariance, z)}
        found = {}
        for v, (mean, sd), at in zip(self.latents, self._parts, z, strict=True):
            found[v] = mean + at * sd
        return found


@dataclass(frozen=True, eq=False)
class Factors:
    """How l_j = x_j' M: the rows that M is of, and the matrix that gives x_j.

    Attributes
    ----------
    rows : list of tuple of int
        Person and place of each public row.
    inverse : array, shape (d, d)
        x_j = inverse l_j at the prior mean.
    """

    rows: list[tuple[int, int]]
    inverse: np.ndarray

    @classmethod
    def of(cls, middle: np.ndarray) -> Factors:
        """From l of public persons (N, K, d) at the prior mean.

        Raises
        ------
        Unsupported
            Effects that rows do not tell apart.
        """
        d = middle.shape[2]
        places = list(np.ndindex(*middle.shape[:2]))
        flat = np.array([middle[at] for at in places])
        usable = np.flatnonzero(np.isfinite(flat).all(axis=1))
        spans = {
            rows: abs(float(np.linalg.det(flat[list(rows)]))) for rows in combinations(usable, d)
        }
        best = max(spans, key=lambda rows: spans[rows], default=())
        lengths = np.prod(np.linalg.norm(flat[list(best)], axis=1)) if best else 0.0
        if not best or not spans[best] > LEAST_SPAN * lengths:
            raise Unsupported(
                "rows do not tell the effects of a person apart",
                got=f"{d} effects that enter rows alike",
                allowed="effects with different covariates",
                do="one of them",
            )
        chosen = flat[list(best)]
        return cls([places[k] for k in best], np.linalg.inv(chosen).T)

    def loadings(self, slopes: np.ndarray) -> np.ndarray:
        """x_j of l_j (N, K, d) at the prior mean, entry by entry."""
        d = len(self.inverse)
        found = np.zeros(slopes.shape)
        for a in range(d):
            for k in range(d):
                found[..., a] += self.inverse[a, k] * slopes[..., k]
        return found

    def lower(self, chosen: Sequence[Sequence[Any]]) -> list[Any]:
        """The Cholesky factor of M M', row by row, from graphs of M."""
        if len(chosen) == 1:
            return [chosen[0][0]]
        (a, b), (c, e) = chosen
        first = pt.sqrt(a**2 + b**2)
        return [first, (a * c + b * e) / first, pt.abs(a * e - b * c) / first]


def are_alike(slopes: np.ndarray) -> bool:
    """Whether l of all places of a person (..., K, 1) are the same."""
    return slopes.shape[-1] == 1 and np.allclose(
        slopes, slopes[..., :1, :], rtol=TOLERANCE, atol=TOLERANCE
    )
