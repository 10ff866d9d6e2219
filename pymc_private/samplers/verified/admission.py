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

ROUNDING_SHARE = 0.1
"""Of t, which rounding may cost at least: a wide omega asks for fewer balls."""
FARTHEST_MEAN = 32.0
"""Norm up to which a posterior's mean is expected to lie: it sets the cost in time alone."""
LARGEST_TV = 1e-3
"""Largest t_fp."""
STEEPEST_WALL = 2.0**16
"""Standard deviations that proposals may be centered beyond a wall: Arb's erfc ends soon after."""


@dataclass(frozen=True)
class RoundingCost:
    """How far a state may be from where it should be, and what that costs.

    Parameters
    ----------
    omega : float
        In l2, in whitened coordinates.
    tv : float
        t_fp, which adds to t.
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
    """Choose omega, from public numbers: about what floats keep, or more if t allows it.

    Parameters
    ----------
    schedule : Schedule
    n, dimension : int
    trace : float
        Bound of tr(A - P), whatever the records.
    slope : float
        Bound of the slope of the log-likelihood at any parameter, whatever the records.
    bounded : bool
        Whether there are walls.

    Raises
    ------
    Unsupported
        It would cost more than `LARGEST_TV`.

    Notes
    -----
    k omega / sqrt(2 pi eta) for k steps; see `chains.sample_strict`. Any omega is sound: what
    floats do not keep is computed in balls.
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


def check_walls(schedule: ProximalSchedule, slope: float, walls: np.ndarray) -> None:
    """Refuse walls that the likelihood may push against harder than balls can follow.

    Proposals about any m are centered at (y / eta + pull(m)) / (1 + 1 / eta), |pull| <= slope, and
    y is noise away from the box: beyond a wall by sqrt(eta) (slope + |wall|) of their standard
    deviations at most, and some ten for the noise.

    Parameters
    ----------
    schedule : Schedule
    slope : float
        As for `rounding_cost`, a bound here.
    walls : array
        Ends of whitened coordinates; may be infinite.
    """
    ends = float(np.abs(walls[np.isfinite(walls)]).max(initial=0.0))
    steep = math.sqrt(schedule.eta) * (slope + ends)
    if steep > STEEPEST_WALL:
        raise Unsupported(
            "no claim in floating point is proved here: strict=True with proximal",
            got=f"records that may push {format_number(steep)} standard deviations beyond a wall",
            allowed=f"at most {STEEPEST_WALL:g}",
            do="a smaller power, narrower domains, or strict=False",
        )


def _typical_error(
    eta: float, n: int, dimension: int, trace: float, slope: float, bounded: bool
) -> float:
    """A generous guess of the bound that runs beside a state: `kernel` tells its terms."""
    far = 2.0 * math.sqrt(dimension) + min(slope, FARTHEST_MEAN)
    each = 3.0 * QUANTILE_ERROR + (32.0 * FUNCTION_ERROR if bounded else 0.0)
    noise = each * math.sqrt(dimension * eta) + 2.0**-49 * far
    heavy = min(slope, trace * far) + trace
    likelihood = trace * sum_error(dimension + 2) * far + heavy * (
        FUNCTION_ERROR + sum_error(most_additions(n))
    )
    return 2.0 * (noise + likelihood / (1.0 + 1.0 / eta))


COPYING_OPS = (
    Alloc,
    DimShuffle,
    Reshape,
    ScalarFromTensor,
    SpecifyShape,
    TensorFromScalar,
    *INDEXING_OPS,
)
"""Ops that copy their first input; the others are sizes and indices."""


