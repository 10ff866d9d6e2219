"""Log-concave posteriors in whitened coordinates, and their Gaussian reference (T21, T22).

The proximal sampler starts from a Gaussian reference distribution, the prior itself if that is
Gaussian; coordinates are those in which it is standard: theta = center + W' z. Step size and
number of steps follow from n, the domain, the prior, the power and t alone; only
`make_posterior` reads the data.

*Reference.* -log prior(theta) = (theta - c)'S(theta - c) / 2 + residual, with S what is proved
of its curvature and a convex residual: none for a Gaussian prior; for other priors of
independent parameters it joins the likelihood. Where S is zero or nearly so (Laplace,
Exponential, a logistic distribution in a box), a parameter needs a finite interval, and added
precision: for half width r it gets k more. The posterior is a distribution of curvature at
least S + K times e^(+ sum_i k_i (theta_i - c_i)^2 / 2), whose exponent varies over the box by
s = sum_i k_i r_i^2 / 2. So it has a log-Sobolev inequality of constant e^-s in the metric S +
K (Bakry and Emery 1985; Holley and Stroock 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pytensor
import pytensor.tensor as pt
import scipy
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph

from pymc_private.analysis import Bounds, simplify
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.traversal import rebuild, without_tracebacks
from pymc_private.certificates.curvature import DerivativeBounds, PredictorFactor
from pymc_private.certificates.linear_predictors import NotConcave
from pymc_private.certificates.log_concave import Concavity, concavity, log_prior_graph
from pymc_private.certificates.record_gradient import (
    RELATIVE_SLACK,
    NearlySingular,
    inverse_root,
    least_eigenvalue,
)
from pymc_private.errors import Unsupported
from pymc_private.models.distributions import ORDERED, transform_name
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood import Role, SingleRecord, input_columns, single_record
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy import proximal_steps, proximal_steps_to
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import float_down, format_count
from pymc_private.samplers.log_density import evaluate_in_floats
from pymc_private.samplers.proximal import (
    BlockMatrix,
    ProximalSchedule,
    WhitenedPosterior,
    step_size,
)
from pymc_private.samplers.proximal_likelihoods import (
    Curve,
    GeneralCurve,
    JoinedCurve,
    PriorResidualCurve,
    SoftmaxCurve,
    stable_curve,
)

RELATIVE_ROUNDING = 1e-12
"""Relative radius up to which a coefficient counts as a number with its rounding error."""
ENOUGH_CURVATURE = 1.0
"""S r^2 from which on a parameter needs no added precision."""
ADDED_PRECISION_NATS = 1.0
"""s, for all added precisions together."""
MOST_STEPS = 100_000
"""Steps beyond which a model is refused."""
SPARSE_SHARE, LARGE_MATRIX = 0.2, 100_000
"""Rows are stored without zeros if they have more numbers than `LARGE_MATRIX` and at most
`SPARSE_SHARE` of them are not zero."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates in which the Gaussian reference is standard: theta = center + W' z.

    Parameters
    ----------
    center : array, shape (d,)
        The mean of the reference, before truncation.
    matrix : array, shape (d, d)
        W with W'W the inverse of its precision.
    lower, upper : array, shape (d,)
        The box in the new coordinates.
    reference : GaussianReference
    """

    center: np.ndarray
    matrix: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    reference: GaussianReference

    @property
    def is_bounded(self) -> bool:
        """Whether any coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def to_parameters(self, z: np.ndarray) -> np.ndarray:
        """Parameters from rows of whitened coordinates."""
        return self.center + z @ self.matrix


