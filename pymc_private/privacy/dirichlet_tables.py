"""Calibration of Dirichlet draws of many tables within one budget: T11, T12.

A record that touches m families of tables costs m dominating pairs, whatever the number of tables
in each, and N draws cost N m. Under a Renyi budget each family has an equal share and its own
(r, alpha); under (epsilon, delta) all families share one pair, whose joint curve is convolved.
alpha follows from r; r is chosen by the expected divergence at a public profile.

A quick estimate of the joint curve guides the search:
delta(eps) = E (1 - e^(eps - L))+ = 1/(2 pi i) int M(t) e^(-t eps) / (t (t+1)) dt along Re t = c > 0
with M the moment generating function of the total loss L, which for Beta and Gamma pairs (T9, T10)
is a ratio of Gamma functions. No privacy number comes from the estimate: the proved curve is
evaluated at what the search finds.

`largest_posterior_power` keeps a stated prior and lowers the power instead (T9-T11); `vector_plan`
serves vector statistics that are known by their sensitivity alone (T11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb
from scipy import optimize, special
from scipy.optimize import minimize_scalar

from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy.beta_gamma_pairs import beta_pair_alpha, beta_pair_rdp, gamma_pair_rdp
from pymc_private.privacy.dirichlet import ponnoprat_r
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.noisy_counts import CountBudget, CountProfile
from pymc_private.privacy.renyi import rdp_to_eps
from pymc_private.privacy.rounding import arb_upper, least_argument, real
from pymc_private.privacy.validation import check_positive

CONTOUR = np.linspace(0.0, 6.0, 160)
"""The path is c + i w sinh(x)."""


def estimate_delta(
    eps: float, r: float, alpha: float, count: int, neighbors: str, beta: float | None = None
) -> float:
    """Estimate delta at `eps` of `count` draws together: a few digits, either side of the truth."""
    if neighbors != ADD_REMOVE:
        b = alpha if beta is None else beta
        return max(
            _contour_integral(eps, count, y / r, _beta_log_moment(r, x, y))
            for x, y in {(alpha, b), (b, alpha)}
        )
    first = _contour_integral(eps, count, math.inf, lambda t: _gamma_log_moment(t, r, alpha))
    return max(
        first,
        _contour_integral(eps, count, alpha / r, lambda t: _gamma_log_moment(-1.0 - t, r, alpha)),
    )


def estimate_alpha(eps: float, delta: float, r: float, count: int, neighbors: str) -> float:
    """Estimate the least prior parameter at which `count` draws together are (eps, delta)."""

    def excess(log_alpha: float) -> float:
        found = estimate_delta(eps, r, math.exp(log_alpha), count, neighbors)
        return math.log(max(found, 1e-300)) - math.log(delta)

    # A Gaussian of the same variance is close where alpha is large: count r^2 2 / alpha = mu^2.
    mu = eps / math.sqrt(2.0 * math.log(1.25 / delta) + 2.0 * eps)
    high = low = math.log(max(2.0 * count * r**2 / mu**2, 1e-3 * r))
    while excess(high) > 0.0:
        low, high = high, high + 0.7
    while low == high or excess(low) <= 0.0:
        low, high = low - 0.7, low
        if low < -60.0:
            return math.exp(low)
    return math.exp(float(optimize.brentq(excess, low, high, xtol=1e-5)))


LogMoment = Callable[[np.ndarray], np.ndarray]


def _beta_log_moment(r: float, a: float, b: float) -> LogMoment:
    """Give ln E e^(t L) of Beta(a + r, b) against Beta(a, b + r)."""
    first = special.loggamma(a + r) + special.loggamma(b)
    shift = first - special.loggamma(a) - special.loggamma(b + r)

    def log_moment(t: np.ndarray) -> np.ndarray:
        top = special.loggamma(a + r + r * t) + special.loggamma(b - r * t)
        return np.asarray(top - first - t * shift)

    return log_moment


def _gamma_log_moment(t: np.ndarray, r: float, a: float) -> np.ndarray:
    """Give ln E e^(t L) under the larger data set; of the smaller one it is that of -1 - t."""
    shift = special.loggamma(a + r) - special.loggamma(a)
    return np.asarray(special.loggamma(a + r + r * t) - special.loggamma(a + r) - t * shift)


def _contour_integral(eps: float, count: int, last: float, log_moment: LogMoment) -> float:
    """Integrate along the path through the saddle point."""

    def height(c: float) -> float:
        t = np.array(c + 0j)
        return float(count * log_moment(t).real - c * eps - math.log(c) - math.log1p(c))

    ends = (-12.0, math.log(last) - 1e-9 if math.isfinite(last) else 12.0)
    found = optimize.minimize_scalar(
        lambda u: height(math.exp(u)), bounds=ends, method="bounded", options={"xatol": 1e-3}
    )
    c = math.exp(float(found.x))
    step = 1e-3 * min(c, last - c if math.isfinite(last) else c)
    bend = (height(c + step) + height(c - step) - 2.0 * height(c)) / step**2
    w = 1.0 / math.sqrt(max(bend, 1e-12))
    t = c + 1j * w * np.sinh(CONTOUR)
    integrand = np.exp(count * log_moment(t) - t * eps - np.log(t) - np.log1p(t)).real
    return float(np.trapezoid(integrand * w * np.cosh(CONTOUR), CONTOUR) / math.pi)


THEOREM = "T9-T11"
SHARE_MARGIN = 1.0 - 1e-10
"""Of a divergence that is divided: sums and products of its parts are rounded up later."""
MIN_ALPHA = 1e-3
"""A public minimum of the counts may pay for all privacy; a prior parameter is positive still."""


@dataclass(frozen=True)
class JointPlan:
    """Powers and prior parameters for each family, and what drawing with them reveals.

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
    """How a change of the data reaches the tables.

    Attributes
    ----------
    families : int
        Most families that one change touches: one pair of laws each.
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
        """Pairs of laws of all draws together."""
        return self.families * self.draws

    def promise(self, r: float, alpha: float, pairs: int | None = None) -> Guarantee:
        """Give the guarantee of so many draws of Dir(r f + alpha): alpha gains r times minimum."""
        return self.priced(r, alpha + r * self.minimum * (1.0 - 1e-12), pairs)

    def priced(self, r: float, least: float, pairs: int | None = None) -> Guarantee:
        """Give the guarantee of pairs whose parameters are at least `least`."""
        count = self.pairs if pairs is None else pairs
        return Guarantee.dirichlet_of(r, least, count, neighbors=self.neighbors, theorem=THEOREM)


def joint_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], touched: TableSensitivity
) -> JointPlan:
    """Choose r and alpha of every family: the exact price, the least expected divergence.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
        One per family; public.
    touched : Touched

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
    if budget.order is not None and touched.families == len(profiles):
        parts = [_plan_renyi_share(budget, profile, touched) for profile in profiles]
        return _combine_families(parts, profiles, touched)
    least_of = _least_alpha_by_power(budget, touched)
    size = budget.epsilon if budget.epsilon is not None else math.sqrt(budget.rdp or 1.0)
    r, _ = search_power(
        lambda r: subtract_minimum(least_of(r), r, touched.minimum),
        lambda r, alpha: sum(p.dirichlet_kl(r, alpha) for p in profiles),
        (math.log(size) - 7.0, math.log(size) + 4.0),
    )
    alpha = subtract_minimum(
        _raise_until_proved(budget, touched, r, least_of(r)), r, touched.minimum
    )
    return _combine_families([(r, alpha)] * len(profiles), profiles, touched)


