"""From proved values, slopes and curvature to the envelope of least mass on each box.

With an anchor a in the box and t the distance from it, four bounds of the log density f hold:

- f <= sup f, by intervals;
- f(a + t) <= f(a) + sup <grad f, t> over the box, where f is continuous there. It is piecewise
  smooth, and PyTensor's gradient is its gradient almost everywhere; at a kink of |x| or max it
  picks one side, and the interval of its graph holds both. If that interval is bounded, f is
  Lipschitz, Clarke's generalized gradient lies in the interval, and Lebourg's mean-value theorem
  gives the bound (Clarke 1983, Theorems 2.3.7 and 2.5.1);
- f(a + t) <= f(a) + <grad f(a), t> + <t, M t> / 2, where the gradient is continuous too and M is
  above each Hessian H on the box: second-order expansion with the generalized Hessian (Hiriart-
  Urruty, Strodiot and Nguyen 1984, Theorem 2.3). In coordinates s = W t, intervals of <u_i, H u_j>
  with u the columns of W^-1 give H = W'(C + E)W, |E_ij| <= r_ij, and s'Es <= sum_ij r_ij s_i^2;
- the same without cross terms: 2 t_i t_j <= t_i^2 + t_j^2.

The first, second and fourth are products over coordinates; the third is a normal density if M is
negative definite. Whatever the anchor and W are, the bounds hold: both only set the cost.
"""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from pymc_private.samplers.log_density import Slopes
from pymc_private.samplers.envelope_pieces import Envelopes, bent, constants, log_mass
from pymc_private.samplers.log_density__target import Target

SLACK = 1e-12
"""Relative widening for the rounding of what is computed from proved ends."""
SWEEPS = 8
"""Of coordinate ascent towards the top of a box; no data is read."""
CLEAR = 6.0
"""Standard deviations between a mode and a cut."""
STEEP = 10.0
"""Largest slope at the anchor, in standard deviations, for coordinates of the Hessian."""
WELL = 1e5
"""Largest condition of a change of coordinates."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """Envelopes of N boxes and what a cut should know.

    Parameters
    ----------
    anchor : array, shape (N, d)
    pieces : Envelopes
    log_mass : array, shape (N,)
    gap : array, shape (N, d)
        How much each coordinate's width adds to the looseness, in nats, roughly.
    clear : array, shape (N, d)
        Distance from the anchor within which a cut would split a mode.
    guess : array, shape (N,)
        log of the mass below the density, roughly, where there is a mode; else -inf.
    """

    anchor: np.ndarray
    pieces: Envelopes
    log_mass: np.ndarray
    gap: np.ndarray
    clear: np.ndarray
    guess: np.ndarray

    def take(self, index: np.ndarray) -> Bounded:
        """Some of them."""
        return Bounded(
            self.anchor[index], self.pieces.take(index), self.log_mass[index], self.gap[index],
            self.clear[index], self.guess[index],
        )  # fmt: skip

    def followed_by(self, other: Bounded) -> Bounded:
        """These, then the others."""
        pairs = [
            (getattr(self, name), getattr(other, name))
            for name in ("anchor", "log_mass", "gap", "clear", "guess")
        ]
        anchor, mass, gap, clear, guess = (np.concatenate(pair) for pair in pairs)
        pieces = self.pieces.followed_by(other.pieces)
        return Bounded(anchor, pieces, mass, gap, clear, guess)


def bound_boxes(
    target: Target, lower: np.ndarray, upper: np.ndarray, start: np.ndarray, rounds: int = 1
) -> Bounded:
    """Envelopes of boxes, ends of shape (N, d).

    Parameters
    ----------
    target : Target
    lower, upper : array, shape (N, d)
    start : array, shape (N, d)
        Where to look for the top of each box from.
    rounds : int
        Newton steps on the way.
    """
    with np.errstate(all="ignore"):
        anchor, hessian = _climb(target, lower, upper, np.clip(start, lower, upper), rounds)
        (pieces, gap), *others = forms(target, lower, upper, anchor, hessian)
        mass = log_mass(pieces)
        for candidate, loose in others:
            other = log_mass(candidate)
            better = (other < mass) & (mass > -np.inf)
            pieces, mass = candidate.where(better, pieces), np.where(better, other, mass)
            gap = np.where(better[:, None], loose, gap)
        spread = _deviations(hessian)
        wide = np.minimum(upper - lower, np.sqrt(2.0 * np.pi) * spread)
        guess = target.values(anchor) + np.log(wide).sum(axis=1)
    return Bounded(anchor, pieces, mass, gap, CLEAR * spread, guess)


def forms(
    target: Target, lower: np.ndarray, upper: np.ndarray, anchor: np.ndarray, hessian: np.ndarray
) -> list[tuple[Envelopes, np.ndarray]]:
    """All the bounds, each with what every coordinate adds to its looseness.

    Parameters
    ----------
    target : Target
    lower, upper, anchor : array, shape (N, d)
    hessian : array, shape (N, d, d)
        About that of the top of each box, or NaN.

    Returns
    -------
    list of (Envelopes, array)
        The constants first; the others are infinite where they do not hold.
    """
    with np.errstate(all="ignore"):
        facts, here = target.on_boxes(lower, upper), target.on_boxes(anchor, anchor)
        flat = constants(facts.value[1], anchor - lower, upper - anchor)
        found = [(flat, np.zeros_like(lower)), _sloped(facts, here, flat)]
        if target.has_curvature:
            found += _curved(target, (lower, upper), facts, here, flat, hessian)
    known = np.isfinite(here.value[1])
    for pieces, _ in found[1:]:
        pieces.constant = np.where(known, pieces.constant, np.inf)
    return found


def _climb(
    target: Target, lower: np.ndarray, upper: np.ndarray, x: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Go towards the greatest value in each box; the last Hessian seen, shape (N, d, d)."""
    count, d = x.shape
    hessian = np.full((count, d, d), np.nan)
    if not target.has_curvature:
        return x, hessian
    for _ in range(rounds):
        slope = target.slopes_at(x)
        hessian = target.hessians_at(x)
        sane = np.isfinite(slope).all(axis=1) & np.isfinite(hessian).all(axis=(1, 2))
        step = _ascend(slope, hessian, lower - x, upper - x)
        x = np.where(sane[:, None] & np.isfinite(step), np.clip(x + step, lower, upper), x)
    return x, hessian


