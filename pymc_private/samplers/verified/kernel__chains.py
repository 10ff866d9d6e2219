"""Draws of the strict proximal sampler: chains from the prior to what is published."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from pymc_private.samplers.proximal import MOST_NUMBERS, Schedule, Structure
from pymc_private.samplers.randomness import Uniform
from pymc_private.samplers.verified.kernel import Publish, StrictKernel, start
from pymc_private.samplers.verified.arithmetic__records import Records

def sample_strict(
    records: Records,
    structure: Structure,
    schedule: Schedule,
    omega: float,
    draws: int,
    randomness: Uniform,
    publish: Publish,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws of the parameters, each the end of a chain of its own.

    Parameters
    ----------
    records : Records
    structure : Structure
        The same in floats.
    schedule : Schedule
    omega : float
        How far, in l2 and whitened coordinates, a state may be from where it should be: public.
    draws : int
    randomness : Uniform
    publish : callable
        From parameters of shape (m, d) to what leaves; increasing in each coordinate.
    progress : callable
        Called with the number of finished draws (parts of one count).

    Returns
    -------
    array, shape (draws, d)

    Notes
    -----
    Each draw is within t + t_fp of the (published) posterior in total variation, with t that of the
    schedule and t_fp = k omega / sqrt(2 pi eta) for its k steps (T21). *Proof.* Let A_j be the law
    of what is published if the first j iterations are those made here, and all later ones are
    ideal, from the state of doubles that stands after them; A_0 starts with the ideal draw of the
    prior. A_j and the law that differs by an ideal state in place of the rounded one have the same
    iterations before and after, and the iteration that follows first adds N(0, eta I): normal laws
    whose centers are omega apart are within 2 Phi(omega / (2 sqrt(eta))) - 1 <= omega / sqrt(2 pi
    eta) of each other. The state is rounded k times, at the start and before every later iteration;
    the last point is not rounded but published as it is. Sum, and add the ideal chain's t.
    """
    block = max(1, MOST_NUMBERS // max(len(records.rows), 1))
    kernel = StrictKernel(records, structure, schedule.eta)
    found = []
    for first in range(0, draws, block):
        count = min(block, draws - first)
        points = start(records, count, randomness)
        for step in range(schedule.steps):
            points = kernel.step(points.rounded(omega), randomness)
            progress(first + count * (step + 1) // schedule.steps)
        found.append(points.published(records, publish))
    return np.concatenate(found) if found else np.empty((0, records.dimension))
