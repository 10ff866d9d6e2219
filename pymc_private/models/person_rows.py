"""Rows of persons: a model with one line per row becomes one with a record per person.

Many rows of a table belong to one person, and a model reads the person's own variable (an
intercept) by an index of persons. Here each array of rows is written as an array of persons, with
as many places as a person may own rows, and the number of rows that the person has. A person is
then one record: all that they wrote is protected together. What a record adds to the
log-likelihood is the sum over its rows given the person's own variable, which `marginalize` sums or
integrates out.

Places beyond a person's number of rows repeat the first one and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import checks_to_switches
from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.traversal import library_class_name, rebuild
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.domains import Categories

LOOKUPS = ("AdvancedSubtensor", "AdvancedSubtensor1")
MOST_ROWS = 64
"""Most rows of one person: each is a term of its own in the graph."""
NO_LABEL = "record"
"""What persons are called where their variable has no dim."""


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Arrays of rows as arrays of persons.

    Attributes
    ----------
    person : str
        The dim of the persons.
    most : int
        K, places for rows.
    indices : tuple of Variable
        The person of each row, as the model has it: one variable, or constants that are equal.
    wide : dict of Variable to Variable
        For each array of rows, the array of shape (persons, K, ...).
    count : Variable
        The number of rows of each person.
    """

    person: str
    most: int
    indices: tuple[Variable, ...]
    wide: Mapping[Variable, Variable]
    count: Variable

    @property
    def row_dim(self) -> str:
        """The dim of the places."""
        return f"{self.person}_row"

    @property
    def replaced(self) -> set[Variable]:
        """What is of rows in the model as it was: arrays, outcomes and the index."""
        return set(ancestors([*self.indices, *self.wide]))

    @property
    def total(self) -> int:
        """The number of rows in the model as it was."""
        return int(next(iter(self.wide)).get_value(borrow=True).shape[0])

    @property
    def dims(self) -> dict[Variable, tuple[str | None, ...]]:
        """Dims of the arrays of persons."""
        found = {
            v: (self.person, self.row_dim, *(None for _ in v.type.shape[2:]))
            for v in self.wide.values()
        }
        return found | {self.count: (self.person,)}

    @property
    def domain(self) -> Categories:
        """Numbers of rows that a person may have."""
        return Categories(range(1, self.most + 1))

    def at_place(self, graphs: Sequence[Variable], place: int) -> list[Variable]:
        """Graphs of rows as graphs of the persons' rows at one place."""
        swaps = {long: wide[:, place] for long, wide in self.wide.items()}
        every = {v: v for v in ancestors(list(graphs)) if v.owner is None} | swaps

        def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
            if isinstance(node.op, SpecifyShape) or self._repeats_rows(node):
                return inputs[0]
            if library_class_name(node.op) not in LOOKUPS or node.inputs[1] not in self.indices:
                return None
            further = inputs[2:]  # effect[person], or effect[person, k]
            if not all(_is_scalar(v) for v in further):
                raise Unsupported(
                    "what a row looks up by its person and by something else is data of the row",
                    got="a lookup such as table[person, item]",
                    allowed="effect[person], or effect[person, k] with one k for all rows",
                    do="a data variable with one entry per row in its place",
                )
            return inputs[0][(slice(None), *further)] if further else inputs[0]

        return rebuild(list(graphs), every, rule)

    def _repeats_rows(self, node: Apply) -> bool:
        """Whether an array is written out to the number of rows, which is not that of persons."""
        if not isinstance(node.op, Alloc) or len(node.inputs) != 2:
            return False
        length = node.inputs[1]
        leaves = [v for v in ancestors([length]) if v.owner is None]
        is_known = all(isinstance(v, Constant) or hasattr(v, "get_value") for v in leaves)
        return is_known and int(_array(length)) == self.total

    def term(self, row_terms: Variable) -> Variable:
        """What each person adds: the sum over the rows that they have.

        Checks of a row become switches, which read that row alone.
        """
        places = [self.at_place([row_terms], k)[0] for k in range(self.most)]
        apart = checks_to_switches(places, self._with_entries(places))
        parts = [pt.switch(pt.gt(self.count, k), v, 0.0) for k, v in enumerate(apart)]
        return reduce(pt.add, parts)

    def _with_entries(self, graphs: Sequence[Variable]) -> set[Variable]:
        """Arrays with an entry for each person: those of rows, and covariates of the person."""
        persons = self.count.get_value(borrow=True).shape[0]
        known = (v for v in ancestors(list(graphs)) if v.owner is None)
        arrays = [v for v in known if isinstance(v, Constant) or hasattr(v, "get_value")]
        return {v for v in arrays if np.shape(_array(v))[:1] == (persons,)}

    def drawn(self, rv: Variable) -> tuple[Variable, tuple[tuple[Variable, ...], ...]]:
        """The random variable of all places, and the parameters of its distribution at each."""
        op = rv.owner.op
        if not isinstance(op, RandomVariable) or op.ndim_supp or any(op.ndims_params):
            raise Unsupported(
                "rows of persons need a distribution of one number with a generator",
                got=f"{rv.name}: {library_class_name(op)}",
                allowed="Normal, Bernoulli, Poisson and others of one number",
            )
        parts = op.dist_params(rv.owner)
        places = [self.at_place(parts, k) for k in range(self.most)]
        whole = [_beside([place[k] for place in places]) for k in range(len(parts))]
        size = pt.constant((int(self.count.get_value().size), self.most), dtype="int64")
        made = op.make_node(rv.owner.inputs[0], size, *whole).outputs[1]
        return made, tuple(tuple(place) for place in places)


