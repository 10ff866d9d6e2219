"""Parameters from the restricted prior, and records that the model would make of them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from collections.abc import Mapping
from typing import Any
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import to_groups
from pymc_private.models.prior__prior_draws import DRAWS, in_region, prior_draws
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.prior import Simulator

PATIENCE = 10
"""Rounds of prior draws after which a region counts as too small to be drawn from."""


def prior_predictive(
    private: PrivateModel, draws: int, records: int, reference: Any, random_seed: int | None
) -> Any:
    """See `PrivateModel.prior_predictive`."""
    for name, value in (("draws", draws), ("records", records)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < 1:
            raise DomainError(
                f"{name} is a whole number >= 1", got=repr(value), allowed="1, 2, ..."
            )
    seeds = np.random.SeedSequence(random_seed)
    simulator = Simulator(private, int(records), reference, _number(seeds))
    points = restricted_draws(private, int(draws), seeds)
    made = [
        simulator.outcomes({name: values[k] for name, values in points.items()})
        for k in range(int(draws))
    ]
    outcomes = {name: np.stack([one[name] for one in made]) for name in made[0]}
    groups = {
        "prior": _dataset(private, points, {}, leading=True),
        "prior_predictive": _dataset(private, outcomes, _axes(private), leading=True),
    }
    if simulator.covariates:
        covariates = _dataset(private, simulator.covariates, _axes(private), leading=False)
        groups["constant_data"] = covariates
    return to_groups(**groups)


def restricted_draws(
    private: PrivateModel, count: int, seeds: np.random.SeedSequence
) -> dict[str, np.ndarray]:
    """Independent draws from the prior on the region, by rejection.

    Raises
    ------
    Unsupported
        The region holds too little of the prior.
    """
    found: list[dict[str, np.ndarray]] = []
    kept = tried = 0
    while kept < count:
        if tried >= PATIENCE * DRAWS and kept < count * tried / (PATIENCE * DRAWS * 100):
            raise Unsupported(
                "the region holds too little of the prior to be drawn from by rejection",
                got=f"{kept} of {tried} prior draws lie in it",
                allowed=f"about {count / 100:.3g} in {PATIENCE * DRAWS}",
                do="a larger region, or fewer draws",
            )
        drawn = prior_draws(private, DRAWS, _number(seeds))
        inside = in_region(private, drawn)
        found.append({name: values[inside] for name, values in drawn.items()})
        kept, tried = kept + int(inside.sum()), tried + DRAWS
    return {name: np.concatenate([one[name] for one in found])[:count] for name in found[0]}


def _number(seeds: np.random.SeedSequence) -> int:
    """A fresh seed."""
    return int(seeds.spawn(1)[0].generate_state(1)[0])


def _axes(private: PrivateModel) -> dict[str, int]:
    """The records axis of each private variable."""
    return {source.name: source.axis for source in private.sources}


def _dataset(
    private: PrivateModel,
    arrays: Mapping[str, np.ndarray],
    axes: Mapping[str, int],
    leading: bool,
) -> xr.Dataset:
    """Arrays with the model's own dims and labels; records are numbered, never labeled."""
    found: dict[str, xr.DataArray] = {}
    coords: dict[str, list] = {}
    for name, values in arrays.items():
        given = private.base.named_vars_to_dims.get(name) or ()
        inner = values.ndim - leading  # the first axis is that of draws
        dims = [
            dim or f"{name}_dim_{k}"
            for k, dim in enumerate(given if len(given) == inner else [None] * inner)
        ]
        if name in axes:
            dims[axes[name]] = "record"
        labels = {dim: private.base.coords.get(dim) for dim in dims if dim != "record"}
        coords |= {dim: list(label) for dim, label in labels.items() if label is not None}
        first = ["chain", "draw"] if leading else []
        found[name] = xr.DataArray(values[None] if leading else values, dims=[*first, *dims])
    return xr.Dataset(found, coords=coords)
