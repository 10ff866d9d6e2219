"""Adaptive rejection sampling from interval envelopes.

The box of the parameters is partitioned into cells; on each, interval arithmetic proves an
upper bound (an envelope) of the log density. Proposals come from the envelope and are accepted
with probability density / envelope. Cells with many rejections are cut, so that the envelope
closes in where the posterior is.

*Theorem.* Let the envelope of trial k be fixed by what happened before it (here: before its
batch). Given that past, the proposal lies in B and is accepted with probability a_k P(B),
where P is the posterior and a_k the acceptance probability of this envelope, known from the
past. So the next accepted point lies in B with probability P(B) sum_k E[a_k 1(none was
accepted since)] = P(B): accepted points are independent draws from P, however the past refined
the envelope, provided that a_k stays above a positive number. It does: the mass of a cell is
at most that of its constant bound, and the sum of those never rises when cells are cut
(inclusion isotonicity) and is finite before the first trial. (Gilks and Wild 1992 for adaptive
rejection; real arithmetic, ideal uniform numbers.)

*Envelopes.* With an anchor a in the cell and t the distance from it, four bounds of the log
density f hold:

- f <= sup f, by interval arithmetic;
- f(a + t) <= f(a) + sup <grad f, t> over the cell, where f is continuous there. It is
  piecewise smooth, and PyTensor's gradient is its gradient almost everywhere; at a kink of |x|
  or max it picks one side, and the interval of its graph holds both. If that interval is
  bounded, f is Lipschitz, Clarke's generalized gradient lies in the interval, and Lebourg's
  mean-value theorem gives the bound (Clarke 1983, Theorems 2.3.7 and 2.5.1);
- f(a + t) <= f(a) + <grad f(a), t> + <t, M t> / 2, where the gradient is continuous too and M
  bounds each Hessian H on the cell from above: second-order expansion with the generalized
  Hessian (Hiriart-Urruty, Strodiot and Nguyen 1984, Theorem 2.3). In coordinates s = W t,
  intervals of <u_i, H u_j> with u the columns of W^-1 give H = W'(C + E)W, |E_ij| <= r_ij, and
  s'Es <= sum_ij r_ij s_i^2;
- the same without cross terms: 2 t_i t_j <= t_i^2 + t_j^2.

The first, second and fourth are products over coordinates; the third is a normal density if M
is negative definite. Whatever the anchor and W are, the bounds hold: both only set the cost.

Running time and the number of rejected trials depend on the data and stay with the curator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds, propagate_bounds
from pymc_private.certificates.linear_predictors import NotConcave
from pymc_private.certificates.log_concave import concavity
from pymc_private.certificates.record_bounds import RecordBounds
from pymc_private.certificates.restrict import trim_advice
from pymc_private.errors import PymcPrivateError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_graph import unclipped_record
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import format_count
from pymc_private.samplers.envelope_pieces import (
    Envelopes,
    constant_envelopes,
    draw_from_envelopes,
    envelope_height,
    keeps_curvature,
    log_mass,
)
from pymc_private.samplers.log_density import DensitySlopes, Target
from pymc_private.samplers.randomness import Randomness, has_grid, standard_normal

LARGEST_DIMENSION = 6
"""Most parameters: cells grow exponentially with their number, and beyond this a draw may take
hours."""
MOST_RECORDS = {5: 100_000, 6: 20_000}
"""Most records by number of parameters; fewer parameters, any number of records."""
MOST_TRIAL_CELLS = 256
"""Cells tried to bound the prior density, or a clipped record."""
MOST_UNRESOLVED_NATS = 7.0
"""Nats between envelope and density that no cut of cells removes: about 1,100 trials per draw."""
MOST_CELLS = 200_000
"""A cap on memory of about 200 MB. Beyond it only cells of infinite mass are cut; draws stay exact,
at the acceptance that was reached."""
FIRST_NEWTON_STEPS = 6
"""Newton steps on the whole box; cells cut from it start where they stopped."""
REJECTIONS_PER_CUT = 6
"""Rejections that pay for a cut: they cost about as much as its bounds."""
SMALLEST_BATCH, LARGEST_BATCH = 64, 2048
"""Trials in a batch."""
LOW_ACCEPTANCE, EXCESS_MASS = 0.01, 2.0
"""Acceptance below which cells are also cut for their mass, and by how many nats it must exceed the
estimated posterior mass."""
OUTSIDE_COST = 1.0 / 16.0
"""Cost of a proposal outside of its cell, relative to an evaluated one."""
HEIGHT_TOLERANCE = 1e-9
"""Relative rounding of the height of an envelope."""
SLACK = 1e-12
"""Relative widening for the rounding of numbers computed from proved bounds."""
ASCENT_SWEEPS = 8
"""Sweeps of coordinate ascent towards the maximum on a box."""
CUT_CLEARANCE = 6.0
"""Standard deviations kept between a mode and a cut."""
STEEPEST_ANCHOR = 10.0
"""Largest norm of the slope at the anchor, times standard deviations, for Hessian coordinates."""
LARGEST_CONDITION = 1e5
"""Largest condition number of a change of coordinates."""


class EnvelopeTooLow(PymcPrivateError):
    """A density was proved to exceed its proved envelope: an interval rule is wrong."""


def sample_by_rejection(
    target: Target,
    draws: int,
    randomness: Randomness,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws from the posterior on its box, shape (draws, d); exact in real arithmetic.

    `progress` counts accepted draws. How fast it moves depends on the data: for the curator alone.

    Raises
    ------
    EnvelopeTooLow
        An interval rule is wrong. No draw is made then.
    """
    cells = Partition(target)
    accepted = np.empty((0, target.dimension))
    rate = 0.0
    while len(accepted) < draws:
        cells.close(partial(progress, len(accepted)))
        wanted = 1.1 * (draws - len(accepted)) / max(rate, 1e-9)
        most = SMALLEST_BATCH
        if rate >= LOW_ACCEPTANCE:
            most = min(LARGEST_BATCH, max(SMALLEST_BATCH, REJECTIONS_PER_CUT * len(cells)))
        size = int(np.clip(wanted, SMALLEST_BATCH, most))
        found = _propose_and_accept(cells, target, randomness, size)
        rate = len(found) / size
        accepted = np.concatenate([accepted, found[: draws - len(accepted)]])
        progress(len(accepted))
        cells.refine(rate)
    return accepted