def _ascend(
    slope: np.ndarray, hessian: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Coordinate ascent of <slope, t> + <t, hessian t> / 2 on boxes."""
    t = np.zeros_like(slope)
    for _ in range(SWEEPS):
        for j in range(t.shape[1]):
            bend = hessian[:, j, j]
            rise = slope[:, j] + np.einsum("nk,nk->n", hessian[:, j], t) - bend * t[:, j]
            uphill = np.where(rise > 0.0, high[:, j], low[:, j])
            move = np.where(bend < 0.0, -rise / bend, uphill)
            t[:, j] = np.clip(move, low[:, j], high[:, j])
    return t


def _sloped(facts: Slopes, here: Slopes, flat: Envelopes) -> tuple[Envelopes, np.ndarray]:
    """The mean-value form; infinite where it does not hold."""
    low, high = facts.slopes
    fine = facts.continuous & np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    slack = SLACK * (np.abs(low) + np.abs(high)) + 1e-300
    low, high = (np.where(fine[:, None], end, 0.0) for end in (low - slack, high + slack))
    constant = np.where(fine, _up(here.value[1]), np.inf)
    pieces = Envelopes(
        flat.back, flat.ahead, constant, low, high, flat.curve, flat.matrix, flat.normal
    )
    return pieces, (high - low) * (flat.back + flat.ahead)


def _curved(
    target: Target,
    box: tuple[np.ndarray, np.ndarray],
    facts: Slopes,
    here: Slopes,
    flat: Envelopes,
    hessian: np.ndarray,
) -> list[tuple[Envelopes, np.ndarray]]:
    """The two second-order forms."""
    width = flat.back + flat.ahead
    low, high = here.slopes
    slope = (low + high) / 2.0
    turn, back = _coordinates(hessian, slope)
    above = target.above(*box, turn, back)
    fine = above.fine & facts.smooth & np.isfinite(slope).all(axis=1)
    matrix = np.where(fine[:, None, None], above.matrix, 0.0)
    slope = np.where(fine[:, None], slope, 0.0)
    # Roundings of the quadratic, and what is not known of the slope at the anchor.
    size = np.abs(slope) + np.einsum("njk,nk->nj", np.abs(matrix), width)
    wobble = np.where(fine[:, None], (high - low) / 2.0, 0.0) + 1e3 * SLACK * size
    constant = np.where(fine, _up(here.value[1]) + (wobble * width).sum(axis=1), np.inf)
    loose = np.where(fine[:, None], np.einsum("njk,nk->nj", above.loose, width) * width, 0.0)
    return [
        (_product(constant, slope, matrix, flat), loose + _cross(matrix) * width**2),
        (_normal(constant, slope, matrix, flat), loose),
    ]


def _factor(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a Hessian is well negative definite, and W with W'W = -H; else the unit matrix."""
    unit = np.eye(hessian.shape[1])
    safe = np.where(np.isfinite(hessian).all(axis=(1, 2))[:, None, None], hessian, unit)
    values = np.linalg.eigvalsh(safe)
    ready = values[:, -1] < 0.0
    ready &= np.sqrt(values[:, 0] / np.where(ready, values[:, -1], -1.0)) < WELL
    factor = np.linalg.cholesky(np.where(ready[:, None, None], -safe, unit))
    return ready, np.swapaxes(factor, 1, 2)


def _deviations(hessian: np.ndarray) -> np.ndarray:
    """Standard deviations of the normal density with this Hessian, or zeros."""
    ready, turn = _factor(hessian)
    return np.where(ready[:, None], np.sqrt((np.linalg.inv(turn) ** 2).sum(axis=2)), 0.0)


def _coordinates(hessian: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and its inverse: of the Hessian about a mode, else the coordinates themselves."""
    ready, turn = _factor(hessian)
    back = np.linalg.inv(turn)
    # A normal density helps where the top is no more than some deviations from the box.
    steep = np.linalg.norm(np.einsum("nkj,nk->nj", back, slope), axis=1)
    ready &= np.isfinite(back).all(axis=(1, 2)) & (steep < STEEP)
    unit = np.eye(slope.shape[1])
    kept = ready[:, None, None]
    return np.where(kept, turn, unit), np.where(kept, back, unit)


def _cross(matrix: np.ndarray) -> np.ndarray:
    """Sums of sizes of the cross terms, row by row."""
    return np.abs(matrix).sum(axis=2) - np.abs(np.diagonal(matrix, axis1=1, axis2=2))


def _product(
    constant: np.ndarray, slope: np.ndarray, matrix: np.ndarray, flat: Envelopes
) -> Envelopes:
    """Without cross terms: a bend in each coordinate, or two slopes above it."""
    curve = np.diagonal(matrix, axis1=1, axis2=2) + _cross(matrix)
    bend = bent(slope, curve, flat.back, flat.ahead)
    lift = np.maximum(curve, 0.0) / 2.0  # convex: below its chords from the anchor
    low, high = slope - lift * flat.back, slope + lift * flat.ahead
    kept = np.where(bend, curve, 0.0)
    return Envelopes(flat.back, flat.ahead, constant, low, high, kept, flat.matrix, flat.normal)


def _normal(
    constant: np.ndarray, slope: np.ndarray, matrix: np.ndarray, flat: Envelopes
) -> Envelopes:
    """A normal density, where the matrix is safely negative definite; else infinite."""
    values = np.linalg.eigvalsh(matrix)
    usable = (values[:, -1] < 0.0) & (values[:, -1] < 1e-9 * values[:, 0])
    usable &= np.isfinite(constant)
    unit = -np.eye(matrix.shape[1])
    return Envelopes(
        flat.back, flat.ahead, np.where(usable, constant, np.inf), slope, slope, flat.curve,
        np.where(usable[:, None, None], matrix, unit), usable,
    )  # fmt: skip


def _up(value: np.ndarray) -> np.ndarray:
    return value + SLACK * (1.0 + np.abs(value))
