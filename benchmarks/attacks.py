"""Audit of every mechanism: a lower bound on epsilon beside what is claimed.

Run ``python -m benchmarks.attacks [draws] [word]``: so many outputs on either side of mechanisms
that take a while each, and up to 60 times as many of quick ones. 1,000 take some ten minutes; a
word picks the rows whose names hold it. No lower bound may exceed its claim, and that of a planted
fault must: too little noise, or draws at ten times the power that is paid for.

How near a bound comes depends on the data as well, since a claim covers all data sets and a search
tries some; and on the draws, of which few cannot prove much.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor

import numpy as np

import pymc_private as pmp
from benchmarks.attacked import OTHERS, Mechanism
from benchmarks.attacked_posteriors import ONE, POSTERIORS, ZERO, Draw, Posterior
from pymc_private import audit
from pymc_private.privacy import Guarantee

FAILURE = 1e-3
PILOT = 3000
PAID = 0.1


def beta_pair(r: float, alpha: float) -> Callable[[np.random.Generator, int], tuple]:
    def draw(rng: np.random.Generator, n: int) -> tuple:
        return rng.beta(alpha + r, alpha, n), rng.beta(alpha, alpha + r, n)

    return draw


def mollifier(epsilon: float, k: int) -> Callable[[np.random.Generator, int], tuple]:
    """The dominating pair of T15b: losses eps, -eps, 0."""
    h = epsilon / 2
    q = 1 / (1 + np.exp(h))
    p = [q * np.exp(h), q * np.exp(-h), (1 - 2 * q) * np.exp(-h)]
    p_law, q_law = [*p, 1 - sum(p)], [p[1], p[0], p[2], 1 - sum(p)]

    def shares(rng: np.random.Generator, n: int, law: list[float]) -> np.ndarray:
        cells = rng.choice(4, (n, k), p=law)
        return np.stack([np.sum(cells == c, axis=1) for c in (0, 1)], axis=1)

    def draw(rng: np.random.Generator, n: int) -> tuple:
        return shares(rng, n, p_law), shares(rng, n, q_law)

    return draw


LAWS = {  # dominating pairs of the other prices: draws, claim, delta
    "Dirichlet, r = .5, alpha = 2": (beta_pair(0.5, 2.0), Guarantee.dirichlet_of(0.5, 2.0), 0.01),
    "Gaussian, mu = 1": (
        lambda rng, n: (rng.normal(0, 1, n), rng.normal(1, 1, n)), Guarantee.gdp_of(1.0), 0.01,
    ),
    "Laplace, epsilon = 1": (
        lambda rng, n: (rng.laplace(0, 1, n), rng.laplace(1, 1, n)), Guarantee.pure(1.0), 0.0,
    ),
    "mollifier, epsilon = 1": (mollifier(1.0, 1), Guarantee.mollifier_of(1.0), 0.0),
    "mollifier, ten draws": (mollifier(0.5, 10), Guarantee.mollifier_of(0.5, 10), 0.01),
}  # fmt: skip


def line(name: str, claim: float, bound: audit.EpsilonBound, delta: float, rest: str = "") -> None:
    verdict = "FALSE" if bound.epsilon > claim else "kept"
    print(f"{name:30}{delta:>7g}{claim:10.4f}{bound.epsilon:13.4f}  {verdict}  {rest}", flush=True)


def fault_line(delta: float, claim: float, bound: audit.EpsilonBound) -> None:
    verdict = "caught" if bound.epsilon > claim else "MISSED"
    print(f"{'  the same, fault planted':30}{delta:>7g}{claim:10.4f}{bound.epsilon:13.4f}"
          f"  {verdict}", flush=True)  # fmt: skip


def attack_posterior(name: str, case: Posterior, draws: int, pool: Executor) -> None:
    """Audit draws of a posterior on the neighbors that a pilot tells apart best."""
    count = round(case.share * draws)
    record = (case.records or (ONE, ZERO))[0]
    probe = {k: np.stack([v] * case.n) for k, v in record.items()}
    certificate = pmp.certify(case.private(probe), progressbar=False)
    found = audit.worst_neighbors(
        case.mechanism, case.records or certificate, case.n, delta=case.delta,
        draws=PILOT, executor=pool,
    )  # fmt: skip
    x, y = (
        audit.outputs(case.mechanism, data, count, executor=pool, random_seed=seed)
        for seed, data in ((11, found.x), (12, found.y))
    )
    bound = audit.epsilon_lower_bound(x, y, delta=case.delta, score=case.score, false_alarm=FAILURE)
    told, paid = (case.claim(record, power).epsilon(case.delta) for power in (1.0, PAID))
    line(name, told, bound, case.delta, f"{count:,} outputs; the others are {found.pattern}")
    fault_line(case.delta, paid, bound)


def attack(name: str, case: Mechanism, draws: int, pool: Executor) -> None:
    """Audit a mechanism on its two inputs, and then one with a planted fault."""
    count = round(case.share * draws)
    claim, bound = case.claim().epsilon(case.delta), bounded(case, case.draw, count, pool)
    line(name, claim, bound, case.delta, f"{count:,} outputs")
    if case.fault is not None:
        told = (case.fault_claim or case.claim)().epsilon(case.delta)
        if case.fault is not case.draw:
            few = max(count // 3, min(count, draws // 3))
            bound = bounded(case, case.fault, few, pool)
        fault_line(case.delta, told, bound)


def bounded(case: Mechanism, draw: Draw, count: int, pool: Executor) -> audit.EpsilonBound:
    """What outputs on both inputs prove."""
    x, y = (
        audit.outputs(draw, data, count, executor=pool, random_seed=seed)
        for seed, data in ((1, case.one), (2, case.other))
    )
    return audit.epsilon_lower_bound(x, y, delta=case.delta, score=case.score, false_alarm=FAILURE)


def speed_up(pool: Executor, draws: int) -> None:
    """How much sooner two processes finish the same outputs; other work on the machine counts."""
    case = OTHERS["noisy_counts, Gaussian"]
    audit.outputs(case.draw, case.one, 20, executor=pool)  # imports are not counted
    seconds = []
    for executor in (None, pool):
        start = time.perf_counter()
        audit.outputs(case.draw, case.one, draws, executor=executor)
        seconds.append(time.perf_counter() - start)
    print(
        f"{draws} releases of noisy counts: {seconds[0]:.2f} s in one process, {seconds[1]:.2f} s "
        f"in two, {seconds[0] / seconds[1]:.2f} times as fast"
    )


def main(draws: int, word: str = "") -> None:
    print(f"{'mechanism':30}{'delta':>7}{'claimed':>10}{'proved least':>13}")
    with ProcessPoolExecutor(2) as pool:
        for name, case in POSTERIORS.items():
            if word in name:
                attack_posterior(name, case, draws, pool)
        for name, mechanism in OTHERS.items():
            if word in name:
                attack(name, mechanism, draws, pool)
        rng = np.random.default_rng(1)
        for name, (law, guarantee, delta) in LAWS.items():
            count = 75 * draws
            samples = law(rng, count)
            if word in name:
                bound = audit.epsilon_lower_bound(*samples, delta=delta, false_alarm=FAILURE)
                line(name, guarantee.epsilon(delta), bound, delta, f"{count:,} outputs")
        speed_up(pool, max(draws // 5, 1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, *sys.argv[2:3])
