"""Twenty-two ordinary models at epsilon = 1: what `calibrate` chooses, and what it was worth.

Run ``python -m benchmarks.ordinary_models [name ...] [--save FILE] [--plain]``; a run that was
stopped goes on where its file ends. Each model is planned with ``release="auto"`` and nothing else
said (``--plain``: plans alone, for ten draws of the model as it is); it is carried out from a
seed and compared with NUTS on the same records without privacy. Columns: the release that was
chosen, share of the prior variance it was expected to remove, verdict, error of the posterior mean
in standard deviations of the posterior without privacy (root mean square over parameters),
posterior width in its widths (geometric mean), seconds of processor time of `calibrate`, and of
what follows it.

With ``--sampling``: seconds of processor time of `summarize` and of four chains of 2,000 steps of
`pm.sample` on the summary's model, compilation included, beside the time that the plan expects.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.summaries.summary_plan import sampling_time

Random = np.random.Generator
Built = tuple[pm.Model, dict[str, Any]]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ORDERED = pm.distributions.transforms.ordered
MODELS: dict[str, Callable[[Random], Built]] = {}


def ordinary(build: Callable[[Random], Built]) -> Callable[[Random], Built]:
    """Add a model to the table."""
    MODELS[build.__name__.replace("_", " ")] = build
    return build


def people(n: int) -> pm.Model:
    """An empty model with n records."""
    return pm.Model(coords={"person": range(n), "entry": range(2), "wave": range(6)})


def with_domain(model: pm.Model, **domain: Any) -> Built:
    """The model and its declaration."""
    return model, {"records": "person", "domain": domain}


def disc(rng: Random, n: int, width: int) -> np.ndarray:
    """Rows uniform in the unit ball."""
    rows = rng.normal(size=(n, width))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * rng.random((n, 1)) ** (1 / width)


@ordinary
def coin(rng: Random) -> Built:
    y = rng.binomial(1, 0.3, 500)
    with people(500) as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=y, dims="person")
    return with_domain(model)


@ordinary
def a_b_test(rng: Random) -> Built:
    arm = rng.integers(0, 2, 2000)
    with people(2000) as model:
        group = pm.Data("arm", arm, dims="person")
        rate = pm.Beta("rate", 1, 1, shape=2)
        pm.Bernoulli(
            "y", rate[group], observed=rng.binomial(1, np.array([0.1, 0.13])[arm]), dims="person"
        )
    return with_domain(model, arm={0, 1})


@ordinary
def normal(rng: Random) -> Built:
    with people(500) as model:
        mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 2)
        pm.Normal("y", mu, sigma, observed=rng.normal(1, 1.2, 500), dims="person")
    return with_domain(model, y=(-8, 8))


@ordinary
def linear_regression(rng: Random) -> Built:
    x = disc(rng, 1000, 2)
    y = 0.5 + x @ [1.0, -0.6] + rng.normal(0, 0.7, 1000)
    with people(1000) as model:
        rows = pm.Data("X", x, dims=("person", None))
        mean = pm.Normal("a", 0, 1) + rows @ pm.Normal("b", 0, 1, shape=2)
        pm.Normal("y", mean, pm.HalfNormal("sigma", 1), observed=y, dims="person")
    return with_domain(model, X=pmp.Ball(1.0), y=(-4, 4))


@ordinary
def logistic_regression(rng: Random) -> Built:
    x = disc(rng, 1000, 2)
    y = rng.binomial(1, 1 / (1 + np.exp(-(0.3 + x @ [1.2, -0.8]))))
    with people(1000) as model:
        rows = pm.Data("X", x, dims=("person", None))
        eta = pm.Normal("a", 0, 1) + rows @ pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="person")
    return with_domain(model, X=pmp.Ball(1.0))


@ordinary
def poisson_rate(rng: Random) -> Built:
    with people(500) as model:
        rate = pm.Gamma("rate", 3, 1)
        pm.Poisson("y", rate, observed=rng.poisson(2.5, 500), dims="person")
    return with_domain(model, y=(0, 15))


@ordinary
def poisson_with_offset(rng: Random) -> Built:
    x, exposure = rng.uniform(-1, 1, 800), rng.uniform(0.2, 3, 800)
    y = rng.poisson(exposure * np.exp(0.4 + 0.5 * x))
    with people(800) as model:
        data = pm.Data("x", x, dims="person"), pm.Data("exposure", exposure, dims="person")
        eta = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * data[0]
        pm.Poisson("y", data[1] * pm.math.exp(eta), observed=y, dims="person")
    return with_domain(model, x=(-1, 1), exposure=(0.1, 3), y=(0, 30))


@ordinary
def negative_binomial(rng: Random) -> Built:
    x = rng.uniform(-1, 1, 600)
    mu = np.exp(0.8 + 0.5 * x)
    y = rng.poisson(rng.gamma(2.0, mu / 2.0))
    with people(600) as model:
        data = pm.Data("x", x, dims="person")
        eta = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * data
        pm.NegativeBinomial(
            "y", mu=pm.math.exp(eta), alpha=pm.Gamma("alpha", 2, 1), observed=y, dims="person"
        )
    return with_domain(model, x=(-1, 1), y=(0, 30))


@ordinary
def zero_inflated_poisson(rng: Random) -> Built:
    y = rng.binomial(1, 0.7, 600) * rng.poisson(3, 600)
    with people(600) as model:
        psi, mu = pm.Beta("psi", 2, 2), pm.Gamma("mu", 3, 1)
        pm.ZeroInflatedPoisson("y", psi, mu, observed=y, dims="person")
    return with_domain(model, y=(0, 15))


@ordinary
def student_t_regression(rng: Random) -> Built:
    x = rng.uniform(-1, 1, 500)
    y = 0.3 + 0.8 * x + 0.6 * rng.standard_t(4, 500)
    with people(500) as model:
        data = pm.Data("x", x, dims="person")
        mean = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * data
        pm.StudentT("y", nu=4, mu=mean, sigma=pm.HalfNormal("sigma", 1), observed=y, dims="person")
    return with_domain(model, x=(-1, 1), y=(-6, 6))


@ordinary
def gamma_durations(rng: Random) -> Built:
    with people(500) as model:
        shape, mean = pm.Gamma("shape", 4, 2), pm.Gamma("mean", 4, 2)
        y = rng.gamma(2, 0.75, 500)
        pm.Gamma("y", alpha=shape, beta=shape / mean, observed=y, dims="person")
    return with_domain(model, y=(0.01, 12))


@ordinary
def weibull_with_censoring(rng: Random) -> Built:
    time = 1.5 * rng.weibull(1.4, 400)
    event, time = (time < 2).astype(int), np.minimum(time, 2)
    with people(400) as model:
        died = pm.Data("event", event, dims="person")
        seen = pm.Data("time", time, dims="person")
        shape, scale = pm.Gamma("shape", 4, 3), pm.Gamma("scale", 4, 3)
        life = pm.Weibull.dist(shape, scale)
        censored = -((seen / scale) ** shape)
        pm.Potential("survival", pm.math.switch(died, pm.logp(life, seen), censored), dims="person")
    return with_domain(model, time=(0.01, 2), event={0, 1})


@ordinary
def log_normal_income(rng: Random) -> Built:
    with people(800) as model:
        mu, sigma = pm.Normal("mu", 3, 1), pm.HalfNormal("sigma", 1)
        pm.LogNormal("y", mu, sigma, observed=np.exp(rng.normal(3, 0.6, 800)), dims="person")
    return with_domain(model, y=(1, 400))


@ordinary
def beta_shares(rng: Random) -> Built:
    with people(400) as model:
        mu, nu = pm.Beta("mu", 2, 2), pm.Gamma("nu", 4, 0.4)
        pm.Beta("y", mu * nu, (1 - mu) * nu, observed=rng.beta(3, 7, 400), dims="person")
    return with_domain(model, y=(0.01, 0.99))


@ordinary
def multinomial_choice(rng: Random) -> Built:
    with people(600) as model:
        share = pm.Dirichlet("share", np.ones(4))
        y = rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])
        pm.Categorical("y", share, observed=y, dims="person")
    return with_domain(model)


@ordinary
def ordinal_answers(rng: Random) -> Built:
    x = rng.uniform(-1, 1, 600)
    latent = 0.8 * x + rng.logistic(size=600)
    with people(600) as model:
        data = pm.Data("x", x, dims="person")
        cut = pm.Normal("cut", [-1.5, 0.0, 1.5], 0.7, transform=ORDERED, shape=3,
                        initval=[-1.5, 0.0, 1.5])  # fmt: skip
        y = np.searchsorted([-1.5, 0.0, 1.5], latent)
        eta = pm.Normal("b", 0, 1) * data
        pm.OrderedLogistic("y", eta=eta, cutpoints=cut, observed=y, dims="person")
    return with_domain(model, x=(-1, 1), y=pmp.Categories(range(4)))


@ordinary
def mixture_of_two_normals(rng: Random) -> Built:
    y = np.where(rng.random(600) < 0.4, rng.normal(-1.5, 0.6, 600), rng.normal(1.5, 0.6, 600))
    with people(600) as model:
        weight = pm.Beta("weight", 2, 2)
        mu = pm.Normal("mu", [-1.5, 1.5], 0.7, shape=2)
        sigma = pm.Gamma("sigma", 6, 9)
        both = pm.math.stack([weight, 1 - weight])
        pm.NormalMixture("y", w=both, mu=mu, sigma=sigma, observed=y, dims="person")
    return with_domain(model, y=(-5, 5))


@ordinary
def radon_by_county(rng: Random) -> Built:
    county, floor = rng.integers(0, 20, 900), rng.integers(0, 2, 900)
    y = 1.3 + 0.3 * rng.normal(size=20)[county] - 0.7 * floor + rng.normal(0, 0.75, 900)
    with people(900) as model:
        where = pm.Data("county", county, dims="person")
        ground = pm.Data("floor", floor, dims="person")
        mean, spread = pm.Normal("mean", 1, 1), pm.HalfNormal("spread", 0.5)
        a = mean + spread * pm.Normal("z", 0, 1, shape=20)
        eta = a[where] + pm.Normal("b", 0, 1) * ground
        pm.Normal("y", eta, pm.HalfNormal("sigma", 1), observed=y, dims="person")
    return with_domain(model, county=pmp.Categories(range(20)), floor={0, 1}, y=(-3, 5))


@ordinary
def hierarchical_logistic(rng: Random) -> Built:
    school = rng.integers(0, 8, 1500)
    y = rng.binomial(1, 1 / (1 + np.exp(-(0.2 + 0.6 * rng.normal(size=8)[school]))))
    with people(1500) as model:
        where = pm.Data("school", school, dims="person")
        mean, spread = pm.Normal("mean", 0, 1), pm.HalfNormal("spread", 1)
        eta = mean + spread * pm.Normal("z", 0, 1, shape=8)
        pm.Bernoulli("y", logit_p=eta[where], observed=y, dims="person")
    return with_domain(model, school=pmp.Categories(range(8)))


@ordinary
def correlated_pairs(rng: Random) -> Built:
    y = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 500)
    with people(500) as model:
        sd = pm.LogNormal.dist(0, 0.5, size=2)
        cholesky, _, _ = pm.LKJCholeskyCov("cov", n=2, eta=2, sd_dist=sd)
        mu = pm.Normal("mu", 0, 1, shape=2)
        pm.MvNormal("y", mu, chol=cholesky, observed=y, dims=("person", "entry"))
    return with_domain(model, y=(-4, 4))


@ordinary
def ar_1_of_persons(rng: Random) -> Built:
    y = np.zeros((200, 6))
    y[:, 0] = rng.normal(size=200)
    for t in range(1, 6):
        y[:, t] = 0.6 * y[:, t - 1] + 0.8 * rng.normal(size=200)
    with people(200) as model:
        rho = pm.Uniform("rho", -0.95, 0.95)
        sigma = pm.LogNormal("sigma", 0, 0.5)
        start = pm.Normal.dist(0, 1)
        pm.AR("y", [rho], sigma=sigma, init_dist=start, observed=y, dims=("person", "wave"))
    return with_domain(model, y=(-5, 5))


@ordinary
def absolute_loss(rng: Random) -> Built:
    y = 0.7 + rng.laplace(size=500)
    with people(500) as model:
        data = pm.Data("y", y, dims="person")
        pm.Potential("loss", -abs(data - pm.Normal("mu", 0, 2)), dims="person")
    return with_domain(model, y=(-6, 6))


TUNE, STEPS = 500, 500


def moments(model: pm.Model, names: list[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and standard deviations of all parameters, by a short run of NUTS."""
    with model:
        chain = pm.sample(STEPS, tune=TUNE, chains=1, cores=1, progressbar=False,
                          random_seed=seed, compute_convergence_checks=False)  # fmt: skip
    return flat_moments(chain.posterior, names)


