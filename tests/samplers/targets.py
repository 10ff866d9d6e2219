"""Targets made from a PyTensor expression of the parameters, without a PyMC model around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Interval
from pymc_private.samplers.piecewise import height
from pymc_private.samplers.target import Target

Expression = Callable[[Variable], Variable]


def target_of(expression: Expression, lower: Sequence[float], upper: Sequence[float]) -> Target:
    """The target whose log density is `expression` of a vector of parameters on a box."""
    theta = pt.dvector("theta")
    box = Interval(np.array(lower, float), np.array(upper, float))
    graph = SimpleNamespace(
        record=expression(theta)[None], prior=pt.constant(0.0), parameters={"theta": theta}, data={}
    )
    return Target(
        SimpleNamespace(
            graph=graph, shapes={"theta": box.shape}, box={"theta": box}, power=Fraction(1),
            sources=(),
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


def worst_escape(
    target: Target, value: Callable[[np.ndarray], float], near: Sequence[float], count: int = 40
) -> float:
    """The greatest excess of the log density over its envelope; at most 0 if all is well."""
    rng, worst = np.random.default_rng(2), -np.inf
    for low, high in random_cells(target.lower, target.upper, near, count, seed=1):
        envelope = target.envelope(low, high)
        if np.isposinf(envelope.constant):
            continue
        for point in points_of(low, high, near, rng):
            density = value(point)
            if density > -np.inf:  # else nothing can be above it
                worst = max(worst, density - height(envelope, point - (low + high) / 2))
    return worst


def slopes_used(target: Target, near: Sequence[float], count: int = 40) -> int:
    """How many of the same cells have a sloped envelope."""
    cells = random_cells(target.lower, target.upper, near, count, seed=1)
    return sum(bool(np.any(target.envelope(low, high).high != 0.0)) for low, high in cells)
