"""Distributions near a reference: clips, tilts and hull mixtures, drawn exactly by rejection.

A clip is clip(P / C, ...) with C such that its total mass is one (T15d); a tilt is the
reference times a bounded weight, without a normalizer (T15a); a hull holds all mixtures of
some public distributions. Draws are proposed from the reference and accepted by a bounded
weight (T15c).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
import scipy

from pymc_private.errors import DomainError, PymcPrivateError, Unsupported
from pymc_private.mollifiers.references import (
    CELLS_PER_AXIS,
    FiniteReference,
    QuantileReference,
    as_reference,
    normalized_probabilities,
)
from pymc_private.mollifiers.window import Window, check_width
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_count, refuse_mask
from pymc_private.samplers.randomness import Randomness

UNIFORM_BITS = 52
"""Bits of the uniform numbers that choose a point."""
MOST_TRIALS = 2e9
"""The largest expected number of proposals of one release."""
BATCH = 2**18
"""The largest number of proposals evaluated at once."""
ROUGH_POOL = 2**14
"""Size of a pool that serves only to choose the level of a tilt."""


class RejectionTarget(Protocol):
    """A distribution that can be drawn by rejection (T15c).

    Attributes
    ----------
    highest : float
        Public upper bound of `log_weight`.
    trials : float
        Public bound on the mean number of proposals per draw.
    """

    highest: float
    trials: float

    def propose(self, count: int, randomness: Randomness) -> np.ndarray:
        """Proposals, in whatever form `log_weight` and `values` take."""

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """log Q/Q0 up to a constant."""

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Turn accepted proposals into draws, shape (n, d)."""


class WeightedPoints:
    """Weights on finitely many points: categories, cells, or a public pool of draws.

    Proposals are drawn by 52-bit numbers, so their probabilities are multiples of 2**-52; weights
    are normalized for exactly these probabilities (`mass`).

    Parameters
    ----------
    mass : array, shape (n,)
        Probabilities of the reference.
    """

    def __init__(self, mass: np.ndarray) -> None:
        bounds = np.round(np.cumsum(mass) / np.sum(mass) * 2.0**UNIFORM_BITS)
        bounds[-1] = 2.0**UNIFORM_BITS
        self._upper_levels = (
            np.maximum.accumulate(np.minimum(bounds, 2.0**UNIFORM_BITS)) * 2.0**-UNIFORM_BITS
        )
        self.mass = np.diff(self._upper_levels, prepend=0.0)
        self.weights = np.zeros(len(mass))
        self.highest, self.trials = 0.0, 1.0

    def weigh(self, weights: np.ndarray, highest: float, trials: float) -> None:
        """Set log Q/Q0 (up to a constant) of the points and its public bounds."""
        self.weights, self.highest, self.trials = weights, highest, trials

    def propose(self, count: int, randomness: Randomness) -> np.ndarray:
        """Positions with the probabilities of the reference."""
        return np.searchsorted(self._upper_levels, randomness.uniform(count), side="right")

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """The log weights of the proposed positions."""
        return self.weights[proposals]

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Positions."""
        return accepted[:, None]


class WeightedCategories(WeightedPoints):
    """Weights on the categories of a finite reference."""

    def __init__(self, reference: FiniteReference) -> None:
        super().__init__(reference.mass)
        self._numbers = reference.numbers

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Numbers of the categories, or positions."""
        return (accepted if self._numbers is None else self._numbers[accepted])[:, None]


