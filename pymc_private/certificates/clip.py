"""The `clip` function: each record's log-likelihood clipped to a public interval (T25).

With c(x, theta) = clip(log p(x | theta), a, b) the range R is at most 2 (b - a), whatever the
Ops.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from pymc_private.certificates.record_bounds import RecordBounds
from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.models.distributions import distribution_class
from pymc_private.models.prior import IMPROPER_PRIORS
from pymc_private.models.private_model import PrivateModel, describe_clip, require_private_model
from pymc_private.models.record_graph import ClipBounds, clipped_graph
from pymc_private.privacy.neighbors import ADD_REMOVE


@suggest_arguments
def clip(private: PrivateModel, lower: float, upper: float | None = None) -> PrivateModel:
    """Clip each record's log-likelihood to public bounds: then R is at most 2 (upper - lower).

    What is clipped is the record's total log p(x | theta), all of its factors added up. NaN and
    -inf count as `lower`, and so does a record for which a condition of the model (sigma > 0)
    fails. The bound needs no trim and no interval rule for any Op: every row-wise model has a
    certificate. (The box sampler still needs a finite box: see `trim`.)

    Parameters
    ----------
    private : PrivateModel
    lower : float, nats
        Fixed without looking at the data, like `upper`. Records less likely than this count as if
        they were just as likely: outliers weigh less.
    upper : float, optional, nats
        Default: a proved bound of the log-likelihood, so that nothing is cut off above. That is 0
        where all factors are discrete observed variables, else what intervals prove over the
        domain and the box.

    Returns
    -------
    PrivateModel
        Clipped twice: to what both clips allow. The power acts outside of the clip, so clip and
        temper may come in either order: w * clip(log p).

    Raises
    ------
    DomainError
        Bounds that are not finite or not in order, an upper bound that is needed and not given, or
        a prior that is improper (Flat, HalfFlat) on the region.
    NotCertified
        A condition of the model couples records.

    Notes
    -----
    Constants of the density matter here, which cancel without a clip: binomial coefficients, and
    the unit of continuous data (in centimeters a log density is 4.6 less than in meters). Which
    factors stand inside the clip is a public choice; the certificate names them.

    Where factor rows read several records (a Markov chain, an AR), each factor row is clipped, and
    R is at most 2 (upper - lower) times the greatest number of factor rows that read one record.

    The posterior is that of the clipped score (a Gibbs, or generalized, posterior). The prior must
    be proper, since a clipped likelihood vanishes nowhere. Flat priors are refused; that the prior
    is proper otherwise is a claim on the certificate.

    References
    ----------
    Theory T25: ``c(x, theta) = clip(log p(x | theta), a, b)`` has ``|c(x, .) - c(y, .)| <= b - a``,
    hence R <= 2 (b - a) in T1. Bissiri, Holmes and Walker (2016) for the posterior of a score.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_private as pmp
    >>> with pm.Model(coords={"visit": range(4)}) as model:
    ...     _ = pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=[0, 2, 1, 3], dims="visit")
    >>> private = pmp.privatize(model, records="visit", domain={"y": (0, 50)})
    >>> pmp.certify(pmp.clip(private, lower=-5)).range
    10.0
    """
    private = require_private_model(private)
    refuse_improper(private, "clipped")
    low = finite_number("lower bound of a clip", lower)
    high = (
        _proved_upper(private) if upper is None else finite_number("upper bound of a clip", upper)
    )
    _refuse_disorder(low, high, given=upper is not None)
    if private.graph.clip is not None:
        low, high = _intersected_clips(private.graph.clip, (low, high))
    graph = clipped_graph(private.graph, (low, high), private.sources, private.n)
    return private.with_graph(graph)


def finite_number(name: str, value: Any) -> float:
    """A finite number; anything else is refused."""
    real = isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)
    if not real or not abs(value) <= sys.float_info.max:
        raise DomainError(
            f"the {name} must be a finite number",
            got=repr(value),
            allowed="a finite number",
            do="choose it without looking at the data, for example from the prior predictive",
        )
    return float(value)


def _refuse_disorder(low: float, high: float, given: bool) -> None:
    """Refuse bounds that are not in order, or too far apart for floats."""
    if not low < high or not math.isfinite(2.0 * (high - low)):
        raise DomainError(
            "a clip needs room between its bounds",
            got=f"lower = {low:.12g}, upper = {high:.12g}" + ("" if given else " (proved)"),
            allowed="lower < upper, and not the whole range of floats",
            do="choose a smaller lower bound" if high <= low else "choose bounds that are nearer",
        )


def _intersected_clips(first: ClipBounds, second: ClipBounds) -> ClipBounds:
    """The bounds that two clips leave."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    if not low < high:
        raise DomainError(
            "this model is clipped already, and the two clips have no room in common",
            got=f"[{second[0]:.12g}, {second[1]:.12g}]",
            allowed=f"bounds that meet [{first[0]:.12g}, {first[1]:.12g}]",
            do="clip the model from before the first clip",
        )
    return low, high


