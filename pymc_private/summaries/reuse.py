"""Other models on a summary that was released: the same likelihood, another prior, at no cost.

A summary gives the likelihood of the parameters it is about, whatever their prior. So it serves
every model in which these parameters have names and the records have the same density given them:
another prior, a hierarchy above them, some of them fixed or tied together. It is a function of
released numbers: nothing is read and nothing charged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor

from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.made_up_records import uniform_records
from pymc_private.models.prior import restricted_draws
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.density.batched import NumpyProgram, rewritten, without_checks
from pymc_private.summaries.noise_aware_model import add_summary
from pymc_private.summaries.prior_model import prior_model
from pymc_private.summaries.protocol import Mechanism

logger = logging.getLogger("pymc_private")
DRAWS, DRAWS_SEED = 1000, 20261201
"""Draws from the prior of the other model, and their public seed."""
COMPARED = 6
"""Draws at which two likelihoods are compared: the first, and those nearest to the posterior."""
ROUND_TRIP = 1e-6
"""Relative error of parameters, to unconstrained numbers and back, that is rounding."""
AGREEMENT = 1e-6
"""Most difference of two log densities, relative to their size, that is rounding."""
OWN = "pmp.calibrate and pmp.summarize it for a summary of its own, which is charged"


def reused_model(
    private: PrivateModel,
    original: PrivateModel,
    mechanism: Mechanism,
    released: Mapping[str, np.ndarray],
) -> pm.Model:
    """The posterior of another model given a released summary, as a plain PyMC model.

    Parameters
    ----------
    private : PrivateModel
        The other model. Its data are not read.
    original : PrivateModel
        The model the summary was made of.
    mechanism : Mechanism
    released : mapping of str to array

    Raises
    ------
    DomainError
        No private model.
    Incompatible
        Other records, a parameter without a name, values of one that the summary's model does not
        allow, or another likelihood.
    Unsupported
        A prior that cannot be drawn from: improper, or with a potential.
    """
    _refuse_other_declaration(private, original)
    model = prior_model(private)
    names = tuple(mechanism.parameters.names)
    _refuse_missing(model, original, names)
    points = _prior_points(private, model, names)
    theta, inside = _in_support(mechanism, points)
    _refuse_wider_support(private, original, points, ~inside)
    nearest = _nearest_to_posterior(mechanism, released, theta, inside)
    chosen = np.concatenate([np.arange(COMPARED), nearest])
    _refuse_other_likelihood(private, original, _at(points, chosen), names)
    logger.info("reuse: another model on a released summary; nothing more is charged")
    return add_summary(model, private, mechanism, released)


def _refuse_other_declaration(private: Any, original: PrivateModel) -> None:
    """Refuse what is not declared for the same records; public facts only."""
    if not isinstance(private, PrivateModel):
        raise DomainError(
            "a summary is reused by a private model",
            got=type(private).__name__,
            allowed="what pmp.privatize returns",
            do="pmp.privatize(model, records=..., domain=...); its data may be placeholders",
        )
    if private.changed_likelihood:
        raise Incompatible(
            "a summary keeps the likelihood as the model states it",
            got=private.changed_likelihood,
            do="give the model as privatize returned it",
        )
    mine, own = original.sources, private.sources
    same = len(mine) == len(own) and all(any(a.is_declared_as(b) for b in own) for a in mine)
    counts = [None if m.neighbors == ADD_REMOVE else m.record_count for m in (original, private)]
    if not same or counts[0] != counts[1]:
        raise Incompatible(
            "this model is not of the records that were summarized; nothing was charged",
            got="other private variables, another domain or another number of records",
            allowed="the private variables of the summary's model, by the same names",
            do=f"declare them as for the summary; or {OWN}",
        )


def _refuse_missing(model: pm.Model, original: PrivateModel, names: tuple[str, ...]) -> None:
    """Refuse a model that does not have all parameters of the summary, by name and shape."""
    missing = [name for name in names if name not in model.named_vars]
    if missing:
        raise Incompatible(
            f"this model has no {', '.join(missing)}, which the summary is about; nothing was "
            "charged",
            got=", ".join(model.named_vars),
            allowed="a free variable or a pm.Deterministic of each of these names, which reads no "
            "record",
            do=f"pm.Deterministic({missing[0]!r}, ...), a constant or a function of others; or "
            f"{OWN}",
        )
    for name in names:
        shape = tuple(model[name].shape.eval())
        if shape != tuple(original.shapes[name]):
            raise Incompatible(
                f"'{name}' has another shape than in the model that was summarized",
                got=shape,
                allowed=tuple(original.shapes[name]),
            )


def _prior_points(
    private: PrivateModel, model: pm.Model, names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Free variables of the other model and all parameters of the summary, at prior draws."""
    drawn = restricted_draws(private, DRAWS, np.random.SeedSequence(DRAWS_SEED))
    free = [model[name] for name in drawn]
    others = [name for name in names if name not in drawn]
    compute = pytensor.function(free, [model[n] for n in others], on_unused_input="ignore")
    rows = [compute(*row) for row in zip(*drawn.values(), strict=True)]
    columns = zip(*rows, strict=True)
    return drawn | {n: np.array(part) for n, part in zip(others, columns, strict=True)}


