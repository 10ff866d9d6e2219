"""Whether the rows of a window are all computed alike, or told apart by declared data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pymc_private.errors import DomainError
from pymc_private.models.sequences.row_identity import is_pinned, is_told
from pymc_private.models.sequences.windows import Window
from pymc_private.models.data_variables import Source

SHORT = 2
"""Records that a sequence reads back; where they are more, it is no sequence as a rule."""


def proved_alike(window: Window, sources: Sequence[Source], constants: str) -> Window:
    """The window, marked as pinned unless all of its rows carry one expression.

    Raises
    ------
    DomainError
        Rows differ by how the model was written, and constants are private.
    """
    if window.count == 1:
        return window
    inputs = window.sources(sources)
    pinned = is_pinned(window.shifted, inputs, window.values, window.count)
    told = not pinned or is_told(window.shifted, inputs, window.values, window.count)
    if constants == "private" and not told:
        raise untold_rows([window.name])
    return replace(window, pinned=pinned)


def refuse_many_ends(windows: Sequence[Window], n: int) -> None:
    """Refuse more records with factor rows of their own than the two ends of a sequence have.

    A sequence needs a start; a list of terms, one for each record, may say which record is which.
    """
    reach = max(max(window.offsets) - min(window.offsets) for window in windows)
    if max(window.count for window in windows) <= reach:
        names = sorted({window.name for window in windows})
        raise _too_short(names, n, reach) if reach <= SHORT else untold_rows(names)
    for name in sorted({window.name for window in windows}):
        short = sum(w.count for w in windows if w.name == name and w.count < n - reach)
        if short > max(reach, 1):
            raise untold_rows([name])


def _too_short(factors: Sequence[str], n: int, reach: int) -> DomainError:
    """The refusal of a sequence that is all ends."""
    return DomainError(
        "the sequence is too short to tell what its rows have in common from what its ends have",
        got=f"{n} records, of which {', '.join(factors)} reads {reach + 1} at a time",
        allowed=f"at least {2 * reach + 1} records",
        do="use a longer sequence, or claim constants='public' if it is no secret how each record "
        "is read",
    )


def untold_rows(factors: Sequence[str]) -> DomainError:
    """The refusal of rows that differ by how the model was written."""
    return DomainError(
        "different records are computed differently, by structure written into the model",
        got=f"blocks, subsets, repeats, lists of terms or positions in {', '.join(factors)}",
        allowed="rows that differ by data variables only",
        do="hold what tells the records apart (a group, a time) in pm.Data and declare its domain "
        "or name it in public=, or claim constants='public' if it is no secret",
    )
