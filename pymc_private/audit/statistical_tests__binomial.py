"""Exact limits of a probability from a count (Clopper and Pearson 1934)."""

from __future__ import annotations

import numpy as np
from typing import Any
from scipy import special
from pymc_private.privacy.validation import refuse_mask

# The inverse of the incomplete beta errs by some 1e-12; the limits go outward by more.
_WIDENED = 1e-9


def at_most(successes: float, trials: int, probability: float) -> float:
    """Probability of at most so many successes."""
    if not 0.0 <= successes < trials:
        return float(successes >= trials)
    k = float(np.floor(successes))
    return float(special.betainc(trials - k, k + 1.0, 1.0 - probability))


def lower_limit(successes: Any, trials: Any, error: float) -> Any:
    """Least probability that explains a count, but for `error`.

    Parameters
    ----------
    successes, trials : float or array
        Expected counts may be fractions: then the limit is that of a typical run.
    error : float
        Probability with which the limit exceeds the truth, at most.

    Returns
    -------
    float or array
        0 where nothing was counted.

    References
    ----------
    Clopper and Pearson (1934).
    """
    refuse_mask(successes, "counts of successes")
    refuse_mask(trials, "counts of trials")
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    limit = special.betaincinv(np.maximum(k, 1e-300), n - k + 1.0, error)
    return np.where(k > 0.0, limit * (1.0 - _WIDENED), 0.0)[()]


def upper_limit(successes: Any, trials: Any, error: float) -> Any:
    """Greatest probability that explains a count, but for `error`.

    Parameters
    ----------
    successes, trials : float or array
        As `lower_limit`.
    error : float
        Probability with which the limit falls below the truth, at most.

    Returns
    -------
    float or array
        1 where every trial was a success.

    References
    ----------
    Clopper and Pearson (1934).
    """
    refuse_mask(successes, "counts of successes")
    refuse_mask(trials, "counts of trials")
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    limit = special.betainccinv(k + 1.0, np.maximum(n - k, 1e-300), error)
    return np.where(k < n, np.minimum(1.0, limit * (1.0 + _WIDENED)), 1.0)[()]
