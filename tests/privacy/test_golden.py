"""Every formula of the golden index that this room has, against independent values."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from pymc_private import privacy

STORED = json.loads((Path(__file__).parents[1] / "data" / "golden_values.json").read_text())
OURS = [entry for entry in STORED if hasattr(privacy, entry["formula"])]
GROUND_FLOOR = {
    *("br_delta", "br_eps", "br_tv", "br_zcdp_tight", "dkw_halfwidth", "gdp_delta", "gdp_eps"),
    *("psaqr_loss", "rdp_to_delta", "rdp_to_eps", "zcdp_to_delta", "zcdp_to_eps"),
}


def test_each_formula_of_the_ground_floor_has_a_golden_value():
    assert {entry["formula"] for entry in OURS} >= GROUND_FLOOR


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry["id"])
def test_golden_value_is_met_and_never_undercut(entry):
    got = getattr(privacy, entry["formula"])(*entry["inputs"].values())
    assert got == pytest.approx(float(entry["value"]), rel=entry["rtol"])
    if entry["formula"] in GROUND_FLOOR:
        assert Fraction(got) >= Fraction(entry["value"]) * (1 - Fraction(1, 10**24))
