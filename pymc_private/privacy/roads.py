"""The roads from a list of atoms to (epsilon, delta), each of them valid by itself.

Atoms known by one (epsilon_i, delta_i) only are paid for first: epsilon falls by the sum of their
epsilon_i and delta by the sum of their delta_i, and the roads lead the rest. This is sound under
adaptive composition in any order. Under P replace each such step by the law within delta_i whose
loss is at most epsilon_i (Dwork and Roth 2014, Lemma 3.17); what remains of the loss is that of
the rest, composed adaptively with those laws as side randomness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pymc_private.privacy.atoms import Atom, total_mu, total_pair
from pymc_private.privacy.bounded_range import br_delta, br_eps
from pymc_private.privacy.gaussian import gdp_delta, gdp_eps
from pymc_private.privacy.renyi import pure_to_delta, pure_to_eps, zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.rounding import difference_down, sum_up

PURE = "pure"
ZCDP = "zCDP (T4)"
GAUSSIAN = "Gaussian curve (T4)"
EXACT = "exact curve of N draws (T3)"
BASIC = "basic composition"
CLOSED = "none: delta is below the deltas already fixed"


def split(atoms: Sequence[Atom]) -> tuple[list[Atom], float, float]:
    """Part the atoms that have a curve from the total (epsilon, delta) of those that have not."""
    rest = [atom for atom in atoms if atom.kind != "approximate"]
    return rest, *total_pair(atom for atom in atoms if atom.kind == "approximate")


def epsilon_by_road(atoms: Sequence[Atom], delta: float) -> dict[str, float]:
    """Give epsilon (nats) at `delta` by each road that is open, rounded up."""
    rest, fixed_epsilon, fixed_delta = split(atoms)
    spare = difference_down(delta, fixed_delta)
    if spare < 0.0:
        return {CLOSED: math.inf}
    if atoms and not rest:
        return {BASIC: fixed_epsilon}
    found = {PURE: pure_to_eps(sum_up(atom.pure for atom in rest), spare)}
    if spare > 0.0:
        rho, mu = sum_up(atom.zcdp for atom in rest), total_mu(rest)
        if math.isfinite(rho):
            found[ZCDP] = zcdp_to_eps(rho, spare)
        if math.isfinite(mu):
            found[GAUSSIAN] = gdp_eps(spare, mu)
        if one_plan(rest):
            found[EXACT] = br_eps(spare, rest[0].count, rest[0].value)
    return {name: sum_up((epsilon, fixed_epsilon)) for name, epsilon in found.items()}


def delta_by_road(atoms: Sequence[Atom], epsilon: float) -> dict[str, float]:
    """Give delta at `epsilon` (nats) by each road that is open, rounded up."""
    rest, fixed_epsilon, fixed_delta = split(atoms)
    spare = difference_down(epsilon, fixed_epsilon)
    if spare < 0.0:
        return {BASIC: 1.0}
    if atoms and not rest:
        return {BASIC: min(1.0, fixed_delta)}
    rho, mu = sum_up(atom.zcdp for atom in rest), total_mu(rest)
    found = {PURE: pure_to_delta(sum_up(atom.pure for atom in rest), spare)}
    if math.isfinite(rho):
        found[ZCDP] = zcdp_to_delta(rho, spare)
    if math.isfinite(mu):
        found[GAUSSIAN] = gdp_delta(spare, mu)
    if one_plan(rest):
        found[EXACT] = br_delta(spare, rest[0].count, rest[0].value)
    return {name: min(1.0, sum_up((delta, fixed_delta))) for name, delta in found.items()}


def one_plan(atoms: Sequence[Atom]) -> bool:
    """Whether these are draws planned in advance from one posterior: only then T3 holds."""
    return len(atoms) == 1 and atoms[0].kind == "bounded_range"
