"""Records as the model expects them: parameters from the prior, covariates that are public.

Covariates come from their declared domain, or from a public reference; outcomes from the model.
Nothing here reads the private data.
"""

from __future__ import annotations

import warnings
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from typing import Any
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.domains import Categories, Domain
from pymc_private.models.prior__draws import uniform
from pymc_private.models.distributions__laws import casts_of
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import Source, root
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

MOST_ROWS = 4096
"""Records simulated at most where rows differ in what they compute, so that all are needed."""

Arrays = dict[str, np.ndarray]


class Simulator:
    """Simulates records of a model.

    Parameters
    ----------
    private : PrivateModel
    records : int or None
        How many records are simulated for each parameter point. None: as many as the model has.
    reference : mapping or table, optional
        Public values of covariates by name; see `checked_reference`.
    seed : int or None
        None takes entropy from the operating system.

    Attributes
    ----------
    rows : int
        Records at each point: the number asked for, or the model's own where rows differ in what
        they compute.
    covariates : dict of str to array
        The same at every point.

    Raises
    ------
    Unsupported
        A factor that is no distribution of data (a potential), or one without a generator.
    DomainError
        A reference that does not fit.
    """

    def __init__(
        self,
        private: PrivateModel,
        records: int | None,
        reference: Any = None,
        seed: int | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        known = checked_reference(private, reference)
        observed = _observed(private)
        self.rows, graphs = _generators(private, observed, records)
        self.covariates = _covariates(private, observed, self.rows, known, rng)
        self._names, self._outcomes = list(private.shapes), list(observed)
        self._run = _compiled(private, graphs, list(self.covariates), rng)

    def outcomes(self, point: Mapping[str, np.ndarray]) -> Arrays:
        """Outcomes of all rows at one parameter point, moved into their domain.

        Raises
        ------
        Unsupported
            The generator fails.
        """
        values = [point[name] for name in self._names]
        try:
            drawn = self._run(*values, *self.covariates.values())
        except Exception as cause:  # whatever a generator of NumPy or of a user may raise
            raise _no_generator(type(cause).__name__) from cause
        found = {}
        for source, entries in zip(self._outcomes, drawn, strict=True):
            whole = np.broadcast_to(entries, _shape(source, self.rows))
            found[source.name] = _into(source.domain, whole, source.axis).astype(source.dtype)
        return found

    def at(self, point: Mapping[str, np.ndarray]) -> Arrays:
        """All private variables at one parameter point."""
        return self.covariates | self.outcomes(point)


def _observed(private: PrivateModel) -> dict[Source, Variable]:
    """The observed variable that each outcome is of."""
    variables = {source.variable: source for source in private.sources}
    found: dict[Source, Variable] = {}
    for rv in private.base.observed_RVs:
        source = variables.get(root(private.base.rvs_to_values[rv]))
        if source is None:
            continue
        if casts_of(private.base.rvs_to_values[rv], source.variable) is None:
            raise _no_generator(f"'{rv.name}' is observed through a function of the data")
        if source in found:
            raise _no_generator(f"'{source.name}' is observed twice")
        found[source] = rv
    names = {rv.name for rv in found.values()}
    others = [name for name in private.graph.factors if name not in names]
    if others:
        raise _no_generator(f"{', '.join(others)}: no distribution of private data")
    return found


def _no_generator(why: str) -> Unsupported:
    return Unsupported(
        "no records can be simulated from this model",
        got=why,
        allowed="likelihoods that are distributions of data, with a generator",
        do="pm.CustomDist(..., random=...) in the place of pm.Potential or a bare logp",
    )


def _shape(source: Source, rows: int) -> tuple[int, ...]:
    return (*source.shape[: source.axis], rows, *source.shape[source.axis + 1 :])


def _generators(
    private: PrivateModel, observed: Mapping[Source, Variable], records: int | None
) -> tuple[int, list[Variable]]:
    """How many records are simulated, and graphs of their outcomes.

    Graphs of so many rows as are asked for; of the model's own number where rows differ.
    """
    swaps = {s.variable: private.graph.data[s.name] for s in private.sources if s not in observed}
    swaps |= {rv: private.graph.parameters[rv.name] for rv in private.base.free_RVs}
    if not private.graph.pinned and records is not None:
        try:
            return records, _resized(observed, swaps, records)
        except UNCOMPUTABLE:
            pass  # a distribution that holds on to its size
    if private.neighbors == ADD_REMOVE:
        raise _no_generator("all records would be needed, and how many there are is protected")
    if private.n > MOST_ROWS:
        raise _no_generator(f"rows differ, and there are more than {MOST_ROWS}")
    return private.n, rebuild(list(observed.values()), swaps)


def _resized(
    observed: Mapping[Source, Variable], swaps: Mapping[Variable, Variable], rows: int
) -> list[Variable]:
    """The observed variables with another number of records."""
    shapes = {rv: _shape(source, rows) for source, rv in observed.items()}

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, SpecifyShape):
            return inputs[0]
        rv = next((out for out in node.outputs if out in shapes), None)
        if rv is None:
            return None
        made = node.op.make_node(*inputs).outputs[node.outputs.index(rv)]
        size = shapes[rv][: len(shapes[rv]) - node.op.ndim_supp]
        if isinstance(node.op, RandomVariable):
            parts = node.op.dist_params(made.owner)
            return node.op.make_node(inputs[0], pt.constant(size, dtype="int64"), *parts).outputs[1]
        return change_dist_size(made, size)

    return rebuild(list(observed.values()), swaps, rule)


