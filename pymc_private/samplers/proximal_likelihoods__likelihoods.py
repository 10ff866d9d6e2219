"""Likelihoods of one linear predictor that have a stable form: logistic, Poisson, normal."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
from collections.abc import Callable
from pytensor.graph.basic import Variable
from pytensor.scalar.basic import Exp
from pytensor.scalar.math import Sigmoid
from scipy.special import expit
from pymc_private.analysis.affine import Kind, kinds
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.certificates.conjugate_families__patterns import arguments_of, elementwise_of, numbers_of
from pymc_private.models.distributions__laws import is_given, is_kept, kind_of
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.samplers.proximal_likelihoods import Curve, Exponential, Logistic, Quadratic

PROBES = (-30.0, -2.0, -0.5, 0.0, 0.7, 3.0, 30.0)
DIGITS = 2.0**-48
"""Relative rounding of a slope in doubles, at most; no c other than 1 is meant to be this near."""
Reference = Callable[[float, float], tuple[float, float]]


def special_curve(
    private: PrivateModel,
    h: Variable,
    inputs: list[Variable],
    record: SingleRecord,
    data: dict[Variable, np.ndarray],
) -> Curve | None:
    """The stable form of a likelihood, if its distribution and link say so, else None."""
    found = special_form(private, h, inputs, record)
    if found is None:
        return None
    kind, observed, weight = found
    return kind(np.asarray(data[observed], dtype=float), weight * float_down(private.power))


def special_form(
    private: PrivateModel, h: Variable, inputs: list[Variable], record: SingleRecord
) -> tuple[type, Variable, float] | None:
    """Curve, observed entry of a record and weight at power one, or None. Reads no data.

    The graph says that h is that of a known likelihood at a predictor that is affine in the
    parameters, hence at c u + e, whose c and e the slopes at a few points of u then tell to be 1
    and 0.
    """
    model = private.base
    plain = len(private.graph.factors) == 1 and len(model.observed_RVs) == 1
    if not plain or len(inputs) != 1 or int(np.prod(inputs[0].type.shape)) != 1:
        return None
    rv = model.observed_RVs[0]
    known = _known(rv)
    observed = _observed(private, rv, record)
    if known is None or observed is None or observed.type.ndim:
        return None
    kind, reference, weight, levels, predictor = known
    if kinds([predictor], model.free_RVs).get(predictor, Kind.CONSTANT) is Kind.OTHER:
        return None
    if not _agrees(h, inputs[0], observed, reference, weight, levels):
        return None
    return kind, observed, weight


def _observed(private: PrivateModel, rv: Variable, record: SingleRecord) -> Variable | None:
    """The record's entry that a likelihood observes as it is, of a domain that it can give."""
    value = private.base.rvs_to_values[rv]
    for source in private.sources:
        what = source.variable, source.domain, source.row_shape
        if is_kept(value, *what):
            return record.data[source.name] if is_given(rv, *what) else None
    return None


Known = tuple[type, Reference, float, tuple[float, ...], Variable]


def _known(rv: Variable) -> Known | None:
    """Curve, its slope at weight one as (part of y, other part), weight, values of y, predictor."""
    name, arguments = kind_of(rv), arguments_of(rv)
    link, inside = elementwise_of(arguments[0])
    if name == "bernoulli" and link is Sigmoid:
        return Logistic, lambda u, y: (y, -float(expit(u))), 1.0, (0.0, 1.0), inside[0]
    if name == "poisson" and link is Exp:
        return Exponential, lambda u, y: (y, -float(np.exp(u))), 1.0, (0.0, 3.0), inside[0]
    if name == "normal":
        sigma = numbers_of(arguments[1])
        if sigma is not None and sigma.size == 1:
            weight = 1.0 / float(sigma.ravel()[0]) ** 2
            levels = (0.0, -1.0, 2.0)
            return Quadratic, lambda u, y: (y, -u), weight, levels, arguments[0]
    return None


def _agrees(
    h: Variable,
    u: Variable,
    y: Variable,
    reference: Reference,
    weight: float,
    levels: tuple[float, ...],
) -> bool:
    """Whether the slope of h is the reference at the points tried, to the last digits.

    Relative to the size of its parts: at y = 0 the slopes are -w c s(c u + e), with s the sigmoid,
    e^u or u, which tell c from 1 and e from 0 however small the weight w is.
    """
    try:
        slope = pytensor.grad(pt.sum(h), u)
        for level in levels:
            held = np.array(level).astype(y.type.dtype)
            for probe in PROBES:
                at = {u: np.full(u.type.shape, probe), y: held}
                found = float(np.sum(Concrete(at)(slope)))
                parts = [weight * part for part in reference(probe, level)]
                if not abs(found - sum(parts)) <= DIGITS * sum(map(abs, parts)):
                    return False
    except Exception:  # another input than these: some other likelihood
        return False
    return True
