"""Private classifiers of categorical data side by side: one definition of neighbors, one budget.

``python -m benchmarks.classification [--reps 20] [--sets ...] [--out benchmarks/out]``: ours at
delta = 1e-5 and pure, OpenDP's Laplace counts as a user would write them, the paper's calibration,
clipped Gaussian counts; diffprivlib and mbi if interpreters that have them are named
(--diffprivlib, --mbi). Resumable. Neighbors: one record replaced, the number of records public.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from benchmarks.dirichlet_methods import (
    alg1,
    budget,
    clipped,
    exact_opt,
    noise_for,
    nonprivate,
)
from benchmarks.dirichlet_uci import logs_of, scores
from benchmarks.uci import Coded, coded, counted, families, split
from pymc_private.estimators import DirichletNaiveBayes

EPSILONS = (0.1, 0.5, 1.0, 2.0)
SETS = ("breast_cancer", "digits", "german_credit", "thyroid", "shopper", "spam", "adult")
COLUMNS = ("dataset", "method", "epsilon", "rep", "acc", "log_loss", "ll")


def sklearn_set(name: str) -> Coded:
    """breast_cancer and digits: features cut at ten equal steps of their public range."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    X = bunch.data
    low, high = X.min(axis=0), X.max(axis=0)  # stands for a range that would be declared
    codes = {}
    for j in np.flatnonzero(high > low):
        codes[f"x{j}"] = np.minimum((10 * (X[:, j] - low[j]) / (high[j] - low[j])).astype(int), 9)
    codes["target"] = bunch.target.astype(int)
    sizes = {k: 10 if k != "target" else int(v.max()) + 1 for k, v in codes.items()}
    return Coded(codes, sizes)


def load(name: str) -> Coded:
    return sklearn_set(name) if name in ("breast_cancer", "digits") else coded(name)


Classifier = Callable[[Coded, np.ndarray, np.ndarray, float, int], np.ndarray]


def by_tables(method: Callable) -> Classifier:
    """A method that gives tables of naive Bayes."""

    def classify(data, train, test, eps, rep):
        dims = families(data, "nb", "")
        tables = method(counted(data, dims, train), dims, eps, np.random.default_rng([rep, 5]))
        return logs_of(data, tables, dims, test)

    return classify


def ours(delta: float) -> Classifier:
    """The estimator as a user calls it; its numbers are not released, so a seed is used."""

    def classify(data, train, test, eps, rep):
        frame = pd.DataFrame(data.codes)
        features = [c for c in frame.columns if c != "target"]
        nb = DirichletNaiveBayes(
            eps, delta, {c: range(data.sizes[c]) for c in features},
            classes=range(data.sizes["target"]), random_state=rep,
        )  # fmt: skip
        nb.fit(frame[features].iloc[train], frame["target"].to_numpy()[train])
        X = frame[features].iloc[test]
        return nb._joint(nb._codes(X), nb.tables_)

    return classify


def opendp_laplace(data, train, test, eps, rep):
    """OpenDP's integer Laplace noise of scale 2 (K + 1) / eps, negative counts to 0, plus one."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    dims = families(data, "nb", "")
    counts = counted(data, dims, train)
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noise = dp.m.make_laplace(*space, scale=2.0 * len(dims) / eps)
    tables = {}
    for name, table in counts.items():
        noisy = np.array(noise(table.astype(int).ravel().tolist())).reshape(table.shape)
        kept = np.maximum(noisy, 0) + 1.0
        tables[name] = kept / kept.sum(axis=-1, keepdims=True)
    return logs_of(data, tables, dims, test)


class Peer:
    """A script in an environment of its own, one process for all fits: what it compiles it keeps.

    It reads a line for each fit, names of files and numbers, and answers with a line.
    """

    def __init__(self, python: str, script: str) -> None:
        file = str(Path(__file__).with_name(script))
        self._process = subprocess.Popen(
            [python, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, arrays: dict[str, Any], *words: object) -> dict[str, np.ndarray]:
        """Give arrays, get arrays."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(source, **arrays)
            answer, question = self._process.stdout, self._process.stdin
            print(source, target, *words, file=question, flush=True)
            if answer is None or answer.readline().strip() != "done":
                raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
            return dict(np.load(target))


