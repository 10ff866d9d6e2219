"""Mechanisms of the package, inputs they may have to tell apart, and what they promise of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from sklearn.linear_model import LogisticRegression

import pymc_private as pmp
from benchmarks.attacked_posteriors import Draw, coins, logit, quietly
from pymc_private.estimators import DirichletBayesianNetwork, DirichletNaiveBayes
from pymc_private.privacy import Guarantee


def dirichlet(counts: list[int], draws: int, seed: int) -> np.ndarray:
    """Draws of one posterior: r = 1, alpha = 2; the budget of all of them is large."""
    release = pmp.dirichlet(
        counts, prior=2.0, epsilon=1e5, delta=0.01, method="exact", draws=draws, random_seed=seed
    )
    return release.posterior["p"].values[0][:, 0]


def mollified(kind: str, epsilon: float = 1.0) -> Draw:
    def draw(law: list[float], draws: int, seed: int) -> np.ndarray:
        made = pmp.mollify(law, [0.5, 0.5], epsilon, kind=kind)
        return made.sample(draws, random_seed=seed, progressbar=False).posterior["x"].values[0]

    return draw


def added(ys: list[int], draws: int, seed: int) -> np.ndarray:
    """Draws where the number of tosses is protected."""
    return (
        quietly(pmp.sample, protected_coins(ys), draws=draws, random_seed=seed, progressbar=False)
        .posterior["p"]
        .values[0]
    )


def protected_coins(ys: list[int], power: float = 1.0) -> pmp.PrivateModel:
    with pm.Model(coords={"row": range(len(ys))}) as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p=p, observed=np.array(ys), dims="row")
    private = pmp.privatize(model, records="row", neighbors="add_remove")
    return pmp.temper(pmp.trim(private, box={"p": (0.1, 0.9)}), power)


def added_claim(power: float = 1.0) -> Guarantee:
    """Of one draw."""
    return pmp.certify(protected_coins([0, 1, 1], power), progressbar=False).guarantee(1)


def chains(
    ys: list[int], draws: int, seed: int | None, power: float = 1.0, delta: float = 0.01
) -> pmp.Release:
    """Last states of fresh runs of NUTS, a total variation of 0.0001 stated."""
    return quietly(
        pmp.sample, pmp.temper(coins({"y": np.array(ys)}), power), draws=draws, delta=delta,
        random_seed=seed, sampler=pmp.samplers.Nuts(tv=1e-4, tune=60), progressbar=False,
    )  # fmt: skip


def states(ys: list[int], draws: int, seed: int) -> np.ndarray:
    return chains(ys, draws, seed).posterior["p"].values.reshape(draws, -1)


def boosted(stretch: bool, epsilon: float = 1.0) -> Draw:
    """Draws of a law that boosting learned from rows around a center."""

    def draw(center: float, draws: int, seed: int) -> np.ndarray:
        rows = np.random.default_rng(0).normal(center, 0.5, (400, 1))
        model = pmp.MollifiedBoosting(
            epsilon,
            learner=LogisticRegression(),
            stretch=stretch,
            random_state=0,
            progressbar=False,
        )
        return model.fit(rows).sample(draws, random_seed=seed).posterior["x"].values[0]

    return draw


def local(kind: str, epsilon: float = 1.0) -> Draw:
    """Draws of users all of whom hold one category."""

    def draw(held: list[float], draws: int, seed: int) -> np.ndarray:
        sampler = pmp.mollifiers.LocalSampler([0.5, 0.5], epsilon, kind=kind, window="minimax")
        return sampler.collect([held] * draws, progressbar=False, random_seed=seed).values

    return draw


def released(make: Callable[[Any], pmp.Release]) -> Draw:
    """One private release after another: their randomness is the system's, as of any release."""

    def draw(data: Any, draws: int, seed: int) -> np.ndarray:
        return np.array([quietly(flat, make, data) for _ in range(draws)])

    return draw


def flat(make: Callable[[Any], pmp.Release], data: Any) -> np.ndarray:
    arrays = make(data).posterior.data_vars.values()
    return np.concatenate([np.ravel(array.values) for array in arrays])


def noisy(epsilon: float = 1.0, **words: Any) -> Callable[[list[int]], pmp.Release]:
    return lambda counts: pmp.counts.noisy_counts(counts, epsilon=epsilon, **words)


def bayes(epsilon: float = 1.0, **words: Any) -> Callable[[int], pmp.Release]:
    """The tables of naive Bayes for one record, whose feature and class are the same."""

    def make(value: int) -> pmp.Release:
        given = {"categories": [(0, 1)], "classes": [0, 1], **words}
        record = np.array([[value]]), np.array([value])
        return DirichletNaiveBayes(epsilon, **given).fit(*record).release_

    return make


