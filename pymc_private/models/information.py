"""Expected information of a region, a power and a clip on the prior predictive.

A likelihood to the power w on n records has in the Gaussian approximation an expected information
gain of 1/2 log det(I + w n S J(theta)), with S the prior covariance and J(theta) the Fisher
information of one record (Lindley 1956; Chaloner and Verdinelli 1995). A parameter point that a
trim cuts off learns nothing. No figure here is a privacy claim.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.prior import (
    PRIOR_SEED,
    Simulator,
    in_region,
    prior_draws,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_graph import ClipBounds
from pymc_private.models.reference_rows import checked_reference
from pymc_private.models.uniform_records import uniform_entries

POINTS, RECORDS, TRIED_RECORDS = 48, 256, 1024
"""Parameter points, records simulated at each, and records of the domain to resample these from."""
EVALUATIONS = 1500
"""Most evaluations of the log-likelihood; with many parameters there are fewer points."""
FEWEST_POINTS = 8
STEP = 1e-4
"""Step of a central difference, in prior standard deviations."""
FAR_DRAW = 10.0
"""Robust standard deviations to which prior draws are clipped for the covariance."""
ASSUMED_N = 1000
"""Number of records assumed where it is protected and no n= is given."""


@dataclass(frozen=True, eq=False)
class Information:
    """Scores of simulated records, from which the expected information of a plan is computed.

    Attributes
    ----------
    drawn : dict of str to array
        All prior draws in the region of the original model.
    points : dict of str to array
        The draws at which records were simulated.
    scores : array, shape (points, records, directions)
        Derivatives of each record's log-likelihood along the columns of a root of S.
    values : array, shape (points, records)
        Log-likelihoods of these records.
    n : int
        Number of records in the data.
    simulated : bool
        Whether the model generated the records. Else they are records of the domain, resampled in
        proportion to their likelihood: of a potential, or a density without a generator.
    beta : float or None
        Where records count by the beta-divergence of the log-likelihood that was simulated.
    """

    drawn: Mapping[str, np.ndarray]
    points: Mapping[str, np.ndarray]
    scores: np.ndarray
    values: np.ndarray
    n: int
    simulated: bool = True
    beta: float | None = None

    def gain(self, private: PrivateModel, power: float, clip: ClipBounds | None = None) -> float:
        """Expected gain in nats in the region of a model, at a power and with a clip."""
        mass = float(in_region(private, self.drawn).mean())
        inside = in_region(private, self.points)
        if mass == 0.0:
            return 0.0
        gains = self._gains(power, clip)
        return mass * float(gains[inside].mean() if inside.any() else gains.min())

    def spread(self, private: PrivateModel) -> tuple[float, float]:
        """The 0.1 and 0.9 quantiles over prior draws of the gain at power 1, in nats."""
        inside = in_region(private, self.points)
        gains = self._gains(1.0, None)
        low, high = np.quantile(gains[inside] if inside.any() else gains, [0.1, 0.9])
        return float(low), float(high)

    def _gains(self, power: float, clip: ClipBounds | None) -> np.ndarray:
        """1/2 log det(I + w n S J) at each point, less what a clip loses by its bias.

        Clipped records have a score of 0. Their scores no longer cancel against the others': this
        shifts the posterior by P^-1 w n b, with P its precision and b the mean score of a record,
        and adds the square of the shift to its variance.
        """
        if self.beta is not None:
            return self._scored_gains(power, self.beta)
        scores, weight = self.scores, power * self.n
        count = scores.shape[1]
        if clip is not None:
            inside = (self.values > clip[0]) & (self.values < clip[1])
            scores = scores * inside[..., None]
        fisher = scores.mT @ self.scores / count
        spectrum, axes = np.linalg.eigh(fisher)
        precision = 1.0 + weight * np.clip(spectrum, 0.0, None)
        gains = 0.5 * np.log(precision).sum(axis=1)
        if clip is None:
            return gains
        fisher_of_all, mean_of_all = self._moments
        along = (mean_of_all - scores.sum(axis=1) / count)[:, None] @ axes
        squared_means = along[:, 0] ** 2
        # The scores lost have the moments of all less those of the scores kept.
        variance = ((fisher_of_all - fisher) @ axes * axes).sum(axis=1) - squared_means
        # Squared means, less the part of them that comes from simulating few records.
        squares = squared_means - variance / count
        shift = weight**2 * (np.clip(squares, 0.0, None) / precision).sum(axis=1)
        return np.maximum(gains - 0.5 * np.log1p(shift), 0.0)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """J and the mean score at each point, of all records."""
        count = self.scores.shape[1]
        return self.scores.mT @ self.scores / count, self.scores.sum(axis=1) / count

    def _scored_gains(self, power: float, beta: float) -> np.ndarray:
        """The gain at each point of records that are scored by the beta-divergence.

        With scores s of the log-likelihood, a record adds w J to the precision P, J = E[f^beta
        s s'], and the posterior mean varies by P^-1 w^2 n K P^-1, K = Var[f^beta s]. Where that is
        more than its part w n J of P claims, the excess is added to the variance.
        """
        heights = np.where(np.isfinite(self.values), self.values, -np.inf)[..., None]
        with np.errstate(over="ignore"):
            tilted = np.nan_to_num(np.exp(beta * heights)) * self.scores
        count, weight = self.scores.shape[1], power * self.n
        slopes = np.einsum("tri,trj->tij", tilted, self.scores) / count
        spectrum, axes = np.linalg.eigh(slopes)
        curvature = weight * np.clip(spectrum, 0.0, None)
        spread = np.einsum("tri,tij->trj", tilted, axes).var(axis=1)
        excess = np.clip(power * weight * spread - curvature, 0.0, None)
        precision = 1.0 + curvature
        gains = 0.5 * (np.log(precision) - np.log1p(excess / precision)).sum(axis=1)
        return np.maximum(gains, 0.0)

    def quantile(self, share: float) -> float:
        """A quantile of the simulated log-likelihoods."""
        return float(np.quantile(self.values[np.isfinite(self.values)], share))


_SIMULATED: WeakKeyDictionary[PrivateModel, dict[int, Information | str]] = WeakKeyDictionary()
"""Cached by model, as several plans are often made for one; text says why there is none."""


def simulated_information(
    private: PrivateModel, n: int | None, reference: Any = None, *, weighted: bool = False
) -> Information:
    """Scores of records simulated from the prior predictive of an untempered model. Reads no data.

    The seed is fixed: this randomness chooses a plan and is no private draw. Where nothing can be
    simulated, `Unsupported` says why; with `weighted`, records of the domain may stand in for what
    has no generator (see `Information.simulated`).
    """
    count = ASSUMED_N if n is None else n
    score = private.score
    if score is not None:
        if not _has_one_score(private):
            raise Unsupported(
                "several outcomes, or clipped ones, are scored by the beta-divergence",
                allowed="one outcome per record, without pmp.clip",
                do="nothing is needed: each record is supposed to tell as much as the prior",
            )
        original = score.original.with_region(private.region)
        simulated = simulated_information(original, n, reference, weighted=weighted)
        return replace(simulated, beta=score.beta)
    if reference is not None:
        return _simulate(private, count, reference)
    cached = _SIMULATED.setdefault(private, {})
    if count not in cached:
        try:
            cached[count] = _simulate(private, count, None)
        except Unsupported as error:
            cached[count] = f"{error.problem}: {error.got}" if error.got else error.problem
    found = cached[count]
    if isinstance(found, str):
        raise Unsupported(found)
    if not (found.simulated or weighted):
        raise Unsupported(
            "no record can be simulated: no distribution of private data",
            allowed="an observed variable with a distribution, and generators of what is random",
            do="write potentials as distributions; without it each record is supposed to tell as "
            "much as the prior",
        )
    return found


def _has_one_score(private: PrivateModel) -> bool:
    """Whether one outcome of each record is scored, and nothing else is done to it."""
    graph = private.graph
    alone = len(graph.factors) == 1 and graph.clip is None
    return alone and private.base[graph.factors[0]].type.ndim == 1


def _simulate(private: PrivateModel, n: int, reference: Any) -> Information:
    """As `simulated_information`; a graph that keeps its row count is simulated with all rows."""
    checked_reference(private, reference)
    drawn = _region_draws(private)
    directions = _prior_directions(private, drawn)
    logp = _compiled_record(private)
    count = max(FEWEST_POINTS, min(POINTS, EVALUATIONS // (2 * directions[0].shape[1] + 1)))
    points = {name: values[:count] for name, values in drawn.items()}
    for rows in (RECORDS, None):
        try:
            simulator = Simulator(private, rows, reference, PRIOR_SEED)
            scores, values = _simulated_scores(logp, private, points, simulator, directions)
            return Information(drawn, points, scores, values, n)
        except (Unsupported, *EVALUATION_ERRORS) as error:
            cause = error
    if reference is None and not private.graph.rows_differ and not private.graph.windows:
        try:
            scores, values = _weighted_scores(logp, private, points, directions)
            return Information(drawn, points, scores, values, n, simulated=False)
        except (Unsupported, *EVALUATION_ERRORS):
            pass
    if isinstance(cause, Unsupported):
        raise cause
    raise Unsupported(
        "the log-likelihood of simulated records cannot be computed",
        allowed="a likelihood that PyTensor compiles for simulated records",
        do="write it with PyTensor operations that take any number of rows",
    ) from cause


def _simulated_scores(
    logp: Any,
    private: PrivateModel,
    points: Mapping[str, np.ndarray],
    simulator: Simulator,
    directions: tuple[np.ndarray, list[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and log-likelihoods of records simulated at each point."""
    scores, values = [], []
    for k in range(len(next(iter(points.values())))):
        point = {name: v[k] for name, v in points.items()}
        found = _central_differences(logp, private, point, simulator.at(point), *directions)
        scores.append(found[0])
        values.append(found[1])
    return np.array(scores), np.array(values)


def _weighted_scores(
    logp: Any,
    private: PrivateModel,
    points: Mapping[str, np.ndarray],
    directions: tuple[np.ndarray, list[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and log-likelihoods of records of the domain, in proportion to their likelihood."""
    rng = np.random.default_rng(PRIOR_SEED)
    data = {
        source.name: np.moveaxis(
            uniform_entries(source.domain, source.row_shape, TRIED_RECORDS, source.is_whole, rng),
            0,
            source.axis,
        ).astype(source.dtype)
        for source in private.sources
    }
    scores, values = [], []
    for k in range(len(next(iter(points.values())))):
        point = {name: v[k] for name, v in points.items()}
        slopes, heights = _central_differences(logp, private, point, data, *directions)
        if heights.shape != (TRIED_RECORDS,):
            raise Unsupported(
                "the log-likelihood keeps the number of records it was built for",
                got="a likelihood whose length is a constant of the model",
                allowed="a likelihood as long as its data",
                do="take lengths from the data: dims, or x.shape[0], rather than a number",
            )
        heights = np.where(np.isnan(heights), -np.inf, heights)
        weights = np.exp(heights - heights.max()) if np.isfinite(heights.max()) else None
        if weights is None:
            raise Unsupported(
                "no record of the domain is possible at a prior draw",
                allowed="a likelihood that is positive somewhere in the domain",
                do="check that domain and likelihood have the same support",
            )
        kept = rng.choice(TRIED_RECORDS, RECORDS, p=weights / weights.sum())
        scores.append(slopes[kept])
        values.append(heights[kept])
    return np.array(scores), np.array(values)


def _region_draws(private: PrivateModel) -> dict[str, np.ndarray]:
    """Prior draws in the region of the model."""
    try:
        drawn = prior_draws(private)
    except (DomainError, NotImplementedError) as error:
        problem = getattr(error, "problem", "a prior has no generator")
        raise Unsupported(problem) from error
    inside = in_region(private, drawn)
    if inside.sum() < FEWEST_POINTS:
        raise Unsupported(
            "too few prior draws lie in the region",
            got=f"{inside.sum()}",
            allowed=f"{FEWEST_POINTS} or more",
            do="a larger box, or pmp.trim(private, mass=...), which takes one from the prior",
        )
    return {name: values[inside] for name, values in drawn.items()}


def _prior_directions(
    private: PrivateModel, drawn: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, list[str]]:
    """A robust root of the prior covariance of the continuous parameters, and their names."""
    names = [k for k, v in drawn.items() if v.dtype.kind == "f" and v.size]
    if not names:
        raise Unsupported(
            "no parameter is continuous",
            allowed="one continuous parameter or more",
            do="nothing is needed: each record is supposed to tell as much as the prior",
        )
    table = np.concatenate([drawn[k].reshape(len(drawn[k]), -1) for k in names], axis=1)
    low, middle, high = np.quantile(table, [0.25, 0.5, 0.75], axis=0)
    reach = FAR_DRAW * (high - low) / 1.349
    table = np.clip(table, middle - reach, middle + reach)
    variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(table, rowvar=False)))
    kept = variances > 1e-12 * variances.max(initial=0.0)
    if not kept.any():
        raise Unsupported(
            "the prior does not vary",
            got="prior draws that are all equal",
            allowed="a prior with a variance",
            do="widen the prior, or fix the parameter as a constant",
        )
    return axes[:, kept] * np.sqrt(variances[kept]), names


def _compiled_record(private: PrivateModel) -> Any:
    """The records' log-likelihood as a compiled function, without the checks of the model."""

    def unchecked(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Softplus):
            # PyTensor's own Python code takes one number at a time.
            return pt.maximum(inputs[0], 0.0) + pt.log1p(pt.exp(-abs(inputs[0])))
        return inputs[0] if isinstance(node.op, CheckAndRaise | SpecifyShape) else None

    inputs = [*private.graph.parameters.values(), *private.graph.data.values()]
    swaps = {v: v for v in inputs}
    record = rebuild([private.graph.record], swaps, unchecked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytensor.function(inputs, record[0], mode="FAST_COMPILE", on_unused_input="ignore")


def _central_differences(
    logp: Any,
    private: PrivateModel,
    point: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    root: np.ndarray,
    names: list[str],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of records along each direction, and their log-likelihoods; 0 where undefined."""
    entries = [data[name] for name in private.graph.data]
    center = np.concatenate([np.ravel(point[k]) for k in names])

    def at(vector: np.ndarray) -> np.ndarray:
        parts = np.split(vector, np.cumsum([np.size(point[k]) for k in names])[:-1])
        moved = dict(point) | {
            k: part.reshape(np.shape(point[k])) for k, part in zip(names, parts, strict=True)
        }
        return np.asarray(logp(*(moved[k] for k in private.graph.parameters), *entries))

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slopes = [(at(center + STEP * c) - at(center - STEP * c)) / (2 * STEP) for c in root.T]
        return np.nan_to_num(np.stack(slopes, axis=-1), posinf=0.0, neginf=0.0), at(center)


def assumed_information(power: float, n: int | None, mass: float, size: int) -> float:
    """Information gain where nothing can be simulated, if a record tells as much as the prior.

    `mass` is the share of the prior that is kept, `size` the number of scalar parameters.
    """
    return mass * 0.5 * size * math.log1p(power * (ASSUMED_N if n is None else n))