class QuantileCells(WeightedPoints):
    """Cells of a reference with known quantiles; inside a cell a draw follows the reference.

    The point inside is a public function of the cell and of uniform numbers, so a draw reveals no
    more than its cell.
    """

    def __init__(self, reference: QuantileReference) -> None:
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

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Draw the reference inside each cell."""
        along = np.column_stack(np.unravel_index(accepted, self._shape))
        share = randomness.uniform(along.size).reshape(along.shape)
        low, high = self._levels[along], self._levels[along + 1]
        return self._reference.transport(np.clip(low + share * (high - low), 2.0**-60, 1 - 2**-53))


class PublicPool(WeightedPoints):
    """Public draws of a reference, equally likely: for any sampler, in any dimension.

    Given the pool, which may be published, the chosen position is a draw from a finite mollifier.
    Over pool and choice together the density ratio of a draw to the reference is in the window.
    """

    def __init__(self, points: np.ndarray) -> None:
        super().__init__(np.ones(len(points)))
        self.points = np.array(points)  # a copy that nobody can write into
        self.points.setflags(write=False)

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """The points themselves."""
        return self.points[accepted]


def has_cells(base: Any) -> TypeGuard[QuantileReference]:
    """Whether a reference is cut into cells: with known quantiles, in few dimensions."""
    return isinstance(base, QuantileReference) and base.dimension in CELLS_PER_AXIS


def weighted_points(base: Any, size: int, *, rough: bool = False) -> QuantileCells | PublicPool:
    """Cells of a reference with quantiles, up to three dimensions; else a public pool of draws.

    `size` is that of a pool; a `rough` one is smaller, for points that serve only to choose the
    level of a tilt that is evaluated elsewhere.
    """
    if has_cells(base):
        return QuantileCells(base)
    return PublicPool(base.pool(min(size, ROUGH_POOL) if rough else size))


def support_points(points: QuantileCells | PublicPool) -> np.ndarray:
    """The rows at which a log ratio is evaluated: the centers of cells, or the public draws."""
    return points.centers() if isinstance(points, QuantileCells) else points.points


class Tilted:
    """A reference with known quantiles, reweighted by a bounded function; no normalizer.

    The function must give a row the same weight whatever other rows are in the batch, up to the
    last bits, for which `tilt_half_range` leaves room: then all draws have one distribution (T15a).
    Estimates of this package do. Functions of users are evaluated once, on `WeightedPoints`.

    Parameters
    ----------
    reference : QuantileReference
    log_weight : callable
        Rows, shape (n, d), to (n,); clipped to [-half, half], NaN counts as -half.
    half : float, nats
    """

    def __init__(
        self,
        reference: QuantileReference,
        log_weight: Callable[[np.ndarray], np.ndarray],
        half: float,
    ) -> None:
        self._reference, self._log_weight, self._half = reference, log_weight, half
        self.highest, self.trials = half, math.exp(2.0 * half)

    def propose(self, count: int, randomness: Randomness) -> np.ndarray:
        """Draws of the reference."""
        u = randomness.uniform(count * self._reference.dimension)
        return self._reference.transport(u.reshape(count, -1))

    def log_weight(self, proposals: np.ndarray) -> np.ndarray:
        """The bounded function."""
        return clip_symmetric(self._log_weight(proposals), self._half)

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """The proposals themselves."""
        return accepted


def clip_symmetric(values: np.ndarray, half: float) -> np.ndarray:
    """Clip to [-half, half]; NaN counts as -half."""
    return np.clip(np.where(np.isnan(values), -half, values), -half, half)


def tilt_half_range(epsilon: float) -> float:
    """Half the range of a tilt that costs epsilon, less what rounding could add (T15a).

    The last bits of the output of a network depend on the shape of its batch: a weight that is off
    by 1e-15 moves the range by four times that, well within the 2e-12 that are left free.
    """
    return max(0.0, epsilon / 4.0 - 1e-12 - 2.0**-50 * math.exp(epsilon / 2.0))


def check_rejection_effort(target: RejectionTarget, draws: int) -> None:
    """Refuse draws that need too many proposals, judged from public numbers alone."""
    if draws * target.trials > MOST_TRIALS:
        raise Unsupported(
            "rejection would need too many proposals",
            got=f"up to {draws * target.trials:.2g} for {format_count(draws, 'draw')}",
            allowed=f"{MOST_TRIALS:.0g}",
            do="ask for fewer draws or a smaller epsilon",
        )


def rejection_draws(
    target: RejectionTarget,
    draws: int,
    randomness: Randomness,
    progress: Callable[[int], object] = lambda done: None,
) -> np.ndarray:
    """Exact draws by rejection (T15c), shape (draws, d).

    The number of proposals, which depends on the data, is not returned; its mean is at most
    `trials` per draw.
    """
    kept: list[np.ndarray] = []
    have = 0
    while have < draws:
        batch = min(BATCH, math.ceil(1.2 * (draws - have) * target.trials) + 16)
        proposals = target.propose(batch, randomness)
        accept = np.exp(np.minimum(target.log_weight(proposals) - target.highest, 0.0))
        kept.append(proposals[randomness.uniform(batch) < accept])
        have += len(kept[-1])
        progress(min(have, draws))
    return target.values(np.concatenate(kept)[:draws], randomness)


CLIP_SLACK = 1e-12
"""Distance in nats that a clip keeps from its window, so that rounding stays inside too."""
SUBSAMPLE_SIZE = 20_000
"""Points on which the level of a clip is searched first, where there are more."""
LARGEST_LOG_RATIO = 1e4
"""The bound in nats to which log ratios of an estimate are clipped."""


def window_slack(window: Window) -> float:
    """The distance in nats by which both bounds of a window are moved inward.

    It covers |log Z| <= `CLIP_SLACK` / 2 of the normalization, the last bit of the exponential, and
    a uniform number of 52 bits that is compared with an acceptance probability of at least
    e^-epsilon.
    """
    return CLIP_SLACK + 2.0**-50 * math.exp(window.epsilon)


def clip_to_window(
    log_ratio: np.ndarray, mass: np.ndarray, window: Window
) -> tuple[np.ndarray, float]:
    """log Q/Q0 of the distribution in the window closest to an estimate of the target (T15d).

    Parameters
    ----------
    log_ratio : array, shape (n,)
        log P/Q0 of the estimate, up to a constant; -inf and NaN mean no mass.
    mass : array, shape (n,)
        Probabilities of the reference, >= 0; normalized here.
    window : Window

    Returns
    -------
    log_weight : array, shape (n,)
        Inside the window after exact normalization, whatever the estimate was: the sum of mass
        exp(log Q/Q0) is one within `CLIP_SLACK` / 2, and the bounds were moved inward by more.
    level : float
        log C: at other points the log weight is clip(log_ratio - level, ...). -inf in the
        degenerate case, in which the support of the target is too small to take all the mass: it
        gets the upper bound, and the rest is spread in proportion to the reference.
    """
    mass = _normalized_mass(mass)
    low, high = window.lower + window_slack(window), window.upper - window_slack(window)
    if low >= 0.0 or high <= 0.0:
        return np.zeros(len(mass)), 0.0
    ratio = _limited_log_ratio(log_ratio)
    support = ratio > -np.inf
    inside = float(mass[support].sum())
    outside = float(mass[~support].sum())
    if math.exp(high) * inside + math.exp(low) * outside <= 1.0:
        weight, level = _degenerate_weights(support, inside, outside, (low, high)), -math.inf
    else:
        weight, level = _normalized_clip(ratio, mass, low, high)
    if not abs(log_total_mass(weight, mass)) <= CLIP_SLACK / 2:
        weight = _mixed_to_unit_mass(weight, mass, low, high)
    return weight, level


def log_total_mass(log_weight: np.ndarray, mass: np.ndarray) -> float:
    """log of the sum of mass exp(log_weight), summed exactly over rounded terms."""
    return math.log(math.fsum((mass * np.exp(log_weight)).tolist()))


def _weighted_sum(values: np.ndarray, mass: np.ndarray) -> float:
    """Sum of mass times values, without BLAS, whose threads would wait for each other."""
    return float((mass * values).sum())


def _limited_log_ratio(log_ratio: np.ndarray) -> np.ndarray:
    """The log ratio with NaN as -inf (no mass), all else clipped to +-`LARGEST_LOG_RATIO`."""
    ratio = np.asarray(log_ratio, float)
    none = np.isnan(ratio) | (ratio == -np.inf)
    return np.where(none, -np.inf, np.clip(ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


def _normalized_mass(mass: np.ndarray) -> np.ndarray:
    """Masses that sum to one; refuses negative, infinite and all-zero ones."""
    mass = np.asarray(mass, float)
    total = float(mass.sum()) if mass.ndim == 1 else 0.0
    if not 0.0 < total < math.inf or (mass < 0.0).any():
        raise DomainError(
            "the reference masses are finite, not negative and not all zero",
            got=f"an array of shape {mass.shape}",
            allowed="an array of one dimension, entries >= 0, with a positive sum",
        )
    return mass if total == 1.0 else mass / total


def _degenerate_weights(
    support: np.ndarray, inside: float, outside: float, bounds: tuple[float, float]
) -> np.ndarray:
    """The upper bound on the support, and one weight outside of it that takes the rest.

    Where little mass is outside, the rest is a difference of nearly equal numbers and rounding
    alone could take it below the lower bound: it is clipped, and the caller checks the total.
    """
    low, high = bounds
    if outside <= 0.0:
        return np.zeros(len(support))
    share = math.log1p(-math.exp(high) * inside) - math.log(outside)
    return np.where(support, high, min(max(share, low), high))


def _normalized_clip(
    ratio: np.ndarray, mass: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, float]:
    """The weight clip(ratio - c, low, high), and the c for which its total mass is one."""

    def excess(c: float, r: np.ndarray = ratio, q: np.ndarray = mass) -> float:
        return _weighted_sum(np.exp(np.clip(r - c, low, high)), q) - 1.0

    c = _normalizing_level(excess, ratio, mass, low, high)
    weight = np.clip(ratio - c, low, high)
    for _ in range(20):
        error = math.log(_weighted_sum(np.exp(weight), mass))
        if abs(error) <= CLIP_SLACK / 8:
            break
        free = (weight > low) & (weight < high)
        share = _weighted_sum(np.exp(weight[free]), mass[free])
        c += error / max(share, 1e-6)
        weight = np.clip(ratio - c, low, high)
    return weight, c


def _normalizing_level(
    excess: Callable[..., float], ratio: np.ndarray, mass: np.ndarray, low: float, high: float
) -> float:
    """The level c at which the total mass is one, searched on a subsample first."""
    finite = np.flatnonzero((ratio > -np.inf) & (mass > 0.0))
    bounds = float(ratio[finite].min()) - high - 1.0, float(ratio[finite].max()) - low + 1.0
    if len(finite) > SUBSAMPLE_SIZE:
        some = finite[:: len(finite) // SUBSAMPLE_SIZE]
        part = mass[some] / mass[some].sum()
        if excess(bounds[0], ratio[some], part) > 0.0 > excess(bounds[1], ratio[some], part):
            guess = scipy.optimize.brentq(
                excess, *bounds, args=(ratio[some], part), xtol=1e-3, rtol=1e-9
            )
            close = guess - 0.05, guess + 0.05
            if excess(close[0]) > 0.0 > excess(close[1]):
                return float(scipy.optimize.brentq(excess, *close, xtol=1e-8, rtol=1e-14))
    if not excess(bounds[0]) > 0.0 > excess(bounds[1]):
        return bounds[0] if excess(bounds[0]) <= 0.0 else bounds[1]
    return float(scipy.optimize.brentq(excess, *bounds, xtol=1e-13, rtol=1e-14, maxiter=500))


def _mixed_to_unit_mass(
    weight: np.ndarray, mass: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Correct a total mass that jumps between neighboring doubles of c (enormous ratios).

    The distribution is mixed with one at a bound of the window: mixtures stay in the window.
    """
    total = math.exp(log_total_mass(weight, mass))
    bound = math.exp(low if total > 1.0 else high)
    share = (1.0 - total) / (bound - total)
    mixed = np.log((1.0 - share) * np.exp(weight) + share * bound)
    if not 0.0 <= share <= 1.0 or abs(log_total_mass(mixed, mass)) > CLIP_SLACK / 2:
        raise PymcPrivateError(
            "the mollified distribution could not be normalized",
            got="density ratios of target and reference too far apart for doubles",
            allowed="ratios of which doubles can tell the logarithms apart",
            do="a reference that gives more to what is rare under it, chosen without the data",
        )
    return np.clip(mixed, low, high)


