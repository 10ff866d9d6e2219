"""What is tried on a known target, and its scores: one generator for each kind of work.

Each gives (method, epsilon, scores) of one replication. `as_there` repeats some methods by the
definitions of the reference results, where those differ from ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks import mollifier_baselines as baselines
from benchmarks import private_gan
from benchmarks.mollifier_targets import Grid, Target, cell_masses, grid_of, scores
from pymc_private import MollifiedBoosting, mollify
from pymc_private.mollifiers import Box, Hull, Window
from pymc_private.mollifiers.density_estimates import LogRatio, fit_log_ratio
from pymc_private.mollifiers.mollified_distributions import (
    EqualMassCells,
    HullMixture,
    best_tilt_level,
    clip_to_window,
)
from pymc_private.mollifiers.references import QuantileReference

N = 10_000
SHARE = 0.05

Found = Iterator[tuple[str, float, dict[str, float]]]


def law_scores(grid: Grid, log_ratio: np.ndarray, window: tuple[float, float]) -> dict[str, float]:
    """Scores of a law with this log Q/Q0 on the grid, normalized there."""
    with np.errstate(divide="ignore"):
        log_law = np.log(grid.reference) + log_ratio
    log_law -= np.log(np.exp(log_law).sum())
    return scores(grid, log_law) | _ends(log_ratio, window)


def exact_scores(grid: Grid, log_ratio: np.ndarray, window: tuple[float, float]) -> dict:
    """Scores of a law that is normalized already, off the grid."""
    with np.errstate(divide="ignore"):
        log_law = np.log(grid.reference) + log_ratio
    return scores(grid, log_law) | _ends(log_ratio, window)


def _ends(log_ratio: np.ndarray, window: tuple[float, float]) -> dict[str, float]:
    least, most = float(log_ratio.min()), float(log_ratio.max())
    inside = window[0] - 1e-9 <= least and most <= window[1] + 1e-9
    return {"log_ratio_lo": least, "log_ratio_hi": most, "inside_window": float(inside)}


def known(target: Target, epsilons: tuple[float, ...]) -> Found:
    """What needs the target itself: ceilings."""
    grid = grid_of(target.name)
    ratio, mass = grid.log_ratio, grid.reference

    def tilted(width: float) -> np.ndarray:
        return np.clip(ratio - best_tilt_level(ratio, mass, width), -width / 2, width / 2)

    for eps in epsilons:
        half, whole = (-eps / 2, eps / 2), (-2 * eps, 2 * eps)
        yield "q0", eps, law_scores(grid, np.zeros(len(mass)), half)
        clip, _ = clip_to_window(ratio, mass, Window.symmetric(eps))
        yield "optimum", eps, law_scores(grid, clip, half)
        window = Window.asymmetric(eps, SHARE)
        clip, _ = clip_to_window(ratio, mass, window)
        yield "optimum_asym.05", eps, law_scores(grid, clip, (window.lower, window.upper))
        yield "mbde_ceiling", eps, law_scores(grid, tilted(eps / 2), whole)
        yield "tilt_eps", eps, law_scores(grid, tilted(eps), whole)
        yield "optimum_asym_best", eps, law_scores(grid, tilted(eps), whole)
        boxed = grid_of(target.name, True)
        clip, _ = clip_to_window(boxed.log_ratio, boxed.reference, Window.symmetric(eps))
        yield "optimum_boxQ0", eps, exact_scores(boxed, clip, half)


def plug_ins(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """T15d with an estimate, in both windows, and the tilt of many draws."""
    rows, grid = target.sample(N, rep), grid_of(target.name)
    base = QuantileReference(target.reference)
    yield from _in_windows("nn1", rows, grid, base, fit_log_ratio(rows, base, "network"), epsilons)
    ratio = fit_log_ratio(rows, base, "kde")
    yield from _in_windows("kde", rows, grid, base, ratio, epsilons)
    spread = np.maximum(ratio(grid.points), -50.0)
    for eps in epsilons:
        found = mollify(rows, base, eps, estimate=ratio, kind="tilt").log_ratio(grid.points)
        yield "plugin_kde_tilt", eps, law_scores(grid, found, (-eps / 2, eps / 2))
        shifted = baselines.scale_and_shift(spread, grid, eps, most=20.0)
        yield "scale_shift", eps, scores(grid, shifted)
    low, high = target.box
    inside = rows[((rows > low) & (rows < high)).all(axis=1)]
    boxed, base = grid_of(target.name, True), Box([low] * target.dimension, high)
    ratio = fit_log_ratio(inside, base, "kde")
    for eps in epsilons:
        law = mollify(inside, base, eps, estimate=ratio)
        found = law.log_ratio(np.clip(boxed.points, low, high))
        yield "plugin_kde_boxQ0", eps, exact_scores(boxed, found, (-eps / 2, eps / 2))


def trees(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """The same with boosted trees, which vary most of all estimates."""
    rows, base = target.sample(N, rep), QuantileReference(target.reference)
    ratio = fit_log_ratio(rows, base, "trees")
    yield from _in_windows("gbdt", rows, grid_of(target.name), base, ratio, epsilons)


def _in_windows(
    name: str,
    rows: np.ndarray,
    grid: Grid,
    base: QuantileReference,
    ratio: LogRatio,
    epsilons: tuple[float, ...],
) -> Found:
    """Clips of one estimate, which is evaluated once: all are made on the same cells."""
    known: dict[tuple[int, ...], np.ndarray] = {}

    def at_cells(x: np.ndarray) -> np.ndarray:
        if x.shape not in known:
            known[x.shape] = ratio(x)
        return known[x.shape]

    for eps in epsilons:
        for ending, window in (
            ("", Window.symmetric(eps)),
            ("_asym.05", Window.asymmetric(eps, SHARE)),
        ):
            law = mollify(rows, base, eps, estimate=at_cells, window=window)
            found = law.log_ratio(grid.points)
            ends = window.lower, window.upper
            yield f"plugin_{name}{ending}", eps, exact_scores(grid, found, ends)


def boosted(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """MBDE and its stretch; the gain of each round beside T14's bound."""
    rows, grid = target.sample(N, rep), grid_of(target.name)
    for eps in epsilons:
        model = MollifiedBoosting(eps, 3, random_state=rep, progressbar=False).fit(rows)
        ratio = model.log_ratio(grid.points)
        yield "mbde_T3", eps, law_scores(grid, ratio, (-eps / 4, eps / 4))
        for t, r in enumerate(model.rounds_, 1):
            made = {
                "gain": r.gain,
                "least_gain": r.least_gain,
                "edge_data": r.edge_data,
                "edge_law": r.edge_law,
            }
            yield f"mbde_round_{t}", eps, made
        model.stretch = True
        model.mollified_ = model._make_mollified()
        ratio = model.log_ratio(grid.points)
        yield "mbde_T3_stretch", eps, law_scores(grid, ratio, (-eps / 2, eps / 2))