def _propose_and_accept(
    cells: Partition, target: Target, randomness: Randomness, size: int
) -> np.ndarray:
    """Propose from the current envelope; return accepted points and count misses by cell."""
    d = target.dimension
    uniforms = randomness.uniform(size * (2 + 2 * d)).reshape(size, 2 + 2 * d)
    index = cells.choose(uniforms[:, 0])
    envelopes = cells.cell_envelopes.envelopes.take(index)
    finite = np.isfinite(envelopes.constant)
    t = draw_from_envelopes(
        envelopes, uniforms[:, 2:].reshape(size, d, 2), standard_normal(randomness, size, d)
    )
    points = cells.cell_envelopes.anchor[index] + t
    lower, upper = cells.lower[index], cells.upper[index]
    outside = envelopes.normal & ((points < lower) | (points > upper)).any(axis=1)
    points = np.clip(points, lower, upper)
    tried = np.flatnonzero(finite & ~outside)
    values = target.values(points[tried])
    heights = envelope_height(envelopes.take(tried), t[tried])
    _check_envelope(target, points[tried], values, heights)
    # The log ratio is at most 0 in real arithmetic; a density of zero rejects.
    passed = np.log(uniforms[tried, 1]) < np.minimum(values - heights, 0.0)
    cost = np.where(outside, OUTSIDE_COST, 1.0)
    cost[tried[passed]] = 0.0
    np.add.at(cells.misses, index, cost)
    return points[tried[passed]]


