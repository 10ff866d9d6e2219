"""The factors of a joint density by what they read."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from dataclasses import dataclass, field
from pytensor.graph.basic import Variable
from pymc_private.analysis import NONE, simplify
from pymc_private.analysis.rewrites.normal_cdf import one_normal_tail
from pymc_private.errors import NotCertified
from pymc_private.models.sequences.windows import Cutter, Window
from pymc_private.models.record_terms import RecordTerms

@dataclass
class FactorParts:
    """Factors by what they read: the terms of single records, windows, and the prior.

    What of a factor reads no record, though the rest does, is in `prior` and in `apart`.
    """

    record: list[Variable] = field(default_factory=list)
    prior: list[Variable] = field(default_factory=list)
    apart: list[Variable] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    factors: list[Variable] = field(default_factory=list)

    @property
    def base(self) -> Variable:
        """The log prior density, public parts of all factors with it."""
        return pt.add(*self.prior) if len(self.prior) > 1 else [*self.prior, pt.constant(0.0)][0]

    @property
    def rest(self) -> Variable | None:
        """What of the record's factors reads no record; None where there is nothing of the kind."""
        return pt.add(*self.apart) if len(self.apart) > 1 else [*self.apart, None][0]

    def is_cut(self, name: str) -> bool:
        """Whether windows were cut from a factor."""
        return any(window.name == name for window in self.windows)

    def refuse_nothing_private(self) -> None:
        """Refuse a model whose factors read no private variable."""
        if not (self.record or self.windows):
            raise NotCertified(
                "no factor of the model reads a private variable",
                cure="name the records dim (or {data variable: axis}) of the likelihood's data",
            )

    def add(
        self,
        name: str,
        out: Variable,
        before: Variable,
        label: np.ndarray,
        cutter: Cutter | RecordTerms,
        n: int,
        *,
        is_prior: bool,
    ) -> None:
        """Take one factor in, simplified and as it was before."""
        counts = isinstance(cutter, RecordTerms) and not is_prior and cutter.reads(out)
        if not counts and not np.any(label != NONE):
            self.prior.append(out.sum())
            return
        rows = _rows_of(name, out, label, n, is_prior=is_prior)
        self.names.append(name)
        if rows is not None:
            self.record.append(rows)
            self.plain.append(name)
            self.factors.append(before)
            return
        if isinstance(cutter, RecordTerms):
            self._add_terms(name, before, out, cutter)
            return
        found, public = cutter.windows(name, before)
        self._set_apart(public)
        self.factors += [window.rows for window in found]
        # A sum over all records was written out, or some factor row reads several records.
        alone = [w for w in found if w.is_row_wise(n)]
        self.record += [simplify([w.rows])[0] for w in alone]
        self.plain += [name] if alone else []
        self.windows += [window for window in found if not window.is_row_wise(n)]

    def _add_terms(self, name: str, before: Variable, out: Variable, cutter: RecordTerms) -> None:
        """Take a factor in as a sum of one term per record, whatever their number."""
        found = cutter.terms(name, before, out)
        self._set_apart(found.rest)
        self.factors += found.rows
        self.plain.append(name)
        self.record += [one_normal_tail(rows) for rows in simplify(found.rows)]

    def _set_apart(self, parts: list[Variable]) -> None:
        """Parts of a factor that read no record belong to the prior."""
        parts = simplify(parts) if parts else parts
        self.prior += parts
        self.apart += parts


def _rows_of(
    name: str, out: Variable, label: np.ndarray, n: int, is_prior: bool
) -> Variable | None:
    """The factor summed over every axis but that of the records; None if it is not row-wise."""
    if is_prior:
        raise NotCertified(
            f"the prior of '{name}' reads the private data",
            blame=(name,),
            cure="priors must be public: write its parameters as numbers fixed without the data",
        )
    # Rows of no record at all, whose axis is not known to be that of the records, are no rows.
    if not np.any(label != NONE):
        return None
    # A square factor comes of broadcasting (n, 1) with (n,): its axes cannot be told apart.
    square = label.shape.count(n) > 1
    for axis in range(label.ndim if not square else 1):
        rows = np.moveaxis(label, axis, 0).reshape(label.shape[axis], -1)
        own = np.arange(len(rows))[:, None]
        if len(rows) == n and np.all((rows == own) | (rows == NONE)):
            return out.sum(axis=tuple(a for a in range(label.ndim) if a != axis))
    return None