def algorithm1_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], touched: TableSensitivity
) -> JointPlan:
    """Ponnoprat's Algorithm 1: alpha = 1 + 4 (l-1) r, r from the older bound of the divergence.

    Each family has an equal share of the divergence; under (epsilon, delta) the order is the one
    that is best at the public profile. The guarantee says what these numbers really cost (T9),
    which is less than what the algorithm was told to spend.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
    touched : Touched

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.

    References
    ----------
    Ponnoprat (2023), Algorithm 1 and Remark 2 (a public minimum).
    """
    check_dirichlet_budget(budget)
    cells = 1.0 if touched.neighbors == ADD_REMOVE else 2.0

    def at(order: float, divergence: float) -> tuple[float, float]:
        r = float(ponnoprat_r(order, divergence / touched.pairs, cells, 1.0))
        alpha = 1.0 + 4.0 * (order - 1.0) * r
        return r, max(alpha - r * touched.minimum, MIN_ALPHA)

    if budget.order is not None and budget.rdp is not None:
        found = at(budget.order, budget.rdp)
    else:
        found = best_renyi_order(budget, at, profiles)[1]
    return _combine_families([found] * len(profiles), profiles, touched)


def check_dirichlet_budget(budget: CountBudget) -> None:
    """Refuse the budgets that no Dirichlet draw can keep."""
    if budget.pure or budget.zcdp is not None:
        raise Unsupported(
            "a Dirichlet draw is neither pure nor concentrated: its divergences end at the order "
            "1 + alpha / r",
            got=str(budget),
            do='take method="noisy", or a budget of (epsilon, delta) or of one Renyi order',
        )


