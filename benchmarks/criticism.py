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
from pymc_private.planning import detection_power
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


def added(size: float, what: str) -> Callable[[np.ndarray, Rows], np.ndarray]:
    """The linear predictor with a term more of this size."""
    terms: dict[str, Callable[[np.ndarray, Rows], np.ndarray]] = {
        "interaction(x, z)": lambda eta, rows: rows["x"] * rows["z"],
        "quadratic(x)": lambda eta, rows: rows["x"] ** 2,
        "link": lambda eta, rows: eta**2,
    }
    return lambda eta, rows: eta + size * terms[what](eta, rows)


def of_predictor(size: float, what: str, draw: Callable[..., np.ndarray]) -> Misfit:
    """A misfit of the linear predictor alone."""
    more = added(size, what)
    return Misfit(what, size, lambda eta, rows, rng: draw(more(eta, rows), rows, rng))


def wrong_link(size: float, slope: Callable[..., np.ndarray], draw: Callable[..., Any]) -> Misfit:
    """A squared linear predictor that is added to it.

    The fit stretches its own predictor, so that the square of that one has a smaller coefficient:
    the size over the square of the stretch, which is found for many records without privacy.
    """
    grid = np.linspace(-1, 1, 41)
    x, z = (part.ravel() for part in np.meshgrid(grid, grid))
    columns = np.stack([np.ones_like(x), x, z], axis=1)
    eta = columns @ SLOPES
    mean, found = slope(eta + size * eta**2), np.array(SLOPES)
    for _ in range(50):
        at = slope(columns @ found)
        weight = (slope(columns @ found + 1e-5) - at) / 1e-5
        found = found + np.linalg.solve(columns.T @ (columns * weight[:, None]),
                                        columns.T @ (mean - at))  # fmt: skip
    stretch = float(np.mean(found[1:] / SLOPES[1:]))
    plain = of_predictor(size, "link", draw)
    return Misfit("link", size / stretch**2, plain.draw)


def negative_binomial(alpha: float) -> Misfit:
    """Counts of a gamma mixture; its size is 1/alpha."""
    return Misfit("dispersion", 1.0 / alpha, lambda eta, rows, rng: poisson(
        eta + np.log(rng.gamma(alpha, 1.0 / alpha, len(eta))), rng))  # fmt: skip


def student(degrees: float) -> Misfit:
    """Residuals with heavy tails; 1/nu is their size to first order only."""
    return Misfit("tails", 1.0 / degrees, lambda eta, rows, rng: np.clip(
        eta + SD * rng.standard_t(degrees, len(eta)), -12, 12))  # fmt: skip


def spread(size: float) -> Misfit:
    """A log sd that rises with x."""
    return Misfit("heteroscedasticity(x)", size, lambda eta, rows, rng: normal(
        eta, np.exp(size * rows["x"]), rng))  # fmt: skip


def logistic_records(eta: np.ndarray, rows: Rows, rng: Generator) -> np.ndarray:
    return logistic(eta, rng)


def poisson_records(eta: np.ndarray, rows: Rows, rng: Generator) -> np.ndarray:
    return poisson(eta, rng)


def normal_records(eta: np.ndarray, rows: Rows, rng: Generator) -> np.ndarray:
    return normal(eta, 1.0, rng)


