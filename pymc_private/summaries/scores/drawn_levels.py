r"""Levels of categories, drawn anew for given shares and their dependence on each other.

Weights alone cannot move a reference to rare levels of many categories: of 128 rows with equal
shares of two levels each, twelve entries with shares of 5 to 15% leave the weight of three rows, in
which some entries are constant, so that their coefficients cannot be told from the intercept.
Instead, each level is drawn anew from the uniform number that its row has had for that entry: with
P(level | earlier entries) linear in the indicators of these,

    P(level l of entry b) = share_l + (indicators of entries before b - their means) S_b,

means and covariances of all indicators are those from which the shares and the regressions S_b were
computed, as far as no probability has to be held within 0 and 1. No level gets fewer than a few
rows; their weights are raked (`category_levels.raked`). Entries whose rows are known (a public
sample, all combinations of few levels, groups) keep them, and come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_private.summaries.scores.category_levels import CategoryLevels
from pymc_private.summaries.scores.clipped_scores import Rows

LEAST_ROWS, MOST_OF_EQUAL = 4.0, 0.5
"""Rows of a level at least, but no more than so much of equal shares."""
ROUNDS = 3
"""Draws until weighted shares are about the wanted ones."""
SHIFTS = 8
"""Shifts of probabilities that are held within 0 and 1, until their means are the wanted ones."""
TINY = 1e-9
"""Added to probabilities, so that those of a row are never all 0."""
STEEPEST = 1e3
"""Largest regression: a number that is never reached, so that none overflows."""


@dataclass(frozen=True, eq=False)
class WantedLevels:
    """Shares that the levels of an entry shall have.

    Attributes
    ----------
    block : CategoryLevels
    shares : array, shape (L,)
    slopes : array, shape (indicators of all entries before, L - 1), optional
        Regressions of its indicators on theirs; default: independent of them.
    """

    block: CategoryLevels
    shares: np.ndarray
    slopes: np.ndarray | None = None


def in_drawing_order(blocks: Sequence[CategoryLevels], units: Rows) -> list[int]:
    """Places of the entries whose rows are known, and then of the others as `units` has them."""
    place = {name: k for k, name in enumerate(units)}
    return sorted(range(len(blocks)), key=lambda k: place.get(blocks[k].source.name, -1))


def drawn_levels(
    rows: Rows,
    units: Rows,
    weigh: Callable[[Rows], np.ndarray],
    wanted: Sequence[WantedLevels],
) -> Rows:
    """Rows whose weighted shares of levels are about the wanted ones.

    Parameters
    ----------
    rows : mapping of str to array
    units : mapping of str to array, shape (N, entries)
        Uniform numbers of the sources that are drawn anew.
    weigh : callable
        Weights of rows, which may depend on their levels.
    wanted : sequence of WantedLevels
        In drawing order.
    """
    if not any(each.block.source.name in units for each in wanted):
        return rows
    shares = [each.shares / each.shares.sum() for each in wanted]
    aims = shares  # probabilities, raised where weighted shares come out too small
    for _ in range(ROUNDS):
        rows = _drawn(rows, units, weigh(rows), wanted, aims)
        weights = weigh(rows)
        present = [each.block.shares(rows, weights) / weights.sum() for each in wanted]
        aims = [
            aim * np.where(found > 0.0, share / np.where(found > 0.0, found, 1.0), 1.0)
            for aim, found, share in zip(aims, present, shares, strict=True)
        ]
    return rows


def _drawn(
    rows: Rows,
    units: Rows,
    weights: np.ndarray,
    wanted: Sequence[WantedLevels],
    aims: Sequence[np.ndarray],
) -> Rows:
    """All entries with units, one after the other."""
    found = {name: np.array(values, order="C") for name, values in rows.items()}
    share = weights / weights.sum()
    before = np.zeros((len(weights), 0))
    for each, aim in zip(wanted, aims, strict=True):
        block = each.block
        if block.source.name in units:
            aim = _with_least(aim, len(weights))
            chances = aim[None].repeat(len(weights), axis=0)
            if each.slopes is not None:
                slopes = np.clip(each.slopes, -STEEPEST, STEEPEST)
                moved = (before - share @ before) @ slopes
                chances += np.concatenate([-moved.sum(axis=1, keepdims=True), moved], axis=1)
                chances = _held(chances, aim, share)
            _draw(found, block, units[block.source.name][:, block.position], chances)
        before = np.concatenate([before, block.columns(found)], axis=1)
    return found


def _draw(
    rows: dict[str, np.ndarray], block: CategoryLevels, unit: np.ndarray, chances: np.ndarray
) -> None:
    """Levels of one entry, by where its uniform numbers lie among the chances."""
    passed = unit[:, None] >= np.cumsum(chances[:, :-1], axis=1)
    entries = rows[block.source.name].reshape(len(unit), -1)
    entries[:, block.position] = block.levels[passed.sum(axis=1)]


def _with_least(shares: np.ndarray, count: int) -> np.ndarray:
    """Shares of which none is so small that a level has no rows."""
    least = min(LEAST_ROWS / count, MOST_OF_EQUAL / len(shares))
    found = np.maximum(shares / shares.sum(), least)
    return np.asarray(found / found.sum())


def _held(chances: np.ndarray, aim: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Chances (N, L), shifted until their means are `aim` (L,) when held within 0 and 1."""
    found = np.clip(chances, 0.0, 1.0)
    for _ in range(SHIFTS):
        found = np.clip(found + (aim - share @ found), 0.0, 1.0)
    found = found + TINY * aim
    return np.asarray(found / found.sum(axis=1, keepdims=True))
