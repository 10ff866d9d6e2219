"""Private logistic and softmax regression: accuracy and log loss over random splits.

``python -m benchmarks.regression [--reps 20] [--sets ...] [--out benchmarks/out]``

The protocol is fixed before any record is read: features are moved into the unit ball by declared
constants, coefficients and intercepts are N(0, 1), the power comes from `calibrate`. What is
predicted is the mean of the draws' probabilities. Neighbors: one record replaced, n public. The
draws are not released, so a seed is used. Resumable.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import log_softmax, logsumexp

import pymc_private as pmp

SD = 1.0
COLUMNS = ("dataset", "delta", "draws", "rep", "acc", "log_loss", "power", "sampler", "seconds")
FAIR = {
    "rate_marriage": (1, 5), "age": (17.5, 42), "yrs_married": (0.5, 23), "children": (0, 5.5),
    "religious": (1, 4), "educ": (9, 20), "occupation": (1, 6), "occupation_husb": (1, 6),
}  # fmt: skip
"""Ranges of the questionnaire."""


@dataclass(frozen=True)
class Records:
    """Features as they enter the model, classes, and the number of classes."""

    X: np.ndarray
    y: np.ndarray
    classes: int


def to_ball(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Center each column in its range; a row uniform on the ranges has mean square norm 1.

    Rows that are longer are moved in by the domain, `Ball(1.0)`.
    """
    middle, half = (high + low) / 2, (high - low) / 2
    return (X - middle) / half / np.sqrt(X.shape[1] / 3)


def breast_cancer() -> Records:
    """Ranges are those of the whole set, an assumption that peers were given too."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return Records(to_ball(X, X.min(axis=0), X.max(axis=0)), y, 2)


def digits(one: int | None = None) -> Records:
    """All classes, or one of them against the rest; an image is divided by its own norm."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1e-9)[:, None]  # reads one record
    return Records(X, y, 10) if one is None else Records(X, (y == one).astype(int), 2)


def fair(names: tuple[str, ...] = tuple(FAIR)) -> Records:
    """The Fair survey: whether a woman had an affair."""
    import statsmodels.api as sm

    table = sm.datasets.fair.load_pandas().data
    low, high = np.array([FAIR[name] for name in names], float).T
    return Records(
        to_ball(table[list(names)].to_numpy(), low, high), (table["affairs"] > 0).to_numpy(int), 2
    )


SETS: dict[str, Callable[[], Records]] = {
    "breast_cancer": breast_cancer,
    "fair": fair,
    "fair, 2 features": lambda: fair(("rate_marriage", "yrs_married")),
    "digits, 0 or not": lambda: digits(0),
    "digits": digits,
}
CASES = {
    "breast_cancer": ((1e-5, 1), (1e-5, 10), (1e-9, 1), (0.0, 1)),
    "fair, 2 features": ((1e-5, 1), (1e-5, 10), (0.0, 1)),
    "fair": ((1e-5, 1), (1e-9, 1), (0.0, 1)),
    "digits, 0 or not": ((1e-5, 1), (1e-9, 1), (0.0, 1)),
    "digits": ((1e-5, 1), (1e-9, 1), (0.0, 1)),
}
"""Delta and number of draws."""


def model_of(records: Records, rows: np.ndarray) -> pm.Model:
    """Logistic regression of two classes, softmax regression of more."""
    X, y, k = records.X[rows], records.y[rows], records.classes
    coords = {"record": range(len(rows)), "feature": range(X.shape[1]), "level": range(k)}
    with pm.Model(coords=coords) as model:
        x = pm.Data("X", X, dims=("record", "feature"))
        if k == 2:
            eta = x @ pm.Normal("beta", 0.0, SD, dims="feature") + pm.Normal("a", 0.0, SD)
            pm.Bernoulli("y", logit_p=eta, observed=y, dims="record")
        else:
            beta = pm.Normal("beta", 0.0, SD, dims=("feature", "level"))
            eta = x @ beta + pm.Normal("a", 0.0, SD, dims="level")
            pm.Categorical("y", logit_p=eta, observed=y, dims="record")
    return model


def log_probabilities(release: pmp.Release, X: np.ndarray) -> np.ndarray:
    """Log of the mean of the draws' probabilities, shape (rows, classes)."""
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]  # as the domain moves them
    beta, a = (release.posterior[name].values[0] for name in ("beta", "a"))
    if beta.ndim == 2:
        eta = beta @ X.T + a[:, None]
        logs = np.stack([-np.logaddexp(0, eta), -np.logaddexp(0, -eta)], axis=-1)
    else:
        logs = log_softmax(X @ beta + a[:, None, :], axis=-1)
    return logsumexp(logs, axis=0) - np.log(len(a))


def split(y: np.ndarray, rep: int) -> tuple[np.ndarray, np.ndarray]:
    """70% to train on, stratified, as the peers."""
    from sklearn.model_selection import train_test_split

    return tuple(train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=rep))


def one(records: Records, delta: float, draws: int, rep: int) -> dict[str, object]:
    """Plan, draw and score one split."""
    train, test = split(records.y, rep)
    start = time.perf_counter()
    domain = {"X": pmp.Ball(1.0), "y": pmp.Categories(range(records.classes))}
    private = pmp.privatize(model_of(records, train), records="record", domain=domain)
    plan = pmp.calibrate(private, epsilon=1.0, delta=delta, draws=draws)
    release = pmp.sample(plan, random_seed=rep, progressbar=False)
    seconds = time.perf_counter() - start
    logs, y = log_probabilities(release, records.X[test]), records.y[test]
    return {
        "acc": np.mean(logs.argmax(axis=1) == y),
        "log_loss": -np.mean(logs[np.arange(len(y)), y]),
        "power": float(plan.private.power),
        "sampler": plan.sampler,
        "seconds": round(seconds, 1),
    }


def run(sets: list[str], reps: int, file: Path, deltas: list[float] | None = None) -> pd.DataFrame:
    """Compute what is missing and append it."""
    done = set()
    if file.exists():
        done = set(pd.read_csv(file)[list(COLUMNS[:4])].itertuples(index=False, name=None))
    with file.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        if not done:
            writer.writeheader()
        for name in sets:
            records = SETS[name]()
            cases = [case for case in CASES[name] if deltas is None or case[0] in deltas]
            for (delta, draws), rep in product(cases, range(reps)):
                key = (name, delta, draws, rep)
                if key not in done:
                    found = one(records, delta, draws, rep)
                    writer.writerow(dict(zip(COLUMNS, key, strict=False)) | found)
                    handle.flush()
    return pd.read_csv(file)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=list(SETS)[:-1])  # the last takes an hour
    parser.add_argument("--deltas", type=float, nargs="*", help="only these")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of seeds: nothing here is released
    found = run(options.sets, options.reps, options.out / "regression.csv", options.deltas)
    table = found.groupby(["dataset", "delta", "draws"]).agg(
        acc=("acc", "mean"), acc_sd=("acc", "std"),
        log_loss=("log_loss", "mean"), log_loss_sd=("log_loss", "std"),
        power=("power", "mean"), seconds=("seconds", "mean"), splits=("rep", "nunique"),
        sampler=("sampler", "first"),
    )  # fmt: skip
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
