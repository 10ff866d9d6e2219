"""The code of the documentation: guides run as printed, and every page names what exists."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import warnings
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pymc as pm
import pytest

import pymc_private as pmp

PAGES = (
    "index", "tutorial", "how-to", "how-to-models", "how-to-settings", "how-to-releases",
    "how-to-tables", "criticism",
)  # fmt: skip
"""Pages whose blocks run from top to bottom without anything else."""
SHORT = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
"""MCMC of these tests: that the code runs is tested, not that chains converge."""
FIXED = ("INFORMATIVE", "one noisy summary", "privacy proved", "expected to learn", "not by ")
"""Beginnings of printed lines without random numbers: a page must print them as they are."""
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """First line and text of every Python block of a page."""
    text = page.read_text()
    return [(text[: m.start()].count("\n") + 2, m[1]) for m in FENCE.finditer(text)]


@pytest.mark.audit
@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs_and_prints_what_stands_there(
    name, root, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("statsmodels")
    monkeypatch.chdir(tmp_path)
    sample = pm.sample
    monkeypatch.setattr(pm, "sample", lambda *args, **words: sample(*args, **(words | SHORT)))
    names: dict[str, object] = {"__name__": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chains are warned of; a page may show a warning
        for line, text in blocks(page := root / "docs" / f"{name}.md"):
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
    printed = capsys.readouterr().out
    shown = [line for line in page.read_text().splitlines() if line.startswith(FIXED)]
    assert [line for line in shown if line not in printed] == []


def used_of_the_package(text: str) -> Iterator[tuple[int, str, object, list[str]]]:
    """Line, name, value and keywords of all that a block takes from `pmp`."""
    called = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called[id(node.func)] = [word.arg for word in node.keywords if word.arg]
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if re.fullmatch(r"pmp(\.\w+)+", name):
                value = reduce(getattr, name.split(".")[1:], pmp)
                yield node.lineno, name, value, called.get(id(node), [])


def unknown_keywords(value: object, keywords: list[str]) -> set[str]:
    """Keywords that a function does not take."""
    if not keywords or not callable(value):
        return set()
    known = inspect.signature(value).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    return set() if takes_any else set(keywords) - set(known)


def test_every_page_names_what_the_package_has(root):
    """Of all pages, those that do not run included."""
    seen = 0
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        for line, text in blocks(page):
            if ">>>" in text:
                continue
            for offset, name, value, keywords in used_of_the_package(text):
                seen += 1
                place = f"{page.name}:{line + offset - 1} {name}"
                assert not unknown_keywords(value, keywords), place
    assert seen > 100


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("pmp.calibrat(private)", AttributeError),
        ("pmp.counts.noisy(table)", AttributeError),
        ("plan = (", SyntaxError),
    ],
)
def test_a_planted_mistake_is_seen(text, error):
    with pytest.raises(error):
        list(used_of_the_package(text))


def test_a_planted_keyword_is_seen():
    [(_, name, value, keywords)] = used_of_the_package("pmp.calibrate(private, epsilom=1)")
    assert (name, unknown_keywords(value, keywords)) == ("pmp.calibrate", {"epsilom"})


@pytest.fixture(scope="module")
def api_page(root):
    """The script that writes the tables of the API page."""
    spec = importlib.util.spec_from_file_location("api_page", root / "docs" / "api_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_api_page_are_those_of_the_public_names(api_page):
    page = api_page.PAGE.read_text()
    assert page == api_page.rewritten(page), "run python docs/api_page.py"


def test_every_public_name_is_on_the_api_page(api_page):
    page = api_page.PAGE.read_text()
    rooms = (*pmp._ROOMS, pmp.audit, pmp.estimators, pmp.planning, pmp.privacy)
    names = {name for room in (pmp, *rooms) for name in api_page.public_names(room)}
    assert len(names) > 150
    assert [name for name in names if f"`{name}`](" not in page] == []


def test_a_missing_name_and_an_old_sentence_are_seen(api_page):
    page = api_page.PAGE.read_text()
    for line in (row for row in page.splitlines() if "`certify`" in row):
        for changed in (page.replace(line + "\n", ""), page.replace(line, line[:-3] + " |")):
            assert changed != page == api_page.rewritten(changed)
