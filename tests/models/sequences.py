"""Models of sequences: some factor rows read several records. With the exact range where known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.transform.conditioning import remove_value_transforms

from pymc_private import Categories, privatize, trim
from pymc_private.models.domains import project_onto_simplex

N = 6


@dataclass(frozen=True)
class Sequence:
    """One model of a sequence of N records.

    Parameters
    ----------
    name : str
    build : callable
        Adds the variables; takes the sequence, of shape (N,).
    states : int
        Number of states, or 0 for numbers in [-1, 1].
    box : dict
    readers : int
        Greatest number of factor rows that read one record.
    exact : float or None
        R by hand.
    ceiling : float
        Most that R may exceed the searched bound by, as a ratio.
    """

    name: str
    build: Callable[[np.ndarray], None]
    states: int
    box: Mapping[str, tuple]
    readers: int = 2
    exact: float | None = None
    ceiling: float = 1.06
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, n: int = N) -> np.ndarray:
        """A sequence of the domain; half of its numbers at the ends."""
        if self.states:
            return rng.integers(0, self.states, n)
        return np.where(rng.random(n) < 0.5, rng.choice([-1.0, 1.0], n), rng.uniform(-1, 1, n))

    def privatize(self, values: np.ndarray, **keywords: Any) -> Any:
        """The private model on a sequence, in its box."""
        with pm.Model(coords={"t": range(len(values))}) as model:
            self.build(values)
        domain = Categories(range(self.states)) if self.states else (-1, 1)
        keywords = dict(self.keywords) | keywords
        private = privatize(model, records="t", domain={"y": domain}, **keywords)
        return trim(private, box=self.box)


def data(y: np.ndarray) -> Any:
    return pm.Data("y", y, dims="t")


def transition_matrix(y: np.ndarray) -> None:
    y, p = data(y), pm.Dirichlet("p", np.ones((2, 2)))
    pm.Potential("chain", pt.log(p)[y[:-1], y[1:]].sum())


def transition_rows(y: np.ndarray) -> None:
    y, p = data(y), pm.Dirichlet("p", np.ones((2, 2)))
    pm.Categorical("chain", p=p[y[:-1]], observed=y[1:])


def started_chain(y: np.ndarray) -> None:
    y, p = data(y), pm.Beta("p", 1, 1, shape=2)
    pm.Bernoulli("start", 0.5, observed=y[:1])
    pm.Bernoulli("chain", p[y[:-1]], observed=y[1:])


def own_scale(y: np.ndarray) -> None:
    """A plain factor of each record beside the transitions."""
    y, p = data(y), pm.Beta("p", 1, 1, shape=2)
    pm.Bernoulli("own", pm.Beta("q", 1, 1), observed=y, dims="t")
    pm.Bernoulli("chain", p[y[:-1]], observed=y[1:])


def ar_one(y: np.ndarray) -> None:
    rho, s = pm.Normal("rho", 0, 0.3, shape=1), pm.HalfNormal("s", 1)
    pm.AR("y", rho, sigma=s, init_dist=pm.Normal.dist(0, 1, shape=1), observed=y, dims="t")


def ar_two(y: np.ndarray) -> None:
    rho = pm.Normal("rho", 0, 0.3, shape=2)
    pm.AR("y", rho, sigma=1.0, init_dist=pm.Normal.dist(0, 1, shape=2), observed=y, dims="t")


def random_walk(y: np.ndarray) -> None:
    start = pm.Normal.dist(0, 1)
    pm.GaussianRandomWalk("y", mu=pm.Normal("mu"), sigma=1.0, init_dist=start, observed=y, dims="t")


def walk_of_unknown_scale(y: np.ndarray) -> None:
    start, s = pm.Normal.dist(0, 1), pm.HalfNormal("s", 1)
    pm.GaussianRandomWalk("y", mu=0.0, sigma=s, init_dist=start, observed=y, dims="t")


def moving_window(y: np.ndarray) -> None:
    y, mu = data(y), pm.Normal("mu")
    pm.Potential("fit", -((y[2:] + y[1:-1] + y[:-2] - mu) ** 2) / 3)


def correlated_errors(y: np.ndarray) -> None:
    """A trend on a public time, with errors of order one."""
    time = pm.Data("time", np.linspace(0, 1, len(y)), dims="t")
    residual = data(y) - pm.Normal("slope") * time
    rho = pm.Normal("rho", 0, 0.3)
    pm.Potential(
        "fit", -0.5 * (((residual[1:] - rho * residual[:-1]) ** 2).sum() + residual[0] ** 2)
    )


def by_positions(y: np.ndarray) -> None:
    """The same slices as arrays of positions."""
    now, before = np.arange(1, len(y)), pt.arange(len(y) - 1)
    y = data(y)
    mean = pm.Normal("rho") * y[before]
    pm.Potential("fit", -0.5 * pt.sqr(y[now] - mean))


def padded_lag(y: np.ndarray) -> None:
    """The first row is given a number in place of a record before it."""
    y, rho = data(y), pm.Normal("rho")
    pm.Normal("step", rho * pt.concatenate([[0.0], y[:-1]]), 1.0, observed=y)


def padded_lags(y: np.ndarray) -> None:
    """Two orders, one with a parameter before the start and one put into zeros."""
    y, rho, start = data(y), pm.Normal("rho", shape=2), pm.Normal("start")
    twice = pt.set_subtensor(pt.zeros_like(y)[2:], y[:-2])
    mean = rho[0] * pt.concatenate([start[None], y[:-1]]) + rho[1] * twice
    pm.Potential("fit", -0.5 * ((y - mean) ** 2).mean())


def padded_chain(y: np.ndarray) -> None:
    """The state before the first has a row of its own."""
    y, p = data(y), pm.Beta("p", 1, 1, shape=3)
    pm.Bernoulli("chain", p[pt.concatenate([[2], y[:-1]])], observed=y)


def second_differences(y: np.ndarray) -> None:
    change = pt.diff(data(y))
    pm.Potential("fit", -0.5 * (change[1:] - change[:-1] - pm.Normal("mu")) ** 2)


def circle(y: np.ndarray) -> None:
    """The last record stands before the first."""
    y = data(y)
    pm.Potential("fit", -0.5 * (y - pm.Normal("rho") * pt.roll(y, 1)) ** 2)


FLIP = float(np.log(0.9 / 0.1))
CELLS = {"p": (0.1, 0.9)}

SEQUENCES = [
    Sequence("transition matrix", transition_matrix, 2, CELLS, exact=4 * FLIP),
    Sequence("transition rows", transition_rows, 2, CELLS, exact=4 * FLIP),
    Sequence("started chain", started_chain, 2, CELLS, exact=4 * FLIP),
    Sequence("own factor", own_scale, 2, CELLS | {"q": (0.1, 0.9)}, readers=3, exact=6 * FLIP),
    # x^2 (1 + rho^2) - 2 rho x (before + after), and 1/s^2: see the test of the formula.
    Sequence("AR(1)", ar_one, 0, {"rho": (-0.9, 0.9), "s": (0.5, 2)}),
    Sequence("AR(2)", ar_two, 0, {"rho": (-0.5, 0.5)}, readers=3, ceiling=1.3),
    Sequence("random walk", random_walk, 0, {"mu": (-1, 1)}, exact=4.0),
    Sequence("walk of unknown scale", walk_of_unknown_scale, 0, {"s": (0.5, 2)}),
    Sequence("moving window", moving_window, 0, {"mu": (-1, 1)}, readers=3, exact=8.0),
    Sequence("correlated errors", correlated_errors, 0, {"slope": (-1, 1), "rho": (-0.9, 0.9)},
             keywords={"public": ["time"]}, ceiling=1.1),
    # 2 (|y| + |y'|) |rho| on both sides of a record that is 1 or -1, and its neighbors.
    Sequence("padded lag", padded_lag, 0, {"rho": (-0.9, 0.9)}, exact=7.2),
    Sequence("padded lags", padded_lags, 0, {"rho": (-0.5, 0.5), "start": (-1, 1)}, readers=3,
             ceiling=1.1),
    Sequence("padded chain", padded_chain, 2, CELLS, exact=4 * FLIP),
    # An end is read by one row or its neighbor by two; inner ones add up to 1 - 2 + 1.
    Sequence("second differences", second_differences, 0, {"mu": (-0.9, 0.9)}, readers=3,
             exact=3.6),
    Sequence("circle", circle, 0, {"rho": (-0.9, 0.9)}, exact=7.2,
             keywords={"constants": "public"}),
    Sequence("by positions", by_positions, 0, {"rho": (-0.9, 0.9)}),
]  # fmt: skip
BY_NAME = {sequence.name: sequence for sequence in SEQUENCES}


def log_density(private: Any) -> Callable[[np.ndarray, dict], float]:
    """PyMC's own log density of the whole model, by sequence and parameters."""
    model = remove_value_transforms(private.base)
    names = [rv.name for rv in model.free_RVs]
    inputs = [model.rvs_to_values[model[name]] for name in names]
    function = pytensor.function(
        inputs, model.logp(), mode="FAST_COMPILE", on_unused_input="ignore"
    )
    (variable,) = [s.variable for s in private.sources]
    held = model[variable.name] if variable.name in model.named_vars else None

    def value(y: np.ndarray, point: dict) -> float:
        shared = held if hasattr(held, "set_value") else variable
        shared.set_value(np.asarray(y, dtype=variable.type.dtype))
        return float(function(*(point[name] for name in names)))

    return value


def random_point(private: Any, rng: np.random.Generator) -> dict:
    """Parameters of the box, often at its ends."""
    point = {}
    for name, box in private.box.items():
        share = rng.integers(0, 2, np.shape(box.lower)) if rng.random() < 0.75 else rng.random()
        value = box.lower + share * (box.upper - box.lower)
        point[name] = (
            value if box.within is None else project_onto_simplex(value, box.lower, box.upper)
        )
    return point
