"""A public reference of private covariates: what it has to be, and that it is not the data.

A reference steers a plan, which no noise protects, so that its values must be public. That they are
is a claim, but a mistake is common: the very arrays of the model are given. `privatize`, which may
read the data, keeps keyed hashes of the rows of covariates; a reference most of whose rows are
among them is refused. That catches plain mistakes: rows that were rounded, scaled or mixed with
many others pass. Hashes and key hold the data as much as the data do, beside which they stay in
memory alone: neither is saved, copied or pickled.

The refusal is the one answer about the data that planning gives, and it is for the curator: who may
send a reference and see whether it is refused can ask whether records are in the data. A program
must not catch it and plan otherwise, nor take references from those the data are protected from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_private.errors import DomainError
from pymc_private.models.bambi import formula_name
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.domains import Categories

FEWEST_DISTINCT = 20
"""Fewest distinct rows of a reference that are compared: fewer may agree by chance."""
MOSTLY_DISTINCT = 0.9
"""Share of distinct rows of the data from which on another table has few of them by chance: where
two of n rows are equal with a probability of at most .2 / n, some fifth of its rows."""
MOST_KNOWN = 0.5
"""Share of distinct rows of a reference that may be rows of the data."""
CHUNK = 16_384
"""Rows that are hashed at a time."""
_KNOWN: WeakKeyDictionary[pm.Model, dict[Variable, RowHashes]] = WeakKeyDictionary()


class DeclaredData(Protocol):
    """The part of a `PrivateModel` that a reference is compared with."""

    @property
    def base(self) -> pm.Model:
        """The model with its data."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The private variables."""


# ---- what a reference is -------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class KnownCovariates:
    """A public sample of the very distribution that the covariates of the records have.

    Given as ``reference=`` where that distribution is known without the records: treatments that
    were assigned by lot, a designed experiment, a published census of the sampled population. A
    summary by scores then spends nothing on the covariates (neither their moments nor the curvature
    are released), which pays where the budget is small. A plain reference is only where a
    summary starts from: noisy moments correct it. Draws, cells, sums and whole records take it for
    a plain one.

    The guarantee does not rest on it. The posterior does: it is not checked, and where records are
    distributed otherwise, posteriors are off, and their intervals too narrow, without a warning.
    `SummaryPlan.coverage` simulates records of this sample unless it is given another one.

    Parameters
    ----------
    rows : mapping of str to array, or data frame
        Values of *all* private covariates, whole records in the units of the model. Thousands of
        rows, since the sample is taken for the distribution itself: 200 at least, 10 of every
        category. A stored summary holds them (16,384, evenly spread, of more).

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_private as pmp
    >>> lots = np.random.default_rng(1).choice([0.0, 1.0], size=(2000, 1))
    >>> reference = pmp.summaries.KnownCovariates({"treated": lots})
    """

    rows: Any


def _rows_of(reference: Any) -> Any:
    """The table of a reference, known or not."""
    return reference.rows if isinstance(reference, KnownCovariates) else reference


def _reference_entries(reference: Any) -> dict[str, np.ndarray]:
    """The columns of a reference, by name."""
    reference = _rows_of(reference)
    problem = "a reference is a table of public covariates"
    allowed = "a mapping of names to arrays, or a data frame"
    if not (isinstance(reference, Mapping) or hasattr(reference, "columns")):
        raise DomainError(problem, got=type(reference).__name__, allowed=allowed)
    listed = reference if isinstance(reference, Mapping) else reference.columns
    try:
        columns = {str(name): reference[name] for name in listed}
        arrays = {n: np.asarray(v) for n, v in columns.items() if not isinstance(v, Variable)}
    except (TypeError, ValueError, LookupError):  # frames that hold no data yet, ragged lists
        raise DomainError(
            problem,
            got=f"{type(reference).__name__} whose columns are no arrays",
            allowed=allowed,
            do="collect it first, if it is lazy",
        ) from None
    if symbolic := [name for name in columns if name not in arrays]:
        raise DomainError(
            "a reference holds public values, not variables of the model, which hold private ones",
            got=", ".join(symbolic),
            allowed=allowed,
            do="take public records; or leave it out: covariates are then drawn from their domain",
        )
    return arrays


class PublishedRows(dict[str, np.ndarray]):
    """Rows of a stored summary: published, they are not compared with the data that read it."""


