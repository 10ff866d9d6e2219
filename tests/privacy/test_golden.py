"""Every formula of the golden index, against independent values of 25 digits."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pymc_private import privacy

STORED = json.loads((Path(__file__).parents[1] / "data" / "golden_values.json").read_text())
ROUNDED_DOWN = {"beta_binomial_c", "mbde_drop_bound", "mollify_gain", "ponnoprat_r"}
NEAREST = {"dirichlet_expected_kl", "mollify"}
RENAMED = {"eps": "epsilon", "eps_mollifier": "width"}
"""Keywords that the file abbreviates."""
LAST_DIGIT = Fraction(1, 10**24)


def as_written(value):
    """The decimal itself: the double next to it has another value of the formula."""
    return Fraction(repr(value)) if isinstance(value, float) else value


def test_every_formula_of_the_index_is_here():
    assert all(hasattr(privacy, entry["formula"]) for entry in STORED)
    assert hasattr(privacy, "proximal_steps")  # of the index, without a golden value


@pytest.mark.parametrize("entry", STORED, ids=lambda entry: entry["id"])
def test_golden_value_is_met_and_never_passed_on_the_unsafe_side(entry):
    name, value = entry["formula"], entry["value"]
    got = getattr(privacy, name)(*map(as_written, entry["inputs"].values()))
    np.testing.assert_allclose(got, np.asarray(value, float), rtol=entry["rtol"])
    if name in ROUNDED_DOWN:
        assert Fraction(got) <= Fraction(value) * (1 + LAST_DIGIT)
    elif name not in NEAREST:
        assert Fraction(got) >= Fraction(value) * (1 - LAST_DIGIT)


@pytest.mark.parametrize("entry", STORED, ids=lambda entry: entry["id"])
def test_keywords_are_those_of_the_index(entry):
    formula, inputs = getattr(privacy, entry["formula"]), entry["inputs"]
    words = {RENAMED.get(name, name): value for name, value in inputs.items()}
    np.testing.assert_array_equal(formula(**words), formula(*inputs.values()))


def worst_errors() -> dict[str, float]:
    """Worst relative error against the golden values, by formula."""
    worst: dict[str, float] = {}
    for entry in STORED:
        got = np.atleast_1d(
            getattr(privacy, entry["formula"])(*map(as_written, entry["inputs"].values()))
        )
        true = [Fraction(v) for v in np.atleast_1d(entry["value"])]
        error = max(abs(Fraction(g) / t - 1) for g, t in zip(got, true, strict=True))
        worst[entry["formula"]] = max(worst.get(entry["formula"], 0.0), float(error))
    return worst


if __name__ == "__main__":
    for formula, error in sorted(worst_errors().items()):
        print(f"{formula:28s} {error:.1e}")
