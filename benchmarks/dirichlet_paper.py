"""What the paper draws of the mechanism itself, drawn again beside the exact price.

``python -m benchmarks.dirichlet_paper [--out benchmarks/out]``: (1) the divergence that Theorem 1
allows at orders 2, 20 and 200, that of the paper's own pair of histograms (which takes two records
away), and that of the worst substitution; (2) (epsilon, delta) by Theorem 1 and by Gohari et al.
for one law, and the exact curve; (3) the delta(gamma) that their bound rests on; (4) divergence
from the data at RDP budgets. What it draws of the experiments is drawn by `dirichlet_uci`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import integrate, optimize, special, stats

from benchmarks.dirichlet_methods import ORDER, alg1, clipped, exact_opt, noise_aware
from pymc_private.privacy import (
    beta_pair_delta,
    beta_pair_rdp,
    dirichlet_rdp,
    ponnoprat_rdp,
    rdp_to_eps,
)

BEFORE, AFTER = np.array([11, 8, 65, 25, 38, 1.0]), np.array([11, 7, 65, 25, 38, 0.0])
"""The paper's own pair: two records are taken away, so they are no neighbors by substitution."""
POWER, RECORDS, CELLS = 0.97, 147, 6
COLORS = ("#3b6ea8", "#4f8f4f", "#c0652b", "#8b5aa8", "#b9a13b")
RIVALS = {
    "Algorithm 1": alg1("RDP"), "exact Dirichlet": exact_opt("RDP"),
    "Gaussian, clipped": clipped("gaussian", "RDP"), "noise-aware": noise_aware("RDP"),
    "Laplace, clipped": clipped("laplace", "RDP"),
}  # fmt: skip
RUNS = 200


def prior(order: float, r: float) -> float:
    """Algorithm 1's parameter of a cell."""
    return 1.0 + 4.0 * (order - 1.0) * r


def divergences(ax: plt.Axes) -> None:
    """Theorem 1, the paper's pair and the worst substitution, against r."""
    powers = np.geomspace(0.003, 3.0, 40)
    most = 0.0
    for order, color in zip((2.0, 20.0, 200.0), COLORS, strict=False):
        alphas = [prior(order, r) for r in powers]
        both = list(zip(powers, alphas, strict=True))
        bound = [float(ponnoprat_rdp(order, r, 2.0, 1.0)) for r in powers]
        worst = [float(beta_pair_rdp(order, r, a)) for r, a in both]
        shown = [dirichlet_rdp(order, r * BEFORE + a, r * AFTER + a) for r, a in both]
        most = max(most, float(np.max(np.array(worst) / bound)))
        ax.plot(powers, bound, "--", color=color, label=f"order {order:g}: Theorem 1")
        ax.plot(powers, worst, color=color, label="worst substitution, exact")
        ax.plot(powers, shown, ":", color=color, label="the paper's pair, exact")
    ax.set(xscale="log", yscale="log", xlabel="r", ylabel="Renyi divergence (nats)",
           title="Price of a record at alpha = 1 + 4 (order - 1) r")  # fmt: skip
    ax.legend(frameon=False, fontsize="x-small")
    print(f"exact divergence of the worst substitution / Theorem 1: at most {most:.4f}")


def outside(gamma: float, a: float, b: float, c: float) -> float:
    """P(x < gamma or y < gamma) for (x, y, z) ~ Dirichlet(a, b, c)."""

    def inside(x: float) -> float:
        return float(stats.beta.pdf(x, a, b + c) * special.betainc(b, c, gamma / (1.0 - x)))

    below = float(special.betainc(a, b + c, gamma))
    return below + integrate.quad(inside, gamma, 1.0 - gamma, points=[0.05, 0.2, 0.5])[0]


def theirs(gamma: float, r: float, alpha: float) -> tuple[float, float]:
    """Gohari et al. (2021), Theorem 1, at one gamma: epsilon and delta of Dir(r f + alpha)."""
    rest, large = (CELLS - 2) * alpha, RECORDS * r + alpha
    total = 2 * alpha + RECORDS * r
    epsilon = special.betaln(alpha, large) - special.betaln(alpha + r, large - r)
    epsilon += r * np.log((1.0 - gamma) / gamma)
    # The least probable vertices: both cells small, or all records in one of them.
    both = (outside(gamma, alpha, alpha, rest + total - 2 * alpha),
            outside(gamma, alpha, large, rest))  # fmt: skip
    return float(epsilon), max(both)


