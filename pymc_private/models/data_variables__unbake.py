"""Turn private arrays that were baked into a model as constants into shared variables.

PyMC and PyTensor fold constants whenever they rewrite a graph: a mean of a baked array would become
a public-looking number before anybody could see that it reads every record. A shared variable is
never folded.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorConstant
from pymc_private.models.data_variables import Source

def unbake(
    model: pm.Model, sources: Sequence[Source], opened: Sequence[Variable] = ()
) -> list[Source]:
    """Replace each private constant of `model` (a copy of our own) by a shared variable, in place.

    Parameters
    ----------
    model : pymc.Model
        Changed: every node that reads a private constant reads a shared variable of the same value.
    sources : sequence of Source
    opened : sequence of Variable
        Constants that are public by name: they become shared variables, too, as public data are.

    Returns
    -------
    list of Source
        The same private variables, none of them a constant.
    """
    constants = [(s.variable, s.name) for s in sources if isinstance(s.variable, TensorConstant)]
    baked = {v: _shared(v, name) for v, name in constants}
    replace_constants(model, baked | {v: _shared(v, None) for v in opened})
    return [replace(s, variable=baked.get(s.variable, s.variable)) for s in sources]


def replace_constants(model: pm.Model, swaps: Mapping[Variable, Variable]) -> None:
    """Make every node of a model that reads a constant read another variable, in place.

    Parameters
    ----------
    model : pymc.Model
    swaps : mapping of Variable to Variable
        What to read instead, of the same type and value.
    """
    if not swaps:
        return
    roots = [*model.basic_RVs, *model.potentials, *model.deterministics]
    roots += list(model.rvs_to_values.values())
    for variable in ancestors(roots):
        node = variable.owner
        if node is not None:
            for position, read in enumerate(node.inputs):
                if read in swaps:
                    node.inputs[position] = swaps[read]
    for rv, value in list(model.rvs_to_values.items()):
        if value in swaps:
            model.rvs_to_values[rv] = swaps[value]
            model.values_to_rvs[swaps[value]] = model.values_to_rvs.pop(value)


def _shared(constant: Any, name: str | None) -> Variable:
    """A shared variable of the constant's exact type and value."""
    data = np.array(constant.data)
    return pytensor.shared(data, name=name, shape=data.shape)