def _plan_renyi_share(
    budget: CountBudget, profile: CountProfile, touched: TableSensitivity
) -> tuple[float, float]:
    share = float(budget.rdp or 0.0) / touched.pairs * SHARE_MARGIN
    order = float(budget.order or 0.0)
    return _plan_one_family(order, share, profile, touched.neighbors, touched.minimum)


@lru_cache(maxsize=1024)
def _plan_one_family(
    order: float, share: float, profile: CountProfile, neighbors: str, minimum: float
) -> tuple[float, float]:
    pair: Callable[[float, float, float], float]
    pair = gamma_pair_rdp if neighbors == ADD_REMOVE else beta_pair_rdp

    def alpha_of(r: float) -> float:
        least = least_argument(
            lambda a: min(1e9 * share, pair(order, r, a)), share, 2.0 * order * r
        )
        return subtract_minimum(least, r, minimum)

    scale = math.sqrt(share)
    return search_power(
        alpha_of, profile.dirichlet_kl, (math.log(scale) - 5.0, math.log(scale) + 6.0)
    )


def subtract_minimum(least: float, r: float, minimum: float) -> float:
    """Give the prior parameter to draw with, where a public minimum pays for some of it."""
    return max(least * (1 + 1e-13) - r * minimum, MIN_ALPHA) if minimum else least


def _least_alpha_by_power(
    budget: CountBudget, touched: TableSensitivity
) -> Callable[[float], float]:
    """Give the least parameter of a pair for a power: exact for one pair, else a close guess."""
    if budget.order is not None:
        order, share = budget.order, float(budget.rdp or 0.0) / touched.pairs * SHARE_MARGIN
        pair = gamma_pair_rdp if touched.neighbors == ADD_REMOVE else beta_pair_rdp

        def least(r: float) -> float:
            return least_argument(
                lambda a: min(1e9 * share, pair(order, r, a)), share, 2.0 * order * r
            )
    else:
        epsilon, delta = float(budget.epsilon or 0.0), budget.delta
        alone = touched.pairs == 1 and touched.neighbors != ADD_REMOVE

        def least(r: float) -> float:
            if alone:
                return float(beta_pair_alpha(epsilon, delta, r))
            return estimate_alpha(epsilon, delta, r, touched.pairs, touched.neighbors)

    return least


def search_power(
    alpha_of: Callable[[float], float],
    cost: Callable[[float, float], float],
    ends: tuple[float, float],
) -> tuple[float, float]:
    """Search the power between two logarithms; the cost is judged in public."""
    found = minimize_scalar(
        lambda x: cost(math.exp(x), alpha_of(math.exp(x))),
        bounds=ends, method="bounded", options={"xatol": 2e-3},
    )  # fmt: skip
    r = math.exp(float(found.x))
    return r, alpha_of(r)


def _raise_until_proved(
    budget: CountBudget, touched: TableSensitivity, r: float, least: float
) -> float:
    """Raise the parameter until the proved price fits; it starts a few parts in 10,000 too low."""
    for _ in range(60):
        promise = touched.promise(r, subtract_minimum(least, r, touched.minimum))
        if budget.fits(promise):
            return least
        least *= 1.0 + max(1e-9, 2.0 * min(budget.cost(promise) - 1.0, 0.5) + 1e-6)
    raise DomainError(
        "nothing fits this budget; nothing was charged",
        got=str(budget),
        do="take a larger budget, or fewer tables or draws",
    )


