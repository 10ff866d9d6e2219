"""False alarms and power of checks over simulated data sets, each with its own noisy summary."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.criticism import FAMILIES, CheckStudy, rejected

DATA_SETS = 24
PLANTED = {
    "logistic": "interaction .5",
    "poisson": "negative binomial, alpha 10",
    "normal": "log sd + .15 x",
}


@pytest.mark.audit
@pytest.mark.parametrize("family", PLANTED)
def test_false_alarms_and_power_are_as_planned(family):
    """Fixed seeds; limits are three standard errors away, so that right code passes."""
    study, names = CheckStudy(family, n=2000), FAMILIES[family].departures
    null = list(study.run("", range(DATA_SETS)))
    z = np.array([[one["found"][name]["z"] for name in names] for one in null])
    assert np.mean(np.abs(z) > 1.96) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / z.size)
    assert 0.65 < np.mean(z**2) < 1.35
    misfit = PLANTED[family]
    departure = FAMILIES[family].misfits[misfit].departure
    planted = list(study.run(misfit, range(DATA_SETS)))
    expected = np.mean([one["found"][departure]["predicted"] for one in planted])
    seen = rejected(planted, departure, 0.05)
    assert abs(seen - expected) < 3 * np.sqrt(0.25 / DATA_SETS) + 0.05
    # Half the noise would be seen: the sums would vary too much for it.
    faulty = z * np.sqrt(2.0)
    assert np.mean(np.abs(faulty) > 1.96) > 0.05 + 3 * np.sqrt(0.05 * 0.95 / z.size)
