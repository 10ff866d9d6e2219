"""Noisy summaries of hierarchies: error, width and coverage of their posteriors.

Run ``python -m benchmarks.noise_aware_hierarchies [simulations] [epsilon] [setting] ...``, a
setting being ``family:groups:records:labels``, for example ``poisson:10:1000:public``. Labels are
private or public. Others are private too, and the groups' shares differ: ``unequal`` ones rise from
one to the number of groups, ``steep`` ones double from group to group, and with ``one`` the first
group has three quarters of the records; ``one-reference`` has a plan that knows public rows like
them. Covariates are uniform on [-1, 1] and one, unless the
setting goes on with ``:normal``, ``:skewed``, ``:binary`` ``:grouped`` (one value a group) or
``:known`` (a public array of the groups) and, behind that, their number:
``normal:30:3000:private:skewed:3``. In each simulation parameters come from the prior and records
from the model. Both posteriors are found by importance sampling, which is poor beyond some twenty
groups, or with ``--nuts`` by `pm.sample`: of the records two chains of 300 draws after 500 steps of
tuning, of the summary 400 draws, more where they are hardly independent. Only the first
``--compared`` data sets (default: all) have a posterior of the records, and with it error and
width. ``--seed`` gives other data sets; ``--save FILE`` adds a JSON line for each simulation and
goes on where the file stopped. ``python -m benchmarks.noise_aware_coverage --hierarchies FILE``
adds such a file to the stored table.

Error: root mean square distance of posterior means, in non-private posterior standard deviations,
and its median over simulations; width: median ratio of lengths of 90% intervals; coverage: of 90%
intervals, with a standard error over simulations. Effects of groups, what is above them, and what
all records share are told apart. The effective draws of the worst posterior are printed too.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from benchmarks.noise_aware import add_line, missing, non_private, posterior
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.nuts_posterior import nuts_draws
from pymc_private.summaries.parameters import coordinate_names

DELTA, SEED = 1e-6, 12
OPTIONS: dict[str, Any] = {"draws": 300, "tune": 500, "chains": 2, "cores": 1, "progressbar": False}
FAMILIES = ("poisson", "normal", "negbin", "logistic")
SETTINGS = tuple(f"{family}:10:1000:{labels}" for labels in ("private", "public")
                 for family in FAMILIES)  # fmt: skip
SCALE_PRIOR = (-0.7, 0.5)
"""Mean and standard deviation of the logarithm of the effects' standard deviation."""
MOST_COUNT, WIDEST = 300.0, 15.0
"""Declared ends of counts and of real outcomes."""
ENDS = (0.05, 0.25, 0.75, 0.95)
"""Ends of intervals of 90% and, inside, of 50%."""
REFERENCE = "-reference"
"""Behind labels: the plan is made with public rows that are spread as the records are."""
FEW_EFFECTIVE, MORE_DRAWS = 150.0, 12_000
Posterior = tuple[np.ndarray, np.ndarray, np.ndarray, float]
"""Means and standard deviations (p,), ends of intervals (4, p), and effective draws."""


