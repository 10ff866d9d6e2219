"""Is the posterior that importance sampling finds the one that NUTS samples?

Run ``python -m benchmarks.noise_aware_nuts [fits] [part of a name] ...``. For each model, summaries
of simulated records at epsilon 1; each posterior by `pm.sample` on the noise-aware model (two
chains of 500 draws after 500 steps of tuning) and by the importance sampling of
`benchmarks.noise_aware`. Printed are the largest distance of posterior means, in posterior standard
deviations, beside its Monte Carlo error; the range of ratios of lengths of 90% intervals; the
largest R-hat; divergences; seconds of a fit, compilation included, and of an ordinary fit of the
records; and those of sampling alone, tuning included.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any

import arviz as az
import numpy as np
import pymc as pm

from benchmarks.noise_aware import OUTER, Study, posterior
from benchmarks.noise_aware_models import SCENARIOS
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model

OPTIONS: dict[str, Any] = {"draws": 500, "tune": 500, "chains": 2, "cores": 1, "progressbar": False}


def sampled(model: pm.Model, seed: int) -> tuple[Any, np.ndarray]:
    """Draws of a model by NUTS, and the seconds of all and of sampling without compilation."""
    started = time.time()
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pm.sample(**OPTIONS, random_seed=seed, compute_convergence_checks=False)
    whole = time.time() - started
    return found, np.array([whole, found.posterior.attrs["sampling_time"]])


def _quantiles(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The ends of 90% intervals of weighted values, one pair a column."""
    ends = np.empty((2, values.shape[1]))
    for j, column in enumerate(values.T):
        order = np.argsort(column)
        ends[:, j] = np.interp(OUTER, np.cumsum(weights[order]), column[order])
    return ends


def compared(study: Study, seed: int) -> dict[str, Any]:
    """One summary: how far its two posteriors are apart."""
    mechanism, private = study.plan.mechanism, study.scenario.private
    rng = np.random.default_rng([seed, 77])
    theta = mechanism.parameters.draws(1, 5000 + seed)
    point = {name: values[0] for name, values in mechanism.parameters.natural(theta).items()}
    records = study.scenario.simulate(point, rng)
    released = mechanism.release(records, SimulatedNoise(rng, private.neighbors, 1))
    likelihood, start = mechanism.log_likelihood(released), mechanism.start(released)
    weighted = posterior(likelihood, mechanism.parameters.log_prior, start, rng)
    points = mechanism.parameters.natural(weighted.points)
    draws, seconds = sampled(noise_aware_model(private, mechanism, released), seed)
    distances, ratios, rhats, errors = [], [], [], []
    for name, values in points.items():
        flat = values.reshape(len(values), -1)
        mean = weighted.weights @ flat
        sd = np.sqrt(weighted.weights @ (flat - mean) ** 2)
        chain = draws.posterior[name].to_numpy()
        chain = chain.reshape(*chain.shape[:2], -1)
        distances.append((chain.mean(axis=(0, 1)) - mean) / sd)
        width = np.ptp(_quantiles(flat, weighted.weights), axis=0)
        ratios.append(np.ptp(np.quantile(chain, OUTER, axis=(0, 1)), axis=0) / width)
        by_cell = [chain[:, :, j] for j in range(chain.shape[2])]
        rhats += [float(az.rhat(one)) for one in by_cell]
        errors += [(1 / float(az.ess(one)) + 1 / weighted.effective) ** 0.5 for one in by_cell]
    return {
        "distance": float(np.max(np.abs(np.concatenate(distances)))),
        "error": float(np.max(errors)),
        "ratio": [float(np.min(np.concatenate(ratios))), float(np.max(np.concatenate(ratios)))],
        "rhat": max(rhats),
        "divergences": int(draws.sample_stats["diverging"].sum()),
        "seconds": seconds,
    }


def main(fits: int = 10, parts: tuple[str, ...] = ()) -> None:
    """Print one line for each model."""
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for name in SCENARIOS:
        if parts and not any(part in name for part in parts):
            continue
        study = Study(SCENARIOS[name](), 1.0)
        found = [compared(study, seed) for seed in range(fits)]
        ordinary = sampled(study.scenario.model, 0)[1]
        low = min(one["ratio"][0] for one in found)
        high = max(one["ratio"][1] for one in found)
        whole, alone = np.median([one["seconds"] for one in found], axis=0)
        print(
            f"{name:30} {fits} fits  largest distance {max(f['distance'] for f in found):.2f} "
            f"(error {max(f['error'] for f in found):.2f})  widths {low:.2f} to {high:.2f}  "
            f"R-hat {max(f['rhat'] for f in found):.3f}  divergences "
            f"{sum(f['divergences'] for f in found)}  seconds "
            f"{whole:.1f}, of the records {ordinary[0]:.1f}; without compilation {alone:.1f}, "
            f"{ordinary[1]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10, tuple(sys.argv[2:]))
