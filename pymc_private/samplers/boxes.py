"""boxes: exact posterior draws by rejection from adaptive interval envelopes.

The box of the parameters is cut into cells; on each, intervals prove an upper bound of the log
density. A proposal from the envelope is accepted with probability density / envelope. A rejection
cuts the cell it fell into, so the envelope closes in where the posterior is. Given the past, each
trial accepts with a law proportional to the posterior, so every accepted draw is an independent
draw from it, however the envelope was refined (Gilks and Wild 1992 for the idea; real arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_private.samplers.piecewise import Envelope, draw, height, log_mass
from pymc_private.samplers.randomness import Uniform
from pymc_private.samplers.target import Target

LARGEST_DIMENSION = 4
"""Cells grow like a power of the dimension: beyond this a draw may take hours."""
MOST_CELLS = 200_000
"""A cap on memory, some 200 MB: from there on the envelope stays as it is, and draws stay exact."""
FIRST_CELLS = 32
"""Cells cut before the first trial; more come with each rejection."""


class Cells:
    """The current partition and its envelopes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.lower: list[np.ndarray] = []
        self.upper: list[np.ndarray] = []
        self.envelopes: list[Envelope] = []
        self.log_masses = np.empty(64)
        self._add(target.lower, target.upper)

    def __len__(self) -> int:
        return len(self.envelopes)

    def _add(self, lower: np.ndarray, upper: np.ndarray, place: int | None = None) -> None:
        envelope = self._target.envelope(lower, upper)
        mass = log_mass(envelope, (upper - lower) / 2.0)
        if place is None:
            place = len(self.envelopes)
            self.lower.append(lower)
            self.upper.append(upper)
            self.envelopes.append(envelope)
            if place == len(self.log_masses):
                self.log_masses = np.concatenate([self.log_masses, np.empty(place)])
        else:
            self.lower[place], self.upper[place], self.envelopes[place] = lower, upper, envelope
        self.log_masses[place] = mass

    def cut(self, place: int) -> None:
        """Halve a cell across the coordinate whose slopes leave the envelope loosest."""
        if len(self) >= MOST_CELLS:
            return
        lower, upper = self.lower[place], self.upper[place]
        envelope = self.envelopes[place]
        spread = (envelope.high - envelope.low) * (upper - lower)
        if not np.any(spread > 0):
            spread = (upper - lower) / (self._target.upper - self._target.lower)
        axis = int(np.argmax(spread))
        middle = (lower[axis] + upper[axis]) / 2.0
        if not lower[axis] < middle < upper[axis]:
            return  # a cell one float wide cannot be cut; its envelope is as tight as it gets
        left, right = upper.copy(), lower.copy()
        left[axis], right[axis] = middle, middle
        self._add(lower, left, place)
        self._add(right, upper)

    def cut_heaviest(self) -> None:
        """Halve the cell with the largest mass."""
        self.cut(int(np.argmax(self.log_masses[: len(self)])))

    def choose(self, uniform: float) -> int:
        """A cell with probability proportional to its mass."""
        masses = self.log_masses[: len(self)]
        top = masses.max()
        # An infinite mass is still a bound: such a cell is cut before anything is drawn from it.
        weights = (
            np.where(np.isposinf(masses), 1.0, 0.0) if np.isposinf(top) else np.exp(masses - top)
        )
        total = np.cumsum(weights)
        return min(int(np.searchsorted(total, uniform * total[-1])), len(self) - 1)


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
    """
    cells = Cells(target)
    for _ in range(FIRST_CELLS):
        cells.cut_heaviest()
    accepted: list[np.ndarray] = []
    while len(accepted) < draws:
        point, place = _trial(cells, target, randomness)
        if point is None:
            cells.cut(place)
            continue
        accepted.append(point)
        progress(len(accepted))
    return np.array(accepted)


def _trial(cells: Cells, target: Target, randomness: Uniform) -> tuple[np.ndarray | None, int]:
    """Propose once; the point if accepted, and the cell it came from."""
    d = target.dimension
    uniforms = randomness.uniform(2 + 2 * d)
    place = cells.choose(float(uniforms[0]))
    lower, upper, envelope = cells.lower[place], cells.upper[place], cells.envelopes[place]
    if not np.isfinite(envelope.constant):
        return None, place
    t = draw(envelope, (upper - lower) / 2.0, uniforms[2:].reshape(d, 2))
    point = np.clip((lower + upper) / 2.0 + t, lower, upper)
    # The log ratio is at most 0 in real arithmetic; a density of zero rejects.
    ratio = min(target.value(point) - height(envelope, t), 0.0)
    return (point, place) if np.log(uniforms[1]) < ratio else (None, place)