@dataclass(frozen=True)
class Setting:
    """A family, numbers of groups and records, what is known of labels, and the covariates."""

    family: str
    groups: int
    n: int
    labels: str = "private"
    covariate: str = "uniform"
    covariates: int = 1

    @classmethod
    def of(cls, text: str) -> Setting:
        """A setting as it is written."""
        family, groups, n, *words = text.split(":")
        count = (int(words.pop()),) if len(words) > 2 else ()
        return cls(family, int(groups), int(n), *words, *count)

    @property
    def text(self) -> str:
        """A setting as it is written."""
        plain = f"{self.family}:{self.groups}:{self.n}:{self.labels}"
        if self.covariates > 1:
            return f"{plain}:{self.covariate}:{self.covariates}"
        return plain if self.covariate == "uniform" else f"{plain}:{self.covariate}"

    def records(self, at: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Records of one data set; public labels are the same in all of them."""
        own = np.random.default_rng(0) if self.labels == "public" else rng
        group = own.choice(self.groups, self.n, p=self._shares())
        x = self._covariates(rng)
        if self.covariate == "grouped":
            x = rng.uniform(-1, 1, (self.groups, *x.shape[1:]))[group]
        if self.covariate == "known":
            x = self.known()[group]
        moved = x.reshape(self.n, -1) @ np.ravel(at["slope"])
        eta = np.asarray(at["effect"])[group] + moved
        y = self._outcomes(eta, at, rng)
        return {"g": group, "y": y} | ({} if self.covariate == "known" else {"x": x})

    def reference(self) -> dict[str, np.ndarray] | None:
        """Other people's records without outcomes, where the plan is made with such public rows."""
        if not self.labels.endswith(REFERENCE):
            return None
        rows = self.records(self.stand_in(), np.random.default_rng(99))
        return {name: rows[name] for name in rows if name != "y"}

    def stand_in(self) -> dict[str, Any]:
        """Parameters of records that stand in for those of all data sets."""
        effect, slope = np.zeros(self.groups), np.full(self.covariates, 0.5)
        return {"effect": effect, "sigma": 1.0, "alpha": 2.0, "slope": slope}

    def known(self) -> np.ndarray:
        """What is publicly known of each group."""
        return np.random.default_rng(5).uniform(-1, 1, self.groups)

    def _covariates(self, rng: np.random.Generator) -> np.ndarray:
        """Covariates within [-1, 1], whatever their distribution."""
        shape = (self.n,) if self.covariates == 1 else (self.n, self.covariates)
        if self.covariate == "normal":
            return np.clip(rng.normal(0, 0.4, shape), -1, 1)
        if self.covariate == "skewed":
            return np.clip(rng.exponential(0.4, shape) - 1, -1, 1)
        if self.covariate == "binary":
            return np.where(rng.random(shape) < 0.3, 1.0, -1.0)
        return rng.uniform(-1, 1, shape)

    def _shares(self) -> np.ndarray:
        """Shares of the groups in the records."""
        share, labels = np.ones(self.groups), self.labels.removesuffix(REFERENCE)
        if labels == "unequal":
            share = np.arange(1.0, self.groups + 1)
        elif labels == "steep":
            share = 2.0 ** np.arange(self.groups)
        elif labels == "one":
            share[0] = 3.0 * (self.groups - 1)
        return share / share.sum()

    def _outcomes(self, eta: np.ndarray, at: dict[str, Any], rng: Any) -> np.ndarray:
        mean = np.exp(np.minimum(eta, 20.0))
        if self.family == "logistic":
            return 1.0 * (rng.random(self.n) < 1.0 / (1.0 + np.exp(-eta)))
        if self.family == "normal":
            noise = float(at["sigma"]) * rng.standard_normal(self.n)
            return np.clip(eta + noise, -WIDEST, WIDEST)
        if self.family == "negbin":
            alpha = float(at["alpha"])
            mean = rng.gamma(alpha, mean / alpha)
        return np.clip(1.0 * rng.poisson(mean), 0.0, MOST_COUNT)

    def model(self, records: dict[str, np.ndarray]) -> pm.Model:
        """A hierarchy that holds these records."""
        coords = {"row": np.arange(self.n), "group": np.arange(self.groups)}
        with pm.Model(coords=coords) as model:
            mean, sd = pm.Normal("mean"), pm.LogNormal("sd", *SCALE_PRIOR)
            effect = pm.Normal("effect", mean, sd, dims="group")
            slope = pm.Normal("slope", shape=() if self.covariates == 1 else self.covariates)
            g = pm.Data("g", records["g"])
            if self.covariate == "known":
                x = pm.Data("known", self.known(), dims="group")[g]
            else:
                x = pm.Data("x", records["x"])
            eta = effect[g] + (slope * x if self.covariates == 1 else x @ slope)
            y = records["y"]
            whole = {"observed": y.astype(int), "dims": "row"}
            if self.family == "logistic":
                pm.Bernoulli("y", logit_p=eta, **whole)
            elif self.family == "poisson":
                pm.Poisson("y", pm.math.exp(eta), **whole)
            elif self.family == "negbin":
                alpha = pm.LogNormal("alpha", 0.7, 0.5)
                pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=alpha, **whole)
            else:
                pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
        return model

    def private(self) -> pmp.PrivateModel:
        """The model with its domains, of records that stand in for those of all data sets."""
        model = self.model(self.records(self.stand_in(), np.random.default_rng(0)))
        domain: dict[str, Any] = {"x": {-1, 1} if self.covariate == "binary" else (-1.0, 1.0)}
        public = ["g"] if self.labels == "public" else []
        if self.covariate == "known":
            domain, public = {}, [*public, "known"]
        domain |= {} if "g" in public else {"g": pmp.Categories(range(self.groups))}
        counts = {"y": (0.0, MOST_COUNT)}
        domain |= {"poisson": counts, "negbin": counts, "normal": {"y": (-WIDEST, WIDEST)}}.get(
            self.family, {}
        )
        return pmp.privatize(model, records="row", domain=domain, public=public)


