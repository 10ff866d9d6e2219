"""boxes: exact posterior draws by rejection from adaptive interval envelopes.

The box of the parameters is cut into cells; on each, intervals prove an upper bound of the log
density (`envelopes`). Proposals come from the envelope and are accepted with probability density /
envelope. Cells with many rejections are cut, so the envelope closes in where the posterior is.

*Theorem.* Let the envelope of trial k be fixed by what happened before it (here: before its batch).
Given that past, the proposal lies in B and is accepted with probability a_k P(B), where P is the
posterior and a_k the acceptance of this envelope, known from the past. So the next accepted point
lies in B with probability P(B) sum_k E[a_k 1(none was accepted since)] = P(B): accepted points are
independent draws from P, however the past refined the envelope, provided that a_k stays above a
positive number. It does: each cell's mass is at most that of its constant bound, and the sum of
those never rises when cells are cut (inclusion isotonicity) and is finite before the first trial.
(Gilks and Wild 1992 for adaptive rejection; real arithmetic, ideal uniform numbers.)

How long it takes and how many trials are rejected depend on the data and stay with the curator.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from pymc_private.errors import PymcPrivateError
from pymc_private.samplers.rejection import Bounded, bound_boxes
from pymc_private.samplers.envelope_pieces import draw, height
from pymc_private.samplers.randomness import Uniform, normal
from pymc_private.samplers.log_density__target import Target

LARGEST_DIMENSION = 6
"""Cells grow like a power of the dimension: beyond this a draw may take hours."""
MOST_CELLS = 200_000
"""A cap on memory, some 200 MB: from there on only cells of infinite mass are cut; draws stay
exact, at the acceptance that was reached."""
FIRST_STEPS = 6
"""Newton steps on the whole box; the cells cut from it start where it stopped."""
PATIENCE = 6
"""Rejections that pay for a cut: about as much as its bounds cost."""
FEWEST, MOST = 64, 2048
"""Trials in a batch."""
SLOW, HEAVY = 0.01, 2.0
"""Acceptance below which cells are also cut for their mass: nats above the posterior's."""
OUTSIDE = 1.0 / 16.0
"""Cost of a proposal outside of its cell, in evaluated ones."""
TOLERANCE = 1e-9
"""Relative rounding of the height of an envelope."""


class EnvelopeTooLow(PymcPrivateError):
    """A density was proved to exceed its proved envelope: a fault of an interval rule."""


class Cells:
    """The current partition and its envelopes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        lower, upper = target.lower[None], target.upper[None]
        start = (lower + upper) / 2.0
        self._set(lower, upper, bound_boxes(target, lower, upper, start, FIRST_STEPS))
        self.misses = np.zeros(1)

    def __len__(self) -> int:
        return len(self.lower)

    def _set(self, lower: np.ndarray, upper: np.ndarray, bounded: Bounded) -> None:
        self.lower, self.upper, self.bounded = lower, upper, bounded

    def cut(self, places: np.ndarray) -> bool:
        """Halve cells across the coordinate that leaves their envelopes loosest, all at once.

        Cells without mass are dropped: the density is zero there. False if nothing could be cut.
        """
        axis, middle = self._where(places)
        rows = np.arange(len(places))
        inside = (self.lower[places, axis] < middle) & (middle < self.upper[places, axis])
        # A cell one float wide cannot be cut; its envelope is as tight as it gets.
        places, axis, middle, rows = places[inside], axis[inside], middle[inside], rows[inside]
        self.misses[places] = 0.0
        if not len(places):
            return False
        rows = np.arange(len(places))
        left, right = self.upper[places].copy(), self.lower[places].copy()
        left[rows, axis], right[rows, axis] = middle, middle
        lower = np.concatenate([self.lower[places], right])
        upper = np.concatenate([left, self.upper[places]])
        start = np.tile(self.bounded.anchor[places], (2, 1))
        found = bound_boxes(self._target, lower, upper, start)
        self._replace(places, lower, upper, found)
        return True

    def _where(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinate and place of each cut: the middle, or beside a mode that lies there."""
        lower, upper = self.lower[places], self.upper[places]
        width, whole = upper - lower, self._target.upper - self._target.lower
        gap = self.bounded.gap[places]
        gap = np.where((gap > 0.0).any(axis=1)[:, None] & np.isfinite(gap), gap, width / whole)
        axis = np.argmax(gap, axis=1)
        rows = np.arange(len(places))
        low, high = lower[rows, axis], upper[rows, axis]
        anchor = self.bounded.anchor[places, axis]
        clear = self.bounded.clear[places, axis]
        middle = low + (high - low) / 2.0
        beside = np.where(middle >= anchor, anchor + clear, anchor - clear)
        splits = (np.abs(middle - anchor) < clear) & (low < beside) & (beside < high)
        return axis, np.where(splits, beside, middle)

    def _replace(
        self, places: np.ndarray, lower: np.ndarray, upper: np.ndarray, found: Bounded
    ) -> None:
        kept = np.ones(len(self), bool)
        kept[places] = False
        new = found.log_mass > -np.inf
        self.lower = np.concatenate([self.lower[kept], lower[new]])
        self.upper = np.concatenate([self.upper[kept], upper[new]])
        self.misses = np.concatenate([self.misses[kept], np.zeros(new.sum())])
        self.bounded = self.bounded.take(kept).followed_by(found.take(new))

    def close(self) -> None:
        """Cut until no mass is infinite: nothing can be drawn from such an envelope."""
        while True:
            infinite = np.flatnonzero(np.isposinf(self.bounded.log_mass))
            if not len(infinite) or not self.cut(infinite):
                return

    def refine(self, rate: float = 1.0) -> None:
        """Cut the cells whose rejections have paid for it.

        While hardly anything is accepted, also each cell whose envelope alone outweighs what is
        thought to be the whole posterior, all at once.
        """
        cut = self.misses >= PATIENCE
        if rate < SLOW:
            cut |= self.bounded.log_mass > np.max(self.bounded.guess) + HEAVY
        ready = np.flatnonzero(cut)
        room = MOST_CELLS - len(self)
        if len(ready) and room > 0:
            ready = ready[np.argsort(-self.misses[ready])][: min(room, MOST)]
            self.cut(ready)

    def choose(self, uniforms: np.ndarray) -> np.ndarray:
        """Cells with probabilities proportional to their masses."""
        masses = self.bounded.log_mass
        weights = np.exp(masses - masses.max())
        weights[np.isnan(weights)] = 1.0  # infinite masses that no cut closes
        total = np.cumsum(weights)
        found = np.searchsorted(total, uniforms * total[-1], side="right")
        return np.minimum(found, len(self) - 1)


