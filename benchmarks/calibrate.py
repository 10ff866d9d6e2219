"""Frontiers, what calibrate chooses, and what that costs in accuracy on the Fair survey.

``python -m benchmarks.calibrate [speed] [frontiers] [accuracy]`` prints tables; with a folder
``--out=FOLDER`` it writes the pictures as well.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit

import pymc_private as pmp
from pymc_private.demo import declare_records, fair_model

DELTA = 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
COUNTS = (1, 10, 50)


def logistic_of(size: int, n: int) -> pmp.PrivateModel:
    """A logistic regression with rows in the unit ball."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, size)) / np.sqrt(size)
    with pm.Model(coords={"i": range(n)}) as model:
        x = pm.Data("X", rows, dims=("i", None))
        slope = pm.Normal("slope", 0, 1, shape=size)
        pm.Bernoulli("y", logit_p=x @ slope, observed=rng.integers(0, 2, n), dims="i")
    return pmp.privatize(model, records="i", domain={"X": pmp.Ball(1.0)})


def hierarchical_fair() -> pmp.PrivateModel:
    """Affairs by occupation: a free spread between six occupations, so not log-concave."""
    import statsmodels.api as sm

    table = sm.datasets.fair.load_pandas().data
    coords = {"woman": range(len(table)), "job": range(1, 7)}
    with pm.Model(coords=coords) as model:
        job = pm.Data("job_of", table["occupation"].to_numpy(int) - 1, dims="woman")
        spread = pm.HalfNormal("spread", 0.5)
        level = pm.Normal("level", 0.0, 1.0)
        offset = pm.Normal("by_job", level, spread, dims="job")
        answer = (table["affairs"] > 0).astype(int)
        pm.Bernoulli("affair", logit_p=offset[job], observed=answer, dims="woman")
    return pmp.privatize(model, records="woman", domain={"job_of": range(6)})


def mixture_of_irises() -> pmp.PrivateModel:
    """Petal lengths of irises (0 to 10 cm): two normals with free centers and weight."""
    from sklearn.datasets import load_iris

    length = load_iris()["data"][:, 2]
    with pm.Model(coords={"iris": range(len(length))}) as model:
        weight = pm.Beta("weight", 2, 2)
        center = pm.Normal("center", [2.0, 5.0], 1.0)
        parts = [pm.Normal.dist(center[0], 1.0), pm.Normal.dist(center[1], 1.0)]
        pm.Mixture(
            "length", pm.math.stack([weight, 1 - weight]), parts, observed=length, dims="iris"
        )
    return pmp.privatize(model, records="iris", domain={"length": (0, 10)})


MODELS = {
    "GLM (Fair, 3 coefficients)": (lambda: declare_records(fair_model()), {}),
    "hierarchical (Fair by occupation)": (
        hierarchical_fair,
        {"sampler": pmp.samplers.Nuts(tv=1e-12)},
    ),
    "mixture (irises)": (mixture_of_irises, {"clip": False}),
    "mixture, a clip allowed": (mixture_of_irises, {"clip": True}),
}
COLORS = ("#b3462b", "#2b6cb3", "#4a8f3c", "#8f6bb3")


def frontiers(out: Path | None) -> str:
    """Records' worth kept by ten draws, epsilon from 0.1 to 10."""
    rows = []
    for name, (make, words) in MODELS.items():
        private = make()
        for epsilon in EPSILONS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pmp.errors.PrivacyWarning)
                plan = pmp.calibrate(private, epsilon=epsilon, delta=DELTA, draws=10, **words)
            chosen = plan.chosen
            rows.append(
                {
                    "model": name,
                    "epsilon": epsilon,
                    "region": chosen.words,
                    "R": chosen.certificate.range,
                    "accounting method": plan.guarantee.accounting_method(DELTA),
                    "power": float(plan.private.power),
                    "records kept": plan.records_kept,
                    "n": plan.n,
                    "nats": chosen.information,
                    "of": plan.whole,
                }
            )
    table = pd.DataFrame(rows)
    if out is not None:
        _picture_of_frontiers(table).savefig(out / "frontiers.png", dpi=150)
    return table.to_string(index=False, float_format=lambda v: f"{v:.4g}")