def prove_log_concave(private: PrivateModel) -> Concavity:
    """Prove that the posterior is log-concave, with constants. Reads no data.

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
    """Find the coordinates in which the reference is standard. Reads no data.

    Raises
    ------
    Unsupported
        A prior that `gaussian_reference` refuses, or a box that the coordinates would rotate.
    """
    found = prove_log_concave(private)
    for name in private.shapes:
        if transform_name(private.base, private.base[name]) == ORDERED:
            raise Unsupported(
                "the proximal sampler does not keep the order of a vector's entries",
                got=f"'{name}' with an ordered transform",
                allowed="parameters that are free within a box",
                do="boxes of its entries that do not overlap and sampler='boxes'",
            )
    reference = gaussian_reference(private, found)
    center = reference.center
    lower, upper = box_bounds(private)
    matrix = inverse_root(reference.precision)
    diagonal = np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0
    if not diagonal and (np.isfinite(lower).any() or np.isfinite(upper).any()):
        raise Unsupported(
            "a box does not stay one in the coordinates of a correlated prior",
            got="a MvNormal prior in a box",
            allowed="independent priors where there is a box; a pure guarantee needs one",
            do="write it as mean + L @ z with z = pm.Normal('z', 0, 1, ...) and trim z; or leave "
            "it untrimmed, with a delta above zero",
        )
    if not diagonal:
        return Whitening(center, matrix, lower, upper, reference)
    scale = np.diag(matrix)
    return Whitening(center, matrix, (lower - center) / scale, (upper - center) / scale, reference)


def box_bounds(private: PrivateModel) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of all scalar parameters in the order of their names, each of shape (d,)."""
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(side, float)) for side in sides])
        for sides in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    return lower, upper


def public_constants(private: PrivateModel) -> tuple[float, float]:
    """Bounds of tr(A - P) and of the reference's divergence from the posterior, for all records.

    They decide whether the model fits; the number of steps depends on its power. Reads no data.

    Raises
    ------
    Unsupported
        One of them is infinite, or the model has another form.
    """
    return _schedule_constants(private, whiten(private))[:2]


def _schedule_constants(private: PrivateModel, white: Whitening) -> tuple[float, float, float]:
    """The two of `public_constants`, and the sum of slope jumps at kinks."""
    found, n, power = prove_log_concave(private), private.n, private.power
    reference = white.reference
    precision = reference.precision * (1.0 - RELATIVE_SLACK)
    metric = found.prior_precision if reference.is_prior else precision
    trace = found.trace(metric, n, power) + reference.trace
    jumps = found.jumps(metric, n, power) + reference.jumps
    slope = found.steepness(metric, n, power) + reference.slope
    gap = 0.5 * slope**2 / reference.log_sobolev * (1.0 + RELATIVE_SLACK)
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
) -> ProximalSchedule:
    """Step size and number of steps, from n, the domain, the prior, the power and t alone (T21).

    `tv` is the total variation to reach; `log_kl`, if given, is instead the logarithm of the
    divergence to reach, which may be too small for a double.

    Raises
    ------
    Unsupported
        No finite bound of the initial divergence, or more than `MOST_STEPS` steps.
    """
    white = whiten(private)
    trace, gap, jumps = _schedule_constants(private, white)
    dimension = len(white.center)
    eta = step_size(trace, jumps=jumps)
    speed = eta * white.reference.log_sobolev
    if log_kl is None:
        steps = proximal_steps(gap, tv, speed)
    else:
        steps, tv = proximal_steps_to(gap, log_kl, speed), math.exp(log_kl / 2.0)  # Pinsker
    if steps > MOST_STEPS:
        raise Unsupported(
            "the proximal sampler would take too many steps",
            got=f"{steps} for {format_count(private.n, 'record')} and "
            f"{format_count(dimension, 'parameter')} at power {float(private.power):.3g}",
            allowed=f"at most {MOST_STEPS}",
            do="a lower power (a smaller budget, or pmp.temper) needs fewer; or narrower priors or "
            "domains, or "
            + ("no box" if log_kl is None else "fewer bits= of the grid; or a delta"),
        )
    return ProximalSchedule(eta, steps, tv)


