"""Prior draws, from the model alone: where a region lies, and how much of the prior it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy.stats import beta

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.laws import law_name
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.supports import support
from pymc_private.privacy.printing import number

DRAWS = 4000
SEED = 20260103
"""Prior draws choose and judge regions, never a release; the seed makes them the same each time."""
IMPROPER = ("FlatRV", "HalfFlatRV")
WRONG = 0.01
"""Chance that the interval of a prior mass misses it."""


@dataclass(frozen=True)
class PriorMass:
    """The share of the prior that a region keeps, from independent prior draws.

    Attributes
    ----------
    estimate : float
    lower, upper : float
        Exact binomial interval (Clopper and Pearson 1934): it misses the truth with probability at
        most 0.01.
    draws : int
    """

    estimate: float
    lower: float
    upper: float
    draws: int

    def __str__(self) -> str:
        low, high = number(self.lower, 3, up=False), number(self.upper, 3)
        about = f"{self.estimate:.3g}"
        return f"{about} of the prior's mass ({low} to {high}, 99% interval, {self.draws} draws)"


def prior_draws(
    private: PrivateModel, count: int = DRAWS, seed: int | None = SEED
) -> dict[str, np.ndarray]:
    """Independent draws from the untrimmed prior, by name, shape (count, *shape).

    Raises
    ------
    DomainError
        An improper prior.
    Unsupported
        A potential of the parameters alone belongs to the prior, and cannot be drawn from.
    """
    refuse_improper(private)
    extra = [p.name for p in private.base.potentials if p.name not in private.graph.factors]
    if extra:
        raise Unsupported(
            "a potential of the parameters is part of the prior, which cannot be drawn from then",
            got=", ".join(extra),
            allowed="priors made of distributions",
            do="trim by box={...}",
        )
    rvs = list(private.base.free_RVs)
    drawn = pm.draw(rvs, draws=count, random_seed=seed, mode="FAST_COMPILE")
    drawn = drawn if isinstance(drawn, list) else [drawn]
    found = {rv.name: np.asarray(values) for rv, values in zip(rvs, drawn, strict=True)}
    _refuse_cuts(private, found)
    return found


def _refuse_cuts(private: PrivateModel, drawn: Mapping[str, np.ndarray]) -> None:
    """A transform that cuts a prior makes another prior of it, which is not the one drawn from."""
    for rv in private.base.free_RVs:
        box, values = support(private.base, rv, private.shapes[rv.name]), drawn[rv.name]
        if (values < box.lower).any() or (values > box.upper).any():
            raise Unsupported(
                "a transform that cuts a prior is part of it, which cannot be drawn from then",
                got=rv.name,
                allowed="priors made of distributions",
                do="write pm.Truncated in place of the transform, or trim by box={...}",
            )


def refuse_improper(private: PrivateModel) -> None:
    """Flat priors have no mass."""
    rvs = private.base.free_RVs
    improper = [rv.name for rv in rvs if law_name(rv) in IMPROPER]
    if improper:
        raise DomainError(
            "an improper prior has no mass to keep a share of, and cannot be drawn from",
            got=", ".join(improper),
            allowed="proper priors",
            do="trim by box={...}, or write a proper prior: pm.Normal, pm.Uniform",
        )


def in_region(private: PrivateModel, points: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which points lie in the region of a trimmed model."""
    count = len(next(iter(points.values())))
    inside = np.ones(count, dtype=bool)
    for name, box in private.region.items():
        held = (points[name] >= box.lower) & (points[name] <= box.upper)
        inside &= held.reshape(count, -1).all(axis=1)
    theta = private.theta_l
    if theta is not None and inside.any():
        kept = {name: values[inside] for name, values in points.items()}
        inside[inside] = theta.variation.at(kept) <= theta.inner
    return inside


def prior_mass(private: PrivateModel, draws: int = DRAWS) -> PriorMass:
    """How much of the prior the region of a trimmed model keeps. Reads no data.

    Parameters
    ----------
    private : PrivateModel
    draws : int
        Independent prior draws.

    Raises
    ------
    DomainError, Unsupported
        The prior is improper or holds a potential: it cannot be drawn from.
    """
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise DomainError("draws is a whole number >= 1", got=repr(draws), allowed="1, 2, ...")
    return mass_of(private, prior_draws(private, int(draws)))


def mass_of(private: PrivateModel, points: Mapping[str, np.ndarray]) -> PriorMass:
    """The share of independent prior draws that lies in the region, with its interval."""
    inside = in_region(private, points)
    count, hits = len(inside), int(inside.sum())
    tail = WRONG / 2.0
    low = float(beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1.0 - tail, hits + 1, count - hits)) if hits < count else 1.0
    return PriorMass(hits / count, low, high, count)
