"""The posterior of a log-concave model with its data, in whitened coordinates (T21)."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from scipy.sparse import csr_array
from pymc_private.analysis import simplify
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.errors import Unsupported
from pymc_private.models.record_likelihood__columns import columns_of
from pymc_private.certificates.curvature import Factor
from pymc_private.certificates.log_concave__log_concave import Concavity
from pymc_private.certificates.log_concave__prior_curvature import prior_value
from pymc_private.models.record_likelihood import Role
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.samplers.log_density import numbers_of
from pymc_private.samplers.proximal__blocks import Blocks
from pymc_private.samplers.proximal_likelihoods import Curve, General, Joined, Residual, Scores
from pymc_private.samplers.proximal_likelihoods__likelihoods import special_curve
from pymc_private.samplers.proximal_target__linear import Whitening, concave, whiten
from pymc_private.samplers.proximal import Structure
from pymc_private.samplers.proximal_target import sure_of

SPARSE, LARGE = 0.2, 100_000
"""Share of coefficients that are not zero up to which, and number from which on, the rows are kept
without zeros."""


def make_structure(private: PrivateModel) -> tuple[Structure, Whitening]:
    """The posterior with its data in whitened coordinates. Reads the data."""
    found, white = concave(private), whiten(private)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `concavity` refused it
    data = entries_of(private, record)
    columns = columns_of(record, private.sources, private.box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = Factor(record.value, record.parameters, private.box, columns)
    rows, offset = _coefficients(factor.cores, record, data, white, private.n)
    curve, smooth = _curve(private, record, factor, data, found)
    if not white.start.is_prior:
        rest, at, residual, bend = _prior_rows(private, record, found, white)
        curve = Joined(curve, residual, len(rows))
        rows, offset = np.concatenate([rows, rest]), np.concatenate([offset, at])
        smooth = np.concatenate([smooth, bend])
    walls = white.lower, white.upper
    kept = _kept(rows, curve)
    return Structure(kept, offset, curve, smooth, *walls, own=white.start.own), white


def _kept(rows: np.ndarray, curve: Curve) -> np.ndarray | csr_array | Blocks:
    """Rows with what is zero in them left out, where that is much."""
    if rows.size <= LARGE:
        return rows
    if isinstance(curve, Scores) and (blocks := Blocks.of(rows, curve.counts.shape[1])):
        return blocks
    return csr_array(rows) if np.count_nonzero(rows) < SPARSE * rows.size else rows


def _prior_rows(
    private: PrivateModel, record: SingleRecord, found: Concavity, white: Whitening
) -> tuple[np.ndarray, np.ndarray, Residual, np.ndarray]:
    """What a prior that is not Gaussian adds: its own predictors. Reads no data."""
    factor = Factor(simplify([prior_value(private, record)])[0], record.parameters, private.box, [])
    flat = pt.concatenate([core.ravel() for core in factor.cores])
    zero = {v: pt.zeros(v.type.shape) for v in record.parameters.values()}
    raw = found.prior.a.center[0]
    rows = raw @ white.matrix.T
    at = Concrete({})(rebuild([flat], zero)[0]) + raw @ white.center
    h = General(*_compiled(factor.h, factor.inputs, factor.sizes, {}, 1, 1.0))
    known = found.prior.curves
    sure = sure_of(known)
    # At a kink the steps that look for the mode need some curvature: the slope's jump squared.
    jump = np.where(np.isfinite(known.smooth), 0.0, known.high - known.low)
    smooth = np.where(np.isfinite(known.smooth), known.smooth - sure, jump**2)
    return rows, at, Residual(h, sure, at), smooth


def entries_of(private: PrivateModel, record: SingleRecord) -> dict[Variable, np.ndarray]:
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
    offset, raw = _over_records(graphs, data, n)
    size = int(offset.shape[1])
    return offset.reshape(n * size), raw.reshape(n * size, int(raw.shape[2]))


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
    special = special_curve(private, h, inputs, record, data)
    if special is not None:
        return special, smooth
    general = General(*_compiled(h, inputs, factor.sizes, data, private.n, power))
    if found.predictors[0].softmax is not None:  # `softmax_of` proved the form
        return Scores.of_slope(general.derivative, private.n, factor.size), smooth
    return general, smooth


def _compiled(
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
        return power * np.broadcast_to(numbers_of(graphs[:1], split(u))[0], (u.shape[1], n)).T

    def slopes(u: np.ndarray) -> np.ndarray:
        parts = numbers_of(graphs[1:], split(u))
        parts = [
            np.broadcast_to(p, (u.shape[1], n, *v.type.shape)).reshape(u.shape[1], n, -1)
            for p, v in zip(parts, inputs, strict=True)
        ]
        return power * np.concatenate(parts, axis=2).reshape(u.shape[1], -1).T

    return values, slopes
