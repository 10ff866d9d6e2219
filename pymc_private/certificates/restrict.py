"""The `trim` and `temper` functions: a restricted prior, or the likelihood to a power.

`trim` restricts the joint prior to a region on which the likelihood is bounded (T24): a box, a
central box of given prior mass, or Theta_L. `temper` scales what one record can change (T1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, SimplexRows, ZeroSumRows
from pymc_private.analysis.rewrites.known_forms import value_by_structure
from pymc_private.certificates.lipschitz.inner_box import find_inner_box
from pymc_private.certificates.lipschitz.region import restrict_to_theta_l
from pymc_private.errors import DomainError, Unsupported, suggest_arguments
from pymc_private.models.add_remove import refuse_with_sequences
from pymc_private.models.distributions import (
    BOX_TRANSFORMS,
    KEPT_TRANSFORMS,
    ORDERED,
    has_central_box,
    transform_name,
)
from pymc_private.models.prior import PRIOR_DRAWS, PRIOR_SEED, refuse_improper
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.privacy.validation import exact_fraction, is_number

OUTERMOST_TAIL = 1e-9
"""Share of a coordinate's prior on each side that Theta_L is looked for without."""


@suggest_arguments
def trim(
    private: PrivateModel,
    *,
    box: Mapping[str, Any] | None = None,
    mass: float | None = None,
    lipschitz: float | None = None,
    shape: str = "set",
) -> PrivateModel:
    """Restrict the joint prior to a box of the parameters, or to Theta_L.

    Reads no data. The prior inside the region keeps its shape (it is not `pm.Truncated`, which
    would renormalize each conditional and so be another prior).

    Parameters
    ----------
    private : PrivateModel
    box : dict of str to (lower, upper)
        Bounds for some free variables, each a number or an array of the variable's shape, in
        natural (untransformed) units. Intersected with the support and with earlier trims.
    mass : float
        Instead: a central box of every free variable that holds about this much prior probability.
    lipschitz : float, nats
        Instead: the parameters at which replacing one record by any other changes its
        log-likelihood by at most L (under add/remove: at which it is at most L in absolute value,
        without the terms that read no parameter), at power 1. Then R is at most 2 L (T24). The
        outermost 1e-9 of each coordinate's prior are left out too, so that the set lies in a
        finite box.
    shape : {"set", "box"}
        Of the region of `lipschitz=`: the whole set, for exact samplers, which reject what lies
        outside; or a box within it, for samplers that follow gradients, which stop at a boundary.

    Returns
    -------
    PrivateModel
        `.model` is a plain PyMC model with interval transforms; around Theta_L as a set it has a
        potential of -inf. `.prior_mass` counts how much of the prior is kept.

    Raises
    ------
    DomainError
        Unknown names, empty regions, mass outside (0, 1), an improper prior where a mass is given,
        L that is not positive or below every value found, or not exactly one region.
    Unsupported
        A discrete variable, or one whose transform has unknown bounds. A likelihood for which
        intervals do not give ell as a function of the parameters.

    References
    ----------
    Theory T24; Dimitrakakis et al. (2017), Theorem 17, corrected.
    """
    private = require_private_model(private)
    _check_region(private, box, mass, lipschitz, shape)
    if lipschitz is not None:
        refuse_with_sequences(private.graph, f"lipschitz={lipschitz}")
    if lipschitz is not None and shape == "set":
        return restrict_to_theta_l(
            private, lipschitz, _exact_central_quantiles(private, OUTERMOST_TAIL)
        )
    if lipschitz is not None:
        box = find_inner_box(private, lipschitz, central_quantiles)
    if box is None:
        box = central_box(private, mass)  # type: ignore[arg-type]
    unknown = [name for name in box if name not in private.box]
    if unknown:
        raise DomainError(
            "trim names what is no free variable of the model",
            got=", ".join(map(str, unknown)),
            allowed=", ".join(private.box),
        )
    return private.with_region(
        {name: _restricted_interval(private, name, pair) for name, pair in box.items()}
    )


