"""Facts about the repository itself: rooms, sizes, versions, and what an import does."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from importlib.metadata import version
from importlib.resources import files

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

import pymc_private
from pymc_private import demo
from pymc_private.models.compat import ARVIZ_GENERATION
from tests.walks import JOBS, files_called

LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"

# (file, import) pairs that would each break a contract between the rooms.
TRESPASSES = [
    ("errors.py", "import pymc_private.privacy"),
    ("privacy/planted.py", "import pymc_private.analysis"),
    ("privacy/planted.py", "import pymc_private.ledger"),
    ("privacy/planted.py", "import pymc"),
    ("ledger/planted.py", "import pymc_private.models"),
    ("analysis/planted.py", "import pymc_private.privacy"),
    ("analysis/planted.py", "import pymc"),
    ("models/planted.py", "import pymc_private.certificates"),
    ("certificates/planted.py", "import pymc_private.samplers"),
    ("samplers/planted.py", "import pymc_private.posterior"),
    ("counts/planted.py", "import pymc_private.models.records"),
    ("mollifiers/planted.py", "import pymc_private.counts"),
    ("posterior/planted.py", "import pymc_private.report"),
    ("summaries/planted.py", "import pymc_private.posterior"),
    ("mollifiers/planted.py", "import pymc_private.summaries"),
    ("audit/planted.py", "import pymc_private.samplers"),
    ("report/planted.py", "import pymc_private.audit"),
    ("release/release.py", "import pymc_private.samplers"),
    ("release/release.py", "import pymc_private.models.record_graph"),
    ("release/answers.py", "import pymc"),
    ("new_room.py", ""),
]
SAME_SUBJECT = {"__init__", "conjugate", "dirichlet", "plots"}
"""File names that more than one room may use: each time it is the same subject."""
STEPS = {"main job": 207, "charge": 12, "naive Bayes": 42}
"""Files of the package that a reader of these jobs has to open, at most (see `tests.walks`)."""


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


@pytest.mark.thin(5)
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


def dotted(root, file) -> str:
    """Name of a module by its file."""
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def test_benchmarks_import_no_tests(root):
    pattern = re.compile(r"^\s*(from|import) tests\b", re.MULTILINE)
    assert pattern.search("import numpy\n    from tests.models.add_remove import potential")
    files = sorted((root / "benchmarks").glob("*.py"))
    assert len(files) > 40
    assert [file.name for file in files if pattern.search(file.read_text())] == []


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a module, by its text: most tests ask for those of every file."""
    return tuple(ast.walk(ast.parse(text)))


def import_edges(root) -> dict[str, set[str]]:
    """Imports between modules of the package, those of types and within functions included."""
    modules = {dotted(root, file): file for file in python_files(root)}
    edges: dict[str, set[str]] = {}
    for name, file in modules.items():
        nodes = nodes_of(file.read_text())
        found = edges[name] = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {w if w in modules else node.module for w in whole}
        found &= modules.keys() - {name}
    return edges


