"""Atoms of a guarantee: one mechanism, so many planned times, and what is proved of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

from pymc_private.errors import DomainError
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.gaussian import half_square
from pymc_private.privacy.rounding import float_up, root_up, sum_up, times_up, widen

KINDS = ("pure", "bounded_range", "zcdp", "gdp", "approximate", "none")
LETTERS = dict(zip(KINDS, ("epsilon", "R", "rho", "mu", "epsilon", "epsilon"), strict=True))
"""What the value of each kind is called."""


@dataclass(frozen=True)
class Atom:
    """One kind of mechanism, `count` times.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    value : float
        epsilon, R, rho or mu, by kind; rounded up.
    delta : float
        Of one run; above 0 for an approximate atom only.
    count : int
        Runs fixed in advance.

    Raises
    ------
    DomainError
        A number is out of its range.
    """

    kind: str
    value: float
    delta: float = 0.0
    count: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DomainError("this is no kind of promise", got=self.kind, allowed=", ".join(KINDS))
        set_ = object.__setattr__
        set_(self, "value", number_up(self.value, LETTERS[self.kind]))
        set_(self, "delta", probability(self.delta))
        set_(self, "count", whole(self.count, "the number of draws or runs"))
        if self.delta > 0.0 and self.kind != "approximate":
            raise DomainError(f"a {self.kind} promise has no delta", got=self.delta, allowed="0")

    @property
    def pure(self) -> float:
        """Pure epsilon of all runs, nats; inf if there is none."""
        if self.kind in ("pure", "bounded_range"):
            return times_up(self.count, self.value)
        return 0.0 if self.value == 0.0 and self.delta == 0.0 else math.inf

    @property
    def zcdp(self) -> float:
        """The rho of all runs; inf if there is none.

        A bounded range has that of T2. Pure epsilon is a bounded range of 2 epsilon, which gives
        at most the epsilon^2 / 2 of Bun and Steinke (2016, Proposition 3.3); mu-GDP has mu^2 / 2.
        """
        if self.kind == "bounded_range":
            each = br_zcdp_tight(self.value)
        elif self.kind == "pure":
            each = br_zcdp_tight(2.0 * self.value)
        elif self.kind == "gdp":
            each = half_square(self.value)
        else:
            each = self.value if self.kind == "zcdp" else math.inf
        return times_up(self.count, each)

    def group(self, k: int) -> Atom:
        """The same promise to a group of k records (T24)."""
        if self.kind == "none" or k == 1:
            return self
        value = times_up(k * k if self.kind == "zcdp" else k, self.value)
        if self.kind != "approximate":
            return replace(self, value=value)
        # delta (1 + e^eps + ... + e^((k-1) eps))
        ratio = float(k) if self.value == 0.0 else math.inf
        if self.value > 0.0 and value < 700.0:
            ratio = math.expm1(value) / math.expm1(self.value)
        delta = widen(self.delta * ratio, 1e-12)
        return replace(self, value=value, delta=delta) if delta < 1.0 else Atom("none", math.inf)

    def __str__(self) -> str:
        words = {
            "pure": f"{self.value:.6g}-DP",
            "bounded_range": f"exact posterior draw of range {self.value:.6g}",
            "zcdp": f"{self.value:.6g}-zCDP",
            "gdp": f"{self.value:.6g}-GDP",
            "approximate": f"({self.value:.6g}, {self.delta:.3g})-DP",
            "none": "not private",
        }[self.kind]
        return words if self.count == 1 else f"{self.count} x {words}"


def total_mu(atoms: Iterable[Atom]) -> float:
    """The mu of Gaussian atoms together, sqrt(sum of mu^2), rounded up; inf if any is another kind.

    References
    ----------
    Dong, Roth and Su (2022), Corollary 3.3; adaptive.
    """
    together = list(atoms)
    if any(atom.kind != "gdp" or math.isinf(atom.value) for atom in together):
        return math.inf
    return root_up(sum((a.count * Fraction(a.value) ** 2 for a in together), Fraction(0)))


def total_pair(atoms: Iterable[Atom]) -> tuple[float, float]:
    """The sums of epsilon and of delta of approximate atoms, rounded up (basic composition)."""
    together = list(atoms)
    return (
        sum_up(times_up(atom.count, atom.value) for atom in together),
        sum_up(times_up(atom.count, atom.delta) for atom in together),
    )


def number_up(value: Any, name: str) -> float:
    """Take a number >= 0 as a double that is not below it; inf stands for no promise.

    Raises
    ------
    DomainError
        Negative, or no number.
    """
    exact = isinstance(value, Rational | Decimal) and not isinstance(value, bool)
    try:
        finite = exact and math.isfinite(value)
        number = float_up(Fraction(value)) if finite else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str) or not number >= 0.0:
        raise DomainError(f"{name} is a number >= 0", got=value, allowed=f"{name} >= 0")
    return number


def probability(value: Any) -> float:
    """Take a delta, rounded up.

    Raises
    ------
    DomainError
        Not in [0, 1).
    """
    number = number_up(value, "delta")
    if not number < 1.0:
        raise DomainError("delta is a probability below 1", got=value, allowed="0 <= delta < 1")
    return number


def whole(value: Any, name: str) -> int:
    """Take a whole number >= 1.

    Raises
    ------
    DomainError
        It is not.
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise DomainError(f"{name} is a whole number >= 1", got=value, allowed="1, 2, 3, ...")
    return number
