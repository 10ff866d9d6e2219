"""Hierarchies of real records, summaries and ten draws: distance from the records' posterior.

Run ``python -m benchmarks.noise_aware_real_groups [releases] [epsilons] [part of a name] ...``.
One data set is held fixed and released again and again at (epsilon, delta = 1e-6), one record
replaced, labels of groups private. Error: root mean square distance of posterior means from that of
the records, in standard deviations of the latter, of effects of groups and of all other parameters;
width: median ratio of lengths of 90% intervals; held: share of 90% intervals that hold the
posterior mean of the records. Ten draws are of the tempered posterior of ``calibrate(draws=10)``,
by NUTS as an ideal sampler (none with a proof fits), with their 5% and 95% quantiles for an
interval. ``--simulated``
behind the names takes data sets of `benchmarks.noise_aware_hierarchies` instead, for example
``4 1 normal:10:1000:private --simulated``.

Covariates lie in [-1, 1] by ranges that follow from what they mean. All posteriors are by NUTS (two
chains of 300 draws). The sets of UCI are read as `benchmarks.uci` finds them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

import pymc_private as pmp
from benchmarks.noise_aware_hierarchies import (
    DELTA,
    SCALE_PRIOR,
    Posterior,
    Setting,
    by_nuts,
    nuts_points,
)
from benchmarks.noise_aware_real import between, label
from benchmarks.uci import load
from pymc_private.errors import PymcPrivateError
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.parameters import coordinate_names

DRAWS, REPEATED = 10, 20
"""Draws of one release, and how often they are drawn."""
STATED = 1e-9
"""Distance of NUTS from the posterior: no sampler with a proof fits these models."""
EVEN_FEW = 100.0
"""An epsilon at which few records are enough to plan with."""
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Groups:
    """A hierarchy of one set: its groups, covariates, outcome and family."""

    data: str
    group: str
    covariates: Callable[[pd.DataFrame], Columns]
    outcome: Callable[[pd.DataFrame], np.ndarray]
    family: str = "logistic"
    ends: tuple[float, float] | None = None
    read: Callable[[str], pd.DataFrame] = load
    public: bool = False

    def private(self) -> pmp.PrivateModel:
        """The model with its records and domains."""
        table = self.read(self.data)
        kinds = sorted(table[self.group].astype(str).unique())
        g = table[self.group].astype(str).map({kind: k for k, kind in enumerate(kinds)}).to_numpy()
        x = self.covariates(table)
        y = np.asarray(self.outcome(table), float)
        y = y if self.ends is None else np.clip(y, *self.ends)
        flags = [key for key, v in x.items() if set(np.unique(v)) <= {-1.0, 1.0}]
        numbers = [key for key in x if key not in flags]
        order = [*numbers, *flags]
        with pm.Model(coords={"row": np.arange(len(y)), "group": kinds, "x": order}) as model:
            mean, sd = pm.Normal("mean", 0.0, 2.0), pm.LogNormal("sd", *SCALE_PRIOR)
            effect = pm.Normal("effect", mean, sd, dims="group")
            slopes = pm.Normal("slopes", 0.0, 1.0, dims="x")
            data = pm.Data("X", np.column_stack([x[key] for key in numbers]), dims=("row", None))
            eta = effect[pm.Data("g", g, dims="row")] + data @ slopes[: len(numbers)]
            for k, key in enumerate(flags, len(numbers)):
                eta = eta + slopes[k] * pm.Data(key, x[key], dims="row")
            self._observe(eta, y)
        domain: dict[str, Any] = {"X": (-1.0, 1.0)}
        domain |= {} if self.public else {"g": pmp.Categories(range(len(kinds)))}
        domain |= {key: {-1.0, 1.0} for key in flags}
        domain |= {} if self.ends is None else {"y": self.ends}
        public = ["g"] if self.public else []
        return pmp.privatize(model, records="row", domain=domain, public=public)

    def _observe(self, eta: Any, y: np.ndarray) -> None:
        if self.family == "normal":
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
        elif self.family == "negative binomial":
            alpha = pm.LogNormal("alpha", 0.0, 0.7)
            whole = y.astype(int)
            pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=alpha, observed=whole, dims="row")
        else:
            pm.Bernoulli("y", logit_p=eta, observed=y.astype(int), dims="row")


def age_and_school(t: pd.DataFrame) -> Columns:
    """Of the census."""
    return {"age": between(t.age, 17, 90), "education": between(t.education_num, 1, 16)}


def visit(t: pd.DataFrame) -> Columns:
    """Of a shop's visits."""
    known = np.where(t.VisitorType == "Returning_Visitor", 1.0, -1.0)
    return {"special day": between(t.SpecialDay, 0, 1), "returning": known}


def age(low: float, t: pd.DataFrame) -> Columns:
    """Of persons from an age on."""
    return {"age": between(t.age, low, 100)}


REAL = {
    "census, income by occupation": Groups("adult", "occupation", age_and_school, label()),
    "census, hours by occupation": Groups(
        "adult", "occupation", age_and_school, lambda t: (t.hours_per_week - 40) / 10, "normal",
        (-4.0, 6.0),
    ),
    "census, income by country": Groups("adult", "native_country", age_and_school, label()),
    "bank, subscribed by job": Groups("bank", "job", partial(age, 17), label()),
    "shop, purchase by source": Groups("shopper", "TrafficType", visit, label()),
    "shop, pages by region": Groups(
        "shopper", "Region", visit, lambda t: t.Administrative, "negative binomial", (0.0, 50.0)
    ),
}  # fmt: skip


