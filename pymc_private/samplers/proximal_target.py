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
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from scipy.sparse import csr_array

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
"""Relative radius up to which a coefficient is a number and its rounding."""
ENOUGH_CURVATURE = 1.0
"""S r^2 from which on a parameter needs no helper."""
ADDED_PRECISION_NATS = 1.0
"""s, all helpers together."""


@dataclass(frozen=True, eq=False)
class GaussianReference:
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


def gaussian_reference(private: PrivateModel, found: Concavity) -> GaussianReference:
    """Find the law of the start. Reads no data.

    Raises
    ------
    Unsupported
        A prior of dependent parameters that is not Gaussian; or one that is flat, or of unbounded
        slope, along a parameter without two ends.
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
    """The curvature of each predictor that the law of the start has: a normal law's own."""
    one = np.where(curves.quadratic, curves.smooth, curves.sure)
    return np.asarray((curves.sure + one) / 2.0)


def _independent_reference(private: PrivateModel, found: Concavity) -> GaussianReference:
    """One parameter at a time: entry i of every array is about theta_i."""
    c, a = found.prior.curves, _prior_coefficients(found)
    square, size = a.T**2, np.abs(a.T)
    least = proved_curvature(c)
    s, most = square @ least, _multiply(square, np.maximum(c.smooth, least))
    steep = _multiply(size, np.maximum(np.abs(c.low), np.abs(c.high)))
    jump = _multiply(size, np.where(np.isinf(c.smooth), c.high - c.low, 0.0))
    low, high = _box_bounds(private)
    half = (high - low) / 2.0
    plain = (s > 0.0) & np.all((a.T == 0.0) | c.quadratic, axis=1)  # normal: no residual at all
    helped = ~plain & ((s == 0.0) | (s < ENOUGH_CURVATURE / half**2))
    lost = ~plain & ~(np.isfinite(steep) & np.isfinite(half))
    if np.any(lost):
        raise _unbounded_parameters(private, lost)
    k = np.zeros(len(s))
    k[helped] = 2.0 * ADDED_PRECISION_NATS / (np.count_nonzero(helped) * half[helped] ** 2)
    total = s + k
    center = np.where(np.isfinite(half), low, 0.0) + np.where(np.isfinite(half), half, 0.0)
    if np.any(plain):
        center = np.where(plain, _gaussian_center(private, np.diag(total)), center)
    far = np.maximum(np.abs(high - center), np.abs(low - center))
    slope = np.where(plain, 0.0, steep + total * far) / np.sqrt(total)
    exponent = float(np.sum(k[helped] * half[helped] ** 2)) / 2.0
    return GaussianReference(
        center, np.diag(total), s / total, float(np.exp(-exponent)) * (1.0 - RELATIVE_SLACK),
        float(np.linalg.norm(slope)) * (1.0 + RELATIVE_SLACK),
        float(np.sum(np.where(np.isinf(most), 0.0, most - s) / total)),
        float(np.sum(jump / np.sqrt(total))), is_prior=False,
    )  # fmt: skip


def _prior_coefficients(found: Concavity) -> np.ndarray:
    """Coefficients of the prior's predictors, shape (k, d), each of which reads one parameter."""
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
    """matrix @ values, where nothing times infinity is nothing."""
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
        got=f"{', '.join(names)}: neither Gaussian nor of bounded slope between two ends",
        allowed="Normal, HalfNormal, TruncatedNormal and MvNormal priors; in a box that stays away "
        "from where the log density or its slope is infinite, any log-concave prior",
        do="pmp.trim(private, mass=0.99) or box={...}",
    )


def _box_bounds(private: PrivateModel) -> tuple[np.ndarray, np.ndarray]:
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    return lower, upper


def _gaussian_center(private: PrivateModel, precision: np.ndarray) -> np.ndarray:
    """Where the gradient of a quadratic log prior is zero, from its gradient inside the box."""
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
"""By graph: plans of one model ask at many powers and boxes."""


def _gradient_of_prior(graph: RecordGraph, inputs: list[Variable]) -> list[Variable]:
    if graph not in _PRIOR_GRADIENTS:
        with without_tracebacks():
            found = pytensor.grad(graph.prior, inputs, disconnected_inputs="ignore")
        _PRIOR_GRADIENTS[graph] = list(found)
    return _PRIOR_GRADIENTS[graph]