def diffprivlib_nb(python: str) -> Classifier:
    """diffprivlib's GaussianNB on the codes, their bounds declared, in its own environment."""
    peer = Peer(python, "peer_diffprivlib.py")

    def classify(data, train, test, eps, rep):
        features = [k for k in data.codes if k != "target"]
        X = np.column_stack([data.codes[k] for k in features]).astype(float)
        ends = np.array([data.sizes[k] - 1.0 for k in features])
        held = {"X": X, "y": data.codes["target"], "train": train, "test": test, "ends": ends,
                "classes": data.sizes["target"]}  # fmt: skip
        return peer.ask(held, eps, rep)["log_proba"]

    return classify


def mbi_nb(python: str) -> Classifier:
    """mbi's law of a star (the class and each feature), from the noise ours has at delta 1e-5."""
    peer = Peer(python, "peer_mbi.py")

    def classify(data, train, test, eps, rep):
        dims = families(data, "nb", "")
        counts = counted(data, dims, train)
        plan = noise_for(budget(eps, "(eps,delta)"), len(counts))
        rng = np.random.default_rng([rep, 6])
        noisy = {k: t + rng.normal(0.0, plan.sd, t.shape) for k, t in counts.items()}
        tables = peer.ask(noisy | {"sd": plan.sd, "total": len(train)})
        return logs_of(data, tables, dims, test)

    return classify


METHODS: dict[str, Classifier] = {
    "nonprivate": by_tables(nonprivate),
    "ours, delta 1e-5": ours(1e-5),
    "ours, pure": ours(0.0),
    "exact Dirichlet, delta 1e-5": by_tables(exact_opt("(eps,delta)")),
    "Algorithm 1, delta 1e-5": by_tables(alg1("(eps,delta)")),
    "Gaussian counts, clipped, delta 1e-5": by_tables(clipped("gaussian", "(eps,delta)")),
    "OpenDP Laplace counts, pure": opendp_laplace,
}


LEFT_OUT = {
    "diffprivlib": "its last release does not import beside scikit-learn 1.9; name an interpreter "
    "that has it, --diffprivlib PATH",
    "mbi": "it wants JAX in an environment of its own; name an interpreter that has it, --mbi PATH",
}


PEERS: dict[str, tuple[str, Callable[[str], Classifier]]] = {
    "diffprivlib": ("diffprivlib GaussianNB, pure", diffprivlib_nb),
    "mbi": ("mbi, delta 1e-5", mbi_nb),
}


def available(pythons: dict[str, str | None]) -> dict[str, Classifier]:
    """All methods that can run here, saying why others cannot."""
    found, left = dict(METHODS), dict(LEFT_OUT)
    for peer, python in pythons.items():
        if python is not None:
            del left[peer]
            name, make = PEERS[peer]
            found[name] = make(python)
    for peer, why in left.items():
        print(f"{peer}: left out; {why}")
    return found


def run(sets, reps, file: Path, pythons: dict[str, str | None]) -> pd.DataFrame:
    """Compute what is missing and append it."""
    done = set()
    if file.exists():
        old = pd.read_csv(file, dtype={"epsilon": str})
        done = set(zip(*(old[c] for c in COLUMNS[:4]), strict=True))
    methods = available(pythons)
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with file.open("a", newline="") as handle, Progress(*bar) as progress:
        writer = csv.DictWriter(handle, COLUMNS)
        if not done:
            writer.writeheader()
        todo = progress.add_task("classification", total=len(sets) * reps)
        for rep in range(reps):
            for name in sets:
                data = load(name)
                train, test = split(data.n, rep)
                y = data.codes["target"][test]
                for method, classify in methods.items():
                    for eps in EPSILONS if method != "nonprivate" else (np.inf,):
                        if (name, method, str(eps), rep) in done:
                            continue
                        found = scores(classify(data, train, test, eps, rep), y)
                        row = {"dataset": name, "method": method, "epsilon": eps, "rep": rep}
                        writer.writerow(row | {
                            "acc": found["acc"], "log_loss": found["ce"], "ll": found["ll"]
                        })  # fmt: skip
                handle.flush()
                progress.advance(todo)
    return pd.read_csv(file)


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    for peer in PEERS:
        parser.add_argument(f"--{peer}", help=f"an interpreter that has {peer}")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pythons = {peer: getattr(options, peer) for peer in PEERS}
    found = run(options.sets, options.reps, options.out / "classification.csv", pythons)
    for metric in ("acc", "log_loss"):
        table = found.pivot_table(index=["dataset", "method"], columns="epsilon", values=metric)
        print(f"\n{metric}, mean of {found['rep'].nunique()} splits\n{table.round(3).to_string()}")


if __name__ == "__main__":
    main()
