"""Laws that are drawn from exactly: propose from the reference, accept by a bounded weight."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard
from pymc_private.errors import Unsupported
from pymc_private.mollifiers.references import CELLS, Finite, Marginals
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.randomness import Uniform

BITS = 52
MOST_TRIALS = 2e9
BATCH = 2**18
ROUGH = 2**14


class Law(Protocol):
    """What rejection needs (T15c).

    Attributes
    ----------
    highest : float
        Public upper bound of `log_weight`.
    trials : float
        Public bound on the mean number of proposals per draw.
    """

    highest: float
    trials: float

    def propose(self, count: int, randomness: Uniform) -> np.ndarray:
        """Proposals, in whatever form `log_weight` and `values` take."""

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """log Q/Q0 up to a constant."""

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Turn accepted proposals into draws, shape (n, d)."""


class Table:
    """Weights on finitely many points: categories, cells, or a public pool of draws.

    Proposals are drawn by 52-bit numbers, so their law is a vector of multiples of 2**-52; weights
    are normalized for that very law.

    Parameters
    ----------
    mass : array, shape (n,)
        Probabilities of the reference.
    """

    def __init__(self, mass: np.ndarray) -> None:
        ends = np.round(np.cumsum(mass) / np.sum(mass) * 2.0**BITS)
        ends[-1] = 2.0**BITS
        self._ends = np.maximum.accumulate(np.minimum(ends, 2.0**BITS)) * 2.0**-BITS
        self.mass = np.diff(self._ends, prepend=0.0)
        self.weights = np.zeros(len(mass))
        self.highest, self.trials = 0.0, 1.0

    def weigh(self, weights: np.ndarray, highest: float, trials: float) -> None:
        """Set log Q/Q0 (up to a constant) of the points and its public bounds."""
        self.weights, self.highest, self.trials = weights, highest, trials

    def propose(self, count: int, randomness: Uniform) -> np.ndarray:
        """Positions with the probabilities of the reference."""
        return np.searchsorted(self._ends, randomness.uniform(count), side="right")

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """Look up."""
        return self.weights[proposals]

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Positions."""
        return accepted[:, None]


class Categories(Table):
    """A finite reference."""

    def __init__(self, reference: Finite) -> None:
        super().__init__(reference.mass)
        self._numbers = reference.numbers

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Numbers of the categories, or positions."""
        return (accepted if self._numbers is None else self._numbers[accepted])[:, None]