def _interior_point(box: Bounds) -> np.ndarray:
    """A point inside a box that may be open: one unit from an end, or the middle."""
    low, high = np.asarray(box.lower, float), np.asarray(box.upper, float)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    return (low + np.where(np.isfinite(high), high, low + 2.0)) / 2.0


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
    start: GaussianReference

    @property
    def is_bounded(self) -> bool:
        """Whether there is a wall."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def back(self, z: np.ndarray) -> np.ndarray:
        """Parameters from whitened rows."""
        return self.center + z @ self.matrix


def prove_log_concave(private: PrivateModel) -> Concavity:
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
        A prior that `gaussian_reference` refuses, or walls that the new coordinates would turn.
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
    start = gaussian_reference(private, found)
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
    return _schedule_constants(private, whiten(private))[:2]


def _schedule_constants(private: PrivateModel, white: Whitening) -> tuple[float, float, float]:
    """The two of `public_constants`, and what slopes change at kinks."""
    found, start, n, power = prove_log_concave(private), white.start, private.n, private.power
    metric = found.prior_precision if start.is_prior else start.precision * (1.0 - RELATIVE_SLACK)
    trace = found.trace(metric, n, power) + start.trace
    jumps = found.jumps(metric, n, power) + start.jumps
    slope = found.steepness(metric, n, power) + start.slope
    gap = 0.5 * slope**2 / start.sobolev * (1.0 + RELATIVE_SLACK)
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
    trace, gap, jumps = _schedule_constants(private, white)
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
            got=f"{steps} for {format_count(private.n, 'record')} and "
            f"{format_count(dimension, 'parameter')} at power {float(private.power):.3g}",
            allowed=f"at most {MOST_STEPS}",
            do="a lower power (a smaller budget, or pmp.temper) needs fewer; or narrower priors or "
            "domains, or "
            + ("no box" if log_kl is None else "fewer bits= of the grid; or a delta"),
        )
    return ProximalSchedule(eta, steps, tv)


SPARSE_SHARE, LARGE_MATRIX = 0.2, 100_000
"""Share of coefficients that are not zero up to which, and number from which on, the rows are kept
without zeros."""


def make_posterior(private: PrivateModel) -> tuple[WhitenedPosterior, Whitening]:
    """The posterior with its data in whitened coordinates. Reads the data."""
    found, white = prove_log_concave(private), whiten(private)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `concavity` refused it
    data = record_inputs(private, record)
    columns = input_columns(record, private.sources, private.box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = PredictorFactor(record.value, record.parameters, private.box, columns)
    rows, offset = _whitened_coefficients(factor.cores, record, data, white, private.n)
    curve, smooth = _likelihood_curve(private, record, factor, data, found)
    if not white.start.is_prior:
        rest, at, residual, bend = _prior_residual_rows(private, record, found, white)
        curve = JoinedCurve(curve, residual, len(rows))
        rows, offset = np.concatenate([rows, rest]), np.concatenate([offset, at])
        smooth = np.concatenate([smooth, bend])
    walls = white.lower, white.upper
    kept = _compact_rows(rows, curve)
    return WhitenedPosterior(kept, offset, curve, smooth, *walls, own=white.start.own), white


def _compact_rows(rows: np.ndarray, curve: Curve) -> np.ndarray | csr_array | BlockMatrix:
    """Rows with what is zero in them left out, where that is much."""
    if rows.size <= LARGE_MATRIX:
        return rows
    if isinstance(curve, SoftmaxCurve) and (blocks := BlockMatrix.of(rows, curve.counts.shape[1])):
        return blocks
    return csr_array(rows) if np.count_nonzero(rows) < SPARSE_SHARE * rows.size else rows


def _prior_residual_rows(
    private: PrivateModel, record: SingleRecord, found: Concavity, white: Whitening
) -> tuple[np.ndarray, np.ndarray, PriorResidualCurve, np.ndarray]:
    """What a prior that is not Gaussian adds: its own predictors. Reads no data."""
    factor = PredictorFactor(
        simplify([log_prior_graph(private, record)])[0], record.parameters, private.box, []
    )
    flat = pt.concatenate([core.ravel() for core in factor.cores])
    zero = {v: pt.zeros(v.type.shape) for v in record.parameters.values()}
    raw = found.prior.a.center[0]
    rows = raw @ white.matrix.T
    at = ConcreteValues({})(rebuild([flat], zero)[0]) + raw @ white.center
    h = GeneralCurve(*_curve_functions(factor.h, factor.inputs, factor.sizes, {}, 1, 1.0))
    known = found.prior.curves
    sure = proved_curvature(known)
    # At a kink the steps that look for the mode need some curvature: the slope's jump squared.
    jump = np.where(np.isfinite(known.smooth), 0.0, known.high - known.low)
    smooth = np.where(np.isfinite(known.smooth), known.smooth - sure, jump**2)
    return rows, at, PriorResidualCurve(h, sure, at), smooth


def record_inputs(private: PrivateModel, record: SingleRecord) -> dict[Variable, np.ndarray]:
    """Every input of a single record, with all records along the first axis."""
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
    """What one record's predictors are where the parameters are zero, (k,), and slopes, (k, d)."""
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
    """Evaluate graphs of one record for all of them; what reads no record is repeated."""
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
    """h of the predictors, at the model's power, and a bound of its curvature for each row."""
    power, h, inputs = float_down(private.power), factor.h, factor.inputs
    bends = []
    for predictor, size in zip(found.predictors, factor.sizes, strict=True):
        soft = predictor.softmax
        if soft:
            bends.append(np.full(size, power * 0.5 * soft.weight))
            continue
        # At a kink the steps that look for the center need some curvature: the jump squared.
        jump = power * np.where(np.isfinite(predictor.smooth), 0.0, predictor.high - predictor.low)
        bends.append(np.where(jump == 0.0, power * predictor.smooth, jump**2))
    smooth = np.tile(np.concatenate(bends), private.n)
    special = stable_curve(private, h, inputs, record, data)
    if special is not None:
        return special, smooth
    general = GeneralCurve(*_curve_functions(h, inputs, factor.sizes, data, private.n, power))
    if found.predictors[0].softmax is not None:  # `softmax_of` proved the form
        return SoftmaxCurve.of_slope(general.derivative, private.n, factor.size), smooth
    return general, smooth


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
    ends = np.cumsum([0, *sizes])

    def split(u: np.ndarray) -> dict[Variable, np.ndarray]:
        chains = u.T.reshape(u.shape[1], n, -1)
        parts = [
            np.ascontiguousarray(chains[:, :, a:b]).reshape(len(chains), n, *v.type.shape)
            for v, a, b in zip(inputs, ends[:-1], ends[1:], strict=True)
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
