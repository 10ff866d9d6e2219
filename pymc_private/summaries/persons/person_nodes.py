r"""Nodes of the outcomes of a person: vectors of answers and their masses, from the family alone.

Expectations under p(y | x, theta) of all K outcomes of a person are wanted for each of many
persons. Up to 64 patterns of binary answers are all taken, with their probabilities. Else nodes are
Q points of a Sobol sequence in the unit cube of the effects and the K outcomes, in antithetic
pairs, moved by a shift that depends on the person's entries: then what the rule gets wrong differs
from person to person and averages out in a sum over many. Masses 1 / Q are tilted so that the mean
of the scores is zero, as it is under the density (control variates): expectations of what is linear
in the scores, most of a clipped score, are then exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
from scipy.special import ndtri

from pymc_private.summaries.density.outcome_nodes import OutcomeNodes
from pymc_private.summaries.persons.effect_integrals import EffectIntegral, Places
from pymc_private.summaries.scores.reference import sobol_points

FEWEST_PAIRS = 64
"""Antithetic pairs of nodes, at least."""
PAIRS_AT_1000 = 96.0
"""So many pairs at least for 1,000 persons, more as the root of their number."""
MOST_PATTERNS = 64
"""Most patterns of binary answers that are all taken."""
LEAST_MASS = 0.05
"""Least mass of a node, in units of equal masses."""
RIDGE = 1e-6
"""Added to the covariance of scores, in units of its trace."""
LARGEST = 1e100
"""Scores are cut here, so that their squares are finite and no system is singular."""
INNERMOST = 1e-6
"""Uniform numbers are at least this far from 0 and 1."""
SEED = 20260107


def person_nodes(
    family: EffectIntegral,
    predictors: np.ndarray,
    places: Places,
    entries: Sequence[np.ndarray],
    domain: tuple[float, float],
    pairs: int = FEWEST_PAIRS,
) -> OutcomeNodes:
    """Nodes of the outcomes of N persons: values (N, Q, K).

    Parameters
    ----------
    family : EffectIntegral
    predictors : array, shape (N, m)
    places : Places
    entries : sequence of array
        What is known of the persons, first axis N: it decides the shift.
    domain : tuple of float
        Ends to which outcomes are clipped, as data are.
    pairs : int
        Antithetic pairs of nodes, where not all patterns are taken: a power of 2.
    """
    width, d = places.has.shape[1], places.effects
    with np.errstate(all="ignore"):  # no warning may depend on a record
        if all_patterns_fit(family, width):
            values, mass = _all_patterns(family, predictors, places)
        else:
            unit = _shifted(_cube(width + d, pairs), entries)
            inner = np.clip(unit, INNERMOST, 1.0 - INNERMOST)
            z = ndtri(inner[..., :d])
            values = family.outcomes(predictors, places, z, inner[..., d:])
            mass = tilted_mass(family.scores(predictors, places, values))
        total = mass.sum(axis=1)
        sound = np.isfinite(total) & (total > 0.0)
        mass = np.where(sound[:, None], mass / np.where(sound, total, 1.0)[:, None], 0.0)
    return OutcomeNodes(values, mass, np.clip(values, *domain), total)


def all_patterns_fit(family: EffectIntegral, width: int) -> bool:
    """Whether all answers of so many rows are taken."""
    return family.is_binary and 2**width <= MOST_PATTERNS


def _all_patterns(
    family: EffectIntegral, predictors: np.ndarray, places: Places
) -> tuple[np.ndarray, np.ndarray]:
    """All answers with their probabilities; places without a row are 0."""
    patterns = np.array(list(product((0.0, 1.0), repeat=places.has.shape[1])))
    values = np.broadcast_to(patterns, (len(places.has), *patterns.shape))
    possible = ~((values == 1.0) & ~places.has[:, None]).any(axis=2)
    logs = family.log_density(predictors[None], places, values)[0]
    return values, np.where(possible, np.exp(logs), 0.0)


@cache
def _cube(dimensions: int, pairs: int) -> np.ndarray:
    return sobol_points(dimensions, pairs, 0)


def pairs_for(persons: float, most: int) -> int:
    """Pairs of nodes for so many persons, a power of 2 of at most `most`.

    A center that Q nodes give leaves clipped scores a mean of order 1 / Q, which the root of the
    number of persons multiplies: with 64 nodes and 1,000 persons it was up to .8 standard
    deviations of a sum of scores, with 256 at most .2.
    """
    wanted = PAIRS_AT_1000 * np.sqrt(persons / 1000.0)
    found = 2 ** int(np.ceil(np.log2(max(wanted, 1.0))))
    return min(max(found, FEWEST_PAIRS), most)


def _shifted(points: np.ndarray, entries: Sequence[np.ndarray]) -> np.ndarray:
    """Points (N, 2 Q, d) moved around the torus by what the entries are, and their mirrors."""
    rng, count = np.random.default_rng(SEED), len(entries[0]) if entries else 1
    shift = np.zeros((count, points.shape[1]))
    for array in entries:
        flat = np.asarray(array, dtype=float).reshape(count, -1)
        for column in flat.T:
            shift += np.mod(column[:, None] * rng.uniform(10.0, 100.0, points.shape[1]), 1.0)
    moved = np.mod(points + np.where(np.isfinite(shift), shift, 0.0)[:, None], 1.0)
    return np.concatenate([moved, 1.0 - moved], axis=1)


def tilted_mass(scores: np.ndarray) -> np.ndarray:
    """Masses (N, Q) near 1 / Q under which scores (N, Q, m) have the mean 0."""
    count, q, m = scores.shape
    usable = np.isfinite(scores).all(axis=2)
    scores = np.clip(np.where(usable[..., None], scores, 0.0), -LARGEST, LARGEST)
    mean = scores.sum(axis=1) / q
    away = scores - mean[:, None]
    covariance = np.empty((count, m, m))
    for k in range(m):
        covariance[:, k] = (away[..., k, None] * away).sum(axis=1) / q
    trace = np.trace(covariance, axis1=1, axis2=2)
    ridge = RIDGE * np.where(trace > 0.0, trace, 1.0)
    slope = np.linalg.solve(covariance + ridge[:, None, None] * np.eye(m), mean[..., None])[..., 0]
    tilt = np.ones((count, q))
    for k in range(m):
        tilt -= slope[:, k, None] * away[..., k]
    return np.where(usable, np.maximum(tilt, LEAST_MASS), 0.0) / q
