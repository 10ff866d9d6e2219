"""Laws of several families as those of one: a search then takes as many passes as its slowest row.

Families are small, and most of what a pass over one of them costs does not depend on its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.mechanisms.tables.cells import Cells

ROOM = 3
"""Most numbers a row has in a stack, for each that a row of its smallest family has."""
LARGEST = 2**18
"""Most numbers in a stack of several: beyond, a pass costs what its numbers do."""


@dataclass(frozen=True)
class Stack:
    """Rows of several families, filled up to one shape.

    Attributes
    ----------
    members : tuple of int
        Which of the families these are.
    laws : Cells
        What a row was filled up with is there 0 times.
    starts : array of int, shape (members,)
        First row of each.
    """

    members: tuple[int, ...]
    laws: Cells
    starts: np.ndarray

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each family."""
        return np.diff(np.append(self.starts, len(self.laws.low)))

    def of(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Put together what is known of the rows of every family."""
        return np.concatenate([values[i] for i in self.members])

    def apart(self, found: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Give each family what was found of its rows."""
        return zip(self.members, np.split(found, self.starts[1:]), strict=True)


def stacks(laws: Sequence[Cells], priors: Sequence[float] = ()) -> Iterator[Stack]:
    """Stack families of like shape, one stack at a time.

    Parameters
    ----------
    laws : sequence of Cells
    priors : sequence of float, optional
        Multiply each family, of one row, by each: a row for each (`Cells.with_each`).
    """
    for group in _groups(laws, max(len(priors), 1)):
        yield _stack(group, [laws[i].with_each(priors) if priors else laws[i] for i in group])


def _groups(laws: Sequence[Cells], times: int) -> list[list[int]]:
    """Which families go together, each row of them taken several times."""
    groups: list[list[int]] = []
    least, shape = 0, (0, 0, 0)
    for i in sorted(range(len(laws)), key=lambda i: laws[i].logs[0].size):
        rows, d, width = laws[i].logs.shape
        filled = shape[0] + times * rows, max(shape[1], d), max(shape[2], width)
        if filled[1] * filled[2] <= ROOM * least and np.prod(filled) <= LARGEST:
            groups[-1].append(i)
            shape = filled
        else:
            groups.append([i])
            least, shape = d * width, (times * rows, d, width)
    return groups


def _stack(members: Sequence[int], laws: Sequence[Cells]) -> Stack:
    starts = np.cumsum([0, *(len(each.low) for each in laws[:-1])])
    if len(laws) == 1:
        return Stack(tuple(members), laws[0], starts)
    d, width = (max(each.logs.shape[axis] for each in laws) for axis in (1, 2))
    rows = sum(len(each.low) for each in laws)
    low, times = np.zeros((rows, d), np.int64), np.zeros((rows, d), np.int64)
    logs, prior = np.full((rows, d, width), -np.inf), np.ones((rows, d))
    logs[:, :, 0] = 0.0
    most, least = np.empty(rows), np.empty(rows)
    for first, each in zip(starts, laws, strict=True):
        at = slice(first, first + len(each.low))
        own = slice(each.low.shape[1])
        low[at, own], times[at, own], prior[at, own] = each.low, each.times, each.prior
        logs[at, own, : each.width] = each.logs
        most[at], least[at] = each.most_tilt, each.least_tilt
    step = np.concatenate([each.step for each in laws])
    return Stack(tuple(members), Cells(low, step, logs, most, least, times, prior), starts)
