"""The families of Dimitrakakis et al. (2017), Example 1 and Lemmas 19-24, as PyMC models.

Each has its exact range R, the constants (L0, c) of its prior's tail and C, as corrected, and the
log density of one record, so that every bound can be compared with brute force. Run
``python benchmarks/families.py`` for the table of the gallery.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import special

import pymc_private as pmp
from pymc_private import planning
from pymc_private.errors import PymcPrivateError
from pymc_private.privacy import (
    bayes_net_row_eps,
    beta_bernoulli_C,
    beta_binomial_c,
    exp_exp_C,
    laplace_C,
    normal_var_C,
    sl_eps,
    sl_kl_bound,
)

ROWS = 8
RATE = 3.0  # of exponential priors


@dataclass(frozen=True)
class Family:
    """A model of one lemma, and all that is known of it.

    Parameters
    ----------
    name, lemma : str
    model : callable
        Builds the PyMC model on made-up rows.
    domain, box : dict
        Of `privatize` and `trim`.
    R : float
        Exact range of one record over the box.
    distance : callable
        rho of two records.
    L0, c, C : float
        Tail of the prior, and the largest ratio of likelihood and evidence of one record; NaN where
        the box makes the tail pointless.
    records : array
        A grid of records, corners included.
    grid : array
        Parameters, one row each.
    log_prior : array
        Of the parameters, on the grid, up to a constant.
    log_density : callable
        (records, parameters) to an array, shape (records, parameters).
    lipschitz : callable
        ell of the parameters.
    """

    name: str
    lemma: str
    model: Callable[[], pm.Model]
    domain: dict[str, Any]
    box: dict[str, tuple]
    R: float
    distance: Callable[[Any, Any], float]
    L0: float
    c: float
    C: float
    records: np.ndarray
    grid: np.ndarray
    log_prior: np.ndarray
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]
    lipschitz: Callable[[np.ndarray], np.ndarray]

    def private(self) -> pmp.PrivateModel:
        """The private model, trimmed to the box."""
        made = pmp.privatize(self.model(), records="row", domain=self.domain)
        return pmp.trim(made, box=self.box) if self.box else made

    def table(self) -> np.ndarray:
        """Log densities, shape (records, parameters)."""
        return self.log_density(self.records, self.grid)

    def searched_range(self) -> float:
        """R by brute force over all pairs of records and parameters of the grids."""
        table = self.table()
        return max(float(np.ptp(x - y)) for x, y in itertools.combinations(table, 2))

    def log_posteriors(self) -> np.ndarray:
        """Log posterior weights after one record, shape (records, parameters)."""
        joint = self.log_prior + self.table()
        return joint - special.logsumexp(joint, axis=1, keepdims=True)

    def worst_pair(self) -> float:
        """Exact epsilon of one draw after one record: the largest over all pairs."""
        table = self.table()
        return max(
            planning.grid_pair(self.log_prior, x, y) for x, y in itertools.combinations(table, 2)
        )


def rows(**arrays: Any) -> pm.Model:
    """An empty model with the dim of the rows."""
    return pm.Model(coords={"row": range(ROWS), **arrays})


def steps(low: float, high: float, count: int = 401) -> np.ndarray:
    return np.linspace(low, high, count)


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

    sides = steps(-m, m, 9)
    theta = np.array([(a, b, t) for a in sides for b in sides for t in steps(c1, c2, 9)])
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

    theta = np.array(list(itertools.product(steps(a, 1 - a, 11), repeat=3)))
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
            bias = pm.Deterministic("bias", pt.as_tensor_variable(theta)[place])
            pm.Bernoulli("y", bias, observed=np.arange(ROWS) % 2, dims="row")
        return made

    return Family(
        "Finite Bernoulli" + (f", decay {decay:g}" if decay else ", uniform"), "Example 1", model,
        {}, {}, 2 * math.log((1 - step) / step), lambda x, y: float(x != y),
        0.0, _steepest(theta, log_prior), 2 * (1 - step), np.array([0.0, 1.0]), theta, log_prior,
        lambda x, t: np.outer(x, np.log(t)) + np.outer(1 - x, np.log1p(-t)),
        lambda t: np.abs(special.logit(t)),
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


def largest_kl(family: Family) -> tuple[float, float]:
    """Largest symmetrized divergence of two posteriors after one record, and T6(i)'s bound."""
    logs, best = family.log_posteriors(), (0.0, math.nan)
    for i, j in itertools.combinations(range(len(logs)), 2):
        kl = float(np.sum((np.exp(logs[i]) - np.exp(logs[j])) * (logs[i] - logs[j])))
        if kl > best[0]:
            rho = family.distance(family.records[i], family.records[j])
            known = math.isfinite(family.C)
            best = kl, float(sl_kl_bound(family.L0, family.c, family.C, rho)) if known else math.nan
    return best


