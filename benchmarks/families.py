"""The families of Dimitrakakis et al. (2017), Example 1 and Lemmas 19-24, as PyMC models.

Each has its exact range R, the constants (L0, c) of its prior's tail and C, as corrected, and the
log density of one record, so that every bound can be compared with brute force.
``python -m benchmarks.gallery`` prints the table of the gallery.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pymc as pm
from scipy import special

from benchmarks.family import ROWS, Family, rows, steps
from pymc_private.privacy import (
    bayes_net_row_eps,
    beta_bernoulli_C,
    beta_binomial_c,
    exp_exp_C,
    laplace_C,
    normal_var_C,
)

RATE = 3.0  # of exponential priors


def exponential(c1: float = 0.5, c2: float = 3.0, B: float = 1.0) -> Family:
    """Lemma 19: Exponential records in [0, B], their rate Exponential on [c1, c2]."""

    def model() -> pm.Model:
        with rows() as made:
            rate = pm.Exponential("rate", RATE)
            pm.Exponential("y", rate, observed=np.full(ROWS, B / 2), dims="row")
        return made

    theta = steps(c1, c2)
    return Family(
        "Exponential", "19", model, {"y": (0, B)}, {"rate": (c1, c2)},
        (c2 - c1) * B, lambda x, y: abs(float(x - y)),
        c1, RATE, float(exp_exp_C(c1, c2, B)), steps(0, B, 9), theta, -RATE * theta,
        lambda x, t: np.log(t) - np.outer(x, t), lambda t: t,
    )  # fmt: skip


def laplace(c1: float = 0.5, c2: float = 3.0, B: float = 1.0, mu: float = 0.2) -> Family:
    """Lemma 20: Laplace records in [-B, B], their inverse scale Exponential on [c1, c2]."""

    def model() -> pm.Model:
        with rows() as made:
            inverse = pm.Exponential("inverse", RATE)
            pm.Laplace("y", mu, 1 / inverse, observed=np.zeros(ROWS), dims="row")
        return made

    theta = steps(c1, c2)
    records = np.append(steps(-B, B, 9), mu)
    return Family(
        "Laplace", "20", model, {"y": (-B, B)}, {"inverse": (c1, c2)},
        (c2 - c1) * (B + abs(mu)), lambda x, y: abs(abs(float(x) - mu) - abs(float(y) - mu)),
        c1, RATE, float(laplace_C(c1, c2, B, mu)), records, theta, -RATE * theta,
        lambda x, t: np.log(t / 2) - np.outer(np.abs(x - mu), t), lambda t: t,
    )  # fmt: skip


def coin(alpha: float = 5.0, a: float = 0.1) -> Family:
    """Lemma 21: coins whose bias is Beta(alpha, alpha), trimmed to [a, 1 - a] for a finite R."""

    def model() -> pm.Model:
        with rows() as made:
            bias = pm.Beta("bias", alpha, alpha)
            pm.Bernoulli("y", bias, observed=np.arange(ROWS) % 2, dims="row")
        return made

    theta = steps(a, 1 - a)
    return Family(
        "Beta-Bernoulli", "21", model, {}, {"bias": (a, 1 - a)},
        2 * math.log((1 - a) / a), lambda x, y: float(x != y),
        0.0, float(beta_binomial_c(alpha)), float(beta_bernoulli_C(alpha, 1)),
        np.array([0.0, 1.0]), theta, (alpha - 1) * (np.log(theta) + np.log1p(-theta)),
        lambda x, t: np.outer(x, np.log(t)) + np.outer(1 - x, np.log1p(-t)),
        lambda t: np.abs(special.logit(t)),
    )  # fmt: skip


def normal_precision(c1: float = 0.5, c2: float = 2.0, B: float = 1.0, mu: float = 0.2) -> Family:
    """Lemma 22: Normal records of known mean, their precision Exponential on [c1, c2]."""

    def model() -> pm.Model:
        with rows() as made:
            tau = pm.Exponential("tau", RATE)
            pm.Normal("y", mu, tau=tau, observed=np.zeros(ROWS), dims="row")
        return made

    theta = steps(c1, c2)
    records = np.append(steps(-B, B, 9), mu)
    return Family(
        "Normal precision", "22", model, {"y": (-B, B)}, {"tau": (c1, c2)},
        (c2 - c1) * (B + abs(mu)) ** 2 / 2,
        lambda x, y: abs(float((x - mu) ** 2 - (y - mu) ** 2)),
        c1 / 2, 2 * RATE, float(normal_var_C(c1, c2, B, mu)), records, theta, -RATE * theta,
        lambda x, t: np.log(t / (2 * np.pi)) / 2 - np.outer((x - mu) ** 2, t) / 2, lambda t: t / 2,
    )  # fmt: skip


def multivariate_normal(c1: float = 0.5, c2: float = 1.0, m: float = 0.5) -> Family:
    """Lemma 23: pairs in [-1, 1]^2 around a mean in a box, precision t I with t in [c1, c2].

    Its condition needs bounds of the precision and of the mean over the whole prior: with
    rho = |xx' - yy'|_F + 2 |x - y| and ell = max(|A|_F, |A mu|) / 2.
    """

    def model() -> pm.Model:
        with rows(axis=range(2)) as made:
            mu = pm.Normal("mu", 0, 1, dims="axis")
            t = pm.Exponential("t", RATE)
            pm.Normal("y", mu, tau=t, observed=np.zeros((ROWS, 2)), dims=("row", "axis"))
        return made

    sides = steps(-m, m, 17)
    theta = np.array([(a, b, t) for a in sides for b in sides for t in steps(c1, c2, 17)])
    records = np.array(list(itertools.product(steps(-1, 1, 5), repeat=2)))

    def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        square = ((x[:, None] - p[None, :, :2]) ** 2).sum(axis=2)
        return np.log(p[:, 2] / (2 * np.pi)) - square * p[:, 2] / 2

    def distance(x: np.ndarray, y: np.ndarray) -> float:
        outer = np.outer(x, x) - np.outer(y, y)
        return float(np.linalg.norm(outer) + 2 * np.linalg.norm(x - y))

    square = 2 * (1 + m) ** 2  # the mean's entries lie in [-m, m], so |A mu| < |A|_F
    largest = c2 / min(t * math.exp(-t * square / 2) for t in (c1, c2))
    return Family(
        "Multivariate Normal", "23", model, {"y": (-1, 1)}, {"mu": (-m, m), "t": (c1, c2)},
        _normal_range(c1, c2, m), distance,
        c1 / math.sqrt(2), RATE * math.sqrt(2), largest, records, theta,
        -(theta[:, :2] ** 2).sum(axis=1) / 2 - RATE * theta[:, 2], log_density,
        lambda p: p[:, 2] * np.maximum(np.sqrt(2), np.hypot(p[:, 0], p[:, 1])) / 2,
    )  # fmt: skip


def _normal_range(c1: float, c2: float, m: float) -> float:
    """R by enumeration.

    Coordinates add. In one, the variation is linear in each precision and convex in the means'
    differences at corners; for given corners each record maximizes a parabola over [-1, 1].
    """

    def best(t1: float, m1: float, t2: float, m2: float, sign: float) -> float:
        def value(x: float) -> float:
            return sign * (t2 * (x - m2) ** 2 - t1 * (x - m1) ** 2) / 2

        top = (t2 * m2 - t1 * m1) / (t2 - t1) if t1 != t2 else 0.0
        return max(value(x) for x in (-1.0, 1.0, min(1.0, max(-1.0, top))))

    ends = itertools.product((c1, c2), (-m, 0.0, m), (c1, c2), (-m, 0.0, m))
    found: dict[tuple[float, float], float] = {}
    for t1, m1, t2, m2 in ends:
        value = best(t1, m1, t2, m2, 1.0) + best(t1, m1, t2, m2, -1.0)
        found[t1, t2] = max(found.get((t1, t2), 0.0), value)
    return 2 * max(found.values())


def bayes_net(a: float = 0.1) -> Family:
    """Lemma 24: two binary variables, the second given the first, table entries in [a, 1 - a]."""

    def model() -> pm.Model:
        with rows(parent=range(2)) as made:
            first = pm.Uniform("first", 0, 1)
            second = pm.Uniform("second", 0, 1, dims="parent")
            parent = pm.Data("parent_of", np.arange(ROWS) % 2, dims="row")
            pm.Potential("a", pm.logp(pm.Bernoulli.dist(first), parent), dims="row")
            pm.Bernoulli("b", second[parent], observed=np.arange(ROWS) // 2 % 2, dims="row")
        return made

    theta = np.array(list(itertools.product(steps(a, 1 - a, 31), repeat=3)))
    records = np.array(list(itertools.product((0, 1), repeat=2)))

    def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        first = np.where(x[:, :1] == 1, p[:, 0], 1 - p[:, 0])
        given = p[:, 1:].T[x[:, 0]]
        return np.log(first) + np.log(np.where(x[:, 1:] == 1, given, 1 - given))

    return Family(
        "Bayesian network", "24", model, {"parent_of": {0, 1}},
        {"first": (a, 1 - a), "second": (a, 1 - a)},
        float(bayes_net_row_eps(2, a)), lambda x, y: float(np.any(x != y)),
        math.nan, math.nan, math.nan, records, theta, np.zeros(len(theta)), log_density,
        lambda p: np.full(len(p), 2 * math.log((1 - a) / a)),
    )  # fmt: skip


def markov_chain(a: float = 0.1, before: int = 0, after: int = 0) -> Family:
    """A chain of two states whose transition rows are Dirichlet, trimmed to [a, 1 - a].

    One record is one time step: two factors read it. R depends on the states before and after; it
    is largest where these are equal. The parameters of the grid are p(0 | 0) and p(1 | 1).
    """

    def model() -> pm.Model:
        with rows() as made:
            states = pm.Data("y", np.arange(ROWS) % 2, dims="row")
            transition = pm.Dirichlet("transition", np.ones((2, 2)))
            pm.Categorical("chain", p=transition[states[:-1]], observed=states[1:])
        return made

    theta = np.array(list(itertools.product(steps(a, 1 - a, 41), repeat=2)))

    def log_density(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        tables = np.stack([np.stack([p[:, 0], 1 - p[:, 0]]), np.stack([1 - p[:, 1], p[:, 1]])])
        return np.stack([np.log(tables[before, s] * tables[s, after]) for s in x.astype(int)])

    logit = math.log((1 - a) / a)
    return Family(
        "Markov chain", "Section 5", model, {"y": {0, 1}}, {"transition": (a, 1 - a)},
        4 * logit if before == after else 2 * logit, lambda x, y: float(x != y),
        math.nan, math.nan, math.nan, np.array([0, 1]), theta, np.zeros(len(theta)), log_density,
        lambda p: np.full(len(p), 2 * logit),
    )  # fmt: skip


def finite_coin(step: float = 0.1, decay: float = 0.0) -> Family:
    """Example 1: a bias among step, 2 step, ..., 1 - step; 0 and 1 are excluded.

    The prior weight of a bias falls like e^(-decay |logit|): 0 is the uniform prior.
    """
    count = round(1 / step) - 1
    theta = step * np.arange(1, count + 1)
    log_prior = -decay * np.abs(special.logit(theta))

    def model() -> pm.Model:
        with rows() as made:
            place = pm.Categorical("place", p=special.softmax(log_prior))
            bias = pm.Deterministic("bias", step * (place + 1))
            pm.Bernoulli("y", bias, observed=np.arange(ROWS) % 2, dims="row")
        return made

    return Family(
        "Finite Bernoulli" + (f", decay {decay:g}" if decay else ", uniform"), "Example 1", model,
        {}, {}, 2 * math.log((1 - step) / step), lambda x, y: float(x != y),
        0.0, _steepest(theta, log_prior), 2 * (1 - step), np.array([0.0, 1.0]), theta, log_prior,
        lambda x, t: np.outer(x, np.log(t)) + np.outer(1 - x, np.log1p(-t)),
        lambda t: np.abs(special.logit(t)), is_finite=True,
    )  # fmt: skip


def _steepest(theta: np.ndarray, log_prior: np.ndarray) -> float:
    """The largest c with prior(ell > L) <= e^(-c L) for all L >= 0; it binds just below an atom."""
    weights, ell = special.softmax(log_prior), np.abs(special.logit(theta))
    places = np.unique(np.round(ell, 12))
    places = places[places > 1e-9]
    return min(-math.log(weights[ell > L - 1e-9].sum()) / L for L in places) * (1 - 1e-12)


FAMILIES: dict[str, Callable[[], Family]] = {
    "finite, uniform prior": finite_coin,
    "finite, steep prior": lambda: finite_coin(decay=2.0),
    "exponential": exponential,
    "laplace": laplace,
    "coin": coin,
    "normal precision": normal_precision,
    "multivariate normal": multivariate_normal,
    "bayes net": bayes_net,
    "markov chain": markov_chain,
}
