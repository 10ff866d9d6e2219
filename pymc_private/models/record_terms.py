"""Factors as sums over records, for add/remove neighbors.

The number of records is protected, so nothing computed from it may end up among the constants of a
model, in its prior or in what is printed. A factor that is not row-wise as written is split into
one term per record by rules that hold for any number of records (`analysis.record_sums`), or
refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis.record_sums import NotASum, RecordSum, RecordSumSplitter, StandInsBySize
from pymc_private.analysis.traversal import EVALUATION_ERRORS
from pymc_private.errors import DomainError, NotCertified, PymcPrivateError, Unsupported
from pymc_private.models.data_variables import Source, variables_read_as_values
from pymc_private.models.sequences.windows import WindowSplitter


class RecordTerms:
    """Splits the factors of one model into one term per record.

    Parameters
    ----------
    data : dict of str to Variable
        Inputs for the private variables.
    sources : sequence of Source
    sized : callable
        Public stand-ins for every input, by number of records.
    n : int
        Number of records.
    constants : {"private", "public"}
        Whether a number that equals the number of records is refused.
    windows : WindowSplitter
        Recognizes sequences, which get an error of their own.
    """

    def __init__(
        self,
        data: Mapping[str, Variable],
        sources: Sequence[Source],
        sized: StandInsBySize,
        n: int,
        constants: str,
        windows: WindowSplitter,
    ) -> None:
        self._windows = windows
        self._sums = RecordSumSplitter({data[s.name]: s.axis for s in sources}, sized, n)
        self._n, self._trusts_numbers = n, constants == "public"

    def reads(self, variable: Variable) -> bool:
        """Whether a variable reads a record or their number."""
        return self._sums.reads(variable)

    def terms(self, name: str, before: Variable, out: Variable) -> RecordSum:
        """A factor as one term per record and a part that reads none.

        The rules see the factor as written (`before`) and, if need be, simplified (`out`). Refused
        are a factor that no rule splits, and a number that equals the number of records.
        """
        if not self._trusts_numbers:
            _refuse_record_count(name, before, self._n)
        try:
            return self._sums.split(before)
        except NotASum as error:
            try:
                return self._sums.split(out)
            except NotASum:
                raise self._refusal(name, before, error.op) from None

    def _refusal(self, name: str, before: Variable, op: str) -> PymcPrivateError:
        """The error for a factor that no rule splits."""
        try:
            windows, _ = self._windows.windows(name, before)
        except (NotCertified, *EVALUATION_ERRORS):
            return _not_a_record_sum_error(name, op)
        is_sequence = any(not window.is_row_wise(self._n) for window in windows)
        return sequence_error([name]) if is_sequence else _not_a_record_sum_error(name, op)


def _refuse_record_count(name: str, term: Variable, n: int) -> None:
    """Refuse a plain number in a factor that equals the number of records.

    It may be len(data), which would change with one record more.
    """
    every = list(ancestors([term]))
    numbers = [
        v for v in variables_read_as_values(every) if isinstance(v, Constant) or _is_shared(v)
    ]
    values = [np.asarray(v.get_value() if _is_shared(v) else v.data) for v in numbers]
    if any(x.size == 1 and x.dtype.kind in "iuf" and abs(x.item()) == n for x in values):
        raise DomainError(
            f"a number written into the factor '{name}' equals the number of records",
            got="a plain number beside sums over records, under neighbors='add_remove'",
            allowed="numbers that stay as they are when a record is added",
            do="write x.shape[0] where the number of records is meant, x being a data variable; if "
            "the number only happens to be equal, claim constants='public'",
        )


def _is_shared(variable: Variable) -> bool:
    return variable.owner is None and hasattr(variable, "get_value")


def sequence_error(factors: Collection[str]) -> Unsupported:
    """The error for records of a sequence under add/remove."""
    return Unsupported(
        "a record cannot be added to a sequence or removed from it without changing what the "
        "records around it are read with",
        got=f"neighbors='add_remove' with {', '.join(sorted(factors))}",
        allowed="add/remove where every factor row reads one record",
        do="use neighbors='substitute' (the length is public), or let a whole sequence be one "
        "record (records='person', with time on another axis)",
    )


def _not_a_record_sum_error(name: str, op: str) -> NotCertified:
    return NotCertified(
        f"the factor '{name}' is not known to be a sum of one term per record, whatever their "
        "number, so it has no bound under neighbors='add_remove'",
        blame=(name, op),
        cure="write it row by row (x * t instead of its sum), or as sums over records; "
        "x.shape[0] * f(t) counts as f(t) per record; no mean over records, no division by their "
        "number or product with it, no slices or repeats of records. Or use "
        "neighbors='substitute', where the number of records is public",
    )
