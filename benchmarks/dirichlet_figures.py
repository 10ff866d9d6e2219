"""The mechanism itself in figures: price, accuracy against every rival, and Theorem 2.

``python -m benchmarks.dirichlet_figures [--out benchmarks/out]`` prints T12's table, what the
paper's own parameters cost, and draws (1) the exact divergence beside Theorem 1 of the paper,
(2) expected divergence from the data against epsilon, with simulations, (3) Theorem 2 against
simulation, (4) sample sizes.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize, special

from benchmarks.dirichlet_methods import (
    alg1,
    clipped,
    denoised,
    exact_opt,
    gohari,
    noise_aware,
)
from pymc_private.privacy import (
    beta_pair_alpha,
    beta_pair_eps,
    beta_pair_rdp,
    dirichlet_expected_kl,
    dirichlet_kl_tail_bound,
    plot_sample_size,
    ponnoprat_r,
    ponnoprat_rdp,
    rdp_to_eps,
)

DELTA = 1e-5
COUNTS = {
    "148 records in 6 cells": (11, 8, 65, 25, 38, 1), "1283 in 6": (119, 74, 618, 272, 13, 187),
    "100 in 2": (30, 70), "1000 in 10, Zipf": tuple(np.round(1000 / np.arange(1, 11) / 2.929)),
}  # fmt: skip
RIVALS = {
    "Algorithm 1": (alg1("(eps,delta)"), "#c0652b"),
    "exact Dirichlet": (exact_opt("(eps,delta)"), "#3b6ea8"),
    "Gohari et al., exact price": (gohari("(eps,delta)"), "#8a8a8a"),
    "Gaussian, clipped": (clipped("gaussian", "(eps,delta)"), "#b9a13b"),
    "Laplace, denoised (pure)": (denoised("laplace", "pure"), "#8b5aa8"),
    "noise-aware": (noise_aware("(eps,delta)"), "#4f8f4f"),
    "noise-aware (pure)": (noise_aware("pure"), "black"),
}
RUNS = 100


def best_order(f: tuple, eps: float) -> tuple[float, float, float, float]:
    """Algorithm 1 with the order that is best at f itself: order, r, alpha, expected KL."""

    def at(order: float) -> tuple[float, float, float]:
        divergence = eps - float(rdp_to_eps(order, 0.0, DELTA))
        if divergence <= 0:
            return math.nan, math.nan, math.inf
        r = float(ponnoprat_r(order, divergence, 2.0, 1.0))
        alpha = 1 + 4 * (order - 1) * r
        return r, alpha, float(dirichlet_expected_kl(f, r, alpha))

    found = optimize.minimize_scalar(
        lambda x: min(at(1 + math.exp(x))[2], 1e6 - x), bounds=(-2, 9), method="bounded"
    )
    order = 1 + math.exp(found.x)
    return (order, *at(order))


def best_exact(f: tuple, eps: float) -> tuple[float, float, float]:
    """The exact price at the r that is best at f itself: r, alpha, expected KL."""

    def kl(x: float) -> float:
        r = math.exp(x)
        return float(dirichlet_expected_kl(f, r, float(beta_pair_alpha(eps, DELTA, r))))

    r = math.exp(optimize.minimize_scalar(kl, bounds=(-5, 3), method="bounded").x)
    alpha = float(beta_pair_alpha(eps, DELTA, r))
    return r, alpha, float(dirichlet_expected_kl(f, r, alpha))


def table() -> None:
    """T12: both methods at their best for the same (epsilon, delta)."""
    print("counts, epsilon: Algorithm 1 (order, r, alpha, KL); exact (r, alpha, KL); ratio")
    for name, f in COUNTS.items():
        for eps in (0.5, 1.0, 2.0, 5.0):
            order, r, alpha, old = best_order(f, eps)
            *ours, new = best_exact(f, eps)
            print(f"{name}, {eps:g}: {order:.1f}, {r:.3g}, {alpha:.3g}, {old:.4f}; "
                  f"{ours[0]:.3g}, {ours[1]:.3g}, {new:.4f}; {old / new:.2f}")  # fmt: skip
    _, r, alpha, _ = best_order(COUNTS["1283 in 6"], 1.0)
    print(f"Algorithm 1 told to spend 1 spends {beta_pair_eps(DELTA, r, alpha):.3f}")


def price(ax: plt.Axes) -> None:
    """Exact divergence of the worst pair over Theorem 1's bound."""
    orders = np.linspace(1.05, 40, 80)
    for r, color in ((0.05, "#3b6ea8"), (0.3, "#4f8f4f"), (1.0, "#c0652b")):
        share = [
            beta_pair_rdp(o, r, 1 + 4 * (o - 1) * r) / ponnoprat_rdp(o, r, 2.0, 1.0) for o in orders
        ]
        ax.plot(orders, share, color=color, label=f"r = {r:g}")
    ax.set(xlabel="Renyi order", ylabel="exact divergence / bound", ylim=(0, 1.02),
           title="What Theorem 1 charges too much")  # fmt: skip
    ax.legend(frameon=False)


