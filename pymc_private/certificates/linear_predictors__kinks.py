"""Kinks that keep a function concave, gradients, and the answer that something is not."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis import Interval as Bounds, bounds, simplify
from pymc_private.analysis.affine import Kind, kinds
from pymc_private.analysis.continuity import is_continuous_on_line, moving_variables
from pymc_private.analysis.rewrites.unbounded__exponents import tidy
from pymc_private.analysis.traversal__rebuild import rebuild

class NotConcave(Exception):
    """Why a factor is not shown to be log-concave in the parameters, in words."""


def gradient_of(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs of a scalar."""
    try:
        found = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception as error:  # of an Op that is not ours
        raise NotConcave(f"{type(error).__name__}: an Op of the density has no gradient") from error
    return tidy(found)


def without_kinks(
    h: Variable, inputs: Sequence[Variable], box: Mapping[Variable, Bounds]
) -> list[Variable] | None:
    """Slopes of the rest, if all kinks of h are terms -c |v| with c >= 0 and v affine."""
    found = kinds([h], inputs)
    kinks = {
        v: v.type(name=f"kink{k}")
        for k, v in enumerate(dict.fromkeys(ancestors([h])))
        if v.owner is not None
        and isinstance(v.owner.op, Elemwise)
        and isinstance(v.owner.op.scalar_op, ps.Abs)
        and found.get(v.owner.inputs[0], Kind.CONSTANT) is Kind.AFFINE
    }
    if not kinks:
        return None
    rest = rebuild([h], kinks)[0]
    fresh = list(kinks.values())
    if kinds([rest], fresh).get(rest) is not Kind.AFFINE:
        return None
    weights = gradient_of(rest, fresh)
    if all(None not in v.type.shape for v in fresh):
        # Affine, so they are the same at zero; sizes may still be read off the kinks.
        weights = simplify(rebuild(weights, {v: pt.zeros(v.type.shape) for v in fresh}))
    if not set(ancestors(weights)).isdisjoint([*inputs, *fresh]):
        return None
    trail = bounds(weights, box)
    if not all(np.all(trail[w].upper <= 0.0) for w in weights):
        return None
    slopes = gradient_of(rest, inputs)
    if not set(ancestors(slopes)).isdisjoint(fresh):
        return None
    moving = moving_variables(slopes, inputs)
    return slopes if is_continuous_on_line(slopes, moving, bounds(slopes, box)) else None


def refuse_predictors(cores: Sequence[Variable]) -> None:
    """Stop where there is no predictor, or one of unknown size."""
    if not cores:
        raise NotConcave("it reads no parameter")
    if any(None in core.type.shape for core in cores):
        raise NotConcave("it has a predictor whose shape is not known")


def refuse_conditions(h: Variable) -> None:
    """A density that PyMC refuses somewhere is no density of every parameter."""
    for variable in ancestors([h]):
        if variable.owner is not None and isinstance(variable.owner.op, CheckAndRaise):
            raise NotConcave(f"the condition '{variable.owner.op.msg}' is not proved; trim")
