"""The likelihood of released scores as a PyTensor graph, for the PyMC model.

It is `PooledLikelihood` (T36) with the user's own density: the log density at pseudo-records is
PyTensor's, and what follows is one Op (`score_slopes`), so that there is little to compile. A check
at build time compares value and gradient with the NumPy likelihood: a density that lacks a factor
of the outcome would sample well and be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis.traversal import without_tracebacks
from pymc_private.errors import Incompatible
from pymc_private.summaries.density.batched import NumpyProgram, rewritten, without_checks
from pymc_private.summaries.density.numpy_likelihood import NumpyLikelihood
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.scores.clipped_scores import RecordModel
from pymc_private.summaries.scores.read_parameters import all_parameters, of_read
from pymc_private.summaries.scores.score_likelihood import PooledLikelihood
from pymc_private.summaries.scores.score_slopes import PooledSlopes

AGREEMENT = 1e-6
"""Most relative difference of the two forms of a likelihood: usually 1e-14, more where covariances
are nearly singular."""
GRADIENT_AGREEMENT = 1e-3
"""Most difference of derivatives along standard deviations of the start, relative to the largest:
central differences of the NumPy form carry its rounding."""
AGREEMENT_OF_RULES = 0.1
"""The same where nodes of a quadrature rule follow the parameters, whose movement gradients leave
out: it matters as little as the error of the rule. Values agree all the same, and NUTS, whose steps
are reversible for any gradient, keeps the posterior that these define; `pm.find_MAP` and `pm.fit`
stop where the gradient is 0, which may be as far off, in standard deviations."""
STEP = 1e-3
"""Step of a central difference, in standard deviations of the start's covariance."""


class HasDensity(RecordModel, Protocol):
    """A model of records that knows its density."""

    @property
    def density(self) -> RecordDensity:
        """The density of one record."""


def symbolic_pooled_likelihood(
    pooled: PooledLikelihood, model: HasDensity, parameters: Mapping[str, Variable]
) -> Variable:
    """The log-likelihood of released scores, of parameters in natural units.

    Up to the same constant as `PooledLikelihood.log_likelihood`.
    """
    density = model.density
    theta = density.parameters.symbolic_vector(parameters)
    logs = density.symbolic_log_density(parameters, pooled.rows, pooled.values)
    whole = pt.second(pt.constant(np.zeros_like(pooled.base)), logs)
    value, *_ = NumpyLikelihood(PooledSlopes(pooled))(whole, theta)
    return value


def score_potential(
    pooled: PooledLikelihood,
    model: HasDensity,
    start: tuple[np.ndarray, np.ndarray],
    parameters: Mapping[str, Variable],
    most_gap: float = GRADIENT_AGREEMENT,
) -> Variable:
    """The log-likelihood of released scores as a graph of a model's parameters, checked.

    `most_gap`: most difference of derivatives, as of `GRADIENT_AGREEMENT`.
    """
    return checked_potential(
        lambda natural: symbolic_pooled_likelihood(pooled, model, natural),
        parameters,
        all_parameters(model.parameters),
        lambda theta: pooled.log_likelihood(model, of_read(model.parameters, theta)),
        start,
        most_gap,
    )


def checked_potential(
    write: Callable[[Mapping[str, Variable]], Variable],
    parameters: Mapping[str, Variable],
    vector: ParameterVector,
    likelihood: Callable[[np.ndarray], np.ndarray],
    start: tuple[np.ndarray, np.ndarray],
    most_gap: float = GRADIENT_AGREEMENT,
) -> Variable:
    """A symbolic log-likelihood, after its value and gradient agreed with the NumPy one.

    Parameters
    ----------
    write : callable
        The graph, as a function of parameters in natural units.
    parameters : dict of str to Variable
        Those of the model that the graph is for.
    vector : ParameterVector
    likelihood : callable
        (S, p) to (S,).
    start : tuple of array
        Center (p,) and covariance (p, p), where the two are compared.
    most_gap : float
        Most difference of derivatives, relative to the largest.

    Raises
    ------
    Incompatible
        They differ.
    """
    center, covariance = start
    with without_tracebacks():
        values = vector.inputs()
        graph = write(vector.symbolic_natural(values))
        slopes = pytensor.grad(graph, list(values.values()), disconnected_inputs="ignore")
        program = NumpyProgram(list(values.values()), rewritten(without_checks([graph, *slopes])))
    root = np.linalg.cholesky(covariance)
    points = [center, center + 0.5 * root @ np.where(np.arange(len(root)) % 2, 1.0, -1.0)]
    for point in points:
        _refuse_difference(program, vector, likelihood, point, root, most_gap)
    return write(parameters)


def _refuse_difference(
    program: NumpyProgram,
    vector: ParameterVector,
    likelihood: Callable[[np.ndarray], np.ndarray],
    point: np.ndarray,
    root: np.ndarray,
    most_gap: float,
) -> None:
    found, *slopes = program(*vector.split(point).values())
    expected = float(likelihood(point[None])[0])
    slope = root.T @ np.concatenate([np.ravel(s) for s in slopes])
    ends = np.concatenate([point + STEP * root.T, point - STEP * root.T])
    above, below = np.split(likelihood(ends), 2)
    direct = (above - below) / (2 * STEP)
    value_agrees = abs(float(found) - expected) <= AGREEMENT * max(1.0, abs(expected))
    gap = np.abs(slope - direct).max(initial=0.0)
    if not (value_agrees and gap <= most_gap * max(1.0, np.abs(direct).max(initial=0.0))):
        raise Incompatible(
            "the likelihood that PyMC would sample differs from the one of the summary",
            got=f"values {float(found):.8g} and {expected:.8g}, slopes up to {gap:.2g} apart",
            allowed="the same function",
            do="please report this model; draws are another way: pmp.sample",
        )
