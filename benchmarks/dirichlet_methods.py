"""The methods of the experiments: from true counts to tables of probabilities.

Calibration comes from the package; noise and draws here are NumPy's, since nothing is released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from pymc_private.counts.denoise.posterior import NoisyTable
from pymc_private.counts.denoise.shrinkage import shrinkage_posterior
from pymc_private.counts.noise_plan import JOINT_GAIN, _expected_noisy_kl
from pymc_private.privacy import beta_pair_delta, beta_pair_rdp, ponnoprat_r, rdp_to_eps
from pymc_private.privacy.dirichlet_tables import (
    TableSensitivity,
    algorithm1_plan,
    estimate_delta,
    joint_plan,
    largest_posterior_power,
)
from pymc_private.privacy.noisy_counts import (
    CountBudget,
    CountProfile,
    discrete_laplace_sd,
    noise_plan,
)

ORDER, DELTA, FLOOR = 5.0, 1e-5, 1e-6
Counts = dict[str, np.ndarray]
Dims = dict[str, tuple[str, ...]]
Rng = np.random.Generator
Method = Callable[[Counts, Dims, float, Rng], Counts]


def budget(eps: float, privacy: str) -> CountBudget:
    if privacy == "RDP":
        return CountBudget.of(rdp=(ORDER, eps), delta=DELTA)
    return CountBudget.of(eps, DELTA if privacy == "(eps,delta)" else 0.0)


def profiles(counts: Counts) -> tuple[CountProfile, ...]:
    """The public design: cells Dirichlet(1/2), rows equal, N public."""
    return tuple(
        CountProfile(c.shape[-1], c[..., 0].size, c.sum() / c[..., 0].size) for c in counts.values()
    )


@lru_cache(maxsize=512)
def exact(b: CountBudget, public: tuple[CountProfile, ...]):
    return joint_plan(b, public, TableSensitivity(len(public)))


@lru_cache(maxsize=512)
def older(b: CountBudget, public: tuple[CountProfile, ...]):
    return algorithm1_plan(b, public, TableSensitivity(len(public)))


def dirichlet(counts: Counts, r, alpha, rng: Rng) -> Counts:
    """One draw of each table; the logarithm keeps small ones from 0."""
    out = {}
    for (name, table), power, a in zip(counts.items(), r, alpha, strict=True):
        shape = power * table + a
        logs = np.log(rng.gamma(shape + 1.0)) + np.log(rng.random(shape.shape)) / shape
        out[name] = np.maximum(special.softmax(logs, axis=-1), 1e-300)
    return out


def alg1(privacy: str) -> Method:
    def method(counts, dims, eps, rng):
        plan = older(budget(eps, privacy), profiles(counts))
        return dirichlet(counts, plan.r, plan.alpha, rng)

    return method


def exact_opt(privacy: str) -> Method:
    def method(counts, dims, eps, rng):
        plan = exact(budget(eps, privacy), profiles(counts))
        return dirichlet(counts, plan.r, plan.alpha, rng)

    return method


@lru_cache(maxsize=512)
def same_alpha_power(eps: float, m: int, privacy: str, alpha: float | None) -> float:
    """The power at Algorithm 1's alpha, by the exact price."""
    if privacy == "RDP":

        def over(log_r: float) -> float:
            r = math.exp(log_r)
            return math.log(beta_pair_rdp(ORDER, r, 1 + 4 * (ORDER - 1) * r) * m / eps)
    else:

        def over(log_r: float) -> float:
            r = math.exp(log_r)
            found = (
                estimate_delta(eps, r, alpha, m, "substitute")
                if m > 1
                else beta_pair_delta(eps, r, alpha)
            )
            return math.log(max(found, 1e-300) / DELTA)

    return math.exp(optimize.brentq(over, -18, 4, xtol=1e-8))


def exact_same_alpha(privacy: str) -> Method:
    def method(counts, dims, eps, rng):
        m = len(counts)
        if privacy == "RDP":
            r = same_alpha_power(eps, m, privacy, None)
            alpha = 1 + 4 * (ORDER - 1) * r
        else:
            alpha = older(budget(eps, privacy), profiles(counts)).alpha[0]
            r = same_alpha_power(eps, m, privacy, alpha)
        return dirichlet(counts, [r] * m, [alpha] * m, rng)

    return method


def alg1_adv(counts, dims, eps, rng):
    """Algorithm 1 table by table, order 1 + 1/divergence, then basic or advanced composition."""
    eps0, delta0 = shares(eps, len(counts))
    order = 1 + optimize.brentq(
        lambda x: rdp_to_eps(1 + x, 1 / x, delta0) - eps0, 1e-1, 1e9, rtol=1e-12
    )
    r = float(ponnoprat_r(order, 1 / (order - 1), 2.0, 1.0))
    m = len(counts)
    return dirichlet(counts, [r] * m, [1 + 4 * (order - 1) * r] * m, rng)


