"""Noisy summaries of real records: distance from the posterior of the records, also without noise.

Run ``python -m benchmarks.noise_aware_real [releases] [epsilons] [part of a name] ...``. One data
set is held fixed and released again and again at (epsilon, delta = 1e-6), one record replaced. The
error of a release is the root mean square over parameters of the distance between its posterior
mean and that of the records, in standard deviations of the latter; no model is right here, so this
is what simulated coverage cannot show. At an epsilon of 1e4 there is no noise to speak of: what
remains is clipping. `held`: share of 90% intervals that hold the posterior mean of the records.

Predictors lie in [-1, 1] by ranges that follow from what they mean; none was chosen by its effect.
For ``cells``, the posterior without noise is that of the counts of the same cells.
The sets of UCI are read as `benchmarks.uci` finds them, and left out if they are not there.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from benchmarks.noise_aware import OUTER, non_private, posterior
from benchmarks.noise_aware_cells import mixture, mixture_free, weibull
from benchmarks.noise_aware_models import (
    LOGIT,
    NEGATIVE_BINOMIAL,
    SCENARIOS,
    STUDENT,
    Scenario,
)
from benchmarks.noise_aware_peers import DELTA, Case
from benchmarks.uci import folder, load
from pymc_private.summaries.cells.cell_mechanism import CellMechanism
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu

NO_NOISE = 1e4
"""An epsilon at which noise is far below the sampling error of the records."""
EXTREMES = 3
"""Releases without noise to speak of."""
Columns = dict[str, np.ndarray]


def between(values: Any, low: float, high: float) -> np.ndarray:
    """Values of a range, mapped to [-1, 1]."""
    return np.clip(2 * (np.asarray(values, float) - low) / (high - low) - 1, -1, 1)


def signs(condition: Any) -> np.ndarray:
    """1 where a condition holds, else -1."""
    return np.where(np.asarray(condition), 1.0, -1.0)


def adult(t: pd.DataFrame) -> Columns:
    """Census: age, years of schooling, hours, sex, married."""
    return {
        "age": between(t.age, 17, 90),
        "education": between(t.education_num, 1, 16),
        "hours": between(t.hours_per_week, 1, 99),
        "male": signs(t.sex == "Male"),
        "married": signs(t.marital_status == "Married-civ-spouse"),
    }


def adult_every_column(t: pd.DataFrame) -> Columns:
    """Census: fourteen predictors, one or two of every column."""
    white_collar = ("Exec-managerial", "Prof-specialty")
    return adult(t) | {
        "never married": signs(t.marital_status == "Never-married"),
        "child": signs(t.relationship == "Own-child"),
        "white": signs(t.race == "White"),
        "native": signs(t.native_country == "United-States"),
        "own firm": signs(t.workclass.str.startswith("Self-emp")),
        "government": signs(t.workclass.str.endswith("-gov")),
        "white collar": signs(t.occupation.isin(white_collar)),
        "gain": signs(t.capital_gain > 0),
        "loss": signs(t.capital_loss > 0),
    }


def bank(t: pd.DataFrame) -> Columns:
    """Calls of a bank: age, by mobile phone, housing loan, an earlier success."""
    return {
        "age": between(t.age, 17, 100),
        "mobile": signs(t.contact == "cellular"),
        "housing": signs(t.housing == "yes"),
        "success": signs(t.poutcome == "success"),
    }


def credit_card(t: pd.DataFrame) -> Columns:
    """Clients: months of delay, limit (logarithm), age, sex."""
    return {
        "delay": between(t.PAY_0, -2, 8),
        "limit": between(np.log10(t.LIMIT_BAL), 4, 6),
        "age": between(t.AGE, 18, 90),
        "male": signs(t.SEX == 1),
    }


def german_credit(t: pd.DataFrame) -> Columns:
    """Loans: state of the account, months, savings, age."""
    return {
        "status": between(t.status, 1, 4),
        "duration": between(t.duration, 4, 72),
        "savings": between(t.savings, 1, 5),
        "age": between(t.age, 18, 80),
    }


def shopper(t: pd.DataFrame) -> Columns:
    """Visits of a shop: near a holiday, weekend, visitor known."""
    return {
        "special day": between(t.SpecialDay, 0, 1),
        "weekend": signs(t.Weekend.astype(str) == "True"),
        "returning": signs(t.VisitorType == "Returning_Visitor"),
    }


def spam(t: pd.DataFrame) -> Columns:
    """Mail: logarithms of percentages of three words, nearly all close to the lower end."""
    words = ("free", "your", "meeting")
    return {w: between(np.log1p(t[f"word_freq_{w}"]), 0, np.log1p(100)) for w in words}


def thyroid(t: pd.DataFrame) -> Columns:
    """Patients: age, sex, on thyroxine; 7% are ill."""
    return {
        "age": between(t.age, 0, 1),
        "sex": signs(t.sex == 1),
        "thyroxine": signs(t.on_thyroxine == 1),
    }


def of_uci(
    name: str,
    data: str,
    columns: Callable[[pd.DataFrame], Columns],
    outcome: Callable[[pd.DataFrame], np.ndarray],
    law: Any = LOGIT,
    drop: Sequence[str] = (),
    slope_sd: float = 2.0,
    first: int | None = None,
) -> Scenario:
    """A regression of a UCI set, or its first rows: numbers in [-1, 1], two values as such."""
    table = load(data)[:first]
    found = {key: np.asarray(v, float) for key, v in columns(table).items() if key not in drop}
    flags = [key for key, v in found.items() if set(np.unique(v)) <= {-1.0, 1.0}]
    numbers = [key for key in found if key not in flags]
    order = [*numbers, *flags]
    rows = {"X": np.column_stack([found[key] for key in numbers])} if numbers else {}
    rows |= {key: found[key] for key in flags}
    y = np.asarray(outcome(table), float)

    def simulate(theta: Any, rng: np.random.Generator) -> Columns:
        slopes = np.asarray(theta["slopes"], float)
        eta = float(theta["intercept"]) + np.column_stack([found[key] for key in order]) @ slopes
        drawn = np.asarray(law.draw(eta, theta, rng), float)
        return rows | {"y": drawn if law.bounds is None else np.clip(drawn, *law.bounds)}

    domain: dict[str, Any] = {key: (-1.0, 1.0) if key == "X" else {-1.0, 1.0} for key in rows}
    domain |= {"y": law.bounds} if law.bounds is not None else {}
    model = _regression(rows, flags, order, y, law, slope_sd)
    truth = {"intercept": 0.0, "slopes": np.zeros(len(order)), **law.truth}
    return Scenario(name, model, domain, simulate, truth)


def _regression(
    rows: Columns, flags: Sequence[str], order: Sequence[str], y: Any, law: Any, slope_sd: float
) -> pm.Model:
    """Numbers as one array, each column of two values by itself."""
    with pm.Model(coords={"row": np.arange(len(y)), "slope": list(order)}) as model:
        eta = pm.Normal("intercept", 0.0, 2.0)
        slopes = pm.Normal("slopes", 0.0, slope_sd, dims="slope")
        count = len(order) - len(flags)
        if count:
            eta = eta + pm.Data("X", rows["X"], dims=("row", None)) @ slopes[:count]
        for k, key in enumerate(flags, count):
            eta = eta + pm.Data(key, rows[key], dims="row") * slopes[k]
        law.observe(eta, y)
    return model


def label(value: Any = 1) -> Callable[[pd.DataFrame], np.ndarray]:
    """Whether the label has a value."""
    return lambda t: 1.0 * (t.target.astype(str) == str(value))


def _real(name: str, *args: Any, **options: Any) -> tuple[str, Callable[[], Scenario]]:
    return name, partial(of_uci, name, *args, **options)


REAL: dict[str, Callable[[], Scenario]] = {
    "Fair, 2 features": SCENARIOS["Fair, 2 features"],
    "Fair, 8 features": SCENARIOS["Fair, 8 features"],
} | dict(
    [
        _real("german credit, logistic", "german_credit", german_credit, label()),
        _real("spam, logistic", "spam", spam, label()),
        _real("thyroid, logistic", "thyroid", thyroid, lambda t: 1.0 * (t.target != 3)),
        _real("shopper, logistic", "shopper", shopper, label()),
        _real("shopper, pages, negative binomial", "shopper", shopper,
              lambda t: t.Administrative, NEGATIVE_BINOMIAL, slope_sd=1.0),
        _real("credit card, logistic", "credit_card", credit_card, label()),
        _real("bank, logistic", "bank", bank, label()),
        _real("adult, logistic", "adult", adult, label()),
        _real("adult, every column, logistic", "adult", adult_every_column, label()),
        _real("adult, hours, Student-t", "adult", adult,
              lambda t: (t.hours_per_week - 40) / 10, STUDENT, drop=["hours"]),
    ]
)  # fmt: skip
"""The first is the model of ``python -m pymc_private demo``."""


# ---- scores --------------------------------------------------------------------------------------
def mode_of(case: Case, records: Columns) -> np.ndarray:
    """The posterior mode of the records, by damped steps of scoring."""
    density, parameters = case.density, case.parameters
    y, rows = records["y"][:, None], records | density.public_rows

    def height(theta: np.ndarray) -> float:
        logs = density.log_density(theta[None], rows, y).sum()
        return float(logs + parameters.log_prior(theta[None])[0])

    theta = parameters.mean.copy()
    value = height(theta)
    for _ in range(60):
        scores = case.scores(theta, records)
        gradient = scores.sum(axis=0) + case.prior_precision @ (parameters.mean - theta)
        step = np.linalg.solve(scores.T @ scores + case.prior_precision, gradient)
        tried = [(theta + step * 0.5**k) for k in range(6)]
        heights = [height(t) for t in tried]
        best = int(np.argmax(heights))
        if not heights[best] > value + 1e-6:
            break
        theta, value = tried[best], heights[best]
    return theta


def records_of(scenario: Scenario) -> Columns:
    """The records that the model holds."""
    return {s.name: np.asarray(s.values(), float) for s in scenario.private.sources}


def measure(case: Case, exact: Any, records: Columns, releases: int) -> dict[str, Any]:
    """Errors, widths and held shares of repeated releases of the same records."""
    mechanism, prior = case.mechanism, case.parameters.log_prior
    ends = exact.quantiles(list(OUTER))
    errors, shifts, widths, held, refused = [], [], [], [], 0
    for k in range(releases):
        rng = np.random.default_rng([k, int(10 * case.epsilon)])
        released = mechanism.release(records, SimulatedNoise(rng))
        refused += any(c.refuse for c in mechanism.warnings(released))
        likelihood = mechanism.log_likelihood(released)
        found = posterior(likelihood, prior, mechanism.start(released), rng)
        shift = (found.mean - exact.mean) / exact.sd
        low, high = found.quantiles(list(OUTER))
        shifts.append(shift)
        errors.append(float(np.sqrt(np.mean(shift**2))))
        widths.append((high - low) / np.ptp(ends, axis=0))
        held.append((low <= exact.mean) & (exact.mean <= high))
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(errors, (500, releases)), axis=1)
    return {
        "error": np.quantile(errors, (0.25, 0.5, 0.75)),
        "median error": medians.std(),
        "bias": float(np.sqrt(np.mean(np.mean(shifts, axis=0) ** 2))),
        "width": float(np.median(widths)),
        "held": float(np.mean(held)),
        "refused": refused,
    }


def print_real(name: str, epsilons: Sequence[float], releases: int) -> None:
    """Rows of one data set."""
    scenario = REAL[name]()
    records = records_of(scenario)
    case = Case(scenario, NO_NOISE)
    exact = non_private(case.density, records, mode_of(case, records), np.random.default_rng(1))
    for epsilon in (*epsilons, NO_NOISE):
        start = time.process_time()
        count = EXTREMES if epsilon == NO_NOISE else releases
        m = measure(Case(scenario, epsilon), exact, records, count)
        low, middle, high = m["error"]
        print(
            f"{name:34} n {len(records['y']):6} epsilon {epsilon:<5g} median error {middle:.2f}"
            f"±{m['median error']:.2f} (quartiles {low:.2f}, {high:.2f})  mean shift "
            f"{m['bias']:.2f}  width {m['width']:.2f}  held {m['held']:.2f}  refused "
            f"{m['refused']} of {count}  {time.process_time() - start:.0f} s",
            flush=True,
        )


# ---- cells ---------------------------------------------------------------------------------------
def print_cells(make: Callable[[], Any]) -> None:
    """A summary by cells without noise beside the posterior of the counts of these cells."""
    study = make()
    cells = CellMechanism(study.private, largest_mu(NO_NOISE, DELTA))
    records = study.simulate(study.truth, np.random.default_rng(4))
    rng, prior = np.random.default_rng(36), cells.parameters.log_prior
    size = int(np.prod(cells.partition.shape))
    counts = np.bincount(cells.partition.cells(records), minlength=size)

    def binned(theta: np.ndarray) -> np.ndarray:
        probabilities, _ = cells.probabilities(cells.parameters.natural(theta))
        logs = np.log(np.maximum(probabilities, 1e-300)).reshape(len(theta), -1)
        return logs @ counts + prior(theta)

    released = cells.release(records, SimulatedNoise(rng))
    likelihood, start = cells.log_likelihood(released), cells.start(released)
    found = importance_draws(lambda t: likelihood(t) + prior(t), *start, rng, 4000)
    exact = importance_draws(binned, *start, rng, 4000)
    error = np.sqrt(np.mean(((found.mean - exact.mean) / exact.sd) ** 2))
    print(
        f"{study.name:36} cells {cells.partition.shape}  epsilon {NO_NOISE:g}  error {error:.3f}  "
        f"width {np.median(found.sd / exact.sd):.3f}  effective {found.effective:.0f}, "
        f"{exact.effective:.0f}",
        flush=True,
    )


def main(releases: int = 40, epsilons: Sequence[float] = (1.0,), parts: Any = ()) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    for name in REAL:
        if parts and not any(part in name for part in parts):
            continue
        if not name.startswith("Fair") and not folder().exists():
            print(f"{name}: skipped, the sets of UCI are not at hand (see benchmarks.uci)")
            continue
        print_real(name, epsilons, releases)
    if not parts or "cells" in parts:
        for make in (mixture, mixture_free, weibull):
            print_cells(make)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 40,
        [float(e) for e in given[1].split(",")] if len(given) > 1 else (1.0,),
        given[2:],
    )
