"""The Gaussian law that a proximal sampler starts from, and how far the prior is from it (T21).

-log prior(theta) = (theta - c)'S(theta - c) / 2 + residual, with S what is proved of its curvature
and a convex residual: none for a Gaussian prior; for other priors of independent parameters it
joins the likelihood. Where S is zero or nearly so (Laplace, Exponential, a logistic law in a box),
a parameter needs two ends, and a helper: of half width r it gets the precision k more. The
posterior is a law of curvature at least S + K times e^(+ sum_i k_i (theta_i - c_i)^2 / 2), whose
exponent varies over the box by s = sum_i k_i r_i^2 / 2. So it has a log-Sobolev inequality of
constant e^-s in the metric S + K (Bakry and Emery 1985; Holley and Stroock 1987).
"""

from __future__ import annotations

import numpy as np
import pytensor
from dataclasses import dataclass
from weakref import WeakKeyDictionary
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.traversal__rebuild import untraced
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.errors import Unsupported
from pymc_private.certificates.curvature import Curves
from pymc_private.certificates.log_concave__log_concave import Concavity
from pymc_private.certificates.record_gradient__precision import NearlySingular, SHRINK, least_eigenvalue
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_graph import RecordGraph

ROUNDING = 1e-12
"""Relative radius up to which a coefficient is a number and its rounding."""
ENOUGH = 1.0
"""S r^2 from which on a parameter needs no helper."""
HELP = 1.0
"""s, all helpers together."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The law of the start, before any wall, and what the prior is besides.

    Parameters
    ----------
    center : array, shape (d,)
    precision : array, shape (d, d)
        S + K.
    own : array, shape (d,)
        S / (S + K): the curvature in the coordinates in which S + K is one.
    sobolev : float
        e^-s, rounded down.
    slope : float
        Bound of |(S + K)^(-1/2) grad log(start / prior)| on the box.
    trace : float
        Bound of tr((S + K)^-1 (minus Hessian of the log prior - S)) without its kinks.
    jumps : float
        Sum over kinks of the change of the slope, in those coordinates.
    is_prior : bool
        Whether it is the prior itself: then there is no residual.
    """

    center: np.ndarray
    precision: np.ndarray
    own: np.ndarray
    sobolev: float = 1.0
    slope: float = 0.0
    trace: float = 0.0
    jumps: float = 0.0
    is_prior: bool = True


def reference(private: PrivateModel, found: Concavity) -> Reference:
    """Find the law of the start. Reads no data.

    Raises
    ------
    Unsupported
        A prior of dependent parameters that is not Gaussian; or one that is flat, or of unbounded
        slope, along a parameter without two ends.
    """
    gaussian = found.prior.gaussian
    if gaussian is not None and _is_definite(gaussian):
        center = _newton(private, gaussian)
        return Reference(center, gaussian, np.ones(len(center)))
    return _independent(private, found)


def _is_definite(matrix: np.ndarray) -> bool:
    try:
        least_eigenvalue(matrix)
    except NearlySingular:
        return False
    return True


def sure_of(curves: Curves) -> np.ndarray:
    """The curvature of each predictor that the law of the start has: a normal law's own."""
    one = np.where(curves.quadratic, curves.smooth, curves.sure)
    return np.asarray((curves.sure + one) / 2.0)


