"""Conditions of a log-likelihood as part of its values: -inf where one fails, record by record.

PyMC states the conditions of a distribution (sigma > 0) for all records at once, and an answer of
-inf for all of them hangs on each record. Where terms are clipped one by one, one record must not
decide about the others, so each element is given its own part of the condition.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Collection, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pymc_private.analysis.record_dependence import conjuncts

def failing_as_impossible(
    outputs: Sequence[Variable], private: Collection[Variable]
) -> list[Variable]:
    """Replace each check of a float by its values, -inf where a condition fails.

    Parameters
    ----------
    outputs : sequence of Variable
        Left untouched.
    private : collection of Variable
        The inputs that hold records. A condition that reads none of them holds or fails for all
        records; any other is met with the elements it broadcasts with. Whether each element reads
        one record only is for `row_labels` to prove.

    Returns
    -------
    list of Variable
    """
    new: dict[Variable, Variable] = {}
    for node in io_toposort([], list(outputs)):
        inputs = [new.get(v, v) for v in node.inputs]
        if isinstance(node.op, CheckAndRaise) and inputs[0].type.dtype.startswith("float"):
            new[node.outputs[0]] = _with_conditions(inputs[0], inputs[1:], private)
        elif inputs != list(node.inputs):
            copy = node.clone_with_new_inputs(inputs)
            new.update(zip(node.outputs, copy.outputs, strict=True))
    return [new.get(v, v) for v in outputs]


def _with_conditions(
    value: Variable, conditions: Sequence[Variable], private: Collection[Variable]
) -> Variable:
    """The value where all conditions hold, else -inf."""
    impossible = np.array(-np.inf, dtype=value.type.dtype)
    for part in conjuncts(conditions):
        value = pt.switch(_aligned(part, value, private), value, impossible)
    return value


def _aligned(part: Variable, value: Variable, private: Collection[Variable]) -> Variable:
    """One part of a condition, as it broadcasts with the elements of a value."""
    if not any(v in private for v in ancestors([part])):
        return pt.all(part)
    # What a distribution of vectors has beyond the axes of its density belongs to one element.
    extra = tuple(range(value.type.ndim, part.type.ndim))
    return pt.all(part, axis=extra) if extra else part