def _check_envelope(
    target: Target, points: np.ndarray, values: np.ndarray, heights: np.ndarray
) -> None:
    """Raise if the density is proved to lie above its envelope by more than rounding."""
    most = heights + HEIGHT_TOLERANCE * (1.0 + np.abs(heights))
    suspects = values > most
    if np.any(suspects) and np.any(target.value_bounds(points[suspects])[0] > most[suspects]):
        raise EnvelopeTooLow(
            "an envelope lies below the density: an interval rule is wrong",
            got="a point whose log density is proved to exceed its proved bound",
            do="report the model; draw with another sampler until then",
        )


class Partition:
    """The current partition of the box into cells, with their envelopes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        lower, upper = target.lower[None], target.upper[None]
        start = (lower + upper) / 2.0
        self.lower, self.upper = lower, upper
        self.cell_envelopes = build_envelopes(target, lower, upper, start, FIRST_NEWTON_STEPS)
        self.misses = np.zeros(1)

    def __len__(self) -> int:
        return len(self.lower)

    def cut(self, index: np.ndarray) -> bool:
        """Cut cells across the coordinate that contributes most to looseness, all at once.

        Cells without mass are dropped: the density is zero there. False if no cell could be cut.
        """
        axis, middle = self._cut_positions(index)
        inside = (self.lower[index, axis] < middle) & (middle < self.upper[index, axis])
        # A cell between adjacent floats cannot be cut; its envelope is as tight as possible.
        index, axis, middle = index[inside], axis[inside], middle[inside]
        self.misses[index] = 0.0
        if not len(index):
            return False
        rows = np.arange(len(index))
        left, right = self.upper[index].copy(), self.lower[index].copy()
        left[rows, axis], right[rows, axis] = middle, middle
        lower = np.concatenate([self.lower[index], right])
        upper = np.concatenate([left, self.upper[index]])
        start = np.tile(self.cell_envelopes.anchor[index], (2, 1))
        found = build_envelopes(self._target, lower, upper, start)
        self._replace(index, lower, upper, found)
        return True

    def _cut_positions(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinate and position of each cut: the middle, or beside a mode that lies there."""
        lower, upper = self.lower[index], self.upper[index]
        width, whole = upper - lower, self._target.upper - self._target.lower
        looseness = self.cell_envelopes.looseness[index]
        informative = (looseness > 0.0).any(axis=1)[:, None] & np.isfinite(looseness)
        axis = np.argmax(np.where(informative, looseness, width / whole), axis=1)
        rows = np.arange(len(index))
        low, high = lower[rows, axis], upper[rows, axis]
        anchor = self.cell_envelopes.anchor[index, axis]
        clearance = self.cell_envelopes.clearance[index, axis]
        middle = low + (high - low) / 2.0
        beside = np.where(middle >= anchor, anchor + clearance, anchor - clearance)
        splits = (np.abs(middle - anchor) < clearance) & (low < beside) & (beside < high)
        return axis, np.where(splits, beside, middle)

    def _replace(
        self, index: np.ndarray, lower: np.ndarray, upper: np.ndarray, found: CellEnvelopes
    ) -> None:
        kept = np.ones(len(self), bool)
        kept[index] = False
        new = found.log_mass > -np.inf
        self.lower = np.concatenate([self.lower[kept], lower[new]])
        self.upper = np.concatenate([self.upper[kept], upper[new]])
        self.misses = np.concatenate([self.misses[kept], np.zeros(new.sum())])
        self.cell_envelopes = self.cell_envelopes.take(kept).followed_by(found.take(new))

    def close(self, each_time: Callable[[], None] = lambda: None) -> None:
        """Cut until no mass is infinite, since such an envelope cannot be sampled."""
        while True:
            each_time()
            infinite = np.flatnonzero(np.isposinf(self.cell_envelopes.log_mass))
            if not len(infinite) or not self.cut(infinite):
                return

    def refine(self, rate: float = 1.0) -> None:
        """Cut the cells whose rejections have paid for it.

        While acceptance is low, also cut every cell whose envelope alone outweighs the estimated
        posterior mass, all at once.
        """
        cut = self.misses >= REJECTIONS_PER_CUT
        if rate < LOW_ACCEPTANCE:
            posterior_mass = np.max(self.cell_envelopes.log_mass_estimate)
            cut |= self.cell_envelopes.log_mass > posterior_mass + EXCESS_MASS
        ready = np.flatnonzero(cut)
        room = MOST_CELLS - len(self)
        if len(ready) and room > 0:
            ready = ready[np.argsort(-self.misses[ready])][: min(room, LARGEST_BATCH)]
            self.cut(ready)

    def choose(self, uniforms: np.ndarray) -> np.ndarray:
        """Indices of cells, with probabilities proportional to the masses of their envelopes."""
        masses = self.cell_envelopes.log_mass
        weights = np.exp(masses - masses.max())
        weights[np.isnan(weights)] = 1.0  # infinite masses that no cut makes finite
        total = np.cumsum(weights)
        found = np.searchsorted(total, uniforms * total[-1], side="right")
        return np.minimum(found, len(self) - 1)


