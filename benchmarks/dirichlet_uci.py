"""Private naive Bayes and Bayesian networks on UCI data: every method, every budget.

``python -m benchmarks.dirichlet_uci [--reps 20] [--sets adult bank] [--out benchmarks/out]`` may be
stopped and started again: a row that is in the CSV is not computed twice. It ends with the
agreement with the reference, the share of `auto`, and pictures.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.dirichlet_agreement import KEYS, TOLERANCE, agreement, explained, tables_with
from benchmarks.dirichlet_methods import METHODS, nonprivate, uniform
from benchmarks.uci import NETWORKS, OPENML, Coded, coded, counted, families, split

EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0)
AGAIN = (*KEYS, "off", "mean", "mean_ref", "again", "off_again", "their_r", "their_alpha")
COLUMNS = ("dataset", "task", "method", "privacy", "epsilon", "rep", "ce", "ce_floor", "acc", "ll")


def logs_of(
    data: Coded, tables: dict[str, np.ndarray], dims: dict[str, tuple[str, ...]], rows: np.ndarray
) -> np.ndarray:
    """Log joint probability of each test row with every class, shape (n, classes)."""
    classes = data.sizes["target"]
    joint = np.zeros((len(rows), classes))
    for name, columns in dims.items():
        logs = np.log(tables[name])
        if "target" not in columns:
            joint += logs[tuple(data.codes[c][rows] for c in columns)][:, None]
            continue
        axis = columns.index("target")
        moved = np.moveaxis(logs, axis, -1)
        joint += moved[tuple(data.codes[c][rows] for c in columns if c != "target")]
    return joint


def scores(joint: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Cross-entropy, the same with the paper's floor, accuracy, log-likelihood."""
    top = joint.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
    log_p = joint[np.arange(len(y)), y] - total
    return {
        "ce": float(-log_p.mean()),
        "ce_floor": float(-np.log(np.exp(log_p) + 1e-20).mean()),
        "acc": float((joint.argmax(axis=1) == y).mean()),
        "ll": float(joint[np.arange(len(y)), y].mean()),
    }


def one_rep(name: str, task: str, rep: int, done: set[tuple]) -> list[dict]:
    """Every method and budget on one split."""
    data = coded(name)
    train, test = split(data.n, rep)
    dims = families(data, task, name)
    counts = counted(data, dims, train)
    y = data.codes["target"][test]
    rows: list[dict] = []

    def add(method, privacy, eps, tables):
        key = {"dataset": name, "task": task, "method": method, "privacy": privacy, "epsilon": eps,
               "rep": rep}  # fmt: skip
        rows.append(key | scores(logs_of(data, tables, dims, test), y))

    for method, make in (("nonprivate", nonprivate), ("uniform", uniform)):
        if (name, task, method, "none", "inf", rep) not in done:
            add(method, "none", "inf", make(counts, dims, math.inf, None))
    for number, ((method, privacy), make) in enumerate(METHODS.items()):
        for eps in EPSILONS:
            if (name, task, method, privacy, str(eps), rep) in done:
                continue
            rng = np.random.default_rng([rep, number, int(1000 * eps)])
            add(method, privacy, eps, make(counts, dims, eps, rng))
    return rows


def run(sets: list[str], reps: int, file: Path) -> pd.DataFrame:
    """Compute what is missing and append it."""
    done = set()
    if file.exists():
        old = pd.read_csv(file, dtype={"epsilon": str})
        done = set(zip(*(old[c] for c in COLUMNS[:6]), strict=True))
    tasks = [(s, t) for s in sets for t in ("nb", "bn") if t == "nb" or NETWORKS.get(s)]
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
           TimeRemainingColumn())  # fmt: skip
    with file.open("a", newline="") as handle, Progress(*bar) as progress:
        writer = csv.DictWriter(handle, COLUMNS)
        if not done:
            writer.writeheader()
        todo = progress.add_task("UCI", total=len(tasks) * reps)
        for rep in range(reps):
            for name, task in tasks:
                progress.update(todo, description=f"{name} {task}, split {rep}")
                writer.writerows(one_rep(name, task, rep, done))
                handle.flush()
                progress.advance(todo)
    return pd.read_csv(file, dtype={"epsilon": str})


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Mean, sd and number of splits per cell, one row for each metric."""
    long = found.melt(id_vars=list(COLUMNS[:6]), var_name="metric", value_name="value")
    keys = ["dataset", "task", "method", "privacy", "epsilon", "metric"]
    return long.groupby(keys)["value"].agg(["mean", "std", "count"]).reset_index()


def at(cell: dict, rep: int, r: float, alpha: float) -> dict[str, float]:
    """Scores of one split with a given power and prior."""
    tables, dims, test = tables_with(cell, rep, r, alpha)
    data = coded(cell["dataset"])
    return scores(logs_of(data, tables, dims, test), data.codes["target"][test])


def main() -> None:
    """Run, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=list(OPENML))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = run(options.sets, options.reps, options.out / "dirichlet_uci.csv")
    table = summary(found)
    table.to_csv(options.out / "dirichlet_uci_summary.csv", index=False)
    compared = agreement(table)
    if len(compared):
        compared.to_csv(options.out / "dirichlet_uci_agreement.csv", index=False)
        within = compared["off"] <= TOLERANCE
        print(f"reference: {within.sum()} of {len(compared)} cells within tolerance")
        again = explained(compared, at, options.reps)
        print("the others, again with the reference's own (r, alpha):")
        print(again[[c for c in AGAIN if c in again]].to_string(index=False))
        print(compared.groupby(["method", "privacy"])["off"].agg(["count", "median", "max"]))
    from benchmarks.dirichlet_pictures import pictures

    for picture in pictures(table, options.out):
        print(picture)


if __name__ == "__main__":
    main()
