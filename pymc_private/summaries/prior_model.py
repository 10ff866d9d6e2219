"""A model without its records: the prior as a plain PyMC model.

It has the names, dims and coords of the free variables, the region, and the Deterministics that
read no record. Nothing of the records is in it: no array, no dim and no length of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import ScalarConstant
from pytensor.tensor.basic import MakeVector
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import ancestors_with_inner_graphs, underlying_array
from pymc_private.models.private_model import PrivateModel, record_dims
from pymc_private.models.restricted_model import restricted_model
from pymc_private.privacy.neighbors import ADD_REMOVE


def prior_model(private: PrivateModel) -> pm.Model:
    """The free variables of a private model on its region, and what is computed from them alone.

    Raises
    ------
    Unsupported
        A prior that reads the records, a potential of the parameters, or public observations.
    """
    _refuse_terms_left_out(private)
    base = private.base
    builder = _ModelBuilder(private)
    for name, variable in base.named_vars.items():
        if variable in base.free_RVs:
            builder.add_free(name, variable)
        elif variable in base.deterministics:
            builder.add_deterministic(name, variable)
    return restricted_model(builder.model, 1.0, (), private.region, private.starts, private.theta_l)


def _refuse_terms_left_out(private: PrivateModel) -> None:
    """Refuse factors of the posterior that are neither a prior nor of the records."""
    base, graph = private.base, private.graph
    free = set(base.free_RVs)
    found = [
        factor.name
        for factor in (*base.observed_RVs, *base.potentials)
        if factor.name not in graph.factors and free.intersection(ancestors([factor]))
    ]
    parts = [] if graph.public_part is None else [graph.public_part]
    if not set(graph.parameters.values()).isdisjoint(ancestors(parts)):
        found.append(f"a part of {', '.join(graph.factors)} that reads no record")
    if found:
        raise Unsupported(
            "a potential of the parameters or a public observation would be missing from the "
            "posterior of a summary",
            got=", ".join(found),
            allowed="priors made of distributions, and observations of the records",
            do="write it as a prior; or draws: calibrate(..., release='draws')",
        )


class _ModelBuilder:
    """Adds variables of a private model to a new one, in their order, without what is private."""

    def __init__(self, private: PrivateModel) -> None:
        self.private, self.model = private, pm.Model()
        base = private.base
        self.hidden_dims = record_dims(private) | self._outcome_dims()
        observed = {underlying_array(base.rvs_to_values[rv]) for rv in base.observed_RVs}
        lengths = {base.dim_lengths[dim] for dim in self.hidden_dims if dim in base.dim_lengths}
        self.hidden = {s.variable for s in private.sources} | observed | lengths
        self.hidden |= set(base.observed_RVs)
        self.swaps: dict[Variable, Variable] = {}

    def _outcome_dims(self) -> set[str]:
        """Dims of observed variables that may count records.

        Those as long as the records, or, where their number is protected, so that not even a dim
        may show it, all that no free variable has.
        """
        base = self.private.base
        dims = base.named_vars_to_dims
        found = {dim for rv in base.observed_RVs for dim in dims.get(rv.name) or ()} - {None}
        if self.private.neighbors == ADD_REMOVE:
            return found - {dim for rv in base.free_RVs for dim in dims.get(rv.name) or ()}
        return {dim for dim in found if _length(base, dim) == self.private.n}

    def add_free(self, name: str, rv: Variable) -> None:
        """Add a free variable with its own value transform."""
        if self._copy(rv) is None:
            raise Unsupported(
                f"the prior of '{name}' reads an array of the records",
                got=name,
                allowed="priors made of public numbers",
                do="write shapes and parameters of priors as numbers",
            )
        transform = self.private.base.rvs_to_transforms[rv]
        dims = self._declared_dims(name)
        self._share_public_data(rv)
        self.swaps[rv] = self.model.register_rv(
            self._copy(rv), name, dims=dims, default_transform=None, transform=transform
        )

    def add_deterministic(self, name: str, variable: Variable) -> None:
        """Add a Deterministic, unless it reads a record or has an entry for each."""
        dims = self.private.base.named_vars_to_dims.get(name) or ()
        trial = None if self.hidden_dims.intersection(dims) else self._copy(variable)
        if trial is None or self._reads_rows(trial) or self._draws_itself(trial):
            return
        declared = self._declared_dims(name)
        self._share_public_data(variable)
        with self.model:
            self.swaps[variable] = pm.Deterministic(name, self._copy(variable), dims=declared)

    def _copy(self, variable: Variable) -> Variable | None:
        """The variable on what is new; None if it reads what is hidden."""
        try:
            made = rebuild([variable], self._with_leaves(variable), self._without_lengths)[0]
        except EVALUATION_ERRORS:
            return None
        if made is variable:  # of constants alone: the two models share no node
            made = made.owner.clone().outputs[variable.index]
        read = set(ancestors_with_inner_graphs([made]))
        others = set(self.private.base.basic_RVs) - set(made.owner.outputs)
        return None if read & self.hidden or read & others else made

    def _with_leaves(self, variable: Variable) -> dict[Variable, Variable]:
        leaves = {v: v for v in ancestors([variable]) if v.owner is None}
        return leaves | self.swaps

    def _draws_itself(self, variable: Variable) -> bool:
        """Whether a graph draws what is no free variable, nor above one as in LKJCholeskyCov."""
        free = self.model.free_RVs
        below = ancestors([variable], blockers=free)
        return any(v.owner is not None and _is_draw(v) for v in below if v not in set(free))

    def _without_lengths(self, node: Apply, inputs: list[Variable]) -> Variable | None:
        """Lengths of private arrays that are public: those of all axes but the records'."""
        sources = {s.variable: s for s in self.private.sources}
        source = sources.get(node.inputs[0]) if node.inputs else None
        if isinstance(node.op, Subtensor):
            return _entry_of_vector(node.op, inputs)
        if source is None:
            return None
        hidden = pt.lscalar("records")
        lengths: list[Any] = [np.int64(k) for k in source.shape]
        lengths[source.axis] = hidden
        self.hidden.add(hidden)
        if isinstance(node.op, Shape_i):
            return pt.as_tensor(lengths[node.op.i])
        return pt.stack([pt.as_tensor(k) for k in lengths]) if isinstance(node.op, Shape) else None

    def _reads_rows(self, variable: Variable) -> bool:
        """Whether a graph holds an array that may have one entry per record, public or not.

        Where the number of records is protected, what is left out may not depend on it: then all
        arrays that nobody declared are left out, and data containers stay, which were declared.
        """
        if self.private.neighbors != ADD_REMOVE:
            return any(self.private.n in shape for shape in array_shapes([variable]))
        every = ancestors_with_inner_graphs([variable])
        known = {*self.private.base.data_vars, *self.model.data_vars}
        known |= {v.owner.inputs[1] for v in every if v.owner and isinstance(v.owner.op, Reshape)}
        return any(np.prod(shape) > 1 for shape in array_shapes([variable], known))

    def _declared_dims(self, name: str) -> tuple[str | None, ...] | None:
        """The dims of a variable, each declared in the new model when it is first used."""
        base = self.private.base
        dims = base.named_vars_to_dims.get(name)
        for dim in dims or ():
            if dim is not None:
                self._declare_dim(dim)
        return tuple(dims) if dims is not None else None

    def _declare_dim(self, dim: str) -> None:
        base = self.private.base
        if dim not in self.model.coords:
            labels = base.coords.get(dim)
            self.model.add_coord(dim, labels, length=_length(base, dim))
            self.swaps[base.dim_lengths[dim]] = self.model.dim_lengths[dim]

    def _share_public_data(self, variable: Variable) -> None:
        """Declare public data containers that a variable reads, under their names."""
        base = self.private.base
        for v in ancestors([variable]):
            if v in base.data_vars and v not in self.hidden and v not in self.swaps:
                with self.model:
                    values = v.get_value()
                    self.swaps[v] = pm.Data(v.name, values, dims=self._data_dims(v))

    def _data_dims(self, variable: Variable) -> tuple[str | None, ...] | None:
        dims = self.private.base.named_vars_to_dims.get(variable.name)
        kept = None if dims is None else [d if d not in self.hidden_dims else None for d in dims]
        for dim in kept or ():
            if dim is not None:
                self._declare_dim(dim)
        return None if kept is None else tuple(kept)


