"""How strongly log-concave a joint prior is: its factors read affine forms too (T22)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import simplify
from pymc_private.analysis.rebuild import rebuild
from pymc_private.models.curvature import curves
from pymc_private.models.jacobian import coefficients
from pymc_private.models.kinks import NotConcave
from pymc_private.models.pinning import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.single_record import SingleRecord

SHRINK = 1e-9
"""Relative slack of eigenvalues and outer products, far above their rounding."""


def prior_value(private: PrivateModel, record: SingleRecord) -> Variable:
    """The log prior as a function of a record's parameters, which have known shapes."""
    graph = private.graph
    swaps = {graph.parameters[name]: v for name, v in record.parameters.items()}
    swaps |= {v: pt.constant(v.get_value(), name=v.name) for v in public_data([graph.prior])}

    def sized(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, SpecifyShape) else None

    return simplify([rebuild([graph.prior], swaps, sized)[0].sum()])[0]


def prior_curvature(
    private: PrivateModel, record: SingleRecord
) -> tuple[np.ndarray, np.ndarray | None]:
    """Lower and upper bound of minus the Hessian of the log prior.

    Parameters
    ----------
    private : PrivateModel
    record : SingleRecord
        Whose parameters order the coordinates.

    Returns
    -------
    lower : array, shape (d, d)
    upper : array, shape (d, d), or None where there is none

    Raises
    ------
    NotConcave
        The prior is not strongly log-concave on its region.
    """
    value = prior_value(private, record)
    try:
        found = curves(value, record.parameters, private.box, [])
    except NotConcave as error:
        raise NotConcave(f"the prior: {error}") from None
    if found.softmax is not None:
        raise NotConcave("the prior: a softmax has no strong concavity")
    a = coefficients(found.predictors, record.parameters, [])
    if np.max(a.radius, initial=0.0) > SHRINK:
        raise NotConcave("the prior: coefficients are not known to enough digits")
    lower = a.outer(found.sure) * (1.0 - SHRINK)
    if not least_eigenvalue(lower) > 0.0:
        flat = _weakest(lower, private.shapes)
        raise NotConcave(
            f"the prior of {flat} is not strongly log-concave on its region (as Laplace, "
            "Exponential, StudentT, uniform and flat priors are not)"
        )
    bounded = bool(np.all(np.isfinite(found.smooth)))
    return lower, a.outer(found.smooth) * (1.0 + SHRINK) if bounded else None


def _weakest(matrix: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The parameters along which a matrix has its least eigenvalue."""
    vectors = np.abs(np.linalg.eigh(matrix)[1][:, 0])
    start, names = 0, []
    for name, shape in shapes.items():
        stop = start + int(np.prod(shape))
        if np.any(vectors[start:stop] > 1e-6):
            names.append(f"'{name}'")
        start = stop
    return ", ".join(names)


def least_eigenvalue(matrix: np.ndarray) -> float:
    """The least eigenvalue of a symmetric matrix, rounded down."""
    values = np.linalg.eigvalsh(matrix)
    return float(values[0] - SHRINK * abs(values[-1]) * 1e-3)
