"""The neighbors that a mechanism tells apart best, found by the certificate's own worst case."""

from __future__ import annotations

import re
import numpy as np
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any
from pymc_private.audit.statistical_tests__allowance import Allowance
from pymc_private.audit.epsilon__claims import check_delta
from pymc_private.audit.epsilon import epsilon_lower_bound
from pymc_private.audit.events__trials import Mechanism, outputs
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import whole

Record = dict[str, np.ndarray]
PILOT_ALARM = 0.05
"""Of a pilot, whose only use is to compare neighbors; it proves nothing and pays nothing."""
_ENTRY = re.compile(r"(?P<name>.+?)(\[(?P<index>[\d, ]+)\])?")


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Two data sets that differ in the first record.

    Parameters
    ----------
    x, y : dict of str to array, shape (n, ...)
    pattern : str
        What the other records are.
    pilots : tuple of (str, float)
        Lower bound of epsilon, at 95%, of each pattern tried.
    """

    x: Record
    y: Record
    pattern: str
    pilots: tuple[tuple[str, float], ...]

    def __repr__(self) -> str:
        tried = ", ".join(f"{name}: {found:.3g}" for name, found in self.pilots)
        return f"Neighbors(the others are {self.pattern}; pilots: {tried or 'none'})"


def attaining_records(certificate: Any) -> tuple[Record, Record]:
    """Read the two records at which a certificate's range is attained.

    Parameters
    ----------
    certificate : Certificate
        Its `where` names them.

    Returns
    -------
    tuple of dict of str to array
        Entries of the private variables, by name.

    Raises
    ------
    DomainError
        The range is attained at combinations (a linear predictor), or nowhere in particular.
    """
    mine = [place for place in certificate.where if place.role == "record"]
    if certificate.is_relaxed or not mine:
        raise DomainError(
            "this certificate names no two records at which its range is attained",
            got="a bound over combinations of entries" if certificate.where else "no place",
            do="pass two records of your own: dicts of arrays by variable",
        )
    found: tuple[Record, Record] = {}, {}
    for side, record in enumerate(found):
        entries: dict[str, dict[tuple[int, ...], float]] = {}
        for place in mine:
            match = _ENTRY.fullmatch(place.name)
            name, index = (match["name"], match["index"]) if match else (place.name, None)
            at = tuple(int(part) for part in index.split(",")) if index else ()
            entries.setdefault(name, {})[at] = place.values[min(side, len(place.values) - 1)]
        for name, cells in entries.items():
            shape = tuple(np.max(list(cells), axis=0).astype(int) + 1) if () not in cells else ()
            array = np.zeros(shape)
            for at, value in cells.items():
                array[at] = value
            record[name] = array
    return found


def worst_neighbors(
    mechanism: Mechanism,
    records: Any,
    n: int,
    *,
    delta: float = 0.0,
    draws: int = 2000,
    executor: Executor | None = None,
    random_seed: int = 0,
) -> Neighbors:
    """Search two data sets of n records that a mechanism tells apart best.

    They differ in one record, which is one or the other of the certificate's worst pair. What the
    other records are decides how much that shows: all like the one, all like the other, and half
    of each are tried, and a small run of the mechanism on each picks the best. The search proves
    nothing; run `epsilon_lower_bound` on fresh outputs of what it found.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, draws, seed)``; data is a dict of arrays, shape (n, ...).
    records : Certificate, or two dicts
        Where to find the worst pair, or the pair.
    n : int
        Number of records, 2 or more.
    delta : float
        At which epsilon is judged.
    draws : int
        Outputs on each data set of a pilot.
    executor : concurrent.futures.Executor, optional
    random_seed : int

    Returns
    -------
    Neighbors

    Raises
    ------
    DomainError
        As `attaining_records`; records with different variables; fewer than two of them.
    """
    check_delta(delta, "delta")
    one, other = records if isinstance(records, tuple) else attaining_records(records)
    if set(one) != set(other):
        raise DomainError(
            "two records have the same variables", got=f"{sorted(one)} and {sorted(other)}"
        )
    if whole(n, "the number of records") < 2:
        raise DomainError("a search needs another record beside the one in doubt", got=n)
    pilots, best = [], None
    for pattern, rest in _patterns(one, other, n).items():
        x, y = (_stacked([first, *rest]) for first in (one, other))
        samples = [
            outputs(mechanism, data, draws, executor=executor, random_seed=random_seed + side)
            for side, data in enumerate((x, y))
        ]
        with Allowance(1.0):
            found = epsilon_lower_bound(*samples, delta=delta, false_alarm=PILOT_ALARM).epsilon
        pilots.append((pattern, found))
        if best is None or found > best[0]:
            best = found, x, y, pattern
    if best is None:
        raise DomainError("there are no neighbors to try")
    return Neighbors(best[1], best[2], best[3], tuple(pilots))


def _patterns(one: Record, other: Record, n: int) -> Mapping[str, list[Record]]:
    half = (n - 1) // 2
    patterns = {
        "like the first": [one] * (n - 1),
        "like the second": [other] * (n - 1),
        "half and half": [one] * half + [other] * (n - 1 - half),
    }
    return patterns if n > 2 else dict(list(patterns.items())[:2])


def _stacked(rows: list[Record]) -> Record:
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