def _length(model: pm.Model, dim: str) -> int:
    return int(np.asarray(model.dim_lengths[dim].eval()))


def _entry_of_vector(op: Subtensor, inputs: list[Variable]) -> Variable | None:
    """The entry of a vector that is made of scalars, so that it does not read the others."""
    made, index = inputs[0].owner, indices_from_subtensor(inputs[1:], op.idx_list)
    if made is None or not isinstance(made.op, MakeVector) or len(index) != 1:
        return None
    position = index[0]
    if isinstance(position, TensorConstant | ScalarConstant):
        position = int(position.data)
    return made.inputs[position] if isinstance(position, int) else None


def _is_draw(variable: Variable) -> bool:
    """Whether a variable is a random draw: some output of its node is a generator's state."""
    return any(isinstance(out.type, RandomType) for out in variable.owner.outputs)


def array_shapes(outs: Iterable[Variable], but: Collection[Variable] = ()) -> list[tuple[int, ...]]:
    """Shapes of constants and shared arrays in graphs, inner graphs included, but of some."""
    found = []
    for v in set(ancestors_with_inner_graphs(list(outs))).difference(but):
        if isinstance(v, TensorConstant):
            found.append(np.shape(v.data))
        elif hasattr(v, "get_value"):
            found.append(np.shape(v.get_value(borrow=True)))
    return found


def natural_variables(model: pm.Model) -> Mapping[str, Variable]:
    """The free variables in natural units as graphs of the value variables."""
    graphs = model.replace_rvs_by_values(model.free_RVs)
    return {rv.name: graph for rv, graph in zip(model.free_RVs, graphs, strict=True)}
