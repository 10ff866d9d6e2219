"""Models whose records fall into cells: what is checked before any cell is made (T33)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.bambi import formula_name
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.domains import Categories
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.summaries.cells.cell_partition import CellSupport
from pymc_private.summaries.density.outcome_support import outcome_support
from pymc_private.summaries.parameters import refuse_tempered

MOST_DIMENSIONS = 4
"""Most numbers of one record that are cut into cells."""
FEWEST_RECORDS = 30
"""Fewest records for which normal counts are taken."""
OTHER_METHOD = 'method="scores"'
SEVERAL_ANSWERS = (
    'method="records", if there are no private covariates; one model for each outcome; or draws: '
    "calibrate(..., release='draws')"
)


@dataclass(frozen=True, eq=False)
class CellRecord:
    """One record of a model whose records can be cut into cells.

    Attributes
    ----------
    single : SingleRecord
    outcome : Source
    covariates : tuple of Source
    support : CellSupport
        Where the outcome lies.
    """

    single: SingleRecord
    outcome: Source
    covariates: tuple[Source, ...]
    support: CellSupport


def cell_record(private: PrivateModel) -> CellRecord:
    """The record of a model, or an error that names what stands in the way and its cure."""
    _check_model(private)
    outcome = private_outcome(private)
    covariates = tuple(s for s in private.sources if s is not outcome)
    count = sum(int(np.prod(s.row_shape)) for s in private.sources)
    if count > MOST_DIMENSIONS:
        raise Unsupported(
            "records of so many dimensions fall into too many cells",
            got=f"{count} numbers in each record",
            allowed=f"{MOST_DIMENSIONS} at most",
            do=OTHER_METHOD,
        )
    single = single_record(private.graph, private.sources, private.n, private.shapes)
    if single is None:
        raise Unsupported(
            "cells need one density for all records, and rows are not proved to be one function",
            allowed="models whose rows differ by their data alone",
            do=f"{OTHER_METHOD}, or write the likelihood with one entry for each record",
        )
    _refuse_public_rows(private, single)
    return CellRecord(single, outcome, covariates, _cell_support(private, outcome))


def _check_model(private: PrivateModel) -> None:
    if private.metric is not None:
        raise Unsupported(
            "a cell changes by one however near two records are",
            got=str(private.metric),
            allowed='neighbors="substitute" or "add_remove"',
            do="declare the model without Metric: its guarantee covers every distance",
        )
    refuse_tempered(private)
    if private.graph.windows:
        raise Unsupported(
            "some factors read several records, so that a cell has no probability of its own",
            allowed="row-wise likelihoods",
            do="private = pmp.privatize(...) with whole sequences as records",
        )
    if private.neighbors == SUBSTITUTE and private.record_count < FEWEST_RECORDS:
        raise DomainError(
            "too few records: noisy counts are modeled as normal",
            got=f"n={private.record_count}",
            allowed=f"n >= {FEWEST_RECORDS}",
            do="calibrate a plan for draws; if these rows stand for those of a table, "
            "privatize(..., n=rows of the table)",
        )


def private_outcome(private: PrivateModel) -> Source:
    """The one private variable that a likelihood observes, a single number for each record."""
    base = private.base
    observed = {underlying_array(base.rvs_to_values[rv]) for rv in base.observed_RVs}
    outcomes = [s for s in private.sources if s.variable in observed]
    if not outcomes:
        raise Unsupported(
            "cells count values of an observed variable, and private data enter this likelihood "
            "only by covariates, a potential or a density with variables summed out",
            got=f"private: {', '.join(formula_name(s.name) or s.name for s in private.sources)}",
            allowed="a model with an observed private variable",
            do="calibrate a plan for draws",
        )
    if len(outcomes) > 1 or int(np.prod(outcomes[0].row_shape)) != 1:
        raise Unsupported(
            "cells are cut for one number as the outcome of a record",
            got=", ".join(f"{s.name} of shape {s.row_shape}" for s in outcomes),
            allowed="one observed number for each record",
            do=SEVERAL_ANSWERS,
        )
    return outcomes[0]


def _cell_support(private: PrivateModel, outcome: Source) -> CellSupport:
    """The support of the outcome; declared categories are all the values that there are."""
    if isinstance(outcome.domain, Categories):
        values = outcome.domain.values
        return CellSupport("finite", values[0], values[-1], levels=values)
    found = outcome_support(private, outcome)
    if found.differs_by_row:
        raise Unsupported(
            f"the bounds of '{outcome.name}' differ from record to record",
            allowed="censoring and truncation at public numbers",
            do=OTHER_METHOD,
        )
    atoms = found.atoms if found.kind == "continuous" else ()
    return CellSupport(found.kind, found.lower, found.upper, atoms, found.levels)


def _refuse_public_rows(private: PrivateModel, single: SingleRecord) -> None:
    """Refuse public arrays that differ by row: each record would have its own probabilities."""
    if not single.public:
        return
    names = _public_names(private, list(single.public.values()))
    raise Unsupported(
        "public covariates give each record its own probabilities of cells, so that counts of "
        "cells do not tell the parameters",
        got=", ".join(names),
        allowed="private covariates, or none",
        do=OTHER_METHOD,
    )


def _public_names(private: PrivateModel, rows: Sequence[np.ndarray]) -> list[str]:
    """Names of public data that differ by row, as the model has them."""
    private_ones = {s.variable for s in private.sources}
    found = []
    for variable in private.base.data_vars:
        values: Any = variable.get_value(borrow=True)
        if variable not in private_ones and private.n in np.shape(values):
            found.append(str(variable.name))
    return found or [f"an array of shape {r.shape} in the graph" for r in rows]


def checked_edges(edges: Any, private: PrivateModel, outcome: Source) -> np.ndarray:
    """Inner edges of the outcome's cells that a user gives; they are public numbers."""
    is_private = isinstance(edges, Variable)
    try:
        found = np.asarray(edges, dtype=float)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if is_private or (private.neighbors == SUBSTITUTE and found.size >= private.record_count):
        raise DomainError(
            "edges of cells are public, and these are as many as the records or a part of them",
            got="an array of the private data",
            allowed="a few numbers chosen without the data",
            do="edges=[...] from the questionnaire or the instrument, or leave edges= out",
        )
    bounds = outcome.domain.bounds(())
    low, high = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    inside = bool(found.ndim == 1 and np.isfinite(found).all())
    inside = inside and bool(((found > low) & (found < high)).all() and (np.diff(found) > 0).all())
    if not inside or not found.size:
        raise DomainError(
            f"edges cut the domain of '{outcome.name}' into cells",
            got=repr(edges)[:60],
            allowed=f"increasing numbers between {low:g} and {high:g}",
        )
    return found
