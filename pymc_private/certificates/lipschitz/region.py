"""Theta_L: the parameters at which one record changes the log-likelihood by at most L nats (T24).

The prior is restricted to {ell <= L}, which has R <= 2 L. The set is looked for at points from
the prior or the box alone, enclosed in a box by interval bounds, and its boundary points start
the search for the range. Nothing here reads data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds
from pymc_private.certificates.lipschitz.variation import Variation, variation
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.distributions import BOX_TRANSFORMS, transform_name
from pymc_private.models.prior import PRIOR_DRAWS, PRIOR_SEED, in_region, mass_of_draws, prior_draws
from pymc_private.models.private_model import PrivateModel

MARGIN = 2.0**-26
"""Share of L given up, so that ell evaluated in floats is never too low."""

MOST_SLABS, FINEST_STEP = 80, 1e-7
"""Most slabs tried at each side of the box around Theta_L, and the thinnest, as a share."""

PASSES = 3
"""Times that the box around Theta_L is tightened."""

RAYS = 48
"""Rays along which the boundary of the set is looked for."""

LOG2_FAR, FARTHEST = 64.0, 1e100
"""An infinite side reaches 2**LOG2_FAR from the start; nothing beyond FARTHEST is kept."""

MOST_SHRUNKEN = 32
"""Points that are also tried nearer to the middle of the prior."""

FAR_ON_RAY, HALVINGS = 64.0, 24
"""How far along a ray the boundary is looked for, in lengths of the ray, and how finely."""


@dataclass(frozen=True, eq=False)
class ThetaL:
    """The set {ell <= L} of parameters, as a graph.

    Parameters
    ----------
    limit : float
        L, in nats per record, at power 1.
    variation : Variation
        ell(theta), an upper bound.
    record : Variable
        The record's graph that ell is of.
    prior : Variable
        The log prior density, not restricted to the set.
    start : dict of str to array
        A point of the set, from the prior alone.
    others : dict of str to array, shape (k, ...)
        Points of the box, which give the rays of a search.
    """

    limit: float
    variation: Variation
    record: Variable
    prior: Variable
    start: Mapping[str, np.ndarray]
    others: Mapping[str, np.ndarray]

    @property
    def inner(self) -> float:
        """The limit of ell in floats: below L by `MARGIN`, for rounding."""
        return self.limit * (1.0 - MARGIN)

    @property
    def words(self) -> str:
        """The set in words."""
        return f"where one record changes the log-likelihood by at most L = {self.limit:.6g} nats"

    def log_indicator(self, parameters: Mapping[str, Variable]) -> Variable:
        """0 on the set, -inf elsewhere."""
        return pt.switch(pt.le(self.variation.on(parameters), self.inner), 0.0, -np.inf)

    def range_of(self, record: Variable) -> Fraction | None:
        """2 L, which bounds R of that record's graph (T24); None for another graph."""
        return 2 * Fraction(self.limit) if record is self.record else None


