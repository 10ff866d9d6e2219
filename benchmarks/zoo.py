"""Ordinary PyMC models with a domain and a box, to be certified and searched for escapes.

``python -m benchmarks.zoo`` prints the table (model, R, searched bound, ratio, milliseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm

from pymc_private import Ball, Interval, certify, privatize, trim

N = 37  # equals no other length of the models
Data = dict[str, np.ndarray]


@dataclass(frozen=True)
class Entry:
    """One model.

    Parameters
    ----------
    name : str
    build : callable
        Adds the variables to the model of the context; takes the data.
    data : callable
        Random records of the domain: (rng, n) -> arrays by name.
    domain, box : dict
    exact : float or None
        R by the formula of T5, or by hand.
    within : float
        Most that R may exceed it by, as a ratio.
    ceiling : float
        Most that R may exceed the searched bound by, as a ratio. Stacks rewrite graphs differently,
        so this is the worse of the two.
    keywords : dict
        Passed to `privatize`.
    """

    name: str
    build: Callable[[Data], None]
    data: Callable[[np.random.Generator, int], Data]
    domain: Mapping[str, Any]
    box: Mapping[str, tuple]
    exact: float | None = None
    within: float = 1.05
    ceiling: float = 1.1
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def model(self, data: Data) -> pm.Model:
        """The model on these records."""
        with pm.Model(coords={"person": range(len(next(iter(data.values()))))}) as model:
            self.build(data)
        return model

    def privatize(self, data: Data) -> Any:
        """The private model on these records, in its box."""
        keywords = {"records": "person"} | dict(self.keywords)
        private = privatize(self.model(data), domain=self.domain, **keywords)
        return trim(private, box=self.box) if self.box else private


def numbers(low: float, high: float, *shape: int) -> Callable:
    """Records' entries uniform in [low, high], the ends among them."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        drawn = rng.uniform(low, high, (n, *shape))
        drawn[0], drawn[1] = low, high
        return drawn

    return draw


def counts(low: int, high: int, *shape: int) -> Callable:
    """Whole numbers from low to high, the ends among them."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        drawn = rng.integers(low, high + 1, (n, *shape))
        drawn[0], drawn[1] = low, high
        return drawn

    return draw


def ball(width: int, radius: float = 1.0) -> Callable:
    """Rows in a ball, half of them on the sphere."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        rows = rng.normal(size=(n, width))
        rows *= radius / np.linalg.norm(rows, axis=1, keepdims=True) * (1 - 1e-12)
        rows[::2] *= rng.random((len(rows[::2]), 1))
        return rows

    return draw


def records(**entries: Callable) -> Callable:
    """Arrays by name."""
    return lambda rng, n: {name: draw(rng, n) for name, draw in entries.items()}


ZOO: list[Entry] = []


def entry(data: Callable, domain: Mapping, box: Mapping, **rest: Any) -> Callable:
    """Add the model that the decorated function builds."""

    def add(build: Callable[[Data], None]) -> Callable[[Data], None]:
        name = build.__name__.replace("_", " ")
        ZOO.append(Entry(name, build, data, domain, box, **rest))
        return build

    return add


ROOT3 = 3**0.5


@entry(records(X=ball(3), y=counts(0, 1)), {"X": Ball(1.0)}, {"b": (-2, 2)}, exact=4 * ROOT3)
def logistic(d: Data) -> None:
    x = pm.Data("X", d["X"])
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Bernoulli("y", logit_p=x @ b, observed=d["y"], dims="person")


REACH = 2 * ROOT3  # of the slopes; |y| up to B rho makes the formula of T5 exact


@entry(
    records(X=ball(3), y=numbers(-REACH, REACH)),
    {"X": Ball(1.0), "y": (-REACH, REACH)},
    {"b": (-2, 2)},
    exact=4 * REACH**2,
)
def linear_of_known_scale(d: Data) -> None:
    x = pm.Data("X", d["X"])
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Normal("y", x @ b, 1.0, observed=d["y"], dims="person")