def cells(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """Counts in 64 cells of equal reference mass; hulls of randomized response on 4 and on 16."""
    rows, base = target.sample(N, rep), QuantileReference(target.reference)

    def scored(equal: EqualMassCells, of_cells: np.ndarray, window: tuple[float, float]) -> dict:
        """A grid is too coarse for edges: divergences are sums over cells, of known mass."""
        grid = grid_of(target.name)
        found = exact_scores(grid, of_cells[equal.find(grid.points)], window)
        none = float(grid.target @ grid.log_ratio)
        kl = none - float(cell_masses(target, equal.shape[0]) @ of_cells)
        return found | {"kl": kl, "nll": found["nll"] + kl - found["kl"]}

    along = {k: round(k ** (1 / target.dimension)) for k in (4, 16, 64)}
    fine = EqualMassCells(base, along[64])
    with np.errstate(divide="ignore"):
        counts = np.log(np.bincount(fine.find(rows), minlength=64) * 64 / len(rows))
    middles = (np.stack(np.unravel_index(np.arange(64), fine.shape), axis=1) + 0.5) / along[64]
    for eps in epsilons:
        law = mollify(rows, base, eps, estimate=lambda x: counts[fine.find(x)])
        found = law.log_ratio(base.transport(middles))
        yield "plugin_hist_64", eps, scored(fine, found, (-eps / 2, eps / 2))
        for k in (4, 16):
            hull = Hull.randomized_response_on_cells(base, along[k], eps)
            least = math.log(k / (k - 1 + math.exp(eps)))
            window = least, least + eps
            share = np.bincount(hull.cells.find(rows), minlength=k) / len(rows)
            law = HullMixture(hull, share)
            yield f"krr_hull_{k}", eps, scored(hull.cells, law.weights, window)
            law = mollify(rows, hull, eps)._distribution
            yield f"krr_projected_{k}", eps, scored(hull.cells, law.weights, window)


def noisy(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """Densities with noise for the box: Bernstein, Laplace histograms."""
    rows, grid = target.sample(N, rep), grid_of(target.name)
    width = baselines.held_out_width(rows)
    degrees = (10, 20, 40) if target.dimension == 1 else (5, 10, 20)
    for degree, whole in [(k, False) for k in degrees] + [(10, True)]:
        name = f"dpb_k{degree}{'_integral' if whole else ''}"
        made = baselines.bernstein(target, rows, grid, degree, epsilons, width, rep, whole)
        for eps, law in made:
            yield name, eps, scores(grid, law)
    for eps in epsilons:
        for name, whole in (("laplace_hist_record", False), ("laplace_hist_integral", True)):
            law = baselines.laplace_histogram(target, rows, grid, eps, rep, whole)
            yield name, eps, scores(grid, law)


def gan(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """A GAN trained by noisy gradients, known by its draws."""
    rows, grid = target.sample(N, rep), grid_of(target.name)
    for eps in epsilons:
        drawn = private_gan.train(rows, eps, baselines.fresh("gan", target.name, eps, rep))
        yield "gan_record", eps, scores(grid, baselines.from_draws(drawn, grid))


def wide(target: Target, rep: int, epsilons: tuple[float, ...]) -> Found:
    """5 and 10 dimensions: gains on fresh draws of the target; pools normalize the clips."""
    rows, test = target.sample(N, rep), target.sample(N, 1000 + rep)
    base = QuantileReference(target.reference)
    exact = target.logpdf(test) - base.logpdf(test)
    for eps in epsilons:
        made = {"optimum": mollify(_Law(target), base, eps)}
        for name in ("trees", "network"):
            made[f"plugin_{name}"] = mollify(rows, base, eps, estimate=name)
        made["plugin_network_tilt"] = mollify(rows, base, eps, estimate="network", kind="tilt")
        for name, law in made.items():
            found = law.log_ratio(test)
            if law.kind == "tilt":
                found = found - np.log(np.mean(np.exp(law.log_ratio(base.pool(2**16)))))
            yield name, eps, {"gain": float(found.mean()), "kl": float((exact - found).mean())}
        model = MollifiedBoosting(eps, 3, random_state=rep, progressbar=False).fit(rows)
        found = model.score_samples(test) - base.logpdf(test)
        yield "mbde_T3", eps, {"gain": float(found.mean()), "kl": float((exact - found).mean())}


class _Law:
    """A target as a law with a density."""

    def __init__(self, target: Target) -> None:
        self.shapes, self.text = {"x": (target.dimension,)}, target.name
        self.dimension, self.logpdf = target.dimension, target.logpdf
