"""Draws of the posterior of a summary by NUTS, where importance sampling finds too few.

With dozens of parameters hardly any proposal lies where a posterior does. NUTS takes seconds more,
most of them to compile the summary's model. Its metric is the covariance of the normal
approximation at the center, which is known before the first step: adapted from draws, variances
alone leave the slope and the intercepts of a hundred groups to find each other. Where that gives
too few independent draws, chains adapt it after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

from pymc_private.models.compat import chain_quality, quiet_sampling, to_dataset
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.posterior_coordinates import value_covariance
from pymc_private.summaries.protocol import Mechanism

DRAWS, TUNE, CHAINS = 400, 200, 2
ADAPTING = 500
"""Steps of tuning where the metric is to be found, too."""
MOST_SPREAD = 1.05
"""R-hat above which chains have not found the posterior."""
ENOUGH, LONGER = 100.0, 4
"""Independent draws that are enough, and how much longer chains are run anew that give fewer."""


@dataclass(frozen=True, eq=False)
class NutsDraws(WeightedDraws):
    """Draws of Markov chains, all of one weight.

    Attributes
    ----------
    independent : float
        How many independent draws tell as much of the coordinate that mixes worst; 0 for chains
        that disagree.
    """

    independent: float

    @property
    def effective(self) -> float:
        """As of `WeightedDraws`, of draws that depend on each other."""
        return self.independent


def nuts_draws(
    private: PrivateModel,
    mechanism: Mechanism,
    released: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> NutsDraws:
    """Draws of unconstrained parameters given a released summary, by `pymc.sample`.

    Raises
    ------
    pymc.exceptions.SamplingError
        The chains cannot start.
    """
    parameters = mechanism.parameters
    with quiet_sampling(), noise_aware_model(private, mechanism, released) as model:
        center, covariance = mechanism.start(released)
        metric = value_covariance(model, parameters, center, covariance)
        if metric is not None:
            starts = _starts(parameters, center, covariance, rng)
            step = pm.NUTS(potential=QuadPotentialFull(metric))
            with suppress(SamplingError):  # no density at a start: begin at the center, below
                found = _chains(parameters, 1, rng, tune=TUNE, step=step, initvals=starts)
                if found.independent >= ENOUGH:
                    return found
        for longer in (1, LONGER):
            found = _chains(parameters, longer, rng, tune=longer * ADAPTING)
            if found.independent >= ENOUGH:
                break
    return found


def _starts(
    parameters: ParameterVector, center: np.ndarray, covariance: np.ndarray, rng: Any
) -> list[dict[str, np.ndarray]]:
    """Draws of the normal approximation, one for each chain, in natural units."""
    white = rng.standard_normal((CHAINS, len(center)))
    natural = parameters.natural(center + white @ np.linalg.cholesky(covariance).T)
    return [{name: values[k] for name, values in natural.items()} for k in range(CHAINS)]


def _chains(
    parameters: ParameterVector, longer: int, rng: np.random.Generator, **options: Any
) -> NutsDraws:
    """Draws from chains of the model of the context, so many times as long as usual."""
    draws = longer * DRAWS
    idata = pm.sample(
        draws, chains=CHAINS, cores=1, random_seed=int(rng.integers(2**31)),
        progressbar=False, compute_convergence_checks=False, **options,
    )  # fmt: skip
    posterior, count = to_dataset(idata), CHAINS * draws
    natural = {
        name: posterior[name].to_numpy().reshape(count, *shape)
        for name, shape in parameters.shapes.items()
    }
    points = parameters.unconstrained(natural)
    effective, spread = chain_quality(points.reshape(CHAINS, draws, -1))
    agree = np.isfinite(effective) and spread <= MOST_SPREAD
    return NutsDraws(points, np.full(count, 1.0 / count), effective if agree else 0.0)