def _picture_of_frontiers(table: pd.DataFrame) -> object:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, part), color in zip(table.groupby("model", sort=False), COLORS, strict=True):
        left.plot(part["epsilon"], part["records kept"] / part["n"], "o-", color=color, label=name)
        right.plot(part["epsilon"], part["nats"] / part["of"], "o-", color=color)
    left.set_yscale("log")
    left.set_ylabel("share of the records' worth kept")
    right.set_ylabel("share of the expected information")
    right.set_ylim(0, 1)
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        ax.minorticks_off()
        ax.set_xlabel(f"epsilon of 10 draws (delta = {DELTA:g})")
        ax.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8)
    return figure


class FairPosterior:
    """Moments of tempered, boxed posteriors of the Fair survey, by importance sampling.

    20,000 points of a multivariate t around the mode: errors below 1% of a standard deviation.
    """

    def __init__(self) -> None:
        import statsmodels.api as sm

        from pymc_private.demo import FEATURES, SCALE

        data = sm.datasets.fair.load_pandas().data
        features = SCALE.ball.clip(SCALE(data[list(FEATURES)]), 0)
        signs = np.where(data["affairs"] > 0, 1.0, -1.0)
        whole = np.column_stack([np.ones(len(data)), features, signs])
        distinct, self.counts = np.unique(whole, axis=0, return_counts=True)
        self.rows, self.signs = distinct[:, :3], distinct[:, 3]
        self.rng = np.random.default_rng(1)

    def moments(self, power: float, box: tuple[np.ndarray, np.ndarray] | None = None) -> tuple:
        """Mean and standard deviations; the prior is normal with sd 0.7."""
        mode = np.zeros(3)
        for _ in range(50):
            p = expit(-self.signs * (self.rows @ mode))
            gradient = power * self.rows.T @ (self.counts * self.signs * p) - mode / 0.49
            weights = self.counts * p * (1 - p)
            hessian = power * (self.rows.T * weights) @ self.rows + np.eye(3) / 0.49
            mode = mode + np.linalg.solve(hessian, gradient)
        root = np.linalg.cholesky(np.linalg.inv(hessian))
        z = self.rng.standard_t(5, size=(20_000, 3))
        points = mode + 1.1 * z @ root.T
        log = -self.counts @ np.logaddexp(0.0, -self.signs[:, None] * (self.rows @ points.T))
        log = power * log - (points**2).sum(axis=1) / 0.98 + 3.0 * np.log1p(z**2 / 5).sum(axis=1)
        if box is not None:
            log[np.any((points < box[0]) | (points > box[1]), axis=1)] = -np.inf
        weights = np.exp(log - log.max())
        weights /= weights.sum()
        mean = weights @ points
        return mean, np.sqrt(weights @ (points - mean) ** 2)

    def error(self, row: object, draws: int, truth: tuple) -> float:
        """Root mean squared error of the mean of the draws, in non-private posterior sds."""
        region = row.private.region  # type: ignore[attr-defined]
        box = None
        if region:
            ends = [(region["intercept"], ()), (region["slope"], 0), (region["slope"], 1)]
            box = (
                np.array([float(b.lower[i]) for b, i in ends]),
                np.array([float(b.upper[i]) for b, i in ends]),
            )
        mean, sd = self.moments(float(row.power), box)  # type: ignore[attr-defined]
        squared = ((mean - truth[0]) ** 2 + sd**2 / draws) / truth[1] ** 2
        return float(np.sqrt(squared.mean()))


def accuracy(out: Path | None) -> str:
    """Error of the mean of N released draws, along the frontier."""
    private, posterior = declare_records(fair_model()), FairPosterior()
    truth = posterior.moments(1.0)
    rows = []
    for epsilon in (0.5, 1.0, 2.0):
        plan = pmp.calibrate(private, epsilon=epsilon, delta=DELTA, draws=COUNTS)
        for row in plan.frontier:
            error = posterior.error(row, row.draws, truth)
            rows.append(
                {
                    "epsilon": epsilon,
                    "draws": row.draws,
                    "region": row.words,
                    "records kept": row.records_kept,
                    "nats": row.information,
                    "error / sd": error,
                    "chosen": "*" if row.chosen else "",
                }
            )
    table = pd.DataFrame(rows)
    if out is not None:
        _picture_of_accuracy(table).savefig(out / "accuracy.png", dpi=150)
    return table.to_string(index=False, float_format=lambda v: f"{v:.4g}")


