"""What atoms add up to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from pymc_private.privacy.event import Atom
from pymc_private.privacy.rounding import infinite, root_up

def total_pure(atoms: Iterable[Atom]) -> Fraction | float:
    """The sum of pure epsilons: exact, or inf."""
    parts = [atom.pure for atom in atoms]
    if any(infinite(part) for part in parts):
        return math.inf
    return sum((Fraction(part) for part in parts), Fraction(0))


def total_mu(atoms: Iterable[Atom]) -> float:
    """The mu of Gaussian atoms together, sqrt(sum of mu^2), rounded up; inf if any has none.

    References
    ----------
    Dong, Roth and Su (2022), Corollary 3.3; adaptive.
    """
    together = list(atoms)
    if any(infinite(atom.gaussian) for atom in together):
        return math.inf
    return root_up(sum((a.count * Fraction(a.gaussian) ** 2 for a in together), Fraction(0)))


def total_pair(atoms: Iterable[Atom]) -> tuple[Fraction | float, Fraction]:
    """The exact sums of epsilon and of delta of approximate atoms (basic composition)."""
    together = list(atoms)
    delta = sum((a.count * Fraction(a.delta) for a in together), Fraction(0))
    if any(infinite(atom.value) for atom in together):
        return math.inf, delta
    return sum((a.count * Fraction(a.value) for a in together), Fraction(0)), delta