def _independent(private: PrivateModel, found: Concavity) -> Reference:
    """One parameter at a time: entry i of every array is about theta_i."""
    c, a = found.prior.curves, _own_coefficients(found)
    square, size = a.T**2, np.abs(a.T)
    least = sure_of(c)
    s, most = square @ least, _times(square, np.maximum(c.smooth, least))
    steep = _times(size, np.maximum(np.abs(c.low), np.abs(c.high)))
    jump = _times(size, np.where(np.isinf(c.smooth), c.high - c.low, 0.0))
    low, high = _ends(private)
    half = (high - low) / 2.0
    plain = (s > 0.0) & np.all((a.T == 0.0) | c.quadratic, axis=1)  # normal: no residual at all
    helped = ~plain & ((s == 0.0) | (s < ENOUGH / half**2))
    lost = ~plain & ~(np.isfinite(steep) & np.isfinite(half))
    if np.any(lost):
        raise _without_ends(private, lost)
    k = np.zeros(len(s))
    k[helped] = 2.0 * HELP / (np.count_nonzero(helped) * half[helped] ** 2)
    total = s + k
    center = np.where(np.isfinite(half), low, 0.0) + np.where(np.isfinite(half), half, 0.0)
    if np.any(plain):
        center = np.where(plain, _newton(private, np.diag(total)), center)
    far = np.maximum(np.abs(high - center), np.abs(low - center))
    slope = np.where(plain, 0.0, steep + total * far) / np.sqrt(total)
    exponent = float(np.sum(k[helped] * half[helped] ** 2)) / 2.0
    return Reference(
        center, np.diag(total), s / total, float(np.exp(-exponent)) * (1.0 - SHRINK),
        float(np.linalg.norm(slope)) * (1.0 + SHRINK),
        float(np.sum(np.where(np.isinf(most), 0.0, most - s) / total)),
        float(np.sum(jump / np.sqrt(total))), is_prior=False,
    )  # fmt: skip


def _own_coefficients(found: Concavity) -> np.ndarray:
    """Coefficients of the prior's predictors, shape (k, d), each of which reads one parameter."""
    a, radius = found.prior.a.center[0], found.prior.a.radius[0]
    reads = (a != 0.0) | (radius > 0.0)
    if np.any(reads.sum(axis=1) > 1) or np.any(radius > ROUNDING * np.abs(a)):
        raise Unsupported(
            "the proximal sampler knows dependent parameters under Gaussian priors only",
            got="a prior of another kind in which parameters meet",
            allowed="Gaussian priors, or log-concave priors of independent parameters",
            do="write such a prior, or sampler='boxes' in few dimensions",
        )
    return a


def _times(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """matrix @ values, where nothing times infinity is nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(matrix == 0.0, 0.0, matrix * values).sum(axis=1)


def _without_ends(private: PrivateModel, which: np.ndarray) -> Unsupported:
    names, start = [], 0
    for name, shape in private.shapes.items():
        stop = start + int(np.prod(shape))
        if which[start:stop].any():
            names.append(f"'{name}'")
        start = stop
    return Unsupported(
        "the proximal sampler has no proved speed for this prior",
        got=f"{', '.join(names)}: neither Gaussian nor of bounded slope between two ends",
        allowed="Normal, HalfNormal, TruncatedNormal and MvNormal priors; in a box that stays away "
        "from where the log density or its slope is infinite, any log-concave prior",
        do="pmp.trim(private, mass=0.99) or box={...}",
    )


def _ends(private: PrivateModel) -> tuple[np.ndarray, np.ndarray]:
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    return lower, upper


def _newton(private: PrivateModel, precision: np.ndarray) -> np.ndarray:
    """Where the gradient of a quadratic log prior is zero, from its gradient inside the box."""
    inside = {name: _inside(box) for name, box in private.box.items()}
    graph = private.graph
    names = list(private.shapes)
    inputs = [graph.parameters[name] for name in names]
    given = {graph.parameters[name]: inside[name] for name in names}
    given |= {v: v.get_value() for v in public_data([graph.prior])}
    gradient = _gradient_of_prior(graph, inputs)
    concrete = Concrete(given)
    slope = np.concatenate([np.ravel(concrete(g)) for g in gradient])
    at = np.concatenate([np.ravel(inside[name]) for name in names])
    return at + np.linalg.solve(precision, slope)


_GRADIENTS: WeakKeyDictionary[RecordGraph, list[Variable]] = WeakKeyDictionary()
"""By graph: plans of one model ask at many powers and boxes."""


def _gradient_of_prior(graph: RecordGraph, inputs: list[Variable]) -> list[Variable]:
    if graph not in _GRADIENTS:
        with untraced():
            found = pytensor.grad(graph.prior, inputs, disconnected_inputs="ignore")
        _GRADIENTS[graph] = list(found)
    return _GRADIENTS[graph]


def _inside(box: Bounds) -> np.ndarray:
    """A point inside a box that may be open: one unit from an end, or the middle."""
    low, high = np.asarray(box.lower, float), np.asarray(box.upper, float)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    return (low + np.where(np.isfinite(high), high, low + 2.0)) / 2.0
