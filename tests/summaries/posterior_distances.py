"""How near the posterior of a summary is to an exact one."""

from __future__ import annotations

import numpy as np

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def near(found: np.ndarray, limit: float) -> bool:
    """Whether means, sds and quantiles agree.

    Means are to differ by less than `limit` exact sds on average and sds by less than that share,
    single releases by less than three times as much, and quantiles by less than half of `limit` in
    probability. An interval of 90% whose center is off by d sds and whose width is off by a factor
    1 + r holds about 0.90 - 0.17 d^2 + 0.34 r: at d = r = 0.2 no less than 0.82, and on average
    over releases far more, as both have either sign. Scores with private covariates know their
    distribution by noisy moments alone, hence the widest limit; of sums only the skewness of the
    binomial distribution of 200 records is left out.
    """
    average, most = found.mean(axis=(0, 1)), found.max(axis=(0, 1))
    return bool(
        (average <= limit * np.array([1.0, 1.0, 0.5])).all()
        and (most <= 3.0 * limit * np.array([1.0, 1.0, 0.5])).all()
    )
