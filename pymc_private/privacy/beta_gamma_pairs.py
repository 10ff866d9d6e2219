"""Exact privacy of Dirichlet draws by Beta pairs (T9) and Gamma pairs (T10).

y ~ Dir(r f(x) + alpha) releases a histogram f. Substitution moves one count between two cells:
every such pair of distributions is dominated by Beta(alpha + r, alpha) against
Beta(alpha, alpha + r), whose loss is r logit(Y) (T9). With unequal prior parameters a and b are the
two smallest, and the pair is Beta(a + r, b) against Beta(a, b + r), in both directions.

Addition or removal changes one cell's count by one: the pair is Gamma(alpha + r) against
Gamma(alpha), in both directions ("more_first": the larger data set is P), attained in the limit of
many other counts (T10).

Small prior parameters are evaluated in ball arithmetic. For larger ones the curves have series in
double precision, each above the truth by a proved margin. Both tails of such a curve share one
factor at the threshold of the test, so their difference is that factor times a series of positive
terms: nothing cancels, and rounding costs a few units per term. With c_0 = 1/b and u the threshold,
  Beta(a+r, b) against Beta(a, b+r): u^b (1-u)^(a+r) / B(a+r, b) * sum of c_n g_n u^n,
    c_(n+1) = c_n (a+b+r+n) / (b+1+n),  g_n = 1 - prod over j <= n of (b+j) / (b+r+j);
  Gamma(a) against Gamma(a+r) the same with b = a and c_(n+1) = c_n / (a+1+n);
  Gamma(a+r) against Gamma(a) downward: c_(m+1) = c_m (a+r-m-1) / g.
(Series of the incomplete functions: DLMF 8.11.4, 8.11.5 and 8.17.8.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.renyi import delta_from_divergences
from pymc_private.privacy.rounding import (
    DOUBLE_BITS,
    SMALLEST_DOUBLE,
    UNIT_ROUNDOFF,
    arb_lower,
    arb_upper,
    float_down,
    least_argument,
    real,
    widen,
)
from pymc_private.privacy.validation import (
    check_nonnegative,
    check_open_unit,
    check_positive,
    check_renyi_order,
    is_double,
    short_repr,
    vectorized,
)

# ---- Beta pairs: substitution (T9) ---------------------------------------------------------
MAX_QUICK_BETA_ALPHA = 64.0
"""Up to this prior parameter ball arithmetic is quick; beyond it the series is."""
MAX_BALL_ALPHA = 1000.0
"""Up to this one balls are used where the series is not: fractions, and unequal parameters."""
MIN_BALL_ALPHA, MAX_BALL_LOGIT = 1e-12, 300.0
"""Of unequal parameters below the one, or a threshold further out than the other, balls take longer
and longer: the pair of the smaller parameter alone is taken, which dominates (T9)."""
MAX_SEARCHED_ALPHA = 1e15
"""No larger prior parameter is tried."""


@vectorized
def beta_pair_delta(epsilon: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Delta of one Dirichlet draw under substitution: I_u(a, a+r) - e^epsilon I_u(a+r, a).

    Here u = 1 / (1 + e^(epsilon/r)); exact, so no smaller value is true of the mechanism. Of
    unequal parameters far apart it is a bound: that of the smaller one alone.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    r : float
        Power of the counts, > 0; 1 is the posterior itself.
    alpha : float
        Least prior parameter of any cell, > 0.
    beta : float, optional
        The second least; default alpha. The larger of both directions is given.

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T9; corrects Ponnoprat (2023), Theorem 1.
    """
    check_nonnegative(epsilon=epsilon)
    b = alpha if beta is None else beta
    check_positive(r=r, alpha=alpha, beta=b)
    if math.isinf(epsilon):
        return 0.0
    one = _beta_delta_one_way(epsilon, r, alpha, b)
    return _clip_to_unit(one if b == alpha else max(one, _beta_delta_one_way(epsilon, r, b, alpha)))


def beta_pair_delta_fast(epsilon: float, r: float, alpha: float) -> float:
    """Delta of a Beta pair by its series: a little above `beta_pair_delta`, and faster."""
    found = beta_series_delta(epsilon, r, alpha, alpha)
    return _clip_to_unit(found) if math.isfinite(found) else beta_pair_delta(epsilon, r, alpha)


