"""A reference known by a log density and a sampler: scikit-learn's, `gaussian_kde`, one's own."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from scipy import stats

from pymc_private.errors import DomainError


class BlackBox:
    """Any object with a log density and a sampler (scikit-learn, `gaussian_kde`, one's own)."""

    def __init__(self, law: Any) -> None:
        self._law = law
        self.shapes: dict[str, tuple[int, ...]]
        first = self.pool(2)
        if not np.isfinite(first).all():
            raise DomainError("the reference draws numbers that are not finite")
        self.shapes = {"x": () if first.shape[1] == 1 else (first.shape[1],)}
        self.text = type(law).__name__

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return math.prod(self.shapes["x"])

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows."""
        if hasattr(self._law, "score_samples"):
            return np.asarray(self._law.score_samples(x), float).reshape(len(x))
        if isinstance(self._law, stats.gaussian_kde):
            return np.asarray(self._law.logpdf(x.T), float)
        flat = x[:, 0] if self.dimension == 1 else x
        return np.asarray(self._law.logpdf(flat), float).reshape(len(x))

    def pool(self, count: int) -> np.ndarray:
        """Public draws, by the object's own sampler."""
        law, seed = self._law, int.from_bytes(os.urandom(4), "little")
        if hasattr(law, "resample"):
            return np.asarray(law.resample(count, seed=seed), float).T
        if hasattr(law, "rvs"):
            drawn = law.rvs(size=count, random_state=seed)
        else:
            drawn = law.sample(count)
            drawn = drawn[0] if isinstance(drawn, tuple) else drawn
        return np.asarray(drawn, float).reshape(count, -1)