def certified_range(family: Family) -> float:
    """R of the certificate; NaN where the model is refused, as coupled ones may be."""
    try:
        return pmp.certify(family.private(), progressbar=False).range
    except PymcPrivateError:
        return math.nan


def table() -> None:
    """Exact ranges against brute force and the certifier; old bounds against new ones."""
    print(
        f"{'family':22}{'lemma':>10}{'R exact':>9}{'brute':>9}{'certified':>11}{'pair':>8}", end=""
    )
    print(f"{'L0':>7}{'c':>8}{'C':>9}{'KL+KL':>9}{'T6(i)':>9}{'T6(iii)':>9}{'T1: R':>8}")
    for make in FAMILIES.values():
        f = make()
        certified = certified_range(f)
        kl, bound = largest_kl(f)
        far = max(f.distance(x, y) for x, y in itertools.combinations(f.records, 2))
        iii = float(sl_eps(f.L0, f.c, f.C, far, 1e-6)) if math.isfinite(f.C) else math.nan
        cells = (f.R, f.searched_range(), certified, f.worst_pair(), f.L0, f.c, f.C, kl, bound, iii)
        widths = (9, 9, 11, 8, 7, 8, 9, 9, 9, 9)
        line = "".join(
            f"{x:{w}.4g}" if math.isfinite(x) else "-".rjust(w)
            for x, w in zip(cells, widths, strict=True)
        )
        print(f"{f.name[:21]:22}{f.lemma:>10}{line}{f.R:8.4g}")


def figure_1(axes: Any = None) -> Any:
    """Two priors of the finite Bernoulli family, and what trimming to Theta_L leaves outside.

    Drawn after the paper's Example 1 and Figure 1: the uniform prior has much mass where one toss
    tells most, the steep one little.
    """
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(9, 3), layout="constrained").subplots(1, 2)
    trims = np.linspace(0.0, 4.7, 400)
    for decay, color in ((0.0, "#b3462b"), (2.0, "#2b6298")):
        family = finite_coin(0.01, decay)
        weights = special.softmax(family.log_prior)
        name = f"steep: exp(-{decay:g} |logit|)" if decay else "uniform"
        axes[0].plot(family.grid, weights, ".-", ms=3, lw=0.8, color=color, label=name)
        ell = family.lipschitz(family.grid)
        axes[1].plot(trims, [weights[ell > L + 1e-12].sum() for L in trims], color=color)
        if decay:
            law = np.exp(-decay * trims)
            axes[1].plot(trims, law, ":", color="0.5", label=f"exp(-{decay:g} L)")
    axes[0].set(xlabel="bias", ylabel="prior weight", ylim=(0, None))
    axes[1].set(xlabel="L", ylabel="prior mass outside of Theta_L", yscale="log", ylim=(1e-5, 1.3))
    for ax in axes:
        ax.legend(frameon=False, fontsize="small")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return axes


def outside(decay: float, step: float = 0.01, n: int = 100) -> Callable[[float], float]:
    """Posterior mass outside of Theta_L after n public tosses, half of them heads."""
    family = finite_coin(step, decay)
    theta = family.grid
    log_posterior = family.log_prior + n / 2 * (np.log(theta) + np.log1p(-theta))
    weights, ell = special.softmax(log_posterior), family.lipschitz(theta)
    return lambda L: float(weights[ell > L + 1e-12].sum())


def trade_off_picture(axes: Any = None, epsilons: tuple[float, ...] = (10.0, 100.0)) -> Any:
    """The trim L against the number of draws N of the finite Bernoulli family."""
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(10, 3.4), layout="constrained").subplots(1, len(epsilons))
    trims = np.geomspace(0.04, 4.6, 60)
    for ax, epsilon in zip(axes, epsilons, strict=True):
        planning.trade_off(outside(0.0), epsilon=epsilon, trims=trims).plot(ax)
    return axes


if __name__ == "__main__":
    table()
    for epsilon in (1.0, 10.0, 100.0, 1000.0):
        print(planning.trade_off(outside(0.0), epsilon=epsilon).title)