def best_tilt_level(log_ratio: np.ndarray, mass: np.ndarray, width: float) -> float:
    """The level at which a tilt of range `width` gains most; every level is equally private.

    The log weight is t = clip(log_ratio - level, -width / 2, width / 2), and its gain on the
    estimated target is E_P[t] - log E_Q0[e^t].
    """
    ratio = _limited_log_ratio(log_ratio)
    finite = ratio > -np.inf
    if not finite.any():
        return 0.0
    target = np.where(finite, mass * np.exp(ratio - ratio[finite].max()), 0.0)
    if not target.sum() > 0.0:
        return 0.0
    target /= target.sum()
    total = float(mass.sum())

    def loss(level: float) -> float:
        weight = np.clip(ratio - level, -width / 2.0, width / 2.0)
        return math.log(_weighted_sum(np.exp(weight), mass) / total) - _weighted_sum(weight, target)

    order = np.sort(ratio[finite])
    levels = np.unique(order[np.linspace(0, len(order) - 1, 41).astype(int)])
    best = int(np.argmin([loss(level) for level in levels]))
    bounds = levels[max(best - 1, 0)], levels[min(best + 1, len(levels) - 1)]
    found = scipy.optimize.minimize_scalar(
        loss, bounds=(bounds[0] - width, bounds[1] + width), method="bounded"
    )
    return float(found.x) if found.fun < loss(levels[best]) else float(levels[best])


