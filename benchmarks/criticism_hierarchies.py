"""False alarms of checks of hierarchies.

Run ``python -m benchmarks.criticism_hierarchies [data sets] [setting] ...``, settings as those of
`benchmarks.noise_aware_hierarchies`, for example ``logistic:10:1000:private``. In each data set
effects of groups come from the model, with simulated noise in a summary at `EPSILON` and in a check
of each departure at `CHECK_EPSILON`.
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
from pymc_private.criticism.planned_test import planned_test
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import NoiseScale, SimulatedNoise, largest_mu

SETTINGS = ("logistic:10:1000:private", "poisson:10:1000:public")
MOST_COUNT, WIDEST = 60, 15


class HierarchyChecks:
    """One hierarchy and the mechanism of its summary.

    Parameters
    ----------
    text : str
        A setting.
    """

    def __init__(self, text: str) -> None:
        self.setting = Setting.of(text)
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
        self.departures = ("quadratic(x)", "link") + (("dispersion",) if counts else ())

    def records(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Records of one data set."""
        mean, slope = 0.3 * rng.standard_normal(), 0.5 + 0.2 * rng.standard_normal()
        effect = mean + 0.5 * rng.standard_normal(self.setting.groups)
        at = {"effect": effect, "slope": slope, "sigma": 0.7, "alpha": 2.0}
        found = self.setting.records(at, rng)
        return found | {"y": np.clip(found["y"], *self.ends)}

    def z(self, number: int) -> list[float]:
        """Standardized checks of one data set."""
        rng = np.random.default_rng([number, 7])
        records, noise = self.records(rng), SimulatedNoise(rng)
        names = {source.name for source in self.private.sources}
        released = self.mechanism.release({k: records[k] for k in names}, noise)
        fit, density = fitted_summary(self.mechanism, released), self.mechanism.model.density
        public = OutcomesAtRows(fit.scored.predictors, fit.rows, fit.scored.values)
        columns = CovariateColumns(self.private, density)
        rows = {**records, **self.mechanism.design.public_rows}
        y = np.asarray(rows.pop("y"), dtype=float)
        mu, found = largest_mu(CHECK_EPSILON, DELTA), []
        for name in self.departures:
            direction = named_direction(name, density, columns, public)
            test = planned_test(fit, direction, NoiseScale(), mu)
            terms = test.statistic.terms(rows, y)[:, None]
            total = float(noise.total([terms], test.statistic.bound, False, mu)[0])
            found.append((total - test.null.mean) / test.sd)
        return found


def main() -> None:
    """Run the study and print a row for each setting and departure."""
    from scipy.stats import norm

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_sets", nargs="?", type=int, default=40)
    parser.add_argument("settings", nargs="*", default=SETTINGS)
    options = parser.parse_args()
    print("| setting | departure | data sets | seen at 5% | at 10% |", "|---|---|---|---|---|",
          sep="\n")  # fmt: skip
    for text in options.settings:
        checks = HierarchyChecks(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z = np.array([checks.z(number) for number in range(options.data_sets)])
        for name, column in zip(checks.departures, z.T, strict=True):
            seen = " | ".join(
                share(float(np.mean(np.abs(column) > norm.isf(level / 2))), len(column), level)
                for level in LEVELS
            )
            print(f"| {text} | {name} | {len(column)} | {seen} |", flush=True)


if __name__ == "__main__":
    main()
