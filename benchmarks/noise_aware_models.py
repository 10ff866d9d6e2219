"""Models of the studies of noisy summaries: each with its domains and a generator of records.

``SCENARIOS[name]()`` gives a `Scenario`: a PyMC model that holds one simulated (or real) data set,
the domains that `pmp.privatize` takes, and ``simulate(theta, rng)``, records by the name of the
private variable, for parameters in natural space. `TABLE` lists the models of the published tables,
`UNSEEN` those that were never looked at while the methods were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit, ndtr, ndtri

import pymc_private as pmp

Arrays = dict[str, np.ndarray]
Point = Mapping[str, Any]
Generator = np.random.Generator
Covariates = Callable[[Generator, int], Arrays]


@dataclass(frozen=True)
class Scenario:
    """A model, what its records may be, and how they are simulated.

    Attributes
    ----------
    model : pymc.Model
        Holds one data set; records along the dim "row".
    domain : dict
    simulate : callable
        ``simulate(theta, rng)`` gives arrays of all private variables, clipped to their domains.
    truth : dict
        Parameters of the data set that the model holds.
    public : tuple of str
        Variables along the records that are public.
    """

    name: str
    model: pm.Model
    domain: dict[str, Any]
    simulate: Callable[[Point, Generator], Arrays]
    truth: dict[str, Any]
    public: tuple[str, ...] = ()

    @cached_property
    def private(self) -> Any:
        """The declared model."""
        return pmp.privatize(self.model, records="row", domain=self.domain, public=self.public)


# ---- laws of the outcome -----------------------------------------------------------------------
@dataclass(frozen=True)
class Law:
    """A law of the outcome given a linear predictor.

    `observe(eta, y)` adds the likelihood and its own parameters to the model of the context,
    `draw(eta, theta, rng)` simulates it, `truth` holds its own parameters.
    """

    observe: Callable[[Any, np.ndarray], Any]
    draw: Callable[[np.ndarray, Point, Generator], np.ndarray]
    truth: dict[str, Any] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None


ROWS = {"dims": "row"}


def bernoulli(link: Any, inverse: Callable[[np.ndarray], np.ndarray]) -> Law:
    return Law(
        lambda eta, y: pm.Bernoulli("y", p=link(eta), observed=y.astype(int), **ROWS),
        lambda eta, at, rng: 1.0 * (rng.random(len(eta)) < inverse(eta)),
    )


LOGIT = Law(
    lambda eta, y: pm.Bernoulli("y", logit_p=eta, observed=y.astype(int), **ROWS),
    lambda eta, at, rng: 1.0 * (rng.random(len(eta)) < expit(eta)),
)
PROBIT = bernoulli(pm.math.invprobit, ndtr)
CLOGLOG = bernoulli(
    lambda eta: 1 - pm.math.exp(-pm.math.exp(eta)), lambda eta: -np.expm1(-np.exp(eta))
)
BINOMIAL_CLOGLOG = Law(
    lambda eta, y: pm.Binomial(
        "y", n=5, p=1 - pm.math.exp(-pm.math.exp(eta)), observed=y.astype(int), **ROWS
    ),
    lambda eta, at, rng: rng.binomial(5, -np.expm1(-np.exp(eta))),
)
NORMAL = Law(
    lambda eta, y: pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, **ROWS),
    lambda eta, at, rng: eta + at["sigma"] * rng.standard_normal(len(eta)),
    {"sigma": 0.6},
    (-15.0, 15.0),
)
STUDENT = Law(
    lambda eta, y: pm.StudentT(
        "y", nu=5, mu=eta, sigma=pm.LogNormal("sigma", 0, 0.5), observed=y, **ROWS
    ),
    lambda eta, at, rng: eta + at["sigma"] * rng.standard_t(5, len(eta)),
    {"sigma": 0.6},
    (-25.0, 25.0),
)
LAPLACE = Law(
    lambda eta, y: pm.Laplace("y", eta, pm.LogNormal("b", -0.5, 0.5), observed=y, **ROWS),
    lambda eta, at, rng: eta + at["b"] * rng.laplace(size=len(eta)),
    {"b": 0.5},
    (-15.0, 15.0),
)
POISSON = Law(
    lambda eta, y: pm.Poisson("y", pm.math.exp(eta), observed=y.astype(int), **ROWS),
    lambda eta, at, rng: rng.poisson(np.exp(eta)),
    {},
    (0.0, 300.0),
)
NEGATIVE_BINOMIAL = Law(
    lambda eta, y: pm.NegativeBinomial(
        "y",
        mu=pm.math.exp(eta),
        alpha=pm.LogNormal("alpha", 0.5, 0.5),
        observed=y.astype(int),
        **ROWS,
    ),
    lambda eta, at, rng: rng.poisson(
        np.exp(eta) * rng.gamma(at["alpha"], 1 / at["alpha"], len(eta))
    ),
    {"alpha": 1.6},
    (0.0, 300.0),
)
ZERO_INFLATED = Law(
    lambda eta, y: pm.ZeroInflatedPoisson(
        "y", pm.Beta("psi", 4, 2), pm.math.exp(eta), observed=y.astype(int), **ROWS
    ),
    lambda eta, at, rng: (rng.random(len(eta)) < at["psi"]) * rng.poisson(np.exp(eta)),
    {"psi": 0.7},
    (0.0, 300.0),
)
GAMMA = Law(
    lambda eta, y: _gamma(eta, pm.LogNormal("shape", 0.3, 0.5), y),
    lambda eta, at, rng: np.exp(eta) * rng.gamma(at["shape"], 1 / at["shape"], len(eta)),
    {"shape": 1.5},
    (1e-4, 100.0),
)
HURDLE_GAMMA = Law(
    lambda eta, y: pm.HurdleGamma(
        "y",
        pm.Beta("psi", 4, 2),
        (shape := pm.LogNormal("shape", 0.3, 0.5)),
        shape * pm.math.exp(-eta),
        observed=y,
        **ROWS,
    ),
    lambda eta, at, rng: (
        (rng.random(len(eta)) < at["psi"])
        * np.exp(eta)
        * rng.gamma(at["shape"], 1 / at["shape"], len(eta))
    ),
    {"psi": 0.7, "shape": 1.5},
    (0.0, 100.0),
)
BETA = Law(
    lambda eta, y: pm.Beta(
        "y", mu=pm.math.sigmoid(eta), nu=pm.LogNormal("nu", 2, 0.5), observed=y, **ROWS
    ),
    lambda eta, at, rng: rng.beta(expit(eta) * at["nu"], expit(-eta) * at["nu"]),
    {"nu": 7.0},
    (1e-6, 1.0 - 1e-6),
)
ORDINAL = Law(
    lambda eta, y: pm.OrderedLogistic(
        "y", eta=eta, cutpoints=_cutpoints(), observed=y.astype(int), **ROWS
    ),
    lambda eta, at, rng: 1.0 + np.sign(_beyond(eta + rng.logistic(size=len(eta)), at["half"])),
    {"half": 0.8},
)


def weibull(end: float) -> Law:
    """Survival times, the predictor their log scale, censored at one end of follow-up."""

    def observe(eta: Any, y: np.ndarray) -> Any:
        law = pm.Weibull.dist(pm.LogNormal("shape", 0, 0.5), pm.math.exp(eta))
        return pm.Censored("y", law, lower=None, upper=end, observed=y, **ROWS)

    return Law(
        observe,
        lambda eta, at, rng: np.minimum(np.exp(eta) * rng.weibull(at["shape"], len(eta)), end),
        {"shape": 1.5},
        (0.0, end),
    )


def lognormal(end: float) -> Law:
    """Survival times, the predictor their mean logarithm, censored at one end of follow-up."""

    def observe(eta: Any, y: np.ndarray) -> Any:
        law = pm.LogNormal.dist(eta, pm.LogNormal("sigma", 0, 0.4))
        return pm.Censored("y", law, lower=None, upper=end, observed=y, **ROWS)

    return Law(
        observe,
        lambda eta, at, rng: np.minimum(
            np.exp(eta + at["sigma"] * rng.standard_normal(len(eta))), end
        ),
        {"sigma": 0.9},
        (0.0, end),
    )


def _gamma(eta: Any, shape: Any, y: np.ndarray) -> Any:
    return pm.Gamma("y", shape, shape * pm.math.exp(-eta), observed=y, **ROWS)


def _beyond(values: np.ndarray, half: float) -> np.ndarray:
    """Values less than `half` from zero become zero."""
    return np.where(np.abs(values) <= half, 0.0, values)


def _cutpoints() -> Any:
    half = pm.LogNormal("half", -0.3, 0.4)  # the intercept is free, so the middle is not
    return pm.math.stack([-half, half])


# ---- covariates --------------------------------------------------------------------------------
def uniform(d: int) -> Covariates:
    return lambda rng, n: {"X": rng.uniform(-1, 1, (n, d))}


def correlated(d: int, scale: float = 0.4, box: float = 1.0) -> Covariates:
    """Normal columns with correlation .8, clipped."""

    def draw(rng: Generator, n: int) -> Arrays:
        z = np.sqrt(0.8) * rng.standard_normal((n, 1)) + np.sqrt(0.2) * rng.standard_normal((n, d))
        return {"X": np.clip(scale * z, -box, box)}

    return draw


def skewed(d: int) -> Covariates:
    """Skewed correlated columns near the lower edge of the box; the last one is binary, 12%."""

    def draw(rng: Generator, n: int) -> Arrays:
        z = 0.7 * (rng.standard_normal((n, 1)) + rng.standard_normal((n, d)))
        x = np.clip(-1 + 0.4 * np.exp(0.7 * z), -1, 1)
        x[:, -1] = np.where(z[:, -1] > 1.15, 1.0, -1.0)
        return {"X": x}

    return draw


def binary(d: int) -> Covariates:
    shares = np.array([0.5, 0.25, 0.1, 0.5, 0.3])[:d]
    return lambda rng, n: {"X": 2.0 * (rng.random((n, d)) < shares) - 1.0}


def flags(d: int, numbers: int = 0) -> Covariates:
    """Correlated columns of two values, some of them rare, after numbers that go with them."""
    limits = ndtri(np.resize([0.05, 0.5, 0.12, 0.3, 0.85, 0.08], d))

    def draw(rng: Generator, n: int) -> Arrays:
        common = np.sqrt(0.4) * rng.standard_normal((n, 1))
        z = common + np.sqrt(0.6) * rng.standard_normal((n, numbers + d))
        x = np.clip(0.4 * z[:, :numbers], -1, 1)
        found = {"F": 1.0 * (z[:, numbers:] < limits)}
        return found | {"X": x} if numbers else found

    return draw


def with_offset(covariates: Covariates) -> Covariates:
    return lambda rng, n: covariates(rng, n) | {"offset": rng.uniform(-1, 1, n)}


# ---- models ------------------------------------------------------------------------------------
SLOPES = np.array([0.8, -0.5, 0.3, 0.1, -0.2, 0.4, 0.0, -0.3])


def regression(
    name: str,
    law: Law,
    covariates: Covariates,
    n: int,
    d: int,
    *,
    intercept: tuple[float, float] = (0.0, 1.0),
    slope_sd: float = 1.0,
    box: Any = (-1.0, 1.0),
    data: Arrays | None = None,
) -> Scenario:
    """A regression of `d` slopes; `data` are real covariates, and perhaps outcomes, if given."""
    slopes = slope_sd * np.resize(SLOPES, d)
    truth = {"intercept": intercept[0], "slopes": slopes, **law.truth}

    def simulate(theta: Point, rng: Generator) -> Arrays:
        if data is None:
            rows = covariates(rng, n)
        else:
            rows = {key: values for key, values in data.items() if key != "y"}
        slopes = np.asarray(theta["slopes"], float)
        eta = float(theta["intercept"]) + rows["X"] @ slopes + rows.get("offset", 0.0)
        y = np.asarray(law.draw(eta, theta, rng), float)
        return rows | {"y": y if law.bounds is None else np.clip(y, *law.bounds)}

    rows = simulate(truth, np.random.default_rng(5)) | (data or {})
    with pm.Model(coords={"row": np.arange(n), "slope": np.arange(d)}) as model:
        eta = pm.Normal("intercept", *intercept)
        x = pm.Data("X", rows["X"], dims=("row", "slope"))
        eta = eta + x @ pm.Normal("slopes", 0, slope_sd, dims="slope")
        if "offset" in rows:
            eta = eta + pm.Data("offset", rows["offset"], dims="row")
        law.observe(eta, rows["y"])
    domain = {"X": box}
    domain |= {"offset": (-1.0, 1.0)} if "offset" in rows else {}
    domain |= {"y": law.bounds} if law.bounds is not None else {}
    return Scenario(name, model, domain, simulate, truth)


def fair(name: str, features: int) -> Scenario:
    """The survey of statsmodels, its covariates as they are, scaled by the questionnaire."""
    import statsmodels.api as sm

    table = sm.datasets.fair.load_pandas().data
    names = [c for c in table.columns if c != "affairs"]
    low = dict(zip(names, (1, 17.5, 0.5, 0, 1, 9, 1, 1), strict=True))
    high = dict(zip(names, (5, 42, 23, 5.5, 4, 20, 6, 6), strict=True))
    used = ["rate_marriage", "yrs_married"] if features == 2 else names
    a, b = (np.array([ends[c] for c in used], float) for ends in (low, high))
    x = ((table[used].to_numpy(float) - a) / (b - a) * 2 - 1) / np.sqrt(len(used))
    data = {"X": x, "y": 1.0 * (table["affairs"].to_numpy() > 0)}
    edge = 1.0 / np.sqrt(len(used))
    sds = (0.7, 0.7) if features == 2 else (1.0, 2.0)
    return regression(
        name,
        LOGIT,
        uniform(len(used)),
        len(x),
        len(used),
        intercept=(0.0, sds[0]),
        slope_sd=sds[1],
        box=(-edge, edge),
        data=data,
    )


def mixture(name: str, n: int) -> Scenario:
    """Two normals, no covariates."""

    def simulate(theta: Point, rng: Generator) -> Arrays:
        first = rng.random(n) < theta["w"]
        y = np.where(first, theta["low"], theta["high"]) + rng.standard_normal(n)
        return {"y": np.clip(y, 0.0, 10.0)}

    truth = {"w": 0.4, "low": 2.0, "high": 6.0}
    with pm.Model(coords={"row": np.arange(n)}) as model:
        w = pm.Beta("w", 2, 2)
        centers = pm.math.stack([pm.Normal("low", 2.5, 1), pm.Normal("high", 5.5, 1)])
        seen = simulate(truth, np.random.default_rng(4))["y"]
        pm.NormalMixture("y", pm.math.stack([w, 1 - w]), centers, 1.0, observed=seen, **ROWS)
    return Scenario(name, model, {"y": (0.0, 10.0)}, simulate, truth)


def trials(name: str, n: int) -> Scenario:
    """Binomial outcomes with a public number of trials in each record."""
    sizes = np.random.default_rng(8).integers(1, 12, n)

    def simulate(theta: Point, rng: Generator) -> Arrays:
        x = rng.uniform(-1, 1, (n, 2))
        eta = float(theta["intercept"]) + x @ np.asarray(theta["slopes"], float)
        return {"X": x, "y": 1.0 * rng.binomial(sizes, expit(eta))}

    truth = {"intercept": -0.5, "slopes": SLOPES[:2]}
    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n), "slope": np.arange(2)}) as model:
        x = pm.Data("X", rows["X"], dims=("row", "slope"))
        eta = pm.Normal("intercept") + x @ pm.Normal("slopes", dims="slope")
        size = pm.Data("trials", sizes, dims="row")
        pm.Binomial("y", n=size, logit_p=eta, observed=rows["y"].astype(int), **ROWS)
    domain = {"X": (-1.0, 1.0), "y": (0, 11)}
    return Scenario(name, model, domain, simulate, truth, public=("trials",))


def follow_up(name: str, n: int) -> Scenario:
    """Survival times, each record censored at its own private end of follow-up."""

    def simulate(theta: Point, rng: Generator) -> Arrays:
        x, end = rng.uniform(-1, 1, (n, 2)), rng.uniform(1, 4, n)
        eta = float(theta["intercept"]) + x @ np.asarray(theta["slopes"], float)
        y = np.minimum(np.exp(eta) * rng.weibull(float(theta["shape"]), n), end)
        return {"X": x, "end": end, "y": y}

    truth = {"intercept": 0.5, "slopes": 0.7 * SLOPES[:2], "shape": 1.4}
    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n), "slope": np.arange(2)}) as model:
        x = pm.Data("X", rows["X"], dims=("row", "slope"))
        eta = pm.Normal("intercept", 0.5, 0.7) + x @ pm.Normal("slopes", 0, 0.7, dims="slope")
        law = pm.Weibull.dist(pm.LogNormal("shape", 0, 0.5), pm.math.exp(eta))
        end = pm.Data("end", rows["end"], dims="row")
        pm.Censored("y", law, lower=None, upper=end, observed=rows["y"], **ROWS)
    domain = {"X": (-1.0, 1.0), "end": (1.0, 4.0), "y": (0.0, 4.0)}
    return Scenario(name, model, domain, simulate, truth)


def levels(name: str, n: int) -> Scenario:
    """A group of four levels with effects of its own, and a number that depends on the group."""
    shares = np.array([0.6, 0.25, 0.1, 0.05])

    def simulate(theta: Point, rng: Generator) -> Arrays:
        group = rng.choice(4, n, p=shares)
        x = np.clip(-0.6 + 0.3 * group + 0.3 * rng.standard_normal(n), -1, 1)
        eta = np.asarray(theta["effect"], float)[group] + float(theta["slope"]) * x
        return {"group": group, "x": x, "y": 1.0 * (rng.random(n) < expit(eta))}

    truth = {"effect": np.array([-0.5, 0.2, 0.6, 1.0]), "slope": 0.8}
    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n), "level": np.arange(4)}) as model:
        effect = pm.Normal("effect", dims="level")
        group = pm.Data("group", rows["group"], dims="row")
        x = pm.Data("x", rows["x"], dims="row")
        eta = effect[group] + pm.Normal("slope") * x
        pm.Bernoulli("y", logit_p=eta, observed=rows["y"].astype(int), **ROWS)
    domain = {"group": pmp.Categories(range(4)), "x": (-1.0, 1.0)}
    return Scenario(name, model, domain, simulate, truth)


def cutpoints(name: str, n: int) -> Scenario:
    """Answers of four levels, their cutpoints free and in order, and two covariates."""
    means = np.array([-1.0, 0.0, 1.0])
    truth = {"slopes": np.array([0.8, -0.5]), "cuts": means}

    def simulate(theta: Point, rng: Generator) -> Arrays:
        x = rng.uniform(-1, 1, (n, 2))
        latent = x @ np.asarray(theta["slopes"], float) + rng.logistic(size=n)
        return {"X": x, "y": 1.0 * (latent[:, None] > np.asarray(theta["cuts"])).sum(axis=1)}

    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n)}) as model:
        x = pm.Data("X", rows["X"], dims=("row", None))
        eta = x @ pm.Normal("slopes", 0, 1, shape=2)
        cuts = pm.Normal("cuts", means, 1.0, transform=pm.distributions.transforms.ordered)
        answers = rows["y"].astype(int)
        pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=answers, **ROWS)
    return Scenario(name, model, {"X": (-1.0, 1.0)}, simulate, truth)


def inflation(name: str, n: int) -> Scenario:
    """Counts whose share of extra zeros has a predictor of its own."""
    truth = {"a": 0.5, "b": 0.4, "c": 0.5, "d": 0.5}

    def simulate(theta: Point, rng: Generator) -> Arrays:
        x = rng.uniform(-1, 1, n)
        share = expit(float(theta["c"]) + float(theta["d"]) * x)
        mean = np.exp(float(theta["a"]) + float(theta["b"]) * x)
        y = (rng.random(n) < share) * rng.poisson(mean)
        return {"X": x, "y": np.minimum(y, 200).astype(float)}

    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n)}) as model:
        x = pm.Data("X", rows["X"], dims="row")
        mean = pm.math.exp(pm.Normal("a", 0.5, 0.7) + pm.Normal("b", 0, 0.7) * x)
        share = pm.math.sigmoid(pm.Normal("c", 0, 1) + pm.Normal("d", 0, 1) * x)
        pm.ZeroInflatedPoisson("y", share, mean, observed=rows["y"].astype(int), **ROWS)
    return Scenario(name, model, {"X": (-1.0, 1.0), "y": (0.0, 200.0)}, simulate, truth)


def dummies(
    name: str, law: Law, n: int, d: int, numbers: int = 0, slope_sd: float = 1.0
) -> Scenario:
    """A regression on `d` columns of zeros and ones, and on numbers."""
    covariates, width = flags(d, numbers), numbers + d
    truth = {"intercept": 0.0, "slopes": slope_sd * np.resize(SLOPES, width), **law.truth}

    def simulate(theta: Point, rng: Generator) -> Arrays:
        rows = covariates(rng, n)
        x = np.concatenate([rows[key] for key in ("X", "F") if key in rows], axis=1)
        eta = float(theta["intercept"]) + x @ np.asarray(theta["slopes"], float)
        y = np.asarray(law.draw(eta, theta, rng), float)
        return rows | {"y": y if law.bounds is None else np.clip(y, *law.bounds)}

    rows = simulate(truth, np.random.default_rng(5))
    with pm.Model(coords={"row": np.arange(n), "slope": np.arange(width)}) as model:
        eta = pm.Normal("intercept", 0.0, 1.0)
        slopes = pm.Normal("slopes", 0, slope_sd, dims="slope")
        if numbers:
            eta = eta + pm.Data("X", rows["X"], dims=("row", None)) @ slopes[:numbers]
        eta = eta + pm.Data("F", rows["F"], dims=("row", None)) @ slopes[numbers:]
        law.observe(eta, rows["y"])
    domain: dict[str, Any] = {"F": {0.0, 1.0}} | ({"X": (-1.0, 1.0)} if numbers else {})
    domain |= {"y": law.bounds} if law.bounds is not None else {}
    return Scenario(name, model, domain, simulate, truth)


def _named(make: Callable[..., Scenario], name: str, *args: Any, **options: Any) -> Any:
    return name, partial(make, name, *args, **options)


COUNTS = {"intercept": (0.5, 0.7), "slope_sd": 0.7}
TABLE: dict[str, Callable[[], Scenario]] = dict(
    [
        _named(regression, "logistic, correlation .8", LOGIT, correlated(4, 1, 3), 3000, 4,
               box=(-3.0, 3.0)),
        _named(regression, "logistic, 5% ones", LOGIT, uniform(3), 4000, 3,
               intercept=(-3.2, 0.5), slope_sd=0.7),
        _named(regression, "linear, n 1,000", NORMAL, uniform(5), 1000, 5),
        _named(regression, "linear, n 5,000", NORMAL, uniform(4), 5000, 4),
        _named(regression, "linear, n 20,000", NORMAL, uniform(5), 20000, 5),
        _named(regression, "Student-t", STUDENT, uniform(3), 1000, 3),
        _named(regression, "Poisson with offset", POISSON, with_offset(binary(3)), 1500, 3,
               slope_sd=0.7),
        _named(regression, "negative binomial", NEGATIVE_BINOMIAL, uniform(3), 2000, 3, **COUNTS),
        _named(regression, "Weibull, censored", weibull(5.0), uniform(3), 1000, 3,
               intercept=(0.7, 0.7), slope_sd=0.7),
        _named(regression, "probit", PROBIT, skewed(3), 2000, 3,
               intercept=(-0.5, 0.7), slope_sd=0.7),
        _named(regression, "cloglog", CLOGLOG, skewed(3), 2000, 3,
               intercept=(-0.5, 0.7), slope_sd=0.7),
        _named(fair, "Fair, 2 features", 2),
        _named(fair, "Fair, 8 features", 8),
        _named(mixture, "mixture of two normals", 1000),
    ]
)  # fmt: skip
"""Models of the published tables."""
UNSEEN: dict[str, Callable[[], Scenario]] = dict(
    [
        _named(regression, "gamma, skewed", GAMMA, skewed(3), 1500, 3, slope_sd=0.7),
        _named(regression, "beta", BETA, correlated(3), 1500, 3, slope_sd=0.7),
        _named(regression, "log-normal, censored, binary", lognormal(2.2), binary(4), 1500, 4,
               slope_sd=0.7),
        _named(regression, "binomial, cloglog, skewed", BINOMIAL_CLOGLOG, skewed(3), 1200, 3,
               intercept=(-0.8, 0.7), slope_sd=0.6),
        _named(regression, "ordinal", ORDINAL, uniform(3), 2000, 3),
        _named(regression, "zero-inflated Poisson", ZERO_INFLATED, uniform(2), 2000, 2, **COUNTS),
        _named(regression, "hurdle gamma", HURDLE_GAMMA, uniform(2), 2000, 2, slope_sd=0.7),
        _named(regression, "Laplace", LAPLACE, correlated(3), 1500, 3),
        _named(regression, "Poisson, binary", POISSON, binary(4), 2000, 4, slope_sd=0.6,
               box=pmp.Categories([-1, 1])),
        _named(regression, "logistic, rare and skewed", LOGIT, skewed(4), 4000, 4,
               intercept=(-2.5, 0.7), slope_sd=0.7),
        _named(regression, "linear, wrong reference", NORMAL, skewed(4), 2000, 4,
               box=(-4.0, 4.0)),
        _named(regression, "negative binomial, skewed", NEGATIVE_BINOMIAL, skewed(3), 2000, 3,
               **COUNTS),
        _named(trials, "binomial, public trials", 1500),
        _named(follow_up, "Weibull, own follow-up", 1500),
        _named(levels, "logistic, groups", 3000),
        _named(dummies, "logistic, 12 dummies", LOGIT, 10_000, 12),
        _named(dummies, "linear, 8 dummies", NORMAL, 5000, 8, 2),
        _named(dummies, "Poisson, 9 dummies", POISSON, 5000, 9, slope_sd=0.4),
    ]
)  # fmt: skip
"""Models that were never looked at while the methods were chosen."""
SCENARIOS = TABLE | UNSEEN
FURTHER: dict[str, Callable[[], Scenario]] = dict(
    [
        _named(regression, "logistic, 30 slopes", LOGIT, uniform(30), 10_000, 30, slope_sd=0.5),
        _named(regression, "linear, 30 slopes", NORMAL, uniform(30), 10_000, 30, slope_sd=0.5),
        _named(cutpoints, "free cutpoints", 3000),
        _named(inflation, "zero inflation, own predictor", 3000),
    ]
)  # fmt: skip
"""Models of narrower questions; asked for by name."""