ROUNDING_MARGIN = 1e-11
"""Part of `rounding_margin` for sums and exponentials, nats."""
MOST_EM_STEPS = 20_000
EM_TOLERANCE = 1e-9
"""The accuracy of a projection to a hull, nats."""


def rounding_margin(widest: float, categories: int) -> float:
    """A bound on what rounding adds to the epsilon of a hull, nats.

    Of sums and exponentials, of proposals that are multiples of 2^-52, and of acceptance by 52
    bits.
    """
    return ROUNDING_MARGIN + 2.0**-51 * (categories + 2) * math.exp(widest)


class Hull:
    """All mixtures of finitely many public distributions, which differ by at most `epsilon`.

    Parameters
    ----------
    distributions : array, shape (m, k)
        Each row the probabilities of k categories; a category is possible under all rows or none.
    labels : sequence, optional
        Labels of the categories.

    Attributes
    ----------
    epsilon : float, nats
        The maximum over rows i, j and categories of log Q_i / Q_j, rounded up.

    Notes
    -----
    *Promise.* A draw of any mixture is `epsilon`-differentially private, whatever chose the
    mixture: sum l_i Q_i <= max_i Q_i <= e^epsilon min_j Q_j <= e^epsilon sum l'_j Q_j, at each
    category. The weights of the mixture are never released.

    References
    ----------
    Husain, Cranko and Nock (2019), Integral privacy for sampling.
    """

    def __init__(self, distributions: Any, labels: Sequence[Any] | None = None) -> None:
        refuse_mask(distributions, "distributions")
        try:
            rows = np.atleast_2d(np.asarray(distributions, float))
        except (TypeError, ValueError, OverflowError):
            raise DomainError(
                "a hull is of distributions on the same categories",
                got=type(distributions).__name__,
                allowed="rows of probabilities, all as long",
                do="cut the line into public cells and give the probabilities of them",
            ) from None
        self.distributions = np.array(
            [normalized_probabilities(row, "a distribution of the hull") for row in rows]
        )
        possible = self.distributions > 0.0
        if (possible.any(axis=0) != possible.all(axis=0)).any():
            raise DomainError(
                "a category is possible under all distributions of a hull, or under none",
                do="mix each with a public one that is positive everywhere",
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.distributions[:, possible.all(axis=0)])
        widest = float((logs.max(axis=0) - logs.min(axis=0)).max())
        self.epsilon = widest + rounding_margin(widest, self.distributions.shape[1])
        self.labels = labels
        self.cells: EqualMassCells | None = None

    @classmethod
    def randomized_response(cls, categories: int, epsilon: float) -> Hull:
        """Give the hull of k-ary randomized response: each row favors one category by e^epsilon."""
        k = check_count(categories, "the number of categories")
        odds = math.exp(check_width(epsilon) - 2.0 * rounding_margin(epsilon, k))
        distributions = (np.ones((k, k)) + (odds - 1.0) * np.eye(k)) / (k - 1.0 + odds)
        return cls(distributions)

    @classmethod
    def randomized_response_on_cells(cls, reference: Any, along: int, epsilon: float) -> Hull:
        """Give it on cells of equal reference mass, `along` each axis; draws are continuous.

        Parameters
        ----------
        reference : object
            A SciPy distribution, a list of independent ones, or a `Box`: with known quantiles.
        along : int
        epsilon : float, nats
        """
        base = as_reference(reference)
        if not isinstance(base, QuantileReference):
            raise DomainError(
                "cells of equal mass need a reference with known quantiles",
                got=base.text,
                allowed="a SciPy distribution, a list of independent ones, or a Box",
            )
        hull = cls.randomized_response(
            check_count(along, "cells along each axis") ** base.dimension, epsilon
        )
        hull.cells = EqualMassCells(base, along)
        return hull

    def __repr__(self) -> str:
        where = "categories" if self.cells is None else f"cells of {self.cells.reference.text}"
        rows, columns = self.distributions.shape
        return (
            f"Hull of {rows} distributions on {columns} {where}: any two differ by "
            f"{self.epsilon:.6g} nats"
        )

    def shrunk(self, epsilon: float) -> Hull:
        """Mix every distribution with the mean of all until epsilon is at most this."""
        if self.epsilon <= check_width(epsilon):
            return self
        mean = self.distributions.mean(axis=0)

        def mixed(share: float) -> Hull:
            hull = Hull((1.0 - share) * self.distributions + share * mean, self.labels)
            hull.cells = self.cells
            return hull

        share = scipy.optimize.brentq(lambda t: mixed(t).epsilon - epsilon, 0.0, 1.0, xtol=1e-12)
        while mixed(share).epsilon > epsilon:
            share = min(1.0, share + 1e-11)
        return mixed(share)