@dataclass(frozen=True, eq=False)
class GaussianReference:
    """Gaussian distribution that chains start from, before truncation; bounds of the residual.

    Parameters
    ----------
    center : array, shape (d,)
    precision : array, shape (d, d)
        S + K.
    prior_curvature : array, shape (d,)
        S / (S + K): the prior's proved curvature where S + K is the identity.
    log_sobolev : float
        e^-s, rounded down.
    slope : float
        Bound of |(S + K)^(-1/2) grad log(reference / prior)| on the box.
    trace : float
        Bound of tr((S + K)^-1 (minus Hessian of the log prior - S)) away from kinks.
    jumps : float
        Sum of the jumps of the slope at kinks, in those coordinates.
    is_prior : bool
        Whether it is the prior itself, so that there is no residual.
    """

    center: np.ndarray
    precision: np.ndarray
    prior_curvature: np.ndarray
    log_sobolev: float = 1.0
    slope: float = 0.0
    trace: float = 0.0
    jumps: float = 0.0
    is_prior: bool = True


def gaussian_reference(private: PrivateModel, found: Concavity) -> GaussianReference:
    """Find the Gaussian reference of a model. Reads no data.

    Raises
    ------
    Unsupported
        A prior of dependent parameters that is not Gaussian; or one that is flat, or of unbounded
        slope, along a parameter without a finite interval.
    """
    gaussian = found.prior.gaussian
    if gaussian is not None and _is_definite(gaussian):
        center = _gaussian_center(private, gaussian)
        return GaussianReference(center, gaussian, np.ones(len(center)))
    return _independent_reference(private, found)


def _is_definite(matrix: np.ndarray) -> bool:
    try:
        least_eigenvalue(matrix)
    except NearlySingular:
        return False
    return True


def proved_curvature(curves: DerivativeBounds) -> np.ndarray:
    """Curvature of the reference along each predictor of the prior; of a normal prior, its own."""
    one = np.where(curves.quadratic, curves.smooth, curves.sure)
    return np.asarray((curves.sure + one) / 2.0)


def _independent_reference(private: PrivateModel, found: Concavity) -> GaussianReference:
    """Reference of independent parameters: entry i of every array is about theta_i."""
    curves, a = found.prior.curves, _prior_coefficients(found)
    square, size = a.T**2, np.abs(a.T)
    proved = proved_curvature(curves)
    s, most = square @ proved, _multiply(square, np.maximum(curves.smooth, proved))
    steepest = _multiply(size, np.maximum(np.abs(curves.low), np.abs(curves.high)))
    jump = _multiply(size, np.where(np.isinf(curves.smooth), curves.high - curves.low, 0.0))
    low, high = box_bounds(private)
    half = (high - low) / 2.0
    normal = (s > 0.0) & np.all((a.T == 0.0) | curves.quadratic, axis=1)  # then no residual
    added = ~normal & ((s == 0.0) | (s < ENOUGH_CURVATURE / half**2))
    unbounded = ~normal & ~(np.isfinite(steepest) & np.isfinite(half))
    if np.any(unbounded):
        raise _unbounded_parameters(private, unbounded)
    k = np.zeros(len(s))
    k[added] = 2.0 * ADDED_PRECISION_NATS / (np.count_nonzero(added) * half[added] ** 2)
    total = s + k
    center = np.where(np.isfinite(half), low, 0.0) + np.where(np.isfinite(half), half, 0.0)
    if np.any(normal):
        center = np.where(normal, _gaussian_center(private, np.diag(total)), center)
    radius = np.maximum(np.abs(high - center), np.abs(low - center))
    slope = np.where(normal, 0.0, steepest + total * radius) / np.sqrt(total)
    exponent = float(np.sum(k[added] * half[added] ** 2)) / 2.0
    return GaussianReference(
        center, np.diag(total), s / total, float(np.exp(-exponent)) * (1.0 - RELATIVE_SLACK),
        float(np.linalg.norm(slope)) * (1.0 + RELATIVE_SLACK),
        float(np.sum(np.where(np.isinf(most), 0.0, most - s) / total)),
        float(np.sum(jump / np.sqrt(total))), is_prior=False,
    )  # fmt: skip


