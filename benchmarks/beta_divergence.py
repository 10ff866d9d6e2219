"""Clip or beta-divergence? Four models at epsilon = 1, with and without outliers.

Run ``python -m benchmarks.beta_divergence [name ...]``; ``weighed`` prints what either promises for
sixteen ordinary models. Ten draws are planned of each model clipped (``clip=True``), and scored by
the beta-divergence with the beta of `BETAS` that promises most. For 20 simulated data sets, and for
the same with 5% of their records moved far away, the posterior that these draws come from is
compared with that of the clean records without privacy. Columns: information expected, nats; then
for clean records and for those with outliers the error of the posterior mean in standard deviations
of the posterior without privacy (root mean square over parameters and data sets), and its width in
their widths (geometric mean); CPU seconds of `calibrate`. Studies are kept in files of the working
directory, and not computed again.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.shape import SpecifyShape

import pymc_private as pmp
from benchmarks.ordinary_models import BUDGET, MODELS, Built, people, with_domain
from pymc_private.analysis.traversal import rebuild
from pymc_private.models.information import simulated_information
from pymc_private.models.record_graph import record_in_plain_ops
from pymc_private.posterior.candidates import CandidateModels, DrawBudget
from pymc_private.samplers.choose import choose_sampler

DRAWS, STUDIES, OUTLIERS = 10, 20, 0.05
BETAS = (0.06, 0.125, 0.25, 0.5, 1.0, 2.0)
WALKERS, WARM, STEPS, EXACT_STEPS = 32, 40, 60, 120
"""Walkers, their steps that are dropped, and those kept, of the exact posterior more."""
FAR = {
    "mixture of two normals": (4.0, 5.0),
    "student t regression": (5.0, 6.0),
    "poisson with offset": (25, 30),
    "weibull": (5.0, 6.0),
}
"""Where the outcomes of outliers lie."""
Posterior = Callable[..., float]


def weibull(rng: np.random.Generator) -> Built:
    """Durations of 400 persons."""
    with people(400) as model:
        shape, scale = pm.Gamma("shape", 4, 3), pm.Gamma("scale", 4, 3)
        y = 1.5 * rng.weibull(1.4, 400)
        pm.Weibull("y", alpha=shape, beta=scale, observed=y, dims="person")
    return with_domain(model, y=(0.01, 6))


def declared(name: str, seed: int) -> Any:
    """A model with its records, simulated from a seed."""
    build = weibull if name == "weibull" else MODELS[name]
    model, words = build(np.random.default_rng(seed))
    return pmp.privatize(model, **words)


def records_of(private: Any) -> dict[str, np.ndarray]:
    """The records of a model, by the names of its variables."""
    return {source.name: source.values() for source in private.sources}


def with_outliers(name: str, records: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """The records, some of them with an outcome far away."""
    rng, y = np.random.default_rng(seed), records["y"].copy()
    far = rng.random(len(y)) < OUTLIERS
    y[far] = rng.uniform(*FAR[name], far.sum()).astype(y.dtype)
    return records | {"y": y}


def density_of(private: Any) -> Posterior:
    """Log posterior densities of many parameter points in natural units, given records."""
    graph = private.graph
    many = {v: pt.tensor(dtype="float64", shape=(None, *private.shapes[k]))
            for k, v in graph.parameters.items()}  # fmt: skip
    total = float(private.power) * record_in_plain_ops(graph).sum() + graph.prior
    inputs = [*graph.parameters.values(), *graph.data.values()]
    unchecked = rebuild([total], {v: v for v in inputs}, without_checks)[0]
    total = vectorize_graph(unchecked, many)
    inputs = [*many.values(), *graph.data.values()]
    return pytensor.function(inputs, total, mode="FAST_COMPILE", on_unused_input="ignore")


def without_checks(node: Any, inputs: Any) -> Any:
    """A rule that leaves out the checks of the model: its box is kept to instead."""
    return inputs[0] if isinstance(node.op, CheckAndRaise | SpecifyShape) else None


def moments(private: Any, logp: Posterior, records: Any, seed: int, steps: int) -> tuple[Any, Any]:
    """Posterior means and standard deviations of all parameters, by an ensemble of walkers."""
    rng, names = np.random.default_rng(seed), list(private.graph.parameters)
    rows = [records[name] for name in private.graph.data]
    low = np.concatenate([np.ravel(private.box[k].lower) for k in names])
    high = np.concatenate([np.ravel(private.box[k].upper) for k in names])
    shapes, size = [private.shapes[k] for k in names], len(low)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def at(x: np.ndarray) -> np.ndarray:
        inside = np.all((x > low) & (x < high), axis=1)
        found = np.full(len(x), -np.inf)
        parts = zip(np.split(x[inside], ends, axis=1), shapes, strict=True)
        with np.errstate(all="ignore"):
            if inside.any():
                found[inside] = logp(*(p.reshape(-1, *shape) for p, shape in parts), *rows)
        return np.where(np.isnan(found), -np.inf, found)

    drawn = simulated_information(private, private.n).drawn
    table = np.concatenate([drawn[k].reshape(len(drawn[k]), -1) for k in names], axis=1)
    x = table[np.argsort(-at(table[:200]))[:WALKERS]]
    here, kept = at(x), []
    for step in range(WARM + steps):  # stretch moves of Goodman and Weare (2010)
        for half in (np.arange(0, WALKERS, 2), np.arange(1, WALKERS, 2)):
            others = x[rng.choice(np.setdiff1d(np.arange(WALKERS), half), len(half))]
            stretch = (1.0 + rng.random(len(half))) ** 2 / 2.0
            there = others + stretch[:, None] * (x[half] - others)
            value = at(there)
            with np.errstate(invalid="ignore"):
                rise = (size - 1) * np.log(stretch) + value - here[half]
            moved = np.log(rng.random(len(half))) < rise
            x[half[moved]], here[half[moved]] = there[moved], value[moved]
        if step >= WARM:
            kept.append(x.copy())
    found = np.concatenate(kept)
    return found.mean(axis=0), found.std(axis=0)


def promises(private: Any, draws: int) -> tuple[float, dict[float, float]]:
    """Information that the best clip promises, nats, and each beta, as calibrate would weigh them.

    The range of a score is taken to be twice M^beta / beta, M the largest density simulated (1 for
    discrete outcomes).
    """
    simulated = simulated_information(private, private.n, weighted=True)
    ways = CandidateModels(private, choose_sampler, simulated, private.n)
    box, budget = ways._box_of_a_clip, DrawBudget(*BUDGET.values(), draws)
    discrete = not private.base.observed_RVs[0].type.dtype.startswith("float")
    top = 0.0 if discrete else simulated.values[np.isfinite(simulated.values)].max()
    of_betas = {}
    for beta in BETAS:
        power = min(1.0, budget.range * beta / (2.0 * np.exp(beta * top)))
        of_betas[beta] = replace(simulated, beta=beta).gain(box, power)
    return ways.promise_of_clip(budget), of_betas


def weighed() -> None:
    """What a clip and the best beta promise for one draw and for ten."""
    left = {"radon by county", "ar 1 of persons", "absolute loss", "weibull with censoring",
            "ordinal answers", "correlated pairs"}  # fmt: skip
    for name in [name for name in MODELS if name not in left]:
        private, found = declared(name, 1), []
        for draws in (1, DRAWS):
            of_clip, of_betas = promises(private, draws)
            found += [of_clip, max(of_betas.values())]
        print(f"{name:24s} " + " ".join(f"{nats:7.2f}" for nats in found), flush=True)


def plans(name: str) -> dict[str, tuple[Any, float]]:
    """The plan of each way, and the CPU seconds it took."""
    private, found = declared(name, 1), {}
    of_betas = promises(private, DRAWS)[1]
    beta = max(of_betas, key=lambda each: of_betas[each])
    scored = pmp.beta_divergence(private, beta)
    for way, model, clip in (("clipped", private, True), (f"beta {beta:g}", scored, False)):
        start = time.process_time()
        plan = pmp.calibrate(model, clip=clip, draws=DRAWS, **BUDGET)
        found[way] = plan, time.process_time() - start
    return found


def studies(name: str, kept: Path) -> None:
    """Append a line for each study, way and kind of records: squared error, and log width."""
    done = kept.read_text().splitlines() if kept.exists() else []
    left = range(sum(line.startswith("study") for line in done) // 6, STUDIES)
    if not left:
        return
    planned, whole = plans(name), declared(name, 1)
    with kept.open("a") as lines:
        for way, (plan, seconds) in planned.items():
            lines.write(f"plan | {way} | {plan.chosen.information} | {seconds}\n")
        models = {"without privacy": whole} | {k: plan.private for k, (plan, _) in planned.items()}
        densities = {way: density_of(private) for way, private in models.items()}
        for study in left:
            clean, found = records_of(declared(name, 100 + study)), []
            kinds = {"clean": clean, "outliers": with_outliers(name, clean, study)}
            exact = moments(whole, densities["without privacy"], clean, study, EXACT_STEPS)
            for (way, private), (kind, records) in product(models.items(), kinds.items()):
                there = moments(private, densities[way], records, 1000 + study, STEPS)
                error = np.mean(((there[0] - exact[0]) / exact[1]) ** 2)
                width = np.mean(np.log(there[1] / exact[1]))
                found.append(f"study {study} | {way} | {kind} | {error} | {width}\n")
            lines.write("".join(found))
            lines.flush()


def table(name: str, kept: Path) -> None:
    """Print what the lines of a model say."""
    lines = [line.split(" | ") for line in kept.read_text().splitlines()]
    planned = {way: row for kind, way, *row in lines if kind == "plan"}
    rows = [row for row in lines if row[0] != "plan"]
    for way in dict.fromkeys(row[1] for row in rows):
        cells = []
        for kind in ("clean", "outliers"):
            own = np.array([row[3:] for row in rows if row[1:3] == [way, kind]], float)
            cells.append(f"{np.sqrt(own[:, 0].mean()):6.2f} {np.exp(own[:, 1].mean()):6.2f}")
        nats, seconds = (float(x) for x in planned.get(way, (np.nan, np.nan)))
        print(f"{name:24s} {way:16s} {nats:5.2f} {' '.join(cells)} {seconds:5.0f} ({len(own)})")


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    if names == ["weighed"]:
        weighed()
        return
    for name in names or FAR:
        kept = Path(f"beta_divergence_{name.replace(' ', '_')}.txt")
        studies(name, kept)
        table(name, kept)


if __name__ == "__main__":
    main(sys.argv[1:])