def gohari(privacy: str) -> Method:
    """Gohari et al.'s law Dir(r f + 1), its power by the exact price."""

    def method(counts, dims, eps, rng):
        m = len(counts)
        r = gohari_power(budget(eps, privacy), m)
        return dirichlet(counts, [r] * m, [1.0] * m, rng)

    return method


@lru_cache(maxsize=512)
def gohari_power(b: CountBudget, m: int) -> float:
    return largest_posterior_power(b, 1.0, TableSensitivity(m))[0]


def shares(eps: float, m: int) -> tuple[float, float]:
    """(eps0, delta0) of one of m tables: basic, or advanced composition with half of delta."""

    def advanced(e: float) -> float:
        return e * math.sqrt(2 * m * math.log(2 / DELTA)) + m * e * math.expm1(e) - eps

    return max(eps / m, optimize.brentq(advanced, 1e-12, eps)), DELTA / (2 * m)


# ---- noise -------------------------------------------------------------------------------------
@lru_cache(maxsize=512)
def scale_of(law: str, privacy: str, eps: float, m: int) -> float:
    """Noise of one law, exactly accounted: 2m cells move by one."""
    if privacy == "pure":
        return 2 * m / eps
    if law == "gaussian":
        if privacy == "RDP":
            return math.sqrt(m * ORDER / eps)
        from pymc_private.privacy import mu_affordable

        return math.sqrt(2 * m) / mu_affordable(eps, DELTA)
    if privacy == "RDP":
        return optimize.brentq(lambda b: 2 * m * laplace_rdp(b) - eps, 1e-3, 1e7, rtol=1e-12)
    return laplace_composed(eps, 2 * m)


def laplace_rdp(b: float, shift: float = 1.0) -> float:
    a, s = ORDER, shift / b
    one, two = math.log(a / (2 * a - 1)) + (a - 1) * s, math.log((a - 1) / (2 * a - 1)) - a * s
    return float(np.logaddexp(one, two)) / (a - 1)


def laplace_composed(eps: float, cells: int) -> float:
    """Scale at which so many continuous Laplace cells are (eps, delta), by inversion."""
    u = np.linspace(0, 6.5, 400)

    def delta(b: float) -> float:
        s = 1 / b

        def log_moment(t):
            back = np.exp(-(1 + 2 * t) * s)
            return cells * (t * s + np.log(0.5 * (1 + (1 - back) / (1 + 2 * t) + back)))

        def height(c):
            return float(np.real(log_moment(c + 0j)) - c * eps - math.log(c) - math.log1p(c))

        c = math.exp(
            optimize.minimize_scalar(
                lambda x: height(math.exp(x)), bounds=(-10, 14), method="bounded"
            ).x
        )
        h = 1e-3 * c
        w = 1 / math.sqrt(max((height(c + h) + height(c - h) - 2 * height(c)) / h**2, 1e-12))
        t = c + 1j * w * np.sinh(u)
        f = np.exp(log_moment(t) - t * eps - np.log(t) - np.log1p(t)).real
        return float(np.trapezoid(f * w * np.cosh(u), u) / math.pi)

    most = cells / eps
    return (
        math.exp(
            optimize.brentq(
                lambda x: math.log(max(delta(math.exp(x)), 1e-300) / DELTA),
                math.log(most) - 9,
                math.log(most) + 1e-9,
                xtol=1e-7,
            )
        )
        if delta(most * 0.999) < DELTA
        else most
    )


def _noise(law: str, scale: float, shape, rng: Rng):
    return rng.normal(0, scale, shape) if law == "gaussian" else rng.laplace(0, scale, shape)


def clipped(law: str, privacy: str, scale: Callable[..., float] = scale_of) -> Method:
    def method(counts, dims, eps, rng):
        s = scale(law, privacy, eps, len(counts))
        out = {}
        for name, table in counts.items():
            positive = np.maximum(table + _noise(law, s, table.shape, rng), FLOOR)
            out[name] = positive / positive.sum(axis=-1, keepdims=True)
        return out

    return method


def l1form(law, privacy, eps, m):
    """The paper's form of the divergence of Laplace noise: one cell, shift 2."""
    return optimize.brentq(lambda b: m * laplace_rdp(b, 2.0) - eps, 1e-3, 1e7, rtol=1e-12)


def adv_scale(law, privacy, eps, m):
    eps0, delta0 = shares(eps, m)
    if law == "laplace":
        return 2 / eps0
    return math.sqrt(2) * math.sqrt(2 * math.log(1.25 / delta0)) / eps0


def truncated_mean(law: str, z: np.ndarray, scale: float) -> np.ndarray:
    """E[count | noisy count, count >= 0], cell by cell, flat prior."""
    if law == "gaussian":
        x = z / scale
        hazard = np.exp(-0.5 * x * x - special.log_ndtr(x)) / math.sqrt(2 * math.pi)
        return scale * np.maximum(x + hazard, 1e-9)
    x = np.maximum(z, 0.0) / scale
    low = np.exp(-x)  # both sides of the peak, cut at 0
    return scale * np.where(z <= 0, 1.0, (2 * x + low) / (2 - low))