def flat_moments(posterior: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations over draws, parameters in one vector."""
    draws = [posterior[k].values.reshape(posterior[k].sizes["draw"], -1) for k in names]
    table = np.concatenate(draws, axis=1)
    return table.mean(axis=0), table.std(axis=0, ddof=1) if len(table) > 1 else np.nan


AUTO, PLAIN = {"release": "auto"}, {"draws": 10, "clip": False}
"""Keywords of `calibrate` beside the budget."""


def measured(name: str, words: dict[str, Any]) -> dict[str, Any]:
    """What was chosen for one model, and what it was worth."""
    model, declared = MODELS[name](np.random.default_rng(1))
    private = pmp.privatize(model, **declared)
    names = [rv.name for rv in private.base.free_RVs]
    start = time.process_time()
    try:
        plan = pmp.calibrate(private, **BUDGET, **words)
    except pmp.errors.PymcPrivateError as refused:
        return {"refused": refused.problem, "seconds": time.process_time() - start}
    planned = time.process_time()
    if words is PLAIN:
        told = {"removed": plan.information, "verdict": plan.verdict, "release": "10 draws"}
        return {**told, "error": np.nan, "width": np.nan, "seconds": planned - start, "then": 0.0}
    if isinstance(plan, pmp.SummaryPlan):
        chosen = f"summary ({plan.method})"
        found = moments(pmp.summarize(plan, random_seed=1).model(), names, 2)
    else:
        chosen = f"{plan.draws} draw{'s' * (plan.draws > 1)}{', clip' * plan.chosen.clipped}"
        release = pmp.sample(plan, random_seed=1, progressbar=False, accept_prior=True)
        found = flat_moments(release.posterior, names)
    done = time.process_time()
    exact = moments(private.model, names, 3)
    return {
        "release": chosen,
        "removed": plan.information,
        "verdict": plan.verdict,
        "error": float(np.sqrt(np.mean(((found[0] - exact[0]) / exact[1]) ** 2))),
        "width": float(np.exp(np.mean(np.log(found[1] / exact[1])))),
        "seconds": planned - start,
        "then": done - planned,
    }


def sampling(name: str) -> str:
    """The line of one model's summary: seconds of the release and of `pm.sample`."""
    model, declared = MODELS[name](np.random.default_rng(1))
    private = pmp.privatize(model, **declared)
    try:
        plan = pmp.calibrate(private, **BUDGET, release="summary")
    except pmp.errors.PymcPrivateError:
        return f"{name:24s} no summary"
    marks = [time.process_time()]
    summary = pmp.summarize(plan, ledger=pmp.Ledger(**BUDGET), progressbar=False)
    marks.append(time.process_time())
    with summary.model():
        pm.sample(chains=4, cores=1, progressbar=False, compute_convergence_checks=False)
    marks.append(time.process_time())
    release, steps = np.diff(marks)
    mechanism, size = plan.mechanism, plan.mechanism.parameters.size
    many = getattr(mechanism, "has_many_groups", False)
    expected = sampling_time(size, getattr(mechanism, "nodes", 0), many)
    return f"{name:24s} {size:10d} {release:9.1f} {steps:9.1f} {expected}"


def line_of(name: str, found: dict[str, Any]) -> str:
    """The line of one model."""
    if "refused" in found:
        return f"{name:24s} refused: {found['refused']} {found['seconds']:7.1f}"
    return (
        f"{name:24s} {found['release']:18s} {found['removed']:7.3f} {found['verdict'] or '-':12s} "
        f"{found['error']:6.2f} {found['width']:6.2f} {found['seconds']:7.1f} {found['then']:7.1f}"
    )


def stored(path: Path | None) -> dict[str, dict[str, Any]]:
    """The models that a file holds."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return {one["model"]: one for one in map(json.loads, lines)}


def main() -> None:
    """Measure the models that the file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--save", type=Path)
    parser.add_argument("--plain", action="store_true", help="plans alone, ten draws as it is")
    parser.add_argument("--sampling", action="store_true", help="seconds of pm.sample")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.sampling:
        print(f"{'model':24s} {'parameters':>10s} {'summary':>9s} {'pm.sample':>9s} expected")
        for name in given.names or MODELS:
            print(sampling(name), flush=True)
        return
    print(f"{'model':24s} {'release':18s} {'removed':>7s} {'verdict':12s} {'error':>6s} "
          f"{'width':>6s} {'seconds':>7s} {'then':>7s}")  # fmt: skip
    known, seconds = stored(given.save), []
    for name in given.names or MODELS:
        if name not in known:
            known[name] = measured(name, PLAIN if given.plain else AUTO)
            if given.save is not None:
                with given.save.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"model": name, **known[name]}) + "\n")
        seconds.append(known[name]["seconds"])
        print(line_of(name, known[name]), flush=True)
    print(f"seconds of calibrate: median {np.median(seconds):.1f}, worst {max(seconds):.1f}")


if __name__ == "__main__":
    main()