def network(epsilon: float = 1.0) -> Callable[[int], pmp.Release]:
    """The tables of a network of two nodes for one record whose values are the same."""

    def make(value: int) -> pmp.Release:
        names = {"first": (0, 1), "second": (0, 1)}
        given = {"first": (), "second": ("first",)}, epsilon, 0.01, names
        record = {"first": np.array([value]), "second": np.array([value])}
        return DirichletBayesianNetwork(*given).fit(pd.DataFrame(record)).release_

    return make


def apart(x: np.ndarray) -> np.ndarray:
    return x[:, 0] - x[:, 1]


def tables_apart(x: np.ndarray) -> np.ndarray:
    """Of a table of two cells, and one of two by two."""
    return x[:, 0] - x[:, 1] + x[:, 2] - x[:, 5]


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and two inputs it may have to tell apart.

    Parameters
    ----------
    draw : callable
    one, other : object
    claim : callable
        Gives the guarantee of one output.
    delta : float
    score : callable, optional
    share : float
        Of the outputs of a quick mechanism.
    fault : callable, optional
        Draws as the same mechanism would with too little noise, at epsilon = 4; or the mechanism
        itself, where a tenth of the likelihood's power is paid for.
    fault_claim : callable, optional
        What the faulty one would claim, if not what the mechanism does.
    """

    draw: Draw
    one: Any
    other: Any
    claim: Callable[[], Guarantee]
    delta: float = 0.0
    score: Callable[[np.ndarray], np.ndarray] | None = None
    share: float = 1.0
    fault: Draw | None = None
    fault_claim: Callable[[], Guarantee] | None = None


def of_releases(
    make: Callable[..., Callable[[Any], pmp.Release]], one: Any, other: Any, delta: float,
    score: Any, share: float = 1.0, /, **words: Any,
) -> Mechanism:  # fmt: skip
    """A mechanism whose releases tell what they promise; they take a while each."""
    honest = make(**words)
    return Mechanism(
        released(honest), one, other, lambda: quietly(honest, one).guarantee, delta, score, share,
        released(make(epsilon=4.0, **words)),
    )  # fmt: skip


FAR = [0.95, 0.05], [0.05, 0.95]
POINTS = [1.0, 0.0], [0.0, 1.0]
MANY = 60.0
PURE = lambda: Guarantee.pure(1.0)  # noqa: E731
CLIP = lambda: Guarantee.mollifier_of(1.0)  # noqa: E731
OTHERS = {
    "coin, add/remove": Mechanism(
        added, [0, 1, 1], [1, 1], added_claim, score=lambda p: np.log1p(-p[:, 0]), share=MANY,
        fault=added, fault_claim=lambda: added_claim(0.1),
    ),
    "coin, NUTS, t = .0001 stated": Mechanism(
        states, [1, 1], [0, 1], lambda: chains([1, 1], 1, None).guarantee, 0.01, logit, 0.75,
        states, lambda: chains([1, 1], 1, None, 0.1).guarantee,
    ),
    "dirichlet": Mechanism(
        dirichlet, [1, 0], [0, 1], lambda: Guarantee.dirichlet_of(1.0, 2.0), 0.01, logit, MANY,
        dirichlet, lambda: Guarantee.dirichlet_of(0.1, 2.0),
    ),
    "noisy_counts, Gaussian": of_releases(noisy, [1, 0], [0, 1], 0.01, apart, delta=0.01),
    "noisy_counts, Laplace": of_releases(noisy, [1, 0], [0, 1], 0.0, apart, delta=0.0),
    "noisy_counts, add/remove": of_releases(
        noisy, [1, 0], [0, 0], 0.0, lambda x: x[:, 0], delta=0.0, neighbors="add_remove"
    ),
    "naive Bayes, noisy": of_releases(
        bayes, 0, 1, 0.01, tables_apart, 1.5, delta=0.01, method="noisy"
    ),
    "naive Bayes, exact": of_releases(
        bayes, 0, 1, 0.01, lambda p: tables_apart(np.log(p)), 1.5, delta=0.01, method="exact"
    ),
    "Bayesian network": of_releases(network, 0, 1, 0.01, None, 1.5),
    "mollify, clip": Mechanism(
        mollified("clip"), *FAR, CLIP, share=MANY, fault=mollified("clip", 4.0)
    ),
    "mollify, tilt": Mechanism(
        mollified("tilt"), *FAR, PURE, share=MANY, fault=mollified("tilt", 4.0)
    ),
    "MollifiedBoosting": Mechanism(
        boosted(False), 1.5, -1.5, PURE, share=MANY, fault=boosted(False, 4.0)
    ),
    "MollifiedBoosting, stretched": Mechanism(
        boosted(True), 1.5, -1.5, CLIP, share=MANY, fault=boosted(True, 4.0)
    ),
    "LocalSampler, clip": Mechanism(
        local("clip"), *POINTS, PURE, share=10.0, fault=local("clip", 4.0)
    ),
    "LocalSampler, response": Mechanism(
        local("response"), *POINTS, PURE, share=10.0, fault=local("response", 4.0)
    ),
}  # fmt: skip
