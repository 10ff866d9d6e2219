"""The pair of laws behind an atom, as two curves, and the exact curve of a plan of atoms.

The same record may be on the left side of one pair and on the right side of another. Runs of pairs
that take sides by themselves compose by one that dominates both: the larger of the two curves is
convex, decreasing and never below 1 - e^eps, so it is the curve of a symmetric pair of laws, and
domination passes to products (Zhu, Dong and Wang 2022, Proposition 8 and Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pymc_private.privacy.event import Atom, GAMMA
from pymc_private.privacy.beta_gamma_pairs import beta_pair_curve, beta_pair_delta, beta_pair_eps, beta_pair_one_way
from pymc_private.privacy.bounded_range import br_delta, br_eps
from pymc_private.privacy.gaussian__discrete_gaussian import discrete_gaussian_delta
from pymc_private.privacy.beta_gamma_pairs__gamma_pair import gamma_pair_curve, gamma_pair_delta, gamma_pair_eps
from pymc_private.privacy.gaussian import gdp_delta
from pymc_private.privacy.loss_distributions import CELLS, Curve, FARTHEST, end_of, on_grid
from pymc_private.privacy.mollifier import moll_delta, moll_delta_k
from pymc_private.privacy.loss_distributions__pld import Composed, LONGEST, compose
from pymc_private.privacy.renyi import pure_to_delta
from pymc_private.privacy.rounding import float_up, least_epsilon

DIRECTIONS = ("more_first", "more_second")
"""The one record is in P's data set, or in Q's: all pairs of addition and removal see the same."""
EITHER = "either"
"""Of a pair whose side is not that of the others: the larger curve of both directions."""
PAIRED = (
    "pure",
    "bounded_range",
    "gdp",
    "discrete_gaussian",
    "beta_pair",
    *GAMMA,
    "mollifier",
    "window",
)

WIDEST = 1e6
"""The largest prior parameter of a pair in a plan: the curves of larger ones take too long."""


def curve_of(atom: Atom, direction: str) -> Curve:
    """Give the curve of one run of an atom in a direction, or the larger one in `EITHER`."""
    value, shape = atom.number, atom.shape
    if direction == EITHER and _one_sided(atom):
        first, second = (curve_of(atom, one) for one in DIRECTIONS)
        return lambda eps: max(first(eps), second(eps))
    if atom.other:
        a, b = (shape, atom.other)[:: 1 if direction == DIRECTIONS[0] else -1]
        return lambda eps: beta_pair_one_way(eps, value, a, b)
    if atom.kind in GAMMA:
        return lambda eps: gamma_pair_curve(eps, value, shape, direction)
    return {
        "pure": lambda eps: pure_to_delta(value, eps),
        "bounded_range": lambda eps: br_delta(eps, 1, value),
        "gdp": lambda eps: gdp_delta(eps, value),
        "beta_pair": lambda eps: beta_pair_curve(eps, value, shape),
        "mollifier": lambda eps: moll_delta(eps, value),
        "window": lambda eps: moll_delta(eps, value, shape),
        "discrete_gaussian": lambda eps: discrete_gaussian_delta(eps, _sigma(value)),
    }[atom.kind]


def has_curve(atoms: Sequence[Atom]) -> bool:
    """Whether every atom is known by a pair of laws, and so few runs that their grid is short.

    The step of `composed` makes at most 2 LONGEST points of LONGEST / 4 runs.
    """
    few = sum(atom.count for atom in atoms) <= LONGEST // 4
    short = all(a.kind in PAIRED and max(a.shape, a.other) <= WIDEST for a in atoms)
    return bool(atoms) and few and short


def exact_delta(atom: Atom, eps: float) -> float | None:
    """Give delta of all runs of one atom by its own formula; None if it has none."""
    if atom.kind == "bounded_range":
        return br_delta(eps, atom.count, atom.number)
    if atom.kind in ("mollifier", "window"):
        return moll_delta_k(eps, atom.number, atom.count, atom.shape or None)
    if atom.kind == "discrete_gaussian" and atom.count == 1:
        return float(discrete_gaussian_delta(eps, _sigma(atom.number)))
    if atom.kind == "beta_pair" and atom.count == 1:
        return float(beta_pair_delta(eps, atom.number, atom.shape, atom.other or None))
    if atom.kind in GAMMA and atom.count == 1:
        return float(gamma_pair_delta(eps, atom.number, atom.shape))
    return None


def exact_epsilon(atom: Atom, delta: float) -> float | None:
    """Give epsilon of all runs of one atom by its own formula; None if it has none."""
    if atom.kind == "bounded_range":
        return br_eps(delta, atom.count, atom.number)
    if atom.kind in ("mollifier", "window"):
        number, count, top = atom.number, atom.count, atom.shape or None
        return least_epsilon(
            lambda eps: moll_delta_k(eps, number, count, top), delta, float_up(atom.pure)
        )
    if atom.kind == "discrete_gaussian" and atom.count == 1:
        sigma = _sigma(atom.number)
        return least_epsilon(lambda eps: discrete_gaussian_delta(eps, sigma), delta, 60.0 / sigma)
    if atom.kind == "beta_pair" and atom.count == 1:
        return beta_pair_eps(delta, atom.number, atom.shape, atom.other or None)
    if atom.kind in GAMMA and atom.count == 1:
        return gamma_pair_eps(delta, atom.number, atom.shape)
    return None


@lru_cache(maxsize=4)  # each may be as large as 64 MB
def composed(atoms: tuple[Atom, ...], direction: str) -> Composed:
    """Convolve the losses of a plan of atoms, all of which have curves.

    Parameters
    ----------
    atoms : tuple of Atom
    direction : str
        One of `DIRECTIONS`.

    Returns
    -------
    Composed
    """
    opposite = DIRECTIONS[1 - DIRECTIONS.index(direction)]
    curves = []
    for atom in atoms:
        curve = reverse = curve_of(atom, EITHER)
        if _one_sided(atom) and _is_aligned(atom, atoms):
            curve, reverse = curve_of(atom, direction), curve_of(atom, opposite)
        curves.append((curve, reverse, atom.count))
    ends = [(_end(atom), atom.count) for atom in atoms]
    step = max(max(end for end, _ in ends) / CELLS, 2.0 * sum(e * n for e, n in ends) / LONGEST)
    return compose([(on_grid(curve, reverse, step), n) for curve, reverse, n in curves])


def _sigma(value: float) -> float:
    """Give a sigma that is not above the reciprocal: less noise promises less."""
    return math.nextafter(1.0 / value, 0.0)


def _end(atom: Atom) -> float:
    """The largest loss of an atom: a point of the grid, where losses are bounded."""
    if atom.kind in ("pure", "bounded_range", "mollifier", "window"):
        return min(max(atom.number, 1e-6), FARTHEST)
    ways = DIRECTIONS if _one_sided(atom) else DIRECTIONS[:1]
    return max(end_of(curve_of(atom, direction)) for direction in ways)


def _one_sided(atom: Atom) -> bool:
    """Whether its curves in the two directions differ."""
    return atom.kind in GAMMA or atom.other > 0.0


def _is_aligned(atom: Atom, atoms: Sequence[Atom]) -> bool:
    """Whether one direction is that of all runs of this atom and of all else that has one.

    Added records raise the counts of all tables (T10). Draws from one posterior take one side
    together, though nobody knows which: beside anything that takes another they are not aligned.
    """
    if atom.kind in ("gamma_pair", "gamma_either"):
        return atom.kind == "gamma_pair"
    return sum(map(_one_sided, atoms)) == 1


def directions(atoms: Sequence[Atom]) -> tuple[str, ...]:
    """Give the directions that differ for these atoms."""
    differ = any(_one_sided(a) and _is_aligned(a, atoms) for a in atoms)
    return DIRECTIONS if differ else DIRECTIONS[:1]


def plan_delta(atoms: Sequence[Atom], eps: float) -> float:
    """Give delta of a plan by convolution, rounded up."""
    return _plan_delta(tuple(atoms), eps)


def plan_epsilon(atoms: Sequence[Atom], delta: float) -> float:
    """Give epsilon of a plan by convolution, rounded up."""
    return _plan_epsilon(tuple(atoms), delta)


# One charge asks for the same few numbers many times.
@lru_cache(maxsize=1024)
def _plan_delta(atoms: tuple[Atom, ...], eps: float) -> float:
    return max(composed(atoms, d).delta(eps) for d in directions(atoms))


@lru_cache(maxsize=1024)
def _plan_epsilon(atoms: tuple[Atom, ...], delta: float) -> float:
    return max(composed(atoms, d).epsilon(delta) for d in directions(atoms))
