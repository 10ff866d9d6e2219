"""Log-concave posteriors of linear predictors, as the proximal sampler wants them (T21, T22).

Nothing here reads data; `linear_data` does. Coordinates are those in which the Gaussian prior is
standard: theta = center + W' z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.rebuild import untraced
from pymc_private.analysis.rows import Concrete
from pymc_private.errors import Unsupported
from pymc_private.models.concavity import concavity
from pymc_private.models.kinks import NotConcave
from pymc_private.models.log_concave import Concavity
from pymc_private.models.pinning import public_data
from pymc_private.models.precision import inverse_root
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.records import RecordGraph
from pymc_private.models.supports import ORDERED, transform_name
from pymc_private.privacy import proximal_steps
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.samplers.proximal import Schedule, step_size

MOST_STEPS = 100_000


@dataclass(frozen=True, eq=False)
class Whitening:
    """The prior as coordinates.

    Parameters
    ----------
    center : array, shape (d,)
        Mean of the prior, before any wall.
    matrix : array, shape (d, d)
        W with W'W the inverse of the prior's precision.
    lower, upper : array, shape (d,)
        The box in the new coordinates.
    """

    center: np.ndarray
    matrix: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

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
        return concavity(private)
    except NotConcave as error:
        raise Unsupported(
            "the proximal sampler needs a log-concave posterior",
            got=str(error),
            allowed="likelihoods concave in linear predictors, Gaussian priors of fixed scale",
            do="fix the scale parameter, or sampler='boxes' in few dimensions",
        ) from None


def whiten(private: PrivateModel) -> Whitening:
    """Find the coordinates of a Gaussian prior. Reads no data.

    Raises
    ------
    Unsupported
        Another prior, or walls that the new coordinates would turn.
    """
    found = concave(private)
    precision = found.gaussian
    if precision is None:
        raise Unsupported(
            "the proximal sampler starts from an exact draw of a Gaussian prior",
            got="a prior of another kind",
            allowed="Normal, HalfNormal, TruncatedNormal and MvNormal priors",
            do="write such a prior, or sampler='boxes' in few dimensions",
        )
    for name in private.shapes:
        if transform_name(private.base, private.base[name]) == ORDERED:
            raise Unsupported(
                "the proximal sampler does not keep the order of a vector's entries",
                got=f"'{name}' with an ordered transform",
                allowed="parameters that are free within a box",
                do="boxes of its entries that do not overlap and sampler='boxes'",
            )
    center = _prior_mean(private, precision)
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    matrix = inverse_root(precision)
    diagonal = np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0
    if not diagonal and (np.isfinite(lower).any() or np.isfinite(upper).any()):
        raise Unsupported(
            "a box does not stay one in the coordinates of a correlated prior",
            got="a trimmed MvNormal prior",
            allowed="independent priors where there is a box",
            do="leave it untrimmed (Gaussian privacy needs no box), or write independent priors",
        )
    if not diagonal:
        return Whitening(center, matrix, lower, upper)
    scale = np.diag(matrix)
    return Whitening(center, matrix, (lower - center) / scale, (upper - center) / scale)


def _prior_mean(private: PrivateModel, precision: np.ndarray) -> np.ndarray:
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


def public_constants(private: PrivateModel) -> tuple[float, float]:
    """Bounds of tr(A - P) and of the start's divergence, whatever the records. Reads no data.

    They say whether the model fits; how many steps it takes is known with its power.

    Raises
    ------
    Unsupported
        One of them is infinite, or the model has another form.
    """
    found = concave(private)
    whiten(private)
    trace = found.trace(found.prior_precision, private.n, private.power)
    gap = found.prior_gap(private.n, private.power)
    if not (math.isfinite(trace) and math.isfinite(gap)):
        raise Unsupported(
            "the number of steps of the proximal sampler has no public bound",
            got="curvature or slope of one record's log-likelihood without bound",
            allowed="records and parameters on which both are bounded",
            do="pmp.trim(private, mass=0.99) or box={...}",
        )
    return trace, gap


def plan_schedule(private: PrivateModel, tv: float) -> Schedule:
    """Step size and number of steps, from n, the domain, the prior, the power and t alone (T21).

    Raises
    ------
    Unsupported
        No finite bound on the start's divergence, or more steps than anybody would wait for.
    """
    trace, gap = public_constants(private)
    white = whiten(private)
    dimension = len(white.center)
    eta = step_size(trace, dimension, bounded=white.is_bounded)
    steps = proximal_steps(gap, tv, eta)
    if steps > MOST_STEPS:
        raise Unsupported(
            "the proximal sampler would take too many steps",
            got=f"{steps} for {private.n} records and {dimension} parameters at power "
            f"{float(private.power):.3g}",
            allowed=f"at most {MOST_STEPS}",
            do="a smaller budget tempers more and needs fewer; or narrower priors or domains, or "
            "no box",
        )
    return Schedule(eta, steps, tv)
