"""The variables of a Bambi formula as named data, in place of the arrays Bambi bakes into a graph.

Bambi computes a design matrix, group indexes and offsets before the PyMC model exists, and writes
them into it as constants. Here each is written out again from the variables it was computed from: a
numeric variable is its column; a categorical one its codes, which pick rows of a public table of
contrasts; an interaction is a product. So a domain is declared by the name the formula uses, and
what a variable does in several terms is known to be one and the same.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.models.bambi import Variables, blocks_of, data_name, roots, weights_of
from pymc_private.models.bambi__weights import name_weights
from pymc_private.models.compat import copy_model
from pymc_private.models.domains import Categories, Domain
from pymc_private.models.data_variables import candidates, constants_with_axis
from pymc_private.models.data_variables__unbake import replace_constants

DIM = "__obs__"
"""Bambi's records dim."""


@dataclass(frozen=True)
class NamedTerms:
    """A PyMC model whose data have the names of a formula.

    Parameters
    ----------
    model : pymc.Model
        A copy.
    initvals : dict
        Starts given in the model.
    names : dict of str to str
        The data variable of each variable of the formula.
    domains : dict of str to Domain
        Of categorical variables, by the data variable: the codes of their levels.
    """

    model: pm.Model
    initvals: Mapping[str, Any]
    names: Mapping[str, str]
    domains: Mapping[str, Domain]

    @property
    def claims(self) -> list[str]:
        """What is taken on trust."""
        return [
            f"the levels of '{n}' are public" for n, d in self.names.items() if d in self.domains
        ]


def is_bambi(model: Any) -> bool:
    """Whether a model is Bambi's."""
    return type(model).__module__.split(".")[0] == "bambi"


def named_terms(bambi_model: Any, given: pm.Model) -> NamedTerms:
    """Write a Bambi model with its variables as data.

    Parameters
    ----------
    bambi_model : bambi.Model
    given : pymc.Model
        Built from it.

    Returns
    -------
    NamedTerms
        Whatever is not recognized stays a constant, and wants a domain of its own.

    Raises
    ------
    Unsupported
        Bambi centered the predictors: each row holds a mean over all records.
    """
    copy, initvals = copy_model(given)
    n = len(given.coords.get(DIM, ()))
    known = Variables()
    blocks = dict(blocks_of(bambi_model, given, n, known))
    constants = constants_with_axis(roots(copy), n, [c.variable for c in candidates(copy)])
    swaps: dict[Variable, Variable] = {}
    for name, (constant, _) in constants.items():
        if name in blocks:
            written = _fitted(blocks[name](known), constant)
            if written is not None:
                swaps[constant] = written
    replace_constants(copy, swaps)
    for name, values in weights_of(bambi_model):
        name_weights(copy, values, lambda n=name, v=values: known[known.add(n, v)])  # type: ignore[misc]
    read = set(ancestors(roots(copy)))
    used = {name: v for name, v in known.shared.items() if v in read}
    for variable in used.values():
        copy.register_data_var(variable, dims=_dims(copy, variable))
    domains = {
        data_name(name): Categories(range(known.levels[name]))
        for name in used
        if name in known.levels
    }
    return NamedTerms(copy, initvals, {name: data_name(name) for name in used}, domains)


def _dims(model: pm.Model, variable: Variable) -> tuple[str, ...]:
    """The records dim, and one for each further axis: PyMC copies no model with a nameless dim."""
    sizes = {f"{variable.name}_dim_{k}": size for k, size in enumerate(variable.type.shape) if k}
    for name, size in sizes.items():
        model.add_coord(name, length=size)
    return (DIM, *sizes)


def _fitted(written: Variable, constant: Any) -> Variable | None:
    """The same array in the constant's own shape and type, or None if it is another."""
    shape = np.shape(constant.data)
    if written.type.ndim < len(shape):
        written = pt.expand_dims(written, tuple(range(written.type.ndim, len(shape))))
    written = pt.cast(written, constant.type.dtype)
    if not np.array_equal(np.broadcast_to(written.eval(), shape), constant.data):
        return None
    return written if written.type.shape == shape else pt.broadcast_to(written, shape)
