"""Calibration of Dirichlet draws of many tables within one budget: T11, T12.

A record that touches m families of tables costs m dominating pairs, whatever the number of tables
in each, and N draws cost N m. Under a Renyi budget each family has an equal share and its own
(r, alpha); under (epsilon, delta) all families share one pair, whose joint curve is convolved.
alpha follows from r; r is chosen by the expected divergence at a public profile.

A quick estimate of the joint curve guides the search:
delta(epsilon) = E (1 - e^(epsilon - L))+ = 1/(2 pi i) int M(t) e^(-t epsilon) / (t (t+1)) dt along
Re t = c > 0 with M the moment generating function of the total loss L, which for Beta and Gamma
pairs (T9, T10) is a ratio of Gamma functions. No privacy number comes from the estimate: the proved
curve is evaluated at what the search finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from flint import arb
from scipy import special

from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy.beta_gamma_pairs import beta_pair_alpha, beta_pair_rdp, gamma_pair_rdp
from pymc_private.privacy.dirichlet import ponnoprat_r
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.noisy_counts import CountBudget, CountProfile
from pymc_private.privacy.renyi import rdp_to_eps
from pymc_private.privacy.rounding import arb_upper, least_argument, real
from pymc_private.privacy.validation import check_positive

THEOREM = "T9-T11"
SHARE_MARGIN = 1.0 - 1e-10
"""Factor of a divergence that is divided: sums and products of its parts are rounded up later."""
MIN_ALPHA = 1e-3
"""A public minimum of the counts may suffice for privacy; a prior parameter is positive still."""


@dataclass(frozen=True)
class JointPlan:
    """Powers and prior parameters for each family of tables, and the guarantee of the draws.

    Attributes
    ----------
    r, alpha : tuple of float
        Draw each table f of family k from Dir(r[k] f + alpha[k]).
    guarantee : Guarantee
        Of all draws of all families.
    expected_kl : tuple of float
        Of one draw at the public profile, per family, nats.
    """

    r: tuple[float, ...]
    alpha: tuple[float, ...]
    guarantee: Guarantee
    expected_kl: tuple[float, ...]


@dataclass(frozen=True)
class TableSensitivity:
    """Effect of a change of the data on the tables.

    Attributes
    ----------
    families : int
        Most families that one change touches: one dominating pair each.
    draws : int
    neighbors : str
    minimum : float
        Public lower bound of every count in every data set.
    """

    families: int
    draws: int = 1
    neighbors: str = SUBSTITUTE
    minimum: float = 0.0

    @property
    def pairs(self) -> int:
        """Number of dominating pairs of all draws together."""
        return self.families * self.draws

    def guarantee(self, r: float, alpha: float, pairs: int | None = None) -> Guarantee:
        """Guarantee of `pairs` draws of Dir(r f + alpha), by default of all of them."""
        least = self.least_parameter(r, alpha)
        count = self.pairs if pairs is None else pairs
        return Guarantee.dirichlet_of(r, least, count, neighbors=self.neighbors, theorem=THEOREM)

    def least_parameter(self, r: float, alpha: float) -> float:
        """Lower bound of every parameter of Dir(r f + alpha), rounded down."""
        return alpha + r * self.minimum * (1.0 - 1e-12)


def joint_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], sensitivity: TableSensitivity
) -> JointPlan:
    """Power r and parameter alpha of every family with the least expected divergence.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
        One per family; public.
    sensitivity : TableSensitivity

    Returns
    -------
    JointPlan
        Its guarantee was evaluated and fits the budget.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP: a Dirichlet draw has neither.
    DomainError
        Nothing fits.

    References
    ----------
    Theory T9-T12.
    """
    check_dirichlet_budget(budget)
    if budget.order is not None and sensitivity.families == len(profiles):
        parts = [_plan_renyi_share(budget, profile, sensitivity) for profile in profiles]
        return _combine_families(parts, profiles, sensitivity)
    size = budget.epsilon if budget.epsilon is not None else math.sqrt(budget.rdp or 1.0)
    r, _ = search_power(
        lambda r: subtract_minimum(
            _least_pair_alpha(budget, sensitivity, r), r, sensitivity.minimum
        ),
        lambda r, alpha: sum(p.dirichlet_kl(r, alpha) for p in profiles),
        (math.log(size) - 7.0, math.log(size) + 4.0),
    )
    least = _raise_until_proved(budget, sensitivity, r, _least_pair_alpha(budget, sensitivity, r))
    part = (r, subtract_minimum(least, r, sensitivity.minimum))
    return _combine_families([part] * len(profiles), profiles, sensitivity)


def algorithm1_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], sensitivity: TableSensitivity
) -> JointPlan:
    """Ponnoprat's Algorithm 1: alpha = 1 + 4 (l-1) r, r from the older bound of the divergence.

    Each family has an equal share of the divergence; under (epsilon, delta) the order is the one
    that is best at the public profile. The guarantee is the exact cost of these parameters (T9),
    which is less than the budget the algorithm is given.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
    sensitivity : TableSensitivity

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.

    References
    ----------
    Ponnoprat (2023), Algorithm 1 and Remark 2 (a public minimum).
    """
    check_dirichlet_budget(budget)
    cells = 1.0 if sensitivity.neighbors == ADD_REMOVE else 2.0

    def plan_at(order: float, divergence: float) -> tuple[float, float]:
        r = float(ponnoprat_r(order, divergence / sensitivity.pairs, cells, 1.0))
        alpha = 1.0 + 4.0 * (order - 1.0) * r
        return r, max(alpha - r * sensitivity.minimum, MIN_ALPHA)

    if budget.order is not None and budget.rdp is not None:
        found = plan_at(budget.order, budget.rdp)
    else:
        found = best_renyi_order(budget, plan_at, profiles)[1]
    return _combine_families([found] * len(profiles), profiles, sensitivity)


def check_dirichlet_budget(budget: CountBudget) -> None:
    """Refuse pure epsilon and zCDP, which no Dirichlet draw has."""
    if budget.pure or budget.zcdp is not None:
        raise Unsupported(
            "a Dirichlet draw has no pure epsilon and no zCDP: its Renyi divergence is infinite "
            "from the order 1 + alpha / r on",
            got=str(budget),
            do='take method="noisy", or a budget of (epsilon, delta) or of one Renyi order',
        )


def _plan_renyi_share(
    budget: CountBudget, profile: CountProfile, sensitivity: TableSensitivity
) -> tuple[float, float]:
    """(r, alpha) of one family at an equal share of a Renyi budget."""
    order, share = _renyi_share(budget, sensitivity)
    return _plan_one_family(order, share, profile, sensitivity.neighbors, sensitivity.minimum)


@lru_cache(maxsize=1024)
def _plan_one_family(
    order: float, share: float, profile: CountProfile, neighbors: str, minimum: float
) -> tuple[float, float]:
    def alpha_of(r: float) -> float:
        return subtract_minimum(_least_renyi_alpha(order, share, r, neighbors), r, minimum)

    middle = math.log(math.sqrt(share))
    return search_power(alpha_of, profile.dirichlet_kl, (middle - 5.0, middle + 6.0))


def _renyi_share(budget: CountBudget, sensitivity: TableSensitivity) -> tuple[float, float]:
    """Renyi order of a budget, and the divergence that each of the pairs may have."""
    share = float(budget.rdp or 0.0) / sensitivity.pairs * SHARE_MARGIN
    return float(budget.order or 0.0), share


def _least_renyi_alpha(order: float, share: float, r: float, neighbors: str) -> float:
    """Least parameter of a pair whose Renyi divergence is at most `share`."""
    pair = gamma_pair_rdp if neighbors == ADD_REMOVE else beta_pair_rdp
    return least_argument(lambda a: min(1e9 * share, pair(order, r, a)), share, 2.0 * order * r)


def subtract_minimum(least: float, r: float, minimum: float) -> float:
    """Prior parameter to draw with, where a public minimum of the counts replaces part of it."""
    return max(least * (1 + 1e-13) - r * minimum, MIN_ALPHA) if minimum else least


def _least_pair_alpha(budget: CountBudget, sensitivity: TableSensitivity, r: float) -> float:
    """Least parameter of a pair for a power r: exact for one pair, else an estimate."""
    neighbors = sensitivity.neighbors
    if budget.order is not None:
        return _least_renyi_alpha(*_renyi_share(budget, sensitivity), r, neighbors)
    epsilon, delta = float(budget.epsilon or 0.0), budget.delta
    if sensitivity.pairs == 1 and neighbors != ADD_REMOVE:
        return float(beta_pair_alpha(epsilon, delta, r))
    return estimate_alpha(epsilon, delta, r, sensitivity.pairs, neighbors)


def search_power(
    alpha_of: Callable[[float], float],
    cost: Callable[[float, float], float],
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """Power r of least cost with log r in `bounds`, and its alpha; the cost is public."""
    found = scipy.optimize.minimize_scalar(
        lambda x: cost(math.exp(x), alpha_of(math.exp(x))),
        bounds=bounds, method="bounded", options={"xatol": 2e-3},
    )  # fmt: skip
    r = math.exp(float(found.x))
    return r, alpha_of(r)


def _raise_until_proved(
    budget: CountBudget, sensitivity: TableSensitivity, r: float, least: float
) -> float:
    """Raise the parameter until the guarantee fits; it starts a few parts in 10,000 too low."""
    for _ in range(60):
        alpha = subtract_minimum(least, r, sensitivity.minimum)
        guarantee = sensitivity.guarantee(r, alpha)
        if budget.fits(guarantee):
            return least
        least *= 1.0 + max(1e-9, 2.0 * min(budget.cost(guarantee) - 1.0, 0.5) + 1e-6)
    raise DomainError(
        "nothing fits this budget; nothing was charged",
        got=str(budget),
        do="take a larger budget, or fewer tables or draws",
    )


def best_renyi_order(
    budget: CountBudget,
    plan_at: Callable[[float, float], tuple[float, float]],
    profiles: Sequence[CountProfile],
) -> tuple[float, tuple[float, float]]:
    """Renyi order of the least expected divergence at the profiles, and (r, alpha) there."""

    def divergence(order: float) -> float:
        """Divergence at which this order proves exactly (epsilon, delta)."""
        overhead = float(rdp_to_eps(order, 0.0, budget.delta)) if order > 1 else math.inf
        return (float(budget.epsilon or 0.0) - overhead) * (1.0 - 1e-12)

    def cost(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        if not divergence(order) > 0.0:
            return 1e6 - log_excess
        return sum(p.dirichlet_kl(*plan_at(order, divergence(order))) for p in profiles)

    found = scipy.optimize.minimize_scalar(
        cost, bounds=(-3.0, 12.0), method="bounded", options={"xatol": 1e-4}
    )
    order = 1.0 + math.exp(float(found.x))
    if not divergence(order) > 0.0:
        raise DomainError(
            "no Renyi order proves this budget", got=str(budget), do="a larger epsilon or delta"
        )
    return order, plan_at(order, divergence(order))


def _combine_families(
    parts: Sequence[tuple[float, float]],
    profiles: Sequence[CountProfile],
    sensitivity: TableSensitivity,
) -> JointPlan:
    if len(set(parts)) == 1:
        guarantee = sensitivity.guarantee(*parts[0])
    else:
        each = (sensitivity.guarantee(*part, sensitivity.draws) for part in parts)
        guarantee = Guarantee.jointly(*each)
    kl = tuple(p.dirichlet_kl(*part) for p, part in zip(profiles, parts, strict=True))
    return JointPlan(tuple(p[0] for p in parts), tuple(p[1] for p in parts), guarantee, kl)


# ---- a stated prior (T9-T11) ---------------------------------------------------------------
def largest_posterior_power(
    budget: CountBudget, least: float, sensitivity: TableSensitivity, second: float | None = None
) -> tuple[float, Guarantee]:
    """Largest power r <= 1 at which a stated prior meets the budget; 1 is the posterior.

    Parameters
    ----------
    budget : CountBudget
    least : float
        Least prior parameter of any cell.
    sensitivity : TableSensitivity
    second : float, optional
        The second least, of two cells of one family; default `least`.

    Returns
    -------
    tuple of float and Guarantee
        Evaluated, and within the budget.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.
    DomainError
        No power down to 1e-9 fits.

    References
    ----------
    Theory T9-T11.
    """
    check_dirichlet_budget(budget)
    two = (least, least if second is None or sensitivity.families > 1 else second)
    high, low = 0.0, 0.0  # logarithms; the estimate guides the search, the proved curve decides
    while not _seems_to_fit(budget, sensitivity, math.exp(low), two):
        low, high = low - 1.0, low
        if low < -20.0:
            raise DomainError(
                "no power of the counts meets this budget with this prior; nothing was charged",
                got=str(budget),
                do="take larger prior parameters, or a larger budget",
            )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        fits = _seems_to_fit(budget, sensitivity, math.exp(middle), two)
        low, high = (middle, high) if fits else (low, middle)
    power = math.exp(low)
    while not budget.fits(guarantee := unequal_prior_guarantee(sensitivity, power, *two)):
        power *= 1.0 - 1e-4
    return power, guarantee


def unequal_prior_guarantee(
    sensitivity: TableSensitivity, r: float, least: float, second: float
) -> Guarantee:
    """Guarantee of all draws with a prior whose two least parameters are known (T9).

    A record moves between two cells; whatever their parameters, two that are componentwise at most
    as large dominate. Of one family, both directions of the pair are evaluated; of several, each
    has its own, so there the least parameter is used for both.
    """
    if sensitivity.families > 1 or second == least:
        return sensitivity.guarantee(r, least)
    alpha, beta = (sensitivity.least_parameter(r, parameter) for parameter in (least, second))
    words = {"neighbors": sensitivity.neighbors, "theorem": THEOREM}
    return Guarantee.dirichlet_of(r, alpha, 1, sensitivity.draws, beta=beta, **words)


def _seems_to_fit(
    budget: CountBudget, sensitivity: TableSensitivity, r: float, two: tuple[float, float]
) -> bool:
    if budget.epsilon is None:
        return budget.fits(unequal_prior_guarantee(sensitivity, r, *two))
    alpha, beta = (parameter + r * sensitivity.minimum for parameter in two)
    found = estimate_delta(budget.epsilon, r, alpha, sensitivity.pairs, sensitivity.neighbors, beta)
    return found <= budget.delta


# ---- vector statistics (T11) ---------------------------------------------------------------
def vector_rdp(order: float, r: float, alpha: float, d2sq: float, dinf: float) -> float:
    """Renyi divergence of one draw of Dir(r f + alpha) of a vector f of declared sensitivity.

    A coordinate that moves by v contributes h(r v) / (l - 1), h(s) = ln G(a - (l-1) s)
    + (l-1) ln G(a + s) - l ln G(a), or less the other way round. For l >= 2 h(s) / s^2 grows in s,
    for h''' = (l-1)^3 |psi''(a - (l-1) s)| - (l-1) |psi''(a + s)| >= 0; so the sum over
    coordinates is at most d2sq / dinf^2 times that of dinf. For smaller orders h'' is bounded by
    (l-1)^2 psi'(a - (l-1) r dinf) + (l-1) psi'(a).

    Parameters
    ----------
    order : float
        > 1.
    r, alpha : float
        > 0.
    d2sq, dinf : float
        Squared Euclidean and largest change of f.

    Returns
    -------
    float
        nats, rounded up; inf from the order 1 + alpha / (r dinf) on.

    References
    ----------
    Theory T11; sharper than Ponnoprat (2023), Theorem 1.
    """
    check_positive(r=r, alpha=alpha, d2sq=d2sq, dinf=dinf)
    reach = r * dinf * (1.0 + 1e-15)
    if (order - 1.0) * reach >= alpha:
        return math.inf
    if order >= 2.0:
        each = float(gamma_pair_rdp(order, reach, alpha, "more_second"))
        return each * d2sq / dinf**2 * (1.0 + 1e-14)

    def bound() -> arb:
        far = real(alpha) - (real(order) - 1) * real(reach)
        curvature = (real(order) - 1) * arb(2).zeta(far) + arb(2).zeta(real(alpha))
        return curvature * real(d2sq) * real(r) ** 2 / 2

    return arb_upper(bound)


def vector_plan(
    budget: CountBudget,
    profiles: Sequence[CountProfile],
    d2sq: float,
    dinf: float,
    sensitivity: TableSensitivity,
) -> JointPlan:
    """Power r and alpha for a vector statistic of declared sensitivity, at one Renyi order.

    Under (epsilon, delta) the order is searched too; the guarantee keeps that order alone.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.
    DomainError
        Nothing fits.
    """
    check_dirichlet_budget(budget)
    check_positive(d2sq=d2sq, dinf=dinf)

    def plan_at(order: float, divergence: float) -> tuple[float, float]:
        share = divergence / sensitivity.pairs * SHARE_MARGIN

        def alpha_of(r: float) -> float:
            def rdp(a: float) -> float:
                return min(1e9 * share, vector_rdp(order, r, a, d2sq, dinf))

            least = least_argument(rdp, share, 2.0 * order * r * dinf)
            return subtract_minimum(least, r, sensitivity.minimum)

        middle = 0.5 * math.log(share / d2sq)
        cost = profiles[0].dirichlet_kl
        return search_power(alpha_of, cost, (middle - 5.0, middle + 6.0))

    if budget.order is not None and budget.rdp is not None:
        order = budget.order
        r, alpha = plan_at(order, budget.rdp)
    else:
        order, (r, alpha) = best_renyi_order(budget, plan_at, profiles)
    least = sensitivity.least_parameter(r, alpha)
    divergence = vector_rdp(order, r, least, d2sq, dinf) * sensitivity.pairs
    guarantee = Guarantee.rdp_of(
        order, divergence * (1.0 + 1e-15), neighbors=sensitivity.neighbors, theorem=THEOREM
    )
    if not budget.fits(guarantee):
        raise _nothing_fits(budget)
    return JointPlan((r,), (alpha,), guarantee, (profiles[0].dirichlet_kl(r, alpha),))


def _nothing_fits(budget: CountBudget) -> DomainError:
    return DomainError(
        "nothing fits this budget; nothing was charged",
        got=str(budget),
        do="a larger epsilon or delta, or method='noisy'",
    )


# ---- quick estimate of the joint curve -----------------------------------------------------
CONTOUR = np.linspace(0.0, 6.0, 160)
"""Nodes x of the path c + i w sinh(x)."""


def estimate_delta(
    epsilon: float, r: float, alpha: float, count: int, neighbors: str, beta: float | None = None
) -> float:
    """Estimate of delta at `epsilon` of `count` draws together: to a few digits, on either side."""
    if neighbors != ADD_REMOVE:
        b = alpha if beta is None else beta
        return max(
            _contour_integral(epsilon, count, y / r, _beta_log_moment(r, x, y))
            for x, y in {(alpha, b), (b, alpha)}
        )
    first = _contour_integral(epsilon, count, math.inf, lambda t: _gamma_log_moment(t, r, alpha))
    return max(
        first,
        _contour_integral(
            epsilon, count, alpha / r, lambda t: _gamma_log_moment(-1.0 - t, r, alpha)
        ),
    )


def estimate_alpha(epsilon: float, delta: float, r: float, count: int, neighbors: str) -> float:
    """Estimate of the least prior parameter at which `count` draws are (epsilon, delta)-private."""

    def excess(log_alpha: float) -> float:
        found = estimate_delta(epsilon, r, math.exp(log_alpha), count, neighbors)
        return math.log(max(found, 1e-300)) - math.log(delta)

    # A Gaussian of the same variance is close where alpha is large: count r^2 2 / alpha = mu^2.
    mu = epsilon / math.sqrt(2.0 * math.log(1.25 / delta) + 2.0 * epsilon)
    high = low = math.log(max(2.0 * count * r**2 / mu**2, 1e-3 * r))
    while excess(high) > 0.0:
        low, high = high, high + 0.7
    while low == high or excess(low) <= 0.0:
        low, high = low - 0.7, low
        if low < -60.0:
            return math.exp(low)
    return math.exp(float(scipy.optimize.brentq(excess, low, high, xtol=1e-5)))


LogMoment = Callable[[np.ndarray], np.ndarray]


def _beta_log_moment(r: float, a: float, b: float) -> LogMoment:
    """ln E e^(t L) of Beta(a + r, b) against Beta(a, b + r)."""
    first = special.loggamma(a + r) + special.loggamma(b)
    shift = first - special.loggamma(a) - special.loggamma(b + r)

    def log_moment(t: np.ndarray) -> np.ndarray:
        top = special.loggamma(a + r + r * t) + special.loggamma(b - r * t)
        return np.asarray(top - first - t * shift)

    return log_moment


def _gamma_log_moment(t: np.ndarray, r: float, a: float) -> np.ndarray:
    """ln E e^(t L) under the larger data set; under the smaller one it is that of -1 - t."""
    shift = special.loggamma(a + r) - special.loggamma(a)
    return np.asarray(special.loggamma(a + r + r * t) - special.loggamma(a + r) - t * shift)


def _contour_integral(epsilon: float, count: int, last: float, log_moment: LogMoment) -> float:
    """Integral along the path through the saddle point."""

    def height(c: float) -> float:
        t = np.array(c + 0j)
        return float(count * log_moment(t).real - c * epsilon - math.log(c) - math.log1p(c))

    interval = (-12.0, math.log(last) - 1e-9 if math.isfinite(last) else 12.0)
    found = scipy.optimize.minimize_scalar(
        lambda u: height(math.exp(u)), bounds=interval, method="bounded", options={"xatol": 1e-3}
    )
    c = math.exp(float(found.x))
    step = 1e-3 * min(c, last - c if math.isfinite(last) else c)
    curvature = (height(c + step) + height(c - step) - 2.0 * height(c)) / step**2
    w = 1.0 / math.sqrt(max(curvature, 1e-12))
    t = c + 1j * w * np.sinh(CONTOUR)
    integrand = np.exp(count * log_moment(t) - t * epsilon - np.log(t) - np.log1p(t)).real
    return float(np.trapezoid(integrand * w * np.cosh(CONTOUR), CONTOUR) / math.pi)
