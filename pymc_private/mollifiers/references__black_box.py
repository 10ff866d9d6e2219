"""A reference known by a log density and a sampler: scikit-learn's, `gaussian_kde`, one's own."""

from __future__ import annotations

import hashlib
import math
import os
import numpy as np
from collections.abc import Mapping
from typing import Any
from scipy import stats
from pymc_private.errors import DomainError

PROBES = np.concatenate([-np.geomspace(1e-3, 1e6, 28), np.geomspace(1e-3, 1e6, 28)])
DEEP = 8


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
    def fingerprint(self) -> str:
        """Tell two references apart: SHA-256 of what they consist of and of their densities.

        Densities are taken at fixed points, in case an object hides its state.
        """
        with np.errstate(all="ignore"):
            found = self.logpdf(PROBES[:, None] * np.ones(self.dimension))
        told = self.text, contents(self._law), [f"{value:.9g}" for value in found]
        return hashlib.sha256(repr(told).encode()).hexdigest()

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


def contents(value: Any, depth: int = DEEP) -> Any:
    """All that a value consists of as plain values, the same in every session.

    Arrays by their digests, objects by their attributes, functions by their code and what it
    closes over; addresses in memory, and the state of generators, play no part.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        whole = np.ascontiguousarray(value)
        return str(whole.dtype), whole.shape, hashlib.sha256(whole.tobytes()).hexdigest()
    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    kind = type(value).__name__
    if depth == 0 or isinstance(value, np.random.Generator | np.random.RandomState):
        return kind
    if isinstance(value, Mapping):
        return kind, [(str(key), contents(item, depth - 1)) for key, item in value.items()]
    if isinstance(value, list | tuple | np.ndarray):
        return kind, [contents(item, depth - 1) for item in value]
    code = getattr(value, "__code__", None)
    if code is not None:
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
        return kind, code.co_code.hex(), contents(code.co_consts, depth - 1), [
            contents(item, depth - 1) for item in inside
        ]  # fmt: skip
    return kind, contents(getattr(value, "__dict__", {}), depth - 1)
