"""The API page: tables of public names in `api.md`, and at a build the documentation of each.

    python docs/api_page.py      # rewrite the tables of api.md; a test compares them

A line ``<!-- names MODULE: a b c -->`` of the page asks for these names of a module,
``<!-- names MODULE -->`` for all of its public names that stand nowhere above. Behind such a line
stands the table, which this script writes so that the page can be read unbuilt; `conf.py` adds the
documentation of each name at the end of its section.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).with_name("api.md")
MARKER, END = "<!-- names ", " -->"
TABLE_HEAD = ["| name | |", "|---|---|"]
Entry = tuple[str, Any]


def asked_entries(line: str, seen: set[int]) -> tuple[str, list[Entry]]:
    """Module and entries of a marker, without what an earlier marker had."""
    module_name, _, names = line.removeprefix(MARKER).removesuffix(END).partition(":")
    module = importlib.import_module(module_name.strip())
    entries = [(name, getattr(module, name)) for name in names.split() or public_names(module)]
    entries = [(name, value) for name, value in entries if id(value) not in seen]
    seen.update(id(value) for _, value in entries)
    return module_name.strip(), entries


def public_names(module: ModuleType) -> list[str]:
    """`__all__` without modules, or else what a module defines itself."""
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", own)
    return [n for n in names if n[0] != "_" and not inspect.ismodule(getattr(module, n))]


def first_line(value: object) -> str:
    """The first sentence of a docstring, for one cell of a table."""
    documented = inspect.isclass(value) or inspect.isroutine(value)
    text = (inspect.getdoc(value) or "").partition("\n\n")[0] if documented else ""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").removesuffix(".")


def table(module_name: str, entries: list[Entry]) -> list[str]:
    """The rows of a table of names."""
    rows = [
        f"| [`{name}`](#{module_name}.{name}) | {first_line(value)} |" for name, value in entries
    ]
    return TABLE_HEAD + rows if rows else []


def rewritten(text: str) -> str:
    """The page with its tables as they should be."""
    seen: set[int] = set()
    return "\n".join(_lines(text.splitlines(), seen)) + "\n"


def _lines(lines: list[str], seen: set[int]) -> Iterator[str]:
    after = False
    for line in lines:
        if after and (line.startswith("|") or not line):
            continue
        if after:
            yield ""
        after = line.startswith(MARKER)
        yield line
        if after and (rows := table(*asked_entries(line, seen))):
            yield from ("", *rows)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