@dataclass(frozen=True, eq=False)
class CellEnvelopes:
    """Envelopes of N boxes, with facts that guide cuts.

    Parameters
    ----------
    anchor : array, shape (N, d)
    envelopes : Envelopes
    log_mass : array, shape (N,)
    looseness : array, shape (N, d)
        Rough contribution of each coordinate's width to envelope minus density, in nats.
    clearance : array, shape (N, d)
        Distance from the anchor within which a cut would split a mode.
    log_mass_estimate : array, shape (N,)
        Rough log mass of the density itself where there is a mode; otherwise -inf.
    """

    anchor: np.ndarray
    envelopes: Envelopes
    log_mass: np.ndarray
    looseness: np.ndarray
    clearance: np.ndarray
    log_mass_estimate: np.ndarray

    def take(self, index: np.ndarray) -> CellEnvelopes:
        """The envelopes of some boxes."""
        return CellEnvelopes(
            self.anchor[index], self.envelopes.take(index), self.log_mass[index],
            self.looseness[index], self.clearance[index], self.log_mass_estimate[index],
        )  # fmt: skip

    def followed_by(self, other: CellEnvelopes) -> CellEnvelopes:
        """These envelopes, then the others."""
        pairs = [
            (getattr(self, name), getattr(other, name))
            for name in ("anchor", "log_mass", "looseness", "clearance", "log_mass_estimate")
        ]
        anchor, mass, looseness, clearance, estimate = (np.concatenate(pair) for pair in pairs)
        envelopes = self.envelopes.followed_by(other.envelopes)
        return CellEnvelopes(anchor, envelopes, mass, looseness, clearance, estimate)


def build_envelopes(
    target: Target, lower: np.ndarray, upper: np.ndarray, start: np.ndarray, rounds: int = 1
) -> CellEnvelopes:
    """Envelopes of least mass on boxes with bounds `lower` and `upper` of shape (N, d).

    The maximum of each box is sought from `start` in so many rounds of Newton steps; any anchor is
    sound.
    """
    with np.errstate(all="ignore"):
        anchor, hessian = _climb_to_mode(target, lower, upper, np.clip(start, lower, upper), rounds)
        (envelopes, looseness), *others = envelope_forms(target, lower, upper, anchor, hessian)
        mass = log_mass(envelopes)
        for candidate, looseness_of_it in others:
            mass_of_it = log_mass(candidate)
            better = (mass_of_it < mass) & (mass > -np.inf)
            envelopes = candidate.where(better, envelopes)
            mass = np.where(better, mass_of_it, mass)
            looseness = np.where(better[:, None], looseness_of_it, looseness)
        spread = _standard_deviations(hessian)
        width = np.minimum(upper - lower, np.sqrt(2.0 * np.pi) * spread)
        estimate = target.values(anchor) + np.log(width).sum(axis=1)
    clearance = CUT_CLEARANCE * spread
    return CellEnvelopes(anchor, envelopes, mass, looseness, clearance, estimate)


