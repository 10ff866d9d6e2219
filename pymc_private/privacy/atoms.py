"""Atoms of a guarantee: one mechanism, so many planned times, and what is proved of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pymc_private.privacy.bounded_range import br_delta, br_zcdp_tight
from pymc_private.privacy.gaussian import gdp_delta
from pymc_private.privacy.renyi import zcdp_to_delta
from pymc_private.privacy.rounding import times_up

KINDS = ("pure", "bounded_range", "zcdp", "gdp", "approximate", "none")


@dataclass(frozen=True, order=True)
class Atom:
    """One kind of mechanism, `count` times.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    value : float
        epsilon, R, rho, mu or epsilon, by kind.
    delta : float
        Of an approximate atom, per run.
    count : int
        Runs fixed in advance.
    """

    kind: str
    value: float
    delta: float = 0.0
    count: int = 1

    @property
    def pure(self) -> float:
        """Pure epsilon of all runs; inf if there is none."""
        if self.kind in ("pure", "bounded_range"):
            return times_up(self.count, self.value)
        return 0.0 if self.value == 0.0 and self.delta == 0.0 else math.inf

    @property
    def zcdp(self) -> float:
        """Return rho of all runs: e^2/2 for pure (Bun and Steinke 2016), T2 for bounded range."""
        each = {
            "pure": self.value**2 / 2.0 * (1.0 + 1e-15),
            "bounded_range": br_zcdp_tight(self.value) if self.kind == "bounded_range" else 0.0,
            "zcdp": self.value,
            "gdp": self.value**2 / 2.0 * (1.0 + 1e-15),
        }.get(self.kind, math.inf)
        return times_up(self.count, each)

    @property
    def gdp_squared(self) -> float:
        """Return mu^2 of all runs; inf unless Gaussian."""
        return self.count * self.value**2 * (1.0 + 1e-15) if self.kind == "gdp" else math.inf

    def curve(self, epsilon: float) -> tuple[float, str]:
        """Give delta at `epsilon` by the exact curve of this atom alone, and its name."""
        if self.kind == "bounded_range":
            return br_delta(epsilon, self.count, self.value), "exact curve of N draws (T3)"
        if self.kind == "gdp":
            return gdp_delta(epsilon, math.sqrt(self.gdp_squared)), "Gaussian curve (T4)"
        return zcdp_to_delta(self.zcdp, epsilon) if math.isfinite(self.zcdp) else 1.0, "zCDP (T4)"