class EqualMassCells:
    """Cells of equal mass of a reference with known quantiles."""

    def __init__(self, reference: QuantileReference, along: int) -> None:
        self.reference = reference
        self.shape = (along,) * reference.dimension

    def find(self, x: np.ndarray) -> np.ndarray:
        """The cell of each row."""
        along = (self.reference.uniforms(x) * self.shape[0]).astype(np.int64)
        return np.ravel_multi_index(tuple(np.clip(along, 0, self.shape[0] - 1).T), self.shape)

    def inside(self, cells: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Draw the reference inside each cell."""
        along = np.column_stack(np.unravel_index(cells, self.shape)).astype(float)
        share = randomness.uniform(along.size).reshape(along.shape)
        return self.reference.transport((along + share) / self.shape[0])


class HullMixture(WeightedPoints):
    """One mixture of a hull, drawn by rejection from the mean of its distributions."""

    def __init__(self, hull: Hull, weights: np.ndarray) -> None:
        mean = hull.distributions.mean(axis=0)
        super().__init__(mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(mean > 0.0, np.log(weights @ hull.distributions) - np.log(mean), 0.0)
            highest = float(np.nanmax(np.log(hull.distributions.max(axis=0)) - np.log(mean)))
        self.weigh(ratio, highest, math.exp(highest))
        self._cells = hull.cells
        self._numbers = FiniteReference(mean, hull.labels).numbers

    def values(self, accepted: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Categories, or points inside cells."""
        if self._cells is not None:
            return self._cells.inside(accepted, randomness)
        return (accepted if self._numbers is None else self._numbers[accepted])[:, None]


def project_to_hull(target: np.ndarray, hull: Hull) -> np.ndarray:
    """The weights, shape (m,), of the mixture Q with the least KL(P, Q) for target probabilities P.

    By expectation maximization, until max_i E_P[Q_i / Q] <= 1 + `EM_TOLERANCE`: then KL(P, Q) is
    within `EM_TOLERANCE` of the least, since log is concave.
    """
    used = target > 0.0
    distributions, p = hull.distributions[:, used], target[used]
    if not (distributions > 0.0).all():
        raise DomainError(
            "the reference has no support where the target has mass",
            do="use a hull of distributions that are positive there",
        )
    weights = np.full(len(distributions), 1.0 / len(distributions))
    for _ in range(MOST_EM_STEPS):
        rises = distributions @ (p / (weights @ distributions))
        if rises.max() <= 1.0 + EM_TOLERANCE:
            break
        weights = weights * rises
        weights /= weights.sum()
    return weights