@entry(
    records(X=ball(3), y=numbers(-2, 2)),
    {"X": Ball(1.0), "y": (-2, 2)},
    {"b": (-2, 2), "s": (0.5, 2)},
)
def linear(d: Data) -> None:
    x = pm.Data("X", d["X"])
    b, s = pm.Normal("b", 0, 1, shape=3), pm.HalfNormal("s", 1)
    pm.Normal("y", x @ b, s, observed=d["y"], dims="person")


@entry(records(y=counts(0, 10)), {"y": (0, 10)}, {"rate": (0.5, 5)}, exact=10 * np.log(10))
def poisson(d: Data) -> None:
    pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=d["y"], dims="person")


@entry(records(y=numbers(0, 5)), {"y": (0, 5)}, {"rate": (0.5, 3)}, exact=2.5 * 5)
def exponential(d: Data) -> None:
    pm.Exponential("y", pm.Gamma("rate", 2, 1), observed=d["y"], dims="person")


@entry(records(y=counts(0, 1)), {}, {"p": (0.1, 0.9)}, exact=2 * np.log(9))
def bernoulli(d: Data) -> None:
    pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=d["y"], dims="person")


@entry(records(y=counts(0, 10)), {}, {"p": (0.1, 0.9)}, exact=20 * np.log(9))
def binomial(d: Data) -> None:
    pm.Binomial("y", 10, pm.Beta("p", 2, 2), observed=d["y"], dims="person")


@entry(records(y=counts(1, 6)), {"y": (1, 6)}, {"p": (0.2, 0.8)}, exact=5 * np.log(4))
def geometric(d: Data) -> None:
    pm.Geometric("y", pm.Beta("p", 2, 2), observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1)}, exact=8.0)
def normal_mean(d: Data) -> None:
    pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"tau": (0.5, 3)}, exact=2.5 * 4 / 2)
def normal_precision(d: Data) -> None:
    pm.Normal("y", 0.0, tau=pm.Gamma("tau", 2, 1), observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"rate": (0.5, 3)}, exact=2.5 * 2)
def laplace_of_known_center(d: Data) -> None:
    pm.Laplace("y", 0.0, 1 / pm.Gamma("rate", 2, 1), observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1), "s": (0.5, 2)})
def normal(d: Data) -> None:
    mu, s = pm.Normal("mu", 0, 1), pm.HalfNormal("s", 1)
    pm.Normal("y", mu, s, observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1)}, ceiling=1.3)
def student_t(d: Data) -> None:
    pm.StudentT("y", nu=4, mu=pm.Normal("mu", 0, 1), sigma=1, observed=d["y"], dims="person")


@entry(
    records(x=numbers(-1, 1), y=counts(0, 6)),
    {"x": (-1, 1), "y": (0, 6)},
    {"a": (-1, 1), "b": (-1, 1)},
    ceiling=1.7,
)
def poisson_regression(d: Data) -> None:
    x = pm.Data("x", d["x"], dims="person")
    a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
    pm.Poisson("y", pm.math.exp(a + b * x), observed=d["y"], dims="person")


@entry(records(y=counts(0, 6)), {"y": (0, 6)}, {"mean": (1, 4), "alpha": (1, 4)}, ceiling=1.6)
def negative_binomial(d: Data) -> None:
    mean, alpha = pm.Gamma("mean", 2, 1), pm.Gamma("alpha", 2, 1)
    pm.NegativeBinomial("y", mu=mean, alpha=alpha, observed=d["y"], dims="person")


@entry(records(y=counts(0, 2)), {}, {"p": (0.1, 0.8)}, exact=2 * np.log(8))
def categorical(d: Data) -> None:
    pm.Categorical("y", pm.Dirichlet("p", np.ones(3)), observed=d["y"], dims="person")


@entry(records(X=ball(3), y=counts(0, 3)), {"X": Ball(1.0)}, {"b": (-1, 1)}, ceiling=1.4)
def softmax(d: Data) -> None:
    x = pm.Data("X", d["X"])
    b = pm.Normal("b", 0, 1, shape=(3, 4))
    pm.Categorical("y", logit_p=x @ b, observed=d["y"], dims="person")


