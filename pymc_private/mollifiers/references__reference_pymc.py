"""PyMC as a reference: a model's prior, one distribution, or the prior predictive of a record."""

from __future__ import annotations

import hashlib
import math
import numpy as np
import pymc as pm
import pytensor
from typing import Any
from pymc.logprob.basic import conditional_logp
from pytensor.graph.replace import vectorize_graph
from pymc_private.errors import DomainError, Unsupported
from pymc_private.mollifiers.references__black_box import contents
from pymc_private.mollifiers.references import entropy
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.fingerprint import graph_text

class PyMCLaw:
    """Joint law of random variables of PyMC; each draw is their entries, one after the other.

    Parameters
    ----------
    variables : list of random variables
    names : list of str
    text : str
    """

    pool_size = 2**14  # PyMC draws one after the other

    def __init__(self, variables: list[Any], names: list[str], text: str) -> None:
        self._variables, self.text = variables, text
        first = self._draw(2)
        self.shapes = {name: array.shape[1:] for name, array in zip(names, first, strict=True)}
        self._logp: Any = None

    @property
    def fingerprint(self) -> str:
        """Tell two references apart: SHA-256 of the graph, its constants and its public arrays."""
        held = [v.get_value(borrow=True) for v in public_data(self._variables)]
        arrays = [contents(value) for value in held if isinstance(value, np.ndarray)]
        told = self.text, graph_text(self._variables), arrays
        return hashlib.sha256(repr(told).encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Entries of all variables."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def pool(self, count: int) -> np.ndarray:
        """Public draws, by PyMC."""
        parts = [array.reshape(count, -1) for array in self._draw(count)]
        return np.concatenate(parts, axis=1).astype(float)

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows, without transforms and Jacobians."""
        if self._logp is None:
            self._logp = self._compiled()
        parts, start = [], 0
        for rv, shape in zip(self._variables, self.shapes.values(), strict=True):
            width = math.prod(shape)
            part = x[:, start : start + width].reshape(len(x), *shape)
            parts.append(part.astype(rv.dtype))
            start += width
        return np.asarray(self._logp(*parts), float)

    def _draw(self, count: int) -> list[np.ndarray]:
        seed = entropy() % 2**31  # public, as the pool is
        try:
            drawn = pm.draw(self._variables, draws=count, random_seed=seed)
        except NotImplementedError as cause:
            raise DomainError(
                "this law cannot be drawn from",
                got="an improper prior",
                do="replace Flat and HalfFlat by proper priors, chosen without the data",
            ) from cause
        return [np.asarray(array) for array in drawn]

    def _compiled(self) -> Any:
        values = {rv: rv.type() for rv in self._variables}
        terms = conditional_logp(dict(values))
        total: Any = sum(term.sum() for term in terms.values())
        batched = {
            v: pytensor.tensor.tensor(dtype=v.dtype, shape=(None, *v.type.shape))
            for v in values.values()
        }
        return pytensor.function(
            [batched[values[rv]] for rv in self._variables], vectorize_graph(total, batched)
        )


class PriorPredictive(PyMCLaw):
    """One record of a model's observed variables under its prior.

    Parameters
    ----------
    model : pymc.Model
    rows : int, optional
        Number of public rows of covariates; then a draw names its row first. Without it records
        are alike, and the first stands for all.
    """

    def __init__(self, model: pm.Model, rows: int | None = None) -> None:
        observed = list(model.observed_RVs)
        names = [rv.name for rv in observed]
        if rows is None:
            variables = [rv[0] for rv in observed]
        else:
            row = pm.DiscreteUniform.dist(0, rows - 1)
            variables = [row, *(rv[row] for rv in observed)]
            names = ["row", *names]
        super().__init__(variables, names, "the prior predictive of a record")

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Refuse: a predictive density is an integral."""
        raise Unsupported(
            "a prior predictive has no density at hand",
            do="estimate='trees', 'network' or a classifier",
        )


def of_pymc(given: Any) -> PyMCLaw:
    """Read a model (its prior) or a random variable made by ``.dist()``.

    Raises
    ------
    DomainError
        A model with potentials, whose prior PyMC does not draw from, or no random variable.
    """
    if isinstance(given, pm.Model):
        if given.potentials:
            raise DomainError(
                "a prior with potentials cannot be drawn from",
                got=", ".join(p.name for p in given.potentials),
                do="give the same model without them as reference",
            )
        names = [rv.name for rv in given.free_RVs]
        if not names:
            raise DomainError("the model has no free variables, so it has no prior")
        return PyMCLaw(list(given.free_RVs), names, f"the prior of {', '.join(names)}")
    if getattr(given, "owner", None) is None:
        raise DomainError("this is no random variable of PyMC", got=type(given).__name__)
    return PyMCLaw([given], [given.name or "x"], "a PyMC distribution")
