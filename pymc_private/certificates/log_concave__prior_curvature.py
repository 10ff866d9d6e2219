"""How strongly log-concave a joint prior is: its factors read affine forms too (T22)."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, simplify
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.certificates.linear_predictors__coefficients import Coefficients
from pymc_private.certificates.curvature import Curves, curves
from pymc_private.certificates.linear_predictors import coefficients
from pymc_private.certificates.linear_predictors__kinks import NotConcave
from pymc_private.certificates.record_gradient__precision import NearlySingular, least_eigenvalue, lower_bound
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord, known_size

@dataclass(frozen=True, eq=False)
class PriorCurvature:
    """What is proved of minus the Hessian of the log prior.

    Parameters
    ----------
    lower : array, shape (d, d)
        It is at least this, which is positive definite unless a flat prior was asked for.
    gaussian : array, shape (d, d), or None
        It is this everywhere, to the last digits: the log prior is quadratic on its region.
    curves : Curves
        Slopes and curvatures in the prior's own predictors; these themselves are left out.
    a : Coefficients
        Of those predictors, the same for all records.
    """

    lower: np.ndarray
    gaussian: np.ndarray | None
    curves: Curves
    a: Coefficients


def prior_value(private: PrivateModel, record: SingleRecord) -> Variable:
    """The log prior as a function of a record's parameters, which have known shapes."""
    graph = private.graph
    swaps = {graph.parameters[name]: v for name, v in record.parameters.items()}
    swaps |= {v: pt.constant(v.get_value(), name=v.name) for v in public_data([graph.prior])}
    return rebuild([graph.prior], swaps, known_size)[0].sum()


def prior_curvature(
    value: Variable,
    parameters: Mapping[str, Variable],
    box: Mapping[str, Bounds],
    *,
    flat: bool = False,
) -> PriorCurvature:
    """Bound minus the Hessian of the log prior.

    Parameters
    ----------
    value : Variable, scalar
        See `prior_value`.
    parameters : dict of str to Variable
        Its inputs, in the order of the coordinates.
    box : dict of str to Bounds
    flat : bool
        Whether a log-concave prior will do that is not strongly so.

    Returns
    -------
    PriorCurvature

    Raises
    ------
    NotConcave
        The prior is not log-concave on its region, or not strongly.
    """
    try:
        found = curves(simplify([value])[0], parameters, box, [])
    except NotConcave as error:
        raise NotConcave(f"the prior: {error}") from None
    if found.softmax is not None:
        raise NotConcave("the prior: a softmax has no strong concavity")
    a = coefficients(found.predictors, parameters, [])
    lower = lower_bound(a, found.sure)
    try:
        if not flat:
            least_eigenvalue(lower)
    except NearlySingular:
        weakest = _weakest(a.outer(found.sure), {k: v.type.shape for k, v in parameters.items()})
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


def _weakest(matrix: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> str:
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
