"""Models that are hard to certify without a clip, with their log-likelihood written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from scipy import stats

from pymc_private import privatize

N = 7


class Dark(ps.ScalarOp):
    """A score that no interval rule knows and that is no number far below zero."""

    nin = 1

    def impl(self, x: Any) -> Any:
        return -(abs(x) ** 1.5) if x > -3.0 else np.nan


class DarkCore(Op):
    """A score of two numbers, for Blockwise: of its output not even the shape is known."""

    __props__ = ()

    def make_node(self, x: Any, center: Any) -> Apply:
        return Apply(self, [pt.as_tensor(x), pt.as_tensor(center)], [pt.dscalar()])

    def perform(self, node: Apply, inputs: list, outputs: list) -> None:
        outputs[0][0] = np.asarray(-np.sqrt(1.0 + (inputs[0] - inputs[1]) ** 2))


dark = Elemwise(Dark(ps.upgrade_to_float, name="dark"))
dark_core = Blockwise(DarkCore(), signature="(),()->()")


@dataclass(frozen=True)
class Score:
    """A model, untrimmed, and log p(record | point) by hand.

    Parameters
    ----------
    name : str
    build : callable
        Adds the variables to the model of the context; takes the data.
    data : callable
        Random records: (rng, n) -> arrays by name.
    domain : dict
    point : callable
        Random parameters, far out as well: rng -> numbers by name.
    terms : callable
        Log-likelihood by hand, one array for each factor: (point, data) -> list.
    ends : (float, float)
        Of a clip that cuts on both sides.
    """

    name: str
    build: Callable[[dict], None]
    data: Callable[[np.random.Generator, int], dict]
    domain: dict
    point: Callable[[np.random.Generator], dict]
    terms: Callable[[dict, dict], list]
    ends: tuple[float, float] = (-4.0, -0.5)

    def privatize(self, n: int = N, seed: int = 1) -> Any:
        data = self.data(np.random.default_rng(seed), n)
        with pm.Model(coords={"i": range(n)}) as model:
            self.build(data)
        return privatize(model, records="i", domain=self.domain)

    @property
    def private(self) -> Any:
        """The model on its usual records, made once a run: leave the data as they are."""
        return _private_of(self.name)

    def clipped(self, point: dict, data: dict, ends: tuple[float, float]) -> np.ndarray:
        """clip(log p, a, b) by hand: NaN and -inf are a."""
        with np.errstate(all="ignore"):
            total = np.sum(np.broadcast_arrays(*self.terms(point, data)), axis=0)
        return np.clip(np.where(np.isnan(total), -np.inf, total), *ends)


def reals(low: float = -6.0, high: float = 6.0) -> Callable:
    return lambda rng, n: {"y": rng.uniform(low, high, n)}


def location(rng: np.random.Generator) -> dict:
    return {"mu": rng.normal() * 10.0 ** rng.uniform(-1, 1.5)}


def location_scale(rng: np.random.Generator) -> dict:
    return location(rng) | {"s": 10.0 ** rng.uniform(-3, 2)}


def student(d: dict) -> None:
    mu, s = pm.Normal("mu", 0, 5), pm.HalfNormal("s", 3)
    pm.StudentT("y", nu=3, mu=mu, sigma=s, observed=d["y"], dims="i")


def poisson(d: dict) -> None:
    pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=d["y"], dims="i")


def mixture(d: dict) -> None:
    w, mu = pm.Beta("w", 2, 2), pm.Normal("mu", 0, 5)
    parts = [pm.Normal.dist(mu, 1.0), pm.Normal.dist(0.0, 3.0)]
    pm.Mixture("y", pm.math.stack([w, 1 - w]), parts, observed=d["y"], dims="i")


def two_outcomes(d: dict) -> None:
    pm.Normal("y", pm.Normal("mu", 0, 5), 1.0, observed=d["y"], dims="i")
    pm.Bernoulli("z", pm.Beta("p", 1, 1), observed=d["z"], dims="i")


def identity_link(d: dict) -> None:
    """A rate that is negative for some records: PyMC's condition, stated for all of them."""
    x = pm.Data("x", d["x"], dims="i")
    pm.Poisson("y", pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x, observed=d["y"], dims="i")


