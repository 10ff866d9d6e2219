"""Generalized linear models with the derivative of their log-likelihood written out by hand.

``python -m tests.certificates.glms`` prints proved constants beside searched suprema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr, softmax

from pymc_private import Ball, Interval, privatize, trim

N = 23
RADIUS = 1.0
PRIOR_SD = (2.0, 5.0)
"""Of slopes and intercept."""


@dataclass(frozen=True)
class GLM:
    """One model u = a + x'b with the slope of its log-likelihood in u.

    Parameters
    ----------
    name : str
    observe : callable
        Adds the outcome to the model of the context, given the predictor (n,) and the data.
    slope : callable
        (u, y) -> dh/du, written out by hand.
    outcomes : array
        Outcomes worth trying.
    domain : domain of the outcome, or None if it is implied
    box : (low, high) or None
        Of each parameter.
    beta : float or None
        sup of -d2h/du2, where it is known by hand.
    """

    name: str
    observe: Callable
    slope: Callable
    outcomes: np.ndarray
    domain: Any = None
    box: tuple[float, float] | None = None
    beta: float | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def private(self, **keywords: Any) -> Any:
        """The private model on arbitrary records."""
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(N, 2)) / 3.0
        y = rng.choice(self.outcomes, N)
        with pm.Model(coords={"i": range(N)}) as model:
            x = pm.Data("X", rows, dims=("i", None))
            b = pm.Normal("b", 0.0, PRIOR_SD[0], shape=2)
            a = pm.Normal("a", 0.0, PRIOR_SD[1])
            self.observe(a + x @ b, y)
        domain = {"X": Ball(RADIUS)} | ({} if self.domain is None else {"y": self.domain})
        private = privatize(model, records="i", domain=domain, **keywords)
        if self.box is None:
            return private
        return trim(private, box={"a": self.box, "b": self.box})

    def whitened(self, theta: np.ndarray, x: np.ndarray, y: Any) -> np.ndarray:
        """P^(-1/2) times the gradient of the record's log-likelihood in (b, a)."""
        a = np.append(x, 1.0)
        return self.slope(theta @ a, y) * a * np.repeat(PRIOR_SD, (2, 1))

    def searched(self, rng: np.random.Generator, *, add_remove: bool = False) -> float:
        """The greatest |P^(-1/2) (grad log p(x) - grad log p(y))| that a search finds."""

        def place(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            low, high = (-60.0, 60.0) if self.box is None else self.box
            theta = np.clip(z[:3], low, high)
            rows = z[3:].reshape(2, 2)
            norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / RADIUS, 1.0)
            return theta, rows[0] / norms[0], rows[1] / norms[1]

        def value(z: np.ndarray, y: Any, other: Any) -> float:
            theta, first, second = place(z)
            change = self.whitened(theta, first, y)
            if not add_remove:
                change = change - self.whitened(theta, second, other)
            return float(np.linalg.norm(change))

        best = 0.0
        scale = 8.0 if self.box is None else max(map(abs, self.box))
        ends = [self.outcomes.min(), self.outcomes.max()]
        for y in ends:
            for other in ends:
                starts = rng.normal(size=(200, 7)) * np.r_[np.full(3, scale), np.ones(4)]
                values = [value(z, y, other) for z in starts]
                for k in np.argsort(values)[-2:]:
                    found = minimize(
                        lambda z, y=y, o=other: -value(z, y, o),
                        starts[k],
                        method="Nelder-Mead",
                        options={"maxiter": 600},
                    )
                    best = max(best, -found.fun)
        return best


def _mills(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2.0 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)


def _bernoulli(link: Callable) -> Callable:
    return lambda u, y: pm.Bernoulli("y", p=link(u), observed=y, dims="i")


def _cloglog_slope(u: float, y: float) -> float:
    rate = np.exp(u)
    return rate / np.expm1(rate) if y else -rate


def _ordered_slope(u: float, y: float) -> float:
    low, high = (expit(c - u) for c in (-1.0, 1.0))
    return [-(1.0 - low), 1.0 - low - high, high][int(y)]


