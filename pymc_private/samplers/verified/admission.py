"""Models the verified proximal sampler admits, and the price of floating point (T21).

Admitted are logistic, linear and Poisson regressions with independent Normal priors whose
coefficients are copied from the data (`is_copied`), so that they are exact doubles. Omega, the
rounding of states, and its cost t_fp follow from public numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast, Identity, Mul, Neg, Second
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor

from pymc_private.analysis import simplify
from pymc_private.analysis.intervals.arrays import INDEXING_OPS
from pymc_private.certificates.curvature import PredictorFactor
from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import Role, SingleRecord, input_columns, single_record
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.samplers.proximal import ProximalSchedule, WhitenedPosterior
from pymc_private.samplers.proximal_likelihoods import (
    Curve,
    ExponentialCurve,
    LogisticCurve,
    QuadraticCurve,
    stable_form,
)
from pymc_private.samplers.proximal_target import (
    Whitening,
    box_bounds,
    coefficient_graphs,
    plan_schedule,
    prove_log_concave,
    public_constants,
    raw_coefficients,
    record_inputs,
    whiten,
)
from pymc_private.samplers.randomness import Randomness, round_to_grid, round_unbounded
from pymc_private.samplers.verified.arithmetic import (
    FUNCTION_ERROR,
    QUANTILE_ERROR,
    VerifiedCurve,
    VerifiedExponential,
    VerifiedLogistic,
    VerifiedPosterior,
    VerifiedQuadratic,
    most_additions,
    sum_error,
)
from pymc_private.samplers.verified.kernel import sample_verified

VERIFIED_CURVES: dict[Any, Callable[[np.ndarray, float], VerifiedCurve]] = {
    LogisticCurve: VerifiedLogistic,
    QuadraticCurve: VerifiedQuadratic,
    ExponentialCurve: VerifiedExponential,
}
"""Curves with error bounds."""
WEIGHT_MARGIN = 1.0 - 2.0**-40
"""Factor below 1 by more than the roundings of a weight and than the tolerance of its slope
(`proximal_likelihoods.SLOPE_TOLERANCE`): a lower power costs no more."""
ROUNDING_SHARE = 0.1
"""Share of t that rounding may always cost: a larger omega needs ball arithmetic less often."""
FARTHEST_MEAN = 32.0
"""Assumed bound of the norm of the posterior mean; it sets the running time alone."""
LARGEST_TV = 1e-3
"""Largest t_fp that is admitted."""
FARTHEST_CENTER = 2.0**16
"""Most standard deviations between proposals' center and the box; Arb's erfc fails soon after."""
COPYING_OPS = (
    Alloc,
    DimShuffle,
    Reshape,
    ScalarFromTensor,
    SpecifyShape,
    TensorFromScalar,
    *INDEXING_OPS,
)
"""Ops that copy their first input; further inputs are sizes and indices."""


@dataclass(frozen=True, eq=False)
class VerifiedForm:
    """An admitted model, without its data.

    Parameters
    ----------
    white : Whitening
    record : SingleRecord
    graphs : list of Variable
        Offsets and coefficients of one record.
    curve : callable
        Class of the likelihood's curve, called with outcomes and weight.
    observed : Variable
    weight : float
        At power one.
    smoothness : float
        beta of the curve at power one.
    """

    white: Whitening
    record: SingleRecord
    graphs: list[Variable]
    curve: Callable[[np.ndarray, float], Curve]
    observed: Variable
    weight: float
    smoothness: float


def recognize_verified(private: PrivateModel) -> VerifiedForm:
    """Recognize a model whose draws are proved in floating point. Reads no data.

    Raises
    ------
    Unsupported
        Another prior or likelihood, or coefficients that the graph computes.
    """
    found, white = prove_log_concave(private), whiten(private)
    _check_gaussian_prior(white)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `prove_log_concave` refused it
    columns = input_columns(record, private.sources, private.box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = PredictorFactor(record.value, record.parameters, private.box, columns)
    special = stable_form(private, factor.h, factor.inputs, record)
    if special is None or special[0] not in VERIFIED_CURVES:
        raise _not_verified(
            "a likelihood, or a predictor, whose float error is not bounded in the form it has",
            "logistic (Bernoulli with logit_p), linear (Normal with a known scale) and Poisson "
            "(with a log link) regression on x @ b, or a + x @ b with a prior on a",
            "make a fixed shift or factor of the predictor part of the data or of a prior",
        )
    graphs = list(simplify(coefficient_graphs(factor.cores, record)))
    if not all(map(is_copied, graphs)):
        raise _not_verified(
            "predictors whose coefficients the model computes from the data",
            "coefficients that are columns of the data, as they are, or constants",
            "compute the columns before, and give them to the model as data",
        )
    curve, observed, weight = special
    smoothness = float(np.max(found.predictors[0].smooth))
    return VerifiedForm(white, record, graphs, curve, observed, weight, smoothness)


def _check_gaussian_prior(white: Whitening) -> None:
    if not white.reference.is_prior:
        raise _not_verified(
            "a prior that is not Gaussian", "Normal priors of independent parameters"
        )
    if np.count_nonzero(white.matrix - np.diag(np.diag(white.matrix))):
        raise _not_verified("a correlated prior", "Normal priors of independent parameters")


def _not_verified(got: str, allowed: str, do: str = "") -> Unsupported:
    return Unsupported(
        "no claim in floating point is proved here: strict=True with proximal",
        got=got,
        allowed=allowed,
        do=f"{do}{'; or ' if do else ''}sampler='grid' in few dimensions, or strict=False",
    )


def plan_verified(private: PrivateModel, tv: float) -> tuple[ProximalSchedule, RoundingCost]:
    """Schedule, and the cost of floating point. Reads no data.

    Raises
    ------
    Unsupported
        As `recognize_verified`, `plan_schedule` and `rounding_cost`.
    """
    recognize_verified(private)
    schedule, white = plan_schedule(private, tv), whiten(private)
    trace, gap = public_constants(private)
    slope = math.sqrt(2.0 * gap)
    if white.is_bounded:
        check_box(schedule, slope, np.array([white.lower, white.upper]))
    n, dimension = int(private.n or 0), len(white.center)
    return schedule, rounding_cost(schedule, n, dimension, trace, slope, bounded=white.is_bounded)


def make_verified_posterior(private: PrivateModel) -> tuple[VerifiedPosterior, WhitenedPosterior]:
    """The posterior with its data, verified and in floats. Reads the data."""
    form = recognize_verified(private)
    data = record_inputs(private, form.record)
    offset, raw = raw_coefficients(form.graphs, data, private.n)
    weight = form.weight * float(private.power) * WEIGHT_MARGIN
    y = np.asarray(data[form.observed], dtype=float)
    scale = np.diag(form.white.matrix).copy()
    curve = VERIFIED_CURVES[form.curve](y, weight)
    posterior = VerifiedPosterior(
        raw, offset, form.white.center, scale, curve, *box_bounds(private)
    )
    smoothness = form.smoothness * float(private.power)
    return posterior, WhitenedPosterior(
        posterior.rows,
        posterior.whitened_offset,
        form.curve(y, weight),
        smoothness,
        form.white.lower,
        form.white.upper,
    )


def verified_draws(
    private: PrivateModel,
    draws: int,
    randomness: Randomness,
    progress: Callable[[int], None] = lambda done: None,
    *,
    tv: float,
) -> dict[str, np.ndarray]:
    """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data."""
    schedule, cost = plan_verified(private, tv)
    posterior, in_floats = make_verified_posterior(private)
    publish = partial(_round_to_public_grids, posterior=posterior)
    values = sample_verified(
        posterior, in_floats, schedule, cost.omega, draws, randomness, publish, progress
    )
    splits = np.cumsum([int(np.prod(shape)) for shape in private.shapes.values()])[:-1]
    return {
        name: part.reshape(draws, *shape)
        for (name, shape), part in zip(
            private.shapes.items(), np.split(values, splits, axis=1), strict=True
        )
    }


def _round_to_public_grids(values: np.ndarray, posterior: VerifiedPosterior) -> np.ndarray:
    """Round parameters of shape (m, d) to the public grids, coordinate by coordinate."""
    low, high = posterior.lower, posterior.upper
    found = np.clip(round_unbounded(values, posterior.scale), low, high)
    boxed = np.isfinite(low) & np.isfinite(high)
    if boxed.any():
        found[:, boxed] = round_to_grid(values[:, boxed], low[boxed], high[boxed])
    return found


@dataclass(frozen=True)
class RoundingCost:
    """Largest distance of a state from the ideal one, and its cost.

    Parameters
    ----------
    omega : float
        In l2, in whitened coordinates.
    tv : float
        t_fp, which is added to t.
    """

    omega: float
    tv: float


def rounding_cost(
    schedule: ProximalSchedule,
    n: int,
    dimension: int,
    trace: float,
    slope: float,
    *,
    bounded: bool = False,
) -> RoundingCost:
    """Choose omega from public numbers: about the accuracy of floats, or more if t allows it.

    For all records, `trace` bounds tr(A - P) and `slope` the gradient of the log-likelihood;
    `bounded` says whether any parameter has a finite bound. The cost is k omega / sqrt(2 pi eta)
    for k steps, see `kernel.sample_verified`. Any omega is sound: states that floats do not keep
    this accurate are computed in balls.

    Raises
    ------
    Unsupported
        It would cost more than `LARGEST_TV`.
    """
    unit = math.sqrt(2.0 * math.pi * schedule.eta)
    usual = _typical_error(schedule.eta, n, dimension, trace, slope, bounded)
    omega = max(usual, ROUNDING_SHARE * schedule.tv * unit / max(schedule.steps, 1))
    tv = schedule.steps * omega / unit * (1.0 + 1e-9)
    if tv > LARGEST_TV:
        raise Unsupported(
            "floating point would cost more than the draws themselves",
            got=f"{format_count(schedule.steps, 'step')} with {format_count(n, 'record')}, "
            f"{format_number(tv)} in total variation",
            allowed=f"at most {LARGEST_TV:g}",
            do="a smaller power or a larger tv takes fewer steps; or strict=False",
        )
    return RoundingCost(omega, tv)


def check_box(schedule: ProximalSchedule, slope: float, bounds: np.ndarray) -> None:
    """Refuse a box whose truncated proposals may leave the range of Arb's erfc.

    `slope` is that of `rounding_cost`, `bounds` are those of whitened coordinates. Proposals about
    any m are centered at (y / eta + pull(m)) / (1 + 1 / eta), |pull| <= slope, and y differs from a
    point of the box by noise: so the center lies beyond a bound by at most sqrt(eta) (slope +
    |bound|) standard deviations, and about ten for the noise.
    """
    farthest = float(np.abs(bounds[np.isfinite(bounds)]).max(initial=0.0))
    steep = math.sqrt(schedule.eta) * (slope + farthest)
    if steep > FARTHEST_CENTER:
        raise Unsupported(
            "no claim in floating point is proved here: strict=True with proximal",
            got=f"records that may push {format_number(steep)} standard deviations beyond the box",
            allowed=f"at most {FARTHEST_CENTER:g}",
            do="a smaller power, narrower domains, or strict=False",
        )


def _typical_error(
    eta: float, n: int, dimension: int, trace: float, slope: float, bounded: bool
) -> float:
    """Generous estimate of the running error bound of a state, whose terms `kernel` lists."""
    far = 2.0 * math.sqrt(dimension) + min(slope, FARTHEST_MEAN)
    each = 3.0 * QUANTILE_ERROR + (32.0 * FUNCTION_ERROR if bounded else 0.0)
    noise = each * math.sqrt(dimension * eta) + 2.0**-49 * far
    heavy = min(slope, trace * far) + trace
    likelihood = trace * sum_error(dimension + 2) * far + heavy * (
        FUNCTION_ERROR + sum_error(most_additions(n))
    )
    return 2.0 * (noise + likelihood / (1.0 + 1.0 / eta))


def is_copied(variable: Variable) -> bool:
    """Whether every element is a constant, an input's element, or one times a power of two.

    Such values are exact in doubles; indices may be computed, from integers. False also where it
    is unknown.
    """
    node = variable.owner
    if node is None:
        return True
    op: Any = node.op
    if isinstance(op, COPYING_OPS):
        return is_copied(node.inputs[0]) and _are_integers(node.inputs[1:])
    if isinstance(op, Join | MakeVector):  # some versions hold the axis among the inputs
        return all(map(is_copied, node.inputs))
    if isinstance(op, IncSubtensor):
        fresh = op.set_instead_of_inc or _adds_to_zeros(node)
        return fresh and all(map(is_copied, node.inputs[:2])) and _are_integers(node.inputs[2:])
    if isinstance(op, AdvancedIncSubtensor):
        single = len(node.inputs) == 3 and set(node.inputs[2].type.shape) <= {1}
        fresh = op.set_instead_of_inc or (single and _is_zero(node.inputs[0]))
        return fresh and all(map(is_copied, node.inputs[:2])) and _are_integers(node.inputs[2:])
    return isinstance(op, Elemwise) and _elementwise_copies(op.scalar_op, node)


def _elementwise_copies(op: Any, node: Apply) -> bool:
    if isinstance(op, Cast):
        return node.outputs[0].type.dtype == "float64" and is_copied(node.inputs[0])
    if isinstance(op, Identity | Neg):
        return is_copied(node.inputs[0])
    if isinstance(op, Second):
        return is_copied(node.inputs[1])
    if isinstance(op, Mul):
        others = [v for v in node.inputs if not _is_power_of_two(v)]
        return len(others) <= 1 and all(map(is_copied, others))
    return False


def _are_integers(variables: list[Variable]) -> bool:
    dtypes = {str(getattr(v.type, "dtype", "int64"))[0] for v in ancestors(variables)}
    return dtypes <= set("iub")


def _constant_value(variable: Variable) -> np.ndarray | None:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle | Alloc):
        variable = variable.owner.inputs[0]
    return np.asarray(variable.data) if isinstance(variable, Constant) else None


def _is_power_of_two(variable: Variable) -> bool:
    value = _constant_value(variable)
    return value is not None and bool(np.all(np.isin(np.abs(np.frexp(value)[0]), (0.0, 0.5))))


def _is_zero(variable: Variable) -> bool:
    value = _constant_value(variable)
    return value is not None and bool(np.all(value == 0.0))


def _adds_to_zeros(node: Apply) -> bool:
    """Whether successive increments of a zero array change different elements."""
    elements: list[tuple[int, ...] | None] = []
    base: Variable = node.outputs[0]
    while base.owner is not None and isinstance(base.owner.op, IncSubtensor):
        elements.append(_incremented_element(base.owner))
        base = base.owner.inputs[0]
    if not _is_zero(base):
        return False
    known = [element for element in elements if element is not None]
    return len(elements) == 1 or len(known) == len(elements) == len(set(known))


def _incremented_element(node: Apply) -> tuple[int, ...] | None:
    """Index of the single element that is incremented, or None."""
    op: Any = node.op
    if any(isinstance(index, slice) for index in op.idx_list):
        return None
    values = [_constant_value(v) for v in node.inputs[2:]]
    numbers = [int(v) for v in values if v is not None and v.ndim == 0 and v >= 0]
    whole = len(numbers) == len(values) == node.inputs[0].type.ndim
    return tuple(numbers) if whole else None
