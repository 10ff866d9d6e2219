"""Draws from the prior in one call: each distribution is given one more axis, for the draws.

`pm.draw` calls its function once a draw, which takes most of the time of a simulation. The numbers
are the same: a generator fills an array in the order in which it would give single draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from pymc_private.analysis.traversal import EVALUATION_ERRORS

FEW, TOLERANCE = 3, 1e-10
"""Draws that are also made one by one, and the relative difference that is rounding."""


def draw_together(
    rvs: Sequence[Variable],
    shapes: Sequence[tuple[int, ...]],
    count: int,
    seed: int | None,
) -> list[np.ndarray]:
    """Independent joint draws of random variables, each of shape (count, *shape).

    `shapes` are those of one draw. Made one by one where a prior holds random numbers that are no
    variables of its own, or where draws made together are not those that are made one by one.
    """
    entropy = np.random.SeedSequence(seed).generate_state(1)[0] if seed is None else seed

    def drawn(graphs: Sequence[Variable], draws: int) -> list[np.ndarray]:
        found = pm.draw(list(graphs), draws=draws, random_seed=int(entropy), mode="FAST_COMPILE")
        return [np.asarray(values) for values in found]

    if count > FEW:
        try:
            together = _with_axis_of_draws(rvs, shapes, count)
            found = drawn(together, 1) if together else []
        except EVALUATION_ERRORS:
            found = []
        if found and _agree(found, drawn(rvs, FEW), shapes, count):
            return found
    one_by_one = drawn(rvs, count)
    return [v.reshape(count, *shape) for v, shape in zip(one_by_one, shapes, strict=True)]


def _agree(
    found: Sequence[np.ndarray],
    few: Sequence[np.ndarray],
    shapes: Sequence[tuple[int, ...]],
    count: int,
) -> bool:
    """Whether all have their shapes, and the first draws are those that were made one by one."""
    return all(
        values.shape == (count, *shape)
        and np.allclose(values[:FEW], some.reshape(FEW, *shape), rtol=TOLERANCE, equal_nan=True)
        for values, some, shape in zip(found, few, shapes, strict=True)
    )


def _with_axis_of_draws(
    rvs: Sequence[Variable], shapes: Sequence[tuple[int, ...]], count: int
) -> list[Variable] | None:
    """The random variables with a first axis of draws; None where there is none such."""
    batched: dict[Variable, Variable] = {}
    below = {rv: len(set(rvs).intersection(ancestors([rv]))) for rv in rvs}
    shape_of = dict(zip(rvs, shapes, strict=True))
    for rv in sorted(rvs, key=below.__getitem__):
        op, params = rv.owner.op, rv.owner.op.dist_params(rv.owner)
        inside = ancestors(params, blockers=list(batched))
        if any(isinstance(v.type, RandomType) for v in inside):
            return None
        batch = shape_of[rv][: rv.type.ndim - op.ndim_supp]
        size = pt.as_tensor(np.array([count, *batch], dtype="int64"))
        aligned = [
            _aligned(param, core, len(batch), batched)
            for param, core in zip(params, op.ndims_params, strict=True)
        ]
        if isinstance(op, RandomVariable):
            batched[rv] = op.make_node(op.rng_param(rv.owner), size, *aligned).outputs[1]
        elif op.extended_signature is None or len(op.rng_params(rv.owner)) != 1:
            return None
        else:
            (rng,) = op.rng_params(rv.owner)
            batched[rv] = type(op).rv_op(*aligned, size=size, rng=rng)
    return [batched[rv] for rv in rvs]


def _aligned(
    param: Variable, core: int, batch: int, batched: Mapping[Variable, Variable]
) -> Variable:
    """A parameter with the axis of draws before the axes of the batch, where draws enter it."""
    if not any(v in batched for v in ancestors([param])):
        return param
    moved = vectorize_graph(param, replace=dict(batched))
    missing = batch - (param.type.ndim - core)
    return moved.dimshuffle(0, *["x"] * missing, *range(1, moved.type.ndim))