def uniform(d: dict) -> None:
    pm.Uniform("y", 0.0, pm.HalfNormal("top", 5), observed=d["y"], dims="i")


def elementwise_dark(d: dict) -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.CustomDist("y", mu, logp=lambda y, mu: dark(y - mu), observed=d["y"], dims="i")


def blockwise_dark(d: dict) -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.CustomDist("y", mu, logp=lambda y, mu: dark_core(y, mu), observed=d["y"], dims="i")


def potential(d: dict) -> None:
    y, mu = pm.Data("y", d["y"], dims="i"), pm.Normal("mu", 0, 5)
    pm.Potential("loss", -abs(y - mu), dims="i")


def _mixture_terms(t: dict, d: dict) -> list:
    parts = (
        np.log(t["w"]) + stats.norm.logpdf(d["y"], t["mu"], 1),
        np.log1p(-t["w"]) + stats.norm.logpdf(d["y"], 0, 3),
    )
    return [np.logaddexp(*parts)]


def _regression(rng: np.random.Generator, n: int) -> dict:
    return {"x": rng.uniform(-1, 1, n), "y": rng.integers(0, 7, n)}


def _uniform_terms(t: dict, d: dict) -> list:
    return [np.where((d["y"] >= 0) & (d["y"] <= t["top"]), -np.log(t["top"]), -np.inf)]


SCORES = [
    Score("student", student, reals(), {"y": (-6, 6)}, location_scale,
          lambda t, d: [stats.t.logpdf(d["y"], 3, t["mu"], t["s"])]),
    Score("poisson", poisson, lambda rng, n: {"y": rng.integers(0, 30, n)}, {"y": (0, 50)},
          lambda rng: {"rate": 10.0 ** rng.uniform(-4, 3)},
          lambda t, d: [stats.poisson.logpmf(d["y"], t["rate"])]),
    Score("mixture", mixture, reals(), {"y": (-6, 6)},
          lambda rng: location(rng) | {"w": rng.random()}, _mixture_terms),
    Score("two outcomes", two_outcomes,
          lambda rng, n: {"y": rng.uniform(-6, 6, n), "z": rng.integers(0, 2, n)},
          {"y": (-6, 6)}, lambda rng: location(rng) | {"p": rng.beta(0.1, 0.1)},
          lambda t, d: [stats.norm.logpdf(d["y"], t["mu"]), stats.bernoulli.logpmf(d["z"], t["p"])],
          (-3.0, -1.0)),
    Score("identity link", identity_link, _regression, {"x": (-1, 1), "y": (0, 9)},
          lambda rng: {"a": rng.normal() * 2, "b": rng.normal() * 3},
          lambda t, d: [stats.poisson.logpmf(d["y"], t["a"] + t["b"] * d["x"])]),
    Score("uniform", uniform, reals(0, 6), {"y": (0, 6)},
          lambda rng: {"top": 10.0 ** rng.uniform(-1, 2)}, _uniform_terms),
    Score("elementwise dark", elementwise_dark, reals(), {"y": (-6, 6)}, location,
          lambda t, d: [np.where(d["y"] - t["mu"] > -3, -abs(d["y"] - t["mu"]) ** 1.5, np.nan)]),
    Score("blockwise dark", blockwise_dark, reals(), {"y": (-6, 6)}, location,
          lambda t, d: [-np.sqrt(1 + (d["y"] - t["mu"]) ** 2)]),
    Score("potential", potential, reals(), {"y": (-6, 6)}, location,
          lambda t, d: [-abs(d["y"] - t["mu"])]),
]  # fmt: skip
BY_NAME = {score.name: score for score in SCORES}


@cache
def _private_of(name: str) -> Any:
    return BY_NAME[name].privatize()