@vectorized
def beta_pair_eps(delta: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Least epsilon at `delta` of one Dirichlet draw under substitution, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1): there is no pure epsilon.
    r, alpha, beta : float
        As in `beta_pair_delta`.

    Returns
    -------
    float
        epsilon in nats, at which `beta_pair_delta` was evaluated and found at most delta.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `beta_pair_delta` (T9).
    """
    check_open_unit(delta=delta)
    check_positive(r=r, alpha=alpha)
    if beta_pair_delta(0.0, r, alpha, beta) <= delta:
        return 0.0
    return least_argument(lambda epsilon: beta_pair_delta(epsilon, r, alpha, beta), delta, float(r))


@vectorized
def beta_pair_alpha(epsilon: float, delta: float, r: float) -> float:
    """Least prior parameter that makes one Dirichlet draw (epsilon, delta)-private, rounded up.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In (0, 1).
    r : float
        Power of the counts, > 0.

    Returns
    -------
    float
        alpha, at which `beta_pair_delta` was evaluated and found at most delta; delta falls in it.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T12.
    """
    check_nonnegative(epsilon=epsilon)
    check_open_unit(delta=delta)
    check_positive(r=r)

    def curve(alpha: float) -> float:
        if alpha > MAX_SEARCHED_ALPHA:
            raise DomainError(
                "no prior parameter up to 1e15 meets this budget",
                got=f"epsilon={epsilon}, delta={delta}, r={r}",
                do="take a smaller power r, or a larger budget",
            )
        return beta_pair_delta(epsilon, r, alpha)

    return least_argument(curve, delta, 1.0)


@vectorized
def beta_pair_rdp(order: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Renyi divergence of one Dirichlet draw under substitution, rounded up.

    [ln G(a + l r) + ln G(a - (l-1) r) - ln G(a + r) - ln G(a)] / (l - 1), finite only for orders
    l < 1 + a / r; at l = 1 it is r (psi(a + r) - psi(a)).

    Parameters
    ----------
    order : float
        At least 1.
    r, alpha, beta : float
        As in `beta_pair_delta`.

    Returns
    -------
    float
        nats; inf from the order 1 + alpha / r on.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T9; Geumlek, Song and Chaudhuri (2017).
    """
    check_renyi_order(order)
    b = alpha if beta is None else beta
    check_positive(r=r, alpha=alpha, beta=b)
    if math.isinf(order) or (Fraction(order) - 1) * Fraction(r) >= Fraction(min(alpha, b)):
        return math.inf
    one = arb_upper(lambda: _beta_renyi_ball(real(order), real(r), real(alpha), real(b)))
    if b == alpha:
        return one
    return max(one, arb_upper(lambda: _beta_renyi_ball(real(order), real(r), real(b), real(alpha))))


def beta_pair_delta_one_way(epsilon: float, r: float, a: float, b: float) -> float:
    """Delta of Beta(a + r, b) against Beta(a, b + r) alone, in [0, 1], rounded up."""
    return _clip_to_unit(_beta_delta_one_way(epsilon, r, a, b))


@lru_cache(maxsize=4096)
def _beta_delta_one_way(epsilon: float, r: float, a: float, b: float) -> float:
    """Delta of Beta(a + r, b) against Beta(a, b + r), rounded up, in bounded time."""
    if max(a, b) >= MAX_QUICK_BETA_ALPHA and all(map(is_double, (epsilon, r, a, b))):
        found = beta_series_delta(epsilon, r, a, b)
        if math.isfinite(found):
            return found
    # Larger parameters are dominated by smaller ones (T9).
    least = min(a, b)
    if a != b and (least < MIN_BALL_ALPHA or _is_long(epsilon, r, a, b)):
        return beta_pair_delta(epsilon, r, least)
    if max(a, b) <= MAX_BALL_ALPHA or (a == b and a <= MAX_SERIES_ALPHA):
        return arb_upper(lambda: _beta_delta_ball(real(epsilon), real(r), real(a), real(b)))
    known = min(float_down(least), MAX_SERIES_ALPHA)
    return min(
        beta_pair_delta(epsilon, r, known),
        delta_from_divergences(
            lambda order: beta_pair_rdp(order, r, least), 1.0 + float(least) / float(r), epsilon
        ),
    )


def _is_long(epsilon: float, r: float, a: float, b: float) -> bool:
    """Whether the threshold of a pair of unequal parameters needs very many bits."""

    def logit() -> arb:
        x, y, z = real(a), real(b), real(r)
        return (real(epsilon) - _log_ratio(z, x, y)) / z

    return arb_upper(lambda: abs(logit()), enough=8) > MAX_BALL_LOGIT


