"""False alarms and power of checks over simulated data sets, each with its own noisy summary."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.criticism import FAMILIES, CheckStudy, rejected

DATA_SETS = 10
PLANTED = {
    "logistic": "interaction .5",
    "poisson": "negative binomial, alpha 10",
    "normal": "log sd + .15 x",
}


@pytest.mark.audit
def test_false_alarms_and_power_are_as_planned():
    """Of all families together; limits are three standard errors away, or more."""
    z, seen, expected = [], [], []
    for family, misfit in PLANTED.items():
        study, names = CheckStudy(family, n=2000), FAMILIES[family].departures
        null = study.run("", range(DATA_SETS))
        z += [one["found"][name]["z"] for one in null for name in names]
        departure = FAMILIES[family].misfits[misfit].departure
        planted = list(study.run(misfit, range(DATA_SETS)))
        expected += [one["found"][departure]["predicted"] for one in planted]
        seen.append(rejected(planted, departure, 0.05))
    z, alarms = np.array(z), 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(z))
    assert np.mean(np.abs(z) > 1.96) < alarms
    assert abs(np.mean(z**2) - 1.0) < 3 * np.sqrt(2 / len(z)) + 0.05
    assert abs(np.mean(seen) - np.mean(expected)) < 3 * np.sqrt(0.25 / len(expected)) + 0.05
    # Half the noise would be seen: the sums would vary too much for it.
    assert np.mean(np.abs(z) * np.sqrt(2.0) > 1.96) > alarms