def envelope_forms(
    target: Target, lower: np.ndarray, upper: np.ndarray, anchor: np.ndarray, hessian: np.ndarray
) -> list[tuple[Envelopes, np.ndarray]]:
    """All bounds of the log density, each with the contributions of coordinates to its looseness.

    The constant bound comes first; the others are infinite where they do not hold. `hessian` is
    that near the maximum of each box, (N, d, d), or NaN: it sets the cost alone.
    """
    with np.errstate(all="ignore"):
        facts, here = target.on_boxes(lower, upper), target.on_boxes(anchor, anchor)
        flat = constant_envelopes(facts.value[1], anchor - lower, upper - anchor)
        found = [(flat, np.zeros_like(lower)), _mean_value_form(facts, here, flat)]
        if target.has_curvature:
            found += _second_order_forms(target, (lower, upper), facts, here, flat, hessian)
    known = np.isfinite(here.value[1])
    for envelopes, _ in found[1:]:
        envelopes.constant = np.where(known, envelopes.constant, np.inf)
    return found


def _mean_value_form(
    facts: DensitySlopes, here: DensitySlopes, flat: Envelopes
) -> tuple[Envelopes, np.ndarray]:
    """Envelopes by the mean-value theorem; infinite where they do not hold."""
    low, high = facts.slopes
    valid = facts.continuous & np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    slack = SLACK * (np.abs(low) + np.abs(high)) + 1e-300
    low, high = (np.where(valid[:, None], side, 0.0) for side in (low - slack, high + slack))
    constant = np.where(valid, _round_up(here.value[1]), np.inf)
    envelopes = Envelopes(
        flat.to_lower, flat.to_upper, constant, low, high, flat.curve, flat.matrix, flat.normal
    )
    return envelopes, (high - low) * (flat.to_lower + flat.to_upper)


def _second_order_forms(
    target: Target,
    box: tuple[np.ndarray, np.ndarray],
    facts: DensitySlopes,
    here: DensitySlopes,
    flat: Envelopes,
    hessian: np.ndarray,
) -> list[tuple[Envelopes, np.ndarray]]:
    """The two second-order envelopes: without cross terms, and a normal density."""
    width = flat.to_lower + flat.to_upper
    low, high = here.slopes
    slope = (low + high) / 2.0
    w, w_inverse = _mode_coordinates(hessian, slope)
    above = target.hessian_upper_bound(*box, w, w_inverse)
    valid = above.finite & facts.smooth & np.isfinite(slope).all(axis=1)
    matrix = np.where(valid[:, None, None], above.matrix, 0.0)
    slope = np.where(valid[:, None], slope, 0.0)
    # Rounding of the quadratic, and the uncertainty of the slope at the anchor.
    size = np.abs(slope) + np.einsum("njk,nk->nj", np.abs(matrix), width)
    slope_error = np.where(valid[:, None], (high - low) / 2.0, 0.0) + 1e3 * SLACK * size
    lift = (slope_error * width).sum(axis=1)
    constant = np.where(valid, _round_up(here.value[1]) + lift, np.inf)
    looseness = np.einsum("njk,nk->nj", above.looseness, width) * width
    looseness = np.where(valid[:, None], looseness, 0.0)
    return [
        (_product_form(constant, slope, matrix, flat), looseness + _cross_terms(matrix) * width**2),
        (_normal_form(constant, slope, matrix, flat), looseness),
    ]


