"""Noisy summaries on the regression tables of other systems: accuracy and log loss over splits.

Run ``python -m benchmarks.noise_aware_classification [splits] [part of a name] ...``: logistic
regressions at (1, 1e-5), one record replaced; 70% of the records to train on, the splits of
`benchmarks.regression`. A model is fixed by what features mean and by their public ranges, never by
records. Each row of the table is one such model, and all that were tried are rows.

Predictors lie in [-1, 1]: averages over groups of features, each scaled by its range. A slope is
N(0, (10 / sqrt(predictors))^2) and the intercept N(0, 5^2): all predictors at an end of their
ranges together make the log-odds some 10, which all but decides. What is predicted is the posterior
mean of the probability.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_private as pmp
from benchmarks.noise_aware import posterior
from benchmarks.regression import FAIR, split
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise

EPSILON, DELTA = 1.0, 1e-5
SLOPES_SD, INTERCEPT_SD = 10.0, 5.0
SIZE = ("radius", "perimeter", "area")
MEASURES = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity",
            "concave points", "symmetry", "fractal dimension")  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Predictors in [-1, 1] and a binary outcome of all records."""

    X: np.ndarray
    y: np.ndarray


def scaled(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Each column mapped from its range to [-1, 1]."""
    return np.clip(2 * (X - low) / (high - low) - 1, -1, 1)


def averages(X: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """The mean of each group of columns."""
    return np.stack([X[:, list(group)].mean(axis=1) for group in groups], axis=1)


def breast_cancer(groups: Callable[[list[str]], list[list[int]]]) -> Table:
    """Nuclei in an image: ten measures, each as mean, error and worst.

    Ranges are those of the whole set, an assumption that all peers were given.
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    X = scaled(bunch.data, bunch.data.min(axis=0), bunch.data.max(axis=0))
    return Table(averages(X, groups(list(bunch.feature_names))), bunch.target)


def everything(names: list[str]) -> list[list[int]]:
    """One group."""
    return [list(range(len(names)))]


def size_and_shape(names: list[str]) -> list[list[int]]:
    """Size; all else."""
    large = [k for k, name in enumerate(names) if any(word in name for word in SIZE)]
    return [large, sorted(set(range(len(names))) - set(large))]


def measures(names: list[str]) -> list[list[int]]:
    """Mean, error and worst of a measure together."""
    return [[k for k, name in enumerate(names) if word in name] for word in MEASURES]


def single(names: list[str]) -> list[list[int]]:
    """Each feature by itself."""
    return [[k] for k in range(len(names))]


def zero_or_not(blocks: int) -> Table:
    """Images of digits, averaged over blocks x blocks parts; whether the digit is zero."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    side = 8 // blocks
    images = X.reshape(-1, blocks, side, blocks, side).mean(axis=(2, 4)).reshape(len(X), -1)
    return Table(images / 8.0 - 1.0, (y == 0).astype(int))


def fair(names: Sequence[str]) -> Table:
    """The Fair survey, by the ranges of its questionnaire."""
    import statsmodels.api as sm

    table = sm.datasets.fair.load_pandas().data
    low, high = np.array([FAIR[name] for name in names], float).T
    X = scaled(table[list(names)].to_numpy(float), low, high)
    return Table(X, (table["affairs"] > 0).to_numpy(int))


TABLES: dict[str, Callable[[], Table]] = {
    "breast cancer, 1 average": lambda: breast_cancer(everything),
    "breast cancer, size and shape": lambda: breast_cancer(size_and_shape),
    "breast cancer, 10 measures": lambda: breast_cancer(measures),
    "breast cancer, 30 features": lambda: breast_cancer(single),
    "digits, 0 or not, 4 blocks": lambda: zero_or_not(2),
    "digits, 0 or not, 16 blocks": lambda: zero_or_not(4),
    "Fair, 2 features": lambda: fair(("rate_marriage", "yrs_married")),
    "Fair, 8 features": lambda: fair(tuple(FAIR)),
}


def model_of(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """The logistic regression."""
    with pm.Model(coords={"record": range(len(y)), "predictor": range(X.shape[1])}) as model:
        x = pm.Data("X", X, dims=("record", "predictor"))
        sd = SLOPES_SD / np.sqrt(X.shape[1])
        eta = pm.Normal("intercept", 0, INTERCEPT_SD) + x @ pm.Normal(
            "slopes", 0, sd, dims="predictor"
        )
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="record")
    return model


def scores_of(points: np.ndarray, weights: np.ndarray, table: Table) -> tuple[float, float]:
    """Accuracy and mean log loss of the posterior mean of the probability."""
    p = weights @ expit(points[:, :1] + points[:, 1:] @ table.X.T)
    p = np.clip(p, 1e-12, 1 - 1e-12)
    loss = -np.mean(np.log(np.where(table.y == 1, p, 1 - p)))
    return float(np.mean((p > 0.5) == (table.y == 1))), float(loss)


def non_private(table: Table, rng: np.random.Generator) -> Any:
    """Weighted draws of the posterior of the records."""
    z = np.column_stack([np.ones(len(table.y)), table.X])
    sds = np.r_[INTERCEPT_SD, np.full(table.X.shape[1], SLOPES_SD / np.sqrt(table.X.shape[1]))]

    def log_density(theta: np.ndarray) -> np.ndarray:
        eta = theta @ z.T
        logs = (table.y * eta - np.logaddexp(0, eta)).sum(axis=1)
        return logs - 0.5 * ((theta / sds) ** 2).sum(axis=1)

    mode = np.zeros(z.shape[1])
    for _ in range(30):
        p = expit(z @ mode)
        curvature = (z.T * (p * (1 - p))) @ z + np.diag(1 / sds**2)
        mode = mode + np.linalg.solve(curvature, z.T @ (table.y - p) - mode / sds**2)
    return importance_draws(log_density, mode, np.linalg.inv(curvature), rng, climb=False)


def one(table: Table, rep: int) -> dict[str, float]:
    """One split: accuracy and log loss of the summary and of the records."""
    train, test = (Table(table.X[rows], table.y[rows]) for rows in split(table.y, rep))
    rng = np.random.default_rng([rep, 17])
    domain = {"X": (-1.0, 1.0), "y": {0, 1}}
    private = pmp.privatize(model_of(train.X, train.y), records="record", domain=domain)
    plan = make_summary_plan(private, epsilon=EPSILON, delta=DELTA, method="scores")
    mechanism = plan.mechanism
    released = mechanism.release({"X": train.X, "y": train.y}, SimulatedNoise(rng))
    likelihood, prior = mechanism.log_likelihood(released), mechanism.parameters.log_prior
    found = posterior(likelihood, prior, mechanism.start(released), rng)
    accuracy, loss = scores_of(found.points, found.weights, test)
    exact = non_private(train, rng)
    best = scores_of(exact.points, exact.weights, test)
    return {
        "accuracy": accuracy,
        "log loss": loss,
        "accuracy of records": best[0],
        "log loss of records": best[1],
        "nats": plan.nats,
        "refused": float(any(c.refuse for c in mechanism.warnings(released))),
        "effective": found.effective,
    }


def main(splits: int = 20, parts: Any = ()) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    for name, load in TABLES.items():
        if parts and not any(part in name for part in parts):
            continue
        start, table = time.process_time(), load()
        rows = [one(table, rep) for rep in range(splits)]
        columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        text = "  ".join(
            f"{key} {values.mean():.3f}±{values.std(ddof=1):.3f}"
            for key, values in list(columns.items())[:4]
        )
        print(
            f"{name:30} {text}  majority {max(table.y.mean(), 1 - table.y.mean()):.3f}  expected "
            f"{columns['nats'].mean():.1f} nats  refused {columns['refused'].sum():.0f} of {splits}"
            f"  effective {columns['effective'].min():.0f}  {time.process_time() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 20, given[1:])