def _check_region(
    private: PrivateModel, box: object, mass: object, lipschitz: object, shape: object
) -> None:
    """Refuse all but exactly one region, of a kind that the model's neighbors allow."""
    if box is not None and not isinstance(box, Mapping):
        raise DomainError(
            "box= names parameters", got=repr(box), allowed="{'sigma': (0.1, 5), ...}"
        )
    if sum(given is not None for given in (box, mass, lipschitz)) != 1:
        raise DomainError("trim wants one region", allowed="exactly one of box=, mass=, lipschitz=")
    if not isinstance(shape, str) or shape not in ("set", "box"):
        raise DomainError("shape= is of lipschitz=", got=repr(shape)[:60], allowed="'set' or 'box'")
    if lipschitz is not None and private.metric is not None:
        raise Unsupported(
            "lipschitz= bounds what a whole record changes, and this model's neighbors are at a "
            "distance",
            got=private.neighbors,
            allowed="neighbors='substitute' or 'add_remove'",
            do="trim by mass= or box=",
        )


def _restricted_interval(private: PrivateModel, name: str, pair: Any) -> Bounds:
    """The given bounds, intersected with the variable's own."""
    rv = private.base[name]
    transform = transform_name(private.base, rv)
    if transform not in BOX_TRANSFORMS | KEPT_TRANSFORMS | {ORDERED} or "int" in str(rv.type.dtype):
        raise Unsupported(
            f"'{name}' cannot be trimmed by a box",
            got=f"a variable with {transform}, dtype {rv.type.dtype}",
            allowed="continuous variables that are free in each coordinate, simplex rows, effects "
            "that sum to zero, ordered vectors, packed Cholesky factors",
            do="trim other variables, or write the prior with free coordinates",
        )
    now, shape = private.box[name], private.shapes[name]
    lower, upper = _checked_bounds(name, pair, shape)
    lower, upper = np.maximum(lower, now.lower), np.minimum(upper, now.upper)
    if isinstance(now.within, SimplexRows | ZeroSumRows):
        lower, upper = _reachable_bounds(lower, upper, now.within.total)
    if not np.all(lower < upper):
        raise DomainError(
            f"the box of '{name}' is empty",
            got=f"({pair[0]}, {pair[1]})",
            allowed=f"bounds that meet [{np.min(now.lower):.4g}, {np.max(now.upper):.4g}]"
            + (" and let entries sum to zero" if isinstance(now.within, ZeroSumRows) else ""),
        )
    if transform == ORDERED and not np.all(upper[..., :-1] <= lower[..., 1:]):
        raise DomainError(
            f"the boxes of the ordered entries of '{name}' overlap",
            got=f"({pair[0]}, {pair[1]})",
            allowed="upper bounds that are not above the next entry's lower bound",
            do="give each entry an interval of its own: (lower, upper) as arrays",
        )
    if any(np.isinf(side).any() and not np.isinf(side).all() for side in (lower, upper)):
        raise DomainError(
            f"the box of '{name}' is open for some of its entries only",
            got=f"({pair[0]}, {pair[1]})",
            allowed="a bound that is finite for every entry, or infinite for every entry",
            do="give a finite bound to each entry",
        )
    return replace(now, lower=lower, upper=upper)


