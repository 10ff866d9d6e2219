"""False alarms of checks of hierarchies, and power where slopes vary among groups.

Run ``python -m benchmarks.criticism_hierarchies [data sets] [setting] ...``, settings as those of
`benchmarks.noise_aware_hierarchies`, for example ``logistic:10:1000:private``. In each data set
effects of groups come from the model, with simulated noise in a summary at `EPSILON` and in a check
of each departure at ``--epsilon`` (`CHECK_EPSILON`). With ``--spread SD`` slopes vary among groups
by so much, and "slopes(x, g)" alone is checked; "predicted" is the power that plans tell.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import pymc_private as pmp
from benchmarks.criticism import CHECK_EPSILON, DELTA, EPSILON, LEVELS, share
from benchmarks.noise_aware_hierarchies import Setting
from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.criticism.directions import OutcomesAtRows, named_direction
from pymc_private.criticism.fitted_summary import fitted_summary
from pymc_private.criticism.group_slopes import planned_groups
from pymc_private.criticism.planned_test import planned_test
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu

SETTINGS = ("logistic:10:1000:private", "poisson:10:1000:public")
MOST_COUNT, WIDEST = 60, 15


class VaryingSlopes(Setting):
    """Records of a hierarchy whose slopes are those of groups."""

    def records(self, at: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Records of one data set, with slopes at["slopes"]."""
        found = super().records(at, rng)
        eta = at["effect"][found["g"]] + at["slopes"][found["g"]] * found["x"]
        return found | {"y": self._outcomes(eta, at, rng)}


class HierarchyChecks:
    """One hierarchy and the mechanism of its summary.

    Parameters
    ----------
    text : str
        A setting.
    epsilon : float
        Of a check.
    spread : float
        Standard deviation of slopes among groups.
    """

    def __init__(self, text: str, epsilon: float = CHECK_EPSILON, spread: float = 0.0) -> None:
        self.setting, self.spread = VaryingSlopes.of(text), spread
        self.mu = largest_mu(epsilon, DELTA)
        counts = self.setting.family in ("poisson", "negbin")
        self.ends = (0, MOST_COUNT) if counts else (-WIDEST, WIDEST)
        domain: dict[str, Any] = {"x": (-1, 1)}
        domain |= {} if self.setting.family == "logistic" else {"y": self.ends}
        public = ["g"] if self.setting.labels == "public" else []
        domain |= {} if public else {"g": pmp.Categories(range(self.setting.groups))}
        made_up = self.records(np.random.default_rng(0))
        self.private = pmp.privatize(
            self.setting.model(made_up), records="row", domain=domain, public=public
        )
        self.mechanism: Any = make_summary_plan(
            self.private, epsilon=EPSILON, delta=DELTA, method="scores"
        ).mechanism
        common = ("quadratic(x)", "link") + (("dispersion",) if counts else ())
        self.departures = (() if spread else common) + ("slopes(x, g)",)

    def records(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Records of one data set."""
        mean, slope = 0.3 * rng.standard_normal(), 0.5 + 0.2 * rng.standard_normal()
        effect = mean + 0.5 * rng.standard_normal(self.setting.groups)
        slopes = slope + self.spread * rng.standard_normal(self.setting.groups)
        at = {"effect": effect, "slope": slope, "slopes": slopes, "sigma": 0.7, "alpha": 2.0}
        found = self.setting.records(at, rng)
        return found | {"y": np.clip(found["y"], *self.ends)}

    def found(self, number: int) -> list[tuple[float, float, float]]:
        """P, estimate and predicted power of all departures on one data set."""
        rng = np.random.default_rng([number, 7])
        records, noise = self.records(rng), SimulatedNoise(rng)
        names = {source.name for source in self.private.sources}
        released = self.mechanism.release({k: records[k] for k in names}, noise)
        fit, density = fitted_summary(self.mechanism, released), self.mechanism.model.density
        public = OutcomesAtRows(fit.scored.predictors, fit.rows, fit.scored.values)
        columns = CovariateColumns(self.private, density)
        rows = {**records, **self.mechanism.design.public_rows}
        y = np.asarray(rows.pop("y"), dtype=float)
        found = []
        for name in self.departures:
            direction = named_direction(name, density, columns, public)
            if direction.groups is None or direction.label is None:
                part: Any = planned_test(fit, direction, NoiseScale(), self.mu)
            else:
                part = planned_groups(
                    fit, direction, direction.label, direction.groups, NoiseScale(), self.mu
                )
            (test,) = part.tested_all(part.release([(rows, y, len(y))], noise), LEVELS[0])
            (forecast,) = part.forecasts
            found.append((test.p, test.estimate, forecast.power(self.spread)))
        return found


def main() -> None:
    """Run the study and print a row for each setting and departure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_sets", nargs="?", type=int, default=40)
    parser.add_argument("settings", nargs="*", default=SETTINGS)
    parser.add_argument("--epsilon", type=float, default=CHECK_EPSILON)
    parser.add_argument("--spread", type=float, default=0.0)
    options = parser.parse_args()
    print("| setting | departure | data sets | seen at 5% | at 10% | predicted | median estimate |",
          "|---|---|---|---|---|---|---|", sep="\n")  # fmt: skip
    for text in options.settings:
        checks = HierarchyChecks(text, options.epsilon, options.spread)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.array([checks.found(number) for number in range(options.data_sets)])
        for k, name in enumerate(checks.departures):
            p, estimate, power = found[:, k].T
            seen = " | ".join(share(float(np.mean(p < level)), len(p), level) for level in LEVELS)
            told = f"{power.mean():.2f}" if options.spread else "-"
            print(f"| {text} | {name} | {len(p)} | {seen} | {told} | {np.median(estimate):.2f} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
