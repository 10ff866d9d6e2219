"""Log-concave posteriors of linear predictors, as the proximal sampler wants them (T21, T22).

The public half (`Whitening`, `plan_schedule`) reads model and domain; `make_structure` reads
the data. Coordinates are those in which the Gaussian prior is standard: theta = center + W' z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import simplify
from pymc_private.analysis.rebuild import rebuild
from pymc_private.analysis.rows import Concrete
from pymc_private.errors import Unsupported
from pymc_private.models.concavity import Concavity, concavity, whitener
from pymc_private.models.coordinates import Role
from pymc_private.models.curvature import Factor
from pymc_private.models.kinks import NotConcave
from pymc_private.models.pinning import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.quadruples import columns_of
from pymc_private.models.single_record import SingleRecord, single_record
from pymc_private.privacy import proximal_steps
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.samplers.curves import Curve, General
from pymc_private.samplers.likelihoods import special_curve
from pymc_private.samplers.proximal import Schedule, Structure, step_size

MOST_STEPS = 100_000
SAME = 1e-6
"""Relative difference of the prior's two curvature bounds below which it counts as Gaussian."""


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


@lru_cache(maxsize=16)
def concave(private: PrivateModel) -> Concavity:
    """What is proved of the posterior, kept for the same model. Reads no data.

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
    precision, smooth = found.prior_precision, found.prior_smoothness
    close = smooth is not None and np.allclose(
        smooth, precision, rtol=SAME, atol=SAME * float(np.abs(precision).max())
    )
    if not close:
        raise Unsupported(
            "the proximal sampler starts from an exact draw of a Gaussian prior",
            got="a prior of another kind",
            allowed="Normal, HalfNormal, TruncatedNormal and MvNormal priors",
            do="write such a prior, or sampler='boxes' in few dimensions",
        )
    center = _prior_mean(private, precision)
    boxes = [private.box[name] for name in private.shapes]
    lower, upper = (
        np.concatenate([np.ravel(np.asarray(end, float)) for end in ends])
        for ends in zip(*((b.lower, b.upper) for b in boxes), strict=True)
    )
    matrix = whitener(precision)
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
    gradient = pytensor.grad(graph.prior, inputs, disconnected_inputs="ignore")
    concrete = Concrete(given)
    slope = np.concatenate([np.ravel(concrete(g)) for g in gradient])
    at = np.concatenate([np.ravel(inside[name]) for name in names])
    return at + np.linalg.solve(precision, slope)


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


@lru_cache(maxsize=16)
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


def make_structure(private: PrivateModel) -> tuple[Structure, Whitening]:
    """The posterior with its data in whitened coordinates. Reads the data."""
    found, white = concave(private), whiten(private)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `concavity` refused it
    data = _entries(private, record)
    columns = columns_of(record, private.sources, private.box)
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = Factor(record.value, record.parameters, private.box, columns)
    rows, offset = _coefficients(factor.cores, record, data, white, private.n)
    curve, smooth = _curve(private, record, factor, data, found)
    structure = Structure(rows, offset, curve, smooth, white.lower, white.upper)
    return structure, white


def _entries(private: PrivateModel, record: SingleRecord) -> dict[Variable, np.ndarray]:
    """Every input of a single record, with all records along the first axis."""
    data = {record.data[s.name]: np.moveaxis(s.values(), s.axis, 0) for s in private.sources}
    return data | dict(record.public)


def _coefficients(
    cores: list[Variable],
    record: SingleRecord,
    data: dict[Variable, np.ndarray],
    white: Whitening,
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and offsets of all predictors in whitened coordinates: records first, then elements."""
    inputs = list(record.parameters.values())
    flat = pt.concatenate([core.ravel() for core in cores])
    jacobian = pytensor.gradient.jacobian(flat, inputs, disconnected_inputs="ignore")
    size = int(np.sum([np.prod(core.type.shape) for core in cores]))
    slopes = pt.concatenate([j.reshape((size, -1)) for j in jacobian], axis=1)
    zero = {v: pt.zeros(v.type.shape) for v in inputs}
    at_zero = rebuild([flat, slopes], zero)
    values = _over_records(at_zero, data, n)
    offset, raw = values[0].reshape(n * size), values[1].reshape(n * size, -1)
    return raw @ white.matrix.T, offset + raw @ white.center


