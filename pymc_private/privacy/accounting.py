"""The roads from a list of atoms to (epsilon, delta), each of them valid by itself.

Atoms known by one (epsilon_i, delta_i) only are paid for first: epsilon falls by the sum of their
epsilon_i and delta by the sum of their delta_i, and the roads lead the rest. This is sound under
adaptive composition in any order. Under P replace each such step by the law within delta_i whose
loss is at most epsilon_i (Dwork and Roth 2014, Lemma 3.17); what remains of the loss is that of
the rest, composed adaptively with those laws as side randomness. The distances of samplers from the
laws they stand for add up to T, which costs (1 + e^epsilon) T of delta at the end (T18, T23).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from scipy.optimize import minimize_scalar
from pymc_private.privacy import accounting__pairs
from pymc_private.privacy.approximate_sampling import approx_delta, approx_delta_n
from pymc_private.privacy.event import Atom
from pymc_private.privacy.gaussian import gdp_delta, gdp_eps
from pymc_private.privacy.renyi import pure_to_delta, pure_to_eps, rdp_to_delta, rdp_to_eps, zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.rounding import difference_down, float_up, infinite, sum_up
from pymc_private.privacy.accounting__totals import total_mu, total_pair, total_pure

PURE = "pure"
ZCDP = "zCDP (T4)"
RENYI = "Renyi (T4)"
GAUSSIAN = "Gaussian curve (T4)"
EXACT = "exact curve of N draws (T3)"
PAIR = "exact curve (T9-T15)"
PLAN = "convolution of a plan"
BASIC = "basic composition"
CLOSED = "none: delta is below the deltas already fixed"
MOST_ORDER = 1e4


Exact = Fraction | float
"""A Fraction, or inf."""


def split(atoms: Sequence[Atom]) -> tuple[list[Atom], Exact, Fraction]:
    """Part the atoms that have a curve from the total (epsilon, delta) of those that have not."""
    rest = [atom for atom in atoms if atom.kind not in ("approximate", "distance")]
    return rest, *total_pair(atom for atom in atoms if atom.kind == "approximate")


def apart(atoms: Sequence[Atom]) -> float:
    """Total variation between what runs and what is accounted for, rounded up."""
    distances = [atom for atom in atoms if atom.kind == "distance"]
    # At epsilon 0 the cost is twice the distance.
    far = sum_up(approx_delta_n(0.0, 0.0, a.number, a.count) / 2.0 for a in distances)
    return min(1.0, far)


def _added(*terms: Exact) -> Exact:
    """Add exactly; inf if any term is."""
    if any(isinstance(term, float) and math.isinf(term) for term in terms):
        return math.inf
    return sum((Fraction(term) for term in terms), Fraction(0))


def epsilon_by_road(atoms: Sequence[Atom], delta: Exact, *, planned: bool) -> dict[str, Exact]:
    """Give epsilon (nats) at `delta` by each road that is open; computed parts are rounded up."""
    rest, fixed_epsilon, fixed_delta = split(atoms)
    far = apart(atoms)
    if delta < fixed_delta or (far > 0.0 and delta <= fixed_delta + 2 * Fraction(far)):
        return {CLOSED: math.inf}
    spare = difference_down(delta, fixed_delta)
    if spare == 0.0 or (atoms and not rest and far == 0.0):
        name = PURE if rest or not atoms else BASIC
        return {name: _added(total_pure(rest), fixed_epsilon)}
    found: dict[str, Exact] = {}
    for name, road in _epsilon_roads(rest, planned).items():
        epsilon = road(spare) if far == 0.0 else _with_distance(road, spare, far, fixed_epsilon)
        found[name] = _added(epsilon, fixed_epsilon)
        if name == PURE and far == 0.0:
            found[name] = min(found[name], _added(total_pure(rest), fixed_epsilon))
    return found if rest or not atoms else {BASIC: min(found.values())}


def delta_by_road(atoms: Sequence[Atom], epsilon: Exact, *, planned: bool) -> dict[str, float]:
    """Give delta at `epsilon` (nats) by each road that is open, rounded up."""
    rest, fixed_epsilon, fixed_delta = split(atoms)
    if epsilon < fixed_epsilon or infinite(fixed_epsilon):
        return {BASIC: 1.0}
    spare, far = difference_down(epsilon, fixed_epsilon), apart(atoms)
    found = {}
    for name, road in _delta_roads(rest, planned).items():
        # Compared exactly: a stated epsilon and its own promise have delta 0 between them.
        reached = name == PURE and epsilon >= total_pure(rest) + fixed_epsilon
        delta = min(1.0, sum_up((0.0 if reached else road(spare), fixed_delta)))
        found[name] = approx_delta(float_up(epsilon), delta, far) if far > 0.0 else delta
    return found if rest or not atoms else {BASIC: found[PURE]}


Road = Callable[[float], float]


def _epsilon_roads(rest: Sequence[Atom], planned: bool) -> dict[str, Road]:
    """Roads from a delta to an epsilon; only the pure one takes delta = 0."""
    rho, mu, pure = sum_up(a.zcdp for a in rest), total_mu(rest), float_up(total_pure(rest))
    found: dict[str, Road] = {PURE: lambda delta: pure_to_eps(pure, delta)}
    if math.isfinite(rho):
        found[ZCDP] = lambda delta: zcdp_to_eps(rho, delta) if delta else math.inf
    elif _last_order(rest) > 1.0:
        found[RENYI] = lambda delta: _renyi_epsilon(rest, delta) if delta else math.inf
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda delta: gdp_eps(delta, mu) if delta else math.inf
    if len(rest) == 1 and accounting__pairs.exact_delta(rest[0], 0.0) is not None:
        name = EXACT if rest[0].kind == "bounded_range" else PAIR
        found[name] = lambda delta: _exact(rest[0], delta) if delta else math.inf
    elif _convolves(rest, planned):
        found[PLAN] = lambda delta: accounting__pairs.plan_epsilon(rest, delta) if delta else math.inf
    return found


def _delta_roads(rest: Sequence[Atom], planned: bool) -> dict[str, Road]:
    """Roads from an epsilon to a delta."""
    rho, mu, pure = sum_up(a.zcdp for a in rest), total_mu(rest), float_up(total_pure(rest))
    found: dict[str, Road] = {PURE: lambda epsilon: pure_to_delta(pure, epsilon)}
    if math.isfinite(rho):
        found[ZCDP] = lambda epsilon: zcdp_to_delta(rho, epsilon)
    elif _last_order(rest) > 1.0:
        found[RENYI] = lambda epsilon: _renyi_delta(rest, epsilon)
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda epsilon: gdp_delta(epsilon, mu)
    if len(rest) == 1 and accounting__pairs.exact_delta(rest[0], 0.0) is not None:
        name = EXACT if rest[0].kind == "bounded_range" else PAIR
        found[name] = lambda epsilon: accounting__pairs.exact_delta(rest[0], epsilon) or 0.0
    elif _convolves(rest, planned):
        found[PLAN] = lambda epsilon: accounting__pairs.plan_delta(rest, epsilon)
    return found


def _exact(atom: Atom, delta: float) -> float:
    epsilon = accounting__pairs.exact_epsilon(atom, delta)
    return math.inf if epsilon is None else epsilon


def _convolves(rest: Sequence[Atom], planned: bool) -> bool:
    """Whether convolution says more than the other roads: not for Gaussians or one pure atom."""
    alone = len(rest) == 1  # runs of one atom are a plan by themselves
    several = rest[0].count > 1 if alone else len(rest) > 1
    gaussian = all(a.kind == "gdp" for a in rest)
    return bool((planned or alone) and several and accounting__pairs.has_curve(rest) and not gaussian)


def _with_distance(road: Road, spare: float, far: float, fixed: Exact) -> float:
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


def _last_order(rest: Sequence[Atom]) -> float:
    return min((atom.last_order for atom in rest), default=math.inf)


def _renyi_epsilon(rest: Sequence[Atom], delta: float) -> float:
    return _best_order(rest, lambda order, rdp: rdp_to_eps(order, rdp, delta))


def _renyi_delta(rest: Sequence[Atom], epsilon: float) -> float:
    return min(1.0, _best_order(rest, lambda order, rdp: rdp_to_delta(order, rdp, epsilon)))


def _best_order(rest: Sequence[Atom], convert: Callable[[float, float], float]) -> float:
    """Give the least of the bounds tried; each order gives a valid one."""
    last = min(_last_order(rest), MOST_ORDER)

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