def best_renyi_order(
    budget: CountBudget,
    at: Callable[[float, float], tuple[float, float]],
    profiles: Sequence[CountProfile],
) -> tuple[float, tuple[float, float]]:
    """Give the Renyi order that is best at the profile, and (r, alpha) there."""

    def divergence(order: float) -> float:
        """The divergence at which this order proves exactly (epsilon, delta)."""
        overhead = float(rdp_to_eps(order, 0.0, budget.delta)) if order > 1 else math.inf
        return (float(budget.epsilon or 0.0) - overhead) * (1.0 - 1e-12)

    def cost(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        if not divergence(order) > 0.0:
            return 1e6 - log_excess
        return sum(p.dirichlet_kl(*at(order, divergence(order))) for p in profiles)

    found = minimize_scalar(cost, bounds=(-3.0, 12.0), method="bounded", options={"xatol": 1e-4})
    order = 1.0 + math.exp(float(found.x))
    if not divergence(order) > 0.0:
        raise DomainError("no Renyi order proves this budget", got=str(budget))
    return order, at(order, divergence(order))


def _combine_families(
    parts: Sequence[tuple[float, float]],
    profiles: Sequence[CountProfile],
    touched: TableSensitivity,
) -> JointPlan:
    alike = len(set(parts)) == 1
    if alike:
        guarantee = touched.promise(*parts[0])
    else:
        guarantee = Guarantee.jointly(*(touched.promise(*p, touched.draws) for p in parts))
    kl = tuple(p.dirichlet_kl(*part) for p, part in zip(profiles, parts, strict=True))
    return JointPlan(tuple(p[0] for p in parts), tuple(p[1] for p in parts), guarantee, kl)


def largest_posterior_power(
    budget: CountBudget, least: float, touched: TableSensitivity, second: float | None = None
) -> tuple[float, Guarantee]:
    """Give the largest power r <= 1 at which a stated prior meets the budget; 1 is the posterior.

    Parameters
    ----------
    budget : CountBudget
    least : float
        Least prior parameter of any cell.
    touched : Touched
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
    two = (least, least if second is None or touched.families > 1 else second)
    high, low = 0.0, 0.0  # logarithms; the quick curve finds the way, the proved one decides
    while not _seems_to_fit(budget, touched, math.exp(low), two):
        low, high = low - 1.0, low
        if low < -20.0:
            raise DomainError(
                "no power of the counts meets this budget with this prior; nothing was charged",
                got=str(budget),
                do="take larger prior parameters, or a larger budget",
            )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        fits = _seems_to_fit(budget, touched, math.exp(middle), two)
        low, high = (middle, high) if fits else (low, middle)
    power = math.exp(low)
    while not budget.fits(promise := unequal_prior_guarantee(touched, power, *two)):
        power *= 1.0 - 1e-4
    return power, promise


def unequal_prior_guarantee(
    touched: TableSensitivity, r: float, least: float, second: float
) -> Guarantee:
    """Give the guarantee of all draws with a prior whose two least parameters are known (T9).

    A record moves between two cells; whatever their parameters, two that are componentwise at most
    as large dominate. Of one family, both directions of the pair are evaluated; of several, each
    has its own, so there the least parameter stands for both.
    """
    if touched.families > 1 or second == least:
        return touched.promise(r, least)
    more = r * touched.minimum * (1.0 - 1e-12)
    words = {"neighbors": touched.neighbors, "theorem": THEOREM}
    return Guarantee.dirichlet_of(r, least + more, 1, touched.draws, beta=second + more, **words)


def _seems_to_fit(
    budget: CountBudget, touched: TableSensitivity, r: float, two: tuple[float, float]
) -> bool:
    if budget.epsilon is None:
        return budget.fits(unequal_prior_guarantee(touched, r, *two))
    alpha, beta = (parameter + r * touched.minimum for parameter in two)
    found = estimate_delta(budget.epsilon, r, alpha, touched.pairs, touched.neighbors, beta)
    return found <= budget.delta


def vector_rdp(order: float, r: float, alpha: float, d2sq: float, dinf: float) -> float:
    """Renyi divergence of one draw of Dir(r f + alpha) of a vector f of declared sensitivity.

    A coordinate that moves by v costs h(r v) / (l - 1), h(s) = ln G(a - (l-1) s)
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
        bend = (real(order) - 1) * arb(2).zeta(far) + arb(2).zeta(real(alpha))
        return bend * real(d2sq) * real(r) ** 2 / 2

    return arb_upper(bound)


def vector_plan(
    budget: CountBudget,
    profiles: Sequence[CountProfile],
    d2sq: float,
    dinf: float,
    touched: TableSensitivity,
) -> JointPlan:
    """Choose r and alpha for a vector statistic of declared sensitivity, at one Renyi order.

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

    def at(order: float, divergence: float) -> tuple[float, float]:
        share = divergence / touched.pairs * SHARE_MARGIN

        def alpha_of(r: float) -> float:
            def price(a: float) -> float:
                return min(1e9 * share, vector_rdp(order, r, a, d2sq, dinf))

            return subtract_minimum(
                least_argument(price, share, 2.0 * order * r * dinf), r, touched.minimum
            )

        middle = 0.5 * math.log(share / d2sq)
        cost = profiles[0].dirichlet_kl
        return search_power(alpha_of, cost, (middle - 5.0, middle + 6.0))

    if budget.order is not None and budget.rdp is not None:
        order = budget.order
        r, alpha = at(order, budget.rdp)
    else:
        order, (r, alpha) = best_renyi_order(budget, at, profiles)
    least = alpha + r * touched.minimum * (1.0 - 1e-12)
    divergence = vector_rdp(order, r, least, d2sq, dinf) * touched.pairs
    guarantee = Guarantee.rdp_of(
        order, divergence * (1.0 + 1e-15), neighbors=touched.neighbors, theorem=THEOREM
    )
    if not budget.fits(guarantee):
        raise DomainError("nothing fits this budget; nothing was charged", got=str(budget))
    return JointPlan((r,), (alpha,), guarantee, (profiles[0].dirichlet_kl(r, alpha),))
