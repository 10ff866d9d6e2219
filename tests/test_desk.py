"""Facts about the repository itself: rooms, sizes, versions, and what an import does."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files

import pytest

import pymc_private

LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"

# (file, import) pairs that would each break a contract between the rooms.
TRESPASSES = [
    ("errors.py", "import pymc_private.privacy"),
    ("privacy/planted.py", "import pymc_private.analysis"),
    ("privacy/planted.py", "import pymc_private.models"),
    ("privacy/planted.py", "import pymc"),
    ("analysis/planted.py", "import pymc_private.privacy"),
    ("analysis/planted.py", "import pymc"),
    ("models/planted.py", "import pymc_private.samplers"),
    ("samplers/planted.py", "import pymc_private.release"),
    ("mechanisms/planted.py", "import pymc_private.report"),
    ("audit/planted.py", "import pymc_private.samplers"),
    ("report/planted.py", "import pymc_private.audit"),
    ("release/release.py", "import pymc_private.samplers"),
    ("release/release.py", "import pymc_private.models.record_graph"),
    ("release/answers.py", "import pymc"),
    ("new_room.py", ""),
]


def lint_imports(folder) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", LINT_IMPORTS, "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def house(root, tmp_path):
    """Copy the package and its contracts to a place where faults may be planted."""
    pytest.importorskip("importlinter")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "pymc_private", tmp_path / "pymc_private", ignore=skip)
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rooms_import_one_way(house):
    result = lint_imports(house)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("place", "line"), TRESPASSES)
def test_the_contracts_catch_a_planted_trespass(house, place, line):
    with (house / "pymc_private" / place).open("a") as file:
        file.write(f"\n{line}\n")
    result = lint_imports(house)
    assert result.returncode != 0
    assert "BROKEN" in result.stdout or "new_room" in result.stdout


def python_files(root):
    return sorted((root / "pymc_private").rglob("*.py"))


def body_lines(function) -> int:
    """Count a function's lines without its decorators and its docstring."""
    first, *rest = function.body
    is_docstring = isinstance(first, ast.Expr) and isinstance(
        getattr(first.value, "value", None), str
    )
    docstring = first.end_lineno - first.lineno + 1 if is_docstring and rest else 0
    return function.end_lineno - function.lineno + 1 - docstring


def test_a_module_holds_one_idea(root):
    lengths = {str(f.relative_to(root)): f.read_text().count("\n") for f in python_files(root)}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > 700} == {}


def test_a_function_fits_on_a_screen(root):
    functions = {
        f"{file.relative_to(root)}:{node.lineno} {node.name}": body_lines(node)
        for file in python_files(root)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert functions
    assert {name: lines for name, lines in functions.items() if lines > 40} == {}


def test_the_version_is_the_same_everywhere(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    changelog = re.findall(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = re.findall(r"^version: (\S+)", (root / "CITATION.cff").read_text(), re.MULTILINE)
    assert changelog[0] == project["version"]
    assert citation == [project["version"]]
    assert version("pymc-private") == project["version"]
    assert pymc_private.__version__ == project["version"]


def test_every_version_in_the_changelog_has_the_four_headings(root):
    _, *sections = (root / "CHANGELOG.md").read_text().split("\n## ")
    assert sections
    for section in sections:
        headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert headings == ["Added", "Changed", "Fixed", "Privacy"]


@pytest.mark.parametrize("marker", ["main job", "test command"])
def test_the_readme_names_one_command_for_each_job(root, marker):
    readme = (root / "README.md").read_text()
    assert readme.count(f"<!-- {marker}") == 1
    block = re.search(rf"<!-- {marker}[^\n]*-->\n+```\w*\n(.*?)\n```", readme, re.DOTALL)
    assert block is not None
    assert block[1].startswith("python3 -m venv .venv && ")
    assert "\n" not in block[1]


def test_types_are_shipped():
    assert (files("pymc_private") / "py.typed").is_file()


def test_every_public_name_exists_and_says_what_it_is():
    names = pymc_private.__all__
    assert len(names) == len(set(names)) > 10
    values = {name: getattr(pymc_private, name) for name in names if not name.startswith("__")}
    assert [name for name, value in values.items() if not value.__doc__] == []


def test_importing_the_package_is_quiet_and_leaves_pymc_as_it_was():
    script = r"""
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
import threading, pymc
from pymc.step_methods import STEP_METHODS
before = dict(vars(pymc)), list(STEP_METHODS), threading.active_count()
import pymc_private
after = dict(vars(pymc)), list(STEP_METHODS), threading.active_count()
assert before[0].items() <= after[0].items() and before[1:] == after[1:]
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.audit
def test_the_wheel_holds_the_package_and_nothing_else(root, tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, root]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", format="zip")
    folders = {path.name for path in (tmp_path / "unpacked").iterdir()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"pymc_private"}
    assert (tmp_path / "unpacked" / "pymc_private" / "py.typed").is_file()
