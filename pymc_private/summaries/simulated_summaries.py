"""Summaries of simulated records and their posteriors: what a plan is judged by. Reads no data.

At a parameter vector records come from the model, the mechanism releases its summary of them with
simulated noise, and the posterior of that summary is found by importance sampling, or by NUTS where
there are many parameters or importance sampling finds too few draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from pymc.exceptions import SamplingError

from pymc_private.analysis.traversal import EVALUATION_ERRORS
from pymc_private.errors import PymcPrivateError
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.prior import PRIOR_SEED, Simulator
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.nuts_posterior import nuts_draws

LEAST_EFFECTIVE = 100.0
"""Effective draws below which a posterior is drawn anew with more draws."""
ENOUGH = 4.0
"""A posterior is settled by a round of half the draws if a fourth of all draws are effective."""
MORE_DRAWS = 8
"""Factor by which."""
MANY_PARAMETERS = 24
"""Parameters above which posteriors are drawn by NUTS at once: of 30 groups importance sampling
found four posteriors of 20, and takes as long."""
SIMULATED_POINTS, SIMULATED_RECORDS = 40, 50
"""Prior draws, and records of each, of which it is told how many leave the domain."""
NOT_FOUND = (
    "neither importance sampling nor NUTS found their posterior, which says nothing for or against "
    "the plan; longer chains of pm.sample may"
)
MUCH_OUTSIDE = 0.2
"""Share of simulated outcomes outside their domain that is worth telling."""


class SimulatedSummaries:
    """Simulates summaries of a plan, and counts those that would not be read.

    Parameters
    ----------
    plan : SummaryPlan
    draws : int
        Weighted draws of each posterior.
    rng : numpy.random.Generator
    reference : mapping or table, optional
        *Public* covariates of the simulated records; default: uniform on their domain.
    mechanism : Mechanism, optional
        Of another budget; default: that of the plan.

    Attributes
    ----------
    refused, failed : int
        Summaries that their warnings refuse, or whose posterior could not be computed.

    Raises
    ------
    Unsupported
        No records can be simulated from the model.
    """

    def __init__(
        self,
        plan: Any,
        draws: int,
        rng: np.random.Generator,
        reference: Any = None,
        mechanism: Any = None,
    ) -> None:
        self.private, self.draws, self.rng = plan.private, draws, rng
        self.mechanism = plan.mechanism if mechanism is None else mechanism
        rows = self.private.record_count if plan.n is not None else plan.guess or ASSUMED_N
        self.simulator = Simulator(self.private, rows, reference, int(rng.integers(2**32)))
        self.refused = self.failed = 0

    def posterior_at(self, theta: np.ndarray) -> WeightedDraws | None:
        """The posterior of a summary of records at one vector (1, p); None of one not read."""
        mechanism = self.mechanism
        try:
            released = mechanism.release(self._records(theta), self._noise())
            if any(caution.refuse for caution in mechanism.warnings(released)):
                self.refused += 1
                return None
            return self._posterior(released)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, SamplingError):
            self.failed += 1
            return None

    @property
    def outside(self) -> dict[str, float]:
        """Share of simulated outcomes that lay outside their interval, by name."""
        return self.simulator.outside

    def _records(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Simulated records at a parameter vector, records along the first axis."""
        natural = self.mechanism.parameters.natural(theta)
        self.simulator.redraw(self.rng)
        found = self.simulator.at({name: values[0] for name, values in natural.items()})
        axes = {source.name: source.axis for source in self.private.sources}
        return {name: np.moveaxis(found[name], axis, 0) for name, axis in axes.items()}

    def _noise(self) -> SimulatedNoise:
        return SimulatedNoise(self.rng, self.private.neighbors, self.private.records_per_unit)

    def _posterior(self, released: dict[str, np.ndarray]) -> WeightedDraws:
        """Weighted draws of the posterior of one summary."""
        chains = partial(nuts_draws, self.private, self.mechanism, released, self.rng)
        parameters = self.mechanism.parameters
        if len(parameters.mean) > MANY_PARAMETERS:
            return chains()
        log_likelihood = self.mechanism.log_likelihood(released)
        center, covariance = self.mechanism.start(released)

        def log_density(points: np.ndarray) -> np.ndarray:
            return np.asarray(parameters.log_prior(points) + log_likelihood(points))

        draw = partial(importance_draws, log_density, center, covariance, self.rng)
        found = draw(self.draws, enough=max(self.draws / ENOUGH, LEAST_EFFECTIVE))
        if found.effective < LEAST_EFFECTIVE:
            found = max(found, draw(MORE_DRAWS * self.draws), key=lambda one: one.effective)
        if found.effective < min(LEAST_EFFECTIVE, self.draws):
            found = max(found, chains(), key=lambda one: one.effective)
        return found


def simulated_outside(
    private: PrivateModel, parameters: Any, reference: Any = None
) -> dict[str, float]:
    """Share of outcomes of the prior predictive outside their interval, by name; reads no data.

    Empty where no records can be simulated. Prior draws at which a generator fails are left out.

    Parameters
    ----------
    private : PrivateModel
    parameters : Parameters
    reference : mapping or table, optional
        *Public* covariates; default: uniform on their domain.
    """
    failures = (PymcPrivateError, *EVALUATION_ERRORS)
    natural = parameters.natural(parameters.draws(SIMULATED_POINTS, PRIOR_SEED))
    try:
        simulator = Simulator(private, SIMULATED_RECORDS, reference, PRIOR_SEED)
    except failures:
        return {}
    for k in range(SIMULATED_POINTS):
        with suppress(*failures):
            simulator.outcomes({name: values[k] for name, values in natural.items()})
    return simulator.outside


def outside_sentences(outside: Mapping[str, float]) -> list[str]:
    """What is said of outcomes that the model simulates beyond their domain, if many are."""
    return [
        f"{share:.0%} of the values that the model simulates for '{name}' from its prior lie "
        "outside the domain of it, and count as its bounds, as records would: narrower priors, or "
        "a wider domain if it is not true of every record"
        for name, share in outside.items()
        if share > MUCH_OUTSIDE
    ]
