"""Users who draw at home: how well the mean of their laws is known, against their number.

``python -m benchmarks.local_model [FOLDER]``: each user holds a token distribution. Resumable: each
line of FOLDER/local_model.csv is one experiment. Errors are total variations to the mean law, and
for each user KL(own law, law of the draw).
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from pymc_private.mollifiers import LocalSampler, local_model
from pymc_private.samplers.randomness import SeededRandomness

TOKENS, SPREAD = 20, 5.0
SIZES, EPSILONS = (100, 300, 1000, 3000, 10_000), (0.5, 1.0, 2.0, 4.0)
METHODS = ("clip", "clip_minimax", "response", "k-ary RR", "clipped Laplace")
FIELDS = ("method", "epsilon", "n", "rep", "tv", "user_kl")


def users_of(n: int, rep: int) -> np.ndarray:
    """Token distributions, shape (n, TOKENS): Dirichlet around Zipf's law."""
    zipf = 1.0 / np.arange(1, TOKENS + 1)
    concentration = SPREAD * zipf / zipf.sum()
    laws = np.random.default_rng([rep, n]).dirichlet(np.maximum(concentration, 0.05), size=n)
    laws = np.maximum(laws, 1e-12)
    return laws / laws.sum(axis=1, keepdims=True)


def tokens_of(laws: np.ndarray, randomness: SeededRandomness) -> np.ndarray:
    """One token of each user."""
    u = randomness.uniform(len(laws))
    return np.minimum((laws.cumsum(axis=1) < u[:, None]).sum(axis=1), TOKENS - 1)


def estimate(method: str, laws: np.ndarray, eps: float, rep: int) -> tuple[np.ndarray, float]:
    """The mean law as the server sees it, and the users' mean KL."""
    source = SeededRandomness.from_seed(rep)
    if method == "k-ary RR":
        told = local_model.randomized_response(tokens_of(laws, source), TOKENS, eps, source)
        channel = _response(eps)
        return local_model.invert_randomized_response(told, TOKENS, eps), _mean_kl(
            laws, laws @ channel
        )
    if method == "clipped Laplace":
        held = tokens_of(laws, source).astype(float)
        noisy = local_model.clipped_laplace(held, 0.0, TOKENS - 1.0, eps, source)
        told = np.clip(np.round(noisy), 0, TOKENS - 1).astype(int)
        return np.bincount(told, minlength=TOKENS) / len(told), float("nan")
    public = np.full(TOKENS, 1 / TOKENS)
    kind = "response" if method == "response" else "clip"
    window = "symmetric" if method == "clip" else "minimax"
    sampler = LocalSampler(public, eps, kind=kind, window=window)
    draws = sampler.collect(laws, progressbar=False, random_seed=rep)
    if kind == "response":
        released = laws @ sampler._channel
    else:
        released = np.array([sampler.distribution(law).probabilities for law in laws[:300]])
    return draws.aggregate(), _mean_kl(laws[: len(released)], released)


def _response(eps: float) -> np.ndarray:
    odds = np.exp(eps)
    return (np.ones((TOKENS, TOKENS)) + (odds - 1) * np.eye(TOKENS)) / (odds + TOKENS - 1)


def _mean_kl(laws: np.ndarray, released: np.ndarray) -> float:
    return float((laws * np.log(laws / released)).sum(axis=1).mean())


def run(file: Path, reps: int) -> None:
    """Do what is not in the file yet."""
    from rich.progress import track

    done = set()
    if file.exists():
        with file.open() as stored:
            done = {tuple(row[:4]) for row in csv.reader(stored)}
    else:
        file.write_text(",".join(FIELDS) + "\n")
    todo = [
        (m, e, n, r) for n in SIZES for r in range(reps) for e in EPSILONS for m in METHODS
        if tuple(map(str, (m, e, n, r))) not in done
    ]  # fmt: skip
    for method, eps, n, rep in track(todo, description="local model"):
        laws = users_of(n, rep)
        found, kl = estimate(method, laws, eps, rep)
        tv = np.abs(found - laws.mean(axis=0)).sum() / 2
        with file.open("a", newline="") as out:
            csv.writer(out).writerow((method, eps, n, rep, f"{tv:.6g}", f"{kl:.6g}"))


def make(file: Path) -> None:
    """Print the table and draw the figure."""
    import matplotlib.pyplot as plt

    with file.open() as stored:
        rows = list(csv.DictReader(stored))
    figure, axes = plt.subplots(
        1, len(EPSILONS), figsize=(13, 3.4), layout="constrained", sharey=True
    )
    for ax, eps in zip(axes, EPSILONS, strict=True):
        print(f"epsilon = {eps:g}".ljust(18), *(f"n={n}".rjust(9) for n in SIZES), "  user KL")
        for i, method in enumerate(METHODS):
            own = [r for r in rows if r["method"] == method and float(r["epsilon"]) == eps]
            tv = [np.mean([float(r["tv"]) for r in own if int(r["n"]) == n]) for n in SIZES]
            kl = np.mean([float(r["user_kl"]) for r in own])
            print(method.ljust(18), *(f"{value:9.4f}" for value in tv), f"{kl:9.4f}")
            ax.loglog(SIZES, tv, marker=".", color=f"C{i}", label=method)
        ax.set(title=f"epsilon = {eps:g}", xlabel="users")
    axes[0].set_ylabel("total variation to the mean law")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(file.with_suffix(".png"), dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="mollifier_results", type=Path)
    parser.add_argument("--reps", type=int, default=4)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    run(given.folder / "local_model.csv", given.reps)
    make(given.folder / "local_model.csv")


if __name__ == "__main__":
    main()
