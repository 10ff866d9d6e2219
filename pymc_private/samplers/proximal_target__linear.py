"""Log-concave posteriors of linear predictors, as the proximal sampler wants them (T21, T22).

Nothing here reads data; `linear_data` does. Coordinates are those in which the law of the start, a
Gaussian prior itself, is standard: theta = center + W' z.
"""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from pymc_private.errors import Unsupported
from pymc_private.certificates.log_concave import concavity
from pymc_private.certificates.linear_predictors__kinks import NotConcave
from pymc_private.certificates.log_concave__log_concave import Concavity
from pymc_private.certificates.record_gradient__precision import SHRINK, inverse_root
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.distributions import ORDERED, transform_name
from pymc_private.privacy import proximal_steps, proximal_steps_to
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.proximal import Schedule, step_size
from pymc_private.samplers.proximal_target import Reference, reference

MOST_STEPS = 100_000


@dataclass(frozen=True, eq=False)
class Whitening:
    """The law of the start as coordinates.

    Parameters
    ----------
    center : array, shape (d,)
        Its mean, before any wall.
    matrix : array, shape (d, d)
        W with W'W the inverse of its precision.
    lower, upper : array, shape (d,)
        The box in the new coordinates.
    start : Reference
    """

    center: np.ndarray
    matrix: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    start: Reference

    @property
    def is_bounded(self) -> bool:
        """Whether there is a wall."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def back(self, z: np.ndarray) -> np.ndarray:
        """Parameters from whitened rows."""
        return self.center + z @ self.matrix


def concave(private: PrivateModel) -> Concavity:
    """What is proved of the posterior. Reads no data.

    Raises
    ------
    Unsupported
        The posterior is not proved to be log-concave, with the reason.
    """
    if private.neighbors == ADD_REMOVE:
        raise Unsupported(
            "the proximal sampler takes a number of steps that depends on the number of records",
            got="add/remove neighbors, where that number is protected",
            allowed="neighbors='substitute'",
            do="substitution neighbors, or sampler='boxes' in few dimensions",
        )
    try:
        return concavity(private, flat=True)
    except NotConcave as error:
        raise Unsupported(
            "the proximal sampler needs a log-concave posterior",
            got=str(error),
            allowed="likelihoods concave in linear predictors, log-concave priors of fixed scale",
            do="fix the scale parameter, or sampler='boxes' in few dimensions",
        ) from None


def whiten(private: PrivateModel) -> Whitening:
    """Find the coordinates of the law of the start. Reads no data.

    Raises
    ------
    Unsupported
        A prior that `reference` refuses, or walls that the new coordinates would turn.
    """
    found = concave(private)
    for name in private.shapes:
        if transform_name(private.base, private.base[name]) == ORDERED:
            raise Unsupported(
                "the proximal sampler does not keep the order of a vector's entries",
                got=f"'{name}' with an ordered transform",
                allowed="parameters that are free within a box",
                do="boxes of its entries that do not overlap and sampler='boxes'",
            )
    start = reference(private, found)
    center = start.center
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    matrix = inverse_root(start.precision)
    diagonal = np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0
    if not diagonal and (np.isfinite(lower).any() or np.isfinite(upper).any()):
        raise Unsupported(
            "a box does not stay one in the coordinates of a correlated prior",
            got="a MvNormal prior in a box",
            allowed="independent priors where there is a box; a pure promise needs one",
            do="write it as mean + L @ z with z = pm.Normal('z', 0, 1, ...) and trim z; or leave "
            "it untrimmed, with a delta above zero",
        )
    if not diagonal:
        return Whitening(center, matrix, lower, upper, start)
    scale = np.diag(matrix)
    return Whitening(center, matrix, (lower - center) / scale, (upper - center) / scale, start)


def public_constants(private: PrivateModel) -> tuple[float, float]:
    """Bounds of tr(A - P) and of the start's divergence, whatever the records. Reads no data.

    They say whether the model fits; how many steps it takes is known with its power.

    Raises
    ------
    Unsupported
        One of them is infinite, or the model has another form.
    """
    return _constants(private, whiten(private))[:2]


def _constants(private: PrivateModel, white: Whitening) -> tuple[float, float, float]:
    """The two of `public_constants`, and what slopes change at kinks."""
    found, start, n, power = concave(private), white.start, private.n, private.power
    metric = found.prior_precision if start.is_prior else start.precision * (1.0 - SHRINK)
    trace = found.trace(metric, n, power) + start.trace
    jumps = found.jumps(metric, n, power) + start.jumps
    slope = found.steepness(metric, n, power) + start.slope
    gap = 0.5 * slope**2 / start.sobolev * (1.0 + SHRINK)
    if not all(map(math.isfinite, (trace, jumps, gap))):
        raise Unsupported(
            "the number of steps of the proximal sampler has no public bound",
            got="curvature or slope of one record's log-likelihood without bound",
            allowed="records and parameters on which both are bounded",
            do="pmp.trim(private, mass=0.99) or box={...}",
        )
    return trace, gap, jumps


def plan_schedule(
    private: PrivateModel, tv: float = 0.0, *, log_kl: float | None = None
) -> Schedule:
    """Step size and number of steps, from n, the domain, the prior, the power and t alone (T21).

    Parameters
    ----------
    private : PrivateModel
    tv : float
        Total variation to be reached.
    log_kl : float, optional
        Logarithm of the divergence to be reached instead; it may be far below any double's.

    Raises
    ------
    Unsupported
        No finite bound on the start's divergence, or more steps than anybody would wait for.
    """
    white = whiten(private)
    trace, gap, jumps = _constants(private, white)
    dimension = len(white.center)
    eta = step_size(trace, jumps=jumps)
    speed = eta * white.start.sobolev
    if log_kl is None:
        steps = proximal_steps(gap, tv, speed)
    else:
        steps, tv = proximal_steps_to(gap, log_kl, speed), math.exp(log_kl / 2.0)  # Pinsker
    if steps > MOST_STEPS:
        raise Unsupported(
            "the proximal sampler would take too many steps",
            got=f"{steps} for {counted(private.n, 'record')} and "
            f"{counted(dimension, 'parameter')} at power {float(private.power):.3g}",
            allowed=f"at most {MOST_STEPS}",
            do="a lower power (a smaller budget, or pmp.temper) needs fewer; or narrower priors or "
            "domains, or "
            + ("no box" if log_kl is None else "fewer bits= of the grid; or a delta"),
        )
    return Schedule(eta, steps, tv)