def nuts_points(model: pm.Model, parameters: Any, seed: int) -> np.ndarray:
    """Draws by NUTS in unconstrained coordinates, shape (draws, p)."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace: Any = pm.sample(
            **OPTIONS, random_seed=seed, compute_convergence_checks=False,
            return_inferencedata=False,
        )  # fmt: skip
    count = OPTIONS["draws"] * OPTIONS["chains"]
    natural = {
        name: np.reshape(trace.get_values(name, combine=True), (count, *shape))
        for name, shape in parameters.shapes.items()
    }
    return np.asarray(parameters.unconstrained(natural))


def by_nuts(model: pm.Model, parameters: Any, seed: int) -> Posterior:
    """What NUTS finds of a model, in unconstrained coordinates."""
    draws = nuts_points(model, parameters, seed)
    ends = np.quantile(draws, ENDS, axis=0)
    return draws.mean(axis=0), draws.std(axis=0), ends, float(len(draws))


def summary_draws(likelihood: Any, prior: Any, start: Any, rng: Any) -> WeightedDraws:
    """Weighted draws of the posterior of a summary, anew from its center where few count."""
    found = posterior(likelihood, prior, start, rng)
    if found.effective > FEW_EFFECTIVE:
        return found
    more = importance_draws(lambda at: likelihood(at) + prior(at), *start, rng, MORE_DRAWS)
    return max(found, more, key=lambda each: each.effective)


def by_importance(found: WeightedDraws) -> Posterior:
    """What draws, weighted or not, tell."""
    return found.mean, found.sd, found.quantiles(ENDS), found.effective


def measured(setting: Setting, given: Any) -> None:
    """Print what a setting gives, after each simulation."""
    epsilon, simulations, seed, save = given.epsilon, given.simulations, given.seed, given.save
    private = setting.private()
    plan = make_summary_plan(
        private, epsilon=epsilon, delta=DELTA, method="scores", reference=setting.reference()
    )
    mechanism, rows = plan.mechanism, list[dict[str, Any]]()
    parameters, density = mechanism.parameters, RecordDensity(private)
    print(f"{setting} at epsilon {epsilon:g}: usable {mechanism.usable:.2f}", flush=True)
    wanted = list(range(simulations))
    if save:
        wanted = missing(save, setting.text, epsilon, simulations, seed)
    draws = parameters.draws(simulations, seed)
    for k in wanted:
        theta = draws[k]
        rng, began = np.random.default_rng([seed, k]), time.process_time()
        at = {name: v[0] for name, v in parameters.natural(theta[None]).items()}
        records = setting.records(at, rng)
        known = {name: v for name, v in records.items() if name != "g" or not density.public_rows}
        released = mechanism.release(known, SimulatedNoise(rng, private.neighbors, 1))
        if given.nuts:
            found = by_importance(nuts_draws(private, mechanism, released, rng))
        else:
            likelihood, start = mechanism.log_likelihood(released), mechanism.start(released)
            found = by_importance(summary_draws(likelihood, parameters.log_prior, start, rng))
        exact = None
        if k < given.compared:
            exact = (by_nuts(setting.model(records), parameters, k) if given.nuts else
                     by_importance(non_private(density, known, theta, rng)))  # fmt: skip
        refused = any(caution.refuse for caution in mechanism.warnings(released))
        rows.append(compared(theta, found, exact) | {"refused": refused})
        rows[-1]["hidden"] = mechanism.told(released)[1]
        print(f"{lines_of(rows, coordinate_names(parameters))} "
              f"({time.process_time() - began:.0f} s)", flush=True)  # fmt: skip
        if save:
            one = {"method": "scores", "simulation": k} | rows[-1]
            add_line(save, setting.text, epsilon, seed, one)


def compared(theta: np.ndarray, found: Posterior, exact: Posterior | None) -> dict[str, Any]:
    """One simulation: what was held of each coordinate; errors and widths, if there is an exact."""
    low, first, third, high = found[2]
    plain = {
        "outer": ((low <= theta) & (theta <= high)).tolist(),
        "inner": ((first <= theta) & (theta <= third)).tolist(),
        "effective": found[3] if exact is None else min(found[3], exact[3]),
    }
    if exact is None:
        return plain
    return plain | {
        "error": ((found[0] - exact[0]) / exact[1]).tolist(),
        "width": ((high - low) / (exact[2][3] - exact[2][0])).tolist(),
    }


def lines_of(rows: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    """Error (median) / width / coverage of each variable over the simulations so far."""
    kinds = [name.split("[")[0] for name in names]
    parts = []
    for kind in dict.fromkeys(kinds):
        mine = np.array([name == kind for name in kinds])
        errors, widths, held = (
            np.array([row[key] for row in rows if key in row] or [np.full(len(mine), np.nan)])[
                :, mine
            ]
            for key in ("error", "width", "outer")
        )
        middle = np.median(np.sqrt(np.mean(errors**2, axis=1)))
        spread = held.mean(axis=1).std() / np.sqrt(len(rows))
        parts.append(
            f"{kind} {np.sqrt(np.mean(errors**2)):.2f} ({middle:.2f})/{np.median(widths):.2f}/"
            f"{held.mean():.2f}±{spread:.2f}"
        )
    refused = sum(row["refused"] for row in rows)
    hidden = sum(bool(row["hidden"]) for row in rows)
    least = min(row["effective"] for row in rows)
    return (
        f"{len(rows)} simulations: {', '.join(parts)}, refused {refused}, "
        f"with hidden groups {hidden}, effective {least:.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("simulations", nargs="?", type=int, default=20)
    parser.add_argument("epsilon", nargs="?", type=float, default=1.0)
    parser.add_argument("settings", nargs="*", default=SETTINGS)
    parser.add_argument("--nuts", action="store_true")
    parser.add_argument("--compared", type=float, default=np.inf)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for text in given.settings:
        measured(Setting.of(text), given)


if __name__ == "__main__":
    main()
