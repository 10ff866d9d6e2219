"""Theorems named in reports are those of the theory page, under their titles."""

import re
from pathlib import Path

from pymc_private.report.theorems import TITLES, theorem_text

THEORY = Path(__file__).parents[2] / "docs" / "theory.md"


def test_titles_are_those_of_the_theory_page():
    headings = dict(re.findall(r"^## (T\d+) (.+)$", THEORY.read_text("utf-8"), re.MULTILINE))
    assert {n: t.lower() for n, t in TITLES.items()} == {n: t.lower() for n, t in headings.items()}


def test_a_range_names_each_of_its_theorems_and_a_huge_one_only_what_is_there():
    text = theorem_text("T1-T3, T15a")
    assert all(f"{n} {TITLES[n]}" in text for n in ("T1", "T2", "T3", "T15"))
    assert "T4 " not in text
    assert TITLES["T39"] in theorem_text("T38-T999999999999")
    assert theorem_text("") == "not proved"