def import_circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which imports every other one, by however many steps."""
    names = sorted(edges)
    place = {name: i for i, name in enumerate(names)}
    pairs = [(place[a], place[b]) for a in names for b in edges[a]]
    rows, columns = zip(*pairs, strict=True)
    matrix = coo_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(names),) * 2)
    _, label = connected_components(matrix, connection="strong")
    groups = [{n for n in names if label[place[n]] == k} for k in set(label)]
    return [group for group in groups if len(group) > 1]


def test_no_import_goes_round_in_a_circle(root):
    assert import_circles(import_edges(root)) == []


@pytest.mark.parametrize(
    "line",
    [
        "from pymc_private.ledger.ledger import Ledger",
        "if TYPE_CHECKING:\n    from pymc_private.ledger import ledger",
        "def late():\n    from pymc_private.ledger import Ledger",
    ],
)
def test_a_planted_circle_is_seen(house, line):
    with (house / "pymc_private" / "privacy" / "event.py").open("a") as file:
        file.write(f"\n{line}\n")
    (circle,) = import_circles(import_edges(house))
    assert {"pymc_private.privacy.event", "pymc_private.ledger.ledger"} <= circle


def test_no_class_name_stands_for_two_things(root):
    names = Counter(
        node.name
        for file in python_files(root)
        for node in nodes_of(file.read_text())[0].body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_a_file_name_is_used_once_or_for_one_subject(root):
    names = Counter(file.stem for file in python_files(root))
    assert {name for name, count in names.items() if count > 1} <= SAME_SUBJECT


@pytest.mark.audit
@pytest.mark.parametrize("job", ["charge", "naive Bayes"])
def test_a_reader_of_a_job_opens_few_files(job, tmp_path):
    assert 3 < len(files_called(JOBS[job](tmp_path))) <= STEPS[job]


@pytest.mark.audit
def test_a_reader_of_the_main_job_opens_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "MCMC", demo.MCMC | {"chains": 2, "tune": 40, "draws": 50})
    assert len(files_called(JOBS["main job"](tmp_path))) <= STEPS["main job"]


def test_a_module_holds_one_idea(root):
    lengths = {str(f.relative_to(root)): f.read_text().count("\n") for f in python_files(root)}
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > 700} == {}


def test_a_function_fits_on_a_screen(root):
    functions = {
        f"{file.relative_to(root)}:{node.lineno} {node.name}": body_lines(node)
        for file in python_files(root)
        for node in nodes_of(file.read_text())
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


def test_every_version_in_the_changelog_has_a_part_about_privacy(root):
    _, *sections = (root / "CHANGELOG.md").read_text().split("\n## ")
    assert sections
    for section in sections:
        headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert headings == [h for h in ("Added", "Changed", "Fixed", "Privacy") if h in headings]
        assert headings[-1] == "Privacy"


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


def documented_modules(root) -> list[str]:
    """The modules whose public names the API page lists."""
    text = (root / "docs" / "api.md").read_text()
    return sorted(set(re.findall(r"^<!-- names (pymc_private[.\w]*)", text, re.MULTILINE)))


def test_every_public_name_exists_and_says_what_it_is(root):
    modules = documented_modules(root)
    assert len(modules) > 10
    for module in map(importlib.import_module, modules):
        names = getattr(module, "__all__", [n for n in vars(module) if n.endswith("Error")])
        assert len(names) == len(set(names)) > 0
        assert [name for name in names if not getattr(module, name).__doc__] == []


def test_the_top_level_holds_what_a_user_types(root):
    names = set(pymc_private.__all__)
    assert {"privatize", "calibrate", "sample", "summarize", "report", "Ledger"} <= names
    assert len(names) <= 40
    assert {n.removeprefix("pymc_private.") for n in documented_modules(root)} & names == {"report"}


@pytest.mark.parametrize(
    "name", ["samplers.Nuts", "queries.Dialogue", "counts.noisy_counts", "errors.DomainError",
             "mollifiers.synthesize", "certificates.lipschitz_tail", "privacy.br_eps"]
)  # fmt: skip
def test_a_name_of_a_room_is_pointed_to(name):
    room, _, last = name.partition(".")
    assert getattr(getattr(pymc_private, room), last).__doc__
    with pytest.raises(AttributeError, match=f"it is pymc_private.{name}"):
        getattr(pymc_private, last)
    with pytest.raises(AttributeError, match=r"no attribute 'Fraction'$"):
        pymc_private.Fraction  # noqa: B018


SLOW_TO_IMPORT = {
    *("arviz", "dp_accounting", "h5netcdf", "h5py", "matplotlib", "narwhals", "opendp"),
    *("scipy.optimize", "scipy.signal", "scipy.stats", "sklearn", "statsmodels"),
}
"""Modules that wait for their first use, unless PyMC itself has loaded them."""


@pytest.fixture(scope="module")
def imported():
    """Import PyMC and then the package in a process of its own; it prints what else was loaded."""
    script = r"""
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
import threading, pymc
from pymc.step_methods import STEP_METHODS
loaded = set(sys.modules)
before = dict(vars(pymc)), list(STEP_METHODS), threading.active_count()
import pymc_private
after = dict(vars(pymc)), list(STEP_METHODS), threading.active_count()
assert before[0].items() <= after[0].items() and before[1:] == after[1:]
print(*(set(sys.modules) - loaded))
"""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_importing_the_package_is_quiet_and_leaves_pymc_as_it_was(imported):
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout.count("\n") == 1


def test_filters_of_warnings_stay_as_pymc_leaves_them():
    def filters(package):
        script = f"import {package}, warnings; print(*warnings.filters, sep='\\n')"
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines())

    ours = filters("pymc_private")
    assert filters("pymc") <= ours
    assert not any("ArviZ" in each for each in ours)


@pytest.mark.skipif(ARVIZ_GENERATION == 1, reason="ArviZ 1 does not warn")
def test_the_first_import_of_a_day_is_quiet(tmp_path):
    """ArviZ 0.23 warns once a day, by a stamp among caches, unless the parts of 1.0 are there."""
    script = "import sys; sys.modules['arviz_base'] = None; import pymc_private"
    fresh = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=fresh
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_the_package_loads_nothing_that_is_slow(imported):
    loaded = set(imported.stdout.split())
    assert "pymc_private.posterior.sample" in loaded
    assert loaded & SLOW_TO_IMPORT == set()


@pytest.mark.audit
def test_the_wheel_holds_the_package_and_nothing_else(root, tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, root]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", format="zip")
    folders = {path.name for path in (tmp_path / "unpacked").iterdir()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"pymc_private"}
    assert (tmp_path / "unpacked" / "pymc_private" / "py.typed").is_file()