def sample_boxes(
    target: Target,
    draws: int,
    randomness: Uniform,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent exact draws from a posterior on a box.

    Parameters
    ----------
    target : Target
    draws : int
    randomness : Uniform
    progress : callable
        Called with the number of accepted draws, on the curator's screen.

    Returns
    -------
    array, shape (draws, d)
        Real arithmetic: independent draws from the posterior restricted to the box.

    Raises
    ------
    EnvelopeTooLow
        An interval rule is wrong. No draw is made then.
    """
    cells = Cells(target)
    accepted = np.empty((0, target.dimension))
    rate = 0.0
    while len(accepted) < draws:
        cells.close()
        wanted = 1.1 * (draws - len(accepted)) / max(rate, 1e-9)
        most = min(MOST, max(FEWEST, PATIENCE * len(cells))) if rate >= SLOW else FEWEST
        size = int(np.clip(wanted, FEWEST, most))
        found = _trials(cells, target, randomness, size)
        rate = len(found) / size
        accepted = np.concatenate([accepted, found[: draws - len(accepted)]])
        progress(len(accepted))
        cells.refine(rate)
    return accepted


def _trials(cells: Cells, target: Target, randomness: Uniform, size: int) -> np.ndarray:
    """Propose from the envelope as it is; the accepted points, and misses counted by cell."""
    d = target.dimension
    uniforms = randomness.uniform(size * (2 + 2 * d)).reshape(size, 2 + 2 * d)
    places = cells.choose(uniforms[:, 0])
    pieces = cells.bounded.pieces.take(places)
    finite = np.isfinite(pieces.constant)
    t = draw(pieces, uniforms[:, 2:].reshape(size, d, 2), normal(randomness, size, d))
    points = cells.bounded.anchor[places] + t
    lower, upper = cells.lower[places], cells.upper[places]
    outside = pieces.normal & ((points < lower) | (points > upper)).any(axis=1)
    points = np.clip(points, lower, upper)
    tried = np.flatnonzero(finite & ~outside)
    values = target.values(points[tried])
    heights = height(pieces.take(tried), t[tried])
    _refuse_escape(target, points[tried], values, heights)
    # The log ratio is at most 0 in real arithmetic; a density of zero rejects.
    passed = np.log(uniforms[tried, 1]) < np.minimum(values - heights, 0.0)
    cost = np.where(outside, OUTSIDE, 1.0)
    cost[tried[passed]] = 0.0
    np.add.at(cells.misses, places, cost)
    return points[tried[passed]]


def _refuse_escape(
    target: Target, points: np.ndarray, values: np.ndarray, heights: np.ndarray
) -> None:
    """Raise where the density is proved to lie above its envelope, beyond all rounding."""
    most = heights + TOLERANCE * (1.0 + np.abs(heights))
    suspects = values > most
    if np.any(suspects) and np.any(target.ends(points[suspects])[0] > most[suspects]):
        raise EnvelopeTooLow(
            "an envelope lies below the density: an interval rule is wrong",
            got="a point whose log density is proved to exceed its proved bound",
            do="report the model; draw with another sampler until then",
        )
