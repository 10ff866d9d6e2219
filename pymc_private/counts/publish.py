"""From counts and a plan to a Release: charge, then draw."""

from __future__ import annotations

import math
import numpy as np
import xarray as xr
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.release import charge
from pymc_private.posterior.assemble import version_of
from pymc_private.release.charge import Offer, Where
from pymc_private.posterior.assemble__guards import check_names
from pymc_private.release.release import Release
from pymc_private.counts.tables import Family
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

PACKAGES = ("pymc-private", "numpy", "scipy", "opendp")
CLAIM = "proved (real arithmetic, ideal randomness)"
Arrays = dict[str, np.ndarray]
_REHEARSED: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class Content:
    """What a release will hold, and how it is made.

    Attributes
    ----------
    families : tuple of Family
    draws : int
    sampler, grid : str
    dtype : type
    ranges : tuple of float or None
        Ends of every number.
    make : callable
        ``(seed or None)`` to arrays by family name, shape (draws, ...). Reads the data.
    told : mapping
        More public facts.
    """

    families: tuple[Family, ...]
    draws: int
    sampler: str
    grid: str
    dtype: type
    ranges: tuple[float, float] | None
    make: Callable[[int | None], Arrays]
    told: Mapping[str, Any] = field(default_factory=dict)


MOST_NUMBERS = 10**8
"""Of one release: with copies, and the file made of it, they take some 6 gigabytes."""


def publish(plan: CountPlan, content: Content, where: Where) -> Release:
    """Charge, then draw; see `charge.publish`."""
    offer = Offer(
        guarantee=plan.guarantee,
        delta=plan.budget.delta,
        exact_delta=Fraction(repr(plan.budget.delta)),
        key=f"{plan.fingerprint}|{content.sampler}",
        label=f"tables of counts ({plan.method})",
        another="other tables, another plan",
        rehearse=lambda: _rehearse(plan, content, where),
        draw=content.make,
        build=lambda values, told: _build(plan, content, values, where.name, told),
        depth=2,
    )
    return charge.publish(offer, where)


def _rehearse(plan: CountPlan, content: Content, where: Where) -> None:
    """Build the release on made-up numbers: what would fail after the charge fails here.

    It depends on what is public alone, so once is enough.
    """
    fits_memory(content.draws, sum(math.prod(family.shape) for family in content.families))
    known = (plan.fingerprint, content.sampler, where.name, where.stored)
    if known in _REHEARSED:
        return
    middle = {
        f.name: np.full((content.draws, *f.shape), 1 if content.dtype is int else 0.5)
        for f in content.families
    }
    release = _build(plan, content, middle, where.name, {})
    check_names(release.posterior)
    if where.stored:
        release.to_bytes()
    _REHEARSED.add(known)


def fits_memory(draws: int, cells: int) -> None:
    """Refuse more numbers than a release can hold, before any of them is made.

    Raises
    ------
    DomainError
        As many draws of as many cells are too many.
    """
    if draws * cells > MOST_NUMBERS:
        raise DomainError(
            "so many draws of these tables do not fit the memory; nothing was charged",
            got=f"{draws:,} draws of {cells:,} cells",
            allowed=f"{MOST_NUMBERS // cells:,} draws, or {MOST_NUMBERS:,} numbers in all",
            do="ask for fewer draws",
        )


def _build(
    plan: CountPlan,
    content: Content,
    values: Mapping[str, np.ndarray],
    name: str | None,
    told: Mapping[str, Any] | None,
) -> Release:
    """Name the numbers and add public facts; without any, the release is a seeded one."""
    private = told is not None
    guarantee = plan.guarantee if private else charge.unprotected(plan.guarantee)
    ends = None if content.ranges is None else list(content.ranges)
    facts = {
        "sampler": content.sampler,
        "claim": CLAIM,
        "draws": content.draws,
        "epsilon": guarantee.epsilon(plan.budget.delta),
        "delta": plan.budget.delta,
        "neighbors": guarantee.neighbors,
        "records": plan.design.unit,
        "counts": plan.facts() | _public_total(plan),
        "grid": content.grid,
        "model": plan.fingerprint,
        "ranges": {f.variable: ends for f in content.families},
        "name": name,
        "versions": {package: version_of(package) for package in PACKAGES},
        "withheld": [],
        "charges": [],
        "budget": None,
        "citations": [],
    }
    facts |= dict(content.told) | dict(told or {})
    return Release(_dataset(content, values), guarantee, facts, private=private)


def _public_total(plan: CountPlan) -> dict[str, float]:
    if plan.design.neighbors == ADD_REMOVE or plan.design.total is None:
        return {}
    return {"total": plan.design.total}


def _dataset(content: Content, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for family in content.families:
        array: np.ndarray = np.asarray(values[family.name]).astype(content.dtype)
        variables[family.variable] = (("chain", "draw", *family.dims), array[None])
        coords |= family.coords
    # Without indexes: `check_posterior` makes the dataset anew.
    return xr.Dataset(variables, coords=xr.Coordinates(coords, indexes={}))
