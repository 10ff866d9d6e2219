"""Charges whose units own different numbers of records: what the sums of a ledger hold for.

A release with ``records_per_unit=3`` protects a person with three records, one without protects a
single record. Their sum is a bound for a single record, and none for a person: each charge bounds
what changes with the records that it protects together, and no more of them (T24).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Sequence

from pymc_private.errors import PrivacyWarning
from pymc_private.ledger.entry import Entry
from pymc_private.privacy.guarantee import Guarantee

OWNED = re.compile(r"\bunit owns at most (\d+) records")
"""How guarantees state it, the first words of an assumption."""


def records_of_unit(assumptions: Iterable[str]) -> int:
    """Records that the unit of a guarantee may own, as its assumptions state them; 1 otherwise."""
    found = (OWNED.search(text) for text in assumptions)
    return max((int(one.group(1)) for one in found if one), default=1)


def _records_of_charge(entry: Entry) -> int:
    return records_of_unit(json.loads(entry.line)["guarantee"]["assumptions"])


def warn_of_other_units(entries: Sequence[Entry], guarantee: Guarantee) -> None:
    """Warn if a charge protects other units than the charge before it; called before it is made.

    Warns
    -----
    PrivacyWarning
        The units, and what the sums hold for. Where warnings are errors nothing is charged.
    """
    if not entries:
        return
    before = _records_of_charge(entries[-1])
    now = records_of_unit(guarantee.assumptions)
    if now != before:
        warnings.warn(
            f"this charge protects units of {now} and the one before it units of {before} records: "
            f"what the ledger adds up holds for {_units(min(now, before))}, not for larger ones. "
            "Declare records_per_unit in every model of these data, or keep ledgers apart",
            PrivacyWarning,
            stacklevel=3,
        )


def units_text(entries: Sequence[Entry]) -> str:
    """What the sums hold for, in words; none where all charges protect single records."""
    found = {_records_of_charge(entry) for entry in entries}
    if found <= {1}:
        return ""
    several = " (charges protect units of different size)" if len(found) > 1 else ""
    return f"sums hold for {_units(min(found))}{several}"


def _units(records: int) -> str:
    return "a single record" if records == 1 else f"a unit of at most {records} records"