def _compiled(
    private: PrivateModel,
    graphs: Sequence[Variable],
    covariates: Sequence[str],
    rng: np.random.Generator,
) -> Any:
    """A function of parameters and covariates."""
    inputs = [private.graph.parameters[name] for name in private.shapes]
    inputs += [private.graph.data[name] for name in covariates]
    data = {s.variable for s in private.sources}
    if data & {v for v in ancestors(list(graphs)) if v.owner is None}:
        raise _no_generator("an outcome is computed from the data of another")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.pytensorf.compile(
            inputs,
            list(graphs),
            random_seed=int(rng.integers(2**32)),
            mode="FAST_COMPILE",
            on_unused_input="ignore",
        )


def _covariates(
    private: PrivateModel,
    observed: Mapping[Source, Variable],
    rows: int,
    known: Mapping[Source, np.ndarray],
    rng: np.random.Generator,
) -> Arrays:
    """Public covariates: rows of the reference, taken together, or uniform on their domains."""
    length = {len(np.moveaxis(v, s.axis, 0)) for s, v in known.items()}
    picked = rng.integers(max(length, default=1), size=rows)
    found = {}
    for source in private.sources:
        if source in observed:
            continue
        if source in known:
            entries = np.take(np.asarray(known[source], float), picked, axis=source.axis)
        else:
            drawn = uniform(source.domain, source.row_shape, rows, source.is_whole, rng)
            entries = np.moveaxis(drawn, 0, source.axis)
        found[source.name] = _into(source.domain, entries, source.axis).astype(source.dtype)
    return found


def checked_reference(private: PrivateModel, reference: Any) -> dict[Source, np.ndarray]:
    """Public values of covariates, by private variable.

    Parameters
    ----------
    private : PrivateModel
    reference : mapping of str to array, pandas.DataFrame, or None
        One entry or column for each covariate (those left out are drawn from their domains), the
        records along the same axis as in the model. Outcomes are not used.

    Raises
    ------
    DomainError
        A name that is no private variable, shapes that do not fit, NaN, or different lengths.
    """
    if reference is None:
        return {}
    names = {name: s for s in private.sources for name in (s.name, *s.aliases)}
    entries = {str(name): np.asarray(reference[name]) for name in reference}
    unknown = [name for name in entries if name not in names]
    if unknown:
        raise DomainError(
            "reference= holds what is no private variable of the model",
            got=", ".join(unknown),
            allowed=", ".join(names),
            do="leave it out: reference[[...]]" if hasattr(reference, "columns") else "",
        )
    found = {names[name]: values for name, values in entries.items()}
    for source, values in found.items():
        row = values.shape[: source.axis] + values.shape[source.axis + 1 :]
        if values.ndim != len(source.shape) or row != source.row_shape or not values.size:
            raise DomainError(
                f"the reference of '{source.name}' does not fit the variable",
                got=f"shape {values.shape}",
                allowed=f"records along axis {source.axis}, {source.row_shape} each",
            )
        if values.dtype.kind not in "iufb" or not np.isfinite(values).all():
            raise DomainError(
                f"the reference of '{source.name}' holds what is no finite number",
                allowed="finite numbers",
            )
    if len({values.shape[source.axis] for source, values in found.items()}) > 1:
        raise DomainError("the arrays of a reference differ in length", allowed="one length")
    return found


def _into(domain: Domain, values: np.ndarray, axis: int) -> np.ndarray:
    """The nearest values of the domain: as `privatize` clips, categories too."""
    if isinstance(domain, Categories):
        allowed = np.asarray(domain.values)
        middles = (allowed[1:] + allowed[:-1]) / 2.0
        return allowed[np.searchsorted(middles, values)]
    return domain.clip(np.asarray(values), axis)