FAMILIES = {
    "logistic": Family(
        lambda eta, y: pm.Bernoulli("y", logit_p=eta, observed=y),
        None,
        ("link", "interaction(x, z)", "quadratic(x)"),
        logistic_records,
        {
            "cloglog": Misfit("link", None, lambda eta, rows, rng: bernoulli(
                -np.expm1(-np.exp(eta - 0.3)), rng)),
            "interaction .5": of_predictor(0.5, "interaction(x, z)", logistic_records),
            "quadratic .5": of_predictor(0.5, "quadratic(x)", logistic_records),
        },
    ),
    "poisson": Family(
        lambda eta, y: pm.Poisson("y", pm.math.exp(eta), observed=y),
        (0, 60),
        ("dispersion", "link", "interaction(x, z)", "quadratic(x)"),
        poisson_records,
        {
            "negative binomial, alpha 10": negative_binomial(10),
            "link .2": wrong_link(0.2, np.exp, poisson_records),
            "interaction .3": of_predictor(0.3, "interaction(x, z)", poisson_records),
            "quadratic .3": of_predictor(0.3, "quadratic(x)", poisson_records),
            "negative binomial, alpha 25": negative_binomial(25),
            "link .08": wrong_link(0.08, np.exp, poisson_records),
            "interaction .12": of_predictor(0.12, "interaction(x, z)", poisson_records),
            "quadratic .12": of_predictor(0.12, "quadratic(x)", poisson_records),
        },
    ),
    "normal": Family(
        lambda eta, y: pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y),
        (-12, 12),
        ("tails", "heteroscedasticity(x)", "link", "interaction(x, z)", "quadratic(x)"),
        normal_records,
        {
            "Student t, 8 degrees": student(8),
            "log sd + .15 x": spread(0.15),
            "link .2": wrong_link(0.2, np.array, normal_records),
            "interaction .25": of_predictor(0.25, "interaction(x, z)", normal_records),
            "quadratic .25": of_predictor(0.25, "quadratic(x)", normal_records),
            "Student t, 25 degrees": student(25),
            "log sd + .06 x": spread(0.06),
            "link .08": wrong_link(0.08, np.array, normal_records),
            "interaction .1": of_predictor(0.1, "interaction(x, z)", normal_records),
            "quadratic .1": of_predictor(0.1, "quadratic(x)", normal_records),
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
    cells: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    for one in data_sets:
        cells.setdefault((one["n"], one["covariates"], one["misfit"]), []).append(one)
    for (n, covariates, misfit), these in sorted(cells.items()):
        planted = FAMILIES[family].misfits.get(misfit)
        names = FAMILIES[family].departures if planted is None else (planted.departure,)
        for name in names:
            found = [one["found"][name] for one in these]
            seen = " | ".join(share(rejected(these, name, level), len(these), level)
                              for level in LEVELS)  # fmt: skip
            z = np.array([one["z"] for one in found])
            shift = f"{z.mean():.2f} ± {z.std(ddof=1) / np.sqrt(len(z)):.2f}" if len(z) > 1 else ""
            yield (
                f"| {family} | {n:,}, {covariates} | {misfit or 'none'} | {name} | {len(these)} "
                f"| {seen} | {predicted(found, planted)} | {shift} "
                f"| {planned_shift(found, planted)} |"
            )


def share(value: float, count: int, level: float) -> str:
    """A share with its standard error, that of the level where nothing else was seen."""
    at = value if 0.0 < value < 1.0 else level
    return f"{value:.3f} ± {np.sqrt(at * (1.0 - at) / count):.3f}"


def predicted(found: Sequence[dict[str, Any]], planted: Misfit | None) -> str:
    """Mean of the power that the plans tell at the planted size."""
    if planted is None or planted.size is None:
        return "-"
    return f"{np.mean(detection_power(planted.size, [one['sd'] for one in found])):.2f}"


def planned_shift(found: Sequence[dict[str, Any]], planted: Misfit | None) -> str:
    """Mean of z that the plans told: its size in standard deviations."""
    if planted is None:
        return "0"
    if planted.size is None:
        return "-"
    told = [planted.size / one["sd"] * np.sign(one["z"] * one["estimate"]) for one in found]
    return f"{np.mean(told):.2f}"


HEAD = (
    "| fitted | n, covariates | planted | departure | data sets | seen at 5% | at 10% | predicted "
    "| mean z | predicted |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Run the study, or print what was saved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_sets", nargs="?", type=int, default=40)
    parser.add_argument("names", nargs="*", help="parts of names of families")
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--covariates", default="uniform", choices=list(COVARIATES))
    parser.add_argument("--misfits", nargs="*", help="parts of their names; '' is none")
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
            misfits = [
                one for one in ("", *FAMILIES[family].misfits) if asked(one, options.misfits)
            ]
            print(*lines_of(family, study(family, misfits, options)), sep="\n", flush=True)


def asked(misfit: str, parts: Sequence[str] | None) -> bool:
    """Whether a misfit is to be simulated; all are without `parts`, and "" stands for none."""
    return parts is None or any(part in misfit if part else not misfit for part in parts)


def study(family: str, misfits: Sequence[str], options: Any) -> list[dict[str, Any]]:
    """Data sets of a family, those of a file among them, each saved as it ends."""
    saved: list[dict[str, Any]] = []
    if options.save is not None and options.save.exists():
        saved = [json.loads(line) for line in options.save.read_text().splitlines()]
    cell = {"family": family, "n": options.n, "covariates": options.covariates}
    saved = [one for one in saved if cell.items() <= one.items()]
    known = {(one["misfit"], one["number"]) for one in saved}
    checks = CheckStudy(family, options.n, options.covariates)
    for misfit in misfits:
        numbers = [k for k in range(options.data_sets) if (misfit, k) not in known]
        for one in checks.run(misfit, numbers):
            one |= cell
            saved.append(one)
            if options.save is not None:
                with options.save.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    return saved


if __name__ == "__main__":
    main()