def _log_ratio(r: arb, a: arb, b: arb) -> arb:
    """ln of B(a, b + r) over B(a + r, b)."""
    return a.lgamma() + (b + r).lgamma() - (a + r).lgamma() - b.lgamma()


def _clip_to_unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def _beta_delta_ball(epsilon: arb, r: arb, a: arb, b: arb) -> arb:
    """Delta of Beta(a + r, b) against Beta(a, b + r)."""
    u = 1 / (1 + ((epsilon - _log_ratio(r, a, b)) / r).exp())
    return _lower_beta_ball(u, b, a + r) - epsilon.exp() * _lower_beta_ball(u, b + r, a)


def _lower_beta_ball(u: arb, a: arb, b: arb) -> arb:
    """I_u(a, b); where the parameters are large by the series of positive terms (DLMF 8.17.8)."""
    if not a.min(b) > MAX_QUICK_BETA_ALPHA:
        return u.beta_lower(a, b, 1)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front = (a * u.log() + b * (-u).log1p() - norm).exp() / a
    return front * u.hypgeom_2f1(a + b, 1, a + 1)


def _beta_renyi_ball(order: arb, r: arb, a: arb, b: arb) -> arb:
    shift = (a + r).lgamma() + b.lgamma() - a.lgamma() - (b + r).lgamma()
    if order == 1:
        return r * ((a + r).digamma() - b.digamma()) - shift
    top = (a + order * r).lgamma() + (b - (order - 1) * r).lgamma()
    return (top - (a + r).lgamma() - b.lgamma()) / (order - 1) - shift


# ---- Gamma pairs: addition and removal (T10) -----------------------------------------------
MAX_QUICK_GAMMA_ALPHA = 64.0
"""Up to this prior parameter the lower incomplete Gamma function is quick."""
MAX_SUMMED_SHIFT, MAX_GAMMA_SHIFT = 1e6, 256.0
"""Of larger r, a tail bound takes the place of the series, and of balls, which take longer and
longer; for alpha below 64 the larger direction is at most a quarter above its curve."""
LOG_NEGLIGIBLE = -800
NEGLIGIBLE = arb(0).union(arb(LOG_NEGLIGIBLE).exp())
"""Numbers from zero to one below the smallest double."""
DIRECTIONS = ("more_first", "more_second")
"""The one record is in P's data set, or in Q's: all pairs of addition and removal see the same."""


@vectorized
def gamma_pair_delta(epsilon: float, r: float, alpha: float, direction: str = "both") -> float:
    """Delta of one Dirichlet draw under addition or removal, rounded up.

    With k = ln G(alpha + r) - ln G(alpha): "more_first" is Q(alpha + r, g) - e^epsilon Q(alpha, g)
    at g = exp((epsilon + k) / r), "more_second" is P(alpha, g) - e^epsilon P(alpha + r, g) at
    g = exp((k - epsilon) / r).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    r : float
        Power of the counts, > 0.
    alpha : float
        Least prior parameter of any cell, > 0.
    direction : {"both", "more_first", "more_second"}
        "both" gives the larger.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T10.
    """
    check_nonnegative(epsilon=epsilon)
    check_positive(r=r, alpha=alpha)
    if _check_direction(direction) == "both":
        return max(gamma_pair_delta(epsilon, r, alpha, d) for d in DIRECTIONS)
    if math.isinf(epsilon):
        return 0.0
    return _clip_to_unit(_gamma_delta_one_way(epsilon, r, alpha, direction))


def gamma_pair_delta_fast(epsilon: float, r: float, alpha: float, direction: str) -> float:
    """Delta of a Gamma pair by its series: a little above `gamma_pair_delta`, and faster."""
    found = gamma_series_delta(epsilon, r, alpha, first=direction == "more_first")
    if math.isfinite(found):
        return min(1.0, found)
    return _gamma_delta_few_digits(epsilon, r, alpha, direction)


@lru_cache(maxsize=8192)
def _gamma_delta_few_digits(epsilon: float, r: float, alpha: float, direction: str) -> float:
    if alpha > MAX_SERIES_ALPHA:
        return float(gamma_pair_delta(epsilon, r, alpha, direction))
    return _clip_to_unit(_gamma_delta_by_balls(epsilon, r, alpha, direction, enough=40))


