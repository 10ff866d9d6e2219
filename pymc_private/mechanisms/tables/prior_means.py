"""Prior parameters of cells, weighed by the probability of the noisy counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from pymc_private.mechanisms.tables.layout import Observed
from pymc_private.mechanisms.tables.matching import log_evidence, match_sum
from pymc_private.mechanisms.tables.stacks import Stack, solve

Noisy = tuple[np.ndarray, tuple[str, float, float]]
GRAIN = 32.0
"""Noisy counts are told apart by this share of the noise's scale."""
COARSE = 2.0
"""Bins of a scale."""


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
    each = np.array(priors)

    def one(stack: Stack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, float]]]:
        laws, count = stack.laws.with_each(priors), len(stack.members)
        tilt = match_sum(laws, total, 1e-2)  # where it is right, the evidence is level in it
        scores = log_evidence(laws, tilt, total, np.repeat(each, count))
        weights = special.softmax(scores.reshape(len(each), count), axis=0)
        # More digits would say nothing.
        means = (float(f"{mean:.2g}") for mean in each @ weights)
        return tilt, zip(stack.members, means, strict=True)

    return solve([_distinct(*rows, total) for rows in families], one, len(priors))


def _distinct(noisy: np.ndarray, noise: tuple[str, float, float], total: float) -> Observed:
    """The distinct noisy counts; finer differences weigh the same under every prior."""
    grain = max(1, int(noise[1] / GRAIN))
    near = (np.round(noisy / grain) * grain).astype(np.int64)
    return Observed.distinct(near, noise, total, COARSE)
