"""What a curator may look at before stating a distance t for NUTS: evidence, never a proof."""

from __future__ import annotations

import warnings
import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from dataclasses import dataclass
from pymc_private.models.compat import flat_draws, to_dataset
from pymc_private.models.private_model import PrivateModel

CAUTION = (
    "For the curator: computed from the confidential data and covered by no guarantee. Not to be "
    "published, nor used to choose the model, the plan or its numbers."
)


@dataclass(frozen=True, eq=False)
class CuratorDiagnostics:
    """How long runs of NUTS on the private model behave.

    Attributes
    ----------
    table : DataFrame
        r_hat and effective sample size of each scalar parameter.
    divergences : int
    gap : float
        Largest Kolmogorov distance, over the parameters, between last states of short fresh runs
        and the long ones.
    noise : float
        What that distance would be for runs that end exactly in the posterior (95%, roughly).
    """

    table: pd.DataFrame
    divergences: int
    gap: float
    noise: float

    def __repr__(self) -> str:
        return (
            f"{CAUTION}\n{self.table}\ndivergences: {self.divergences}\nlast states of fresh runs "
            f"against long runs: largest distance of CDFs {self.gap:.3f} (noise {self.noise:.3f})"
        )


def diagnose(
    private: PrivateModel,
    *,
    tune: int = 1000,
    draws: int = 1000,
    chains: int = 4,
    fresh: int = 100,
    random_seed: int | None = None,
) -> CuratorDiagnostics:
    """Run NUTS on the private model and say how it did. Reads the data; charges nothing.

    The result is confidential like the data. A distance t that is stated after looking at it is a
    statement about this data set, and no proof.

    Parameters
    ----------
    private : PrivateModel
    tune, draws, chains : int
        Of the long runs.
    fresh : int
        Short runs of which only the last state is kept, as `pmp.Nuts` does.
    random_seed : int, optional

    Returns
    -------
    CuratorDiagnostics
    """
    keywords = {
        "cores": 1,
        "progressbar": False,
        "random_seed": random_seed,
        "nuts_sampler": "pymc",
        "compute_convergence_checks": False,
        "model": private.model,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        long = pm.sample(draws, tune=tune, chains=chains, **keywords)
        short = pm.sample(1, tune=tune, chains=fresh, **keywords)
    names = list(private.shapes)
    posterior, last = to_dataset(long)[names], to_dataset(short)[names]
    gap = max(
        _apart(flat_draws(posterior[name])[:, k], flat_draws(last[name])[:, k])
        for name in names
        for k in range(flat_draws(last[name]).shape[1])
    )
    rows = {
        name: {
            "r_hat": float(np.max(az.rhat(posterior)[name].values)),
            "ess_bulk": float(np.min(az.ess(posterior)[name].values)),
        }
        for name in names
    }
    divergences = int(np.sum(np.asarray(long["sample_stats"]["diverging"])))
    return CuratorDiagnostics(
        pd.DataFrame.from_dict(rows, orient="index"), divergences, gap, 1.36 / np.sqrt(fresh)
    )


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """Largest distance of two empirical CDFs."""
    at = np.sort(np.concatenate([one, other]))
    cdfs = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (one, other)]
    return float(np.max(np.abs(cdfs[0] - cdfs[1])))