def _gamma_delta_one_way(epsilon: float, r: float, alpha: float, direction: str) -> float:
    """Delta in one direction, rounded up, in bounded time."""
    if direction == "more_first" and _is_first_negligible(real(epsilon), real(r), real(alpha)):
        return SMALLEST_DOUBLE
    has_series = alpha >= MAX_QUICK_GAMMA_ALPHA and r <= MAX_SUMMED_SHIFT
    if has_series and all(map(is_double, (epsilon, r, alpha))):
        found = gamma_series_delta(epsilon, r, alpha, first=direction == "more_first")
        if math.isfinite(found):
            return found
    if r > MAX_GAMMA_SHIFT and alpha <= MAX_SERIES_ALPHA:
        return arb_upper(lambda: _gamma_tail(real(epsilon), real(r), real(alpha), direction))
    if alpha <= MAX_SERIES_ALPHA:
        return _gamma_delta_by_balls(epsilon, r, alpha, direction)

    # Larger parameters are dominated by smaller ones: add one Gamma variable to both sides.
    def divergence(order: float) -> float:
        return float(gamma_pair_rdp(order, r, alpha, direction))

    return min(
        gamma_pair_delta(epsilon, r, MAX_SERIES_ALPHA, direction),
        delta_from_divergences(divergence, 1.0 + alpha / r, epsilon),
    )


def _gamma_delta_by_balls(
    epsilon: float, r: float, alpha: float, direction: str, enough: int = DOUBLE_BITS
) -> float:
    formula = _gamma_more_first if direction == "more_first" else _gamma_more_second
    return arb_upper(lambda: formula(real(epsilon), real(r), real(alpha)), enough)


def _gamma_tail(epsilon: arb, r: arb, alpha: arb, direction: str) -> arb:
    """The first of the two terms of delta alone, or Chernoff's bound of it where that is long."""
    first = direction == "more_first"
    shift = (alpha + r).lgamma() - alpha.lgamma()
    log_g, shape = (
        (shift + epsilon if first else shift - epsilon) / r,
        alpha + r if first else alpha,
    )
    if not first and alpha <= MAX_QUICK_GAMMA_ALPHA:
        return lower_gamma(log_g.exp(), alpha)
    if not (log_g > shape.log() if first else log_g < shape.log()):
        return arb(1)
    bound = _log_chernoff(log_g, shape)
    return NEGLIGIBLE if bound < LOG_NEGLIGIBLE else bound.exp()


def _is_first_negligible(epsilon: arb, r: arb, alpha: arb) -> bool:
    """Whether "more_first" is below the smallest double, where its terms need very many bits."""
    log_g = (epsilon + (alpha + r).lgamma() - alpha.lgamma()) / r
    beyond = log_g > (alpha + r).log()
    return bool(beyond and _log_chernoff(log_g, alpha + r) < LOG_NEGLIGIBLE)


def _log_chernoff(log_x: arb, shape: arb) -> arb:
    """Chernoff's bound of ln Q(shape, x) or ln P(shape, x), whichever of them is a tail."""
    distance = (log_x - shape.log()).min(arb(700))  # further out the bound is lower still
    return shape * (1 + distance - distance.exp())


def lower_gamma(x: arb, a: arb) -> arb:
    """P(a, x); for large a or x by Q(a, x), whose computation takes no longer there.

    Where P(a, x) <= x^a e^-x / (G(a + 1) (1 - x / (a + 1))) is below the smallest double, that
    bound is enough: the digits that 1 - Q would lose are not needed.
    """
    if not a > MAX_QUICK_GAMMA_ALPHA:
        return 1 - x.gamma_upper(a, 1) if x > 2 * MAX_QUICK_GAMMA_ALPHA else x.gamma_lower(a, 1)
    if x < a:
        log_most = a * x.log() - x - (a + 1).lgamma() - (-x / (a + 1)).log1p()
        if log_most < LOG_NEGLIGIBLE:
            return NEGLIGIBLE
    return 1 - x.gamma_upper(a, 1)


@vectorized
def gamma_pair_eps(delta: float, r: float, alpha: float, direction: str = "both") -> float:
    """Least epsilon at `delta` of one Dirichlet draw under addition or removal, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1).
    r, alpha, direction
        As in `gamma_pair_delta`.

    Returns
    -------
    float
        epsilon in nats, at which `gamma_pair_delta` was evaluated and found at most delta.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `gamma_pair_delta` (T10).
    """
    check_open_unit(delta=delta)
    check_positive(r=r, alpha=alpha)
    if gamma_pair_delta(0.0, r, alpha, direction) <= delta:
        return 0.0
    return least_argument(
        lambda epsilon: gamma_pair_delta(epsilon, r, alpha, direction), delta, float(r)
    )


