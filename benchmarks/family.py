"""A family of models, and all that is known of it: what brute force compares with theorems."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy import special

import pymc_private as pmp
from pymc_private import planning

ROWS = 8


@dataclass(frozen=True)
class Family:
    """A model of one lemma, and all that is known of it.

    Parameters
    ----------
    name, lemma : str
    model : callable
        Builds the PyMC model on made-up rows.
    domain, box : dict
        Of `privatize` and `trim`.
    R : float
        Exact range of one record over the box.
    distance : callable
        rho of two records.
    L0, c, C : float
        Tail of the prior, and the largest ratio of likelihood and evidence of one record; NaN where
        the box makes the tail pointless.
    records : array
        A grid of records, corners included.
    grid : array
        Parameters, one row each.
    log_prior : array
        Of the parameters, on the grid, up to a constant.
    log_density : callable
        (records, parameters) to an array, shape (records, parameters).
    lipschitz : callable
        ell of the parameters.
    is_finite : bool
        Whether the grid's points are all parameters there are; else they carry Simpson's rule.
    """

    name: str
    lemma: str
    model: Callable[[], pm.Model]
    domain: dict[str, Any]
    box: dict[str, tuple]
    R: float
    distance: Callable[[Any, Any], float]
    L0: float
    c: float
    C: float
    records: np.ndarray
    grid: np.ndarray
    log_prior: np.ndarray
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    lipschitz: Callable[[np.ndarray], np.ndarray]
    is_finite: bool = False

    def private(self) -> pmp.PrivateModel:
        """The private model, trimmed to the box."""
        made = pmp.privatize(self.model(), records="row", domain=self.domain)
        return pmp.trim(made, box=self.box) if self.box else made

    def table(self) -> np.ndarray:
        """Log densities, shape (records, parameters)."""
        return self.log_density(self.records, self.grid)

    def searched_range(self) -> float:
        """R by brute force over all pairs of records and parameters of the grids."""
        table = self.table()
        return max(float(np.ptp(x - y)) for x, y in itertools.combinations(table, 2))

    def log_weights(self) -> np.ndarray:
        """Log prior weights of the points: integrals over the box are sums of them."""
        log_weights = self.log_prior.copy()
        for column in () if self.is_finite else self.grid.reshape(len(self.grid), -1).T:
            points, places = np.unique(column, return_inverse=True)
            simpson = np.where(np.arange(len(points)) % 2, 4.0, 2.0)
            simpson[[0, -1]] = 1.0
            log_weights += np.log(simpson[places])
        return log_weights

    def log_posteriors(self) -> np.ndarray:
        """Log posterior weights after one record, shape (records, parameters)."""
        joint = self.log_weights() + self.table()
        return joint - special.logsumexp(joint, axis=1, keepdims=True)

    def worst_pair(self) -> float:
        """Exact epsilon of one draw after one record: the largest over all pairs."""
        pairs, weights = itertools.combinations(self.table(), 2), self.log_weights()
        return max(planning.grid_pair(weights, x, y) for x, y in pairs)


def rows(**arrays: Any) -> pm.Model:
    """An empty model with the dim of the rows."""
    return pm.Model(coords={"row": range(ROWS), **arrays})


def steps(low: float, high: float, count: int = 401) -> np.ndarray:
    return np.linspace(low, high, count)
