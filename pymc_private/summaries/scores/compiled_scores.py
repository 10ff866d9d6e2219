"""Clipped scores of an outcome with two values by a compiled loop: what `clipped_scores` gives.

One predictor and an outcome of two values is what most regressions of large tables are: logistic,
probit, and whatever else has one linear predictor. A row costs a sixth of what it costs in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def two_valued_terms(
    loops: Any,
    scored: Any,
    metric: np.ndarray,
    limits: tuple[float, float],
    y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Weighted clipped scores (N, p) and factors of curvatures (N, 1, p) at outcomes y (N,).

    `limits` are C and K; `scored` are `clipped_scores.ScoredRows`. None if there are more
    predictors than one, or another number of values.
    """
    if scored.scores.shape[1:] != (2, 1):
        return None
    jacobian = np.ascontiguousarray(scored.jacobian[:, 0].T)
    vectors, factors = np.empty_like(jacobian), np.empty_like(jacobian)
    loops.two_valued_terms(
        jacobian,
        np.ascontiguousarray(metric),
        np.ascontiguousarray(scored.mass),
        np.ascontiguousarray(scored.scores[:, :, 0]),
        _given_scores(scored, y + 0.0),
        (float(limits[0]), float(limits[1])),
        vectors,
        factors,
    )
    return vectors.T, factors.T[:, None, :]


def _given_scores(scored: Any, y: np.ndarray) -> np.ndarray:
    """Scores of the outcomes, those at the nodes wherever these are outcomes."""
    first, second = scored.values.T
    found = np.where(y == first, scored.scores[:, 0, 0], scored.scores[:, 1, 0])
    others = np.flatnonzero((y != first) & (y != second))
    if len(others):
        rows = {name: np.asarray(values)[others] for name, values in scored.rows.items()}
        given = y[others, None]
        with np.errstate(all="ignore"):
            at = scored.model.scores(scored.predictors[others], rows, given)
        found[others] = at[:, 0, 0]
    return found
