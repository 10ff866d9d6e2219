"""T15's tables, windows under bad estimates, and privacy audits; all in one run.

``python -m benchmarks.mollifier_tables``
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy import stats

from benchmarks.mollifier_targets import grid_of
from pymc_private import Guarantee, MollifiedBoosting, mollify
from pymc_private.audit import epsilon_lower_bound
from pymc_private.mollifiers.density_estimates import network_classifier
from pymc_private.mollifiers.mollified_distributions import (
    best_tilt_level,
    clip_to_window,
    log_total_mass,
    rejection_draws,
)
from pymc_private.mollifiers.window import Window
from pymc_private.privacy import mollifier_affordable, range_affordable
from pymc_private.samplers.randomness import SystemRandomness

X = np.linspace(-9, 9, 20_001)
STEP = X[1] - X[0]


def gains() -> None:
    """KL(P, Q0) - KL(P, Q) for P = N(1, .25), Q0 = N(0, 1): theory T15d."""
    target = stats.norm(1, 0.5).pdf(X) * STEP
    mass = stats.norm.pdf(X) * STEP
    mass /= mass.sum()
    ratio = np.log(target / mass)
    rows = stats.norm(1, 0.5).rvs((10_000, 1), random_state=0)
    print("gain: eps, clip optimum, tilt of range eps/2, MBDE T=3 (network), tilt of range eps")
    for eps in (0.25, 0.5, 1.0, 2.0, 4.0):
        clip, _ = clip_to_window(ratio, mass, Window.symmetric(eps))
        tilts = []
        for width in (eps / 2, eps):
            tilt = np.clip(ratio - best_tilt_level(ratio, mass, width), -width / 2, width / 2)
            tilts.append(target @ tilt - math.log(mass @ np.exp(tilt)))
        model = MollifiedBoosting(eps, 3, random_state=0, progressbar=False).fit(rows)
        score = model.log_ratio(X)
        mbde = target @ score - math.log(mass @ np.exp(score))
        print(f"  {eps:5g} {target @ clip:8.4f} {tilts[0]:8.4f} {mbde:8.4f} {tilts[1]:8.4f}")


def costs() -> None:
    """Epsilon at delta = 1e-6 of k draws."""
    print("cost of k draws at delta 1e-6: eps, k, pure (randomized response), clip, tilt")
    for eps in (0.1, 0.5, 1.0):
        for k in (1, 10, 100):
            made = k * Guarantee.pure(eps), Guarantee.mollifier_of(eps, k)
            made = (*made, Guarantee.bounded_range_of(eps, k))
            print(f"  {eps:4g} {k:5d}", *(f"{g.epsilon(1e-6):9.4f}" for g in made))


def against_groups() -> None:
    """So many records that protecting them together, at eps each, costs as much as k draws."""
    print("k draws of any two data sets against m records: eps, k, clip, m, tilt, m (delta 1e-6)")
    for eps in (0.1, 0.5, 1.0):
        for k in (1, 10, 100, 1000):
            laws = Guarantee.mollifier_of(eps, k), Guarantee.bounded_range_of(eps, k)
            found = [g.epsilon(1e-6) for g in laws]
            print(f"  {eps:4g} {k:5d}", *(f"{e:9.4f} {math.ceil(e / eps):5d}" for e in found))


def many_draws() -> None:
    """Gains of k draws at a total of (1, 1e-6), target known: kinds and windows."""
    print("gain at (1, 1e-6): target, k, clip, tilt, windows for shares .2, .05, .01")
    for name in ("ring", "mix1d", "random1d", "random2d"):
        grid = grid_of(name)
        ratio, mass, target = grid.log_ratio, grid.reference, grid.target
        for k in (1, 10, 100, 1000):
            width = range_affordable(1.0, 1e-6, k) / 2
            tilt = np.clip(ratio - best_tilt_level(ratio, mass, width), -width / 2, width / 2)
            found = [target @ tilt - math.log(mass @ np.exp(tilt))]
            for share in (None, 0.2, 0.05, 0.01):
                eps = mollifier_affordable(1.0, 1e-6, k, share)
                symmetric = Window.symmetric(eps)
                window = symmetric if share is None else Window.asymmetric(eps, share)
                found.append(target @ clip_to_window(ratio, mass, window)[0])
            tilted, clipped, *others = found
            values = "".join(f"{v:9.4f}" for v in (clipped, tilted, *others))
            print(f"  {name:9s} {k:5d}{values}")


def windows() -> None:
    """How far each law stays inside its window, whatever the estimate."""
    rows = stats.norm(1, 0.5).rvs((500, 1), random_state=0)
    rng = np.random.default_rng(0)
    untrained = network_classifier().set_params(max_iter=1, learning_rate_init=1e-9)
    estimates = {
        "kernel": "kde",
        "untrained network": untrained,
        "adversarial": lambda x: rng.choice([-1e300, -5.0, 0.0, 7.0, 1e300, math.nan], len(x)),
        "all NaN": lambda x: np.full(len(x), np.nan),
        "one point": lambda x: np.where(np.abs(x[:, 0] - 1) < 1e-3, 0.0, -np.inf),
    }
    print("least room left in the window, nats, and |log Z|: estimate, eps, clip, tilt")
    for name, how in estimates.items():
        for eps in (0.1, 1.0, 5.0):
            law = mollify(rows, stats.norm(), eps, estimate=how)
            total = log_total_mass(law._distribution.weights, law._distribution.mass)
            room = eps / 2 - np.abs(law._distribution.weights - total).max()
            tilt = mollify(rows, stats.norm(), eps, estimate=how, kind="tilt")
            left = eps / 2 - np.ptp(tilt.log_ratio(X))
            print(f"  {name:20s} {eps:4g} {room:10.2e} {abs(total):9.1e} {left:10.2e}")


def audits(n: int = 200_000) -> None:
    """Lower bounds from draws of the worst pair of T15b, and planted faults."""
    print("audit of k draws: window, k, delta, claim, proved lower bound, share")
    eps = 1.0
    windows = {
        "symmetric": (1 / (1 + math.exp(eps / 2)), Window.symmetric(eps)),
        "share .05": (0.05, Window.asymmetric(eps, 0.05)),
    }
    for name, (q, window) in windows.items():
        reference = np.array([q, q, 1 - 2 * q])
        laws = [mollify(t, reference, eps, window=window) for t in ([1, 0, 0], [0, 1, 0])]
        for k in (1, 3, 10):
            targets = [law._distribution for law in laws]
            draws = [rejection_draws(target, k * n, SystemRandomness()) for target in targets]
            pair = [drawn.reshape(n, k) for drawn in draws]
            for delta in (0.0, 1e-3, 1e-2):
                claim = laws[0].guarantee(k).epsilon(delta)
                score = lambda x: (x == 0).sum(1) - (x == 1).sum(1).astype(float)  # noqa: E731
                found = epsilon_lower_bound(*pair, delta=delta, score=score).epsilon
                share = found / claim if claim else math.nan
                print(f"  {name} {k:3d} {delta:6g} {claim:8.4f} {found:8.4f} {share:6.1%}")
    print("planted faults at epsilon = 1 (proved lower bound; caught if above the claim)")
    base = np.array([0.05, 0.05, 0.9])
    targets = np.array([0.98, 0.01, 0.01]), np.array([0.01, 0.01, 0.98])
    rng = np.random.default_rng(1)

    def renormalized(target: np.ndarray) -> np.ndarray:
        made = base * np.exp(np.clip(np.log(target / base), -0.5, 0.5))
        return made / made.sum()

    faults = {
        "none": lambda t: mollify(t, base, eps).probabilities,
        "missing clip": lambda t: t,
        "clip, then renormalize": renormalized,
    }
    for name, law in faults.items():
        pair = [rng.choice(3, size=n, p=law(t))[:, None] for t in targets]
        bound = epsilon_lower_bound(*pair, score=lambda x: -x[:, 0].astype(float))
        print(f"  {name:24s} {bound.epsilon:.4f} {'caught' if bound.refutes(eps) else ''}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gains()
    costs()
    against_groups()
    many_draws()
    windows()
    audits()
