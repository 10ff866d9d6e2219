"""docs/architecture.md: every file it names exists, and every room has its line."""

from __future__ import annotations

import re

import pytest


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "architecture.md").read_text(encoding="utf-8")


def missing_files(root, page):
    """Files and folders in backticks that are neither in the package nor beside it."""
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|md|toml)|(?:\w+/)+)`", page))
    short = {"logic.py", "special.py", "linear_algebra.py", "arrays.py"}  # of the folder just named
    places = (root, root / "pymc_private", root / "pymc_private" / "analysis" / "intervals")
    found = {name for name in named for place in places if (place / name).exists()}
    assert len(named) > 60
    assert short <= found
    return sorted(named - found)


def test_every_file_that_the_page_names_exists(root, page):
    assert missing_files(root, page) == []


def test_a_file_that_is_gone_is_noticed(root, page):
    assert missing_files(root, page.replace("`errors.py`", "`refusals.py`")) == ["refusals.py"]


def test_every_room_has_its_line(root, page):
    rooms = {p.parent.name for p in (root / "pymc_private").glob("*/__init__.py")}
    assert {room for room in rooms if f"| `{room}/`" not in page} == set()