def _cut_slope(u: float, y: float) -> float:
    """Below -1, between, or above 1, of a normal latent outcome."""
    if abs(y) == 1.0:
        return float(y * _mills(y * u - 1.0))
    low, high = -1.0 - u, 1.0 - u
    mass = np.exp(log_ndtr(high)) - np.exp(log_ndtr(low))
    return float((np.exp(-(low**2) / 2.0) - np.exp(-(high**2) / 2.0)) / np.sqrt(2 * np.pi) / mass)


def _censored(u: Any, y: Any) -> Any:
    latent = pm.Normal.dist(u, 1.0)
    return pm.Censored("y", latent, lower=-1.0, upper=1.0, observed=y, dims="i")


UNIT = (-1.0, 1.0)
COUNTS = np.arange(7)
POSITIVE = np.array([0.2, 3.0])
GLMS = [
    GLM("logistic", lambda u, y: pm.Bernoulli("y", logit_p=u, observed=y, dims="i"),
        lambda u, y: y - expit(u), np.arange(2), beta=0.25),
    GLM("logistic in a box", lambda u, y: pm.Bernoulli("y", logit_p=u, observed=y, dims="i"),
        lambda u, y: y - expit(u), np.arange(2), box=UNIT, beta=0.25),
    GLM("logistic by probabilities", _bernoulli(pm.math.invlogit),
        lambda u, y: y - expit(u), np.arange(2), beta=0.25),
    GLM("probit", _bernoulli(pm.math.invprobit),
        lambda u, y: _mills(u) if y else -_mills(-u), np.arange(2), box=UNIT),
    GLM("complementary log-log", _bernoulli(lambda u: 1.0 - pm.math.exp(-pm.math.exp(u))),
        _cloglog_slope, np.arange(2), box=UNIT),
    GLM("binomial", lambda u, y: pm.Binomial("y", 6, logit_p=u, observed=y, dims="i"),
        lambda u, y: y - 6.0 * expit(u), COUNTS, beta=1.5),
    GLM("Poisson", lambda u, y: pm.Poisson("y", pm.math.exp(u), observed=y, dims="i"),
        lambda u, y: y - np.exp(u), COUNTS, Interval(0, 6), UNIT),
    GLM("Poisson with exposure",
        lambda u, y: pm.Poisson("y", 2.5 * pm.math.exp(u), observed=y, dims="i"),
        lambda u, y: y - 2.5 * np.exp(u), COUNTS, Interval(0, 6), UNIT),
    GLM("negative binomial",
        lambda u, y: pm.NegativeBinomial("y", mu=pm.math.exp(u), alpha=2.0, observed=y, dims="i"),
        lambda u, y: y - (y + 2.0) * expit(u - np.log(2.0)), COUNTS, Interval(0, 6), beta=2.0),
    GLM("gamma, log link",
        lambda u, y: pm.Gamma("y", alpha=2.0, beta=2.0 * pm.math.exp(-u), observed=y, dims="i"),
        lambda u, y: -2.0 + 2.0 * y * np.exp(-u), POSITIVE, Interval(0.2, 3.0), UNIT),
    GLM("exponential, log link",
        lambda u, y: pm.Exponential("y", pm.math.exp(u), observed=y, dims="i"),
        lambda u, y: 1.0 - y * np.exp(u), POSITIVE, Interval(0.2, 3.0), UNIT),
    GLM("Weibull, log link",
        lambda u, y: pm.Weibull("y", 1.5, pm.math.exp(u), observed=y, dims="i"),
        lambda u, y: -1.5 + 1.5 * (y * np.exp(-u)) ** 1.5, POSITIVE, Interval(0.2, 3.0), UNIT),
    GLM("normal", lambda u, y: pm.Normal("y", u, 0.5, observed=y, dims="i"),
        lambda u, y: 4.0 * (y - u), np.array([-2.0, 2.0]), Interval(-2, 2), UNIT, beta=4.0),
    GLM("log-normal", lambda u, y: pm.LogNormal("y", u, 1.0, observed=y, dims="i"),
        lambda u, y: np.log(y) - u, POSITIVE, Interval(0.2, 3.0), UNIT, beta=1.0),
    GLM("Laplace", lambda u, y: pm.Laplace("y", u, 0.5, observed=y, dims="i"),
        lambda u, y: 2.0 * np.sign(y - u), np.array([-2.0, 2.0]), Interval(-2, 2), beta=np.inf),
    GLM("logistic density", lambda u, y: pm.Logistic("y", u, 0.5, observed=y, dims="i"),
        lambda u, y: 2.0 * np.tanh(y - u), np.array([-2.0, 2.0]), Interval(-2, 2), beta=2.0),
    GLM("Gumbel", lambda u, y: pm.Gumbel("y", u, 1.0, observed=y, dims="i"),
        lambda u, y: 1.0 - np.exp(u - y), np.array([-2.0, 2.0]), Interval(-2, 2), UNIT),
    GLM("geometric, logit link",
        lambda u, y: pm.Geometric("y", pm.math.invlogit(u), observed=y, dims="i"),
        lambda u, y: 1.0 - y * expit(u), np.arange(1, 6), Interval(1, 5), beta=1.25),
    GLM("ordered logistic",
        lambda u, y: pm.OrderedLogistic("y", u, np.array([-1.0, 1.0]), observed=y, dims="i"),
        _ordered_slope, np.arange(3)),
    GLM("ordered probit",
        lambda u, y: pm.OrderedProbit("y", u, np.array([-1.0, 1.0]), observed=y, dims="i"),
        lambda u, y: _cut_slope(u, y - 1.0), np.arange(3), box=UNIT),
    GLM("censored normal", _censored,
        lambda u, y: _cut_slope(u, y) if abs(y) == 1.0 else y - u, np.array([-1.0, 0.3, 1.0]),
        Interval(-1, 1), UNIT),
    GLM("weighted logistic",
        lambda u, y: pm.Potential(
            "loss", pm.Data("y", y / 2.0, dims="i") * -pm.math.log1pexp(-u)),
        lambda u, y: (y / 2.0) * expit(-u), np.arange(3), Interval(0, 1), beta=0.25),
    GLM("temperature of two outcomes",
        lambda u, y: (pm.Bernoulli("z", logit_p=u, observed=(y > 0) * 1, dims="i"),
                      pm.Normal("y", u, 1.0, observed=y, dims="i")),
        lambda u, y: (y > 0) * 1.0 - expit(u) + y - u, np.array([-2.0, 2.0]),
        Interval(-2, 2), UNIT, beta=1.25),
]  # fmt: skip
BY_NAME = {glm.name: glm for glm in GLMS}


