"""Dirichlet mechanisms: divergences, accuracy and calibration of a single draw (T9-T13).

Renyi divergences of Dirichlet distributions (T13), the expected divergence of a draw from the data
and the number of records it needs (T12), the older bounds of Ponnoprat (2023), two independent
draws by rigorous quadrature (T9), and the choice of the power r and the prior parameter alpha of
one draw from Dir(r f + alpha) (T12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from flint import acb, arb, ctx

from pymc_private.errors import DomainError
from pymc_private.privacy.beta_gamma_pairs import beta_pair_alpha, beta_pair_delta
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.plots import plot_sample_sizes
from pymc_private.privacy.rounding import (
    arb_nearest,
    arb_upper,
    ball_upper,
    least_argument,
    real,
)
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_open_unit,
    check_positive,
    check_renyi_order,
    takes_numbers,
    vectorized,
)


# ---- divergences and their older bounds ----------------------------------------------------
@takes_numbers
def dirichlet_rdp(order: float, u: Sequence[float], v: Sequence[float]) -> float:
    """Renyi divergence D_l(Dir(u) || Dir(v)), rounded up.

    [ln B(l u + (1-l) v) - l ln B(u) - (1-l) ln B(v)] / (l - 1).

    Parameters
    ----------
    order : float
        At least 1; 1 is the Kullback-Leibler divergence, inf the largest log ratio.
    u, v : sequence of float, shape (d,)
        Parameters, > 0.

    Returns
    -------
    float
        nats; inf where l u + (1-l) v is not positive throughout.

    Raises
    ------
    DomainError
        An argument is out of its range, or the shapes differ.

    References
    ----------
    Geumlek, Song and Chaudhuri (2017); theory T13.
    """
    check_renyi_order(order)
    first, second = _check_parameters(u, "u"), _check_parameters(v, "v")
    if len(first) != len(second):
        raise DomainError(
            "u and v have one length", got=f"{len(first)} and {len(second)}", allowed="equal"
        )
    if np.array_equal(first, second):
        return 0.0
    if math.isinf(order):
        return _largest_log_ratio(first, second)
    slope = Fraction(order)
    pairs = list(zip(map(Fraction, first), map(Fraction, second), strict=True))
    mixed = [slope * a + (1 - slope) * b for a, b in pairs]
    if min(mixed) <= 0:
        return math.inf
    if order == 1.0:
        return arb_upper(lambda: _kl_ball(first, second))

    def formula() -> arb:
        top = _log_beta_ball(mixed) - real(order) * _log_beta_ball(first)
        return (top - (1 - real(order)) * _log_beta_ball(second)) / (real(order) - 1)

    return max(0.0, arb_upper(formula))


@takes_numbers
def dirichlet_expected_kl(counts: Sequence[float], r: float, alpha: float) -> float:
    """Expected KL(f / sum f || y) of one draw y ~ Dir(r f + alpha): its cost in accuracy.

    sum over f_i > 0 of f~_i (ln f~_i - psi(r f_i + alpha)) + psi(r N + d alpha). To calibrate, take
    the counts of a public profile, never the private ones.

    Parameters
    ----------
    counts : sequence of float, shape (d,)
        f, at least 0, not all 0.
    r, alpha : float
        > 0.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T12.
    """
    check_positive(r=r, alpha=alpha)
    f = np.asarray(counts, float)
    if f.ndim != 1 or not np.isfinite(f).all() or (f < 0.0).any() or not (f > 0.0).any():
        raise DomainError("counts are numbers >= 0, not all 0", allowed="a vector of counts")
    return arb_nearest(lambda: _expected_kl_ball([real(x) for x in f], real(r), real(alpha)))


@vectorized
def ponnoprat_rdp(order: float, r: float, d2sq: float, dinf: float) -> float:
    """Older bound on the Renyi divergence: l r^2 D2^2 psi'(1 + 3 (l-1) r Dinf) / 2, rounded up.

    Valid for alpha = 1 + 4 (l-1) r Dinf; `beta_pair_rdp` is exact and never larger.

    Parameters
    ----------
    order : float
        At least 1.
    r : float
        > 0.
    d2sq, dinf : float
        Squared Euclidean and largest change of the counts: 2, 1 if a record is substituted.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Theorem 1.
    """
    check_renyi_order(order)
    check_positive(order=order, r=r, d2sq=d2sq, dinf=dinf)

    def formula() -> arb:
        at = 1 + 3 * (real(order) - 1) * real(r) * real(dinf)
        return real(order) * real(r) ** 2 * real(d2sq) * arb(2).zeta(at) / 2

    return arb_upper(formula)


@vectorized
def ponnoprat_r(order: float, epsilon: float, d2sq: float, dinf: float) -> float:
    """Largest r at which `ponnoprat_rdp` is at most epsilon, rounded down.

    Parameters
    ----------
    order : float
        At least 1.
    epsilon : float, nats
        > 0.
    d2sq, dinf : float
        As in `ponnoprat_rdp`.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Algorithm 1.
    """
    check_renyi_order(order)
    check_positive(epsilon=epsilon, d2sq=d2sq, dinf=dinf)
    # The divergence grows with r: its reciprocal's least argument is the largest r.
    inverse = least_argument(
        lambda q: min(1.0, 0.5 * ponnoprat_rdp(order, 1.0 / q, d2sq, dinf) / epsilon), 0.5, 1.0
    )
    return math.nextafter(1.0 / inverse, 0.0)


@vectorized
def dirichlet_kl_tail_bound(beta: float, eta: float) -> float:
    """Pr[KL > eta] <= exp(-beta eta^2 / (2 (2 + eta) (4 + 3 eta))), rounded up.

    Proved for alpha >= 1/2 and beta >= d alpha / (e^(eta/2) - 1), which the caller checks; false
    for smaller alpha.

    Parameters
    ----------
    beta : float
        r N, > 0.
    eta : float, nats
        > 0.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Ponnoprat (2023), Theorem 2, corrected.
    """
    check_positive(beta=beta, eta=eta)

    def formula() -> arb:
        n = real(eta)
        return (-real(beta) * n**2 / (2 * (2 + n) * (4 + 3 * n))).exp()

    return min(1.0, arb_upper(formula))


def _check_parameters(values: Sequence[float], name: str) -> np.ndarray:
    vector = np.asarray(values, float)
    if vector.ndim != 1 or not len(vector) or not np.all((vector > 0.0) & np.isfinite(vector)):
        raise DomainError(f"{name} holds positive numbers", allowed="a vector, each entry > 0")
    return vector


def _log_beta_ball(parameters: Sequence[float | Fraction] | np.ndarray) -> arb:
    parts = [real(p) for p in parameters]
    return sum((p.lgamma() for p in parts), arb(0)) - sum(parts, arb(0)).lgamma()


def _kl_ball(u: np.ndarray, v: np.ndarray) -> arb:
    total = sum((real(a) for a in u), arb(0)).digamma()
    pairs = zip(map(real, u), map(real, v), strict=True)
    return (
        _log_beta_ball(v)
        - _log_beta_ball(u)
        + sum(((a - b) * (a.digamma() - total) for a, b in pairs), arb(0))
    )


def _largest_log_ratio(u: np.ndarray, v: np.ndarray) -> float:
    """Supremum of the log density ratio, ln [B(v) / B(u) prod y^(u-v)]: finite if no u_i < v_i."""
    rises = [Fraction(a) - Fraction(b) for a, b in zip(u, v, strict=True)]
    if min(rises) < 0:
        return math.inf

    def formula() -> arb:
        total = real(sum(rises, Fraction(0)))
        ys = [(real(rise), real(rise) / total) for rise in rises if rise > 0]
        return (
            _log_beta_ball(v) - _log_beta_ball(u) + sum((rise * y.log() for rise, y in ys), arb(0))
        )

    return max(0.0, arb_upper(formula))


def _expected_kl_ball(f: list[arb], r: arb, alpha: arb) -> arb:
    n = sum(f, arb(0))
    parts = [(x / n) * ((x / n).log() - (r * x + alpha).digamma()) for x in f if not x.is_zero()]
    return sum(parts, arb(0)) + (r * n + len(f) * alpha).digamma()


# ---- two independent draws (T9) ------------------------------------------------------------
MAX_QUADRATURE_ALPHA, MAX_QUADRATURE_POWER = 16.0, 100.0
"""Up to this prior parameter and power two draws are integrated; beyond, losses are convolved."""
MAX_QUADRATURE_POINTS = 4000
"""Most evaluations of one quadrature."""


@vectorized
def beta_pair_delta_two_draws(epsilon: float, r: float, alpha: float) -> float:
    """Delta of two independent Dirichlet draws under substitution, rounded up.

    The mean of `beta_pair_delta` at epsilon - L over the loss L of one draw, by rigorous
    quadrature; where that would take long, `Guarantee.delta` of two planned draws gives a larger
    bound.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    r, alpha : float
        As in `beta_pair_delta`.

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
    Theory T9; Johansson (2018) for the quadrature.
    """
    check_nonnegative(epsilon=epsilon)
    check_positive(r=r, alpha=alpha)
    if math.isinf(epsilon):
        return 0.0
    if beta_pair_delta(epsilon, r, alpha) > 1.0 - 1e-9:  # two draws tell no less than one
        return 1.0
    is_integrated = alpha <= MAX_QUADRATURE_ALPHA and r <= MAX_QUADRATURE_POWER
    for bits in (80, 160) if is_integrated else ():
        with ctx.workprec(bits):
            found = _two_draw_integral(real(epsilon), real(r), real(alpha))
        if found.is_finite() and found.rel_accuracy_bits() >= 34:
            return min(1.0, max(0.0, ball_upper(found)))
    return (2 * Guarantee.dirichlet_of(r, alpha)).delta(epsilon)


def _two_draw_integral(epsilon: arb, r: arb, alpha: arb) -> arb:
    """Integrate over t = logit(Y): analytic where |Im t| < pi, so Arb's quadrature is rigorous."""
    norm = (alpha + r).lgamma() + alpha.lgamma() - (2 * alpha + r).lgamma()

    def integrand(t: acb, _: bool) -> acb:
        if not float(t.imag.abs_upper()) < 3.0:
            return acb("nan")
        density = ((alpha + r) * _log_sigmoid(t) + alpha * _log_sigmoid(-t) - norm).exp()
        at = t - epsilon / r
        beyond = _beta_cdf_at_logit(at, alpha, alpha + r)
        return density * (
            beyond - (epsilon - r * t).exp() * _beta_cdf_at_logit(at, alpha + r, alpha)
        )

    end = 20.0 + 40.0 / float(alpha.mid()) + abs(float((epsilon / r).mid()))
    edge = 1 / (1 + arb(end).exp())
    # Beyond the interval delta is at most 1, and there is next to no mass.
    left_out = edge.beta_lower(alpha + r, alpha, 1) + edge.beta_lower(alpha, alpha + r, 1)
    tiny, little = arb(2) ** -4000, arb(2) ** -38
    inner = acb.integral(
        integrand, -end, end, rel_tol=little, abs_tol=tiny, eval_limit=MAX_QUADRATURE_POINTS
    )
    return inner.real + left_out.union(arb(0))