def is_copied(variable: Variable) -> bool:
    """Whether every element is a constant, an input's element, or one times a power of two.

    Of a double that is exact; indices may be computed, from whole numbers.

    Parameters
    ----------
    variable : Variable

    Returns
    -------
    bool
        False also where it is not known.
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
    kinds = {str(getattr(v.type, "dtype", "int64"))[0] for v in ancestors(variables)}
    return kinds <= set("iub")


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
    """Whether an increment is of elements that are zero: each place of a row of them is another."""
    places: list[tuple[int, ...] | None] = []
    base: Variable = node.outputs[0]
    while base.owner is not None and isinstance(base.owner.op, IncSubtensor):
        places.append(_incremented_element(base.owner))
        base = base.owner.inputs[0]
    if not _is_zero(base):
        return False
    known = [place for place in places if place is not None]
    return len(places) == 1 or len(known) == len(places) == len(set(known))


def _incremented_element(node: Apply) -> tuple[int, ...] | None:
    """The one element that is incremented, if it is known."""
    op: Any = node.op
    if any(isinstance(index, slice) for index in op.idx_list):
        return None
    values = [_constant_value(v) for v in node.inputs[2:]]
    numbers = [int(v) for v in values if v is not None and v.ndim == 0 and v >= 0]
    whole = len(numbers) == len(values) == node.inputs[0].type.ndim
    return tuple(numbers) if whole else None


VERIFIED_CURVES: dict[Any, Callable[[np.ndarray, float], VerifiedCurve]] = {
    LogisticCurve: VerifiedLogistic,
    QuadraticCurve: VerifiedQuadratic,
    ExponentialCurve: VerifiedExponential,
}
"""Likelihoods with running bounds."""
WEIGHT_MARGIN = 1.0 - 2.0**-40
"""More than the few roundings that a weight goes through, and than digits of a slope that nobody
tells apart (`likelihoods.DIGITS`): a lower power costs no more."""


@dataclass(frozen=True, eq=False)
class VerifiedForm:
    """A model that fits, without its data.

    Parameters
    ----------
    white : Whitening
    record : SingleRecord
    graphs : list of Variable
        Offsets and coefficients of one record.
    kind : callable
        Makes the curve of the likelihood from outcomes and weight.
    observed : Variable
    weight : float
        At power one.
    smooth : float
        beta of the curve at power one.
    """

    white: Whitening
    record: SingleRecord
    graphs: list[Variable]
    kind: Callable[[np.ndarray, float], Curve]
    observed: Variable
    weight: float
    smooth: float


def recognize_verified(private: PrivateModel) -> VerifiedForm:
    """Recognize a model whose draws are proved in floating point. Reads no data.

    Raises
    ------
    Unsupported
        Another prior, another likelihood, or coefficients that are computed.
    """
    found, white = prove_log_concave(private), whiten(private)
    _check_gaussian_prior(white)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `concavity` refused it
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
    kind, observed, weight = special
    smooth = float(np.max(found.predictors[0].smooth))
    return VerifiedForm(white, record, graphs, kind, observed, weight, smooth)


def plan_verified(private: PrivateModel, tv: float) -> tuple[ProximalSchedule, RoundingCost]:
    """Schedule, and what floating point adds. Reads no data.

    Raises
    ------
    Unsupported
        As `recognize_verified`, `linear.plan_schedule` and `price.rounding`.
    """
    recognize_verified(private)
    schedule, white = plan_schedule(private, tv), whiten(private)
    trace, gap = public_constants(private)
    slope = math.sqrt(2.0 * gap)
    if white.is_bounded:
        check_walls(schedule, slope, np.array([white.lower, white.upper]))
    n, dimension = int(private.n or 0), len(white.center)
    return schedule, rounding_cost(schedule, n, dimension, trace, slope, bounded=white.is_bounded)


def make_verified_posterior(private: PrivateModel) -> tuple[VerifiedPosterior, WhitenedPosterior]:
    """The posterior with its data, exact and in floats. Reads the data."""
    form = recognize_verified(private)
    data = record_inputs(private, form.record)
    offset, raw = raw_coefficients(form.graphs, data, private.n)
    weight = form.weight * float(private.power) * WEIGHT_MARGIN
    y = np.asarray(data[form.observed], dtype=float)
    scale = np.diag(form.white.matrix).copy()
    curve = VERIFIED_CURVES[form.kind](y, weight)
    records = VerifiedPosterior(raw, offset, form.white.center, scale, curve, *_box_bounds(private))
    smooth = form.smooth * float(private.power)
    walls = form.white.lower, form.white.upper
    return records, WhitenedPosterior(
        records.rows, records.level, form.kind(y, weight), smooth, *walls
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
    schedule, lost = plan_verified(private, tv)
    records, structure = make_verified_posterior(private)
    publish = partial(_round_to_public_grids, records=records)
    values = sample_verified(
        records, structure, schedule, lost.omega, draws, randomness, publish, progress
    )
    ends = np.cumsum([int(np.prod(shape)) for shape in private.shapes.values()])[:-1]
    return {
        name: part.reshape(draws, *shape)
        for (name, shape), part in zip(
            private.shapes.items(), np.split(values, ends, axis=1), strict=True
        )
    }


def _round_to_public_grids(values: np.ndarray, records: VerifiedPosterior) -> np.ndarray:
    """Round parameters of shape (m, d) to the public grids, coordinate by coordinate."""
    low, high = records.lower, records.upper
    found = np.clip(round_unbounded(values, records.scale), low, high)
    boxed = np.isfinite(low) & np.isfinite(high)
    if boxed.any():
        found[:, boxed] = round_to_grid(values[:, boxed], low[boxed], high[boxed])
    return found


def _box_bounds(private: PrivateModel) -> list[np.ndarray]:
    """Ends of all parameters."""
    boxes = [private.box[name] for name in private.shapes]
    pairs = zip(*((b.lower, b.upper) for b in boxes), strict=True)
    return [np.concatenate([np.ravel(np.asarray(end, float)) for end in ends]) for ends in pairs]


def _check_gaussian_prior(white: Whitening) -> None:
    if not white.start.is_prior:
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
