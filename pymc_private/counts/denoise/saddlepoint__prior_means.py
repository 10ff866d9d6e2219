"""Prior parameters of cells, weighed by the probability of the noisy counts."""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from scipy import special
from pymc_private.counts.denoise.cell_grid import Observed
from pymc_private.counts.denoise.saddlepoint import log_evidence, match_sum
from pymc_private.counts.denoise.saddlepoint__stacks import Stack, solve

Noisy = tuple[np.ndarray, tuple[str, float, float]]
GRAIN = 32.0
"""Noisy counts are told apart by this share of the noise's scale."""
COARSE = 2.0
"""Bins of a scale."""
MISSED = 0.1
"""What a log probability may miss."""


def prior_means(
    families: Sequence[Noisy], total: float | None, priors: Sequence[float]
) -> list[float]:
    """Give the posterior mean of the prior parameter of a cell, of each family; 1 without a total.

    A mean, not the most likely one: where noise hides everything, that would be a lucky guess.

    Parameters
    ----------
    families : sequence of (array of int, shape (rows, d), tuple)
        Noisy counts; the law of the noise, its scale, and the least count.
    total : float or None
        Public sum of all rows of each.
    priors : sequence of float
    """
    if total is None:
        return [1.0] * len(families)
    if len(priors) == 1:
        return [priors[0]] * len(families)
    asked = [_distinct(*rows, total) for rows in families]
    found = _together(asked, total, priors)
    crude = [(i, k) for i, each in enumerate(found) for k in np.flatnonzero(each.crude).tolist()]
    for (i, k), score in zip(crude, _apart(asked, crude, total, priors), strict=True):
        found[i].scores[k] = score
    # More digits would say nothing.
    return [float(f"{special.softmax(each.scores) @ np.array(priors):.2g}") for each in found]


@dataclass(frozen=True)
class _Scores:
    """Of one family, log probabilities of its noisy counts under each prior.

    Where bins are too wide for the tilt, `crude` says so: over a bin of s counts a tilt t is taken
    for that of its middle, which leaves (s t)^2 / 24 out of the logarithm of each cell's mass.
    """

    scores: np.ndarray
    crude: np.ndarray


def _together(families: Sequence[Observed], total: float, priors: Sequence[float]) -> list[_Scores]:
    """Score all priors on one grid for each family."""
    each = np.array(priors)

    def one(stack: Stack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, _Scores]]]:
        laws, count = stack.laws.with_each(priors), len(stack.members)
        tilt = match_sum(laws, total, 1e-2)  # where it is right, the evidence is level in it
        scores = log_evidence(laws, tilt, total, np.repeat(each, count)).reshape(-1, count)
        over = np.abs(tilt).reshape(-1, count) * stack.laws.step
        limits = np.array([families[i].steepest for i in stack.members])
        crude = (over > limits) & (stack.laws.step > 1)
        own = [_Scores(scores[:, k].copy(), crude[:, k]) for k in range(count)]
        return tilt, zip(stack.members, own, strict=True)

    return solve(families, one, len(priors))


def _apart(
    families: Sequence[Observed],
    pairs: Sequence[tuple[int, int]],
    total: float,
    priors: Sequence[float],
) -> list[float]:
    """Score some families under some priors, each pair on bins that are right for its tilt."""

    def one(stack: Stack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, float]]]:
        own = [priors[k] for _, k in pairs]
        laws = stack.with_priors(own).laws
        tilt = match_sum(laws, total, 1e-2)
        scores = log_evidence(laws, tilt, total, np.array([own[m] for m in stack.members]))
        return tilt, zip(stack.members, scores.tolist(), strict=True)

    return solve([families[i] for i, _ in pairs], one, finer=True)


def _distinct(noisy: np.ndarray, noise: tuple[str, float, float], total: float) -> Observed:
    """The distinct noisy counts; finer differences weigh the same under every prior."""
    grain = max(1, int(noise[1] / GRAIN))
    near = (np.round(noisy / grain) * grain).astype(np.int64)
    steepest = float(np.sqrt(24.0 * MISSED / noisy.size))
    return replace(Observed.distinct(near, noise, total, COARSE), steepest=steepest)
