"""The parameters of a model as one vector of unconstrained numbers.

Coordinates are PyMC's value variables on the model's region, in the order of the free variables.
Prior mean and covariance come from prior draws, with far draws pulled in, so that heavy tails do
not decide them. Nothing here reads the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.prior import (
    PRIOR_DRAWS,
    PRIOR_SEED,
    prior_draws,
    refuse_improper,
    restricted_draws,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.prior_model import natural_variables, prior_model

REGION_DRAWS = 1000
"""Prior draws for mean and covariance where a region makes them a matter of rejection."""
FAR_DRAW = 10.0
"""Robust standard deviations beyond which draws are pulled in for mean and covariance."""
FARTHEST = 700.0
"""Where draws whose unconstrained value is infinite in floating point are put."""
NORMAL_IQR = 1.349
"""The interquartile range of a standard normal."""


class ParameterVector:
    """All free variables of a private model as one vector.

    Parameters
    ----------
    private : PrivateModel

    Attributes
    ----------
    names : tuple of str
        The free variables.
    shapes : dict of str to tuple of int
        Their shapes in natural units.
    size : int
        Length of the vector.
    slices : dict of str to slice
        Where each free variable is in it.
    model : pymc.Model
        The prior as a plain model: its value variables are the coordinates.

    Raises
    ------
    Unsupported
        A discrete free variable, or a prior that cannot be drawn from.
    DomainError
        An improper prior.
    """

    def __init__(self, private: PrivateModel) -> None:
        refuse_improper(private)
        _refuse_discrete(private)
        self.private = private
        self.model: pm.Model = prior_model(private)
        self.shapes = dict(private.shapes)
        self.names = tuple(self.shapes)
        if not self.names:
            raise Unsupported(
                "this model has no parameter that a summary could tell about",
                got="no free variable",
                allowed="one or more continuous parameters",
            )
        self._natural = natural_variables(self.model)
        self._values = {name: self.model.rvs_to_values[self.model[name]] for name in self.names}
        self._backward = VectorizedFunction(
            list(self._values.values()), [self._natural[name] for name in self.names]
        )
        self._forward = VectorizedFunction(*forward_graphs(self.model, self.names))
        restricted = bool(private.region) or private.theta_l is not None
        drawn = self._draw_values(REGION_DRAWS if restricted else PRIOR_DRAWS, PRIOR_SEED)
        self.value_shapes = {name: part.shape[1:] for name, part in drawn.items()}
        self._pool = self._join(drawn)
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.value_shapes.items():
            count = int(np.prod(shape))
            self.slices[name] = slice(self.size, self.size + count)
            self.size += count

    @property
    def pool(self) -> np.ndarray:
        """The prior draws that moments are of, shape (S, p)."""
        return self._pool

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        draws = pulled_in(self._pool)
        return draws.mean(axis=0), np.atleast_2d(np.cov(draws, rowvar=False))

    @property
    def mean(self) -> np.ndarray:
        """Prior mean, shape (p,)."""
        return self._moments[0].copy()

    @property
    def covariance(self) -> np.ndarray:
        """Prior covariance, shape (p, p)."""
        return self._moments[1].copy()

    def draws(self, count: int, seed: int | None = PRIOR_SEED) -> np.ndarray:
        """Independent draws from the prior on the region, shape (count, p)."""
        if seed == PRIOR_SEED and count <= len(self._pool):
            return self._pool[:count].copy()
        return self._join(self._draw_values(count, seed))

    def natural(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values in natural units at vectors of shape (S, p): arrays of shape (S, *shape)."""
        theta = self._checked(theta)
        found = self._backward(*self.split(theta).values())
        return {
            name: np.broadcast_to(part, (len(theta), *self.shapes[name]))
            for name, part in zip(self.names, found, strict=True)
        }

    def unconstrained(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The vectors of values in natural units, the inverse of `natural`: shape (S, p)."""
        return self._join(self._forward_values(values))

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """Log prior density of vectors of shape (S, p), with the transforms' Jacobians: (S,).

        Where the region cuts the prior off, the normalizer is left out.
        """
        theta = self._checked(theta)
        found = self._log_prior(*self.split(theta).values())[0]
        return np.broadcast_to(found, (len(theta),)).copy()

    @cached_property
    def _log_prior(self) -> VectorizedFunction:
        return VectorizedFunction(list(self._values.values()), [self.model.logp()])

    def split(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Parts of vectors, shape (..., p), by free variable, in their unconstrained shapes."""
        return {
            name: theta[..., part].reshape((*theta.shape[:-1], *self.value_shapes[name]))
            for name, part in self.slices.items()
        }

    def inputs(self) -> dict[str, Variable]:
        """Fresh symbolic inputs for the unconstrained parts."""
        return {
            name: pt.TensorType("float64", shape=shape)(name=name)
            for name, shape in self.value_shapes.items()
        }

    def symbolic_natural(self, values: Mapping[str, Variable]) -> dict[str, Variable]:
        """Natural values as graphs of the unconstrained parts."""
        swaps = {self._values[name]: v for name, v in values.items()}
        found = rebuild([self._natural[name] for name in self.names], swaps)
        return dict(zip(self.names, found, strict=True))

    def symbolic_vector(self, natural: Mapping[str, Variable]) -> Variable:
        """The unconstrained vector as a graph of the values in natural units, shape (p,)."""
        inputs, outs = self._forward.inputs, self._forward.outputs
        swaps = {v: natural[name] for name, v in zip(self.names, inputs, strict=True)}
        return pt.concatenate([v.flatten() for v in rebuild(outs, swaps)])

    def positive_entries(self, name: str) -> np.ndarray:
        """Numbers of the entries of a free variable whose logarithm is a coordinate.

        All entries of scales and rates; of a packed Cholesky factor those on the diagonal.
        """
        kind = type(self.model.rvs_to_transforms[self.model[name]]).__name__
        size = int(np.prod(self.shapes[name], dtype=int))
        if kind == "CholeskyCovPacked":
            ends = np.cumsum(np.arange(1, size + 1)) - 1
            return ends[ends < size]
        return np.arange(size if kind == "LogTransform" else 0)

    def is_real(self, name: str) -> bool:
        """Whether a free variable is its own coordinates: no transform bounds it."""
        return self.model.rvs_to_transforms[self.model[name]] is None

    def _join(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        flat = [np.reshape(parts[name], (len(parts[name]), -1)) for name in self.names]
        return np.concatenate(flat, axis=1).astype(float)

    def _draw_values(self, count: int, seed: int | None) -> dict[str, np.ndarray]:
        private = self.private
        if private.region or private.theta_l is not None:
            drawn = restricted_draws(private, count, np.random.SeedSequence(seed))
        else:
            drawn = prior_draws(private, count, seed)
        values = self._forward_values(drawn)
        return {
            name: np.nan_to_num(part, nan=np.nan, posinf=FARTHEST, neginf=-FARTHEST)
            for name, part in values.items()
        }

    def _forward_values(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = [
            np.asarray(values[name], float).reshape(-1, *self.shapes[name]) for name in self.names
        ]
        found = self._forward(*given)
        return {
            name: np.broadcast_to(part, (len(given[0]), *part.shape[1:]))
            for name, part in zip(self.names, found, strict=True)
        }

    def _checked(self, theta: np.ndarray) -> np.ndarray:
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != self.size:
            raise ValueError(f"expected an array of shape (S, {self.size}), got {theta.shape}")
        return theta


def pulled_in(draws: np.ndarray) -> np.ndarray:
    """Draws (S, p) with those far out brought nearer, coordinate by coordinate."""
    low, middle, high = np.quantile(draws, [0.25, 0.5, 0.75], axis=0)
    reach = FAR_DRAW * (high - low) / NORMAL_IQR
    return np.clip(draws, middle - reach, middle + reach)


def forward_graphs(
    model: pm.Model, names: tuple[str, ...]
) -> tuple[list[Variable], list[Variable]]:
    """Inputs for natural values, and the unconstrained values as graphs of them."""
    inputs = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    outs = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        parents = rebuild(list(rv.owner.inputs), inputs) if rv.owner is not None else []
        outs.append(inputs[rv] if transform is None else transform.forward(inputs[rv], *parents))
    order = {rv.name: k for k, rv in enumerate(model.free_RVs)}
    every = list(inputs.values())
    return [every[order[n]] for n in names], [outs[order[n]] for n in names]


def slopes_along(
    function: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, root: np.ndarray, step: float
) -> np.ndarray:
    """Derivatives of a function of vectors (S, p) along the columns of a matrix, by differences."""
    steps = step * root.T
    ahead, behind = np.split(function(np.concatenate([theta + steps, theta - steps])), 2)
    return np.nan_to_num((ahead - behind) / (2.0 * step), posinf=0.0, neginf=0.0)


def refuse_tempered(private: PrivateModel) -> None:
    """Refuse a power of the likelihood, and a clip."""
    if private.power != 1 or private.graph.clip is not None:
        raise Unsupported(
            "a summary is of the model itself: its noise is modeled, so nothing need be tempered",
            got="a clipped likelihood" if private.graph.clip is not None else "a power below 1",
            allowed="the model as privatize returns it, trimmed or not",
            do="leave temper and clip out",
        )


def _refuse_discrete(private: PrivateModel) -> None:
    discrete = [
        rv.name for rv in private.base.free_RVs if not str(rv.type.dtype).startswith("float")
    ]
    if discrete:
        raise Unsupported(
            "a summary needs a density of the parameters, and these are discrete",
            got=", ".join(discrete),
            allowed="continuous free variables",
            do="pmp.marginalize(model, name), if each record has its own, or pm.Mixture; or "
            "draws, sampler='grid', which keep them",
        )


def variances_left(fisher: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Posterior variance of each coordinate in prior ones, averaged over points: shape (p,).

    Parameters
    ----------
    fisher : array, shape (S, p, p)
        Information at points, along the columns of `root`.
    root : array, shape (p, p)
        Of the prior covariance.
    """
    inner = np.linalg.inv(np.eye(len(root)) + fisher).mean(axis=0)
    return np.asarray(np.diag(root @ inner @ root.T) / np.diag(root @ root.T))


def coordinate_names(parameters: Any) -> tuple[str, ...]:
    """A name for each coordinate of a parameter vector: ``beta[0]``."""
    found: list[str] = []
    for name in parameters.names:
        shape = parameters.value_shapes[name]
        cells = np.ndindex(*shape) if shape else [()]
        found += [f"{name}[{', '.join(map(str, cell))}]" if cell else name for cell in cells]
    return tuple(found)
