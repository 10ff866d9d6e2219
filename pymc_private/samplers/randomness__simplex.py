"""Dirichlet draws in log space, and the public grid on which probabilities leave.

Small parameters make doubles that are exactly 0 or 1, whose logarithms are infinite: NumPy's
Beta(0.01, 0.01) is exactly 1 in a third of all draws. Here log G(a) = log G(a + 1) + log(U) / a,
and what is rounded is the logarithm of a probability.
"""

from __future__ import annotations

import numpy as np
from scipy import special
from pymc_private.samplers.randomness import Uniform

LOG_STEP, LOG_FLOOR = 2.0**-30, -690.0
GRID = (
    "each logarithm of a probability rounded to a multiple of 2**-30 and cut at -690; then each "
    "table is normalized"
)
"""The low bits of a double depend on how it was made, so a draw does not keep them."""
CHUNK = 2**20


def dirichlet_draws(parameters: np.ndarray, draws: int, randomness: Uniform) -> np.ndarray:
    """Draw from Dirichlet laws, by inverse distribution functions of Gamma laws.

    Parameters
    ----------
    parameters : array, shape (..., d)
        > 0; the last axis is the simplex.
    draws : int
    randomness : Uniform

    Returns
    -------
    array, shape (draws, ..., d)
        Logarithms of probabilities, rounded to `GRID`; none is -inf, and none is 0.
    """
    cells = parameters.size
    flat = np.empty((draws, cells))
    each = max(1, CHUNK // cells)
    for start in range(0, draws, each):
        rows = min(each, draws - start)
        block = np.broadcast_to(parameters.ravel(), (rows, cells))
        flat[start : start + rows] = log_gamma_draws(block, randomness)
    logs = flat.reshape(draws, *parameters.shape)
    return round_simplex(logs - special.logsumexp(logs, axis=-1, keepdims=True))


def log_gamma_draws(shapes: np.ndarray, randomness: Uniform) -> np.ndarray:
    """Logarithms of Gamma draws, one for each shape parameter; finite however small these are."""
    u, v = randomness.uniform(2 * shapes.size).reshape(2, *shapes.shape)
    low = u < 0.5  # each tail by the function that is accurate there
    above = np.where(
        low,
        special.gammaincinv(shapes + 1.0, np.where(low, u, 0.25)),
        special.gammainccinv(shapes + 1.0, np.where(low, 0.25, 1.0 - u)),
    )
    return np.asarray(np.log(above) + np.log(v) / shapes)


def round_simplex(logs: np.ndarray) -> np.ndarray:
    """Round to the grid of logarithms and normalize again; post-processing of an ideal draw."""
    steps = np.round(np.maximum(logs, LOG_FLOOR) / LOG_STEP) * LOG_STEP
    normal = steps - special.logsumexp(steps, axis=-1, keepdims=True)
    return np.asarray(np.clip(normal, LOG_FLOOR - 1.0, -(2.0**-53)))


def probabilities(logs: np.ndarray) -> np.ndarray:
    """Give the probabilities of `round_simplex`: strictly inside (0, 1)."""
    return np.asarray(np.minimum(np.exp(logs), 1.0 - 2.0**-53))