@vectorized
def gamma_pair_rdp(order: float, r: float, alpha: float, direction: str = "both") -> float:
    """Renyi divergence of one Dirichlet draw under addition or removal, rounded up.

    Parameters
    ----------
    order : float
        At least 1; 1 is the Kullback-Leibler divergence.
    r, alpha, direction
        As in `gamma_pair_delta`.

    Returns
    -------
    float
        nats; "more_second" is inf from the order 1 + alpha / r on, "more_first" at order inf only.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T10.
    """
    check_renyi_order(order)
    check_positive(r=r, alpha=alpha)
    if _check_direction(direction) == "both":
        return max(gamma_pair_rdp(order, r, alpha, d) for d in DIRECTIONS)
    first = direction == "more_first"
    beyond = not first and (math.isinf(order) or _is_renyi_infinite(order, r, alpha))
    if math.isinf(order) or beyond:
        return math.inf
    return arb_upper(lambda: _gamma_renyi_ball(real(order), real(r), real(alpha), first=first))


def _check_direction(direction: str) -> str:
    allowed = ("both", *DIRECTIONS)
    if not isinstance(direction, str) or direction not in allowed:
        raise DomainError(
            "direction= is not known", got=short_repr(direction)[:60], allowed=", ".join(allowed)
        )
    return direction


def _is_renyi_infinite(order: float, r: float, alpha: float) -> bool:
    return (Fraction(order) - 1) * Fraction(r) >= Fraction(alpha)


def _gamma_more_first(epsilon: arb, r: arb, alpha: arb) -> arb:
    shift = (alpha + r).lgamma() - alpha.lgamma()
    log_g = (epsilon + shift) / r
    g = log_g.exp()
    return g.gamma_upper(alpha + r, 1) - epsilon.exp() * g.gamma_upper(alpha, 1)


def _gamma_more_second(epsilon: arb, r: arb, alpha: arb) -> arb:
    shift = (alpha + r).lgamma() - alpha.lgamma()
    g = ((shift - epsilon) / r).exp()
    return lower_gamma(g, alpha) - epsilon.exp() * lower_gamma(g, alpha + r)


def _gamma_renyi_ball(order: arb, r: arb, alpha: arb, *, first: bool) -> arb:
    more, less = (alpha + r).lgamma(), alpha.lgamma()
    if order == 1:
        shift = more - less
        return r * (alpha + r).digamma() - shift if first else shift - r * alpha.digamma()
    if first:
        top = (alpha + order * r).lgamma() - order * more - (1 - order) * less
    else:
        top = (alpha - (order - 1) * r).lgamma() - order * less - (1 - order) * more
    return top / (order - 1)


# ---- series of both curves in double precision ---------------------------------------------
MAX_SERIES_TERMS = 2**21
"""Longer series are not summed."""
MAX_SERIES_ALPHA = 1e9
"""No series is summed for larger prior parameters: its length grows with their root."""
FACTOR_BITS = 45
"""Correct bits of the factor in front of a series."""


def beta_series_delta(epsilon: float, r: float, a: float, b: float) -> float:
    """Delta of Beta(a + r, b) against Beta(a, b + r), rounded up; inf if the sum is too long."""

    def threshold() -> arb:
        shift = (
            _log_gamma_ball(a) + _log_gamma_ball(b, r) - _log_gamma_ball(a, r) - _log_gamma_ball(b)
        )
        return 1 / (1 + ((real(epsilon) - shift) / real(r)).exp())

    def factor() -> arb:
        u, big = threshold(), real(a) + real(r)
        norm = _log_gamma_ball(a, r) + _log_gamma_ball(b) - (big + real(b)).lgamma()
        return (real(b) * u.log() + big * (-u).log1p() - norm).exp()

    u = min(1.0, arb_upper(threshold, FACTOR_BITS))
    total = a + b + r

    def ratios(j: np.ndarray) -> np.ndarray:
        ratio: np.ndarray = (total + j) * u / (b + 1.0 + j)
        return ratio

    return _factor_times_sum(factor, _sum_upward(ratios, u, r, b))