def softmax_searched(rng: np.random.Generator, classes: int, sd: float) -> float:
    """The same for a softmax with one column of slopes for each class."""
    best = 0.0
    for _ in range(4000):
        rows = rng.normal(size=(2, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        theta = rng.normal(size=(2, classes)) * rng.choice([1.0, 10.0, 100.0])
        change = 0.0
        for sign, row in ((1.0, rows[0]), (-1.0, rows[1])):
            p = softmax(row @ theta)
            residual = np.eye(classes)[rng.integers(classes)] - p
            change = change + sign * np.outer(row, residual)
        best = max(best, sd * float(np.linalg.norm(change)))
    return best


def table() -> str:
    """Proved and searched constants, one model a line."""
    from pymc_private.certificates.log_concave import concavity

    lines = [f"{'model':28s} {'m':>7s} {'G':>9s} {'mu':>9s} {'searched':>9s} {'ratio':>7s} beta"]
    for glm in GLMS:
        proved = concavity(glm.private())
        found = glm.searched(np.random.default_rng(3))
        lines.append(
            f"{glm.name:28s} {proved.strength():7.4f} {proved.gradient():9.4f} {proved.mu():9.4f} "
            f"{found:9.4f} {proved.mu() / found:7.4f} {proved.predictors[0].smooth.max():.4f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
