"""Posterior sampling of models that an audit attacks, with the log likelihood ratios it may use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.privacy import Guarantee

Draw = Callable[[Any, int, int], np.ndarray]


def quietly(make: Callable[..., Any], *given: Any, **words: Any) -> Any:
    """Call without warnings: thousands of releases would each miss their ledger."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given, **words)


@dataclass(frozen=True)
class Posterior:
    """Posterior sampling of one model.

    Parameters
    ----------
    private : callable
        From data, a dict of arrays, to a private model.
    parameter : str
    score : callable
        Log likelihood ratio of the two records, from draws, shape (n, N).
    records : tuple, optional
        The pair, where the certificate names none.
    n, draws : int
        Records, and draws of one release.
    delta : float
        At which the claim is read.
    sampler : str
        Left to the package where "auto".
    share : float
        Of the outputs of a quick mechanism.
    """

    private: Callable[[dict[str, np.ndarray]], pmp.PrivateModel]
    parameter: str
    score: Callable[[np.ndarray], np.ndarray]
    records: Any = None
    n: int = 2
    draws: int = 1
    delta: float = 0.0
    sampler: str = "auto"
    share: float = 60.0

    def claim(self, records: dict[str, np.ndarray], power: float = 1.0) -> Guarantee:
        """What a release of such records promises, at a power of their likelihood."""
        private = self.private({k: np.stack([v] * self.n) for k, v in records.items()})
        release = quietly(
            pmp.sample, private if power == 1.0 else pmp.temper(private, power),
            draws=self.draws, progressbar=False, **self.options,
        )  # fmt: skip
        return release.guarantee

    @property
    def options(self) -> dict[str, Any]:
        """What `sample` is told."""
        named = {} if self.sampler == "auto" else {"sampler": self.sampler}
        return named | ({"delta": 1e-6} if self.sampler == "proximal" else {})

    def mechanism(self, data: dict[str, np.ndarray], draws: int, seed: int) -> np.ndarray:
        """Releases of `self.draws` draws each, by the sampler of every release."""
        release = quietly(
            pmp.sample, self.private(data), draws=draws * self.draws, random_seed=seed,
            progressbar=False, **self.options,
        )  # fmt: skip
        return release.posterior[self.parameter].values[0].reshape(draws, -1)


def coins(data: dict[str, np.ndarray]) -> pmp.PrivateModel:
    with pm.Model(coords={"row": range(len(data["y"]))}) as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p=p, observed=data["y"].astype(int), dims="row")
    return pmp.trim(pmp.privatize(model, records="row"), box={"p": (0.1, 0.9)})


def rates(data: dict[str, np.ndarray]) -> pmp.PrivateModel:
    with pm.Model(coords={"row": range(len(data["y"]))}) as model:
        rate = pm.Exponential("rate", 1.0)
        pm.Exponential("y", rate, observed=data["y"], dims="row")
    private = pmp.privatize(model, records="row", domain={"y": (0.0, 1.0)})
    return pmp.trim(private, box={"rate": (0.5, 3.0)})


def means(data: dict[str, np.ndarray]) -> pmp.PrivateModel:
    with pm.Model(coords={"row": range(len(data["y"]))}) as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1.0, observed=data["y"], dims="row")
    private = pmp.privatize(model, records="row", domain={"y": (-1.0, 1.0)})
    return pmp.trim(private, box={"mu": (-1.0, 1.0)})


def slopes(data: dict[str, np.ndarray]) -> pmp.PrivateModel:
    with pm.Model(coords={"row": range(len(data["y"]))}) as model:
        X = pm.Data("X", data["X"], dims="row")
        slope = pm.Normal("slope", 0, 1)
        pm.Bernoulli("y", logit_p=slope * X, observed=data["y"].astype(int), dims="row")
    private = pmp.privatize(model, records="row", domain={"X": (-1.0, 1.0)})
    return pmp.trim(private, box={"slope": (-2.0, 2.0)})


def logit(p: np.ndarray) -> np.ndarray:
    return np.sum(np.log(p) - np.log1p(-p), axis=1)


def total(p: np.ndarray) -> np.ndarray:
    return p.sum(axis=1)


ONE, ZERO = {"y": np.array(1.0)}, {"y": np.array(0.0)}
UP, DOWN = {"y": np.array(1.0), "X": np.array(1.0)}, {"y": np.array(0.0), "X": np.array(1.0)}
POSTERIORS = {
    "coin": Posterior(coins, "p", logit),
    "coin, by boxes": Posterior(coins, "p", logit, sampler="boxes"),
    "coin, on a grid": Posterior(coins, "p", logit, sampler="grid"),
    "coin, six rows": Posterior(coins, "p", logit, n=6),
    "coin, ten draws": Posterior(coins, "p", logit, draws=10, delta=0.01, share=10.0),
    "coin, power .25": Posterior(lambda d: pmp.temper(coins(d), 0.25), "p", logit),
    "coin, clipped at -1": Posterior(
        lambda d: pmp.clip(coins(d), lower=-1), "p", logit, records=(ONE, ZERO)
    ),
    "exponential rate": Posterior(rates, "rate", total),
    "normal mean": Posterior(means, "mu", total),
    "logistic slope": Posterior(slopes, "slope", total, records=(UP, DOWN)),
    "logistic slope, proximal": Posterior(
        slopes, "slope", total, records=(UP, DOWN), delta=0.01, sampler="proximal"
    ),
}
