"""A ledger as a table of doubles and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING
from pymc_private.ledger.entry import Entry
from pymc_private.ledger.sqlite import State
from pymc_private.privacy.rounding import float_up

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("number", "day", "label", "name", "pure", "rho", "epsilon_i", "delta_i"),
    *("completed", "released"),
)


def frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """List charges as a table of doubles, rounded up; NaN where a charge has no such bound."""
    import pandas as pd

    def rounded(value: Fraction | None) -> float:
        return float("nan") if value is None else float_up(value)

    rows = []
    for entry in entries:
        epsilon, delta = entry.cost.approximate or (None, None)
        costs = (entry.cost.pure, entry.cost.zcdp, epsilon, delta)
        own = (entry.number, entry.day, entry.label, entry.name)
        rows.append((*own, *map(rounded, costs), entry.completed, entry.released))
    return pd.DataFrame(rows, columns=list(COLUMNS)).set_index("number")


def to_json(state: State) -> str:
    """Write header and charges as JSON, numbers as exact rationals "p/q".

    Each line stands as the text that was hashed, beside its parts, so anyone can check the chain:
    the hash of a charge is the SHA-256 of the hash before it, a line feed and the line; before the
    header's line stands a line feed alone.
    """
    charges = [
        json.loads(entry.line)
        | {
            "released": entry.released,
            "kept": entry.completed,
            "line": entry.line,
            "hash": entry.head,
        }
        for entry in state.entries
    ]
    told = {
        "ledger": json.loads(state.text),
        "line": state.text,
        "hash": state.heads[0],
        "charges": charges,
        "head": state.heads[-1],
    }
    return json.dumps(told, indent=1, allow_nan=False)
