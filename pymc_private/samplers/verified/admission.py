"""Which models the strict proximal sampler draws from, and what it draws from (T21)."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from pytensor.graph.basic import Variable
from pymc_private.analysis import simplify
from pymc_private.errors import Unsupported
from pymc_private.models.record_likelihood__columns import columns_of
from pymc_private.certificates.curvature import Factor
from pymc_private.models.record_likelihood import Role
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.samplers.proximal_likelihoods import Curve, Exponential, Logistic, Quadratic
from pymc_private.samplers.proximal_likelihoods__likelihoods import special_form
from pymc_private.samplers.proximal_target__linear import Whitening, concave, plan_schedule, public_constants, whiten
from pymc_private.samplers.proximal_target__linear_data import coefficient_graphs, entries_of, raw_coefficients
from pymc_private.samplers.proximal import Schedule, Structure
from pymc_private.samplers.randomness import Uniform, round_open, round_to_grid
from pymc_private.samplers.verified.kernel__chains import sample_strict
from pymc_private.samplers.verified.admission__copies import is_copied
from pymc_private.samplers.verified.admission__price import Rounding, check_walls, rounding
from pymc_private.samplers.verified.arithmetic__records import Records
from pymc_private.samplers.verified.arithmetic import StrictCurve, StrictExponential, StrictLogistic, StrictQuadratic

STRICT: dict[Any, Callable[[np.ndarray, float], StrictCurve]] = {
    Logistic: StrictLogistic,
    Quadratic: StrictQuadratic,
    Exponential: StrictExponential,
}
"""Likelihoods with running bounds."""
DOWN = 1.0 - 2.0**-40
"""More than the few roundings that a weight goes through, and than digits of a slope that nobody
tells apart (`likelihoods.DIGITS`): a lower power costs no more."""


@dataclass(frozen=True, eq=False)
class Form:
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


def form_of(private: PrivateModel) -> Form:
    """Recognize a model whose draws are proved in floating point. Reads no data.

    Raises
    ------
    Unsupported
        Another prior, another likelihood, or coefficients that are computed.
    """
    found, white = concave(private), whiten(private)
    _check_prior(white)
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise Unsupported("records are computed differently")  # `concavity` refused it
    columns = columns_of(record, private.sources, private.box, ())
    columns = [c for c in columns if c.role is not Role.POINT]
    factor = Factor(record.value, record.parameters, private.box, columns)
    special = special_form(private, factor.h, factor.inputs, record)
    if special is None or special[0] not in STRICT:
        raise _not_strict(
            "a likelihood, or a predictor, whose float error is not bounded in the form it has",
            "logistic (Bernoulli with logit_p), linear (Normal with a known scale) and Poisson "
            "(with a log link) regression on x @ b, or a + x @ b with a prior on a",
            "make a fixed shift or factor of the predictor part of the data or of a prior",
        )
    graphs = list(simplify(coefficient_graphs(factor.cores, record)))
    if not all(map(is_copied, graphs)):
        raise _not_strict(
            "predictors whose coefficients the model computes from the data",
            "coefficients that are columns of the data, as they are, or constants",
            "compute the columns before, and give them to the model as data",
        )
    kind, observed, weight = special
    smooth = float(np.max(found.predictors[0].smooth))
    return Form(white, record, graphs, kind, observed, weight, smooth)


def plan_strict(private: PrivateModel, tv: float) -> tuple[Schedule, Rounding]:
    """Schedule, and what floating point adds. Reads no data.

    Raises
    ------
    Unsupported
        As `form_of`, `linear.plan_schedule` and `price.rounding`.
    """
    form_of(private)
    schedule, white = plan_schedule(private, tv), whiten(private)
    trace, gap = public_constants(private)
    slope = math.sqrt(2.0 * gap)
    if white.is_bounded:
        check_walls(schedule, slope, np.array([white.lower, white.upper]))
    n, dimension = int(private.n or 0), len(white.center)
    return schedule, rounding(schedule, n, dimension, trace, slope, bounded=white.is_bounded)


def make_records(private: PrivateModel) -> tuple[Records, Structure]:
    """The posterior with its data, exact and in floats. Reads the data."""
    form = form_of(private)
    data = entries_of(private, form.record)
    offset, raw = raw_coefficients(form.graphs, data, private.n)
    weight = form.weight * float(private.power) * DOWN
    y = np.asarray(data[form.observed], dtype=float)
    scale = np.diag(form.white.matrix).copy()
    curve = STRICT[form.kind](y, weight)
    records = Records(raw, offset, form.white.center, scale, curve, *_ends(private))
    smooth = form.smooth * float(private.power)
    walls = form.white.lower, form.white.upper
    return records, Structure(records.rows, records.level, form.kind(y, weight), smooth, *walls)


def strict_draws(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Callable[[int], None] = lambda done: None,
    *,
    tv: float,
) -> dict[str, np.ndarray]:
    """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data."""
    schedule, lost = plan_strict(private, tv)
    records, structure = make_records(private)
    publish = partial(_publish, records=records)
    values = sample_strict(
        records, structure, schedule, lost.omega, draws, randomness, publish, progress
    )
    ends = np.cumsum([int(np.prod(shape)) for shape in private.shapes.values()])[:-1]
    return {
        name: part.reshape(draws, *shape)
        for (name, shape), part in zip(
            private.shapes.items(), np.split(values, ends, axis=1), strict=True
        )
    }


def _publish(values: np.ndarray, records: Records) -> np.ndarray:
    """Round parameters of shape (m, d) to the public grids, coordinate by coordinate."""
    low, high = records.lower, records.upper
    found = np.clip(round_open(values, records.scale), low, high)
    boxed = np.isfinite(low) & np.isfinite(high)
    if boxed.any():
        found[:, boxed] = round_to_grid(values[:, boxed], low[boxed], high[boxed])
    return found


def _ends(private: PrivateModel) -> list[np.ndarray]:
    """Ends of all parameters."""
    boxes = [private.box[name] for name in private.shapes]
    pairs = zip(*((b.lower, b.upper) for b in boxes), strict=True)
    return [np.concatenate([np.ravel(np.asarray(end, float)) for end in ends]) for ends in pairs]


def _check_prior(white: Whitening) -> None:
    if not white.start.is_prior:
        raise _not_strict("a prior that is not Gaussian", "Normal priors of independent parameters")
    if np.count_nonzero(white.matrix - np.diag(np.diag(white.matrix))):
        raise _not_strict("a correlated prior", "Normal priors of independent parameters")


def _not_strict(got: str, allowed: str, do: str = "") -> Unsupported:
    return Unsupported(
        "no claim in floating point is proved here: strict=True with proximal",
        got=got,
        allowed=allowed,
        do=f"{do}{'; or ' if do else ''}sampler='grid' in few dimensions, or strict=False",
    )