def _log_sigmoid(t: acb) -> acb:
    return -(1 + (-t).exp()).log() if float(t.real.mid()) > 0.0 else t - (1 + t.exp()).log()


def _beta_cdf_at_logit(t: acb, a: arb, b: arb) -> acb:
    """I_u(a, b) at u = sigmoid(t), by its smaller tail."""
    if float(t.real.mid()) < 0.0:
        return (1 / (1 + (-t).exp())).beta_lower(a, b, 1)
    return 1 - (1 / (1 + t.exp())).beta_lower(b, a, 1)


# ---- calibration of one draw (T12) ---------------------------------------------------------
LEAST_PLANNED_EPSILON, MOST_PLANNED_EPSILON = 1e-6, 1e6
"""Nats; a budget beyond them is taken for a slip."""


@dataclass(frozen=True)
class DirichletPlan:
    """A power of the counts and a prior parameter that meet a budget.

    Attributes
    ----------
    r, alpha : float
        Draw from Dir(r f + alpha).
    expected_kl : float
        At the public profile, nats.
    """

    r: float
    alpha: float
    expected_kl: float


@takes_numbers
def dirichlet_plan(epsilon: float, delta: float, profile: Sequence[float]) -> DirichletPlan:
    """Power r and parameter alpha of one Dirichlet draw with the least expected divergence.

    For each r the least alpha that meets the budget is exact (T9); r is then searched. The profile
    is public: uniform, prior-predictive or of earlier public data, never the private counts.

    Parameters
    ----------
    epsilon : float, nats
        > 0.
    delta : float
        In (0, 1).
    profile : sequence of float
        Public counts at which the expected divergence is evaluated.

    Returns
    -------
    DirichletPlan
        Meets (epsilon, delta) whatever the search found.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T12.
    """
    check_positive(epsilon=epsilon)
    check_open_unit(delta=delta)
    if not LEAST_PLANNED_EPSILON <= epsilon <= MOST_PLANNED_EPSILON:
        raise DomainError(
            "no Dirichlet draw is planned for this epsilon",
            got=epsilon,
            allowed=f"{LEAST_PLANNED_EPSILON:g} to {MOST_PLANNED_EPSILON:g} nats",
        )

    def plan_at(log_r: float) -> DirichletPlan:
        r = math.exp(log_r)
        alpha = beta_pair_alpha(epsilon, delta, r)
        return DirichletPlan(r, alpha, dirichlet_expected_kl(profile, r, alpha))

    start = math.log(epsilon)
    found = scipy.optimize.minimize_scalar(
        lambda x: plan_at(x).expected_kl,
        bounds=(start - 6.0, start + 4.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return plan_at(float(found.x))


# ---- number of records for an accurate draw (T12) ------------------------------------------
MAX_USEFUL_DIVERGENCE = 700.0
"""Nats; of a larger divergence the number of records for this one is taken, which is enough."""


@vectorized
def dirichlet_sample_size(eta: float, beta: float, cells: int, r: float, alpha: float) -> int:
    """Number of records N at which Pr[KL(f / N || y) > eta] <= beta, y ~ Dir(r f + alpha).

    The least N with exp(-r N eta^2 / (2 (2 + eta) (4 + 3 eta))) <= beta and
    r N >= d alpha / (e^(eta/2) - 1), whatever the counts f are.

    Parameters
    ----------
    eta : float, nats
        Divergence that is good enough, > 0.
    beta : float
        Probability of more, in (0, 1).
    cells : int
        d, categories.
    r, alpha : float
        Of the mechanism; alpha >= 1/2.

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range; for alpha < 1/2 the bound is false.

    References
    ----------
    Ponnoprat (2023), Theorem 2, corrected.

    Examples
    --------
    >>> int(dirichlet_sample_size(0.1, 0.05, 6, 0.318, 3.96))
    17014
    """
    check_positive(eta=eta, r=r, alpha=alpha)
    check_open_unit(beta=beta)
    d = check_count(cells, "the number of cells")
    if alpha < 0.5:
        raise DomainError("the bound is false for alpha < 1/2", got=alpha, allowed="alpha >= 1/2")
    records = _records_for_divergence(float(eta), math.log(beta), d, float(r), float(alpha))
    if not math.isfinite(records):
        raise DomainError(
            "no number of records is enough",
            got=f"eta={eta}, r={r}, alpha={alpha}",
            do="a larger eta or r, or a smaller alpha",
        )
    return math.ceil(records)


def _records_for_divergence(eta: float, log_beta: float, d: int, r: float, alpha: float) -> float:
    """N of `dirichlet_sample_size` before it is rounded; inf if no double is as large."""
    eta = min(eta, MAX_USEFUL_DIVERGENCE)  # what is rarely so far is still less often further
    with np.errstate(all="ignore"):
        tail = -log_beta * 2.0 * np.float64(2.0 + eta) * (4.0 + 3.0 * eta) / eta / eta
        smoothing = d * (np.float64(alpha) / math.expm1(0.5 * eta))
        return float(max(tail, smoothing) / r * (1.0 + 1e-12))


@vectorized
def dirichlet_population_tv(n: float, beta: float, cells: int, r: float, alpha: float) -> float:
    """Bound on the total variation between a draw and the population of n records.

    With probability 1 - beta / 2 the shares of the data are within
    sqrt(2 (ln(2^d - 2) + ln(2 / beta)) / n) / 2 of the population (Weissman et al.); with the same
    probability the draw is within sqrt(eta / 2) of the shares (Pinsker), eta from
    `dirichlet_sample_size`. Their sum, at most 1.

    Parameters
    ----------
    n : float
        Records, independent draws from the population.
    beta : float
        Probability that the bound fails, in (0, 1).
    cells, r, alpha
        As in `dirichlet_sample_size`.

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Weissman, Ordentlich, Seroussi, Verdu and Weinberger (2003); Ponnoprat (2023), Theorem 2.
    """
    check_positive(n=n, r=r, alpha=alpha)
    check_open_unit(beta=beta)
    d = check_count(cells, "the number of cells")
    if alpha < 0.5:
        raise DomainError("the bound is false for alpha < 1/2", got=alpha, allowed="alpha >= 1/2")
    corners = d * math.log(2.0) + math.log1p(-(2.0 ** (1.0 - d))) if d > 1 else 0.0
    log_half = math.log(beta) - math.log(2.0)  # beta / 2 may be too small for a double
    sampling = 0.5 * math.sqrt(2.0 * (corners - log_half) / n)

    def enough(eta: float) -> bool:
        return _records_for_divergence(eta, log_half, d, float(r), float(alpha)) <= n

    low, high = 1e-9, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 4.0:  # sqrt(eta / 2) is beyond 1 there
            return 1.0
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return min(1.0, (sampling + math.sqrt(0.5 * high)) * (1.0 + 1e-12))


@takes_numbers
def plot_sample_size(
    cells: int, r: float, alpha: float, ax: Any = None, *, betas: Sequence[float] = (0.05, 0.001)
) -> Any:
    """Plot the number of records against the divergence that is good enough.

    Parameters
    ----------
    cells, r, alpha
        As in `dirichlet_sample_size`.
    ax : matplotlib Axes, optional
    betas : sequence of float
        Probabilities that a draw is worse.

    Returns
    -------
    matplotlib Axes
    """
    etas = np.geomspace(0.003, 3.0, 60).tolist()
    records = {
        beta: [dirichlet_sample_size(eta, beta, cells, r, alpha) for eta in etas] for beta in betas
    }
    title = f"{cells} categories, r = {float(r):g}, alpha = {float(alpha):g}"
    return plot_sample_sizes(etas, records, title, ax)