def curves(left: plt.Axes, right: plt.Axes) -> None:
    """One law, three accounts of it; and the delta(gamma) of Gohari et al."""
    alpha = prior(2.0, POWER)
    gammas = np.geomspace(1e-6, 10**-2.3, 60)
    found = np.array([theirs(g, POWER, alpha) for g in gammas])
    right.plot(gammas, found[:, 1], color=COLORS[0])
    right.set(xscale="log", yscale="log", xlabel="gamma", ylabel="delta(gamma)",
              title="What Gohari et al. leave out")  # fmt: skip
    deltas = np.geomspace(1e-12, 1e-1, 50)
    by_renyi = [by_theorem_1(d, POWER, alpha) for d in deltas]
    epsilons = np.linspace(0.01, 12.0, 80)
    exact = np.array([float(beta_pair_delta(e, POWER, alpha)) for e in epsilons])
    left.plot(found[:, 0], found[:, 1], color=COLORS[0], label="Gohari et al.")
    left.plot(by_renyi, deltas, "--", color=COLORS[2], label="Theorem 1, best order")
    left.plot(epsilons, exact, color="black", label="exact (T9)")
    left.set(yscale="log", ylim=(1e-12, 1.0), xlim=(0, 12), xlabel="epsilon", ylabel="delta",
             title=f"Dir({POWER:g} f + {alpha:.3g}), {RECORDS} records, {CELLS} cells")  # fmt: skip
    left.legend(frameon=False, fontsize="small")
    over = [d / max(float(beta_pair_delta(e, POWER, alpha)), 1e-300) for e, d in found]
    print(f"delta of Gohari et al. / exact, at their epsilon: at least {min(over):.3g}")
    for d in (1e-2, 1e-5, 1e-8):
        exactly = optimize.brentq(lambda e, d=d: beta_pair_delta(e, POWER, alpha) - d, 0.0, 30.0)
        gohari = float(np.interp(np.log(d), np.log(found[:, 1]), found[:, 0]))
        print(f"epsilon at delta {d:g}: exact {exactly:.3f}, Theorem 1 "
              f"{by_theorem_1(d, POWER, alpha):.3f}, Gohari et al. {gohari:.3f}")  # fmt: skip


def by_theorem_1(delta: float, r: float, alpha: float) -> float:
    """Its divergence (the orders for which alpha suffices), converted at the best order."""
    last = 1.0 + (alpha - 1.0) / (4.0 * r)

    def at(order: float) -> float:
        return float(rdp_to_eps(order, ponnoprat_rdp(order, r, 2.0, 1.0), delta))

    grid = 1.0 + np.geomspace(1e-3, last - 1.0, 60)
    return min(at(float(order)) for order in grid)


def accuracy(ax: plt.Axes) -> None:
    """Expected divergence from the data at (order, epsilon)-RDP."""
    shares = BEFORE / BEFORE.sum()
    grid = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    for (method, make), color in zip(RIVALS.items(), COLORS, strict=True):
        means = []
        for eps in grid:
            rng = np.random.default_rng([len(method), int(1000 * eps)])
            drawn = [make({"p": BEFORE}, {"p": ("k",)}, eps, rng)["p"] for _ in range(RUNS)]
            means.append(np.mean([special.rel_entr(shares, p).sum() for p in drawn]))
        ax.plot(grid, means, "o-", ms=3, color=color, label=method)
    ax.set(xscale="log", yscale="log", xlabel=f"epsilon of ({ORDER:g}, epsilon)-RDP",
           ylabel=f"KL from the data (nats), {RUNS} runs")  # fmt: skip
    ax.set_title("148 records in 6 cells")
    ax.legend(frameon=False, fontsize="small")


def main() -> None:
    """Draw, and print what the pictures are to show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    divergences(axes[0, 0])
    curves(axes[0, 1], axes[1, 0])
    accuracy(axes[1, 1])
    figure.savefig(options.out / "dirichlet-paper.png", dpi=90)


if __name__ == "__main__":
    main()