def gamma_series_delta(epsilon: float, r: float, alpha: float, *, first: bool) -> float:
    """Delta of Gamma(alpha + r) against Gamma(alpha) (`first`), or of the reverse, rounded up.

    It is inf if the sum is too long, or not long enough for a small alpha.
    """
    sign = 1 if first else -1

    def threshold() -> arb:
        return (
            (_log_gamma_ball(alpha, r) - _log_gamma_ball(alpha) + sign * real(epsilon)) / real(r)
        ).exp()

    def factor() -> arb:
        g, a = threshold(), real(alpha)
        if first:
            return ((a + real(r) - 1) * g.log() - g - _log_gamma_ball(alpha, r)).exp()
        return (a * g.log() - g - _log_gamma_ball(alpha)).exp()

    if first:
        return _factor_times_sum(factor, _sum_downward(arb_lower(threshold), r, alpha))
    g = arb_upper(threshold, FACTOR_BITS)
    return _factor_times_sum(factor, _sum_upward(lambda j: g / (alpha + 1.0 + j), 0.0, r, alpha))


def _log_gamma_ball(a: float, r: float = 0.0) -> arb:
    return (real(a) + real(r)).lgamma()


def _factor_times_sum(factor: Callable[[], arb], total: float) -> float:
    if not math.isfinite(total):
        return math.inf
    return widen(arb_upper(factor, FACTOR_BITS) * total, 4.0 * UNIT_ROUNDOFF) + SMALLEST_DOUBLE


def _sum_upward(
    ratios: Callable[[np.ndarray], np.ndarray], limit: float, r: float, b: float
) -> float:
    """Sum c_n g_n, rounded up; the ratios of the c_n tend to `limit` from one side."""
    count = _initial_term_count(b)
    while count <= MAX_SERIES_TERMS and b <= MAX_SERIES_ALPHA:
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = ratios(np.arange(count, dtype=float))
            terms = np.cumprod(np.concatenate([[1.0 / b], ratio[:-1]]))
            total = float((terms * _upward_gains(r, b, count)).sum())
        if not math.isfinite(total):
            return math.inf
        found = _close_series(total, float(terms[-1]), max(float(ratio[-1]), limit), count)
        if found is not None:
            return found
        count *= 2
    return math.inf


def _sum_downward(g: float, r: float, a: float) -> float:
    """Sum c_m h_m, h_m = 1 - prod over i <= m of (a-i) / (a+r-i), rounded up.

    Terms end at a / 2, so that no difference loses more than a digit. What is left of the
    incomplete Gamma function is at most its next term over one minus the ratio.
    """
    count = 64 if a < 128.0 else min(_initial_term_count(a), int(a / 2.0))
    while g > 0.0 and r <= a <= MAX_SERIES_ALPHA and count <= min(MAX_SERIES_TERMS, a / 2.0):
        i = np.arange(1, count + 1, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.cumprod((a + r - i) / g)
            total = float((terms * _downward_gains(r, a, count)).sum())
        found = _close_series(total, float(terms[-1]), (a + r - count - 1.0) / g, count)
        if found is not None:
            return found
        count *= 2
    return math.inf


def _initial_term_count(b: float) -> int:
    """Terms to begin with: those within some standard deviations of the largest."""
    return int(64.0 + 6.0 * math.sqrt(min(b, MAX_SERIES_ALPHA)))


def _close_series(total: float, last: float, ratio: float, count: int) -> float | None:
    """Close a sum by its geometric bound, and add the rounding of all terms; None if too soon.

    A term has at most ten roundings, of twice their size each, from every factor before it.
    """
    if not (math.isfinite(total) and ratio < 1.0 - 1e-7):
        return None
    rest = last * max(ratio, 0.0) / (1.0 - ratio) * 1.00001
    if rest > 1e-15 * total:
        return None
    return (total + rest) * (1.0 + (24.0 * count + 64.0) * UNIT_ROUNDOFF) + count * 1e-300


@lru_cache(maxsize=16)
def _upward_gains(r: float, b: float, count: int) -> np.ndarray:
    j = np.arange(count, dtype=float)
    gains: np.ndarray = -np.expm1(-np.cumsum(np.log1p(r / (b + j))))
    return gains


@lru_cache(maxsize=16)
def _downward_gains(r: float, a: float, count: int) -> np.ndarray:
    i = np.arange(1, count + 1, dtype=float)
    gains: np.ndarray = -np.expm1(np.cumsum(np.log1p(-r / (a + r - i))))
    return gains
