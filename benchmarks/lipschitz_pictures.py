"""The pictures of ``docs/lipschitz.md``: tails, and a region where one record says little.

``python -m benchmarks.lipschitz_pictures FOLDER`` draws them there.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pymc as pm
from matplotlib.figure import Figure
from scipy import special

import pymc_private as pmp
from benchmarks.lipschitz import CASES, N, private_of
from pymc_private.certificates.lipschitz.tail import lipschitz_tail
from pymc_private.certificates.lipschitz.variation import variation

BLUE, RED = "#2b6298", "#b3462b"


def tails(folder: Path) -> None:
    """Picture: a proved tail and an estimated one."""
    figure = Figure(figsize=(10.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    lipschitz_tail(private_of(CASES[2])).plot(left)
    left.set_title("theta ~ Beta(5, 5), one Bernoulli record", fontsize="medium", loc="left")
    with pm.Model(coords={"p": range(N)}) as model:
        pm.Poisson("y", pm.Gamma("t", 2, 1), observed=np.zeros(N, int), dims="p")
    private = pmp.privatize(model, records="p", domain={"y": (0, 6)})
    lipschitz_tail(private).plot(right)
    right.set_title(
        "theta ~ Gamma(2, 1), one Poisson record in 0..6", fontsize="medium", loc="left"
    )
    figure.savefig(folder / "lipschitz-tails.png", dpi=110)


def region(folder: Path) -> None:
    """Picture: Theta_L of a logistic regression, the box within it, and draws."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 2))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    labels = (rng.random(60) < special.expit(rows @ np.array([3.0, -2.0]))).astype(int)
    with pm.Model(coords={"p": range(60), "k": range(2)}) as model:
        beta = pm.Normal("beta", 0, 2, dims="k")
        x = pm.Data("X", rows, dims=("p", "k"))
        pm.Bernoulli("y", logit_p=x @ beta, observed=labels, dims="p")
    private = pmp.privatize(model, records="p", domain={"X": pmp.Ball(1.0)})
    inside, box = (pmp.trim(private, lipschitz=2.0, shape=shape) for shape in ("set", "box"))
    draws = pmp.sample(
        pmp.temper(inside, Fraction(1, 2)), draws=300, random_seed=2, progressbar=False
    )
    axis = np.linspace(-3, 3, 121)
    mesh = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    ell = variation(private).at({"beta": mesh}).reshape(121, 121)
    ax = Figure(figsize=(7.4, 4.6), layout="constrained").add_subplot()
    lines = ax.contour(axis, axis, ell, levels=[0.5, 1, 1.5, 2, 2.5, 3, 3.5], colors="0.6")
    ax.clabel(lines, levels=[0.5, 1, 1.5, 2.5, 3, 3.5], fontsize=8)
    ax.contour(axis, axis, ell, levels=[2.0], colors=[BLUE], linewidths=2.2)
    low, high = box.box["beta"].lower, box.box["beta"].upper
    ax.plot(
        [low[0], high[0], high[0], low[0], low[0]], [low[1], low[1], high[1], high[1], low[1]],
        color=RED, lw=1.8, label="box within it (for gradients)",
    )  # fmt: skip
    points = draws.posterior["beta"].values.reshape(-1, 2)
    ax.scatter(*points.T, s=7, color=BLUE, alpha=0.6, lw=0, label="exact draws (for show)")
    ax.plot([], [], color=BLUE, lw=2.2, label="Theta_L, L = 2 nats")
    ax.plot([], [], color="0.6", label="ell(theta), nats")
    ax.set(xlabel="beta[0]", ylabel="beta[1]", aspect="equal")
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
    ax.spines[["top", "right"]].set_visible(False)
    ax.figure.savefig(folder / "lipschitz-region.png", dpi=110)
    print("prior mass: set", inside.prior_mass, "| box", box.prior_mass)


if __name__ == "__main__":
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    tails(to)
    region(to)
