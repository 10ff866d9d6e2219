"""The tables of docs/dirichlet-experiments.md from what `dirichlet_uci` and `classification` left.

``python -m benchmarks.dirichlet_page [--out benchmarks/out]`` prints, as far as the CSVs are there:
test log-likelihoods, what `auto` loses against the better of its two in hindsight, the peers' table
and how often ours is better or worse than each peer, by paired splits beyond two standard errors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

SHOWN = {
    "dirichlet_alg1_eq14": "Algorithm 1", "dirichlet_exact_hockeystick": "exact Dirichlet",
    "noisy": "noise-aware", "auto": "auto",
}  # fmt: skip
EXACT = {"(eps,delta)": "dirichlet_exact_hockeystick", "RDP": "dirichlet_exact_opt"}
PEERS = {
    "ours, delta 1e-5": "ours", "exact Dirichlet, delta 1e-5": "exact Dirichlet",
    "Algorithm 1, delta 1e-5": "Algorithm 1",
    "Gaussian counts, clipped, delta 1e-5": "Gaussian counts, clipped", "mbi, delta 1e-5": "mbi",
    "ours, pure": "ours, **pure**",
    "OpenDP Laplace counts, pure": "OpenDP Laplace counts, **pure**",
    "diffprivlib GaussianNB, pure": "diffprivlib GaussianNB, **pure**",
}  # fmt: skip


def likelihoods(found: pd.DataFrame) -> None:
    """Mean test log-likelihood per record at (epsilon, 1e-5)."""
    part = found[found["privacy"] == "(eps,delta)"]
    means = part.groupby(["dataset", "task", "method", "epsilon"])["ll"].mean()
    grid = sorted(part["epsilon"].unique(), key=float)
    print(f"| set | method | epsilon {' | '.join(grid)} |")
    for name, task in sorted(set(zip(part["dataset"], part["task"], strict=True))):
        label = f"{name}, network" if task == "bn" else name
        for method, word in SHOWN.items():
            cells = (f"{means[name, task, method, eps]:.3f}" for eps in grid)
            print(f"| {label} | {word} | {' | '.join(cells)} |")
            label = ""


def hindsight(found: pd.DataFrame) -> pd.DataFrame:
    """What `auto` loses in log-likelihood against the method that was better on average."""
    rows = []
    for (name, task, privacy, eps), cell in found.groupby(
        ["dataset", "task", "privacy", "epsilon"]
    ):
        if privacy not in EXACT:
            continue
        runs = cell.pivot_table(index="rep", columns="method", values="ll")
        both = runs[[EXACT[privacy], "noisy"]].mean()
        lost = runs[both.idxmax()] - runs["auto"]
        rows.append({
            "set": name, "task": task, "privacy": privacy, "epsilon": eps, "lost": lost.mean(),
            "error": lost.std() / len(lost) ** 0.5, "apart": both.max() - both.min(),
            "better": both.idxmax(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def peers(found: pd.DataFrame) -> None:
    """Accuracy and log loss, and paired comparisons."""
    grid = sorted(found.loc[found["method"].isin(PEERS), "epsilon"].unique())
    print(f"| set | method | epsilon {' | '.join(f'{e:g}' for e in grid)} |")
    means = found.groupby(["dataset", "method", "epsilon"])[["acc", "log_loss"]].mean()
    for name in sorted(found["dataset"].unique()):
        for method, word in PEERS.items():
            if (name, method, grid[0]) in means.index:
                cells = (means.loc[(name, method, e)] for e in grid)
                told = " | ".join(f"{c['acc']:.3f} / {c['log_loss']:.2f}" for c in cells)
                print(f"| {name} | {word} | {told} |")
    for ours in ("ours, delta 1e-5", "ours, pure"):
        kind = ours.split(", ")[1]
        for peer in PEERS:
            if peer != ours and peer.endswith(kind) and peer in set(found["method"]):
                paired(found, ours, peer)


def paired(found: pd.DataFrame, ours: str, peer: str) -> None:
    """How often ours is better and worse, and where worse by how much."""
    for metric, sign in (("acc", 1.0), ("log_loss", -1.0)):
        better, worse, cells = 0, [], 0
        for (name, eps), cell in found.groupby(["dataset", "epsilon"]):
            runs = cell.pivot_table(index="rep", columns="method", values=metric)
            if not {ours, peer} <= set(runs):
                continue
            gain = (sign * (runs[ours] - runs[peer])).dropna()
            error, cells = gain.std() / len(gain) ** 0.5, cells + 1
            better += int(gain.mean() > 2 * error)
            if gain.mean() < -2 * error:
                worse.append(f"{name} at {eps:g} by {-gain.mean():.3f}")
        print(f"{ours} against {peer}, {metric}: better in {better} of {cells} cells, worse in "
              f"{len(worse)}: {'; '.join(worse) or 'none'}")  # fmt: skip


def main() -> None:
    """Print what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    out = parser.parse_args().out
    if (file := out / "dirichlet_uci.csv").exists():
        found = pd.read_csv(file, dtype={"epsilon": str})
        likelihoods(found)
        lost = hindsight(found)
        kept = lost.sort_values("lost", ascending=False)
        print(f"\nauto against the better of the two in hindsight, {len(lost)} cells: mean "
              f"{lost['lost'].mean():.4f}, the two {lost['apart'].mean():.2f} apart; noise better "
              f"in {(lost['better'] == 'noisy').sum()}; largest losses")  # fmt: skip
        print(kept.head(8).round(3).to_string(index=False))
        print(lost.pivot_table(index=["set", "task"], columns="privacy", values="lost",
                               aggfunc=["max", "mean"]).round(3).to_string())  # fmt: skip
    if (file := out / "classification.csv").exists():
        peers(pd.read_csv(file))


if __name__ == "__main__":
    main()