def simulated(text: str) -> pmp.PrivateModel:
    """A hierarchy with simulated records."""
    setting = Setting.of(text)
    rng = np.random.default_rng(8)
    effects = 0.3 + 0.5 * rng.standard_normal(setting.groups)
    at = {"effect": effects, "sigma": 1.0, "alpha": 2.0, "slope": np.full(setting.covariates, 0.4)}
    records = setting.records(at, rng)
    stand_in = setting.private()
    domain = {s.name: s.domain for s in stand_in.sources}
    public = ["g"] if setting.labels == "public" else []
    model = setting.model(records)
    return pmp.privatize(model, records="row", domain=domain, public=public)


def records_of(private: pmp.PrivateModel) -> Columns:
    """The records that the model holds."""
    return {s.name: np.moveaxis(np.asarray(s.values(), float), s.axis, 0) for s in private.sources}


def summaries(
    private: pmp.PrivateModel, epsilon: float, releases: int, method: str
) -> tuple[list[Posterior], int]:
    """Posteriors of repeated summaries, and how many of them would be refused."""
    plan = make_summary_plan(private, epsilon=epsilon, delta=DELTA, method=method)
    mechanism, records, refused, found = plan.mechanism, records_of(private), 0, []
    for k in range(releases):
        noise = SimulatedNoise(np.random.default_rng([k, int(10 * epsilon)]), private.neighbors, 1)
        released = mechanism.release(records, noise)
        refused += any(caution.refuse for caution in mechanism.warnings(released))
        model = noise_aware_model(private, mechanism, released)
        found.append(by_nuts(model, mechanism.parameters, k))
    return found, refused


def ten_draws(private: pmp.PrivateModel, parameters: Any, epsilon: float) -> Iterator[Posterior]:
    """Means and intervals of ten draws of the tempered posterior, again and again."""
    with contextlib.redirect_stdout(io.StringIO()):
        plan = pmp.calibrate(
            private, epsilon=epsilon, delta=DELTA, draws=DRAWS, sampler=pmp.samplers.Nuts(tv=STATED)
        )
    points = nuts_points(plan.private.model, parameters, 0)
    rng = np.random.default_rng(1)
    for _ in range(REPEATED):
        ten = points[rng.choice(len(points), DRAWS, replace=False)]
        ends = np.quantile(ten, (0.05, 0.25, 0.75, 0.95), axis=0)
        yield ten.mean(axis=0), ten.std(axis=0), ends, float(DRAWS)


def line_of(exact: Posterior, found: list[Posterior], names: tuple[str, ...]) -> str:
    """Errors of effects and of the rest, what is farthest off, width and held shares."""
    effects = np.array([name.startswith("effect") for name in names])
    shift = np.array([(one[0] - exact[0]) / exact[1] for one in found])
    squares = (
        np.where(k, shift**2, 0.0).sum(axis=1) / max(k.sum(), 1) for k in (effects, ~effects)
    )
    parts = [np.median(np.sqrt(each)) for each in squares]
    far = int(np.abs(np.median(shift, axis=0)).argmax())
    width = np.array([(one[2][3] - one[2][0]) / (exact[2][3] - exact[2][0]) for one in found])
    held = np.array([(one[2][0] <= exact[0]) & (exact[0] <= one[2][3]) for one in found])
    each = held.mean(axis=1)
    return (
        f"error: effects {parts[0]:.2f}, others {parts[1]:.2f} (farthest: {names[far]} "
        f"{np.median(shift, axis=0)[far]:.1f}); width {np.median(width):.2f}; held "
        f"{held.mean():.3f} ± {each.std() / np.sqrt(len(each)):.3f} in {len(found)}"
    )


def print_set(name: str, private: pmp.PrivateModel, given: Any, method: str = "scores") -> None:
    """Lines of one data set."""
    try:
        at_large = make_summary_plan(private, epsilon=EVEN_FEW, delta=DELTA, method=method)
    except PymcPrivateError as error:
        print(f"{name}: nothing is released, {error}", flush=True)
        return
    parameters = at_large.mechanism.parameters
    names = coordinate_names(parameters)
    exact = by_nuts(private.base, parameters, 0)
    for epsilon in map(float, given.epsilons.split(",")):
        start = time.process_time()
        try:
            found, refused = summaries(private, epsilon, given.releases, method)
        except PymcPrivateError as error:
            print(f"{name}, n {private.n}, epsilon {epsilon:g}: {error}", flush=True)
            continue
        seconds = (time.process_time() - start) / max(1, given.releases)
        what = f"{name}, n {private.n}, {len(names)} parameters, epsilon {epsilon:g}"
        told = f"refused {refused}; {seconds:.0f} s"
        print(f"{what}: {line_of(exact, found, names)}; {told}", flush=True)
        try:
            draws = list(ten_draws(private, parameters, epsilon))
            print(f"    ten draws: {line_of(exact, draws, names)}", flush=True)
        except PymcPrivateError as error:
            print(f"    no draws: {str(error).splitlines()[0]}", flush=True)


def asked() -> Any:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("releases", nargs="?", type=int, default=8)
    parser.add_argument("epsilons", nargs="?", default="1")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--simulated", action="store_true")
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    return parser.parse_args()


def main() -> None:
    """Print the lines."""
    given = asked()
    if given.simulated:
        for text in given.names:
            print_set(text, simulated(text), given)
        return
    for name, groups in REAL.items():
        if not given.names or any(part in name for part in given.names):
            print_set(name, groups.private(), given)


if __name__ == "__main__":
    main()