def refuse_improper(private: PrivateModel, changed: str) -> None:
    """Refuse flat priors that no box makes proper, for a likelihood that is changed so."""
    improper = [
        rv.name
        for rv in private.base.free_RVs
        if distribution_class(rv) in IMPROPER_PRIORS and not private.box[rv.name].is_finite
    ]
    if improper:
        raise DomainError(
            f"a {changed} likelihood needs a proper prior, or there is no posterior",
            got=f"an improper prior of {', '.join(improper)}",
            allowed="proper priors, or a finite box for every Flat or HalfFlat variable",
            do=f"pmp.trim(private, box={{'{improper[0]}': (..., ...)}}) first, or write a "
            "Normal or HalfNormal prior",
        )


def _proved_upper(private: PrivateModel) -> float:
    """A bound of each record's log-likelihood: 0 for discrete data, else what intervals prove."""
    if private.graph.clip is not None:
        return private.graph.clip[1]
    observed = {rv.name: rv for rv in private.base.observed_RVs}
    discrete = [
        name in observed and not observed[name].type.dtype.startswith(("float", "complex"))
        for name in private.graph.factors
    ]
    if all(discrete) and not private.graph.windows:
        return 0.0  # a probability is at most 1
    rows = RecordBounds(private.graph, private.sources, private.n)
    if private.graph.windows:  # parts of a factor; their records need not lie in one cell
        proved = float(np.max(rows.trail(private.box)[private.graph.record].upper))
    else:
        proved = float(np.max(rows.table(private.box)[1]))
    if not math.isfinite(proved):
        raise DomainError(
            "no finite upper bound of one record's log-likelihood is proved",
            got=f"upper=None with {', '.join(private.graph.factors)}",
            allowed="upper=None where all factors are discrete observed variables, or where "
            "intervals bound the log-likelihood over the domain and the box",
            do="give `upper`, in nats (a potential has no natural one; a density has one where "
            "its scale is bounded below: pmp.trim)",
        )
    return proved


def clipped_range(private: PrivateModel, readers: int = 1) -> Fraction | None:
    """2 (upper - lower), which bounds R at power 1 (T25); None if nothing is clipped.

    Under add/remove it is upper - lower. Where several factor rows read a record, each of them is
    clipped, and their ranges add (T24).
    """
    if private.graph.clip is None:
        return None
    low, high = private.graph.clip
    width = readers * (Fraction(high) - Fraction(low))
    return width if private.neighbors == ADD_REMOVE else 2 * width


def clip_claims(private: PrivateModel) -> tuple[str, ...]:
    """What a clip assumes, and the choice it makes."""
    if private.graph.clip is None:
        return ()
    factors = ", ".join(private.graph.factors)
    whole = (
        f"a part of {factors}" if private.graph.windows else f"the sum of its factors ({factors})"
    )
    return (
        f"{describe_clip(private.graph)}: {whole}, constants (binomial "
        "coefficients, the unit of continuous data) included; chosen without looking at the data",
        "the prior is proper on the region, as the posterior of a clipped score needs",
    )
