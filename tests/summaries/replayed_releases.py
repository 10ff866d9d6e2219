"""Releases told anew: the terms of other records at the noisy sums that were released.

Each stage of a release depends on the data by its noisy sum alone, so that a release with these
sums put in place of its own does the same with any records: their terms are what it would add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pymc_private.summaries.noise import SimulatedNoise
from tests.summaries.packed_matrices import PackedMatrices


@dataclass(frozen=True)
class Stage:
    """One noisy sum: its value, standard deviation (or scale of Laplace noise), terms of types."""

    noisy: np.ndarray
    sd: float
    terms: np.ndarray
    is_laplace: bool = False


class Recorded(PackedMatrices, SimulatedNoise):
    """Simulated noise that keeps what it gave."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self.given: list[np.ndarray] = []

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        self.given.append(super().total(chunks, bound, positive, mu))
        return self.given[-1]


class Replay(Recorded):
    """Gives the noisy sums of another release, and keeps the terms of its own records."""

    def __init__(self, given: list[np.ndarray], rows: int) -> None:
        super().__init__(0)
        self.rows = rows
        self.script, self.stages = iter(given), list[Stage]()

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        noisy, rows = next(self.script), np.concatenate(list(chunks))[: self.rows]
        terms = np.where(np.isfinite(rows).all(axis=1)[:, None], rows, 0.0)
        length = np.linalg.norm(terms, axis=1, keepdims=True)
        terms = terms * np.minimum(1.0, bound / np.maximum(length, 1e-300))
        self.stages.append(Stage(noisy, self.sd(bound, positive, mu, len(noisy)), terms))
        return noisy