def restrict_to_theta_l(
    private: PrivateModel, limit: Any, outermost: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> PrivateModel:
    """Restrict the joint prior to {ell <= L}. Reads no data.

    Parameters
    ----------
    private : PrivateModel
    limit : float
        L, in nats per record at power 1.
    outermost : mapping of str to (lower, upper)
        A box beyond which nothing is kept, chosen from the prior.

    Raises
    ------
    DomainError
        L is no positive number, or no parameters were found with ell <= L.
    Unsupported
        ell(theta) is not known as a graph.
    """
    bound = checked_limit(limit)
    if private.theta_l is not None and private.theta_l.limit <= bound:
        return private
    ell, inner = variation(private), bound * (1.0 - MARGIN)
    drawn = drawn_or_none(private)
    points = candidate_points(private, drawn, ell)
    values = ell.at(points)
    best = int(np.argmin(values))
    if not values[best] <= inner:
        raise _empty_set_error(bound, float(values[best]), len(values))
    start = {name: np.array(value[best]) for name, value in points.items()}
    bare = private.graph.prior if private.theta_l is None else private.theta_l.prior
    others = {name: value[:RAYS] for name, value in points.items()}
    theta = ThetaL(bound, ell, private.graph.record, bare, start, others)
    restricted = replace(private.graph, prior=bare + theta.log_indicator(private.graph.parameters))
    made = replace(private, graph=restricted, theta_l=theta)
    made = made.with_region(_intersected_box(made, outermost, start))
    for _ in range(PASSES):  # a tighter bound of one lets another be proved
        region = _enclosing_box(made, theta)
        moved = any(
            np.any(b.lower > made.box[k].lower) or np.any(b.upper < made.box[k].upper)
            for k, b in region.items()
        )
        made = made.with_region(region)
        if not moved:
            break
    if drawn is not None:
        # What the property would compute again.
        made.__dict__["prior_mass"] = mass_of_draws(made, drawn)
    return made


def _empty_set_error(bound: float, least: float, count: int) -> DomainError:
    """The refusal of an L below every ell found."""
    found = f"L above {least:.4g} nats, the least found at {count} points"
    return DomainError(
        "no parameters were found at which one record changes the log-likelihood so little",
        got=f"L = {bound:g}",
        allowed=found if math.isfinite(least) else "a likelihood with a finite bound somewhere",
        do="choose a larger L, a smaller domain, or trim to where the likelihood is flat",
    )


def checked_limit(limit: Any) -> float:
    """A positive finite number of nats."""
    real = isinstance(limit, Real | np.number) and not isinstance(limit, bool | np.bool_)
    if not real or not (math.isfinite(limit) and limit > 0):
        raise DomainError(
            "lipschitz= is how much one record may change the log-likelihood",
            got=repr(limit),
            allowed="a positive number of nats; the range is then at most twice that",
        )
    return float(limit)


def drawn_or_none(private: PrivateModel) -> dict[str, np.ndarray] | None:
    """Prior draws; None where the prior cannot be drawn from."""
    try:
        return prior_draws(private)
    except (DomainError, Unsupported):
        return None


def candidate_points(
    private: PrivateModel, drawn: dict[str, np.ndarray] | None, ell: Variation
) -> dict[str, np.ndarray]:
    """Points of the box where the set may be: prior draws in it, else points of a finite box."""
    inside = np.zeros(1, dtype=bool) if drawn is None else in_region(private, drawn)
    if drawn is None or not inside.any():
        points = _uniform_points(private)
    else:
        points = {name: values[inside] for name, values in drawn.items()}
    return _with_shrunken_points(private, points, ell)


def _with_shrunken_points(
    private: PrivateModel, points: dict[str, np.ndarray], ell: Variation
) -> dict[str, np.ndarray]:
    """The points, and some of them moved toward their middle: a set may be small."""
    best = np.argsort(ell.at(points))[:MOST_SHRUNKEN]
    middle = {  # the mean of rows that sum to one does so too
        name: (np.median if private.box[name].within is None else np.mean)(values, axis=0)
        for name, values in points.items()
    }
    shrunken = [
        {name: middle[name] + share * (v[best] - middle[name]) for name, v in points.items()}
        for share in (0.5, 0.25, 0.1, 0.0)
        if all(v.dtype.kind == "f" for v in points.values())
    ]
    return {name: np.concatenate([v, *(c[name] for c in shrunken)]) for name, v in points.items()}


def _uniform_points(private: PrivateModel) -> dict[str, np.ndarray]:
    """Pseudo-random points of a finite box, the same each time."""
    loose = [name for name, b in private.box.items() if not b.is_finite or b.within is not None]
    if loose:
        raise DomainError(
            "Theta_L is looked for where the prior is, and this prior cannot be drawn from",
            got=", ".join(loose),
            allowed="proper priors without potentials, or a finite box for every parameter",
            do="trim by box={...} first",
        )
    rng = np.random.default_rng(PRIOR_SEED)
    return {
        name: b.lower + rng.random((PRIOR_DRAWS, *np.shape(b.lower))) * (b.upper - b.lower)
        for name, b in private.box.items()
    }


def _intersected_box(
    private: PrivateModel,
    outermost: Mapping[str, tuple[np.ndarray, np.ndarray]],
    start: Mapping[str, np.ndarray],
) -> dict[str, Bounds]:
    """The model's box intersected with another one, where that holds the start."""
    found = {}
    for name, (low, high) in outermost.items():
        box = private.box[name]
        low, high = np.maximum(low, box.lower), np.minimum(high, box.upper)
        if np.all((low < start[name]) & (start[name] < high)):
            found[name] = replace(box, lower=low, upper=high)
    return found


def _enclosing_box(private: PrivateModel, theta: ThetaL) -> dict[str, Bounds]:
    """A box around the set, without the slabs in which intervals prove ell > L.

    All sides move inward at once, slab by slab. A slab is cut where the graph of ell is proved to
    exceed the limit on it, whatever the other parameters are within their box. (Any box that
    is chosen without the data is a sound region: this one leaves out nothing of the set but what
    lies beyond `FARTHEST`.)
    """
    box, start = private.box, theta.start
    sides = [
        (name, index, sign)
        for name in theta.variation.parameters
        if _is_boxable(private, name)
        for index in np.ndindex(private.shapes[name])
        for sign in (-1, 1)
    ]
    if not sides:
        return {}
    cut, step = np.ones(len(sides)), np.full(len(sides), 0.5)
    for _ in range(MOST_SLABS):
        share = np.maximum(cut - step, 0.0)
        slabs = _slabs(box, start, sides, share, cut)
        outside = theta.variation.within(*slabs)[0] > theta.inner
        cut, step = np.where(outside, share, cut), np.where(outside, 1.5 * step, step / 2.0)
        if np.all((step < FINEST_STEP) | (cut == 0.0)):
            break
    found = {name: (np.array(box[name].lower), np.array(box[name].upper)) for name, _, _ in sides}
    for (name, index, sign), share in zip(sides, cut, strict=True):
        if share < 1.0:
            low, high = float(box[name].lower[index]), float(box[name].upper[index])
            at = float(start[name][index])
            found[name][sign > 0][index] = _point_on_side(at, low, high, sign, float(share))
    return {name: _uniformly_finite(box[name], low, high) for name, (low, high) in found.items()}


def _uniformly_finite(before: Bounds, low: np.ndarray, high: np.ndarray) -> Bounds:
    """The bounds, each finite for every entry of a variable or for none, as transforms need."""
    lower, upper = (
        old if np.isinf(new).any() and not np.isinf(new).all() else new
        for new, old in ((low, before.lower), (high, before.upper))
    )
    return replace(before, lower=lower, upper=upper)


def _is_boxable(private: PrivateModel, name: str) -> bool:
    """Whether a box may replace the support of a variable."""
    rv = private.base[name]
    is_float = str(rv.type.dtype).startswith("float")
    return is_float and transform_name(private.base, rv) in BOX_TRANSFORMS


def _point_on_side(at: float, low: float, high: float, sign: int, share: float) -> float:
    """The point a share of the way from a start to a side; an infinite one is 2**LOG2_FAR away."""
    side = high if sign > 0 else low
    if math.isinf(side):
        return at + sign * math.expm1(share * LOG2_FAR * math.log(2.0))
    return at + share * (side - at)


def _slabs(
    box: Mapping[str, Bounds],
    start: Mapping[str, np.ndarray],
    sides: list[tuple[str, tuple[int, ...], int]],
    shares: np.ndarray,
    cuts: np.ndarray,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """For each side, the part of the box between two shares of the way to it."""
    lower, upper = (
        {
            name: np.repeat(np.clip(bound, -FARTHEST, FARTHEST)[None].astype(float), len(sides), 0)
            for name, bound in bounds.items()
        }
        for bounds in (
            {name: b.lower for name, b in box.items()},
            {name: b.upper for name, b in box.items()},
        )
    )
    for k, (name, index, sign) in enumerate(sides):
        at, far = (
            _point_on_side(
                float(start[name][index]),
                float(box[name].lower[index]),
                float(box[name].upper[index]),
                sign,
                float(shares_of[k]),
            )
            for shares_of in (shares, cuts)
        )
        near_side, far_side = (lower, upper) if sign > 0 else (upper, lower)
        near_side[name][(k, *index)] = at
        if cuts[k] < 1.0:
            far_side[name][(k, *index)] = far
    return lower, upper


def boundary_points(private: PrivateModel, theta: ThetaL) -> list[dict[str, Bounds]]:
    """Points on the boundary of the set, along rays from its start, for a search. Reads no data."""
    names = list(theta.others)
    rays = {name: theta.others[name] - theta.start[name] for name in names}
    count = len(rays[names[0]])
    near, far = np.zeros(count), np.full(count, FAR_ON_RAY)
    for _ in range(HALVINGS):
        share = (near + far) / 2.0
        inside = in_region(private, _points_on_rays(theta.start, rays, share))
        near, far = np.where(inside, share, near), np.where(inside, far, share)
    boundary = _points_on_rays(theta.start, rays, near)
    rows = [{name: boundary[name][k] for name in names} for k in range(count)]
    rows.append(dict(theta.start))
    return [
        {name: Bounds.point(np.asarray(value, dtype=float)) for name, value in row.items()}
        for row in rows
    ]


def _points_on_rays(
    start: Mapping[str, np.ndarray], rays: Mapping[str, np.ndarray], share: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        name: start[name] + ray * share.reshape(-1, *(1,) * (ray.ndim - 1))
        for name, ray in rays.items()
    }