def checked_reference(private: DeclaredData, reference: Any) -> dict[Source, np.ndarray]:
    """Public values of covariates, by private variable.

    The reference is a mapping of arrays or a data frame, with the records along the same axis as in
    the model. Covariates that it leaves out are drawn from their domains; outcomes are not used.

    Raises
    ------
    DomainError
        It is no table of finite numbers in the shape of the variables, or most of its rows are rows
        of the data: for the curator alone, see above.
    """
    if reference is None:
        return {}
    names = {
        name: source
        for source in private.sources
        for name in (formula_name(source.name), *source.aliases, source.name)
        if name
    }
    entries = _reference_entries(reference)
    unknown = [name for name in entries if name not in names]
    if unknown:
        raise DomainError(
            "reference= holds what is no private variable of the model",
            got=", ".join(unknown),
            allowed=", ".join(formula_name(s.name) or s.name for s in private.sources),
            do="leave it out: reference[[...]]" if hasattr(reference, "columns") else None,
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
                got="NaN or infinity" if values.dtype.kind in "iufb" else str(values.dtype),
                allowed="finite numbers",
                do="leave out incomplete rows; for categories, give their codes",
            )
        if not isinstance(_rows_of(reference), PublishedRows):
            _refuse_private_rows(private, source, values)
    if len({values.shape[source.axis] for source, values in found.items()}) > 1:
        raise DomainError("the arrays of a reference differ in length", allowed="one length")
    return found


def entries_outside(source: Source, values: np.ndarray) -> int:
    """How many entries lie beyond the interval of a source."""
    bounds = source.domain.bounds(source.row_shape)
    rows = np.moveaxis(np.asarray(values, float), source.axis, 0)
    return int(((rows < bounds.lower) | (rows > bounds.upper)).sum())


def nearest_entries(source: Source, values: np.ndarray) -> np.ndarray:
    """The nearest values in the domain of a source, as `privatize` clips numbers to it."""
    if isinstance(source.domain, Categories):
        categories = np.asarray(source.domain.values)
        middles = (categories[1:] + categories[:-1]) / 2.0
        nearest = categories[np.searchsorted(middles, values)]
    else:
        nearest = source.domain.clip(np.asarray(values), source.axis)
    return nearest.astype(source.dtype)


# ---- rows of the data ----------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class RowHashes:
    """Keyed hashes of the rows of a private variable: as private as the rows.

    Attributes
    ----------
    key : ndarray, (k,), uint64
        Odd random multipliers, one for each number of a row.
    hashes : ndarray, (n,), uint64
    """

    key: np.ndarray
    hashes: np.ndarray

    @classmethod
    def of(cls, source: Source, values: np.ndarray) -> RowHashes:
        """Of an array, with a fresh key."""
        rng = np.random.default_rng()
        size = int(np.prod(source.row_shape))
        key = rng.integers(0, 2**63, size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        return cls(key, cls.hashed(source, values, key))

    @staticmethod
    def hashed(source: Source, values: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Hashes of the rows of an array: sums of their bits times the key, modulo 2^64."""
        rows = np.moveaxis(values, source.axis, 0).reshape(values.shape[source.axis], len(key))
        found = np.empty(len(rows), dtype=np.uint64)
        for start in range(0, len(rows), CHUNK):  # four copies of all rows would be many
            part = rows[start : start + CHUNK].astype(float)
            bits = (part + 0.0).view(np.uint64)  # -0.0 is 0.0
            mixed = bits ^ (bits >> np.uint64(29))  # the low bits of short decimals are zeros
            found[start : start + CHUNK] = (mixed * key).sum(axis=1, dtype=np.uint64)
        return found

    def holds(self, source: Source, values: np.ndarray) -> bool:
        """Whether an array is of these rows: all of them in any order, or most where they differ.

        A table of other records may have the same rows by chance where there are few values; it
        does not have all of them as often, nor many where nearly all rows differ.
        """
        given = self.hashed(source, values, self.key)
        distinct = np.unique(given)
        if len(distinct) < FEWEST_DISTINCT:
            return False
        known = np.unique(self.hashes)
        if len(given) == len(self.hashes) and np.array_equal(np.sort(given), np.sort(self.hashes)):
            return True
        is_distinct = len(known) >= MOSTLY_DISTINCT * len(self.hashes)
        return bool(is_distinct and np.isin(distinct, known).mean() > MOST_KNOWN)


def remember_rows(model: pm.Model, sources: Sequence[Source]) -> None:
    """Keep hashes of the rows of covariates: called by `privatize`, which reads and clips them.

    Outcomes of a reference are not used, and so are not compared.
    """
    outcomes = {underlying_array(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    covariates = [s for s in sources if s.variable not in outcomes]
    _KNOWN[model] = {s.variable: RowHashes.of(s, s.values()) for s in covariates}


def _refuse_private_rows(private: DeclaredData, source: Source, values: np.ndarray) -> None:
    """Refuse a reference most of whose rows are those of the data."""
    known = _KNOWN.get(private.base, {}).get(source.variable)
    if known is None or not known.holds(source, nearest_entries(source, values)):
        return
    raise DomainError(
        f"the reference of '{source.name}' holds rows of the private data; nothing was charged",
        got="private records",
        allowed="public values: a reference steers the plan, which no noise protects",
        do="take other records, such as a public survey; or leave it out: covariates are then "
        "drawn from their domain; values that all know are declared public= in privatize",
    )
