"""Every error message of the package: what is wrong, got, allowed, and what to do.

``python -m benchmarks.error_messages [PATH ...]`` prints a table read from the source, without
running it: words are as they are written, and ``{...}`` stands for what is filled in.
``--bare`` prints those alone that say neither what is allowed nor what to do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pymc_private import errors

ROOT = Path(errors.__file__).parent
KINDS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.PymcPrivateError)
}


class Message(NamedTuple):
    """One place that raises: where, the class, and the words of each row."""

    place: str
    kind: str
    problem: str
    rows: dict[str, str]

    @property
    def is_bare(self) -> bool:
        """Whether it says neither what is allowed nor what to do."""
        return not {"allowed", "do", "cure"} & set(self.rows)


def words(node: ast.expr) -> str:
    """The text of an expression: literals as they are, the rest in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(words(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return words(node.left) + words(node.right)
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    return "{" + ast.unparse(inner) + "}"


def messages(paths: list[Path]) -> Iterator[Message]:
    """Every call of an error class in these files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in KINDS:
                problem = words(node.args[0]) if node.args else ""
                rows = {key.arg: words(key.value) for key in node.keywords if key.arg}
                yield Message(f"{path.relative_to(ROOT)}:{node.lineno}", called, problem, rows)


def plain_cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str]) -> None:
    """Print the table in Markdown."""
    bare = "--bare" in arguments
    paths = [Path(one).resolve() for one in arguments if one != "--bare"]
    found = list(messages(paths or sorted(ROOT.rglob("*.py"))))
    shown = [one for one in found if one.is_bare or not bare]
    print("| where | error | problem | got | allowed | what to do |\n|---|---|---|---|---|---|")
    for one in shown:
        cells = [one.place, one.kind, one.problem]
        cells += [one.rows.get("got", ""), one.rows.get("allowed", "")]
        cells.append(one.rows.get("do", one.rows.get("cure", "")))
        print("| " + " | ".join(map(plain_cell, cells)) + " |")
    print(f"\n{len(found)} messages, {sum(one.is_bare for one in found)} without a way out")


if __name__ == "__main__":
    main(sys.argv[1:])
