"""Laws of several families as those of one: a search then takes as many passes as its slowest row.

Families are small, and most of what a pass over one of them costs does not depend on its size.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from pymc_private.counts.denoise.cell_distributions import Cells
from pymc_private.counts.denoise.cell_grid__grids import Grid, better_grid, steep
from pymc_private.counts.denoise.cell_grid import Layout, Observed, pressed

Found = TypeVar("Found")

ROUNDS = 2
"""Most times that bins are made finer."""

ROOM = 6
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
    starts : array of int, shape (members + 1,)
        First row of each, and the number of rows.
    shapes : sequence of tuple of int
        Columns and bins of each.
    grids : sequence of Grid or None
        What was asked of each.
    """

    members: tuple[int, ...]
    laws: Cells
    starts: np.ndarray
    shapes: Sequence[tuple[int, int]]
    grids: Sequence[Grid | None] = (None,)

    @classmethod
    def alone(cls, laws: Cells) -> Stack:
        """One family."""
        rows, d, width = laws.logs.shape
        return cls((0,), laws, np.array([0, rows]), [(d, width)])

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each family."""
        return np.diff(self.starts)

    def with_priors(self, priors: Sequence[float | np.ndarray]) -> Stack:
        """Multiply by the priors of each of all families: one number, or one for each cell."""
        own = [priors[i] for i in self.members]
        d = self.laws.low.shape[1] if any(isinstance(a, np.ndarray) for a in own) else 1
        found = np.ones((len(self.laws.low), d))
        for k, a in enumerate(own):
            found[self.rows(k), : a.shape[1] if isinstance(a, np.ndarray) else d] = a
        return replace(self, laws=self.laws.with_prior(found))

    def of(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Put together what is known of the rows of every family."""
        return np.concatenate([values[i] for i in self.members])

    def rows(self, k: int) -> slice:
        """Where the k-th family is."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def family(self, k: int) -> Cells:
        """Give the laws of the k-th family."""
        return self.laws.of(self.rows(k), *self.shapes[k])

    def apart(self, found: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Give each family what was found of its rows, or cells."""
        for k, i in enumerate(self.members):
            own = found[self.rows(k)]
            yield i, own if own.ndim == 1 else own[:, : self.shapes[k][0]]


def solve(
    families: Sequence[Observed],
    one: Callable[[Stack, bool], tuple[np.ndarray, Iterable[tuple[int, Found]]]],
    times: int = 1,
    finer: bool = False,
) -> list[Found]:
    """Solve families in stacks, with near windows; in far ones those whose tilts press their ends.

    Parameters
    ----------
    families : sequence of Observed
    one : callable
        ``(stack, near)`` to the tilts of its rows, each taken `times` times, and what was found of
        each member.
    times : int
        Rows that are to be made of one.
    finer : bool
        Whether families whose tilts are steep for their bins are to be solved in finer ones.
    """
    asked = list(families)
    found: dict[int, Found] = {}
    left, near = list(range(len(families))), True
    for last in [False] * ROUNDS + [True]:
        again: list[int] = []
        for stack in stacks([asked[i] for i in left], times, near):
            stack = replace(stack, members=tuple(left[i] for i in stack.members))
            tilt, own = one(stack, near)
            found.update(own)
            each = tilt.reshape(-1, len(stack.laws.low))
            if near:
                at_end = np.any([pressed(stack.laws, one_tilt) for one_tilt in each], axis=0)
                again += [i for i, rows in stack.apart(at_end) if at_end.any() and rows.any()]
            if finer and not last:
                for i, better in _better(stack, asked, tilt):
                    asked[i] = better
                    again.append(i)
        left, near = list(dict.fromkeys(again)), False
    return [found[i] for i in range(len(families))]


def _better(
    stack: Stack, asked: Sequence[Observed], tilt: np.ndarray
) -> Iterator[tuple[int, Observed]]:
    """Families whose tilts want other grids than they have, and would get them."""
    steepest = min(asked[i].steepest for i in stack.members)
    if (
        not any(asked[i].grid for i in stack.members)
        and not steep(stack.laws, tilt, steepest).any()
    ):
        return
    for k, (i, own) in enumerate(stack.apart(tilt)):
        laws, known = stack.family(k), asked[i].grid or Grid.unknown(len(own))
        grid = better_grid(laws, own, asked[i].room, known, asked[i].steepest)
        if grid is not None:
            better = replace(asked[i], grid=grid)
            wider = (grid.most > known.most).any()
            if wider or (Layout([better]).step < laws.step).any():
                yield i, better


def stacks(families: Sequence[Observed], times: int = 1, near: bool = False) -> Iterator[Stack]:
    """Stack families of one kind of noise and like shape, one stack at a time.

    Parameters
    ----------
    families : sequence of Observed
    times : int
        Rows that are to be made of one.
    near : bool
        Whether near windows are to do.
    """
    for kind in _kinds(families):
        layout = Layout([families[i] for i in kind], near)
        for group in _groups(layout, times):
            starts = np.cumsum([0, *(len(families[kind[k]].noisy) for k in group)])
            shapes = [(int(layout.sizes[k]), int(layout.widths[k])) for k in group]
            members = tuple(kind[k] for k in group)
            grids = [families[i].grid for i in members]
            yield Stack(members, layout.laws(group), starts, shapes, grids)


def _kinds(families: Sequence[Observed]) -> list[list[int]]:
    """Which families have one law of noise, and numbers of columns that are not far apart."""
    kinds: list[list[int]] = []
    law, least = "", 0
    for (own, d), i in sorted((_kind(family), i) for i, family in enumerate(families)):
        if own == law and d <= ROOM * least:
            kinds[-1].append(i)
        else:
            kinds.append([i])
            law, least = own, d
    return kinds


def _kind(family: Observed) -> tuple[str, int]:
    return family.noise[0], int(family.noisy.shape[1])


def _groups(layout: Layout, times: int) -> list[list[int]]:
    """Which families go together, each row of them taken several times."""
    groups: list[list[int]] = []
    least, shape, rows = 0, (0, 0, 0), np.diff(layout.starts)
    for k in sorted(range(len(rows)), key=lambda k: layout.sizes[k] * layout.widths[k]):
        d, width = int(layout.sizes[k]), int(layout.widths[k])
        filled = shape[0] + times * int(rows[k]), max(shape[1], d), max(shape[2], width)
        if filled[1] * filled[2] <= ROOM * least and np.prod(filled) <= LARGEST:
            groups[-1].append(k)
            shape = filled
        else:
            groups.append([k])
            least, shape = d * width, (times * int(rows[k]), d, width)
    return groups
