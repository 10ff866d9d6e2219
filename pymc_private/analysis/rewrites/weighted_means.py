"""Weighted means of two terms, which lie between them.

In a (1 - w) + b w the weight stands twice, and interval arithmetic takes each term at its own w: a
mean of two numbers in [-1, 1] seems to reach -2 and 2. For 0 <= w <= 1

    min(a, b) <= a (1 - w) + b w <= max(a, b),

so the mean is equal to itself clamped to these limits, and its bounds are those of both forms
(`ops.EqualForms`); slopes are those of the form as written. Where a and b are one variable the
mean is a. Real arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable

from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.ops import EqualForms, OnSimplex, equal_forms
from pymc_private.analysis.intervals.propagation import propagate_bounds
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal import (
    is_substitute,
    rebuild,
    same_variable,
    scalar_op,
    without_dimshuffles,
)

WeightedMean = tuple[Variable, Variable, Variable, list[Variable]]
"""a, b and w of a (1 - w) + b w, and the other terms of the sum."""


def enclose_weighted_means(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """The same function on a box, with weighted means between their two terms.

    `box` has the bounds of every input. `value` itself if it holds no such mean.
    """

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        out = node.outputs[0]
        for first, second, weight, rest in _weighted_means(node):
            share = propagate_bounds([weight], box)[weight]
            if not (np.all(share.lower >= 0.0) and np.all(share.upper <= 1.0)):
                continue
            mean = _between(first, second, weight)
            found = pt.add(mean, *rest) if rest else mean
            if is_substitute(found, out):
                return found
        return None

    (found,) = rebuild([value], {v: v for v in box}, rule)
    return value if found is value else simplify([found])[0]


def first_of_touched_forms(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A rule of `rebuild`: of two equal forms the first, if parts of them are replaced.

    The numbers that replace parts of a graph are free. A form in min(a, b) and one in a and b are
    equal no more if each of the three is a number by itself; nor need rows sum to one.
    """
    stated = isinstance(node.op, OnSimplex) or isinstance(scalar_op(node.outputs[0]), EqualForms)
    return inputs[0] if stated and inputs != node.inputs else None


def _between(first: Variable, second: Variable, weight: Variable) -> Variable:
    """a (1 - w) + b w between a and b; a, if b is a."""
    if same_variable(first, second):
        return first
    mean = first * (1.0 - weight) + second * weight
    low, high = pt.minimum(first, second), pt.maximum(first, second)
    return equal_forms(mean, pt.minimum(pt.maximum(mean, low), high))


def _weighted_means(node: Apply) -> Iterator[WeightedMean]:
    """The ways to read two terms of a sum as a (1 - w) + b w, or as a + (b - a) w."""
    if not isinstance(scalar_op(node.outputs[0]), ps.Add):
        return
    for j, k in permutations(range(len(node.inputs)), 2):
        rest = [v for place, v in enumerate(node.inputs) if place not in (j, k)]
        left, right = _factors(node.inputs[j]), _factors(node.inputs[k])
        for place, factor in enumerate(left):
            weight = _complemented(factor)
            other = None if weight is None else _position(right, weight)
            if weight is not None and other is not None:
                yield _without(left, place), _without(right, other), weight, rest
        for place, factor in enumerate(right):
            second = _minuend(factor, node.inputs[j])
            if second is not None and len(right) > 1:
                yield node.inputs[j], second, _without(right, place), rest


def _factors(variable: Variable) -> list[Variable]:
    """The factors of a product; a variable by itself is one."""
    if isinstance(scalar_op(variable), ps.Mul):
        return list(variable.owner.inputs)
    return [variable]


def _complemented(factor: Variable) -> Variable | None:
    """w, if this is 1 - w."""
    if not isinstance(scalar_op(factor), ps.Sub):
        return None
    one, weight = factor.owner.inputs
    number = without_dimshuffles(one)
    is_one = isinstance(number, Constant) and bool(np.all(number.data == 1.0))
    return weight if is_one else None


def _minuend(factor: Variable, subtrahend: Variable) -> Variable | None:
    """b, if this is b - a of this a."""
    if not isinstance(scalar_op(factor), ps.Sub):
        return None
    first, second = factor.owner.inputs
    return first if same_variable(second, subtrahend) else None


def _position(factors: list[Variable], wanted: Variable) -> int | None:
    """The place of a variable among factors."""
    return next((k for k, v in enumerate(factors) if same_variable(v, wanted)), None)


def _without(factors: list[Variable], place: int) -> Variable:
    """The product of all factors but one."""
    rest = [v for k, v in enumerate(factors) if k != place]
    if not rest:
        return pt.ones_like(factors[place])
    return pt.mul(*rest) if len(rest) > 1 else rest[0]