def _product_form(
    constant: np.ndarray, slope: np.ndarray, matrix: np.ndarray, flat: Envelopes
) -> Envelopes:
    """The form without cross terms: a curvature in each coordinate, or two slopes above it."""
    curve = np.diagonal(matrix, axis1=1, axis2=2) + _cross_terms(matrix)
    bent = keeps_curvature(slope, curve, flat.to_lower, flat.to_upper)
    lift = np.maximum(curve, 0.0) / 2.0  # convex: below its chords from the anchor
    low, high = slope - lift * flat.to_lower, slope + lift * flat.to_upper
    kept = np.where(bent, curve, 0.0)
    return Envelopes(
        flat.to_lower, flat.to_upper, constant, low, high, kept, flat.matrix, flat.normal
    )


def _normal_form(
    constant: np.ndarray, slope: np.ndarray, matrix: np.ndarray, flat: Envelopes
) -> Envelopes:
    """The normal density where the matrix is safely negative definite; otherwise infinite."""
    values = np.linalg.eigvalsh(matrix)
    usable = (values[:, -1] < 0.0) & (values[:, -1] < 1e-9 * values[:, 0])
    usable &= np.isfinite(constant)
    unit = -np.eye(matrix.shape[1])
    return Envelopes(
        flat.to_lower, flat.to_upper, np.where(usable, constant, np.inf), slope, slope, flat.curve,
        np.where(usable[:, None, None], matrix, unit), usable,
    )  # fmt: skip


def _cross_terms(matrix: np.ndarray) -> np.ndarray:
    """Sums of the sizes of off-diagonal entries, row by row."""
    return np.abs(matrix).sum(axis=2) - np.abs(np.diagonal(matrix, axis1=1, axis2=2))


def _round_up(value: np.ndarray) -> np.ndarray:
    return value + SLACK * (1.0 + np.abs(value))


