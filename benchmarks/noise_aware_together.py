"""Two models of one table: summaries released together beside two separate ones; other priors.

Run ``python -m benchmarks.noise_aware_together [simulations]``. In each simulation one table has
three covariates, a logistic outcome y and a Poisson outcome z. Both regressions are summarized
separately at half of epsilon 1 each, and together at epsilon 1 (each at mu such that all, with
shared moments, is mu(1)-GDP). Error, width and coverage as in `noise_aware`.

The last lines are of the logistic summary of a prior of standard deviation 1, reused under a prior
of .3 that the slopes are drawn from, and of one released under that prior.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_private as pmp
from benchmarks.noise_aware import DELTA, INNER, OUTER, non_private, posterior
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.joint_plan import plan_together, shared_reference
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores.model_scores import score_mechanism

N, EPSILON, NARROW = 3000, 1.0, 0.3
Arrays = dict[str, np.ndarray]


def declared(outcome: str, sd: float = 1.0) -> Any:
    """One of the two regressions, with placeholder data."""
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("x", np.zeros((N, 3)), dims=("row", None))
        eta = pm.Normal("intercept", 0, 0.7) + x @ pm.Normal("slopes", 0, 0.7 * sd, shape=3)
        observed = {"observed": np.zeros(N, int), "dims": "row"}
        if outcome == "y":
            pm.Bernoulli("y", logit_p=eta, **observed)
        else:
            pm.Poisson("z", pm.math.exp(eta), **observed)
    domain = {"x": (-1, 1)} | ({} if outcome == "y" else {"z": (0, 200)})
    return pmp.privatize(model, records="row", domain=domain)


def table(thetas: dict[str, np.ndarray], rng: np.random.Generator) -> Arrays:
    """Covariates with a common cause, and both outcomes."""
    x = np.clip(0.4 * rng.standard_normal((N, 3)) + 0.2 * rng.standard_normal((N, 1)), -1, 1)
    eta = {name: theta[0] + x @ theta[1:] for name, theta in thetas.items()}
    z = np.minimum(rng.poisson(np.exp(eta["z"])), 200)
    return {"x": x, "y": 1.0 * (rng.random(N) < expit(eta["y"])), "z": 1.0 * z}


def judged(draws: Any, exact: Any, theta: np.ndarray) -> list[float]:
    """Mean squared error, width, and share of 50% and 90% intervals that hold."""
    inner, outer = (draws.quantiles(list(shares)) for shares in (INNER, OUTER))
    width = np.ptp(outer, axis=0) / np.ptp(exact.quantiles(list(OUTER)), axis=0)
    held = [np.mean((ends[0] <= theta) & (theta <= ends[1])) for ends in (inner, outer)]
    return [float(np.mean(((draws.mean - exact.mean) / exact.sd) ** 2)), np.median(width), *held]


def drawn(mechanism: Any, released: Arrays, prior: Any, rng: np.random.Generator) -> Any:
    """The posterior of a summary under a prior."""
    return posterior(
        mechanism.log_likelihood(released), prior.log_prior, mechanism.start(released), rng
    )


def print_rows(title: str, rows: list[list[float]]) -> None:
    """One line of the table."""
    found = np.array(rows)
    error, spread = np.sqrt(found[:, 0].mean()), found[:, 2:].std(axis=0) / np.sqrt(len(found))
    inner, outer = found[:, 2:].mean(axis=0)
    print(f"{title:34} error {error:.2f} (median {np.median(np.sqrt(found[:, 0])):.2f})  width "
          f"{np.median(found[:, 1]):.2f}  coverage of 50% {inner:.3f}±{spread[0]:.3f}, of 90% "
          f"{outer:.3f}±{spread[1]:.3f}", flush=True)  # fmt: skip


def study_together(simulations: int) -> None:
    """Both regressions, separately and together."""
    privates = {name: declared(name) for name in "yz"}
    joint = plan_together(list(privates.values()), EPSILON, DELTA, method="scores")
    both = dict(zip("yz", [plan.mechanism for plan in joint.plans], strict=True))
    half = largest_mu(EPSILON / 2, DELTA)
    alone = {name: score_mechanism(private, half) for name, private in privates.items()}
    mus = {"separate": half, "together": both["y"].mu}  # type: ignore[attr-defined]
    print(f"{simulations} tables, n {N}; mu of each summary {mus}; together mu "
          f"{joint.guarantee.gdp:.4f}, epsilon {joint.guarantee.epsilon(DELTA):.4f}")  # fmt: skip
    densities = {name: RecordDensity(private) for name, private in privates.items()}
    rows: dict[str, list[list[float]]] = {}
    for k in range(simulations):
        rng = np.random.default_rng([11, k])
        thetas = {n: m.parameters.draws(1, 2000 + 2 * k + (n == "z"))[0] for n, m in alone.items()}
        records, released = table(thetas, rng), dict[str, Any]()
        for name in "yz":
            own = {"x": records["x"], name: records[name]}
            exact = non_private(densities[name], own, thetas[name], rng)
            shared = shared_reference(released["y"], ("x",)) if name == "z" else None
            words = {} if shared is None else {"shared": shared}
            released[name] = both[name].release(own, SimulatedNoise(rng), **words)
            each = {
                "separate": (alone[name], alone[name].release(own, SimulatedNoise(rng))),
                "together": (both[name], released[name]),
            }
            for kind, (mechanism, arrays) in each.items():
                draws = drawn(mechanism, arrays, mechanism.parameters, rng)
                title = f"{'logistic' if name == 'y' else 'Poisson'}, {kind}"
                rows.setdefault(title, []).append(judged(draws, exact, thetas[name]))
    for title, found in rows.items():
        print_rows(title, found)


def study_reuse(simulations: int) -> None:
    """The logistic summary of a wide prior under a narrow one."""
    wide, narrow = (
        score_mechanism(declared("y", sd), largest_mu(EPSILON, DELTA)) for sd in (1.0, NARROW)
    )
    density = RecordDensity(declared("y", NARROW))
    rows: dict[str, list[list[float]]] = {}
    for k in range(simulations):
        rng = np.random.default_rng([13, k])
        theta = narrow.parameters.draws(1, 3000 + k)[0]
        records = table({"y": theta, "z": theta}, rng)
        own = {"x": records["x"], "y": records["y"]}
        exact = non_private(density, own, theta, rng)
        for title, mechanism in (("reused under the narrow prior", wide),
                                 ("released under it", narrow)):  # fmt: skip
            released = mechanism.release(own, SimulatedNoise(rng))
            draws = drawn(mechanism, released, narrow.parameters, rng)
            rows.setdefault(title, []).append(judged(draws, exact, theta))
    for title, found in rows.items():
        print_rows(title, found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    study_together(COUNT)
    study_reuse(COUNT)
