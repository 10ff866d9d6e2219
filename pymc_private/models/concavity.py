"""Log-concave posteriors: the constants of T7 (Gaussian privacy) and T21 (proximal sampling).

-log posterior = -log prior - w sum_i log p(x_i | theta), over a convex region. If the prior is
strongly log-concave with precision P, and every record's log-likelihood concave, then -log
posterior is P-strongly convex for every dataset, and one exact draw is mu-GDP with
mu = w sup |P^(-1/2)(grad log p(x|.) - grad log p(y|.))| (Gopi, Lee and Liu 2022; T7, T22).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from weakref import WeakKeyDictionary

import numpy as np

from pymc_private.analysis.rebuild import untraced
from pymc_private.models.columns import columns_of
from pymc_private.models.coordinates import Column, Role
from pymc_private.models.curvature import Curves, curves
from pymc_private.models.jacobian import coefficients
from pymc_private.models.kinks import NotConcave
from pymc_private.models.pinning import public_data
from pymc_private.models.precision import (
    SHRINK,
    NearlySingular,
    least_eigenvalue,
    lower_bound,
    whitener,
)
from pymc_private.models.predictor import Predictor, are_disjoint
from pymc_private.models.prior_curvature import PriorCurvature, prior_curvature
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.public_rows import boxes_around, distinct_rows
from pymc_private.models.records import RecordGraph
from pymc_private.models.single_record import SingleRecord, single_record
from pymc_private.models.supports import BOXABLE, ORDERED, transform_name
from pymc_private.privacy.neighbors import ADD_REMOVE

MOST_PARAMETERS = 2000


@dataclass(frozen=True, eq=False)
class Concavity:
    """What is proved of a log-concave posterior, for every dataset of the domain.

    Attributes
    ----------
    shapes : dict of str to tuple of int
        Of the parameters, in the order in which theta holds them, raveled, in natural units.
    prior_precision : array, shape (d, d)
        Minus the Hessian of the log prior is at least this.
    prior : PriorCurvature
        Where that comes from; its `gaussian` is the precision of a Gaussian prior.
    sure : array, shape (d, d)
        What all n records together add to the precision, whatever they are, at power one.
    predictors : tuple of Predictor
    neighbors : str
    records_per_unit : int
    n : int or None
        Number of records, where it is public.
    """

    shapes: Mapping[str, tuple[int, ...]]
    prior_precision: np.ndarray
    prior: PriorCurvature
    sure: np.ndarray
    predictors: tuple[Predictor, ...]
    neighbors: str
    records_per_unit: int
    n: int | None

    def precision(self, power: float | Fraction = 1) -> np.ndarray:
        """P: minus the Hessian of the log posterior is at least this."""
        whole = self.prior_precision + float(power) * self.sure
        try:
            whitener(whole)
        except NearlySingular:  # what the prior alone has is a lower bound as well
            return self.prior_precision
        return whole

    def strength(self, power: float | Fraction = 1) -> float:
        """m: the least eigenvalue of P, rounded down."""
        return least_eigenvalue(self.precision(power))

    def gradient(self, power: float | Fraction = 1) -> float:
        """G: sup of the l2 norm of the gradient that one unit can change; maybe infinite."""
        return self._reach(np.eye(len(self.prior_precision)), power)

    def mu(self, power: float | Fraction = 1) -> float:
        """mu of one exact draw (T7): sup |P^(-1/2) grad|, at most G / sqrt(m); maybe infinite."""
        return self._reach(whitener(self.precision(power)), power) * (1.0 + SHRINK)

    def smoothness(self, power: float | Fraction = 1) -> float:
        """beta of one record: an upper bound of minus its Hessian; infinite at kinks."""
        eye = np.eye(len(self.prior_precision))
        return float(power) * sum(p.trace(eye) for p in self.predictors)

    def trace(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of tr(M^-1 (A - P)) for the likelihood, whatever the n records are (T21).

        Parameters
        ----------
        metric : array, shape (d, d)
            M, positive definite.
        n : int
            Number of records.
        power : float
        """
        w = whitener(metric)
        return float(power) * n * sum(p.trace(w) for p in self.predictors)

    def steepness(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of |M^(-1/2) w sum_i grad log p(x_i)| for n records, whatever they are (T21).

        The start of a proximal sampler is an exact draw of a law of precision M on the region, of
        which the posterior is a known slope away; the log-Sobolev inequality (Bakry and Emery)
        then bounds their divergence.
        """
        w = whitener(metric)
        return _up(power) * n * sum(p.reach(w, of_difference=False) for p in self.predictors)

    def prior_gap(self, n: int, power: float | Fraction = 1) -> float:
        """Bound of KL(prior || posterior) for n records, whatever they are: half its square."""
        return 0.5 * self.steepness(self.prior_precision, n, power) ** 2 * (1.0 + SHRINK)

    def _reach(self, w: np.ndarray, power: float | Fraction) -> float:
        """sup |W (change of the gradient)| over neighbors."""
        substitute = self.neighbors != ADD_REMOVE
        parts = [p.reach(w, of_difference=substitute) for p in self.predictors]
        touched = [p.coefficients.touched(w).any(axis=0) for p in self.predictors]
        total = math.hypot(*parts) if are_disjoint(np.array(touched)) else sum(parts)
        return total * self.records_per_unit * _up(power) * (1.0 + SHRINK)


def _up(power: float | Fraction) -> float:
    nearest = float(power)
    return nearest if Fraction(nearest) >= power else math.nextafter(nearest, math.inf)


def concavity(private: PrivateModel, *, flat: bool = False) -> Concavity:
    """Prove that the posterior is strongly log-concave, whatever the records, and how strongly.

    Reads no data.

    Parameters
    ----------
    private : PrivateModel
    flat : bool
        Whether the prior need not be strongly log-concave: for samplers, not for T7.

    Returns
    -------
    Concavity
        Of the untempered likelihood.

    Raises
    ------
    NotConcave
        Saying which parameters, and why.
    """
    _refuse_forms(private)
    found = _PROVED.setdefault(private.graph, {})
    key = (*_question(private), flat)
    if key not in found:
        try:
            with untraced():
                found[key] = _proved(private, flat=flat)
        except NotConcave as reason:
            found[key] = reason
    answer = found[key]
    if isinstance(answer, NotConcave):
        raise NotConcave(str(answer))
    return answer


_PROVED: WeakKeyDictionary[RecordGraph, dict[tuple, Concavity | NotConcave]] = WeakKeyDictionary()
"""Answers of models that are still around: `certify` is asked for each power and sampler anew."""


def _question(private: PrivateModel) -> tuple:
    """All that an answer rests on besides the record's graph."""
    ends = [
        (name, np.asarray(end, float).tobytes())
        for name, b in private.box.items()
        for end in (b.lower, b.upper)
    ]
    held = public_data([private.graph.record, private.graph.prior])  # `set_data` may change them
    values = [np.asarray(v.get_value()) for v in held]
    public = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
    return (tuple(ends), public, private.n, private.neighbors, private.records_per_unit)


def _proved(private: PrivateModel, *, flat: bool) -> Concavity:
    """See `concavity`."""
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise NotConcave("records are computed differently, by more than public rows of data")
    box = private.box
    columns = columns_of(record, private.sources, box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    rows = _public_rows(record, columns)
    prior = prior_curvature(private, record, flat=flat)
    found = curves(record.value, record.parameters, box, columns, rows)
    predictors = _predictors(found, record, columns, rows)
    known = private.n if private.neighbors != ADD_REMOVE else None
    return Concavity(
        shapes=dict(private.shapes),
        prior_precision=prior.lower,
        prior=prior,
        sure=_sure(predictors, len(prior.lower), known),
        predictors=predictors,
        neighbors=private.neighbors,
        records_per_unit=private.records_per_unit,
        n=known,
    )


def _refuse_forms(private: PrivateModel) -> None:
    """Regions that are not convex boxes, neighbors and likelihoods that T22 does not speak of."""
    if private.graph.clip is not None:
        raise NotConcave("a clipped log-likelihood is not concave")
    if private.graph.windows:
        raise NotConcave("a record of a sequence is read by several factor rows")
    if private.theta_l is not None:
        raise NotConcave("the prior is restricted to a set that need not be convex")
    if private.metric is not None:
        raise NotConcave("neighbors at a distance have no Gaussian bound")
    for name, bounds in private.box.items():
        if transform_name(private.base, private.base[name]) not in {*BOXABLE, ORDERED}:
            raise NotConcave(f"the transform of '{name}' restricts it to a set that is not known")
        if bounds.within is not None:
            raise NotConcave(f"'{name}' is not free within its box")
        if not private.graph.parameters[name].type.dtype.startswith("float"):
            raise NotConcave(f"'{name}' is discrete")
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > MOST_PARAMETERS:
        raise NotConcave(f"{size} parameters are more than {MOST_PARAMETERS}")


def _public_rows(record: SingleRecord, columns: Sequence[Column]) -> np.ndarray | None:
    """Distinct values of what is public row by row; none if boxes around them would be needed."""
    shared = [c for c in columns if c.role is Role.SHARED]
    if not shared:
        return None
    rows = distinct_rows([record.public[c.variable] for c in shared])
    low, high = boxes_around(rows)
    return rows if low is high else None


def _predictors(
    found: Curves, record: SingleRecord, columns: Sequence[Column], rows: np.ndarray | None
) -> tuple[Predictor, ...]:
    made, start = [], 0
    for core in found.predictors:
        part = slice(start, start + int(np.prod(core.type.shape)))
        start = part.stop
        a = coefficients([core], record.parameters, columns, rows)
        low, high, gap, smooth, sure = (
            array[part] for array in (found.low, found.high, found.gap, found.smooth, found.sure)
        )
        made.append(Predictor(a, low, high, gap, smooth, sure, found.softmax))
    return tuple(made)


def _sure(predictors: Sequence[Predictor], size: int, n: int | None) -> np.ndarray:
    """What n records add to the precision for certain: where a is the same for each of them."""
    total = np.zeros((size, size))
    for p in predictors if n is not None else ():
        a = p.coefficients
        if a.is_constant and p.softmax is None:
            total += n * lower_bound(a, p.sure)
    return total
