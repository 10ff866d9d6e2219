"""Methods as the reference results define them, where that differs from ours; and exact values.

`krr_hull_*` and `plugin_hist_64`: there a cell of equal reference mass is the set of grid points
in it, and its mass is theirs, off by up to 8% in two dimensions, where a row of points lies on the
edge between two cells. `*_there` repeats that. `*_exact` has no grid at all: cells are rectangles,
their masses under P and Q0 products of normal distribution functions.

`plugin_nn1`: there the network learns by 750 epochs of Nesterov's method, two batches each, from
three quarters of the rows. Ours, by 30 epochs of Adam, fits better.

`plugin_gbdt`: how the trees grew there is not stated. Those of scikit-learn's default settings give
the same numbers; ours are smaller, learn more slowly, and fit better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

from benchmarks.mollifier_baselines import fresh
from benchmarks.mollifier_methods import SHARE, N, law_scores
from benchmarks.mollifier_targets import TARGETS, Target, cell_masses, edges, grid_of
from pymc_private.mollifiers import Window
from pymc_private.mollifiers.mollified_distributions import clip_to_window

Found = Iterator[tuple[str, float, dict[str, float]]]


def as_there(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """Cells and networks, on the same rows as our own methods."""
    rows = target.sample(N, rep)
    for cells in (4, 16, 64):
        yield from _on_cells(target, rows, cells, epsilons)
    yield from _networks(target, rows, rep, epsilons)


def find(x: np.ndarray, along: int) -> np.ndarray:
    """The cell of each row; a point on an edge lies above it."""
    places = tuple(np.searchsorted(edges(along), column, side="right") for column in x.T)
    return np.ravel_multi_index(places, (along,) * x.shape[1])


def response_ratio(share: np.ndarray, eps: float) -> np.ndarray:
    """log Q/Q0 on equal cells of a record's cell, flipped by randomized response."""
    k, odds = len(share), math.exp(eps)
    return np.log(k * (1.0 + (odds - 1.0) * share) / (k - 1.0 + odds))


def clipped_counts(share: np.ndarray, eps: float) -> np.ndarray:
    """log Q/Q0 of T15d on equal cells, its level found by bisection, apart from the package."""
    with np.errstate(divide="ignore"):
        ratio = np.log(len(share) * share)

    def law(level: float) -> np.ndarray:
        return np.clip(ratio - level, -eps / 2, eps / 2)

    lowest = ratio[share > 0].min() - eps
    if np.exp(law(lowest)).mean() <= 1.0:  # too few cells are occupied: the rest is spread
        inside = float((share > 0).mean())
        rest = math.log((1.0 - inside * math.exp(eps / 2)) / (1.0 - inside))
        return np.where(share > 0, eps / 2, rest)
    highest = ratio.max() + eps
    return law(brentq(lambda c: float(np.exp(law(c)).mean()) - 1.0, lowest, highest, xtol=1e-14))


def widest_error(domain: str, size: int) -> float:
    """By what share a cell's grid points have more or less mass than it, under Q0 or the target."""
    target, grid = TARGETS[domain], grid_of(domain)
    along = round(size ** (1 / target.dimension))
    where = find(grid.points, along)
    reference, law = (
        np.bincount(where, mass, minlength=size) for mass in (grid.reference, grid.target)
    )
    exact = cell_masses(target, along)
    seen = exact > 1e-3
    off = np.abs(law[seen] / exact[seen] - 1.0).max()
    return float(max(off, np.abs(size * reference - 1.0).max()))


def _on_cells(target: Target, rows: np.ndarray, cells: int, epsilons: tuple[float, ...]) -> Found:
    grid, along = grid_of(target.name), round(cells ** (1 / target.dimension))
    where = find(grid.points, along)
    there = np.bincount(where, grid.reference, minlength=cells)
    truth = cell_masses(target, along)
    share = np.bincount(find(rows, along), minlength=cells) / len(rows)
    none = float(grid.target @ grid.log_ratio)
    name = "plugin_hist_64" if cells == 64 else f"krr_hull_{cells}"
    for eps in epsilons:
        if cells == 64:
            with np.errstate(divide="ignore"):
                ratio = np.log(share / there)[where]
            gridded, _ = clip_to_window(ratio, grid.reference, Window.symmetric(eps))
            exact = clipped_counts(share, eps)
        else:
            exact = response_ratio(share, eps)
            gridded = (exact - np.log(cells * there))[where]
        yield f"{name}_there", eps, law_scores(grid, gridded, (-math.inf, math.inf))
        yield f"{name}_exact", eps, {"kl": none - float(truth @ exact)}


class _Network(MLPClassifier):
    """Glorot uniform weights, zero bias."""

    def _init_coef(self, fan_in: int, fan_out: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
        bound = math.sqrt(6.0 / (fan_in + fan_out))
        weights = self._random_state.uniform(-bound, bound, (fan_in, fan_out))
        return weights.astype(dtype), np.zeros(fan_out, dtype)


def network_there(rep: int) -> MLPClassifier:
    """The network of the reference results, with its training."""
    return _Network(
        (25, 25, 25),
        activation="tanh",
        solver="sgd",
        alpha=0.0,
        learning_rate_init=0.01,
        momentum=0.9,
        nesterovs_momentum=True,
        batch_size=N // 2,
        max_iter=750,
        tol=0.0,
        n_iter_no_change=10**6,
        random_state=rep,
    )


def _networks(target: Target, rows: np.ndarray, rep: int, epsilons: tuple[float, ...]) -> Found:
    yield from _learned("nn1", network_there(rep), target, rows[: 3 * len(rows) // 4], epsilons)


def trees_there(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """Boosted trees of scikit-learn's default settings."""
    trees = HistGradientBoostingClassifier(random_state=rep)
    yield from _learned("gbdt", trees, target, target.sample(N, rep), epsilons)


def _learned(
    name: str, learner: Any, target: Target, rows: np.ndarray, epsilons: tuple[float, ...]
) -> Found:
    """Clips of a classifier's log odds, on the grid."""
    grid = grid_of(target.name)
    drawn = fresh("there", target.name, len(rows), rows[0, 0]).normal(size=rows.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(np.concatenate([rows, drawn]), np.repeat([1, 0], len(rows)))
    p = learner.predict_proba(grid.points)[:, 1]
    with np.errstate(divide="ignore"):
        ratio = np.log(p) - np.log1p(-p)
    for eps in epsilons:
        windows = {"": Window.symmetric(eps), "_asym.05": Window.asymmetric(eps, SHARE)}
        for ending, window in windows.items():
            clip, _ = clip_to_window(ratio, grid.reference, window)
            found = law_scores(grid, clip, (window.lower, window.upper))
            yield f"plugin_{name}{ending}_there", eps, found