class Cells(Table):
    """Cells of a reference with known quantiles; inside a cell a draw follows the reference.

    The point inside is a public function of the cell and of uniform numbers, so what a draw
    reveals is what its cell reveals.
    """

    def __init__(self, reference: Marginals) -> None:
        self._reference = reference
        self._levels = reference.levels()
        self._shape = (len(self._levels) - 1,) * reference.dimension
        mass = np.diff(self._levels)
        for _ in range(reference.dimension - 1):
            mass = np.multiply.outer(mass, np.diff(self._levels))
        super().__init__(mass.ravel())

    def centers(self) -> np.ndarray:
        """The median of each cell along each axis, shape (n, d)."""
        middle = (self._levels[:-1] + self._levels[1:]) / 2.0
        along = self._reference.dimension
        axes = np.meshgrid(*[middle] * along, indexing="ij")
        return self._reference.transport(np.column_stack([axis.ravel() for axis in axes]))

    def find(self, x: np.ndarray) -> np.ndarray:
        """The cell of each row."""
        u = self._reference.uniforms(x)
        along = np.searchsorted(self._levels, u, side="right") - 1
        return np.ravel_multi_index(tuple(np.clip(along, 0, self._shape[0] - 1).T), self._shape)

    def weights_at(self, x: np.ndarray) -> np.ndarray:
        """The log weight of each row's cell."""
        return self.weights[self.find(x)]

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Draw the reference inside each cell."""
        along = np.column_stack(np.unravel_index(accepted, self._shape))
        share = randomness.uniform(along.size).reshape(along.shape)
        low, high = self._levels[along], self._levels[along + 1]
        return self._reference.transport(np.clip(low + share * (high - low), 2.0**-60, 1 - 2**-53))


class Pool(Table):
    """Public draws of a reference, equally likely: then any sampler will do, in any dimension.

    Given the pool, which may be published, the chosen position is a draw from a finite mollifier.
    The law of a draw over pool and choice has a density ratio to the reference inside the window.
    """

    def __init__(self, points: np.ndarray) -> None:
        super().__init__(np.ones(len(points)))
        self.points = np.array(points)  # its own, and nobody writes into it
        self.points.setflags(write=False)

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """The points themselves."""
        return self.points[accepted]


def has_cells(base: Any) -> TypeGuard[Marginals]:
    """Whether a reference is cut into cells: with known quantiles, in few dimensions."""
    return isinstance(base, Marginals) and base.dimension in CELLS


def table_of(base: Any, size: int, *, rough: bool = False) -> Cells | Pool:
    """Cells of a reference with quantiles, up to three dimensions; else a public pool of draws.

    Parameters
    ----------
    base : Reference
    size : int
        Of a pool.
    rough : bool
        Whether the points only help to place a law that is evaluated elsewhere: fewer will do.
    """
    if has_cells(base):
        return Cells(base)
    return Pool(base.pool(min(size, ROUGH) if rough else size))


class Tilted:
    """A reference with known quantiles, reweighted by a bounded function; no normalizer.

    The function must give a row the same weight whatever other rows it is asked about, but for the
    last bits, for which `half_range` leaves room: then the law is one law (T15a). Estimates of this
    package do. What users bring is evaluated once, on the points of a `Table`.

    Parameters
    ----------
    reference : Marginals
    log_weight : callable
        Rows, shape (n, d), to (n,); clipped to [-half, half], NaN counts as -half.
    half : float, nats
    """

    def __init__(
        self, reference: Marginals, log_weight: Callable[[np.ndarray], np.ndarray], half: float
    ) -> None:
        self._reference, self._log_weight, self._half = reference, log_weight, half
        self.highest, self.trials = half, math.exp(2.0 * half)

    def propose(self, count: int, randomness: Uniform) -> np.ndarray:
        """Draws of the reference."""
        u = randomness.uniform(count * self._reference.dimension)
        return self._reference.transport(u.reshape(count, -1))

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """The bounded function."""
        return bounded(self._log_weight(proposals), self._half)

    def values(self, accepted: np.ndarray, randomness: Uniform) -> np.ndarray:
        """The proposals themselves."""
        return accepted


def bounded(values: np.ndarray, half: float) -> np.ndarray:
    """Clip to [-half, half]; what is no number is least likely."""
    return np.clip(np.where(np.isnan(values), -half, values), -half, half)


def half_range(epsilon: float) -> float:
    """Half the range of a tilt that costs epsilon, less what rounding could add (T15a).

    The last bits of a network's answer depend on the shape of its batch: a weight that is off by
    1e-15 moves the range by four times that, well within the 2e-12 that are left free.
    """
    return max(0.0, epsilon / 4.0 - 1e-12 - 2.0**-50 * math.exp(epsilon / 2.0))


def check_effort(law: Law, draws: int) -> None:
    """Refuse what would take too long, judged from public numbers alone.

    Raises
    ------
    Unsupported
        It would.
    """
    if draws * law.trials > MOST_TRIALS:
        raise Unsupported(
            "rejection would need too many proposals",
            got=f"up to {draws * law.trials:.2g} for {counted(draws, 'draw')}",
            allowed=f"{MOST_TRIALS:.0g}",
            do="ask for fewer draws or a smaller epsilon",
        )


def draw(
    law: Law,
    draws: int,
    randomness: Uniform,
    progress: Callable[[int], object] = lambda done: None,
) -> np.ndarray:
    """Draw exactly, by rejection; how many proposals that took is not told.

    Returns
    -------
    array, shape (draws, d)

    References
    ----------
    Theory T15c. The mean number of proposals is at most `trials` per draw.
    """
    kept: list[np.ndarray] = []
    have = 0
    while have < draws:
        batch = min(BATCH, math.ceil(1.2 * (draws - have) * law.trials) + 16)
        proposals = law.propose(batch, randomness)
        accept = np.exp(np.minimum(law.log_weight(proposals) - law.highest, 0.0))
        kept.append(proposals[randomness.uniform(batch) < accept])
        have += len(kept[-1])
        progress(min(have, draws))
    return law.values(np.concatenate(kept)[:draws], randomness)