def _picture_of_accuracy(table: pd.DataFrame) -> object:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for (draws, part), color in zip(
        table[table["chosen"] == "*"].groupby("draws"), COLORS, strict=False
    ):  # fmt: skip
        label = f"{draws} draw{'s' if draws > 1 else ''}"
        ax.plot(part["epsilon"], part["error / sd"], "o-", color=color, label=label)
    ax.axhline(1.0, color="0.6", linewidth=1)
    ax.text(0.5, 0.35, "one draw without privacy", ha="left", fontsize=8, color="0.4")
    ax.set_xticks([0.5, 1.0, 2.0])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"epsilon of all draws (delta = {DELTA:g})")
    ax.set_ylabel("error of the mean of the draws,\nin posterior standard deviations")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def speed(out: Path | None) -> str:
    """Time of calibrate: thirty coefficients, the zoo, and the number of records.

    Of the processor, and by the clock.
    """
    from benchmarks.zoo import ZOO, N

    lines = []
    pmp.calibrate(logistic_of(2, 100), epsilon=1.0, delta=DELTA)  # imports
    for size, n in ((3, 1000), (30, 1000), (30, 100_000), (30, 1_000_000)):
        private = logistic_of(size, n)
        start = time.process_time(), time.perf_counter()
        pmp.calibrate(private, epsilon=1.0, delta=DELTA, draws=10)
        took = time.process_time() - start[0], time.perf_counter() - start[1]
        lines.append(
            f"logistic, {size} coefficients, n = {n}: {took[0]:.2f} s of the processor, "
            f"{took[1]:.2f} s by the clock"
        )
    times = {}
    for entry in ZOO:
        private = entry.privatize(entry.data(np.random.default_rng(1), N))
        sampler = "auto"
        if sum(int(np.prod(s)) for s in private.shapes.values()) > 4:
            sampler = pmp.samplers.Nuts(tv=1e-9)
        for box, model in (("", private), (" untrimmed", _untrimmed(entry))):
            start = time.process_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    pmp.calibrate(model, epsilon=1.0, delta=DELTA, draws=10, sampler=sampler)
                times[entry.name + box] = time.process_time() - start
            except pmp.errors.PymcPrivateError as error:
                lines.append(f"{entry.name}{box}: {time.process_time() - start:.2f} s, "
                             f"{type(error).__name__} {error.problem}")  # fmt: skip
    for kind in ("", " untrimmed"):
        some = {k: v for k, v in times.items() if k.endswith(" untrimmed") == bool(kind)}
        worst = max(some, key=some.__getitem__)
        lines.append(f"zoo{kind or ' in its box'}: {len(some)} plans, median "
                     f"{np.median(list(some.values())):.2f} s, worst {some[worst]:.2f} s "
                     f"({worst})")  # fmt: skip
    return "\n".join(lines)


def _untrimmed(entry: object) -> pmp.PrivateModel:
    from benchmarks.zoo import N

    data = entry.data(np.random.default_rng(1), N)  # type: ignore[attr-defined]
    keywords = {"records": "person"} | dict(entry.keywords)  # type: ignore[attr-defined]
    return pmp.privatize(entry.model(data), domain=entry.domain, **keywords)  # type: ignore[attr-defined]


TABLES = {"accuracy": accuracy, "frontiers": frontiers, "speed": speed}


def main(arguments: list[str]) -> None:
    """Print the tables that are named, or all."""
    folders = [Path(a.removeprefix("--out=")) for a in arguments if a.startswith("--out=")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    named = [a for a in arguments if a in TABLES] or list(TABLES)
    for name in named:
        print(f"{name}\n{TABLES[name](folders[0] if folders else None)}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
