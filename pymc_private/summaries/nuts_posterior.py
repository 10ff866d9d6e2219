"""Draws of the posterior of a summary by NUTS, where importance sampling finds too few.

With dozens of parameters hardly any proposal lies where a posterior does. NUTS takes seconds more,
most of them to compile the summary's model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_private.models.compat import chain_quality, quiet_sampling, to_dataset
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.protocol import Mechanism

DRAWS, TUNE, CHAINS = 400, 500, 2
MOST_SPREAD = 1.05
"""R-hat above which chains have not found the posterior."""


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
    pymc.SamplingError
        The chains cannot start.
    """
    parameters = mechanism.parameters
    with quiet_sampling(), noise_aware_model(private, mechanism, released):
        idata = pm.sample(
            DRAWS, tune=TUNE, chains=CHAINS, cores=1, random_seed=int(rng.integers(2**31)),
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    posterior, count = to_dataset(idata), CHAINS * DRAWS
    natural = {
        name: posterior[name].to_numpy().reshape(count, *shape)
        for name, shape in parameters.shapes.items()
    }
    points = parameters.unconstrained(natural)
    effective, spread = chain_quality(points.reshape(CHAINS, DRAWS, -1))
    agree = np.isfinite(effective) and spread <= MOST_SPREAD
    return NutsDraws(points, np.full(count, 1.0 / count), effective if agree else 0.0)
