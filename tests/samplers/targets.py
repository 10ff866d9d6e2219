"""Targets made from a PyTensor expression of the parameters, without a PyMC model around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds
from pymc_private.samplers import rejection
from pymc_private.samplers.envelope_pieces import Envelopes, envelope_height
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.rejection import envelope_forms

Expression = Callable[[Variable], Variable]


def target_of(expression: Expression, lower: Sequence[float], upper: Sequence[float]) -> Target:
    """The target whose log density is `expression` of a vector of parameters on a box."""
    theta = pt.dvector("theta")
    box = Bounds(np.array(lower, float), np.array(upper, float))
    graph = SimpleNamespace(
        record=expression(theta)[None], prior=pt.constant(0.0), parameters={"theta": theta},
        data={}, rows_differ=True, windows=(),
    )  # fmt: skip
    return Target(
        SimpleNamespace(
            graph=graph, shapes={"theta": box.shape}, box={"theta": box}, power=Fraction(1),
            sources=(), n=1,
        )
    )  # fmt: skip


def evaluator(expression: Expression) -> Callable[[np.ndarray], float]:
    """The same expression in doubles, computed by the Ops themselves: no interval rule is asked."""
    theta = pt.dvector("theta")
    mode = pytensor.compile.mode.Mode(linker="py", optimizer=None)
    compiled = pytensor.function([theta], expression(theta), mode=mode, on_unused_input="ignore")
    return lambda point: float(compiled(point))


def random_cells(
    lower: np.ndarray, upper: np.ndarray, near: Sequence[float], count: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Boxes of all sizes down to 1e-6, half of them around the places `near`."""
    rng = np.random.default_rng(seed)
    cells = [(lower, upper)]
    while len(cells) < count:
        half = (upper - lower) / 2 * 10.0 ** rng.uniform(-6, 0)
        middle = rng.uniform(lower, upper)
        if len(near) and rng.random() < 0.5:
            middle = rng.choice(np.asarray(near), size=len(lower)) + half * rng.uniform(-1, 1)
        low, high = np.maximum(middle - half, lower), np.minimum(middle + half, upper)
        if np.all(low < high):
            cells.append((low, high))
    return cells


def points_of(
    low: np.ndarray, high: np.ndarray, near: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Ends, center, random points, and the two sides of each place in `near`."""
    places = [low, high, (low + high) / 2]
    for place in near:
        places += [np.full(len(low), np.nextafter(place, side)) for side in (-np.inf, np.inf)]
        places.append(np.full(len(low), place))
    points = np.vstack([*places, rng.uniform(low, high, (12, len(low)))])
    return np.clip(points, low, high)


def value_at(target: Target, point: np.ndarray) -> float:
    """The log density in floats."""
    return float(target.values(np.asarray(point, float)[None])[0])


def ends_at(target: Target, point: np.ndarray) -> tuple[float, float]:
    """Its proved ends."""
    low, high = target.value_bounds(np.asarray(point, float)[None])
    return float(low[0]), float(high[0])


def all_forms(
    target: Target, lower: np.ndarray, upper: np.ndarray, rounds: int = 1
) -> tuple[np.ndarray, list[Envelopes]]:
    """Anchors, and every envelope that may be chosen on each box: constants, slopes, bends."""
    with np.errstate(all="ignore"):
        start = (lower + upper) / 2.0
        anchor, hessian = rejection._climb_to_mode(target, lower, upper, start, rounds)
    return anchor, [pieces for pieces, _ in envelope_forms(target, lower, upper, anchor, hessian)]


def worst_escape(
    target: Target, value: Callable[[np.ndarray], float], near: Sequence[float], count: int = 40
) -> float:
    """The greatest excess of the log density over any envelope; at most 0 if all is well."""
    rng, worst = np.random.default_rng(2), -np.inf
    cells = random_cells(target.lower, target.upper, near, count, seed=1)
    lower, upper = (np.array(ends) for ends in zip(*cells, strict=True))
    anchor, found = all_forms(target, lower, upper)
    constant = constant_left_out(target, value, points_of(*cells[0], near, rng))
    for k, (low, high) in enumerate(cells):
        if all(np.isposinf(pieces.constant[k]) for pieces in found):
            continue
        points = points_of(low, high, near, rng)
        density = np.array([value(point) for point in points]) - constant
        for pieces in found:
            if not np.isposinf(pieces.constant[k]):
                tops = envelope_height(pieces.take(np.full(len(points), k)), points - anchor[k])
                some = density > -np.inf  # else nothing can be above it
                worst = max(worst, np.max(density[some] - tops[some], initial=-np.inf))
    return worst


def constant_left_out(
    target: Target, value: Callable[[np.ndarray], float], points: np.ndarray
) -> float:
    """What the terms amount to that read no parameter: a density is up to a constant."""
    density = np.array([value(point) for point in points])
    with np.errstate(invalid="ignore"):
        low, high = target.value_bounds(points)
        known = np.isfinite(density) & (high - low <= 1e-12 * (1.0 + np.abs(low)))
        return float(np.median((density - low)[known])) if known.any() else 0.0


def finite_forms(target: Target, near: Sequence[float], count: int = 40) -> list[int]:
    """On how many of the same cells there is a constant, a slope, a product, a normal density."""
    cells = random_cells(target.lower, target.upper, near, count, seed=1)
    lower, upper = (np.array(ends) for ends in zip(*cells, strict=True))
    return [int(np.isfinite(p.constant).sum()) for p in all_forms(target, lower, upper)[1]]