@entry(
    records(g=counts(0, 4), y=numbers(-2, 2)),
    {"g": range(5), "y": (-2, 2)},
    {"a": (-1, 1), "s": (0.5, 2)},
)
def hierarchical(d: Data) -> None:
    group = pm.Data("g", d["g"], dims="person")
    mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
    a, s = pm.Normal("a", mu, tau, shape=5), pm.HalfNormal("s", 1)
    pm.Normal("y", a[group], s, observed=d["y"], dims="person")


@entry(records(y=numbers(0.5, 3)), {"y": (0.5, 3)}, {"a": (1, 3), "b": (1, 3)}, ceiling=1.6)
def gamma(d: Data) -> None:
    a, b = pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1)
    pm.Gamma("y", a, b, observed=d["y"], dims="person")


@entry(records(y=numbers(0.2, 0.8)), {"y": (0.2, 0.8)}, {"a": (1, 3), "b": (1, 3)}, ceiling=1.6)
def beta(d: Data) -> None:
    a, b = pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1)
    pm.Beta("y", a, b, observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"w": (0.2, 0.8), "mu": (-1, 1)}, ceiling=3.0)
def mixture(d: Data) -> None:
    w, mu = pm.Beta("w", 2, 2), pm.Normal("mu", 0, 1, shape=2)
    parts = [pm.Normal.dist(mu[0], 1), pm.Normal.dist(mu[1], 1)]
    pm.Mixture("y", pm.math.stack([w, 1 - w]), parts, observed=d["y"], dims="person")


@entry(records(y=counts(0, 6)), {"y": (0, 6)}, {"rate": (1, 4), "p": (0.2, 0.8)}, ceiling=1.5)
def zero_inflated_poisson(d: Data) -> None:
    rate, p = pm.Gamma("rate", 2, 1), pm.Beta("p", 2, 2)
    pm.ZeroInflatedPoisson("y", p, rate, observed=d["y"], dims="person")


@entry(records(y=numbers(0.5, 3)), {"y": (0.5, 3)}, {"a": (1, 2), "b": (1, 2)}, ceiling=1.6)
def weibull(d: Data) -> None:
    a, b = pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1)
    pm.Weibull("y", a, b, observed=d["y"], dims="person")


@entry(records(y=numbers(0.5, 4)), {"y": (0.5, 4)}, {"mu": (-1, 1)}, ceiling=1.2)
def log_normal(d: Data) -> None:
    pm.LogNormal("y", pm.Normal("mu", 0, 1), 1.0, observed=d["y"], dims="person")


@entry(
    records(y=numbers(-2, 2, 2)),
    {"y": (-2, 2)},
    {"mu": (-1, 1)},
    ceiling=1.6,
    keywords={"records": {"y": 0}},
)
def multivariate_normal(d: Data) -> None:
    mu = pm.Normal("mu", 0, 1, shape=2)
    pm.MvNormal("y", mu, cov=np.array([[1.0, 0.5], [0.5, 1.0]]), observed=d["y"])


@entry(records(y=numbers(-2, 1)), {"y": (-2, 1)}, {"mu": (-1, 1)})
def censored(d: Data) -> None:
    latent = pm.Normal.dist(pm.Normal("mu", 0, 1), 1)
    pm.Censored("y", latent, lower=None, upper=1.0, observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1), "b": (0.5, 2)}, ceiling=1.3)
def laplace(d: Data) -> None:
    mu, b = pm.Normal("mu", 0, 1), pm.HalfNormal("b", 1)
    pm.Laplace("y", mu, b, observed=d["y"], dims="person")


@entry(records(X=ball(3), y=counts(0, 1)), {"X": Ball(1.0)}, {"b": (-2, 2)})
def probit(d: Data) -> None:
    x, b = pm.Data("X", d["X"]), pm.Normal("b", 0, 1, shape=3)
    pm.Bernoulli("y", p=pm.math.invprobit(x @ b), observed=d["y"], dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1)}, exact=8.0)
def potential_only(d: Data) -> None:
    y, mu = pm.Data("y", d["y"], dims="person"), pm.Normal("mu", 0, 1)
    pm.Potential("loss", -0.5 * (y - mu) ** 2)


