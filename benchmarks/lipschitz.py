"""The lemma families of stochastic Lipschitz models: our (L0, c, C, R) against brute force.

``python -m benchmarks.lipschitz`` prints the table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy import special, stats

import pymc_private as pmp
from pymc_private.certificates.lipschitz.lemmas import recognize_lemma
from pymc_private.certificates.lipschitz.tail import lipschitz_tail

N = 10


@dataclass(frozen=True)
class Case:
    """One family: a model, SciPy's log-density of a record, its records and prior."""

    name: str
    build: Callable[[], Any]
    domain: dict
    box: tuple[float, float] | None
    logp: Callable[[Any, Any], np.ndarray]
    records: np.ndarray
    prior: Any
    metric: Any = None


def _exponential() -> None:
    pm.Exponential("y", pm.Exponential("t", 2.0), observed=np.zeros(N), dims="p")


def _laplace() -> None:
    pm.Laplace("y", 0.2, 1 / pm.Exponential("t", 2.0), observed=np.zeros(N), dims="p")


def _normal() -> None:
    pm.Normal("y", 0.2, tau=pm.Exponential("t", 2.0), observed=np.zeros(N), dims="p")


def _bernoulli() -> None:
    pm.Bernoulli("y", pm.Beta("t", 5, 5), observed=np.zeros(N, int), dims="p")


def _binomial() -> None:
    pm.Binomial("y", 3, pm.Beta("t", 4, 4), observed=np.zeros(N, int), dims="p")


LINE = np.append(np.linspace(-1, 1, 81), 0.2)
CASES = (
    Case(
        "19 Exponential", _exponential, {"y": (0, 1)}, (0.5, 3.0),
        lambda y, t: stats.expon.logpdf(y, scale=1 / t), np.linspace(0, 1, 41),
        stats.expon(scale=0.5), pmp.Metric({"y": "absolute"}),
    ),
    Case(
        "20 Laplace", _laplace, {"y": (-1, 1)}, (0.5, 3.0),
        lambda y, t: stats.laplace.logpdf(y, 0.2, 1 / t), LINE, stats.expon(scale=0.5),
        pmp.Metric({"y": "absolute"}),
    ),
    Case(
        "21 Bernoulli", _bernoulli, {}, None,
        lambda y, t: stats.bernoulli.logpmf(y, t), np.arange(2), stats.beta(5, 5),
    ),
    Case(
        "21 Binomial(3)", _binomial, {}, None,
        lambda y, t: stats.binom.logpmf(y, 3, t) - np.log(special.comb(3, y)), np.arange(4),
        stats.beta(4, 4),
    ),
    Case(
        "22 Normal", _normal, {"y": (-1, 1)}, (0.5, 3.0),
        lambda y, t: stats.norm.logpdf(y, 0.2, t**-0.5), LINE, stats.expon(scale=0.5),
        pmp.Metric({"y": lambda y: (y - 0.2) ** 2}),
    ),
)  # fmt: skip


def private_of(case: Case, neighbors: Any = "substitute") -> pmp.PrivateModel:
    """The private model of a family."""
    with pm.Model(coords={"p": range(N)}) as model:
        case.build()
    private = pmp.privatize(model, records="p", domain=case.domain, neighbors=neighbors)
    return pmp.trim(private, box={"t": case.box}) if case.box else private


def brute_force(case: Case) -> tuple[float, float, float]:
    """(largest rate c that the prior's tail obeys on a grid from our L0, R, log C)."""
    low, high = case.box or (1e-4, 1 - 1e-4)
    grid = np.linspace(low, high, 40_001)
    table = np.array([case.logp(y, grid) for y in case.records])
    gaps = table[:, None, :] - table[None, :, :] if len(table) < 60 else _gaps(table)
    R = float((gaps.max(axis=-1) - gaps.min(axis=-1)).max()) if case.box else math.inf
    ell = table.max(axis=0) - table.min(axis=0)
    weights = np.gradient(case.prior.cdf(grid))
    weights /= weights.sum()
    order = np.argsort(ell)
    above = 1.0 - np.cumsum(weights[order])
    family = recognize_lemma(private_of(case))
    held = (ell[order] > family.L0 * (1 + 1e-6) + 1e-6) & (above > 1e-9)
    rate = float(np.min(-np.log(above[held]) / (ell[order][held] - family.L0)))
    log_C = _log_constant(table, np.log(weights + 1e-300))
    return rate, R, log_C