def _reachable_bounds(
    lower: np.ndarray, upper: np.ndarray, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds that rows of one sum can reach; infinite bounds stay infinite."""
    with np.errstate(invalid="ignore"):
        least = total - (upper.sum(axis=-1, keepdims=True) - upper)
        most = total - (lower.sum(axis=-1, keepdims=True) - lower)
        slack = 1e-12 * np.maximum(1.0, np.abs(np.stack([least, most])))
    return np.fmax(lower, least - slack[0]), np.fmin(upper, most + slack[1])


def _checked_bounds(name: str, pair: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds in the variable's shape."""
    try:
        low, high = pair
        lower = np.broadcast_to(np.asarray(low, dtype=float), shape).copy()
        upper = np.broadcast_to(np.asarray(high, dtype=float), shape).copy()
    except (TypeError, ValueError) as error:
        raise DomainError(
            f"the box of '{name}' does not fit the variable",
            got=repr(pair),
            allowed=f"(lower, upper), numbers or arrays of shape {shape}",
        ) from error
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise DomainError(f"the box of '{name}' has NaN bounds", allowed="numbers")
    return lower, upper


def central_box(private: PrivateModel, mass: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A central box that holds about `mass` of the prior, the same each time.

    Each scalar coordinate leaves out (1 - mass) / (number of coordinates) in its two tails (union
    bound). Quantiles come from the prior's inverse CDF where it has one and its parameters are
    constants, else from prior draws; both read the model alone. A bounded side is trimmed too.
    """
    if not (is_number(mass) and 0.0 < mass < 1.0):
        raise DomainError("mass is a probability", got=mass, allowed="0 < mass < 1")
    boxable = [rv for rv in private.base.free_RVs if has_central_box(private.base, rv)]
    size = sum(int(np.prod(private.shapes[rv.name])) for rv in boxable)
    return central_quantiles(private, (1.0 - float(mass)) / max(size, 1) / 2.0)


def central_quantiles(
    private: PrivateModel, tail: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A box that leaves out a share `tail` of each coordinate's prior on each side."""
    refuse_improper(private)
    found = _inverse_cdf_quantiles(private, tail)
    drawn = [rv for rv, pair in found.values() if pair is None]
    sampled = _drawn_quantiles(drawn, tail) if drawn else {}
    return {name: sampled.get(name, pair) for name, (_, pair) in found.items()}


def _exact_central_quantiles(
    private: PrivateModel, tail: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """As `central_quantiles`, of the variables whose prior has an inverse CDF."""
    found = _inverse_cdf_quantiles(private, tail)
    return {name: pair for name, (_, pair) in found.items() if pair is not None}


def _inverse_cdf_quantiles(private: PrivateModel, tail: float) -> dict[str, tuple[Variable, Any]]:
    """Each variable with a central box, and its exact quantiles or None."""
    boxable = [rv for rv in private.base.free_RVs if has_central_box(private.base, rv)]
    return {rv.name: (rv, _exact_quantiles(rv, tail, private.shapes[rv.name])) for rv in boxable}


def _exact_quantiles(rv: Variable, tail: float, shape: tuple[int, ...]) -> Any:
    """Prior quantiles by the inverse CDF; None where there is none or it reads other variables."""
    if any(v.owner is not None and _is_random(v) for v in ancestors(rv.owner.inputs)):
        return None
    try:
        ends = [pm.icdf(rv, q, warn_rvs=False) for q in (tail, 1.0 - tail)]
        low, high = value_by_structure(_evaluated, ends)
    except (NotImplementedError, TypeError, ValueError):
        return None
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    return np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy()


def _evaluated(ends: Sequence[Variable]) -> list[np.ndarray]:
    """Numbers that read nothing."""
    return pytensor.function([], list(ends), mode="FAST_COMPILE")()


def _is_random(variable: Variable) -> bool:
    return "RandomVariable" in {base.__name__ for base in type(variable.owner.op).__mro__}


def _drawn_quantiles(rvs: list[Variable], tail: float) -> dict[str, Any]:
    """Quantiles of prior draws, widened to the extremes where the tail holds too few draws."""
    try:
        draws = pm.draw(rvs, draws=PRIOR_DRAWS, random_seed=PRIOR_SEED, mode="FAST_COMPILE")
    except NotImplementedError as error:  # Flat, HalfFlat, or a density without a generator
        raise Unsupported(
            "a prior that cannot be drawn from has no central box",
            got=", ".join(rv.name for rv in rvs),
            allowed="proper priors with a quantile function or a generator",
            do="write proper priors (Bambi: priors={...}), or give the region by box={...}",
        ) from error
    draws = draws if isinstance(draws, list) else [draws]
    found = {}
    for rv, sample in zip(rvs, draws, strict=True):
        low, high = np.quantile(sample, [tail, 1.0 - tail], axis=0)
        found[rv.name] = (low, high)
    return found


def trim_advice(private: PrivateModel, names: Sequence[str]) -> str:
    """How to bound unbounded parameters, as code that can be pasted.

    `calibrate` chooses among central boxes by itself, which do not bound every parameter. The
    numbers of a box are examples and depend on the supports alone.
    """
    base, listed = private.base, ", ".join(names)
    apart = [name for name in names if not has_central_box(base, base[name])]
    if not apart:
        return (
            f"bound {listed}: calibrate does this for you; to certify alone: "
            f"pmp.trim(private, mass=0.99), or with bounds of your own: {_box_code(private, names)}"
        )
    others = any(name not in apart for name in names)
    rest = "; calibrate, or mass= in a second trim, bounds the others" if others else ""
    return (
        f"bound {listed}: mass= does not trim {', '.join(apart)}, nor does calibrate; before it, "
        f"with bounds of your own: {_box_code(private, apart)}{rest}"
    )


def edge_advice(private: PrivateModel, names: Sequence[str]) -> str:
    """How to trim away from where a likelihood is unbounded inside finite boxes."""
    touching = [name for name in names if _has_touching_boxes(private, name)]
    if touching:
        return (
            f"leave a gap between the boxes of the ordered entries of {', '.join(touching)}: "
            f"{_box_code(private, touching)}"
        )
    pairs = ((name, private.box[name]) for name in names)
    box = ", ".join(f"{k} in [{np.min(b.lower):.4g}, {np.max(b.upper):.4g}]" for k, b in pairs)
    return f"trim further away from the edge ({box})"


def _has_touching_boxes(private: PrivateModel, name: str) -> bool:
    """Whether two entries of an ordered vector may come as near to each other as they like."""
    return _touching_entries(private, name) is not None


def _touching_entries(private: PrivateModel, name: str) -> np.ndarray | None:
    """Where an entry of an ordered vector meets the next one, as a mask; None if none does."""
    box, base = private.box[name], private.base
    if transform_name(base, base[name]) != ORDERED:
        return None
    meet = box.upper[..., :-1] >= box.lower[..., 1:]
    return meet if meet.any() else None


def point_where_entries_touch(private: PrivateModel) -> dict[str, Bounds] | None:
    """A point of the region at which neighboring entries of ordered vectors are equal, if any.

    Of chains of boxes that touch, the first two entries meet. Other entries are in the middle of
    their boxes; None where one of these is infinite.
    """
    point, meets = {}, False
    for name, box in private.box.items():
        if not box.is_finite:
            return None
        values = np.array((box.lower + box.upper) / 2.0)
        mask = _touching_entries(private, name)
        if mask is not None:
            *row, k = np.argwhere(mask)[0]
            values[(*row, slice(k, k + 2))] = box.upper[(*row, k)]
            meets = True
        point[name] = Bounds.point(values) if box.within is None else box
    return point if meets else None


def _box_code(private: PrivateModel, names: Sequence[str]) -> str:
    """A call of `trim` with an example of a box for each parameter."""
    pairs = ", ".join(f'"{name}": {_example_bounds(private, name)}' for name in names)
    return f"private = pmp.trim(private, box={{{pairs}}})"


def _example_bounds(private: PrivateModel, name: str) -> str:
    """Bounds inside the support of a parameter, as code."""
    now = private.box[name]
    if transform_name(private.base, private.base[name]) == ORDERED:
        count = now.lower.shape[-1]
        middles = [round(5.0 * (k - (count - 1) / 2), 6) for k in range(count)]
        return f"({[m - 2.0 for m in middles]}, {[m + 2.0 for m in middles]})"
    low = np.where(np.isfinite(now.lower), now.lower + 0.1, -5.0)
    high = np.where(np.isfinite(now.upper), now.upper - 0.1, np.maximum(5.0, low + 1.0))
    low = np.where(np.isfinite(now.upper) & ~np.isfinite(now.lower), high - 5.0, low)
    sides = [np.unique(side) for side in (low, high)]
    if all(side.size == 1 for side in sides):
        return f"({sides[0].item():g}, {sides[1].item():g})"
    return f"({np.round(low, 6).tolist()}, {np.round(high, 6).tolist()})"


@suggest_arguments
def temper(private: PrivateModel, power: float | Fraction) -> PrivateModel:
    """Raise the likelihood to a public power: R becomes power * R (T1).

    The posterior has power * n records' worth of information, spread evenly over all records.

    Parameters
    ----------
    private : PrivateModel
    power : float or Fraction
        In (0, 1]. Multiplies a power the model already has.

    Returns
    -------
    PrivateModel

    Raises
    ------
    DomainError
        The power is not in (0, 1], or `private` is no private model.
    """
    private = require_private_model(private)
    if not (is_number(power) and 0 < power <= 1):
        raise DomainError(
            "the power of a likelihood must lie in (0, 1]",
            got=str(power),
            allowed="0 < power <= 1",
            do="powers above 1 would count records more than once",
        )
    return private.with_power(private.power * exact_fraction(power))
