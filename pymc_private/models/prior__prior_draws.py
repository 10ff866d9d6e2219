"""Prior draws, from the model alone: where a region lies, and how much of the prior it keeps."""

from __future__ import annotations

import numpy as np
import pymc as pm
from collections.abc import Mapping
from dataclasses import dataclass
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from scipy.stats import beta
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.distributions__laws import law_name
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.distributions import BOXABLE, ORDERED, WALLED, is_default, support, transform_name
from pymc_private.privacy.rounding__printing import number

DRAWS = 4000
SEED = 20260103
"""Prior draws choose and judge regions, never a release; the seed makes them the same each time."""
IMPROPER = ("FlatRV", "HalfFlatRV")
BATCHES = 24
"""Most prior draws for one whose ordered vectors are in order."""
WHOLE = {*BOXABLE, *WALLED, ORDERED}
"""Transforms of a user's own whose priors can be drawn from."""
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
    graph = private.graph
    extra = [p.name for p in private.base.potentials if p.name not in graph.factors]
    if graph.apart is not None and not set(graph.parameters.values()).isdisjoint(
        ancestors([graph.apart])
    ):
        extra.append(f"a part of {', '.join(graph.factors)} that reads no record")
    if extra:
        raise Unsupported(
            "a potential of the parameters is part of the prior, which cannot be drawn from then",
            got=", ".join(extra),
            allowed="priors made of distributions",
            do="trim by box={...}",
        )
    found = _drawn(private, count, seed)
    _refuse_cuts(private, found)
    ordered = [rv for rv in private.base.free_RVs if transform_name(private.base, rv) == ORDERED]
    for rv in [rv for rv in ordered if _is_exchangeable(private, rv)]:
        found[rv.name] = np.sort(found[rv.name], axis=-1)
        ordered.remove(rv)
    return _in_order(private, found, [rv.name for rv in ordered], seed) if ordered else found


def _drawn(private: PrivateModel, count: int, seed: int | None) -> dict[str, np.ndarray]:
    rvs = list(private.base.free_RVs)
    drawn = pm.draw(rvs, draws=count, random_seed=seed, mode="FAST_COMPILE")
    drawn = drawn if isinstance(drawn, list) else [drawn]
    return {rv.name: np.asarray(values) for rv, values in zip(rvs, drawn, strict=True)}


def _is_exchangeable(private: PrivateModel, rv: Variable) -> bool:
    """Whether entries are alike and nobody reads them: sorted, they are the ordered prior."""
    others = [other for other in private.base.free_RVs if other is not rv]
    alike = all(
        not p.type.ndim or p.type.broadcastable[-1] for p in rv.owner.op.dist_params(rv.owner)
    )
    return alike and rv.owner.op.ndim_supp == 0 and rv not in ancestors(others)


def _in_order(
    private: PrivateModel, found: dict[str, np.ndarray], names: list[str], seed: int | None
) -> dict[str, np.ndarray]:
    """Those draws of the prior whose vectors are in order, as many as there were."""
    count, kept, batch = len(found[names[0]]), [], found
    for attempt in range(1, BATCHES + 1):
        inside = np.ones(count, bool)
        for name in names:
            inside &= (np.diff(batch[name], axis=-1) > 0.0).reshape(count, -1).all(axis=1)
        kept.append({name: values[inside] for name, values in batch.items()})
        if sum(len(part[names[0]]) for part in kept) >= count:
            return {name: np.concatenate([part[name] for part in kept])[:count] for name in found}
        batch = _drawn(private, count, None if seed is None else seed + attempt)
    raise Unsupported(
        "ordered vectors whose entries are seldom in order are not drawn from their prior",
        got=", ".join(names),
        allowed=f"at least one prior draw in {BATCHES} in order",
        do="give the entries one prior, or priors in the order that is meant",
    )


def _refuse_cuts(private: PrivateModel, drawn: Mapping[str, np.ndarray]) -> None:
    """A transform that cuts a prior makes another prior of it, which is not the one drawn from."""
    for rv in private.base.free_RVs:
        box, values = support(private.base, rv, private.shapes[rv.name]), drawn[rv.name]
        is_cut = (values < box.lower).any() or (values > box.upper).any()
        is_known = transform_name(private.base, rv) in WHOLE
        if is_cut or not (is_known or is_default(private.base.rvs_to_transforms[rv], rv)):
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