def _beside(columns: Sequence[Variable]) -> Variable:
    """Vectors of persons as columns; what is the same for all rows as it is."""
    if columns[0].type.ndim == 0 or columns[0].type.broadcastable == (True,):
        return columns[0]
    return pt.stack(list(columns), axis=1)


def person_rows(
    model: pm.Model,
    latents: Sequence[Variable],
    outcomes: Mapping[Variable, Variable],
    most: Any,
) -> PersonRows:
    """Read which rows belong to which person, and write arrays of rows as arrays of persons.

    Parameters
    ----------
    model : pymc.Model
    latents : sequence of Variable
        Variables with one entry per person, which rows read by an index.
    outcomes : dict of Variable to Variable
        Observed variables that read them, with the arrays of their values.
    most : int
        Most rows that a person may own.

    Raises
    ------
    DomainError
        A person without rows, or with more than `most`; an index beyond the persons.
    Unsupported
        Rows that read the variables otherwise than by one index of persons.
    """
    _check_most(most)
    persons = int(model.eval_rv_shapes()[latents[0].name][0])
    indices = _indices_of_persons(outcomes, latents)
    labels = _array(indices[0])
    counts = _checked_counts(labels, persons, int(most))
    dims = model.named_vars_to_dims.get(latents[0].name) or ()
    person = str(dims[0]) if dims and dims[0] else NO_LABEL
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = np.minimum(np.arange(most), counts[:, None] - 1)
    kept = np.arange(most) < counts[:, None]
    picked = order[starts[:, None] + np.where(kept, places, 0)]
    arrays = _arrays_of_rows(model, outcomes, indices, len(labels), persons)
    wide = {v: _shared(name, array[picked]) for v, (name, array) in arrays.items()}
    count = _shared(f"{person}_rows", counts)
    return PersonRows(person, int(most), indices, wide, count)


def _check_most(most: Any) -> None:
    whole = isinstance(most, int | np.integer) and not isinstance(most, bool)
    if not whole or not 1 <= most <= MOST_ROWS:
        raise DomainError(
            "rows_per_record is the largest number of rows that a person may own",
            got=repr(most)[:40],
            allowed=f"1 to {MOST_ROWS}",
            do="keep fewer rows of each person, by a rule that was fixed without the data",
        )


def _indices_of_persons(
    outcomes: Mapping[Variable, Variable], latents: Sequence[Variable]
) -> tuple[Variable, ...]:
    """The one index by which rows read the persons' variables, written once or several times."""
    graphs = [v for rv in outcomes for v in rv.owner.op.dist_params(rv.owner)]
    reading = dependent_variables(graphs, list(latents))
    nodes = {v.owner for v in ancestors(graphs) if v.owner is not None}
    found = {
        node.inputs[1]
        for node in nodes
        if library_class_name(node.op) in LOOKUPS
        and node.inputs[0] in reading
        and len(node.inputs) in (2, 3)
        and all(_is_scalar(v) for v in node.inputs[2:])
        and node.inputs[0].type.ndim in (1, 2)
        and node.inputs[1].type.ndim == 1
    }
    if len(found) != 1 and not _are_one(found):
        raise Unsupported(
            "rows_per_record is for rows that read their person's variable by one index",
            got=f"{len(found)} such indices of {', '.join(rv.name for rv in latents)}",
            allowed="effect[person], person an array with one entry per row",
            do="leave rows_per_record out where a row of the data is a record already",
        )
    lookups = (n.inputs[1] for n in nodes if library_class_name(n.op) in LOOKUPS)
    return tuple(found | {v for v in lookups if _are_one({*found, v})})  # covariate[person], too