def _prior_coefficients(found: Concavity) -> np.ndarray:
    """Coefficients of the prior's predictors, shape (k, d), each of a single parameter."""
    a, radius = found.prior.a.center[0], found.prior.a.radius[0]
    reads = (a != 0.0) | (radius > 0.0)
    if np.any(reads.sum(axis=1) > 1) or np.any(radius > RELATIVE_ROUNDING * np.abs(a)):
        raise Unsupported(
            "the proximal sampler knows dependent parameters under Gaussian priors only",
            got="a prior of another kind in which parameters meet",
            allowed="Gaussian priors, or log-concave priors of independent parameters",
            do="write such a prior, or sampler='boxes' in few dimensions",
        )
    return a


def _multiply(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """matrix @ values, with zero times infinity equal to zero."""
    with np.errstate(invalid="ignore"):
        return np.where(matrix == 0.0, 0.0, matrix * values).sum(axis=1)


def _unbounded_parameters(private: PrivateModel, which: np.ndarray) -> Unsupported:
    names, start = [], 0
    for name, shape in private.shapes.items():
        stop = start + int(np.prod(shape))
        if which[start:stop].any():
            names.append(f"'{name}'")
        start = stop
    return Unsupported(
        "the proximal sampler has no proved speed for this prior",
        got=f"{', '.join(names)}: neither Gaussian nor of bounded slope between two bounds",
        allowed="Normal, HalfNormal, TruncatedNormal and MvNormal priors; in a box that stays away "
        "from where the log density or its slope is infinite, any log-concave prior",
        do="pmp.trim(private, mass=0.99) or box={...}",
    )


def _gaussian_center(private: PrivateModel, precision: np.ndarray) -> np.ndarray:
    """Mode of a quadratic log prior, by one Newton step from a point inside the box."""
    inside = {name: _interior_point(box) for name, box in private.box.items()}
    graph = private.graph
    names = list(private.shapes)
    inputs = [graph.parameters[name] for name in names]
    given = {graph.parameters[name]: inside[name] for name in names}
    given |= {v: v.get_value() for v in public_data([graph.prior])}
    gradient = _gradient_of_prior(graph, inputs)
    concrete = ConcreteValues(given)
    slope = np.concatenate([np.ravel(concrete(g)) for g in gradient])
    at = np.concatenate([np.ravel(inside[name]) for name in names])
    return at + np.linalg.solve(precision, slope)


_PRIOR_GRADIENTS: WeakKeyDictionary[RecordGraph, list[Variable]] = WeakKeyDictionary()
"""Cache by graph: plans of one model need them at many powers and boxes."""


def _gradient_of_prior(graph: RecordGraph, inputs: list[Variable]) -> list[Variable]:
    if graph not in _PRIOR_GRADIENTS:
        with without_tracebacks():
            found = pytensor.grad(graph.prior, inputs, disconnected_inputs="ignore")
        _PRIOR_GRADIENTS[graph] = list(found)
    return _PRIOR_GRADIENTS[graph]


def _interior_point(box: Bounds) -> np.ndarray:
    """A point inside a box that may be unbounded: the middle, or one unit from its bound."""
    low, high = np.asarray(box.lower, float), np.asarray(box.upper, float)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    return (low + np.where(np.isfinite(high), high, low + 2.0)) / 2.0


def make_posterior(private: PrivateModel) -> tuple[WhitenedPosterior, Whitening]:
    """The posterior with its data in whitened coordinates. Reads the data."""
    found, white = prove_log_concave(private), whiten(private)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `prove_log_concave` refused it
    data = record_inputs(private, record)
    columns = input_columns(record, private.sources, private.box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = PredictorFactor(record.value, record.parameters, private.box, columns)
    rows, offset = _whitened_coefficients(factor.cores, record, data, white, private.n)
    curve, smoothness = _likelihood_curve(private, record, factor, data, found)
    if not white.reference.is_prior:
        more, shift, residual, bound = _prior_residual_rows(private, record, found, white)
        curve = JoinedCurve(curve, residual, len(rows))
        rows, offset = np.concatenate([rows, more]), np.concatenate([offset, shift])
        smoothness = np.concatenate([smoothness, bound])
    posterior = WhitenedPosterior(
        _compact_rows(rows, curve), offset, curve, smoothness, white.lower, white.upper,
        prior_curvature=white.reference.prior_curvature,
    )  # fmt: skip
    return posterior, white


def _compact_rows(
    rows: np.ndarray, curve: Curve
) -> np.ndarray | scipy.sparse.csr_array | BlockMatrix:
    """Rows in block or sparse form where most of them is zero."""
    if rows.size <= LARGE_MATRIX:
        return rows
    if isinstance(curve, SoftmaxCurve) and (blocks := BlockMatrix.of(rows, curve.counts.shape[1])):
        return blocks
    return (
        scipy.sparse.csr_array(rows) if np.count_nonzero(rows) < SPARSE_SHARE * rows.size else rows
    )


def _prior_residual_rows(
    private: PrivateModel, record: SingleRecord, found: Concavity, white: Whitening
) -> tuple[np.ndarray, np.ndarray, PriorResidualCurve, np.ndarray]:
    """Rows, offsets, curve and smoothness of a prior that is not Gaussian. Reads no data."""
    factor = PredictorFactor(
        simplify([log_prior_graph(private, record)])[0], record.parameters, private.box, []
    )
    flat = pt.concatenate([core.ravel() for core in factor.cores])
    zero = {v: pt.zeros(v.type.shape) for v in record.parameters.values()}
    raw = found.prior.a.center[0]
    rows = raw @ white.matrix.T
    offset = ConcreteValues({})(rebuild([flat], zero)[0]) + raw @ white.center
    h = GeneralCurve(*_curve_functions(factor.h, factor.inputs, factor.sizes, {}, 1, 1.0))
    known = found.prior.curves
    proved = proved_curvature(known)
    # At a kink the steps towards the mode need some curvature: the slope's jump squared.
    jump = np.where(np.isfinite(known.smooth), 0.0, known.high - known.low)
    smoothness = np.where(np.isfinite(known.smooth), known.smooth - proved, jump**2)
    return rows, offset, PriorResidualCurve(h, proved, offset), smoothness


def record_inputs(private: PrivateModel, record: SingleRecord) -> dict[Variable, np.ndarray]:
    """Inputs of the single-record graph, with all records along the first axis."""
    data = {record.data[s.name]: np.moveaxis(s.values(), s.axis, 0) for s in private.sources}
    return data | dict(record.public)


def _whitened_coefficients(
    cores: list[Variable],
    record: SingleRecord,
    data: dict[Variable, np.ndarray],
    white: Whitening,
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and offsets of all predictors in whitened coordinates: records first, then elements."""
    offset, raw = raw_coefficients(coefficient_graphs(cores, record), data, n)
    return raw @ white.matrix.T, offset + raw @ white.center


def coefficient_graphs(cores: list[Variable], record: SingleRecord) -> list[Variable]:
    """Graphs of one record's predictors at zero parameters, (k,), and their slopes, (k, d)."""
    inputs = list(record.parameters.values())
    flat = pt.concatenate([core.ravel() for core in cores])
    jacobian = pytensor.gradient.jacobian(flat, inputs, disconnected_inputs="ignore")
    size = int(np.sum([np.prod(core.type.shape) for core in cores]))
    slopes = pt.concatenate([j.reshape((size, -1)) for j in jacobian], axis=1)
    zero = {v: pt.zeros(v.type.shape) for v in inputs}
    return list(rebuild([flat, slopes], zero))


def raw_coefficients(
    graphs: list[Variable], data: dict[Variable, np.ndarray], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, (n k,), and coefficients of the parameters themselves, (n k, d). Reads the data."""
    offset, raw = _evaluate_over_records(graphs, data, n)
    size = int(offset.shape[1])
    return offset.reshape(n * size), raw.reshape(n * size, int(raw.shape[2]))


def _evaluate_over_records(
    outputs: list[Variable], data: dict[Variable, np.ndarray], n: int
) -> list[np.ndarray]:
    """Evaluate single-record graphs for all records; values that read no record are repeated."""
    batched = {v: pt.TensorType(v.type.dtype, (None, *v.type.shape))() for v in data}
    graphs = simplify(vectorize_graph(outputs, replace=batched))
    concrete = ConcreteValues({batched[v]: values for v, values in data.items()})
    found = []
    for graph, single in zip(graphs, outputs, strict=True):
        value = np.asarray(concrete(graph), dtype=float)
        missing = value.ndim == single.type.ndim
        found.append(np.broadcast_to(value, (n, *value.shape)) if missing else value)
    return found


def _likelihood_curve(
    private: PrivateModel,
    record: SingleRecord,
    factor: PredictorFactor,
    data: dict[Variable, np.ndarray],
    found: Concavity,
) -> tuple[Curve, np.ndarray]:
    """h of the predictors, at the model's power, and a smoothness bound for each row."""
    power, h, inputs = float_down(private.power), factor.h, factor.inputs
    bounds = []
    for predictor, size in zip(found.predictors, factor.sizes, strict=True):
        soft = predictor.softmax
        if soft:
            bounds.append(np.full(size, power * 0.5 * soft.weight))
            continue
        # At a kink the steps towards the center need some curvature: the jump squared.
        jump = power * np.where(np.isfinite(predictor.smooth), 0.0, predictor.high - predictor.low)
        bounds.append(np.where(jump == 0.0, power * predictor.smooth, jump**2))
    smoothness = np.tile(np.concatenate(bounds), private.n)
    special = stable_curve(private, h, inputs, record, data)
    if special is not None:
        return special, smoothness
    general = GeneralCurve(*_curve_functions(h, inputs, factor.sizes, data, private.n, power))
    if found.predictors[0].softmax is not None:  # `recognize_softmax` proved the form
        return SoftmaxCurve.of_slope(general.derivative, private.n, factor.size), smoothness
    return general, smoothness


def _curve_functions(
    h: Variable,
    inputs: list[Variable],
    sizes: list[int],
    data: dict[Variable, np.ndarray],
    n: int,
    power: float,
) -> tuple:
    """Functions of predictors of shape (n k, chains): h summed over elements, and its slope."""
    gradient = pytensor.grad(h, inputs, disconnected_inputs="ignore")
    wide = {u: pt.TensorType("float64", (None, None, *u.type.shape))() for u in inputs}
    fixed = {v: pt.TensorType(v.type.dtype, (1, None, *v.type.shape))() for v in data}
    graphs = simplify(vectorize_graph([h, *gradient], replace=wide | fixed))
    held = {fixed[v]: np.asarray(data[v])[None] for v in fixed}
    splits = np.cumsum([0, *sizes])

    def split(u: np.ndarray) -> dict[Variable, np.ndarray]:
        chains = u.T.reshape(u.shape[1], n, -1)
        parts = [
            np.ascontiguousarray(chains[:, :, a:b]).reshape(len(chains), n, *v.type.shape)
            for v, a, b in zip(inputs, splits[:-1], splits[1:], strict=True)
        ]
        return held | dict(zip(wide.values(), parts, strict=True))

    def values(u: np.ndarray) -> np.ndarray:
        return (
            power * np.broadcast_to(evaluate_in_floats(graphs[:1], split(u))[0], (u.shape[1], n)).T
        )

    def slopes(u: np.ndarray) -> np.ndarray:
        parts = evaluate_in_floats(graphs[1:], split(u))
        parts = [
            np.broadcast_to(p, (u.shape[1], n, *v.type.shape)).reshape(u.shape[1], n, -1)
            for p, v in zip(parts, inputs, strict=True)
        ]
        return power * np.concatenate(parts, axis=2).reshape(u.shape[1], -1).T

    return values, slopes