def _climb_to_mode(
    target: Target, lower: np.ndarray, upper: np.ndarray, x: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Newton steps towards the maximum in each box; the points, and the last Hessians (N, d, d)."""
    count, d = x.shape
    hessian = np.full((count, d, d), np.nan)
    if not target.has_curvature:
        return x, hessian
    for _ in range(rounds):
        slope = target.slopes_at(x)
        hessian = target.hessians_at(x)
        finite = np.isfinite(slope).all(axis=1) & np.isfinite(hessian).all(axis=(1, 2))
        step = _ascend_quadratic(slope, hessian, lower - x, upper - x)
        x = np.where(finite[:, None] & np.isfinite(step), np.clip(x + step, lower, upper), x)
    return x, hessian


def _ascend_quadratic(
    slope: np.ndarray, hessian: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Coordinate ascent of <slope, t> + <t, hessian t> / 2 on boxes."""
    t = np.zeros_like(slope)
    for _ in range(ASCENT_SWEEPS):
        for j in range(t.shape[1]):
            curvature = hessian[:, j, j]
            rise = slope[:, j] + np.einsum("nk,nk->n", hessian[:, j], t) - curvature * t[:, j]
            uphill = np.where(rise > 0.0, high[:, j], low[:, j])
            move = np.where(curvature < 0.0, -rise / curvature, uphill)
            t[:, j] = np.clip(move, low[:, j], high[:, j])
    return t


def _negative_definite_factor(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether a Hessian is safely negative definite, and W with W'W = -H, or the unit matrix."""
    unit = np.eye(hessian.shape[1])
    safe = np.where(np.isfinite(hessian).all(axis=(1, 2))[:, None, None], hessian, unit)
    values = np.linalg.eigvalsh(safe)
    ready = values[:, -1] < 0.0
    ready &= np.sqrt(values[:, 0] / np.where(ready, values[:, -1], -1.0)) < LARGEST_CONDITION
    factor = np.linalg.cholesky(np.where(ready[:, None, None], -safe, unit))
    return ready, np.swapaxes(factor, 1, 2)


def _standard_deviations(hessian: np.ndarray) -> np.ndarray:
    """Standard deviations of the normal density with a given Hessian, or zeros."""
    ready, w = _negative_definite_factor(hessian)
    return np.where(ready[:, None], np.sqrt((np.linalg.inv(w) ** 2).sum(axis=2)), 0.0)


def _mode_coordinates(hessian: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and its inverse: from the Hessian near a mode, otherwise the unit matrix."""
    ready, w = _negative_definite_factor(hessian)
    w_inverse = np.linalg.inv(w)
    # A normal density helps where the mode is at most a few standard deviations from the anchor.
    steep = np.linalg.norm(np.einsum("nkj,nk->nj", w_inverse, slope), axis=1)
    ready &= np.isfinite(w_inverse).all(axis=(1, 2)) & (steep < STEEPEST_ANCHOR)
    unit = np.eye(slope.shape[1])
    kept = ready[:, None, None]
    return np.where(kept, w, unit), np.where(kept, w_inverse, unit)


def check_rejection(private: PrivateModel) -> None:
    """Refuse a model for which rejection sampling might not finish. Reads no data.

    Raises
    ------
    Unsupported
        Too many parameters, discrete or simplex parameters, an infinite box, an unbounded prior
        density, or a clipped likelihood that intervals bound too loosely.
    """
    _check_dimension(private)
    for rv in private.base.free_RVs:
        _check_parameter_box(private, rv)
    _check_prior_bounded(private)
    _check_clipped_likelihood(private)


def _check_dimension(private: PrivateModel) -> None:
    """Refuse too many parameters, and too many records where their number is public."""
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > LARGEST_DIMENSION:
        raise Unsupported(
            "the box sampler does not cover this many parameters",
            got=format_count(size, "scalar parameter"),
            allowed=f"at most {LARGEST_DIMENSION}",
            do="fix or merge some parameters, or write a log-concave model",
        )
    most = MOST_RECORDS.get(size)
    if most is None:
        return
    if private.neighbors == ADD_REMOVE:
        raise Unsupported(
            "how long the box sampler takes depends on the number of records, which is protected",
            got=f"{size} scalar parameters under add/remove",
            allowed="at most 4",
            do="neighbors='substitute', or fewer parameters",
        )
    try:
        concavity(private)
    except NotConcave as reason:
        raise Unsupported(
            "the box sampler might not finish: five or six parameters it draws where the posterior "
            "is proved to be log-concave",
            got=str(reason),
            allowed="at most 4 parameters of any shape",
            do="fix or merge some parameters, or sampler=pmp.samplers.Nuts(tv=...), whose claim is "
            "conditional",
        ) from None
    if private.n > most:
        raise Unsupported(
            "the box sampler would take hours for so many records and parameters",
            got=f"{private.n} records, {size} scalar parameters",
            allowed=f"at most {most} records with {size} parameters",
            do="fewer parameters, or another sampler",
        )


def _check_parameter_box(private: PrivateModel, rv: Variable) -> None:
    """Refuse all but a continuous variable in a finite box that holds many doubles."""
    box = private.box[rv.name]
    if not str(rv.type.dtype).startswith("float") or box.within is not None:
        raise Unsupported(
            f"the box sampler cannot draw '{rv.name}'",
            got="a discrete or simplex-valued parameter",
            allowed="continuous parameters with an interval each",
            do="write the model with free continuous parameters (a Beta probability instead of "
            "a two-cell Dirichlet; marginalize discrete ones)",
        )
    if not box.is_finite:
        raise Unsupported(
            f"the box sampler needs finite bounds for '{rv.name}'",
            got="an unbounded parameter",
            allowed="every parameter within a finite box",
            do=trim_advice(private, [rv.name]),
        )
    if not has_grid(box.lower, box.upper):
        raise Unsupported(
            f"the box of '{rv.name}' is too narrow or too wide for double precision",
            got=f"[{np.min(box.lower):.6g}, {np.max(box.upper):.6g}]",
            allowed="finite width, more than about 2**-42 of the largest bound",
            do="shift or scale the parameter in the model",
        )


def _check_prior_bounded(private: PrivateModel) -> None:
    """Refuse a prior that intervals do not bound on small cells, or that is zero on the region.

    In both cases no draw would ever be accepted.
    """
    prior, parameters = private.graph.prior, private.graph.parameters
    shared = {v: Bounds.point(v.get_value()) for v in public_data([prior])}

    def upper(box: dict[str, Bounds]) -> float:
        given = {parameters[name]: b for name, b in box.items()} | shared
        return float(propagate_bounds([prior], given)[prior].upper)

    bounded, zero = _bounded_on_cells(private.box, upper)
    if zero or not bounded:
        raise Unsupported(
            f"the prior density is {'zero' if bounded else 'not bounded'} on the region",
            got=", ".join(private.box),
            allowed="regions where intervals bound the prior density from above, not all zero",
            do="trim away from the edge where the prior density is infinite, to where it is not "
            "zero",
        )


def _check_clipped_likelihood(private: PrivateModel) -> None:
    """Refuse where intervals bound a record by its clip alone: no cut of cells tightens that."""
    clip = private.graph.clip
    if clip is None:
        return
    clipped = sum(w.count for w in private.graph.windows) or private.n
    power = float(private.power)
    gap = power * clipped * (clip[1] - clip[0])
    protected = (
        private.neighbors == ADD_REMOVE
    )  # then neither the decision nor the message may reveal n
    if gap <= MOST_UNRESOLVED_NATS and not protected:
        return
    graph = replace(private.graph, record=unclipped_record(private.graph), clip=None)
    rows = RecordBounds(graph, private.sources, private.n)

    def upper(box: dict[str, Bounds]) -> float:
        return float(np.max(rows.trail(box)[graph.record].upper))

    if not _bounded_on_cells(private.box, upper)[0]:
        raise Unsupported(
            "the box sampler would hardly ever accept a draw of this clipped likelihood",
            got="somewhere on the region nothing but the clip is known of a record"
            + ("" if protected else f": {gap:.4g} nats for {clipped} of them at power {power:.4g}"),
            allowed="log-likelihoods that intervals bound, or at most "
            f"{MOST_UNRESOLVED_NATS:g} nats",
            do="trim away from the edge (a scale of zero), write the likelihood with Ops that have "
            "an interval rule, or narrow the clip; a smaller budget per draw tempers more",
        )


def _bounded_on_cells(
    whole: Mapping[str, Bounds], upper: Callable[[dict[str, Bounds]], float]
) -> tuple[bool, bool]:
    """Whether upper bounds are finite on small cells of a box, and whether all are -inf."""
    queue, zero = [dict(whole)], True
    for _ in range(MOST_TRIAL_CELLS):
        if not queue:
            break
        box = queue.pop()
        bound = upper(box)
        zero = zero and bound == -np.inf
        if not bound < np.inf:
            queue += _halve_widest(box, whole)
    return not queue, zero


def _halve_widest(box: dict[str, Bounds], whole: Mapping[str, Bounds]) -> list[dict[str, Bounds]]:
    """Halves of a box, cut across the coordinate that is widest relative to the whole."""
    widths = {
        (name, i): (b.upper[i] - b.lower[i]) / (whole[name].upper[i] - whole[name].lower[i])
        for name, b in box.items()
        for i in np.ndindex(np.shape(b.lower))
    }
    name, index = max(widths, key=lambda key: widths[key])
    lower, upper = np.array(box[name].lower), np.array(box[name].upper)
    middle = (lower[index] + upper[index]) / 2.0
    left, right = upper.copy(), lower.copy()
    left[index], right[index] = middle, middle
    return [box | {name: Bounds(lower, left)}, box | {name: Bounds(right, upper)}]
