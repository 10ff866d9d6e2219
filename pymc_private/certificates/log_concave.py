"""Log-concave posteriors: the constants of T7 (Gaussian privacy) and T21 (proximal sampling).

-log posterior = -log prior - w sum_i log p(x_i | theta), over a convex region. If the prior is
strongly log-concave with precision P, and every record's log-likelihood concave, then -log
posterior is P-strongly convex for every dataset, and one exact draw is mu-GDP with mu = w sup
|P^(-1/2)(grad log p(x|.) - grad log p(y|.))| (Gopi, Lee and Liu 2022; T7, T22).

The precision of the joint prior is bounded in the same way as the likelihood: its factors read
affine forms of the parameters too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds, simplify
from pymc_private.analysis.traversal import rebuild, without_tracebacks
from pymc_private.certificates.curvature import DerivativeBounds, PredictorFactor, derivative_bounds
from pymc_private.certificates.linear_predictors import (
    Coefficients,
    NotConcave,
    predictor_coefficients,
)
from pymc_private.certificates.record_bounds import boxes_around, distinct_rows
from pymc_private.certificates.record_gradient import (
    RELATIVE_SLACK,
    NearlySingular,
    Predictor,
    are_disjoint,
    least_eigenvalue,
    precision_lower_bound,
    whitener,
)
from pymc_private.errors import NotCertified
from pymc_private.models.distributions import BOX_TRANSFORMS, ORDERED, transform_name
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood import (
    InputColumn,
    Role,
    SingleRecord,
    input_columns,
    single_record,
    static_size,
)
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import float_up

MOST_PARAMETERS = 2000


def concavity(private: PrivateModel, *, flat: bool = False) -> Concavity:
    """Prove that the posterior is strongly log-concave, whatever the records, and how strongly.

    Reads no data. The constants are those of the untempered likelihood. With `flat`, the prior need
    not be strongly log-concave: for samplers, not for T7.

    Raises
    ------
    NotConcave
        Saying which parameters, and why.
    """
    found = lazy_concavity(private)  # where this is proved, it is the answer to `flat` as well
    if flat and found.concavity is None:
        found = lazy_concavity(private, flat=True)
    if found.concavity is None:
        raise NotConcave(found.refusal)
    return found.concavity


def lazy_concavity(
    private: PrivateModel, record: SingleRecord | None = None, *, flat: bool = False
) -> LazyConcavity:
    """The answer of `concavity`, without proving it yet.

    `record` is that of the model, where it is known already.
    """
    try:
        _refuse_unsupported(private)
    except NotConcave as reason:
        return LazyConcavity(reason)
    known = _CACHE.setdefault(private.graph, {})
    key = (*_cache_key(private), flat)
    if key not in known:
        known[key] = LazyConcavity(_concavity_problem(private, record, flat=flat))
    return known[key]


class LazyConcavity:
    """The constants of T7 of one posterior, proved when they are first read.

    To prove them takes as long as R does. The problem is stated in full when this is made, without
    data: whatever becomes of the model, the answer is about the certified one.

    Parameters
    ----------
    known : ConcavityProblem, Concavity or NotConcave
        The problem, or its answer.
    """

    def __init__(self, known: ConcavityProblem | Concavity | NotConcave) -> None:
        self._known = known

    @cached_property
    def _answer(self) -> Concavity | NotConcave:
        known = self._known
        if isinstance(known, ConcavityProblem):
            try:
                with without_tracebacks():
                    known = _prove(known)
            except NotConcave as reason:
                known = reason
            except NotCertified as reason:
                known = NotConcave(reason.problem)
            self._known = known  # the graphs may go
        return known

    @property
    def concavity(self) -> Concavity | None:
        """What is proved, or None."""
        return self._answer if isinstance(self._answer, Concavity) else None

    @property
    def refusal(self) -> str:
        """Why nothing is proved; empty if something is."""
        return "" if isinstance(self._answer, Concavity) else str(self._answer)

    def __reduce__(self) -> tuple:
        # Graphs may hold local functions; answers are numbers.
        return LazyConcavity, (self._answer,)


_CACHE: WeakKeyDictionary[RecordGraph, dict[tuple, LazyConcavity]] = WeakKeyDictionary()
"""Answers for models that still exist: `certify` is called anew for each power and sampler."""


def _cache_key(private: PrivateModel) -> tuple:
    """All that an answer depends on besides the record's graph."""
    box = [
        (name, np.asarray(side, float).tobytes())
        for name, b in private.box.items()
        for side in (b.lower, b.upper)
    ]
    held = public_data([private.graph.record, private.graph.prior])  # `set_data` may change them
    values = [np.asarray(v.get_value()) for v in held]
    public = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
    return (tuple(box), public, private.n, private.neighbors, private.records_per_unit)


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
        Lower bound of what all n records together add to the precision, at power one.
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
        except NearlySingular:  # the precision of the prior alone is a lower bound as well
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
        return self._reach(whitener(self.precision(power)), power) * (1.0 + RELATIVE_SLACK)

    def smoothness(self, power: float | Fraction = 1) -> float:
        """beta of one record: an upper bound of minus its Hessian; infinite at kinks."""
        eye = np.eye(len(self.prior_precision))
        return float(power) * sum(p.trace(eye) for p in self.predictors)

    def trace(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of tr(M^-1 (A - P)) for the likelihood, whatever the n records are (T21).

        Without kinks, which are left to `jumps`.

        Parameters
        ----------
        metric : array, shape (d, d)
            M, positive definite.
        n : int
            Number of records.
        power : float
        """
        w = whitener(metric)
        return float(power) * n * sum(p.trace(w, kinks=False) for p in self.predictors)

    def jumps(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of what slopes change at kinks, summed over n records, in the norm of M^-1."""
        w = whitener(metric)
        return float(power) * n * sum(p.jumps(w) for p in self.predictors)

    def steepness(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of |M^(-1/2) w sum_i grad log p(x_i)| for n records, whatever they are (T21).

        The start of a proximal sampler is an exact draw from a distribution of precision M on the
        region, and this bounds the likelihood's part of the gradient of the log ratio of the
        posterior to it; with the prior's part, the log-Sobolev inequality (Bakry and Emery) bounds
        their divergence.
        """
        w = whitener(metric)
        return float_up(power) * n * sum(p.reach(w, of_difference=False) for p in self.predictors)

    def prior_gap(self, n: int, power: float | Fraction = 1) -> float:
        """Bound of KL(prior || posterior) for n records, whatever they are: half its square."""
        return 0.5 * self.steepness(self.prior_precision, n, power) ** 2 * (1.0 + RELATIVE_SLACK)

    def _reach(self, w: np.ndarray, power: float | Fraction) -> float:
        """sup |W (change of the gradient)| over neighbors."""
        substitute = self.neighbors != ADD_REMOVE
        parts = [p.reach(w, of_difference=substitute) for p in self.predictors]
        touched = [p.coefficients.touched(w).any(axis=0) for p in self.predictors]
        total = math.hypot(*parts) if are_disjoint(np.array(touched)) else sum(parts)
        return total * self.records_per_unit * float_up(power) * (1.0 + RELATIVE_SLACK)


@dataclass(frozen=True, eq=False)
class ConcavityProblem:
    """One record's density and the prior, with public data as numbers; see `concavity`.

    Parameters
    ----------
    record : SingleRecord
    prior : Variable, scalar
        Log density, of the record's parameters.
    columns : sequence of InputColumn
        What the density reads besides the parameters; no data.
    box : dict of str to Bounds
        Of the parameters.
    shapes : dict of str to tuple of int
        Of the parameters.
    neighbors : str
    records_per_unit : int
    n : int or None
        Number of records, where it is public.
    flat : bool
        Whether the prior need not be strongly log-concave.
    """

    record: SingleRecord
    prior: Variable
    columns: Sequence[InputColumn]
    box: Mapping[str, Bounds]
    shapes: Mapping[str, tuple[int, ...]]
    neighbors: str
    records_per_unit: int
    n: int | None
    flat: bool


def _concavity_problem(
    private: PrivateModel, record: SingleRecord | None, *, flat: bool
) -> ConcavityProblem | NotConcave:
    """The problem that a model states."""
    record = record or single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        return NotConcave("records are computed differently, by more than public rows of data")
    columns = input_columns(record, private.sources, private.box, ())
    return ConcavityProblem(
        record=record,
        prior=log_prior_graph(private, record),
        columns=[c for c in columns if c.role is not Role.POINT],
        box=dict(private.box),
        shapes=dict(private.shapes),
        neighbors=private.neighbors,
        records_per_unit=private.records_per_unit,
        n=private.n if private.neighbors != ADD_REMOVE else None,
        flat=flat,
    )


def _refuse_unsupported(private: PrivateModel) -> None:
    """Refuse regions that are not convex boxes, and neighbors and likelihoods outside of T22."""
    if private.graph.clip is not None:
        raise NotConcave("a clipped log-likelihood is not concave")
    if private.graph.windows:
        raise NotConcave("a record of a sequence is read by several factor rows")
    if private.theta_l is not None:
        raise NotConcave("the prior is restricted to a set that need not be convex")
    if private.metric is not None:
        raise NotConcave("neighbors at a distance have no Gaussian bound")
    for name, bounds in private.box.items():
        if transform_name(private.base, private.base[name]) not in {*BOX_TRANSFORMS, ORDERED}:
            raise NotConcave(f"the transform of '{name}' restricts it to a set that is not known")
        if bounds.within is not None:
            raise NotConcave(f"'{name}' is not free within its box")
        if not private.graph.parameters[name].type.dtype.startswith("float"):
            raise NotConcave(f"'{name}' is discrete")
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > MOST_PARAMETERS:
        raise NotConcave(f"{size} parameters are more than {MOST_PARAMETERS}")


def _prove(problem: ConcavityProblem) -> Concavity:
    """See `concavity`."""
    record, columns = problem.record, problem.columns
    rows = _exact_public_rows(record, columns)
    factor = PredictorFactor(record.value, record.parameters, problem.box, columns)
    factor.refuse_interactions()  # most models that are not concave end here, at little cost
    prior = prior_curvature(problem.prior, record.parameters, problem.box, flat=problem.flat)
    found = factor.curves(rows)
    predictors = _predictors(found, record, columns, rows)
    return Concavity(
        shapes=problem.shapes,
        prior_precision=prior.lower,
        prior=prior,
        sure=_certain_precision(predictors, len(prior.lower), problem.n),
        predictors=predictors,
        neighbors=problem.neighbors,
        records_per_unit=problem.records_per_unit,
        n=problem.n,
    )


def _exact_public_rows(record: SingleRecord, columns: Sequence[InputColumn]) -> np.ndarray | None:
    """Distinct values of what is public row by row; None if boxes around them would be needed."""
    shared = [c for c in columns if c.role is Role.SHARED]
    if not shared:
        return None
    rows = distinct_rows([record.public[c.variable] for c in shared])
    low, high = boxes_around(rows)
    return rows if low is high else None


def _predictors(
    found: DerivativeBounds,
    record: SingleRecord,
    columns: Sequence[InputColumn],
    rows: np.ndarray | None,
) -> tuple[Predictor, ...]:
    made, start = [], 0
    for core in found.predictors:
        part = slice(start, start + int(np.prod(core.type.shape)))
        start = part.stop
        a = predictor_coefficients([core], record.parameters, columns, rows)
        low, high, gap, smooth, sure = (
            array[part] for array in (found.low, found.high, found.gap, found.smooth, found.sure)
        )
        made.append(Predictor(a, low, high, gap, smooth, sure, found.softmax))
    return tuple(made)


def _certain_precision(predictors: Sequence[Predictor], size: int, n: int | None) -> np.ndarray:
    """Lower bound of what n records add to the precision: where a is the same for each."""
    total = np.zeros((size, size))
    for p in predictors if n is not None else ():
        a = p.coefficients
        if a.is_constant and p.softmax is None:
            total += n * precision_lower_bound(a, p.sure)
    return total


@dataclass(frozen=True, eq=False)
class PriorCurvature:
    """What is proved of minus the Hessian of the log prior.

    Parameters
    ----------
    lower : array, shape (d, d)
        It is at least this, which is positive definite unless `flat` priors were allowed.
    gaussian : array, shape (d, d), or None
        It is this everywhere, to the last digits: the log prior is quadratic on its region.
    curves : DerivativeBounds
        Slopes and curvatures in the prior's own predictors; these themselves are left out.
    a : Coefficients
        Of those predictors, the same for all records.
    """

    lower: np.ndarray
    gaussian: np.ndarray | None
    curves: DerivativeBounds
    a: Coefficients


def log_prior_graph(private: PrivateModel, record: SingleRecord) -> Variable:
    """The log prior as a function of a record's parameters, which have known shapes."""
    graph = private.graph
    swaps = {graph.parameters[name]: v for name, v in record.parameters.items()}
    swaps |= {v: pt.constant(v.get_value(), name=v.name) for v in public_data([graph.prior])}
    return rebuild([graph.prior], swaps, static_size)[0].sum()


def prior_curvature(
    value: Variable,
    parameters: Mapping[str, Variable],
    box: Mapping[str, Bounds],
    *,
    flat: bool = False,
) -> PriorCurvature:
    """Bound minus the Hessian of the log prior `value`; see `log_prior_graph`.

    With `flat`, a log-concave prior is enough, strongly so or not.

    Raises
    ------
    NotConcave
        The prior is not log-concave on its region, or not strongly.
    """
    try:
        found = derivative_bounds(simplify([value])[0], parameters, box, [])
    except NotConcave as error:
        raise NotConcave(f"the prior: {error}") from None
    if found.softmax is not None:
        raise NotConcave("the prior: a softmax has no strong concavity")
    a = predictor_coefficients(found.predictors, parameters, [])
    lower = precision_lower_bound(a, found.sure)
    try:
        if not flat:
            least_eigenvalue(lower)
    except NearlySingular:
        weakest = _weakest_parameters(
            a.outer(found.sure), {k: v.type.shape for k, v in parameters.items()}
        )
        raise NotConcave(
            f"the prior of {weakest} is not strongly log-concave on its region (as Laplace, "
            "Exponential, StudentT, uniform and flat priors are not), or not to enough digits"
        ) from None
    return PriorCurvature(
        lower=lower,
        gaussian=a.outer((found.sure + found.smooth) / 2.0) if found.is_quadratic else None,
        curves=replace(found, predictors=()),
        a=a,
    )


def _weakest_parameters(matrix: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The parameters along which a matrix has its least eigenvalue."""
    scale = np.sqrt(np.diag(matrix))
    scale = 1.0 / np.where(scale > 0.0, scale, 1.0)
    vectors = np.abs(np.linalg.eigh(matrix * np.outer(scale, scale))[1][:, 0])
    start, names = 0, []
    for name, shape in shapes.items():
        stop = start + int(np.prod(shape))
        if np.any(vectors[start:stop] > 1e-6):
            names.append(f"'{name}'")
        start = stop
    return ", ".join(names)
