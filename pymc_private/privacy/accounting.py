"""Accounting: from a list of privacy events to (epsilon, delta), by every method that applies.

Methods: pure composition, zCDP and Renyi divergences (T4), Gaussian curves (T4), the exact curve of
N draws (T3), the exact curve of a single pair (T9-T15), and the convolution of the losses of a plan
of events with known privacy curves. Each of them is valid by itself; the smallest result holds.

Events known by one (epsilon_i, delta_i) only are paid for first: epsilon falls by the sum of their
epsilon_i and delta by the sum of their delta_i, and the methods account for the rest. This is sound
under adaptive composition in any order. Under P replace each such step by the distribution within
delta_i whose loss is at most epsilon_i (Dwork and Roth 2014, Lemma 3.17); what remains of the loss
is that of the rest, composed adaptively with those distributions as side randomness. The total
variation distances of samplers from the distributions they stand for add up to T, which costs
(1 + e^epsilon) T of delta at the end (T18, T23).

In a convolution the same record may be on the left side of one pair and on the right side of
another. Runs of pairs that take sides by themselves compose by one pair that dominates both: the
larger of the two curves is convex, decreasing and never below 1 - e^eps, so it is the curve of a
symmetric dominating pair, and domination passes to products (Zhu, Dong and Wang 2022,
Proposition 8 and Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import minimize_scalar

from pymc_private.privacy.approximate_sampling import approx_delta, approx_delta_n
from pymc_private.privacy.beta_gamma_pairs import (
    beta_pair_delta,
    beta_pair_delta_fast,
    beta_pair_delta_one_way,
    beta_pair_eps,
    gamma_pair_delta,
    gamma_pair_delta_fast,
    gamma_pair_eps,
)
from pymc_private.privacy.bounded_range import br_delta, br_eps
from pymc_private.privacy.event import GAMMA_KINDS, PrivacyEvent
from pymc_private.privacy.gaussian import discrete_gaussian_delta, gdp_delta, gdp_eps
from pymc_private.privacy.loss_distributions import (
    GRID_CELLS,
    MAX_FINITE_LOSS,
    MAX_GRID_POINTS,
    ComposedLoss,
    PrivacyCurve,
    convolve_losses,
    curve_end,
    discretize_curve,
)
from pymc_private.privacy.mollifier import moll_delta, moll_delta_k
from pymc_private.privacy.renyi import (
    pure_to_delta,
    pure_to_eps,
    rdp_to_delta,
    rdp_to_eps,
    zcdp_to_delta,
    zcdp_to_eps,
)
from pymc_private.privacy.rounding import (
    difference_down,
    float_up,
    is_infinite,
    least_epsilon,
    root_up,
    sum_up,
)

DIRECTIONS = ("more_first", "more_second")
"""The one record is in P's data set, or in Q's: all pairs of addition and removal see the same."""
EITHER_DIRECTION = "either"
"""Of a pair whose side is not that of the others: the larger curve of both directions."""
KINDS_WITH_CURVE = (
    "pure",
    "bounded_range",
    "gdp",
    "discrete_gaussian",
    "beta_pair",
    *GAMMA_KINDS,
    "mollifier",
    "window",
)

MAX_CURVE_SHAPE = 1e6
"""The largest prior parameter of a pair in a plan: the curves of larger ones take too long."""


def event_curve(atom: PrivacyEvent, direction: str) -> PrivacyCurve:
    """Give the curve of one run of an atom in a direction, or the larger one in `EITHER_DIRECTION`."""
    value, shape = atom.number, atom.shape
    if direction == EITHER_DIRECTION and _is_asymmetric(atom):
        first, second = (event_curve(atom, one) for one in DIRECTIONS)
        return lambda eps: max(first(eps), second(eps))
    if atom.other:
        a, b = (shape, atom.other)[:: 1 if direction == DIRECTIONS[0] else -1]
        return lambda eps: beta_pair_delta_one_way(eps, value, a, b)
    if atom.kind in GAMMA_KINDS:
        return lambda eps: gamma_pair_delta_fast(eps, value, shape, direction)
    return {
        "pure": lambda eps: pure_to_delta(value, eps),
        "bounded_range": lambda eps: br_delta(eps, 1, value),
        "gdp": lambda eps: gdp_delta(eps, value),
        "beta_pair": lambda eps: beta_pair_delta_fast(eps, value, shape),
        "mollifier": lambda eps: moll_delta(eps, value),
        "window": lambda eps: moll_delta(eps, value, shape),
        "discrete_gaussian": lambda eps: discrete_gaussian_delta(eps, _sigma_of_reciprocal(value)),
    }[atom.kind]


def have_curves(atoms: Sequence[PrivacyEvent]) -> bool:
    """Whether every atom is known by a pair of laws, and so few runs that their grid is short.

    The step of `compose_events` makes at most 2 LONGEST points of LONGEST / 4 runs.
    """
    few = sum(atom.count for atom in atoms) <= MAX_GRID_POINTS // 4
    short = all(
        a.kind in KINDS_WITH_CURVE and max(a.shape, a.other) <= MAX_CURVE_SHAPE for a in atoms
    )
    return bool(atoms) and few and short


def exact_delta(atom: PrivacyEvent, eps: float) -> float | None:
    """Give delta of all runs of one atom by its own formula; None if it has none."""
    if atom.kind == "bounded_range":
        return br_delta(eps, atom.count, atom.number)
    if atom.kind in ("mollifier", "window"):
        return moll_delta_k(eps, atom.number, atom.count, atom.shape or None)
    if atom.kind == "discrete_gaussian" and atom.count == 1:
        return float(discrete_gaussian_delta(eps, _sigma_of_reciprocal(atom.number)))
    if atom.kind == "beta_pair" and atom.count == 1:
        return float(beta_pair_delta(eps, atom.number, atom.shape, atom.other or None))
    if atom.kind in GAMMA_KINDS and atom.count == 1:
        return float(gamma_pair_delta(eps, atom.number, atom.shape))
    return None


def exact_epsilon(atom: PrivacyEvent, delta: float) -> float | None:
    """Give epsilon of all runs of one atom by its own formula; None if it has none."""
    if atom.kind == "bounded_range":
        return br_eps(delta, atom.count, atom.number)
    if atom.kind in ("mollifier", "window"):
        number, count, top = atom.number, atom.count, atom.shape or None
        return least_epsilon(
            lambda eps: moll_delta_k(eps, number, count, top), delta, float_up(atom.pure)
        )
    if atom.kind == "discrete_gaussian" and atom.count == 1:
        sigma = _sigma_of_reciprocal(atom.number)
        return least_epsilon(lambda eps: discrete_gaussian_delta(eps, sigma), delta, 60.0 / sigma)
    if atom.kind == "beta_pair" and atom.count == 1:
        return beta_pair_eps(delta, atom.number, atom.shape, atom.other or None)
    if atom.kind in GAMMA_KINDS and atom.count == 1:
        return gamma_pair_eps(delta, atom.number, atom.shape)
    return None


@lru_cache(maxsize=4)  # each may be as large as 64 MB
def compose_events(atoms: tuple[PrivacyEvent, ...], direction: str) -> ComposedLoss:
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
        curve = reverse = event_curve(atom, EITHER_DIRECTION)
        if _is_asymmetric(atom) and _is_direction_shared(atom, atoms):
            curve, reverse = event_curve(atom, direction), event_curve(atom, opposite)
        curves.append((curve, reverse, atom.count))
    ends = [(_largest_loss(atom), atom.count) for atom in atoms]
    step = max(
        max(end for end, _ in ends) / GRID_CELLS,
        2.0 * sum(e * n for e, n in ends) / MAX_GRID_POINTS,
    )
    return convolve_losses(
        [(discretize_curve(curve, reverse, step), n) for curve, reverse, n in curves]
    )


def _sigma_of_reciprocal(value: float) -> float:
    """Give a sigma that is not above the reciprocal: less noise promises less."""
    return math.nextafter(1.0 / value, 0.0)


def _largest_loss(atom: PrivacyEvent) -> float:
    """The largest loss of an atom: a point of the grid, where losses are bounded."""
    if atom.kind in ("pure", "bounded_range", "mollifier", "window"):
        return min(max(atom.number, 1e-6), MAX_FINITE_LOSS)
    ways = DIRECTIONS if _is_asymmetric(atom) else DIRECTIONS[:1]
    return max(curve_end(event_curve(atom, direction)) for direction in ways)


def _is_asymmetric(atom: PrivacyEvent) -> bool:
    """Whether its curves in the two directions differ."""
    return atom.kind in GAMMA_KINDS or atom.other > 0.0


def _is_direction_shared(atom: PrivacyEvent, atoms: Sequence[PrivacyEvent]) -> bool:
    """Whether one direction is that of all runs of this atom and of all else that has one.

    Added records raise the counts of all tables (T10). Draws from one posterior take one side
    together, though nobody knows which: beside anything that takes another they are not aligned.
    """
    if atom.kind in ("gamma_pair", "gamma_either"):
        return atom.kind == "gamma_pair"
    return sum(map(_is_asymmetric, atoms)) == 1


def distinct_directions(atoms: Sequence[PrivacyEvent]) -> tuple[str, ...]:
    """Give the directions that differ for these atoms."""
    differ = any(_is_asymmetric(a) and _is_direction_shared(a, atoms) for a in atoms)
    return DIRECTIONS if differ else DIRECTIONS[:1]


def convolved_delta(atoms: Sequence[PrivacyEvent], eps: float) -> float:
    """Give delta of a plan by convolution, rounded up."""
    return _cached_convolved_delta(tuple(atoms), eps)


def convolved_epsilon(atoms: Sequence[PrivacyEvent], delta: float) -> float:
    """Give epsilon of a plan by convolution, rounded up."""
    return _cached_convolved_epsilon(tuple(atoms), delta)


# One charge asks for the same few numbers many times.
@lru_cache(maxsize=1024)
def _cached_convolved_delta(atoms: tuple[PrivacyEvent, ...], eps: float) -> float:
    return max(compose_events(atoms, d).delta(eps) for d in distinct_directions(atoms))


@lru_cache(maxsize=1024)
def _cached_convolved_epsilon(atoms: tuple[PrivacyEvent, ...], delta: float) -> float:
    return max(compose_events(atoms, d).epsilon(delta) for d in distinct_directions(atoms))


def total_pure_epsilon(atoms: Iterable[PrivacyEvent]) -> Fraction | float:
    """The sum of pure epsilons: exact, or inf."""
    parts = [atom.pure for atom in atoms]
    if any(is_infinite(part) for part in parts):
        return math.inf
    return sum((Fraction(part) for part in parts), Fraction(0))


def total_mu(atoms: Iterable[PrivacyEvent]) -> float:
    """The mu of Gaussian atoms together, sqrt(sum of mu^2), rounded up; inf if any has none.

    References
    ----------
    Dong, Roth and Su (2022), Corollary 3.3; adaptive.
    """
    together = list(atoms)
    if any(is_infinite(atom.gaussian) for atom in together):
        return math.inf
    return root_up(sum((a.count * Fraction(a.gaussian) ** 2 for a in together), Fraction(0)))


def total_epsilon_delta(atoms: Iterable[PrivacyEvent]) -> tuple[Fraction | float, Fraction]:
    """The exact sums of epsilon and of delta of approximate atoms (basic composition)."""
    together = list(atoms)
    delta = sum((a.count * Fraction(a.delta) for a in together), Fraction(0))
    if any(is_infinite(atom.value) for atom in together):
        return math.inf, delta
    return sum((a.count * Fraction(a.value) for a in together), Fraction(0)), delta


PURE = "pure"
ZCDP = "zCDP (T4)"
RENYI = "Renyi (T4)"
GAUSSIAN = "Gaussian curve (T4)"
EXACT_DRAWS = "exact curve of N draws (T3)"
EXACT_PAIR = "exact curve (T9-T15)"
CONVOLUTION = "convolution of a plan"
BASIC = "basic composition"
INFEASIBLE = "none: delta is below the deltas already fixed"
MAX_RENYI_ORDER = 1e4


ExactNumber = Fraction | float
"""A Fraction, or inf."""


def split_fixed_events(
    atoms: Sequence[PrivacyEvent],
) -> tuple[list[PrivacyEvent], ExactNumber, Fraction]:
    """Part the atoms that have a curve from the total (epsilon, delta) of those that have not."""
    rest = [atom for atom in atoms if atom.kind not in ("approximate", "distance")]
    return rest, *total_epsilon_delta(atom for atom in atoms if atom.kind == "approximate")


def total_sampler_distance(atoms: Sequence[PrivacyEvent]) -> float:
    """Total variation between what runs and what is accounted for, rounded up."""
    distances = [atom for atom in atoms if atom.kind == "distance"]
    # At epsilon 0 the cost is twice the distance.
    far = sum_up(approx_delta_n(0.0, 0.0, a.number, a.count) / 2.0 for a in distances)
    return min(1.0, far)


def _exact_sum(*terms: ExactNumber) -> ExactNumber:
    """Add exactly; inf if any term is."""
    if any(isinstance(term, float) and math.isinf(term) for term in terms):
        return math.inf
    return sum((Fraction(term) for term in terms), Fraction(0))


def epsilon_by_method(
    atoms: Sequence[PrivacyEvent], delta: ExactNumber, *, planned: bool
) -> dict[str, ExactNumber]:
    """Give epsilon (nats) at `delta` by each road that is open; computed parts are rounded up."""
    rest, fixed_epsilon, fixed_delta = split_fixed_events(atoms)
    far = total_sampler_distance(atoms)
    if delta < fixed_delta or (far > 0.0 and delta <= fixed_delta + 2 * Fraction(far)):
        return {INFEASIBLE: math.inf}
    spare = difference_down(delta, fixed_delta)
    if spare == 0.0 or (atoms and not rest and far == 0.0):
        name = PURE if rest or not atoms else BASIC
        return {name: _exact_sum(total_pure_epsilon(rest), fixed_epsilon)}
    found: dict[str, ExactNumber] = {}
    for name, road in _epsilon_methods(rest, planned).items():
        epsilon = (
            road(spare) if far == 0.0 else _epsilon_with_distance(road, spare, far, fixed_epsilon)
        )
        found[name] = _exact_sum(epsilon, fixed_epsilon)
        if name == PURE and far == 0.0:
            found[name] = min(found[name], _exact_sum(total_pure_epsilon(rest), fixed_epsilon))
    return found if rest or not atoms else {BASIC: min(found.values())}


def delta_by_method(
    atoms: Sequence[PrivacyEvent], epsilon: ExactNumber, *, planned: bool
) -> dict[str, float]:
    """Give delta at `epsilon` (nats) by each road that is open, rounded up."""
    rest, fixed_epsilon, fixed_delta = split_fixed_events(atoms)
    if epsilon < fixed_epsilon or is_infinite(fixed_epsilon):
        return {BASIC: 1.0}
    spare, far = difference_down(epsilon, fixed_epsilon), total_sampler_distance(atoms)
    found = {}
    for name, road in _delta_methods(rest, planned).items():
        # Compared exactly: a stated epsilon and its own promise have delta 0 between them.
        reached = name == PURE and epsilon >= total_pure_epsilon(rest) + fixed_epsilon
        delta = min(1.0, sum_up((0.0 if reached else road(spare), fixed_delta)))
        found[name] = approx_delta(float_up(epsilon), delta, far) if far > 0.0 else delta
    return found if rest or not atoms else {BASIC: found[PURE]}


MethodCurve = Callable[[float], float]


def _epsilon_methods(rest: Sequence[PrivacyEvent], planned: bool) -> dict[str, MethodCurve]:
    """Roads from a delta to an epsilon; only the pure one takes delta = 0."""
    rho, mu, pure = sum_up(a.zcdp for a in rest), total_mu(rest), float_up(total_pure_epsilon(rest))
    found: dict[str, MethodCurve] = {PURE: lambda delta: pure_to_eps(pure, delta)}
    if math.isfinite(rho):
        found[ZCDP] = lambda delta: zcdp_to_eps(rho, delta) if delta else math.inf
    elif _last_finite_order(rest) > 1.0:
        found[RENYI] = lambda delta: _renyi_epsilon(rest, delta) if delta else math.inf
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda delta: gdp_eps(delta, mu) if delta else math.inf
    if len(rest) == 1 and exact_delta(rest[0], 0.0) is not None:
        name = EXACT_DRAWS if rest[0].kind == "bounded_range" else EXACT_PAIR
        found[name] = lambda delta: _exact_epsilon(rest[0], delta) if delta else math.inf
    elif _convolution_applies(rest, planned):
        found[CONVOLUTION] = lambda delta: convolved_epsilon(rest, delta) if delta else math.inf
    return found


def _delta_methods(rest: Sequence[PrivacyEvent], planned: bool) -> dict[str, MethodCurve]:
    """Roads from an epsilon to a delta."""
    rho, mu, pure = sum_up(a.zcdp for a in rest), total_mu(rest), float_up(total_pure_epsilon(rest))
    found: dict[str, MethodCurve] = {PURE: lambda epsilon: pure_to_delta(pure, epsilon)}
    if math.isfinite(rho):
        found[ZCDP] = lambda epsilon: zcdp_to_delta(rho, epsilon)
    elif _last_finite_order(rest) > 1.0:
        found[RENYI] = lambda epsilon: _renyi_delta(rest, epsilon)
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda epsilon: gdp_delta(epsilon, mu)
    if len(rest) == 1 and exact_delta(rest[0], 0.0) is not None:
        name = EXACT_DRAWS if rest[0].kind == "bounded_range" else EXACT_PAIR
        found[name] = lambda epsilon: exact_delta(rest[0], epsilon) or 0.0
    elif _convolution_applies(rest, planned):
        found[CONVOLUTION] = lambda epsilon: convolved_delta(rest, epsilon)
    return found


def _exact_epsilon(atom: PrivacyEvent, delta: float) -> float:
    epsilon = exact_epsilon(atom, delta)
    return math.inf if epsilon is None else epsilon


def _convolution_applies(rest: Sequence[PrivacyEvent], planned: bool) -> bool:
    """Whether convolution says more than the other roads: not for Gaussians or one pure atom."""
    alone = len(rest) == 1  # runs of one atom are a plan by themselves
    several = rest[0].count > 1 if alone else len(rest) > 1
    gaussian = all(a.kind == "gdp" for a in rest)
    return bool((planned or alone) and several and have_curves(rest) and not gaussian)


def _epsilon_with_distance(
    road: MethodCurve, spare: float, far: float, fixed: ExactNumber
) -> float:
    """Give epsilon where the rest's delta and (1 + e^epsilon) T together fit into `spare`.

    The epsilons tried rise towards the least solution; the one given has been checked.
    """
    epsilon = road(spare)
    for _ in range(200):
        cost = approx_delta(sum_up((epsilon, fixed)), 0.0, far)
        left = difference_down(spare, cost)
        if left <= 0.0 or math.isinf(epsilon):
            return math.inf
        enough = road(left)
        if enough <= epsilon:
            return epsilon
        # A small step ahead ends the search, at a cost in the ninth digit.
        epsilon = enough * (1.0 + 1e-9) + 1e-300
    return math.inf


def _last_finite_order(rest: Sequence[PrivacyEvent]) -> float:
    return min((atom.last_order for atom in rest), default=math.inf)


def _renyi_epsilon(rest: Sequence[PrivacyEvent], delta: float) -> float:
    return _best_over_orders(rest, lambda order, rdp: rdp_to_eps(order, rdp, delta))


def _renyi_delta(rest: Sequence[PrivacyEvent], epsilon: float) -> float:
    return min(1.0, _best_over_orders(rest, lambda order, rdp: rdp_to_delta(order, rdp, epsilon)))


def _best_over_orders(
    rest: Sequence[PrivacyEvent], convert: Callable[[float, float], float]
) -> float:
    """Give the least of the bounds tried; each order gives a valid one."""
    last = min(_last_finite_order(rest), MAX_RENYI_ORDER)

    def at(order: float) -> float:
        rdp = sum_up(atom.renyi(order) for atom in rest)
        return convert(order, rdp) if math.isfinite(rdp) else math.inf

    def at_log(log_excess: float) -> float:
        return min(at(1.0 + math.exp(log_excess)), 1e300)

    ends = (math.log(1e-3 * (last - 1.0)), math.log(last - 1.0))
    found = minimize_scalar(at_log, bounds=ends, method="bounded", options={"xatol": 1e-6})
    known = [atom.shape for atom in rest if atom.kind == "rdp"]
    best = min([at(1.0 + math.exp(found.x)), *(at(order) for order in known)])
    return best if best < 1e300 else math.inf