@entry(
    records(y=numbers(-2, 2), z=counts(0, 1)),
    {"y": (-2, 2)},
    {"mu": (-1, 1), "p": (0.1, 0.9)},
    exact=8.0 + 2 * np.log(9),
)
def two_outcomes(d: Data) -> None:
    pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=d["y"], dims="person")
    pm.Bernoulli("z", pm.Beta("p", 2, 2), observed=d["z"], dims="person")


@entry(
    records(y=numbers(-2, 2)),
    {"y": (-2, 2)},
    {"mu": (-1, 1)},
    exact=8.0,
    keywords={"constants": "public"},
)
def public_offset(d: Data) -> None:
    mu = pm.Normal("mu", 0, 1)
    pm.Normal("y", mu + np.linspace(0, 1, len(d["y"])), 1.0, observed=d["y"], dims="person")


@entry(
    records(y=numbers(-2, 2), offset=numbers(0, 1)),
    {"y": (-2, 2), "constant_0": (0, 1)},
    {"mu": (-1, 1)},
    exact=10.0,
    within=1.2,
    ceiling=1.2,
)
def private_offset(d: Data) -> None:
    mu = pm.Normal("mu", 0, 1)
    pm.Normal("y", mu + d["offset"], 1.0, observed=d["y"], dims="person")


@entry(records(y=counts(0, 6)), {"k": (0, 6)}, {"rate": (0.5, 5)}, exact=6 * np.log(10))
def observed_data_variable(d: Data) -> None:
    k = pm.Data("k", d["y"], dims="person")
    pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=k, dims="person")


@entry(records(y=numbers(-2, 2)), {"y": (-2, 2)}, {"mu": (-1, 1)}, exact=8.0)
def initial_values(d: Data) -> None:
    mu, nuisance = pm.Normal("mu", 0, 1, initval=0.3), pm.HalfNormal("nuisance", 1, initval=2.0)
    pm.Potential("penalty", -nuisance)
    pm.Normal("y", mu, 1.0, observed=d["y"], dims="person")


@entry(
    lambda rng, n: {"y": numbers(-2, 2, 3)(rng, n).T.copy()},
    {"y": (-2, 2)},
    {"mu": (-1, 1)},
    exact=24.0,
    within=1.15,
    ceiling=1.15,
    keywords={"records": {"y": 1}},
)
def records_along_the_second_axis(d: Data) -> None:
    pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=d["y"])


@entry(
    records(x=numbers(-1, 1), y=numbers(-2, 2)),
    {"y": (-2, 2)},
    {"b": (-1, 1)},
    exact=8.0,
    keywords={"public": ["x"]},
)
def public_predictor(d: Data) -> None:
    x = pm.Data("x", d["x"], dims="person")
    pm.Normal("y", pm.Normal("b", 0, 1) * x, 1.0, observed=d["y"], dims="person")


@entry(
    records(y=lambda rng, n: rng.dirichlet([2, 2, 2], n) * 0.7 + 0.1),
    {"y": Interval(0.1, 0.8)},
    {"a": (1, 3)},
    ceiling=3.0,
    keywords={"records": {"y": 0}},
)
def dirichlet_rows(d: Data) -> None:
    pm.Dirichlet("y", pm.Gamma("a", 2, 1, shape=3), observed=d["y"])


BY_NAME = {entry.name: entry for entry in ZOO}


def table() -> str:
    """Certify every model and print one line each."""
    lines = [f"{'model':32s} {'R':>10s} {'searched':>10s} {'ratio':>7s} {'exact':>10s} {'ms':>7s}"]
    for one in ZOO:
        try:
            private = one.privatize(one.data(np.random.default_rng(1), N))
            c = certify(private)
        except Exception as error:
            lines.append(f"{one.name:32s} {type(error).__name__} {error}")
            continue
        exact = "" if one.exact is None else f"{one.exact:.5g}"
        lines.append(
            f"{one.name:32s} {c.range:10.5g} {c.searched:10.5g} {c.tightness:7.3f} {exact:>10s}"
            f" {c.milliseconds:7.0f}{'  n rows' if private.graph.rows_differ else ''}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