def denoised(law: str, privacy: str) -> Method:
    def method(counts, dims, eps, rng):
        s = scale_of(law, privacy, eps, len(counts))
        out = {}
        for name, table in counts.items():
            mean = truncated_mean(law, table + _noise(law, s, table.shape, rng), s)
            out[name] = mean / mean.sum(axis=-1, keepdims=True)
        return out

    return method


@lru_cache(maxsize=512)
def noise_for(b: CountBudget, m: int):
    return noise_plan(b, m)


def noise_aware(privacy: str) -> Method:
    """As the estimators do it: integer noise, tables that learn from each other, posterior means,
    rows drawn together as far as noise explains their differences."""

    def method(counts, dims, eps, rng):
        plan = noise_for(budget(eps, privacy), len(counts))
        law = "gaussian" if plan.distribution == "discrete_gaussian" else plan.distribution
        noisy = {
            name: NoisyTable(
                np.round(table + _noise(law, plan.scale, table.shape, rng)).astype(np.int64),
                dims[name],
            )
            for name, table in counts.items()
        }
        total = float(next(iter(counts.values())).sum())
        sd = plan.scale if law == "gaussian" else discrete_laplace_sd(plan.scale)
        found = shrinkage_posterior(noisy, plan.distribution, plan.scale, sd, total)
        return {name: table.mean() for name, table in found.items()}

    return method


def auto(privacy: str) -> Method:
    """What is expected to cost less accuracy at the public design."""

    def method(counts, dims, eps, rng):
        return picked(counts, eps, privacy)(counts, dims, eps, rng)

    return method


def picked(counts: Counts, eps: float, privacy: str) -> Method:
    if privacy == "pure":
        return noise_aware(privacy)
    b, public = budget(eps, privacy), profiles(counts)
    plan = noise_for(b, len(counts))
    noisy = sum(_expected_noisy_kl(p, plan.distribution, plan.scale, 0.0) for p in public)
    drawn = sum(exact(b, public).expected_kl)
    return (noise_aware if JOINT_GAIN * noisy <= drawn else exact_opt)(privacy)


def nonprivate(counts, dims, eps, rng):
    return {n: (t + 0.1) / (t + 0.1).sum(axis=-1, keepdims=True) for n, t in counts.items()}


def uniform(counts, dims, eps, rng):
    return {n: np.full(t.shape, 1 / t.shape[-1]) for n, t in counts.items()}


METHODS: dict[tuple[str, str], Method] = {
    ("dirichlet_alg1", "RDP"): alg1("RDP"),
    ("dirichlet_exact_same_alpha", "RDP"): exact_same_alpha("RDP"),
    ("dirichlet_exact_opt", "RDP"): exact_opt("RDP"),
    ("laplace_clip_l1form", "RDP"): clipped("laplace", "RDP", l1form),
    ("gaussian_clip", "RDP"): clipped("gaussian", "RDP"),
    ("gaussian_truncmean", "RDP"): denoised("gaussian", "RDP"),
    ("laplace_clip", "RDP"): clipped("laplace", "RDP"),
    ("laplace_postmean", "RDP"): denoised("laplace", "RDP"),
    ("dirichlet_alg1_eq14", "(eps,delta)"): alg1("(eps,delta)"),
    ("dirichlet_exact_hockeystick", "(eps,delta)"): exact_opt("(eps,delta)"),
    ("dirichlet_exact_same_alpha", "(eps,delta)"): exact_same_alpha("(eps,delta)"),
    ("dirichlet_alg1_adv", "(eps,delta)"): alg1_adv,
    ("gohari_exact", "(eps,delta)"): gohari("(eps,delta)"),
    ("gohari_exact", "RDP"): gohari("RDP"),
    ("gaussian_adv_clip", "(eps,delta)"): clipped("gaussian", "(eps,delta)", adv_scale),
    ("laplace_adv_clip", "(eps,delta)"): clipped("laplace", "(eps,delta)", adv_scale),
    ("gaussian_clip", "(eps,delta)"): clipped("gaussian", "(eps,delta)"),
    ("gaussian_truncmean", "(eps,delta)"): denoised("gaussian", "(eps,delta)"),
    ("laplace_clip", "(eps,delta)"): clipped("laplace", "(eps,delta)"),
    ("laplace_postmean", "(eps,delta)"): denoised("laplace", "(eps,delta)"),
    ("laplace_pure_clip", "pure"): clipped("laplace", "pure"),
    ("laplace_pure_postmean", "pure"): denoised("laplace", "pure"),
    ("noisy", "RDP"): noise_aware("RDP"),
    ("noisy", "(eps,delta)"): noise_aware("(eps,delta)"),
    ("noisy", "pure"): noise_aware("pure"),
    ("auto", "RDP"): auto("RDP"),
    ("auto", "(eps,delta)"): auto("(eps,delta)"),
}
