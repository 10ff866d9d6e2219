"""False alarms and power of score tests on summarized models.

Run ``python -m benchmarks.criticism [data sets] [part of a name] ...``, for example
``python -m benchmarks.criticism 40 poisson``. In each simulation records come from a fitted family,
or from one with a planted misfit, at one parameter vector drawn from the prior around moderate
effects; a summary at `EPSILON` is released with simulated noise, and each departure is checked at
`CHECK_EPSILON` alone. Predicted power is what the plan of that data set says at the planted size.

With ``--save FILE`` each data set is added to a file of JSON lines as it ends, and those that the
file already holds are not run again; ``--table FILE`` prints what such files hold.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.criticism.directions import OutcomesAtRows, named_direction
from pymc_private.criticism.fitted_summary import fitted_summary
from pymc_private.criticism.planned_test import planned_test
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu

N, EPSILON, CHECK_EPSILON, DELTA = 5000, 1.0, 0.5, 1e-6
SLOPES, SPREAD, SD = np.array([0.3, 0.8, -0.6]), 0.15, 0.7
"""Coefficients of data sets are normal around `SLOPES`."""
LEVELS = (0.05, 0.10)
Rows = dict[str, np.ndarray]
Generator = np.random.Generator


@dataclass(frozen=True)
class Misfit:
    """Records that the fitted model does not have.

    `draw(eta, rows, rng)` gives outcomes; `departure` is the check that should see them, `size` the
    size that they have in it, or None where there is none.
    """

    departure: str
    size: float | None
    draw: Callable[[np.ndarray, Rows, Generator], np.ndarray]


@dataclass(frozen=True)
class Family:
    """A fitted family: its likelihood, departures to check, records of its own and misfits."""

    observe: Callable[[Any, np.ndarray], Any]
    bounds: tuple[float, float] | None
    departures: tuple[str, ...]
    draw: Callable[[np.ndarray, Rows, Generator], np.ndarray]
    misfits: dict[str, Misfit]


def bernoulli(p: np.ndarray, rng: Generator) -> np.ndarray:
    return (rng.random(len(p)) < p).astype(int)


def logistic(eta: np.ndarray, rng: Generator) -> np.ndarray:
    return bernoulli(1.0 / (1.0 + np.exp(-eta)), rng)


def poisson(eta: np.ndarray, rng: Generator) -> np.ndarray:
    return np.minimum(rng.poisson(np.exp(eta)), 60)


def normal(eta: np.ndarray, scale: Any, rng: Generator) -> np.ndarray:
    return np.clip(eta + SD * scale * rng.standard_normal(len(eta)), -12, 12)


FAMILIES = {
    "logistic": Family(
        lambda eta, y: pm.Bernoulli("y", logit_p=eta, observed=y),
        None,
        ("link", "interaction(x, z)", "quadratic(x)"),
        lambda eta, rows, rng: logistic(eta, rng),
        {
            "cloglog": Misfit("link", None, lambda eta, rows, rng: bernoulli(
                -np.expm1(-np.exp(eta - 0.3)), rng)),
            "interaction .5": Misfit("interaction(x, z)", 0.5, lambda eta, rows, rng: logistic(
                eta + 0.5 * rows["x"] * rows["z"], rng)),
            "quadratic .5": Misfit("quadratic(x)", 0.5, lambda eta, rows, rng: logistic(
                eta + 0.5 * rows["x"] ** 2, rng)),
        },
    ),
    "poisson": Family(
        lambda eta, y: pm.Poisson("y", pm.math.exp(eta), observed=y),
        (0, 60),
        ("dispersion", "interaction(x, z)", "quadratic(x)"),
        lambda eta, rows, rng: poisson(eta, rng),
        {
            "negative binomial, alpha 10": Misfit("dispersion", 0.1, lambda eta, rows, rng: poisson(
                eta + np.log(rng.gamma(10, 0.1, len(eta))), rng)),
            "interaction .2": Misfit("interaction(x, z)", 0.2, lambda eta, rows, rng: poisson(
                eta + 0.2 * rows["x"] * rows["z"], rng)),
        },
    ),
    "normal": Family(
        lambda eta, y: pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y),
        (-12, 12),
        ("tails", "heteroscedasticity(x)", "interaction(x, z)"),
        lambda eta, rows, rng: normal(eta, 1.0, rng),
        {
            "Student t, 8 degrees": Misfit("tails", None, lambda eta, rows, rng: np.clip(
                eta + SD * rng.standard_t(8, len(eta)), -12, 12)),
            "log sd + .15 x": Misfit(
                "heteroscedasticity(x)", 0.15,
                lambda eta, rows, rng: normal(eta, np.exp(0.15 * rows["x"]), rng)),
        },
    ),
}  # fmt: skip
COVARIATES: dict[str, Callable[[Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "skewed": lambda rng, n: 2.0 * rng.beta(1.5, 4.0, n) - 1.0,
}
"""Distributions of the covariates; the plan takes them as uniform and moves them by two moments."""


class CheckStudy:
    """One family, its mechanism made once.

    Parameters
    ----------
    family : str
    n : int
    covariates : str
    """

    def __init__(self, family: str, n: int = N, covariates: str = "uniform") -> None:
        self.name, self.family, self.n = family, FAMILIES[family], n
        self.covariates = COVARIATES[covariates]
        rng = np.random.default_rng(0)
        rows = {k: rng.uniform(-1, 1, n) for k in "xz"}
        y = self.family.draw(np.zeros(n), rows, rng)
        with pm.Model() as model:
            x, z = (pm.Data(k, rows[k]) for k in "xz")
            slopes = pm.Normal("slopes", 0, 1, shape=3)
            self.family.observe(slopes[0] + slopes[1] * x + slopes[2] * z, y)
        domain: dict[str, Any] = {"x": (-1, 1), "z": (-1, 1)}
        domain |= {} if self.family.bounds is None else {"y": self.family.bounds}
        self.private = pmp.privatize(model, records=dict.fromkeys("xzy", 0), domain=domain)
        self.mechanism: Any = make_summary_plan(
            self.private, epsilon=EPSILON, delta=DELTA, method="scores"
        ).mechanism

    def data_set(self, misfit: str, number: int) -> dict[str, Any]:
        """Z, p and predicted power of all departures on one data set, in JSON types."""
        rng = np.random.default_rng([number, *map(ord, self.name + misfit)])
        rows = {k: self.covariates(rng, self.n) for k in "xz"}
        slopes = SLOPES + SPREAD * rng.standard_normal(3)
        eta = slopes[0] + slopes[1] * rows["x"] + slopes[2] * rows["z"]
        planted = self.family.misfits.get(misfit)
        y = (planted or self.family).draw(eta, rows, rng)
        records, noise = rows | {"y": y}, SimulatedNoise(rng)
        fit = fitted_summary(self.mechanism, self.mechanism.release(records, noise))
        mu, found = largest_mu(CHECK_EPSILON, DELTA), {}
        for name in self.family.departures:
            test = planned_test(fit, self.direction(name, fit), NoiseScale(), mu)
            terms = test.statistic.terms(rows, y.astype(float))
            total = noise.total([terms[:, None]], test.statistic.bound, False, mu)[0]
            size = planted.size if planted and planted.departure == name else None
            z = (total - test.null.mean) / test.sd
            found[name] = {
                "z": float(z),
                "estimate": float((total - test.null.mean) / test.sensitivity),
                "sd": test.sd / abs(test.sensitivity),
                "predicted": None if size is None else test.power(size),
            }
        return found

    def direction(self, name: str, fit: Any) -> Any:
        """The score of a departure."""
        density = self.mechanism.model.density
        public = OutcomesAtRows(fit.scored.predictors, fit.rows, fit.scored.values)
        return named_direction(name, density, CovariateColumns(self.private, density), public)

    def run(self, misfit: str, numbers: Iterable[int]) -> Iterable[dict[str, Any]]:
        """Data sets of these numbers, one after the other."""
        for k in numbers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield {"misfit": misfit, "number": k, "found": self.data_set(misfit, k)}


def rejected(data_sets: Sequence[dict[str, Any]], name: str, level: float) -> float:
    """Share of data sets in which a departure was seen at a level."""
    from scipy.stats import norm

    z = np.array([one["found"][name]["z"] for one in data_sets])
    return float(np.mean(np.abs(z) > norm.isf(level / 2.0)))


def lines_of(family: str, data_sets: Sequence[dict[str, Any]]) -> Iterable[str]:
    """Lines of the table: false alarms of each departure, then power on each misfit."""
    by_misfit: dict[str, list[dict[str, Any]]] = {}
    for one in data_sets:
        by_misfit.setdefault(one["misfit"], []).append(one)
    for misfit, these in by_misfit.items():
        planted = FAMILIES[family].misfits.get(misfit)
        names = FAMILIES[family].departures if planted is None else (planted.departure,)
        for name in names:
            at5, at10 = (rejected(these, name, level) for level in LEVELS)
            error = np.sqrt(max(at5 * (1 - at5), 0.05 * 0.95 if planted is None else 0.0)
                            / len(these))  # fmt: skip
            told = [one["found"][name]["predicted"] for one in these]
            predicted = "-" if told[0] is None else f"{np.mean(told):.2f}"
            yield (f"| {family} | {misfit or 'none'} | {name} | {len(these)} | {at5:.3f} ± "
                   f"{error:.3f} | {at10:.3f} | {predicted} |")  # fmt: skip


HEAD = (
    "| fitted | planted | departure | data sets | seen at 5% | at 10% | predicted |",
    "|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Run the study, or print what was saved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_sets", nargs="?", type=int, default=40)
    parser.add_argument("names", nargs="*", help="parts of names of families")
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--covariates", default="uniform", choices=list(COVARIATES))
    parser.add_argument("--null-only", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--table", type=Path, nargs="*")
    options = parser.parse_args()
    print(*HEAD, sep="\n")
    if options.table:
        for path in options.table:
            saved = [json.loads(line) for line in path.read_text().splitlines()]
            for family in FAMILIES:
                print(*lines_of(family, [one for one in saved if one["family"] == family]),
                      sep="\n")  # fmt: skip
        return
    for family in FAMILIES:
        if not options.names or any(part in family for part in options.names):
            misfits = [""] if options.null_only else ["", *FAMILIES[family].misfits]
            print(*lines_of(family, study(family, misfits, options)), sep="\n", flush=True)


def study(family: str, misfits: Sequence[str], options: Any) -> list[dict[str, Any]]:
    """Data sets of a family, those of a file among them, each saved as it ends."""
    saved: list[dict[str, Any]] = []
    if options.save is not None and options.save.exists():
        saved = [json.loads(line) for line in options.save.read_text().splitlines()]
    known = {(one["family"], one["misfit"], one["number"]) for one in saved}
    checks = CheckStudy(family, options.n, options.covariates)
    for misfit in misfits:
        numbers = [k for k in range(options.data_sets) if (family, misfit, k) not in known]
        for one in checks.run(misfit, numbers):
            one |= {"family": family}
            saved.append(one)
            if options.save is not None:
                with options.save.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    return [one for one in saved if one["family"] == family]


if __name__ == "__main__":
    main()
