"""The planted faults of the suite: `planted_faults.md` lists each, and each is still caught."""

from __future__ import annotations

import ast
import re

SAYS_SO = re.compile(r"planted|is_caught|are_caught|catches|fault_is_noticed|be_noticed|be_broken")
"""Names of tests that plant a fault; others of the table plant one on the way."""


def suite_of(function: ast.FunctionDef) -> str:
    """The suite that runs a test: fast, thin (some cases are audits) or audit."""
    marks = [ast.unparse(mark) for mark in function.decorator_list]
    for suite in ("audit", "thin"):
        if any(f"mark.{suite}" in mark for mark in marks):
            return suite
    return "fast"


def suites(root) -> dict[tuple[str, str], str]:
    """The suite of every test, by file and name."""
    return {
        (str(file.relative_to(root / "tests")), node.name): suite_of(node)
        for file in (root / "tests").rglob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def table(root) -> dict[tuple[str, str], str]:
    """The rows of `planted_faults.md`."""
    text = (root / "tests" / "planted_faults.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (\w+) \|$", text, re.MULTILINE)
    return {(file, name): suite for file, name, suite in rows}


def test_each_planted_fault_of_the_table_is_caught_where_it_says(root):
    found = suites(root)
    listed = table(root)
    assert len(listed) > 80
    assert {key: found.get(key) for key in listed} == listed


def test_each_test_that_plants_a_fault_is_in_the_table(root):
    assert {key for key in suites(root) if SAYS_SO.search(key[1])} <= table(root).keys()
