"""docs/theory.md: a section for every theorem that is named, with functions and tests that exist.

The checks take texts and folders, so that faults can be planted in copies of them.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory.md"
NAMED = re.compile(r"\bT(\d+)(?:[a-d](?![\w]))?(?:\s*(?:-|–|to)\s*T(\d+))?(?![\w])")
SECTION = re.compile(r"^## T(\d+) \S.*$", re.MULTILINE)


def named_in(text):
    """Numbers of the theorems that a text names; ``T1-T3`` and ``T1 to T3`` name three."""
    found = ((int(first), int(last or first)) for first, last in NAMED.findall(text))
    return {number for first, last in found for number in range(first, last + 1)}


def named_in_files():
    files = [*(ROOT / "pymc_private").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    return {n for f in files if f != PAGE for n in named_in(f.read_text(encoding="utf-8"))}


def sections(page):
    """What stands below the heading of each theorem, up to the next heading of its level."""
    starts = list(SECTION.finditer(page))
    nexts = [re.compile(r"^## ", re.MULTILINE).search(page, s.end()) for s in starts]
    return {
        int(start[1]): page[start.end() : following.start() if following else len(page)]
        for start, following in zip(starts, nexts, strict=True)
    }


def numbering_faults(page, named):
    """Theorems without a section, or of which nobody speaks, or twice, or out of order."""
    numbers = [int(number) for number in SECTION.findall(page)]
    return [
        *(f"T{n} has no section" for n in sorted(named - set(numbers))),
        *(f"nobody names T{n}" for n in sorted(set(numbers) - named)),
        *(["sections are not in order"] if numbers != sorted(set(numbers)) else []),
    ]


def anchor_faults(page):
    """Sections without a target of their own right above them."""
    lines = page.splitlines()
    places = [(i, SECTION.match(line)) for i, line in enumerate(lines)]
    return [
        f"T{found[1]} has no anchor"
        for i, found in places
        if found and lines[max(i - 1, 0)] != f"(t{found[1]})="
    ]


def callable_names(text):
    return re.findall(r"`(pymc_private(?:\.\w+)+)`", text)


@cache
def resolve(dotted):
    """What a full dotted name stands for: the longest module, then attributes; None if nothing."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found
    return None


def function_faults(page):
    """Sections that name no function, and names that are not those of functions."""
    faults = []
    for number, text in sections(page).items():
        names = callable_names(text)
        faults += [] if names else [f"T{number} names no function"]
        faults += [f"T{number}: no {name}" for name in names if not callable(resolve(name))]
    return faults


@cache
def defined_in(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def guard_faults(page):
    """Sections that name no test, and names that no test has. Nothing is run."""
    faults = []
    for number, text in sections(page).items():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
        faults += [] if named else [f"T{number} names no test"]
        for path, name in named:
            file = ROOT / path
            exists = name.startswith("test_") and file.is_file() and name in defined_in(file)
            faults += [] if exists else [f"T{number}: no {path}::{name}"]
    return faults


def outside_faults(page):
    """Names of functions in the rest of the page (conventions, errata, floating point)."""
    return [f"no {name}" for name in callable_names(page) if not callable(resolve(name))]


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_every_theorem_that_is_named_has_its_section_and_no_other(page):
    assert numbering_faults(page, named_in_files()) == []


def test_every_section_can_be_linked_to(page):
    assert anchor_faults(page) == []


def test_every_section_says_what_computes_it(page):
    assert function_faults(page) + outside_faults(page) == []


def test_every_section_says_what_guards_it(page):
    assert guard_faults(page) == []


def test_every_section_has_a_statement_and_a_proof_or_its_source(page):
    for number, text in sections(page).items():
        assert re.search(r"\*\*Statement\.\*\*|\*Proof", text), number
        assert re.search(r"\*\*Proof|\*Proof|\*\*Source", text), number


@pytest.mark.parametrize(
    ("check", "find", "put", "fault"),
    [
        ("numbering", r"## T9 .*?(?=^\(t10\)=)", "", "T9 has no section"),
        ("numbering", r"## T29 ", "## T9029 ", "nobody names T9029"),
        ("numbering", r"## T12 ", "## T13 ", "sections are not in order"),
        ("anchor", r"^\(t7\)=$", "", "T7 has no anchor"),
        ("function", r"br_zcdp_tight`", "br_zcdp_loose`",
         "T2: no pymc_private.privacy.bounded_range.br_zcdp_loose"),
        ("function", r"`pymc_private\.privacy\.query_errors\.dkw_halfwidth`", "nobody",
         "T17 names no function"),
        ("function", r"query_errors\.dkw_halfwidth`", "query_errors.NONE`",
         "T17: no pymc_private.privacy.query_errors.NONE"),
        ("guard", r"::test_noise_pays_for_a_distance_twice`", "::test_noise_pays_thrice`",
         "T20: no tests/privacy/test_other_formulas.py::test_noise_pays_thrice"),
        ("guard", r"`tests/samplers/test_nuts\.py::\w+`", "a test", "T19 names no test"),
        ("guard", r"certificates/test_clip\.py::test_no", "certificates/clips.py::test_no",
         "T25: no tests/certificates/clips.py::test_no_pair_of_records_escapes_the_range"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_noticed(page, check, find, put, fault):
    faulty, count = re.subn(find, put, page, count=1, flags=re.MULTILINE | re.DOTALL)
    assert count == 1
    found = {
        "numbering": lambda text: numbering_faults(text, named_in_files()),
        "anchor": anchor_faults,
        "function": function_faults,
        "guard": guard_faults,
    }[check](faulty)
    assert fault in found


def test_numbers_are_read_as_they_are_written():
    assert named_in("theory T1, T15b; T9-T11, T20 to T22") == {1, 9, 10, 11, 15, 20, 21, 22}
    assert named_in("T, T4x, AT5, T_6") == set()
