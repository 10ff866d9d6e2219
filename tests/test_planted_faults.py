"""The planted faults of the suite: `planted_faults.md` lists each, and each is still caught.

``python -m tests.test_planted_faults`` adds new ones to the table and moves none out of it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

SAYS_SO = re.compile(r"planted|is_caught|are_caught|catches|fault_is_noticed|be_noticed|be_broken")
"""Names of tests that plant a fault; others of the table plant one on the way."""


def is_mark_of_all(line: ast.stmt) -> bool:
    """Whether a line of a module marks all of its tests."""
    return isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "pytestmark"


def suite_of(function: ast.FunctionDef, module: ast.Module) -> str:
    """The suite that runs a test: fast, thin (some cases are audits) or audit."""
    shared = [line for line in module.body if is_mark_of_all(line)]
    marks = [ast.unparse(mark) for mark in (*function.decorator_list, *shared)]
    for suite in ("audit", "thin"):
        if any(f"mark.{suite}" in mark for mark in marks):
            return suite
    return "fast"


@cache
def suites(root) -> dict[tuple[str, str], str]:
    """The suite of every test, by file and name."""
    return {
        (str(file.relative_to(root / "tests")), node.name): suite_of(node, module)
        for file in (root / "tests").rglob("test_*.py")
        for module in [ast.parse(file.read_text())]
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def table(root) -> dict[tuple[str, str], str]:
    """The rows of `planted_faults.md`."""
    text = (root / "tests" / "planted_faults.md").read_text()
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (\w+) \|$", text, re.MULTILINE)
    return {(file, name): suite for file, name, suite in rows}


def write_table(root) -> None:
    """Add the tests that say that they plant a fault, with the suites as they are."""
    found, file = suites(root), root / "tests" / "planted_faults.md"
    keys = table(root).keys() | {key for key in found if SAYS_SO.search(key[1])}
    rows = [f"| `{key[0]}` | `{key[1]}` | {found.get(key, 'gone')} |\n" for key in sorted(keys)]
    head, _ = file.read_text().split("|---|---|---|\n")
    file.write_text(f"{head}|---|---|---|\n{''.join(rows)}")


def test_each_planted_fault_of_the_table_is_caught_where_it_says(root):
    found = suites(root)
    listed = table(root)
    assert len(listed) > 80
    assert {key: found.get(key) for key in listed} == listed


def test_each_test_that_plants_a_fault_is_in_the_table(root):
    assert {key for key in suites(root) if SAYS_SO.search(key[1])} <= table(root).keys()


if __name__ == "__main__":
    write_table(Path(__file__).parents[1])
