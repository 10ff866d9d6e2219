"""Audit of every mechanism: a lower bound on epsilon beside what is claimed.

Run ``python benchmarks/attacks.py [draws]``; 4,000 draws on either side take some minutes. No lower
bound may exceed its claim. How near it comes depends on the data as well: a claim covers all data
sets, so a search tries some, and on draws: few cannot prove much.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private import audit
from pymc_private.privacy import Guarantee

FAILURE = 1e-3
PILOT = 300
Draw = Callable[[Any, int, int], np.ndarray]


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
    """

    private: Callable[[dict[str, np.ndarray]], pmp.PrivateModel]
    parameter: str
    score: Callable[[np.ndarray], np.ndarray]
    records: Any = None
    n: int = 2
    draws: int = 1
    delta: float = 0.0
    sampler: str = "auto"

    def mechanism(self, data: dict[str, np.ndarray], draws: int, seed: int) -> np.ndarray:
        """Releases of `self.draws` draws each, by the sampler of every release."""
        options = {} if self.sampler == "auto" else {"sampler": self.sampler}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = pmp.sample(
                self.private(data),
                draws=draws * self.draws,
                random_seed=seed,
                progressbar=False,
                **options,
            )
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
    "coin, ten draws": Posterior(coins, "p", logit, draws=10, delta=0.01),
    "coin, power .25": Posterior(lambda d: pmp.temper(coins(d), 0.25), "p", logit),
    "coin, clipped at -1": Posterior(
        lambda d: pmp.clip(coins(d), lower=-1), "p", logit, records=(ONE, ZERO)
    ),
    "exponential rate": Posterior(rates, "rate", total),
    "normal mean": Posterior(means, "mu", total),
    "logistic slope": Posterior(slopes, "slope", total, records=(UP, DOWN)),
}


def dirichlet(counts: list[int], draws: int, seed: int) -> np.ndarray:
    """Draws of one posterior: r = 1, alpha = 2; the budget of all of them is large."""
    release = pmp.dirichlet(
        counts, prior=2.0, epsilon=1e5, delta=0.01, method="exact", draws=draws, random_seed=seed
    )
    return release.posterior["p"].values[0][:, 0]


def mollified(kind: str) -> Draw:
    def draw(law: list[float], draws: int, seed: int) -> np.ndarray:
        made = pmp.mollify(law, [0.5, 0.5], 1.0, kind=kind)
        return made.sample(draws, random_seed=seed, progressbar=False).posterior["x"].values[0]

    return draw


# Name: mechanism, two inputs, claim, delta. Parts of the package that this version may lack.
OTHERS: dict[str, tuple[Draw, Any, Any, Guarantee, float]] = {
    "dirichlet": (dirichlet, [1, 0], [0, 1], Guarantee.dirichlet_of(1.0, 2.0), 0.01),
    "mollify, clip": (
        mollified("clip"),
        [0.95, 0.05],
        [0.05, 0.95],
        Guarantee.mollifier_of(1.0),
        0.0,
    ),
    "mollify, tilt": (mollified("tilt"), [0.95, 0.05], [0.05, 0.95], Guarantee.pure(1.0), 0.0),
}


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


def main(draws: int) -> None:
    print(f"{'mechanism':30}{'delta':>7}{'claimed':>10}{'proved least':>13}")
    with ProcessPoolExecutor(2) as pool:
        for name, case in POSTERIORS.items():
            if case.sampler != "auto" and not hasattr(pmp, case.sampler.capitalize()):
                continue
            probe = {k: np.stack([v] * case.n) for k, v in (case.records or (ONE, ZERO))[0].items()}
            certificate = pmp.certify(case.private(probe), progressbar=False)
            found = audit.worst_neighbors(
                case.mechanism, case.records or certificate, case.n, delta=case.delta,
                draws=PILOT, executor=pool,
            )  # fmt: skip
            x, y = (
                audit.outputs(case.mechanism, data, draws, executor=pool, random_seed=seed)
                for seed, data in ((11, found.x), (12, found.y))
            )
            bound = audit.epsilon_lower_bound(
                x, y, delta=case.delta, score=case.score, false_alarm=FAILURE
            )
            claim = certificate.guarantee(case.draws).epsilon(case.delta)
            line(name, claim, bound, case.delta, f"the others are {found.pattern}")
    for name, (mechanism, one, other, guarantee, delta) in OTHERS.items():
        if not hasattr(pmp, name.split(",")[0]):
            continue
        x, y = (
            audit.outputs(mechanism, d, draws, random_seed=k) for k, d in ((1, one), (2, other))
        )
        bound = audit.epsilon_lower_bound(x, y, delta=delta, false_alarm=FAILURE)
        line(name, guarantee.epsilon(delta), bound, delta)
    rng = np.random.default_rng(1)
    for name, (law, guarantee, delta) in LAWS.items():
        bound = audit.epsilon_lower_bound(*law(rng, 25 * draws), delta=delta, false_alarm=FAILURE)
        line(name, guarantee.epsilon(delta), bound, delta)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