def _is_scalar(index: Variable) -> bool:
    """Whether an index is one number; slices have no dimensions at all."""
    return getattr(index.type, "ndim", None) == 0


def _are_one(found: set[Variable]) -> bool:
    """Whether indices are arrays written into the model, all the same."""
    arrays = [np.asarray(v.data) for v in found if isinstance(v, Constant)]
    return 0 < len(arrays) == len(found) and all(np.array_equal(arrays[0], a) for a in arrays)


def _checked_counts(labels: np.ndarray, persons: int, most: int) -> np.ndarray:
    """The number of rows of each person, 1 to `most`."""
    whole = np.array_equal(labels, np.rint(labels))
    if not whole or labels.min(initial=0) < 0 or labels.max(initial=0) >= persons:
        raise DomainError(
            "the index of persons points beyond their variable",
            got=f"entries outside 0, ..., {persons - 1}",
            allowed="the position of each row's person",
        )
    counts = np.bincount(labels.astype(np.int64), minlength=persons)
    if counts.min() == 0:
        raise DomainError(
            "some persons have no row: a record without data tells nothing of itself",
            got="persons without a row",
            allowed="one row or more of each person",
            do="leave them out of the dim of persons",
        )
    if counts.max() > most:
        raise DomainError(
            "some persons own more rows than declared",
            got=f"more than rows_per_record={most} rows of a person",
            allowed=f"up to {most}",
            do="a larger rows_per_record; or keep fewer rows of each person, by a rule that was "
            "fixed without the data",
        )
    return counts


def _arrays_of_rows(
    model: pm.Model,
    outcomes: Mapping[Variable, Variable],
    indices: Sequence[Variable],
    rows: int,
    persons: int,
) -> dict[Variable, tuple[str, np.ndarray]]:
    """Arrays with one entry per row that the outcomes read, and the outcomes, by name."""
    if rows == persons:
        raise Unsupported(
            "each person has one row: persons are records as they stand",
            got=f"{rows} rows of {persons} persons",
            do="write effect in place of effect[person], and leave rows_per_record= out",
        )
    graphs = [v for rv in outcomes for v in rv.owner.op.dist_params(rv.owner)]
    own = set(ancestors(list(indices)))
    found = {values: (str(rv.name), _array(values)) for rv, values in outcomes.items()}
    for v in ancestors(graphs):
        if v.owner is not None or v in own or v in found:
            continue
        if not (isinstance(v, Constant) or hasattr(v, "get_value")):
            continue
        array = np.asarray(_array(v))
        if array.ndim and array.shape[0] == rows:
            found[v] = (str(v.name or f"rows_{len(found)}"), array)
        elif rows in array.shape:
            raise Unsupported(
                "arrays with an entry for each row have the rows along their first axis",
                got=f"{v.name or 'a constant'} of shape {array.shape}",
                allowed=f"({rows}, ...)",
                do="transpose it",
            )
    _refuse_other_readers(model, outcomes, set(found) - set(outcomes.values()))
    return found


def _refuse_other_readers(
    model: pm.Model, outcomes: Mapping[Variable, Variable], arrays: set[Variable]
) -> None:
    """Refuse other factors that read rows."""
    others = [*model.free_RVs, *model.potentials]
    others += [rv for rv in model.observed_RVs if rv not in outcomes]
    reading = [v.name for v in others if not arrays.isdisjoint(ancestors([v]))]
    reading += [rv.name for rv in model.observed_RVs if rv not in outcomes]
    if reading:
        raise Unsupported(
            "the rows of persons are read by something else than outcomes that read their variable",
            got=", ".join(map(str, dict.fromkeys(reading))),
            allowed=", ".join(rv.name for rv in outcomes),
            do="leave it out of this model, and make another model of it",
        )


def _array(variable: Variable) -> np.ndarray:
    """The array of a data variable, a cast of one, or a constant."""
    if variable.owner is not None:
        return np.asarray(variable.eval())
    if hasattr(variable, "get_value"):
        return np.asarray(variable.get_value())
    return np.asarray(variable.data)


def _shared(name: str, array: np.ndarray) -> Variable:
    return pytensor.shared(np.asarray(array), name=name, shape=array.shape)
