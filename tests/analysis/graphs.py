"""Graphs evaluated node by node, and compared with their intervals at random points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds, propagate_bounds, walk
from pymc_private.analysis.intervals.dispatch import bound_op
from pymc_private.analysis.traversal import evaluate_node

Box = tuple[np.ndarray, np.ndarray]


def evaluate(outputs: list[Variable], values: Mapping[Variable, np.ndarray]) -> list[np.ndarray]:
    """Values by the Ops' own code."""
    with np.errstate(all="ignore"):
        trail = walk(
            outputs, values, lambda n, inputs: evaluate_node(n, list(inputs)), lambda c: c.data
        )
    return [trail[out] for out in outputs]


def random_box(rng: np.random.Generator, shape: tuple[int, ...], low=-3.0, high=3.0) -> Box:
    """Wide, narrow, one-point and zero-touching coordinates between two numbers."""
    a, b = rng.uniform(low, high, (2, *shape))
    kind = rng.integers(0, 5, shape)
    b = np.where(kind == 0, a, b)
    a = np.where((kind == 1) & (low <= 0), 0.0, a)
    b = np.where(kind == 2, np.clip(a + 1e-6, low, high), b)
    return np.minimum(a, b), np.maximum(a, b)


def random_inside(rng: np.random.Generator, box: Box) -> np.ndarray:
    """A point of a box, often at a corner."""
    t = np.where(rng.random(box[0].shape) < 0.5, rng.integers(0, 2, box[0].shape), rng.random())
    return np.clip(box[0] + t * (box[1] - box[0]), *box)


def is_inside(fact: Bounds, value: np.ndarray) -> np.ndarray:
    """Elementwise: a number lies between the ends (to 1e-9); NaN lies in the top element only."""
    value = np.asarray(value)
    if value.dtype == bool:
        return (fact.lower <= value) & (value <= fact.upper)
    with np.errstate(all="ignore"):
        slack = np.where(np.isfinite(value), 1e-9 * (1.0 + abs(value.astype(float))), 0.0)
        between = (fact.lower <= value + slack) & (value - slack <= fact.upper)
        return (np.isnan(fact.lower) & np.isnan(fact.upper)) | between


def escapes(
    outputs: list[Variable], boxes: Mapping[Variable, Box], rng: np.random.Generator, points: int
) -> list[tuple[Variable, np.ndarray]]:
    """Outputs, with values at random points, that leave their intervals or change their shape."""
    trail = propagate_bounds(outputs, {v: Bounds(*box) for v, box in boxes.items()})
    found = []
    for _ in range(points):
        values = {v: random_inside(rng, box).astype(v.type.dtype) for v, box in boxes.items()}
        try:
            answers = evaluate(outputs, values)
        except IndexError:  # no value: something must be top
            found += [] if any(np.isnan(trail[out].lower).any() for out in outputs) else [values]
            continue
        for out, value in zip(outputs, answers, strict=True):
            fact = trail[out]
            lost = fact.shape == () and out.type.ndim > 0 and np.isnan(fact.lower)
            fits = lost or fact.shape == np.shape(value) == np.shape(fact.upper)
            if not fits or not np.all(is_inside(fact, value)):
                found.append((out, value))
    return found


@contextmanager
def planted(kind: type, rule: Callable):
    """Replace the rule of an Op for a while."""
    original = bound_op.registry[kind]
    bound_op.register(kind, rule)
    try:
        yield
    finally:
        bound_op.register(kind, original)