def _over_records(
    outputs: list[Variable], data: dict[Variable, np.ndarray], n: int
) -> list[np.ndarray]:
    """Evaluate graphs of one record for all of them; what reads no record is repeated."""
    batched = {v: pt.TensorType(v.type.dtype, (None, *v.type.shape))() for v in data}
    graphs = simplify(vectorize_graph(outputs, replace=batched))
    concrete = Concrete({batched[v]: values for v, values in data.items()})
    found = []
    for graph, single in zip(graphs, outputs, strict=True):
        value = np.asarray(concrete(graph), dtype=float)
        missing = value.ndim == single.type.ndim
        found.append(np.broadcast_to(value, (n, *value.shape)) if missing else value)
    return found


def _curve(
    private: PrivateModel,
    record: SingleRecord,
    factor: Factor,
    data: dict[Variable, np.ndarray],
    found: Concavity,
) -> tuple[Curve, np.ndarray]:
    """h of the predictors, at the model's power, and a bound of its curvature for each row."""
    power, h, inputs = float(private.power), factor.h, factor.inputs
    bends = []
    for predictor, size in zip(found.predictors, factor.sizes, strict=True):
        soft = predictor.softmax
        bends.append(np.full(size, 0.5 * soft.weight) if soft else predictor.smooth)
    smooth = power * np.tile(np.concatenate(bends), private.n)
    special = special_curve(private, h, inputs, record, data)
    if special is not None:
        return special, smooth
    return General(*_compiled(h, inputs, factor.sizes, data, private.n, power)), smooth


def _compiled(
    h: Variable,
    inputs: list[Variable],
    sizes: list[int],
    data: dict[Variable, np.ndarray],
    n: int,
    power: float,
) -> tuple:
    """Functions of predictors of shape (n k, chains): h summed over elements, and its slope."""
    gradient = pytensor.grad(h, inputs)
    wide = {u: pt.TensorType("float64", (None, None, *u.type.shape))() for u in inputs}
    fixed = {v: pt.TensorType(v.type.dtype, (1, None, *v.type.shape))() for v in data}
    graphs = simplify(vectorize_graph([h, *gradient], replace=wide | fixed))
    mode = pytensor.compile.mode.Mode(linker="py", optimizer=None)
    arguments = [*wide.values(), *fixed.values()]
    value = pytensor.function(arguments, graphs[0], mode=mode, on_unused_input="ignore")
    slope = pytensor.function(arguments, graphs[1:], mode=mode, on_unused_input="ignore")
    held = [np.asarray(data[v])[None] for v in fixed]
    ends = np.cumsum([0, *sizes])

    def split(u: np.ndarray) -> list[np.ndarray]:
        chains = u.T.reshape(u.shape[1], n, -1)
        return [
            np.ascontiguousarray(chains[:, :, a:b]).reshape(len(chains), n, *v.type.shape)
            for v, a, b in zip(inputs, ends[:-1], ends[1:], strict=True)
        ]

    def values(u: np.ndarray) -> np.ndarray:
        return power * np.broadcast_to(value(*split(u), *held), (u.shape[1], n)).T

    def slopes(u: np.ndarray) -> np.ndarray:
        parts = slope(*split(u), *held)
        parts = [
            np.broadcast_to(p, (u.shape[1], n, *v.type.shape)).reshape(u.shape[1], n, -1)
            for p, v in zip(parts, inputs, strict=True)
        ]
        return power * np.concatenate(parts, axis=2).reshape(u.shape[1], -1).T

    return values, slopes