def accuracy(axes: np.ndarray) -> None:
    """Expected divergence of what is released from the data, by simulation."""
    grid = (0.1, 0.3, 1.0, 3.0, 10.0)
    for ax, (name, f) in zip(axes, COUNTS.items(), strict=True):
        counts = np.array(f, float)
        shares = counts / counts.sum()
        for method, (make, color) in RIVALS.items():
            means = []
            for eps in grid:
                rng = np.random.default_rng([len(method), int(1000 * eps)])
                draws = [make({"p": counts}, {"p": ("k",)}, eps, rng)["p"] for _ in range(RUNS)]
                means.append(np.mean([special.rel_entr(shares, p).sum() for p in draws]))
            ax.plot(grid, means, "o-", ms=3, color=color, label=method)
        ax.set(xscale="log", yscale="log", title=name, xlabel="epsilon")
        ax.grid(alpha=0.25)
    axes[0].set_ylabel(f"KL from the data (nats), {RUNS} runs")


def tails(ax: plt.Axes) -> None:
    """Theorem 2: P(KL > eta) where the parameters suffice for it, alpha >= 1/2."""
    rng = np.random.default_rng(0)
    betas = np.geomspace(10.0, 3000.0, 12)
    for eta, color in ((0.2, "#8b5aa8"), (0.5, "#3b6ea8"), (1.0, "#4f8f4f"), (2.0, "#c0652b")):
        bounds = [float(dirichlet_kl_tail_bound(b, eta)) for b in betas]
        seen = np.array([tail(b, eta, rng) for b in betas])
        ax.plot(betas, bounds, color=color, label=f"{eta:g}")
        ax.plot(betas[seen > 0], seen[seen > 0], "o", color=color, ms=4)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="r N",
        ylabel="P(KL > eta), eta as above",
        ylim=(1e-5, 30.0),
    )
    ax.set_title("Theorem 2: bounds, and the worst of 20,000 draws", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper center", ncols=4)


def tail(beta: float, eta: float, rng: np.random.Generator, runs: int = 20_000) -> float:
    """The largest share of draws beyond eta, of some shares that the theorem speaks of."""
    worst = 0.0
    for d in (2, 5, 20):
        for share in (np.full(d, 1 / d), rng.dirichlet(np.full(d, 0.5))):
            alpha = max(0.5, beta * math.expm1(eta / 2) / d * 0.999)
            if beta < d * alpha / math.expm1(eta / 2):
                continue
            draws = rng.standard_gamma(beta * share + alpha, size=(runs, d)) + 1e-300
            p = draws / draws.sum(axis=1, keepdims=True)
            worst = max(worst, float((special.rel_entr(share, p).sum(axis=1) > eta).mean()))
    return worst


def main() -> None:
    """Print the table, draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table()
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    price(axes[0])
    tails(axes[1])
    plot_sample_size(6, 0.427, 6.26, axes[2])
    figure.savefig(options.out / "dirichlet-price.png", dpi=90)
    figure, axes = plt.subplots(1, 4, figsize=(14, 4.2), layout="constrained", sharey=True)
    accuracy(axes)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(options.out / "dirichlet-accuracy.png", dpi=90)


if __name__ == "__main__":
    main()
