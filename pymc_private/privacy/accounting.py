"""Accounting: from a list of privacy events to (epsilon, delta), by every method that applies.

Methods: pure composition, zCDP and Renyi divergences (T4), Gaussian curves (T4), the exact curve of
N draws (T3), the exact curve of a single pair (T9-T15), and the convolution of the losses of a plan
of events with known privacy curves. Each of them is valid by itself; the smallest result holds.

Events known by one (epsilon_i, delta_i) only are paid for first: epsilon falls by the sum of their
epsilon_i and delta by the sum of their delta_i, and the methods account for the rest. This is sound
under adaptive composition in any order. Under P replace each such step by the distribution within
delta_i whose loss is at most epsilon_i (Dwork and Roth 2014, Lemma 3.17); what remains of the loss
is that of the rest, composed adaptively with those distributions as side randomness. The total
variation distances of samplers from the distributions accounted for add up to T, which costs
(1 + e^epsilon) T of delta at the end (T18, T23).

In a convolution the same record may be on the left side of one pair and on the right side of
another. Runs of pairs that take sides by themselves compose by one pair that dominates both: the
larger of the two curves is convex, decreasing and never below 1 - e^epsilon, so it is the curve of
a symmetric dominating pair, and domination passes to products (Zhu, Dong and Wang 2022,
Proposition 8 and Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import scipy

from pymc_private.privacy.approximate_sampling import approx_delta, approx_delta_n
from pymc_private.privacy.beta_gamma_pairs import (
    DIRECTIONS,
    beta_pair_delta,
    beta_pair_delta_fast,
    beta_pair_delta_one_way,
    beta_pair_eps,
    gamma_pair_delta,
    gamma_pair_delta_fast,
    gamma_pair_eps,
)
from pymc_private.privacy.bounded_range import br_delta, br_eps
from pymc_private.privacy.event import GAMMA_KINDS, PAIR_KINDS, PrivacyEvent
from pymc_private.privacy.gaussian import (
    discrete_gaussian_delta,
    discrete_gaussian_negligible,
    gdp_delta,
    gdp_eps,
)
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
"""Beyond this order no Renyi divergence is tried."""

ExactNumber = Fraction | float
"""A Fraction, or inf."""


class Budget(NamedTuple):
    """A pair (epsilon in nats, delta) of exact rationals."""

    epsilon: Fraction
    delta: Fraction


MethodCurve = Callable[[float], float]
"""By one accounting method: from a delta to an epsilon, or from an epsilon to a delta."""


# ---- all methods ----------------------------------------------------------------------------
def epsilon_by_method(
    events: Sequence[PrivacyEvent], delta: ExactNumber, *, planned: bool
) -> dict[str, ExactNumber]:
    """Epsilon (nats) at `delta` by each method that applies; what is computed is rounded up."""
    rest, fixed_epsilon, fixed_delta = split_fixed_events(events)
    distance = total_sampler_distance(events)
    if delta < fixed_delta or (distance > 0.0 and delta <= fixed_delta + 2 * Fraction(distance)):
        return {INFEASIBLE: math.inf}
    spare = difference_down(delta, fixed_delta)
    if spare == 0.0 or (events and not rest and distance == 0.0):
        name = PURE if rest or not events else BASIC
        return {name: _exact_sum(total_pure_epsilon(rest), fixed_epsilon)}
    found: dict[str, ExactNumber] = {}
    for name, curve in _epsilon_methods(rest, planned).items():
        if distance == 0.0:
            epsilon = curve(spare)
        else:
            epsilon = _epsilon_with_distance(curve, spare, distance, fixed_epsilon)
        found[name] = _exact_sum(epsilon, fixed_epsilon)
        if name == PURE and distance == 0.0:
            found[name] = min(found[name], _exact_sum(total_pure_epsilon(rest), fixed_epsilon))
    return found if rest or not events else {BASIC: min(found.values())}


def delta_by_method(
    events: Sequence[PrivacyEvent], epsilon: ExactNumber, *, planned: bool
) -> dict[str, float]:
    """Delta at `epsilon` (nats) by each method that applies, rounded up."""
    rest, fixed_epsilon, fixed_delta = split_fixed_events(events)
    if epsilon < fixed_epsilon or is_infinite(fixed_epsilon):
        return {BASIC: 1.0}
    spare, distance = difference_down(epsilon, fixed_epsilon), total_sampler_distance(events)
    found = {}
    for name, curve in _delta_methods(rest, planned).items():
        # Compared exactly: at a stated epsilon its own guarantee has delta 0.
        reached = name == PURE and epsilon >= total_pure_epsilon(rest) + fixed_epsilon
        delta = min(1.0, sum_up((0.0 if reached else curve(spare), fixed_delta)))
        if distance > 0.0:
            delta = approx_delta(float_up(epsilon), delta, distance)
        found[name] = delta
    return found if rest or not events else {BASIC: found[PURE]}


def split_fixed_events(
    events: Sequence[PrivacyEvent],
) -> tuple[list[PrivacyEvent], ExactNumber, Fraction]:
    """Events with a curve or a divergence; and the total (epsilon, delta) of those without."""
    rest = [event for event in events if event.kind not in ("approximate", "distance")]
    return rest, *total_epsilon_delta(event for event in events if event.kind == "approximate")


def total_sampler_distance(events: Sequence[PrivacyEvent]) -> float:
    """Total variation between what runs and what is accounted for, rounded up."""
    distances = [event for event in events if event.kind == "distance"]
    # At epsilon 0 the cost is twice the distance.
    total = sum_up(approx_delta_n(0.0, 0.0, e.number, e.count) / 2.0 for e in distances)
    return min(1.0, total)


def _exact_sum(*terms: ExactNumber) -> ExactNumber:
    """Add exactly; inf if any term is."""
    if any(isinstance(term, float) and math.isinf(term) for term in terms):
        return math.inf
    return sum((Fraction(term) for term in terms), Fraction(0))


def _epsilon_methods(rest: Sequence[PrivacyEvent], planned: bool) -> dict[str, MethodCurve]:
    """Methods from a delta to an epsilon; only the pure one takes delta = 0."""
    rho, mu, pure = sum_up(e.zcdp for e in rest), total_mu(rest), float_up(total_pure_epsilon(rest))
    found: dict[str, MethodCurve] = {PURE: lambda delta: pure_to_eps(pure, delta)}
    if math.isfinite(rho):
        found[ZCDP] = lambda delta: zcdp_to_eps(rho, delta) if delta else math.inf
    elif _last_finite_order(rest) > 1.0:
        found[RENYI] = lambda delta: _renyi_epsilon(rest, delta) if delta else math.inf
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda delta: gdp_eps(delta, mu) if delta else math.inf
    if len(rest) == 1 and _has_exact_formula(rest[0]):
        name = EXACT_DRAWS if rest[0].kind == "bounded_range" else EXACT_PAIR
        found[name] = lambda delta: exact_epsilon(rest[0], delta) if delta else math.inf
    elif _convolution_applies(rest, planned):
        found[CONVOLUTION] = lambda delta: convolved_epsilon(rest, delta) if delta else math.inf
    return found


def _delta_methods(rest: Sequence[PrivacyEvent], planned: bool) -> dict[str, MethodCurve]:
    """Methods from an epsilon to a delta."""
    rho, mu, pure = sum_up(e.zcdp for e in rest), total_mu(rest), float_up(total_pure_epsilon(rest))
    found: dict[str, MethodCurve] = {PURE: lambda epsilon: pure_to_delta(pure, epsilon)}
    if math.isfinite(rho):
        found[ZCDP] = lambda epsilon: zcdp_to_delta(rho, epsilon)
    elif _last_finite_order(rest) > 1.0:
        found[RENYI] = lambda epsilon: _renyi_delta(rest, epsilon)
    if math.isfinite(mu):
        found[GAUSSIAN] = lambda epsilon: gdp_delta(epsilon, mu)
    if len(rest) == 1 and _has_exact_formula(rest[0]):
        name = EXACT_DRAWS if rest[0].kind == "bounded_range" else EXACT_PAIR
        found[name] = lambda epsilon: exact_delta(rest[0], epsilon)
    elif _convolution_applies(rest, planned):
        found[CONVOLUTION] = lambda epsilon: convolved_delta(rest, epsilon)
    return found


def _epsilon_with_distance(
    curve: MethodCurve, spare: float, distance: float, fixed: ExactNumber
) -> float:
    """Epsilon at which the rest's delta and (1 + e^epsilon) T together fit into `spare`.

    The epsilons tried rise towards the least solution; the one returned has been checked.
    """
    epsilon = curve(spare)
    for _ in range(200):
        cost = approx_delta(sum_up((epsilon, fixed)), 0.0, distance)
        left = difference_down(spare, cost)
        if left <= 0.0 or math.isinf(epsilon):
            return math.inf
        needed = curve(left)
        if needed <= epsilon:
            return epsilon
        # A small step ahead ends the search, at a cost in the ninth digit.
        epsilon = needed * (1.0 + 1e-9) + 1e-300
    return math.inf


# ---- totals ---------------------------------------------------------------------------------
def total_pure_epsilon(events: Iterable[PrivacyEvent]) -> ExactNumber:
    """Sum of the pure epsilons, exact."""
    return _exact_sum(*(event.pure for event in events))


def total_mu(events: Iterable[PrivacyEvent]) -> float:
    """Mu of Gaussian events together, sqrt(sum of mu^2), rounded up; inf if any has none.

    Adaptive composition: Dong, Roth and Su (2022), Corollary 3.3.
    """
    together = list(events)
    if any(is_infinite(event.gaussian) for event in together):
        return math.inf
    return root_up(sum((e.count * Fraction(e.gaussian) ** 2 for e in together), Fraction(0)))


def total_epsilon_delta(events: Iterable[PrivacyEvent]) -> tuple[ExactNumber, Fraction]:
    """Exact sums of epsilon and of delta of approximate events (basic composition)."""
    together = list(events)
    delta = sum((e.count * Fraction(e.delta) for e in together), Fraction(0))
    if any(is_infinite(event.value) for event in together):
        return math.inf, delta
    return sum((e.count * Fraction(e.value) for e in together), Fraction(0)), delta


# ---- Renyi divergences ----------------------------------------------------------------------
def _last_finite_order(rest: Sequence[PrivacyEvent]) -> float:
    return min((event.last_order for event in rest), default=math.inf)


def _renyi_epsilon(rest: Sequence[PrivacyEvent], delta: float) -> float:
    return _best_over_orders(rest, lambda order, rdp: rdp_to_eps(order, rdp, delta))


def _renyi_delta(rest: Sequence[PrivacyEvent], epsilon: float) -> float:
    return min(1.0, _best_over_orders(rest, lambda order, rdp: rdp_to_delta(order, rdp, epsilon)))


def _best_over_orders(
    rest: Sequence[PrivacyEvent], convert: Callable[[float, float], float]
) -> float:
    """Least of the bounds tried; each order gives a valid one."""
    last = min(_last_finite_order(rest), MAX_RENYI_ORDER)

    def bound(order: float) -> float:
        rdp = sum_up(event.renyi(order) for event in rest)
        return convert(order, rdp) if math.isfinite(rdp) else math.inf

    def bound_at_log(log_excess: float) -> float:
        return min(bound(1.0 + math.exp(log_excess)), 1e300)

    interval = (math.log(1e-3 * (last - 1.0)), math.log(last - 1.0))
    found = scipy.optimize.minimize_scalar(
        bound_at_log, bounds=interval, method="bounded", options={"xatol": 1e-6}
    )
    known = [event.shape for event in rest if event.kind == "rdp"]
    best = min([bound(1.0 + math.exp(found.x)), *(bound(order) for order in known)])
    return best if best < 1e300 else math.inf


# ---- exact formulas of a single event -------------------------------------------------------
def _has_exact_formula(event: PrivacyEvent) -> bool:
    """Whether the curve of all runs of the event together has a formula of its own."""
    if event.kind in ("bounded_range", "mollifier", "window"):
        return True
    return event.kind in ("discrete_gaussian", *PAIR_KINDS) and event.count == 1


def exact_delta(event: PrivacyEvent, epsilon: float) -> float:
    """Delta of all runs of one event by its own formula, where it has one."""
    value, shape = event.number, event.shape
    if event.kind == "bounded_range":
        return br_delta(epsilon, event.count, value)
    if event.kind in ("mollifier", "window"):
        return moll_delta_k(epsilon, value, event.count, shape or None)
    if event.kind == "discrete_gaussian":
        return float(discrete_gaussian_delta(epsilon, _sigma_of_reciprocal(value)))
    if event.kind == "beta_pair":
        return float(beta_pair_delta(epsilon, value, shape, event.other or None))
    return float(gamma_pair_delta(epsilon, value, shape))


def exact_epsilon(event: PrivacyEvent, delta: float) -> float:
    """Epsilon of all runs of one event by its own formula, where it has one."""
    value, shape = event.number, event.shape
    if event.kind == "bounded_range":
        return br_eps(delta, event.count, value)
    if event.kind in ("mollifier", "window"):
        count, top = event.count, shape or None
        return least_epsilon(
            lambda epsilon: moll_delta_k(epsilon, value, count, top), delta, float_up(event.pure)
        )
    if event.kind == "discrete_gaussian":
        sigma = _sigma_of_reciprocal(value)
        enough = discrete_gaussian_negligible(sigma)
        if math.isinf(enough):
            return math.inf
        return least_epsilon(lambda epsilon: discrete_gaussian_delta(epsilon, sigma), delta, enough)
    if event.kind == "beta_pair":
        return beta_pair_eps(delta, value, shape, event.other or None)
    return gamma_pair_eps(delta, value, shape)


def _sigma_of_reciprocal(value: float) -> float:
    """Sigma rounded down from the reciprocal of `value`: less noise is less private."""
    return math.nextafter(1.0 / value, 0.0)


# ---- convolution of a plan ------------------------------------------------------------------
EITHER_DIRECTION = "either"
"""Of a pair whose side is not that of the others: the larger curve of both directions."""
KINDS_WITH_CURVE = (
    "pure",
    "bounded_range",
    "gdp",
    "discrete_gaussian",
    *PAIR_KINDS,
    "mollifier",
    "window",
)
"""Kinds with a dominating pair, whose curve can be convolved."""
MAX_CURVE_SHAPE = 1e6
"""The largest prior parameter of a pair in a plan: the curves of larger ones take too long."""


def _convolution_applies(rest: Sequence[PrivacyEvent], planned: bool) -> bool:
    """Whether convolution can improve on the other methods: not for Gaussians or one pure run."""
    alone = len(rest) == 1  # runs of one event are a plan by themselves
    several = rest[0].count > 1 if alone else len(rest) > 1
    gaussian = all(e.kind == "gdp" for e in rest)
    return bool((planned or alone) and several and have_curves(rest) and not gaussian)


def have_curves(events: Sequence[PrivacyEvent]) -> bool:
    """Whether every event has a dominating pair, and there are so few runs that the grid is short.

    The step of `compose_events` gives at most 2 MAX_GRID_POINTS points to MAX_GRID_POINTS / 4 runs.
    """
    few = sum(event.count for event in events) <= MAX_GRID_POINTS // 4
    short = all(
        e.kind in KINDS_WITH_CURVE and max(e.shape, e.other) <= MAX_CURVE_SHAPE for e in events
    )
    return bool(events) and few and short


def convolved_delta(events: Sequence[PrivacyEvent], epsilon: float) -> float:
    """Delta of a plan by convolution, rounded up."""
    return _cached_convolved_delta(tuple(events), epsilon)


def convolved_epsilon(events: Sequence[PrivacyEvent], delta: float) -> float:
    """Epsilon of a plan by convolution, rounded up."""
    return _cached_convolved_epsilon(tuple(events), delta)


# One charge asks for the same few numbers many times.
@lru_cache(maxsize=1024)
def _cached_convolved_delta(events: tuple[PrivacyEvent, ...], epsilon: float) -> float:
    return max(compose_events(events, d).delta(epsilon) for d in distinct_directions(events))


@lru_cache(maxsize=1024)
def _cached_convolved_epsilon(events: tuple[PrivacyEvent, ...], delta: float) -> float:
    return max(compose_events(events, d).epsilon(delta) for d in distinct_directions(events))


def distinct_directions(events: Sequence[PrivacyEvent]) -> tuple[str, ...]:
    """Directions in which the composed loss of these events differs."""
    differ = any(_is_asymmetric(e) and _is_direction_shared(e, events) for e in events)
    return DIRECTIONS if differ else DIRECTIONS[:1]


@lru_cache(maxsize=4)  # each may be as large as 64 MB
def compose_events(events: tuple[PrivacyEvent, ...], direction: str) -> ComposedLoss:
    """Convolve the losses of a plan of events, all of which have curves, in a direction."""
    opposite = DIRECTIONS[1 - DIRECTIONS.index(direction)]
    curves = []
    for event in events:
        if _is_asymmetric(event) and _is_direction_shared(event, events):
            curve, reverse = event_curve(event, direction), event_curve(event, opposite)
        else:
            curve = reverse = event_curve(event, EITHER_DIRECTION)
        curves.append((curve, reverse, event.count))
    losses = [(_largest_loss(event), event.count) for event in events]
    step = max(
        max(loss for loss, _ in losses) / GRID_CELLS,
        2.0 * sum(loss * n for loss, n in losses) / MAX_GRID_POINTS,
    )
    return convolve_losses(
        [(discretize_curve(curve, reverse, step), n) for curve, reverse, n in curves]
    )


@lru_cache(maxsize=32)
def event_curve(event: PrivacyEvent, direction: str) -> PrivacyCurve:
    """Curve of one run of an event in a direction, or the larger one in `EITHER_DIRECTION`.

    It remembers its values: both directions of a convolution ask for those of either curve.
    """
    return lru_cache(maxsize=4 * GRID_CELLS)(_event_curve(event, direction))


def _event_curve(event: PrivacyEvent, direction: str) -> PrivacyCurve:
    """The same without a memory."""
    value, shape = event.number, event.shape
    if direction == EITHER_DIRECTION and _is_asymmetric(event):
        first, second = (event_curve(event, one) for one in DIRECTIONS)
        return lambda epsilon: max(first(epsilon), second(epsilon))
    if event.other:
        a, b = (shape, event.other)[:: 1 if direction == DIRECTIONS[0] else -1]
        return lambda epsilon: beta_pair_delta_one_way(epsilon, value, a, b)
    if event.kind in GAMMA_KINDS:
        return lambda epsilon: gamma_pair_delta_fast(epsilon, value, shape, direction)
    return {
        "pure": lambda epsilon: pure_to_delta(value, epsilon),
        "bounded_range": lambda epsilon: br_delta(epsilon, 1, value),
        "gdp": lambda epsilon: gdp_delta(epsilon, value),
        "beta_pair": lambda epsilon: beta_pair_delta_fast(epsilon, value, shape),
        "mollifier": lambda epsilon: moll_delta(epsilon, value),
        "window": lambda epsilon: moll_delta(epsilon, value, shape),
        "discrete_gaussian": lambda epsilon: discrete_gaussian_delta(
            epsilon, _sigma_of_reciprocal(value)
        ),
    }[event.kind]


def _largest_loss(event: PrivacyEvent) -> float:
    """Largest loss of an event: a point of the grid, where losses are bounded."""
    if event.kind in ("pure", "bounded_range", "mollifier", "window"):
        return min(max(event.number, 1e-6), MAX_FINITE_LOSS)
    ways = DIRECTIONS if _is_asymmetric(event) else DIRECTIONS[:1]
    return max(curve_end(event_curve(event, direction)) for direction in ways)


def _is_asymmetric(event: PrivacyEvent) -> bool:
    """Whether the curves in the two directions differ."""
    return event.kind in GAMMA_KINDS or event.other > 0.0


def _is_direction_shared(event: PrivacyEvent, events: Sequence[PrivacyEvent]) -> bool:
    """Whether one direction is that of all runs of this event and of all others that have one.

    Added records raise the counts of all tables (T10). Draws from one posterior have one unknown
    direction in common: together with any other event that has one they do not share it.
    """
    if event.kind in ("gamma_pair", "gamma_either"):
        return event.kind == "gamma_pair"
    return sum(map(_is_asymmetric, events)) == 1
