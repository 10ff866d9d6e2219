"""The gallery: families against brute force, Figure 1, and the trim against the number of draws.

Run ``python -m benchmarks.gallery`` for the table of ``docs/gallery.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import pymc_private as pmp
from benchmarks.families import FAMILIES, finite_coin
from benchmarks.family import Family
from pymc_private import planning
from pymc_private.errors import PymcPrivateError
from pymc_private.privacy import sl_eps, sl_kl_bound


def largest_kl(family: Family) -> tuple[float, float]:
    """Largest symmetrized divergence of two posteriors after one record, and T6(i)'s bound."""
    logs, best = family.log_posteriors(), (0.0, math.nan)
    for i, j in itertools.combinations(range(len(logs)), 2):
        kl = float(np.sum((np.exp(logs[i]) - np.exp(logs[j])) * (logs[i] - logs[j])))
        if kl > best[0]:
            rho = family.distance(family.records[i], family.records[j])
            known = math.isfinite(family.C)
            best = kl, float(sl_kl_bound(family.L0, family.c, family.C, rho)) if known else math.nan
    return best


def certified_range(family: Family) -> float:
    """R of the certificate; NaN where the model is refused, as coupled ones may be."""
    try:
        return pmp.certify(family.private(), progressbar=False).range
    except PymcPrivateError:
        return math.nan


def table() -> None:
    """Exact ranges against brute force and the certifier; old bounds against new ones."""
    print(
        f"{'family':22}{'lemma':>10}{'R exact':>9}{'brute':>9}{'certified':>11}{'pair':>8}", end=""
    )
    print(f"{'L0':>7}{'c':>8}{'C':>9}{'KL+KL':>9}{'T6(i)':>9}{'T6(iii)':>9}{'T1: R':>8}")
    for make in FAMILIES.values():
        f = make()
        certified = certified_range(f)
        kl, bound = largest_kl(f)
        far = max(f.distance(x, y) for x, y in itertools.combinations(f.records, 2))
        iii = float(sl_eps(f.L0, f.c, f.C, far, 1e-6)) if math.isfinite(f.C) else math.nan
        cells = (f.R, f.searched_range(), certified, f.worst_pair(), f.L0, f.c, f.C, kl, bound, iii)
        widths = (9, 9, 11, 8, 7, 8, 9, 9, 9, 9)
        line = "".join(
            f"{x:{w}.4g}" if math.isfinite(x) else "-".rjust(w)
            for x, w in zip(cells, widths, strict=True)
        )
        print(f"{f.name[:21]:22}{f.lemma:>10}{line}{f.R:8.4g}")


def figure_1(axes: Any = None) -> Any:
    """Two priors of the finite Bernoulli family, and what trimming to Theta_L leaves outside.

    Drawn after the paper's Example 1 and Figure 1: the uniform prior has much mass where one toss
    tells most, the steep one little.
    """
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(9, 3), layout="constrained").subplots(1, 2)
    trims = np.linspace(0.0, 4.7, 400)
    for decay, color in ((0.0, "#b3462b"), (2.0, "#2b6298")):
        family = finite_coin(0.01, decay)
        weights = special.softmax(family.log_prior)
        name = f"steep: exp(-{decay:g} |logit|)" if decay else "uniform"
        axes[0].plot(family.grid, weights, ".-", ms=3, lw=0.8, color=color, label=name)
        ell = family.lipschitz(family.grid)
        axes[1].plot(trims, [weights[ell > L + 1e-12].sum() for L in trims], color=color)
        if decay:
            law = np.exp(-decay * trims)
            axes[1].plot(trims, law, ":", color="0.5", label=f"exp(-{decay:g} L)")
    axes[0].set(xlabel="bias", ylabel="prior weight", ylim=(0, None))
    axes[1].set(xlabel="L", ylabel="prior mass outside of Theta_L", yscale="log", ylim=(1e-5, 1.3))
    for ax in axes:
        ax.legend(frameon=False, fontsize="small")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return axes


def outside(decay: float, step: float = 0.01, n: int = 100) -> Callable[[float], float]:
    """Posterior mass outside of Theta_L after n public tosses, half of them heads."""
    family = finite_coin(step, decay)
    theta = family.grid
    log_posterior = family.log_prior + n / 2 * (np.log(theta) + np.log1p(-theta))
    weights, ell = special.softmax(log_posterior), family.lipschitz(theta)
    return lambda L: float(weights[ell > L + 1e-12].sum())


def trade_off_picture(axes: Any = None, epsilons: tuple[float, ...] = (10.0, 100.0)) -> Any:
    """The trim L against the number of draws N of the finite Bernoulli family."""
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(10, 3.4), layout="constrained").subplots(1, len(epsilons))
    trims = np.geomspace(0.04, 4.6, 60)
    for ax, epsilon in zip(axes, epsilons, strict=True):
        planning.trade_off(outside(0.0), epsilon=epsilon, trims=trims).plot(ax)
    return axes


if __name__ == "__main__":
    table()
    for epsilon in (1.0, 10.0, 100.0, 1000.0):
        print(planning.trade_off(outside(0.0), epsilon=epsilon).title)