def _in_support(
    mechanism: Mechanism, points: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Unconstrained vectors of points, (S, p), and which the summary's model allows, (S,)."""
    parameters = mechanism.parameters
    with np.errstate(all="ignore"):
        theta = parameters.unconstrained({name: points[name] for name in parameters.names})
        back = parameters.natural(theta)
    same = [
        np.isclose(back[name], points[name], rtol=ROUND_TRIP).reshape(len(theta), -1).all(axis=1)
        for name in parameters.names
    ]
    return theta, np.all(same, axis=0)


def _nearest_to_posterior(
    mechanism: Mechanism,
    released: Mapping[str, np.ndarray],
    theta: np.ndarray,
    inside: np.ndarray,
) -> np.ndarray:
    """Numbers of the draws where the summary's posterior is, or comes nearest."""
    center, covariance = mechanism.start(released)
    away = np.where(np.isfinite(theta), theta, np.inf) - center
    usable = inside & np.isfinite(away).all(axis=1)
    squared = np.full(len(theta), np.inf)
    squared[usable] = (away[usable] @ np.linalg.inv(covariance) * away[usable]).sum(axis=1)
    return np.argsort(squared)[:COMPARED]


def _at(points: Mapping[str, np.ndarray], chosen: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[chosen] for name, values in points.items()}


def _refuse_wider_support(
    private: PrivateModel,
    original: PrivateModel,
    points: Mapping[str, np.ndarray],
    outside: np.ndarray,
) -> None:
    """Refuse a prior with mass where the summary has no likelihood and the records have one."""
    chosen = np.flatnonzero(outside)[:COMPARED]
    if not len(chosen):
        return
    found = _record_log_densities(private, uniform_records(original), _at(points, chosen))
    if np.isfinite(found).any():
        raise Incompatible(
            "this prior reaches beyond the values that the summary's model allows, where the "
            "summary says nothing; nothing was charged",
            got=f"{outside.mean():.2g} of the prior outside of them",
            allowed="a prior inside the support and the region of the model that was summarized",
            do=f"a narrower prior; or {OWN}",
        )


def _refuse_other_likelihood(
    private: PrivateModel,
    original: PrivateModel,
    points: Mapping[str, np.ndarray],
    names: tuple[str, ...],
) -> None:
    """Refuse a model whose records have another density given the parameters of the summary.

    Both are compared on made-up records at draws from the other model's prior: a difference that
    does not depend on the parameters is allowed.
    """
    records = uniform_records(original)
    one, other = (_record_log_densities(each, records, points) for each in (original, private))
    if one.shape == other.shape:
        with np.errstate(invalid="ignore"):
            gap = (one - other) - (one - other)[:1]
            size = 1.0 + np.abs(one) + np.abs(other)
            usable = np.isfinite(one) & np.isfinite(other)
            same = bool((np.isfinite(one) == np.isfinite(other)).all())
            same = same and bool(usable.any() and (np.abs(gap) <= AGREEMENT * size)[usable].all())
        if same:
            return
    raise Incompatible(
        "this model has another likelihood than the one that was summarized; nothing was charged",
        got="records with another density given the same parameters",
        allowed=f"the likelihood of the summary's model, as a function of {', '.join(names)}",
        do=OWN,
    )


def _record_log_densities(
    private: PrivateModel, records: Mapping[str, np.ndarray], points: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Log density of each record at each point, shape (S, n)."""
    graph = private.graph
    inputs = [*graph.parameters.values(), *graph.data.values()]
    program = NumpyProgram(inputs, rewritten(without_checks([graph.record])))
    data = [records[name] for name in graph.data]
    rows = zip(*(points[name] for name in graph.parameters), strict=True)
    return np.array([program(*row, *data)[0] for row in rows])