def _gaps(table: np.ndarray) -> np.ndarray:
    """Differences of the extreme records alone: enough for one-parameter families."""
    ends = [0, len(table) // 2, len(table) - 2, len(table) - 1]
    return table[ends][:, None, :] - table[ends][None, :, :]


def _log_constant(table: np.ndarray, log_prior: np.ndarray) -> float:
    """max over equal and mixed data sets of log sup p - log marginal."""
    worst = 0.0
    for first in range(0, len(table), max(1, len(table) // 8)):
        for second in range(0, len(table), max(1, len(table) // 8)):
            for k in range(0, N + 1):
                logs = k * table[first] + (N - k) * table[second]
                worst = max(worst, logs.max() - special.logsumexp(logs + log_prior))
    return float(worst)


def table() -> None:
    """Print ours beside brute force."""
    print(f"{N} records; theta ~ Exponential(2) on [0.5, 3], or Beta(5, 5), Beta(4, 4)")
    head = ("lemma", "L0", "c", "c brute", "log C", "brute", "R", "brute", "R/rho", "eps T6")
    print(("{:24s}" + "{:>10s}" * 9).format(*head))
    for case in CASES:
        private = private_of(case)
        family = recognize_lemma(private)
        rate, R, log_C = brute_force(case)
        ours = pmp.certify(private).range if case.box else math.inf
        steep = pmp.certify(private_of(case, case.metric)).range if case.metric else math.nan
        price = lipschitz_tail(private, draws=10).guarantee(1e-6).epsilon(1e-6)
        numbers = (family.L0, family.c, rate, family.log_constant, log_C, ours, R, steep, price)
        print(("{:24s}" + "{:10.4f}" * 9).format(case.name, *numbers))
        if family.c > rate * (1 + 1e-3) or log_C > family.log_constant or ours * (1 + 1e-9) < R:
            raise SystemExit(f"{case.name}: brute force contradicts the lemma")


def in_ball() -> None:
    """Print Lemma 23: normal rows of precision t in the unit disk, mean known or in a box."""
    z = np.random.default_rng(0).normal(size=(200_000, 2))
    z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))  # most on the circle
    for mean, name in ((0.0, "23 Normal, mean 0"), (0.5, "23 Normal, |mean| < .5")):
        with pm.Model(coords={"p": range(N), "k": range(2)}) as model:
            center = pm.Normal("m", 0, 1, dims="k") if mean else 0
            t = pm.Exponential("t", 2)
            pm.Normal("y", center, tau=t, observed=np.zeros((N, 2)), dims=("p", "k"))
        private = pmp.privatize(model, records="p", domain={"y": pmp.Ball(1.0)})
        private = pmp.trim(private, box={"t": (0.5, 3.0)} | ({"m": (-mean, mean)} if mean else {}))
        square = ((z - mean) ** 2).sum(axis=1)
        slope = (square.max() - square.min()) / 2  # ell = slope t, at the worst mean
        log_C = max(_marginal(np.full(2, s), mean) for s in (0.0, math.sqrt(0.5)))
        # R: two corners of the mean, or one of them and two precisions.
        R = max(3.0 * 4 * mean * math.sqrt(2), 2.5 / 2) if mean else 2.5 / 2
        _row(name, private, 2 / slope, log_C, R, 1e-6)


def _marginal(record: np.ndarray, mean: float) -> float:
    """log sup p - log marginal of N equal records, by draws from the prior."""
    rng, count = np.random.default_rng(0), 400_000
    t = np.append(stats.truncexpon.rvs(5.0, 0.5, 0.5, count, random_state=rng), [0.5, 3.0])
    m = np.array(
        [
            stats.truncnorm.rvs(-mean - 1e-9, mean + 1e-9, size=count, random_state=rng),
            stats.truncnorm.rvs(-mean - 1e-9, mean + 1e-9, size=count, random_state=rng),
        ]
    )
    square = ((record[:, None] - np.append(m, [[-mean, mean]] * 2, axis=1)) ** 2).sum(axis=0)
    logs = N * (np.log(t) - t * square / 2)
    return float(logs.max() - special.logsumexp(logs[:count]) + math.log(count))


def _net(make: Callable[..., Any]) -> pmp.PrivateModel:
    """Two binary variables, the second given the first."""
    with pm.Model(coords={"p": range(N)}) as model:
        parent = pm.Data("a", np.zeros(N, int), dims="p")
        first, second = make("q"), make("r", shape=2)
        pm.Bernoulli("A", first, observed=parent, dims="p")
        pm.Bernoulli("B", second[parent], observed=np.zeros(N, int), dims="p")
    return pmp.privatize(model, records="p", domain={"a": {0, 1}})


def networks() -> None:
    """Print Lemma 24: entries in [0.1, 0.9], and entries without bounds."""
    least = 0.1
    ends = np.array(list(itertools.product((least, 1 - least), repeat=3)))  # q, r0, r1
    rows = [(a, b) for a in (0, 1) for b in (0, 1)]
    logs = np.array(
        [
            np.log(np.where(a, ends[:, 0], 1 - ends[:, 0]))
            + np.log(np.where(b, ends[:, 1 + a], 1 - ends[:, 1 + a]))
            for a, b in rows
        ]
    )
    gaps = logs[:, None] - logs[None, :]
    R = float((gaps.max(axis=-1) - gaps.min(axis=-1)).max())
    box = {"q": (least, 1 - least), "r": (least, 1 - least)}
    bounded = pmp.trim(_net(lambda name, **k: pm.Uniform(name, 0, 1, **k)), box=box)
    _row("24 Bayes net", bounded, math.inf, math.nan, R, 1e-6)
    if gaps.max() > recognize_lemma(bounded).L0 * (1 + 1e-9):
        raise SystemExit("24: brute force contradicts the lemma")
    free = _net(lambda name, **k: pm.Beta(name, 5, 5, **k))
    family, rng = recognize_lemma(free), np.random.default_rng(0)
    drawn = {"q": rng.beta(5, 5, 10**6), "r": rng.beta(5, 5, (10**6, 2))}
    ell = np.sort(family.ell(drawn))[: -(10**3)]
    above = 1.0 - np.arange(1, len(ell) + 1) / 10**6
    held = ell > family.L0 + 0.1
    rate = float(np.min(-np.log(above[held]) / (ell[held] - family.L0)))
    tosses = [0.0, *(float(np.log(pmp.privacy.beta_bernoulli_C(5.0, k))) for k in range(1, N + 1))]
    split = max(tosses[k] + tosses[N - k] for k in range(N + 1))  # as the parent says
    _row("21, 24 Beta(5, 5)", free, rate, tosses[N] + split, math.inf, 1e-6)


def _row(
    name: str, private: pmp.PrivateModel, rate: float, log_C: float, R: float, delta: float
) -> None:
    """One line of the table; brute force must not contradict what is proved."""
    family = recognize_lemma(private)
    ours = pmp.certify(private).range if math.isfinite(R) else math.inf
    tail = lipschitz_tail(private, draws=1000)
    price = tail.guarantee(delta).epsilon(delta) if tail.log_constant < 600 else math.nan
    log_constant = math.nan if math.isinf(family.c) else family.log_constant
    numbers = (family.L0, family.c, rate, log_constant, log_C, ours, R, math.nan, price)
    print(("{:24s}" + "{:10.4f}" * 9).format(name, *numbers))
    low = log_constant < log_C * (1 - 1e-9)
    if family.c > rate * (1 + 1e-3) or low or ours * (1 + 1e-9) < R:
        raise SystemExit(f"{name}: brute force contradicts the lemma")


def main() -> None:
    """Print the table."""
    table()
    in_ball()
    networks()


if __name__ == "__main__":
    main()
